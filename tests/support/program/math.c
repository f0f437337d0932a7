/* Calls of random programs: linear algebra, Fourier transforms, running sums.
   SPDX-License-Identifier: MIT */
#include "situ/sys/op.h"
#include "support/program/runs.h"

#define RUN(id) PROGRAM_RUN(id)

/* ---- linear algebra ---- */

/* Positive definite, of good condition; NULL where no LAPACK is. */
static situ_tensor *positive_of(situ_tensor *x) {
  if (!test_has_lapack() || situ_dim(x) != 2 || !situ_numel(x) || !situ_device_has(test_device(), SITU_VERB_LINALG))
    return NULL;
  situ_tensor *t = situ_tanh(x);
  return situ_add(situ_matmul(t, situ_transpose(t, 0, 1)),
                  situ_eye(size(x, 0), size(x, 0), &(situ_options){ .dtype = SITU_F64, .device = test_device() }));
}
RUN(run_cholesky) {
  situ_tensor *a = positive_of(in[0]);
  NOTE("of tanh(x) tanh(x)^T + I, %d", c->p[0] % 2);
  return a ? situ_linalg_cholesky(a, c->p[0] % 2) : NULL;
}
RUN(run_inv) {
  situ_tensor *a = positive_of(in[0]);
  NOTE("of tanh(x) tanh(x)^T + I");
  return a ? situ_linalg_inv(a) : NULL;
}
RUN(run_det) {
  situ_tensor *a = positive_of(in[0]), *log_det;
  NOTE("of tanh(x) tanh(x)^T + I, %d", c->p[0] % 2);
  if (!a || c->p[0] % 2) return a ? situ_linalg_det(a) : NULL;
  return situ_linalg_slogdet(a, &log_det) ? log_det : NULL;
}
RUN(run_solve) {
  situ_tensor *a = positive_of(in[0]);
  NOTE("with tanh(x) tanh(x)^T + I, %d", c->p[0] % 4);
  if (!a || c->p[0] % 4 == 3) return a ? situ_linalg_solve(a, in[1], true) : NULL;
  return situ_linalg_solve_triangular(a, in[1], c->p[0] % 4 & 1, true, c->p[0] % 4 & 2);
}
/* Singular values and eigenvalues may meet, where vectors have no gradient: what is unique and smooth. A row of R changes
   its sign where the elements below the diagonal are all 0, which a row of zeros in x must not make them. */
RUN(run_qr) {
  situ_tensor *a = positive_of(in[0]), *r;
  NOTE("of tanh(x) tanh(x)^T + I + 0.05, R");
  return a && (a = situ_add_scalar(a, 0.05)) && situ_linalg_qr(a, SITU_LINALG_QR_REDUCED, &r) ? r : NULL;
}
RUN(run_matrix_exp) {
  situ_tensor *a = positive_of(in[0]);
  NOTE("of -(tanh(x) tanh(x)^T + I)");
  return a ? situ_linalg_matrix_exp(situ_neg(a)) : NULL;
}
RUN(run_lstsq) {
  situ_tensor *a = positive_of(in[0]);
  NOTE("with tanh(x) tanh(x)^T + I, %d", c->p[0] % 2);
  if (!a || c->p[0] % 2) return a ? situ_linalg_lstsq(a, in[1], SITU_NONE, NULL) : NULL;
  return situ_matmul(situ_linalg_pinv(a, NULL), in[1]);
}
RUN(run_lu) {
  situ_tensor *a = positive_of(in[0]), *l, *u;
  NOTE("of tanh(x) tanh(x)^T + I, %d", c->p[0] % 2);
  if (!a || c->p[0] % 2) return a ? situ_linalg_lu_factor(a, NULL) : NULL;
  return situ_linalg_lu(a, &l, &u) ? situ_add(l, u) : NULL;
}
RUN(run_lu_solve) {
  situ_tensor *a = positive_of(in[0]), *pivots, *lu = a ? situ_linalg_lu_factor(a, &pivots) : NULL;
  NOTE("with tanh(x) tanh(x)^T + I, adjoint %d", c->p[0] % 2);
  return lu ? situ_linalg_lu_solve(lu, pivots, in[1], true, c->p[0] % 2) : NULL;
}
RUN(run_tensorsolve) {
  situ_tensor *a = positive_of(in[0]);
  NOTE("with tanh(x) tanh(x)^T + I, column 0 of y");
  return a ? situ_linalg_tensorsolve(a, situ_select(in[1], 1, 0), SITU_DIMS(1)) : NULL;
}
RUN(run_tensorinv) {
  situ_tensor *a = positive_of(in[0]);
  NOTE("of tanh(x) tanh(x)^T + I");
  return (void)c, a ? situ_linalg_tensorinv(a, 1) : NULL;
}
RUN(run_multi_dot) {
  if (situ_dim(in[0]) != 2) return NULL;
  NOTE("x, x^T, y");
  return situ_linalg_multi_dot((situ_tensor *[]){ in[0], situ_transpose(in[0], 0, 1), in[1] }, 3);
}
RUN(run_householder_product) {
  if (situ_dim(in[0]) != 2 || size(in[0], 0) < size(in[0], 1)) return NULL;
  NOTE("tanh(x), row 0 of tanh(y)");
  return situ_linalg_householder_product(situ_tanh(in[0]), situ_tanh(situ_select(in[1], 0, 0)));
}
RUN(run_vander) {
  if (situ_dim(in[0]) > 2) return NULL;
  NOTE("tanh(x), %d", 2 + c->p[0] % 3);
  return situ_dim(in[0]) ? situ_linalg_vander(situ_tanh(in[0]), 2 + c->p[0] % 3) : NULL;
}
RUN(run_inner) { return (void)c, situ_inner(in[0], in[1]); }
RUN(run_linalg_vecdot) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d", dim(in[0], c->p[0]));
  return situ_linalg_vecdot(in[0], in[1], dim(in[0], c->p[0]));
}
/* Of positive elements: where all are 0 a norm has a corner. */
RUN(run_linalg_matrix_norm) {
  if (situ_dim(in[0]) < 2) return NULL;
  NOTE("of x^2 + 1, FRO, {1, 0}, keepdim %d", c->p[0] % 2);
  return situ_linalg_matrix_norm(situ_add_scalar(situ_square(in[0]), 1), SITU_MATRIX_NORM_FRO,
                                 &(situ_reduce_options){ .dim = SITU_DIMS(1, 0), .keepdim = c->p[0] % 2 });
}
/* ---- what lies between rows ---- */

RUN(run_cov) {
  if (situ_dim(in[0]) != 2 || size(in[0], 1) < 2) return NULL;
  NOTE("correction %d", c->p[0] % 2);
  return situ_cov(in[0], c->p[0] % 2);
}
/* Differences that are not 0. */
RUN(run_dist) { return (void)c, situ_dist(situ_square(in[0]), situ_sub_scalar(situ_neg(situ_square(in[1])), 1), 2); }
RUN(run_bilinear) {
  if (situ_dim(in[0]) != 2) return NULL;
  NOTE("x, y, outer product of their first rows");
  situ_tensor *w = situ_outer(situ_select(in[0], 0, 0), situ_select(in[1], 0, 0));
  return w ? situ_bilinear(in[0], in[1], situ_unsqueeze(w, 0), NULL) : NULL;
}
/* relu has a corner. */
RUN(run_linear_activation) {
  if (situ_dim(in[0]) != 2) return NULL;
  const situ_activation smooth = (situ_activation)(SITU_ACTIVATION_GELU_TANH + c->p[0] % 3);
  NOTE("activation %d", (int)smooth);
  return situ_linear_activation(in[0], in[1], NULL, smooth);
}
RUN(run_combinations) {
  NOTE("x in a row, 2, %d", c->p[0] % 2);
  return situ_numel(in[0]) < 7 ? situ_combinations(situ_reshape(in[0], SITU_SHAPE(-1)), 2, c->p[0] % 2) : NULL;
}
RUN(run_mvlgamma) { return (void)c, situ_mvlgamma(situ_add_scalar(situ_square(in[0]), 1), 2); }
RUN(run_special_ndtr) { return (void)c, situ_special_ndtr(in[0]); }

/* ---- Fourier transforms ---- */

RUN(run_rfft) {
  if (!situ_dim(in[0]) || !situ_numel(in[0])) return NULL;
  const int part = c->p[1] % 2;
  NOTE("dim %d, part %d", dim(in[0], c->p[0]), part);
  return situ_select(situ_fft_rfft(in[0], &(situ_fft_options){ .dim = SITU_DIMS(dim(in[0], c->p[0])) }), -1, part);
}
RUN(run_fft) {
  if (!situ_dim(in[0]) || !situ_numel(in[0])) return NULL;
  const int part = c->p[1] % 2;
  NOTE("of both, dim %d, part %d", dim(in[0], c->p[0]), part);
  return situ_select(situ_fft_fft(situ_stack((situ_tensor *[]){ in[0], in[1] }, 2, -1),
                                  &(situ_fft_options){ .dim = SITU_DIMS(dim(in[0], c->p[0])) }),
                     -1, part);
}
RUN(run_irfft) {
  if (!situ_dim(in[0]) || !situ_numel(in[0])) return NULL;
  const int n = 1 + c->p[1] % 4;
  NOTE("of both, dim %d, n %d", dim(in[0], c->p[0]), n);
  return situ_fft_irfft(situ_stack((situ_tensor *[]){ in[0], in[1] }, 2, -1),
                        &(situ_fft_options){ .n = n, .dim = SITU_DIMS(dim(in[0], c->p[0])) });
}
RUN(run_stft) {
  if (situ_numel(in[0]) < 4) return NULL;
  NOTE("reshape(-1), 4 by 2, sum");
  return situ_sum(situ_stft(situ_reshape(in[0], SITU_SHAPE(-1)), NULL, 4, &(situ_stft_options){ .hop_length = 2 }),
                  &(situ_reduce_options){ .dim = SITU_DIMS(1) });
}
/* ---- running sums ---- */

RUN(run_logcumsumexp) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d", dim(in[0], c->p[0]));
  return situ_logcumsumexp(in[0], dim(in[0], c->p[0]));
}
RUN(run_trapezoid) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("in steps of 0.5, %d", dim(in[0], c->p[0]));
  return situ_trapezoid(in[0], NULL, 0.5, dim(in[0], c->p[0]));
}
RUN(run_cumulative_trapezoid) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d", dim(in[0], c->p[0]));
  return situ_cumulative_trapezoid(in[0], in[1], 1, dim(in[0], c->p[0]));
}
