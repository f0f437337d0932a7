/* Finds the part of the graph that autograd_grad must run: depth first from t, without recursion.
   SPDX-License-Identifier: MIT */
#include "autograd/asked.h"

#include "base/alloc.h"
#include "base/fail.h"

static char yes, no; /* values of the maps; only their addresses are used */

typedef struct frame {
  const situ__node *node;
  int next; /* next operand to visit */
  bool leads;
} frame;

typedef struct walk {
  situ__asked *asked;
  const char *op;
  frame *stack;
  size_t depth;
  int64_t capacity;
} walk;

static bool put_entry(const char *op, situ__map *map, const void *key, void *value) {
  if (situ__map_put(map, key, value)) return true;
  return situ__no_memory(op, 2 * (map->size + 8) * sizeof *map->entries), false;
}

static bool push_node(walk *w, const situ__node *n) {
  if (!situ__grow(w->op, &w->stack, &w->capacity, sizeof *w->stack, w->depth + 1)) return false;
  w->stack[w->depth++] = (frame){ .node = n, .leads = situ__map_get(&w->asked->targets, n) != NULL };
  return true;
}

/* Visits one more operand of the innermost node, or pops the node. */
static bool advance_walk(walk *w) {
  frame *f = &w->stack[w->depth - 1];
  if (f->next == f->node->ins) {
    w->depth--;
    if (w->depth && f->leads) w->stack[w->depth - 1].leads = true;
    return put_entry(w->op, &w->asked->leads, f->node, f->leads ? &yes : &no);
  }
  const situ__operand *o = &f->node->in[f->next++];
  if (!o->node) {
    f->leads |= o->leaf && situ__map_get(&w->asked->targets, o->leaf);
    return true;
  }
  if (o->node->sequence < w->asked->earliest) return true;
  const void *known = situ__map_get(&w->asked->leads, o->node);
  if (!known) return push_node(w, o->node);
  f->leads |= known == &yes;
  return true;
}

bool situ__asked_extend(situ__asked *a, const char *op, const situ__node *n) {
  walk w = { .asked = a, .op = op };
  bool good = situ__map_get(&a->leads, n) || push_node(&w, n);
  while (good && w.depth) good = advance_walk(&w);
  situ__free(w.stack);
  return good;
}

bool situ__asked_find(situ__asked *a, const char *op, const situ_tensor *t) {
  a->before = situ__alloc((size_t)a->count * sizeof *a->before + 1);
  if (!a->before) return situ__no_memory(op, (size_t)a->count * sizeof *a->before), false;
  for (int i = 0; i < a->count; i++) {
    const situ_tensor *x = a->inputs[i];
    const void *target = x->node ? (const void *)x->node : x;
    a->before[i] = (int)(intptr_t)situ__map_get(&a->targets, target);
    if (!put_entry(op, &a->targets, target, (void *)(intptr_t)(i + 1))) return false;
    const uint64_t made = x->node ? x->node->sequence : 0;
    if (!i || made < a->earliest) a->earliest = made;
  }
  const bool good = !t->node || situ__asked_extend(a, op, t->node);
  a->reached = good && (t->node ? situ__map_get(&a->leads, t->node) == &yes : situ__map_get(&a->targets, t) != NULL);
  return good;
}

void situ__asked_free(situ__asked *a) {
  situ__map_free(&a->targets);
  situ__free(a->before);
  situ__map_free(&a->leads);
}

bool situ__asked_leads(const situ__asked *a, const situ__operand *o) {
  return o->node ? situ__map_get(&a->leads, o->node) == &yes : situ__map_get(&a->targets, o->leaf) != NULL;
}

/* The last input of a target; -1: none. */
static int last_input(const situ__asked *a, const void *target) {
  return (int)(intptr_t)situ__map_get(&a->targets, target) - 1;
}

void situ__asked_found(const situ__asked *a, const situ__node *n, int result, situ_tensor *grad) {
  for (int i = last_input(a, n); i >= 0; i = a->before[i] - 1)
    if (a->inputs[i]->node == n && a->inputs[i]->node_result == result) situ_set(&a->found[i], grad);
}

void situ__asked_leaves(const situ__asked *a, const situ__pass *p) {
  for (const situ__sink *s = p->sink; s < p->sink + p->sinks; s++)
    for (int i = s->leaf ? last_input(a, s->leaf) : -1; i >= 0; i = a->before[i] - 1) situ_set(&a->found[i], s->grad);
}
