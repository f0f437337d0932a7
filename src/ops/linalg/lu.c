/* LU decomposition with row swaps, A = P L U, and systems that are solved by it. Gradient: F. de Hoog, R. Anderssen and
   M. Lukas, "Differentiation of matrix functionals using triangular factorization" (2011).
   SPDX-License-Identifier: MIT */
#include "lapack.h"

/* ---- the factors in one matrix, and row swaps ---- */

enum { LUT, SWAPS }; /* transposed, as the verb gives it */

static bool factor_infer(situ_call *c) {
  if (!situ__lapack_matrix(c, 0, false)) return false;
  const situ_view_desc *a = situ__desc(c->in[0]);
  const int64_t m = a->size[a->ndim - 2], n = a->size[a->ndim - 1];
  c->shape[LUT] = situ__lapack_shape(c, 0, n, m);
  c->shape[SWAPS] = situ__lapack_shape(c, 0, m < n ? m : n, -1);
  c->dtype[LUT] = (situ_dtype)a->dtype, c->dtype[SWAPS] = SITU_I32;
  return true;
}

static bool factor_forward(situ_call *c) {
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_LINALG, .op = SITU_LINALG_LU, .compute = c->dtype[LUT], .ins = 1,
                                   .outs = 2, .in = { situ__desc(c->in[0]) },
                                   .out = { situ__desc(c->out[LUT]), situ__desc(c->out[SWAPS]) } });
}

/* Where each row of L U is in A, i64 [.., m]: the swaps done to 0, 1, 2, ... */
static situ_tensor *rows_of(situ_tensor *swaps, int64_t m) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_shape shape = situ_shape_of(swaps);
  const int64_t k = shape.dim[shape.ndim - 1];
  shape.dim[shape.ndim - 1] = m;
  const situ_options integer = { .dtype = SITU_I64, .device = situ_device_of(swaps) };
  situ_tensor *rows = situ_clone(situ_expand(situ_arange(0, (double)m, 1, &integer), shape));
  situ_tensor *other = situ_sub_scalar(situ_to_dtype(swaps, SITU_I64), 1);
  for (int64_t i = 0; rows && i < k; i++) {
    situ_tensor *own = situ_clone(situ_narrow(rows, -1, i, 1)), *at = situ_narrow(other, -1, i, 1);
    if (!situ_copy_(situ_narrow(rows, -1, i, 1), situ_gather(rows, -1, at))) rows = NULL;
    else rows = situ_scatter_(rows, -1, at, own);
  }
  return situ_scope_return(&s, rows);
}

/* P [.., m, m]: one in each column. */
static situ_tensor *permutation(situ_tensor *swaps, int64_t m, situ_dtype dtype) {
  situ_tensor *rows = swaps ? rows_of(swaps, m) : NULL;
  if (!rows) return NULL;
  const situ_options integer = { .dtype = SITU_I64, .device = situ_device_of(rows) };
  return situ_to_dtype(situ_eq(situ_unsqueeze(rows, -2), situ_unsqueeze(situ_arange(0, (double)m, 1, &integer), 1)),
                       dtype);
}

static situ_tensor *corner(situ_tensor *x, int64_t k) {
  return x ? situ_narrow(situ_narrow(x, -2, 0, k), -1, 0, k) : NULL;
}
/* The unit lower factor of a square part. */
static situ_tensor *with_ones(situ_tensor *lu) {
  const int64_t n = situ_size(lu, -1);
  return situ_add(situ_tril(lu, -1),
                  situ_eye(n, n, &(situ_options){ .dtype = situ_dtype_of(lu), .device = situ_device_of(lu) }));
}

/* With g the gradient of the one matrix: of a square A, P L^-T (tril(L^T g, -1) + triu(g U^T)) U^-T. Rows below the
   square part take part in the upper triangle, columns right of it in the lower. */
static bool factor_backward(situ_grad_call *c) {
  situ_tensor *lu = situ__mt(c->out[LUT]), *g = situ__mt(c->grad[LUT]);
  if (!lu || !g) return false;
  const int64_t m = situ_size(lu, -2), n = situ_size(lu, -1), k = m < n ? m : n;
  situ_tensor *square = corner(lu, k), *gs = corner(g, k), *more = NULL;
  situ_tensor *lower = situ_matmul(situ__mt(with_ones(square)), situ_tril(gs, -1));
  situ_tensor *upper = situ_matmul(situ_triu(gs, 0), situ__mt(situ_triu(square, 0)));
  if (m > k) {
    more = situ_narrow(g, -2, k, m - k);
    upper = situ_sub(upper, situ_matmul(situ__mt(situ_narrow(lu, -2, k, m - k)), more));
    more = situ__triangular(square, situ__mt(more), true, false);
  }
  if (n > k) {
    more = situ_narrow(g, -1, k, n - k);
    lower = situ_sub(lower, situ_matmul(more, situ__mt(situ_narrow(lu, -1, k, n - k))));
  }
  situ_tensor *dx =
      situ__triangular(square, situ__mt(situ_add(situ_tril(lower, -1), situ_triu(upper, 0))), true, false);
  if (n > k) dx = situ_cat((situ_tensor *[]){ dx, more }, 2, -1);
  dx = situ__mt(situ__triangular(situ__mt(square), dx, true, true));
  if (m > k) dx = situ_cat((situ_tensor *[]){ dx, more }, 2, -2);
  return (c->dx[0] = situ_matmul(permutation(c->out[SWAPS], m, situ_dtype_of(lu)), dx)) != NULL;
}

SITU_OP(lu_factor_op) = { .name = "linalg_lu_factor",
                          .operand = { { "A", SITU_FLOATING } },
                          .outs = 2,
                          .flags = SITU_OP_COMPOSED,
                          .save = SITU_SAVE_OUT(LUT) | SITU_SAVE_OUT(SWAPS),
                          .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                          .infer = factor_infer,
                          .forward = factor_forward,
                          .backward = factor_backward,
                          .backward_recorded = factor_backward };

situ_tensor *situ_linalg_lu_factor(situ_tensor *A, situ_tensor **pivots) {
  SITU__MADE_OF_OPS(lu_factor_op.name);
  situ_tensor *outs[2] = { NULL, NULL };
  if (situ__need(lu_factor_op.name, "A", A)) situ__lapack_run(&lu_factor_op, &A, 1, NULL, outs, 2);
  if (pivots) *pivots = outs[SWAPS];
  return situ__mt(outs[LUT]);
}

/* ---- the factors one by one ---- */

situ_tensor *situ_linalg_lu(situ_tensor *A, situ_tensor **L, situ_tensor **U) {
  SITU__MADE_OF_OPS("linalg_lu");
  situ_tensor *pivots = NULL, *lu = situ__need("linalg_lu", "A", A) ? situ_linalg_lu_factor(A, &pivots) : NULL;
  if (L) *L = NULL;
  if (U) *U = NULL;
  if (!lu) return NULL;
  const int64_t m = situ_size(lu, -2), n = situ_size(lu, -1), k = m < n ? m : n;
  const situ_options like = { .dtype = situ_dtype_of(lu), .device = situ_device_of(lu) };
  situ_tensor *lower = situ_add(situ_tril(situ_narrow(lu, -1, 0, k), -1), situ_eye(m, k, &like));
  situ_tensor *upper = situ_triu(situ_narrow(lu, -2, 0, k), 0), *p = permutation(pivots, m, like.dtype);
  if (!lower || !upper || !p) return NULL;
  if (L) *L = lower;
  if (U) *U = upper;
  return p;
}

/* ---- systems ---- */

static bool are_factors(const char *op, situ_tensor *lu, situ_tensor *pivots, situ_tensor *b) {
  const situ_op schema = {
    .name = op,
    .operand = { { "LU", SITU_FLOATING | SITU_SAME }, { "pivots", SITU_INDEX }, { "B", SITU_FLOATING | SITU_SAME } }
  };
  if (!situ__together(&schema, (situ_tensor *[]){ lu, pivots, b }, 3)) return false;
  const situ_shape a = situ__shape(&lu->view), p = situ__shape(&pivots->view), v = situ__shape(&b->view);
  bool good = a.ndim >= 2 && a.dim[a.ndim - 1] == a.dim[a.ndim - 2] && p.ndim == a.ndim - 1 && v.ndim >= 2;
  for (int d = 0; good && d < p.ndim; d++) good = p.dim[d] == a.dim[d];
  if (good) return true;
  char text[3][SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "LU is %s, pivots %s, B %s: [..., n, n], [..., n] and matrices [..., n, k]",
                    situ_shape_text(&a, text[0]), situ_shape_text(&p, text[1]), situ_shape_text(&v, text[2])),
         false;
}

/* P L U x = b, or with `adjoint` U^T L^T P^T x = b. */
static situ_tensor *solved(situ_tensor *lu, situ_tensor *pivots, situ_tensor *b, bool adjoint) {
  situ_tensor *p = permutation(pivots, situ_size(lu, -1), situ_dtype_of(lu)), *x;
  if (!p) return NULL;
  if (adjoint) {
    x = situ_linalg_solve_triangular(situ__mt(lu), b, false, true, false);
    return x ? situ_matmul(p, situ_linalg_solve_triangular(situ__mt(lu), x, true, true, true)) : NULL;
  }
  x = situ_linalg_solve_triangular(lu, situ_matmul(situ__mt(p), b), false, true, true);
  return x ? situ_linalg_solve_triangular(lu, x, true, true, false) : NULL;
}

/* x A = b is A^T x^T = b^T. */
situ_tensor *situ_linalg_lu_solve(situ_tensor *LU, situ_tensor *pivots, situ_tensor *B, bool left, bool adjoint) {
  const char *op = "linalg_lu_solve";
  SITU__MADE_OF_OPS(op);
  if (!are_factors(op, LU, pivots, B)) return NULL;
  return left ? solved(LU, pivots, B, adjoint) : situ__mt(solved(LU, pivots, situ__mt(B), !adjoint));
}
