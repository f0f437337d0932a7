/* The leaves of a pass: when their gradients are complete, the hooks that see them, and .grad.
   SPDX-License-Identifier: MIT */

#include "autograd/pass.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/mutex.h"
#include "device/graph/graph.h"
#include "situ/sys/grad.h"
#include "tensor/backing.h"

/* ---- calls that hooks queue ---- */

typedef struct situ__callback {
  situ_backward_callback call;
  void *payload;
  struct situ__callback *next;
} queued_callback;

/* The pass whose hooks run on this thread; NULL: none. */
static SITU__THREAD_LOCAL situ__pass *telling;

situ_status situ_autograd_queue_callback(situ_backward_callback callback, void *payload) {
  static const char op[] = "autograd_queue_callback";
  if (!situ__given(op, "callback", (const void *)(uintptr_t)callback)) return situ_error();
  if (!telling) return situ__fail(SITU_E_STATE, op, "no post-accumulate or grad ready hook is running on this thread");
  queued_callback *added = situ__alloc(sizeof *added), **last = &telling->callbacks;
  if (!added) return situ__no_memory(op, sizeof *added);
  *added = (queued_callback){ .call = callback, .payload = payload };
  while (*last) last = &(*last)->next;
  *last = added;
  return SITU_OK;
}

bool situ_take_ready_grad(void) {
  if (!telling)
    return situ__fail(SITU_E_STATE, "take_ready_grad", "no grad ready hook is running on this thread"), false;
  return telling->takes = telling->may_take;
}

/* Also those behind one that fails. */
bool situ__leaves_callbacks(situ__pass *p) {
  bool good = true;
  while (p->callbacks) {
    queued_callback *c = p->callbacks;
    p->callbacks = c->next;
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    const situ_status status = c->call(c->payload);
    if (status != SITU_OK && situ_error() == SITU_OK) situ__fail(status, p->op, "a callback behind backward failed");
    good &= situ_scope_end(&s) == SITU_OK && status == SITU_OK;
    situ__free(c);
  }
  return good;
}

/* Two passes may end at once: they must not add to, replace or read the same gradient concurrently. */
static situ__mutex committing = SITU__MUTEX_INIT;

/* ---- hooks that see a leaf ---- */

static bool tell_hooks(situ__pass *p, const situ__hook *list, situ_tensor *leaf, situ_tensor *grad) {
  situ__pass *const outer = telling;
  bool good = true;
  for (const situ__hook *h = list; good && h; h = h->next) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    telling = p;
    const situ_status status = grad ? h->ready(leaf, grad, h->payload) : h->after(leaf, h->payload);
    telling = outer;
    if (status != SITU_OK && situ_error() == SITU_OK)
      situ__fail(status, p->op, "a hook %s failed", grad ? "on a complete gradient" : "after accumulation");
    good = situ_scope_end(&s) == SITU_OK && status == SITU_OK;
  }
  return good;
}

/* Tells the leaf's gradient of now: hooks after accumulation may have changed it. */
static bool tell_committed(situ__pass *p, const situ__meta *m, situ_tensor *leaf) {
  situ__mutex_lock(&committing);
  situ_tensor *grad = situ_retain(m->grad);
  situ__mutex_unlock(&committing);
  const bool good = !grad || tell_hooks(p, m->ready, leaf, grad);
  situ_release(grad);
  return good;
}

bool situ__leaves_told(situ__pass *p) {
  for (size_t i = 0; i < p->sinks; i++) {
    const situ__sink *s = &p->sink[i];
    const situ__meta *m = s->leaf ? situ__meta_now(s->leaf) : NULL;
    if (m && !tell_hooks(p, m->after, s->leaf, NULL)) return false;
    if (m && m->ready && !s->told && !tell_committed(p, m, s->leaf)) return false;
  }
  return true;
}

/* ---- complete gradients ---- */

/* In the leaf's file, if it is in one. */
static bool put_beside(const situ__pass *p, situ__sink *s) {
  situ_tensor *const grad = s->grad;
  situ_scope scope;
  if (p->create_graph || p->asked || !s->leaf || !situ__is_backed(s->leaf->view.storage)) return true;
  situ_scope_begin_no_grad(&scope);
  s->grad = situ_retain(situ_beside(grad, s->leaf));
  SITU_IGNORE(situ_scope_end(&scope));
  situ_release(grad);
  return s->grad != NULL;
}

/* Runs the hooks of a leaf, and gives the gradient its own memory. */
static bool complete_sink(const situ__pass *p, situ__sink *s, situ_tensor **grad) {
  if (s->leaf) {
    const situ__meta *m = situ__meta_now(s->leaf);
    if (!situ__takes_gradient(p->op, s->leaf, "a leaf", *grad)) return false;
    if (m && m->hooks && (!situ__run_hooks(p->op, m, grad) || !situ__takes_gradient(p->op, s->leaf, "a leaf", *grad)))
      return false;
    s->grad = *grad;
    *grad = NULL;
  }
  if (!(s->grad = situ__owned_copy(p->op, s->grad, s->leaf, p->create_graph)) || !put_beside(p, s)) return false;
  situ_set_role(s->grad, SITU_ROLE_GRADIENT);
  s->grad->first_order = !p->create_graph;
  return true;
}

/* ---- gradients that are complete while backward runs ---- */

typedef struct nodes {
  const situ__node **list;
  size_t count;
  int64_t capacity;
} nodes;

static bool put_entry(situ__pass *p, const void *key, uint64_t sequence) {
  if (situ__map_put(&p->uses, key, (void *)(uintptr_t)sequence)) return true;
  return situ__no_memory(p->op, 2 * (p->uses.size + 8) * sizeof *p->uses.entries), false;
}

static bool add_node(situ__pass *p, nodes *todo, const situ__node *n) {
  if (situ__map_get(&p->uses, n)) return true;
  if (!situ__grow(p->op, &todo->list, &todo->capacity, sizeof *todo->list, todo->count + 1)) return false;
  todo->list[todo->count++] = n;
  return put_entry(p, n, n->sequence);
}

static bool add_operands(situ__pass *p, nodes *todo, const situ__node *n) {
  bool good = true;
  for (int i = 0; good && i < n->ins; i++) {
    const situ__operand *o = &n->in[i];
    const uint64_t before = o->leaf ? (uint64_t)(uintptr_t)situ__map_get(&p->uses, o->leaf) : 0;
    if (o->node) good = add_node(p, todo, o->node);
    else if (o->leaf && (!before || n->sequence < before)) good = put_entry(p, o->leaf, n->sequence);
  }
  return good;
}

/* Visits the nodes that remain: for each leaf, the lowest number of a node that adds to it. What a recomputed stretch
   records has higher numbers, and its leaves are operands of the stretch. */
static bool find_uses(situ__pass *p) {
  nodes todo = { 0 };
  bool good = true;
  for (size_t i = 0; good && i < p->count; i++) good = add_node(p, &todo, p->heap[i]);
  while (good && todo.count) good = add_operands(p, &todo, todo.list[--todo.count]);
  situ__free(todo.list);
  p->searched = good;
  return good;
}

static bool tell_early(situ__pass *p, situ__sink *s) {
  const situ__meta *m = situ__meta_now(s->leaf);
  if (!(m && m->ready) && !situ__is_backed(s->leaf->view.storage)) return true;
  situ__use use;
  if (!situ__use_begin(&use, situ__pass_marks, p)) return situ__busy(p->op, "a leaf");
  bool good = complete_sink(p, s, situ__pass_leaf(p, s->leaf));
  situ__use_end();
  if (!good || !m || !m->ready || m->after || m->grad) return good;
  s->told = p->may_take = true;
  p->takes = false;
  good = tell_hooks(p, m->ready, s->leaf, s->grad);
  p->may_take = false;
  s->taken = p->takes;
  if (s->taken) situ_drop(&s->grad);
  return good;
}

bool situ__leaves_advance(situ__pass *p) {
  if (__builtin_expect(!p->watched, 1) || p->asked) return true;
  if (!p->searched && !find_uses(p)) return false;
  const uint64_t next = p->count ? p->heap[0]->sequence : 0;
  for (size_t i = p->open; i < p->sinks; i++) {
    situ__sink *s = &p->sink[i];
    const uint64_t earliest = s->leaf ? (uint64_t)(uintptr_t)situ__map_get(&p->uses, s->leaf) : 0;
    const bool complete = !s->leaf || s->grad || s->taken;
    if (!complete && (!earliest || earliest > next) && !tell_early(p, s)) return false;
    if (i == p->open && (!s->leaf || s->grad || s->taken)) p->open++;
  }
  return true;
}

/* ---- the end: all leaves get their gradients at once ---- */

static bool complete_sinks(situ__pass *p) {
  for (size_t i = 0; i < p->sinks; i++) {
    situ__sink *s = &p->sink[i];
    if (s->taken) continue;
    const bool complete = s->leaf && s->grad;
    if (complete ? !situ__takes_gradient(p->op, s->leaf, "a leaf", s->grad)
                 : !complete_sink(p, s, s->leaf ? situ__pass_leaf(p, s->leaf) : NULL))
      return false;
  }
  return true;
}

static bool refuse_samples(const char *op, const situ_tensor *leaf) {
  return situ__fail(
             SITU_E_UNSUPPORTED, op,
             "in situ_func_vmap: %s is the same for all samples, and its gradient is not; return what situ_func_vjp or "
             "situ_autograd_grad gives instead",
             *situ_name(leaf) ? situ_name(leaf) : "a leaf"),
         false;
}

static bool sum_sinks(situ__pass *p) {
  if (__builtin_expect(situ__graph_recording != NULL, 0)) return situ__sum_captured(p);
  bool good = true;
  for (size_t i = 0; good && i < p->sinks; i++) {
    situ__sink *s = &p->sink[i];
    const situ__meta *m = s->leaf ? situ__meta_of(p->op, s->leaf) : s->meta;
    good = m && (!m->grad || s->taken || situ__accumulate(p->op, &s->grad, situ_retain(m->grad)));
  }
  return good;
}

static void commit_sink(situ__sink *s) {
  situ__meta *m = s->leaf ? s->leaf->meta : s->meta;
  situ_tensor *before = m->grad;
  if (before != s->grad) situ__gradient_left(before);
  m->grad = s->grad;
  m->in_parts = false;
  s->grad = before;
  if (__builtin_expect(s->leaf && situ__graph_recording, 0)) situ__graph_note_gradient(m->grad->view.storage);
}

/* Computes all sums first, in the memory of this pass's gradients; then swaps handles, which cannot fail. */
static bool commit_sinks(situ__pass *p) {
  for (size_t i = 0; i < p->sinks; i++)
    if (p->sink[i].leaf && p->sink[i].grad && situ__is_sample(p->sink[i].grad) && !situ__is_sample(p->sink[i].leaf))
      return refuse_samples(p->op, p->sink[i].leaf);
  situ__mutex_lock(&committing);
  const bool good = sum_sinks(p);
  for (size_t i = 0; good && i < p->sinks; i++)
    if (!p->sink[i].taken) commit_sink(&p->sink[i]);
  situ__mutex_unlock(&committing);
  return good;
}

bool situ__leaves_finish(situ__pass *p) {
  situ__use use;
  if (!situ__use_begin(&use, situ__pass_marks, p)) return situ__busy(p->op, "a leaf");
  const bool good = complete_sinks(p) && (p->asked || commit_sinks(p));
  situ__use_end();
  return good;
}
