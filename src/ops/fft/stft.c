/* Short-time Fourier transforms: frames of a signal times a window, transformed; and frames transformed back, times the
   window, added up, and divided by the sum of the squared windows.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

typedef struct frames {
  const char *op;
  int64_t n, hop, win;
  bool center, normalized, two_sided;
} frames;

static bool refuse(const char *op, const char *name, int64_t value, const char *must) {
  return situ__fail(SITU_E_ARG, op, "%s is %lld, must be %s", name, (long long)value, must), false;
}

static bool read_options(const char *op, int64_t n, const situ_tensor *window, const situ_stft_options *o, frames *f) {
  *f = (frames){ .op = op,
                 .n = n,
                 .hop = o->hop_length ? o->hop_length : n / 4,
                 .win = o->win_length ? o->win_length : n,
                 .center = !o->no_center,
                 .normalized = o->normalized,
                 .two_sided = o->two_sided };
  if (n < 1 || n > INT32_MAX) return refuse(op, "n_fft", n, "1 to 2^31 - 1");
  if (f->hop < 1 || f->hop > INT32_MAX) return refuse(op, "hop_length", f->hop, "1 to 2^31 - 1");
  if (f->win < 1 || f->win > n) return refuse(op, "win_length", f->win, "1 to n_fft");
  if (window && (window->view.ndim != 1 || window->view.numel != f->win)) {
    const situ_shape shape = situ__shape(&window->view);
    char text[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, op, "window is %s, must be [%lld], as win_length", situ_shape_text(&shape, text),
                      (long long)f->win),
           false;
  }
  return true;
}

/* The window, or ones, with zeros on both sides to n_fft; NULL with *good where a product would change nothing. */
static situ_tensor *whole_window(const frames *f, situ_tensor *window, const situ_tensor *like, bool *good) {
  const situ_options here = { .dtype = situ_dtype_of(like), .device = situ_device_of(like) };
  *good = true;
  if (!window && f->win == f->n) return NULL;
  if (!window) window = situ_ones(SITU_SHAPE(f->win), &here);
  const int64_t left = (f->n - f->win) / 2;
  if (f->win < f->n) window = situ_pad(window, SITU_DIMS(left, f->n - f->win - left), SITU_PAD_CONSTANT, 0);
  *good = window != NULL;
  return window;
}

/* [B, L] with the signal continued on both sides, so that frames are around their samples. */
static situ_tensor *continued(const frames *f, situ_tensor *x, situ_stft_pad mode) {
  static const situ_pad_mode modes[] = { SITU_PAD_REFLECT, SITU_PAD_CONSTANT, SITU_PAD_REPLICATE, SITU_PAD_CIRCULAR };
  if ((unsigned)mode > SITU_STFT_CIRCULAR)
    return situ__fail(SITU_E_ARG, f->op, "%d is not a padding mode", (int)mode), NULL;
  return f->center ? situ_pad(x, SITU_DIMS(f->n / 2, f->n / 2), modes[mode], 0) : x;
}

situ_tensor *situ_stft(situ_tensor *input, situ_tensor *window, int64_t n_fft, const situ_stft_options *options) {
  SITU__MADE_OF_OPS("stft");
  static const situ_op schema = {
    .name = "stft", .operand = { { "input", SITU_FLOATING }, { "window", SITU_FLOATING | SITU_OPTIONAL } }
  };
  static const situ_stft_options none;
  const situ_stft_options *o = options ? options : &none;
  frames f;
  bool good;
  if (!situ__together(&schema, (situ_tensor *[]){ input, window }, 2) || !read_options("stft", n_fft, window, o, &f))
    return NULL;
  const int ndim = input->view.ndim;
  if (ndim != 1 && ndim != 2)
    return situ__fail(SITU_E_SHAPE, f.op, "input has %d dimensions, must be [L] or [B, L]", ndim), NULL;
  situ_tensor *x = continued(&f, ndim == 1 ? situ_unsqueeze(input, 0) : input, o->pad_mode);
  if (!(x = situ_contiguous(x))) return NULL;
  const int64_t batch = x->view.size[0], length = x->view.size[1];
  if (length < n_fft)
    return situ__fail(SITU_E_SHAPE, f.op, "the signal has %lld samples: a frame takes n_fft = %lld", (long long)length,
                      (long long)n_fft),
           NULL;
  x = situ_as_strided(x, SITU_SHAPE(batch, 1 + (length - n_fft) / f.hop, n_fft), SITU_SHAPE(length, f.hop, 1),
                      x->view.offset);
  situ_tensor *w = whole_window(&f, window, input, &good);
  if (!good) return NULL;
  if (w) x = situ_mul(x, w);
  const situ_fft_options norm = { .norm = f.normalized ? SITU_FFT_NORM_ORTHO : SITU_FFT_NORM_BACKWARD };
  x = f.two_sided ? situ_fft_fft(situ_pad(situ_unsqueeze(x, -1), SITU_DIMS(0, 1), SITU_PAD_CONSTANT, 0), &norm)
                  : situ_fft_rfft(x, &norm);
  x = situ_transpose(x, 1, 2);
  return ndim == 1 ? situ_squeeze(x, SITU_DIMS(0)) : x;
}

/* Frames [B, n_fft, T], added where they overlap: [B, L]. */
static situ_tensor *overlap(const frames *f, situ_tensor *x, int64_t length) {
  x = situ_fold(x, SITU_SHAPE(1, length), SITU_SHAPE(1, f->n),
                &(situ_unfold_options){ .stride = SITU_DIMS(1, f->hop) });
  return situ_flatten(x, 1, 3);
}

static bool check_spectrum(const frames *f, const situ_tensor *x) {
  const int ndim = x->view.ndim;
  const int64_t rows = f->two_sided ? f->n : f->n / 2 + 1, *size = x->view.size;
  if ((ndim == 3 || ndim == 4) && size[ndim - 1] == 2 && size[ndim - 3] == rows && x->view.numel > 0) return true;
  const situ_shape shape = situ__shape(&x->view);
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, f->op,
                    "input is %s, must be [B, %lld, frames, 2] (or without B), as stft gives it, not empty",
                    situ_shape_text(&shape, text), (long long)rows),
         false;
}

/* The part of the signal that is wanted: zeros where no frame reaches. */
static situ_tensor *cut(const frames *f, situ_tensor *x, int64_t wanted) {
  const int64_t all = x->view.size[1], start = f->center ? f->n / 2 : 0, end = all - (wanted ? 0 : start);
  if (end <= start)
    return situ__fail(SITU_E_SHAPE, f->op, "the frames cover %lld samples: nothing is left without the ends",
                      (long long)all),
           NULL;
  const int64_t count = wanted ? situ__min_i64(wanted, end - start) : end - start;
  return situ_narrow(x, 1, start, count);
}

situ_tensor *situ_istft(situ_tensor *input, situ_tensor *window, int64_t n_fft, const situ_stft_options *options) {
  SITU__MADE_OF_OPS("istft");
  static const situ_op schema = {
    .name = "istft", .operand = { { "input", SITU_FLOATING }, { "window", SITU_FLOATING | SITU_OPTIONAL } }
  };
  static const situ_stft_options none;
  const situ_stft_options *o = options ? options : &none;
  frames f;
  bool good;
  if (!situ__together(&schema, (situ_tensor *[]){ input, window }, 2) || !read_options("istft", n_fft, window, o, &f))
    return NULL;
  /* torch: a spectrum of all n_fft frequencies tells by itself. */
  if (input->view.ndim >= 3 && input->view.size[input->view.ndim - 3] == n_fft) f.two_sided = true;
  if (!check_spectrum(&f, input)) return NULL;
  if (o->length < 0) return (void)refuse(f.op, "length", o->length, "0 (all) or positive"), NULL;
  const bool batched = input->view.ndim == 4;
  situ_tensor *x = situ_transpose(batched ? input : situ_unsqueeze(input, 0), 1, 2);
  const situ_fft_options norm = { .n = f.n, .norm = f.normalized ? SITU_FFT_NORM_ORTHO : SITU_FFT_NORM_BACKWARD };
  if (f.two_sided) x = situ_narrow(x, 2, 0, n_fft / 2 + 1); /* the rest is its mirror image, of a real signal */
  x = situ_fft_irfft(x, &norm);
  situ_tensor *w = whole_window(&f, window, input, &good);
  if (!x || !good) return NULL;
  if (!w) w = situ_ones(SITU_SHAPE(n_fft), &(situ_options){ .dtype = situ_dtype_of(x), .device = situ_device_of(x) });
  const int64_t count = x->view.size[1], length = n_fft + f.hop * (count - 1);
  situ_tensor *sum = overlap(&f, situ_transpose(situ_mul(x, w), 1, 2), length);
  situ_tensor *each = situ_expand(situ_reshape(situ_square(w), SITU_SHAPE(1, n_fft, 1)), SITU_SHAPE(1, n_fft, count));
  situ_tensor *weight = overlap(&f, each, length);
  if (!sum || !weight) return NULL;
  situ_tensor *y = situ_div(cut(&f, sum, o->length), cut(&f, weight, o->length));
  if (!y) return NULL;
  if (o->length > y->view.size[1]) y = situ_pad(y, SITU_DIMS(0, o->length - y->view.size[1]), SITU_PAD_CONSTANT, 0);
  return batched ? y : situ_squeeze(y, SITU_DIMS(0));
}
