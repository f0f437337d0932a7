/* Element-wise functions of one tensor as ops: gradients, dtypes, shapes of every kind, in place, refusals. Their values
   are the golden tests'.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

typedef situ_tensor *(*function)(situ_tensor *);
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static situ_tensor *leaky_relu(situ_tensor *x) { return situ_leaky_relu(x, 0.1); }
static situ_tensor *elu(situ_tensor *x) { return situ_elu(x, 1.5); }
static situ_tensor *celu(situ_tensor *x) { return situ_celu(x, 1.5); }
static situ_tensor *softshrink(situ_tensor *x) { return situ_softshrink(x, 0.51); }
static situ_tensor *hardshrink(situ_tensor *x) { return situ_hardshrink(x, 0.51); }
static situ_tensor *threshold(situ_tensor *x) { return situ_threshold(x, 0.51, 7); }
static situ_tensor *gelu(situ_tensor *x) { return situ_gelu(x, SITU_GELU_NONE); }
static situ_tensor *gelu_tanh(situ_tensor *x) { return situ_gelu(x, SITU_GELU_TANH); }
static situ_tensor *softplus(situ_tensor *x) { return situ_softplus(x, 2, 3); }
static situ_tensor *hardtanh(situ_tensor *x) { return situ_hardtanh(x, -1.01, 1.01); }
static situ_tensor *clamp(situ_tensor *x) { return situ_clamp(x, -INFINITY, 1.01); }
static situ_tensor *nan_to_num(situ_tensor *x) { return situ_nan_to_num(x, NULL); }
static situ_tensor *add_scalar(situ_tensor *x) { return situ_add_scalar(x, 1.5); }
static situ_tensor *sub_scalar(situ_tensor *x) { return situ_sub_scalar(x, 1.5); }
static situ_tensor *rsub_scalar(situ_tensor *x) { return situ_rsub_scalar(x, 1.5); }
static situ_tensor *mul_scalar(situ_tensor *x) { return situ_mul_scalar(x, -1.5); }
static situ_tensor *div_scalar(situ_tensor *x) { return situ_div_scalar(x, -1.5); }
static situ_tensor *cube(situ_tensor *x) { return situ_pow_scalar(x, 3); }
static situ_tensor *two_to(situ_tensor *x) { return situ_scalar_pow(2, x); }
static situ_tensor *fmod_scalar(situ_tensor *x) { return situ_fmod_scalar(x, 0.7); }
static situ_tensor *remainder_scalar(situ_tensor *x) { return situ_remainder_scalar(x, 0.7); }
static situ_tensor *power(situ_tensor *x) { return situ_pow_scalar(x, 1.7); }
/* Of arguments within (-1, 1). */
static situ_tensor *within(situ_tensor *x) { return situ_tanh(situ_mul_scalar(x, 0.5)); }
static situ_tensor *tan_half(situ_tensor *x) { return situ_tan(within(x)); }
static situ_tensor *asin_half(situ_tensor *x) { return situ_asin(within(x)); }
static situ_tensor *acos_half(situ_tensor *x) { return situ_acos(within(x)); }
static situ_tensor *atanh_half(situ_tensor *x) { return situ_atanh(within(x)); }
static situ_tensor *erfinv_half(situ_tensor *x) { return situ_erfinv(within(x)); }
static situ_tensor *logit_half(situ_tensor *x) { return situ_logit(situ_sigmoid(x), 0.1234); }
static situ_tensor *trigamma(situ_tensor *x) { return situ_polygamma(1, x); }
static situ_tensor *polygamma_4(situ_tensor *x) { return situ_polygamma(4, x); }

/* Any argument, and those that must be positive. Samples are at 0.13, 0.23, ... from 0 and 1, so at no kink. */
static const struct {
  function f;
  double low;
} differentiable[] = {
  { situ_neg, -3 },
  { situ_abs, -3 },
  { situ_sign, -3 },
  { situ_exp, -3 },
  { situ_expm1, -3 },
  { situ_sin, -3 },
  { situ_cos, -3 },
  { situ_tanh, -3 },
  { situ_sigmoid, -3 },
  { situ_relu, -3 },
  { situ_silu, -3 },
  { situ_erf, -3 },
  { situ_floor, -3 },
  { situ_ceil, -3 },
  { situ_round, -3 },
  { situ_trunc, -3 },
  { situ_square, -3 },
  { situ_reciprocal, 0.5 },
  { situ_log, 0.2 },
  { situ_log1p, -0.5 },
  { situ_log2, 0.2 },
  { situ_sqrt, 0.2 },
  { situ_rsqrt, 0.2 },
  { leaky_relu, -3 },
  { elu, -3 },
  { gelu, -3 },
  { gelu_tanh, -3 },
  { softplus, -3 },
  { hardtanh, -3 },
  { clamp, -3 },
  { nan_to_num, -3 },
  { add_scalar, -3 },
  { sub_scalar, -3 },
  { rsub_scalar, -3 },
  { mul_scalar, -3 },
  { div_scalar, -3 },
  { cube, -3 },
  { two_to, -3 },
  { fmod_scalar, -3 },
  { remainder_scalar, -3 },
  { power, 0.2 },
  { situ_quick_gelu, -3 },
  { tan_half, -3 },
  { asin_half, -3 },
  { acos_half, -3 },
  { atanh_half, -3 },
  { erfinv_half, -3 },
  { logit_half, -3 },
  { situ_atan, -3 },
  { situ_sinh, -3 },
  { situ_cosh, -3 },
  { situ_asinh, -3 },
  { situ_acosh, 1.2 },
  { situ_exp2, -3 },
  { situ_log10, 0.2 },
  { situ_erfc, -3 },
  { situ_lgamma, 0.2 },
  { situ_lgamma, -3.4 },
  { situ_digamma, 0.2 },
  { trigamma, 0.2 },
  { trigamma, -3.4 },
  { polygamma_4, 0.4 },
  { situ_i0, -3 },
  { situ_i0, 22 },
  { situ_sinc, -3 },
  { situ_special_entr, 0.2 },
  { situ_mish, -3 },
  { situ_hardswish, -3.5 },
  { situ_hardsigmoid, -3.5 },
  { situ_relu6, -3 },
  { situ_selu, -3 },
  { celu, -3 },
  { situ_logsigmoid, -3 },
  { situ_softsign, -3 },
  { situ_tanhshrink, -3 },
  { softshrink, -3 },
  { hardshrink, -3 },
  { threshold, -3 },
};

static situ_tensor *apply(situ_tensor *const *in, void *payload) { return (*(const function *)payload)(in[0]); }
static situ_tensor *apply_transposed(situ_tensor *const *in, void *payload) {
  return (*(const function *)payload)(situ_transpose(in[0], 0, 1));
}

/* A sample: steps of 0.1 from low + 0.03. */
static situ_tensor *sample(situ_shape shape, double low) {
  double v[64];
  int64_t n = 1;
  for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
  for (int64_t i = 0; i < n; i++) v[i] = low + 0.03 + 0.1 * (double)((i * 17) % 59);
  return situ_requires_grad_(test_tensor(SITU_F64, shape, v), true);
}

static void gradients(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SCALAR,      SITU_SHAPE(1),       SITU_SHAPE(7),
                                SITU_SHAPE(3, 5), SITU_SHAPE(2, 1, 4), SITU_SHAPE(0, 3) };
  for (int k = 0; k < COUNT(differentiable); k++) {
    function f = differentiable[k].f;
    if (!test_is_mine((size_t)k)) continue;
    for (int s = 0; s < COUNT(shapes); s++) gradcheck(apply, &f, sample(shapes[s], differentiable[k].low));
    gradcheck(apply_transposed, &f, sample(SITU_SHAPE(4, 6), differentiable[k].low));
  }
}

/* Whole numbers: some functions keep their dtype, the others give f32. */
static void dtypes(void **state) {
  (void)state;
  const function keep[] = { situ_neg,   situ_abs,  situ_sign,  situ_square, situ_relu,
                            situ_floor, situ_ceil, situ_round, situ_trunc };
  const function give_f32[] = { situ_exp,  situ_log,     situ_sqrt,       situ_sin,
                                situ_tanh, situ_sigmoid, situ_reciprocal, situ_erf };
  const function give_bool[] = { situ_isnan, situ_isinf, situ_logical_not };
  for (int t = SITU_I8; t < SITU_DTYPES; t++) {
    bool whole = !situ_dtype_is_floating((situ_dtype)t);
    situ_tensor *x = test_tensor((situ_dtype)t, SITU_SHAPE(3), (const double[]){ 4, 2, 1 });
    for (int k = 0; k < COUNT(keep); k++) assert_int_equal(situ_dtype_of(keep[k](x)), t);
    for (int k = 0; k < COUNT(give_f32); k++) assert_int_equal(situ_dtype_of(give_f32[k](x)), whole ? SITU_F32 : t);
    for (int k = 0; k < COUNT(give_bool); k++) assert_int_equal(situ_dtype_of(give_bool[k](x)), SITU_BOOL);
    assert_int_equal(situ_dtype_of(situ_add_scalar(x, 2)), t);
    assert_int_equal(situ_dtype_of(situ_add_scalar(x, 0.5)), whole ? SITU_F32 : t);
    assert_int_equal(situ_dtype_of(situ_div_scalar(x, 2)), whole ? SITU_F32 : t);
    assert_int_equal(situ_dtype_of(situ_lt_scalar(x, 2)), SITU_BOOL);
    expect_exact(situ_square(x), SITU_SHAPE(3), 16, 4, 1);
  }
  situ_tensor *b = TBOOL(SITU_SHAPE(2), 1, 0);
  expect_exact(situ_bitwise_not(b), SITU_SHAPE(2), 0, 1);
  expect_exact(situ_bitwise_not(TI64(SITU_SHAPE(2), 5, -1)), SITU_SHAPE(2), -6, 0);
  expect_exact(situ_add_scalar(b, 2), SITU_SHAPE(2), 3, 2);
}

/* Empty, 0-dim, views: the result has the operand's shape and order. */
static void shapes(void **state) {
  (void)state;
  expect_exact(situ_relu(T32(SITU_SHAPE(0, 3), 0)), SITU_SHAPE(0, 3), 0);
  expect_exact(situ_neg(T32(SITU_SCALAR, 2)), SITU_SCALAR, -2);
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, -2, 3, -4, 5, -6);
  expect_exact(situ_relu(situ_transpose(x, 0, 1)), SITU_SHAPE(3, 2), 1, 0, 0, 5, 3, 0);
  expect_exact(situ_abs(situ_select(x, 1, 1)), SITU_SHAPE(2), 2, 5);
  expect_exact(situ_neg(situ_expand(T32(SITU_SHAPE(2, 1), 1, 2), SITU_SHAPE(2, 3))), SITU_SHAPE(2, 3), -1, -1, -1, -2,
               -2, -2);
  expect_exact(situ_square(situ_flip(x, SITU_DIMS(1))), SITU_SHAPE(2, 3), 9, 4, 1, 36, 25, 16);
  expect_exact(situ_sub_scalar(x, 2), SITU_SHAPE(2, 3), -1, -4, 1, -6, 3, -8);
  expect_exact(situ_rsub_scalar(x, 2), SITU_SHAPE(2, 3), 1, 4, -1, 6, -3, 8);
  expect_exact(situ_relu(T32(SITU_SHAPE(4), NAN, INFINITY, -INFINITY, -1)), SITU_SHAPE(4), NAN, INFINITY, 0, 0);
}

static void in_place(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 2), 4, 9, 16, 25);
  assert_ptr_equal(situ_sqrt_(x), x);
  expect_exact(x, SITU_SHAPE(2, 2), 2, 3, 4, 5);
  assert_non_null(situ_neg_(situ_select(x, 0, 1))); /* a view: the base sees it */
  expect_exact(x, SITU_SHAPE(2, 2), 2, 3, -4, -5);
  assert_non_null(situ_clamp_(x, -4, 2.5));
  expect_exact(x, SITU_SHAPE(2, 2), 2, 2.5, -4, -4);
  assert_non_null(situ_mul_scalar_(situ_transpose(x, 0, 1), 2));
  expect_exact(x, SITU_SHAPE(2, 2), 4, 5, -8, -8);
  /* The gradient of what was written over an inner value. */
  situ_tensor *leaf = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true), *y = situ_mul_scalar(leaf, 3);
  assert_non_null(situ_exp_(y));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_values(situ_grad(leaf), SITU_SHAPE(2), 3 * exp(3), 3 * exp(6));
  assert_int_equal(situ_set_grad(leaf, NULL), SITU_OK);
}

/* f32 functions of every magnitude, on whatever device: within four units in the last place of the exact value. */
static void last_places(void **state) {
  (void)state;
  static const struct {
    const char *name;
    situ_tensor *(*op)(situ_tensor *);
    double (*exact)(double);
    double largest;
    bool both_signs;
  } rows[] = { { "exp", situ_exp, exp, 87, true },         { "expm1", situ_expm1, expm1, 80, true },
               { "log", situ_log, log, 1e38, false },      { "log1p", situ_log1p, log1p, 1e38, false },
               { "log1p", situ_log1p, log1p, 0.99, true }, { "tanh", situ_tanh, tanh, 20, true },
               { "erf", situ_erf, erf, 6, true } };
  enum { COUNT = 4096 };
  static float x[COUNT], y[COUNT];
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    for (int i = 0; i < COUNT; i++) {
      /* Half of them of every magnitude, half where most of the curve is. */
      double part = (double)(i + 1) / COUNT, top = rows[k].largest;
      double size = i & 2 ? top * pow(1e-38 / top, part) : part * fmin(top, 10);
      x[i] = (float)(rows[k].both_signs && i % 2 ? -size : size);
    }
    situ_tensor *t = situ_empty(SITU_SHAPE(COUNT), &(situ_options){ .device = test_device() });
    assert_int_equal(situ_copy_from_host(t, x, sizeof x), SITU_OK);
    assert_int_equal(situ_copy_to_host(rows[k].op(t), y, sizeof y), SITU_OK);
    for (int i = 0; i < COUNT; i++) {
      double want = rows[k].exact((double)x[i]);
      float near = fabsf((float)want), unit = nextafterf(near, INFINITY) - near;
      if (!(fabs((double)y[i] - want) <= 4 * (double)unit))
        fail_msg("%s(%.9g) is %.9g, not %.9g", rows[k].name, (double)x[i], (double)y[i], want);
    }
  }
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *whole = TI64(SITU_SHAPE(2), 1, 2);
  expect_refused(situ_exp_(whole), SITU_E_DTYPE, "exp_", "");
  expect_refused(situ_add_scalar_(whole, 0.5), SITU_E_DTYPE, "", "");
  expect_refused(situ_mul_scalar_(whole, INFINITY), SITU_E_DTYPE, "", "inf");
  expect_refused(situ_logit(T32(SITU_SHAPE(1), 0.55), 0.6), SITU_E_ARG, "logit", "at most 0.5");
  expect_refused(situ_remainder_scalar(whole, 0), SITU_E_ARG, "", "division by zero");
  expect_refused(situ_pow_scalar(whole, -1), SITU_E_ARG, "pow_scalar", "negative");
  expect_exact(situ_clamp(whole, NAN, 1), SITU_SHAPE(2), NAN, NAN);
  expect_refused(situ_clamp_(whole, NAN, 1), SITU_E_DTYPE, "clamp_", "nan");
  expect_refused(situ_bitwise_not(T32(SITU_SHAPE(1), 1)), SITU_E_DTYPE, "bitwise_not", "f32");
  situ_tensor *leaf = situ_requires_grad_(T32(SITU_SHAPE(2), 1, 2), true);
  expect_refused(situ_exp_(leaf), SITU_E_STATE, "exp_", "leaf");
  expect_exact(leaf, SITU_SHAPE(2), 1, 2);
  expect_refused(situ_relu(NULL), SITU_E_ARG, "relu", "NULL");
  expect_refused(situ_hardtanh(T32(SITU_SHAPE(1), 1), 2, 1), SITU_E_ARG, "hardtanh", "min is 2, max 1");
  expect_refused(situ_polygamma(-1, leaf), SITU_E_ARG, "polygamma", "n is -1");
  expect_refused(situ_polygamma(171, leaf), SITU_E_ARG, "polygamma", "170");
  expect_exact(situ_hardtanh(T32(SITU_SHAPE(2), 1, 3), 2, 2), SITU_SHAPE(2), 2, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(gradients), TEST(dtypes),      TEST(shapes),
                                      TEST(in_place),  TEST(last_places), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
