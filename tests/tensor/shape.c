/* Shapes, dtypes and handles: what a tensor is, and what is refused before there is one. */
/* test-devices: cpu sim:0 meta */
#include "support/test.h"
#include "situ/sys/op.h"

static situ_options here(situ_dtype dtype) { return (situ_options){ .dtype = dtype, .device = test_device() }; }

static void sizes_and_strides(void **state) {
  (void)state;
  situ_options o = here(SITU_F32);
  situ_tensor *t = situ_empty(SITU_SHAPE(2, 3, 4), &o);
  assert_int_equal(situ_dim(t), 3);
  assert_int_equal(situ_size(t, -1), 4);
  assert_int_equal(situ_stride(t, 0), 12);
  assert_int_equal(situ_numel(t), 24);
  assert_true(situ_is_contiguous(t));
  situ_tensor *p = situ_permute(t, SITU_DIMS(2, 0, 1));
  assert_int_equal(situ_size(p, 0), 4);
  assert_int_equal(situ_stride(p, 0), 1);
  assert_false(situ_is_contiguous(p));
  assert_true(situ_shares_storage(t, p));
  assert_int_equal(situ_size(t, 3), -1);
  expect_error(SITU_E_ARG, "size", "outside -3..2");
}

/* Rows 1 to 7 of the list of bad inputs. */
static void bad_shapes(void **state) {
  (void)state;
  situ_options o = here(SITU_F32), wide = here(SITU_F64);
  expect_refused(situ_empty(SITU_SHAPE(-1, 3), &o), SITU_E_SHAPE, "empty", "negative");
  expect_refused(situ_empty(SITU_SHAPE(2, 2, 1, 2305843009213693952), &o), SITU_E_OVERFLOW, "empty", "2^63");
  expect_refused(situ_empty(SITU_SHAPE(2305843009213693952), &wide), SITU_E_OVERFLOW, "empty", "bytes");
  expect_refused(situ_empty(SITU_SHAPE(0, 4611686018427387904, 4611686018427387904), &o), SITU_E_OVERFLOW, "empty",
                 "2^63");
  expect_refused(situ_empty((situ_shape){ .ndim = 9 }, &o), SITU_E_ARG, "empty", "0 to 8");
  expect_refused(situ_empty((situ_shape){ .ndim = -1 }, &o), SITU_E_ARG, "empty", "0 to 8");
  situ_options odd = here((situ_dtype)99);
  expect_refused(situ_empty(SITU_SHAPE(1), &odd), SITU_E_DTYPE, "empty", "not a dtype");
  odd.dtype = (situ_dtype)-1;
  expect_refused(situ_empty(SITU_SHAPE(1), &odd), SITU_E_DTYPE, "empty", "not a dtype");
}

static void empty_tensors_are_fine(void **state) {
  (void)state;
  situ_options o = here(SITU_F32);
  situ_tensor *t = situ_empty(SITU_SHAPE(0, 3), &o);
  assert_int_equal(situ_numel(t), 0);
  assert_int_equal(situ_numel(situ_permute(t, SITU_DIMS(1, 0))), 0);
  assert_int_equal(situ_dim(situ_empty(SITU_SCALAR, &o)), 0);
}

static void views_refuse(void **state) {
  (void)state;
  situ_options o = here(SITU_F32);
  situ_tensor *t = situ_empty(SITU_SHAPE(2, 3), &o), *line = situ_empty(SITU_SHAPE(3), &o);
  expect_refused(situ_reshape(line, SITU_SHAPE(2, 2)), SITU_E_SHAPE, "reshape",
                 "3 elements do not fit into shape [2, 2]");
  expect_refused(situ_reshape(t, SITU_SHAPE(-1, -1)), SITU_E_SHAPE, "reshape", "do not fit");
  expect_refused(situ_reshape(situ_empty(SITU_SHAPE(0, 3), &o), SITU_SHAPE(-1, 0)), SITU_E_SHAPE, "reshape",
                 "do not fit");
  expect_refused(situ_view(situ_transpose(t, 0, 1), SITU_SHAPE(6)), SITU_E_SHAPE, "view", "use situ_reshape");
  expect_refused(situ_permute(t, SITU_DIMS(0, 0)), SITU_E_ARG, "permute", "twice");
  expect_refused(situ_permute(t, SITU_DIMS(0, 2)), SITU_E_ARG, "permute", "outside");
  expect_refused(situ_permute(t, SITU_DIMS(0, -3)), SITU_E_ARG, "permute", "outside");
  expect_refused(situ_permute(t, SITU_DIMS(0)), SITU_E_ARG, "permute", "1 dimensions listed");
  expect_refused(situ_unsqueeze(t, 3), SITU_E_ARG, "unsqueeze", "outside");
  expect_refused(situ_squeeze(t, SITU_DIMS(5)), SITU_E_ARG, "squeeze", "outside");
  expect_refused(situ_flatten(t, 1, 0), SITU_E_ARG, "flatten", "after");
  expect_refused(situ_expand(t, SITU_SHAPE(4, 3)), SITU_E_SHAPE, "expand", "does not expand");
  expect_refused(situ_slice(t, 0, 0, 2, 0), SITU_E_ARG, "slice", "positive");
  expect_refused(situ_slice(t, 0, 0, 2, INT64_MIN), SITU_E_ARG, "slice", "positive");
  expect_refused(situ_select(t, 0, 2), SITU_E_INDEX, "select", "outside");
  expect_refused(situ_narrow(t, 0, 1, 2), SITU_E_INDEX, "narrow", "leave");
  expect_refused(situ_narrow(t, 0, INT64_MAX, INT64_MAX), SITU_E_INDEX, "narrow", "leave");
  situ_tensor *full = situ_empty(SITU_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), &o);
  expect_refused(situ_unsqueeze(full, 0), SITU_E_ARG, "unsqueeze", "already");
}

static void slices_are_clamped_like_python(void **state) {
  (void)state;
  situ_options o = here(SITU_F32);
  situ_tensor *t = situ_empty(SITU_SHAPE(5), &o);
  assert_int_equal(situ_size(situ_slice(t, 0, 1, INT64_MAX, 2), 0), 2);
  assert_int_equal(situ_size(situ_slice(t, 0, -2, 100, 1), 0), 2);
  assert_int_equal(situ_size(situ_slice(t, 0, 4, 2, 1), 0), 0);
  assert_int_equal(situ_size(situ_slice(t, 0, -100, -100, 1), 0), 0);
}

static void as_strided_stays_inside(void **state) {
  (void)state;
  situ_options o = here(SITU_F32);
  situ_tensor *t = situ_empty(SITU_SHAPE(2, 3), &o);
  if (test_device().kind != SITU_META) {
    expect_refused(situ_as_strided(t, SITU_SHAPE(2), SITU_SHAPE(1), 5), SITU_E_INDEX, "as_strided", "holds 6");
    expect_refused(situ_as_strided(t, SITU_SHAPE(2), SITU_SHAPE(1), INT64_MAX), SITU_E_OVERFLOW, "as_strided", "");
  }
  expect_refused(situ_as_strided(t, SITU_SHAPE(2), SITU_SHAPE(1), -1), SITU_E_INDEX, "as_strided", "negative");
  expect_refused(situ_as_strided(t, SITU_SHAPE(4, 4), SITU_SHAPE(INT64_MAX, 2), 0), SITU_E_OVERFLOW, "as_strided",
                 "2^63");
  expect_refused(situ_as_strided(t, SITU_SHAPE(2, 2), SITU_SHAPE(-1, 1), 0), SITU_E_ARG, "as_strided", "negative");
  assert_int_equal(situ_numel(situ_as_strided(t, SITU_SHAPE(2, 2), SITU_SHAPE(1, 2), 1)), 4);
}

static void promotion_table(void **state) {
  (void)state;
  assert_int_equal(situ_promote_types(SITU_U8, SITU_I8), SITU_I16);
  assert_int_equal(situ_promote_types(SITU_U8, SITU_I32), SITU_I32);
  assert_int_equal(situ_promote_types(SITU_F16, SITU_BF16), SITU_F32);
  assert_int_equal(situ_promote_types(SITU_I64, SITU_F16), SITU_F16);
  assert_int_equal(situ_promote_types(SITU_BOOL, SITU_U8), SITU_U8);
  assert_int_equal(situ_promote_types(SITU_F32, SITU_F64), SITU_F64);
  assert_int_equal(situ_promote_types(SITU_DTYPE_DEFAULT, SITU_F64), SITU_DTYPE_DEFAULT);
}

/* Tensors with dimensions decide, but for a kind that is above theirs. */
static void result_types(void **state) {
  (void)state;
  situ_options i64 = here(SITU_I64), f32 = here(SITU_F32), f64 = here(SITU_F64);
  situ_tensor *whole = situ_ones(SITU_SHAPE(2), &i64), *row = situ_ones(SITU_SHAPE(2), &f32),
              *scalar = situ_ones(SITU_SCALAR, &f64);
  assert_int_equal(situ_result_type((situ_tensor *[]){ row, scalar }, 2), SITU_F32);
  assert_int_equal(situ_result_type((situ_tensor *[]){ whole, scalar }, 2), SITU_F64);
  assert_int_equal(situ_result_type((situ_tensor *[]){ scalar, NULL }, 2), SITU_F64);
  assert_int_equal(situ_result_type((situ_tensor *[]){ row, whole }, 2), SITU_F32);
}

static void null_and_dead_handles(void **state) {
  (void)state;
  expect_refused(situ_reshape(NULL, SITU_SHAPE(1)), SITU_E_ARG, "reshape", "NULL");
  situ_tensor *none = situ_empty(SITU_SHAPE(-1), NULL);
  assert_null(situ_clone(situ_reshape(none, SITU_SHAPE(2))));
  expect_error(SITU_E_SHAPE, "empty", "negative"); /* the first error is kept: the NULLs that follow say nothing */
  uint64_t zeroed[64] = { 0 };
  expect_refused(situ_clone((situ_tensor *)zeroed), SITU_E_ARG, "clone", "input is not a tensor");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(sizes_and_strides),
    TEST(bad_shapes),
    TEST(empty_tensors_are_fine),
    TEST(views_refuse),
    TEST(slices_are_clamped_like_python),
    TEST(as_strided_stays_inside),
    TEST(promotion_table),
    TEST(result_types),
    TEST(null_and_dead_handles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
