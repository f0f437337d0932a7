/* torch.fft, stft and istft, and windows. Complex numbers are real tensors whose last dimension, of size 2, has the
   real and the imaginary part, as torch.view_as_real gives them; `dim` does not count that dimension. f32 and f64;
   integers are taken as f32.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_FFT_H
#define SITU_OPS_FFT_H

#include "../tensor.h"
#include "shape.h"

SITU_BEGIN

/* ---- discrete Fourier transforms: X_k = factor * sum_j x_j e^(-2 pi i j k / n), the inverse with e^(+2 pi i j k / n).
   Any n takes O(n log n) steps. ---- */

/** Which transform is divided by n (torch's norm). */
typedef enum situ_fft_norm {
  SITU_FFT_NORM_BACKWARD, /**< the inverse one */
  SITU_FFT_NORM_FORWARD,  /**< the other one */
  SITU_FFT_NORM_ORTHO     /**< both, by the square root of n */
} situ_fft_norm;

/** {0} is torch's default. */
typedef struct situ_fft_options {
  int64_t n;      /**< the signal's length: the input is cut or padded with zeros to it; 0: its own */
  situ_shape dim; /**< 1 dimension; none: the last */
  situ_fft_norm norm;
} situ_fft_options;

/** Several dimensions; {0} is torch's default. */
typedef struct situ_fftn_options {
  situ_shape s;   /**< a length for each dimension, or -1 for the input's; none: the input's */
  situ_shape dim; /**< none: the last as many as s has, or all; of the functions in 2-d: the last two */
  situ_fft_norm norm;
} situ_fftn_options;

/** Complex [..., n, ..., 2] to complex of the same shape. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_fft(situ_tensor *input, const situ_fft_options *options);
/** The inverse of situ_fft_fft. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_ifft(situ_tensor *input, const situ_fft_options *options);
/** Real [..., n, ...] to the first half of its spectrum, complex [..., n / 2 + 1, ..., 2]. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_rfft(situ_tensor *input, const situ_fft_options *options);
/** The inverse of situ_fft_rfft: complex [..., m, ..., 2] to real [..., n, ...]; n 0: 2 (m - 1). */
SITU_API SITU_CHECKED situ_tensor *situ_fft_irfft(situ_tensor *input, const situ_fft_options *options);
/** Half of a signal that is its own mirror image, conjugated: complex [..., m, ..., 2] to its real spectrum
    [..., n, ...]; n 0: 2 (m - 1). */
SITU_API SITU_CHECKED situ_tensor *situ_fft_hfft(situ_tensor *input, const situ_fft_options *options);
/** The inverse of situ_fft_hfft: real [..., n, ...] to complex [..., n / 2 + 1, ..., 2]. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_ihfft(situ_tensor *input, const situ_fft_options *options);

/** situ_fft_fft along two dimensions. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_fft2(situ_tensor *input, const situ_fftn_options *options);
/** situ_fft_ifft along two dimensions. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_ifft2(situ_tensor *input, const situ_fftn_options *options);
/** situ_fft_rfft along the last of two dimensions, then situ_fft_fft along the other one. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_rfft2(situ_tensor *input, const situ_fftn_options *options);
/** The inverse of situ_fft_rfft2. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_irfft2(situ_tensor *input, const situ_fftn_options *options);
/** situ_fft_fft along one of two dimensions, then situ_fft_hfft along the last. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_hfft2(situ_tensor *input, const situ_fftn_options *options);
/** The inverse of situ_fft_hfft2. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_ihfft2(situ_tensor *input, const situ_fftn_options *options);
/** situ_fft_fft along any dimensions. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_fftn(situ_tensor *input, const situ_fftn_options *options);
/** situ_fft_ifft along any dimensions. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_ifftn(situ_tensor *input, const situ_fftn_options *options);
/** situ_fft_rfft along the last of these dimensions, then situ_fft_fft along the others. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_rfftn(situ_tensor *input, const situ_fftn_options *options);
/** The inverse of situ_fft_rfftn. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_irfftn(situ_tensor *input, const situ_fftn_options *options);
/** situ_fft_fft along all but the last of these dimensions, then situ_fft_hfft along it. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_hfftn(situ_tensor *input, const situ_fftn_options *options);
/** The inverse of situ_fft_hfftn. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_ihfftn(situ_tensor *input, const situ_fftn_options *options);

/** The frequencies of situ_fft_fft's results, in cycles per unit of d, the time between samples (torch's default: 1):
    0, 1, .., -2, -1, divided by n d. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_fftfreq(int64_t n, double d, const situ_options *options);
/** The frequencies of situ_fft_rfft's results: 0 .. n / 2, divided by n d. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_rfftfreq(int64_t n, double d, const situ_options *options);
/** Moves frequency 0 to the middle along the listed dimensions (none: all; list those of a complex tensor). Any
    dtype. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_fftshift(situ_tensor *input, situ_shape dim);
/** The inverse of situ_fft_fftshift. */
SITU_API SITU_CHECKED situ_tensor *situ_fft_ifftshift(situ_tensor *input, situ_shape dim);

/* ---- short-time Fourier transforms ---- */

/** How situ_stft continues the signal beyond its ends. */
typedef enum situ_stft_pad {
  SITU_STFT_REFLECT,
  SITU_STFT_CONSTANT, /**< with 0 */
  SITU_STFT_REPLICATE,
  SITU_STFT_CIRCULAR
} situ_stft_pad;

/** {0} is torch's default. */
typedef struct situ_stft_options {
  int64_t hop_length;     /**< samples from one frame to the next; 0: n_fft / 4 */
  int64_t win_length;     /**< the window's length, at most n_fft; it is padded with zeros on both sides; 0: n_fft */
  bool no_center;         /**< torch's center=False: frame t begins at t * hop_length, instead of being around it */
  situ_stft_pad pad_mode; /**< stft with center only */
  bool normalized;        /**< divide by the square root of n_fft */
  bool two_sided;         /**< torch's onesided=False: all n_fft frequencies instead of n_fft / 2 + 1 */
  int64_t length;         /**< istft only: the result's length; 0: what the frames cover */
} situ_stft_options;

/** Transforms of overlapping frames of real signals [L] or [B, L], each times a window [win_length] (NULL: ones):
    complex [B, frequencies, frames, 2]. */
SITU_API SITU_CHECKED situ_tensor *situ_stft(situ_tensor *input, situ_tensor *window, int64_t n_fft,
                                             const situ_stft_options *options);
/** The inverse of situ_stft by least squares: complex [B, frequencies, frames, 2] (or without B) to real [B, L].
    Samples that no window covers are not finite. D. W. Griffin and J. S. Lim, IEEE Trans. ASSP 32 (2), 1984. */
SITU_API SITU_CHECKED situ_tensor *situ_istft(situ_tensor *input, situ_tensor *window, int64_t n_fft,
                                              const situ_stft_options *options);

/* ---- windows of window_length (or M) values; f32 unless the options say otherwise, floating dtypes. A periodic window
   is the beginning of a symmetric one with one value more. torch's defaults: periodic for ..._window, sym for
   signal_windows_... ---- */

/** 0.5 - 0.5 cos(2 pi k / N). */
SITU_API SITU_CHECKED situ_tensor *situ_hann_window(int64_t window_length, bool periodic, const situ_options *options);
/** alpha - beta cos(2 pi k / N); torch's defaults are 0.54 and 0.46. */
SITU_API SITU_CHECKED situ_tensor *situ_hamming_window(int64_t window_length, bool periodic, double alpha, double beta,
                                                       const situ_options *options);
/** 0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N). */
SITU_API SITU_CHECKED situ_tensor *situ_blackman_window(int64_t window_length, bool periodic,
                                                        const situ_options *options);
/** A triangle: 1 - |2 k / N - 1|. */
SITU_API SITU_CHECKED situ_tensor *situ_bartlett_window(int64_t window_length, bool periodic,
                                                        const situ_options *options);
/** I0(beta sqrt(1 - (2 k / N - 1)^2)) / I0(beta); torch's default beta is 12. */
SITU_API SITU_CHECKED situ_tensor *situ_kaiser_window(int64_t window_length, bool periodic, double beta,
                                                      const situ_options *options);

/** As situ_bartlett_window. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_bartlett(int64_t M, bool sym, const situ_options *options);
/** As situ_blackman_window. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_blackman(int64_t M, bool sym, const situ_options *options);
/** sin(pi (k + 0.5) / (N + 1)). */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_cosine(int64_t M, bool sym, const situ_options *options);
/** e^(-|k - center| / tau) around the middle; torch's default tau is 1. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_exponential(int64_t M, double tau, bool sym,
                                                                   const situ_options *options);
/** e^(-(k - N / 2)^2 / (2 std^2)); torch's default std is 1. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_gaussian(int64_t M, double std, bool sym,
                                                                const situ_options *options);
/** The sum of (-1)^i a[i] cos(2 pi i k / N) over `count` coefficients. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_general_cosine(int64_t M, const double *a, int64_t count,
                                                                      bool sym, const situ_options *options);
/** alpha - (1 - alpha) cos(2 pi k / N); torch's default alpha is 0.54. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_general_hamming(int64_t M, double alpha, bool sym,
                                                                       const situ_options *options);
/** As situ_hamming_window with torch's defaults. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_hamming(int64_t M, bool sym, const situ_options *options);
/** As situ_hann_window. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_hann(int64_t M, bool sym, const situ_options *options);
/** As situ_kaiser_window. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_kaiser(int64_t M, double beta, bool sym,
                                                              const situ_options *options);
/** Four cosines with side lobes below -98 dB. A. H. Nuttall, IEEE Trans. ASSP 29 (1), 1981, figure 11. */
SITU_API SITU_CHECKED situ_tensor *situ_signal_windows_nuttall(int64_t M, bool sym, const situ_options *options);

SITU_END
#endif
