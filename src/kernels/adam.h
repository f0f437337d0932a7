/* The constants of an optimiser's step that depend on the number of steps, computed on the host.
   SPDX-License-Identifier: MIT */
#ifndef SITU_KERNELS_ADAM_H
#define SITU_KERNELS_ADAM_H

#include <math.h>

#include "situ/sys/backend.h"

/* Members of the rule (optimizer.h) of these names. */
typedef struct situ__step_constants {
  double step_size, correction2_sqrt, other;
} situ__step_constants;

static inline double situ__adam_step_size(const situ_optimizer_params *o, int64_t step) {
  return o->lr / (1 - pow(o->beta1, (double)step));
}
static inline double situ__adam_correction(const situ_optimizer_params *o, int64_t step) {
  return sqrt(1 - pow(o->beta2, (double)step));
}
static inline situ__step_constants situ__nadam_constants(const situ_optimizer_params *o, int64_t step,
                                                         double mu_product) {
  const double mu = situ_optimizer_nadam_mu(o, step), next = situ_optimizer_nadam_mu(o, step + 1);
  return (situ__step_constants){ o->lr * (1 - mu) / (1 - mu_product), situ__adam_correction(o, step),
                                 o->lr * next / (1 - mu_product * next) };
}

/* Liu et al., arXiv:1908.03265, algorithm 2; rho is the length of the moving average of the squares. */
static inline situ__step_constants situ__radam_constants(const situ_optimizer_params *o, int64_t step) {
  const double power = pow(o->beta2, (double)step), most = 2 / (1 - o->beta2) - 1,
               rho = most - 2 * (double)step * power / (1 - power);
  situ__step_constants c = { situ__adam_step_size(o, step), situ__adam_correction(o, step), rho > 5 };
  if (rho > 5) c.step_size *= sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho));
  return c;
}

/* The rate and the average of the step before: they are set after a step, for the next one. */
static inline situ__step_constants situ__asgd_constants(const situ_optimizer_params *o, int64_t step) {
  const double before = (double)(step - 1), rate = o->lr / pow(1 + o->lambd * o->lr * before, o->alpha);
  return (situ__step_constants){ rate, 1 - o->lambd * rate, 1 / fmax(1, before - o->t0) };
}

static inline situ__step_constants situ__constants_of(situ_optimizer_rule rule, const situ_optimizer_params *o,
                                                      const situ_optimizer_item *item) {
  switch (rule) {
  case SITU_RULE_ADAM:
  case SITU_RULE_ADAMW:
    return (situ__step_constants){ situ__adam_step_size(o, item->step), situ__adam_correction(o, item->step), 0 };
  case SITU_RULE_ADAGRAD: return (situ__step_constants){ o->lr / (1 + (double)(item->step - 1) * o->lr_decay), 1, 0 };
  case SITU_RULE_ADAMAX: return (situ__step_constants){ situ__adam_step_size(o, item->step), 1, 0 };
  case SITU_RULE_NADAM: return situ__nadam_constants(o, item->step, item->mu_product);
  case SITU_RULE_RADAM: return situ__radam_constants(o, item->step);
  case SITU_RULE_ASGD: return situ__asgd_constants(o, item->step);
  default: return (situ__step_constants){ 0, 1, 0 };
  }
}

/* Whether weight decay shrinks the parameter, in place of being added to the gradient. */
static inline bool situ__is_decoupled(situ_optimizer_rule rule, const situ_optimizer_params *o) {
  return rule == SITU_RULE_ADAMW || rule == SITU_RULE_LION || o->decoupled_weight_decay;
}

#endif
