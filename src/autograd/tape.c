/* The tape: recording a call, and freeing what was recorded without recursion.
   SPDX-License-Identifier: MIT */
#include "autograd/tape.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/thread.h"

static uint64_t next_sequence;

bool situ__tape_wanted(situ_tensor *const *in, int ins) {
  if (!situ__recording()) return false;
  for (int i = 0; i < ins; i++)
    if (in[i] && in[i]->requires_grad) return true;
  return false;
}

static size_t node_size(int ins, int outs, size_t params) {
  return sizeof(situ__node) + (size_t)ins * sizeof(situ__operand) + (size_t)outs * sizeof(situ__result) + (params + 15) / 16 * 16;
}

static situ__node *node_new(const situ__record *r) {
  size_t size = node_size(r->ins, r->outs, r->params_size);
  situ__node *n = situ__small_alloc(size);
  if (!n) {
    situ__no_memory(r->name, size);
    return NULL;
  }
  memset(n, 0, sizeof *n);
  n->size = size;
  n->refs = 1;
  n->sequence = __atomic_add_fetch(&next_sequence, 1, __ATOMIC_RELAXED);
  n->name = r->name;
  n->backward = r->backward;
  n->owner = r->owner;
  n->ins = r->ins;
  n->outs = r->outs;
  n->in = (situ__operand *)(n + 1);
  n->out = (situ__result *)(n->in + n->ins);
  memset(n->out, 0, (size_t)n->outs * sizeof *n->out);
  n->params = (void *)r->params;
  n->release = r->release;
  if (r->params_size) {
    n->params = n->out + n->outs;
    memcpy(n->params, r->params, r->params_size);
  }
  return n;
}

/* A handle of its own on the same values, without history: a saved result must not own the node that saves it. */
static situ_tensor *alias(const char *op, const situ_tensor *t) {
  situ_tensor *copy = situ__tensor_alias(op, &t->view);
  if (copy) copy->created_at = t->created_at;
  return copy;
}

static bool record_operand(situ__node *n, int i, const situ__record *r) {
  situ__operand *o = &n->in[i];
  situ_tensor *t = r->in[i];
  o->node = NULL;
  o->leaf = o->saved = NULL;
  if (!t) return true;
  o->dtype = (situ_dtype)t->view.dtype;
  o->shape = situ__shape(&t->view);
  if (t->requires_grad && t->node) {
    __atomic_fetch_add(&t->node->refs, 1, __ATOMIC_RELAXED);
    o->node = t->node;
    o->result = t->node_result;
  } else if (t->requires_grad) {
    o->leaf = situ_retain(t);
  }
  if (!(r->save & SITU_SAVE(i < SITU_OPERANDS ? i : 0))) return true;
  o->saved = situ_retain(r->before && t == r->in[0] ? r->before : t);
  o->version = __atomic_load_n(&o->saved->view.storage->version, __ATOMIC_RELAXED);
  o->device = o->saved->view.storage->device;
  return true;
}

bool situ__tape_record(const situ__record *r) {
  situ__node *n = node_new(r);
  if (!n) return false;
  int ins = n->ins;
  for (n->ins = 0; n->ins < ins;)
    if (!record_operand(n, n->ins++, r)) goto fail;
  for (int k = 0; k < n->outs; k++) {
    if (!r->out[k] || !(r->save & SITU_SAVE_OUT(k))) continue;
    n->out[k].version = __atomic_load_n(&r->out[k]->view.storage->version, __ATOMIC_RELAXED);
    if (!(n->out[k].saved = alias(r->name, r->out[k]))) goto fail;
  }
  for (int k = 0; k < n->outs; k++) {
    situ_tensor *t = r->out[k];
    if (!t) continue;
    n->out[k].device = t->view.storage->device;
    if (!n->device.kind) n->device = n->out[k].device;
    if (!situ_dtype_is_floating((situ_dtype)t->view.dtype)) continue;
    situ__node_release(t->node);  /* in place: the operand's edge keeps the earlier call */
    n->refs++; /* nobody else knows of it yet */
    t->node = n;
    t->node_result = k;
    t->requires_grad = true;
    if (t->meta) {  /* written in place: hooks and gradient belonged to the value before */
      situ__meta_release(t->meta);
      t->meta = NULL;
    }
  }
  if (n->refs > 1) n->refs--;
  else situ__node_release(n);
  return true;
fail:
  n->release = NULL;  /* the caller still owns params */
  situ__node_release(n);
  return false;
}

static void drop_saved(situ__node *n) {
  for (int i = 0; i < n->ins; i++) situ_drop(&n->in[i].saved);
  for (int k = 0; k < n->outs; k++) situ_drop(&n->out[k].saved);
}

/* A call that had nothing saved can be walked again. */
void situ__node_clear(situ__node *n) {
  for (int i = 0; i < n->ins; i++) n->freed |= n->in[i].saved != NULL;
  for (int k = 0; k < n->outs; k++) n->freed |= n->out[k].saved != NULL;
  drop_saved(n);
}

static void destroy(situ__node *n) {
  drop_saved(n);
  for (int i = 0; i < n->ins; i++) {
    situ__node_release(n->in[i].node);
    situ_release(n->in[i].leaf);
  }
  for (int k = 0; k < n->outs; k++) {
    situ_release(n->out[k].grad);
    situ__meta_release(n->out[k].meta);
  }
  if (n->release) n->release(n->params);
  situ__small_free(n, n->size);
}

/* Freeing a node frees the calls before it; a chain of a million would overflow the stack, so the thread keeps a
   list of nodes to be freed and the outermost call works it off. */
static SITU__THREAD_LOCAL situ__node *doomed;
static SITU__THREAD_LOCAL bool draining;

void situ__node_release(situ__node *n) {
  if (!n) return;
  /* The only owner need not ask anybody. */
  if (__atomic_load_n(&n->refs, __ATOMIC_ACQUIRE) != 1 && __atomic_sub_fetch(&n->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  n->next = doomed;
  doomed = n;
  if (draining) return;
  draining = true;
  while (doomed) {
    situ__node *dead = doomed;
    doomed = dead->next;
    destroy(dead);
  }
  draining = false;
}
