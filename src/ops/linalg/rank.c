/* What singular values decide: pseudoinverse, rank, least squares.
   SPDX-License-Identifier: MIT */
#include <float.h>

#include "base/options.h"
#include "lapack.h"

/* ---- the singular values that count; of a symmetric matrix, the eigenvalues without their signs ---- */

static double epsilon_of(situ_dtype dtype) { return dtype == SITU_F64 ? DBL_EPSILON : FLT_EPSILON; }

/* True where s [.., k] is above the tolerance. */
static situ_tensor *counts(situ_tensor *a, situ_tensor *s, situ_linalg_tolerance t) {
  if (!s) return NULL;
  const int64_t m = situ_size(a, -2), n = situ_size(a, -1);
  if (t.rtol == SITU_NONE) t.rtol = t.atol > 0 ? 0 : (double)(m > n ? m : n) * epsilon_of(situ_dtype_of(a));
  if (!situ_size(s, -1)) return situ_gt_scalar(s, 0);
  situ_tensor *largest = situ_amax(s, &(situ_reduce_options){ .dim = SITU_DIMS(-1), .keepdim = true });
  return situ_gt(s, situ_clamp(situ_mul_scalar(largest, t.rtol), t.atol, INFINITY));
}

static bool read_tolerance(const char *op, const situ_linalg_tolerance *given, situ_linalg_tolerance *t) {
  *t = situ_linalg_tolerance_defaults();
  if (!situ__options_read(op, "situ_linalg_tolerance_defaults", given, t, sizeof *t)) return false;
  if (t->atol >= 0 && (t->rtol >= 0 || t->rtol == SITU_NONE)) return true;
  return situ__fail(SITU_E_ARG, op, "atol %g and rtol %g: neither may be negative", t->atol, t->rtol), false;
}

situ_tensor *situ_linalg_matrix_rank(situ_tensor *A, const situ_linalg_tolerance *tolerance) {
  const char *op = "linalg_matrix_rank";
  SITU__MADE_OF_OPS(op);
  situ_linalg_tolerance t;
  if (!situ__need(op, "A", A) || !read_tolerance(op, tolerance, &t)) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *values = t.hermitian ? situ_abs(situ_linalg_eigvalsh(A, false)) : situ_linalg_svdvals(A);
  return situ_scope_return(&s, situ_sum(counts(A, values, t), &(situ_reduce_options){ .dim = SITU_DIMS(-1) }));
}

/* ---- pinv ---- */

/* Gradient: G. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
   variables separate" (1973). */
typedef struct pinv_params {
  situ_linalg_tolerance tolerance;
} pinv_params;

static bool pinv_infer(situ_call *c) {
  if (!situ__lapack_matrix(c, 0, ((const pinv_params *)c->params)->tolerance.hermitian)) return false;
  const situ_view_desc *a = situ__desc(c->in[0]);
  c->shape[0] = situ__lapack_shape(c, 0, a->size[a->ndim - 1], a->size[a->ndim - 2]);
  c->dtype[0] = (situ_dtype)a->dtype;
  return true;
}

/* v diag(1 / s, or 0) u^T; of a symmetric matrix both are its eigenvectors, and s may be negative. */
static bool pinv_forward(situ_call *c) {
  const situ_linalg_tolerance *t = &((const pinv_params *)c->params)->tolerance;
  situ_tensor *u, *s, *v = NULL;
  if (t->hermitian) {
    s = situ_linalg_eigh(c->in[0], false, &v);
    u = v;
  } else {
    u = situ_linalg_svd(c->in[0], false, &s, &v);
    v = situ__mt(v);
  }
  if (!u || !s || !v) return false;
  situ_tensor *zero = situ_zeros_like(s, NULL);
  situ_tensor *inverse = situ_where(counts(c->in[0], situ_abs(s), *t), situ_reciprocal(s), zero);
  return situ_copy_(c->out[0], situ_matmul(situ_mul(v, situ_unsqueeze(inverse, -2)), situ__mt(u))) != NULL;
}

/* -p^T dp p^T + (I - a p) dp^T p p^T + p^T p dp^T (I - p a). */
static situ_tensor *pinv_gradient(situ_tensor *a, situ_tensor *p, situ_tensor *dp) {
  situ_tensor *pt = situ__mt(p), *dpt = situ__mt(dp);
  situ_tensor *first = situ_matmul(pt, situ_matmul(dp, pt)), *second = situ_matmul(dpt, situ_matmul(p, pt)),
              *third = situ_matmul(situ_matmul(pt, p), dpt);
  second = situ_sub(second, situ_matmul(a, situ_matmul(p, second)));
  third = situ_sub(third, situ_matmul(situ_matmul(third, p), a));
  return situ_sub(situ_add(second, third), first);
}

static bool pinv_backward(situ_grad_call *g) {
  return (g->dx[0] = pinv_gradient(g->in[0], g->out[0], g->grad[0])) != NULL;
}

SITU_OP(pinv_op) = { .name = "linalg_pinv",
                     .operand = { { "A", SITU_FLOATING } },
                     .flags = SITU_OP_COMPOSED,
                     .save = SITU_SAVE(0) | SITU_SAVE_OUT(0),
                     .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                     .params_size = sizeof(pinv_params),
                     .infer = pinv_infer,
                     .forward = pinv_forward,
                     .backward = pinv_backward,
                     .backward_recorded = pinv_backward };

situ_tensor *situ_linalg_pinv(situ_tensor *A, const situ_linalg_tolerance *tolerance) {
  pinv_params p;
  if (!situ__need(pinv_op.name, "A", A) || !read_tolerance(pinv_op.name, tolerance, &p.tolerance)) return NULL;
  return situ__lapack_run1(&pinv_op, A, &p);
}

/* ---- lstsq ---- */

enum { X, RANK };

typedef struct lstsq_params {
  double rcond;
} lstsq_params;

static bool lstsq_infer(situ_call *c) {
  if (!situ__lapack_system(c, false)) return false;
  c->shape[RANK] = c->shape[X];
  c->shape[RANK].ndim -= 2;
  c->dtype[RANK] = SITU_I64;
  return true;
}

static bool lstsq_forward(situ_call *c) {
  const situ_view_desc *x = situ__desc(c->out[X]), *a = situ__desc(c->in[0]);
  const int64_t m = a->size[a->ndim - 2], n = a->size[a->ndim - 1];
  const double rcond = ((const lstsq_params *)c->params)->rcond;
  situ_view_desc wide[2];
  return situ_launch(
      c->op->name, c->device,
      &(situ_work){
          SITU_VERB_LINALG, .op = SITU_LINALG_LSTSQ, .compute = c->dtype[0], .ins = 2, .outs = 2,
          .in = { situ__lapack_batched(a, x, 2, &wide[0]), situ__lapack_batched(situ__desc(c->in[1]), x, 2, &wide[1]) },
          .out = { x, situ__desc(c->out[RANK]) },
          .scalar = { rcond != SITU_NONE ? rcond : (double)(m > n ? m : n) * epsilon_of(c->dtype[0]) } });
}

/* x = p b with the pseudoinverse p of a. */
static bool lstsq_backward(situ_grad_call *g) {
  situ_tensor *a = g->in[0], *b = g->in[1], *dxt = g->grad[X];
  const double rcond = ((const lstsq_params *)g->params)->rcond;
  const situ_linalg_tolerance t = { .size = sizeof t, .rtol = rcond };
  situ_tensor *p = situ_linalg_pinv(a, &t);
  if (!p || !dxt) return false;
  return GRAD(g, 0, pinv_gradient(a, p, situ_matmul(situ__mt(dxt), situ__mt(b)))) &&
         GRAD(g, 1, situ_matmul(situ__mt(p), situ__mt(dxt)));
}

SITU_OP(lstsq_op) = { .name = "linalg_lstsq",
                      .operand = { { "A", SITU_FLOATING | SITU_SAME }, { "B", SITU_FLOATING | SITU_SAME } },
                      .outs = 2,
                      .flags = SITU_OP_COMPOSED,
                      .save = SITU_SAVE(0) | SITU_SAVE(1),
                      .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                      .params_size = sizeof(lstsq_params),
                      .infer = lstsq_infer,
                      .forward = lstsq_forward,
                      .backward = lstsq_backward,
                      .backward_recorded = lstsq_backward };

situ_tensor *situ_linalg_lstsq(situ_tensor *A, situ_tensor *B, double rcond, situ_tensor **rank) {
  SITU__MADE_OF_OPS(lstsq_op.name);
  situ_tensor *outs[2] = { NULL, NULL };
  if (rank) *rank = NULL;
  if (!situ__need(lstsq_op.name, "A", A) || !situ__need(lstsq_op.name, "B", B)) return NULL;
  if (!(rcond >= 0 || rcond == SITU_NONE))
    return situ__fail(SITU_E_ARG, lstsq_op.name, "rcond is %g, must be 0 or more, or SITU_NONE", rcond), NULL;
  const bool vectors = situ__is_vectors(&A->view, &B->view);
  situ__lapack_run(&lstsq_op, (situ_tensor *[]){ A, vectors ? situ_unsqueeze(B, -1) : B }, 2, &(lstsq_params){ rcond },
                   outs, 2);
  situ_tensor *x = vectors && outs[X] ? situ_select(outs[X], -2, 0) : situ__mt(outs[X]);
  if (rank && x) *rank = outs[RANK];
  return x;
}
