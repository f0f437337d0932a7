/* Running products and their gradient against plain loops, with zeros. Running sums: order.c.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu opencl:0 */
#include <float.h>
#include <math.h>

#include "support/test.h"
#include "support/verbs/views.h"

enum { OUTER = 3 };

/* [OUTER, size, inner] along the middle dimension. */
typedef struct line {
  int64_t size, inner, first;
} line;
static int64_t at(const line *l, int64_t i) { return l->first + i * l->inner; }

static line nth(const test_view *x, int64_t k) {
  int64_t size = x->d.size[1], inner = x->d.size[2];
  return (line){ size, inner, k / inner * size * inner + k % inner };
}

static test_view *like(const test_view *x, situ_dtype dtype) {
  return view_new(dtype, SITU_SHAPE(OUTER, x->d.size[1], x->d.size[2]), VIEW_ROWS);
}

static void scan(int pass, const test_view *x, const test_view *y, const test_view *g, const test_view *out) {
  situ_work work = { .verb = SITU_VERB_SCAN,
                     .op = pass,
                     .ins = g ? 3 : 1,
                     .outs = 1,
                     .in = { &x->d, y ? &y->d : NULL, g ? &g->d : NULL },
                     .out = { &out->d },
                     .integer = { 1 },
                     .compute = (situ_dtype)out->d.dtype };
  assert_int_equal(view_run(SITU_VERB_SCAN, &work), SITU_OK);
}

/* Rounding of the dtype in memory, and of the arithmetic: the cpu computes in f64. */
static double rounding(situ_dtype dtype) {
  return dtype == SITU_F64 ? 0x1p-52 : dtype == SITU_F32 ? 0x1p-23 : dtype == SITU_F16 ? 0x1p-10 : 0x1p-7;
}
static double arithmetic(situ_dtype dtype) {
  return dtype == SITU_F64 || test_device().kind == SITU_CPU ? 0x1p-53 : 0x1p-24;
}
static double smallest(situ_dtype dtype) { return dtype == SITU_F16 ? 0x1p-14 : (double)FLT_MIN; }

static void check_product(const test_view *x) {
  const bool real = situ_dtype_is_floating((situ_dtype)x->d.dtype);
  const situ_dtype dtype = real ? (situ_dtype)x->d.dtype : SITU_I64;
  test_view *y = like(x, dtype);
  scan(SITU_SCAN_PROD, x, NULL, NULL, y);
  for (int64_t k = 0; k < OUTER * x->d.size[2]; k++) {
    line l = nth(x, k);
    long double product = 1;
    uint64_t whole = 1;
    for (int64_t i = 0; i < l.size; i++) {
      double v = view_get(x, at(&l, i)), got = view_get(y, at(&l, i)), want = (double)(product *= v);
      whole *= (uint64_t)(int64_t)v;
      double allowed = fabs(want) * (rounding(dtype) + arithmetic(dtype) * (double)(i + 2)) + smallest(dtype);
      if (real ? !(fabs(got - want) <= allowed) : ((uint64_t *)y->storage.data)[at(&l, i)] != whole)
        fail_msg("%s line %lld, element %lld: %g, want %g", situ_dtype_name(dtype), (long long)k, (long long)i, got,
                 real ? want : (double)(int64_t)whole);
    }
  }
  view_free(y);
}

/* Each derivative as the product of all other factors. */
static void check_gradient(const test_view *x) {
  const situ_dtype dtype = (situ_dtype)x->d.dtype;
  test_view *y = like(x, dtype), *g = like(x, dtype), *dx = like(x, dtype);
  view_random(g, 11, -2, 2);
  scan(SITU_SCAN_PROD, x, NULL, NULL, y);
  scan(SITU_SCAN_PROD_GRAD, x, y, g, dx);
  for (int64_t k = 0; k < OUTER * x->d.size[2]; k++) {
    line l = nth(x, k);
    for (int64_t i = 0; i < l.size; i++) {
      long double sum = 0, size = 0, others = 1;
      for (int64_t j = 0; j < l.size; j++) {
        if (j != i) others *= view_get(x, at(&l, j));
        if (j >= i) sum += view_get(g, at(&l, j)) * others, size += fabsl(view_get(g, at(&l, j)) * others);
      }
      double got = view_get(dx, at(&l, i)), want = (double)sum;
      double allowed =
          (double)size * (2 * rounding(dtype) + arithmetic(dtype) * (double)(2 * l.size)) + smallest(dtype);
      if (!(fabs(got - want) <= allowed))
        fail_msg("%s line %lld, element %lld: %g, want %g", situ_dtype_name(dtype), (long long)k, (long long)i, got,
                 want);
    }
  }
  view_free(y), view_free(g), view_free(dx);
}

/* Values near 1, so that long products stay finite; every `zeros`-th element is 0. */
static test_view *factors(situ_dtype dtype, int64_t size, int64_t inner, int64_t zeros) {
  test_view *x = view_new(dtype, SITU_SHAPE(OUTER, size, inner), VIEW_ROWS);
  view_random(x, 5, dtype == SITU_U8 || dtype == SITU_BOOL ? 0 : -9, 9);
  for (int64_t i = 0; i < x->d.numel; i++) {
    if (situ_dtype_is_floating(dtype)) view_set(x, i, (i % 3 ? 1 : -1) * (1 + view_get(x, i) / 64));
    if (zeros && i % zeros == zeros / 2) view_set(x, i, 0);
  }
  return x;
}

static void products(void **state) {
  (void)state;
  for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++)
    for (int64_t size = 1; size < 40000; size = size * 7 + 3)
      for (int64_t inner = 1; inner * size < 200000 && inner < 2000; inner = inner * 30 + 7) {
        test_view *x = factors((situ_dtype)dtype, size, inner, 0);
        check_product(x);
        view_free(x);
      }
}

static void gradients_where_factors_are_0(void **state) {
  (void)state;
  for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++)
    for (int64_t size = 1; size < 80 && situ_dtype_is_floating((situ_dtype)dtype); size = size * 3 + 1)
      for (int64_t inner = 1; inner < 1100; inner = inner * 30 + 7)
        for (int64_t zeros = 0; zeros < 30; zeros += 7) {
          test_view *x = factors((situ_dtype)dtype, size, inner, zeros);
          check_gradient(x);
          view_free(x);
        }
}

/* More than one block of the cpu's along a line. */
static void long_gradients(void **state) {
  (void)state;
  test_view *x = factors(SITU_F64, 2500, 1, 900);
  check_gradient(x);
  view_free(x);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = { cmocka_unit_test(products), cmocka_unit_test(gradients_where_factors_are_0),
                                      cmocka_unit_test(long_gradients) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
