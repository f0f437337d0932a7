/* Fourier transforms: one pass over all lines for each factor of their length.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

static int64_t factor_of(int64_t n) {
  if (n % 4 == 0) return 4;
  for (int64_t r = 2; r * r <= n; r++)
    if (n % r == 0) return r;
  return n;
}

/* All but the last pass write to scratch memory, in turn to two of them; the last applies the factor. */
static situ_status run_passes(int index, const situ_work *work, ffts w, void *const scratch[2]) {
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  static const double one[4] = { 1 };
  situ_status status = SITU_OK;
  for (int pass = 0; status == SITU_OK; pass++) {
    w.radix = factor_of(w.left);
    const bool last = w.radix == w.left;
    w.x = pass ? 0 : x->offset, w.y = last ? y->offset : 0;
    if (last) w.to = work->op == SITU_FFT_REAL ? FFT_HALF : work->op == SITU_FFT_REAL_BACK ? FFT_REAL : FFT_COMPLEX;
    situ__call call = { .variant = { .text = SITU__TEXT_fft, .compute = y->dtype, .dtype = { y->dtype } },
                        .op = "fft" };
    call.buffer[call.buffers++] = last ? y->storage->data : scratch[pass & 1];
    call.buffer[call.buffers++] = pass ? scratch[(pass - 1) & 1] : x->storage->data;
    situ__lower_block(&call, &w, sizeof w);
    situ__lower_scalars(&call, last ? work->scalar : one);
    status = situ__lower_run_flat(index, &call, w.outer * w.length * w.inner, 8 * w.radix);
    if (last) break;
    w.left /= w.radix, w.step *= w.radix, w.from = FFT_COMPLEX;
  }
  return status;
}

situ_status situ__lower_fft(int index, const situ_work *work) {
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  const bool real = work->op == SITU_FFT_REAL, back = work->op == SITU_FFT_REAL_BACK;
  const int64_t dim = work->integer[0];
  ffts w = { .inner = 1,
             .length = back ? y->size[dim] : x->size[dim],
             .step = 1,
             .from = real   ? FFT_REAL
                     : back ? FFT_HALF
                            : FFT_COMPLEX,
             .inverse = work->integer[1] != 0 };
  for (int d = (int)dim + 1; d < x->ndim - !real; d++) w.inner *= x->size[d];
  w.left = w.length;
  w.outer = y->numel / (y->size[dim] * w.inner * (back ? 1 : 2));
  void *scratch[2] = { NULL, NULL };
  const size_t bytes = 2 * (size_t)(w.outer * w.length * w.inner) * situ__lower_size(y->dtype);
  int passes = 1;
  for (int64_t left = w.length; factor_of(left) != left; left /= factor_of(left)) passes++;
  situ_status status = SITU_OK;
  for (int k = 0; status == SITU_OK && k < 2 && k < passes - 1; k++)
    if (!(scratch[k] = situ__lower_scratch(index, "fft", bytes))) status = SITU_E_NOMEM;
  if (status == SITU_OK) status = run_passes(index, work, w, scratch);
  for (int k = 0; k < 2; k++) situ__targets.release(index, scratch[k]);
  return status;
}
