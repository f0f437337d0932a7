/* Norms, products and factorizations of matrices through the API: values, gradients, refusals. tests/golden/matrices.c
   compares them with PyTorch. Devices without LAPACK let the CPU compute.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "support/lapack.h"

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
  const struct CMUnitTest tests[] = { MATRIX_TEST(norms), MATRIX_TEST(norms_of_singular_values),
                                      MATRIX_TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
