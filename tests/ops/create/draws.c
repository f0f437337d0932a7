/* Draws by weights: how often each index comes, what never comes, refusals. Draws within bounds: no number is outside.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "situ/random.h"
#include "support/test.h"

enum { N = 5, MANY = 20000 };

/* What is drawn, i64, counted in seen[N]; every row has `per_row` indices. */
static void count(situ_tensor *drawn, int64_t per_row, bool repeats, int *seen) {
  static int64_t at[MANY];
  const int64_t total = situ_numel(drawn);
  assert_int_equal(situ_dtype_of(drawn), SITU_I64);
  assert_int_equal(situ_copy_to_host(drawn, at, (size_t)total * sizeof *at), SITU_OK);
  for (int i = 0; i < N; i++) seen[i] = 0;
  for (int64_t i = 0; i < total; i++) {
    assert_in_range(at[i], 0, N - 1);
    for (int64_t k = i - i % per_row; !repeats && k < i; k++) assert_int_not_equal(at[k], at[i]);
    seen[at[i]]++;
  }
}

/* Pearson's sum; above 18.5 once in 1,000 times with 4 degrees of freedom, 3 of them here, and the seed is fixed. */
static void expect_chances(const int *seen, const double *chance, int total) {
  double sum = 0;
  for (int i = 0; i < N; i++) {
    const double want = chance[i] * total;
    if (want == 0) assert_int_equal(seen[i], 0);
    else sum += (seen[i] - want) * (seen[i] - want) / want;
  }
  if (sum > 18.5) fail_msg("the sum of squares is %g", sum);
}

static void with_replacement(void **state) {
  (void)state;
  int seen[N];
  situ_generator g = situ_generator_seeded(5);
  situ_tensor *weights = T32(SITU_SHAPE(N), 0, 1, 2, 0, 5);
  count(situ_multinomial(weights, MANY, true, &g), 1, true, seen);
  expect_chances(seen, (double[]){ 0, 0.125, 0.25, 0, 0.625 }, MANY);
  situ_tensor *rows = situ_multinomial(T64(SITU_SHAPE(2, 2), 0, 3, 2, 0), 3, true, &g);
  expect_exact(rows, SITU_SHAPE(2, 3), 1, 1, 1, 0, 0, 0);
  expect_exact(situ_multinomial(situ_to_dtype(T32(SITU_SHAPE(3), 0, 0, 1e-7), SITU_F16), 2, true, &g), SITU_SHAPE(2), 2,
               2);
}

/* The first of two drawn has the chances of the weights; the second those of what is left. */
static void without_replacement(void **state) {
  (void)state;
  int seen[N];
  situ_generator g = situ_generator_seeded(6);
  situ_tensor *rows = situ_expand(T32(SITU_SHAPE(N), 0, 1, 2, 0, 5), SITU_SHAPE(MANY / 2, N));
  situ_tensor *drawn = situ_multinomial(rows, 2, false, &g);
  count(drawn, 2, false, seen);
  count(situ_select(drawn, 1, 0), 1, true, seen);
  expect_chances(seen, (double[]){ 0, 0.125, 0.25, 0, 0.625 }, MANY / 2);
  count(situ_select(drawn, 1, 1), 1, true, seen);
  const double first[] = { 0.125, 0.25, 0.625 };
  double next[3];
  for (int i = 0; i < 3; i++) {
    next[i] = 0;
    for (int k = 0; k < 3; k++)
      if (k != i) next[i] += first[k] * first[i] / (1 - first[k]);
  }
  expect_chances(seen, (double[]){ 0, next[0], next[1], 0, next[2] }, MANY / 2);
}

static void refusals(void **state) {
  (void)state;
#define REFUSED(weights, many, replacement, code, word) \
  expect_refused(situ_multinomial(weights, many, replacement, NULL), code, "multinomial", word)
  situ_tensor *good = T32(SITU_SHAPE(3), 1, 2, 0);
  REFUSED(T32(SITU_SHAPE(3), 1, -1, 1), 1, true, SITU_E_ARG, "negative");
  REFUSED(T32(SITU_SHAPE(3), 1, NAN, 1), 1, true, SITU_E_ARG, "NaN");
  REFUSED(T32(SITU_SHAPE(3), 1, INFINITY, 1), 1, false, SITU_E_ARG, "finite");
  REFUSED(T32(SITU_SHAPE(2, 2), 1, 1, 0, 0), 1, true, SITU_E_ARG, "above 0");
  REFUSED(good, 3, false, SITU_E_ARG, "less than 3 weights");
  REFUSED(good, 4, false, SITU_E_ARG, "4 samples of 3");
  REFUSED(good, 0, true, SITU_E_ARG, "at least 1");
  REFUSED(situ_reshape(good, SITU_SHAPE(1, 1, 3)), 1, true, SITU_E_SHAPE, "[1, 1, 3]");
  REFUSED(situ_to_dtype(good, SITU_I64), 1, true, SITU_E_DTYPE, "i64");
}

/* ---- bounds: [low, high) in every dtype, at bounds a few of its steps apart, and wide ---- */

static const struct {
  situ_dtype dtype;
  int digits, least; /* of the dtype; least: the exponent of its smallest number */
} floats[] = { { SITU_F16, 11, -24 }, { SITU_BF16, 8, -133 }, { SITU_F32, 24, -149 }, { SITU_F64, 53, -1074 } };
static const int steps[] = { 0, 1, 2, 3, 5, 7, 100, 1 << 20 };
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* Every element is in [low, high), or low where that is empty, and has the cpu's bits. */
static void expect_within(situ_tensor *drawn, situ_tensor *on_cpu, double low, double high) {
  static double x[MANY], want[MANY];
  assert_int_equal(situ_copy_to_host(situ_to_dtype(drawn, SITU_F64), x, sizeof x), SITU_OK);
  assert_int_equal(situ_copy_to_host(situ_to_dtype(on_cpu, SITU_F64), want, sizeof want), SITU_OK);
  for (int i = 0; i < MANY; i++)
    if (x[i] < low || (x[i] >= high && x[i] != low) || memcmp(&x[i], &want[i], sizeof *x) != 0)
      fail_msg("%s in [%.17g, %.17g): %.17g, cpu %.17g", situ_dtype_name(situ_dtype_of(drawn)), low, high, x[i],
               want[i]);
}

static void draw_uniform(situ_dtype dtype, double low, double high) {
  situ_scope s;
  situ_scope_begin(&s);
  const situ_options here = { .dtype = dtype, .device = test_device() }, cpu = { .dtype = dtype };
  situ_generator g = situ_generator_seeded(3), same = g;
  double least; /* low as a number of the dtype */
  assert_int_equal(situ_item(situ_full(SITU_SCALAR, low, &cpu), &least), SITU_OK);
  expect_within(situ_uniform_(situ_empty(SITU_SHAPE(MANY), &here), low, high, &g),
                situ_uniform_(situ_empty(SITU_SHAPE(MANY), &cpu), low, high, &same), least, high);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

static void uniform_stays_below_high(void **state) {
  (void)state;
  static const double lows[] = { 0, 1, -1, 1.5, 10, -10, 1000, -3e4, 6e-8, -6e-8, 1e-30, 1e30, 3e-45 };
  for (int t = 0; t < COUNT(floats); t++) {
    const situ_dtype dtype = floats[t].dtype;
    const int digits = floats[t].digits, least = floats[t].least;
    for (int k = 0; k < COUNT(lows); k++) {
      const int exponent = lows[k] == 0 ? least : ilogb(lows[k]) + 1 - digits;
      const double unit = ldexp(1, exponent > least ? exponent : least), low = rint(lows[k] / unit) * unit;
      for (int n = 0; n < COUNT(steps) && (fabs(low) < 6e4 || dtype != SITU_F16); n++) {
        const double high = low + steps[n] * unit;
        if (fabs(high) > 6e4 && dtype == SITU_F16) continue;
        draw_uniform(dtype, low, high);
        draw_uniform(dtype, -high, -low);
      }
    }
    draw_uniform(dtype, -1e4, 1e4);
    draw_uniform(dtype, 0, 1);
    draw_uniform(dtype, -0.0, 5e-324);
  }
}

static void randint_stays_below_high(void **state) {
  (void)state;
  static const situ_dtype dtypes[] = { SITU_BOOL, SITU_U8,  SITU_I8,   SITU_I16, SITU_I32,
                                       SITU_I64,  SITU_F16, SITU_BF16, SITU_F32, SITU_F64 };
  /* clang-format off */
  static const int64_t bounds[][2] = { { 0, 2 }, { 0, 300 }, { 0, 5000 }, { -5000, 5001 }, { 255, 260 }, { 257, 258 },
    { 257, 301 }, { -301, -256 }, { -258, -257 }, { 2047, 2052 }, { 2049, 2050 }, { 65000, 65504 },
    { 1 << 24, 1 << 25 }, { 16777217, 16777219 }, { -16777219, 16777219 }, { INT64_MIN, 0 }, { INT64_MIN, INT64_MAX },
    { (1LL << 53) + 1, (1LL << 53) + 3 } };
  /* clang-format on */
  for (int t = 0; t < COUNT(dtypes); t++) {
    int drawn = 0;
    for (int k = 0; k < COUNT(bounds); k++) {
      const int64_t low = bounds[k][0], high = bounds[k][1];
      situ_generator g = situ_generator_seeded(4), same = g;
      const situ_options here = { .dtype = dtypes[t], .device = test_device(), .generator = &g },
                         cpu = { .dtype = dtypes[t], .generator = &same };
      situ_scope s;
      situ_scope_begin(&s);
      situ_tensor *x = situ_randint(low, high, SITU_SHAPE(MANY), &here);
      if (!x) expect_error(SITU_E_ARG, "randint", "");
      else drawn++, expect_within(x, situ_randint(low, high, SITU_SHAPE(MANY), &cpu), (double)low, (double)high);
      SITU_IGNORE(situ_scope_end(&s));
    }
    assert_int_not_equal(drawn, 0);
  }
  assert_non_null(situ_randint(257, 259, SITU_SHAPE(9), &(situ_options){ .dtype = SITU_BF16 }));
  expect_refused(situ_randint(257, 258, SITU_SHAPE(9), &(situ_options){ .dtype = SITU_BF16 }), SITU_E_ARG, "randint",
                 "no whole number of bf16");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(with_replacement), TEST(without_replacement), TEST(refusals),
                                      TEST(uniform_stays_below_high), TEST(randint_stays_below_high) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
