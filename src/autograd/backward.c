/* Walking the tape back. Calls have ascending sequence numbers, and what a call used was made before it; so working
   off the reached calls in descending order is a topological order, and a heap is all it takes: no recursion.
   Leaves change only when the whole pass has succeeded.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "autograd/tape.h"
#include "base/alloc.h"
#include "base/fail.h"

typedef struct pass {
  const char   *op;
  bool          retain_graph;
  situ__node  **heap;            /* reached, not yet worked off; the largest sequence first */
  size_t        count, capacity;
  situ_tensor **leaves;          /* leaves with a pending gradient; owned */
  size_t        leaf_count, leaf_capacity;
  int           wanted;          /* autograd.grad: inputs, and what was found for them */
  situ_tensor *const *inputs;
  situ_tensor **found;           /* owned */
} pass;

static bool grow(const char *op, void **array, size_t *capacity, size_t count) {
  if (count < *capacity) return true;
  size_t larger = *capacity ? 2 * *capacity : 64;
  void *moved = situ__realloc(*array, larger * sizeof(void *));
  if (!moved) {
    situ__no_memory(op, larger * sizeof(void *));
    return false;
  }
  *array = moved;
  *capacity = larger;
  return true;
}

static bool push(pass *p, situ__node *n) {
  if (n->queued) return true;
  if (!grow(p->op, (void **)&p->heap, &p->capacity, p->count)) return false;
  n->queued = true;
  size_t at = p->count++;
  for (; at && p->heap[(at - 1) / 2]->sequence < n->sequence; at = (at - 1) / 2) p->heap[at] = p->heap[(at - 1) / 2];
  p->heap[at] = n;
  return true;
}

static situ__node *pop(pass *p) {
  situ__node *first = p->heap[0], *moved = p->heap[--p->count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < p->count; at = child) {
    if (child + 1 < p->count && p->heap[child + 1]->sequence > p->heap[child]->sequence) child++;
    if (p->heap[child]->sequence <= moved->sequence) break;
    p->heap[at] = p->heap[child];
  }
  p->heap[at] = moved;
  first->queued = false;
  return first;
}

/* ---- adding gradients ---- */

static situ_tensor *fresh_like(const char *op, const situ_tensor *t) {
  situ_shape shape = situ__shape(&t->view);
  return situ__tensor_new(op, &shape, (situ_dtype)t->view.dtype, t->view.storage->device);
}

/* Is this memory seen through this one handle only, so that it may be written? */
static bool exclusive(const situ_tensor *t) {
  return t->view.contiguous && __atomic_load_n(&t->refs, __ATOMIC_RELAXED) == 1 &&
         __atomic_load_n(&t->view.storage->refs, __ATOMIC_RELAXED) == 1;
}

/* Gradients of one value meet on one device and in its dtype, or something was moved or cast between forward and backward: refused, never
   orphaned. */
static bool same_place(const char *op, const situ_tensor *at, const char *what, const situ_tensor *grad) {
  situ_device here = at->view.storage->device, there = grad->view.storage->device;
  const char *name = *situ_name(at) ? situ_name(at) : what;
  if (situ_device_equal(here, there) && at->view.dtype == grad->view.dtype) return true;
  if (situ_device_equal(here, there)) {
    situ__fail(SITU_E_DTYPE, op, "%s is %s, but a gradient for it arrived as %s: was it cast between forward and backward?", name,
               situ_dtype_name((situ_dtype)at->view.dtype), situ_dtype_name((situ_dtype)grad->view.dtype));
    return false;
  }
  char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
  situ__fail(SITU_E_DEVICE, op, "%s is on %s, but a gradient for it arrived on %s: was it moved between forward and backward?",
             name, situ_device_name(here, a), situ_device_name(there, b));
  return false;
}

bool situ__accumulate(const char *op, situ_tensor **slot, situ_tensor *grad) {
  if (!*slot) {
    *slot = grad;
    return true;
  }
  if (!same_place(op, *slot, "a gradient", grad)) {
    situ_release(grad);
    return false;
  }
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *sum = exclusive(*slot) ? *slot : fresh_like(op, *slot);
  bool good = sum != NULL;
  if (good) {
    const situ_work work = { .verb = SITU_VERB_BINARY, .op = SITU_BINARY_add, .compute = (situ_dtype)sum->view.dtype, .ins = 2,
                             .outs = 1, .in = { &(*slot)->view, &grad->view }, .out = { &sum->view } };
    good = situ__run(op, sum->view.storage->device, &work) == SITU_OK;
  }
  if (good && sum != *slot) situ_set(slot, sum);
  SITU_IGNORE(situ_scope_end(&s));
  situ_release(grad);
  return good;
}

situ_tensor *situ__collected(const situ__node *n, int i) {
  const situ__operand *o = &n->in[i];
  situ_tensor *sum = o->node ? o->node->out[o->result].grad : o->leaf && o->leaf->meta ? o->leaf->meta->pending : NULL;
  bool may = sum && exclusive(sum) && sum->view.dtype == o->dtype && situ_device_equal(sum->view.storage->device, n->device);
  return may ? sum : NULL;
}

/* A gradient that a leaf may keep: in memory of its own, row-major. Takes over the reference. */
static situ_tensor *owned_copy(const char *op, situ_tensor *grad) {
  if (exclusive(grad)) return grad;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *copy = fresh_like(op, grad);
  if (copy) {
    const situ_work work = { .verb = SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &grad->view }, .out = { &copy->view } };
    copy = situ__run(op, copy->view.storage->device, &work) == SITU_OK ? situ_retain(copy) : NULL;
  }
  SITU_IGNORE(situ_scope_end(&s));
  situ_release(grad);
  return copy;
}

/* Runs hooks on *grad, which is owned. */
static bool run_hooks(const char *op, const situ__meta *m, situ_tensor **grad) {
  for (const situ__hook *h = m ? m->hooks : NULL; h; h = h->next) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    situ_tensor *changed = h->fn(*grad, h->payload);
    bool good = situ__error_count() == s.errors;
    if (good && changed && changed != *grad) {
      if (situ__same_sizes(&changed->view, &(*grad)->view) && changed->view.dtype == (*grad)->view.dtype) situ_set(grad, changed);
      else good = situ__fail(SITU_E_SHAPE, op, "a hook returned a gradient of another shape or dtype") == SITU_OK;
    }
    SITU_IGNORE(situ_scope_end(&s));
    if (!good) return false;
  }
  return true;
}

/* ---- the walk ---- */

static bool to_leaf(pass *p, situ_tensor *leaf, situ_tensor *grad) {
  if (!same_place(p->op, leaf, "a leaf", grad)) {
    situ_release(grad);
    return false;
  }
  situ__meta *m = situ__meta_of(p->op, leaf);
  bool first = m && !m->pending;
  if (!m || (first && !grow(p->op, (void **)&p->leaves, &p->leaf_capacity, p->leaf_count))) {
    situ_release(grad);
    return false;
  }
  if (first) p->leaves[p->leaf_count++] = situ_retain(leaf);
  return situ__accumulate(p->op, &m->pending, grad);
}

static bool deliver(pass *p, const situ__operand *o, situ_tensor *grad) {
  if (o->leaf) return to_leaf(p, o->leaf, grad);
  return situ__accumulate(p->op, &o->node->out[o->result].grad, grad) && push(p, o->node);
}

/* What was saved is as it was, and where it was: kernels of the way back are handed it as it is. */
static bool unchanged(const pass *p, const situ__node *n, const situ_tensor *saved, uint32_t version, situ_device device, const char *what, int i) {
  if (!saved) return true;
  uint32_t now = __atomic_load_n(&saved->view.storage->version, __ATOMIC_RELAXED);
  situ_device here = saved->view.storage->device;
  if (now == version && situ_device_equal(here, device)) return true;
  situ_shape shape = situ__shape(&saved->view);
  char text[SITU_SHAPE_TEXT], site[256];
  if (!situ_device_equal(here, device)) {
    char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
    situ__fail(SITU_E_DEVICE, p->op, "%s needs its %s %d%s%s (%s), which was on %s and is on %s now: it was moved between forward and backward", n->name,
               what, i, *situ_name(saved) ? " " : "", situ_name(saved), situ_shape_text(&shape, text), situ_device_name(device, a), situ_device_name(here, b));
    return false;
  }
  situ__fail(SITU_E_STATE, p->op, "%s needs its %s %d%s%s (%s, made at %s), but it was changed in place since: version %u now, %u then",
             n->name, what, i, *situ_name(saved) ? " " : "", situ_name(saved), situ_shape_text(&shape, text),
             situ__site_text(saved->created_at, site, sizeof site), now, version);
  return false;
}

static bool ready(const pass *p, const situ__node *n) {
  if (!n->backward) {
    situ__fail(SITU_E_UNSUPPORTED, p->op, "%s cannot be differentiated, but a gradient reached it", n->name);
    return false;
  }
  if (n->freed) {
    situ__fail(SITU_E_STATE, p->op, "the graph was already used by a backward, which freed what %s had saved; pass retain_graph", n->name);
    return false;
  }
  for (int i = 0; i < n->ins; i++)
    if (!unchanged(p, n, n->in[i].saved, n->in[i].version, n->in[i].device, "operand", i)) return false;
  for (int k = 0; k < n->outs; k++)
    if (!unchanged(p, n, n->out[k].saved, n->out[k].version, n->out[k].device, "result", k)) return false;
  return true;
}

/* autograd.grad: is this result one of the wanted inputs? */
static void capture(pass *p, const situ__node *n) {
  for (int i = 0; i < p->wanted; i++) {
    situ_tensor *t = p->inputs[i];
    if (t->node == n && n->out[t->node_result].grad) situ_set(&p->found[i], n->out[t->node_result].grad);
  }
}

/* Is the gradient of a result where the result was? A hook, or a move, may have brought it elsewhere. */
static bool arrived(const pass *p, const situ__node *n, const situ__result *r) {
  situ_device there = r->grad->view.storage->device;
  if (situ_device_equal(r->device, there)) return true;
  char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
  situ__fail(SITU_E_DEVICE, p->op, "%s gave its result on %s, but the gradient of it is on %s: was it moved between forward and backward?", n->name,
             situ_device_name(r->device, a), situ_device_name(there, b));
  return false;
}

static bool step(pass *p, situ__node *n) {
  enum { FEW = 8 };
  bool few_wants[FEW], *wants = few_wants;
  situ_tensor *few[2 * FEW], **dx = few, **grad = few + FEW;
  if (!ready(p, n)) return false;
  if (n->ins > FEW || n->outs > FEW) {
    size_t bytes = (size_t)(n->ins + n->outs) * sizeof *dx + (size_t)n->ins;
    if (!(dx = situ__alloc(bytes))) return situ__no_memory(p->op, bytes), false;
    grad = dx + n->ins;
    wants = (bool *)(grad + n->outs);
  }
  bool good = true, hooked = false;
  for (int k = 0; k < n->outs; k++) {
    situ__result *r = &n->out[k];
    hooked |= r->grad && r->meta && r->meta->hooks;
    if (r->grad) good = good && run_hooks(p->op, r->meta, &r->grad);
    if (r->grad && good) good = arrived(p, n, r);
    if (good && r->grad && r->meta && r->meta->retain && !p->wanted) situ_set(&r->meta->grad, r->grad);
  }
  good = good && (!hooked || ready(p, n)); /* hooks may move things, and write to them */
  capture(p, n);
  for (int k = 0; k < n->outs; k++) {
    grad[k] = n->out[k].grad;
    n->out[k].grad = NULL;
  }
  for (int i = 0; i < n->ins; i++) {
    wants[i] = n->in[i].node || n->in[i].leaf;
    dx[i] = NULL;
  }
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  good = good && n->backward(n, grad, wants, dx);
  for (int i = 0; i < n->ins; i++) dx[i] = wants[i] ? situ_retain(dx[i]) : NULL;
  SITU_IGNORE(situ_scope_end(&s));
  for (int k = 0; k < n->outs; k++) situ_release(grad[k]);
  for (int i = 0; i < n->ins; i++) {
    if (!dx[i]) continue;
    if (good) good = deliver(p, &n->in[i], dx[i]);
    else situ_release(dx[i]);
  }
  if (good && !p->retain_graph) situ__node_clear(n);
  if (dx != few) situ__free(dx);
  return good;
}

/* ---- the end: leaves get their gradients all at once ---- */

/* The sums are made first, each in the memory of what this pass found; then handles change places, which cannot fail. */
static bool commit(pass *p) {
  for (size_t i = 0; i < p->leaf_count; i++) {
    situ__meta *m = p->leaves[i]->meta;
    if (!run_hooks(p->op, m, &m->pending) || !same_place(p->op, p->leaves[i], "a leaf", m->pending)) return false;
    m->pending = owned_copy(p->op, m->pending);
    if (!m->pending) return false;
    situ_set_role(m->pending, SITU_ROLE_GRADIENT);
    if (m->grad && !p->wanted && !situ__accumulate(p->op, &m->pending, situ_retain(m->grad))) return false;
  }
  for (size_t i = 0; i < p->leaf_count; i++) {
    situ__meta *m = p->leaves[i]->meta;
    for (int k = 0; k < p->wanted; k++)
      if (p->inputs[k] == p->leaves[i]) situ_set(&p->found[k], m->pending);
    if (!p->wanted) situ_set(&m->grad, m->pending);
    situ_drop(&m->pending);
  }
  return true;
}

static void finish(pass *p) {
  for (size_t i = 0; i < p->count; i++) {
    p->heap[i]->queued = false;
    for (int k = 0; k < p->heap[i]->outs; k++) situ_drop(&p->heap[i]->out[k].grad);
  }
  for (size_t i = 0; i < p->leaf_count; i++) {
    if (p->leaves[i]->meta) situ_drop(&p->leaves[i]->meta->pending);
    situ_release(p->leaves[i]);
  }
  situ__free(p->heap);
  situ__free(p->leaves);
}

/* dt/dt, or what the caller gave for it; owned. */
static situ_tensor *seed(const char *op, situ_tensor *t, situ_tensor *given) {
  if (given) {
    if (!situ__need(op, "gradient", given)) return NULL;
    if (!situ_device_equal(given->view.storage->device, t->view.storage->device)) {
      char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
      situ__fail(SITU_E_DEVICE, op, "gradient is on %s, the tensor on %s", situ_device_name(given->view.storage->device, a),
                 situ_device_name(t->view.storage->device, b));
      return NULL;
    }
    if (given->view.dtype != t->view.dtype || !situ__same_sizes(&given->view, &t->view)) {
      situ_shape want = situ__shape(&t->view), got = situ__shape(&given->view);
      char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
      situ__fail(given->view.dtype != t->view.dtype ? SITU_E_DTYPE : SITU_E_SHAPE, op, "gradient is %s %s, the tensor %s %s",
                 situ_dtype_name((situ_dtype)given->view.dtype), situ_shape_text(&got, a),
                 situ_dtype_name((situ_dtype)t->view.dtype), situ_shape_text(&want, b));
      return NULL;
    }
    return situ_retain(given);
  }
  if (t->view.numel != 1) {
    situ_shape shape = situ__shape(&t->view);
    char text[SITU_SHAPE_TEXT];
    situ__fail(SITU_E_SHAPE, op, "the tensor has shape %s: only one element has a gradient of 1; pass options.gradient",
               situ_shape_text(&shape, text));
    return NULL;
  }
  situ_tensor *one = fresh_like(op, t);
  if (!one) return NULL;
  const situ_work work = { .verb = SITU_VERB_FILL, .outs = 1, .out = { &one->view }, .scalar = { 1 }, .integer = { 1 } };
  return situ__run(op, one->view.storage->device, &work) == SITU_OK ? situ_retain(one) : NULL;
}

static situ_status walk(pass *p, situ_tensor *t, situ_tensor *given) {
  if (!t->requires_grad)
    return situ__fail(SITU_E_STATE, p->op, "the tensor does not require a gradient: no operand of what made it does");
  const uint32_t autocast = situ__setting.autocast;  /* it has chosen the dtypes on the way there */
  situ__setting.autocast = 0;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *grad = seed(p->op, t, given);
  bool good = grad != NULL;
  if (good && t->node) good = situ__accumulate(p->op, &t->node->out[t->node_result].grad, grad) && push(p, t->node);
  else if (good) good = to_leaf(p, t, grad);
  /* the graph stays alive through t, whose handle the caller holds */
  while (good && p->count) {
    situ__node *n = pop(p);
    good = step(p, n);
    if (!good)
      for (int k = 0; k < n->outs; k++) situ_drop(&n->out[k].grad);
  }
  good = good && commit(p);
  finish(p);
  SITU_IGNORE(situ_scope_end(&s));
  situ__setting.autocast = autocast;
  return good ? SITU_OK : situ_error();
}

situ_status situ_backward(situ_tensor *t, const situ_backward_options *options) {
  pass p = { .op = "backward", .retain_graph = options && options->retain_graph };
  if (!situ__need(p.op, "input", t)) return situ_error();
  return walk(&p, t, options ? options->gradient : NULL);
}

situ_status situ_autograd_grad(situ_tensor *t, int count, situ_tensor *const *inputs, situ_tensor **grads,
                               const situ_backward_options *options) {
  pass p = { .op = "autograd_grad", .retain_graph = options && options->retain_graph, .wanted = count, .inputs = inputs, .found = grads };
  if (!situ__need(p.op, "input", t)) return situ_error();
  if (count <= 0 || !inputs || !grads) return situ__fail(SITU_E_ARG, p.op, "no inputs to differentiate for");
  for (int i = 0; i < count; i++) {
    if (!situ__need(p.op, "inputs", inputs[i])) return situ_error();
    if (!inputs[i]->requires_grad) return situ__fail(SITU_E_STATE, p.op, "inputs[%d] does not require a gradient", i);
  }
  for (int i = 0; i < count; i++) grads[i] = NULL;
  situ_status status = walk(&p, t, options ? options->gradient : NULL);
  for (int i = 0; i < count; i++) {
    if (status != SITU_OK) situ_drop(&grads[i]);
    else if (grads[i] && !(grads[i] = situ__scope_own(p.op, grads[i]))) status = situ_error();
  }
  return status;
}
