/* Optimisers by a function of theirs, and options of theirs by field: for tests of several optimisers.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_OPTIM_H
#define SITU_TESTS_OPTIM_H

#include <stddef.h>
#include <string.h>

#include "situ/amp.h"
#include "situ/optim.h"

typedef situ_optim *optim_maker(situ_tree *parameters, double lr, const situ_optim_options *options);

/* A field of options and its value; { 0 } ends a list, as lr is a parameter. */
typedef struct optim_change {
  situ_optim_field field;
  double value;
} optim_change;
enum { OPTIM_CHANGES = 4 };

typedef struct optim_rule {
  optim_maker *make;
  double lr; /* torch's default */
  situ_optim_options (*defaults)(void);
} optim_rule;

static const optim_rule optim_rules[] = {
  { situ_optim_sgd, 1e-3, situ_optim_sgd_defaults },
  { situ_optim_adam, 1e-3, situ_optim_adam_defaults },
  { situ_optim_adamw, 1e-3, situ_optim_adamw_defaults },
  { situ_optim_rmsprop, 1e-2, situ_optim_rmsprop_defaults },
  { situ_optim_adagrad, 1e-2, situ_optim_adagrad_defaults },
  { situ_optim_adadelta, 1, situ_optim_adadelta_defaults },
  { situ_optim_adamax, 2e-3, situ_optim_adamax_defaults },
  { situ_optim_nadam, 2e-3, situ_optim_nadam_defaults },
  { situ_optim_radam, 1e-3, situ_optim_radam_defaults },
  { situ_optim_rprop, 1e-2, situ_optim_rprop_defaults },
  { situ_optim_asgd, 1e-2, situ_optim_asgd_defaults },
  { situ_optim_lion, 1e-4, situ_optim_lion_defaults },
  { situ_optim_adafactor, 1e-2, situ_optim_adafactor_defaults },
  { situ_optim_muon, 1e-3, situ_optim_muon_defaults },
  { situ_optim_lbfgs, 1, situ_optim_lbfgs_defaults },
};
enum { OPTIM_RULES = sizeof optim_rules / sizeof *optim_rules };

typedef struct optim_member {
  const char *name;
  size_t at;
  bool flag;
} optim_member;

#define OPTIM_NUMBER(field) \
  { #field, offsetof(situ_optim_options, field), false }
#define OPTIM_FLAG(field) \
  { #field, offsetof(situ_optim_options, field), true }
static const optim_member optim_members[SITU_OPTIM_FIELDS] = {
  [SITU_OPTIM_LR] = OPTIM_NUMBER(lr),
  [SITU_OPTIM_WEIGHT_DECAY] = OPTIM_NUMBER(weight_decay),
  [SITU_OPTIM_MOMENTUM] = OPTIM_NUMBER(momentum),
  [SITU_OPTIM_DAMPENING] = OPTIM_NUMBER(dampening),
  [SITU_OPTIM_BETA1] = OPTIM_NUMBER(beta1),
  [SITU_OPTIM_BETA2] = OPTIM_NUMBER(beta2),
  [SITU_OPTIM_ALPHA] = OPTIM_NUMBER(alpha),
  [SITU_OPTIM_EPS] = OPTIM_NUMBER(eps),
  [SITU_OPTIM_NESTEROV] = OPTIM_FLAG(nesterov),
  [SITU_OPTIM_AMSGRAD] = OPTIM_FLAG(amsgrad),
  [SITU_OPTIM_CENTERED] = OPTIM_FLAG(centered),
  [SITU_OPTIM_MAXIMIZE] = OPTIM_FLAG(maximize),
  [SITU_OPTIM_MASTER_WEIGHTS] = OPTIM_FLAG(master_weights),
  [SITU_OPTIM_RHO] = OPTIM_NUMBER(rho),
  [SITU_OPTIM_LR_DECAY] = OPTIM_NUMBER(lr_decay),
  [SITU_OPTIM_INITIAL_ACCUMULATOR_VALUE] = OPTIM_NUMBER(initial_accumulator_value),
  [SITU_OPTIM_MOMENTUM_DECAY] = OPTIM_NUMBER(momentum_decay),
  [SITU_OPTIM_DECOUPLED_WEIGHT_DECAY] = OPTIM_FLAG(decoupled_weight_decay),
  [SITU_OPTIM_ETAMINUS] = OPTIM_NUMBER(etaminus),
  [SITU_OPTIM_ETAPLUS] = OPTIM_NUMBER(etaplus),
  [SITU_OPTIM_STEP_SIZE_MIN] = OPTIM_NUMBER(step_size_min),
  [SITU_OPTIM_STEP_SIZE_MAX] = OPTIM_NUMBER(step_size_max),
  [SITU_OPTIM_LAMBD] = OPTIM_NUMBER(lambd),
  [SITU_OPTIM_T0] = OPTIM_NUMBER(t0),
  [SITU_OPTIM_EPS1] = OPTIM_NUMBER(eps1),
  [SITU_OPTIM_BETA2_DECAY] = OPTIM_NUMBER(beta2_decay),
  [SITU_OPTIM_D] = OPTIM_NUMBER(d),
  [SITU_OPTIM_NS_A] = OPTIM_NUMBER(ns_a),
  [SITU_OPTIM_NS_B] = OPTIM_NUMBER(ns_b),
  [SITU_OPTIM_NS_C] = OPTIM_NUMBER(ns_c),
  [SITU_OPTIM_NS_STEPS] = OPTIM_NUMBER(ns_steps),
  [SITU_OPTIM_ADJUST_LR_FN] = OPTIM_NUMBER(adjust_lr_fn),
  [SITU_OPTIM_MAX_ITER] = OPTIM_NUMBER(max_iter),
  [SITU_OPTIM_MAX_EVAL] = OPTIM_NUMBER(max_eval),
  [SITU_OPTIM_TOLERANCE_GRAD] = OPTIM_NUMBER(tolerance_grad),
  [SITU_OPTIM_TOLERANCE_CHANGE] = OPTIM_NUMBER(tolerance_change),
  [SITU_OPTIM_HISTORY_SIZE] = OPTIM_NUMBER(history_size),
  [SITU_OPTIM_LINE_SEARCH_FN] = OPTIM_NUMBER(line_search_fn),
};

static inline void optim_set_option(situ_optim_options *options, situ_optim_field field, double value) {
  char *at = (char *)options + optim_members[field].at;
  const bool flag = value != 0;
  if (optim_members[field].flag) memcpy(at, &flag, sizeof flag);
  else memcpy(at, &value, sizeof value);
}

static inline const optim_rule *optim_rule_of(optim_maker *make) {
  int i = 0;
  while (i < OPTIM_RULES - 1 && optim_rules[i].make != make) i++;
  return &optim_rules[i];
}
static inline situ_optim_options optim_defaults(optim_maker *make) { return optim_rule_of(make)->defaults(); }

/* The defaults of an optimiser with a list of changes; NULL: none. */
static inline situ_optim_options optim_options(optim_maker *make, const optim_change *change) {
  situ_optim_options options = optim_defaults(make);
  for (; change && change->field != SITU_OPTIM_LR; change++) optim_set_option(&options, change->field, change->value);
  return options;
}
/* A pointer to them, for a call: OPTIM_OPTIONS(situ_optim_sgd, { SITU_OPTIM_MOMENTUM, 0.9 }). */
#define OPTIM_OPTIONS(make, ...) \
  ((situ_optim_options[]){ optim_options(make, (const optim_change[]){ __VA_ARGS__, { 0 } }) })
#define OPTIM_MOMENTUM(value) OPTIM_OPTIONS(situ_optim_sgd, { SITU_OPTIM_MOMENTUM, value })

/* An optimiser with a list of changes of its defaults. */
static inline situ_optim *optim_make(optim_maker *make, situ_tree *parameters, double lr, const optim_change *change) {
  const situ_optim_options options = optim_options(make, change);
  return make(parameters, lr, &options);
}

static inline situ_grad_scaler *optim_scaler(double init_scale, int64_t growth_interval) {
  situ_grad_scaler_options options = situ_grad_scaler_defaults();
  options.init_scale = init_scale;
  options.growth_interval = growth_interval;
  return situ_grad_scaler_new(&options);
}

#endif
