/* Recomputation: a stretch of the graph is one node, which keeps the stretch's operands. Its backward records the
   stretch again and hands the gradient to that, in the same pass: so hooks, autograd_grad, the commit of all leaves at
   once and create_graph see no difference.
   SPDX-License-Identifier: MIT */
#include "autograd/pass.h"
#include "autograd/view.h"
#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/map.h"
#include "situ/random.h"
#include "situ/sys/shape.h"

typedef struct stretch {
  situ_func function;
  void *payload;
  int count; /* operands of the function; the node's other ones are leaves that it reads */
  situ_generator random;
  situ_setting setting; /* default device, policy, autocast */
} stretch;

/* ---- the leaves that a stretch reads ---- */

typedef struct leaves {
  const char *op;
  situ_tensor *const *in;
  int ins;
  uint64_t begin; /* nodes of the stretch have a higher number */
  situ_tensor **leaf;
  const situ__node **todo;
  size_t count, depth;
  int64_t capacity, todo_capacity;
} leaves;

static bool add_leaf(leaves *l, situ_tensor *leaf) {
  for (size_t i = 0; i < l->count; i++)
    if (l->leaf[i] == leaf) return true;
  if (!situ__grow(l->op, &l->leaf, &l->capacity, sizeof *l->leaf, l->count + 1)) return false;
  l->leaf[l->count++] = leaf;
  return true;
}

static bool push_node(leaves *l, const situ__node *n) {
  if (!situ__grow(l->op, &l->todo, &l->todo_capacity, sizeof *l->todo, l->depth + 1)) return false;
  l->todo[l->depth++] = n;
  return true;
}

/* What the stretch takes from the graph before it must be among its operands, so that the graph shows that it leads
   there. Returns false after recording an error. */
static bool is_operand(const leaves *l, const situ__operand *o) {
  for (int i = 0; i < l->ins; i++)
    if (l->in[i]->node == o->node && l->in[i]->node_result == o->result) return true;
  return situ__fail(SITU_E_ARG, l->op,
                    "the function reads a result of %s that requires a gradient and is not among in[]; pass it there",
                    o->node->name),
         false;
}

/* Visits the nodes of the stretch. */
static bool find_leaves(leaves *l, const situ__node *n) {
  static char yes;
  situ__map seen = { 0 };
  bool good = push_node(l, n);
  while (good && l->depth) {
    n = l->todo[--l->depth];
    if (situ__map_get(&seen, n)) continue;
    good = situ__map_put(&seen, n, &yes) || (situ__no_memory(l->op, 2 * seen.size * sizeof *seen.entries), false);
    for (int i = 0; good && i < n->ins; i++) {
      const situ__operand *o = &n->in[i];
      if (o->leaf) good = add_leaf(l, o->leaf);
      if (!good || !o->node || situ__map_get(&seen, o->node)) continue;
      if (o->node->sequence <= l->begin) good = is_operand(l, o);
      else good = push_node(l, o->node);
    }
  }
  situ__map_free(&seen);
  situ__free(l->todo);
  return good;
}

static bool leaf_marks(const void *object, situ__mark_visitor *visit) {
  const leaves *l = object;
  for (size_t i = 0; i < l->count; i++)
    if (!visit(&l->leaf[i]->view.storage->busy)) return false;
  return true;
}

/* ---- running it ---- */

static situ_tensor *run_function(const char *op, const stretch *s, situ_tensor *const *in) {
  const uint64_t errors = situ__error_count();
  situ_tensor *y = s->function(in, s->count, s->payload);
  if (!y && situ__error_count() == errors) situ__fail(SITU_E_STATE, op, "the function returned no tensor");
  return y && situ__error_count() == errors && situ__need(op, "result", y) ? y : NULL;
}

/* Runs it with autocast's cache to itself: a cast that was made outside of the stretch is a part of the graph there,
   and one that was made inside has no place outside. */
static situ_tensor *run_apart(const char *op, const stretch *s, situ_tensor *const *in) {
  situ__map casts = { 0 };
  situ__device_up.swap_casts(&casts);
  situ_tensor *y = run_function(op, s, in);
  situ__device_up.forget_casts();
  situ__device_up.swap_casts(&casts);
  return y;
}

/* Runs it as it ran at first: same random numbers, same settings. */
static situ_tensor *run_again(const char *op, const stretch *s, situ_tensor *const *in) {
  const situ_generator random = situ_get_rng_state();
  const situ_setting setting = situ__setting;
  situ_set_rng_state(s->random);
  situ__setting = s->setting;
  situ__setting.depth = setting.depth + 1;
  situ_tensor *y = run_apart(op, s, in);
  situ__setting_back(&setting);
  situ_set_rng_state(random);
  return y;
}

static bool is_same(const situ__node *n, const situ_tensor *y, const situ_tensor *grad) {
  if (situ__same_sizes(&y->view, &grad->view) && y->view.dtype == grad->view.dtype && y->node) return true;
  const situ_shape a = situ__shape(&grad->view), b = situ__shape(&y->view);
  char was[SITU_SHAPE_TEXT], now[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_STATE, n->name, "the function gave %s %s at first, and %s %s%s when backward ran it again",
                    situ_dtype_name((situ_dtype)grad->view.dtype), situ_shape_text(&a, was),
                    situ_dtype_name((situ_dtype)y->view.dtype), situ_shape_text(&b, now),
                    y->node ? "" : " without a history"),
         false;
}

/* The second run must read the leaves that the first one has read: a gradient would go astray if a module had got
   other parameters since. */
static bool reads_the_same(const situ__node *n, const stretch *s, situ_tensor *const *in, uint64_t begin,
                           const situ_tensor *y) {
  leaves l = { .op = n->name, .in = in, .ins = s->count, .begin = begin };
  bool good = find_leaves(&l, y->node), same = l.count == (size_t)(n->ins - s->count);
  for (size_t i = 0; good && same && i < l.count; i++) {
    same = false;
    for (int k = s->count; k < n->ins; k++) same |= n->in[k].leaf == l.leaf[i];
  }
  situ__free(l.leaf);
  if (good && !same)
    situ__fail(SITU_E_STATE, n->name,
               "backward ran the function again, and it read other parameters than at first: were some replaced?");
  return good && same;
}

static bool backward(situ__pass *pass, const situ__node *n, situ_tensor *const *grad, const bool *wants,
                     situ_tensor **dx) {
  (void)wants, (void)dx; /* the recorded stretch hands gradients to the operands */
  const stretch *s = n->params;
  const size_t bytes = (size_t)(s->count + 1) * sizeof(situ_tensor *);
  situ_tensor **in = situ__alloc(bytes), *y = NULL;
  if (!in) return situ__no_memory(n->name, bytes), false;
  bool good = true;
  situ_scope scope;
  situ__scope_begin_as(&scope, true);
  for (int i = 0; good && i < s->count; i++) in[i] = situ__saved_operand(n, i, &good);
  for (int i = 0; good && i < s->count; i++)
    if (in[i] && in[i]->node) situ__tape_follow(in[i]->node);
  const uint64_t begin = situ__tape_now();
  good = good && (y = run_again(n->name, s, in)) && is_same(n, y, grad[0]) && reads_the_same(n, s, in, begin, y) &&
         situ__pass_follow(pass, y, grad[0]);
  situ__free(in);
  return situ_scope_end(&scope) == SITU_OK && good;
}

/* The node of a stretch whose result is y. */
static situ__node *node_of(const char *op, const stretch *s, situ_tensor *const *in, const leaves *l, situ_tensor *y) {
  const size_t bytes = ((size_t)s->count + l->count) * sizeof *in;
  situ_tensor **all = situ__alloc(bytes);
  if (!all) return situ__no_memory(op, bytes), NULL;
  for (int i = 0; i < s->count; i++) all[i] = in[i];
  for (size_t i = 0; i < l->count; i++) all[(size_t)s->count + i] = l->leaf[i];
  situ__node *n = situ__tape_prepare(&(situ__record){ .name = op,
                                                      .backward = backward,
                                                      .params = s,
                                                      .params_size = sizeof *s,
                                                      .in = all,
                                                      .out = &y,
                                                      .ins = s->count + (int)l->count,
                                                      .outs = 1,
                                                      .save = ~0u });
  situ__free(all);
  return n;
}

/* Gives y to the node of the stretch. The calls of modules have ended, and other threads must not move the leaves
   meanwhile. */
static bool attach(const char *op, const stretch *s, situ_tensor *const *in, const leaves *l, situ_tensor **y) {
  situ__use use;
  if (!situ__use_begin(&use, leaf_marks, l)) return situ__busy(op, "a parameter that the function reads");
  situ__node *n = l->count < INT32_MAX ? node_of(op, s, in, l, *y) : NULL;
  const bool good = n && situ__tape_attach(n, y);
  situ__use_end();
  return good;
}

/* y's values without the graph that led to them; NULL after recording an error. */
static situ_tensor *record(const char *op, const stretch *s, situ_tensor *const *in, uint64_t begin, situ_tensor *y) {
  leaves l = { .op = op, .in = in, .ins = s->count, .begin = begin };
  situ_tensor *own = situ__tensor_view(op, &y->view);
  const bool good = own && find_leaves(&l, y->node) && attach(op, s, in, &l, &own);
  situ__free(l.leaf);
  return good ? own : NULL;
}

situ_tensor *situ_recompute(situ_func function, void *payload, int count, situ_tensor *const *in) {
  const char *op = "recompute";
  if (!function) return situ__null(op, "function"), NULL;
  if (count < 1 || !in) return situ__fail(SITU_E_ARG, op, "no operands"), NULL;
  for (int i = 0; i < count; i++)
    if (!situ__need(op, "in", in[i])) return NULL;
  const stretch s = { function, payload, count, situ_get_rng_state(), situ__setting };
  if (!situ__recording() || situ__forward_mode == SITU__FORWARD_ON) return run_function(op, &s, in);
  for (int i = 0; i < count; i++) { /* whichever thread has recorded an operand, the stretch has higher numbers */
    if (!situ__view_fresh(op, in[i])) return NULL;
    if (in[i]->node) situ__tape_follow(in[i]->node);
  }
  const uint64_t begin = situ__tape_now();
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *y = run_apart(op, &s, in);
  if (y && y->requires_grad && y->node && y->node->sequence > begin) y = record(op, &s, in, begin, y);
  return situ_scope_return(&scope, y);
}
