/* Bad inputs, rows 1 to 12: sizes, values and counts of tensors that are to be made.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "support/late.h"

#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })
#define HUGE_SIZE 4611686018427387904 /* 2^62 */

typedef situ_tensor *(*maker)(situ_shape shape, const situ_options *options);

static situ_tensor *fives(situ_shape shape, const situ_options *o) { return situ_full(shape, 5, o); }
static situ_tensor *dice(situ_shape shape, const situ_options *o) { return situ_randint(1, 7, shape, o); }

static const struct {
  maker make;
  const char *name;
} makers[] = {
  { situ_empty, "empty" }, { situ_zeros, "zeros" }, { situ_ones, "ones" }, { fives, "full" },
  { situ_rand, "rand" },   { situ_randn, "randn" }, { dice, "randint" },
};
#define EACH_MAKER(i) for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)

static void row_1_negative_size(void **state) {
  (void)state;
  EACH_MAKER(i) {
    expect_refused(makers[i].make(SITU_SHAPE(-1, 3), HERE(0)), SITU_E_SHAPE, makers[i].name,
                   "size -1 at dimension 0 of [-1, 3] is negative");
    expect_refused(makers[i].make(SITU_SHAPE(0, INT64_MIN), HERE(0)), SITU_E_SHAPE, makers[i].name, "negative");
  }
}

static void rows_2_and_3_sizes_that_wrap(void **state) {
  (void)state;
  EACH_MAKER(i) {
    expect_refused(makers[i].make(SITU_SHAPE(2, 2, 1, HUGE_SIZE / 2), HERE(0)), SITU_E_OVERFLOW, makers[i].name,
                   "[2, 2, 1, 2305843009213693952] has more than 2^63 elements");
    expect_refused(makers[i].make(SITU_SHAPE(HUGE_SIZE), HERE(.dtype = SITU_F32)), SITU_E_OVERFLOW, makers[i].name,
                   "of f32 has more than 2^63 bytes");
  }
  expect_refused(situ_empty(SITU_SHAPE(HUGE_SIZE / 2), HERE(.dtype = SITU_F64)), SITU_E_OVERFLOW, "empty",
                 "of f64 has more than 2^63 bytes");
  /* nor does a view of one element claim more */
  situ_tensor *one = situ_ones(SITU_SHAPE(1), HERE(.dtype = SITU_F32));
  expect_refused(situ_expand(one, SITU_SHAPE(2, HUGE_SIZE / 4)), SITU_E_OVERFLOW, "expand",
                 "[2, 1152921504606846976] of f32 has more than 2^63 bytes");
  assert_int_equal(situ_numel(situ_expand(one, SITU_SHAPE(HUGE_SIZE / 4))), HUGE_SIZE / 4);
}

static void row_4_more_than_the_device_has(void **state) {
  (void)state;
  expect_refused(situ_empty(SITU_SHAPE(1152921504606846976), HERE(.dtype = SITU_U8)), SITU_E_NOMEM, "empty", "1.0 EiB");
  expect_refused(situ_zeros(SITU_SHAPE(1048576, 1048576, 1024), HERE(0)), SITU_E_NOMEM, "zeros", "");
  expect_exact(situ_ones(SITU_SHAPE(2), HERE(0)), SITU_SHAPE(2), 1, 1); /* and nothing is the worse for it */
}

/* A factor of 0 does not hide an overflow: the same answer on every device. */
static void row_5_zero_hides_nothing(void **state) {
  (void)state;
  EACH_MAKER(i)
    expect_refused(makers[i].make(SITU_SHAPE(0, HUGE_SIZE, HUGE_SIZE), HERE(0)), SITU_E_OVERFLOW, makers[i].name,
                   "2^63");
  assert_int_equal(situ_numel(situ_zeros(SITU_SHAPE(0, 7), HERE(0))), 0);
}

static void rows_6_and_7_rank_and_dtype(void **state) {
  (void)state;
  EACH_MAKER(i) {
    expect_refused(makers[i].make((situ_shape){ .ndim = SITU_MAX_DIMS + 1 }, HERE(0)), SITU_E_ARG, makers[i].name,
                   "9 dimensions: a tensor has 0 to 8");
    expect_refused(makers[i].make((situ_shape){ .ndim = INT32_MIN }, HERE(0)), SITU_E_ARG, makers[i].name, "0 to 8");
    expect_refused(makers[i].make(SITU_SHAPE(1), HERE(.dtype = SITU_DTYPES)), SITU_E_DTYPE, makers[i].name,
                   "not a dtype");
    expect_refused(makers[i].make(SITU_SHAPE(1), HERE(.dtype = (situ_dtype)-1)), SITU_E_DTYPE, makers[i].name,
                   "not a dtype");
    expect_refused(makers[i].make(SITU_SHAPE(1), &(situ_options){ .device = situ_dev("sim:77") }), SITU_E_ARG, "", "");
  }
  double one = 1;
  expect_refused(situ_from_host(&one, 8, (situ_shape){ .ndim = 9 }, HERE(.dtype = SITU_F64)), SITU_E_ARG, "from_host",
                 "0 to 8");
  expect_refused(situ_from_host(&one, 8, SITU_SHAPE(1), HERE(.dtype = (situ_dtype)-7)), SITU_E_DTYPE, "from_host",
                 "not a dtype");
  expect_refused(situ_to_dtype(T32(SITU_SHAPE(1), 1), (situ_dtype)1000), SITU_E_DTYPE, "to_dtype",
                 "1000 is not a dtype");
}

static void row_8_bytes_that_do_not_fit(void **state) {
  (void)state;
  float four[4] = { 1, 2, 3, 4 };
  expect_refused(situ_from_host(four, sizeof four, SITU_SHAPE(3), HERE(0)), SITU_E_SHAPE, "from_host",
                 "16 bytes given, [3] of f32 takes 12");
  expect_refused(situ_from_host(four, sizeof four, SITU_SHAPE(4), HERE(.dtype = SITU_F64)), SITU_E_SHAPE, "from_host",
                 "takes 32");
  expect_refused(situ_from_host(four, 0, SITU_SHAPE(4), HERE(0)), SITU_E_SHAPE, "from_host", "0 bytes given");
  expect_refused(situ_from_host(NULL, sizeof four, SITU_SHAPE(4), HERE(0)), SITU_E_ARG, "from_host", "data is NULL");
  situ_tensor *x = T32(SITU_SHAPE(2), 7, 8);
  assert_int_equal(situ_copy_from_host(x, four, sizeof four), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "copy_from_host", "16 bytes given, [2] of f32 takes 8");
  assert_int_equal(situ_copy_to_host(x, four, sizeof four), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "copy_to_host", "16 bytes given");
  assert_true(four[0] == 1 && four[3] == 4);
  expect_exact(x, SITU_SHAPE(2), 7, 8);
}

static void row_9_ranges(void **state) {
  (void)state;
  expect_refused(situ_arange(0, 10, 0, HERE(0)), SITU_E_ARG, "arange", "from 0 to 10 by 0");
  expect_refused(situ_arange(0, 10, -1, HERE(0)), SITU_E_ARG, "arange", "away from the end");
  const double bad[] = { NAN, INFINITY, -INFINITY };
  for (int i = 0; i < 3; i++) {
    expect_refused(situ_arange(bad[i], 1, 1, HERE(0)), SITU_E_ARG, "arange", "finite");
    expect_refused(situ_arange(0, bad[i], 1, HERE(0)), SITU_E_ARG, "arange", "finite");
    expect_refused(situ_arange(0, 1, bad[i], HERE(0)), SITU_E_ARG, "arange", "finite");
    expect_refused(situ_linspace(bad[i], 1, 3, HERE(0)), SITU_E_ARG, "linspace", "finite");
    expect_refused(situ_linspace(0, bad[i], 3, HERE(0)), SITU_E_ARG, "linspace", "finite");
  }
  expect_refused(situ_arange(0, 1e300, 1, HERE(0)), SITU_E_ARG, "arange", "more than 2^63 values");
  expect_refused(situ_arange(-1e308, 1e308, 1e-308, HERE(0)), SITU_E_ARG, "arange", "more than 2^63 values");
  expect_refused(situ_arange(0, 9e18, 1, HERE(0)), SITU_E_OVERFLOW, "arange", "bytes");
  expect_refused(situ_linspace(0, 1, -1, HERE(0)), SITU_E_ARG, "linspace", "-1 steps");
  expect_refused(situ_linspace(0, 1, INT64_MAX, HERE(0)), SITU_E_OVERFLOW, "linspace", "bytes");
}

/* A constant that a dtype cannot hold is refused; a cast of values to whole numbers saturates, and NaN becomes 0; floats overflow
   to infinity, as IEEE 754 says. */
static void row_10_values_that_do_not_fit(void **state) {
  (void)state;
  expect_refused(situ_full(SITU_SHAPE(2), 1e39, HERE(.dtype = SITU_I32)), SITU_E_ARG, "full",
                 "1e+39 does not fit into i32");
  expect_exact(situ_full(SITU_SHAPE(2), -1, HERE(.dtype = SITU_U8)), SITU_SHAPE(2), 255, 255); /* as torch */
  expect_refused(situ_full(SITU_SHAPE(2), -256, HERE(.dtype = SITU_U8)), SITU_E_ARG, "full",
                 "-256 does not fit into u8");
  expect_refused(situ_full(SITU_SHAPE(2), 1e40, HERE(0)), SITU_E_ARG, "full", "1e+40 does not fit into f32");
  expect_refused(situ_full(SITU_SHAPE(2), 1e6, HERE(.dtype = SITU_F16)), SITU_E_ARG, "full",
                 "1e+06 does not fit into f16");
  expect_refused(situ_full(SITU_SHAPE(2), NAN, HERE(.dtype = SITU_I64)), SITU_E_ARG, "full",
                 "nan does not fit into i64");
  situ_tensor *whole = TI64(SITU_SHAPE(2), 3, 4);
  expect_refused(situ_fill_(whole, INFINITY), SITU_E_ARG, "fill_", "inf does not fit into i64");
  expect_exact(whole, SITU_SHAPE(2), 3, 4);
  expect_exact(situ_full(SITU_SHAPE(2), INFINITY, HERE(.dtype = SITU_F16)), SITU_SHAPE(2), INFINITY, INFINITY);
  situ_tensor *wild = T64(SITU_SHAPE(5), 1e39, -1e39, NAN, INFINITY, -INFINITY);
  expect_exact(situ_to_dtype(wild, SITU_F16), SITU_SHAPE(5), INFINITY, -INFINITY, NAN, INFINITY, -INFINITY);
  expect_exact(situ_to_dtype(wild, SITU_I32), SITU_SHAPE(5), INT32_MAX, INT32_MIN, 0, INT32_MAX, INT32_MIN);
  expect_exact(situ_to_dtype(wild, SITU_U8), SITU_SHAPE(5), 255, 0, 0, 255, 0);
  int64_t wide[5];
  assert_int_equal(situ_copy_to_host(situ_to_dtype(wild, SITU_I64), wide, sizeof wide), SITU_OK);
  assert_true(wide[0] == INT64_MAX && wide[1] == INT64_MIN && wide[2] == 0 && wide[3] == INT64_MAX &&
              wide[4] == INT64_MIN);
}

static void row_11_a_number_from_a_tensor(void **state) {
  (void)state;
  double value = 42;
  int64_t whole = 42;
  assert_int_equal(situ_item(situ_zeros(SITU_SHAPE(0), HERE(0)), &value), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "item", "0 elements: only a tensor of one element");
  assert_int_equal(situ_item_i64(TI64(SITU_SHAPE(2), 1, 2), &whole), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "", "2 elements");
  assert_int_equal(situ_item(T32(SITU_SCALAR, 1), NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "item", "NULL");
  assert_true(value == 42 && whole == 42);
}

static void row_12_eye_triangles_one_hot(void **state) {
  (void)state;
  expect_refused(situ_eye(-1, 3, HERE(0)), SITU_E_ARG, "eye", "-1 rows");
  expect_refused(situ_eye(INT64_MIN, -1, HERE(0)), SITU_E_ARG, "eye", "rows");
  expect_refused(situ_eye(INT64_MAX, -1, HERE(0)), SITU_E_OVERFLOW, "eye", "2^63");
  expect_refused(situ_tril(T32(SITU_SHAPE(3), 1, 2, 3), 0), SITU_E_SHAPE, "tril", "at least 2 dimensions, got 1");
  situ_tensor *square = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4);
  expect_exact(situ_tril(square, INT64_MIN), SITU_SHAPE(2, 2), 0, 0, 0, 0);
  expect_exact(situ_triu(square, INT64_MIN), SITU_SHAPE(2, 2), 1, 2, 3, 4);
  expect_exact(situ_tril(square, INT64_MAX), SITU_SHAPE(2, 2), 1, 2, 3, 4);
  expect_exact(situ_triu(square, INT64_MAX), SITU_SHAPE(2, 2), 0, 0, 0, 0);
  expect_refused_late(situ_one_hot(TI64(SITU_SHAPE(3), 0, 2, 5), 5), SITU_E_INDEX, "", "index 5");
  expect_refused_late(situ_one_hot(TI64(SITU_SHAPE(2), 0, -1), 5), SITU_E_INDEX, "", "index -1");
  expect_refused(situ_one_hot(TI64(SITU_SHAPE(1), 0), 0), SITU_E_INDEX, "", "size 0");
  expect_refused(situ_one_hot(TI64(SITU_SHAPE(2), -5, -3), -1), SITU_E_INDEX, "one_hot", "every index is negative");
  expect_refused_late(situ_one_hot(TI64(SITU_SHAPE(2), -5, 3), -1), SITU_E_INDEX, "", "index -5");
  expect_refused(situ_one_hot(situ_zeros(SITU_SHAPE(0), HERE(.dtype = SITU_I64)), -1), SITU_E_ARG, "one_hot",
                 "no classes given");
  expect_refused(situ_one_hot(T32(SITU_SHAPE(1), 0), 3), SITU_E_DTYPE, "one_hot", "f32, must be i64 or i32");
  expect_refused(situ_one_hot(TI64(SITU_SHAPE(4), 0, 1, 2, 3), INT64_MAX), SITU_E_OVERFLOW, "", "2^63");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(row_1_negative_size),
    TEST(rows_2_and_3_sizes_that_wrap),
    TEST(row_4_more_than_the_device_has),
    TEST(row_5_zero_hides_nothing),
    TEST(rows_6_and_7_rank_and_dtype),
    TEST(row_8_bytes_that_do_not_fit),
    TEST(row_9_ranges),
    TEST(row_10_values_that_do_not_fit),
    TEST(row_11_a_number_from_a_tensor),
    TEST(row_12_eye_triangles_one_hot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
