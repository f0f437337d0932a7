/* The tape: records a call, and frees nodes without recursion.
   SPDX-License-Identifier: MIT */
#include "autograd/anomaly.h"
#include "autograd/saved.h"
#include "autograd/view.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/refs.h"
#include "base/thread.h"
#include "device/profile/profile.h"
#include "situ/sys/op.h"

/* The highest sequence number that this thread has recorded or used: numbering needs no synchronisation between
   threads. */
static SITU__THREAD_LOCAL uint64_t clock;

uint64_t situ__tape_now(void) { return clock; }
void situ__tape_follow(const situ__node *n) {
  if (clock < n->sequence) clock = n->sequence;
}

unsigned situ__tape_asks(situ_tensor *const *in, int ins) {
  if (!situ__recording()) return 0;
  unsigned asks = 0;
  for (int i = 0; i < ins; i++) {
    const situ_tensor *t = in[i];
    if (!t) continue;
    asks |= (unsigned)t->requires_grad * SITU__TAPE_WANTED | (unsigned)t->first_order * SITU__TAPE_FIRST_ORDER;
    if (t->base && situ__view_is_stale(t)) asks |= SITU__TAPE_STALE;
  }
  return asks;
}

bool situ__tape_refuse_first_order(const char *op, situ_tensor *const *in, int ins) {
  int i = 0;
  while (i < ins - 1 && !(in[i] && in[i]->first_order)) i++;
  const char *name = situ_name(in[i]);
  return situ__fail(SITU_E_UNSUPPORTED, op,
                    "operand %d%s%s is a gradient, or was computed from one, and is used together with what "
                    "requires a gradient: its own derivative would be dropped; compute it with create_graph, or "
                    "make a constant of it with situ_detach",
                    i, *name ? ", " : "", name),
         false;
}

static inline size_t rounded(size_t bytes) { return (bytes + 15) / 16 * 16; }

static situ__node *node_new(const situ__record *r) {
  const size_t ins = (size_t)r->ins, outs = (size_t)r->outs,
               head = rounded(sizeof(situ__node) + outs * sizeof(situ__result) +
                              ins * (sizeof(situ__operand) + sizeof(situ_shape) + sizeof(situ_dtype))),
               size = head + rounded(r->params_size);
  situ__node *n = situ__small_alloc(size);
  if (!n) return situ__no_memory(r->name, size), NULL;
  situ__operand *in = (situ__operand *)(n + 1);
  situ__result *out = (situ__result *)(in + ins);
  situ_shape *shape = (situ_shape *)(out + outs);
  *n = (situ__node){ .refs = 1,
                     .name = r->name,
                     .backward = r->backward,
                     .owner = r->owner,
                     .params = (void *)(uintptr_t)r->params,
                     .release = r->release,
                     .size = size,
                     .in = in,
                     .out = out,
                     .shape = shape,
                     .dtype = (situ_dtype *)(shape + ins) };
  if (r->params_size) {
    n->params = (char *)n + head;
    memcpy(n->params, r->params, r->params_size);
  }
  return n;
}

/* Returns a separate handle on the same values, without history: a saved value must not own the node that saves it,
   neither now nor after it was written in place. */
static situ_tensor *alias_value(const char *op, const situ_tensor *t) {
  situ_tensor *copy = situ__tensor_alias(op, &t->view, t->created_at);
  if (copy && t->name) copy->name = situ__share_text(t->name); /* for messages only */
  return copy;
}

static bool is_leaf(const situ_tensor *t) { return t->requires_grad && !t->node; }
/* A leaf that requires a gradient, and a view of one, cannot be written in place while recording, so they are saved
   themselves. */
static bool is_of_leaf(const situ_tensor *t) { return is_leaf(t) || (t->base && is_leaf(t->base)); }

/* For an operand that is written in place, returns the copy of its earlier values. */
static situ_tensor *value_before(const situ__record *r, situ_tensor *t) {
  return r->before && t->view.storage == r->in[0]->view.storage && situ__same_place(&t->view, &r->in[0]->view)
             ? r->before
             : t;
}

static bool prepare_operand(situ__node *n, int i, const situ__record *r) {
  situ__operand *o = &n->in[i];
  situ_tensor *t = r->in[i];
  o->node = NULL;
  o->leaf = o->saved = NULL;
  if (!t) return true;
  n->dtype[i] = (situ_dtype)t->view.dtype;
  n->shape[i] = situ__shape(&t->view);
  if (t->requires_grad && t->node) {
    situ__refs_add(&t->node->refs);
    o->node = t->node;
    o->result = t->node_result;
    situ__tape_follow(o->node);
  } else if (t->requires_grad) {
    situ__refs_add(&t->refs);
    o->leaf = t;
  }
  if (!(r->save & SITU_SAVE(i < SITU_OPERANDS ? i : 0))) return true;
  n->saves = true;
  situ_tensor *value = value_before(r, t);
  if (!is_of_leaf(value)) return (o->saved = alias_value(r->name, value)) != NULL;
  if (value != o->leaf) situ__refs_add(&value->refs);
  o->saved = value;
  return true;
}

static situ__meta *fresh_meta(const char *op) {
  situ__meta *m = situ__small_alloc(sizeof *m);
  if (m) *m = (situ__meta){ .refs = 1 };
  else situ__no_memory(op, sizeof *m);
  return m;
}

/* Hooks and gradient of a tensor belong to its value before a write in place; only retain_grad stays, as in torch. */
static bool prepare_result(situ__node *n, int k, const situ__record *r) {
  const situ_tensor *t = r->out[k];
  n->out[k] = (situ__result){ 0 };
  if (!t) return true;
  if (t->meta && t->meta->retain) {
    if (!(n->out[k].meta = fresh_meta(r->name))) return false;
    n->out[k].meta->retain = true;
  }
  if (!(r->save & SITU_SAVE_OUT(k))) return true;
  n->saves = true;
  return (n->out[k].saved = alias_value(r->name, t)) != NULL;
}

situ__node *situ__tape_prepare(const situ__record *r) {
  situ__node *n = node_new(r);
  if (!n) return NULL;
  bool good = true;
  int i = 0, k = 0;
  while (good && i < r->ins) good = prepare_operand(n, i++, r);
  while (good && k < r->outs) good = prepare_result(n, k++, r);
  n->ins = i;
  n->outs = k;
  n->sequence = ++clock;
  n->module = situ__is_profiled() ? situ__profile_module() : 0;
  if (good && situ__anomaly.detects) good = (n->origin = situ__anomaly_origin(r->name)) != NULL;
  if (good) return n;
  situ__tape_cancel(n);
  return NULL;
}

void situ__tape_cancel(situ__node *n) {
  if (n) n->release = NULL;
  situ__node_release(n);
}

void situ__tape_connect(situ__node *node, int i, situ__node *n, int k) {
  situ__operand *o = &node->in[i];
  situ__node *before = o->node;
  situ__refs_add(&n->refs);
  o->node = n;
  o->result = k;
  situ__node_release(before);
}

static void note_version(const situ_tensor *saved, uint32_t *version, situ_device *device) {
  *version = __atomic_load_n(&saved->view.storage->version, __ATOMIC_RELAXED);
  *device = saved->view.storage->device;
}

/* Makes t result k of n. */
static void attach_result(situ__node *n, int k, situ_tensor *t) {
  situ__meta *before = t->meta, *m = n->out[k].meta;
  if (t->node) situ__node_release(t->node); /* in place: the operand's edge keeps the earlier node alive */
  n->refs++;                                /* not atomic: no other thread knows n yet */
  t->node = n;
  t->node_result = k;
  t->requires_grad = true;
  if (!before) return;
  before->retain = false;
  if (m) m->refs++;
  t->meta = m;
  situ__meta_release(before);
}

/* Leaves stay as they are, since the program holds them anyway. */
static bool pack_saved(situ__node *n) {
  bool good = true;
  for (int i = 0; i < n->ins; i++) {
    situ__operand *o = &n->in[i];
    if (!o->saved || o->saved == o->leaf) continue;
    good &= situ__saved_pack(n->name, &o->saved);
    note_version(o->saved, &o->version, &o->device);
  }
  for (int k = 0; k < n->outs; k++) {
    situ__result *r = &n->out[k];
    if (!r->saved) continue;
    good &= situ__saved_pack(n->name, &r->saved);
    if (situ__saved_is_packed(r->saved)) r->version = r->saved->view.storage->version;
  }
  return good;
}

bool situ__tape_attach(situ__node *n, situ_tensor *const *out) {
  for (situ__operand *o = n->in, *past = o + n->ins; o < past; o++)
    if (o->saved) note_version(o->saved, &o->version, &o->device);
  for (int k = 0; k < n->outs; k++) {
    if (!out[k]) continue;
    if (n->out[k].saved) n->out[k].version = __atomic_load_n(&out[k]->view.storage->version, __ATOMIC_RELAXED);
    n->out[k].device = out[k]->view.storage->device;
    if (!n->device.kind) n->device = n->out[k].device;
    if (situ__dtype_is_floating((situ_dtype)out[k]->view.dtype)) attach_result(n, k, out[k]);
  }
  const bool good = !situ__saved_hooks || !n->saves || pack_saved(n);
  if (n->refs > 1) n->refs--;
  else situ__node_release(n);
  return good;
}

/* ---- saved values with their history ---- */

static situ_tensor *value_of(const char *op, situ_tensor *saved, bool *good) {
  if (__builtin_expect(!situ__is_sample(saved), 1) || !situ__saved_is_packed(saved)) return saved;
  situ_tensor *t = situ__saved_unpack(op, saved);
  *good = *good && t;
  return t;
}

static situ_tensor *with_history(const char *op, situ_tensor *saved, situ__node *node, int32_t result, bool *good) {
  if (!saved || !node || saved->requires_grad || !situ__recording()) return saved;
  situ_tensor *t = situ__tensor_view(op, &saved->view);
  if (!t) {
    *good = false;
    return NULL;
  }
  situ__refs_add(&node->refs);
  t->node = node;
  t->node_result = result;
  t->requires_grad = true;
  return t;
}

situ_tensor *situ__saved_result(const situ__node *n, int k, bool *good) {
  const situ_tensor *saved = n->out[k].saved;
  situ__node *node = saved && situ_dtype_is_floating((situ_dtype)saved->view.dtype) ? (situ__node *)n : NULL;
  return with_history(n->name, value_of(n->name, n->out[k].saved, good), node, k, good);
}

static bool pass_on(situ__pass *pass, const situ__node *node, situ_tensor *const *grad, const bool *wants,
                    situ_tensor **dx) {
  (void)pass, (void)node, (void)wants;
  dx[0] = grad[0];
  return true;
}

/* value as the result of a call on `of`, which hands on the gradient. */
static situ_tensor *stand_in(const situ_view_desc *value, situ_tensor *of) {
  static const char name[] = "stand_in";
  situ_tensor *own = situ__tensor_view(name, value);
  situ__node *n = own ? situ__tape_prepare(&(situ__record){
                            .name = name, .backward = pass_on, .in = &of, .out = &own, .ins = 1, .outs = 1 })
                      : NULL;
  if (!n) return NULL;
  return situ__tape_attach(n, &own) ? own : NULL;
}

situ_tensor *situ__tape_stand_in(situ_tensor *t) { return stand_in(&t->view, t); }

situ_tensor *situ__saved_operand(const situ__node *n, int i, bool *good) {
  const situ__operand *o = &n->in[i];
  situ_tensor *saved = value_of(n->name, o->saved, good);
  if (!o->leaf || !saved || saved == o->leaf || !situ__recording())
    return with_history(n->name, saved, o->node, o->result, good);
  saved = stand_in(&saved->view, o->leaf); /* a copy of the leaf's values has no history of its own */
  *good = *good && saved;
  return saved;
}

static inline void drop_operand(const situ__operand *o) {
  if (o->saved && o->saved != o->leaf) situ_release(o->saved);
}
static inline void drop_result(const situ__result *r) {
  if (r->saved) situ_release(r->saved);
}

void situ__node_clear(situ__node *n) {
  for (situ__operand *o = n->in; o < n->in + n->ins; o++) {
    drop_operand(o);
    o->saved = NULL;
  }
  for (situ__result *r = n->out; r < n->out + n->outs; r++) {
    drop_result(r);
    r->saved = NULL;
  }
}

static void destroy_node(situ__node *n) {
  for (const situ__operand *o = n->in, *past = o + n->ins; o < past; o++) {
    drop_operand(o);
    if (o->node) situ__node_release(o->node);
    if (o->leaf) situ_release(o->leaf);
  }
  for (const situ__result *r = n->out, *past = r + n->outs; r < past; r++) {
    drop_result(r);
    if (r->meta) situ__meta_release(r->meta);
  }
  if (n->release) n->release(n->params);
  if (n->origin) situ__free(n->origin);
  situ__small_free(n, n->size);
}

/* Freeing a node releases its input nodes; for a chain of a million this would overflow the stack. So each thread
   keeps a list of nodes to free, and the outermost call empties it. */
static SITU__THREAD_LOCAL situ__node *doomed;
static SITU__THREAD_LOCAL bool draining;

void situ__node_release(situ__node *n) {
  if (!n || !situ__refs_drop(&n->refs)) return;
  n->next = doomed;
  doomed = n;
  if (draining) return;
  draining = true;
  while (doomed) {
    situ__node *dead = doomed;
    doomed = dead->next;
    destroy_node(dead);
  }
  draining = false;
}
