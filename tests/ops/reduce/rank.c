/* Ranks, statistics, searching and counting: indices, gradients, refusals. Values: tests/golden/ops/reduce/statistics.c.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "support/test.h"

#define G(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static void places(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 4), 3, 1, 3, 2, 0, 5, 5, -1), *at = NULL;
  expect_exact(situ_kthvalue(x, 3, 1, false, &at), SITU_SHAPE(2), 3, 5);
  expect_exact(at, SITU_SHAPE(2), 0, 1);
  expect_exact(situ_median_dim(x, -1, true, &at), SITU_SHAPE(2, 1), 2, 0);
  expect_exact(at, SITU_SHAPE(2, 1), 3, 0);
  expect_exact(situ_mode(x, 1, false, &at), SITU_SHAPE(2), 3, 5);
  expect_exact(situ_gather(x, 1, situ_unsqueeze(at, 1)), SITU_SHAPE(2, 1), 3, 5);
  expect_exact(situ_cummax(x, 1, &at), SITU_SHAPE(2, 4), 3, 3, 3, 3, 0, 5, 5, 5);
  expect_exact(at, SITU_SHAPE(2, 4), 0, 0, 2, 2, 0, 1, 2, 2);
  expect_exact(situ_cummin(T32(SITU_SCALAR, 4), 0, &at), SITU_SCALAR, 4);
  expect_exact(at, SITU_SCALAR, 0);
  situ_tensor *holes = T32(SITU_SHAPE(4), 2, NAN, 1, NAN);
  expect_exact(situ_median_dim(holes, 0, false, &at), SITU_SCALAR, NAN);
  expect_exact(at, SITU_SCALAR, 1);
  expect_exact(situ_nanmedian_dim(holes, 0, false, &at), SITU_SCALAR, 1);
  expect_exact(at, SITU_SCALAR, 2);
}

static void counting(void **state) {
  (void)state;
  situ_tensor *inverse = NULL, *counts = NULL, *most = NULL;
  expect_exact(situ_unique(T32(SITU_SHAPE(2, 2), 3, 1, 3, 2), &inverse, &counts), SITU_SHAPE(3), 1, 2, 3);
  expect_exact(inverse, SITU_SHAPE(2, 2), 2, 0, 2, 1);
  expect_exact(counts, SITU_SHAPE(3), 1, 1, 2);
  expect_exact(situ_bincount(TI64(SITU_SHAPE(3), 2, 0, 2), NULL, 0), SITU_SHAPE(3), 1, 0, 2);
  expect_exact(situ_aminmax(T32(SITU_SHAPE(3), 2, -1, 4), NULL, &most), SITU_SCALAR, -1);
  expect_exact(most, SITU_SCALAR, 4);
  expect_exact(situ_isin(TI64(SITU_SHAPE(3), 1, 2, 3), TI64(SITU_SHAPE(2), 3, 1), false), SITU_SHAPE(3), 1, 0, 1);
}

static situ_tensor *do_kth(situ_tensor *const *in, void *p) { return (void)p, situ_kthvalue(in[0], 2, 1, false, NULL); }
static situ_tensor *do_median(situ_tensor *const *in, void *p) { return (void)p, situ_median(in[0]); }
static situ_tensor *do_cummax(situ_tensor *const *in, void *p) { return (void)p, situ_cummax(in[0], 1, NULL); }
static situ_tensor *do_cummin(situ_tensor *const *in, void *p) { return (void)p, situ_cummin(in[0], 0, NULL); }
static situ_tensor *do_quantile(situ_tensor *const *in, void *p) {
  return (void)p, situ_quantile(in[0], 0.3, &(situ_reduce_options){ .dim = SITU_DIMS(1) }, SITU_QUANTILE_LINEAR);
}
static situ_tensor *do_nanmean(situ_tensor *const *in, void *p) { return (void)p, situ_nanmean(in[0], NULL); }
static situ_tensor *do_diff(situ_tensor *const *in, void *p) { return (void)p, situ_diff(in[0], 2, 1); }
static situ_tensor *do_cdist(situ_tensor *const *in, void *p) { return (void)p, situ_cdist(in[0], in[1], 2); }
static situ_tensor *do_renorm(situ_tensor *const *in, void *p) { return (void)p, situ_renorm(in[0], 2, 0, 0.5); }

static void gradients(void **state) {
  (void)state;
  static const test_function all[] = { do_kth,      do_median,  do_cummax, do_cummin,
                                       do_quantile, do_nanmean, do_diff,   do_renorm };
  for (size_t f = 0; f < sizeof all / sizeof *all; f++) gradcheck(all[f], NULL, G(3, 4));
  gradcheck(do_cdist, NULL, G(3, 2), G(4, 2));
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4), *none = situ_narrow(x, 0, 0, 0);
  expect_refused(situ_kthvalue(x, 3, 1, false, NULL), SITU_E_ARG, "kthvalue", "1..2");
  expect_refused(situ_median(none), SITU_E_ARG, "median", "no elements");
  expect_refused(situ_mode(none, 0, false, NULL), SITU_E_ARG, "mode", "no elements");
  expect_refused(situ_quantile(x, 1.5, NULL, SITU_QUANTILE_LINEAR), SITU_E_ARG, "quantile", "1.5");
  expect_refused(situ_quantile(TI64(SITU_SHAPE(1), 1), 0, NULL, SITU_QUANTILE_LINEAR), SITU_E_DTYPE, "quantile",
                 "input");
  assert_non_null(situ_fill_(situ_diff(x, 0, 0), 7)); /* a copy, as in torch */
  expect_exact(x, SITU_SHAPE(2, 2), 1, 2, 3, 4);
  expect_refused(situ_diff(T32(SITU_SCALAR, 1), 1, 0), SITU_E_ARG, "diff", "0-dim");
  expect_refused(situ_cdist(x, T32(SITU_SHAPE(2), 1, 2), 2), SITU_E_SHAPE, "cdist", "x2 1");
  expect_refused(situ_renorm(x, 0, 0, 1), SITU_E_ARG, "renorm", "p 0");
  expect_refused(situ_searchsorted(x, T32(SITU_SHAPE(3), 1, 2, 3), false), SITU_E_SHAPE, "searchsorted", "[3]");
  expect_refused(situ_searchsorted(x, TI64(SITU_SHAPE(2, 1), 1, 2), false), SITU_E_DTYPE, "searchsorted", "values");
  expect_refused(situ_bucketize(x, x, false), SITU_E_SHAPE, "bucketize", "boundaries");
  expect_refused(situ_bincount(TI64(SITU_SHAPE(2), 1, -1), NULL, 0), SITU_E_INDEX, "bincount", "-1");
  expect_refused(situ_bincount(x, NULL, 0), SITU_E_DTYPE, "bincount", "f32");
  expect_refused(situ_histc(x, 0, 0, 1), SITU_E_ARG, "histc", "bins");
  expect_refused(situ_histc(x, 3, 2, 1), SITU_E_ARG, "histc", "range");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(places), TEST(counting), TEST(gradients), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
