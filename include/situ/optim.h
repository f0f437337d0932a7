/* Optimisers and learning-rate schedules (torch.optim).
   Threads: a step beside a forward, a backward or another step is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPTIM_H
#define SITU_OPTIM_H

#include <math.h>
#include <string.h>

#include "autograd.h"
#include "nn.h"
#include "tree.h"

SITU_BEGIN

/** An optimiser: parameter groups with hyperparameters, and state per parameter. It owns references to the parameters;
    the first step makes their state, on their devices. */
typedef struct situ_optim situ_optim;

/** The hyperparameters, for situ_optim_get and situ_optim_set. */
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
  SITU_OPTIM_RHO,
  SITU_OPTIM_LR_DECAY,
  SITU_OPTIM_INITIAL_ACCUMULATOR_VALUE,
  SITU_OPTIM_MOMENTUM_DECAY,
  SITU_OPTIM_DECOUPLED_WEIGHT_DECAY,
  SITU_OPTIM_ETAMINUS,
  SITU_OPTIM_ETAPLUS,
  SITU_OPTIM_STEP_SIZE_MIN,
  SITU_OPTIM_STEP_SIZE_MAX,
  SITU_OPTIM_LAMBD,
  SITU_OPTIM_T0,
  SITU_OPTIM_EPS1,
  SITU_OPTIM_BETA2_DECAY,
  SITU_OPTIM_D,
  SITU_OPTIM_NS_A,
  SITU_OPTIM_NS_B,
  SITU_OPTIM_NS_C,
  SITU_OPTIM_NS_STEPS,
  SITU_OPTIM_ADJUST_LR_FN,
  SITU_OPTIM_MAX_ITER,
  SITU_OPTIM_MAX_EVAL,
  SITU_OPTIM_TOLERANCE_GRAD,
  SITU_OPTIM_TOLERANCE_CHANGE,
  SITU_OPTIM_HISTORY_SIZE,
  SITU_OPTIM_LINE_SEARCH_FN,
  SITU_OPTIM_FIELDS
} situ_optim_field;

/** How Muon's rate depends on a matrix of A rows and B columns: torch's adjust_lr_fn. */
typedef enum situ_muon_adjust {
  SITU_MUON_ORIGINAL,          /**< lr * sqrt(max(1, A / B)) */
  SITU_MUON_MATCH_RMS_ADAMW,   /**< lr * 0.2 sqrt(max(A, B)) */
  SITU_MUON_SPECTRAL_UNCLAMPED /**< lr * sqrt(A / B) */
} situ_muon_adjust;

/** How LBFGS chooses how far to go along a direction: torch's line_search_fn. */
typedef enum situ_line_search {
  SITU_LINE_SEARCH_NONE,        /**< lr times the direction */
  SITU_LINE_SEARCH_STRONG_WOLFE /**< torch's 'strong_wolfe': evaluates the loss until both Wolfe conditions hold */
} situ_line_search;

/** Begin with situ_optim_adam_defaults(), or that of another optimiser, and for a later group with
    situ_optim_group_options(o, 0); then set fields, 0 is 0. Defaults are torch's: weight_decay 0, AdamW 1e-2, Muon 0.1;
    momentum 0, Muon 0.95; nesterov false, Muon true; beta1 0.9; beta2 0.999, Lion 0.99; alpha 0.99, ASGD 0.75; eps
    1e-8, Adagrad 1e-10, Adadelta 1e-6, Adafactor 1e-3, Muon 1e-7; those of the last group are beside them; all else 0.
    A field that an optimiser does not have is 0; another value of it is SITU_E_ARG, as are a struct whose size is 0 and
    the defaults of another optimiser. */
typedef struct situ_optim_options {
  size_t size;    /**< sizeof(situ_optim_options), as the functions above set it */
  const char *of; /**< the optimiser, as they set it: "optim_adam" */
  double lr;      /**< of a later group. Defaults have NAN, as constructors take it as a parameter */
  double weight_decay;
  double momentum;     /**< SGD, RMSprop, Muon */
  double dampening;    /**< SGD */
  double beta1, beta2; /**< Adam, AdamW, Adamax, NAdam, RAdam, Lion */
  double alpha;        /**< RMSprop: smoothing constant; ASGD: power of the decay of the rate */
  double eps;          /**< all but SGD, Rprop, ASGD, Lion, LBFGS */
  bool nesterov;       /**< SGD, Muon */
  bool amsgrad;        /**< Adam, AdamW */
  bool centered;       /**< RMSprop */
  bool maximize;       /**< all but Muon */
  bool master_weights; /**< step an f32 copy of f16 and bf16 parameters, and round it into the parameter, so that steps
                            too small for 16 bits add up. Costs 4 bytes per element; state is f32 too. Not LBFGS */
  double rho;          /**< Adadelta: smoothing constant, 0.9 */
  double lr_decay;     /**< Adagrad */
  double initial_accumulator_value;    /**< Adagrad: the sum of squares before the first step */
  double momentum_decay;               /**< NAdam: 4e-3 */
  bool decoupled_weight_decay;         /**< NAdam, RAdam */
  double etaminus, etaplus;            /**< Rprop's etas: 0.5 and 1.2 */
  double step_size_min, step_size_max; /**< Rprop's step_sizes: 1e-6 and 50 */
  double lambd, t0;                    /**< ASGD: decay 1e-4; the step 1e6 after which it averages */
  double eps1;             /**< Adafactor: torch's eps[0]; SITU_NONE: the parameter's dtype's. eps is eps[1], 1e-3 */
  double beta2_decay;      /**< Adafactor: -0.8; not above 0 */
  double d;                /**< Adafactor: clipping threshold, 1; at least 1 */
  double ns_a, ns_b, ns_c; /**< Muon's ns_coefficients: 3.4445, -4.775, 2.0315 */
  double ns_steps;         /**< Muon: 5; a whole number below 100 */
  double adjust_lr_fn;     /**< Muon: a situ_muon_adjust */
  double max_iter;         /**< LBFGS: iterations of a step, 20; a whole number */
  double max_eval;         /**< LBFGS: evaluations of the closure after which a step ends; SITU_NONE: 5/4 of max_iter */
  double tolerance_grad;   /**< LBFGS: a step ends when no element of the gradient is larger; 1e-7 */
  double tolerance_change; /**< LBFGS: a step ends when neither parameters nor loss change by more; 1e-9 */
  double history_size;     /**< LBFGS: 100; a whole number, at least 1. Each takes the parameters' memory twice */
  double line_search_fn;   /**< LBFGS: a situ_line_search */
} situ_optim_options;

/** Internal: what the defaults of all optimisers have in common. */
static inline situ_optim_options situ__optim_defaults(const char *of, double weight_decay, double eps) {
  situ_optim_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.of = of;
  options.lr = (double)NAN;
  options.weight_decay = weight_decay;
  options.eps = eps;
  return options;
}
/** Internal: of those with betas. */
static inline situ_optim_options situ__optim_beta_defaults(const char *of, double weight_decay, double eps,
                                                           double beta2) {
  situ_optim_options options = situ__optim_defaults(of, weight_decay, eps);
  options.beta1 = 0.9;
  options.beta2 = beta2;
  return options;
}
/** Defaults of situ_optim_sgd. */
static inline situ_optim_options situ_optim_sgd_defaults(void) { return situ__optim_defaults("optim_sgd", 0, 0); }
/** Defaults of situ_optim_adam. */
static inline situ_optim_options situ_optim_adam_defaults(void) {
  return situ__optim_beta_defaults("optim_adam", 0, 1e-8, 0.999);
}
/** Defaults of situ_optim_adamw. */
static inline situ_optim_options situ_optim_adamw_defaults(void) {
  return situ__optim_beta_defaults("optim_adamw", 1e-2, 1e-8, 0.999);
}
/** Defaults of situ_optim_rmsprop. */
static inline situ_optim_options situ_optim_rmsprop_defaults(void) {
  situ_optim_options options = situ__optim_defaults("optim_rmsprop", 0, 1e-8);
  options.alpha = 0.99;
  return options;
}
/** Defaults of situ_optim_adagrad. */
static inline situ_optim_options situ_optim_adagrad_defaults(void) {
  return situ__optim_defaults("optim_adagrad", 0, 1e-10);
}
/** Defaults of situ_optim_adadelta. */
static inline situ_optim_options situ_optim_adadelta_defaults(void) {
  situ_optim_options options = situ__optim_defaults("optim_adadelta", 0, 1e-6);
  options.rho = 0.9;
  return options;
}
/** Defaults of situ_optim_adamax. */
static inline situ_optim_options situ_optim_adamax_defaults(void) {
  return situ__optim_beta_defaults("optim_adamax", 0, 1e-8, 0.999);
}
/** Defaults of situ_optim_nadam. */
static inline situ_optim_options situ_optim_nadam_defaults(void) {
  situ_optim_options options = situ__optim_beta_defaults("optim_nadam", 0, 1e-8, 0.999);
  options.momentum_decay = 4e-3;
  return options;
}
/** Defaults of situ_optim_radam. */
static inline situ_optim_options situ_optim_radam_defaults(void) {
  return situ__optim_beta_defaults("optim_radam", 0, 1e-8, 0.999);
}
/** Defaults of situ_optim_rprop. */
static inline situ_optim_options situ_optim_rprop_defaults(void) {
  situ_optim_options options = situ__optim_defaults("optim_rprop", 0, 0);
  options.etaminus = 0.5;
  options.etaplus = 1.2;
  options.step_size_min = 1e-6;
  options.step_size_max = 50;
  return options;
}
/** Defaults of situ_optim_asgd. */
static inline situ_optim_options situ_optim_asgd_defaults(void) {
  situ_optim_options options = situ__optim_defaults("optim_asgd", 0, 0);
  options.alpha = 0.75;
  options.lambd = 1e-4;
  options.t0 = 1e6;
  return options;
}
/** Defaults of situ_optim_lion. */
static inline situ_optim_options situ_optim_lion_defaults(void) {
  return situ__optim_beta_defaults("optim_lion", 0, 0, 0.99);
}
/** Defaults of situ_optim_adafactor. */
static inline situ_optim_options situ_optim_adafactor_defaults(void) {
  situ_optim_options options = situ__optim_defaults("optim_adafactor", 0, 1e-3);
  options.eps1 = SITU_NONE;
  options.beta2_decay = -0.8;
  options.d = 1;
  return options;
}
/** Defaults of situ_optim_muon. */
static inline situ_optim_options situ_optim_muon_defaults(void) {
  situ_optim_options options = situ__optim_defaults("optim_muon", 0.1, 1e-7);
  options.momentum = 0.95;
  options.nesterov = true;
  options.ns_a = 3.4445;
  options.ns_b = -4.775;
  options.ns_c = 2.0315;
  options.ns_steps = 5;
  return options;
}
/** Defaults of situ_optim_lbfgs. */
static inline situ_optim_options situ_optim_lbfgs_defaults(void) {
  situ_optim_options options = situ__optim_defaults("optim_lbfgs", 0, 0);
  options.max_iter = 20;
  options.max_eval = SITU_NONE;
  options.tolerance_grad = 1e-7;
  options.tolerance_change = 1e-9;
  options.history_size = 100;
  return options;
}

/* parameters: a tree of tensors, owned by the optimiser from now on (freed if the call fails); dict keys are the names
   in messages. lr: torch's default is 1e-3; RMSprop, Adagrad, Rprop, ASGD and Adafactor 1e-2, Adadelta and LBFGS 1,
   Adamax and NAdam 2e-3, Lion 1e-4. options: NULL: defaults; a finite options.lr must be lr (SITU_E_ARG). NULL on
   error:

     situ_optim *o = situ_optim_adamw(situ_nn_parameters(model), 3e-4, NULL);

     situ_optim_options options = situ_optim_sgd_defaults();
     options.momentum = 0.9;
     situ_optim *o = situ_optim_sgd(situ_nn_parameters(model), 0.1, &options); */
/** Stochastic gradient descent with momentum: buffer = momentum * buffer + (1 - dampening) * grad, as in torch. */
SITU_API situ_optim *situ_optim_sgd(situ_tree *parameters, double lr, const situ_optim_options *options);
/** Adam: Kingma and Ba, arXiv:1412.6980. */
SITU_API situ_optim *situ_optim_adam(situ_tree *parameters, double lr, const situ_optim_options *options);
/** AdamW, with decoupled weight decay: Loshchilov and Hutter, arXiv:1711.05101. */
SITU_API situ_optim *situ_optim_adamw(situ_tree *parameters, double lr, const situ_optim_options *options);
/** RMSprop: Hinton's lecture 6e, 2012; centered as in Graves, arXiv:1308.0850. */
SITU_API situ_optim *situ_optim_rmsprop(situ_tree *parameters, double lr, const situ_optim_options *options);
/** Adagrad: Duchi, Hazan and Singer, JMLR 12, 2011. */
SITU_API situ_optim *situ_optim_adagrad(situ_tree *parameters, double lr, const situ_optim_options *options);
/** Adadelta: Zeiler, arXiv:1212.5701. */
SITU_API situ_optim *situ_optim_adadelta(situ_tree *parameters, double lr, const situ_optim_options *options);
/** Adamax: Kingma and Ba, arXiv:1412.6980, section 7.1. */
SITU_API situ_optim *situ_optim_adamax(situ_tree *parameters, double lr, const situ_optim_options *options);
/** NAdam: Dozat, ICLR workshop 2016. */
SITU_API situ_optim *situ_optim_nadam(situ_tree *parameters, double lr, const situ_optim_options *options);
/** RAdam: Liu et al., arXiv:1908.03265. */
SITU_API situ_optim *situ_optim_radam(situ_tree *parameters, double lr, const situ_optim_options *options);
/** Rprop: Riedmiller and Braun 1993; lr is the first step size. */
SITU_API situ_optim *situ_optim_rprop(situ_tree *parameters, double lr, const situ_optim_options *options);
/** ASGD: Polyak and Juditsky 1992; the average is the state "ax". The rate of a step is computed from the lr of that
    step, in torch from that of the step before. */
SITU_API situ_optim *situ_optim_asgd(situ_tree *parameters, double lr, const situ_optim_options *options);
/** Lion: Chen et al., arXiv:2302.06675; weight decay is decoupled. PyTorch does not have it. */
SITU_API situ_optim *situ_optim_lion(situ_tree *parameters, double lr, const situ_optim_options *options);
/** Adafactor: Shazeer and Stern, arXiv:1804.04235, as torch has it; made of ops, with the memory of each gradient once
    more. */
SITU_API situ_optim *situ_optim_adafactor(situ_tree *parameters, double lr, const situ_optim_options *options);
/** Muon: Keller Jordan 2024; all parameters are matrices (SITU_E_SHAPE). Made of ops; the iteration is in bf16, as in
    torch. */
SITU_API situ_optim *situ_optim_muon(situ_tree *parameters, double lr, const situ_optim_options *options);
/** LBFGS: Nocedal and Wright, Numerical Optimization, section 7.2, and algorithms 3.5 and 3.6 for the line search;
    quasi-Newton steps for losses without noise, such as those of physics. It is stepped by situ_optim_step_closure.
    One parameter group; all parameters on one device, of one dtype. f16 and bf16 are computed in f32, and rounded into
    the parameters. */
SITU_API situ_optim *situ_optim_lbfgs(situ_tree *parameters, double lr, const situ_optim_options *options);
/** Adds a parameter group with its own hyperparameters; takes ownership of the tree. options: of the same optimiser,
    with the group's lr; NULL: what the optimiser was made with. A parameter can be in one group only (SITU_E_ARG).
    LBFGS has one group (SITU_E_UNSUPPORTED):

      situ_optim_options plain = situ_optim_group_options(o, 0);
      plain.weight_decay = 0;
      status = situ_optim_add_param_group(o, norms, &plain); */
SITU_API SITU_CHECKED situ_status situ_optim_add_param_group(situ_optim *o, situ_tree *parameters,
                                                             const situ_optim_options *options);
/** Frees the optimiser and its states. NULL is fine. Schedulers and scalers that use it stay valid. Records
    SITU_E_STATE and frees nothing while another thread uses it, or changes or moves one of its parameters. */
SITU_API void situ_optim_free(situ_optim *o);

/** Moves all parameters with their gradients and state, also state that was moved separately. All or nothing. Seldom
    needed: situ_nn_to moves a module's parameters, and the optimiser's state follows. */
SITU_API SITU_CHECKED situ_status situ_optim_to(situ_optim *o, situ_device device);

/** One step of every parameter that has a gradient. Everything is checked first: on error no parameter has changed.
    SITU_E_STATE for a parameter that only the optimiser still owns (its module was freed, or has another one now);
    SITU_E_DEVICE for one whose state is on another device (situ_optim_to). */
SITU_API SITU_CHECKED situ_status situ_optim_step(situ_optim *o);
/** Clears the gradients, computes the loss, calls situ_backward and returns the loss: the innermost scope owns it. NULL
    after recording an error. */
typedef situ_tensor *(*situ_optim_closure)(void *payload);
/** torch's step(closure): a step of an optimiser that evaluates the loss itself. LBFGS calls the closure up to max_eval
    times and more within a line search, other optimisers once. *loss (may be NULL) gets the loss before the step.
    Gradients are recorded in the closure, also in a no_grad scope; its temporaries are released after each call. On
    error, also of the closure, parameters and state are as they were before the call, and the error is the first one;
    gradients are those of the closure's last call. */
SITU_API SITU_CHECKED situ_status situ_optim_step_closure(situ_optim *o, situ_optim_closure closure, void *payload,
                                                          double *loss);
/** Drops the gradients (set_to_none, torch's default), or fills them with 0. */
SITU_API SITU_CHECKED situ_status situ_optim_zero_grad(situ_optim *o, bool set_to_none);

/** Number of parameter groups. */
SITU_API int situ_optim_groups(const situ_optim *o);
/** A hyperparameter of a group; NAN after recording an error if the group or field does not exist. */
SITU_API double situ_optim_get(const situ_optim *o, int group, situ_optim_field field);
/** Sets a hyperparameter of a group. */
SITU_API SITU_CHECKED situ_status situ_optim_set(situ_optim *o, int group, situ_optim_field field, double value);
/** Sets the options->size bytes of *options to the hyperparameters that a group has now. On error nothing has changed.
 */
SITU_API SITU_CHECKED situ_status situ_optim_get_options(const situ_optim *o, int group, situ_optim_options *options);
/** The hyperparameters that a group has now, to change some and add a group with them. Returns a struct of size 0,
    which situ_optim_add_param_group refuses, after recording an error. */
static inline situ_optim_options situ_optim_group_options(const situ_optim *o, int group) {
  situ_optim_options options = situ__optim_defaults(NULL, 0, 0);
  if (situ_optim_get_options(o, group, &options) != SITU_OK) options.size = 0;
  return options;
}
/** Number of parameters of all groups. */
SITU_API int64_t situ_optim_count(const situ_optim *o);
/** The i-th parameter and, in *name, its name ("" if it has none); both borrowed. */
SITU_API situ_tensor *situ_optim_param(const situ_optim *o, int64_t i, const char **name);
enum { SITU_OPTIM_STATES = 4 };
/** The k-th state tensor of the i-th parameter and, in *name, torch's name for it ("exp_avg"); NULL where there is none
    (yet). Borrowed. The last one is "master": see master_weights. LBFGS has none for single
    parameters: its state is in situ_optim_state_dict. */
SITU_API situ_tensor *situ_optim_state(const situ_optim *o, int64_t i, int k, const char **name);

/** torch's layout: { state: { "0": { step, exp_avg, exp_avg_sq } }, param_groups: [ { lr, ...,
    params } ] }, numbers as f64 or i64 cpu tensors; state tensors are the optimiser's own. The caller
    frees the tree. */
SITU_API situ_tree *situ_optim_state_dict(const situ_optim *o);
/** Restores a saved state (flattened or not), which is copied; groups must match. SITU_E_ARG: it is of another
    optimiser, which the error names; of Adam and AdamW that is known if groups have decoupled_weight_decay, as situ
    writes it, and torch of the versions in which AdamW is an Adam. On error nothing has changed. */
SITU_API SITU_CHECKED situ_status situ_optim_load_state_dict(situ_optim *o, const situ_tree *state);

/** torch.nn.utils.clip_grad_norm_: scales the gradients so that their total norm is at most max_norm. p: torch's
    default is 2; INFINITY is the largest element. *total gets the norm before clipping; NULL avoids waiting for the
    device. */
SITU_API SITU_CHECKED situ_status situ_nn_utils_clip_grad_norm_(const situ_tree *parameters, double max_norm, double p,
                                                                double *total);
/** situ_nn_utils_clip_grad_norm_ for the parameters of an optimiser. */
SITU_API SITU_CHECKED situ_status situ_optim_clip_grad_norm_(situ_optim *o, double max_norm, double p, double *total);

/** torch.nn.utils.clip_grad_value_: clamps each element of the gradients to -clip_value..clip_value. */
SITU_API SITU_CHECKED situ_status situ_nn_utils_clip_grad_value_(const situ_tree *parameters, double clip_value);
/** situ_nn_utils_clip_grad_value_ for the parameters of an optimiser. */
SITU_API SITU_CHECKED situ_status situ_optim_clip_grad_value_(situ_optim *o, double clip_value);

/* ---- schedules (torch.optim.lr_scheduler) ---------------------------------------------------- */

/** A learning-rate schedule: changes the rates of an optimiser at each step. Several on one optimiser are chained, as
    in torch. Making one sets the rate of step 0. Numbers that are not finite are SITU_E_ARG, also results of a lambda;
    then nothing has changed. A parameter group that situ_optim_add_param_group adds later is scheduled from the next
    step on, by schedules that go on from the current rate; a step of one that needs a first rate (or factor) for it is
    SITU_E_STATE, as in torch: LambdaLR, MultiplicativeLR, CosineAnnealingWarmRestarts, OneCycleLR, CyclicLR, SWALR,
    CosineAnnealingLR where it turns, SequentialLR where a part begins. */
typedef struct situ_lr_scheduler situ_lr_scheduler;

/** lr *= gamma every step_size steps; torch's default gamma is 0.1. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_step_lr(situ_optim *o, int64_t step_size, double gamma);
/** From the first rate to eta_min (torch's default is 0) in t_max steps, along half a cosine, and up again (Loshchilov
    and Hutter, arXiv:1608.03983, without restarts). */
SITU_API situ_lr_scheduler *situ_lr_scheduler_cosine_annealing_lr(situ_optim *o, int64_t t_max, double eta_min);
/** lr = first rate * lambda(step, payload). */
SITU_API situ_lr_scheduler *situ_lr_scheduler_lambda_lr(situ_optim *o, double (*lambda)(int64_t step, void *payload),
                                                        void *payload);
/** lr *= lambda(step, payload) in every step from step 1 on. */
SITU_API situ_lr_scheduler *
situ_lr_scheduler_multiplicative_lr(situ_optim *o, double (*lambda)(int64_t step, void *payload), void *payload);

/** lr *= gamma in each step that is a milestone, twice in one that is listed twice; torch's default gamma is 0.1. The
    list is copied. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_multi_step_lr(situ_optim *o, const int64_t *milestones, int64_t count,
                                                            double gamma);
/** lr *= factor in the first total_iters steps; torch's defaults are 1/3 and 5. factor: above 0, at most 1. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_constant_lr(situ_optim *o, double factor, int64_t total_iters);
/** The factor of the rate changes linearly from start_factor (above 0, at most 1) to end_factor (0 to 1) in total_iters
    steps; torch's defaults are 1/3, 1 and 5. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_linear_lr(situ_optim *o, double start_factor, double end_factor,
                                                        int64_t total_iters);
/** lr *= gamma in every step. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_exponential_lr(situ_optim *o, double gamma);
/** lr = first rate * (1 - step / total_iters)^power, 0 after that; torch's defaults are 5 and 1. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_polynomial_lr(situ_optim *o, int64_t total_iters, double power);
/** From the first rate to eta_min along half a cosine in t_0 steps, then again from the first rate in t_0 * t_mult
    steps, and so on (arXiv:1608.03983); torch's defaults are t_mult 1 and eta_min 0. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_cosine_annealing_warm_restarts(situ_optim *o, int64_t t_0, int64_t t_mult,
                                                                             double eta_min);

/** Begin with situ_one_cycle_defaults(); size 0 is SITU_E_ARG. */
typedef struct situ_one_cycle_options {
  size_t size;
  double pct_start;        /**< fraction of the steps in which the rate rises, 0 to 1; 0.3 */
  bool linear;             /**< torch's anneal_strategy='linear'; else cosine */
  bool keep_momentum;      /**< torch's cycle_momentum=False: leave momentum (beta1) constant */
  double base_momentum;    /**< 0.85 */
  double max_momentum;     /**< 0.95 */
  double div_factor;       /**< first rate = max_lr / div_factor; 25 */
  double final_div_factor; /**< last rate = first / final_div_factor; 1e4 */
  bool three_phase;
} situ_one_cycle_options;
/** torch's defaults. */
static inline situ_one_cycle_options situ_one_cycle_defaults(void) {
  situ_one_cycle_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.pct_start = 0.3;
  options.base_momentum = 0.85;
  options.max_momentum = 0.95;
  options.div_factor = 25;
  options.final_div_factor = 1e4;
  return options;
}
/** OneCycleLR: Smith and Topin, arXiv:1708.07120. total_steps: epochs * steps_per_epoch. options may be NULL. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_one_cycle_lr(situ_optim *o, double max_lr, int64_t total_steps,
                                                           const situ_one_cycle_options *options);

typedef enum situ_cyclic_mode {
  SITU_CYCLIC_TRIANGULAR,
  SITU_CYCLIC_TRIANGULAR2, /**< half the height in each further cycle */
  SITU_CYCLIC_EXP_RANGE    /**< height * gamma^step */
} situ_cyclic_mode;
/** Begin with situ_cyclic_defaults(); size 0 is SITU_E_ARG. */
typedef struct situ_cyclic_options {
  size_t size;
  int64_t step_size_up;  /**< at least 1; 2000 */
  double step_size_down; /**< at least 0; SITU_NONE, the default: step_size_up */
  situ_cyclic_mode mode;
  double gamma;                                /**< 1 */
  double (*scale_fn)(double x, void *payload); /**< factor of the height, in place of mode */
  void *payload;                               /**< passed to scale_fn */
  bool scale_iterations; /**< torch's scale_mode='iterations': x is the step; else the number of the cycle, from 1 */
  bool keep_momentum;    /**< torch's cycle_momentum=False: leave momentum (beta1) constant */
  double base_momentum;  /**< 0.8 */
  double max_momentum;   /**< 0.9 */
} situ_cyclic_options;
/** torch's defaults. */
static inline situ_cyclic_options situ_cyclic_defaults(void) {
  situ_cyclic_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.step_size_up = 2000;
  options.step_size_down = SITU_NONE;
  options.gamma = 1;
  options.base_momentum = 0.8;
  options.max_momentum = 0.9;
  return options;
}
/** CyclicLR: the rate rises from base_lr to max_lr and falls again, along lines. Smith, arXiv:1506.01186. options may
    be NULL. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_cyclic_lr(situ_optim *o, double base_lr, double max_lr,
                                                        const situ_cyclic_options *options);

/** Begin with situ_plateau_defaults(); size 0 is SITU_E_ARG. */
typedef struct situ_plateau_options {
  size_t size;
  bool max;           /**< torch's mode='max': larger metrics are better */
  double threshold;   /**< how much better a metric must be to count; 1e-4 */
  bool threshold_abs; /**< torch's threshold_mode='abs': threshold is a difference, not a fraction of the best metric */
  int64_t cooldown;   /**< steps after a reduction in which worse metrics do not count */
  double min_lr;
  double eps; /**< smaller reductions are left out; 1e-8 */
} situ_plateau_options;
/** torch's defaults. */
static inline situ_plateau_options situ_plateau_defaults(void) {
  situ_plateau_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threshold = 1e-4;
  options.eps = 1e-8;
  return options;
}
/** ReduceLROnPlateau: lr *= factor after more than `patience` steps without a better metric; torch's defaults are 0.1
    and 10. It is stepped by situ_lr_scheduler_step_metrics. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_reduce_lr_on_plateau(situ_optim *o, double factor, int64_t patience,
                                                                   const situ_plateau_options *options);

/** torch.optim.swa_utils.SWALR: the rate goes to swa_lr in anneal_epochs steps along half a cosine (a line if linear),
    and stays there; torch's default is 10 steps. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_swalr(situ_optim *o, double swa_lr, int64_t anneal_epochs, bool linear);

/** SequentialLR: the i-th of `count` schedules from step milestones[i - 1] on, each starting anew from its first rate;
    SWALR and MultiplicativeLR go on from the rate before, as in torch.
    The count - 1 milestones increase, and are copied. Takes ownership of the schedules, also when the call fails: only
    the new one can be stepped and freed. All must be of this optimiser; ReduceLROnPlateau cannot be one. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_sequential_lr(situ_optim *o, int64_t count,
                                                            situ_lr_scheduler *const *schedulers,
                                                            const int64_t *milestones);
/** ChainedScheduler: a step is one of each schedule, in order. Takes ownership of them, as SequentialLR does. */
SITU_API situ_lr_scheduler *situ_lr_scheduler_chained_scheduler(int64_t count, situ_lr_scheduler *const *schedulers);

/** Sets the rates of the next step; call it after situ_optim_step. OneCycleLR refuses a step after its last,
    ReduceLROnPlateau every one (SITU_E_ARG). On error nothing has changed. */
SITU_API SITU_CHECKED situ_status situ_lr_scheduler_step(situ_lr_scheduler *s);
/** A step of ReduceLROnPlateau, when the metrics of the epoch are known; SITU_E_ARG for another scheduler and for
    NaN. */
SITU_API SITU_CHECKED situ_status situ_lr_scheduler_step_metrics(situ_lr_scheduler *s, double metrics);
/** Number of steps made; 0 for a new scheduler. */
SITU_API int64_t situ_lr_scheduler_last_epoch(const situ_lr_scheduler *s);
/** { last_epoch, base_lrs }, of ReduceLROnPlateau also best, num_bad_epochs and cooldown_counter, of SequentialLR and
    ChainedScheduler _schedulers, a list of states. Arguments and functions are not saved. The caller frees the tree. */
SITU_API situ_tree *situ_lr_scheduler_state_dict(const situ_lr_scheduler *s);
/** Restores a saved state. On error nothing has changed. */
SITU_API SITU_CHECKED situ_status situ_lr_scheduler_load_state_dict(situ_lr_scheduler *s, const situ_tree *state);
/** Frees a scheduler. NULL is fine. */
SITU_API void situ_lr_scheduler_free(situ_lr_scheduler *s);

/* ---- averages of a model (torch.optim.swa_utils) ----------------------------------------------- */

/** Begin with situ_averaged_model_defaults(); size 0 is SITU_E_ARG. */
typedef struct situ_averaged_model_options {
  size_t size;
  double decay;     /**< averaged = decay * averaged + (1 - decay) * parameter, as torch's get_ema_multi_avg_fn(decay);
                         SITU_NONE: the mean of all updates, torch's default */
  bool use_buffers; /**< average the buffers too; else they are copied at each update */
} situ_averaged_model_options;
/** torch's defaults. */
static inline situ_averaged_model_options situ_averaged_model_defaults(void) {
  situ_averaged_model_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.decay = SITU_NONE;
  return options;
}
/** torch.optim.swa_utils.AveragedModel: a module with a clone of `model` as child "module", which its forward calls,
    and the buffer n_averaged. It is a module as any other: it moves, is saved and is freed as one. While it is where
    the model is, it goes along with its moves (situ_nn_follow; after situ_nn_follow(averaged, NULL) it does not), and
    keeps its dtype. decay must be in 0..1, or SITU_NONE. Izmailov et al., arXiv:1803.05407. NULL on error. */
SITU_API situ_nn_module *situ_optim_averaged_model(situ_nn_module *model, const situ_averaged_model_options *options);
/** update_parameters: takes the parameters of `model` into the average; the first time copies them. They are copied
    to the averages' devices. In a captured step each replay takes them with the share of its own update and counts
    it; `averaged` must outlive the graph. SITU_E_SHAPE if the tensors of the two modules differ in number or shape,
    SITU_E_ARG for a module that situ_optim_averaged_model did not make; then nothing has changed. SITU_E_NOMEM may
    leave some averages updated and n_averaged as it was: load a saved state before the next update. */
SITU_API SITU_CHECKED situ_status situ_optim_update_parameters(situ_nn_module *averaged, situ_nn_module *model);

SITU_END
#endif
