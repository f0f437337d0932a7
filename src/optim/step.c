/* One step: collects gradients, creates missing state, and updates a whole group with one call.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/watch.h"
#include "optim/lbfgs.h"
#include "optim/optim.h"
#include "situ/ops.h"
#include "situ/sys/explain.h"
#include "situ/sys/grad.h"
#include "situ/sys/grad_scaler.h"
#include "situ/sys/graph.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

situ_optimizer_params situ__optim_params(const situ__group *group, double grad_scale) {
  situ_optimizer_params params = { .grad_scale = grad_scale };
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    if (group->value[f] == 0 || situ__optim_fields[f].param == SITU__NO_PARAM) continue;
    char *at = (char *)&params + situ__optim_fields[f].param;
    bool flag = group->value[f] != 0;
    if (situ__optim_fields[f].flag) memcpy(at, &flag, sizeof flag);
    else memcpy(at, &group->value[f], sizeof group->value[f]);
  }
  return params;
}

/* Stores state in its slot, names it, and lets it follow its parameter to other devices. */
static bool put_state(const situ_optim *o, int64_t i, int k, situ_tensor **slot, situ_tensor *state) {
  char name[256];
  snprintf(name, sizeof name, "%s.%s", o->names[i], situ__optim_state_name(o, k));
  if (!state || !(state = situ_beside(state, o->items[i].param)) || !situ_set_name(state, name)) return false;
  situ_set_role(state, SITU_ROLE_OPTIMIZER);
  return situ_follow(state, o->items[i].param) == SITU_OK && situ_set(slot, state);
}

/* The parameter was written since the last step. A move, or loading a state dict, does not change its value; any other
   value replaces the master's. */
static bool renew_master(situ_optimizer_tensors *item) {
  double same;
  situ_tensor *rounded = situ_to_dtype(item->master, situ_dtype_of(item->param));
  if (situ_item(situ_all(situ_eq(item->param, rounded), NULL), &same) != SITU_OK) return false;
  return same != 0 || situ_copy_(item->master, item->param);
}

bool situ__optim_renew_master(situ_optimizer_tensors *item) {
  return item->version == situ_version_of(item->param) || renew_master(item);
}

/* Creates an f32 master if there must be one, and makes state as wide as the tensor that is stepped. */
static bool ready_master(situ_optim *o, int64_t i, const double *value) {
  situ_optimizer_tensors *item = &o->items[i];
  const bool wanted = situ__optim_has_master(item->param, value);
  if (!wanted && !item->master) return true;
  if (!wanted) situ__optim_drop_state(&item->master);
  else if (!item->master) {
    situ_tensor *wide = situ_to_dtype(item->param, SITU_F32);
    if (!put_state(o, i, SITU_OPTIM_STATES - 1, &item->master, wide)) return false;
    item->version = situ_version_of(item->param);
  } else if (!situ__optim_renew_master(item)) return false;
  const situ_dtype dtype = wanted ? SITU_F32 : situ_dtype_of(item->param);
  for (int k = 0; k < 3; k++)
    if (item->state[k] && situ_dtype_of(item->state[k]) != dtype &&
        !put_state(o, i, k, &item->state[k], situ_to_dtype(item->state[k], dtype)))
      return false;
  return true;
}

/* The value that a state has before the first step. */
static double first_value(const situ_optim *o, const double *value, int k) {
  if (o->rule == SITU_RULE_ADAGRAD) return value[SITU_OPTIM_INITIAL_ACCUMULATOR_VALUE];
  return o->rule == SITU_RULE_RPROP && k == 1 ? value[SITU_OPTIM_LR] : 0;
}

/* True if both lie in the same order; sizes are equal. Of other sizes: true. */
static bool lie_alike(const situ_tensor *a, const situ_tensor *b) {
  if (situ_is_contiguous(a) && situ_is_contiguous(b)) return true;
  const situ_shape x = situ_shape_of(a), y = situ_shape_of(b);
  if (!situ_shape_equal(&x, &y)) return true;
  for (int d = 0; d < x.ndim; d++)
    if (x.dim[d] > 1 && situ_stride(a, d) != situ_stride(b, d)) return false;
  return true;
}

situ_tensor *situ__optim_aligned(situ_tensor *param, situ_tensor *t) {
  if (lie_alike(param, t)) return t;
  situ_tensor *own = situ_empty_like(param, &(situ_options){ .dtype = situ_dtype_of(t), .device = situ_device_of(t) });
  return own ? situ_copy_(own, t) : NULL;
}

/* On the parameter's current device. */
static bool make_state(situ_optim *o, int64_t i, int k, const double *value) {
  situ_optimizer_tensors *item = &o->items[i];
  situ_tensor *like = item->master ? item->master : item->param;
  const situ_options same = { .dtype = situ_dtype_of(like), .device = situ_device_of(like) };
  situ_scope scope; /* of a state that is in a file the memory is needed no longer */
  situ_scope_begin_no_grad(&scope);
  situ_tensor *first = situ_full(situ__optim_state_shape(o, like, k), first_value(o, value, k), &same);
  const bool good = put_state(o, i, k, &item->state[k], first);
  if (situ_scope_end(&scope) != SITU_OK || !good) return false;
  /* If momentum is enabled later, it starts as in the first step. */
  if (o->rule == SITU_RULE_SGD) item->step = 0;
  return true;
}

/* True if stepping the parameter cannot affect a model. A parameter that was registered in a module and is registered
   in none now was replaced, or its module was freed: other references (a state dict, a graph, a handle) do not make it
   part of the model. One that was never registered is an orphan if only the optimiser references it. */
static bool is_orphan(situ_optim *o, int64_t i) {
  const situ_tensor *param = o->items[i].param;
  if (situ_is_registered(param)) return o->registered[i] = true, false;
  return o->registered[i] ||
         (situ_owners(param) == 1 && __atomic_load_n(&situ_desc(param)->storage->refs, __ATOMIC_RELAXED) == 1);
}

static void refuse_orphan(const situ_optim *o, int64_t i) {
  const situ_blamed list[] = {
    { .operand = "param", .tensor = o->items[i].param, .name = o->names[i], .odd = true },
    { .operand = "grad", .tensor = situ_grad(o->items[i].param) },
  };
  SITU_IGNORE(situ_fail_blamed(
      SITU_E_STATE, "optim_step", list, 2, "make the optimiser from situ_nn_parameters of the module that is trained",
      o->registered[i]
          ? "%s: no module has it any more: its module was freed or has another tensor in its place, so a step "
            "would change nothing that the model computes with"
          : "%s: only the optimiser holds it, so a step would change nothing that anything computes with",
      o->names[i]));
}

bool situ__optim_is_in_use(situ_optim *o, int64_t i) {
  if (!is_orphan(o, i)) return true;
  refuse_orphan(o, i);
  return false;
}

/* Counts one step more. */
void situ__optim_count(const situ_optim *o, const situ__group *group, situ_optimizer_tensors *item) {
  item->step++;
  if (o->rule != SITU_RULE_NADAM) return;
  const situ_optimizer_params params = { .beta1 = group->value[SITU_OPTIM_BETA1],
                                         .momentum_decay = group->value[SITU_OPTIM_MOMENTUM_DECAY] };
  item->mu_product = (item->step > 1 ? item->mu_product : 1) * situ_optimizer_nadam_mu(&params, item->step);
}

/* A parameter may have got another memory format since its state was made. */
static bool align_state(situ_optim *o, int64_t i) {
  situ_optimizer_tensors *item = &o->items[i];
  for (int k = 0; k < SITU_OPTIM_STATES; k++) {
    situ_tensor **at = k < 3 ? &item->state[k] : &item->master;
    situ_tensor *now = *at ? situ__optim_aligned(item->param, *at) : NULL;
    if (*at && (!now || (now != *at && !put_state(o, i, k, at, now)))) return false;
  }
  return true;
}

/* Makes the state that is missing, and brings all of it into its parameter's dtype and order. */
static bool ready_state(situ_optim *o, int64_t i, const double *value) {
  if (!ready_master(o, i, value)) return false;
  for (int k = 0; k < 3; k++)
    if (!o->items[i].state[k] && situ__optim_uses(o, o->items[i].param, value, k) && !make_state(o, i, k, value))
      return false;
  return align_state(o, i);
}

bool situ__optim_gradient(const char *op, const situ_tensor *param, const char *name, situ_tensor **grad) {
  *grad = situ_grad(param);
  if (*grad || !situ_grad_is_in_parts(param)) return true;
  return situ__fail(SITU_E_STATE, op,
                    "the ranks keep the gradient of %s in parts: step and clip by situ_dist_zero_step and "
                    "situ_dist_zero_clip_grad_norm_",
                    name && *name       ? name
                    : *situ_name(param) ? situ_name(param)
                                        : "a parameter"),
         false;
}

/* Makes what the step of an item lacks, and brings its gradient into its order. Returns false after recording an
   error. */
static bool make_ready(situ_optim *o, const situ__group *group, int64_t i, situ_optimizer_tensors *a) {
  const bool paused = situ_graph_pause(); /* a replay must not make state again */
  const bool ready = ready_state(o, i, group->value);
  if (paused) situ_graph_resume();
  situ_tensor *grad = ready ? situ__optim_aligned(o->items[i].param, a->grad) : NULL;
  for (int k = 0; k < 3; k++) a->state[k] = o->items[i].state[k];
  a->master = o->items[i].master;
  a->grad = grad;
  return grad != NULL;
}

/* Collects the items of a group that have a gradient. A kernel's step asks for what they lack (complete), except for
   masters, of which it does not know. Returns -1 after recording an error. */
static int64_t gather(situ_optim *o, const situ__group *group, situ_optimizer_tensors *active) {
  const bool ready_now = (int)o->rule >= SITU_RULES || group->value[SITU_OPTIM_MASTER_WEIGHTS] != 0;
  int64_t found = 0;
  for (int64_t i = group->first; i < group->first + group->count; i++) {
    if (situ_is_registered(o->items[i].param)) o->registered[i] = true;
    else if (!situ__optim_is_in_use(o, i)) return -1;
    situ_tensor *grad;
    if (!situ__optim_gradient("optim_step", o->items[i].param, o->names[i], &grad)) return -1;
    if (!grad) continue;
    situ_optimizer_tensors *a = &active[found++];
    *a = o->items[i];
    a->grad = grad;
    if (ready_now && !make_ready(o, group, i, a)) return -1;
    situ__optim_count(o, group, a);
  }
  return found;
}

static void count_steps(situ_optim *o, const situ__group *group, const situ_optimizer_tensors *active) {
  int64_t k = 0;
  for (int64_t i = group->first; i < group->first + group->count && k < group->active; i++) {
    situ_optimizer_tensors *item = &o->items[i];
    if (item->param != active[k].param) continue;
    item->mu_product = active[k].mu_product;
    item->step = active[k++].step;
    if (item->master) item->version = situ_version_of(item->param);
  }
}

static situ_status refuse_capture(const situ_optim *o) {
  return situ__fail(SITU_E_STATE, "optim_step",
                    "a graph is being recorded, and its replay could not repeat the step of %s, which is made of ops "
                    "with the numbers of this step; take it after the replay",
                    situ__optim_op(o));
}

/* A step by a kernel, of all groups or none. */
typedef struct stepping {
  situ_optim *o;
  double grad_scale;
  int64_t next; /* no parameter before this one is asked for again */
  bool captured;
} stepping;

static bool complete(int g, int64_t item, void *payload) {
  stepping *s = payload;
  situ_optim *o = s->o;
  situ_optimizer_tensors *a = &o->active[o->lists[g].list - o->active + item];
  while (o->items[s->next].param != a->param) s->next++;
  return make_ready(o, &o->groups[g], s->next, a);
}

static bool begin(int g, void *payload) {
  stepping *s = payload;
  s->captured = situ_graph_is_capturing();
  return !s->captured || situ__optim_capture(s->o, g, s->grad_scale, s->o->lists[g].list) == SITU_OK;
}

static void end(int g, bool done, void *payload) {
  const stepping *s = payload;
  if (s->captured) situ_graph_values_end();
  if (done) count_steps(s->o, &s->o->groups[g], s->o->lists[g].list);
}

static situ_status step_by_kernel(situ_optim *o, double grad_scale) {
  stepping s = { .o = o, .grad_scale = grad_scale };
  const situ_optimizer_caller caller = { complete, begin, end, &s };
  return situ_optimizer_step_lists(o->rule, o->lists, o->group_count, &caller);
}

static situ_status step_by_ops(situ_optim *o, double grad_scale) {
  if (situ_graph_is_capturing()) return refuse_capture(o);
  const situ_status status = situ__optim_step_composed(o, grad_scale);
  for (int g = 0; g < o->group_count && status == SITU_OK; g++) count_steps(o, &o->groups[g], o->lists[g].list);
  return status;
}

static situ_status step(situ_optim *o, double grad_scale) {
  SITU__DEFAULT_FPU;
  int64_t total = 0;
  for (int g = 0; g < o->group_count; g++) {
    situ__group *group = &o->groups[g];
    group->active = gather(o, group, o->active + total);
    if (group->active < 0) return situ_error();
    o->lists[g] = (situ_optimizer_list){ situ__optim_params(group, grad_scale), o->active + total, group->active };
    total += group->active;
  }
  __atomic_store_n(&o->stepped, true, __ATOMIC_RELAXED); /* schedules of other threads look at it */
  return (int)o->rule < SITU_RULES ? step_by_kernel(o, grad_scale) : step_by_ops(o, grad_scale);
}

static bool is_lbfgs(const situ_optim *o) { return (int)o->rule == SITU__RULE_LBFGS; }

situ_status situ_optim_step_scaled(situ_optim *o, double grad_scale) {
  situ_scope scope;
  SITU__CLAIM(claim);
  if (!situ__optim_given("optim_step", o)) return situ_error();
  if (is_lbfgs(o))
    return situ__fail(SITU_E_UNSUPPORTED, "optim_step",
                      "LBFGS evaluates the loss several times in a step: call situ_optim_step_closure");
  if (__builtin_expect(situ__watching != NULL, 0)) situ__watching->step(o);
  if (!situ__optim_claim("optim_step", o, &claim)) return situ_error();
  situ_scope_begin_no_grad(&scope);
  situ_status status = step(o, grad_scale);
  SITU_IGNORE(situ_scope_end(&scope));
  return status;
}

situ_status situ_optim_step(situ_optim *o) { return situ_optim_step_scaled(o, 1); }

bool situ__optim_evaluate(situ_optim_closure closure, void *payload, double *loss) {
  situ_scope scope;
  situ_scope_begin_enable_grad(&scope);
  situ_tensor *value = closure(payload);
  if (!value && situ_error() == SITU_OK) situ__fail(SITU_E_STATE, "optim_step_closure", "the closure returned no loss");
  const bool good = value && (!loss || situ_item(value, loss) == SITU_OK);
  return situ_scope_end(&scope) == SITU_OK && good;
}

situ_status situ_optim_step_closure(situ_optim *o, situ_optim_closure closure, void *payload, double *loss) {
  const char *op = "optim_step_closure";
  SITU__CLAIM(claim);
  if (!situ__optim_given(op, o)) return situ_error();
  if (!closure) return situ__null(op, "closure");
  if (is_lbfgs(o) && !situ__optim_claim(op, o, &claim)) return situ_error();
  __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED); /* the closure may free it */
  situ_status status;
  if (is_lbfgs(o)) o->stepped = true, status = situ__lbfgs_step(o, closure, payload, loss);
  else status = situ__optim_evaluate(closure, payload, loss) ? situ_optim_step_scaled(o, 1) : situ_error();
  situ__optim_let_go(o);
  return status;
}

situ_status situ_optim_zero_grad(situ_optim *o, bool set_to_none) {
  if (!situ__optim_given("optim_zero_grad", o)) return situ_error();
  situ_scope scope;
  SITU__CLAIM(claim);
  situ_status status = SITU_OK;
  if (!situ__optim_claim("optim_zero_grad", o, &claim)) return situ_error();
  situ_scope_begin_no_grad(&scope);
  for (int64_t i = 0; i < o->count && status == SITU_OK; i++) {
    situ_tensor *grad = situ_grad(o->items[i].param);
    if (set_to_none) status = situ_set_grad(o->items[i].param, NULL);
    else if (grad && !situ_zero_(grad)) status = situ_error();
  }
  SITU_IGNORE(situ_scope_end(&scope));
  return status;
}
