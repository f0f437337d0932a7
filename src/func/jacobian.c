/* Whole Jacobians and Hessians: the products of func.c in all directions at once, by situ_func_vmap.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "func/function.h"
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
static situ_tensor *bend(situ_tensor *const *in, int count, void *payload) {
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
static situ_tensor *units(const situ_tensor *x, int64_t first, int64_t count) {
  const situ_options like = { .dtype = (situ_dtype)x->view.dtype, .device = x->view.storage->device };
  const int64_t numel = x->view.numel;
  situ_tensor *flat = situ_zeros(SITU_SHAPE(count, numel), &like);
  if (!flat || !situ_fill_(situ_as_strided(flat, SITU_SHAPE(count), SITU_SHAPE(numel + 1), first), 1)) return NULL;
  situ_shape shape = { .ndim = x->view.ndim + 1, .dim = { count } };
  memcpy(shape.dim + 1, x->view.size, sizeof(int64_t) * (size_t)x->view.ndim);
  return situ_reshape(flat, shape);
}

/* f in all directions of x's elements: [x's elements, f's shape]; NULL after recording an error. `like`: what f gives
   for x without elements. */
static situ_tensor *in_all_directions(problem *p, situ_func f, const situ_tensor *x, const situ_tensor *like) {
  const int64_t numel = x->view.numel, most = together(numel);
  situ_tensor *all = NULL;
  for (int64_t k = 0; k < numel; k += most) {
    situ_tensor *some = units(x, k, situ__min_i64(most, numel - k));
    if (!some || !(some = situ_func_vmap(f, p, 1, &some, NULL, 0))) return NULL;
    all = all ? situ_cat((situ_tensor *[]){ all, some }, 2, 0) : some;
    if (!all) return NULL;
  }
  if (all) return all;
  situ_shape shape = { .ndim = 1 };
  for (int d = 0; d < like->view.ndim; d++) shape.dim[shape.ndim++] = like->view.size[d];
  return situ_zeros(shape,
                    &(situ_options){ .dtype = (situ_dtype)like->view.dtype, .device = like->view.storage->device });
}

static bool fit_together(const char *op, const situ_tensor *y, const situ_tensor *x) {
  if (y->view.ndim + x->view.ndim <= SITU_MAX_DIMS && y->view.ndim < SITU_MAX_DIMS && x->view.ndim < SITU_MAX_DIMS)
    return true;
  situ__fail(SITU_E_SHAPE, op,
             "the result has %d dimensions and the primal %d: a tensor has at most %d, and one is "
             "needed beside them",
             y->view.ndim, x->view.ndim, SITU_MAX_DIMS);
  return false;
}

/* all: [elements of `first`, shape of `rest`]; as [shape of a, shape of b]. */
static situ_tensor *assemble(situ_tensor *all, const situ_tensor *a, const situ_tensor *b) {
  situ_shape shape = situ__shape(&a->view);
  for (int d = 0; d < b->view.ndim; d++) shape.dim[shape.ndim++] = b->view.size[d];
  return all ? situ_reshape(all, shape) : NULL;
}

/* ---- the matrices ---- */

static situ_tensor *by_rows(problem *p) {
  situ_tensor *own[SITU__PRIMALS];
  const situ_tensor *x = p->primals[p->argnum];
  situ_scope s;
  situ__scope_begin_as(&s, true);
  bool good = situ__func_leaves(p->op, p->count, p->primals, false, own);
  for (int i = 0; good && i < p->count; i++)
    if (i != p->argnum) good = (own[i] = situ_detach(own[i])) != NULL;
  p->leaves = own;
  good =
      good && (p->y = situ__func_value(p->op, p->function, p->payload, p->count, own)) && fit_together(p->op, p->y, x);
  situ_scope inner;
  situ_tensor *out = NULL;
  situ_scope_begin_no_grad(&inner);
  if (good) out = assemble(in_all_directions(p, row, p->y, x), p->y, x);
  if (out) situ_escape(&inner, out);
  good = situ_scope_end(&inner) == SITU_OK && out && situ_escape(&s, out);
  return situ_scope_end(&s) == SITU_OK && good ? out : NULL;
}

static situ_tensor *by_columns(problem *p, situ_func f) {
  const situ_tensor *x = p->primals[p->argnum], *y = x;
  situ_tensor *all, *out = NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  if (f == column) y = situ__func_value(p->op, p->function, p->payload, p->count, p->primals);
  if (y && fit_together(p->op, y, x) && (all = in_all_directions(p, f, x, y)))
    out = assemble(situ_movedim(all, SITU_DIMS(0), SITU_DIMS(-1)), y, x);
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
  return is_good(&p) ? by_columns(&p, bend) : NULL;
}
