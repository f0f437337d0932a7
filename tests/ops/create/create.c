/* Factories and random numbers as ops: shapes, dtypes, generators, refusals. The distributions are tests/backend/verbs/random.c's.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })

/* placement: A13 */
static void constants(void **state) {
  (void)state;
  expect_exact(situ_zeros(SITU_SHAPE(2, 2), HERE(0)), SITU_SHAPE(2, 2), 0, 0, 0, 0);
  expect_exact(situ_ones(SITU_SHAPE(3), HERE(.dtype = SITU_I16)), SITU_SHAPE(3), 1, 1, 1);
  expect_exact(situ_full(SITU_SCALAR, 2.5, HERE(.dtype = SITU_F16)), SITU_SCALAR, 2.5);
  expect_exact(situ_scalar_tensor(-3, HERE(.dtype = SITU_I8)), SITU_SCALAR, -3);
  expect_exact(situ_zeros(SITU_SHAPE(0, 5), HERE(0)), SITU_SHAPE(0, 5), 0);
  expect_exact(situ_eye(2, 3, HERE(0)), SITU_SHAPE(2, 3), 1, 0, 0, 0, 1, 0);
  expect_exact(situ_eye(2, -1, HERE(.dtype = SITU_BOOL)), SITU_SHAPE(2, 2), 1, 0, 0, 1);
  assert_int_equal(situ_numel(situ_eye(0, 4, HERE(0))), 0);
  situ_tensor *x = situ_ones(SITU_SHAPE(2), HERE(.dtype = SITU_F64));
  assert_int_equal(situ_dtype_of(situ_zeros_like(x, NULL)), SITU_F64);
  assert_int_equal(situ_dtype_of(situ_full_like(x, 1, &(situ_options){ .dtype = SITU_I32 })), SITU_I32);
  assert_true(situ_device_equal(situ_device_of(situ_randn_like(x, NULL)), test_device()));
  assert_true(situ_requires_grad(situ_zeros(SITU_SHAPE(1), HERE(.requires_grad = true))));
  assert_int_equal(situ_dtype_of(situ_zeros(SITU_SHAPE(1), NULL)), SITU_F32);
}

static void ranges(void **state) {
  (void)state;
  situ_tensor *whole = situ_arange(1, 8, 3, HERE(0));
  assert_int_equal(situ_dtype_of(whole), SITU_I64);
  expect_exact(whole, SITU_SHAPE(3), 1, 4, 7);
  expect_values(situ_arange(0, 1, 0.3, HERE(0)), SITU_SHAPE(4), 0, 0.3, 0.6, 0.9);
  expect_exact(situ_arange(3, 0, -1, HERE(0)), SITU_SHAPE(3), 3, 2, 1);
  assert_int_equal(situ_numel(situ_arange(2, 2, 1, HERE(0))), 0);
  expect_exact(situ_linspace(-1, 1, 5, HERE(0)), SITU_SHAPE(5), -1, -0.5, 0, 0.5, 1);
  expect_exact(situ_linspace(3, 9, 1, HERE(0)), SITU_SHAPE(1), 3);
  assert_int_equal(situ_numel(situ_linspace(3, 9, 0, HERE(0))), 0);
}

static situ_tensor *tril(situ_tensor *const *in, void *payload) { return situ_tril(in[0], *(const int64_t *)payload); }
static situ_tensor *triu(situ_tensor *const *in, void *payload) { return situ_triu(in[0], *(const int64_t *)payload); }

static void triangles(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
  expect_exact(situ_tril(x, 0), SITU_SHAPE(2, 3), 1, 0, 0, 4, 5, 0);
  expect_exact(situ_triu(x, 1), SITU_SHAPE(2, 3), 0, 2, 3, 0, 0, 6);
  expect_exact(situ_tril(situ_transpose(x, 0, 1), -1), SITU_SHAPE(3, 2), 0, 0, 2, 0, 3, 6);
  expect_refused(situ_tril(T32(SITU_SHAPE(3), 1, 2, 3), 0), SITU_E_SHAPE, "tril", "");
  int64_t diagonals[] = { 0, -1, 2 };
  for (int k = 0; k < 3; k++) {
    gradcheck(tril, &diagonals[k], test_random(SITU_SHAPE(3, 4), -1, 1, true));
    gradcheck(triu, &diagonals[k], test_random(SITU_SHAPE(2, 3, 3), -1, 1, true));
  }
}

/* A seed gives one sequence of draws; a generator of one's own another; its state can be put back. */
static void generators(void **state) {
  (void)state;
  situ_manual_seed(7);
  situ_tensor *a = situ_rand(SITU_SHAPE(1000), HERE(0)), *b = situ_rand(SITU_SHAPE(1000), HERE(0));
  situ_manual_seed(7);
  expect_same(situ_rand(SITU_SHAPE(1000), HERE(0)), a, 0, 0);
  situ_generator kept = situ_get_rng_state();
  expect_same(situ_rand(SITU_SHAPE(1000), HERE(0)), b, 0, 0);
  situ_set_rng_state(kept);
  expect_same(situ_rand(SITU_SHAPE(1000), HERE(0)), b, 0, 0);
  situ_generator own = situ_generator_seeded(7);
  expect_same(situ_rand(SITU_SHAPE(1000), HERE(.generator = &own)), a, 0, 0);
  assert_int_equal(own.offset, 1);
  double x[1000], y[1000];
  test_read(a, x);
  test_read(b, y);
  assert_memory_not_equal(x, y, sizeof x);
}

/* The bits are the cpu's on every device. */
/* placement: E1, E2 */
static void every_device_has_the_same_bits(void **state) {
  (void)state;
  const situ_device cpu = situ_dev("cpu");
  double here[1001], there[1001];
  for (int kind = 0; kind < 4; kind++)
    for (int t = SITU_F16; t <= SITU_F64; t++)
      for (int k = 0; k < 2; k++) {
        situ_generator g = situ_generator_seeded(3);
        const situ_options o = { .device = k ? cpu : test_device(), .dtype = (situ_dtype)t, .generator = &g };
        const situ_shape shape = SITU_SHAPE(7, 11, 13);
        situ_tensor *x = kind == 0   ? situ_rand(shape, &o)
                         : kind == 1 ? situ_randn(shape, &o)
                         : kind == 2 ? situ_randint(-9, 9, shape, &o)
                                     : situ_bernoulli_(situ_zeros(shape, &o), 0.4, &g);
        test_read(x, k ? here : there);
        if (k) assert_memory_equal(here, there, sizeof here);
      }
}

static void draws(void **state) {
  (void)state;
  double v[1000];
  test_read(situ_randint(-2, 3, SITU_SHAPE(1000), HERE(0)), v);
  int seen[5] = { 0 };
  for (int i = 0; i < 1000; i++) seen[(int)v[i] + 2]++;
  for (int k = 0; k < 5; k++) assert_in_range(seen[k], 130, 270);
  situ_tensor *order = situ_randperm(1000, HERE(0));
  assert_int_equal(situ_dtype_of(order), SITU_I64);
  test_read(order, v);
  bool met[1000] = { false };
  int still = 0;
  for (int i = 0; i < 1000; i++) {
    assert_false(met[(int)v[i]]);
    met[(int)v[i]] = true;
    still += (int)v[i] == i;
  }
  assert_in_range(still, 0, 10);
  situ_tensor *x = situ_zeros(SITU_SHAPE(10, 100), HERE(0));
  assert_ptr_equal(situ_uniform_(x, 2, 3, NULL), x);
  test_read(x, v);
  for (int i = 0; i < 1000; i++) assert_true(v[i] >= 2 && v[i] <= 3);
  assert_non_null(situ_normal_(situ_transpose(x, 0, 1), 100, 1, NULL));
  test_read(x, v);
  for (int i = 0; i < 1000; i++) assert_true(fabs(v[i] - 100) < 6);
  expect_exact(situ_bernoulli(T32(SITU_SHAPE(2, 2), 0, 1, 1, 0), NULL), SITU_SHAPE(2, 2), 0, 1, 1, 0);
  expect_exact(situ_fill_(situ_narrow(x, 1, 0, 1), 4), SITU_SHAPE(10, 1), 4, 4, 4, 4, 4, 4, 4, 4, 4, 4);
}

static void refusals(void **state) {
  (void)state;
  expect_refused(situ_full(SITU_SHAPE(1), 300, HERE(.dtype = SITU_U8)), SITU_E_ARG, "full", "u8");
  expect_refused(situ_full(SITU_SHAPE(1), NAN, HERE(.dtype = SITU_I32)), SITU_E_ARG, "full", "i32");
  expect_refused(situ_zeros(SITU_SHAPE(-1), HERE(0)), SITU_E_SHAPE, "zeros", "");
  expect_refused(situ_arange(0, 1, 0, HERE(0)), SITU_E_ARG, "arange", "step");
  expect_refused(situ_arange(0, 1, -1, HERE(0)), SITU_E_ARG, "arange", "away");
  expect_refused(situ_linspace(0, INFINITY, 3, HERE(0)), SITU_E_ARG, "linspace", "finite");
  expect_refused(situ_rand(SITU_SHAPE(1), HERE(.dtype = SITU_I64)), SITU_E_DTYPE, "rand", "i64");
  expect_refused(situ_randint(3, 3, SITU_SHAPE(1), HERE(0)), SITU_E_ARG, "randint", "");
  expect_refused(situ_normal_(situ_zeros(SITU_SHAPE(1), HERE(0)), 0, -1, NULL), SITU_E_ARG, "normal_", "");
  expect_refused(situ_bernoulli_(situ_zeros(SITU_SHAPE(1), HERE(0)), 1.5, NULL), SITU_E_ARG, "bernoulli_", "");
  expect_refused(situ_zeros(SITU_SHAPE(1), HERE(.requires_grad = true, .dtype = SITU_I64)), SITU_E_DTYPE, "", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(constants), TEST(ranges),  TEST(triangles), TEST(generators), TEST(every_device_has_the_same_bits),
    TEST(draws),     TEST(refusals)
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
