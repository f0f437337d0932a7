/* Backward: runs the recorded nodes in descending order of their sequence numbers, which is a topological order,
   because a node's number is larger than those of its inputs. No recursion. Leaves change only after the whole pass
   has succeeded, all at once.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "autograd/anomaly.h"
#include "autograd/asked.h"
#include "autograd/pass.h"
#include "autograd/view.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/refs.h"
#include "device/launch/launch.h"
#include "device/profile/profile.h"
#include "situ/sys/shape.h"

/* ---- accumulating gradients ---- */

/* Of t's dtype, device and order of strides. */
static situ_tensor *fresh_like(const char *op, const situ_tensor *t) {
  if (t->view.contiguous) return situ__tensor_like(op, &t->view, (situ_dtype)t->view.dtype);
  situ_view_desc layout = t->view;
  const situ_view_desc *of = &t->view;
  if (!situ__order_strides(&layout, &of, 1)) SITU_IGNORE(situ__format_strides(&layout, SITU_CONTIGUOUS_FORMAT));
  return situ__tensor_strided(op, &layout, (situ_dtype)t->view.dtype, t->view.storage->device);
}

static bool has_refs(const int64_t *refs, int64_t count) { return __atomic_load_n(refs, __ATOMIC_RELAXED) == count; }

/* A copy that is on the way into the storage owns it, too. */
static bool has_tensors(const situ_storage *s, int64_t count) {
  const int64_t refs = __atomic_load_n(&s->refs, __ATOMIC_ACQUIRE);
  return refs == count || (refs == count + 1 && situ__storage_flags(s) & SITU_STORAGE_PENDING);
}

/* The base of a view may be alive only because of the view. */
static bool is_alone(const situ_tensor *t) {
  return has_refs(&t->refs, 1) &&
         (t->base ? has_refs(&t->base->refs, 1) && has_tensors(t->view.storage, 2) : has_tensors(t->view.storage, 1));
}

bool situ__exclusive(const situ_tensor *t) { return t->view.contiguous && is_alone(t); }

/* Otherwise something was moved or cast between forward and backward, which is an error. */
bool situ__takes_gradient(const char *op, const situ_tensor *at, const char *what, const situ_tensor *grad) {
  situ_device here = at->view.storage->device, there = grad->view.storage->device;
  if (situ__same_device(here, there) && at->view.dtype == grad->view.dtype) return true;
  const char *name = *situ_name(at) ? situ_name(at) : what;
  if (situ__same_device(here, there))
    return situ__fail(SITU_E_DTYPE, op,
                      "%s is %s, but a gradient for it arrived as %s: was it cast between forward and backward?", name,
                      situ_dtype_name((situ_dtype)at->view.dtype), situ_dtype_name((situ_dtype)grad->view.dtype)),
           false;
  char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_DEVICE, op,
                    "%s is on %s, but a gradient for it arrived on %s: was it moved between forward and backward?",
                    name, situ_device_name(here, a), situ_device_name(there, b)),
         false;
}

static bool add_recorded(situ_tensor **slot, situ_tensor *grad) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *sum = situ__autograd_up.add(*slot, grad);
  const bool good = sum && situ_set(slot, sum);
  SITU_IGNORE(situ_scope_end(&s));
  situ_release(grad);
  return good;
}

bool situ__add_gradients(const char *op, const situ_tensor *a, const situ_tensor *b, situ_tensor *sum) {
  return situ__run(op, sum->view.storage->device,
                   &(situ_work){ SITU_VERB_BINARY, .op = SITU_BINARY_add, .compute = (situ_dtype)sum->view.dtype,
                                 .ins = 2, .outs = 1, .in = { &a->view, &b->view }, .out = { &sum->view } }) == SITU_OK;
}

bool situ__accumulate(const char *op, situ_tensor **slot, situ_tensor *grad) {
  if (!*slot) {
    *slot = grad;
    return true;
  }
  if (!situ__takes_gradient(op, *slot, "a gradient", grad)) {
    situ_release(grad);
    return false;
  }
  if (situ__recording()) return add_recorded(slot, grad);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *sum = is_alone(*slot) && situ__is_dense(&(*slot)->view) ? *slot : fresh_like(op, *slot);
  const bool good = sum && situ__add_gradients(op, *slot, grad, sum);
  if (good && sum != *slot) situ_set(slot, sum);
  SITU_IGNORE(situ_scope_end(&s));
  situ_release(grad);
  return good;
}

static situ_tensor *plain_copy(const char *op, const situ_tensor *t, const situ_view_desc *layout) {
  situ_tensor *copy = situ__tensor_strided(op, layout, (situ_dtype)t->view.dtype, t->view.storage->device);
  if (!copy) return NULL;
  const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &t->view }, .out = { &copy->view } };
  return situ__run(op, copy->view.storage->device, &work) == SITU_OK ? copy : NULL;
}

static situ_tensor *recorded_copy(situ_tensor *t, const situ_view_desc *layout) {
  const situ_memory_format format = situ__suggest_format(layout);
  return situ__autograd_up.clone(t, layout->contiguous                 ? SITU_CONTIGUOUS_FORMAT
                                    : format == SITU_CONTIGUOUS_FORMAT ? SITU_PRESERVE_FORMAT
                                                                       : format);
}

/* Sets the strides that grad is to have: those of a dense leaf, else row-major; without a leaf its own order. Returns
   true if it has them. */
static bool choose_layout(const situ_tensor *grad, const situ_tensor *leaf, situ_view_desc *layout) {
  if (grad->view.contiguous && (!leaf || leaf->view.contiguous)) {
    *layout = grad->view;
    return true;
  }
  const bool dense = leaf && situ__is_dense(&leaf->view);
  const situ_view_desc *of = &grad->view;
  *layout = dense ? leaf->view : grad->view;
  if (!dense && (leaf || !situ__order_strides(layout, &of, 1)))
    SITU_IGNORE(situ__format_strides(layout, SITU_CONTIGUOUS_FORMAT));
  return situ__same_order(layout, &grad->view);
}

situ_tensor *situ__owned_copy(const char *op, situ_tensor *grad, const situ_tensor *leaf, bool recorded) {
  if (grad->view.contiguous && (!leaf || leaf->view.contiguous) && is_alone(grad)) return grad;
  situ_view_desc layout;
  if (choose_layout(grad, leaf, &layout) && is_alone(grad)) return grad;
  situ_scope s;
  situ__scope_begin_as(&s, recorded);
  situ_tensor *copy = situ_retain(recorded ? recorded_copy(grad, &layout) : plain_copy(op, grad, &layout));
  SITU_IGNORE(situ_scope_end(&s));
  situ_release(grad);
  return copy;
}

/* Hooks may keep the gradient that they get, so it must be a handle of its own, marked as a gradient. In a recording
   scope it has a history instead. */
static bool mark_gradient(const char *op, situ_tensor **grad) {
  if (situ__recording()) return true;
  if (!has_refs(&(*grad)->refs, 1)) {
    situ_tensor *own = situ__tensor_alias(op, &(*grad)->view, (*grad)->created_at);
    if (!own) return false;
    situ_release(*grad);
    *grad = own;
  }
  (*grad)->first_order = true;
  return true;
}

bool situ__run_hooks(const char *op, const situ__meta *m, situ_tensor **grad) {
  if (m && m->hooks && !mark_gradient(op, grad)) return false;
  for (const situ__hook *h = m ? m->hooks : NULL; h; h = h->next) {
    situ_scope s;
    const uint64_t errors = situ__error_count();
    situ_scope_begin(&s);
    situ_tensor *changed = h->fn(*grad, h->payload);
    bool good = situ__error_count() == errors && (!changed || situ__need(op, "what a hook returned", changed));
    if (good && changed && changed != *grad) {
      if (situ__same_sizes(&changed->view, &(*grad)->view) && changed->view.dtype == (*grad)->view.dtype)
        situ_set(grad, changed);
      else good = (situ__fail(SITU_E_SHAPE, op, "a hook returned a gradient of another shape or dtype"), false);
    }
    SITU_IGNORE(situ_scope_end(&s));
    if (!good) return false;
  }
  return true;
}

/* ---- one node ---- */

/* Adds grad to the gradient of an operand. Takes over the reference. */
static bool deliver_gradient(situ__pass *p, const situ__operand *o, situ_tensor *grad) {
  if (o->node) return situ__pass_add_node(p, o->node, o->result, grad);
  return situ__pass_add_leaf(p, o->leaf, grad); /* checked at the end, because the leaf may be moving now */
}

/* Records that a saved value is invalid, with a table of all values that the node has saved. */
static bool refuse_saved(const situ__pass *p, const situ__node *n, const situ_tensor *odd, situ_status status,
                         const char *text) {
  enum { MOST = 12 };
  situ_blamed list[MOST];
  char name[MOST][24];
  int count = 0;
  for (int i = 0; i < n->ins + n->outs && count < MOST; i++) {
    const situ_tensor *saved = i < n->ins ? n->in[i].saved : n->out[i - n->ins].saved;
    if (!saved) continue;
    (void)snprintf(name[count], sizeof name[count], "%s %d", i < n->ins ? "operand" : "result",
                   i < n->ins ? i : i - n->ins);
    list[count] = (situ_blamed){ .operand = name[count], .tensor = saved, .odd = saved == odd };
    count++;
  }
  (void)situ__autograd_up.blame(status, p->op, list, count, text);
  return false;
}

/* Returns true if a saved value has neither changed nor moved: backward kernels use it as it is. */
static inline bool is_as_saved(const situ_tensor *saved, uint32_t version, situ_device device) {
  if (!saved) return true;
  const situ_storage *s = saved->view.storage;
  return __atomic_load_n(&s->version, __ATOMIC_RELAXED) == version && situ__same_device(s->device, device);
}

/* dtype: the one that was saved; SITU_DTYPE_DEFAULT: unknown. */
static SITU_COLD bool refuse_changed(const situ__pass *p, const situ__node *n, const situ_tensor *saved,
                                     uint32_t version, situ_device device, situ_dtype dtype, const char *what, int i) {
  const situ_storage *s = saved->view.storage;
  const uint32_t now = __atomic_load_n(&s->version, __ATOMIC_RELAXED);
  situ_shape shape = situ__shape(&saved->view);
  char size[SITU_SHAPE_TEXT], site[256], which[512], by[320] = "", text[1024], a[SITU_DEVICE_NAME_MAX],
                                                     b[SITU_DEVICE_NAME_MAX];
  (void)snprintf(which, sizeof which, "%s needs its %s %d%s%.200s (%s)", n->name, what, i, *situ_name(saved) ? " " : "",
                 situ_name(saved), situ_shape_text(&shape, size));
  if (s->moved_by)
    (void)snprintf(by, sizeof by, ": situ_%s at %s", s->moved_by, situ__site_text(s->moved_at, site, sizeof site));
  if (!situ__same_device(s->device, device)) {
    (void)snprintf(text, sizeof text, "%s, which was on %s and is on %s now%s, between forward and backward", which,
                   situ_device_name(device, a), situ_device_name(s->device, b), by);
    return refuse_saved(p, n, saved, SITU_E_DEVICE, text);
  }
  if (dtype && (situ_dtype)saved->view.dtype != dtype) {
    (void)snprintf(text, sizeof text, "%s, which was %s and is %s now%s, between forward and backward", which,
                   situ_dtype_name(dtype), situ_dtype_name((situ_dtype)saved->view.dtype), by);
    return refuse_saved(p, n, saved, SITU_E_STATE, text);
  }
  (void)snprintf(text, sizeof text, "%s, made at %s, but it was changed in place since: version %u now, %u then", which,
                 situ__site_text(saved->created_at, site, sizeof site), now, version);
  return refuse_saved(p, n, saved, SITU_E_STATE, text);
}

static bool check_node(const situ__pass *p, const situ__node *n) {
  if (!n->backward)
    return situ__fail(SITU_E_UNSUPPORTED, p->op, "%s cannot be differentiated, but a gradient reached it", n->name),
           false;
  for (int i = 0; i < n->ins; i++) {
    const situ__operand *o = &n->in[i];
    if (!is_as_saved(o->saved, o->version, o->device))
      return refuse_changed(p, n, o->saved, o->version, o->device, n->dtype[i], "operand", i);
  }
  for (int k = 0; k < n->outs; k++) {
    const situ__result *r = &n->out[k];
    if (!is_as_saved(r->saved, r->version, r->device))
      return refuse_changed(p, n, r->saved, r->version, r->device, SITU_DTYPE_DEFAULT, "result", k);
  }
  return true;
}

/* A pass that frees saved values must be alone in the node; passes that retain the graph may share it. */
static bool enter_node(const situ__pass *p, situ__node *n) {
  if (!n->saves) return true;
  int32_t state = __atomic_load_n(&n->state, __ATOMIC_RELAXED), next;
  if (state == SITU__NODE_IDLE && !p->retain_graph && situ__one_thread()) {
    __atomic_store_n(&n->state, SITU__NODE_TAKEN, __ATOMIC_RELAXED); /* as counts in base/refs.h */
    return true;
  }
  do {
    if (state == SITU__NODE_FREED)
      return situ__fail(SITU_E_STATE, p->op,
                        "the graph was already used by a backward, which freed what %s had saved; pass retain_graph",
                        n->name),
             false;
    if (state == SITU__NODE_TAKEN || (state > 0 && !p->retain_graph))
      return situ__fail(SITU_E_STATE, p->op,
                        "another backward is running through %s, and one of the two frees what it has saved; "
                        "pass retain_graph to both, or run one after the other",
                        n->name),
             false;
    next = p->retain_graph ? state + 1 : SITU__NODE_TAKEN;
  } while (!__atomic_compare_exchange_n(&n->state, &state, next, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
  return true;
}

static void leave_node(const situ__pass *p, situ__node *n, bool done) {
  if (!n->saves) return;
  if (p->retain_graph) {
    __atomic_fetch_sub(&n->state, 1, __ATOMIC_RELEASE);
    return;
  }
  if (done) situ__node_clear(n);
  __atomic_store_n(&n->state, done ? SITU__NODE_FREED : SITU__NODE_IDLE, __ATOMIC_RELEASE);
}

/* Returns false after recording an error if the gradient of a result is not on the result's device, because a hook or
   a move changed it. */
static bool check_arrival(const situ__pass *p, const situ__node *n, const situ__result *r, const situ_tensor *grad) {
  situ_device there = grad->view.storage->device;
  if (situ__same_device(r->device, there)) return true;
  char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
  return situ__fail(
             SITU_E_DEVICE, p->op,
             "%s gave its result on %s, but the gradient of it is on %s: was it moved between forward and backward?",
             n->name, situ_device_name(r->device, a), situ_device_name(there, b)),
         false;
}

/* Runs the results' hooks on the complete gradients, then stores requested and retained ones. */
static bool finish_results(situ__pass *p, const situ__asked *asked, const situ__node *n, situ_tensor **grad) {
  for (int k = 0; k < n->outs; k++) {
    situ__meta *m = n->out[k].meta;
    if (!grad[k]) continue;
    if (!situ__run_hooks(p->op, m, &grad[k]) || !check_arrival(p, n, &n->out[k], grad[k])) return false;
    if (m && m->retain && !asked && !situ__pass_keep(p, m, grad[k])) return false;
    if (asked) situ__asked_found(asked, n, k, grad[k]);
  }
  return true;
}

/* Saved values must not move while n's backward runs. */
static bool run_backward(situ__pass *p, const situ__node *n, situ_tensor *const *grad, const bool *wants,
                         situ_tensor **dx) {
  situ__use use;
  if (n->saves && !situ__use_begin(&use, situ__node_marks, n)) return situ__busy(p->op, n->name);
  void *const outer = situ__origin.within;
  const uint16_t module = situ__is_profiled() ? situ__profile_enter(n->module) : 0;
  situ__origin.within = p->site;
  bool good = check_node(p, n) && n->backward(p, n, grad, wants, dx);
  situ__origin.within = outer;
  if (situ__is_profiled()) (void)situ__profile_enter(module);
  if (n->saves) situ__use_end();
  return good;
}

/* Calls the backward of n and passes its gradients on. */
static bool run_node(situ__pass *p, situ__node *n, situ_tensor *const *grad, const bool *wants, situ_tensor **dx) {
  if (!enter_node(p, n)) return false;
  situ_scope s;
  situ_scope_begin(&s);
  bool good = run_backward(p, n, grad, wants, dx);
  if (__builtin_expect(good && situ__anomaly.checks_nan, 0)) good = situ__anomaly_check(p->op, n, dx);
  for (int i = 0; i < n->ins; i++)
    if ((dx[i] = good && wants[i] ? dx[i] : NULL)) situ__refs_add(&dx[i]->refs);
  SITU_IGNORE(situ_scope_end(&s));
  leave_node(p, n, good);
  for (int i = 0; i < n->ins; i++) {
    if (!dx[i]) continue;
    if (good) good = deliver_gradient(p, &n->in[i], dx[i]);
    else situ_release(dx[i]);
  }
  return good;
}

static bool step_node(situ__pass *p, const situ__asked *asked, situ__node *n) {
  enum { FEW = 8 };
  bool few_wants[FEW], *wants = few_wants, any = false;
  situ_tensor *few[2 * FEW], **dx = few, **grad = few + FEW;
  if (n->ins > FEW || n->outs > FEW) {
    size_t bytes = (size_t)(n->ins + n->outs) * sizeof *dx + (size_t)n->ins;
    if (!(dx = situ__alloc(bytes))) return situ__no_memory(p->op, bytes), false;
    grad = dx + n->ins;
    wants = (bool *)(grad + n->outs);
  }
  situ__pass_take(p, n, grad);
  for (int i = 0; i < n->ins; i++) {
    const situ__operand *o = &n->in[i];
    wants[i] = (o->node || o->leaf) && (!asked || situ__asked_leads(asked, o));
    any |= wants[i];
    dx[i] = NULL;
  }
  bool good = finish_results(p, asked, n, grad) && (!any || run_node(p, n, grad, wants, dx));
  for (int k = 0; k < n->outs; k++) situ_release(grad[k]);
  if (dx != few) situ__free(dx);
  return good;
}

/* Returns dt/dt, or the gradient that the caller gave; owned. */
static situ_tensor *seed_gradient(const char *op, situ_tensor *t, situ_tensor *given) {
  if (given) return situ__gradient_fits(op, "gradient", given, t) ? situ_retain(given) : NULL;
  if (t->view.numel != 1) {
    situ_shape shape = situ__shape(&t->view);
    char text[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, op,
                      "the tensor has shape %s: only one element has a gradient of 1; pass options.gradient",
                      situ_shape_text(&shape, text)),
           NULL;
  }
  situ_tensor *one = fresh_like(op, t);
  if (!one) return NULL;
  const situ_work work = { SITU_VERB_FILL, .outs = 1, .out = { &one->view }, .scalar = { 1 }, .integer = { 1 } };
  return situ__run(op, one->view.storage->device, &work) == SITU_OK ? situ_retain(one) : NULL;
}

static bool walk_graph(situ__pass *p, const situ__asked *asked, situ_tensor *t, situ_tensor *given) {
  situ_tensor *grad = seed_gradient(p->op, t, given);
  const situ__operand root = { .node = t->node, .leaf = t->node ? NULL : t, .result = t->node_result };
  if (!grad || !deliver_gradient(p, &root, grad)) return false;
  while (situ__pass_next(p))
    if (!step_node(p, asked, situ__pass_next(p)) || !situ__leaves_advance(p)) return false;
  if (!situ__leaves_finish(p)) return false;
  if (asked) situ__asked_leaves(asked, p);
  return asked || situ__leaves_told(p);
}

/* Passes that run on this thread: each but the first in a hook, or a function's backward, of the one before. */
static SITU__THREAD_LOCAL int nested;

/* A hook that goes backward through its own tensor would nest passes until the stack is used up. */
static bool may_nest(const char *op) {
  enum { MOST = 60 }; /* as PyTorch's engine on one thread; a pass takes about 2 KiB of stack */
  if (nested < MOST) return true;
  return situ__fail(
             SITU_E_STATE, op,
             "%d backward passes run, each in a hook of the one before: does a hook go backward on a loss that its own "
             "tensor leads to? Let it do so only once, or remove it (situ_remove_hooks) before",
             nested),
         false;
}

static situ_status run_pass(const char *op, situ_tensor *t, const situ_backward_options *options, situ__asked *asked) {
  SITU__DEFAULT_FPU;
  situ_backward_options o = options ? *options : (situ_backward_options){ 0 };
  o.create_graph |= situ__sampling != NULL; /* only recorded calls take samples */
  if (situ__forward_mode == SITU__FORWARD_ON)
    return situ__fail(SITU_E_UNSUPPORTED, op,
                      "inside situ_func_jvp: gradients computed there would have no tangents; differentiate what "
                      "situ_func_jvp returns instead");
  if (options && !situ__optional(op, "gradient", o.gradient, SITU__A_TENSOR)) return situ_error();
  if (!t->requires_grad)
    return situ__fail(SITU_E_STATE, op, "the tensor does not require a gradient: no operand of what made it does");
  if (!situ__view_fresh(op, t) || !may_nest(op)) return situ_error();
  const uint32_t autocast = situ__setting.autocast; /* the forward has chosen the dtypes */
  situ__setting.autocast = 0;
  situ_scope s;
  situ__scope_begin_as(&s, o.create_graph);
  situ__pass p;
  situ__pass_begin(&p, op, o.retain_graph || o.create_graph);
  p.create_graph = o.create_graph;
  p.asked = asked;
  /* t owns the graph, and a hook may release t. */
  situ__node *root = t->node;
  if (root) situ__refs_add(&root->refs);
  nested++;
  bool good = !asked || situ__asked_find(asked, op, t);
  if (good && (!asked || asked->reached)) good = walk_graph(&p, asked, t, o.gradient);
  good = situ__leaves_callbacks(&p) && good;
  nested--;
  situ__pass_end(&p);
  situ__node_release(root);
  SITU_IGNORE(situ_scope_end(&s));
  situ__setting.autocast = autocast;
  return good ? SITU_OK : situ_error();
}

/* In situ_func_vmap: what was recorded only because samples need it. Takes over the reference. */
static situ_tensor *without_history(const char *op, situ_tensor *grad) {
  situ_tensor *own = situ__tensor_alias(op, &grad->view, grad->created_at);
  situ_release(grad);
  return own;
}

situ_status situ_backward(situ_tensor *t, const situ_backward_options *options) {
  return situ__need("backward", "input", t) ? run_pass("backward", t, options, NULL) : situ_error();
}

situ_status situ_autograd_grad(situ_tensor *t, int count, situ_tensor *const *inputs, situ_tensor **grads,
                               const situ_backward_options *options) {
  const char *op = "autograd_grad";
  if (count <= 0 || !inputs || !grads) return situ__fail(SITU_E_ARG, op, "no inputs to differentiate for");
  if (!situ__apart(op, "inputs and grads", inputs, count, grads, count)) return situ_error();
  for (int i = 0; i < count; i++) grads[i] = NULL;
  if (!situ__need(op, "input", t)) return situ_error();
  for (int i = 0; i < count; i++) {
    if (!situ__need(op, "inputs", inputs[i])) return situ_error();
    if (!inputs[i]->requires_grad) return situ__fail(SITU_E_STATE, op, "inputs[%d] does not require a gradient", i);
    if (!situ__view_fresh(op, inputs[i])) return situ_error();
  }
  situ__asked asked = { .count = count, .inputs = inputs, .found = grads };
  situ_status status = run_pass(op, t, options, &asked);
  situ__asked_free(&asked);
  const bool recorded = options && options->create_graph;
  int owned = 0; /* number of gradients that the scope owns */
  for (; status == SITU_OK && owned < count; owned++) {
    if (!grads[owned]) continue;
    situ_tensor *g = situ__owned_copy(op, grads[owned], NULL, recorded || situ__sampling);
    if (g && !recorded && situ__sampling) g = without_history(op, g);
    if (g) g->first_order = !recorded;
    if (!situ__scope_own(op, g)) status = situ_error();
    grads[owned] = g;
  }
  for (int i = 0; status != SITU_OK && i < count; i++) {
    if (i < owned) grads[i] = NULL;
    else situ_drop(&grads[i]);
  }
  return status;
}
