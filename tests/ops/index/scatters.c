/* Reductions by index, and elements written by a mask: gradients, a long index against plain loops, refusals. Values beside
   PyTorch's are in tests/golden/ops/index/scatters.c.
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

/* ---- shapes: what PyTorch 2.15 takes of 0-dim tensors and of one dimension ---- */

enum { LINE = 4 };
typedef struct shapes {
  int x, index, src; /* dimensions: 0 or 1 */
  int64_t n, m;      /* elements of index and of src */
} shapes;

/* The same rank, a source for each index, and one index of a 0-dim tensor. */
static bool rows_fit(const shapes *s) { return s->x == s->src && s->m == s->n && (s->x || s->n == 1); }
/* A 0-dim tensor counts as one of one element. */
static bool elements_fit(const shapes *s) { return s->n <= s->m; }
static bool any_fits(const shapes *s) { return s->n >= 0; }
static bool select_fits(const shapes *s) { return s->x || s->n == 1; }

#define PLACED(id, ...)                                                      \
  static situ_tensor *id(situ_tensor *x, situ_tensor *i, situ_tensor *src) { \
    return (void)src, situ_##id(x, 0, i, __VA_ARGS__);                       \
  }
PLACED(index_add, src, 2)
PLACED(index_add_, src, 2)
PLACED(index_copy, src)
PLACED(index_copy_, src)
PLACED(index_fill, 5)
PLACED(index_fill_, 5)
PLACED(index_reduce, src, SITU_SCATTER_PROD, true)
PLACED(index_reduce_, src, SITU_SCATTER_AMAX, true)
PLACED(scatter, src)
PLACED(scatter_, src)
PLACED(scatter_value, 5)
PLACED(scatter_add, src)
PLACED(scatter_add_, src)
PLACED(scatter_reduce, src, SITU_SCATTER_SUM, true)
PLACED(scatter_reduce_, src, SITU_SCATTER_AMIN, true)
static situ_tensor *index_select(situ_tensor *x, situ_tensor *i, situ_tensor *src) {
  return (void)src, situ_index_select(x, 0, i);
}

static void shapes_without_a_dimension(void **state) {
  (void)state;
  static const struct {
    const char *name;
    situ_tensor *(*run)(situ_tensor *x, situ_tensor *index, situ_tensor *src);
    bool (*fits)(const shapes *s);
  } calls[] = { { "index_add", index_add, rows_fit },
                { "index_add_", index_add_, rows_fit },
                { "index_copy", index_copy, rows_fit },
                { "index_copy_", index_copy_, rows_fit },
                { "index_reduce", index_reduce, rows_fit },
                { "index_reduce_", index_reduce_, rows_fit },
                { "index_fill", index_fill, any_fits },
                { "index_fill_", index_fill_, any_fits },
                { "scatter", scatter, elements_fit },
                { "scatter_", scatter_, elements_fit },
                { "scatter_add", scatter_add, elements_fit },
                { "scatter_add_", scatter_add_, elements_fit },
                { "scatter_reduce", scatter_reduce, elements_fit },
                { "scatter_reduce_", scatter_reduce_, elements_fit },
                { "scatter_value", scatter_value, any_fits },
                { "index_select", index_select, select_fits } };
  const double zeros[LINE] = { 0 }, ones[LINE] = { 1, 1, 1, 1 };
  for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
    for (int bits = 0; bits < 2 * 5 * 5; bits++) {
      shapes s = { .x = bits % 2, .n = bits / 2 % 5 - 1, .m = bits / 10 - 1 };
      s.index = s.n >= 0, s.src = s.m >= 0;
      if (!s.index) s.n = 1;
      if (!s.src) s.m = 1;
      situ_tensor *x = test_tensor(SITU_F32, s.x ? SITU_SHAPE(LINE) : SITU_SCALAR, ones),
                  *index = test_tensor(SITU_I64, s.index ? SITU_SHAPE(s.n) : SITU_SCALAR, zeros),
                  *src = test_tensor(SITU_F32, s.src ? SITU_SHAPE(s.m) : SITU_SCALAR, ones);
      const situ_tensor *y = calls[k].run(x, index, src);
      if ((y != NULL) != calls[k].fits(&s))
        fail_msg("%s of %d-dim x, index of %d (%d-dim), src of %d (%d-dim): %s", calls[k].name, s.x, (int)s.n, s.index,
                 (int)s.m, s.src, y ? "taken" : situ_error_message());
      if (!y) expect_error(SITU_E_SHAPE, "", "");
    }
  situ_tensor *one = T32(SITU_SCALAR, 1);
  expect_exact(situ_index_fill(one, 0, TI64(SITU_SHAPE(3), 0, 0, 0), 5), SITU_SCALAR, 5);
  expect_exact(situ_index_fill_(one, 0, TI64(SITU_SHAPE(3), 0, 0, 0), 5), SITU_SCALAR, 5);
  expect_exact(one, SITU_SCALAR, 5);
  expect_index(situ_index_fill(one, 0, TI64(SITU_SHAPE(2), 0, 1), 5));
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(gradients), TEST(long_runs), TEST(refusals),
                                      TEST(shapes_without_a_dimension) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
