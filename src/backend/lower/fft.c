/* Fourier transforms: one pass over all lines for each factor of their length. A length with a large prime factor is
   taken as a convolution with a chirp (Bluestein), of lines whose length is a power of 2.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

enum { LARGEST = 61 }; /* the largest factor with a pass of its own */

static int64_t factor_of(int64_t n) {
  if (n % 4 == 0) return 4;
  for (int64_t r = 2; r * r <= n; r++)
    if (n % r == 0) return r;
  return n;
}

static int count_passes(int64_t n) {
  int passes = 1;
  for (; factor_of(n) != n; n /= factor_of(n)) passes++;
  return passes;
}

static bool has_large_factor(int64_t n) {
  while (factor_of(n) != n) n /= factor_of(n);
  return n > LARGEST;
}

/* The first pass reads `from` as w says, the last writes to `to` as w says; those between read and write complex
   numbers in scratch, of which the first pass writes scratch[0]. */
typedef struct transform {
  ffts w;
  void *from, *filter, *to, *scratch[2];
  double factor[4];
} transform;

static situ_status run_passes(int index, int dtype, const transform *t) {
  static const double one[4] = { 1 };
  const int64_t n = t->w.length;
  ffts w = t->w;
  situ_status status = SITU_OK;
  w.left = n, w.step = 1;
  for (int pass = 0; status == SITU_OK; pass++) {
    w.radix = factor_of(w.left);
    const bool last = w.radix == w.left;
    w.y = last ? t->w.y : 0, w.to = last ? t->w.to : FFT_COMPLEX;
    w.places = last ? t->w.places : n, w.chirps = last && t->w.chirps;
    situ__call call = { .variant = { SITU__TEXT_fft, .compute = (uint8_t)dtype, .dtype = { (uint8_t)dtype } },
                        .op = "fft" };
    call.buffer[call.buffers++] = last ? t->to : t->scratch[pass & 1];
    call.buffer[call.buffers++] = pass ? t->scratch[(pass - 1) & 1] : t->from;
    call.buffer[call.buffers++] = t->filter;
    situ__lower_block(&call, &w, sizeof w);
    situ__lower_scalars(&call, last ? t->factor : one);
    status = situ__lower_run_flat(index, &call, w.outer * w.places * w.inner, 8 * w.radix);
    if (last) break;
    w.left /= w.radix, w.step *= w.radix;
    w.x = 0, w.from = FFT_COMPLEX, w.signal = n, w.times = FFT_ONE;
  }
  return status;
}

/* Scratch for `count` complex numbers each. */
static situ_status take(int index, int dtype, int64_t count, int buffers, void *scratch[2]) {
  for (int k = 0; k < buffers && k < 2; k++)
    if (!(scratch[k] = situ__lower_scratch(index, "fft", 2 * (size_t)count * situ__lower_size(dtype))))
      return SITU_E_NOMEM;
  return SITU_OK;
}
static void give(int index, void *const scratch[2]) {
  for (int k = 0; k < 2; k++) situ__targets->release(index, scratch[k]);
}

static situ_status run_plain(int index, int dtype, transform *t) {
  situ_status status =
      take(index, dtype, t->w.outer * t->w.length * t->w.inner, count_passes(t->w.length) - 1, t->scratch);
  if (status == SITU_OK) status = run_passes(index, dtype, t);
  give(index, t->scratch);
  return status;
}

/* With c_v = e^(-pi i v^2 / n), X_k = c_k sum_v (x_v c_v) conj c_(k - v): a product of transforms. */
static situ_status run_chirp(int index, int dtype, transform *t) {
  const int64_t n = t->w.length;
  int64_t length = 1;
  while (length < 2 * n - 1) length *= 2;
  const int end = (count_passes(length) - 1) & 1; /* the scratch that a last pass would write */
  ffts padded = t->w;
  padded.length = padded.places = length, padded.chirp = n, padded.back = t->w.inverse, padded.inverse = 0;
  void *wide[2] = { NULL, NULL }, *line[2] = { NULL, NULL };
  situ_status status = take(index, dtype, padded.outer * length * padded.inner, 2, wide);
  if (status == SITU_OK) status = take(index, dtype, length, 2, line);
  transform filter = { .w = padded, .to = line[end], .scratch = { line[0], line[1] }, .factor = { 1 } };
  filter.w.outer = filter.w.inner = 1, filter.w.times = FFT_FILTER, filter.w.to = FFT_COMPLEX, filter.w.y = 0;
  transform forward = {
    .w = padded, .from = t->from, .to = wide[end], .scratch = { wide[0], wide[1] }, .factor = { 1 }
  };
  forward.w.times = FFT_CHIRP, forward.w.to = FFT_COMPLEX, forward.w.y = 0;
  transform back = { .w = padded,
                     .from = wide[end],
                     .filter = line[end],
                     .to = t->to,
                     .scratch = { wide[!end], wide[end] },
                     .factor = { t->factor[0] / (double)length } };
  back.w.x = 0, back.w.from = FFT_COMPLEX, back.w.signal = length, back.w.times = FFT_PRODUCT, back.w.inverse = 1;
  back.w.places = t->w.places, back.w.chirps = 1;
  if (status == SITU_OK) status = run_passes(index, dtype, &filter);
  if (status == SITU_OK) status = run_passes(index, dtype, &forward);
  if (status == SITU_OK) status = run_passes(index, dtype, &back);
  give(index, wide);
  give(index, line);
  return status;
}

situ_status situ__lower_fft(int index, const situ_work *work) {
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  const bool real = work->op == SITU_FFT_REAL, back = work->op == SITU_FFT_REAL_BACK;
  const int64_t dim = work->integer[0];
  ffts w = { .inner = 1,
             .length = back ? y->size[dim] : x->size[dim],
             .from = real   ? FFT_REAL
                     : back ? FFT_HALF
                            : FFT_COMPLEX,
             .to = real   ? FFT_HALF
                   : back ? FFT_REAL
                          : FFT_COMPLEX,
             .inverse = work->integer[1] != 0,
             .places = y->size[dim],
             .x = x->offset,
             .y = y->offset };
  for (int d = (int)dim + 1; d < x->ndim - !real; d++) w.inner *= x->size[d];
  w.signal = w.length;
  w.outer = y->numel / (w.places * w.inner * (back ? 1 : 2));
  transform t = { .w = w, .from = x->storage->data, .to = y->storage->data, .factor = { work->scalar[0] } };
  return has_large_factor(w.length) ? run_chirp(index, y->dtype, &t) : run_plain(index, y->dtype, &t);
}
