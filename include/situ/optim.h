/* Optimisers and learning-rate schedules (torch.optim).
   Threads: a step beside a forward, a backward or another step is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPTIM_H
#define SITU_OPTIM_H

#include "autograd.h"
#include "tree.h"

SITU_BEGIN

/** Parameters in groups, with hyperparameters a group and state a parameter. It holds the
    parameters; their state is made at the first step, where they live then. */
typedef struct situ_optim situ_optim;

/** The hyperparameters, for situ_optim_get, situ_optim_set and options.zero. */
typedef enum situ_optim_field {
  SITU_OPTIM_LR,
  SITU_OPTIM_WEIGHT_DECAY,
  SITU_OPTIM_MOMENTUM,
  SITU_OPTIM_DAMPENING,
  SITU_OPTIM_BETA1,
  SITU_OPTIM_BETA2,
  SITU_OPTIM_ALPHA,
  SITU_OPTIM_EPS,
  SITU_OPTIM_NESTEROV,
  SITU_OPTIM_AMSGRAD,
  SITU_OPTIM_CENTERED,
  SITU_OPTIM_MAXIMIZE,
  SITU_OPTIM_MASTER_WEIGHTS,
  SITU_OPTIM_FIELDS
} situ_optim_field;
#define SITU_OPTIM_ZERO(field) (1u << SITU_OPTIM_##field)

/** Zero is torch's default; in a later group, what the optimiser was made with. Where 0 itself (or
    false) is meant and is not the default: `.zero = SITU_OPTIM_ZERO(WEIGHT_DECAY) |
    SITU_OPTIM_ZERO(BETA1)`. A field that an optimiser does not have is refused. Defaults: lr SGD
    1e-3, Adam and AdamW 1e-3, RMSprop 1e-2; weight_decay 0, AdamW 1e-2; beta1 0.9; beta2 0.999;
    alpha 0.99; eps 1e-8; all else 0. */
typedef struct situ_optim_options {
  double lr;
  double weight_decay;
  double momentum;     /**< SGD, RMSprop */
  double dampening;    /**< SGD */
  double beta1, beta2; /**< Adam, AdamW */
  double alpha;        /**< RMSprop: smoothing */
  double eps;          /**< all but SGD */
  bool nesterov;       /**< SGD */
  bool amsgrad;        /**< Adam, AdamW */
  bool centered;       /**< RMSprop */
  bool maximize;
  bool
      master_weights; /**< of f16 and bf16 parameters an f32 copy is kept and stepped, and the parameter is its rounding:
                            steps too small for 16 bits add up. Costs 4 bytes an element, and state is f32 too */
  unsigned zero;
} situ_optim_options;

/* parameters: a tree of tensors, which is taken over (and freed if the call fails); dict keys are
   their names in messages:

     situ_optim *o = situ_optim_adamw(situ_nn_parameters(model),
                                      &(situ_optim_options){ .lr = 3e-4 }); */
SITU_API situ_optim *situ_optim_sgd(situ_tree *parameters, const situ_optim_options *options);
/** Kingma and Ba, arXiv:1412.6980. */
SITU_API situ_optim *situ_optim_adam(situ_tree *parameters, const situ_optim_options *options);
/** Loshchilov and Hutter, arXiv:1711.05101. */
SITU_API situ_optim *situ_optim_adamw(situ_tree *parameters, const situ_optim_options *options);
SITU_API situ_optim *situ_optim_rmsprop(situ_tree *parameters, const situ_optim_options *options);
/** Adds a group with hyperparameters of its own. A parameter can be in one group only. */
SITU_API SITU_CHECKED situ_status situ_optim_add_param_group(situ_optim *o, situ_tree *parameters,
                                                             const situ_optim_options *options);
/** NULL is fine. A scheduler or scaler that holds it keeps what it needs of it. */
SITU_API void situ_optim_free(situ_optim *o);

/** Moves all parameters, with what follows them: gradients and state, also a state that was taken elsewhere by hand. All or
    nothing. Hardly ever needed: situ_nn_to moves a module's, and the optimiser's state follows. */
SITU_API SITU_CHECKED situ_status situ_optim_to(situ_optim *o, situ_device device);

/** One step of every parameter that has a gradient. All is checked first: on error no parameter has
    changed. Refused: a parameter that only the optimiser still holds (its module was freed, or has
    another one now), and one whose state was taken to another device by hand (situ_optim_to). */
SITU_API SITU_CHECKED situ_status situ_optim_step(situ_optim *o);
/** Drops the gradients (set_to_none, torch's default), or fills them with 0. */
SITU_API SITU_CHECKED situ_status situ_optim_zero_grad(situ_optim *o, bool set_to_none);

SITU_API int situ_optim_groups(const situ_optim *o);
/** A hyperparameter of a group; NAN and an error if there is none. */
SITU_API double situ_optim_get(const situ_optim *o, int group, situ_optim_field field);
SITU_API SITU_CHECKED situ_status situ_optim_set(situ_optim *o, int group, situ_optim_field field, double value);
/** Parameters of all groups. */
SITU_API int64_t situ_optim_count(const situ_optim *o);
/** The i-th parameter and its name ("" if it has none); borrowed. */
SITU_API situ_tensor *situ_optim_param(const situ_optim *o, int64_t i, const char **name);
enum { SITU_OPTIM_STATES = 4 };
/** Its k-th state tensor and torch's name for it ("exp_avg"); NULL where there is none (yet). The last one is "master": see
    master_weights. */
SITU_API situ_tensor *situ_optim_state(const situ_optim *o, int64_t i, int k, const char **name);

/** torch's layout: { state: { "0": { step, exp_avg, exp_avg_sq } }, param_groups: [ { lr, ...,
    params } ] }, numbers as f64 or i64 cpu tensors; state tensors are the optimiser's own. To be
    freed. */
SITU_API situ_tree *situ_optim_state_dict(const situ_optim *o);
/** Takes on a saved state (flattened or not), which is copied: groups must match. On error nothing
    has changed. */
SITU_API SITU_CHECKED situ_status situ_optim_load_state_dict(situ_optim *o, const situ_tree *state);

/** Scales the gradients so that their norm, taken over all of them together, is at most max_norm.
    p: 2, INFINITY, ... *total (may be NULL: then nothing waits for the device) gets the norm
    before. */
SITU_API SITU_CHECKED situ_status situ_nn_utils_clip_grad_norm_(const situ_tree *parameters, double max_norm, double p,
                                                                double *total);
/** The same for the parameters of an optimiser. */
SITU_API SITU_CHECKED situ_status situ_optim_clip_grad_norm_(situ_optim *o, double max_norm, double p, double *total);

/* ---- schedules (torch.optim.lr_scheduler) ---------------------------------------------------- */

/** Changes the learning rates of an optimiser, step by step; holds the optimiser. Several on one
    are chained, as in torch. Making one sets the rate of step 0. Numbers that are not finite are
    refused, also those that a lambda returns: an error then, and nothing has changed. */
typedef struct situ_lr_scheduler situ_lr_scheduler;

/** lr *= gamma every step_size steps; torch's gamma is 0.1. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_step_lr(situ_optim *o, int64_t step_size, double gamma);
/** From the first rate to eta_min in t_max steps, along half a cosine (and back up: Loshchilov and
    Hutter, arXiv:1608.03983, without restarts). */
SITU_API situ_lr_scheduler *situ_lr_scheduler_cosine_annealing_lr(situ_optim *o, int64_t t_max, double eta_min);
/** lr = first rate * lambda(step, payload). */
SITU_API situ_lr_scheduler *situ_lr_scheduler_lambda_lr(situ_optim *o, double (*lambda)(int64_t step, void *payload),
                                                        void *payload);

typedef struct situ_one_cycle_options {
  double max_lr;           /**< must be given */
  int64_t total_steps;     /**< must be given: epochs * steps_per_epoch */
  double pct_start;        /**< share of the rise; 0: 0.3 */
  bool linear;             /**< anneal_strategy; else cosine */
  bool keep_momentum;      /**< do not cycle momentum (beta1) against the rate */
  double base_momentum;    /**< 0: 0.85 */
  double max_momentum;     /**< 0: 0.95 */
  double div_factor;       /**< first rate = max_lr / div_factor; 0: 25 */
  double final_div_factor; /**< last rate = first / final_div_factor; 0: 1e4 */
  bool three_phase;
} situ_one_cycle_options;
/** Smith and Topin, arXiv:1708.07120. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_one_cycle_lr(situ_optim *o, const situ_one_cycle_options *options);

/** To be called after situ_optim_step. OneCycleLR refuses a step after its last. */
SITU_API SITU_CHECKED situ_status situ_lr_scheduler_step(situ_lr_scheduler *s);
/** Steps made; 0 after making it. */
SITU_API int64_t situ_lr_scheduler_last_epoch(const situ_lr_scheduler *s);
/** { last_epoch, base_lrs }; what a lambda is, is not saved. To be freed. */
SITU_API situ_tree *situ_lr_scheduler_state_dict(const situ_lr_scheduler *s);
SITU_API SITU_CHECKED situ_status situ_lr_scheduler_load_state_dict(situ_lr_scheduler *s, const situ_tree *state);
/** NULL is fine. */
SITU_API void situ_lr_scheduler_free(situ_lr_scheduler *s);

SITU_END
#endif
