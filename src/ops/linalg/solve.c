/* Systems of linear equations, inverses and determinants. Gradients: M. Giles, "Collected matrix derivative results for
   forward and reverse mode algorithmic differentiation" (2008). A solution x is made transposed, in LAPACK's order, and
   given as a transposed view.
   SPDX-License-Identifier: MIT */
#include <float.h>

#include "lapack.h"

static bool launch(const char *op, situ_device device, situ_work work) {
  work.verb = SITU_VERB_LINALG;
  work.compute = (situ_dtype)work.in[0]->dtype;
  return situ_launch(op, device, &work);
}

/* ---- triangular systems ---- */

typedef struct triangular_params {
  bool upper, unit;
} triangular_params;

static bool triangular_infer(situ_call *c) { return situ__lapack_system(c, true); }
static bool triangular_forward(situ_call *c) {
  const triangular_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->out[0]);
  situ_view_desc a, b;
  return launch(c->op->name, c->device,
                (situ_work){ .op = SITU_LINALG_TRIANGULAR,
                             .ins = 2,
                             .outs = 1,
                             .in = { situ__lapack_batched(situ__desc(c->in[0]), x, 2, &a),
                                     situ__lapack_batched(situ__desc(c->in[1]), x, 2, &b) },
                             .out = { x },
                             .integer = { p->upper, p->unit } });
}

/* db = a^-T dx, da = -db x^T, of which only the triangle counts. */
static bool triangular_backward(situ_grad_call *g) {
  const triangular_params *p = g->params;
  situ_tensor *dbt = situ__triangular(situ__mt(g->in[0]), situ__mt(g->grad[0]), !p->upper, p->unit);
  if (!GRAD(g, 1, situ__mt(dbt))) return false;
  if (!g->wants[0]) return true;
  situ_tensor *da = situ_neg(situ_matmul(situ__mt(dbt), g->out[0]));
  return GRAD(g, 0, p->upper ? situ_triu(da, p->unit) : situ_tril(da, -(int64_t)p->unit));
}

SITU_OP(solve_triangular_op) = { .name = "linalg_solve_triangular",
                                 .operand = { { "A", SITU_FLOATING | SITU_SAME }, { "B", SITU_FLOATING | SITU_SAME } },
                                 .flags = SITU_OP_COMPOSED,
                                 .save = SITU_SAVE(0) | SITU_SAVE_OUT(0),
                                 .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                                 .params_size = sizeof(triangular_params),
                                 .infer = triangular_infer,
                                 .forward = triangular_forward,
                                 .backward = triangular_backward,
                                 .backward_recorded = triangular_backward };

situ_tensor *situ__triangular(situ_tensor *a, situ_tensor *b, bool upper, bool unit) {
  return a && b ? situ__lapack_run2(&solve_triangular_op, a, b, &(triangular_params){ upper, unit }) : NULL;
}

/* x a = b is a^T x^T = b^T. */
situ_tensor *situ_linalg_solve_triangular(situ_tensor *A, situ_tensor *B, bool upper, bool left, bool unitriangular) {
  const char *op = solve_triangular_op.name;
  SITU__MADE_OF_OPS(op);
  if (!situ__need(op, "A", A) || !situ__need(op, "B", B)) return NULL;
  if (left) return situ__mt(situ__triangular(A, B, upper, unitriangular));
  if (A->view.ndim < 2 || B->view.ndim < 2) return situ__triangular(A, B, upper, unitriangular);
  return situ__triangular(situ__mt(A), situ__mt(B), !upper, unitriangular);
}

/* ---- LU, for what follows: x^T, LU^T and row swaps ---- */

static bool factor(situ_call *c, int first, bool regular, int determinants) {
  situ_work work = {
    .op = SITU_LINALG_LU, .ins = 1, .outs = 2 + determinants, .in = { situ__desc(c->in[0]) }, .integer = { regular }
  };
  work.out[0] = situ__desc(c->out[first]), work.out[1] = situ__desc(c->out[first + 1]);
  for (int k = 0; k < determinants; k++) work.out[2 + k] = situ__desc(c->out[k]);
  return launch(c->op->name, c->device, work);
}

static void infer_factors(situ_call *c, int first) {
  const situ_view_desc *a = situ__desc(c->in[0]);
  const int64_t n = a->size[a->ndim - 1];
  c->shape[first] = situ__lapack_shape(c, 0, n, n);
  c->shape[first + 1] = situ__lapack_shape(c, 0, n, -1);
  c->dtype[first] = (situ_dtype)a->dtype, c->dtype[first + 1] = SITU_I32;
}

static bool solve_factored(const situ_call *c, const situ_view_desc *lut, const situ_view_desc *swaps,
                           const situ_view_desc *b, bool transposed) {
  const situ_view_desc *x = situ__desc(c->out[0]);
  situ_view_desc wide[3];
  return launch(
      c->op->name, c->device,
      (situ_work){ .op = SITU_LINALG_LU_SOLVE,
                   .ins = 3,
                   .outs = 1,
                   .in = { situ__lapack_batched(lut, x, 2, &wide[0]), situ__lapack_batched(swaps, x, 1, &wide[1]),
                           situ__lapack_batched(b, x, 2, &wide[2]) },
                   .out = { x },
                   .integer = { transposed } });
}

/* In gradients only: it has none, and is not in the table of ops. */
static bool lu_solve_infer(situ_call *c) {
  const situ_view_desc *lut = situ__desc(c->in[0]), *b = situ__desc(c->in[2]);
  situ_shape batch = situ__lapack_shape(c, 0, -1, -1), other = situ__lapack_shape(c, 2, -1, -1);
  if (!situ_shape_broadcast(c->op->name, &batch, &other)) return false;
  batch.dim[batch.ndim++] = b->size[b->ndim - 1];
  batch.dim[batch.ndim++] = lut->size[lut->ndim - 1];
  c->shape[0] = batch, c->dtype[0] = (situ_dtype)lut->dtype;
  return true;
}
static bool lu_solve_forward(situ_call *c) {
  return solve_factored(c, situ__desc(c->in[0]), situ__desc(c->in[1]), situ__desc(c->in[2]), *(const bool *)c->params);
}
static const situ_op lu_solve_op = {
  .name = "linalg_lu_solve",
  .operand = { { "LU", SITU_FLOATING | SITU_SAME }, { "pivots", SITU_INDEX }, { "B", SITU_FLOATING | SITU_SAME } },
  .params_size = sizeof(bool),
  .infer = lu_solve_infer,
  .forward = lu_solve_forward
};

/* x^T of a x = b, or with `transposed` of a^T x = b; lut and swaps as SITU_LINALG_LU gives them. */
static situ_tensor *solve_by_lu(situ_tensor *lut, situ_tensor *swaps, situ_tensor *b, bool transposed) {
  if (!lut || !swaps || !b) return NULL;
  return situ_op_run(&lu_solve_op, (situ_tensor *[]){ lut, swaps, b }, 3, &transposed, NULL);
}

/* ---- solve ---- */

enum { X, LUT, SWAPS };

static bool solve_infer(situ_call *c) {
  if (!situ__lapack_system(c, true)) return false;
  infer_factors(c, LUT);
  return true;
}

static bool solve_forward(situ_call *c) {
  return factor(c, LUT, true, 0) &&
         solve_factored(c, situ__desc(c->out[LUT]), situ__desc(c->out[SWAPS]), situ__desc(c->in[1]), false);
}

/* db = a^-T dx, da = -db x^T. */
static bool solve_backward(situ_grad_call *g) {
  situ_tensor *dbt = solve_by_lu(g->out[LUT], g->out[SWAPS], situ__mt(g->grad[X]), true);
  return GRAD(g, 1, situ__mt(dbt)) && GRAD(g, 0, situ_neg(situ_matmul(situ__mt(dbt), g->out[X])));
}

static bool solve_recorded(situ_grad_call *g) {
  situ_tensor *db = situ_linalg_solve(situ__mt(g->in[0]), situ__mt(g->grad[X]), true);
  return GRAD(g, 1, db) && GRAD(g, 0, situ_neg(situ_matmul(db, g->out[X])));
}

SITU_OP(solve_op) = { .name = "linalg_solve",
                      .operand = { { "A", SITU_FLOATING | SITU_SAME }, { "B", SITU_FLOATING | SITU_SAME } },
                      .outs = 3,
                      .flags = SITU_OP_COMPOSED,
                      .save = SITU_SAVE(0) | SITU_SAVE_OUT(X) | SITU_SAVE_OUT(LUT) | SITU_SAVE_OUT(SWAPS),
                      .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                      .infer = solve_infer,
                      .forward = solve_forward,
                      .backward = solve_backward,
                      .backward_recorded = solve_recorded };

situ_tensor *situ_linalg_solve(situ_tensor *A, situ_tensor *B, bool left) {
  const char *op = solve_op.name;
  SITU__MADE_OF_OPS(op);
  if (!situ__need(op, "A", A) || !situ__need(op, "B", B)) return NULL;
  const bool vectors = situ__is_vectors(&A->view, &B->view);
  if (vectors && !left) return situ__fail(SITU_E_ARG, op, "x A = B needs matrices in B: B is vectors"), NULL;
  if (vectors) {
    situ_tensor *x = situ__lapack_run2(&solve_op, A, situ_unsqueeze(B, -1), NULL);
    return x ? situ_select(x, -2, 0) : NULL;
  }
  if (left || A->view.ndim < 2 || B->view.ndim < 2) return situ__mt(situ__lapack_run2(&solve_op, A, B, NULL));
  return situ__lapack_run2(&solve_op, situ__mt(A), situ__mt(B), NULL);
}

/* ---- inv ---- */

static bool inv_infer(situ_call *c) { return situ__lapack_matrix(c, 0, true) && situ_infer_like(c); }
static bool inv_forward(situ_call *c) {
  return launch(c->op->name, c->device,
                (situ_work){ .op = SITU_LINALG_INV,
                             .ins = 1,
                             .outs = 1,
                             .in = { situ__desc(c->in[0]) },
                             .out = { situ__desc(c->out[0]) } });
}
/* da = -y^T dy y^T. */
static bool inv_backward(situ_grad_call *g) {
  situ_tensor *yt = situ__mt(g->out[0]);
  return (g->dx[0] = situ_neg(situ_matmul(yt, situ_matmul(g->grad[0], yt)))) != NULL;
}
SITU_OP(inv_op) = { .name = "linalg_inv",
                    .operand = { { "A", SITU_FLOATING } },
                    .flags = SITU_OP_COMPOSED,
                    .save = SITU_SAVE_OUT(0),
                    .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                    .infer = inv_infer,
                    .forward = inv_forward,
                    .backward = inv_backward,
                    .backward_recorded = inv_backward };

situ_tensor *situ_linalg_inv(situ_tensor *A) {
  return situ__need(inv_op.name, "A", A) ? situ__lapack_run1(&inv_op, A, NULL) : NULL;
}

/* ---- det, slogdet ---- */

static bool det_infer(situ_call *c) {
  const int values = c->op->code;
  if (!situ__lapack_matrix(c, 0, true)) return false;
  for (int k = 0; k < values; k++) {
    c->shape[k] = situ__lapack_shape(c, 0, -1, -1);
    c->dtype[k] = (situ_dtype)situ__desc(c->in[0])->dtype;
  }
  infer_factors(c, values);
  return true;
}
static bool det_forward(situ_call *c) { return factor(c, c->op->code, false, c->op->code); }

/* a^-T times a number of each matrix: the solution of a^T x = number * I. */
static situ_tensor *inverse_times(situ_tensor *number, situ_tensor *lut, situ_tensor *swaps) {
  const int64_t n = situ_size(lut, -1);
  situ_tensor *eye = situ_eye(n, n, &(situ_options){ .dtype = situ_dtype_of(lut), .device = situ_device_of(lut) });
  return situ__mt(solve_by_lu(lut, swaps, situ_mul(eye, situ_unsqueeze(situ_unsqueeze(number, -1), -1)), true));
}

/* 1 or -1: an odd number of row swaps changes the sign. */
static situ_tensor *sign_of(situ_tensor *swaps, situ_dtype dtype) {
  const int64_t n = situ_size(swaps, -1);
  situ_tensor *own =
      situ_arange(1, (double)n + 1, 1, &(situ_options){ .dtype = SITU_I32, .device = situ_device_of(swaps) });
  situ_tensor *count = situ_sum(situ_ne(swaps, own), &(situ_reduce_options){ .dim = SITU_DIMS(-1) });
  return situ_to_dtype(situ_rsub_scalar(situ_mul_scalar(situ_remainder_scalar(count, 2), 2), 1), dtype);
}

/* da = dy det a^-T. A factor of 0 is taken as the smallest number that counts, so that what is divided by it has been
   multiplied by it: det a^-T is the matrix of cofactors, which a singular matrix has too. */
static bool det_backward(situ_grad_call *g) {
  situ_tensor *lut = g->out[1], *diagonal = situ_diagonal(lut, 0, -2, -1);
  if (!diagonal) return false;
  const situ_dtype dtype = situ_dtype_of(lut);
  const double least = dtype == SITU_F64 ? DBL_EPSILON : FLT_EPSILON;
  situ_tensor *lift = situ_mul_scalar(situ_to_dtype(situ_eq_scalar(diagonal, 0), dtype), least);
  situ_tensor *lifted = situ_add(lut, situ_diag_embed(lift, 0, -2, -1));
  situ_tensor *det = situ_mul(situ_prod(situ_add(diagonal, lift), &(situ_reduce_options){ .dim = SITU_DIMS(-1) }),
                              sign_of(g->out[2], dtype));
  return (g->dx[0] = inverse_times(situ_mul(g->grad[0], det), lifted, g->out[2])) != NULL;
}
/* The sign is constant: da = d(log |det|) a^-T. */
static bool slogdet_backward(situ_grad_call *g) {
  if (!g->grad[1])
    return (g->dx[0] = situ_zeros(g->shape[0], &(situ_options){ .dtype = g->dtype[0], .device = g->device })) != NULL;
  return (g->dx[0] = inverse_times(g->grad[1], g->out[2], g->out[3])) != NULL;
}

/* The same from the matrix itself, which must not be singular. */
static situ_tensor *times_inverse(const situ_grad_call *g, situ_tensor *number) {
  const int64_t n = situ_size(g->in[0], -1);
  situ_tensor *eye = situ_eye(n, n, &(situ_options){ .dtype = g->dtype[0], .device = g->device });
  situ_tensor *right = situ_mul(eye, situ_unsqueeze(situ_unsqueeze(number, -1), -1));
  return situ_linalg_solve(situ__mt(g->in[0]), right, true);
}
static bool det_recorded(situ_grad_call *g) {
  return (g->dx[0] = times_inverse(g, situ_mul(g->grad[0], situ_linalg_det(g->in[0])))) != NULL;
}
static bool slogdet_recorded(situ_grad_call *g) {
  if (!g->grad[1]) return slogdet_backward(g);
  return (g->dx[0] = times_inverse(g, g->grad[1])) != NULL;
}

#define DETERMINANT(id, values, saved)                               \
  SITU_OP(id##_op) = { .name = "linalg_" #id,                        \
                       .operand = { { "A", SITU_FLOATING } },        \
                       .outs = values + 2,                           \
                       .code = values,                               \
                       .flags = SITU_OP_COMPOSED,                    \
                       .save = saved,                                \
                       .autocast = { SITU_CAST_F32, SITU_CAST_F32 }, \
                       .infer = det_infer,                           \
                       .forward = det_forward,                       \
                       .backward = id##_backward,                    \
                       .backward_recorded = id##_recorded };
DETERMINANT(det, 1, SITU_SAVE(0) | SITU_SAVE_OUT(1) | SITU_SAVE_OUT(2))
DETERMINANT(slogdet, 2, SITU_SAVE(0) | SITU_SAVE_OUT(2) | SITU_SAVE_OUT(3))

situ_tensor *situ_linalg_det(situ_tensor *A) {
  return situ__need(det_op.name, "A", A) ? situ__lapack_run1(&det_op, A, NULL) : NULL;
}

situ_tensor *situ_linalg_slogdet(situ_tensor *A, situ_tensor **logabsdet) {
  situ_tensor *outs[2] = { NULL, NULL };
  if (situ__need(slogdet_op.name, "A", A)) situ__lapack_run(&slogdet_op, &A, 1, NULL, outs, 2);
  if (logabsdet) *logabsdet = outs[1];
  return outs[0];
}
