/* Bad inputs, rows 13 to 26: views, strides, joining, splitting and padding. (Rows 22 and 23 concern out=, which is not
   offered; what they fear of overlapping memory is asked of the in-place forms here.)
   SPDX-License-Identifier: MIT */
#include "support/late.h"

#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })

static situ_tensor *six(void) { return T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6); }

static void rows_13_and_14_reshape(void **state) {
  (void)state;
  situ_tensor *x = six(), *none = situ_zeros(SITU_SHAPE(0, 3), HERE(0));
  situ_tensor *(*const forms[])(situ_tensor *, situ_shape) = { situ_reshape, situ_view };
  const char *const names[] = { "reshape", "view" };
  for (int i = 0; i < 2; i++) {
    expect_refused(forms[i](T32(SITU_SHAPE(3), 1, 2, 3), SITU_SHAPE(2, 2)), SITU_E_SHAPE, names[i],
                   "3 elements do not fit into shape [2, 2]");
    expect_refused(forms[i](x, SITU_SHAPE(-1, -1)), SITU_E_SHAPE, names[i], "[-1, -1]");
    expect_refused(forms[i](none, SITU_SHAPE(-1, 0)), SITU_E_SHAPE, names[i], "[-1, 0]");
    expect_refused(forms[i](x, SITU_SHAPE(-2, -3)), SITU_E_SHAPE, names[i], "[-2, -3]");
    expect_refused(forms[i](x, SITU_SHAPE(-1, 4)), SITU_E_SHAPE, names[i], "6 elements");
    expect_refused(forms[i](x, SITU_SHAPE(INT64_MAX, INT64_MAX, 2)), SITU_E_SHAPE, names[i], "6 elements");
    expect_refused(forms[i](x, (situ_shape){ .ndim = 9 }), SITU_E_ARG, names[i], "9 dimensions");
  }
}

static void rows_15_and_16_as_strided(void **state) {
  (void)state;
  situ_tensor *x = six();
  const int64_t far[] = { 5, 6, 1000000 };
  for (int i = 0; i < 3; i++)
    expect_refused(situ_as_strided(x, SITU_SHAPE(2), SITU_SHAPE(1), far[i]), SITU_E_INDEX, "as_strided",
                   "a storage that holds 6");
  expect_refused(situ_as_strided(x, SITU_SHAPE(2), SITU_SHAPE(1), INT64_MAX), SITU_E_OVERFLOW, "as_strided", "2^63");
  expect_refused(situ_as_strided(x, SITU_SHAPE(2), SITU_SHAPE(1), -1), SITU_E_INDEX, "as_strided",
                 "offset -1 is negative");
  expect_refused(situ_as_strided(x, SITU_SHAPE(2), SITU_SHAPE(1), INT64_MIN), SITU_E_INDEX, "as_strided", "negative");
  expect_refused(situ_as_strided(x, SITU_SHAPE(4, 4), SITU_SHAPE(INT64_MAX, 2), 0), SITU_E_OVERFLOW, "as_strided",
                 "2^63");
  expect_refused(situ_as_strided(x, SITU_SHAPE(3, 3), SITU_SHAPE(INT64_MAX / 2, INT64_MAX / 2), 0), SITU_E_OVERFLOW,
                 "as_strided", "2^63");
  expect_refused(situ_as_strided(x, SITU_SHAPE(2, 2), SITU_SHAPE(-100, 100), 0), SITU_E_ARG, "as_strided",
                 "stride -100 at dimension 0");
  expect_refused(situ_as_strided(x, SITU_SHAPE(2, 2), SITU_SHAPE(1), 0), SITU_E_ARG, "as_strided",
                 "2 sizes but 1 strides");
  expect_refused(situ_as_strided(x, SITU_SHAPE(-1), SITU_SHAPE(1), 0), SITU_E_SHAPE, "as_strided", "negative");
}

static void row_17_slice(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(5), 0, 1, 2, 3, 4);
  expect_refused(situ_slice(x, 0, 0, 5, 0), SITU_E_ARG, "slice", "step 0 must be positive");
  expect_refused(situ_slice(x, 0, 0, 5, -1), SITU_E_ARG, "slice", "step -1");
  expect_refused(situ_slice(x, 0, 0, 5, INT64_MIN), SITU_E_ARG, "slice", "positive");
  expect_refused(situ_slice(x, 1, 0, 5, 1), SITU_E_ARG, "slice", "dimension 1 is outside -1..0");
  expect_refused(situ_narrow(x, 0, 3, 3), SITU_E_INDEX, "narrow", "start 3 and length 3 leave dimension 0, of size 5");
  expect_refused(situ_narrow(x, 0, INT64_MAX, INT64_MAX), SITU_E_INDEX, "narrow", "leave");
  expect_refused(situ_narrow(x, 0, 0, -1), SITU_E_INDEX, "narrow", "length -1");
  expect_refused(situ_select(x, 0, 5), SITU_E_INDEX, "select", "index 5 is outside dimension 0, of size 5");
  expect_refused(situ_select(x, 0, INT64_MIN), SITU_E_INDEX, "select", "outside");
  expect_refused(situ_select(T32(SITU_SCALAR, 1), 0, 0), SITU_E_ARG, "select", "0-dim");
  /* documented: ends are clamped, as in Python */
  assert_int_equal(situ_numel(situ_slice(x, 0, 4, 1, 1)), 0);
  expect_exact(situ_slice(x, 0, INT64_MIN, INT64_MAX, INT64_MAX), SITU_SHAPE(1), 0);
  expect_exact(situ_slice(x, 0, -2, 100, 1), SITU_SHAPE(2), 3, 4);
}

static void rows_18_and_19_dimensions(void **state) {
  (void)state;
  situ_tensor *x = six(), *full = situ_zeros(SITU_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), HERE(0));
  expect_refused(situ_permute(x, SITU_DIMS(0, 0)), SITU_E_ARG, "permute", "dimension 0 is listed twice");
  expect_refused(situ_permute(x, SITU_DIMS(1, -1)), SITU_E_ARG, "permute", "dimension 1 is listed twice");
  expect_refused(situ_permute(x, SITU_DIMS(0, 2)), SITU_E_ARG, "permute", "dimension 2 is outside -2..1");
  expect_refused(situ_permute(x, SITU_DIMS(0, -3)), SITU_E_ARG, "permute", "dimension -3");
  expect_refused(situ_permute(x, SITU_DIMS(0, INT64_MIN)), SITU_E_ARG, "permute", "outside");
  expect_refused(situ_permute(x, SITU_DIMS(0, 1, 2)), SITU_E_ARG, "permute", "3 dimensions listed for a tensor of 2");
  expect_refused(situ_transpose(x, 0, 2), SITU_E_ARG, "transpose", "dimension 2");
  expect_refused(situ_squeeze(x, SITU_DIMS(2)), SITU_E_ARG, "squeeze", "dimension 2");
  expect_refused(situ_unsqueeze(x, 4), SITU_E_ARG, "unsqueeze", "dimension 4");
  expect_refused(situ_unsqueeze(x, -4), SITU_E_ARG, "unsqueeze", "dimension -4");
  expect_refused(situ_unsqueeze(full, 0), SITU_E_ARG, "unsqueeze", "8 dimensions already");
  expect_refused(situ_flatten(x, 0, 2), SITU_E_ARG, "flatten", "dimension 2");
  expect_refused(situ_flatten(x, 1, 0), SITU_E_ARG, "flatten", "start 1 comes after end 0");
  expect_refused(situ_flip(x, SITU_DIMS(0, -2)), SITU_E_ARG, "flip", "twice");
  expect_refused(situ_flip(x, SITU_DIMS(2)), SITU_E_ARG, "flip", "dimension 2");
  expect_refused(situ_roll(x, SITU_DIMS(1, 1), SITU_DIMS(0)), SITU_E_ARG, "roll", "2 shifts for 1 dimensions");
  expect_refused(situ_roll(x, SITU_DIMS(1), SITU_DIMS(2)), SITU_E_ARG, "roll", "dimension 2");
  expect_exact(situ_roll(x, SITU_DIMS(INT64_MIN), SITU_DIMS(0)), SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
}

static void row_20_expand(void **state) {
  (void)state;
  situ_tensor *x = six();
  expect_refused(situ_expand(x, SITU_SHAPE(4, 3)), SITU_E_SHAPE, "expand", "[2, 3] does not expand to [4, 3]");
  expect_refused(situ_expand(x, SITU_SHAPE(3)), SITU_E_SHAPE, "expand", "does not expand to [3]");
  expect_refused(situ_expand(x, SITU_SHAPE(-1, 2, 3)), SITU_E_SHAPE, "expand", "[-1, 2, 3]");
  expect_refused(situ_expand(x, SITU_SHAPE(INT64_MAX, 2, 3)), SITU_E_OVERFLOW, "expand", "2^63");
  expect_refused(situ_repeat(x, SITU_SHAPE(2)), SITU_E_ARG, "repeat", "1 repetitions for a tensor of 2 dimensions");
  expect_refused(situ_repeat(x, SITU_SHAPE(1, -1)), SITU_E_ARG, "repeat", "-1 repetitions");
  expect_refused(situ_repeat(x, SITU_SHAPE(1, INT64_MAX)), SITU_E_OVERFLOW, "repeat", "repetitions of size 3");
}

static void rows_21_to_23_shared_memory(void **state) {
  (void)state;
  situ_tensor *one = T32(SITU_SHAPE(1), 5), *wide = situ_expand(one, SITU_SHAPE(4)),
              *row = T32(SITU_SHAPE(4), 1, 2, 3, 4);
  expect_refused(situ_add_(wide, row), SITU_E_ALIAS, "add_", "share memory");
  expect_refused(situ_fill_(wide, 1), SITU_E_ALIAS, "fill_", "share memory");
  expect_refused(situ_copy_(wide, row), SITU_E_ALIAS, "", "share memory");
  expect_refused(situ_exp_(situ_as_strided(row, SITU_SHAPE(2, 3), SITU_SHAPE(1, 1), 0)), SITU_E_ALIAS, "exp_",
                 "share memory");
  expect_refused(situ_scatter_add_(wide, 0, TI64(SITU_SHAPE(1), 0), one), SITU_E_ALIAS, "scatter_add_", "share memory");
  assert_int_equal(situ_copy_from_host(wide, (float[4]){ 0 }, 16), SITU_E_ALIAS);
  expect_error(SITU_E_ALIAS, "copy_from_host", "share memory");
  expect_refused(situ_add_(situ_narrow(row, 0, 1, 3), situ_narrow(row, 0, 0, 3)), SITU_E_ALIAS, "add_",
                 "operand 1 may overlap");
  expect_refused(situ_copy_(situ_narrow(row, 0, 1, 3), situ_narrow(row, 0, 0, 3)), SITU_E_ALIAS, "", "overlap");
  situ_tensor *square = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4);
  expect_refused(situ_add_(square, situ_transpose(square, 0, 1)), SITU_E_ALIAS, "add_", "overlap");
  situ_tensor *small = situ_narrow(row, 0, 0, 2);
  expect_refused(situ_add_(small, T32(SITU_SHAPE(2, 2), 1, 1, 1, 1)), SITU_E_SHAPE, "add_",
                 "[2, 2] does not fit in place into [2]");
  expect_exact(one, SITU_SHAPE(1), 5);
  expect_exact(row, SITU_SHAPE(4), 1, 2, 3, 4);
  expect_exact(square, SITU_SHAPE(2, 2), 1, 2, 3, 4);
}

static void row_24_joining(void **state) {
  (void)state;
  situ_tensor *x = six(), *line = T32(SITU_SHAPE(3), 1, 2, 3),
              *away = situ_zeros(SITU_SHAPE(2, 3), &(situ_options){ .device = situ_dev("meta") });
#define CAT(dim, ...)                                                                                                 \
  situ_cat((situ_tensor *[]){ __VA_ARGS__ }, (int)(sizeof((situ_tensor *[]){ __VA_ARGS__ }) / sizeof(situ_tensor *)), \
           dim)
#define STACK(dim, ...)                        \
  situ_stack((situ_tensor *[]){ __VA_ARGS__ }, \
             (int)(sizeof((situ_tensor *[]){ __VA_ARGS__ }) / sizeof(situ_tensor *)), dim)
  expect_refused(situ_cat(NULL, 0, 0), SITU_E_ARG, "cat", "at least one tensor");
  expect_refused(situ_cat(&x, -1, 0), SITU_E_ARG, "cat", "at least one tensor");
  expect_refused(situ_stack(&x, 0, 0), SITU_E_ARG, "stack", "at least one tensor");
  expect_refused(CAT(0, x, NULL), SITU_E_ARG, "cat", "NULL");
  expect_refused(STACK(0, x, NULL), SITU_E_ARG, "stack", "NULL");
  expect_refused(CAT(0, x, line), SITU_E_SHAPE, "cat", "[3]");
  expect_refused(CAT(0, x, T32(SITU_SHAPE(1, 2), 1, 2)), SITU_E_SHAPE, "cat", "[1, 2]");
  expect_refused(CAT(2, x, x), SITU_E_ARG, "cat", "dimension 2");
  expect_refused(CAT(0, T32(SITU_SCALAR, 1)), SITU_E_SHAPE, "cat", "0-dim");
  expect_refused(CAT(0, x, away), SITU_E_DEVICE, "cat", "meta");
  expect_refused(STACK(0, x, line), SITU_E_SHAPE, "stack", "tensor 1 is [3], the first is [2, 3]");
  expect_refused(STACK(4, x, x), SITU_E_ARG, "stack", "dimension 4");
  expect_refused(STACK(0, x, away), SITU_E_DEVICE, "", "meta");
  situ_tensor *endless = situ_expand(situ_to_dtype(T32(SITU_SHAPE(1), 1), SITU_U8), SITU_SHAPE(INT64_MAX / 2 + 1));
  expect_refused(CAT(0, endless, endless), SITU_E_OVERFLOW, "cat", "2^63");
}

static void row_25_splitting(void **state) {
  (void)state;
  situ_tensor *x = six(), *out[3] = { x, x, x };
#define REFUSE(call, code, op, part)         \
  do {                                       \
    assert_int_equal(call, -1);              \
    expect_error(code, op, part);            \
    assert_true(out[0] == x && out[2] == x); \
  } while (0)
  REFUSE(situ_split_sizes(x, SITU_SHAPE(1, 1), 1, out, 3), SITU_E_ARG, "split_sizes", "[1, 1] do not add up to 3");
  REFUSE(situ_split_sizes(x, SITU_SHAPE(4, -1), 1, out, 3), SITU_E_ARG, "split_sizes", "[4, -1]");
  REFUSE(situ_split_sizes(x, SITU_SHAPE(INT64_MAX, INT64_MAX, 5), 1, out, 3), SITU_E_ARG, "split_sizes",
         "do not add up");
  REFUSE(situ_split_sizes(x, (situ_shape){ .ndim = 9 }, 1, out, 3), SITU_E_ARG, "split_sizes", "");
  REFUSE(situ_split(x, 0, 1, out, 3), SITU_E_ARG, "split", "size 0 must be positive");
  REFUSE(situ_split(x, INT64_MIN, 1, out, 3), SITU_E_ARG, "split", "positive");
  REFUSE(situ_split(x, 1, 2, out, 3), SITU_E_ARG, "split", "dimension 2");
  REFUSE(situ_chunk(x, 0, 1, out, 3), SITU_E_ARG, "chunk", "0 chunks");
  REFUSE(situ_chunk(x, -3, 1, out, 3), SITU_E_ARG, "chunk", "-3 chunks");
  REFUSE(situ_unbind(x, 7, out, 3), SITU_E_ARG, "unbind", "dimension 7");
  REFUSE(situ_split(x, 1, 1, NULL, 3), SITU_E_ARG, "split", "out is NULL, with a capacity of 3");
  REFUSE(situ_split(x, 1, 1, out, 2), SITU_E_ARG, "split", "3 pieces, but out has a capacity of 2");
  REFUSE(situ_unbind(x, 1, out, 2), SITU_E_ARG, "unbind", "3 pieces");
  REFUSE(situ_unbind(x, 1, out, -1), SITU_E_ARG, "unbind", "a capacity of -1");
  assert_int_equal(situ_chunk(x, INT64_MAX, 1, out, 3), 3);
  assert_true(out[0] != x && situ_size(out[2], 1) == 1);
  /* without an array, only the number is returned */
  int64_t before = situ_live_tensors();
  assert_int_equal(situ_split(x, 2, 1, NULL, 0), 2);
  assert_int_equal(situ_split_sizes(x, SITU_SHAPE(1, 2), 1, NULL, 0), 2);
  assert_int_equal(situ_chunk(x, 2, 0, NULL, 0), 2);
  assert_int_equal(situ_unbind(x, 1, NULL, 0), 3);
  assert_int_equal(situ_live_tensors(), before);
}

static void row_26_pad(void **state) {
  (void)state;
  situ_tensor *x = six();
  expect_refused(situ_pad(x, SITU_DIMS(1), SITU_PAD_CONSTANT, 0), SITU_E_ARG, "pad", "1 borders");
  expect_refused(situ_pad(x, SITU_DIMS(1, 1, 1, 1, 1, 1), SITU_PAD_CONSTANT, 0), SITU_E_ARG, "pad", "6 borders");
  expect_refused(situ_pad(x, SITU_DIMS(-2, -2), SITU_PAD_CONSTANT, 0), SITU_E_SHAPE, "pad",
                 "dimension 1 would have size -1");
  expect_refused(situ_pad(x, SITU_DIMS(INT64_MAX, INT64_MAX), SITU_PAD_CONSTANT, 0), SITU_E_OVERFLOW, "pad", "2^63");
  expect_refused(situ_pad(x, SITU_DIMS(INT64_MIN, INT64_MIN), SITU_PAD_CONSTANT, 0), SITU_E_OVERFLOW, "pad",
                 "dimension 1");
  expect_refused(situ_pad(x, SITU_DIMS(3, 0), SITU_PAD_REFLECT, 0), SITU_E_ARG, "pad",
                 "borders 3 and 0 at dimension 1, of size 3: this mode takes up to 2");
  expect_refused(situ_pad(x, SITU_DIMS(-2, -1), SITU_PAD_REFLECT, 0), SITU_E_SHAPE, "pad", "borders -2");
  expect_refused(situ_pad(x, SITU_DIMS(INT64_MIN, INT64_MAX), SITU_PAD_CONSTANT, 0), SITU_E_SHAPE, "pad",
                 "crop more than the 3");
  expect_refused(situ_pad(x, SITU_DIMS(4, 0), SITU_PAD_CIRCULAR, 0), SITU_E_ARG, "pad", "up to 3");
  expect_refused(situ_pad(x, SITU_DIMS(INT64_MAX, INT64_MAX), SITU_PAD_REPLICATE, 0), SITU_E_OVERFLOW, "", "2^63");
  expect_refused(situ_pad(situ_zeros(SITU_SHAPE(1, 0), HERE(0)), SITU_DIMS(1, 1), SITU_PAD_REPLICATE, 0), SITU_E_ARG,
                 "pad", "size 0");
  expect_refused(situ_pad(x, SITU_DIMS(1, 1), (situ_pad_mode)9, 0), SITU_E_ARG, "pad", "9 is not a padding mode");
  expect_refused(situ_pad(x, (situ_shape){ 0 }, SITU_PAD_CONSTANT, 0), SITU_E_ARG, "pad", "0 borders");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(rows_13_and_14_reshape),
    TEST(rows_15_and_16_as_strided),
    TEST(row_17_slice),
    TEST(rows_18_and_19_dimensions),
    TEST(row_20_expand),
    TEST(rows_21_to_23_shared_memory),
    TEST(row_24_joining),
    TEST(row_25_splitting),
    TEST(row_26_pad),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
