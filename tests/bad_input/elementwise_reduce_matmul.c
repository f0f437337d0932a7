/* Bad inputs, rows 27 to 36: element-wise functions, reductions, products, sorting. (Row 30, shifts, and the bincount and histc
   of row 35 are not offered.)
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "support/late.h"

#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })
#define DIM(...) (&(situ_reduce_options){ .dim = SITU_DIMS(__VA_ARGS__) })

typedef situ_tensor *(*two)(situ_tensor *a, situ_tensor *b);

static const struct {
  two f;
  const char *name;
} floats[] = {
  { situ_add, "add" },
  { situ_sub, "sub" },
  { situ_mul, "mul" },
  { situ_div, "div" },
  { situ_pow, "pow" },
  { situ_fmod, "fmod" },
  { situ_remainder, "remainder" },
  { situ_maximum, "maximum" },
  { situ_minimum, "minimum" },
  { situ_eq, "eq" },
  { situ_ne, "ne" },
  { situ_lt, "lt" },
  { situ_le, "le" },
  { situ_gt, "gt" },
  { situ_ge, "ge" },
  { situ_logical_and, "logical_and" },
  { situ_logical_or, "logical_or" },
};
#define EACH_FLOAT(i) for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)

static void rows_27_and_28_shapes_and_devices(void **state) {
  (void)state;
  situ_tensor *a = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *b = T32(SITU_SHAPE(2), 1, 2);
  situ_tensor *away = situ_ones(SITU_SHAPE(2, 3), &(situ_options){ .device = situ_dev("sim:1") });
  EACH_FLOAT(i) {
    expect_refused(floats[i].f(a, b), SITU_E_SHAPE, floats[i].name,
                   "[2, 3] and [2] do not broadcast: sizes 3 and 2 differ");
    expect_refused(floats[i].f(a, away), SITU_E_DEVICE, floats[i].name, "sim:1");
    expect_refused(floats[i].f(away, a), SITU_E_DEVICE, floats[i].name, "device mismatch");
  }
  situ_tensor *endless = situ_expand(situ_to_dtype(b, SITU_U8), SITU_SHAPE(INT64_MAX / 2, 2));
  expect_refused(situ_add(endless, situ_zeros(SITU_SHAPE(2, 1, 1), HERE(0))), SITU_E_OVERFLOW, "add", "2^63");
  expect_refused(situ_where(situ_eq(a, a), a, b), SITU_E_SHAPE, "where", "do not broadcast");
  expect_refused(situ_where(a, a, a), SITU_E_DTYPE, "where", "condition is f32, must be bool");
  expect_refused(situ_lerp(a, a, b), SITU_E_SHAPE, "lerp", "do not broadcast");
  expect_refused(situ_addcmul(a, b, b, 1), SITU_E_SHAPE, "addcmul", "do not broadcast");
  expect_refused(situ_addcdiv(a, a, away, 1), SITU_E_DEVICE, "addcdiv", "sim:1");
  expect_refused(situ_add_(b, a), SITU_E_SHAPE, "add_", "");
  expect_exact(b, SITU_SHAPE(2), 1, 2);
}

/* x / 0 of whole numbers is refused, INT_MIN / -1 wraps: neither stops the program. */
static void row_29_whole_division(void **state) {
  (void)state;
  const situ_dtype whole[] = { SITU_U8, SITU_I8, SITU_I16, SITU_I32, SITU_I64 };
  for (int i = 0; i < 5; i++) {
    situ_tensor *x = test_tensor(whole[i], SITU_SHAPE(3), (double[]){ 7, 8, 9 }),
                *zero = test_tensor(whole[i], SITU_SHAPE(3), (double[]){ 2, 0, 3 });
    expect_refused_late(situ_floor_divide(x, zero), SITU_E_ARG, "", "division by zero");
    expect_refused_late(situ_div_mode(x, zero, SITU_ROUND_TRUNC), SITU_E_ARG, "", "division by zero");
    expect_refused_late(situ_fmod(x, zero), SITU_E_ARG, "", "fmod: division by zero");
    expect_refused_late(situ_remainder(x, zero), SITU_E_ARG, "", "remainder: division by zero");
    expect_refused(situ_fmod_scalar(x, 0), SITU_E_ARG, "", "division by zero");
    expect_refused(situ_remainder_scalar(x, 0), SITU_E_ARG, "", "division by zero");
    expect_exact(x, SITU_SHAPE(3), 7, 8, 9);
  }
  const int64_t least = INT64_MIN;
  situ_tensor *x = situ_from_host(&least, sizeof least, SITU_SHAPE(1), HERE(.dtype = SITU_I64)),
              *minus = TI64(SITU_SHAPE(1), -1);
  int64_t got = 0;
  assert_int_equal(situ_item_i64(situ_floor_divide(x, minus), &got), SITU_OK);
  assert_true(got == INT64_MIN);
  assert_int_equal(situ_item_i64(situ_remainder(x, minus), &got), SITU_OK);
  assert_true(got == 0);
  assert_int_equal(situ_item_i64(situ_fmod(x, minus), &got), SITU_OK);
  assert_true(got == 0);
  assert_int_equal(situ_item_i64(situ_abs(x), &got), SITU_OK);
  assert_true(got == INT64_MIN);
  situ_tensor *small = test_tensor(SITU_I32, SITU_SHAPE(1), (double[]){ INT32_MIN });
  expect_exact(situ_floor_divide(small, test_tensor(SITU_I32, SITU_SHAPE(1), (double[]){ -1 })), SITU_SHAPE(1),
               INT32_MIN);
  expect_refused(situ_div_mode(x, x, (situ_rounding_mode)9), SITU_E_ARG, "div_mode", "9 is not a rounding mode");
  expect_refused(situ_bitwise_and(T32(SITU_SHAPE(1), 1), T32(SITU_SHAPE(1), 1)), SITU_E_DTYPE, "bitwise_and", "f32");
  expect_refused(situ_pow_scalar(x, -1), SITU_E_ARG, "pow_scalar", "negative power (-1)");
  expect_refused(situ_clamp_(x, NAN, 1), SITU_E_DTYPE, "clamp_", "nan");
}

typedef situ_tensor *(*reduction)(situ_tensor *x, const situ_reduce_options *options);

static void row_31_reductions(void **state) {
  (void)state;
  static const struct {
    reduction f;
    const char *name;
  } every[] = { { situ_sum, "sum" },   { situ_mean, "mean" }, { situ_prod, "prod" }, { situ_amin, "amin" },
                { situ_amax, "amax" }, { situ_all, "all" },   { situ_any, "any" },   { situ_logsumexp, "logsumexp" } };
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *none = situ_zeros(SITU_SHAPE(0, 3), HERE(0));
  for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
    expect_refused(every[i].f(x, DIM(1, -1)), SITU_E_ARG, every[i].name, "dimension 1 is listed twice");
    expect_refused(every[i].f(x, DIM(2)), SITU_E_ARG, every[i].name, "dimension 2 is outside -2..1");
    expect_refused(every[i].f(x, DIM(INT64_MIN)), SITU_E_ARG, every[i].name, "outside");
    expect_refused(every[i].f(x, &(situ_reduce_options){ .dim = { .ndim = 9 } }), SITU_E_ARG, every[i].name,
                   "9 dimensions listed");
  }
  expect_refused(situ_var(x, 1, DIM(0, 0)), SITU_E_ARG, "var", "twice");
  expect_refused(situ_norm(x, 2, DIM(-3)), SITU_E_ARG, "norm", "dimension -3");
  expect_refused(situ_norm(x, NAN, NULL), SITU_E_ARG, "norm", "p is NaN");
  /* a device that has begun cannot be stopped */
  situ_tensor *endless =
      situ_expand(situ_ones(SITU_SHAPE(1), HERE(0)), SITU_SHAPE((int64_t)1 << 27, ((int64_t)1 << 26) + 1));
  for (size_t i = 0; i < sizeof every / sizeof *every; i++)
    expect_refused(every[i].f(endless, NULL), SITU_E_LIMIT, every[i].name, "more than 2^53");
  expect_refused(situ_sum(x, &(situ_reduce_options){ .dtype = (situ_dtype)77 }), SITU_E_DTYPE, "sum",
                 "77 is not a dtype");
  expect_refused(situ_mean(TI64(SITU_SHAPE(2), 1, 2), NULL), SITU_E_DTYPE, "mean", "i64");
  expect_refused(situ_min(none), SITU_E_ARG, "", "no elements to choose from");
  expect_refused(situ_max(none), SITU_E_ARG, "", "no elements to choose from");
  expect_refused(situ_amax(none, DIM(0)), SITU_E_ARG, "amax", "no elements to choose from");
  expect_refused(situ_argmax(none, NULL), SITU_E_ARG, "", "no elements to choose from");
  expect_refused(situ_argmin(none, DIM(0)), SITU_E_ARG, "", "no elements to choose from");
  expect_refused(situ_argmax(x, DIM(0, 1)), SITU_E_ARG, "argmax", "2 dimensions listed");
  expect_refused(situ_argmax(x, DIM(2)), SITU_E_ARG, "", "dimension 2");
  situ_tensor *where = x;
  expect_refused(situ_max_dim(none, 0, false, &where), SITU_E_ARG, "", "dimension 0 has size 0");
  assert_null(where);
  expect_exact(situ_sum(none, NULL), SITU_SCALAR, 0); /* documented: as in torch */
  expect_exact(situ_prod(none, NULL), SITU_SCALAR, 1);
  expect_exact(situ_mean(none, NULL), SITU_SCALAR, NAN);
}

static void rows_32_and_33_products(void **state) {
  (void)state;
  situ_tensor *a = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *v = T32(SITU_SHAPE(2), 1, 2),
              *number = T32(SITU_SCALAR, 1);
  expect_refused(situ_matmul(a, a), SITU_E_SHAPE, "matmul", "[2, 3] x [2, 3]: 3 and 2 differ");
  expect_refused(situ_matmul(a, number), SITU_E_SHAPE, "matmul", "dimensions");
  expect_refused(situ_matmul(number, a), SITU_E_SHAPE, "matmul", "dimensions");
  expect_refused(situ_matmul(a, v), SITU_E_SHAPE, "matmul", "3 and 2 differ");
  expect_refused(situ_matmul(situ_zeros(SITU_SHAPE(2, 4, 3), HERE(0)), situ_zeros(SITU_SHAPE(5, 3, 4), HERE(0))),
                 SITU_E_SHAPE, "matmul", "broadcast");
  expect_refused(situ_mm(a, v), SITU_E_SHAPE, "mm", "2 and 2 dimensions, got 2 and 1");
  expect_refused(situ_bmm(a, a), SITU_E_SHAPE, "bmm", "3 and 3 dimensions, got 2 and 2");
  expect_refused(situ_bmm(situ_zeros(SITU_SHAPE(2, 4, 3), HERE(0)), situ_zeros(SITU_SHAPE(5, 3, 4), HERE(0))),
                 SITU_E_SHAPE, "bmm", "2 and 5 differ");
  expect_refused(situ_mv(a, v), SITU_E_SHAPE, "mv", "3 and 2 differ");
  expect_refused(situ_dot(v, T32(SITU_SHAPE(3), 1, 2, 3)), SITU_E_SHAPE, "dot", "2 and 3 differ");
  expect_refused(situ_outer(a, v), SITU_E_SHAPE, "outer", "two vectors");
  expect_refused(situ_addmm(v, a, situ_transpose(T32(SITU_SHAPE(3, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9), 0, 1), NULL),
                 SITU_E_SHAPE, "addmm", "[2, 3] and [2] do not broadcast");
  expect_refused(situ_linear(a, v, NULL), SITU_E_SHAPE, "linear", "weight [2]: 3 and 2 differ");
  expect_refused(situ_linear(a, a, T32(SITU_SHAPE(3), 1, 2, 3)), SITU_E_SHAPE, "linear", "bias is [3], must be [2]");
  expect_refused(situ_mm(a, T64(SITU_SHAPE(3, 1), 1, 2, 3)), SITU_E_DTYPE, "mm", "f64");
  situ_tensor *thin = situ_expand(T32(SITU_SHAPE(1, 1), 1), SITU_SHAPE(4294967296, 1)),
              *wide = situ_transpose(thin, 0, 1);
  expect_refused(situ_mm(thin, wide), SITU_E_OVERFLOW, "mm", "2^63"); /* 2^32 x 2^32 */
  expect_exact(situ_mm(situ_zeros(SITU_SHAPE(2, 0), HERE(0)), situ_zeros(SITU_SHAPE(0, 2), HERE(0))), SITU_SHAPE(2, 2),
               0, 0, 0, 0);
  expect_exact(situ_matmul(situ_zeros(SITU_SHAPE(0), HERE(0)), situ_zeros(SITU_SHAPE(0), HERE(0))), SITU_SCALAR, 0);
}

static void row_34_sorting(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 3, NAN, 1, 5, 4, 6), *where = x;
  expect_refused(situ_topk(x, 4, 1, true, &where), SITU_E_ARG, "topk", "the 4 first of dimension 1, of size 3");
  assert_null(where);
  expect_refused(situ_topk(x, -1, 1, true, NULL), SITU_E_ARG, "topk", "-1 first");
  expect_refused(situ_topk(x, INT64_MAX, 1, true, NULL), SITU_E_ARG, "topk", "of size 3");
  expect_refused(situ_topk(x, 1, 2, true, NULL), SITU_E_ARG, "topk", "dimension 2");
  expect_refused(situ_sort(x, 2, false, NULL), SITU_E_ARG, "sort", "dimension 2 is outside");
  expect_refused(situ_argsort(x, -3, false), SITU_E_ARG, "", "dimension -3");
  expect_refused(situ_cumsum(x, 2), SITU_E_ARG, "cumsum", "dimension 2");
  assert_int_equal(situ_size(situ_topk(x, 0, 1, true, NULL), 1), 0);
  expect_exact(situ_sort(x, 1, false, NULL), SITU_SHAPE(2, 3), 1, 3, NAN, 4, 5, 6); /* documented: NaN is the largest */
  expect_exact(situ_topk(x, 1, 1, true, NULL), SITU_SHAPE(2, 1), NAN, 6);
  assert_int_equal(situ_numel(situ_sort(situ_zeros(SITU_SHAPE(0), HERE(0)), 0, true, NULL)), 0);
  assert_int_equal(situ_numel(situ_cumsum(situ_zeros(SITU_SHAPE(2, 0), HERE(0)), 1)), 0);
}

/* Row 36 fears 32-bit positions in a scan; 2^32 elements do not fit here, but their sizes do where there are no values. */
static void row_36_long_scans(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(8589934592), &(situ_options){ .device = situ_dev("meta"), .dtype = SITU_U8 });
  situ_tensor *y = situ_cumsum(x, 0);
  assert_int_equal(situ_numel(y), 8589934592);
  assert_int_equal(situ_dtype_of(y), SITU_I64);
  enum { MANY = 3000000 };
  int64_t last = 0;
  situ_tensor *sums = situ_cumsum(situ_full(SITU_SHAPE(MANY), 1000, HERE(.dtype = SITU_I64)), 0);
  assert_int_equal(situ_item_i64(situ_select(sums, 0, MANY - 1), &last), SITU_OK);
  assert_true(last == 3000000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(rows_27_and_28_shapes_and_devices), TEST(row_29_whole_division), TEST(row_31_reductions),
    TEST(rows_32_and_33_products),           TEST(row_34_sorting),        TEST(row_36_long_scans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
