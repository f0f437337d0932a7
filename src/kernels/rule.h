/* The constants of an optimiser's step, computed on the host. Included once for each T, after optimizer.h and
   adam.h.
   SPDX-License-Identifier: MIT */

static inline FN(rule)
    FN(rule_of)(const situ_optimizer_params *o, bool decoupled, const situ__step_constants *constants) {
  return (FN(rule)){
    .lr = (T)o->lr,
    .momentum = (T)o->momentum,
    .take = (T)(1 - o->dampening),
    .beta1 = (T)o->beta1,
    .rest1 = (T)(1 - o->beta1),
    .beta2 = (T)o->beta2,
    .rest2 = (T)(1 - o->beta2),
    .alpha = (T)o->alpha,
    .rest = (T)(1 - o->alpha),
    .eps = (T)o->eps,
    .shrink = decoupled ? (T)(1 - o->lr * o->weight_decay) : 1,
    .step_size = (T)constants->step_size,
    .correction2_sqrt = (T)constants->correction2_sqrt,
    .other = (T)constants->other,
    .rho = (T)o->rho,
    .rest_rho = (T)(1 - o->rho),
    .etaminus = (T)o->etaminus,
    .etaplus = (T)o->etaplus,
    .step_size_min = (T)o->step_size_min,
    .step_size_max = (T)o->step_size_max,
  };
}
