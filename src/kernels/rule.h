/* The constants of an optimiser's step, computed on the host. Included once for each T, after optimizer.h.
   SPDX-License-Identifier: MIT */

/* decoupled: AdamW's weight decay. The last two parameters are Adam's, from adam.h. */
static inline FN(rule)
    FN(rule_of)(const situ_optimizer_params *o, int decoupled, double step_size, double correction2_sqrt) {
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
    .step_size = (T)step_size,
    .correction2_sqrt = (T)correction2_sqrt,
  };
}
