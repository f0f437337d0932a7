/* Conversions, copies between any layouts, constants, ranges and triangles.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/cpu/common/convert.h"
#include "base/pool.h"
#include "kernels/half.h"
#include "support/verbs/views.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* ---- half precision, all of it ---- */

/* The value of an f16 or a bf16, from the definition of the format. */
static double decode(uint16_t h, int exponent_bits, int fraction_bits) {
  int exponent = h >> fraction_bits & ((1 << exponent_bits) - 1), fraction = h & ((1 << fraction_bits) - 1);
  int bias = (1 << (exponent_bits - 1)) - 1;
  double sign = h & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
  if (!exponent) return sign * ldexp(fraction, 1 - bias - fraction_bits);
  return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

typedef struct format {
  situ_dtype dtype;
  int exponent_bits, fraction_bits;
} format;
static const format formats[] = { { SITU_F16, 5, 10 }, { SITU_BF16, 8, 7 } };

enum { LONG = 40 }; /* more numbers than any set converts together */
static const situ__convert *sets[4];
static int set_count;

static void find_sets(void) {
  sets[set_count++] = &situ__convert_base;
#ifdef SITU_HAVE_ISA_V3
  if (situ__cpu_isa() >= SITU__ISA_V3) sets[set_count++] = &situ__convert_v3;
#endif
#ifdef SITU_HAVE_ISA_V4
  if (situ__cpu_isa() >= SITU__ISA_V4) sets[set_count++] = &situ__convert_v4;
#endif
#ifdef SITU_HAVE_ISA_BF16
  if (situ__cpu_isa() >= SITU__ISA_BF16) sets[set_count++] = &situ__convert_bf16;
#endif
}

/* Every one of the 65,536 halves becomes what the format says it is, and comes back. */
static void every_half_there_and_back(void **state) {
  (void)state;
  static uint16_t h[65536], back[65536], strided[3 * 65536];
  static float f[65536];
  static double d[65536];
  for (int i = 0; i < 65536; i++) h[i] = strided[3 * i] = (uint16_t)i;
  for (int s = 0; s < set_count; s++)
    for (int k = 0; k < 2; k++)
      for (int gap = 1; gap <= 3; gap += 2) {
        const format *fmt = &formats[k];
        sets[s]->load[fmt->dtype][SITU__F32](gap == 1 ? h : strided, 2 * gap, 65536, f);
        sets[s]->load[fmt->dtype][SITU__F64](gap == 1 ? h : strided, 2 * gap, 65536, d);
        sets[s]->store[SITU__F32][fmt->dtype](f, 65536, back, 2);
        for (int i = 0; i < 65536; i++) {
          double want = decode((uint16_t)i, fmt->exponent_bits, fmt->fraction_bits);
          if (isnan(want)
                  ? !isnan(f[i]) || !isnan(d[i]) || !isnan(decode(back[i], fmt->exponent_bits, fmt->fraction_bits))
                  : (double)f[i] != want || d[i] != want || !signbit(f[i]) != !signbit(want) || back[i] != i)
            fail_msg("set %d, dtype %d: 0x%04x is %g (f64 %g), back 0x%04x; want %g", s, fmt->dtype, i, f[i], d[i],
                     back[i], want);
        }
      }
}

/* Between two neighbouring halves, at and around the middle: to the nearest, ties to the even one. */
static void halves_round_to_nearest_even(void **state) {
  (void)state;
  for (int s = 0; s < set_count; s++)
    for (int k = 0; k < 2; k++) {
      const format *fmt = &formats[k];
      const int infinite = ((1 << fmt->exponent_bits) - 1) << fmt->fraction_bits;
      for (int i = 0; i < infinite; i++) {
        double low = decode((uint16_t)i, fmt->exponent_bits, fmt->fraction_bits);
        double high = i + 1 == infinite ? 2 * low - decode((uint16_t)(i - 1), fmt->exponent_bits, fmt->fraction_bits)
                                        : decode((uint16_t)(i + 1), fmt->exponent_bits, fmt->fraction_bits);
        float middle = (float)((low + high) / 2);
        float x[LONG] = { middle,     nextafterf(middle, 0), nextafterf(middle, INFINITY), -middle,
                          (float)low, -nextafterf(middle, 0) };
        const int even = i % 2 ? i + 1 : i;
        const int want[6] = { even, i, i + 1, even | 0x8000, i, i | 0x8000 };
        uint16_t y[LONG];
        sets[s]->store[SITU__F32][fmt->dtype](x, LONG, y, 2);
        for (int j = 0; j < 6; j++)
          if (y[j] != want[j])
            fail_msg("set %d, dtype %d: %.9g is 0x%04x, want 0x%04x", s, fmt->dtype, x[j], y[j], want[j]);
      }
    }
}

/* A NaN whose highest fraction bits are 0, or all of them 1, must neither become an infinity nor wrap round. */
static void nan_stays_nan(void **state) {
  (void)state;
  const uint32_t bits[] = { 0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff,
                            0x7fc00000, 0x7f80ffff, 0x7fffffff, 0x7f801000 };
  float x[LONG];
  for (int i = 0; i < LONG; i++) memcpy(&x[i], &bits[i % 8], sizeof *x);
  for (int s = 0; s < set_count; s++)
    for (int k = 0; k < 2; k++)
      for (int gap = 1; gap < 3; gap++) {
        const format *fmt = &formats[k];
        uint16_t y[2 * LONG];
        sets[s]->store[SITU__F32][fmt->dtype](x, LONG, y, 2 * gap);
        for (int i = 0; i < LONG; i++) assert_true(isnan(decode(y[i * gap], fmt->exponent_bits, fmt->fraction_bits)));
      }
}

/* ---- floats to whole numbers ---- */

/* x[at] among small numbers, which are converted together where it allows that. */
static void expect_saturated(situ_dtype from, situ_dtype to, double low, double high, double x, int at) {
  test_view *a = view_new(from, SITU_SHAPE(LONG), VIEW_ROWS), *y = view_new(to, SITU_SHAPE(LONG), VIEW_ROWS);
  for (int i = 0; i < LONG; i++) view_set(a, i, i == at ? x : 1.75 * i - 20);
  situ_work work = { .ins = 1, .outs = 1, .in = { &a->d }, .out = { &y->d } };
  assert_int_equal(situ__cpu_copy(0, &work), SITU_OK);
  for (int i = 0; i < LONG; i++) {
    double v = view_get(a, i), want = isnan(v) ? 0 : fmin(fmax(trunc(v), low), high);
    if (view_get(y, i) != want) fail_msg("%g as %s is %g, want %g", v, situ_dtype_name(to), view_get(y, i), want);
  }
  view_free(a);
  view_free(y);
}

static void floats_truncate_and_saturate(void **state) {
  (void)state;
  const double x[] = { NAN,    INFINITY, -INFINITY,  300.9,       -1.9,         3e9,          -3e9,
                       1e19,   -1e19,    0.9,        -0.9,        127.5,        -128.5,       40000,
                       0x1p31, -0x1p31,  2147483520, -2147483520, 2147483647.0, -2147483904.0 };
  static const struct {
    situ_dtype dtype;
    double low, high;
  } ranges[] = {
    { SITU_U8, 0, UINT8_MAX },
    { SITU_I8, INT8_MIN, INT8_MAX },
    { SITU_I16, INT16_MIN, INT16_MAX },
    { SITU_I32, INT32_MIN, INT32_MAX },
    { SITU_I64, (double)INT64_MIN, (double)INT64_MAX },
  };
  for (int isa = -1; view_next_isa(&isa);)
    for (int r = 0; r < COUNT(ranges); r++)
      for (int k = 0; k < COUNT(x); k++)
        for (int at = 0; at < LONG; at++) {
          expect_saturated(SITU_F32, ranges[r].dtype, ranges[r].low, ranges[r].high, x[k], at);
          expect_saturated(SITU_F64, ranges[r].dtype, ranges[r].low, ranges[r].high, x[k], at);
        }
}

/* ---- copies ---- */

/* What a value of dtype `from` is as a `to`. */
static double as(double v, situ_dtype from, situ_dtype to) {
  int64_t whole = situ_dtype_is_floating(from) ? 0 : (int64_t)v;
  if (situ_dtype_is_floating(from) && !situ_dtype_is_floating(to) && to != SITU_BOOL) v = trunc(v);
  switch (to) {
  case SITU_BOOL: return v != 0;
  case SITU_U8: return situ_dtype_is_floating(from) ? fmin(fmax(v, 0), 255) : (uint8_t)whole;
  case SITU_I8: return situ_dtype_is_floating(from) ? v : (int8_t)whole;
  case SITU_F16: return (double)situ__f16_to_f32(situ__f32_to_f16((float)v));
  case SITU_BF16: return (double)situ__bf16_to_f32(situ__f32_to_bf16((float)v));
  case SITU_F32: return (double)(float)v;
  default: return v;
  }
}

static void every_dtype_to_every_other(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SCALAR, SITU_SHAPE(1), SITU_SHAPE(1100), SITU_SHAPE(7, 45),
                                SITU_SHAPE(2, 3, 4, 5) };
  for (int from = SITU_BOOL; from < SITU_DTYPES; from++)
    for (int to = SITU_BOOL; to < SITU_DTYPES; to++)
      for (int s = 0; s < COUNT(shapes); s++)
        for (int l = 0; l < 9; l++) {
          test_view *x = view_new((situ_dtype)from, shapes[s], (view_layout)(l % 3));
          test_view *y = view_new((situ_dtype)to, shapes[s], (view_layout)(l / 3));
          view_random(x, 1, from == SITU_U8 ? 0 : -120, 125);
          situ_work work = { .ins = 1, .outs = 1, .in = { &x->d }, .out = { &y->d } };
          assert_int_equal(situ__cpu_copy(0, &work), SITU_OK);
          for (int64_t i = 0; i < x->d.numel; i++) {
            double want = as(view_get(x, i), (situ_dtype)from, (situ_dtype)to);
            if (view_get(y, i) != want)
              fail_msg("%s %g as %s is %g, want %g", situ_dtype_name((situ_dtype)from), view_get(x, i),
                       situ_dtype_name((situ_dtype)to), view_get(y, i), want);
          }
          view_free(x);
          view_free(y);
        }
}

/* Any order of dimensions, steps and directions, on one thread and on several. */
static void any_strides(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SHAPE(3, 5, 7), SITU_SHAPE(65, 33), SITU_SHAPE(200, 301), SITU_SHAPE(2, 90, 170),
                                SITU_SHAPE(4, 1, 16, 16) };
  const situ_dtype dtypes[] = { SITU_U8, SITU_BF16, SITU_F32, SITU_I64 };
  for (int s = 0; s < COUNT(shapes); s++)
    for (int t = 0; t < 4; t++)
      for (int a = 0; a < shapes[s].ndim; a++)
        for (int b = 0; b < shapes[s].ndim; b++)
          for (int kind = 0; kind < 6; kind++) {
            test_view *x = view_new(dtypes[t], shapes[s], kind % 3 == 2 ? VIEW_GAPS : VIEW_ROWS);
            view_random(x, 7, -100, 100);
            /* Two dimensions change places; then the first is turned round, or does not move at all. */
            int64_t size = x->d.size[a], stride = x->d.stride[a];
            x->d.size[a] = x->d.size[b];
            x->d.stride[a] = x->d.stride[b];
            x->d.size[b] = size;
            x->d.stride[b] = stride;
            if (kind % 3 == 1) {
              x->d.offset += (x->d.size[a] - 1) * x->d.stride[a];
              x->d.stride[a] = -x->d.stride[a];
            } else if (kind == 3) {
              x->d.stride[a] = 0;
            }
            x->d.contiguous = false;
            situ_shape shape = { .ndim = x->d.ndim };
            memcpy(shape.dim, x->d.size, sizeof shape.dim);
            test_view *y = view_new(dtypes[t], shape, kind < 3 ? VIEW_ROWS : VIEW_GAPS);
            situ_work work = { .ins = 1, .outs = 1, .in = { &x->d }, .out = { &y->d } };
            assert_int_equal(situ__cpu_copy(0, &work), SITU_OK);
            assert_true(view_same(x, y));
            view_free(x);
            view_free(y);
          }
}

/* Rows of 1 to 300 bytes, which a set copies by its vectors: all of them, and nothing between them. */
static void rows_of_any_length(void **state) {
  (void)state;
  enum { ROWS = 3, MOST = 300, Y_STEP = MOST + 3, X_STEP = MOST + 7 };
  char x[ROWS * X_STEP], y[ROWS * Y_STEP];
  for (int i = 0; i < ROWS * X_STEP; i++) x[i] = (char)(i % 101 + 1);
  for (int s = 0; s < set_count; s++)
    for (int bytes = 1; bytes <= MOST; bytes++) {
      memset(y, 0, sizeof y);
      sets[s]->copy_rows(y, Y_STEP, x, X_STEP, ROWS, bytes);
      for (int i = 0; i < ROWS * Y_STEP; i++)
        if (y[i] != (i % Y_STEP < bytes ? x[i / Y_STEP * X_STEP + i % Y_STEP] : 0))
          fail_msg("set %d, %d bytes: row %d, byte %d", s, bytes, i / Y_STEP, i % Y_STEP);
    }
}

/* ---- constants, ranges, triangles ---- */

static void fill(void **state) {
  (void)state;
  for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++)
    for (int layout = 0; layout < VIEW_LAYOUTS; layout++)
      for (int zero = 0; zero < 2; zero++) {
        bool whole = !situ_dtype_is_floating((situ_dtype)dtype);
        test_view *y = view_new((situ_dtype)dtype, SITU_SHAPE(90, 400), (view_layout)layout);
        view_random(y, 3, 1, 9);
        situ_work work = {
          .outs = 1, .out = { &y->d }, .scalar = { whole || zero ? 0 : 2.5 }, .integer = { whole && !zero ? 3 : 0 }
        };
        assert_int_equal(situ__cpu_fill(0, &work), SITU_OK);
        double want = zero ? 0 : dtype == SITU_BOOL ? 1 : whole ? 3 : 2.5;
        for (int64_t i = 0; i < y->d.numel; i++) assert_true(view_get(y, i) == want);
        /* What lies between the elements is not touched. */
        if (layout == VIEW_GAPS)
          assert_int_equal(((char *)y->storage.data)[y->d.offset * (int64_t)situ_dtype_size((situ_dtype)dtype) - 1], 0);
        view_free(y);
      }
}

static void ranges(void **state) {
  (void)state;
  for (int dtype = SITU_U8; dtype < SITU_DTYPES; dtype++)
    for (int layout = 0; layout < VIEW_LAYOUTS; layout++) {
      test_view *y = view_new((situ_dtype)dtype, SITU_SHAPE(50), (view_layout)layout);
      situ_work work = { .outs = 1, .out = { &y->d }, .scalar = { 3, 2 } };
      assert_int_equal(situ__cpu_range(0, &work), SITU_OK);
      for (int64_t i = 0; i < 50; i++) assert_true(view_get(y, i) == (double)(3 + 2 * i));
      view_free(y);
    }
  test_view *y = view_new(SITU_F32, SITU_SHAPE(100000), VIEW_ROWS), *one = view_new(SITU_F32, SITU_SHAPE(1), VIEW_ROWS);
  const double start = -1, end = 0.1, step = (end - start) / 99999;
  situ_work work = { .op = 1, .outs = 1, .out = { &y->d }, .scalar = { start, step, end } };
  assert_int_equal(situ__cpu_range(0, &work), SITU_OK);
  assert_true(view_get(y, 0) == -1 && view_get(y, 99999) == (double)0.1f);
  for (int64_t i = 0; i < 100000; i++) assert_true(fabs(view_get(y, i) - (start + (double)i * step)) < 1e-7);
  work.out[0] = &one->d;
  assert_int_equal(situ__cpu_range(0, &work), SITU_OK);
  assert_true(view_get(one, 0) == -1);
  view_free(y);
  view_free(one);
  /* 49 steps of 1/49 are less than 1 in f64. */
  test_view *wide = view_new(SITU_F64, SITU_SHAPE(50), VIEW_ROWS);
  situ_work to_one = { .op = 1, .outs = 1, .out = { &wide->d }, .scalar = { 0, 1.0 / 49, 1 } };
  assert_int_equal(situ__cpu_range(0, &to_one), SITU_OK);
  assert_true(49 * (1.0 / 49) < 1 && view_get(wide, 49) == 1);
  view_free(wide);
  /* Beyond 2^53 whole numbers are still counted one by one. */
  test_view *far = view_new(SITU_I64, SITU_SHAPE(4), VIEW_ROWS);
  situ_work count = { .outs = 1, .out = { &far->d }, .scalar = { 0x1p60, 1 } };
  assert_int_equal(situ__cpu_range(0, &count), SITU_OK);
  assert_true(((int64_t *)far->storage.data)[3] == (INT64_C(1) << 60) + 3);
  view_free(far);
}

static void triangles(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SHAPE(4, 4), SITU_SHAPE(3, 7), SITU_SHAPE(7, 3), SITU_SHAPE(2, 3, 5, 4),
                                SITU_SHAPE(300, 250) };
  const int64_t diagonals[] = { 0, 1, -1, 2, -3, 100, -100, INT64_MAX, INT64_MIN };
  for (int s = 0; s < COUNT(shapes); s++)
    for (int l = 0; l < 9; l++)
      for (int k = 0; k < COUNT(diagonals); k++)
        for (int upper = 0; upper < 2; upper++) {
          const situ_dtype dtype = l % 2 ? SITU_F32 : SITU_I16;
          test_view *x = view_new(dtype, shapes[s], (view_layout)(l % 3)),
                    *y = view_new(dtype, shapes[s], (view_layout)(l / 3));
          view_random(x, 1, 1, 9);
          view_random(y, 2, 1, 9);
          situ_work work = {
            .op = upper, .ins = 1, .outs = 1, .in = { &x->d }, .out = { &y->d }, .integer = { diagonals[k] }
          };
          assert_int_equal(situ__cpu_triangle(0, &work), SITU_OK);
          int64_t columns = shapes[s].dim[shapes[s].ndim - 1], rows = shapes[s].dim[shapes[s].ndim - 2];
          for (int64_t i = 0; i < x->d.numel; i++) {
            double off = (double)(i % columns) - (double)(i / columns % rows), d = (double)diagonals[k];
            double want = (upper ? off >= d : off <= d) ? view_get(x, i) : 0;
            if (view_get(y, i) != want)
              fail_msg("element %d, diagonal %g: %g, want %g", (int)i, d, view_get(y, i), want);
          }
          view_free(x);
          view_free(y);
        }
}

/* Results larger than the caches go past them, in pieces that begin and end inside lines. */
static void large_casts(void **state) {
  (void)state;
  const int64_t n = (17 << 20) + 13, odd[] = { 3, 4096, 9 << 20, n - 1 };
  test_view *x = view_new(SITU_F32, SITU_SHAPE(n), VIEW_ROWS), *y = view_new(SITU_F16, SITU_SHAPE(n), VIEW_ROWS);
  int64_t lost = 0;
  situ_storage counter = { .data = &lost, .bytes = sizeof lost, .device = { SITU_CPU, 0 } };
  const situ_view_desc one = { .storage = &counter, .dtype = SITU_I64, .contiguous = true, .numel = 1 };
  const situ_work work = { .verb = SITU_VERB_COPY, .ins = 1, .outs = 2, .in = { &x->d }, .out = { &y->d, &one } };
  float *from = x->storage.data;
  for (int64_t i = 0; i < n; i++) from[i] = (float)(i % 2039);
  for (int i = 0; i < COUNT(odd); i++) from[odd[i]] = i == 1 ? INFINITY : i == 2 ? -1e30f : 65520;
  assert_int_equal(situ__cpu_copy(0, &work), SITU_OK);
  assert_int_equal(lost, 3);
  const uint16_t *to = y->storage.data;
  for (int64_t i = 0; i < n; i++)
    if (to[i] != situ__f32_to_f16(from[i])) fail_msg("element %d: %x", (int)i, to[i]);
  view_free(x);
  view_free(y);
}

int main(void) {
  find_sets();
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_half_there_and_back),
    cmocka_unit_test(halves_round_to_nearest_even),
    cmocka_unit_test(nan_stays_nan),
    cmocka_unit_test(floats_truncate_and_saturate),
    cmocka_unit_test(every_dtype_to_every_other),
    cmocka_unit_test(any_strides),
    cmocka_unit_test(rows_of_any_length),
    cmocka_unit_test(fill),
    cmocka_unit_test(ranges),
    cmocka_unit_test(triangles),
    cmocka_unit_test(large_casts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
