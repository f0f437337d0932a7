/* Values where numbers of very different sizes meet, or a kernel is much larger than what it is moved over.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "situ/error.h"
#include "situ/ops.h"
#include "support/test.h"

/* ---- polygamma: beside its series ---- */

/* The terms one by one up to x = 400, and Euler's and Maclaurin's formula for the rest, in long double. */
static double polygamma(int n, double at) {
  long double x = at, sum = 0, factorial = 1;
  for (int k = 2; k <= n; k++) factorial *= k;
  for (; x < 400; x += 1) sum += powl(x, -(n + 1));
  const long double s = n + 1, tail = powl(x, 1 - s) / (s - 1) + powl(x, -s) / 2 + s / 12 * powl(x, -s - 1) -
                                      s * (s + 1) * (s + 2) / 720 * powl(x, -s - 3);
  return (double)((n % 2 ? 1 : -1) * factorial * (sum + tail));
}

/* An even derivative is small halfway between two poles, and its slope there large: an error of the distance from there
   is allowed. */
static void polygamma_of_negative_numbers(void **state) {
  (void)state;
  enum { MANY = 400 };
  static double x[MANY], got[MANY], want[MANY], slope[MANY];
  for (int i = 0; i < MANY; i++) x[i] = (double)(float)(-20 + i * 0.0513), x[i] += x[i] == trunc(x[i]) ? 0.25 : 0;
  for (int i = 0; i < 60; i++) x[i] = -i / 3 - 0.5 + (i % 3) * 0x1p-12;
  for (int n = 1; n <= 6; n++) {
    for (int i = 0; i < MANY; i++) want[i] = polygamma(n, x[i]), slope[i] = polygamma(n + 1, x[i]);
    for (int wide = 0; wide < 2; wide++) {
      const double eps = wide ? 0x1p-53 : 0x1p-24;
      situ_tensor *y = situ_polygamma(n, test_tensor(wide ? SITU_F64 : SITU_F32, SITU_SHAPE(MANY), x));
      test_read(y, got);
      for (int i = 0; i < MANY; i++) {
        if (fabs(got[i] - want[i]) > eps * (200 * fabs(want[i]) + 4 * fabs(slope[i] * (x[i] - floor(x[i]) - 0.5))) +
                                         0x1p-60 * fabs(slope[i])) /* the error of the series here */
          fail_msg("polygamma(%d, %.9g) of %s is %.9g, want %.9g", n, x[i], wide ? "f64" : "f32", got[i], want[i]);
      }
    }
  }
}

/* ---- running sums ---- */

/* In [big, -big, small] at each place of blocks and chunks, after ones that the big one swallows or not. */
static void sums_keep_a_small_element(void **state) {
  (void)state;
  static const int64_t places[] = { 0, 1, 5, 6, 7, 8, 1020, 1022, 1023, 16380, 16382, 16383, 32766, 40000 };
  enum { SIZE = 50000 };
  static double v[SIZE], got[SIZE];
  for (int wide = 0; wide < 2; wide++)
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
      const int64_t at = places[k];
      memset(v, 0, sizeof v);
      v[at] = wide ? 1e300 : 3e38, v[at + 1] = -v[at], v[at + 2] = 88.75;
      situ_tensor *x = test_tensor(wide ? SITU_F64 : SITU_F32, SITU_SHAPE(SIZE), v);
      test_read(situ_cumsum(x, 0), got);
      for (int64_t i = at + 2; i < SIZE; i++)
        if (got[i] != 88.75)
          fail_msg("%s, %lld: %g at %lld", wide ? "f64" : "f32", (long long)at, got[i], (long long)i);
      test_read(situ_cumsum(situ_reshape(x, SITU_SHAPE(2, SIZE / 2)), 1), got);
      if (at < SIZE / 2 - 2) assert_true(got[SIZE / 2 - 1] == 88.75);
    }
  memset(v, 0, sizeof v);
  v[0] = INFINITY, v[SIZE - 1] = 1;
  test_read(situ_cumsum(test_tensor(SITU_F32, SITU_SHAPE(SIZE), v), 0), got);
  assert_true(isinf(got[20000]) && isinf(got[SIZE - 2]));
}

/* ---- windows much wider than the plane: a loop over the window would take hours ---- */

static double in_window(int64_t at, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t element) {
  const int64_t first = at * stride - padding;
  return element < size && element >= first && element - first < kernel;
}

static void windows_wider_than_the_plane(void **state) {
  (void)state;
  enum { H = 3, W = 4 };
  static const int64_t kernels[] = { 9, 1000001, INT32_MAX }, strides[] = { 1, 2, 7, 1000000, INT32_MAX };
  double x[H * W], got[64], back[H * W];
  for (int i = 0; i < H * W; i++) x[i] = i * i % 11 - 5;
  for (int k = 0; k < 3; k++)
    for (int s = 0; s < 5; s++)
      for (int down = 0; down < 2; down++) {
        const int64_t kernel = kernels[k], padding = kernel / 2, stride = strides[s], wide = down ? H : W;
        const situ_pool_options o = { .kernel = down ? SITU_DIMS(kernel, 1) : SITU_DIMS(1, kernel),
                                      .stride = down ? SITU_DIMS(stride, 1) : SITU_DIMS(1, stride),
                                      .padding = down ? SITU_DIMS(padding, 0) : SITU_DIMS(0, padding),
                                      .divisor_override = 1 };
        situ_pool_options plain = o;
        plain.divisor_override = 0;
        situ_tensor *leaf = situ_requires_grad_(test_tensor(SITU_F32, SITU_SHAPE(1, 1, H, W), x), true);
        situ_tensor *sum = situ_avg_pool2d(leaf, &o), *most = situ_max_pool2d(situ_detach(leaf), &plain, NULL);
        const int64_t count = situ_size(sum, down ? 2 : 3);
        assert_in_range(situ_numel(sum), 1, 64);
        double want[H * W] = { 0 };
        for (int what = 0; what < 2; what++) {
          test_read(what ? most : sum, got);
          for (int64_t line = 0; line < (down ? W : H); line++)
            for (int64_t at = 0; at < count; at++) {
              double all = 0, largest = -INFINITY;
              for (int64_t e = 0; e < wide; e++) {
                if (!in_window(at, wide, kernel, stride, padding, e)) continue;
                const int64_t i = down ? e * W + line : line * W + e;
                all += x[i], largest = fmax(largest, x[i]);
                want[i] += what == 0;
              }
              assert_true(got[down ? at * W + line : line * count + at] == (what ? largest : all));
            }
        }
        assert_int_equal(situ_backward(situ_sum(sum, NULL), NULL), SITU_OK);
        test_read(situ_grad(leaf), back);
        assert_memory_equal(back, want, sizeof want);
      }
}

/* ---- values of dtypes that were refused ---- */

static void neighbours_of_16_bits(void **state) {
  (void)state;
  for (int half = 0; half < 2; half++) {
    const situ_dtype dtype = half ? SITU_F16 : SITU_BF16;
    const double most = half ? 65504 : 0x1.FEp127, least = half ? 0x1p-24 : 0x1p-133, eps = half ? 0x1p-10 : 0x1p-7;
    const double from[] = { 1, 1, -1, 0, 0, -0.0, least, most, INFINITY, -INFINITY, 2, NAN, 3, 5, 255 * least };
    const double to[] = { 2, 0, -2, 1, -1, -0.0, 0, INFINITY, 0, 0, INFINITY, 1, NAN, 5, 1 };
    const double want[] = { 1 + eps, 1 - eps / 2, -1 - eps,    least, -least, -0.0, 0,          INFINITY,
                            most,    -most,       2 + 2 * eps, NAN,   NAN,    5,    256 * least };
    enum { MANY = sizeof from / sizeof *from };
    situ_tensor *y =
        situ_nextafter(test_tensor(dtype, SITU_SHAPE(MANY), from), test_tensor(dtype, SITU_SHAPE(MANY), to));
    test_close_(y, SITU_SHAPE(MANY), want, 0, 0, __FILE__, __LINE__);
    assert_int_equal(situ_dtype_of(y), dtype);
  }
}

static void truth_values(void **state) {
  (void)state;
  situ_tensor *x = TBOOL(SITU_SHAPE(2, 2), 1, 0, 0, 0), *a = TBOOL(SITU_SHAPE(2), 1, 0),
              *b = TBOOL(SITU_SHAPE(2), 0, 1);
  expect_exact(situ_addr(x, a, b, NULL), SITU_SHAPE(2, 2), 1, 1, 0, 0);
  expect_exact(situ_addr(x, a, b, OPTIONS_AT(situ_addmm, with.beta = 0)), SITU_SHAPE(2, 2), 0, 1, 0, 0);
  expect_exact(situ_addr(x, a, b, OPTIONS_AT(situ_addmm, with.alpha = 0)), SITU_SHAPE(2, 2), 1, 0, 0, 0);
  expect_refused(situ_addr(x, a, b, OPTIONS_AT(situ_addmm, with.beta = 0.5)), SITU_E_ARG, "addr", "whole");
  situ_tensor *index = TI64(SITU_SHAPE(3), 0, 0, 1), *src = TBOOL(SITU_SHAPE(3), 1, 0, 0);
  expect_exact(situ_scatter_reduce(b, 0, index, src, SITU_SCATTER_SUM, true), SITU_SHAPE(2), 1, 1);
  expect_exact(situ_scatter_reduce(a, 0, index, src, SITU_SCATTER_PROD, true), SITU_SHAPE(2), 0, 0);
  expect_exact(situ_scatter_reduce(a, 0, index, src, SITU_SCATTER_AMAX, false), SITU_SHAPE(2), 1, 0);
  expect_refused(situ_scatter_reduce(a, 0, index, src, SITU_SCATTER_MEAN, true), SITU_E_DTYPE, "scatter_reduce",
                 "mean");
  expect_exact(situ_clamp_tensor(a, b, NULL), SITU_SHAPE(2), 1, 1);
  expect_exact(situ_clamp_tensor(a, NULL, b), SITU_SHAPE(2), 0, 0);
}

/* As torch 2.15: each dimension rounds half up, the last one first. */
static void bytes_are_resampled(void **state) {
  (void)state;
  situ_tensor *x = TEST_TENSOR(SITU_U8, SITU_SHAPE(1, 1, 2, 4), 0, 255, 3, 8, 100, 7, 250, 1);
  situ_interpolate_options o = { .size = SITU_DIMS(2, 2), .mode = SITU_INTERPOLATE_BILINEAR };
  expect_exact(situ_interpolate(x, &o), SITU_SHAPE(1, 1, 2, 2), 128, 6, 54, 126);
  o = (situ_interpolate_options){ .size = SITU_DIMS(2, 2) };
  expect_exact(situ_interpolate(x, &o), SITU_SHAPE(1, 1, 2, 2), 0, 3, 100, 250);
  o = (situ_interpolate_options){ .size = SITU_DIMS(2, 8), .mode = SITU_INTERPOLATE_BICUBIC };
  situ_tensor *y = situ_interpolate(x, &o);
  assert_int_equal(situ_dtype_of(y), SITU_U8);
  o.mode = SITU_INTERPOLATE_AREA;
  expect_refused(situ_interpolate(x, &o), SITU_E_DTYPE, "interpolate", "u8");
}

static void ranges_and_windows(void **state) {
  (void)state;
  const situ_options whole = { .dtype = SITU_I64, .device = test_device() }, here = { .device = test_device() };
  expect_exact(situ_logspace(0, 1.2, 2, 10, &whole), SITU_SHAPE(2), 1, 10);
  expect_exact(situ_logspace(-0.9, 2.9, 3, 2, &whole), SITU_SHAPE(3), 1, 2, 4);
  for (double beta = 0; beta < 700; beta += 13) {
    situ_tensor *w = situ_kaiser_window(32, true, beta, &here);
    expect_exact(situ_sum(situ_isfinite(w), NULL), SITU_SCALAR, 32);
    expect_close(situ_amax(w, NULL), SITU_SCALAR, 1e-5, 0, 1);
  }
}

/* ---- what is logged ---- */

static void count_lines(const char *line, void *payload) {
  if (strstr(line, "broadcast")) ++*(int *)payload;
}
static void losses_of_broadcast_operands_are_logged_once(void **state) {
  (void)state;
  int lines = 0;
  situ_tensor *x = T32(SITU_SHAPE(4, 1), 1, 2, 3, 4), *t = T32(SITU_SHAPE(4), 1, 2, 3, 4);
  situ_error_log(count_lines, &lines);
  for (int k = 0; k < 3; k++) (void)situ_mse_loss(x, t, SITU_REDUCTION_MEAN);
  assert_int_equal(lines, 1);
  (void)situ_l1_loss(x, t, SITU_REDUCTION_MEAN);
  (void)situ_smooth_l1_loss(x, t, 1, SITU_REDUCTION_MEAN);
  (void)situ_huber_loss(x, t, 1, SITU_REDUCTION_MEAN);
  assert_int_equal(lines, 4);
  (void)situ_mse_loss(t, t, SITU_REDUCTION_MEAN);
  situ_error_log(NULL, NULL);
  assert_int_equal(lines, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(polygamma_of_negative_numbers),
                                      TEST(sums_keep_a_small_element),
                                      TEST(windows_wider_than_the_plane),
                                      TEST(neighbours_of_16_bits),
                                      TEST(truth_values),
                                      TEST(bytes_are_resampled),
                                      TEST(ranges_and_windows),
                                      TEST(losses_of_broadcast_operands_are_logged_once) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
