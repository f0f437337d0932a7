/* Element-wise functions of two and three tensors as ops: gradients with broadcasting, promotion, shapes, in place,
   refusals. Their values are the golden tests'.
   SPDX-License-Identifier: MIT */
/* test-sanitized: opencl */
/* test-quick: opencl:1 */
#include "support/test.h"

#include <math.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
typedef situ_tensor *(*function)(situ_tensor *, situ_tensor *);

static situ_tensor *add_alpha(situ_tensor *a, situ_tensor *b) { return situ_add_alpha(a, b, -1.5); }
static situ_tensor *sub_alpha(situ_tensor *a, situ_tensor *b) { return situ_sub_alpha(a, b, 2); }
static situ_tensor *div_trunc(situ_tensor *a, situ_tensor *b) { return situ_div_mode(a, b, SITU_ROUND_TRUNC); }
static situ_tensor *div_floor(situ_tensor *a, situ_tensor *b) { return situ_div_mode(a, b, SITU_ROUND_FLOOR); }

static const function differentiable[] = {
  situ_add,       situ_sub,       situ_mul,     situ_div,      situ_pow,   situ_fmod,
  situ_remainder, situ_maximum,   situ_minimum, add_alpha,     sub_alpha,  div_trunc,
  div_floor,      situ_atan2,     situ_hypot,   situ_copysign, situ_xlogy, situ_special_xlog1py,
  situ_logaddexp, situ_logaddexp2
};

/* Positive, with no two equal: no kinks, no quotients that are whole. */
static situ_tensor *sample(situ_shape shape, double low, int step) {
  double v[64];
  int64_t n = 1;
  for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
  for (int64_t i = 0; i < n; i++) v[i] = low + 0.0313 * (double)((i * step) % 61);
  return situ_requires_grad_(test_tensor(SITU_F64, shape, v), true);
}

static situ_tensor *apply(situ_tensor *const *in, void *payload) { return (*(const function *)payload)(in[0], in[1]); }
static situ_tensor *apply_transposed(situ_tensor *const *in, void *payload) {
  return (*(const function *)payload)(situ_transpose(in[0], 0, 1), situ_flip(in[1], SITU_DIMS(0)));
}

static void gradients(void **state) {
  (void)state;
  const situ_shape shapes[][2] = { { SITU_SCALAR, SITU_SCALAR },        { SITU_SHAPE(5), SITU_SHAPE(5) },
                                   { SITU_SHAPE(3, 4), SITU_SHAPE(4) }, { SITU_SHAPE(3, 1), SITU_SHAPE(1, 4) },
                                   { SITU_SCALAR, SITU_SHAPE(2, 3) },   { SITU_SHAPE(2, 3, 4), SITU_SHAPE(3, 1) },
                                   { SITU_SHAPE(0, 3), SITU_SHAPE(3) } };
  for (int k = 0; k < COUNT(differentiable); k++) {
    function f = differentiable[k];
    if (!test_is_mine((size_t)k)) continue;
    for (int s = 0; s < COUNT(shapes); s++)
      gradcheck(apply, &f, sample(shapes[s][0], 0.517, 17), sample(shapes[s][1], 0.709, 23));
    gradcheck(apply_transposed, &f, sample(SITU_SHAPE(4, 3), 0.517, 17), sample(SITU_SHAPE(3, 4), 0.709, 23));
    /* Signs that differ, where rounding down and rounding to 0 part. */
    if (f != situ_pow) gradcheck(apply, &f, sample(SITU_SHAPE(3, 4), -2.417, 17), sample(SITU_SHAPE(4), 0.709, 23));
  }
}

static situ_tensor *where(situ_tensor *const *in, void *payload) { return situ_where(payload, in[0], in[1]); }
static situ_tensor *lerp(situ_tensor *const *in, void *payload) {
  return (void)payload, situ_lerp(in[0], in[1], in[2]);
}
static situ_tensor *addcmul(situ_tensor *const *in, void *payload) {
  return (void)payload, situ_addcmul(in[0], in[1], in[2], -1.5);
}
static situ_tensor *addcdiv(situ_tensor *const *in, void *payload) {
  return (void)payload, situ_addcdiv(in[0], in[1], in[2], -1.5);
}
static situ_tensor *lerp_scalar(situ_tensor *const *in, void *payload) {
  return (void)payload, situ_lerp_scalar(in[0], in[1], 0.3);
}

static void gradients_of_three(void **state) {
  (void)state;
  const test_function f[] = { lerp, addcmul, addcdiv };
  for (int k = 0; k < 3; k++) {
    gradcheck(f[k], NULL, sample(SITU_SHAPE(2, 3), 0.2, 17), sample(SITU_SHAPE(2, 3), 0.7, 23),
              sample(SITU_SHAPE(2, 3), 0.1, 7));
    gradcheck(f[k], NULL, sample(SITU_SHAPE(3), 0.2, 17), sample(SITU_SHAPE(2, 1), 0.7, 23),
              sample(SITU_SCALAR, 0.1, 7));
    gradcheck(f[k], NULL, sample(SITU_SHAPE(2, 1, 4), 0.2, 17), sample(SITU_SHAPE(3, 1), 0.7, 23),
              sample(SITU_SHAPE(4), 0.6, 7));
  }
  gradcheck(lerp_scalar, NULL, sample(SITU_SHAPE(2, 3), 0.2, 17), sample(SITU_SHAPE(3), 0.7, 23));
  gradcheck(where, TBOOL(SITU_SHAPE(3), 1, 0, 1), sample(SITU_SHAPE(2, 3), 0.2, 17), sample(SITU_SHAPE(3), 0.7, 23));
  gradcheck(where, TBOOL(SITU_SHAPE(2, 1), 1, 0), sample(SITU_SCALAR, 0.2, 17), sample(SITU_SHAPE(3), 0.7, 23));
}

/* torch.result_type: a tensor of dimensions outvotes a 0-dim one of its kind; floating outvotes whole. */
static void promotion(void **state) {
  (void)state;
  static const struct {
    situ_dtype a;
    int a_dims;
    situ_dtype b;
    int b_dims;
    situ_dtype want;
  } rows[] = {
    { SITU_I32, 1, SITU_I64, 1, SITU_I64 }, { SITU_I32, 1, SITU_I64, 0, SITU_I32 },
    { SITU_U8, 1, SITU_I8, 1, SITU_I16 },   { SITU_I64, 1, SITU_F32, 1, SITU_F32 },
    { SITU_I64, 1, SITU_F16, 0, SITU_F16 }, { SITU_F16, 1, SITU_BF16, 1, SITU_F32 },
    { SITU_F16, 1, SITU_F64, 0, SITU_F16 }, { SITU_F32, 0, SITU_F64, 1, SITU_F64 },
    { SITU_BOOL, 1, SITU_I8, 1, SITU_I8 },  { SITU_BOOL, 1, SITU_F32, 0, SITU_F32 },
    { SITU_F64, 0, SITU_F32, 0, SITU_F64 },
  };
  for (int k = 0; k < COUNT(rows); k++) {
    const situ_shape dims[2] = { SITU_SCALAR, SITU_SHAPE(1) };
    situ_tensor *a = test_tensor(rows[k].a, dims[rows[k].a_dims], (const double[]){ 1 });
    situ_tensor *b = test_tensor(rows[k].b, dims[rows[k].b_dims], (const double[]){ 1 });
    assert_int_equal(situ_dtype_of(situ_add(a, b)), rows[k].want);
    assert_int_equal(situ_dtype_of(situ_mul(b, a)), rows[k].want);
    assert_int_equal(situ_dtype_of(situ_eq(a, b)), SITU_BOOL);
    assert_int_equal(situ_dtype_of(situ_where(TBOOL(SITU_SHAPE(1), 1), a, b)), rows[k].want);
    assert_int_equal(situ_dtype_of(situ_div(a, b)), situ_dtype_is_floating(rows[k].want) ? rows[k].want : SITU_F32);
  }
  expect_exact(situ_add(TBOOL(SITU_SHAPE(2), 1, 0), TBOOL(SITU_SHAPE(2), 1, 0)), SITU_SHAPE(2), 1, 0);
  expect_exact(situ_floor_divide(TI64(SITU_SHAPE(2), 7, -7), TI64(SITU_SCALAR, 2)), SITU_SHAPE(2), 3, -4);
}

static void shapes(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
  expect_exact(situ_add(x, T32(SITU_SHAPE(3), 10, 20, 30)), SITU_SHAPE(2, 3), 11, 22, 33, 14, 25, 36);
  expect_exact(situ_add(x, T32(SITU_SHAPE(2, 1), 10, 20)), SITU_SHAPE(2, 3), 11, 12, 13, 24, 25, 26);
  expect_exact(situ_sub(situ_transpose(x, 0, 1), T32(SITU_SHAPE(2), 1, 2)), SITU_SHAPE(3, 2), 0, 2, 1, 3, 2, 4);
  expect_exact(situ_mul(T32(SITU_SHAPE(3, 1), 1, 2, 3), T32(SITU_SHAPE(1, 2), 10, 100)), SITU_SHAPE(3, 2), 10, 100, 20,
               200, 30, 300);
  expect_exact(situ_add(T32(SITU_SHAPE(0, 3), 0), T32(SITU_SHAPE(3), 1, 2, 3)), SITU_SHAPE(0, 3), 0);
  expect_exact(situ_add(T32(SITU_SHAPE(1, 3), 1, 2, 3), T32(SITU_SHAPE(0, 1), 0)), SITU_SHAPE(0, 3), 0);
  expect_exact(situ_maximum(T32(SITU_SHAPE(3), NAN, 1, 2), T32(SITU_SHAPE(3), 1, NAN, 1)), SITU_SHAPE(3), NAN, NAN, 2);
  expect_exact(situ_where(TBOOL(SITU_SHAPE(2, 1), 1, 0), x, T32(SITU_SCALAR, NAN)), SITU_SHAPE(2, 3), 1, 2, 3, NAN, NAN,
               NAN);
  expect_exact(situ_lerp(T32(SITU_SHAPE(2), 0.1, 1e8), T32(SITU_SHAPE(2), 0.7, 3), T32(SITU_SCALAR, 1)), SITU_SHAPE(2),
               0.7f, 3);
}

static void in_place(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4);
  assert_ptr_equal(situ_add_(x, T32(SITU_SHAPE(2), 10, 20)), x);
  expect_exact(x, SITU_SHAPE(2, 2), 11, 22, 13, 24);
  assert_non_null(situ_mul_(x, x));
  expect_exact(x, SITU_SHAPE(2, 2), 121, 484, 169, 576);
  assert_non_null(situ_sub_(situ_select(x, 1, 0), T64(SITU_SCALAR, 21)));
  expect_exact(x, SITU_SHAPE(2, 2), 100, 484, 148, 576);
  assert_non_null(situ_addcmul_(x, T32(SITU_SHAPE(2), 1, 2), T32(SITU_SHAPE(2, 1), 1, 10), 2));
  expect_exact(x, SITU_SHAPE(2, 2), 102, 488, 168, 616);
  situ_tensor *leaf = situ_requires_grad_(T64(SITU_SHAPE(2), 2, 3), true), *y = situ_mul_scalar(leaf, 1);
  assert_non_null(situ_mul_(y, T64(SITU_SHAPE(2), 5, 7)));
  assert_non_null(situ_lerp_scalar_(y, T64(SITU_SHAPE(2), 0, 0), 0.25));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_values(situ_grad(leaf), SITU_SHAPE(2), 3.75, 5.25);
  assert_int_equal(situ_set_grad(leaf, NULL), SITU_OK);
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *a = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *whole = TI64(SITU_SHAPE(3), 1, 2, 3);
  expect_refused(situ_add(a, T32(SITU_SHAPE(2), 1, 2)), SITU_E_SHAPE, "add", "[2, 3]");
  expect_refused(situ_add_(T32(SITU_SHAPE(3), 1, 2, 3), a), SITU_E_SHAPE, "add_", "");
  expect_refused(situ_add_alpha(whole, whole, INFINITY), SITU_E_ARG, "add_alpha", "inf");
  expect_refused(situ_add_(whole, T32(SITU_SHAPE(3), 1, 2, 3)), SITU_E_DTYPE, "add_", "");
  expect_refused(situ_sub(TBOOL(SITU_SHAPE(1), 1), TBOOL(SITU_SHAPE(1), 1)), SITU_E_DTYPE, "sub", "bool");
  expect_refused(situ_bitwise_and(a, a), SITU_E_DTYPE, "bitwise_and", "f32");
  expect_refused(situ_where(a, a, a), SITU_E_DTYPE, "where", "condition");
  expect_refused(situ_add(a, NULL), SITU_E_ARG, "add", "NULL");
  expect_refused(situ_add_(situ_expand(T32(SITU_SHAPE(1), 1), SITU_SHAPE(3)), T32(SITU_SHAPE(3), 1, 2, 3)),
                 SITU_E_ALIAS, "add_", "");
  expect_refused(situ_div_mode(a, a, (situ_rounding_mode)9), SITU_E_ARG, "div_mode", "");
  expect_exact(a, SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
  expect_exact(whole, SITU_SHAPE(3), 1, 2, 3);
}

/* On a device with a queue it is reported when the queue is waited for. */
static void division_by_zero(void **state) {
  (void)state;
  situ_tensor *a = TI64(SITU_SHAPE(3), 1, 2, 3), *b = TI64(SITU_SHAPE(3), 1, 0, 3);
  situ_tensor *y = situ_remainder(a, b);
  situ_status status = y ? situ_synchronize(test_device()) : situ_error();
  assert_int_equal(status, SITU_E_ARG);
  expect_error(SITU_E_ARG, "", "division by zero");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(gradients), TEST(gradients_of_three), TEST(promotion),       TEST(shapes),
                                      TEST(in_place),  TEST(refusals),           TEST(division_by_zero) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
