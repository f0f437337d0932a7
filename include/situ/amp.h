/* Automatic mixed precision (torch.amp): autocast, and a scaler that keeps f16 gradients from vanishing.
   Threads: autocast is the thread's own; a scaler that another thread is in is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_AMP_H
#define SITU_AMP_H

#include "optim.h"

SITU_BEGIN

/* Parameters and their gradients stay f32; the ops that gain by it are computed in 16 bits:

     situ_grad_scaler *scaler = situ_grad_scaler_new(NULL);     (f16 only: bf16 has f32's range)
     ...
     situ_setting before;
     if (situ_autocast_begin(&before, device, NULL) != SITU_OK) ...
     situ_tensor *loss = situ_mse_loss(situ_nn_forward(model, x), y, SITU_REDUCTION_MEAN);
     situ_autocast_end(&before);
     situ_backward(situ_grad_scaler_scale(scaler, loss), NULL)
     situ_grad_scaler_step(scaler, optim, NULL)
     situ_grad_scaler_update(scaler, 0)                          (all three results must be checked) */

/* ---- autocast (torch.autocast) ---- */

/** Zero is torch's default. */
typedef struct situ_autocast_options {
  situ_dtype dtype; /**< f16 or bf16; 0: bf16 on cpu, f16 elsewhere */
  bool disabled;    /**< turns autocast off until the end, inside an enclosing scope */
  bool no_cache;    /**< cast a parameter each time that it is used */
} situ_autocast_options;

/** Until the end, ops of this thread on devices of this kind ({0}: the default device's) cast their floating operands
    by torch's lists: products, convolutions and attention to `dtype`; losses, and except on cpu also exp, pow, softmax,
    sums and norms, to f32; all others keep their dtypes. f64 is never cast; in-place ops do not cast. The cast copy of
    a parameter is cached until the outermost scope ends or the parameter is written. Backward needs no autocast: a
    gradient has the dtype of its tensor. Scopes nest, and end with the tensor scope or the module's call that they were
    begun in. On error nothing was begun. Tensors on devices of another kind are left as they are, and the log says so,
    once for each line that begins such a scope. */
SITU_API SITU_CHECKED situ_status situ_autocast_begin(situ_setting *before, situ_device device,
                                                      const situ_autocast_options *options);
/** Restores the setting from before situ_autocast_begin, and ends scopes that were begun since and not ended. */
SITU_API void situ_autocast_end(situ_setting *before);
/** Whether autocast is on for devices of this kind ({0}: the default device's). */
SITU_API bool situ_is_autocast_enabled(situ_device device);
/** The dtype that operands are cast to there; SITU_DTYPE_DEFAULT: autocast is off. */
SITU_API situ_dtype situ_get_autocast_dtype(situ_device device);
/** Releases the cached cast copies of parameters. */
SITU_API void situ_clear_autocast_cache(void);

/* ---- gradient scaling (torch.amp.GradScaler) ---- */

/** Multiplies a loss, so that small f16 gradients do not underflow, and divides the gradients again. The factor adapts:
    a step whose gradients are infinite or NaN is skipped, and the factor made smaller. */
typedef struct situ_grad_scaler situ_grad_scaler;

/** Begin with situ_grad_scaler_defaults(); size 0 is SITU_E_ARG. */
typedef struct situ_grad_scaler_options {
  size_t size;
  double init_scale;       /**< 65536; above 0 */
  double growth_factor;    /**< 2; above 1 */
  double backoff_factor;   /**< 0.5; between 0 and 1: after a factor 0, which torch takes, no step would be made */
  int64_t growth_interval; /**< good steps after which the scale grows, 2000; 0: never */
  bool disabled;           /**< scale returns the loss as it is, step is situ_optim_step */
} situ_grad_scaler_options;
/** torch's defaults. */
static inline situ_grad_scaler_options situ_grad_scaler_defaults(void) {
  situ_grad_scaler_options options;
  options.size = sizeof options;
  options.init_scale = 65536;
  options.growth_factor = 2;
  options.backoff_factor = 0.5;
  options.growth_interval = 2000;
  options.disabled = false;
  return options;
}

/** Made from options (NULL: torch's defaults); the caller frees it. NULL on error. */
SITU_API situ_grad_scaler *situ_grad_scaler_new(const situ_grad_scaler_options *options);
/** Frees a scaler. NULL is fine. */
SITU_API void situ_grad_scaler_free(situ_grad_scaler *s);

/** The loss times the scale. A one-element f16 loss becomes f32, because the scale can exceed f16's range. */
SITU_API situ_tensor *situ_grad_scaler_scale(situ_grad_scaler *s, situ_tensor *loss);
/** Divides the gradients of the optimiser's parameters by the scale, to read or clip them before the step. Once for
    each update. f16 gradients, which would underflow, are refused: step divides them in f32. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_unscale_(situ_grad_scaler *s, situ_optim *o);
/** One step, unless a gradient is infinite or NaN; *stepped (may be NULL) gets whether it was made. Gradients are
    checked on their devices, and one value is read from each device. Without unscale_ the step's own kernel divides,
    and the gradients stay scaled. Once for each update. SITU_E_STATE if the scaler has never scaled a loss, whose
    gradients it would divide. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_step(situ_grad_scaler *s, situ_optim *o, bool *stepped);
/** After the steps of all optimisers: the scale shrinks if a step was skipped, and grows after growth_interval steps
    that were not. new_scale, if not 0, sets it instead. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_update(situ_grad_scaler *s, double new_scale);
/** The scale; 1 if the scaler is disabled. */
SITU_API double situ_grad_scaler_get_scale(const situ_grad_scaler *s);
/** False if the scaler was made with options.disabled. */
SITU_API bool situ_grad_scaler_is_enabled(const situ_grad_scaler *s);

/** torch's layout: { scale, growth_factor, backoff_factor, growth_interval, _growth_tracker }; {} if it is disabled.
    The caller frees the tree. */
SITU_API situ_tree *situ_grad_scaler_state_dict(const situ_grad_scaler *s);
/** Restores a saved state. On error nothing has changed. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_load_state_dict(situ_grad_scaler *s, const situ_tree *state);

SITU_END
#endif
