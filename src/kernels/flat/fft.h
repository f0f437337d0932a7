/* One pass of Fourier transforms, for one factor of the length (Stockham, decimation in frequency; the formula is in
   backend/cpu/fft/isa/fft_radix.h). D0 is the dtype. Each element of the result is computed by itself.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"
#include "kernels/fft.h"

typedef struct parameters {
  T p[4]; /* factor */
} parameters;

/* *re + i *im becomes the product with c + i s. */
DEVICE void multiply(T c, T s, T *re, T *im) {
  const T a = *re, b = *im;
  *re = a * c - b * s;
  *im = a * s + b * c;
}

/* Element v of a line as the operand has it. */
DEVICE void read_place(GLOBAL const T *x, const ffts *w, I64 outer, I64 v, I64 inner, T *re, T *im) {
  if (w->from == FFT_REAL) {
    *re = x[w->x + (outer * w->signal + v) * w->inner + inner];
    *im = 0;
    return;
  }
  const bool folded = w->from == FFT_HALF, mirrored = folded && 2 * v > w->signal;
  const I64 place = mirrored ? w->signal - v : v, places = folded ? w->signal / 2 + 1 : w->signal,
            at = w->x + 2 * ((outer * places + place) * w->inner + inner);
  *re = x[at];
  *im = mirrored ? -x[at + 1] : x[at + 1];
  if (folded && (place == 0 || 2 * place == w->signal)) *im = 0;
}

/* e^(-pi i v^2 / chirp), or its conjugate. */
DEVICE void chirp_at(const ffts *w, I64 v, bool conjugate, T *c, T *s) {
  FN(root)(v * v % (2 * w->chirp), 2 * w->chirp, c, s);
  if (conjugate) *s = -*s;
}

/* Element v of the line that this pass transforms. */
DEVICE void read_term(GLOBAL const T *x, GLOBAL const T *filter, const ffts *w, I64 outer, I64 v, I64 inner, T *re,
                      T *im) {
  T c, s;
  if (w->times == FFT_FILTER) {
    const I64 near = v < w->chirp ? v : w->length - v;
    chirp_at(w, near, !w->back, re, im);
    if (near >= w->chirp) *re = *im = 0;
  } else if (w->times == FFT_CHIRP && v >= w->chirp) {
    *re = *im = 0;
  } else {
    read_place(x, w, outer, v, inner, re, im);
    if (w->times == FFT_CHIRP) {
      chirp_at(w, v, w->back, &c, &s);
      multiply(c, s, re, im);
    } else if (w->times == FFT_PRODUCT) {
      multiply(filter[2 * v], filter[2 * v + 1], re, im);
    }
  }
}

/* *re + i *im += (a + i b) e^(-2 pi i j / n), or its conjugate. */
DEVICE void add_turned(const ffts *w, T a, T b, I64 j, I64 n, T *re, T *im) {
  T c, s;
  FN(root)(j, n, &c, &s);
  multiply(c, w->inverse ? -s : s, &a, &b);
  *re += a;
  *im += b;
}

FLAT run(GLOBAL T *y, GLOBAL const T *x, GLOBAL const T *filter, CONST_PARAM ffts w, const parameters q) {
  const I64 r = w.radix, m = w.left / r;
  FOR_EACH(i, w.outer * w.places * w.inner) {
    const I64 inner = i % w.inner, line = i / w.inner / w.places, place = i / w.inner % w.places;
    const I64 beside = place % w.step, k = place / w.step % r, p = place / w.step / r;
    T re = 0, im = 0;
    for (I64 j = 0; j < r; j++) {
      T a, b;
      read_term(x, filter, &w, line, beside + w.step * (p + m * j), inner, &a, &b);
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
    if (w.chirps) {
      T c, s;
      chirp_at(&w, place, w.back, &c, &s);
      multiply(c, s, &re, &im);
    }
    if (w.to == FFT_REAL) {
      y[w.y + i] = q.p[0] * re;
    } else {
      y[w.y + 2 * i] = q.p[0] * re;
      y[w.y + 2 * i + 1] = q.p[0] * im;
    }
  }
}
