/* Draws by weights: how often each index comes, what never comes, refusals.
   SPDX-License-Identifier: MIT */
#include <math.h>

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

int main(void) {
  const struct CMUnitTest tests[] = { TEST(with_replacement), TEST(without_replacement), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
