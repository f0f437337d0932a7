/* isclose and allclose: PyTorch 2.15's answers, refusals, and that nothing is left behind.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

enum { FLOATS = 15 };
static const double a[FLOATS] = { 1, 1, 1, 0, 0, -1, INFINITY, -INFINITY, INFINITY, NAN, 1e30, -0.0, 1e-9, 100, 1e38 };
static const double b[FLOATS] = { 1, 1.00001, 1.0001,   1e-8, 2e-8,  1,       INFINITY, INFINITY,
                                  1, NAN,     INFINITY, 0.0,  -1e-9, 100.001, 3e38 };

/* `answers`: a digit for each element. */
static void expect_near(situ_dtype dtype, int count, const double *x, const double *y, double rtol, double atol,
                        bool equal_nan, const char *answers) {
  situ_tensor *input = test_tensor(dtype, SITU_SHAPE(count), x), *other = test_tensor(dtype, SITU_SHAPE(count), y);
  double want[FLOATS];
  bool every = true, all = false;
  for (int i = 0; i < count; i++) every &= (want[i] = answers[i] - '0') != 0;
  situ_tensor *near = situ_isclose(input, other, rtol, atol, equal_nan);
  assert_int_equal(situ_dtype_of(near), SITU_BOOL);
  test_close_(near, SITU_SHAPE(count), want, 0, 0, __FILE__, __LINE__);
  assert_int_equal(situ_allclose(input, other, rtol, atol, equal_nan, &all), SITU_OK);
  assert_int_equal(all, every);
}
#define LIST(...) ((const double[]){ __VA_ARGS__ })

static void as_torch(void **state) {
  (void)state;
  expect_near(SITU_F32, FLOATS, a, b, 1e-5, 1e-8, false, "100100100001110");
  expect_near(SITU_F32, FLOATS, a, b, 1e-5, 1e-8, true, "100100100101110");
  expect_near(SITU_F32, FLOATS, a, b, 0, 0, false, "100000100001000");
  expect_near(SITU_F32, FLOATS, a, b, 0.1, 0, false, "111000100001010");
  expect_near(SITU_F32, FLOATS, a, b, 0, 0.01, false, "111110100001110");
  expect_near(SITU_F32, FLOATS, a, b, 10, 0, false, "111111100001111");
  expect_near(SITU_F64, FLOATS, a, b, 1e-5, 1e-8, false, "110100100001110");
  const double *x = LIST(1, 1, 1000, 60000, 0), *y = LIST(1, 1.001, 1001, -60000, 1e-7);
  expect_near(SITU_F16, 5, x, y, 1e-5, 1e-8, false, "10000");
  expect_near(SITU_F16, 5, x, y, 2e-3, 1e-8, false, "11100");
  expect_near(SITU_I64, 3, LIST(3, 0x1p62, -5), LIST(4, 0x1p62 + 1024, 5), 0.25, 1e-8, false, "110");
  expect_near(SITU_I64, 3, LIST(3, 0x1p62, -5), LIST(4, 0x1p62 + 1024, 5), 0, 0, false, "000");
  expect_near(SITU_U8, 3, LIST(0, 255, 7), LIST(1, 0, 9), 0, 1, false, "100");
  expect_near(SITU_I8, 2, LIST(-128, 127), LIST(127, -128), 0, 1, false, "00");
  expect_near(SITU_BOOL, 3, LIST(0, 1, 1), LIST(0, 1, 0), 1e-5, 1e-8, false, "110");
  expect_near(SITU_BOOL, 3, LIST(0, 1, 1), LIST(0, 1, 0), 0, 1, false, "111");
}

static void shapes_and_history(void **state) {
  (void)state;
  bool all = false;
  situ_tensor *none = T32(SITU_SHAPE(0), 0), *rows = T32(SITU_SHAPE(2, 3), 1, 2, 3, 1, 2, 3.5);
  assert_int_equal(situ_allclose(none, none, 0, 0, false, &all), SITU_OK);
  assert_true(all);
  expect_exact(situ_isclose(rows, T32(SITU_SHAPE(3), 1, 2, 3), 0, 0.1, false), SITU_SHAPE(2, 3), 1, 1, 1, 1, 1, 0);
  /* parameters are compared without recording anything, and no temporary stays */
  situ_tensor *w = situ_requires_grad_(T32(SITU_SHAPE(3), 1, 2, 3), true);
  int64_t before = situ_live_tensors();
  assert_int_equal(situ_allclose(w, rows, 0.2, 0, true, &all), SITU_OK);
  assert_true(all);
  assert_int_equal(situ_live_tensors(), before);
  assert_false(situ_requires_grad(situ_isclose(w, rows, 1, 1, false)));
  assert_int_equal(situ_live_tensors(), before + 1);
}

static void refusals(void **state) {
  (void)state;
  bool all = true;
  situ_tensor *x = T32(SITU_SHAPE(2), 1, 2), *whole = TI64(SITU_SHAPE(2), 1, 2), *long_ = T32(SITU_SHAPE(3), 1, 2, 3);
  expect_refused(situ_isclose(x, whole, 1, 1, false), SITU_E_DTYPE, "isclose", "they must be equal");
  expect_refused(situ_isclose(x, x, -1, 0, false), SITU_E_ARG, "isclose", "rtol -1");
  expect_refused(situ_isclose(x, x, 0, NAN, false), SITU_E_ARG, "isclose", "atol nan");
  expect_refused(situ_isclose(x, long_, 0, 0, false), SITU_E_SHAPE, "isclose", "");
  expect_refused(situ_isclose(x, NULL, 0, 0, false), SITU_E_ARG, "isclose", "`other` is NULL");
  assert_int_equal(situ_allclose(x, whole, 1, 1, false, &all), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "allclose", "other is i64");
  assert_int_equal(situ_allclose(x, x, 1, 1, false, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "allclose", "out");
  assert_true(all); /* unchanged */
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(as_torch), TEST(shapes_and_history), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
