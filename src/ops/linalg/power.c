/* Functions of a matrix: exponential, powers; and what is made of other factorizations.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "lapack.h"

/* ---- matrix_exp ---- */

static bool exp_infer(situ_call *c) { return situ__lapack_matrix(c, 0, true) && situ_infer_like(c); }

static bool exp_forward(situ_call *c) {
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_LINALG, .op = SITU_LINALG_EXP, .compute = c->dtype[0], .ins = 1, .outs = 1,
                                   .in = { situ__desc(c->in[0]) }, .out = { situ__desc(c->out[0]) } });
}

/* The upper right part of exp((a^T, dy; 0, a^T)): N. Higham, "Functions of Matrices" (2008), (3.16). */
static bool exp_backward(situ_grad_call *g) {
  situ_tensor *at = situ__mt(g->in[0]), *dy = g->grad[0];
  const int64_t n = situ_size(at, -1);
  situ_tensor *above = situ_cat((situ_tensor *[]){ at, dy }, 2, -1),
              *below = situ_cat((situ_tensor *[]){ situ_zeros_like(at, NULL), at }, 2, -1);
  situ_tensor *y = above && below ? situ_linalg_matrix_exp(situ_cat((situ_tensor *[]){ above, below }, 2, -2)) : NULL;
  return (g->dx[0] = y ? situ_narrow(situ_narrow(y, -2, 0, n), -1, n, n) : NULL) != NULL;
}

SITU_OP(matrix_exp_op) = { .name = "linalg_matrix_exp",
                           .operand = { { "A", SITU_FLOATING } },
                           .flags = SITU_OP_COMPOSED,
                           .save = SITU_SAVE(0),
                           .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                           .infer = exp_infer,
                           .forward = exp_forward,
                           .backward = exp_backward,
                           .backward_recorded = exp_backward };

situ_tensor *situ_linalg_matrix_exp(situ_tensor *A) {
  return situ__need(matrix_exp_op.name, "A", A) ? situ__lapack_run1(&matrix_exp_op, A, NULL) : NULL;
}

/* ---- made of other ops ---- */

/* Checks a square matrix of numbers where no op of LAPACK does. */
static bool is_square(const char *op, const char *name, situ_tensor *a) {
  const situ_op schema = { .name = op, .operand = { { name, SITU_FLOATING | SITU_INTEGRAL } } };
  if (!situ__together(&schema, &a, 1)) return false;
  const situ_view_desc *v = &a->view;
  if (v->ndim >= 2 && v->size[v->ndim - 2] == v->size[v->ndim - 1]) return true;
  const situ_shape shape = situ__shape(v);
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "%s is %s: its matrices must be square", name, situ_shape_text(&shape, text)),
         false;
}

static situ_tensor *identity_of(situ_tensor *a) {
  const int64_t n = situ_size(a, -1);
  situ_tensor *eye = situ_eye(n, n, &(situ_options){ .dtype = situ_dtype_of(a), .device = situ_device_of(a) });
  return eye ? situ_clone(situ_expand(eye, situ_shape_of(a))) : NULL;
}

/* By squaring: the product of the powers 1, 2, 4, ... whose bits n has. */
situ_tensor *situ_linalg_matrix_power(situ_tensor *A, int64_t n) {
  const char *op = "linalg_matrix_power";
  SITU__MADE_OF_OPS(op);
  if (!is_square(op, "A", A)) return NULL;
  if (n == 0) /* constant, but with a gradient, as in torch */
    return situ_where(situ_ones_like(A, &(situ_options){ .dtype = SITU_BOOL }), identity_of(A), A);
  situ_tensor *power = n < 0 ? situ_linalg_inv(A) : A, *y = NULL;
  for (uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n; left; left >>= 1) {
    if (left & 1 && !(y = y ? situ_matmul(y, power) : power)) return NULL;
    if (left > 1 && !(power = situ_matmul(power, power))) return NULL;
  }
  return y == A ? situ_clone(y) : y;
}

situ_tensor *situ_cholesky_solve(situ_tensor *B, situ_tensor *L, bool upper) {
  const char *op = "cholesky_solve";
  SITU__MADE_OF_OPS(op);
  if (!situ__need(op, "B", B) || !situ__need(op, "L", L)) return NULL;
  situ_tensor *lower = upper ? situ__mt(L) : L;
  situ_tensor *x = lower ? situ_linalg_solve_triangular(lower, B, false, true, false) : NULL;
  return x ? situ_linalg_solve_triangular(situ__mt(lower), x, true, true, false) : NULL;
}

situ_tensor *situ_cholesky_inverse(situ_tensor *L, bool upper) {
  const char *op = "cholesky_inverse";
  SITU__MADE_OF_OPS(op);
  return is_square(op, "L", L) ? situ_cholesky_solve(identity_of(L), L, upper) : NULL;
}

situ_tensor *situ_logdet(situ_tensor *A) {
  const char *op = "logdet";
  SITU__MADE_OF_OPS(op);
  situ_tensor *log_det = NULL, *sign = situ__need(op, "A", A) ? situ_linalg_slogdet(A, &log_det) : NULL;
  return sign ? situ_where(situ_lt_scalar(sign, 0), situ_full_like(log_det, (double)NAN, NULL), log_det) : NULL;
}
