/* Saving an optimiser's state as a tree, and loading it: torch's layout.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/lbfgs.h"
#include "optim/optim.h"
#include "optim/record.h"
#include "situ/ops.h"
#include "situ/sys/load.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* ---- saving ---- */

static situ_tree *save_item(const situ_optim *o, int64_t i) {
  const situ_optimizer_tensors *item = &o->items[i];
  situ_tree *dict = situ_tree_dict();
  if (situ__optim_counts_steps(o)) dict = situ_tree_put(dict, "step", situ__record_integer(item->step));
  if (o->rule == SITU_RULE_NADAM) dict = situ_tree_put(dict, "mu_product", situ__record_number(item->mu_product));
  for (int k = 0; k < 3; k++)
    if (item->state[k]) dict = situ_tree_put(dict, situ__optim_state_name(o, k), situ_tree_tensor(item->state[k]));
  if (item->master) dict = situ_tree_put(dict, "master", situ_tree_tensor(item->master));
  return dict;
}

/* In files eps1 0 is torch's None, and -1 is 0: files are older than the option 0. */
static double value_in_file(int f, double value) {
  if (f != SITU_OPTIM_EPS1) return value;
  return value == SITU_NONE ? 0 : value == 0 ? -1 : value;
}
static double value_of_file(int f, double value) {
  if (f != SITU_OPTIM_EPS1) return value;
  return value == 0 ? SITU_NONE : value == -1 ? 0 : value;
}

/* Torch's Adam and AdamW are one optimiser, which has this as an option; here it tells their states apart. */
#define DECOUPLED "decoupled_weight_decay"
static bool is_adam(int rule) { return rule == SITU_RULE_ADAM || rule == SITU_RULE_ADAMW; }

static situ_tree *save_group(const situ_optim *o, const situ__group *group) {
  situ_tree *dict = situ_tree_dict();
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    if (!situ__optim_has(o, (situ_optim_field)f) || situ__optim_is_second(f)) continue;
    const char *pair = situ__optim_fields[f].pair;
    /* torch does not have this field, so it is saved only if it is on. */
    if (f == SITU_OPTIM_MASTER_WEIGHTS && group->value[f] == 0) continue;
    if (pair) dict = situ_tree_put(dict, pair, situ__record_numbers(&group->value[f], 2));
    else dict = situ_tree_put(dict, situ__optim_fields[f].name, situ__record_number(value_in_file(f, group->value[f])));
  }
  if (is_adam(o->rule)) dict = situ_tree_put(dict, DECOUPLED, situ__record_number(o->rule == SITU_RULE_ADAMW));
  if (group->has_initial_lr) dict = situ_tree_put(dict, "initial_lr", situ__record_number(group->initial_lr));
  return situ_tree_put(dict, "params", situ__record_range(group->first, group->count));
}

situ_tree *situ_optim_state_dict(const situ_optim *o) {
  SITU__MADE_OF_OPS("optim_state_dict");
  if (!situ__optim_given("optim_state_dict", o)) return NULL;
  situ_scope scope;
  situ__use use;
  if (!situ__optim_use("optim_state_dict", o, &use)) return NULL;
  situ_scope_begin_no_grad(&scope);
  situ_tree *state = situ_tree_dict(), *groups = situ_tree_list();
  if (o->lbfgs) state = situ_tree_put(state, "0", situ__lbfgs_save(o->lbfgs));
  for (int64_t i = 0; i < o->count && state; i++) {
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, i);
    if (o->items[i].step || o->items[i].state[0] || o->items[i].master)
      state = situ_tree_put(state, name, save_item(o, i));
  }
  for (int g = 0; g < o->group_count && groups; g++) groups = situ_tree_append(groups, save_group(o, &o->groups[g]));
  situ_tree *all = situ_tree_put(situ_tree_put(situ_tree_dict(), "state", state), "param_groups", groups);
  SITU_IGNORE(situ_scope_end(&scope));
  situ__use_end();
  return all;
}

/* ---- loading ---- */

struct situ_optim_loading {
  uint32_t head;
  situ__claim claim;
  situ_optim *o;
  situ__group *groups;
  situ_optimizer_tensors *items;
  situ__lbfgs *lbfgs; /* NULL for other rules */
};

/* ---- the rule of a state ---- */

/* Options, a bit for each; a pair has the first one's. */
static uint64_t options_of_rule(int rule) {
  uint64_t bits = 0;
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++)
    if (!situ__optim_is_second(f)) bits |= (uint64_t)(situ__optim_fields[f].rules >> rule & 1) << f;
  return bits;
}
static uint64_t options_of_group(const situ_tree *flat, int g) {
  uint64_t bits = 0;
  char path[64];
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    const char *pair = situ__optim_fields[f].pair;
    if (situ__optim_is_second(f)) continue;
    snprintf(path, sizeof path, "param_groups.%d.%s", g, pair ? pair : situ__optim_fields[f].name);
    bits |= (uint64_t)(situ__record_find(flat, path) != NULL) << f;
  }
  return bits;
}

/* "adamw" */
static const char *name_of_rule(int rule) {
  return situ__optim_op(&(situ_optim){ .rule = (situ_optimizer_rule)rule }) + strlen("optim_");
}

/* Whether the rule's state has this name of a tensor. */
static bool has_state(int rule, const char *name) {
  const situ_optim o = { .rule = (situ_optimizer_rule)rule };
  for (int k = 0; k < SITU_OPTIM_STATES - 1; k++) {
    const char *other = situ__optim_state_name(&o, k);
    if (other && strcmp(other, name) == 0) return true;
  }
  return false;
}

/* Whether the state has a tensor that o's rule has, and `other` has not. */
static bool has_own_state(const situ_optim *o, const situ_tree *flat, int other) {
  char path[96];
  for (int k = 0; k < SITU_OPTIM_STATES - 1; k++) {
    const char *name = situ__optim_state_name(o, k);
    for (int64_t i = 0; name && !has_state(other, name) && i < o->count; i++) {
      snprintf(path, sizeof path, "state.%" PRId64 ".%s", i, name);
      if (situ__record_find(flat, path)) return true;
    }
  }
  return false;
}

#define OPTION(field) ((uint64_t)1 << SITU_OPTIM_##field)
/* Older versions of torch do not write the first, and situ writes the second only if it is on. */
#define SOMETIMES (OPTION(MAXIMIZE) | OPTION(MASTER_WEIGHTS))

/* Sets *rule to the one that has the options of a group; SITU__OPTIM_RULES: none has. Returns false after recording an
   error. */
static bool find_rule(const situ_optim *o, const situ_tree *flat, int g, uint64_t saved, int *rule) {
  char path[64];
  double value;
  const bool told = saved & OPTION(DECOUPLED_WEIGHT_DECAY);
  if (saved & OPTION(AMSGRAD)) saved &= ~OPTION(DECOUPLED_WEIGHT_DECAY);
  *rule = 0;
  while (*rule < SITU__OPTIM_RULES && ((options_of_rule(*rule) ^ saved) & ~SOMETIMES)) ++*rule;
  if (!is_adam(*rule)) return true;
  if (!told) return *rule = is_adam(o->rule) ? (int)o->rule : *rule, true;
  snprintf(path, sizeof path, "param_groups.%d." DECOUPLED, g);
  return situ__record_read(flat, path, &value, 1) && (*rule = value != 0 ? SITU_RULE_ADAMW : SITU_RULE_ADAM, true);
}

/* Checks by a group's options that its state is of the optimiser's rule: of another's, values would be missing, and the
   training would go on without them. Groups of older versions of torch lack some options. */
static bool check_rule(const situ_optim *o, const situ_tree *flat, int g) {
  static const char op[] = "optim_load_state_dict";
  const uint64_t saved = options_of_group(flat, g);
  const uint64_t kept = is_adam(o->rule) ? OPTION(DECOUPLED_WEIGHT_DECAY) : 0;
  const uint64_t foreign = saved & ~(options_of_rule(o->rule) | SOMETIMES | kept);
  int rule;
  if (!find_rule(o, flat, g, saved, &rule)) return false;
  if (rule == (int)o->rule) return true;
  if (rule < SITU__OPTIM_RULES && (foreign || is_adam(rule) || !has_own_state(o, flat, rule)))
    return situ__fail(SITU_E_ARG, op, "the state is of %s, and the optimiser is %s", name_of_rule(rule),
                      name_of_rule(o->rule)),
           false;
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++)
    if (foreign >> f & 1)
      return situ__fail(SITU_E_ARG, op, "the state has the option %s, which %s has not", situ__optim_fields[f].name,
                        name_of_rule(o->rule)),
             false;
  return true;
}

static bool load_group(const situ_optim *o, const situ_tree *flat, int g, situ__group *group) {
  char path[64];
  int64_t params;
  *group = o->groups[g];
  snprintf(path, sizeof path, "param_groups.%d.params", g);
  if (!situ__record_find(flat, path))
    return situ__fail(SITU_E_ARG, "optim_load_state_dict", "the state has no %s: the optimiser has %d groups", path,
                      o->group_count),
           false;
  params = situ_numel(situ__record_find(flat, path));
  if (params != group->count)
    return situ__fail(SITU_E_ARG, "optim_load_state_dict",
                      "group %d has %" PRId64 " parameters in the state, %" PRId64 " here", g, params, group->count),
           false;
  if (!check_rule(o, flat, g)) return false;
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    if (!situ__optim_has(o, (situ_optim_field)f) || situ__optim_is_second(f)) continue;
    const char *pair = situ__optim_fields[f].pair;
    snprintf(path, sizeof path, "param_groups.%d.%s", g, pair ? pair : situ__optim_fields[f].name);
    if (!situ__record_find(flat, path)) continue;
    if (!situ__record_read(flat, path, &group->value[f], pair ? 2 : 1)) return false;
    group->value[f] = value_of_file(f, group->value[f]);
  }
  snprintf(path, sizeof path, "param_groups.%d.initial_lr", g);
  group->has_initial_lr = situ__record_find(flat, path);
  return situ__optim_valid(o, group->value) &&
         (!group->has_initial_lr || situ__record_read(flat, path, &group->initial_lr, 1));
}

situ_tensor *situ__optim_load_tensor(situ_tensor *param, situ_shape want, situ_dtype dtype, const char *path,
                                     situ_tensor *saved) {
  const situ_shape has = situ_shape_of(saved);
  if (!situ_shape_equal(&want, &has)) {
    char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, "optim_load_state_dict", "%s is %s, must be %s", path, situ_shape_text(&has, a),
                      situ_shape_text(&want, b)),
           NULL;
  }
  situ_tensor *copy = situ_to_dtype(situ_to(saved, situ_device_of(param)), dtype);
  if (copy && copy == saved) copy = situ_clone(copy);
  if (copy) copy = situ__optim_aligned(param, copy);
  if (copy) copy = situ_beside(copy, param);
  if (!copy || situ_follow(copy, param) != SITU_OK) return NULL;
  situ_set_role(copy, SITU_ROLE_OPTIMIZER);
  return situ_retain(copy);
}

static bool load_item(const situ_optim *o, const situ_tree *flat, int64_t i, const double *value,
                      situ_optimizer_tensors *item) {
  char path[96];
  bool any = false, all = true;
  /* Whether the master rounds to its parameter is unknown: an older version number makes the next step check. */
  *item = (situ_optimizer_tensors){ .param = o->items[i].param, .version = situ_version_of(o->items[i].param) - 1 };
  const bool has_master = situ__optim_has_master(item->param, value);
  const situ_dtype dtype = has_master ? SITU_F32 : situ_dtype_of(item->param);
  snprintf(path, sizeof path, "state.%" PRId64 ".master", i);
  situ_tensor *master = has_master ? situ__record_find(flat, path) : NULL;
  if (master && !(item->master = situ__optim_load_tensor(item->param, situ_shape_of(item->param), dtype, path, master)))
    return false;
  for (int k = 0; k < 3; k++) {
    const char *name = situ__optim_state_name(o, k);
    if (!name) break;
    snprintf(path, sizeof path, "state.%" PRId64 ".%s", i, name);
    situ_tensor *saved = situ__record_find(flat, path);
    if (saved && !(item->state[k] = situ__optim_load_tensor(item->param, situ__optim_state_shape(o, item->param, k),
                                                            dtype, path, saved)))
      return false;
    any |= saved != NULL;
    all &= saved || !situ__optim_uses(o, item->param, value, k);
  }
  snprintf(path, sizeof path, "state.%" PRId64 ".step", i);
  double step = !situ__optim_counts_steps(o) && any;
  bool counted = situ__record_find(flat, path);
  if (counted && !situ__record_read(flat, path, &step, 1)) return false;
  snprintf(path, sizeof path, "state.%" PRId64 ".mu_product", i);
  const bool product = situ__record_find(flat, path);
  if (o->rule == SITU_RULE_NADAM && product && !situ__record_read(flat, path, &item->mu_product, 1)) return false;
  all &= product || o->rule != SITU_RULE_NADAM;
  if (!any && !counted) return true;
  if (!all || (!counted && situ__optim_counts_steps(o)))
    return situ__fail(SITU_E_ARG, "optim_load_state_dict", "the state of %s (number %" PRId64 ") is not complete",
                      o->names[i], i),
           false;
  item->step = (int64_t)step;
  return true;
}

static bool load(const situ_optim *o, const situ_tree *flat, situ_optim_loading *l) {
  char next[48];
  snprintf(next, sizeof next, "param_groups.%d.params", o->group_count);
  if (situ__record_find(flat, next))
    return situ__fail(SITU_E_ARG, "optim_load_state_dict", "the state has more groups than the optimiser's %d",
                      o->group_count),
           false;
  for (int g = 0; g < o->group_count; g++) {
    situ__group *group = &l->groups[g];
    if (!load_group(o, flat, g, group)) return false;
    for (int64_t i = group->first; i < group->first + group->count; i++)
      if (!load_item(o, flat, i, group->value, &l->items[i])) return false;
  }
  return (int)o->rule != SITU__RULE_LBFGS || (l->lbfgs = situ__lbfgs_load(o, flat));
}

static void release_states(situ_optimizer_tensors *items, int64_t count) {
  for (int64_t i = 0; items && i < count; i++) {
    for (int k = 0; k < 3; k++) situ__optim_drop_state(&items[i].state[k]);
    situ__optim_drop_state(&items[i].master);
  }
}

situ_optim_loading *situ_optim_load_prepare(situ_optim *o, const situ_tree *state) {
  const char *op = "optim_load_state_dict";
  if (!situ__optim_given(op, o) || !situ__valid(op, "state", state, SITU__A_TREE)) return NULL;
  situ_optim_loading *l = situ__handle_new(SITU__AN_OPTIMISER_STATE, sizeof *l);
  if (!l) return situ__no_memory(op, sizeof *l), NULL;
  if (!situ__optim_claim(op, o, &l->claim)) return situ__handle_free(l, sizeof *l, NULL), NULL;
  l->o = o;
  __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
  const size_t groups = (size_t)o->group_count * sizeof(situ__group);
  l->groups = situ__alloc(groups);
  l->items = situ__calloc((size_t)o->count, sizeof *l->items);
  situ_tree *flat = situ_tree_flatten(state);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  bool ok = false;
  if (!l->groups || !l->items) situ__no_memory(op, groups);
  else ok = flat && load(o, flat, l);
  SITU_IGNORE(situ_scope_end(&scope));
  situ_tree_free(flat);
  if (ok) return l;
  situ_optim_load_end(l, false);
  return NULL;
}

void situ_optim_load_end(situ_optim_loading *l, bool commit) {
  if (!l || !situ__valid("optim_load_end", "loading", l, SITU__AN_OPTIMISER_STATE)) return;
  if (commit) {
    memcpy(l->o->groups, l->groups, (size_t)l->o->group_count * sizeof *l->groups);
    situ_optimizer_tensors *old = l->o->items;
    situ__optim_lock();
    l->o->items = l->items;
    situ__optim_unlock();
    l->items = old;
    situ__lbfgs *history = l->o->lbfgs;
    l->o->lbfgs = l->lbfgs;
    l->lbfgs = history;
  }
  release_states(l->items, l->o->count);
  situ__lbfgs_free(l->lbfgs);
  situ__optim_let_go(l->o);
  situ__claim_end(&l->claim);
  situ__free(l->items);
  situ__free(l->groups);
  situ__handle_free(l, sizeof *l, NULL);
}

situ_status situ_optim_load_state_dict(situ_optim *o, const situ_tree *state) {
  SITU__MADE_OF_OPS("optim_load_state_dict");
  situ_optim_loading *l = situ_optim_load_prepare(o, state);
  if (!l) return situ_error();
  situ_optim_load_end(l, true);
  return SITU_OK;
}
