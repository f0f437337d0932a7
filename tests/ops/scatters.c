/* Reductions by index, and elements written by a mask: gradients, a long index against plain loops, refusals. Values beside
   PyTorch's are in tests/golden/scatters.c.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

/* ---- gradients ---- */

typedef struct call {
  situ_tensor *index;
  situ_scatter_reduction reduce;
  bool self;
} call;

static situ_tensor *reduce(situ_tensor *const *in, void *payload) {
  const call *c = payload;
  return situ_scatter_reduce(in[0], 0, c->index, in[1], c->reduce, c->self);
}

static void gradients(void **state) {
  (void)state;
  situ_tensor *index = TI64(SITU_SHAPE(6), 2, 0, 2, 2, 0, 3);
  for (int how = SITU_SCATTER_SUM; how <= SITU_SCATTER_AMIN; how++)
    for (int self = 0; self < 2; self++) {
      call c = { index, (situ_scatter_reduction)how, self };
      double x[4] = { 0.7, -1.3, 0.4, 2.1 }, src[6] = { 1.2, -0.8, 0.3, -1.6, 0.9, -0.2 };
      situ_tensor *in = situ_requires_grad_(test_tensor(SITU_F64, SITU_SHAPE(4), x), true);
      gradcheck(reduce, &c, in, situ_requires_grad_(test_tensor(SITU_F64, SITU_SHAPE(6), src), true));
    }
}

/* ---- a long index ---- */

static double fold(situ_scatter_reduction how, double a, double b) {
  return how == SITU_SCATTER_PROD ? a * b : how == SITU_SCATTER_AMAX ? fmax(a, b) : fmin(a, b);
}

static void long_runs(void **state) {
  (void)state;
  enum { N = 1000, PLACES = 7 };
  static double src[N], index[N];
  for (int i = 0; i < N; i++) {
    src[i] = 1 + 0.001 * (double)((i * 37) % 101 - 50);
    index[i] = (i * i) % PLACES;
  }
  situ_tensor *x = situ_ones(SITU_SHAPE(PLACES), &(situ_options){ .dtype = SITU_F64, .device = test_device() });
  for (int how = SITU_SCATTER_PROD; how <= SITU_SCATTER_AMIN; how++) {
    if (how == SITU_SCATTER_MEAN) continue;
    double want[PLACES] = { 1, 1, 1, 1, 1, 1, 1 };
    for (int i = 0; i < N; i++) want[(int)index[i]] = fold((situ_scatter_reduction)how, want[(int)index[i]], src[i]);
    situ_tensor *y = situ_scatter_reduce(x, 0, test_tensor(SITU_I64, SITU_SHAPE(N), index),
                                         test_tensor(SITU_F64, SITU_SHAPE(N), src), (situ_scatter_reduction)how, true);
    double got[PLACES];
    assert_int_equal(situ_copy_to_host(y, got, sizeof got), SITU_OK);
    for (int k = 0; k < PLACES; k++) assert_true(fabs(got[k] - want[k]) <= 1e-12 * fabs(want[k]));
  }
}

/* ---- refusals ---- */

/* At once on the host, on a device when it is waited for. */
static void expect_index(situ_tensor *result) {
  assert_int_equal(result ? situ_synchronize(test_device()) : situ_error(), SITU_E_INDEX);
  situ_error_clear();
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(3), 1, 2, 3), *i = TI64(SITU_SHAPE(2), 0, 2), *two = T32(SITU_SHAPE(2), 4, 5);
  expect_refused(situ_scatter_reduce(x, 0, i, two, (situ_scatter_reduction)9, true), SITU_E_ARG, "scatter_reduce", "9");
  expect_refused(situ_scatter_reduce(x, 1, i, two, SITU_SCATTER_SUM, true), SITU_E_ARG, "scatter_reduce", "1");
  expect_refused(situ_scatter_reduce(x, 0, i, T32(SITU_SHAPE(1), 4), SITU_SCATTER_SUM, true), SITU_E_SHAPE, "", "src");
  expect_refused(situ_index_reduce(x, 0, i, x, SITU_SCATTER_AMAX, true), SITU_E_SHAPE, "index_reduce", "source");
  expect_refused(situ_put(x, i, x, false), SITU_E_SHAPE, "put", "source");
  expect_refused(situ_select_scatter(x, two, 0, 1), SITU_E_SHAPE, "select_scatter", "part");
  expect_refused(situ_slice_scatter(x, x, 0, 0, 2, 1), SITU_E_SHAPE, "slice_scatter", "part");
  situ_tensor *mask = situ_gt_scalar(x, 0), *none = situ_narrow(x, 0, 0, 0);
  expect_refused(situ_masked_scatter(x, mask, none), SITU_E_INDEX, "masked_scatter", "empty");
  expect_index(situ_masked_scatter(x, mask, two));
  assert_null(situ_masked_scatter_(x, mask, two)); /* which loses nothing */
  situ_error_clear();
  assert_null(situ_scatter_reduce_(x, 0, TI64(SITU_SHAPE(2), 0, 3), two, SITU_SCATTER_AMAX, true));
  situ_error_clear();
  expect_exact(x, SITU_SHAPE(3), 1, 2, 3);
  expect_exact(situ_masked_scatter(x, situ_gt_scalar(x, 1), two), SITU_SHAPE(3), 1, 4, 5);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(gradients), TEST(long_runs), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
