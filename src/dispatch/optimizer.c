/* A fused optimiser step: checks every parameter before it changes any, then updates all with a few launches per
   device.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/launch/launch.h"
#include "dispatch/dispatch.h"
#include "situ/sys/optimizer.h"

static const char *const rules[SITU_RULES] = {
  [SITU_RULE_SGD] = "sgd",         [SITU_RULE_ADAM] = "adam",       [SITU_RULE_ADAMW] = "adamw",
  [SITU_RULE_RMSPROP] = "rmsprop", [SITU_RULE_ADAGRAD] = "adagrad", [SITU_RULE_ADADELTA] = "adadelta",
  [SITU_RULE_ADAMAX] = "adamax",   [SITU_RULE_NADAM] = "nadam",     [SITU_RULE_RADAM] = "radam",
  [SITU_RULE_RPROP] = "rprop",     [SITU_RULE_ASGD] = "asgd",       [SITU_RULE_LION] = "lion"
};

/* Records a mismatch, with a table of the parameter, its gradient and all its state; t is at fault. */
static bool report_mismatch(const char *op, situ_status status, const situ_optimizer_tensors *x, const situ_tensor *t,
                            const char *what) {
  char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX], s1[SITU_SHAPE_TEXT], s2[SITU_SHAPE_TEXT];
  const situ_tensor *param = x->param;
  const char *name = *situ_name(param) ? situ_name(param) : "a parameter";
  situ_shape own = situ__shape(&param->view), got = situ__shape(&t->view);
  const situ_blamed list[] = { { .operand = "param", .tensor = param, .odd = param == t },
                               { .operand = "grad", .tensor = x->grad, .odd = x->grad == t },
                               { .operand = "master", .tensor = x->master, .odd = x->master == t },
                               { .operand = "state", .tensor = x->state[0], .odd = x->state[0] == t },
                               { .operand = "state", .tensor = x->state[1], .odd = x->state[1] == t },
                               { .operand = "state", .tensor = x->state[2], .odd = x->state[2] == t } };
  SITU_IGNORE(
      situ_fail_blamed(status, op, list, 6, NULL, "the %s of %s is %s %s on %s, the parameter %s %s on %s%s", what,
                       name, situ_dtype_name((situ_dtype)t->view.dtype), situ_shape_text(&got, s1),
                       situ_device_name(t->view.storage->device, a), situ_dtype_name((situ_dtype)param->view.dtype),
                       situ_shape_text(&own, s2), situ_device_name(param->view.storage->device, b),
                       status == SITU_E_STATE ? ": both must lie without gaps, in the same order of strides" : ""));
  return false;
}

static bool agrees(const char *op, const situ_optimizer_tensors *x, const situ_tensor *t, const char *what,
                   situ_dtype dtype) {
  const situ_tensor *param = x->param;
  if (!situ__alive(t)) return situ__need(op, what, t);
  if (!situ__same_device(t->view.storage->device, param->view.storage->device))
    return report_mismatch(op, SITU_E_DEVICE, x, t, what);
  if ((situ_dtype)t->view.dtype != dtype) return report_mismatch(op, SITU_E_DTYPE, x, t, what);
  if (!situ__same_sizes(&t->view, &param->view)) return report_mismatch(op, SITU_E_SHAPE, x, t, what);
  return situ__same_order(&param->view, &t->view) || report_mismatch(op, SITU_E_STATE, x, t, what);
}

static bool check_item(const char *op, const situ_optimizer_tensors *x) {
  if (!situ__need(op, "param", x->param)) return false;
  if (!situ_dtype_is_floating((situ_dtype)x->param->view.dtype))
    return situ__fail(SITU_E_DTYPE, op, "parameter %s is %s: only floating ones are optimised", situ_name(x->param),
                      situ_dtype_name((situ_dtype)x->param->view.dtype)),
           false;
  const situ_dtype own = (situ_dtype)x->param->view.dtype, wide = x->master ? SITU_F32 : own;
  if (x->master && !situ__need(op, "master", x->master)) return false;
  if (x->master && own != SITU_F16 && own != SITU_BF16)
    return situ__fail(SITU_E_DTYPE, op, "parameter %s is %s: only f16 and bf16 ones have a master", situ_name(x->param),
                      situ_dtype_name(own)),
           false;
  if (!agrees(op, x, x->param, "memory", own) || !agrees(op, x, x->grad, "gradient", own)) return false;
  if (x->master && !agrees(op, x, x->master, "master", wide)) return false;
  for (int k = 0; k < 3; k++)
    if (x->state[k] && !agrees(op, x, x->state[k], "state", wide)) return false;
  return true;
}

/* As agrees, for the usual tensor, which is row-major. */
static inline bool is_like(const situ_tensor *t, const situ_view_desc *param) {
  if (!situ__alive(t)) return false;
  const situ_view_desc *v = &t->view;
  return (v->contiguous & (v->dtype == param->dtype) & (v->ndim == param->ndim) & (v->numel == param->numel)) &&
         situ__same_device(v->storage->device, param->storage->device) &&
         (param->ndim <= 1 || situ__same_sizes(v, param));
}

/* One pass for the usual item, which has all of the `needed` states (bit 1 << k: state[k]) and no master: true only if
   check_item would find nothing. */
static inline bool is_ready(const situ_optimizer_tensors *x, unsigned needed) {
  if (x->master || !situ__alive(x->param)) return false;
  const situ_view_desc *param = &x->param->view;
  if (!param->contiguous || param->dtype < SITU_F16 || !is_like(x->grad, param)) return false;
  for (int k = 0; k < 3; k++)
    if (x->state[k] ? !is_like(x->state[k], param) : needed >> k & 1) return false;
  return true;
}

static bool flush_items(const char *op, situ_optimizer_rule rule, const situ_optimizer_params *params,
                        const situ_optimizer_item *items, int64_t count, situ_device device) {
  const situ_work work = { SITU_VERB_OPTIMIZER, .op = (int)rule, .list = items, .list_count = count, .params = params };
  return situ__run(op, device, &work) == SITU_OK;
}

/* Launches the items on one device in batches, without allocating: once the checks have passed, only the device
   itself can fail. Adds the number of items on the device to *found. */
static bool launch_items(const char *op, situ_optimizer_rule rule, const situ_optimizer_params *params,
                         const situ_optimizer_tensors *list, int64_t count, situ_device device, int64_t *found) {
  enum { MANY = 64 }; /* what a GPU takes in a launch; on the host their structs stay in L1 from pass to pass */
  situ_optimizer_item items[MANY];
  int64_t here = 0;
  bool good = true;
  for (int64_t i = 0; i < count && good; i++) {
    const situ_optimizer_tensors *x = &list[i];
    if (!situ__same_device(x->param->view.storage->device, device)) continue;
    ++*found;
    if (!x->param->view.numel) continue;
    items[here++] =
        (situ_optimizer_item){ .param = &x->param->view,
                               .grad = &x->grad->view,
                               .step = x->step,
                               .mu_product = x->mu_product,
                               .index = i,
                               .state = { situ__desc(x->state[0]), situ__desc(x->state[1]), situ__desc(x->state[2]) } };
    if (here < MANY) continue;
    good = flush_items(op, rule, params, items, here, device);
    here = 0;
  }
  return good && (!here || flush_items(op, rule, params, items, here, device));
}

situ_status situ_optimizer_check(situ_optimizer_rule rule, const situ_optimizer_tensors *list, int64_t count) {
  if ((unsigned)rule >= SITU_RULES || count < 0 || (!list && count))
    return situ__fail(SITU_E_ARG, "optimizer_step", "no such rule, or no parameters");
  for (int64_t i = 0; i < count; i++)
    if (!is_ready(&list[i], 0) && !check_item(rules[rule], &list[i])) return situ_error();
  return SITU_OK;
}

/* Launches each device at its first parameter. */
static bool step_all(situ_optimizer_rule rule, const situ_optimizer_params *params, const situ_optimizer_tensors *list,
                     int64_t count) {
  bool good = true;
  int64_t found = 0;
  for (int64_t i = 0; good && found < count; i++) {
    const situ_device device = list[i].param->view.storage->device;
    bool seen = false;
    for (int64_t k = 0; !seen && k < i; k++) seen = situ__same_device(list[k].param->view.storage->device, device);
    if (!seen) good = launch_items(rules[rule], rule, params, list, count, device, &found);
  }
  return good;
}

/* ---- master weights ---- */

static bool copy_into(const char *op, const situ_tensor *to, const situ_tensor *from) {
  const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &from->view }, .out = { &to->view } };
  return !to->view.numel || situ__run(op, to->view.storage->device, &work) == SITU_OK;
}

/* Builds the list for the kernels: masters in place of their parameters, with f32 gradients. Everything that
   allocates happens here, before anything changes. */
static bool widen_list(const char *op, const situ_optimizer_tensors *list, int64_t count,
                       situ_optimizer_tensors *wide) {
  for (int64_t i = 0; i < count; i++) {
    wide[i] = list[i];
    if (!list[i].master) continue;
    wide[i].param = list[i].master;
    wide[i].grad = situ__tensor_like(op, &list[i].grad->view, SITU_F32);
    if (!wide[i].grad || !copy_into(op, wide[i].grad, list[i].grad)) return false;
  }
  return true;
}

static bool step_masters(situ_optimizer_rule rule, const situ_optimizer_params *params,
                         const situ_optimizer_tensors *list, int64_t count) {
  const char *op = rules[rule];
  situ_optimizer_tensors *wide = situ__alloc((size_t)count * sizeof *wide);
  if (!wide) return situ__no_memory(op, (size_t)count * sizeof *wide), false;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  bool good = widen_list(op, list, count, wide) && step_all(rule, params, wide, count);
  for (int64_t i = 0; good && i < count; i++) good = !list[i].master || copy_into(op, list[i].param, list[i].master);
  SITU_IGNORE(situ_scope_end(&s));
  situ__free(wide);
  return good;
}

static bool has_states(const char *op, const situ_optimizer_tensors *x, unsigned needed) {
  for (int k = 0; k < 3; k++)
    if (needed >> k & 1 && !situ__given(op, "state", x->state[k])) return false;
  return true;
}

static bool check_list(situ_optimizer_rule rule, const situ_optimizer_list *l, int index,
                       const situ_optimizer_caller *caller) {
  if (l->count < 0 || (!l->list && l->count)) return situ_optimizer_check(rule, l->list, l->count) == SITU_OK;
  const unsigned needed = situ_optimizer_states(rule, &l->params);
  for (int64_t i = 0; i < l->count; i++) {
    if (is_ready(&l->list[i], needed)) continue;
    if (caller && caller->complete && !caller->complete(index, i, caller->payload)) return false;
    if (!check_item(rules[rule], &l->list[i]) || !has_states(rules[rule], &l->list[i], needed)) return false;
  }
  return true;
}

static bool step_list(situ_optimizer_rule rule, const situ_optimizer_list *l) {
  bool masters = false;
  for (int64_t i = 0; i < l->count; i++) masters |= l->list[i].master != NULL;
  return (masters ? step_masters : step_all)(rule, &l->params, l->list, l->count);
}

situ_status situ_optimizer_step_lists(situ_optimizer_rule rule, const situ_optimizer_list *lists, int count,
                                      const situ_optimizer_caller *caller) {
  if ((unsigned)rule >= SITU_RULES || count < 0 || (!lists && count)) return situ_optimizer_check(rule, NULL, -1);
  for (int l = 0; l < count; l++)
    if (!check_list(rule, &lists[l], l, caller)) return situ_error();
  for (int l = 0; l < count; l++) {
    if (caller && caller->begin && !caller->begin(l, caller->payload)) return situ_error();
    const bool good = step_list(rule, &lists[l]);
    if (caller && caller->end) caller->end(l, good, caller->payload);
    if (!good) return situ_error();
  }
  return SITU_OK;
}

situ_status situ_optimizer_step(situ_optimizer_rule rule, const situ_optimizer_params *params,
                                const situ_optimizer_tensors *list, int64_t count) {
  if (!params) return situ__null("optimizer_step", "params");
  return situ_optimizer_step_lists(rule, &(situ_optimizer_list){ *params, list, count }, 1, NULL);
}
