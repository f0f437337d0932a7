/* Fourier transforms, short-time transforms and windows through the API: values, round trips, gradients, refusals.
   tests/golden/ops/fft/fft.c compares them with PyTorch.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

#include "situ/sys/op.h"

#define FFT(...) \
  &(situ_fft_options) { __VA_ARGS__ }
#define FFTN(...) \
  &(situ_fftn_options) { __VA_ARGS__ }
#define STFT(...) \
  &(situ_stft_options) { __VA_ARGS__ }
#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static void values(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(4), 1, 2, 3, 4);
  expect_exact(situ_fft_rfft(x, NULL), SITU_SHAPE(3, 2), 10, 0, -2, 2, -2, 0);
  expect_exact(situ_fft_ihfft(x, NULL), SITU_SHAPE(3, 2), 2.5, 0, -0.5, -0.5, -0.5, 0);
  expect_exact(situ_fft_rfft(x, FFT(.n = 2)), SITU_SHAPE(2, 2), 3, 0, -1, 0);
  expect_exact(situ_fft_rfft(x, FFT(.n = 1, .norm = SITU_FFT_NORM_ORTHO)), SITU_SHAPE(1, 2), 1, 0);
  situ_tensor *z = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4);
  expect_exact(situ_fft_fft(z, NULL), SITU_SHAPE(2, 2), 4, 6, -2, -2);
  expect_exact(situ_fft_ifft(z, NULL), SITU_SHAPE(2, 2), 2, 3, -1, -1);
  expect_exact(situ_fft_fft(z, FFT(.n = 4)), SITU_SHAPE(4, 2), 4, 6, 5, -1, -2, -2, -3, 5);
  /* The imaginary part of the first element is not read, nor that of the last of an even length. */
  expect_exact(situ_fft_irfft(z, NULL), SITU_SHAPE(2), 2, -1);
  expect_exact(situ_fft_hfft(z, NULL), SITU_SHAPE(2), 4, -2);
  expect_values(situ_fft_fftfreq(5, 0.5, &(situ_options){ .device = test_device() }), SITU_SHAPE(5), 0, 0.4, 0.8, -0.8,
                -0.4);
  expect_exact(situ_fft_rfftfreq(4, 0.25, &(situ_options){ .device = test_device() }), SITU_SHAPE(3), 0, 1, 2);
  expect_exact(situ_fft_fftshift(T32(SITU_SHAPE(5), 0, 1, 2, 3, 4), (situ_shape){ 0 }), SITU_SHAPE(5), 3, 4, 0, 1, 2);
  expect_exact(situ_fft_ifftshift(T32(SITU_SHAPE(5), 3, 4, 0, 1, 2), SITU_DIMS(-1)), SITU_SHAPE(5), 0, 1, 2, 3, 4);
  expect_exact(situ_signal_windows_bartlett(5, true, &(situ_options){ .device = test_device() }), SITU_SHAPE(5), 0, 0.5,
               1, 0.5, 0);
}

/* There and back, of lengths that are transformed in each of the ways, with few lines and with many. */
/* A padded dimension is transformed alike wherever it is. */
static void each_dimension(void **state) {
  (void)state;
  for (int ndim = 1; ndim < SITU_MAX_DIMS; ndim++)
    for (int d = 0; d < ndim; d++) {
      situ_shape shape = { .ndim = ndim };
      for (int k = 0; k < ndim; k++) shape.dim[k] = 1 + (k == d) + (k == 0);
      situ_tensor *x = test_random(shape, -1, 1, false);
      situ_tensor *moved = situ_fft_rfft(situ_movedim(x, SITU_DIMS(d), SITU_DIMS(-1)), FFT(.n = 5));
      expect_same(situ_fft_rfft(x, FFT(.n = 5, .dim = SITU_DIMS(d))), situ_movedim(moved, SITU_DIMS(-2), SITU_DIMS(d)),
                  0, 0);
    }
}

static void round_trips(void **state) {
  (void)state;
  static const int64_t length[] = { 1, 2, 3, 5, 7, 16, 60, 67, 121, 134, 143, 1009, 2310, 4096, 4099 };
  for (size_t k = 0; k < sizeof length / sizeof *length; k++)
    for (int64_t lines = 1; lines < 20; lines += 16) {
      const int64_t n = length[k];
      if (test_device().kind == SITU_OPENCL && n > 200) continue;
      situ_scope s;
      situ_scope_begin(&s);
      situ_tensor *x = test_random(SITU_SHAPE(lines, n, 2), -1, 1, false);
      expect_same(situ_fft_ifft(situ_fft_fft(x, FFT(.dim = SITU_DIMS(1))), FFT(.dim = SITU_DIMS(1))), x, 0, 1e-12);
      situ_tensor *y = situ_select(x, 2, 0);
      expect_same(situ_fft_irfft(situ_fft_rfft(y, NULL), FFT(.n = n)), y, 0, 1e-12);
      expect_same(situ_fft_hfft(situ_fft_ihfft(y, FFT(.dim = SITU_DIMS(0))), FFT(.n = lines, .dim = SITU_DIMS(0))), y,
                  0, 1e-12);
      assert_int_equal(situ_scope_end(&s), SITU_OK);
    }
}

static situ_tensor *f_fft(situ_tensor *const *in, void *o) { return situ_fft_fft(in[0], o); }
static situ_tensor *f_ifft(situ_tensor *const *in, void *o) { return situ_fft_ifft(in[0], o); }
static situ_tensor *f_rfft(situ_tensor *const *in, void *o) { return situ_fft_rfft(in[0], o); }
static situ_tensor *f_irfft(situ_tensor *const *in, void *o) { return situ_fft_irfft(in[0], o); }
static situ_tensor *f_hfft(situ_tensor *const *in, void *o) { return situ_fft_hfft(in[0], o); }
static situ_tensor *f_ihfft(situ_tensor *const *in, void *o) { return situ_fft_ihfft(in[0], o); }
static situ_tensor *f_rfftn(situ_tensor *const *in, void *o) { return situ_fft_rfftn(in[0], o); }
static situ_tensor *f_irfftn(situ_tensor *const *in, void *o) { return situ_fft_irfftn(in[0], o); }
static situ_tensor *f_stft(situ_tensor *const *in, void *o) { return situ_stft(in[0], in[1], 5, o); }
static situ_tensor *f_istft(situ_tensor *const *in, void *o) { return situ_istft(in[0], in[1], 5, o); }
static situ_tensor *f_shift(situ_tensor *const *in, void *o) { return (void)o, situ_fft_fftshift(in[0], SITU_DIMS(0)); }

static void gradients(void **state) {
  (void)state;
  for (int64_t n = 1; n < 7; n++) {
    gradcheck(f_fft, FFT(.n = n), R(2, 4, 2));
    gradcheck(f_ifft, FFT(.n = n, .dim = SITU_DIMS(0)), R(4, 2, 2));
    gradcheck(f_rfft, FFT(.n = n), R(2, 4));
    gradcheck(f_ihfft, FFT(.n = n, .dim = SITU_DIMS(0)), R(4, 2));
    gradcheck(f_irfft, FFT(.n = n), R(2, 3, 2));
    gradcheck(f_hfft, FFT(.n = n, .dim = SITU_DIMS(0), .norm = SITU_FFT_NORM_FORWARD), R(3, 2, 2));
  }
  gradcheck(f_rfftn, FFTN(.norm = SITU_FFT_NORM_ORTHO), R(2, 3, 4));
  gradcheck(f_irfftn, FFTN(.s = SITU_SHAPE(3, 5)), R(2, 3, 2));
  gradcheck(f_stft, STFT(.hop_length = 2, .normalized = true), R(9), R(5));
  gradcheck(f_istft, STFT(.hop_length = 2), R(3, 4, 2), test_random(SITU_SHAPE(5), 0.5, 1, true));
  gradcheck(f_shift, NULL, R(3, 2));
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = test_random(SITU_SHAPE(3, 4), -1, 1, false), *z = test_random(SITU_SHAPE(3, 2), -1, 1, false);
  expect_refused(situ_fft_fft(x, NULL), SITU_E_SHAPE, "fft_fft", "[3, 4]: complex numbers are [..., 2]");
  expect_refused(situ_fft_fft(T32(SITU_SHAPE(2), 1, 2), NULL), SITU_E_SHAPE, "fft_fft", "complex");
  expect_refused(situ_fft_fft(z, FFT(.n = -1)), SITU_E_ARG, "fft_fft", "a length of 0");
  expect_refused(situ_fft_fft(z, FFT(.dim = SITU_DIMS(1))), SITU_E_ARG, "fft_fft", "");
  expect_refused(situ_fft_rfft(x, FFT(.n = INT64_MAX)), SITU_E_ARG, "fft_rfft", "2^31");
  expect_refused(situ_fft_rfft(x, FFT(.dim = SITU_DIMS(0, 1))), SITU_E_ARG, "fft_rfft", "2 dimensions");
  expect_refused(situ_fft_rfft(x, FFT(.norm = (situ_fft_norm)3)), SITU_E_ARG, "fft_rfft", "not a norm");
  expect_refused(situ_fft_irfft(T32(SITU_SHAPE(1, 2), 1, 2), NULL), SITU_E_ARG, "fft_irfft", "a length of 0");
  expect_refused(situ_fft_rfftn(x, FFTN(.dim = SITU_DIMS(1, 1))), SITU_E_ARG, "fft_rfftn", "twice");
  expect_refused(situ_fft_rfftn(x, FFTN(.s = SITU_SHAPE(2), .dim = SITU_DIMS(0, 1))), SITU_E_ARG, "fft_rfftn",
                 "2 dimensions and 1 lengths");
  expect_refused(situ_fft_rfft2(T32(SITU_SHAPE(3), 1, 1, 1), NULL), SITU_E_ARG, "fft_rfft2", "a tensor of 1");
  expect_refused(situ_fft_rfft(situ_to_dtype(x, SITU_F16), NULL), SITU_E_DTYPE, "fft_rfft", "f16");
  expect_refused(situ_fft_rfft(situ_zeros(SITU_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), NULL), NULL), SITU_E_SHAPE, "fft_rfft",
                 "9 dimensions");
  expect_refused(situ_fft_fftfreq(0, 1, NULL), SITU_E_ARG, "fft_fftfreq", "n is 0");
  expect_refused(situ_fft_rfftfreq(3, 0, NULL), SITU_E_ARG, "fft_rfftfreq", "d 0");
  expect_refused(situ_stft(x, NULL, 8, NULL), SITU_E_ARG, "stft", "borders");
  expect_refused(situ_stft(x, NULL, 5, STFT(.no_center = true)), SITU_E_SHAPE, "stft", "n_fft = 5");
  expect_refused(situ_stft(x, NULL, 2, NULL), SITU_E_ARG, "stft", "hop_length is 0");
  expect_refused(situ_stft(x, NULL, 4, STFT(.win_length = 5)), SITU_E_ARG, "stft", "win_length is 5");
  expect_refused(situ_stft(x, x, 4, NULL), SITU_E_SHAPE, "stft", "window is [3, 4]");
  expect_refused(situ_istft(x, NULL, 4, NULL), SITU_E_SHAPE, "istft", "[B, 3, frames, 2]");
  expect_refused(situ_istft(situ_zeros(SITU_SHAPE(3, 4, 2), NULL), NULL, 4, STFT(.length = -1)), SITU_E_ARG, "istft",
                 "length is -1");
  expect_refused(situ_hann_window(-1, true, NULL), SITU_E_ARG, "hann_window", "-1");
  expect_refused(situ_hann_window(3, true, &(situ_options){ .dtype = SITU_I64 }), SITU_E_DTYPE, "hann_window", "i64");
  for (int i = 0; i < 3; i++)
    expect_refused(situ_kaiser_window(3, true, (const double[]){ NAN, -1, 700 }[i], NULL), SITU_E_ARG, "kaiser_window",
                   "beta");
  expect_refused(situ_signal_windows_gaussian(3, 0, true, NULL), SITU_E_ARG, "signal_windows_gaussian", "std");
  expect_refused(situ_signal_windows_general_cosine(3, NULL, 2, true, NULL), SITU_E_ARG,
                 "signal_windows_general_cosine", "0 coefficients");
}

/* A signal is the transform's inverse of its short-time transform, whatever the frames. */
static void short_time(void **state) {
  (void)state;
  situ_tensor *x = test_random(SITU_SHAPE(2, 40), -1, 1, false);
  situ_tensor *w = situ_hann_window(8, true, &(situ_options){ .dtype = SITU_F64, .device = test_device() });
  for (int two_sided = 0; two_sided < 2; two_sided++)
    for (int normalized = 0; normalized < 2; normalized++) {
      const situ_stft_options o = { .hop_length = 2, .two_sided = two_sided, .normalized = normalized, .length = 40 };
      situ_tensor *y = situ_stft(x, w, 8, &o);
      const situ_shape wanted = SITU_SHAPE(2, two_sided ? 8 : 5, 21, 2), shape = situ_shape_of(y);
      assert_true(situ_shape_equal(&shape, &wanted));
      expect_same(situ_istft(y, w, 8, &o), x, 0, 1e-12);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values),    TEST(each_dimension), TEST(round_trips),
                                      TEST(gradients), TEST(refusals),       TEST(short_time) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
