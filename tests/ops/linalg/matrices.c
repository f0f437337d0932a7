/* Norms, products and factorizations of matrices through the API: values, gradients, refusals. tests/golden/ops/linalg/matrices.c
   compares them with PyTorch. Devices without LAPACK let the CPU compute.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "ops/linalg/needs_lapack.h"

/* ---- norms ---- */

static situ_tensor *f_norm(situ_tensor *const *in, void *o) {
  return situ_linalg_matrix_norm(in[0], *(situ_matrix_norm *)o, &(situ_reduce_options){ .dim = SITU_DIMS(2, 0) });
}

static void norms(void **state) {
  (void)state;
  situ_tensor *a = T64(SITU_SHAPE(2, 2), 3, -4, 0, 5);
  const situ_reduce_options keep = { .keepdim = true };
  expect_exact(situ_linalg_matrix_norm(a, SITU_MATRIX_NORM_1, NULL), SITU_SCALAR, 9);
  expect_exact(situ_linalg_matrix_norm(a, SITU_MATRIX_NORM_MINUS_1, &keep), SITU_SHAPE(1, 1), 3);
  expect_exact(situ_linalg_matrix_norm(a, SITU_MATRIX_NORM_INF, NULL), SITU_SCALAR, 7);
  expect_exact(situ_linalg_matrix_norm(a, SITU_MATRIX_NORM_MINUS_INF, NULL), SITU_SCALAR, 5);
  expect_exact(situ_linalg_vector_norm(T32(SITU_SHAPE(2), 3, -4), 1, NULL), SITU_SCALAR, 7);
  situ_matrix_norm order = SITU_MATRIX_NORM_FRO;
  gradcheck(f_norm, &order, LEAF(2, 2, 3));
  order = SITU_MATRIX_NORM_MINUS_1;
  gradcheck(f_norm, &order, LEAF(2, 2, 3));
}

static void norms_of_singular_values(void **state) {
  needs_lapack(state);
  situ_tensor *a = T64(SITU_SHAPE(2, 2), 0, 2, -3, 0);
  expect_close(situ_linalg_matrix_norm(a, SITU_MATRIX_NORM_NUC, NULL), SITU_SCALAR, 0, 1e-15, 5);
  expect_close(situ_linalg_matrix_norm(a, SITU_MATRIX_NORM_2, NULL), SITU_SCALAR, 0, 1e-15, 3);
  expect_close(situ_linalg_matrix_norm(a, SITU_MATRIX_NORM_MINUS_2, NULL), SITU_SCALAR, 0, 1e-15, 2);
  for (situ_matrix_norm order = SITU_MATRIX_NORM_NUC; order <= SITU_MATRIX_NORM_MINUS_2; order++)
    gradcheck(f_norm, &order, LEAF(2, 2, 3));
}

/* ---- LU ---- */

static situ_tensor *f_lu_factor(situ_tensor *const *in, void *o) { return (void)o, situ_linalg_lu_factor(in[0], NULL); }
static situ_tensor *f_lu_solve(situ_tensor *const *in, void *o) {
  const int how = *(int *)o;
  situ_tensor *pivots, *lu = situ_linalg_lu_factor(in[0], &pivots);
  return situ_linalg_lu_solve(lu, pivots, how & 1 ? in[1] : mt(in[1]), how & 1, how & 2);
}

static void factors(void **state) {
  needs_lapack(state);
  for (int shape = 0; shape < 3; shape++) {
    situ_tensor *a = R(3, shape == 1 ? 70 : 50, shape == 2 ? 70 : 50), *l, *u, *p = situ_linalg_lu(a, &l, &u);
    expect_same(situ_matmul(p, situ_matmul(l, u)), a, 0, 1e-12);
    expect_same(l, situ_tril(l, 0), 0, 0);
    expect_same(u, situ_triu(u, 0), 0, 0);
  }
  gradcheck(f_lu_factor, NULL, LEAF(2, 3, 3));
  gradcheck(f_lu_factor, NULL, LEAF(4, 2));
  gradcheck(f_lu_factor, NULL, LEAF(2, 4));
  for (int how = 0; how < 4; how++) gradcheck(f_lu_solve, &how, LEAF(2, 3, 3), LEAF(3, 2));
}

static void lu_refusals(void **state) {
  needs_lapack(state);
  situ_tensor *pivots, *lu = situ_linalg_lu_factor(R(3, 3), &pivots), *b = R(3, 2);
  const char *op = "linalg_lu_solve";
  expect_refused_late(situ_linalg_lu_solve(lu, situ_mul_scalar(pivots, 0), b, true, false), SITU_E_INDEX, "", "-1");
  expect_refused(situ_linalg_lu_solve(lu, situ_narrow(pivots, 0, 0, 2), b, true, false), SITU_E_SHAPE, op,
                 "pivots [2]");
  expect_refused(situ_linalg_lu_solve(lu, pivots, R(2, 2), true, false), SITU_E_SHAPE, op, "[2, 2]");
  expect_refused(situ_linalg_lu_factor(R(3), NULL), SITU_E_SHAPE, "linalg_lu_factor", "[3]");
}

/* ---- products of several, systems of tensors ---- */

static situ_tensor *f_householder(situ_tensor *const *in, void *o) {
  return (void)o, situ_linalg_householder_product(in[0], in[1]);
}
static situ_tensor *f_dot(situ_tensor *const *in, void *o) { return (void)o, situ_linalg_multi_dot(in, 4); }
static situ_tensor *f_vander(situ_tensor *const *in, void *o) { return (void)o, situ_linalg_vander(in[0], 4); }

static void products(void **state) {
  (void)state;
  gradcheck(f_householder, NULL, LEAF(2, 4, 3), LEAF(2, 2));
  gradcheck(f_dot, NULL, LEAF(3), LEAF(3, 4), LEAF(4, 2), LEAF(2));
  gradcheck(f_vander, NULL, LEAF(2, 3));
  situ_tensor *unit = situ_linalg_householder_product(T64(SITU_SHAPE(2, 2), 9, 9, 1, 9), T64(SITU_SHAPE(1), 1));
  expect_exact(unit, SITU_SHAPE(2, 2), 0, -1, -1, 0);
  situ_tensor *a = R(2, 3), *many[65];
  for (int i = 0; i < 65; i++) many[i] = a;
  const char *op = "linalg_multi_dot";
  expect_refused(situ_linalg_multi_dot(many, 2), SITU_E_SHAPE, op, "tensors[1] is [2, 3]");
  expect_refused(situ_linalg_multi_dot(many, 1), SITU_E_ARG, op, "1 tensors");
  expect_refused(situ_linalg_multi_dot(many, 65), SITU_E_ARG, op, "2 to 64");
  expect_refused(situ_linalg_householder_product(a, R(2)), SITU_E_SHAPE, "linalg_householder_product", "[2, 3]");
  expect_refused(situ_linalg_vander(a, 1), SITU_E_ARG, "linalg_vander", "N is 1");
  expect_refused(situ_linalg_tensorsolve(a, R(2), (situ_shape){ 0 }), SITU_E_SHAPE, "linalg_tensorsolve", "[2, 3]");
  expect_refused(situ_linalg_tensorinv(a, 3), SITU_E_ARG, "linalg_tensorinv", "ind is 3");
}

/* ---- refusals ---- */

static void refusals(void **state) {
  (void)state;
  const char *op = "linalg_matrix_norm";
  situ_tensor *a = situ_ones(SITU_SHAPE(2, 2), &(situ_options){ .device = test_device() });
  expect_refused(situ_linalg_matrix_norm(a, (situ_matrix_norm)8, NULL), SITU_E_ARG, op, "8 is not a norm");
  expect_refused(situ_linalg_matrix_norm(situ_select(a, 0, 0), SITU_MATRIX_NORM_FRO, NULL), SITU_E_ARG, op, "of 1");
  expect_refused(situ_linalg_matrix_norm(a, SITU_MATRIX_NORM_1, &(situ_reduce_options){ .dim = SITU_DIMS(1, -1) }),
                 SITU_E_ARG, op, "twice");
  expect_refused(situ_linalg_matrix_norm(a, SITU_MATRIX_NORM_1, &(situ_reduce_options){ .dim = SITU_DIMS(1) }),
                 SITU_E_ARG, op, "1 dimensions");
  expect_refused(situ_linalg_matrix_norm(situ_to_dtype(a, SITU_I64), SITU_MATRIX_NORM_1, NULL), SITU_E_DTYPE, op,
                 "i64");
}

int main(void) {
  const struct CMUnitTest tests[] = { MATRIX_TEST(norms),    MATRIX_TEST(norms_of_singular_values),
                                      MATRIX_TEST(factors),  MATRIX_TEST(lu_refusals),
                                      MATRIX_TEST(products), MATRIX_TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
