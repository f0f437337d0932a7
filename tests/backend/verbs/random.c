/* Random numbers: the published vectors, the same bits however they are drawn, and the shapes of the distributions.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/cpu/elementwise/random.h"
#include "base/pool.h"
#include "support/verbs/views.h"

static const situ__random_rows *sets[3];
static int set_count;

static void find_sets(void) {
  sets[set_count++] = &situ__random_rows_base;
#ifdef SITU_HAVE_ISA_V3
  if (situ__cpu_isa() >= SITU__ISA_V3) sets[set_count++] = &situ__random_rows_v3;
#endif
#ifdef SITU_HAVE_ISA_V4
  if (situ__cpu_isa() >= SITU__ISA_V4) sets[set_count++] = &situ__random_rows_v4;
#endif
}

static test_view *draw(int op, situ_dtype dtype, situ_shape shape, view_layout layout, double a, double b,
                       uint64_t seed, uint64_t offset, const test_view *chance) {
  test_view *y = view_new(dtype, shape, layout);
  situ_work work = { .op = op,
                     .ins = chance != NULL,
                     .outs = 1,
                     .out = { &y->d },
                     .scalar = { a, b, op == SITU_RANDOM_UNIFORM ? nextafter(b, a) : 0 },
                     .seed = seed,
                     .offset = offset };
  if (op == SITU_RANDOM_INTEGER) {
    work.integer[0] = (int64_t)a;
    work.integer[1] = (int64_t)b;
  }
  if (chance) work.in[0] = &chance->d;
  assert_int_equal(situ__cpu_random(0, &work), SITU_OK);
  return y;
}

/* The known answers of Random123 1.14 (kat_vectors, philox4x32, 10 rounds). */
static void published_vectors(void **state) {
  (void)state;
  static const struct {
    uint64_t index, offset, seed;
    uint32_t want[4];
  } vectors[] = {
    { 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { 0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822, { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
  };
  for (int s = 0; s < set_count; s++)
    for (int k = 0; k < 3; k++) {
      uint32_t w[4];
      sets[s]->words(w, (int64_t)vectors[k].index, 1, vectors[k].seed, vectors[k].offset);
      assert_memory_equal(w, vectors[k].want, sizeof w);
    }
}

/* Blocks that are computed together are those that are computed one at a time, also where a counter's low half wraps. */
static void blocks_together(void **state) {
  (void)state;
  enum { COUNT = 19 };
  const uint64_t first = 0x7fffffffb, offset = 0x123456789abcdef0, seed = 0xfedcba9876543210;
  for (int s = 0; s < set_count; s++) {
    uint32_t together[4 * COUNT], one[4];
    sets[s]->words(together, (int64_t)first, COUNT, seed, offset);
    for (int k = 0; k < COUNT; k++) {
      sets[0]->words(one, (int64_t)first + k, 1, seed, offset);
      assert_memory_equal(together + 4 * k, one, sizeof one);
    }
  }
}

static void every_instruction_set_has_the_same_bits(void **state) {
  (void)state;
  enum { N = 4096 };
  static uint32_t w[3][N];
  static float f[3][N];
  static double d[3][N / 2];
  for (int s = 0; s < set_count; s++) {
    sets[s]->words(w[s], 12345, N / 4, 99, 7);
    sets[s]->normal_32(w[s], N / 2, f[s]);
    sets[s]->normal_64((const uint64_t *)(const void *)w[s], N / 4, d[s]);
    assert_memory_equal(w[s], w[0], sizeof w[s]);
    assert_memory_equal(f[s], f[0], sizeof f[s]);
    assert_memory_equal(d[s], d[0], sizeof d[s]);
  }
}

/* Written down once, so that no change of the code changes what a seed gives. */
static void bits_are_kept(void **state) {
  (void)state;
  test_view *u = draw(SITU_RANDOM_UNIFORM, SITU_F32, SITU_SHAPE(3), VIEW_ROWS, 0, 1, 1, 0, NULL);
  test_view *z = draw(SITU_RANDOM_NORMAL, SITU_F32, SITU_SHAPE(3), VIEW_ROWS, 0, 1, 1, 0, NULL);
  test_view *r = draw(SITU_RANDOM_RAW, SITU_I64, SITU_SHAPE(3), VIEW_ROWS, 0, 0, 1, 0, NULL);
  const double uniform[] = { 0x1.c7d00cp-1, 0x1.ca141cp-1, 0x1.2be444p-1 };
  const double normal[] = { -0x1.2f637cp-2, -0x1.8587c8p-2, -0x1.00fb7ap+0 };
  const uint64_t raw[] = { 0xe50a0ebce3e80670, 0xb615aa2795f222c0, 0xdfc5ccbeac08141b };
  for (int i = 0; i < 3; i++) {
    assert_true(view_get(u, i) == uniform[i]);
    assert_true(view_get(z, i) == normal[i]);
    assert_true(((uint64_t *)r->storage.data)[i] == raw[i]);
  }
  view_free(u);
  view_free(z);
  view_free(r);
}

/* An element's value depends on its index alone: not on how many there are, their layout, or the threads. */
static void elements_are_drawn_by_index(void **state) {
  (void)state;
  int before = situ__pool_threads();
  const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_F16, SITU_I64 };
  for (int op = 0; op <= SITU_RANDOM_INTEGER; op++)
    for (int t = 0; t < 4; t++) {
      double low = op == SITU_RANDOM_BERNOULLI ? 0.3 : -2, high = 5;
      assert_true(situ__pool_set_threads(1));
      test_view *all = draw(op, dtypes[t], SITU_SHAPE(100003), VIEW_ROWS, low, high, 11, 3, NULL);
      assert_true(situ__pool_set_threads(3));
      test_view *again = draw(op, dtypes[t], SITU_SHAPE(100003), VIEW_GAPS, low, high, 11, 3, NULL);
      assert_true(view_same(all, again));
      for (int n = 1; n < 70; n += 17) {
        test_view *few = draw(op, dtypes[t], SITU_SHAPE(n), VIEW_ROWS, low, high, 11, 3, NULL);
        for (int i = 0; i < n; i++) assert_true(view_get(few, i) == view_get(all, i));
        view_free(few);
      }
      test_view *other = draw(op, dtypes[t], SITU_SHAPE(100003), VIEW_ROWS, low, high, 11, 4, NULL);
      test_view *seeded = draw(op, dtypes[t], SITU_SHAPE(100003), VIEW_ROWS, low, high, 12, 3, NULL);
      assert_false(view_same(all, other));
      assert_false(view_same(all, seeded));
      view_free(all);
      view_free(again);
      view_free(other);
      view_free(seeded);
    }
  assert_true(situ__pool_set_threads(before));
}

/* ---- distributions: bounds, moments, and Kolmogorov's distance from the distribution function ---- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double distance(test_view *v, double (*cdf)(double)) {
  const int64_t n = v->d.numel;
  double *x = malloc((size_t)n * sizeof *x), worst = 0;
  for (int64_t i = 0; i < n; i++) x[i] = view_get(v, i);
  qsort(x, (size_t)n, sizeof *x, ascending);
  for (int64_t i = 0; i < n; i++) {
    double f = cdf(x[i]);
    worst = fmax(worst, fmax((double)(i + 1) / (double)n - f, f - (double)i / (double)n));
  }
  free(x);
  return worst;
}
static double uniform_cdf(double x) { return x; }
static double normal_cdf(double x) { return 0.5 * erfc(-x / sqrt(2)); }

enum { MANY = 200000 };
/* Kolmogorov's distance stays below 1.95 / sqrt(n) in 999 of 1000 samples; seeds are fixed, so this one does always. */
static const double NEAR = 1.95 / 447.2;

static void uniform(void **state) {
  (void)state;
  const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_F16, SITU_BF16 };
  const double grain[] = { 0x1p-24, 0x1p-53, 0x1p-11, 0x1p-8 };
  for (int t = 0; t < 4; t++) {
    test_view *v = draw(SITU_RANDOM_UNIFORM, dtypes[t], SITU_SHAPE(MANY), VIEW_ROWS, 0, 1, 5, 0, NULL);
    for (int64_t i = 0; i < MANY; i++) {
      double x = view_get(v, i);
      if (!(x >= 0 && x < 1) || fmod(x, grain[t]) != 0) fail_msg("%.17g", x);
    }
    double d = distance(v, uniform_cdf);
    if (d > NEAR + grain[t]) fail_msg("%s: distance %g", situ_dtype_name(dtypes[t]), d);
    view_free(v);
    v = draw(SITU_RANDOM_UNIFORM, dtypes[t], SITU_SHAPE(MANY), VIEW_ROWS, -3, 1, 5, 0, NULL);
    double sum = 0;
    for (int64_t i = 0; i < MANY; i++) {
      assert_true(view_get(v, i) >= -3 && view_get(v, i) <= 1);
      sum += view_get(v, i);
    }
    assert_true(fabs(sum / MANY + 1) < 0.015);
    view_free(v);
  }
}

static void normal(void **state) {
  (void)state;
  const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_F16 };
  for (int t = 0; t < 3; t++) {
    test_view *v = draw(SITU_RANDOM_NORMAL, dtypes[t], SITU_SHAPE(MANY), VIEW_ROWS, 0, 1, 6, 0, NULL);
    double d = distance(v, normal_cdf), moment[5] = { 0 }, neighbours = 0;
    for (int64_t i = 0; i < MANY; i++) {
      double x = view_get(v, i), power = 1;
      for (int k = 1; k <= 4; k++) moment[k] += (power *= x) / MANY;
      if (i) neighbours += x * view_get(v, i - 1) / MANY;
    }
    /* Each within four of its own standard deviations. */
    double s = 1 / sqrt(MANY);
    if (d > NEAR + (t == 2 ? 0x1p-11 : 0) || fabs(moment[1]) > 4 * s || fabs(moment[2] - 1) > 4 * 1.4143 * s ||
        fabs(moment[3]) > 4 * 3.88 * s || fabs(moment[4] - 3) > 4 * 9.8 * s || fabs(neighbours) > 4 * s)
      fail_msg("%s: distance %g, moments %g %g %g %g, neighbours %g", situ_dtype_name(dtypes[t]), d, moment[1],
               moment[2], moment[3], moment[4], neighbours);
    view_free(v);
    v = draw(SITU_RANDOM_NORMAL, dtypes[t], SITU_SHAPE(MANY), VIEW_ROWS, 3, 0.5, 6, 0, NULL);
    double sum = 0;
    for (int64_t i = 0; i < MANY; i++) sum += view_get(v, i);
    assert_true(fabs(sum / MANY - 3) < 0.005);
    view_free(v);
  }
}

/* Where the words are extreme the result is finite still, and as far out as the words allow. */
static void normal_has_no_holes(void **state) {
  (void)state;
  const uint32_t w[8] = { 0, 0, UINT32_MAX, UINT32_MAX, 0, 0x80000000u, UINT32_MAX, 0x40000000u };
  const uint64_t wide[4] = { 0, 0, UINT64_MAX, UINT64_MAX };
  for (int s = 0; s < set_count; s++) {
    float f[8];
    double d[4];
    sets[s]->normal_32(w, 4, f);
    sets[s]->normal_64(wide, 2, d);
    for (int i = 0; i < 8; i++) assert_true(isfinite(f[i]));
    for (int i = 0; i < 4; i++) assert_true(isfinite(d[i]));
    assert_true(fabs(f[0] - sqrt(-2 * log(0x1p-32))) < 1e-5);
    assert_true(fabs(d[0] - sqrt(-2 * log(0x1p-64))) < 1e-13);
  }
}

/* Against the formula in the C library's functions, with the same words. */
static void normal_is_box_and_muller(void **state) {
  (void)state;
  enum { N = 4000 };
  static uint32_t w[N];
  static uint64_t wide[N];
  static float f[N];
  static double d[N];
  sets[0]->words(w, 0, N / 4, 21, 0);
  sets[0]->words((uint32_t *)(void *)wide, 0, N / 2, 22, 0);
  sets[set_count - 1]->normal_32(w, N / 2, f);
  sets[set_count - 1]->normal_64(wide, N / 2, d);
  for (int i = 0; i < N; i += 2) {
    long double turn = (w[i + 1] >> 30) * acosl(-1) / 2 + (int32_t)(w[i + 1] << 2) * acosl(-1) / 2 * 0x1p-32L;
    long double radius = sqrtl(-2 * logl((float)(w[i] >> 1) * 0x1p-31f + 0x1p-32f));
    long double wide_turn =
        (wide[i + 1] >> 62) * acosl(-1) / 2 + (int64_t)(wide[i + 1] << 2) * acosl(-1) / 2 * 0x1p-64L;
    long double wide_radius = sqrtl(-2 * logl((double)(wide[i] >> 1) * 0x1p-63 + 0x1p-64));
    if (fabsl(f[i] - radius * cosl(turn)) > 4e-7L * radius || fabsl(f[i + 1] - radius * sinl(turn)) > 4e-7L * radius)
      fail_msg("f32 %d: %g %g, want %Lg %Lg", i, f[i], f[i + 1], radius * cosl(turn), radius * sinl(turn));
    if (fabsl(d[i] - wide_radius * cosl(wide_turn)) > 6e-16L * wide_radius ||
        fabsl(d[i + 1] - wide_radius * sinl(wide_turn)) > 6e-16L * wide_radius)
      fail_msg("f64 %d: %.17g, want %.17Lg", i, d[i], wide_radius * cosl(wide_turn));
  }
}

static void bernoulli_and_integers(void **state) {
  (void)state;
  const double chances[] = { 0, 0.1, 0.5, 0.9, 1 };
  for (int k = 0; k < 5; k++)
    for (int given = 0; given < 3; given++) {
      test_view *p = view_new(given == 2 ? SITU_F64 : SITU_F32, SITU_SHAPE(MANY), VIEW_ROWS);
      for (int64_t i = 0; i < MANY; i++) view_set(p, i, chances[k]);
      test_view *v =
          draw(SITU_RANDOM_BERNOULLI, SITU_F32, SITU_SHAPE(MANY), VIEW_ROWS, chances[k], 0, 8, 0, given ? p : NULL);
      double ones = 0;
      for (int64_t i = 0; i < MANY; i++) {
        assert_true(view_get(v, i) == 0 || view_get(v, i) == 1);
        ones += view_get(v, i);
      }
      assert_true(fabs(ones / MANY - chances[k]) <= 4 * sqrt(chances[k] * (1 - chances[k]) / MANY));
      view_free(v);
      view_free(p);
    }
  const int64_t ranges[][2] = { { 0, 2 }, { -3, 4 }, { 7, 8 }, { 0, 10 } };
  for (int k = 0; k < 4; k++) {
    int64_t low = ranges[k][0], n = ranges[k][1] - low, seen[10] = { 0 };
    test_view *v =
        draw(SITU_RANDOM_INTEGER, SITU_I32, SITU_SHAPE(MANY), VIEW_ROWS, (double)low, (double)ranges[k][1], 9, 0, NULL);
    for (int64_t i = 0; i < MANY; i++) {
      int64_t at = (int64_t)view_get(v, i) - low;
      assert_true(at >= 0 && at < n);
      seen[at]++;
    }
    for (int64_t at = 0; at < n; at++)
      assert_true(fabs((double)seen[at] - MANY / (double)n) <= 4 * sqrt(MANY / (double)n));
    view_free(v);
  }
  /* All of i64: the range has 2^64 - 1 numbers. */
  test_view *v = view_new(SITU_I64, SITU_SHAPE(1000), VIEW_ROWS);
  situ_work work = {
    .op = SITU_RANDOM_INTEGER, .outs = 1, .out = { &v->d }, .integer = { INT64_MIN, INT64_MAX }, .seed = 3
  };
  assert_int_equal(situ__cpu_random(0, &work), SITU_OK);
  int negative = 0;
  for (int64_t i = 0; i < 1000; i++) negative += view_get(v, i) < 0;
  assert_in_range(negative, 400, 600);
  view_free(v);
}

int main(void) {
  find_sets();
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(published_vectors),
    cmocka_unit_test(blocks_together),
    cmocka_unit_test(every_instruction_set_has_the_same_bits),
    cmocka_unit_test(bits_are_kept),
    cmocka_unit_test(elements_are_drawn_by_index),
    cmocka_unit_test(uniform),
    cmocka_unit_test(normal),
    cmocka_unit_test(normal_has_no_holes),
    cmocka_unit_test(normal_is_box_and_muller),
    cmocka_unit_test(bernoulli_and_integers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
