/* Automatic mixed precision (torch.amp): autocast, and a scaler that keeps f16 gradients from vanishing.
   Threads: autocast is the thread's own; a scaler that another thread is in is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_AMP_H
#define SITU_AMP_H

#include "optim.h"

SITU_BEGIN

/* Parameters stay f32, and so do their gradients; what is worth it is computed in 16 bits:

     situ_grad_scaler *scaler = situ_grad_scaler_new(NULL);     (f16 only: bf16 has f32's range)
     ...
     situ_setting before;
     if (situ_autocast_begin(&before, device, NULL) != SITU_OK) ...
     situ_tensor *loss = situ_mse_loss(situ_nn_forward(model, x), y, SITU_REDUCTION_MEAN);
     situ_autocast_end(&before);
     situ_backward(situ_grad_scaler_scale(scaler, loss), NULL)
     situ_grad_scaler_step(scaler, optim, NULL)
     situ_grad_scaler_update(scaler, 0)                          (all three return what must be checked) */

/* ---- autocast (torch.autocast) ---- */

/** Zero is torch's default. */
typedef struct situ_autocast_options {
  situ_dtype dtype; /**< f16 or bf16; 0: bf16 on cpu, f16 elsewhere */
  bool disabled;    /**< nothing is cast until the end: a part of a scope that must not be */
  bool no_cache;    /**< a parameter is cast each time that it is used */
} situ_autocast_options;

/** Until the end, ops of this thread on devices of this kind ({0}: the default device's) cast their floating operands as
    torch's lists have it: products, convolutions and attention to `dtype`; losses, and elsewhere than on cpu also exp,
    pow, softmax, sums and norms, to f32; all others take what comes. f64 is never cast, nor is what is done in place. What
    a parameter was cast to is kept until the outermost scope ends or the parameter is written. Backward casts nothing by
    itself: gradients have the dtypes of what they are for. Nests, and never outlives the tensor scope or the module's
    call that it was begun in. On error nothing was begun.
    A tensor on a device of a kind that no scope is for is left as it is, and the log says so, once for each line that
    begins such a scope. */
SITU_API SITU_CHECKED situ_status situ_autocast_begin(situ_setting *before, situ_device device,
                                                      const situ_autocast_options *options);
/** As it was before, and so is all that was begun since and forgotten. */
SITU_API void situ_autocast_end(situ_setting *before);
/** On devices of this kind ({0}: the default device's). */
SITU_API bool situ_is_autocast_enabled(situ_device device);
/** What is cast to there; SITU_DTYPE_DEFAULT: nothing is cast. */
SITU_API situ_dtype situ_get_autocast_dtype(situ_device device);
/** Forgets what parameters were cast to, to have the memory. */
SITU_API void situ_clear_autocast_cache(void);

/* ---- gradient scaling (torch.amp.GradScaler) ---- */

/** Multiplies a loss, so that small f16 gradients do not vanish, and divides gradients again; finds the factor by trying:
    a step whose gradients are infinite or NaN is left out, and the factor made smaller. */
typedef struct situ_grad_scaler situ_grad_scaler;

/** Zero is torch's default. */
typedef struct situ_grad_scaler_options {
  double init_scale;       /**< 0: 65536 */
  double growth_factor;    /**< 0: 2 */
  double backoff_factor;   /**< 0: 0.5 */
  int64_t growth_interval; /**< good steps after which the scale grows; 0: 2000 */
  bool disabled;           /**< scale hands the loss back, step is situ_optim_step */
} situ_grad_scaler_options;

SITU_API situ_grad_scaler *situ_grad_scaler_new(const situ_grad_scaler_options *options);
/** NULL is fine. */
SITU_API void situ_grad_scaler_free(situ_grad_scaler *s);

/** The loss times the scale. A single f16 loss becomes f32, which the scale fits into. */
SITU_API situ_tensor *situ_grad_scaler_scale(situ_grad_scaler *s, situ_tensor *loss);
/** Divides the gradients of the optimiser's parameters by the scale, for whoever wants to look at them or clip them before
    the step. Once for each update. f16 gradients, which would vanish, are refused: step divides them in f32. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_unscale_(situ_grad_scaler *s, situ_optim *o);
/** One step, unless a gradient is infinite or NaN; *stepped (may be NULL) says which. All gradients are looked at on their
    devices, and one value is read from each. What unscale_ has not divided is divided by the step's own kernel, and the
    gradients themselves stay scaled. Once for each update. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_step(situ_grad_scaler *s, situ_optim *o, bool *stepped);
/** After the steps of all optimisers: the scale shrinks if any was left out, grows after growth_interval good ones.
    new_scale: sets it; 0: as said. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_update(situ_grad_scaler *s, double new_scale);
/** 1 if it is disabled. */
SITU_API double situ_grad_scaler_get_scale(const situ_grad_scaler *s);
SITU_API bool situ_grad_scaler_is_enabled(const situ_grad_scaler *s);

/** torch's: { scale, growth_factor, backoff_factor, growth_interval, _growth_tracker }; {} if it is disabled. To be
    freed. */
SITU_API situ_tree *situ_grad_scaler_state_dict(const situ_grad_scaler *s);
/** On error nothing has changed. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_load_state_dict(situ_grad_scaler *s, const situ_tree *state);

SITU_END
#endif
