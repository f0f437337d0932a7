/* One pass of Fourier transforms, for one factor of the length (Stockham, decimation in frequency; the formula is in
   backend/cpu/isa/fft_radix.h). D0 is the dtype. Each element of the result is computed by itself.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"
#include "kernels/fft.h"

typedef struct parameters {
  T p[4]; /* factor */
} parameters;

/* Element v of a line, as the operand of the first pass or of a later one has it. */
DEVICE void read_place(GLOBAL const T *x, const ffts *w, I64 outer, I64 v, I64 inner, T *re, T *im) {
  if (w->from == FFT_REAL) {
    *re = x[w->x + (outer * w->length + v) * w->inner + inner];
    *im = 0;
    return;
  }
  const bool half = w->from == FFT_HALF, mirrored = half && 2 * v > w->length;
  const I64 place = mirrored ? w->length - v : v, places = half ? w->length / 2 + 1 : w->length,
            at = w->x + 2 * ((outer * places + place) * w->inner + inner);
  *re = x[at];
  *im = mirrored ? -x[at + 1] : x[at + 1];
  if (half && (place == 0 || 2 * place == w->length)) *im = 0;
}

/* *re + i *im += (a + i b) e^(-2 pi i j / n), or its conjugate. */
DEVICE void add_turned(const ffts *w, T a, T b, I64 j, I64 n, T *re, T *im) {
  T c, s;
  FN(root)(j, n, &c, &s);
  if (w->inverse) s = -s;
  *re += a * c - b * s;
  *im += a * s + b * c;
}

FLAT run(GLOBAL T *y, GLOBAL const T *x, CONST_PARAM ffts w, const parameters q) {
  const I64 places = w.to == FFT_HALF ? w.length / 2 + 1 : w.length, r = w.radix, m = w.left / r;
  FOR_EACH(i, w.outer * places * w.inner) {
    const I64 inner = i % w.inner, line = i / w.inner / places, place = i / w.inner % places;
    const I64 beside = place % w.step, k = place / w.step % r, p = place / w.step / r;
    T re = 0, im = 0;
    for (I64 j = 0; j < r; j++) {
      T a, b;
      read_place(x, &w, line, beside + w.step * (p + m * j), inner, &a, &b);
      if (r != 2 && r != 4) {
        add_turned(&w, a, b, k * (p + m * j) % w.left, w.left, &re, &im);
      } else { /* quarters of a turn */
        const int turn = (int)(j * k * (4 / r)) & 3;
        const bool odd = (turn & 1) != 0, minus = (turn & 2) != 0, other = odd && w.inverse;
        const T c = odd ? b : a, s = odd ? -a : b;
        re += minus != other ? -c : c;
        im += minus != other ? -s : s;
      }
    }
    if (r == 2 || r == 4) {
      const T a = re, b = im;
      re = 0, im = 0;
      add_turned(&w, a, b, k * p, w.left, &re, &im);
    }
    if (w.to == FFT_REAL) {
      y[w.y + i] = q.p[0] * re;
    } else {
      y[w.y + 2 * i] = q.p[0] * re;
      y[w.y + 2 * i + 1] = q.p[0] * im;
    }
  }
}
