/* The state of a backward pass: a table of gradients and a heap of nodes. A node leaves the table when it runs, so
   the table is as large as the front of the pass, not as the graph.
   SPDX-License-Identifier: MIT */
#include "autograd/asked.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/refs.h"
#include "tensor/backing.h"

void situ__pass_begin(situ__pass *p, const char *op, bool retain_graph) {
  p->op = op;
  p->site = situ__call_site();
  p->retain_graph = retain_graph;
  p->slot = p->few_slots;
  p->bits = SITU__FEW_SLOTS_LOG2;
  p->heap = p->few_nodes;
  p->capacity = SITU__FEW_NODES;
  p->sink = p->few_sinks;
  p->sink_capacity = SITU__FEW_SINKS;
  p->used = p->count = p->sinks = p->open = 0;
  p->watched = p->searched = false;
  p->uses = (situ__map){ 0 };
  p->callbacks = NULL;
  p->asked = NULL;
  p->made = NULL;
  p->made_count = p->made_capacity = 0;
  memset(p->few_slots, 0, sizeof p->few_slots);
}

static void empty_slot(situ__slot *s) {
  situ_release(s->grad);
  if (!s->grads) return;
  for (int k = 0; k < ((const situ__node *)s->key)->outs; k++) situ_release(s->grads[k]);
  situ__free(s->grads);
}

void situ__pass_end(situ__pass *p) {
  for (size_t i = 0; p->used && i < (size_t)1 << p->bits; i++) {
    if (!p->slot[i].key) continue;
    empty_slot(&p->slot[i]);
    p->used--;
  }
  for (size_t i = 0; i < p->sinks; i++) {
    situ_release(p->sink[i].leaf);
    situ__meta_release(p->sink[i].meta);
    situ_release(p->sink[i].grad);
  }
  if (p->slot != p->few_slots) situ__free(p->slot);
  if (p->heap != p->few_nodes) situ__free(p->heap);
  if (p->sink != p->few_sinks) situ__free(p->sink);
  situ__map_free(&p->uses);
  while (p->made_count) situ__node_release(p->made[--p->made_count]);
  situ__free(p->made);
}

/* ---- the table: linear probing ---- */

static size_t home_of(const void *key, unsigned bits) {
  return (size_t)((uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u >> (64 - bits));
}

/* Returns the slot with this key, or the empty slot for it. */
static situ__slot *look_up(situ__slot *slot, unsigned bits, const void *key) {
  size_t at = home_of(key, bits);
  while (slot[at].key && slot[at].key != key) at = (at + 1) & (((size_t)1 << bits) - 1);
  return &slot[at];
}

static bool grow_table(situ__pass *p) {
  unsigned bits = p->bits + 2;
  situ__slot *larger = situ__calloc((size_t)1 << bits, sizeof *larger);
  if (!larger) return situ__no_memory(p->op, sizeof *larger << bits), false;
  for (size_t i = 0; i < (size_t)1 << p->bits; i++)
    if (p->slot[i].key) *look_up(larger, bits, p->slot[i].key) = p->slot[i];
  if (p->slot != p->few_slots) situ__free(p->slot);
  p->slot = larger;
  p->bits = bits;
  return true;
}

/* Deletes by shifting the following entries of the run back, so that probing still finds them. */
static void erase_slot(situ__pass *p, situ__slot *s) {
  const size_t mask = ((size_t)1 << p->bits) - 1;
  size_t hole = (size_t)(s - p->slot);
  for (size_t at = (hole + 1) & mask; p->slot[at].key; at = (at + 1) & mask) {
    if (((at - home_of(p->slot[at].key, p->bits)) & mask) < ((at - hole) & mask)) continue;
    p->slot[hole] = p->slot[at];
    hole = at;
  }
  p->slot[hole] = (situ__slot){ 0 };
  p->used--;
}

/* Returns the slot of key, which it creates if needed and then sets *fresh; NULL after recording an error. */
static situ__slot *slot_of(situ__pass *p, const void *key, bool *fresh) {
  situ__slot *s = look_up(p->slot, p->bits, key);
  *fresh = !s->key;
  if (s->key) return s;
  if (2 * (p->used + 1) > (size_t)1 << p->bits) {
    if (!grow_table(p)) return NULL;
    s = look_up(p->slot, p->bits, key);
  }
  s->key = key;
  p->used++;
  return s;
}

/* ---- the heap ---- */

/* Makes space for one more element of an array that starts inside the struct. */
static bool reserve_element(situ__pass *p, void **array, const void *few, size_t *capacity, size_t count, size_t size) {
  if (count < *capacity) return true;
  void *larger = situ__realloc(*array == few ? NULL : *array, 2 * *capacity * size);
  if (!larger) return situ__no_memory(p->op, 2 * *capacity * size), false;
  if (*array == few) memcpy(larger, few, count * size);
  *array = larger;
  *capacity *= 2;
  return true;
}

static void push_node(situ__pass *p, situ__node *n) {
  size_t at = p->count++;
  for (; at && p->heap[(at - 1) / 2]->sequence < n->sequence; at = (at - 1) / 2) p->heap[at] = p->heap[(at - 1) / 2];
  p->heap[at] = n;
}

static void pop_node(situ__pass *p) {
  situ__node *moved = p->heap[--p->count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < p->count; at = child) {
    if (child + 1 < p->count && p->heap[child + 1]->sequence > p->heap[child]->sequence) child++;
    if (p->heap[child]->sequence <= moved->sequence) break;
    p->heap[at] = p->heap[child];
  }
  p->heap[at] = moved;
}

situ__node *situ__pass_next(const situ__pass *p) { return p->count ? p->heap[0] : NULL; }

void situ__pass_take(situ__pass *p, situ__node *n, situ_tensor **grad) {
  situ__slot *s = look_up(p->slot, p->bits, n);
  pop_node(p);
  if (s->grads) memcpy(grad, s->grads, (size_t)n->outs * sizeof *grad);
  else grad[0] = s->grad;
  situ__free(s->grads);
  erase_slot(p, s);
}

/* ---- accumulated gradients ---- */

bool situ__pass_add_node(situ__pass *p, situ__node *n, int result, situ_tensor *grad) {
  bool fresh;
  situ__slot *s = slot_of(p, n, &fresh);
  bool good =
      s && (!fresh || reserve_element(p, (void **)&p->heap, p->few_nodes, &p->capacity, p->count, sizeof *p->heap));
  if (good && fresh && n->outs > 1 && !(s->grads = situ__calloc((size_t)n->outs, sizeof *s->grads))) {
    situ__no_memory(p->op, (size_t)n->outs * sizeof *s->grads);
    good = false;
  }
  if (!good) {
    if (s && fresh) erase_slot(p, s);
    situ_release(grad);
    return false;
  }
  if (fresh) push_node(p, n);
  return situ__accumulate(p->op, s->grads ? &s->grads[result] : &s->grad, grad);
}

bool situ__pass_add_leaf(situ__pass *p, situ_tensor *leaf, situ_tensor *grad) {
  bool fresh;
  situ__slot *s = slot_of(p, leaf, &fresh);
  if (!s ||
      (fresh && !reserve_element(p, (void **)&p->sink, p->few_sinks, &p->sink_capacity, p->sinks, sizeof *p->sink))) {
    if (s && fresh) erase_slot(p, s);
    situ_release(grad);
    return false;
  }
  if (fresh) {
    const situ__meta *m = situ__meta_now(leaf);
    p->watched |= (m && m->ready) || situ__is_backed(leaf->view.storage);
    p->sink[p->sinks++] = (situ__sink){ .leaf = situ_retain(leaf) };
  }
  return situ__accumulate(p->op, &s->grad, grad);
}

situ_tensor **situ__pass_leaf(situ__pass *p, const situ_tensor *leaf) { return &look_up(p->slot, p->bits, leaf)->grad; }

bool situ__pass_keep(situ__pass *p, situ__meta *meta, situ_tensor *grad) {
  if (!reserve_element(p, (void **)&p->sink, p->few_sinks, &p->sink_capacity, p->sinks, sizeof *p->sink)) return false;
  situ__refs_add(&meta->refs);
  p->sink[p->sinks++] = (situ__sink){ .meta = meta, .grad = situ_retain(grad) };
  return true;
}

bool situ__pass_follow(situ__pass *p, situ_tensor *t, situ_tensor *grad) {
  if (!situ__grow(p->op, &p->made, &p->made_capacity, sizeof *p->made, p->made_count + 1)) return false;
  if (p->asked && !situ__asked_extend(p->asked, p->op, t->node)) return false;
  situ__refs_add(&t->node->refs);
  p->made[p->made_count++] = t->node;
  return situ__pass_add_node(p, t->node, t->node_result, situ_retain(grad));
}

/* Returns true if the gradient is in memory that only this pass uses, so that it may be written. */
static bool may_write(const situ_tensor *sum, situ_dtype dtype, situ_device device) {
  return sum && situ__exclusive(sum) && sum->view.dtype == dtype &&
         situ__same_device(sum->view.storage->device, device);
}

situ_tensor *situ__collected(situ__pass *p, const situ__node *n, int i) {
  const situ__operand *o = &n->in[i];
  const void *key = o->node ? (const void *)o->node : o->leaf;
  if (!key || p->create_graph) return NULL;
  const situ__slot *s = look_up(p->slot, p->bits, key);
  situ_tensor *sum = s->grads ? s->grads[o->result] : s->grad;
  return may_write(sum, n->dtype[i], n->device) ? sum : NULL;
}

/* ---- marks ---- */

static bool visit_tensor(const situ_tensor *t, situ__mark_visitor *visit) {
  return !t || visit(&t->view.storage->busy);
}

bool situ__node_marks(const void *node, situ__mark_visitor *visit) {
  const situ__node *n = node;
  for (int i = 0; i < n->ins; i++)
    if (!visit_tensor(n->in[i].saved, visit)) return false;
  for (int k = 0; k < n->outs; k++)
    if (!visit_tensor(n->out[k].saved, visit)) return false;
  return true;
}

bool situ__pass_marks(const void *pass, situ__mark_visitor *visit) {
  const situ__pass *p = pass;
  for (size_t i = 0; i < p->sinks; i++)
    if (!visit_tensor(p->sink[i].leaf, visit)) return false;
  return true;
}
