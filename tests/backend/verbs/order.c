/* Arg reductions, running sums, sorting and nonzero against plain loops.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu opencl:0 */
/* test-environment: SITU_TEST_AS_USED=1 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/reduce/scan.h"
#include "base/pool.h"
#include "support/test.h"
#include "support/verbs/views.h"

static bool on_cpu(void) { return test_device().kind == SITU_CPU; }

/* NaN is greater than everything. */
static bool less(double a, double b) { return isnan(b) ? !isnan(a) : a < b; }

/* Shape of x with another size at dim. */
static situ_shape resized(const test_view *x, int dim, int64_t size) {
  situ_shape s = { .ndim = x->d.ndim };
  for (int d = 0; d < x->d.ndim; d++) s.dim[d] = d == dim ? size : x->d.size[d];
  return s;
}

/* Where element i of line l lies, in row-major order, in a tensor like x that has n elements along dim. */
static int64_t at(const test_view *x, int dim, int64_t n, int64_t line, int64_t i) {
  int64_t inner = 1;
  for (int d = dim + 1; d < x->d.ndim; d++) inner *= x->d.size[d];
  return (line / inner * n + i) * inner + line % inner;
}

static int64_t length(const test_view *x, int dim) { return x->d.ndim ? x->d.size[dim] : 1; }

static situ_status call(situ_verb verb, int op, int dim, test_view *x, test_view *out0, test_view *out1) {
  situ_work work = { .verb = verb,
                     .op = op,
                     .ins = 1,
                     .outs = 2,
                     .in = { &x->d },
                     .out = { out0 ? &out0->d : NULL, out1 ? &out1->d : NULL },
                     .integer = { dim },
                     .compute = (situ_dtype)x->d.dtype };
  return view_run(verb, &work);
}

static void check_arg(test_view *x, int dim, int greatest) {
  int64_t n = length(x, dim), lines = x->d.numel / n;
  test_view *values = view_new((situ_dtype)x->d.dtype, resized(x, dim, 1), VIEW_ROWS),
            *indices = view_new(SITU_I64, resized(x, dim, 1), VIEW_ROWS);
  assert_int_equal(call(SITU_VERB_ARG_REDUCE, greatest, dim, x, values, indices), SITU_OK);
  for (int64_t l = 0; l < lines; l++) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
      double b = view_get(x, at(x, dim, n, l, best)), v = view_get(x, at(x, dim, n, l, i));
      if (!isnan(b) && (isnan(v) || (greatest ? v > b : v < b))) best = i;
    }
    double want = view_get(x, at(x, dim, n, l, best)), got = view_get(values, l);
    if (view_get(indices, l) != (double)best || !(got == want || (isnan(got) && isnan(want))))
      fail_msg("%s dim %d of %lld, line %lld: %g at %g, want %g at %lld", situ_dtype_name((situ_dtype)x->d.dtype), dim,
               (long long)n, (long long)l, got, view_get(indices, l), want, (long long)best);
  }
  view_free(values), view_free(indices);
}

/* k = the line's length: a whole sort. */
static void check_sort(test_view *x, int dim, int descending, int64_t k) {
  int64_t n = length(x, dim), lines = x->d.numel / n;
  test_view *values = view_new((situ_dtype)x->d.dtype, resized(x, dim, k), VIEW_ROWS),
            *indices = view_new(SITU_I64, resized(x, dim, k), VIEW_ROWS);
  assert_int_equal(call(SITU_VERB_SORT, descending, dim, x, values, indices), SITU_OK);
  for (int64_t l = 0; l < lines; l++) {
    bool *seen = calloc((size_t)n, 1);
    for (int64_t i = 0; i < k; i++) {
      int64_t from = (int64_t)view_get(indices, at(x, dim, k, l, i));
      assert_in_range(from, 0, n - 1);
      assert_false(seen[from]);
      seen[from] = true;
      double v = view_get(values, at(x, dim, k, l, i)), origin = view_get(x, at(x, dim, n, l, from));
      assert_true(v == origin || (isnan(v) && isnan(origin)));
      if (!i) continue;
      double before = view_get(values, at(x, dim, k, l, i - 1));
      assert_false(descending ? less(before, v) : less(v, before));
      if (!less(before, v) && !less(v, before)) assert_true(view_get(indices, at(x, dim, k, l, i - 1)) < (double)from);
    }
    /* Nothing left out may come before the last one kept, and of its equals the first were kept. */
    double last = view_get(values, at(x, dim, k, l, k - 1)), last_from = view_get(indices, at(x, dim, k, l, k - 1));
    for (int64_t i = 0; i < n; i++) {
      double v = view_get(x, at(x, dim, n, l, i));
      if (seen[i]) continue;
      assert_false(descending ? less(last, v) : less(v, last));
      if (!less(v, last) && !less(last, v)) assert_true((double)i > last_from);
    }
    free(seen);
  }
  view_free(values), view_free(indices);
}

static void check_scan(test_view *x, int dim) {
  situ_dtype out = situ_dtype_is_floating((situ_dtype)x->d.dtype) ? (situ_dtype)x->d.dtype : SITU_I64;
  const double unit_of_compute = on_cpu()          ? 0x1p-53
                                 : out == SITU_F64 ? 0x1p-53
                                                   : 0x1p-24; /* the cpu adds up f32 in f64 */
  double eps = out == SITU_F16 ? 0x1p-10 : out == SITU_BF16 ? 0x1p-7 : out == SITU_F32 ? 0x1p-23 : 0x1p-45;
  int64_t n = length(x, dim), lines = x->d.numel / n;
  test_view *y = view_new(out, resized(x, dim, n), VIEW_ROWS);
  assert_int_equal(call(SITU_VERB_SCAN, 0, dim, x, y, NULL), SITU_OK);
  for (int64_t l = 0; l < lines; l++) {
    long double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
      double v = view_get(x, at(x, dim, n, l, i)), got = view_get(y, at(x, dim, n, l, i));
      sum += v, size += fabs(v);
      double allowed = out == SITU_I64 ? 0
                                       : eps * fabs((double)sum) +
                                             unit_of_compute * (on_cpu() ? 8 : 8 + sqrt((double)i)) * (double)size;
      if (isnan(sum) ? !isnan(got) : !(got == (double)sum || fabs(got - (double)sum) <= allowed))
        fail_msg("line %lld, element %lld: %g, want %g", (long long)l, (long long)i, got, (double)sum);
    }
  }
  view_free(y);
}

static void check_all(test_view *x) {
  for (int dim = 0; dim < (x->d.ndim ? x->d.ndim : 1); dim++) {
    int64_t n = length(x, dim);
    for (int way = 0; way < 2; way++) {
      check_arg(x, dim, way);
      check_sort(x, dim, way, n);
      check_sort(x, dim, way, 1);
      if (n > 9) check_sort(x, dim, way, n / 9);
      if (n > 999) check_sort(x, dim, way, n / 300);
      if (n > 2) check_sort(x, dim, way, n / 2);
    }
    check_scan(x, dim);
  }
}

static void every_dtype_and_dimension(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SCALAR,      SITU_SHAPE(1),     SITU_SHAPE(50),       SITU_SHAPE(300),
                                SITU_SHAPE(4, 3), SITU_SHAPE(70, 5), SITU_SHAPE(3, 1, 60), SITU_SHAPE(2, 5, 4) };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++) {
      if (!test_takes(s + (size_t)dtype, 2) || !test_is_mine((size_t)dtype)) continue;
      test_view *x = view_new((situ_dtype)dtype, shapes[s], VIEW_ROWS);
      view_random(x, s + 1, dtype == SITU_U8 || dtype == SITU_BOOL ? 0 : -9, 9);
      check_all(x);
      if (situ_dtype_is_floating((situ_dtype)dtype) && x->d.numel > 10) {
        const double special[] = { NAN, INFINITY, -INFINITY, 0.0, -0.0, NAN, 0.0 };
        for (int i = 0; i < 7; i++) view_set(x, (i * 37 + 3) % x->d.numel, special[i]);
        check_all(x);
      }
      view_free(x);
    }
}

/* Many segments, chunks and tiles; few distinct values, so that ties decide. */
static void large(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SHAPE(100000), SITU_SHAPE(3, 70000), SITU_SHAPE(300, 700),
                                SITU_SHAPE(2, 2000, 30) };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int t = 0; t < 3; t++) {
      if (!test_takes(s + (size_t)t, 3)) continue;
      test_view *x = view_new((situ_dtype[]){ SITU_F32, SITU_F16, SITU_I32 }[t], shapes[s], VIEW_ROWS);
      view_random(x, s + 5, -40, 41);
      for (int64_t i = 0; i < x->d.numel; i++) view_set(x, i, trunc(view_get(x, i)));
      check_all(x);
      view_free(x);
    }
}

/* Keys of which all bytes count: spread evenly, and close to one of two numbers. */
static void large_and_different(void **state) {
  (void)state;
  for (int t = 0; t < 4; t++) {
    if (!test_takes((size_t)t, 4)) continue;
    test_view *x = view_new(t % 2 ? SITU_F64 : SITU_F32, SITU_SHAPE(70001), VIEW_ROWS);
    view_random(x, (size_t)t + 17, -1, 1);
    for (int64_t i = 0; t > 1 && i < x->d.numel; i++) view_set(x, i, (i % 3 ? 1 : -5) + 1e-3 * view_get(x, i));
    for (int64_t i = 0; t % 2 && i < 90; i++) view_set(x, i * i * 8, NAN);
    check_all(x);
    view_free(x);
  }
}

/* One extreme only, in each segment and at the seams between them. */
static void one_extreme_anywhere(void **state) {
  (void)state;
  const int64_t n = 100000, places[] = { 0, 1, 8191, 8192, 32767, 32768, 65535, 65536, 98303, 98304, 99998, 99999 };
  for (int dtype = SITU_F16; dtype < SITU_DTYPES; dtype++) {
    test_view *x = view_new((situ_dtype)dtype, SITU_SHAPE(n), VIEW_ROWS);
    for (int p = 0; p < 12; p++)
      for (int way = 0; way < 2; way++) {
        if (!test_takes((size_t)(dtype + p + way), 4)) continue;
        view_set(x, places[p], way ? 5 : -5);
        check_arg(x, 0, way);
        view_set(x, places[p], NAN);
        check_arg(x, 0, way);
        view_set(x, places[p], 0);
      }
    view_free(x);
  }
}

/* i64 beyond what a double holds. */
static void all_digits_of_whole_numbers(void **state) {
  (void)state;
  test_view *x = view_new(SITU_I64, SITU_SHAPE(60), VIEW_ROWS), *y = view_new(SITU_I64, SITU_SHAPE(60), VIEW_ROWS),
            *i = view_new(SITU_I64, SITU_SHAPE(60), VIEW_ROWS);
  int64_t *v = x->storage.data, *sorted = y->storage.data;
  for (int k = 0; k < 60; k++) v[k] = (k % 2 ? INT64_MAX : INT64_MIN / 2) - k * 7 % 60;
  assert_int_equal(call(SITU_VERB_SORT, 0, 0, x, y, i), SITU_OK);
  for (int k = 1; k < 60; k++) assert_true(sorted[k - 1] < sorted[k]);
  int64_t sum = 0;
  assert_int_equal(call(SITU_VERB_SCAN, 0, 0, x, y, NULL), SITU_OK);
  for (int k = 0; k < 60; k++) {
    sum = (int64_t)((uint64_t)sum + (uint64_t)v[k]);
    assert_true(sorted[k] == sum);
  }
  view_free(x), view_free(y), view_free(i);
}

/* A sum that f32 would lose, in which other devices add up f32: 2^24 + 1. */
static void running_sums_lose_nothing(void **state) {
  (void)state;
  if (!on_cpu()) skip();
  const int64_t n = (1 << 24) + 3000;
  test_view *x = view_new(SITU_F32, SITU_SHAPE(n), VIEW_ROWS), *y = view_new(SITU_F32, SITU_SHAPE(n), VIEW_ROWS);
  float *v = x->storage.data, *sum = y->storage.data;
  for (int64_t i = 0; i < n; i++) v[i] = 1;
  assert_int_equal(call(SITU_VERB_SCAN, 0, 0, x, y, NULL), SITU_OK);
  assert_true(sum[n - 1] == (float)n);
  assert_true(sum[n - 2] == (float)(n - 1));
  view_free(x), view_free(y);
}

static void same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  int before = situ__pool_threads();
  test_view *x = view_new(SITU_F32, SITU_SHAPE(5, 60000), VIEW_ROWS);
  view_random(x, 4, -1, 1);
  test_view *one = view_new(SITU_F32, SITU_SHAPE(5, 60000), VIEW_ROWS),
            *many = view_new(SITU_F32, SITU_SHAPE(5, 60000), VIEW_ROWS);
  for (int dim = 0; dim < 2; dim++) {
    situ__pool_set_threads(1);
    assert_int_equal(call(SITU_VERB_SCAN, 0, dim, x, one, NULL), SITU_OK);
    for (int threads = 2; threads <= test_most_threads(); threads += 2) {
      situ__pool_set_threads(threads);
      assert_int_equal(call(SITU_VERB_SCAN, 0, dim, x, many, NULL), SITU_OK);
      assert_true(view_same(one, many));
    }
  }
  situ__pool_set_threads(before);
  view_free(x), view_free(one), view_free(many);
}

/* Each instruction set adds up in the same order; so do blocks of a view with gaps, and the sum that writes over x. */
static void running_sums_have_the_same_bits_everywhere(void **state) {
  (void)state;
  if (!on_cpu()) skip();
  enum { ROWS = 3, SIZE = 2 * 16384 + 77 };
  const situ__scans *sets[3] = { &situ__scans_base };
  int count = 1;
#ifdef SITU_HAVE_ISA_V3
  if (situ__cpu_isa() >= SITU__ISA_V3) sets[count++] = &situ__scans_v3;
#endif
#ifdef SITU_HAVE_ISA_V4
  if (situ__cpu_isa() >= SITU__ISA_V4) sets[count++] = &situ__scans_v4;
#endif
  const situ_shape shape = SITU_SHAPE(ROWS, SIZE);
  test_view *x = view_new(SITU_F32, shape, VIEW_ROWS), *y = view_new(SITU_F32, shape, VIEW_ROWS),
            *apart = view_new(SITU_F32, shape, VIEW_GAPS), *sums = view_new(SITU_F32, shape, VIEW_GAPS);
  view_random(x, 6, -1e6, 1e6);
  for (int64_t i = 0; i < x->d.numel; i++) view_set(apart, i, view_get(x, i));
  assert_int_equal(call(SITU_VERB_SCAN, 0, 1, x, y, NULL), SITU_OK);
  assert_int_equal(call(SITU_VERB_SCAN, 0, 1, apart, sums, NULL), SITU_OK);
  assert_true(view_same(y, sums));
  static float each[2][SIZE];
  for (int64_t n = 1; n < SIZE; n += n < 40 ? 1 : 4001)
    for (int s = 0; s < count; s++) {
      const double total = sets[s]->sums(x->storage.data, each[s > 0], n, 0.5);
      assert_true(total == sets[0]->sums(x->storage.data, each[0], n, 0.5));
      assert_memory_equal(each[0], each[s > 0], (size_t)n * sizeof(float));
    }
  assert_int_equal(call(SITU_VERB_SCAN, 0, 1, x, x, NULL), SITU_OK);
  assert_true(view_same(x, y));
  view_free(x), view_free(y), view_free(apart), view_free(sums);
}

static void nonzero(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SCALAR, SITU_SHAPE(40), SITU_SHAPE(200, 300), SITU_SHAPE(5, 7, 900) };
  for (size_t s = 0; s < 4; s++)
    for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++) {
      test_view *x = view_new((situ_dtype)dtype, shapes[s], VIEW_ROWS);
      view_random(x, s + 1, 0, 3);
      if (situ_dtype_is_floating((situ_dtype)dtype))
        for (int64_t i = 0; i < x->d.numel; i++) view_set(x, i, i % 5 ? (i % 7 ? 0 : NAN) : view_get(x, i));
      int64_t count = 0;
      for (int64_t i = 0; i < x->d.numel; i++) count += view_get(x, i) != 0;
      test_view *y = view_new(SITU_I64, SITU_SHAPE(count, x->d.ndim), VIEW_ROWS);
      assert_int_equal(call(SITU_VERB_NONZERO, 0, 0, x, y, NULL), SITU_OK);
      int64_t row = 0;
      for (int64_t i = 0; i < x->d.numel; i++) {
        if (view_get(x, i) == 0) continue;
        int64_t rest = i;
        for (int d = x->d.ndim - 1; d >= 0; rest /= x->d.size[d--])
          assert_true(view_get(y, row * x->d.ndim + d) == (double)(rest % x->d.size[d]));
        row++;
      }
      view_free(x), view_free(y);
    }
}

/* Should x have changed since the result was sized: nothing is written past it. The cpu can tell, a queue cannot. */
static void nonzero_of_something_else(void **state) {
  (void)state;
  test_view *x = view_new(SITU_F32, SITU_SHAPE(600), VIEW_ROWS), *y = view_new(SITU_I64, SITU_SHAPE(600, 1), VIEW_ROWS);
  for (int64_t i = 0; i < 600; i++) view_set(x, i, 1), view_set(y, i, -1);
  for (int64_t room = 599; room < 602; room += 2) {
    y->d.size[0] = y->d.numel = room < 600 ? room : 600;
    if (room > 600) view_set(x, 300, 0);
    assert_int_equal(call(SITU_VERB_NONZERO, 0, 0, x, y, NULL), on_cpu() ? SITU_E_STATE : SITU_OK);
    situ_error_clear();
    y->d.size[0] = y->d.numel = 600;
    assert_true(view_get(y, 599) == -1);
  }
  view_free(x), view_free(y);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_dtype_and_dimension),
    cmocka_unit_test(large),
    cmocka_unit_test(large_and_different),
    cmocka_unit_test(one_extreme_anywhere),
    cmocka_unit_test(all_digits_of_whole_numbers),
    cmocka_unit_test(running_sums_lose_nothing),
    cmocka_unit_test(running_sums_have_the_same_bits_everywhere),
    cmocka_unit_test(same_bits_for_any_number_of_threads),
    cmocka_unit_test(nonzero),
    cmocka_unit_test(nonzero_of_something_else),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
