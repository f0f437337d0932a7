/* QR, singular values, eigenvalues, pseudoinverse, least squares, exponential and powers of matrices through the API.
   tests/golden/ops/linalg/lapack.c compares them with PyTorch.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "ops/linalg/needs_lapack.h"

static situ_tensor *symmetric(situ_tensor *x) { return situ_add(x, mt(x)); }
/* Its columns are orthonormal. */
static void expect_orthonormal(situ_tensor *q) {
  const int64_t n = situ_size(q, -1);
  expect_same(situ_matmul(mt(q), q), situ_expand(eye(n), SITU_SHAPE(situ_size(q, 0), n, n)), 0, 1e-12);
}
static situ_tensor *scaled(situ_tensor *u, situ_tensor *s, situ_tensor *vh) {
  return situ_matmul(situ_mul(u, situ_unsqueeze(s, -2)), vh);
}

/* Factors multiply to what was factored: tall, wide and square, small and in blocks, in any layout. */
static void products(void **state) {
  needs_lapack(state);
  static const int64_t size[][2] = { { 1, 1 }, { 4, 4 }, { 5, 3 }, { 3, 5 }, { 1, 6 }, { 70, 40 }, { 40, 70 } };
  for (size_t k = 0; k < sizeof size / sizeof *size; k++)
    for (int turned = 0; turned < 2; turned++) {
      situ_scope scope;
      situ_scope_begin(&scope);
      const int64_t m = size[k][0], n = size[k][1], least = m < n ? m : n;
      situ_tensor *a = turned ? mt(R(2, n, m)) : R(2, m, n), *r, *s, *vh, *rank;
      for (int mode = 0; mode < 2; mode++) {
        situ_tensor *q = situ_linalg_qr(a, (situ_linalg_qr_mode)mode, &r);
        expect_same(situ_matmul(q, r), a, 0, 1e-12);
        expect_same(r, situ_triu(r, 0), 0, 0);
        expect_orthonormal(q);
        situ_tensor *u = situ_linalg_svd(a, mode, &s, &vh);
        expect_orthonormal(u);
        expect_orthonormal(mt(vh));
        expect_same(scaled(situ_narrow(u, -1, 0, least), s, situ_narrow(vh, -2, 0, least)), a, 0, 1e-12);
      }
      expect_same(situ_linalg_svdvals(a), s, 0, 1e-12);
      situ_tensor *p = situ_linalg_pinv(a, NULL);
      expect_same(situ_matmul(situ_matmul(a, p), a), a, 0, 1e-9);
      situ_tensor *b = R(2, m, 3);
      expect_same(situ_linalg_lstsq(a, b, SITU_NONE, &rank), situ_matmul(p, b), 0, 1e-9);
      expect_exact(rank, SITU_SHAPE(2), (double)least, (double)least);
      expect_exact(situ_linalg_matrix_rank(a, NULL), SITU_SHAPE(2), (double)least, (double)least);
      assert_int_equal(situ_scope_end(&scope), SITU_OK);
    }
}

static void spectra(void **state) {
  needs_lapack(state);
  static const int64_t size[] = { 1, 2, 5, 70 };
  for (int k = 0; k < 4; k++) {
    situ_tensor *x = R(2, size[k], size[k]), *v;
    situ_tensor *a = symmetric(situ_tril(x, 0)), *w = situ_linalg_eigh(situ_tril(a, 0), false, &v);
    expect_same(scaled(v, w, mt(v)), a, 0, 1e-12);
    expect_same(situ_linalg_eigvalsh(situ_triu(a, 0), true), w, 0, 1e-12);
    assert_non_null(situ_linalg_eigh(a, true, NULL));
  }
}

/* LDL of indefinite matrices, with blocks of 1 and of 2: what solves the equations, any layout, broadcast, and with
   pivots in 64 bits. */
static void symmetric_systems(void **state) {
  needs_lapack(state);
  static const int64_t size[] = { 1, 2, 5, 70 };
  for (int k = 0; k < 4; k++) {
    situ_tensor *x = R(2, size[k], size[k]), *a = symmetric(situ_tril(x, -1)), *pivots, *info;
    if (k == 0) a = x;
    situ_tensor *ld = situ_linalg_ldl_factor(k % 2 ? mt(situ_triu(a, 0)) : situ_tril(a, 0), &pivots);
    expect_same(ld, situ_tril(ld, 0), 0, 0);
    situ_tensor *b = R(3, 1, size[k], 2);
    expect_same(situ_matmul(a, situ_linalg_ldl_solve(ld, pivots, b)), situ_expand(b, SITU_SHAPE(3, 2, size[k], 2)), 0,
                1e-9);
    situ_tensor *wide = situ_to_dtype(pivots, SITU_I64), *flat = mt(situ_contiguous(mt(b)));
    expect_same(situ_linalg_ldl_solve(situ_contiguous(ld), wide, flat), situ_linalg_ldl_solve(ld, pivots, b), 0, 0);
    expect_same(situ_linalg_ldl_factor_ex(a, true, NULL, &info), ld, 0, 0);
    expect_exact(info, SITU_SHAPE(2), 0, 0);
  }
  situ_tensor *pair, *zero = T64(SITU_SHAPE(2, 2), 0, 9, 2, 0), *ld = situ_linalg_ldl_factor(zero, &pair), *info;
  expect_exact(ld, SITU_SHAPE(2, 2), 0, 0, 2, 0);
  expect_exact(pair, SITU_SHAPE(2), -2, -2);
  assert_non_null(situ_linalg_ldl_factor_ex(situ_mul_scalar(zero, 0), false, &pair, &info));
  expect_exact(pair, SITU_SHAPE(2), 1, 2);
  expect_exact(info, SITU_SCALAR, 1);
}

/* By eigenvalues, of the lower triangle: as by singular values. */
static void hermitian(void **state) {
  needs_lapack(state);
  const situ_linalg_tolerance by_eigenvalues = OPTIONS_OF(situ_linalg_tolerance, with.hermitian = true),
                              coarse = OPTIONS_OF(situ_linalg_tolerance, with.rtol = 0.5),
                              coarse_eigenvalues =
                                  OPTIONS_OF(situ_linalg_tolerance, with.rtol = 0.5, with.hermitian = true);
  situ_tensor *a = symmetric(situ_tril(R(2, 5, 5), 0)), *lower = situ_tril(a, 0);
  expect_same(situ_linalg_pinv(lower, &by_eigenvalues), situ_linalg_pinv(a, NULL), 0, 1e-9);
  expect_same(situ_linalg_pinv(lower, &coarse_eigenvalues), situ_linalg_pinv(a, &coarse), 0, 1e-9);
  expect_same(situ_linalg_matrix_rank(lower, &coarse_eigenvalues), situ_linalg_matrix_rank(a, &coarse), 0, 0);
  expect_exact(situ_linalg_matrix_rank(T64(SITU_SHAPE(2, 2), 0, 9, 0, -3), &by_eigenvalues), SITU_SCALAR, 1);
}

static void functions(void **state) {
  needs_lapack(state);
  situ_tensor *a = T64(SITU_SHAPE(2, 2), 1, 1, 0, 1), *far_ = T64(SITU_SHAPE(2, 2), 0, 40, -40, 0);
  expect_close(situ_linalg_matrix_exp(a), SITU_SHAPE(2, 2), 1e-15, 1e-15, exp(1), exp(1), 0, exp(1));
  expect_close(situ_linalg_matrix_exp(far_), SITU_SHAPE(2, 2), 1e-12, 1e-12, cos(40), sin(40), -sin(40), cos(40));
  expect_exact(situ_linalg_matrix_power(a, 5), SITU_SHAPE(2, 2), 1, 5, 0, 1);
  expect_exact(situ_linalg_matrix_power(a, 0), SITU_SHAPE(2, 2), 1, 0, 0, 1);
  expect_close(situ_linalg_matrix_power(a, -3), SITU_SHAPE(2, 2), 0, 1e-15, 1, -3, 0, 1);
  situ_tensor *x = R(3, 3), *p = situ_add(situ_matmul(x, mt(x)), eye(3)), *b = R(3, 2);
  for (int upper = 0; upper < 2; upper++) {
    situ_tensor *l = situ_linalg_cholesky(p, upper);
    expect_same(situ_matmul(p, situ_cholesky_solve(b, l, upper)), b, 0, 1e-12);
    expect_same(situ_matmul(p, situ_cholesky_inverse(l, upper)), eye(3), 0, 1e-12);
  }
  expect_close(situ_logdet(T64(SITU_SHAPE(2, 1, 1), 2, -2)), SITU_SHAPE(2), 1e-15, 0, log(2), NAN);
}

/* ---- gradients: of what does not depend on the vectors' signs ---- */

static situ_tensor *f_qr(situ_tensor *const *in, void *o) {
  situ_tensor *r, *q = situ_linalg_qr(in[0], *(situ_linalg_qr_mode *)o, &r);
  return situ_add(situ_matmul(q, situ_cos(r)), situ_matmul(situ_sin(q), r));
}
static situ_tensor *f_svd(situ_tensor *const *in, void *o) {
  situ_tensor *s, *vh, *u = situ_linalg_svd(in[0], *(bool *)o, &s, &vh);
  const int64_t k = situ_size(s, -1);
  u = situ_narrow(u, -1, 0, k), vh = situ_narrow(vh, -2, 0, k);
  situ_tensor *left = scaled(situ_square(u), situ_sin(s), situ_square(vh)), *cross = scaled(u, situ_exp(s), vh);
  return situ_add(left, cross);
}
static situ_tensor *f_values(situ_tensor *const *in, void *o) { return (void)o, situ_linalg_svdvals(in[0]); }
static situ_tensor *f_eigh(situ_tensor *const *in, void *o) {
  situ_tensor *v, *w = situ_linalg_eigh(symmetric(in[0]), *(bool *)o, &v);
  return scaled(situ_square(v), situ_sin(w), mt(situ_square(v)));
}
static situ_tensor *f_eigvalsh(situ_tensor *const *in, void *o) {
  return situ_linalg_eigvalsh(symmetric(in[0]), *(bool *)o);
}
static situ_tensor *f_pinv(situ_tensor *const *in, void *o) { return (void)o, situ_linalg_pinv(in[0], NULL); }
static situ_tensor *f_pinv_hermitian(situ_tensor *const *in, void *o) {
  return (void)o, situ_linalg_pinv(symmetric(in[0]), OPTIONS_AT(situ_linalg_tolerance, with.hermitian = true));
}
/* Of rank 2. */
static situ_tensor *f_singular(situ_tensor *const *in, void *o) {
  return (void)o, situ_linalg_pinv(situ_matmul(in[0], in[1]), OPTIONS_AT(situ_linalg_tolerance, with.rtol = 1e-6));
}
static situ_tensor *f_lstsq(situ_tensor *const *in, void *o) {
  return (void)o, situ_linalg_lstsq(in[0], in[1], SITU_NONE, NULL);
}
static situ_tensor *f_exp(situ_tensor *const *in, void *o) { return (void)o, situ_linalg_matrix_exp(in[0]); }
static situ_tensor *f_power(situ_tensor *const *in, void *o) { return situ_linalg_matrix_power(in[0], *(int *)o); }
static situ_tensor *f_logdet(situ_tensor *const *in, void *o) {
  return (void)o, situ_logdet(situ_matmul(in[0], mt(in[0])));
}

static situ_tensor *f_cholesky_solve(situ_tensor *const *in, void *o) {
  return situ_cholesky_solve(in[0], situ_add(in[1], in[2]), *(bool *)o);
}
static situ_tensor *f_cholesky_inverse(situ_tensor *const *in, void *o) {
  return situ_cholesky_inverse(situ_add(in[0], in[1]), *(bool *)o);
}

static void gradients(void **state) {
  needs_lapack(state);
  for (int k = 0; k < 2; k++) {
    bool flag = k;
    situ_linalg_qr_mode mode = k ? SITU_LINALG_QR_COMPLETE : SITU_LINALG_QR_REDUCED;
    gradcheck(f_qr, &mode, LEAF(2, 3, 3));
    gradcheck(f_qr, &mode, LEAF(2, 4));
    if (!k) gradcheck(f_qr, &mode, LEAF(4, 2));
    gradcheck(f_svd, &flag, LEAF(2, 3, 3));
    gradcheck(f_svd, &flag, LEAF(2, 4));
    gradcheck(f_svd, &flag, LEAF(4, 2));
    gradcheck(f_eigh, &flag, LEAF(2, 3, 3));
    gradcheck(f_eigvalsh, &flag, LEAF(3, 3));
    gradcheck(f_cholesky_solve, &flag, LEAF(3, 2), LEAF(2, 3, 3), situ_mul_scalar(eye(3), 2));
    gradcheck(f_cholesky_inverse, &flag, LEAF(3, 3), situ_mul_scalar(eye(3), 2));
  }
  gradcheck(f_values, NULL, LEAF(2, 3, 4));
  gradcheck(f_pinv, NULL, LEAF(2, 3, 4));
  gradcheck(f_pinv, NULL, LEAF(4, 2));
  gradcheck(f_pinv_hermitian, NULL, LEAF(2, 3, 3));
  gradcheck(f_singular, NULL, LEAF(4, 2), LEAF(2, 3));
  gradcheck(f_lstsq, NULL, LEAF(2, 4, 3), LEAF(2, 4, 2));
  gradcheck(f_lstsq, NULL, LEAF(2, 3), LEAF(2));
  gradcheck(f_exp, NULL, LEAF(2, 3, 3));
  for (int n = -2; n < 4; n++)
    if (n) gradcheck(f_power, &n, LEAF(2, 3, 3));
  gradcheck(f_logdet, NULL, LEAF(3, 3));
}

static void refusals(void **state) {
  needs_lapack(state);
  situ_tensor *nan = T64(SITU_SHAPE(2, 2), 1, 2, NAN, 4), *also;
  expect_refused_late(situ_linalg_svd(nan, true, NULL, NULL), SITU_E_ARG, "linalg_svd", "the matrix has NaN");
  expect_refused_late(situ_linalg_eigvalsh(nan, false), SITU_E_ARG, "", "the matrix has NaN");
  expect_refused_late(situ_linalg_lstsq(nan, R(2, 1), SITU_NONE, NULL), SITU_E_ARG, "linalg_lstsq",
                      "the matrix has NaN");
  expect_refused(situ_linalg_qr(R(2, 2), (situ_linalg_qr_mode)7, &also), SITU_E_ARG, "linalg_qr", "7 is not a mode");
  assert_null(also);
  expect_refused(situ_linalg_pinv(R(2, 2), OPTIONS_AT(situ_linalg_tolerance, with.atol = -1)), SITU_E_ARG,
                 "linalg_pinv", "neither may be negative");
  expect_refused(situ_linalg_pinv(R(2, 3), OPTIONS_AT(situ_linalg_tolerance, with.hermitian = true)), SITU_E_SHAPE,
                 "linalg_pinv", "must be square");
  expect_refused_late(situ_linalg_ldl_factor(situ_mul_scalar(eye(2), 0), NULL), SITU_E_ARG, "linalg_ldl_factor",
                      "element 1 of D's diagonal is 0");
  expect_refused(situ_linalg_ldl_factor(R(2, 3), NULL), SITU_E_SHAPE, "linalg_ldl_factor", "must be square");
  expect_refused(situ_linalg_ldl_factor(LEAF(2, 2), NULL), SITU_E_UNSUPPORTED, "linalg_ldl_factor", "");
  static const int64_t wrong[][2] = { { 0, 1 }, { 1, 3 }, { -1, -2 }, { 1, -2 }, { -3, -3 } };
  for (int k = 0; k < 5; k++)
    expect_refused_late(
        situ_linalg_ldl_solve(eye(2), TI64(SITU_SHAPE(2), (double)wrong[k][0], (double)wrong[k][1]), eye(2)),
        SITU_E_INDEX, "linalg_ldl_solve", "is not a pivot");
  expect_refused(situ_linalg_ldl_solve(eye(2), TI64(SITU_SHAPE(1), 1), eye(2)), SITU_E_SHAPE, "linalg_ldl_solve",
                 "pivots [1]");
  expect_refused(situ_linalg_lstsq(R(3, 2), R(2, 1), SITU_NONE, NULL), SITU_E_SHAPE, "linalg_lstsq",
                 "same number of rows");
  expect_refused(situ_linalg_lstsq(R(3, 2), R(3, 1), NAN, NULL), SITU_E_ARG, "linalg_lstsq", "rcond is nan");
  expect_refused(situ_linalg_matrix_power(R(3, 2), 2), SITU_E_SHAPE, "linalg_matrix_power", "must be square");
  expect_refused(situ_linalg_eigh(R(3, 2), false, &also), SITU_E_SHAPE, "linalg_eigh", "must be square");
  situ_tensor *r, *q = situ_linalg_qr(LEAF(3, 2), SITU_LINALG_QR_COMPLETE, &r);
  assert_int_not_equal(situ_backward(situ_sum(q, NULL), NULL), SITU_OK);
  expect_error(SITU_E_UNSUPPORTED, "", "use SITU_LINALG_QR_REDUCED");
}

int main(void) {
  const struct CMUnitTest tests[] = { MATRIX_TEST(products),          MATRIX_TEST(spectra),   MATRIX_TEST(functions),
                                      MATRIX_TEST(symmetric_systems), MATRIX_TEST(hermitian), MATRIX_TEST(gradients),
                                      MATRIX_TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
