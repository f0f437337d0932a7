/* Reductions against plain loops.
   SPDX-License-Identifier: MIT */
/* test-options: -O3 */
/* test-devices: cpu opencl:0 */
/* test-slow: cuda:0/double */
/* test-cost: opencl:0=1000 */
/* test-limit: opencl:0=2400 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "support/test.h"
#include "support/verbs/views.h"

static const char *const op_name[SITU_REDUCES] = { "sum", "mean", "prod", "min",       "max",         "all",  "any",
                                                   "var", "std",  "norm", "logsumexp", "mean square", "count" };

/* ---- the reference: one output at a time, in more digits than the compute type has ---- */

/* x87 units take a hundred times longer for NaN and infinity, which are therefore added apart. */
typedef struct total {
  long double finite;
  double others;
} total;

static void add(total *t, double x) {
  if (isfinite(x)) t->finite += x;
  else t->others += x;
}
static double total_of(const total *t) { return (double)t->finite + t->others; }

typedef struct reference {
  total sum, absolute, squares, power, exponentials;
  double product, least, greatest, count, n;
} reference;

static bool more(double a, double b) { return isnan(a) ? false : isnan(b) || b > a; }

/* What `op` gives for values[n]; *scale gets the size that rounding errors are measured by. */
static double expected(int op, double p, const double *values, int64_t n, double *scale) {
  reference r = { .product = 1, .least = INFINITY, .greatest = -INFINITY, .n = (double)n };
  double least_abs = INFINITY, greatest_abs = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = values[i];
    add(&r.sum, v);
    r.product *= v;
    add(&r.absolute, fabs(v));
    add(&r.squares, v * v);
    if (op == SITU_REDUCE_NORM) add(&r.power, pow(fabs(v), p));
    r.count += v != 0;
    if (more(r.greatest, v)) r.greatest = v;
    if (more(-r.least, -v)) r.least = v;
    if (more(-least_abs, -fabs(v))) least_abs = fabs(v);
    if (more(greatest_abs, fabs(v))) greatest_abs = fabs(v);
  }
  total deviations = { 0 };
  double sum = total_of(&r.sum), mean = isfinite(sum) ? (double)(r.sum.finite / r.n) : sum;
  double max = isinf(r.greatest) ? 0 : r.greatest;
  for (int64_t i = 0; i < n; i++) {
    add(&deviations, (values[i] - mean) * (values[i] - mean));
    if (op == SITU_REDUCE_LOGSUMEXP) add(&r.exponentials, exp(values[i] - max));
  }
  double var = total_of(&deviations) / fmax(0, r.n - p), absolute = total_of(&r.absolute), power = total_of(&r.power);
  *scale = 0;
  switch (op) {
  case SITU_REDUCE_SUM: *scale = absolute; return sum;
  case SITU_REDUCE_MEAN: *scale = absolute / r.n; return mean;
  case SITU_REDUCE_MEAN_SQUARE: return *scale = total_of(&r.squares) / r.n;
  case SITU_REDUCE_PROD: *scale = fabs(r.product) * r.n; return r.product;
  case SITU_REDUCE_MIN: return r.least;
  case SITU_REDUCE_MAX: return r.greatest;
  case SITU_REDUCE_ALL: return r.count == r.n;
  case SITU_REDUCE_ANY: return r.count > 0;
  case SITU_REDUCE_VAR: *scale = var + mean * mean; return var;
  case SITU_REDUCE_STD: *scale = sqrt(var) + fabs(mean); return sqrt(var);
  case SITU_REDUCE_NORM:
    *scale = p == 0 ? 0 : pow(power, 1 / p);
    return isinf(p) ? (p > 0 ? greatest_abs : least_abs) : p == 0 ? r.count : pow(power, 1 / p);
  case SITU_REDUCE_LOGSUMEXP: *scale = fabs(max) + log(r.n) + 1; return max + log(total_of(&r.exponentials));
  default: return r.count;
  }
}

/* The values of x, those that meet in one output side by side and in order. The caller frees them. */
static double *gather(const test_view *x, const test_view *y) {
  const size_t outputs = (size_t)y->d.numel, n = outputs ? (size_t)x->d.numel / outputs : 0;
  double *to = malloc(sizeof(double) * ((size_t)x->d.numel + 1));
  size_t *filled = calloc(outputs + 1, sizeof *filled);
  assert_true(to && filled);
  for (int64_t i = 0; i < x->d.numel; i++) {
    int64_t rest = i, at = 0, step = 1;
    for (int d = x->d.ndim - 1; d >= 0; rest /= x->d.size[d--]) {
      at += y->d.size[d] == 1 ? 0 : rest % x->d.size[d] * step;
      step *= y->d.size[d];
    }
    to[(size_t)at * n + filled[at]++] = view_get(x, i);
  }
  free(filled);
  return to;
}

/* ---- one call ---- */

static test_view *run(int op, double p, test_view *x, unsigned mask, situ_dtype out, view_layout layout) {
  situ_shape shape = { .ndim = x->d.ndim };
  for (int d = 0; d < x->d.ndim; d++) shape.dim[d] = mask >> d & 1 ? 1 : x->d.size[d];
  test_view *y = view_new(out, shape, layout);
  situ_work work = {
    .verb = SITU_VERB_REDUCE, .op = op, .ins = 1, .outs = 1, .in = { &x->d }, .out = { &y->d }, .scalar = { p }
  };
  work.compute =
      situ_dtype_is_floating(out) || op == SITU_REDUCE_SUM || op == SITU_REDUCE_PROD ? out : (situ_dtype)x->d.dtype;
  assert_int_equal(view_run(SITU_VERB_REDUCE, &work), SITU_OK);
  return y;
}

/* Sums are trees: their error is bounded by the tree's depth, never by the number of elements. */
static void check(int op, double p, test_view *x, unsigned mask, situ_dtype out) {
  test_view *y = run(op, p, x, mask, out, VIEW_ROWS);
  double *values = gather(x, y);
  const int64_t n = y->d.numel ? x->d.numel / y->d.numel : 0;
  double unit_of_compute = view_unit(out == SITU_F64 ? SITU_F64 : SITU_F32);
  for (int64_t o = 0; o < y->d.numel; o++) {
    double scale, want = expected(op, p, values + o * n, n, &scale), got = view_get(y, o);
    double depth = 8 + 2 * log2((double)n + 1);
    double allowed =
        view_unit(out) * fabs(want) * 1.01 + (situ_dtype_is_floating(out) ? unit_of_compute * scale * depth : 0);
    if (isnan(want) ? !isnan(got) : !(got == want || fabs(got - want) <= allowed))
      fail_msg("%s p=%g of %s, mask %u, n %lld: element %lld is %.17g, want %.17g, allowed error %g", op_name[op], p,
               situ_dtype_name((situ_dtype)x->d.dtype), mask, (long long)n, (long long)o, got, want, allowed);
  }
  free(values);
  view_free(y);
}

static situ_dtype result_dtype(int op, situ_dtype x) {
  if (op == SITU_REDUCE_ALL || op == SITU_REDUCE_ANY) return SITU_BOOL;
  if (op == SITU_REDUCE_COUNT) return SITU_I64;
  if ((op == SITU_REDUCE_SUM || op == SITU_REDUCE_PROD) && !situ_dtype_is_floating(x)) return SITU_I64;
  return x;
}

static bool needs_floating(int op) {
  return op == SITU_REDUCE_MEAN || op == SITU_REDUCE_VAR || op == SITU_REDUCE_STD || op == SITU_REDUCE_NORM ||
         op == SITU_REDUCE_LOGSUMEXP || op == SITU_REDUCE_MEAN_SQUARE;
}

/* Where cases take long, a dtype has one layout of each shape, not the same one as the next shape, and, but for f32, a
   third of the ops; on OpenCL, which compiles a kernel for each, a sixth of them, which are the same for all shapes. */
static bool takes(size_t shape, int dtype, int layout) {
  return test_takes(shape + (size_t)(dtype + layout), VIEW_LAYOUTS);
}
static bool takes_op(size_t shape, int dtype, int op) {
  if (dtype == SITU_F32) return true;
  return test_device().kind == SITU_OPENCL ? test_takes((size_t)(dtype + op), 6) : test_takes(shape + (size_t)op, 3);
}

static void every_op_dtype_and_layout(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SHAPE(1),     SITU_SHAPE(7),       SITU_SHAPE(300),      SITU_SHAPE(5, 3),
                                SITU_SHAPE(3, 40), SITU_SHAPE(4, 1, 6), SITU_SHAPE(3, 5, 17), SITU_SHAPE(2, 3, 4, 5) };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++)
      for (int layout = 0; layout < VIEW_LAYOUTS; layout++) {
        if (!takes(s, dtype, layout)) continue;
        test_view *x = view_new((situ_dtype)dtype, shapes[s], (view_layout)layout);
        view_random(x, s + 1, dtype == SITU_U8 || dtype == SITU_BOOL ? 0 : -3, 4);
        for (int op = 0; op < SITU_REDUCES; op++) {
          if (needs_floating(op) && !situ_dtype_is_floating((situ_dtype)dtype)) continue;
          if (!takes_op(s, dtype, op) || !test_is_mine((size_t)op)) continue;
          for (unsigned mask = 1; mask < 1u << shapes[s].ndim; mask++) {
            if (!test_takes(s + mask + (size_t)(op + layout), 2)) continue;
            situ_dtype out = result_dtype(op, (situ_dtype)dtype);
            if (op == SITU_REDUCE_PROD && x->d.numel > 20) continue; /* f16 would overflow */
            if (op != SITU_REDUCE_NORM) {
              check(op, 1, x, mask, out);
              continue;
            }
            for (int i = 0; i < 6; i++) check(op, (double[]){ 0, 1, 2, 3.5, INFINITY, -INFINITY }[i], x, mask, out);
          }
        }
        view_free(x);
      }
}

/* Long enough for several segments and tiles, in each direction and through blocks. */
static void large_reductions(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SHAPE(100003),     SITU_SHAPE(700, 300),   SITU_SHAPE(40, 5000),
                                SITU_SHAPE(5000, 40),   SITU_SHAPE(70000, 3),   SITU_SHAPE(3, 70000),
                                SITU_SHAPE(6, 200, 70), SITU_SHAPE(3, 2, 20000) };
  const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_F16, SITU_I32 };
  const int ops[] = { SITU_REDUCE_SUM,  SITU_REDUCE_MAX,   SITU_REDUCE_VAR,        SITU_REDUCE_LOGSUMEXP,
                      SITU_REDUCE_NORM, SITU_REDUCE_COUNT, SITU_REDUCE_MEAN_SQUARE };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
      for (int layout = 0; layout < VIEW_LAYOUTS; layout++) {
        if (!takes(s, dtypes[t], layout)) continue;
        test_view *x = view_new(dtypes[t], shapes[s], (view_layout)layout);
        view_random(x, s + 10, -1, 1);
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
          if (needs_floating(ops[o]) && !situ_dtype_is_floating(dtypes[t])) continue;
          if (!takes_op(s, (int)dtypes[t], ops[o]) || !test_is_mine((size_t)ops[o])) continue;
          int64_t outputs = 0;
          for (unsigned mask = 1; mask < 1u << shapes[s].ndim; mask++) {
            outputs = 1;
            for (int d = 0; d < shapes[s].ndim; d++) outputs *= mask >> d & 1 ? 1 : shapes[s].dim[d];
            if (outputs > 20) continue; /* others are long enough in neither direction */
            check(ops[o], 2, x, mask, result_dtype(ops[o], dtypes[t]));
          }
        }
        view_free(x);
      }
}

/* Numbers of 16 bits that follow each other are summed where they are, by some instruction sets: with the bits of those
   that do not, which are converted to f32 first. */
static void halves_as_f32(void **state) {
  (void)state;
  const int64_t sizes[] = { 1025, 2049, 2176, 2240, 5000, 70001 };
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int bf16 = 0; bf16 < 2; bf16++) {
      const situ_dtype dtype = bf16 ? SITU_BF16 : SITU_F16;
      test_view *x = view_new(dtype, SITU_SHAPE(3, sizes[s]), VIEW_ROWS),
                *apart = view_new(dtype, SITU_SHAPE(3, sizes[s]), VIEW_GAPS);
      view_random(x, s, -1, 1), view_random(apart, s, -1, 1);
      test_view *a = run(SITU_REDUCE_SUM, 0, x, 2, SITU_F32, VIEW_ROWS),
                *b = run(SITU_REDUCE_SUM, 0, apart, 2, SITU_F32, VIEW_ROWS);
      assert_true(view_same(a, b));
      view_free(x), view_free(apart), view_free(a), view_free(b);
      x = view_new(dtype, SITU_SHAPE(sizes[s]), VIEW_ROWS);
      view_random(x, s, -1, 1);
      check(SITU_REDUCE_SUM, 0, x, 1, dtype);
      view_set(x, sizes[s] - 1, NAN);
      check(SITU_REDUCE_MEAN, 0, x, 1, dtype);
      view_free(x);
    }
}

/* Many outputs of several segments: against sums in f64. */
static void sums_of_a_large_matrix(int64_t rows, int64_t columns) {
  test_view *x = view_new(SITU_F32, SITU_SHAPE(rows, columns), VIEW_ROWS);
  view_random(x, 3, 0, 1);
  test_view *down = run(SITU_REDUCE_SUM, 0, x, 1, SITU_F32, VIEW_ROWS),
            *across = run(SITU_REDUCE_SUM, 0, x, 2, SITU_F32, VIEW_GAPS);
  const float *values = x->storage.data;
  for (int64_t j = 0; j < columns; j++) {
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) sum += (double)values[i * columns + j];
    assert_true(fabs(view_get(down, j) - sum) <= 20 * FLT_EPSILON / 2 * sum);
  }
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t j = 0; j < columns; j++) sum += (double)values[i * columns + j];
    assert_true(fabs(view_get(across, i) - sum) <= 20 * FLT_EPSILON / 2 * sum);
  }
  view_free(x), view_free(down), view_free(across);
}

/* With small tiles and segments, and with large ones, the last of which are parts. */
static void columns_of_a_large_matrix(void **state) {
  (void)state;
  sums_of_a_large_matrix(3000, 700);
  if (test_device().kind == SITU_CPU) sums_of_a_large_matrix(1000, 1500); /* elsewhere there is one size of tiles */
}

static void same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  int before = situ__pool_threads();
  const situ_shape shapes[] = { SITU_SHAPE(1000003), SITU_SHAPE(3000, 700), SITU_SHAPE(50, 400, 90),
                                SITU_SHAPE(1000, 1500) };
  const size_t count = sizeof shapes / sizeof *shapes - (test_device().kind != SITU_CPU);
  for (size_t s = 0; s < count; s++) {
    test_view *x = view_new(SITU_F32, shapes[s], VIEW_ROWS);
    view_random(x, s + 30, -1, 1);
    for (int op = 0; op < SITU_REDUCES; op++)
      for (unsigned mask = 1; mask < 1u << shapes[s].ndim; mask++) {
        if (!test_takes(s + mask + (size_t)op, 2)) continue;
        situ__pool_set_threads(1);
        test_view *one = run(op, 1, x, mask, result_dtype(op, SITU_F32), VIEW_ROWS);
        for (int threads = 2; threads <= test_most_threads(); threads += 3) {
          situ__pool_set_threads(threads);
          test_view *many = run(op, 1, x, mask, result_dtype(op, SITU_F32), VIEW_ROWS);
          if (!view_same(one, many)) fail_msg("%s, mask %u: bits differ on %d threads", op_name[op], mask, threads);
          view_free(many);
        }
        view_free(one);
      }
    view_free(x);
  }
  situ__pool_set_threads(before);
}

static void better_than_a_plain_loop(void **state) {
  (void)state;
  const int64_t n = 1 << 20;
  test_view *x = view_new(SITU_F32, SITU_SHAPE(n), VIEW_ROWS);
  view_random(x, 7, 0, 1);
  const float *values = x->storage.data;
  float plain = 0;
  double truth = 0;
  for (int64_t i = 0; i < n; i++) plain += values[i], truth += (double)values[i];
  test_view *y = run(SITU_REDUCE_SUM, 0, x, 1, SITU_F32, VIEW_ROWS);
  assert_true(fabs(view_get(y, 0) - truth) * 10 < fabs((double)plain - truth));
  view_free(x), view_free(y);
}

/* Sizes around every boundary inside: vectors, wide rows, blocks, segments. */
static void special_values(void **state) {
  (void)state;
  const int64_t sizes[] = { 1, 2, 15, 16, 17, 64, 100, 2047, 2048, 2049, 40000 };
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int dtype = SITU_F16; dtype < SITU_DTYPES; dtype++) {
      int64_t n = sizes[s];
      test_view *x = view_new((situ_dtype)dtype, SITU_SHAPE(n), VIEW_ROWS);
      for (int64_t at = 0; at < n; at = at * 2 + 1) {
        view_random(x, 5, 0.5, 1.5);
        view_set(x, at, NAN);
        for (int op = 0; op < SITU_REDUCES; op++) {
          if (!takes_op(s, dtype, op)) continue;
          if (op != SITU_REDUCE_VAR && op != SITU_REDUCE_STD && op != SITU_REDUCE_PROD)
            check(op, 2, x, 1, result_dtype(op, (situ_dtype)dtype));
        }
        view_set(x, at, INFINITY);
        check(SITU_REDUCE_LOGSUMEXP, 0, x, 1, (situ_dtype)dtype);
        check(SITU_REDUCE_MAX, 0, x, 1, (situ_dtype)dtype);
        view_set(x, at, -INFINITY);
        check(SITU_REDUCE_MIN, 0, x, 1, (situ_dtype)dtype);
      }
      for (int64_t i = 0; i < n; i++) view_set(x, i, -INFINITY);
      check(SITU_REDUCE_LOGSUMEXP, 0, x, 1, (situ_dtype)dtype);
      check(SITU_REDUCE_MAX, 0, x, 1, (situ_dtype)dtype);
      view_set(x, n - 1, -10000);
      check(SITU_REDUCE_LOGSUMEXP, 0, x, 1, (situ_dtype)dtype);
      for (int64_t i = 0; i < n; i++) view_set(x, i, 60000);
      check(SITU_REDUCE_LOGSUMEXP, 0, x, 1, (situ_dtype)dtype);
      view_free(x);
    }
}

/* The spread of values far from 0: the textbook formula (mean of squares less square of mean) has no digit right. */
static void var_far_from_zero(void **state) {
  (void)state;
  test_view *x = view_new(SITU_F32, SITU_SHAPE(50000, 2), VIEW_ROWS);
  for (int64_t i = 0; i < x->d.numel; i++) view_set(x, i, 10000 + (double)(i / 2 % 3) - 1);
  test_view *down = run(SITU_REDUCE_VAR, 0, x, 1, SITU_F32, VIEW_ROWS),
            *all = run(SITU_REDUCE_VAR, 0, x, 3, SITU_F32, VIEW_ROWS);
  assert_true(fabs(view_get(down, 0) - 2.0 / 3) < 1e-4);
  assert_true(fabs(view_get(all, 0) - 2.0 / 3) < 1e-4);
  view_free(x), view_free(down), view_free(all);
}

static void nothing_to_reduce(void **state) {
  (void)state;
  test_view *x = view_new(SITU_F32, SITU_SHAPE(3, 0), VIEW_ROWS);
  const double want[SITU_REDUCES] = { 0, NAN, 1, 0, 0, 1, 0, NAN, NAN, 0, -INFINITY, NAN, 0 };
  for (int op = 0; op < SITU_REDUCES; op++) {
    if (op == SITU_REDUCE_MIN || op == SITU_REDUCE_MAX) continue;
    test_view *y = run(op, 2, x, 2, result_dtype(op, SITU_F32), VIEW_ROWS);
    for (int64_t i = 0; i < 3; i++) {
      double got = view_get(y, i);
      if (isnan(want[op]) ? !isnan(got) : got != want[op]) fail_msg("%s of nothing is %g", op_name[op], got);
    }
    view_free(y);
  }
  test_view *y = view_new(SITU_F32, SITU_SHAPE(3, 1), VIEW_ROWS);
  situ_work work = {
    .verb = SITU_VERB_REDUCE, .op = SITU_REDUCE_MAX, .ins = 1, .outs = 1, .in = { &x->d }, .out = { &y->d }
  };
  assert_int_equal(view_run(SITU_VERB_REDUCE, &work), SITU_E_ARG);
  situ_error_clear();
  view_free(x), view_free(y);
}

static void whole_numbers_wrap_and_keep_all_digits(void **state) {
  (void)state;
  test_view *x = view_new(SITU_I64, SITU_SHAPE(3), VIEW_ROWS);
  int64_t *v = x->storage.data;
  v[0] = INT64_MAX - 5, v[1] = 3, v[2] = 2;
  test_view *y = run(SITU_REDUCE_SUM, 0, x, 1, SITU_I64, VIEW_ROWS);
  assert_int_equal(*(int64_t *)y->storage.data, INT64_MAX);
  v[2] = 3;
  test_view *wrapped = run(SITU_REDUCE_SUM, 0, x, 1, SITU_I64, VIEW_ROWS);
  assert_int_equal(*(int64_t *)wrapped->storage.data, INT64_MIN);
  view_free(x), view_free(y), view_free(wrapped);
}

static void expanded_and_reversed_views(void **state) {
  (void)state;
  test_view *x = view_new(SITU_F32, SITU_SHAPE(60, 50), VIEW_ROWS);
  view_random(x, 9, -1, 1);
  x->d.stride[0] = 0;
  x->d.contiguous = false;
  for (unsigned mask = 1; mask < 4; mask++) check(SITU_REDUCE_SUM, 0, x, mask, SITU_F32);
  x->d.stride[0] = -50;
  x->d.offset = 59 * 50;
  for (unsigned mask = 1; mask < 4; mask++) check(SITU_REDUCE_SUM, 0, x, mask, SITU_F32);
  x->d.stride[1] = -1;
  x->d.offset += 49;
  for (unsigned mask = 1; mask < 4; mask++) check(SITU_REDUCE_VAR, 1, x, mask, SITU_F32);
  view_free(x);
}

/* One element, seen more often than f32 counts one by one. */
static void counts_have_all_digits(void **state) {
  (void)state;
  enum { MANY = (1 << 24) + 1 };
  test_view *x = view_new(SITU_F32, SITU_SHAPE(1), VIEW_ROWS);
  view_random(x, 3, 1, 2);
  x->d.size[0] = x->d.numel = MANY;
  x->d.stride[0] = 0;
  x->d.contiguous = false;
  test_view *y = run(SITU_REDUCE_COUNT, 0, x, 1, SITU_I64, VIEW_ROWS);
  assert_int_equal(*(int64_t *)y->storage.data, MANY);
  view_free(x), view_free(y);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_op_dtype_and_layout),
    cmocka_unit_test(large_reductions),
    cmocka_unit_test(halves_as_f32),
    cmocka_unit_test(columns_of_a_large_matrix),
    cmocka_unit_test(same_bits_for_any_number_of_threads),
    cmocka_unit_test(better_than_a_plain_loop),
    cmocka_unit_test(special_values),
    cmocka_unit_test(var_far_from_zero),
    cmocka_unit_test(nothing_to_reduce),
    cmocka_unit_test(whole_numbers_wrap_and_keep_all_digits),
    cmocka_unit_test(expanded_and_reversed_views),
    cmocka_unit_test(counts_have_all_digits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
