/* Whole Jacobians and Hessians: the products of func.c in all directions at once, by situ_func_vmap.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "func/function.h"
#include "ops/samples.h"
#include "situ/ops.h"

typedef struct problem {
  const char *op;
  situ_func function;
  void *payload;
  int count;
  situ_tensor *const *primals;
  int argnum;
  situ_tensor *const *leaves; /* jacrev: at the primals, and the result */
  situ_tensor *y;
} problem;

/* The derivative in direction in[0]. */
static situ_tensor *row(situ_tensor *const *in, int count, void *payload) {
  const problem *p = payload;
  situ_tensor *grads[SITU__PRIMALS];
  (void)count;
  return situ__func_gradients(p->y, in[0], true, false, p->count, p->leaves, grads) ? grads[p->argnum] : NULL;
}
static situ_tensor *column(situ_tensor *const *in, int count, void *payload) {
  const problem *p = payload;
  situ_tensor *tangents[SITU__PRIMALS] = { NULL }, *along;
  (void)count;
  tangents[p->argnum] = in[0];
  return situ__func_forward(p->op, p->function, p->payload, p->count, p->primals, tangents, &along) ? along : NULL;
}
static situ_tensor *hessian_column(situ_tensor *const *in, int count, void *payload) {
  const problem *p = payload;
  (void)count;
  return situ_func_hvp(p->function, p->payload, p->count, p->primals, p->argnum, in[0]);
}

/* ---- many directions ---- */

/* Directions that run together: more would take memory, and gain nothing. */
static int64_t together(int64_t numel) {
  enum { MOST = 1024, ELEMENTS = 1 << 22 };
  return situ__max_i64(1, situ__min_i64(MOST, ELEMENTS / situ__max_i64(1, numel)));
}

/* Directions first..first+count: 1 at one element, 0 elsewhere; of x's shape, dtype and device. */
static situ_tensor *units(const char *op, const situ_tensor *x, int64_t first, int64_t count) {
  const situ_options like = { .dtype = (situ_dtype)x->view.dtype, .device = x->view.storage->device };
  const int64_t numel = x->view.numel;
  situ_tensor *flat = situ_zeros(SITU_SHAPE(count, numel), &like);
  if (!flat || !situ_fill_(situ_as_strided(flat, SITU_SHAPE(count), SITU_SHAPE(numel + 1), first), 1)) return NULL;
  const situ_shape one = situ__shape(&x->view);
  situ_shape shape;
  return situ__samples_shape(op, &one, count, &shape) ? situ_reshape(flat, shape) : NULL;
}

/* f in these directions, which are all of them if they are as many as x has elements. */
static situ_tensor *in_these(problem *p, situ_func f, const situ_tensor *x, situ_tensor *these) {
  const situ__units outer = situ__directions;
  const situ_storage *storage = these->view.storage;
  const bool all = these->view.size[0] == x->view.numel;
  situ__directions = (situ__units){ all ? storage : NULL, __atomic_load_n(&storage->version, __ATOMIC_RELAXED) };
  situ_tensor *some = situ_func_vmap(f, p, 1, &these, NULL, 0);
  situ__directions = outer;
  return some;
}

/* part: one for each call. */
static situ_tensor *in_directions(problem *p, situ_func f, const situ_tensor *x, situ_tensor **part) {
  const int64_t numel = x->view.numel, most = together(numel);
  int parts = 0;
  for (int64_t k = 0; k < numel; k += most) {
    situ_tensor *some = units(p->op, x, k, situ__min_i64(most, numel - k));
    if (!some || !(part[parts++] = in_these(p, f, x, some))) return NULL;
  }
  return parts == 1 ? part[0] : situ_cat(part, parts, 0);
}

/* f in all directions of x's elements: [x's elements, f's shape]; NULL after recording an error. */
static situ_tensor *in_all_directions(problem *p, situ_func f, const situ_tensor *x) {
  const int64_t numel = x->view.numel, most = together(numel);
  const size_t bytes = (size_t)((numel + most - 1) / most) * sizeof(situ_tensor *);
  situ_tensor **part = situ__alloc(bytes);
  if (!part) return situ__no_memory(p->op, bytes), NULL;
  situ_tensor *all = in_directions(p, f, x, part);
  situ__free(part);
  return all;
}

/* The same of an x without elements, for an f that gives what is like y. */
static situ_tensor *in_no_direction(const problem *p, const situ_tensor *y) {
  const situ_shape one = situ__shape(&y->view);
  situ_shape shape;
  if (!situ__samples_shape(p->op, &one, 0, &shape)) return NULL;
  return situ_zeros(shape, &(situ_options){ .dtype = (situ_dtype)y->view.dtype, .device = y->view.storage->device });
}

/* `all` as [shape of a, shape of b]; NULL after recording an error. */
static situ_tensor *assemble(const char *op, situ_tensor *all, situ_shape a, situ_shape b) {
  if (a.ndim + b.ndim > SITU_MAX_DIMS)
    return situ__fail(SITU_E_SHAPE, op,
                      "the result and the primal have %d dimensions together: a tensor has at most %d", a.ndim + b.ndim,
                      SITU_MAX_DIMS),
           NULL;
  for (int d = 0; d < b.ndim; d++) a.dim[a.ndim++] = b.dim[d];
  return situ_reshape(all, a);
}

/* ---- the matrices ---- */

static situ_tensor *by_rows(problem *p) {
  situ_tensor *own[SITU__PRIMALS], *all, *out = NULL;
  const situ_tensor *x = p->primals[p->argnum];
  situ_scope s, inner;
  situ__scope_begin_as(&s, true);
  bool good = situ__func_leaves(p->op, p->count, p->primals, false, own);
  for (int i = 0; good && i < p->count; i++)
    if (i != p->argnum) good = (own[i] = situ_detach(own[i])) != NULL;
  p->leaves = own;
  good = good && (p->y = situ__func_value(p->op, p->function, p->payload, p->count, own));
  situ_scope_begin_no_grad(&inner);
  if (good && (all = p->y->view.numel ? in_all_directions(p, row, p->y) : in_no_direction(p, x)))
    out = assemble(p->op, all, situ__shape(&p->y->view), situ__shape(&x->view));
  if (out) situ_escape(&inner, out);
  good = situ_scope_end(&inner) == SITU_OK && out && situ_escape(&s, out);
  return situ_scope_end(&s) == SITU_OK && good ? out : NULL;
}

static situ_tensor *by_columns(problem *p, situ_func f) {
  const situ_tensor *x = p->primals[p->argnum], *y = x;
  situ_tensor *all = NULL, *out = NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  if (x->view.numel) all = in_all_directions(p, f, x);
  else if (f != column || (y = situ__func_value(p->op, p->function, p->payload, p->count, p->primals)))
    all = in_no_direction(p, y);
  if (all && (all = situ_movedim(all, SITU_DIMS(0), SITU_DIMS(-1)))) {
    situ_shape shape = situ__shape(&all->view);
    shape.ndim--;
    out = assemble(p->op, all, shape, situ__shape(&x->view));
  }
  const bool good = out && (out = situ_contiguous(out)) && situ_escape(&s, out);
  return situ_scope_end(&s) == SITU_OK && good ? out : NULL;
}

static bool is_good(const problem *p) {
  return situ__func_given(p->op, p->function, p->count, p->primals) &&
         situ__func_floating(p->op, p->count, p->primals, p->argnum);
}

situ_tensor *situ_func_jacrev(situ_func function, void *payload, int count, situ_tensor *const *primals, int argnum) {
  problem p = { "func_jacrev", function, payload, count, primals, argnum, NULL, NULL };
  return is_good(&p) ? by_rows(&p) : NULL;
}
situ_tensor *situ_func_jacfwd(situ_func function, void *payload, int count, situ_tensor *const *primals, int argnum) {
  problem p = { "func_jacfwd", function, payload, count, primals, argnum, NULL, NULL };
  return is_good(&p) ? by_columns(&p, column) : NULL;
}
situ_tensor *situ_func_hessian(situ_func function, void *payload, int count, situ_tensor *const *primals, int argnum) {
  problem p = { "func_hessian", function, payload, count, primals, argnum, NULL, NULL };
  return is_good(&p) ? by_columns(&p, hessian_column) : NULL;
}
