/* Optimisers: parameters in groups.
   SPDX-License-Identifier: MIT */
#include "optim/optim.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "base/watch.h"
#include "optim/lbfgs.h"
#include "situ/sys/move.h"
#include "situ/sys/tensor.h"

/* ---- groups ---- */

static situ_status can_add(const situ_optim *o, const char *name, situ_tensor *p, situ__map *seen) {
  const char *op = situ__optim_op(o);
  if (!situ_dtype_is_floating(situ_dtype_of(p)))
    return situ__fail(SITU_E_DTYPE, op, "%s is %s: only floating tensors can be optimised", name,
                      situ_dtype_name(situ_dtype_of(p)));
  if (!situ_is_leaf(p))
    return situ__fail(
        SITU_E_ARG, op,
        "%s is the result of an op: only leaves can be optimised; give it the tensor that it was made of (situ_to "
        "makes a copy, situ_to_ moves the leaf itself), or a leaf with its values (situ_detach, "
        "situ_requires_grad_)",
        name);
  if (situ__optim_is(o, SITU__RULE_MUON) && situ_dim(p) != 2)
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
  if (status == SITU_OK && situ__optim_is(o, SITU__RULE_LBFGS) && o->group_count)
    status = situ__fail(SITU_E_UNSUPPORTED, op, "LBFGS has one parameter group: all parameters are one vector");
  if (status == SITU_OK) {
    double value[SITU_OPTIM_FIELDS];
    memcpy(value, o->defaults, sizeof value);
    situ_tree *flat = situ__optim_read_later(o, options, value) ? situ_tree_flatten(parameters) : NULL;
    status = flat ? add_group(o, flat, value) : situ_error();
    situ_tree_free(flat);
  }
  situ_tree_free(parameters);
  return status;
}

static situ_optim *make(int rule, situ_tree *parameters, double lr, const situ_optim_options *options) {
  situ_optim *o = situ__handle_new(SITU__AN_OPTIMISER, sizeof *o);
  if (!o) {
    situ__no_memory("optim", sizeof *o);
    situ_tree_free(parameters);
    return NULL;
  }
  o->rule = (situ_optimizer_rule)rule;
  o->refs = 1;
  if (!situ__optim_read_first(o, lr, options, o->defaults)) situ_tree_free(parameters);
  else if (situ_optim_add_param_group(o, parameters, NULL) == SITU_OK) {
    if (situ__watching) situ__watching->optimiser(o, true);
    return o;
  }
  situ_optim_free(o);
  return NULL;
}

/* The parameters of a group of a twin. */
static situ_tree *twins_of(const situ_optim *o, const situ__group *group, const situ__map *twin) {
  situ_tree *list = situ_tree_dict();
  for (int64_t i = group->first; i < group->first + group->count && list; i++) {
    situ_tensor *to = situ__map_get(twin, o->items[i].param);
    if (to) list = situ_tree_put(list, o->names[i], situ_tree_tensor(to));
  }
  return list;
}

/* Maps tensors of one tree to those of another under the same paths. */
static bool map_twins(const char *op, const situ_tree *from, const situ_tree *to, situ__map *twin) {
  for (int64_t i = 0; i < situ_tree_count(from); i++) {
    const situ_tree *found = situ_tree_find(to, situ_tree_key(from, i));
    if (found && !situ__map_put(twin, situ_tree_tensor_at(from, i), situ_tree_value(found)))
      return situ__no_memory(op, sizeof(void *)), false;
  }
  return true;
}

situ_optim *situ_optim_twin(const situ_optim *o, const situ_tree *from, const situ_tree *to) {
  const char *op = "optim_twin";
  situ__use use;
  if (!situ__optim_given(op, o) || !situ__valid(op, "from", from, SITU__A_TREE) ||
      !situ__valid(op, "to", to, SITU__A_TREE) || !situ__optim_use(op, o, &use))
    return NULL;
  situ__map twin = { 0 };
  situ_tree *old = situ_tree_flatten(from), *new = old ? situ_tree_flatten(to) : NULL;
  situ_optim *made = new ? situ__handle_new(SITU__AN_OPTIMISER, sizeof *made) : NULL;
  if (new && !made) situ__no_memory(op, sizeof *made);
  bool good = made && map_twins(op, old, new, &twin);
  if (made) {
    made->rule = o->rule;
    made->refs = 1;
    memcpy(made->defaults, o->defaults, sizeof made->defaults);
  }
  for (int g = 0; g < o->group_count && good; g++) {
    situ_tree *list = twins_of(o, &o->groups[g], &twin);
    good = list && (!situ_tree_count(list) || add_group(made, list, o->groups[g].value) == SITU_OK);
    situ_tree_free(list);
  }
  situ__use_end();
  situ__map_free(&twin);
  situ_tree_free(old);
  situ_tree_free(new);
  if (good) return made;
  situ_optim_free(made);
  return NULL;
}

situ_optim *situ_optim_sgd(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_SGD, parameters, lr, options);
}
situ_optim *situ_optim_adam(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_ADAM, parameters, lr, options);
}
situ_optim *situ_optim_adamw(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_ADAMW, parameters, lr, options);
}
situ_optim *situ_optim_rmsprop(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_RMSPROP, parameters, lr, options);
}
situ_optim *situ_optim_adagrad(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_ADAGRAD, parameters, lr, options);
}
situ_optim *situ_optim_adadelta(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_ADADELTA, parameters, lr, options);
}
situ_optim *situ_optim_adamax(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_ADAMAX, parameters, lr, options);
}
situ_optim *situ_optim_nadam(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_NADAM, parameters, lr, options);
}
situ_optim *situ_optim_radam(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_RADAM, parameters, lr, options);
}
situ_optim *situ_optim_rprop(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_RPROP, parameters, lr, options);
}
situ_optim *situ_optim_asgd(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_ASGD, parameters, lr, options);
}
situ_optim *situ_optim_lion(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU_RULE_LION, parameters, lr, options);
}

situ_optim *situ_optim_adafactor(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU__RULE_ADAFACTOR, parameters, lr, options);
}
situ_optim *situ_optim_muon(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU__RULE_MUON, parameters, lr, options);
}
situ_optim *situ_optim_lbfgs(situ_tree *parameters, double lr, const situ_optim_options *options) {
  return make(SITU__RULE_LBFGS, parameters, lr, options);
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
  if (situ__watching) situ__watching->optimiser(o, false);
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
  return o->rule != SITU_RULE_SGD && !situ__optim_is(o, SITU__RULE_MUON) && !situ__optim_is(o, SITU__RULE_LBFGS);
}

/* Adafactor's means over columns and over rows of a matrix. */
situ_shape situ__optim_state_shape(const situ_optim *o, const situ_tensor *param, int k) {
  situ_shape shape = situ_shape_of(param);
  if (situ__optim_is(o, SITU__RULE_ADAFACTOR) && k < 2 && shape.ndim > 1) shape.dim[shape.ndim - 1 - k] = 1;
  return shape;
}

bool situ__optim_uses(const situ_optim *o, const situ_tensor *param, const double *value, int k) {
  if (situ__optim_is(o, SITU__RULE_LBFGS)) return false;
  if (situ__optim_is(o, SITU__RULE_MUON)) return k == 0;
  if (situ__optim_is(o, SITU__RULE_ADAFACTOR)) return (k == 2) == (situ_dim(param) < 2);
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
