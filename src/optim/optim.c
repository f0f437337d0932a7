/* Optimisers: parameters in groups, and their hyperparameters.
   SPDX-License-Identifier: MIT */
#include "optim/optim.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "optim/lbfgs.h"
#include "situ/sys/move.h"
#include "situ/sys/tensor.h"

/* ---- hyperparameters ---- */

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
#define IS(name) [SITU_RULE_##name]
#define THIS(name) [SITU__RULE_##name]
const situ__field situ__optim_fields[SITU_OPTIM_FIELDS] = {
  /* name, rules that have it, defaults that are not 0 */
  [SITU_OPTIM_LR] = { "lr",
                      ALL,
                      { IS(SGD) = 1e-3, IS(ADAM) = 1e-3, IS(ADAMW) = 1e-3, IS(RMSPROP) = 1e-2, IS(ADAGRAD) = 1e-2,
                        IS(ADADELTA) = 1, IS(ADAMAX) = 2e-3, IS(NADAM) = 2e-3, IS(RADAM) = 1e-3, IS(RPROP) = 1e-2,
                        IS(ASGD) = 1e-2, IS(LION) = 1e-4, THIS(ADAFACTOR) = 1e-2, THIS(MUON) = 1e-3, THIS(LBFGS) = 1 },
                      AT(lr),
                      false,
                      NULL },
  [SITU_OPTIM_WEIGHT_DECAY] = { "weight_decay",
                                ALL & ~(RULE(RPROP) | LBFGS),
                                { IS(ADAMW) = 1e-2, THIS(MUON) = 0.1 },
                                AT(weight_decay),
                                false,
                                NULL },
  [SITU_OPTIM_MOMENTUM] = { "momentum", SGD | RMSPROP | MUON, { THIS(MUON) = 0.95 }, AT(momentum), false, NULL },
  [SITU_OPTIM_DAMPENING] = { "dampening", SGD, { 0 }, AT(dampening), false, NULL },
  [SITU_OPTIM_BETA1] = { "beta1",
                         ADAPTIVE | RULE(LION),
                         { IS(ADAM) = 0.9, IS(ADAMW) = 0.9, IS(ADAMAX) = 0.9, IS(NADAM) = 0.9, IS(RADAM) = 0.9,
                           IS(LION) = 0.9 },
                         AT(beta1),
                         false,
                         "betas" },
  [SITU_OPTIM_BETA2] = { "beta2",
                         ADAPTIVE | RULE(LION),
                         { IS(ADAM) = 0.999, IS(ADAMW) = 0.999, IS(ADAMAX) = 0.999, IS(NADAM) = 0.999,
                           IS(RADAM) = 0.999, IS(LION) = 0.99 },
                         AT(beta2),
                         false,
                         NULL },
  [SITU_OPTIM_ALPHA] = { "alpha",
                         RMSPROP | RULE(ASGD),
                         { IS(RMSPROP) = 0.99, IS(ASGD) = 0.75 },
                         AT(alpha),
                         false,
                         NULL },
  [SITU_OPTIM_EPS] = { "eps",
                       ROOTS | ADAFACTOR | MUON,
                       { IS(ADAM) = 1e-8, IS(ADAMW) = 1e-8, IS(RMSPROP) = 1e-8, IS(ADAGRAD) = 1e-10,
                         IS(ADADELTA) = 1e-6, IS(ADAMAX) = 1e-8, IS(NADAM) = 1e-8, IS(RADAM) = 1e-8,
                         THIS(ADAFACTOR) = 1e-3, THIS(MUON) = 1e-7 },
                       AT(eps),
                       false,
                       NULL },
  [SITU_OPTIM_NESTEROV] = { "nesterov", SGD | MUON, { THIS(MUON) = 1 }, AT(nesterov), true, NULL },
  [SITU_OPTIM_AMSGRAD] = { "amsgrad", ADAM, { 0 }, AT(amsgrad), true, NULL },
  [SITU_OPTIM_CENTERED] = { "centered", RMSPROP, { 0 }, AT(centered), true, NULL },
  [SITU_OPTIM_MAXIMIZE] = { "maximize", ALL & ~MUON, { 0 }, AT(maximize), true, NULL },
  [SITU_OPTIM_MASTER_WEIGHTS] = { "master_weights", ALL & ~LBFGS, { 0 }, ONLY(master_weights), true, NULL },
  [SITU_OPTIM_RHO] = { "rho", RULE(ADADELTA), { IS(ADADELTA) = 0.9 }, AT(rho), false, NULL },
  [SITU_OPTIM_LR_DECAY] = { "lr_decay", RULE(ADAGRAD), { 0 }, AT(lr_decay), false, NULL },
  [SITU_OPTIM_INITIAL_ACCUMULATOR_VALUE] = { "initial_accumulator_value",
                                             RULE(ADAGRAD),
                                             { 0 },
                                             ONLY(initial_accumulator_value),
                                             false,
                                             NULL },
  [SITU_OPTIM_MOMENTUM_DECAY] = { "momentum_decay",
                                  RULE(NADAM),
                                  { IS(NADAM) = 4e-3 },
                                  AT(momentum_decay),
                                  false,
                                  NULL },
  [SITU_OPTIM_DECOUPLED_WEIGHT_DECAY] = { "decoupled_weight_decay",
                                          RULE(NADAM) | RULE(RADAM),
                                          { 0 },
                                          AT(decoupled_weight_decay),
                                          true,
                                          NULL },
  [SITU_OPTIM_ETAMINUS] = { "etaminus", RULE(RPROP), { IS(RPROP) = 0.5 }, AT(etaminus), false, "etas" },
  [SITU_OPTIM_ETAPLUS] = { "etaplus", RULE(RPROP), { IS(RPROP) = 1.2 }, AT(etaplus), false, NULL },
  [SITU_OPTIM_STEP_SIZE_MIN] = { "step_size_min",
                                 RULE(RPROP),
                                 { IS(RPROP) = 1e-6 },
                                 AT(step_size_min),
                                 false,
                                 "step_sizes" },
  [SITU_OPTIM_STEP_SIZE_MAX] = { "step_size_max", RULE(RPROP), { IS(RPROP) = 50 }, AT(step_size_max), false, NULL },
  [SITU_OPTIM_LAMBD] = { "lambd", RULE(ASGD), { IS(ASGD) = 1e-4 }, AT(lambd), false, NULL },
  [SITU_OPTIM_T0] = { "t0", RULE(ASGD), { IS(ASGD) = 1e6 }, AT(t0), false, NULL },
  [SITU_OPTIM_EPS1] = { "eps1", ADAFACTOR, { 0 }, ONLY(eps1), false, NULL },
  [SITU_OPTIM_BETA2_DECAY] = { "beta2_decay", ADAFACTOR, { THIS(ADAFACTOR) = -0.8 }, ONLY(beta2_decay), false, NULL },
  [SITU_OPTIM_D] = { "d", ADAFACTOR, { THIS(ADAFACTOR) = 1 }, ONLY(d), false, NULL },
  [SITU_OPTIM_NS_A] = { "ns_a", MUON, { THIS(MUON) = 3.4445 }, ONLY(ns_a), false, NULL },
  [SITU_OPTIM_NS_B] = { "ns_b", MUON, { THIS(MUON) = -4.775 }, ONLY(ns_b), false, NULL },
  [SITU_OPTIM_NS_C] = { "ns_c", MUON, { THIS(MUON) = 2.0315 }, ONLY(ns_c), false, NULL },
  [SITU_OPTIM_NS_STEPS] = { "ns_steps", MUON, { THIS(MUON) = 5 }, ONLY(ns_steps), false, NULL },
  [SITU_OPTIM_ADJUST_LR_FN] = { "adjust_lr_fn", MUON, { 0 }, ONLY(adjust_lr_fn), false, NULL },
  [SITU_OPTIM_MAX_ITER] = { "max_iter", LBFGS, { THIS(LBFGS) = 20 }, ONLY(max_iter), false, NULL },
  [SITU_OPTIM_MAX_EVAL] = { "max_eval", LBFGS, { 0 }, ONLY(max_eval), false, NULL },
  [SITU_OPTIM_TOLERANCE_GRAD] = { "tolerance_grad", LBFGS, { THIS(LBFGS) = 1e-7 }, ONLY(tolerance_grad), false, NULL },
  [SITU_OPTIM_TOLERANCE_CHANGE] = { "tolerance_change",
                                    LBFGS,
                                    { THIS(LBFGS) = 1e-9 },
                                    ONLY(tolerance_change),
                                    false,
                                    NULL },
  [SITU_OPTIM_HISTORY_SIZE] = { "history_size", LBFGS, { THIS(LBFGS) = 100 }, ONLY(history_size), false, NULL },
  [SITU_OPTIM_LINE_SEARCH_FN] = { "line_search_fn", LBFGS, { 0 }, ONLY(line_search_fn), false, NULL },
};
#undef AT
#undef ONLY
#undef IS
#undef THIS
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

static bool is_rule(const situ_optim *o, int rule) { return (int)o->rule == rule; }

/* Fields whose range is not "at least 0". */
static bool signed_field(int f) {
  return f == SITU_OPTIM_DAMPENING || f == SITU_OPTIM_BETA2_DECAY || (f >= SITU_OPTIM_NS_A && f <= SITU_OPTIM_NS_C);
}

static bool is_count(double value) { return value >= 1 && value < 1e9 && value == floor(value); }

static bool lbfgs_valid(const situ_optim *o, const double *value) {
  static const situ_optim_field counts[] = { SITU_OPTIM_MAX_ITER, SITU_OPTIM_MAX_EVAL, SITU_OPTIM_HISTORY_SIZE };
  const double search = value[SITU_OPTIM_LINE_SEARCH_FN];
  for (int i = 0; i < 3; i++)
    if (!is_count(value[counts[i]]))
      return situ__fail(SITU_E_ARG, situ__optim_op(o), "%s is %g: must be a whole number, 1 to 1e9",
                        situ__optim_fields[counts[i]].name, value[counts[i]]),
             false;
  if (search == SITU_LINE_SEARCH_NONE || search == SITU_LINE_SEARCH_STRONG_WOLFE) return true;
  return situ__fail(SITU_E_ARG, situ__optim_op(o), "line_search_fn is %g: must be a situ_line_search", search), false;
}

static bool composed_valid(const situ_optim *o, const double *value) {
  if (is_rule(o, SITU__RULE_LBFGS)) return lbfgs_valid(o, value);
  const double steps = value[SITU_OPTIM_NS_STEPS], adjust = value[SITU_OPTIM_ADJUST_LR_FN];
  if (is_rule(o, SITU__RULE_ADAFACTOR) && (value[SITU_OPTIM_BETA2_DECAY] > 0 || value[SITU_OPTIM_D] < 1))
    situ__fail(SITU_E_ARG, situ__optim_op(o), "beta2_decay is %g and d %g: must be at most 0, and at least 1",
               value[SITU_OPTIM_BETA2_DECAY], value[SITU_OPTIM_D]);
  else if (is_rule(o, SITU__RULE_MUON) && (steps >= 100 || steps != floor(steps)))
    situ__fail(SITU_E_ARG, situ__optim_op(o), "ns_steps is %g: must be a whole number below 100", steps);
  else if (is_rule(o, SITU__RULE_MUON) && adjust != 0 && adjust != 1 && adjust != 2)
    situ__fail(SITU_E_ARG, situ__optim_op(o), "adjust_lr_fn is %g: must be a situ_muon_adjust", adjust);
  else return true;
  return false;
}

bool situ__optim_valid(const situ_optim *o, const double *value) {
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    bool below_one = f == SITU_OPTIM_BETA1 || f == SITU_OPTIM_BETA2;
    if (signed_field(f) ? isfinite(value[f]) : value[f] >= 0 && value[f] < (below_one ? 1 : INFINITY)) continue;
    return situ__fail(SITU_E_ARG, situ__optim_op(o), "%s is %g: it must be at least 0 and %s",
                      situ__optim_fields[f].name, value[f], below_one ? "below 1" : "finite"),
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
  if (value[SITU_OPTIM_NESTEROV] == 0 || is_rule(o, SITU__RULE_MUON) ||
      (value[SITU_OPTIM_MOMENTUM] > 0 && value[SITU_OPTIM_DAMPENING] == 0))
    return true;
  return situ__fail(SITU_E_ARG, situ__optim_op(o), "nesterov needs a momentum above 0, and no dampening"), false;
}

/* Overrides value[] with the options that are set. */
static bool apply(const situ_optim *o, const situ_optim_options *options, double *value) {
  if (options && options->zero >> SITU_OPTIM_FIELDS)
    return situ__fail(SITU_E_ARG, situ__optim_op(o), "zero is 0x%" PRIx64 ": only bits SITU_OPTIM_ZERO(...) of fields",
                      options->zero),
           false;
  for (int f = 0; options && f < SITU_OPTIM_FIELDS; f++) {
    double given = read_option(options, &situ__optim_fields[f]);
    bool zero = options->zero >> f & 1;
    if (given == 0 && !zero) continue;
    if (!situ__optim_has(o, (situ_optim_field)f) || (given != 0 && zero))
      return situ__fail(SITU_E_ARG, situ__optim_op(o),
                        given != 0 && zero ? "%s is given, and said to be 0" : "it has no %s",
                        situ__optim_fields[f].name),
             false;
    value[f] = given;
  }
  if (value[SITU_OPTIM_MAX_EVAL] == 0 && !(options && options->zero & SITU_OPTIM_ZERO(MAX_EVAL)))
    value[SITU_OPTIM_MAX_EVAL] = floor(value[SITU_OPTIM_MAX_ITER] * 5 / 4); /* torch's default */
  return situ__optim_valid(o, value);
}

/* ---- groups ---- */

static situ_status can_add(const situ_optim *o, const char *name, situ_tensor *p, situ__map *seen) {
  const char *op = situ__optim_op(o);
  if (!situ_dtype_is_floating(situ_dtype_of(p)))
    return situ__fail(SITU_E_DTYPE, op, "%s is %s: only floating tensors can be optimised", name,
                      situ_dtype_name(situ_dtype_of(p)));
  if (!situ_is_leaf(p))
    return situ__fail(SITU_E_ARG, op, "%s is the result of an op: only leaves can be optimised", name);
  if (is_rule(o, SITU__RULE_MUON) && situ_dim(p) != 2)
    return situ__fail(SITU_E_SHAPE, op, "%s has %d dimensions: Muon is for matrices", name, situ_dim(p));
  if (situ__map_get(seen, p)) return situ__fail(SITU_E_ARG, op, "%s is in the optimiser already", name);
  return situ__map_put(seen, p, p) ? SITU_OK : situ__no_memory(op, sizeof(void *));
}

static situ_status check_new(const situ_optim *o, const situ_tree *flat) {
  situ__map seen = { 0 };
  situ_status status = SITU_OK;
  if (situ_tree_count(flat) == 0) return situ__fail(SITU_E_ARG, situ__optim_op(o), "no parameters");
  for (int64_t i = 0; i < o->count && status == SITU_OK; i++)
    if (!situ__map_put(&seen, o->items[i].param, o->items[i].param))
      status = situ__no_memory(situ__optim_op(o), sizeof(void *));
  for (int64_t i = 0; i < situ_tree_count(flat) && status == SITU_OK; i++)
    status = can_add(o, situ_tree_key(flat, i), situ_tree_tensor_at(flat, i), &seen);
  situ__map_free(&seen);
  return status;
}

/* Enlarges the arrays. On failure each is as large as before or larger, and valid. */
static bool grow(situ_optim *o, int64_t count) {
  size_t n = (size_t)(o->count + count);
  situ__optim_lock();
  void *items = situ__realloc(o->items, n * sizeof *o->items);
  if (items) o->items = items;
  situ__optim_unlock();
  void *active = situ__realloc(o->active, n * sizeof *o->active);
  if (active) o->active = active;
  void *names = situ__realloc(o->names, n * sizeof *o->names);
  if (names) o->names = names;
  void *registered = situ__realloc(o->registered, n * sizeof *o->registered);
  if (registered) o->registered = registered;
  void *groups = situ__realloc(o->groups, (size_t)(o->group_count + 1) * sizeof *o->groups);
  if (groups) o->groups = groups;
  void *lists = situ__realloc(o->lists, (size_t)(o->group_count + 1) * sizeof *o->lists);
  if (lists) o->lists = lists;
  return items && active && names && registered && groups && lists;
}

static situ_status add_group(situ_optim *o, const situ_tree *flat, const double *value) {
  int64_t count = situ_tree_count(flat);
  situ_status status = check_new(o, flat);
  if (status != SITU_OK) return status;
  if (!grow(o, count)) return situ__no_memory(situ__optim_op(o), (size_t)count * sizeof *o->items);
  for (int64_t i = 0; i < count; i++) {
    char *name = situ__strdup(situ_tree_key(flat, i));
    if (!name) {
      while (i-- > 0) {
        situ__free(o->names[o->count + i]);
        situ_release(o->items[o->count + i].param);
      }
      return situ__no_memory(situ__optim_op(o), 1);
    }
    o->names[o->count + i] = name;
    o->registered[o->count + i] = situ_is_registered(situ_tree_tensor_at(flat, i));
    o->items[o->count + i] = (situ_optimizer_tensors){ .param = situ_retain(situ_tree_tensor_at(flat, i)) };
  }
  situ__group *group = &o->groups[o->group_count++];
  *group = (situ__group){ .first = o->count, .count = count };
  memcpy(group->value, value, sizeof group->value);
  situ__optim_lock();
  o->count += count;
  situ__optim_unlock();
  return SITU_OK;
}

situ_status situ_optim_add_param_group(situ_optim *o, situ_tree *parameters, const situ_optim_options *options) {
  const char *op = "optim_add_param_group";
  SITU__CLAIM(claim);
  bool given = situ__optim_given(op, o) && situ__valid(op, "parameters", parameters, SITU__A_TREE);
  situ_status status = given && situ__optim_claim(op, o, &claim) ? SITU_OK : situ_error();
  if (status == SITU_OK && is_rule(o, SITU__RULE_LBFGS) && o->group_count)
    status = situ__fail(SITU_E_UNSUPPORTED, op, "LBFGS has one parameter group: all parameters are one vector");
  if (status == SITU_OK) {
    double value[SITU_OPTIM_FIELDS];
    memcpy(value, o->defaults, sizeof value);
    situ_tree *flat = apply(o, options, value) ? situ_tree_flatten(parameters) : NULL;
    status = flat ? add_group(o, flat, value) : situ_error();
    situ_tree_free(flat);
  }
  situ_tree_free(parameters);
  return status;
}

static situ_optim *make(int rule, situ_tree *parameters, const situ_optim_options *options) {
  situ_optim *o = situ__handle_new(SITU__AN_OPTIMISER, sizeof *o);
  if (!o) {
    situ__no_memory("optim", sizeof *o);
    situ_tree_free(parameters);
    return NULL;
  }
  o->rule = (situ_optimizer_rule)rule;
  o->refs = 1;
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) o->defaults[f] = situ__optim_fields[f].otherwise[rule];
  if (!apply(o, options, o->defaults)) situ_tree_free(parameters);
  else if (situ_optim_add_param_group(o, parameters, NULL) == SITU_OK) return o;
  situ_optim_free(o);
  return NULL;
}

situ_optim *situ_optim_sgd(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_SGD, parameters, options);
}
situ_optim *situ_optim_adam(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_ADAM, parameters, options);
}
situ_optim *situ_optim_adamw(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_ADAMW, parameters, options);
}
situ_optim *situ_optim_rmsprop(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_RMSPROP, parameters, options);
}
situ_optim *situ_optim_adagrad(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_ADAGRAD, parameters, options);
}
situ_optim *situ_optim_adadelta(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_ADADELTA, parameters, options);
}
situ_optim *situ_optim_adamax(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_ADAMAX, parameters, options);
}
situ_optim *situ_optim_nadam(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_NADAM, parameters, options);
}
situ_optim *situ_optim_radam(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_RADAM, parameters, options);
}
situ_optim *situ_optim_rprop(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_RPROP, parameters, options);
}
situ_optim *situ_optim_asgd(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_ASGD, parameters, options);
}
situ_optim *situ_optim_lion(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU_RULE_LION, parameters, options);
}

situ_optim *situ_optim_adafactor(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU__RULE_ADAFACTOR, parameters, options);
}
situ_optim *situ_optim_muon(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU__RULE_MUON, parameters, options);
}
situ_optim *situ_optim_lbfgs(situ_tree *parameters, const situ_optim_options *options) {
  return make(SITU__RULE_LBFGS, parameters, options);
}

void situ__optim_drop_state(situ_tensor **state) {
  if (*state) SITU_IGNORE(situ_follow(*state, NULL));
  situ_drop(state);
}

static void drop_states(situ_optim *o) {
  for (int64_t i = 0; i < o->count; i++) {
    for (int k = 0; k < 3; k++) situ__optim_drop_state(&o->items[i].state[k]);
    situ__optim_drop_state(&o->items[i].master);
  }
  situ__lbfgs_free(o->lbfgs);
  o->lbfgs = NULL;
}

/* Parameters are used, not claimed: a forward beside this is right, but a move of them would look at states that go. */
void situ_optim_free(situ_optim *o) {
  const char *op = "optim_free";
  SITU__CLAIM(claim);
  situ__use use;
  if (!o || !situ__optim_given(op, o) || !situ__optim_change(op, o, &claim) || !situ__optim_use(op, o, &use)) return;
  situ__use_end();
  situ__handle_close(o);
  situ__optim_let_go(o);
}

void situ__optim_let_go(situ_optim *o) {
  if (!o || __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  situ__use use;
  situ__optim_await(o, &use);
  drop_states(o);
  situ__use_end();
  for (int64_t i = 0; i < o->count; i++) {
    situ_release(o->items[i].param);
    situ__free(o->names[i]);
  }
  situ__free(o->items);
  situ__free(o->active);
  situ__free(o->names);
  situ__free(o->registered);
  situ__free(o->groups);
  situ__free(o->lists);
  situ__handle_free(o, sizeof *o, situ__optim_op(o));
}

situ_status situ_optim_to(situ_optim *o, situ_device device) {
  const char *op = "optim_to";
  SITU__CLAIM(claim);
  if (!situ__optim_given(op, o) || !situ__optim_claim(op, o, &claim)) return situ_error();
  if (!device.kind) device = situ_get_default_device();
  const int64_t history = situ__lbfgs_tensors(o->lbfgs);
  const size_t most = (size_t)o->count * (1 + SITU_OPTIM_STATES) + (size_t)history;
  situ_move_request *list = situ__alloc(most * sizeof *list);
  if (!list) return situ__no_memory(op, most * sizeof *list);
  int64_t count = 0;
  for (int64_t i = 0; i < o->count; i++) {
    list[count++] = (situ_move_request){ o->items[i].param, device, SITU_DTYPE_DEFAULT };
    for (int k = 0; k < SITU_OPTIM_STATES; k++) {
      situ_tensor *state = situ_optim_state(o, i, k, NULL);
      if (state) list[count++] = (situ_move_request){ state, device, SITU_DTYPE_DEFAULT };
    }
  }
  for (int64_t i = 0; i < history; i++)
    list[count++] = (situ_move_request){ situ__lbfgs_tensor(o->lbfgs, i), device, SITU_DTYPE_DEFAULT };
  situ_move_plan *moving = situ_move_plan_new(op, list, count);
  situ_status status = moving ? situ_move_plan_run(moving, false) : situ_error();
  situ_move_plan_free(moving);
  situ__free(list);
  return status;
}

/* ---- getting and setting ---- */

int situ_optim_groups(const situ_optim *o) { return o && situ__optim_given("optim_groups", o) ? o->group_count : 0; }
int64_t situ_optim_count(const situ_optim *o) { return o && situ__optim_given("optim_count", o) ? o->count : 0; }

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

static bool has_param(const char *op, const situ_optim *o, int64_t i) {
  if (!situ__optim_given(op, o)) return false;
  if (i < 0 || i >= o->count) situ__fail(SITU_E_INDEX, op, "parameter %" PRId64 " of %" PRId64, i, o->count);
  else return true;
  return false;
}

situ_tensor *situ_optim_param(const situ_optim *o, int64_t i, const char **name) {
  if (!has_param("optim_param", o, i)) return NULL;
  if (name) *name = o->names[i];
  return o->items[i].param;
}

const char *situ__optim_state_name(const situ_optim *o, int k) {
  static const char *const names[][SITU_OPTIM_STATES - 1] = {
    [SITU_RULE_SGD] = { "momentum_buffer" },
    [SITU_RULE_ADAM] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" },
    [SITU_RULE_ADAMW] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" },
    [SITU_RULE_RMSPROP] = { "square_avg", "momentum_buffer", "grad_avg" },
    [SITU_RULE_ADAGRAD] = { "sum" },
    [SITU_RULE_ADADELTA] = { "square_avg", "acc_delta" },
    [SITU_RULE_ADAMAX] = { "exp_avg", "exp_inf" },
    [SITU_RULE_NADAM] = { "exp_avg", "exp_avg_sq" },
    [SITU_RULE_RADAM] = { "exp_avg", "exp_avg_sq" },
    [SITU_RULE_RPROP] = { "prev", "step_size" },
    [SITU_RULE_ASGD] = { "ax" },
    [SITU_RULE_LION] = { "exp_avg" },
    [SITU__RULE_ADAFACTOR] = { "row_var", "col_var", "variance" },
    [SITU__RULE_MUON] = { "momentum_buffer" },
    [SITU__RULE_LBFGS] = { NULL },
  };
  return k < SITU_OPTIM_STATES - 1 ? names[o->rule][k] : "master";
}

bool situ__optim_has_master(const situ_tensor *param, const double *value) {
  const situ_dtype dtype = situ_dtype_of(param);
  return value[SITU_OPTIM_MASTER_WEIGHTS] != 0 && (dtype == SITU_F16 || dtype == SITU_BF16);
}

bool situ__optim_counts_steps(const situ_optim *o) {
  return o->rule != SITU_RULE_SGD && !is_rule(o, SITU__RULE_MUON) && !is_rule(o, SITU__RULE_LBFGS);
}

/* Adafactor's means over columns and over rows of a matrix. */
situ_shape situ__optim_state_shape(const situ_optim *o, const situ_tensor *param, int k) {
  situ_shape shape = situ_shape_of(param);
  if (is_rule(o, SITU__RULE_ADAFACTOR) && k < 2 && shape.ndim > 1) shape.dim[shape.ndim - 1 - k] = 1;
  return shape;
}

bool situ__optim_uses(const situ_optim *o, const situ_tensor *param, const double *value, int k) {
  if (is_rule(o, SITU__RULE_LBFGS)) return false;
  if (is_rule(o, SITU__RULE_MUON)) return k == 0;
  if (is_rule(o, SITU__RULE_ADAFACTOR)) return (k == 2) == (situ_dim(param) < 2);
  const situ_optimizer_params params = { .momentum = value[SITU_OPTIM_MOMENTUM],
                                         .amsgrad = value[SITU_OPTIM_AMSGRAD] != 0,
                                         .centered = value[SITU_OPTIM_CENTERED] != 0 };
  return situ_optimizer_states(o->rule, &params) >> k & 1;
}

situ_tensor *situ_optim_state(const situ_optim *o, int64_t i, int k, const char **name) {
  if (!has_param("optim_state", o, i) || k < 0 || k >= SITU_OPTIM_STATES) return NULL;
  if (name) *name = situ__optim_state_name(o, k);
  return k < SITU_OPTIM_STATES - 1 ? o->items[i].state[k] : o->items[i].master;
}
