/* The hyperparameters of optimisers: which each has, how options give them, their ranges.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/options.h"
#include "optim/optim.h"

#define RULE(name) (1u << SITU_RULE_##name)
#define COMPOSED(name) (1u << SITU__RULE_##name)
enum {
  SGD = RULE(SGD),
  ADAM = RULE(ADAM) | RULE(ADAMW),
  RMSPROP = RULE(RMSPROP),
  ADAPTIVE = ADAM | RULE(ADAMAX) | RULE(NADAM) | RULE(RADAM),
  ROOTS = ADAPTIVE | RMSPROP | RULE(ADAGRAD) | RULE(ADADELTA), /* those that divide by a root and eps */
  ADAFACTOR = COMPOSED(ADAFACTOR),
  MUON = COMPOSED(MUON),
  LBFGS = COMPOSED(LBFGS),
  ALL = (1u << SITU__OPTIM_RULES) - 1
};

#define AT(field) offsetof(situ_optim_options, field), offsetof(situ_optimizer_params, field)
#define ONLY(field) offsetof(situ_optim_options, field), SITU__NO_PARAM
const situ__field situ__optim_fields[SITU_OPTIM_FIELDS] = {
  /* name, rules that have it, where it is, flag, pair */
  [SITU_OPTIM_LR] = { "lr", ALL, AT(lr), false, NULL },
  [SITU_OPTIM_WEIGHT_DECAY] = { "weight_decay", ALL & ~(RULE(RPROP) | LBFGS), AT(weight_decay), false, NULL },
  [SITU_OPTIM_MOMENTUM] = { "momentum", SGD | RMSPROP | MUON, AT(momentum), false, NULL },
  [SITU_OPTIM_DAMPENING] = { "dampening", SGD, AT(dampening), false, NULL },
  [SITU_OPTIM_BETA1] = { "beta1", ADAPTIVE | RULE(LION), AT(beta1), false, "betas" },
  [SITU_OPTIM_BETA2] = { "beta2", ADAPTIVE | RULE(LION), AT(beta2), false, NULL },
  [SITU_OPTIM_ALPHA] = { "alpha", RMSPROP | RULE(ASGD), AT(alpha), false, NULL },
  [SITU_OPTIM_EPS] = { "eps", ROOTS | ADAFACTOR | MUON, AT(eps), false, NULL },
  [SITU_OPTIM_NESTEROV] = { "nesterov", SGD | MUON, AT(nesterov), true, NULL },
  [SITU_OPTIM_AMSGRAD] = { "amsgrad", ADAM, AT(amsgrad), true, NULL },
  [SITU_OPTIM_CENTERED] = { "centered", RMSPROP, AT(centered), true, NULL },
  [SITU_OPTIM_MAXIMIZE] = { "maximize", ALL & ~MUON, AT(maximize), true, NULL },
  [SITU_OPTIM_MASTER_WEIGHTS] = { "master_weights", ALL & ~LBFGS, ONLY(master_weights), true, NULL },
  [SITU_OPTIM_RHO] = { "rho", RULE(ADADELTA), AT(rho), false, NULL },
  [SITU_OPTIM_LR_DECAY] = { "lr_decay", RULE(ADAGRAD), AT(lr_decay), false, NULL },
  [SITU_OPTIM_INITIAL_ACCUMULATOR_VALUE] = { "initial_accumulator_value", RULE(ADAGRAD),
                                             ONLY(initial_accumulator_value), false, NULL },
  [SITU_OPTIM_MOMENTUM_DECAY] = { "momentum_decay", RULE(NADAM), AT(momentum_decay), false, NULL },
  [SITU_OPTIM_DECOUPLED_WEIGHT_DECAY] = { "decoupled_weight_decay", RULE(NADAM) | RULE(RADAM),
                                          AT(decoupled_weight_decay), true, NULL },
  [SITU_OPTIM_ETAMINUS] = { "etaminus", RULE(RPROP), AT(etaminus), false, "etas" },
  [SITU_OPTIM_ETAPLUS] = { "etaplus", RULE(RPROP), AT(etaplus), false, NULL },
  [SITU_OPTIM_STEP_SIZE_MIN] = { "step_size_min", RULE(RPROP), AT(step_size_min), false, "step_sizes" },
  [SITU_OPTIM_STEP_SIZE_MAX] = { "step_size_max", RULE(RPROP), AT(step_size_max), false, NULL },
  [SITU_OPTIM_LAMBD] = { "lambd", RULE(ASGD), AT(lambd), false, NULL },
  [SITU_OPTIM_T0] = { "t0", RULE(ASGD), AT(t0), false, NULL },
  [SITU_OPTIM_EPS1] = { "eps1", ADAFACTOR, ONLY(eps1), false, NULL },
  [SITU_OPTIM_BETA2_DECAY] = { "beta2_decay", ADAFACTOR, ONLY(beta2_decay), false, NULL },
  [SITU_OPTIM_D] = { "d", ADAFACTOR, ONLY(d), false, NULL },
  [SITU_OPTIM_NS_A] = { "ns_a", MUON, ONLY(ns_a), false, NULL },
  [SITU_OPTIM_NS_B] = { "ns_b", MUON, ONLY(ns_b), false, NULL },
  [SITU_OPTIM_NS_C] = { "ns_c", MUON, ONLY(ns_c), false, NULL },
  [SITU_OPTIM_NS_STEPS] = { "ns_steps", MUON, ONLY(ns_steps), false, NULL },
  [SITU_OPTIM_ADJUST_LR_FN] = { "adjust_lr_fn", MUON, ONLY(adjust_lr_fn), false, NULL },
  [SITU_OPTIM_MAX_ITER] = { "max_iter", LBFGS, ONLY(max_iter), false, NULL },
  [SITU_OPTIM_MAX_EVAL] = { "max_eval", LBFGS, ONLY(max_eval), false, NULL },
  [SITU_OPTIM_TOLERANCE_GRAD] = { "tolerance_grad", LBFGS, ONLY(tolerance_grad), false, NULL },
  [SITU_OPTIM_TOLERANCE_CHANGE] = { "tolerance_change", LBFGS, ONLY(tolerance_change), false, NULL },
  [SITU_OPTIM_HISTORY_SIZE] = { "history_size", LBFGS, ONLY(history_size), false, NULL },
  [SITU_OPTIM_LINE_SEARCH_FN] = { "line_search_fn", LBFGS, ONLY(line_search_fn), false, NULL },
};
#undef AT
#undef ONLY
#undef RULE
#undef COMPOSED

const char *situ__optim_op(const situ_optim *o) {
  static const char *const names[SITU__OPTIM_RULES] = { [SITU_RULE_SGD] = "optim_sgd",
                                                        [SITU_RULE_ADAM] = "optim_adam",
                                                        [SITU_RULE_ADAMW] = "optim_adamw",
                                                        [SITU_RULE_RMSPROP] = "optim_rmsprop",
                                                        [SITU_RULE_ADAGRAD] = "optim_adagrad",
                                                        [SITU_RULE_ADADELTA] = "optim_adadelta",
                                                        [SITU_RULE_ADAMAX] = "optim_adamax",
                                                        [SITU_RULE_NADAM] = "optim_nadam",
                                                        [SITU_RULE_RADAM] = "optim_radam",
                                                        [SITU_RULE_RPROP] = "optim_rprop",
                                                        [SITU_RULE_ASGD] = "optim_asgd",
                                                        [SITU_RULE_LION] = "optim_lion",
                                                        [SITU__RULE_ADAFACTOR] = "optim_adafactor",
                                                        [SITU__RULE_MUON] = "optim_muon",
                                                        [SITU__RULE_LBFGS] = "optim_lbfgs" };
  return names[o->rule];
}

static double read_option(const situ_optim_options *options, const situ__field *field) {
  const char *at = (const char *)options + field->option;
  bool flag;
  double value;
  if (field->flag) return memcpy(&flag, at, sizeof flag), flag;
  return memcpy(&value, at, sizeof value), value;
}

/* Fields whose range is not "at least 0". */
static bool signed_field(int f) {
  return f == SITU_OPTIM_DAMPENING || f == SITU_OPTIM_BETA2_DECAY || (f >= SITU_OPTIM_NS_A && f <= SITU_OPTIM_NS_C);
}
static bool in_range(int f, double value) {
  const bool below_one = f == SITU_OPTIM_BETA1 || f == SITU_OPTIM_BETA2;
  if (signed_field(f)) return isfinite(value);
  return (value >= 0 || (f == SITU_OPTIM_EPS1 && value == SITU_NONE)) && value < (below_one ? 1 : INFINITY);
}

static bool is_count(double value, double least) { return value >= least && value < 1e9 && value == floor(value); }

static bool lbfgs_valid(const situ_optim *o, const double *value) {
  static const situ_optim_field counts[] = { SITU_OPTIM_MAX_ITER, SITU_OPTIM_MAX_EVAL, SITU_OPTIM_HISTORY_SIZE };
  const double search = value[SITU_OPTIM_LINE_SEARCH_FN];
  for (int i = 0; i < 3; i++) {
    const double least = counts[i] == SITU_OPTIM_HISTORY_SIZE;
    if (!is_count(value[counts[i]], least))
      return situ__fail(SITU_E_ARG, situ__optim_op(o), "%s is %g: must be a whole number, %g to 1e9",
                        situ__optim_fields[counts[i]].name, value[counts[i]], least),
             false;
  }
  if (search == SITU_LINE_SEARCH_NONE || search == SITU_LINE_SEARCH_STRONG_WOLFE) return true;
  return situ__fail(SITU_E_ARG, situ__optim_op(o), "line_search_fn is %g: must be a situ_line_search", search), false;
}

static bool composed_valid(const situ_optim *o, const double *value) {
  if (situ__optim_is(o, SITU__RULE_LBFGS)) return lbfgs_valid(o, value);
  const double steps = value[SITU_OPTIM_NS_STEPS], adjust = value[SITU_OPTIM_ADJUST_LR_FN];
  if (situ__optim_is(o, SITU__RULE_ADAFACTOR) && (value[SITU_OPTIM_BETA2_DECAY] > 0 || value[SITU_OPTIM_D] < 1))
    situ__fail(SITU_E_ARG, situ__optim_op(o), "beta2_decay is %g and d %g: must be at most 0, and at least 1",
               value[SITU_OPTIM_BETA2_DECAY], value[SITU_OPTIM_D]);
  else if (situ__optim_is(o, SITU__RULE_MUON) && (steps >= 100 || steps != floor(steps)))
    situ__fail(SITU_E_ARG, situ__optim_op(o), "ns_steps is %g: must be a whole number below 100", steps);
  else if (situ__optim_is(o, SITU__RULE_MUON) && adjust != 0 && adjust != 1 && adjust != 2)
    situ__fail(SITU_E_ARG, situ__optim_op(o), "adjust_lr_fn is %g: must be a situ_muon_adjust", adjust);
  else return true;
  return false;
}

bool situ__optim_valid(const situ_optim *o, const double *value) {
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    if (in_range(f, value[f])) continue;
    return situ__fail(SITU_E_ARG, situ__optim_op(o), "%s is %g: it must be at least 0 and %s",
                      situ__optim_fields[f].name, value[f], in_range(f, 1) ? "finite" : "below 1"),
           false;
  }
  if (o->rule == SITU_RULE_RPROP &&
      !(value[SITU_OPTIM_ETAMINUS] > 0 && value[SITU_OPTIM_ETAMINUS] < 1 && value[SITU_OPTIM_ETAPLUS] > 1))
    return situ__fail(SITU_E_ARG, situ__optim_op(o),
                      "etaminus is %g and etaplus %g: must be 0 < etaminus < 1 < etaplus", value[SITU_OPTIM_ETAMINUS],
                      value[SITU_OPTIM_ETAPLUS]),
           false;
  if (!composed_valid(o, value)) return false;
  if (value[SITU_OPTIM_RHO] > 1)
    return situ__fail(SITU_E_ARG, situ__optim_op(o), "rho is %g: it must be 0 to 1", value[SITU_OPTIM_RHO]), false;
  if (value[SITU_OPTIM_NESTEROV] == 0 || situ__optim_is(o, SITU__RULE_MUON) ||
      (value[SITU_OPTIM_MOMENTUM] > 0 && value[SITU_OPTIM_DAMPENING] == 0))
    return true;
  return situ__fail(SITU_E_ARG, situ__optim_op(o), "nesterov needs a momentum above 0, and no dampening"), false;
}

static void write_option(situ_optim_options *options, const situ__field *field, double value) {
  char *at = (char *)options + field->option;
  const bool flag = value != 0;
  if (field->flag) memcpy(at, &flag, sizeof flag);
  else memcpy(at, &value, sizeof value);
}

static situ_optim_options options_of(const situ_optim *o, const double *value) {
  situ_optim_options options = { .size = sizeof options, .of = situ__optim_op(o) };
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) write_option(&options, &situ__optim_fields[f], value[f]);
  return options;
}

static situ_optim_options defaults_of(int rule) {
  static situ_optim_options (*const defaults[SITU__OPTIM_RULES])(void) = {
    [SITU_RULE_SGD] = situ_optim_sgd_defaults,
    [SITU_RULE_ADAM] = situ_optim_adam_defaults,
    [SITU_RULE_ADAMW] = situ_optim_adamw_defaults,
    [SITU_RULE_RMSPROP] = situ_optim_rmsprop_defaults,
    [SITU_RULE_ADAGRAD] = situ_optim_adagrad_defaults,
    [SITU_RULE_ADADELTA] = situ_optim_adadelta_defaults,
    [SITU_RULE_ADAMAX] = situ_optim_adamax_defaults,
    [SITU_RULE_NADAM] = situ_optim_nadam_defaults,
    [SITU_RULE_RADAM] = situ_optim_radam_defaults,
    [SITU_RULE_RPROP] = situ_optim_rprop_defaults,
    [SITU_RULE_ASGD] = situ_optim_asgd_defaults,
    [SITU_RULE_LION] = situ_optim_lion_defaults,
    [SITU__RULE_ADAFACTOR] = situ_optim_adafactor_defaults,
    [SITU__RULE_MUON] = situ_optim_muon_defaults,
    [SITU__RULE_LBFGS] = situ_optim_lbfgs_defaults,
  };
  return defaults[rule]();
}

/* Overrides *own with what is given. begin: the function that such options begin with. */
static bool read_options(const situ_optim *o, const char *begin, const situ_optim_options *given,
                         situ_optim_options *own) {
  const char *op = situ__optim_op(o);
  if (!situ__options_read(op, begin, given, own, sizeof *own)) return false;
  if (own->of && strcmp(own->of, op) == 0) return true;
  return situ__fail(SITU_E_ARG, op, "options are those of %s: begin with %s()", own->of ? own->of : "no optimiser",
                    begin),
         false;
}

/* Stores the hyperparameters that options give a group. Returns false after recording which is wrong. */
static bool read_values(const situ_optim *o, const situ_optim_options *options, double *value) {
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    value[f] = read_option(options, &situ__optim_fields[f]);
    if (value[f] != 0 && !situ__optim_has(o, (situ_optim_field)f))
      return situ__fail(SITU_E_ARG, situ__optim_op(o), "it has no %s", situ__optim_fields[f].name), false;
  }
  if (value[SITU_OPTIM_MAX_EVAL] == SITU_NONE) value[SITU_OPTIM_MAX_EVAL] = floor(value[SITU_OPTIM_MAX_ITER] * 5 / 4);
  return situ__optim_valid(o, value);
}

bool situ__optim_read_first(const situ_optim *o, double lr, const situ_optim_options *given, double *value) {
  const char *op = situ__optim_op(o);
  situ_optim_options own = defaults_of((int)o->rule);
  char begin[48];
  (void)snprintf(begin, sizeof begin, "situ_%s_defaults", op);
  if (!read_options(o, begin, given, &own)) return false;
  if (!isnan(own.lr) && own.lr != lr)
    return situ__fail(SITU_E_ARG, op, "lr is %g, and options.lr %g: leave the latter NAN", lr, own.lr), false;
  own.lr = lr;
  return read_values(o, &own, value);
}

bool situ__optim_read_later(const situ_optim *o, const situ_optim_options *given, double *value) {
  situ_optim_options own = options_of(o, o->defaults);
  if (!read_options(o, "situ_optim_group_options", given, &own)) return false;
  if (isnan(own.lr))
    return situ__fail(SITU_E_ARG, situ__optim_op(o), "options.lr of a later group is NAN: begin with %s()",
                      "situ_optim_group_options"),
           false;
  return read_values(o, &own, value);
}

/* ---- getting and setting ---- */

static bool has_field(const char *op, const situ_optim *o, int group, situ_optim_field field) {
  if (!situ__optim_given(op, o)) return false;
  if (group < 0 || group >= o->group_count) situ__fail(SITU_E_INDEX, op, "group %d of %d", group, o->group_count);
  else if ((unsigned)field >= SITU_OPTIM_FIELDS) situ__fail(SITU_E_ARG, op, "%d is not a hyperparameter", (int)field);
  else if (!situ__optim_has(o, field))
    situ__fail(SITU_E_ARG, op, "%s has no %s", situ__optim_op(o), situ__optim_fields[field].name);
  else return true;
  return false;
}

double situ_optim_get(const situ_optim *o, int group, situ_optim_field field) {
  return has_field("optim_get", o, group, field) ? o->groups[group].value[field] : (double)NAN;
}

situ_status situ_optim_get_options(const situ_optim *o, int group, situ_optim_options *options) {
  const char *op = "optim_get_options";
  if (!has_field(op, o, group, SITU_OPTIM_LR) || !situ__given(op, "options", options)) return situ_error();
  situ_optim_options theirs, own = options_of(o, o->groups[group].value);
  if (!situ__options_read(op, "situ_optim_group_options", options, &theirs, sizeof theirs)) return situ_error();
  own.size = options->size;
  memcpy(options, &own, own.size);
  return SITU_OK;
}

situ_status situ_optim_set(situ_optim *o, int group, situ_optim_field field, double value) {
  SITU__CLAIM(claim);
  if (!has_field("optim_set", o, group, field) || !situ__optim_change("optim_set", o, &claim)) return situ_error();
  double all[SITU_OPTIM_FIELDS];
  memcpy(all, o->groups[group].value, sizeof all);
  all[field] = situ__optim_fields[field].flag ? value != 0 : value;
  if (!situ__optim_valid(o, all)) return situ_error();
  o->groups[group].value[field] = all[field];
  return SITU_OK;
}
