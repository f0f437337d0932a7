/* Covariance, distances, combinations, pieces, draws at a rate: values, gradients, refusals. tests/golden/ops/compound.c
   compares them with PyTorch.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "situ/random.h"
#include "situ/sys/alloc.h"
#include "support/test.h"

#define LEAF(...) test_random(SITU_SHAPE(__VA_ARGS__), 0.5, 2, true)

static situ_tensor *f_cov(situ_tensor *const *in, void *o) { return (void)o, situ_cov(in[0], 1); }
static situ_tensor *f_corrcoef(situ_tensor *const *in, void *o) { return (void)o, situ_corrcoef(in[0]); }
static situ_tensor *f_dist(situ_tensor *const *in, void *o) { return situ_dist(in[0], in[1], *(double *)o); }
static situ_tensor *f_pdist(situ_tensor *const *in, void *o) { return situ_pdist(in[0], *(double *)o); }
static situ_tensor *f_bilinear(situ_tensor *const *in, void *o) {
  return (void)o, situ_bilinear(in[0], in[1], in[2], in[3]);
}
static situ_tensor *f_combinations(situ_tensor *const *in, void *o) {
  return (void)o, situ_combinations(in[0], 3, true);
}
static situ_tensor *f_mvlgamma(situ_tensor *const *in, void *o) { return (void)o, situ_mvlgamma(in[0], 2); }
static situ_tensor *f_ndtr(situ_tensor *const *in, void *o) { return (void)o, situ_special_ndtr(in[0]); }
static situ_tensor *f_margin(situ_tensor *const *in, void *o) {
  const int64_t target[] = { 2, 0, -1, 1, 3, -1, 0, 0 };
  return (void)o,
         situ_multilabel_margin_loss(in[0],
                                     situ_from_host(target, sizeof target, SITU_SHAPE(2, 4),
                                                    &(situ_options){ .dtype = SITU_I64, .device = test_device() }),
                                     SITU_REDUCTION_NONE);
}

static void gradients(void **state) {
  (void)state;
  double p = 3;
  gradcheck(f_cov, NULL, LEAF(3, 4));
  gradcheck(f_corrcoef, NULL, LEAF(3, 5));
  gradcheck(f_dist, &p, LEAF(2, 3), LEAF(3));
  gradcheck(f_pdist, &p, LEAF(4, 2));
  gradcheck(f_bilinear, NULL, LEAF(3, 2), LEAF(3, 4), LEAF(2, 2, 4), LEAF(2));
  gradcheck(f_combinations, NULL, LEAF(3));
  gradcheck(f_mvlgamma, NULL, test_random(SITU_SHAPE(2, 3), 1, 3, true));
  gradcheck(f_ndtr, NULL, LEAF(2, 3));
  gradcheck(f_margin, NULL, LEAF(2, 4));
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  situ_tensor *x = TI64(SITU_SHAPE(4), 1, 2, 4, 3); /* which is reshaped, and cast */
  int failed = 0;
  for (uint64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    situ_tensor *y = situ_cov(x, 1);
    situ_fail_allocation(0, false);
    if (y) break;
    failed++;
    expect_error(SITU_E_NOMEM, "", "");
  }
  assert_true(failed > 5);
}

static void pieces(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(5), 1, 2, 3, 4, 5), *out[3];
  assert_int_equal(situ_tensor_split(x, 3, 0, out, 3), 3);
  expect_exact(out[0], SITU_SHAPE(2), 1, 2);
  expect_exact(out[2], SITU_SHAPE(1), 5);
  assert_int_equal(situ_tensor_split(x, 7, 0, NULL, 0), 7);
  assert_int_equal(situ_tensor_split_indices(x, SITU_DIMS(1, -1), 0, out, 3), 3);
  expect_exact(out[1], SITU_SHAPE(3), 2, 3, 4);
  assert_int_equal(situ_tensor_split(x, 0, 0, out, 3), -1);
  expect_error(SITU_E_ARG, "tensor_split", "0 sections");
  assert_int_equal(situ_tensor_split_indices(x, SITU_DIMS(1, 2, 3), 0, out, 3), -1);
  expect_error(SITU_E_ARG, "tensor_split_indices", "4");
  situ_tensor *columns[] = { x, situ_reshape(x, SITU_SHAPE(5, 1)) };
  expect_exact(situ_narrow(situ_column_stack(columns, 2), 0, 0, 1), SITU_SHAPE(1, 2), 1, 1);
  assert_int_equal(situ_broadcast_tensors(columns, 2, out), SITU_OK);
  assert_int_equal(situ_size(out[0], 0), 5);
  columns[1] = T32(SITU_SHAPE(2), 1, 2);
  assert_int_equal(situ_broadcast_tensors(columns, 2, out), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "broadcast_tensors", "[5]");
}

static void equality(void **state) {
  (void)state;
  bool same = false;
  situ_tensor *x = T32(SITU_SHAPE(2), 1, 2);
  assert_int_equal(situ_equal(x, T32(SITU_SHAPE(2), 1, 2), &same), SITU_OK);
  assert_true(same);
  assert_int_equal(situ_equal(x, T32(SITU_SHAPE(2), 1, NAN), &same), SITU_OK);
  assert_false(same);
  same = true;
  assert_int_equal(situ_equal(x, T32(SITU_SHAPE(1, 2), 1, 2), &same), SITU_OK);
  assert_false(same);
}

/* The mean of MANY draws is within 5 deviations of 1 / lambd, the fraction above 1 within 5 of e^-lambd. */
static void draws(void **state) {
  (void)state;
  enum { MANY = 40000 };
  situ_generator g = situ_generator_seeded(3);
  situ_tensor *x = situ_exponential_(situ_empty(SITU_SHAPE(MANY), &(situ_options){ .device = test_device() }), 2, &g);
  double mean = 0, above = 0, least = 0;
  assert_int_equal(situ_item(situ_mean(x, NULL), &mean), SITU_OK);
  assert_int_equal(situ_item(situ_mean(situ_to_dtype(situ_gt_scalar(x, 1), SITU_F32), NULL), &above), SITU_OK);
  assert_int_equal(situ_item(situ_amin(x, NULL), &least), SITU_OK);
  assert_true(least >= 0 && fabs(mean - 0.5) < 5 * 0.5 / 200 && fabs(above - exp(-2)) < 5 * 0.35 / 200);
  expect_refused(situ_exponential_(x, 0, &g), SITU_E_ARG, "exponential_", "lambd is 0");
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4), *row = situ_select(x, 0, 0);
  expect_refused(situ_cov(situ_unsqueeze(x, 0), 1), SITU_E_SHAPE, "cov", "3 dimensions");
  expect_refused(situ_cov(x, NAN), SITU_E_ARG, "cov", "correction");
  expect_refused(situ_pdist(row, 2), SITU_E_SHAPE, "pdist", "1 dimensions");
  expect_refused(situ_pdist(x, -1), SITU_E_ARG, "pdist", "-1");
  expect_refused(situ_combinations(x, 2, false), SITU_E_SHAPE, "combinations", "2 dimensions");
  expect_refused(situ_combinations(row, 0, false), SITU_E_ARG, "combinations", "r is 0");
  expect_refused(situ_bilinear(x, x, x, NULL), SITU_E_SHAPE, "bilinear", "weight [2, 2]");
  expect_refused(situ_mvlgamma(x, 0), SITU_E_ARG, "mvlgamma", "p is 0");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(gradients), TEST(every_allocation_may_fail),
                                      TEST(pieces),    TEST(equality),
                                      TEST(draws),     TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
