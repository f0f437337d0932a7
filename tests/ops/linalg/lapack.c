/* Linear algebra through the API: values, gradients, batches, layouts, refusals. tests/golden/ops/linalg/lapack.c compares it with
   PyTorch. Devices without LAPACK let the CPU compute.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "ops/linalg/needs_lapack.h"

/* Positive definite, and not badly conditioned. */
static situ_tensor *positive(situ_tensor *x) { return situ_add(situ_matmul(x, mt(x)), eye(situ_size(x, -1))); }
static situ_tensor *regular(situ_tensor *x) { return situ_add(x, situ_mul_scalar(eye(situ_size(x, -1)), 2)); }

static void without(void **state) {
  (void)state;
  if (test_has_lapack()) skip();
  expect_refused(situ_linalg_inv(eye(2)), SITU_E_UNSUPPORTED, "linalg_inv", "libopenblas0-serial");
}

static void values(void **state) {
  needs_lapack(state);
  situ_tensor *a = T64(SITU_SHAPE(2, 2), 4, 2, 2, 5);
  expect_close(situ_linalg_cholesky(a, false), SITU_SHAPE(2, 2), 0, 1e-15, 2, 0, 1, 2);
  expect_close(situ_linalg_cholesky(a, true), SITU_SHAPE(2, 2), 0, 1e-15, 2, 1, 0, 2);
  expect_close(situ_linalg_solve(a, T64(SITU_SHAPE(2), 8, 12), true), SITU_SHAPE(2), 0, 1e-15, 1, 2);
  expect_close(situ_linalg_inv(T64(SITU_SHAPE(2, 2), 0, 2, 4, 0)), SITU_SHAPE(2, 2), 0, 1e-15, 0, 0.25, 0.5, 0);
  expect_close(situ_linalg_det(T64(SITU_SHAPE(2, 2), 1, 2, 3, 4)), SITU_SCALAR, 0, 1e-15, -2);
  situ_tensor *log_det, *sign = situ_linalg_slogdet(T32(SITU_SHAPE(2, 2), 0, 2, 3, 0), &log_det);
  expect_values(sign, SITU_SCALAR, -1);
  expect_values(log_det, SITU_SCALAR, log(6));
  /* Only one triangle is read. */
  situ_tensor *upper = T64(SITU_SHAPE(2, 2), 2, 4, 99, 8), *b = T64(SITU_SHAPE(2, 1), 10, 8);
  expect_close(situ_linalg_solve_triangular(upper, b, true, true, false), SITU_SHAPE(2, 1), 0, 1e-15, 3, 1);
  expect_close(situ_linalg_solve_triangular(upper, b, true, true, true), SITU_SHAPE(2, 1), 0, 1e-15, -22, 8);
  expect_close(situ_linalg_solve_triangular(mt(upper), b, false, true, false), SITU_SHAPE(2, 1), 0, 1e-15, 5, -1.5);
  situ_linalg_slogdet(a, NULL);
}

/* What comes out solves the equations that went in, of sizes that LAPACK takes whole and in blocks, and in any layout. */
static void equations(void **state) {
  needs_lapack(state);
  static const int64_t size[] = { 1, 2, 3, 5, 17, 70, 150 };
  for (size_t s = 0; s < sizeof size / sizeof *size; s++) {
    const int64_t n = size[s];
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_tensor *a = regular(situ_mul_scalar(R(3, n, n), 1 / sqrt((double)n)));
    situ_tensor *layout[] = { a, situ_contiguous(mt(a)), situ_slice(situ_repeat(a, SITU_SHAPE(1, 1, 2)), 2, 0, n, 1) };
    layout[1] = mt(layout[1]);
    situ_tensor *b = R(3, n, 4), *row = mt(b), *p = positive(a);
    for (int k = 0; k < 3; k++) {
      a = layout[k];
      expect_same(situ_matmul(a, situ_linalg_solve(a, b, true)), b, 0, 1e-9);
      expect_same(situ_matmul(situ_linalg_solve(a, row, false), a), row, 0, 1e-9);
      expect_same(situ_matmul(a, situ_linalg_inv(a)), situ_expand(eye(n), SITU_SHAPE(3, n, n)), 0, 1e-9);
      for (int how = 0; how < 8; how++) {
        const bool upper = how & 1, left = how & 2, unit = how & 4;
        situ_tensor *t = upper ? situ_triu(a, unit) : situ_tril(a, -(int64_t)unit), *right = left ? b : row;
        if (unit) t = situ_add(t, eye(n));
        situ_tensor *x = situ_linalg_solve_triangular(a, right, upper, left, unit);
        expect_same(left ? situ_matmul(t, x) : situ_matmul(x, t), right, 0, n < 20 ? 1e-9 : 1);
      }
      situ_tensor *l = situ_linalg_cholesky(p, k == 1);
      expect_same(k == 1 ? situ_matmul(mt(l), l) : situ_matmul(l, mt(l)), p, 0, 1e-9);
      expect_same(l, k == 1 ? situ_triu(l, 0) : situ_tril(l, 0), 0, 0);
      situ_tensor *log_det, *sign = situ_linalg_slogdet(a, &log_det);
      expect_same(situ_mul(sign, situ_exp(log_det)), situ_linalg_det(a), 1e-9, 1e-9);
      p = mt(p);
    }
    assert_int_equal(situ_scope_end(&scope), SITU_OK);
  }
}

static void batches(void **state) {
  needs_lapack(state);
  situ_tensor *a = regular(R(2, 1, 3, 3)), *b = R(5, 3, 2);
  situ_tensor *x = situ_linalg_solve(a, b, true);
  expect_same(situ_matmul(a, x), situ_expand(b, SITU_SHAPE(2, 5, 3, 2)), 0, 1e-12);
  x = situ_linalg_solve_triangular(a, b, true, true, false);
  expect_same(situ_matmul(situ_triu(a, 0), x), situ_expand(b, SITU_SHAPE(2, 5, 3, 2)), 0, 1e-12);
  /* Vectors: one, or one for each matrix. */
  situ_tensor *v = situ_linalg_solve(situ_select(a, 1, 0), R(2, 3), true);
  assert_int_equal(situ_dim(v), 2);
  assert_int_equal(situ_dim(situ_linalg_solve(a, R(3), true)), 3);
  /* Nothing to do, and determinants of nothing. */
  const situ_options here = { .dtype = SITU_F64, .device = test_device() };
  expect_exact(situ_linalg_det(situ_zeros(SITU_SHAPE(2, 0, 0), &here)), SITU_SHAPE(2), 1, 1);
  assert_int_equal(situ_numel(situ_linalg_inv(situ_zeros(SITU_SHAPE(0, 3, 3), &here))), 0);
  assert_int_equal(situ_numel(situ_linalg_solve(eye(3), situ_zeros(SITU_SHAPE(3, 0), &here), true)), 0);
}

static situ_tensor *f_cholesky(situ_tensor *const *in, void *o) {
  return (void)o, situ_linalg_cholesky(positive(in[0]), false);
}
static situ_tensor *f_upper(situ_tensor *const *in, void *o) {
  return (void)o, situ_linalg_cholesky(positive(in[0]), true);
}
static situ_tensor *f_solve(situ_tensor *const *in, void *o) {
  return (void)o, situ_linalg_solve(situ_add(in[0], in[2]), in[1], true);
}
static situ_tensor *f_left(situ_tensor *const *in, void *o) {
  return (void)o, situ_linalg_solve(situ_add(in[0], in[2]), mt(in[1]), false);
}
static situ_tensor *f_triangular(situ_tensor *const *in, void *o) {
  const int how = *(int *)o;
  situ_tensor *b = how & 2 ? in[1] : mt(in[1]);
  return situ_linalg_solve_triangular(situ_add(in[0], in[2]), b, how & 1, how & 2, how & 4);
}
static situ_tensor *f_inv(situ_tensor *const *in, void *o) { return (void)o, situ_linalg_inv(situ_add(in[0], in[1])); }
static situ_tensor *f_det(situ_tensor *const *in, void *o) { return (void)o, situ_linalg_det(in[0]); }
static situ_tensor *f_log_det(situ_tensor *const *in, void *o) {
  situ_tensor *log_det, *sign = situ_linalg_slogdet(in[0], &log_det);
  return (void)o, situ_add(log_det, situ_mul_scalar(sign, 3));
}

/* However a batch is divided among threads: a LAPACK that is not for several threads gets one at a time. */
static void batches_have_the_same_bits(void **state) {
  needs_lapack(state);
  enum { COUNT = 8000, ROUNDS = 20 };
  static float first[COUNT * 2 * 7], again[COUNT * 2 * 7];
  situ_tensor *a = situ_to_dtype(regular(R(COUNT, 2, 2)), SITU_F32), *b = situ_to_dtype(R(COUNT, 2, 7), SITU_F32);
  for (int k = 0; k < ROUNDS; k++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *y = situ_linalg_solve_triangular(a, b, true, true, false);
    assert_int_equal(situ_copy_to_host(situ_contiguous(y), k ? again : first, sizeof first), SITU_OK);
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    if (k) assert_memory_equal(again, first, sizeof first);
  }
}

static void gradients(void **state) {
  needs_lapack(state);
  situ_tensor *twice = situ_mul_scalar(eye(3), 2);
  gradcheck(f_cholesky, NULL, LEAF(2, 3, 3));
  gradcheck(f_upper, NULL, LEAF(3, 3));
  gradcheck(f_solve, NULL, LEAF(2, 3, 3), LEAF(3, 2), twice);
  gradcheck(f_solve, NULL, LEAF(3, 3), LEAF(3), twice);
  gradcheck(f_left, NULL, LEAF(2, 3, 3), LEAF(2, 3, 2), twice);
  for (int how = 0; how < 8; how++) gradcheck(f_triangular, &how, LEAF(3, 3), LEAF(2, 3, 2), twice);
  gradcheck(f_inv, NULL, LEAF(2, 3, 3), twice);
  gradcheck(f_det, NULL, LEAF(2, 3, 3));
  gradcheck(f_det, NULL, LEAF(1, 1));
  gradcheck(f_log_det, NULL, LEAF(2, 3, 3));
  gradcheck(f_det, NULL, situ_requires_grad_(T64(SITU_SHAPE(2, 2), 1, 2, 2, 4), true)); /* singular: its cofactors */
  gradcheck(f_det, NULL, situ_requires_grad_(T64(SITU_SHAPE(3, 3), 0, 1, 2, 0, 2, 1, 0, 3, 5), true));
}

static void refusals(void **state) {
  needs_lapack(state);
  situ_tensor *three = situ_stack((situ_tensor *[]){ eye(2), eye(2), T64(SITU_SHAPE(2, 2), 1, 2, 2, 4) }, 3, 0);
  expect_refused_late(situ_linalg_solve(three, R(2, 1), true), SITU_E_ARG, "linalg_solve",
                      "(matrix 2 of the batch) the matrix is singular: element 2 of U's diagonal is 0");
  expect_refused_late(situ_linalg_inv(situ_select(three, 0, 2)), SITU_E_ARG, "linalg_inv", "the matrix is singular");
  expect_refused_late(situ_linalg_cholesky(three, false), SITU_E_ARG, "linalg_cholesky",
                      "(matrix 2 of the batch) input is not positive definite: its leading minor of order 2");
  expect_refused(situ_linalg_inv(R(2, 3)), SITU_E_SHAPE, "linalg_inv", "A is [2, 3]: its matrices must be square");
  expect_refused(situ_linalg_det(R(3)), SITU_E_SHAPE, "linalg_det", "A is [3]: matrices are the last two");
  expect_refused(situ_linalg_solve(eye(2), R(3, 1), true), SITU_E_SHAPE, "linalg_solve",
                 "A is [2, 2] and B [3, 1]: they need the same number of rows");
  expect_refused(situ_linalg_solve(eye(2), R(2), false), SITU_E_ARG, "linalg_solve", "B is vectors");
  expect_refused(situ_linalg_solve_triangular(eye(2), R(2), true, true, false), SITU_E_SHAPE, "linalg_solve_triangular",
                 "B is [2]: matrices are the last two");
  expect_refused(situ_linalg_cholesky(situ_to_dtype(eye(2), SITU_F16), false), SITU_E_DTYPE, "linalg_cholesky",
                 "input is f16: LAPACK computes in f32 and f64; cast it first");
  expect_refused(situ_linalg_solve(eye(2), situ_to_dtype(eye(2), SITU_F32), true), SITU_E_DTYPE, "linalg_solve", "");
  expect_refused(situ_linalg_slogdet(NULL, NULL), SITU_E_ARG, "linalg_slogdet", "A");
}

/* A device without LAPACK: refused unless the policy lets copies go both ways. */
static void round_trips(void **state) {
  needs_lapack(state);
  if (test_device().kind == SITU_CPU || test_device().kind == SITU_SIM) skip();
  situ_tensor *a = eye(2);
  assert_true(situ_device_equal(situ_device_of(situ_linalg_inv(a)), test_device()));
  situ_setting before;
  situ_policy_begin(&before, (situ_policy){ .device_to_host = SITU_POLICY_COPY });
  expect_refused(situ_linalg_inv(a), SITU_E_UNSUPPORTED, "linalg_inv", "has no LAPACK, but the cpu has");
  situ_policy_end(&before);
}

int main(void) {
  const struct CMUnitTest tests[] = { MATRIX_TEST(without),
                                      MATRIX_TEST(values),
                                      MATRIX_TEST(equations),
                                      MATRIX_TEST(batches),
                                      MATRIX_TEST(batches_have_the_same_bits),
                                      MATRIX_TEST(gradients),
                                      MATRIX_TEST(refusals),
                                      MATRIX_TEST(round_trips) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
