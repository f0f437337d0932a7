/* Golden values from PyTorch 2.15: Fourier transforms, short-time transforms, windows. Complex numbers are torch's
   view_as_real.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

#include "support/gold_run.h"

static situ_fft_norm norm_of(const gold_call *c) {
  const char *word = gold_word(c, "norm", "backward");
  return *word == 'o' ? SITU_FFT_NORM_ORTHO : *word == 'f' ? SITU_FFT_NORM_FORWARD : SITU_FFT_NORM_BACKWARD;
}

#define ONE(name)                                                                                                   \
  static void name(gold_call *c) {                                                                                  \
    c->out[0] = situ_fft_##name(                                                                                    \
        c->in[0], &(situ_fft_options){ .n = gold_int(c, "n", 0), .dim = gold_list(c, "dim"), .norm = norm_of(c) }); \
  }
#define MANY(name)                                                                                                 \
  static void name(gold_call *c) {                                                                                 \
    c->out[0] = situ_fft_##name(                                                                                   \
        c->in[0], &(situ_fftn_options){ .s = gold_list(c, "s"), .dim = gold_list(c, "dim"), .norm = norm_of(c) }); \
  }
#define TRANSFORM(name) ONE(name) MANY(name##2) MANY(name##n)
TRANSFORM(fft)
TRANSFORM(ifft)
TRANSFORM(rfft)
TRANSFORM(irfft)
TRANSFORM(hfft)
TRANSFORM(ihfft)

static void fftshift(gold_call *c) { c->out[0] = situ_fft_fftshift(c->in[0], gold_list(c, "dim")); }
static void ifftshift(gold_call *c) { c->out[0] = situ_fft_ifftshift(c->in[0], gold_list(c, "dim")); }
static void fftfreq(gold_call *c) {
  const situ_options o = gold_options(c);
  c->out[0] = situ_fft_fftfreq(gold_int(c, "n", 0), gold_real(c, "d", 1), &o);
}
static void rfftfreq(gold_call *c) {
  const situ_options o = gold_options(c);
  c->out[0] = situ_fft_rfftfreq(gold_int(c, "n", 0), gold_real(c, "d", 1), &o);
}

static situ_stft_options stft_options(const gold_call *c) {
  static const char *const modes[] = { "reflect", "constant", "replicate", "circular" };
  situ_stft_options o = { .hop_length = gold_int(c, "hop_length", 0),
                          .win_length = gold_int(c, "win_length", 0),
                          .no_center = !gold_bool(c, "center", true),
                          .normalized = gold_bool(c, "normalized", false),
                          .two_sided = !gold_bool(c, "onesided", true),
                          .length = gold_int(c, "length", 0) };
  const char *mode = gold_word(c, "pad_mode", "reflect");
  while (strcmp(modes[o.pad_mode], mode)) o.pad_mode++;
  return o;
}
static void stft(gold_call *c) {
  const situ_stft_options o = stft_options(c);
  c->out[0] = situ_stft(c->in[0], gold_in(c, "window"), gold_int(c, "n_fft", 0), &o);
}
static void istft(gold_call *c) {
  const situ_stft_options o = stft_options(c);
  c->out[0] = situ_istft(c->in[0], gold_in(c, "window"), gold_int(c, "n_fft", 0), &o);
}

/* ---- windows ---- */

/* Calls f(count, values..., flag, options). */
#define WINDOW(name, call)                                                                 \
  static void name(gold_call *c) {                                                         \
    const situ_options o = gold_options(c);                                                \
    const int64_t n = gold_int(c, "window_length", gold_int(c, "M", -1));                  \
    const bool periodic = gold_bool(c, "periodic", true), sym = gold_bool(c, "sym", true); \
    (void)periodic, (void)sym;                                                             \
    c->out[0] = call;                                                                      \
  }
WINDOW(hann_window, situ_hann_window(n, periodic, &o))
WINDOW(hamming_window, situ_hamming_window(n, periodic, 0.54, 0.46, &o))
WINDOW(blackman_window, situ_blackman_window(n, periodic, &o))
WINDOW(bartlett_window, situ_bartlett_window(n, periodic, &o))
WINDOW(kaiser_window, situ_kaiser_window(n, periodic, 12, &o))
WINDOW(bartlett, situ_signal_windows_bartlett(n, sym, &o))
WINDOW(blackman, situ_signal_windows_blackman(n, sym, &o))
WINDOW(cosine, situ_signal_windows_cosine(n, sym, &o))
WINDOW(exponential, situ_signal_windows_exponential(n, gold_real(c, "tau", 1), sym, &o))
WINDOW(gaussian, situ_signal_windows_gaussian(n, gold_real(c, "std", 1), sym, &o))
WINDOW(general_hamming, situ_signal_windows_general_hamming(n, gold_real(c, "alpha", 0.54), sym, &o))
WINDOW(hamming, situ_signal_windows_hamming(n, sym, &o))
WINDOW(hann, situ_signal_windows_hann(n, sym, &o))
WINDOW(kaiser, situ_signal_windows_kaiser(n, gold_real(c, "beta", 12), sym, &o))
WINDOW(nuttall, situ_signal_windows_nuttall(n, sym, &o))
static void general_cosine(gold_call *c) {
  const situ_options o = gold_options(c);
  const double a[] = { gold_real(c, "a0", 0), gold_real(c, "a1", 0), gold_real(c, "a2", 0), gold_real(c, "a3", 0) };
  c->out[0] = situ_signal_windows_general_cosine(gold_int(c, "M", -1), a, 4, gold_bool(c, "sym", true), &o);
}

/* A sum of n terms that cancel is as wrong as the terms are. */
#define SUMS .steps = 8, .grad_steps = 8, .why = "a sum of terms that cancel"
#define ROUNDS .steps = 16, .grad_steps = 16, .why = GOLD_ROUNDS
static const gold_op ops[] = {
#define ROWS(name)                                                                 \
  { "fft_" #name, .run = name, SUMS }, { "fft_" #name "2", .run = name##2, SUMS }, \
      { "fft_" #name "n", .run = name##n, SUMS },
  ROWS(fft) ROWS(ifft) ROWS(rfft) ROWS(irfft) ROWS(hfft) ROWS(ihfft)
#undef ROWS
      { "fft_fftshift", .run = fftshift },
  { "fft_ifftshift", .run = ifftshift },
  { "fft_fftfreq", .run = fftfreq },
  { "fft_rfftfreq", .run = rfftfreq },
  { "stft", .run = stft, SUMS },
  { "istft", .run = istft, ROUNDS },
#define ROW(name) { #name, .run = name, ROUNDS },
  ROW(hann_window) ROW(hamming_window) ROW(blackman_window) ROW(bartlett_window) ROW(kaiser_window)
#undef ROW
#define ROW(name) { "signal_windows_" #name, .run = name, ROUNDS },
      ROW(bartlett) ROW(blackman) ROW(cosine) ROW(exponential) ROW(gaussian) ROW(general_cosine) ROW(general_hamming)
          ROW(hamming) ROW(hann) ROW(kaiser) ROW(nuttall)
#undef ROW
              { 0 },
};

int main(void) { return gold_main("fft", ops, NULL); }
