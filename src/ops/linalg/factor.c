/* Factorizations: Cholesky's, QR, singular values, eigenvalues of symmetric matrices. Gradients of the last two: Giles
   2008, and J. Townsend, "Differentiating the singular value decomposition" (2016); they hold where singular values or
   eigenvalues differ.
   SPDX-License-Identifier: MIT */
#include "lapack.h"

static bool launch(const situ_call *c, situ_linalg_pass pass, int outs, int64_t integer) {
  situ_work work = { SITU_VERB_LINALG,       .op = (int)pass,
                     .compute = c->dtype[0], .ins = 1,
                     .outs = outs,           .in = { situ__desc(c->in[0]) },
                     .integer = { integer } };
  for (int k = 0; k < outs; k++) work.out[k] = c->out[k] ? situ__desc(c->out[k]) : NULL;
  return situ_launch(c->op->name, c->device, &work);
}

/* ---- cholesky ---- */

typedef struct cholesky_params {
  bool upper;
} cholesky_params;

static bool cholesky_infer(situ_call *c) { return situ__lapack_matrix(c, 0, true) && situ_infer_like(c); }
static bool cholesky_forward(situ_call *c) {
  return launch(c, SITU_LINALG_CHOLESKY, 1, ((const cholesky_params *)c->params)->upper);
}

/* With S the lower triangle of l^T dl, its diagonal halved: da = l^-T (S + S^T) / 2 l^-1, Iain Murray, "Differentiation
   of the Cholesky decomposition" (2016). */
static bool cholesky_backward(situ_grad_call *g) {
  const bool upper = ((const cholesky_params *)g->params)->upper;
  situ_tensor *l = upper ? situ__mt(g->out[0]) : g->out[0], *dl = upper ? situ__mt(g->grad[0]) : g->grad[0];
  situ_tensor *lt = situ__mt(l), *s = situ_matmul(lt, dl);
  situ_tensor *even = situ_mul_scalar(situ_add(situ_tril(s, 0), situ__mt(situ_tril(s, -1))), 0.5);
  return (g->dx[0] = situ__triangular(lt, situ__triangular(lt, even, true, false), true, false)) != NULL;
}

SITU_OP(cholesky_op) = { .name = "linalg_cholesky",
                         .operand = { { "input", SITU_FLOATING } },
                         .flags = SITU_OP_COMPOSED,
                         .save = SITU_SAVE_OUT(0),
                         .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                         .params_size = sizeof(cholesky_params),
                         .infer = cholesky_infer,
                         .forward = cholesky_forward,
                         .backward = cholesky_backward,
                         .backward_recorded = cholesky_backward };

situ_tensor *situ_linalg_cholesky(situ_tensor *input, bool upper) {
  return situ__need(cholesky_op.name, "input", input)
             ? situ__lapack_run1(&cholesky_op, input, &(cholesky_params){ upper })
             : NULL;
}

/* ---- qr ---- */

enum { Q, RIGHT };

typedef struct qr_params {
  situ_linalg_qr_mode mode;
} qr_params;

static bool qr_infer(situ_call *c) {
  const situ_linalg_qr_mode mode = ((const qr_params *)c->params)->mode;
  if (!situ__lapack_matrix(c, 0, false)) return false;
  const situ_view_desc *a = situ__desc(c->in[0]);
  const int64_t m = a->size[a->ndim - 2], n = a->size[a->ndim - 1],
                k = mode == SITU_LINALG_QR_COMPLETE ? m
                    : m < n                         ? m
                                                    : n;
  c->shape[Q] = mode == SITU_LINALG_QR_R ? SITU_SHAPE(0) : situ__lapack_shape(c, 0, m, k);
  c->shape[RIGHT] = situ__lapack_shape(c, 0, k, n);
  c->dtype[Q] = c->dtype[RIGHT] = (situ_dtype)a->dtype;
  return true;
}

static bool qr_forward(situ_call *c) {
  const bool wants_q = ((const qr_params *)c->params)->mode != SITU_LINALG_QR_R;
  const situ_work work = { SITU_VERB_LINALG,
                           .op = SITU_LINALG_QR,
                           .compute = c->dtype[0],
                           .ins = 1,
                           .outs = 2,
                           .in = { situ__desc(c->in[0]) },
                           .out = { wants_q ? situ__desc(c->out[Q]) : NULL, situ__desc(c->out[RIGHT]) } };
  return situ_launch(c->op->name, c->device, &work);
}

/* Of x = q r, r square. With M = dr r^T - q^T dq: dx = (dq + q S) r^-T, S symmetric with M's upper triangle. */
static situ_tensor *qr_gradient(situ_tensor *q, situ_tensor *r, situ_tensor *dq, situ_tensor *dr) {
  situ_tensor *m = situ_sub(situ_matmul(dr, situ__mt(r)), situ_matmul(situ__mt(q), dq));
  situ_tensor *even = situ_add(situ_triu(m, 0), situ__mt(situ_triu(m, 1)));
  return situ__triangular(r, situ__mt(situ_add(dq, situ_matmul(q, even))), true, false);
}

/* Wide: a = (x | y), r = (r1 | r2), y = q r2. */
static bool qr_backward(situ_grad_call *g) {
  const situ_linalg_qr_mode mode = ((const qr_params *)g->params)->mode;
  const situ_shape *a = &g->shape[0];
  const int64_t m = a->dim[a->ndim - 2], n = a->dim[a->ndim - 1];
  if (mode == SITU_LINALG_QR_R || (mode == SITU_LINALG_QR_COMPLETE && m > n))
    return situ_fail(SITU_E_UNSUPPORTED, g->op->name, "no gradient in mode %s%s: use SITU_LINALG_QR_REDUCED",
                     mode == SITU_LINALG_QR_R ? "R, as it depends on Q" : "COMPLETE",
                     mode == SITU_LINALG_QR_R ? "" : " with more rows than columns"),
           false;
  situ_tensor *q = g->out[Q], *r = g->out[RIGHT], *dq = g->grad[Q] ? g->grad[Q] : situ_zeros_like(q, NULL),
              *dr = g->grad[RIGHT] ? g->grad[RIGHT] : situ_zeros_like(r, NULL);
  if (m >= n) return (g->dx[0] = qr_gradient(q, r, dq, dr)) != NULL;
  situ_tensor *r1 = situ_narrow(r, -1, 0, m), *r2 = situ_narrow(r, -1, m, n - m), *dr2 = situ_narrow(dr, -1, m, n - m);
  situ_tensor *more = situ_matmul(situ_matmul(q, r2), situ__mt(dr2));
  situ_tensor *dx = qr_gradient(q, r1, situ_add(dq, more), situ_narrow(dr, -1, 0, m));
  return (g->dx[0] = situ_cat((situ_tensor *[]){ dx, situ_matmul(q, dr2) }, 2, -1)) != NULL;
}

SITU_OP(qr_op) = { .name = "linalg_qr",
                   .operand = { { "A", SITU_FLOATING } },
                   .outs = 2,
                   .flags = SITU_OP_COMPOSED,
                   .save = SITU_SAVE_OUT(Q) | SITU_SAVE_OUT(RIGHT),
                   .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                   .params_size = sizeof(qr_params),
                   .infer = qr_infer,
                   .forward = qr_forward,
                   .backward = qr_backward,
                   .backward_recorded = qr_backward };

situ_tensor *situ_linalg_qr(situ_tensor *A, situ_linalg_qr_mode mode, situ_tensor **R) {
  situ_tensor *outs[2] = { NULL, NULL };
  if (R) *R = NULL;
  if (!situ__need(qr_op.name, "A", A)) return NULL;
  if ((unsigned)mode > SITU_LINALG_QR_R) return situ__fail(SITU_E_ARG, qr_op.name, "%d is not a mode", (int)mode), NULL;
  situ__lapack_run(&qr_op, &A, 1, &(qr_params){ mode }, outs, 2);
  if (R) *R = outs[RIGHT];
  return outs[Q];
}

/* ---- svd ---- */

enum { LEFT, SINGULAR, RIGHTS };

typedef struct svd_params {
  bool full, values; /* all vectors; none */
} svd_params;

static bool svd_infer(situ_call *c) {
  const svd_params *p = c->params;
  if (!situ__lapack_matrix(c, 0, false)) return false;
  const situ_view_desc *a = situ__desc(c->in[0]);
  const int64_t m = a->size[a->ndim - 2], n = a->size[a->ndim - 1], k = m < n ? m : n;
  c->shape[LEFT] = p->values ? SITU_SHAPE(0) : situ__lapack_shape(c, 0, m, p->full ? m : k);
  c->shape[SINGULAR] = situ__lapack_shape(c, 0, k, -1);
  c->shape[RIGHTS] = p->values ? SITU_SHAPE(0) : situ__lapack_shape(c, 0, p->full ? n : k, n);
  c->dtype[LEFT] = c->dtype[SINGULAR] = c->dtype[RIGHTS] = (situ_dtype)a->dtype;
  return true;
}

static bool svd_forward(situ_call *c) {
  const bool values = ((const svd_params *)c->params)->values;
  const situ_work work = { SITU_VERB_LINALG,
                           .op = SITU_LINALG_SVD,
                           .compute = c->dtype[0],
                           .ins = 1,
                           .outs = 3,
                           .in = { situ__desc(c->in[0]) },
                           .out = { values ? NULL : situ__desc(c->out[LEFT]), situ__desc(c->out[SINGULAR]),
                                    values ? NULL : situ__desc(c->out[RIGHTS]) } };
  return situ_launch(c->op->name, c->device, &work);
}

static situ_tensor *as_row(situ_tensor *v) { return v ? situ_unsqueeze(v, -2) : NULL; }
static situ_tensor *as_column(situ_tensor *v) { return v ? situ_unsqueeze(v, -1) : NULL; }
static situ_tensor *identity_like(situ_tensor *v) {
  const int64_t n = situ_size(v, -1);
  return situ_eye(n, n, &(situ_options){ .dtype = situ_dtype_of(v), .device = situ_device_of(v) });
}

/* (x - x^T) / (s_j^2 - s_i^2), 0 on the diagonal. */
static situ_tensor *turned(situ_tensor *x, situ_tensor *s) {
  situ_tensor *square = situ_square(s), *gap = situ_sub(as_row(square), as_column(square));
  return situ_div(situ_sub(x, situ__mt(x)), situ_add(gap, identity_like(s)));
}

/* What dv [k, n] has outside of the k rows of vt, divided by s. */
static situ_tensor *outside(situ_tensor *dv, situ_tensor *vt, situ_tensor *s) {
  return situ_div(situ_sub(dv, situ_matmul(situ_matmul(dv, situ__mt(vt)), vt)), as_column(s));
}

/* da = u (turned(u^T du) s + s turned(v^T dv) + ds) v^T, and what lies outside of u and v. Of all vectors (full), those
   beyond the first k are not unique: their gradient is left out, as in PyTorch. */
static bool svd_backward(situ_grad_call *g) {
  if (((const svd_params *)g->params)->values)
    return situ_fail(SITU_E_STATE, g->op->name, "no gradient without vectors"), false;
  situ_tensor *s = g->out[SINGULAR], *du = g->grad[LEFT], *ds = g->grad[SINGULAR], *dvt = g->grad[RIGHTS];
  const int64_t k = situ_size(s, -1), m = situ_size(g->out[LEFT], -2), n = situ_size(g->out[RIGHTS], -1);
  situ_tensor *u = situ_narrow(g->out[LEFT], -1, 0, k), *vt = situ_narrow(g->out[RIGHTS], -2, 0, k), *sum;
  if (du) du = situ_narrow(du, -1, 0, k);
  if (dvt) dvt = situ_narrow(dvt, -2, 0, k);
  situ_tensor *middle = ds ? situ_diag_embed(ds, 0, -2, -1) : situ_zeros_like(situ_matmul(vt, situ__mt(vt)), NULL);
  if (du) middle = situ_add(middle, situ_mul(turned(situ_matmul(situ__mt(u), du), s), as_row(s)));
  if (dvt) middle = situ_add(middle, situ_mul(turned(situ_matmul(vt, situ__mt(dvt)), s), as_column(s)));
  sum = situ_matmul(situ_matmul(u, middle), vt);
  if (du && m > k) sum = situ_add(sum, situ_matmul(situ__mt(outside(situ__mt(du), situ__mt(u), s)), vt));
  if (dvt && n > k) sum = situ_add(sum, situ_matmul(u, outside(dvt, vt, s)));
  return (g->dx[0] = sum) != NULL;
}

SITU_OP(svd_op) = { .name = "linalg_svd",
                    .operand = { { "A", SITU_FLOATING } },
                    .outs = 3,
                    .flags = SITU_OP_COMPOSED,
                    .save = SITU_SAVE_OUT(LEFT) | SITU_SAVE_OUT(SINGULAR) | SITU_SAVE_OUT(RIGHTS),
                    .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                    .params_size = sizeof(svd_params),
                    .infer = svd_infer,
                    .forward = svd_forward,
                    .backward = svd_backward,
                    .backward_recorded = svd_backward };

situ_tensor *situ_linalg_svd(situ_tensor *A, bool full_matrices, situ_tensor **S, situ_tensor **Vh) {
  situ_tensor *outs[3] = { NULL, NULL, NULL };
  if (situ__need(svd_op.name, "A", A)) situ__lapack_run(&svd_op, &A, 1, &(svd_params){ full_matrices, false }, outs, 3);
  if (S) *S = outs[SINGULAR];
  if (Vh) *Vh = outs[RIGHTS];
  return outs[LEFT];
}

/* Their gradient needs the vectors. */
situ_tensor *situ_linalg_svdvals(situ_tensor *A) {
  const char *op = "linalg_svdvals";
  SITU__MADE_OF_OPS(op);
  situ_tensor *outs[3] = { NULL, NULL, NULL };
  if (!situ__need(op, "A", A)) return NULL;
  const bool values = !situ__keeps(A);
  situ__lapack_run(&svd_op, &A, 1, &(svd_params){ .values = values }, outs, 3);
  return outs[SINGULAR];
}

/* ---- eigh ---- */

enum { VALUES, VECTORS };

typedef struct eigh_params {
  bool upper, values;
} eigh_params;

static bool eigh_infer(situ_call *c) {
  if (!situ__lapack_matrix(c, 0, true)) return false;
  const situ_view_desc *a = situ__desc(c->in[0]);
  const int64_t n = a->size[a->ndim - 1];
  c->shape[VALUES] = situ__lapack_shape(c, 0, n, -1);
  c->shape[VECTORS] = situ__lapack_shape(c, 0, n, n);
  c->dtype[VALUES] = (situ_dtype)a->dtype;
  if (!((const eigh_params *)c->params)->values) c->dtype[VECTORS] = c->dtype[VALUES];
  return true;
}

static bool eigh_forward(situ_call *c) {
  return launch(c, SITU_LINALG_EIGH, 2, ((const eigh_params *)c->params)->upper);
}

/* da = v (K / (w_j - w_i) + dw) v^T, where K is the antisymmetric part of v^T dv: how v can turn. */
static bool eigh_backward(situ_grad_call *g) {
  situ_tensor *w = g->out[VALUES], *vt = g->out[VECTORS], *dw = g->grad[VALUES], *dvt = g->grad[VECTORS];
  if (!vt) return situ_fail(SITU_E_STATE, g->op->name, "no gradient without eigenvectors"), false;
  situ_tensor *middle = dw ? situ_diag_embed(dw, 0, -2, -1) : situ_zeros_like(vt, NULL);
  if (dvt) {
    situ_tensor *gap = situ_add(situ_sub(as_row(w), as_column(w)), identity_like(w));
    situ_tensor *x = situ_matmul(vt, situ__mt(dvt));
    middle = situ_add(middle, situ_div(situ_mul_scalar(situ_sub(x, situ__mt(x)), 0.5), gap));
  }
  return (g->dx[0] = situ_matmul(situ_matmul(situ__mt(vt), middle), vt)) != NULL;
}

SITU_OP(eigh_op) = { .name = "linalg_eigh",
                     .operand = { { "A", SITU_FLOATING } },
                     .outs = 2,
                     .flags = SITU_OP_COMPOSED,
                     .save = SITU_SAVE_OUT(VALUES) | SITU_SAVE_OUT(VECTORS),
                     .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                     .params_size = sizeof(eigh_params),
                     .infer = eigh_infer,
                     .forward = eigh_forward,
                     .backward = eigh_backward,
                     .backward_recorded = eigh_backward };

situ_tensor *situ_linalg_eigh(situ_tensor *A, bool upper, situ_tensor **eigenvectors) {
  SITU__MADE_OF_OPS(eigh_op.name);
  situ_tensor *outs[2] = { NULL, NULL };
  if (situ__need(eigh_op.name, "A", A)) situ__lapack_run(&eigh_op, &A, 1, &(eigh_params){ .upper = upper }, outs, 2);
  situ_tensor *v = situ__mt(outs[VECTORS]);
  if (eigenvectors) *eigenvectors = v;
  return v ? outs[VALUES] : NULL;
}

situ_tensor *situ_linalg_eigvalsh(situ_tensor *A, bool upper) {
  const char *op = "linalg_eigvalsh";
  SITU__MADE_OF_OPS(op);
  if (!situ__need(op, "A", A)) return NULL;
  const bool values = !situ__keeps(A);
  return situ__lapack_run1(&eigh_op, A, &(eigh_params){ upper, values });
}
