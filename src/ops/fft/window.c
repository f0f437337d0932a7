/* Windows: sums of cosines, and a few others, computed from the samples' places k = 0 .. M - 1.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

#define PI 3.14159265358979323846

typedef struct window {
  situ_options wide; /* of the computation */
  situ_dtype dtype;
  bool requires_grad;
  int64_t count;
  double span; /* N: the last place of the symmetric window */
} window;

/* Checks the arguments. */
static bool open_window(const char *op, int64_t count, bool sym, const situ_options *options, window *w) {
  *w = (window){ .wide = options ? *options : (situ_options){ 0 }, .count = count };
  w->dtype = w->wide.dtype ? w->wide.dtype : SITU_F32;
  w->requires_grad = w->wide.requires_grad;
  w->wide.requires_grad = false;
  w->wide.dtype = w->dtype == SITU_F64 ? SITU_F64 : SITU_F32;
  w->span = (double)(count - (count > 1 && sym));
  if (count < 0 || count > INT64_C(1) << 53)
    return situ__fail(SITU_E_ARG, op, "a window of %lld values: must be 0 to 2^53", (long long)count), false;
  if (situ_dtype_is_floating(w->dtype)) return true;
  return situ__fail(SITU_E_DTYPE, op, "windows are floating, not %s", situ_dtype_name(w->dtype)), false;
}

/* from, from + step, ... */
static situ_tensor *places(const window *w, double from, double step) {
  situ_tensor *k = situ_arange(0, (double)w->count, 1, &w->wide);
  if (step != 1) k = situ_mul_scalar(k, step);
  return from != 0 ? situ_add_scalar(k, from) : k;
}

static situ_tensor *close_window(const window *w, situ_tensor *y) {
  if (w->count == 1) y = situ_ones(SITU_SHAPE(1), &w->wide); /* of every kind */
  y = situ_to_dtype(y, w->dtype);
  return y && w->requires_grad ? situ_requires_grad_(y, true) : y;
}

static situ_tensor *cosines(const char *op, int64_t count, const double *a, int64_t terms, bool sym,
                            const situ_options *options) {
  SITU__MADE_OF_OPS(op);
  window w;
  if (!open_window(op, count, sym, options, &w)) return NULL;
  if (!a || terms < 1)
    return situ__fail(SITU_E_ARG, op, "a has %lld coefficients: needs 1 or more", (long long)(a ? terms : 0)), NULL;
  situ_tensor *y = situ_full(SITU_SHAPE(count), a[0], &w.wide);
  for (int64_t i = 1; y && i < terms && count > 1; i++)
    y = situ_add(y, situ_mul_scalar(situ_cos(places(&w, 0, 2 * PI * (double)i / w.span)), i % 2 ? -a[i] : a[i]));
  return close_window(&w, y);
}

static situ_tensor *triangle(const char *op, int64_t count, bool sym, const situ_options *options) {
  SITU__MADE_OF_OPS(op);
  window w;
  if (!open_window(op, count, sym, options, &w)) return NULL;
  return close_window(&w, situ_rsub_scalar(situ_abs(places(&w, -1, 2 / w.span)), 1));
}

static situ_tensor *kaiser(const char *op, int64_t count, double beta, bool sym, const situ_options *options) {
  SITU__MADE_OF_OPS(op);
  window w;
  if (!open_window(op, count, sym, options, &w)) return NULL;
  if (!(beta >= 0 && beta < 700)) /* I0 of more overflows */
    return situ__fail(SITU_E_ARG, op, "beta is %g, must be 0 to 700", beta), NULL;
  enum { MOST_F32 = 88 }; /* f32 has I0 of this one */
  if (beta > MOST_F32) w.wide.dtype = SITU_F64;
  situ_tensor *inside = situ_rsub_scalar(situ_square(places(&w, -1, 2 / w.span)), 1);
  situ_tensor *top = situ_i0(situ_mul_scalar(situ_sqrt(situ_clamp(inside, 0, INFINITY)), beta));
  return close_window(&w, situ_div(top, situ_i0(situ_full(SITU_SHAPE(1), beta, &w.wide))));
}

/* ---- torch.hann_window and its like ---- */

static const double hann[] = { 0.5, 0.5 }, hamming[] = { 0.54, 0.46 }, blackman[] = { 0.42, 0.5, 0.08 },
                    nuttall[] = { 0.3635819, 0.4891775, 0.1365995, 0.0106411 };

situ_tensor *situ_hann_window(int64_t window_length, bool periodic, const situ_options *options) {
  return cosines("hann_window", window_length, hann, 2, !periodic, options);
}
situ_tensor *situ_hamming_window(int64_t window_length, bool periodic, double alpha, double beta,
                                 const situ_options *options) {
  return cosines("hamming_window", window_length, (const double[]){ alpha, beta }, 2, !periodic, options);
}
situ_tensor *situ_blackman_window(int64_t window_length, bool periodic, const situ_options *options) {
  return cosines("blackman_window", window_length, blackman, 3, !periodic, options);
}
situ_tensor *situ_bartlett_window(int64_t window_length, bool periodic, const situ_options *options) {
  return triangle("bartlett_window", window_length, !periodic, options);
}
situ_tensor *situ_kaiser_window(int64_t window_length, bool periodic, double beta, const situ_options *options) {
  return kaiser("kaiser_window", window_length, beta, !periodic, options);
}

/* ---- torch.signal.windows ---- */

situ_tensor *situ_signal_windows_bartlett(int64_t M, bool sym, const situ_options *options) {
  return triangle("signal_windows_bartlett", M, sym, options);
}
situ_tensor *situ_signal_windows_blackman(int64_t M, bool sym, const situ_options *options) {
  return cosines("signal_windows_blackman", M, blackman, 3, sym, options);
}
situ_tensor *situ_signal_windows_general_cosine(int64_t M, const double *a, int64_t count, bool sym,
                                                const situ_options *options) {
  return cosines("signal_windows_general_cosine", M, a, count, sym, options);
}
situ_tensor *situ_signal_windows_general_hamming(int64_t M, double alpha, bool sym, const situ_options *options) {
  return cosines("signal_windows_general_hamming", M, (const double[]){ alpha, 1 - alpha }, 2, sym, options);
}
situ_tensor *situ_signal_windows_hamming(int64_t M, bool sym, const situ_options *options) {
  return cosines("signal_windows_hamming", M, hamming, 2, sym, options);
}
situ_tensor *situ_signal_windows_hann(int64_t M, bool sym, const situ_options *options) {
  return cosines("signal_windows_hann", M, hann, 2, sym, options);
}
situ_tensor *situ_signal_windows_nuttall(int64_t M, bool sym, const situ_options *options) {
  return cosines("signal_windows_nuttall", M, nuttall, 4, sym, options);
}
situ_tensor *situ_signal_windows_kaiser(int64_t M, double beta, bool sym, const situ_options *options) {
  return kaiser("signal_windows_kaiser", M, beta, sym, options);
}

situ_tensor *situ_signal_windows_cosine(int64_t M, bool sym, const situ_options *options) {
  SITU__MADE_OF_OPS("signal_windows_cosine");
  window w;
  if (!open_window("signal_windows_cosine", M, sym, options, &w)) return NULL;
  const double step = PI / (double)(M + !sym);
  return close_window(&w, situ_sin(places(&w, step / 2, step)));
}

/* False after recording an error unless a width is positive. */
static bool is_width(const char *op, const char *name, double value) {
  if (value > 0) return true;
  return situ__fail(SITU_E_ARG, op, "%s is %g, must be positive", name, value), false;
}

situ_tensor *situ_signal_windows_exponential(int64_t M, double tau, bool sym, const situ_options *options) {
  const char *op = "signal_windows_exponential";
  SITU__MADE_OF_OPS(op);
  window w;
  if (!open_window(op, M, sym, options, &w) || !is_width(op, "tau", tau)) return NULL;
  const double middle = (double)(M - sym) / 2;
  return close_window(&w, situ_exp(situ_neg(situ_abs(places(&w, -middle / tau, 1 / tau)))));
}

situ_tensor *situ_signal_windows_gaussian(int64_t M, double std, bool sym, const situ_options *options) {
  const char *op = "signal_windows_gaussian";
  SITU__MADE_OF_OPS(op);
  window w;
  if (!open_window(op, M, sym, options, &w) || !is_width(op, "std", std)) return NULL;
  const double middle = (double)(M - sym) / 2, step = 1 / (std * sqrt(2));
  return close_window(&w, situ_exp(situ_neg(situ_square(places(&w, -middle * step, step)))));
}
