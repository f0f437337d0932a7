/* Activations and elementary functions that consist of other ops, and what all new ones refuse. Values are the golden tests'.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

static situ_tensor *glu(situ_tensor *const *in, void *dim) { return situ_glu(in[0], *(int *)dim); }
static situ_tensor *prelu(situ_tensor *const *in, void *none) { return (void)none, situ_prelu(in[0], in[1]); }
static situ_tensor *turned(situ_tensor *const *in, void *none) {
  return (void)none, situ_prelu(situ_transpose(in[0], 0, 1), in[1]);
}

static situ_tensor *random_of(situ_shape shape) { return test_random(shape, -1, 1, true); }

static void gradients(void **state) {
  (void)state;
  int dim = -1, first = 0;
  gradcheck(glu, &dim, random_of(SITU_SHAPE(3, 4)));
  gradcheck(glu, &first, random_of(SITU_SHAPE(2, 3, 2)));
  gradcheck(glu, &first, random_of(SITU_SHAPE(0, 3)));
  gradcheck(prelu, NULL, random_of(SITU_SHAPE(2, 3, 2)), random_of(SITU_SHAPE(3)));
  gradcheck(prelu, NULL, random_of(SITU_SHAPE(4)), random_of(SITU_SHAPE(1)));
  gradcheck(prelu, NULL, random_of(SITU_SCALAR), random_of(SITU_SCALAR));
  gradcheck(turned, NULL, random_of(SITU_SHAPE(3, 2)), random_of(SITU_SHAPE(3)));
}

/* Elements that the slope does not scale add nothing to its gradient, infinite ones neither. */
static void a_slope_reads_what_it_scales(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(4), INFINITY, 2, -3, 0), true);
  situ_tensor *w = situ_requires_grad_(T32(SITU_SHAPE(1), 0.5), true);
  situ_tensor *y = situ_prelu(x, w);
  expect_exact(y, SITU_SHAPE(4), INFINITY, 2, -1.5, 0);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(4), 1, 1, 0.5, 0.5);
  expect_exact(situ_grad(w), SITU_SHAPE(1), -3);
}

/* log(sigmoid(x)) where the sigmoid is 0, and of f64 where softplus with torch's threshold would cut. */
static void tails(void **state) {
  (void)state;
  expect_exact(situ_logsigmoid(T32(SITU_SHAPE(3), -200, 200, -INFINITY)), SITU_SHAPE(3), -200, -0.0, -INFINITY);
  situ_tensor *y = situ_logsigmoid(T64(SITU_SHAPE(1), -21));
  expect_close(y, SITU_SHAPE(1), 1e-15, 0, -21.000000000758256);
}

static void whole_numbers(void **state) {
  (void)state;
  situ_tensor *x = test_tensor(SITU_I32, SITU_SHAPE(3), (const double[]){ -1, 2, 9 });
  expect_exact(situ_relu6(x), SITU_SHAPE(3), 0, 2, 6);
  expect_exact(situ_threshold(x, 1.5, 4), SITU_SHAPE(3), 4, 2, 9);
  expect_exact(situ_threshold(x, 1.5, -4.5), SITU_SHAPE(3), -4, 2, 9);
  assert_int_equal(situ_dtype_of(situ_threshold(x, 1.5, 4)), SITU_I32);
  assert_int_equal(situ_dtype_of(situ_softsign(x)), SITU_F32);
  expect_values(situ_softsign(x), SITU_SHAPE(3), -0.5, 2 / 3.0, 0.9);
  expect_exact(situ_relu6_(x), SITU_SHAPE(3), 0, 2, 6);
}

static situ_tensor *fmax_of(situ_tensor *const *in, void *none) { return (void)none, situ_fmax(in[0], in[1]); }
static situ_tensor *clamped(situ_tensor *const *in, void *none) {
  return (void)none, situ_clamp_tensor(in[0], in[1], in[2]);
}
static situ_tensor *ldexp_of(situ_tensor *const *in, void *none) { return (void)none, situ_ldexp(in[0], in[1]); }
static void gradients_of_several(void **state) {
  (void)state;
  gradcheck(fmax_of, NULL, random_of(SITU_SHAPE(2, 3)), random_of(SITU_SHAPE(3)));
  gradcheck(clamped, NULL, random_of(SITU_SHAPE(2, 3)), random_of(SITU_SHAPE(3)), random_of(SITU_SHAPE(2, 1)));
  gradcheck(ldexp_of, NULL, random_of(SITU_SHAPE(2, 3)), random_of(SITU_SHAPE(3)));
}

/* Of two NaN the first one has the gradient. */
static void nan_and_nan(void **state) {
  (void)state;
  for (int which = 0; which < 2; which++) {
    situ_tensor *in[2];
    for (int k = 0; k < 2; k++) in[k] = situ_requires_grad_(T32(SITU_SHAPE(2), k ? 1 : NAN, NAN), true);
    situ_tensor *y = which ? situ_fmin(in[0], in[1]) : situ_fmax(in[0], in[1]);
    assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
    expect_values(situ_grad(in[0]), SITU_SHAPE(2), 0, 1);
    expect_values(situ_grad(in[1]), SITU_SHAPE(2), 1, 0);
  }
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *whole = TI64(SITU_SHAPE(2), 1, 2),
              *b = TBOOL(SITU_SHAPE(1), 1);
  expect_refused(situ_glu(x, 1), SITU_E_SHAPE, "glu", "dimension 1 of input has 3 elements");
  expect_refused(situ_glu(x, 2), SITU_E_ARG, "glu", "dimension 2");
  expect_refused(situ_glu(T32(SITU_SCALAR, 1), 0), SITU_E_SHAPE, "glu", "even");
  expect_refused(situ_glu(whole, 0), SITU_E_DTYPE, "glu", "input");
  expect_refused(situ_prelu(x, T32(SITU_SHAPE(2), 1, 1)), SITU_E_SHAPE, "prelu", "3 or 1");
  expect_refused(situ_prelu(x, T32(SITU_SHAPE(1, 3), 1, 1, 1)), SITU_E_SHAPE, "prelu", "1 dimension");
  expect_refused(situ_prelu(whole, x), SITU_E_DTYPE, "prelu", "input");
  expect_refused(situ_prelu(x, NULL), SITU_E_ARG, "prelu", "weight");
  expect_refused(situ_celu(x, 0), SITU_E_ARG, "celu", "alpha is 0");
  expect_refused(situ_softshrink(x, -1), SITU_E_ARG, "softshrink", "lambd is -1");
  expect_refused(situ_softshrink(x, NAN), SITU_E_ARG, "softshrink", "lambd");
  expect_refused(situ_selu(whole), SITU_E_DTYPE, "selu", "floating");
  expect_refused(situ_mish(whole), SITU_E_DTYPE, "mish", "floating");
  expect_refused(situ_logsigmoid(whole), SITU_E_DTYPE, "logsigmoid", "floating");
  expect_refused(situ_relu6(b), SITU_E_DTYPE, "relu6", "bool");
  expect_refused(situ_softsign(b), SITU_E_DTYPE, "softsign", "bool");
  expect_refused(situ_threshold(b, 0, 1), SITU_E_DTYPE, "threshold", "bool");
  expect_refused(situ_clamp_tensor(x, NULL, NULL), SITU_E_ARG, "clamp_tensor", "NULL");
  expect_refused(situ_heaviside(x, whole), SITU_E_DTYPE, "heaviside", "");
  expect_refused(situ_round_decimals(whole, 0), SITU_E_DTYPE, "round_decimals", "floating");
  expect_refused(situ_frac(whole), SITU_E_DTYPE, "frac", "floating");
  expect_refused(situ_hardtanh_(x, 2, 1), SITU_E_ARG, "hardtanh_", "min is 2");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(gradients),     TEST(a_slope_reads_what_it_scales), TEST(tails),
                                      TEST(whole_numbers), TEST(gradients_of_several),         TEST(nan_and_nan),
                                      TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
