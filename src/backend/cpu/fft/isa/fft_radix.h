/* Passes of a transform by factors, for one type: included by fft.c with `real` and FN.
   Stockham's algorithm, decimation in frequency: with r n' = n and the step s of what was done before,
   y[q + s (r p + k)] = w_n^(p k) sum_j w_r^(j k) x[q + s (p + n' j)]; the results are in order.
   C. Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7.
   SPDX-License-Identifier: MIT */

typedef struct FN(planes) {
  real *re, *im;
} FN(planes);

/* A pass: n numbers that are left of a line, s of them side by side (lanes included). Root k of n is root k * step of
   the line's table. */
typedef struct FN(pass) {
  const real *re, *im;
  int64_t all, n, s, step;
} FN(pass);

static void FN(pass_2)(const FN(pass) * t, FN(planes) x, FN(planes) y) {
  const int64_t m = t->n / 2, s = t->s;
  for (int64_t p = 0; p < m; p++) {
    const real wr = t->re[p * t->step], wi = t->im[p * t->step];
    const real *ar = x.re + s * p, *ai = x.im + s * p, *br = ar + s * m, *bi = ai + s * m;
    real *cr = y.re + s * 2 * p, *ci = y.im + s * 2 * p, *dr = cr + s, *di = ci + s;
    INDEPENDENT
    for (int64_t q = 0; q < s; q++) {
      const real er = ar[q] - br[q], ei = ai[q] - bi[q];
      cr[q] = ar[q] + br[q], ci[q] = ai[q] + bi[q];
      dr[q] = er * wr - ei * wi, di[q] = er * wi + ei * wr;
    }
  }
}

static void FN(pass_3)(const FN(pass) * t, FN(planes) x, FN(planes) y) {
  const int64_t m = t->n / 3, s = t->s;
  const real half = (real)-0.5, high = (real)0.86602540378443864676;
  for (int64_t p = 0; p < m; p++) {
    const real w1r = t->re[p * t->step], w1i = t->im[p * t->step], w2r = t->re[2 * p * t->step],
               w2i = t->im[2 * p * t->step];
    const real *ar = x.re + s * p, *ai = x.im + s * p, *br = ar + s * m, *bi = ai + s * m, *cr = br + s * m,
               *ci = bi + s * m;
    real *y0r = y.re + s * 3 * p, *y0i = y.im + s * 3 * p, *y1r = y0r + s, *y1i = y0i + s, *y2r = y1r + s,
         *y2i = y1i + s;
    INDEPENDENT
    for (int64_t q = 0; q < s; q++) {
      const real sr = br[q] + cr[q], si = bi[q] + ci[q], dr = high * (bi[q] - ci[q]), di = high * (cr[q] - br[q]);
      const real mr = ar[q] + half * sr, mi = ai[q] + half * si;
      const real ur = mr + dr, ui = mi + di, vr = mr - dr, vi = mi - di;
      y0r[q] = ar[q] + sr, y0i[q] = ai[q] + si;
      y1r[q] = ur * w1r - ui * w1i, y1i[q] = ur * w1i + ui * w1r;
      y2r[q] = vr * w2r - vi * w2i, y2i[q] = vr * w2i + vi * w2r;
    }
  }
}

static void FN(pass_4)(const FN(pass) * t, FN(planes) x, FN(planes) y) {
  const int64_t m = t->n / 4, s = t->s;
  for (int64_t p = 0; p < m; p++) {
    const int64_t k = p * t->step;
    const real w1r = t->re[k], w1i = t->im[k], w2r = t->re[2 * k], w2i = t->im[2 * k], w3r = t->re[3 * k],
               w3i = t->im[3 * k];
    const real *ar = x.re + s * p, *ai = x.im + s * p, *br = ar + s * m, *bi = ai + s * m, *cr = br + s * m,
               *ci = bi + s * m, *dr = cr + s * m, *di = ci + s * m;
    real *y0r = y.re + s * 4 * p, *y0i = y.im + s * 4 * p, *y1r = y0r + s, *y1i = y0i + s, *y2r = y1r + s,
         *y2i = y1i + s, *y3r = y2r + s, *y3i = y2i + s;
    INDEPENDENT
    for (int64_t q = 0; q < s; q++) {
      const real er = ar[q] + cr[q], ei = ai[q] + ci[q], fr = ar[q] - cr[q], fi = ai[q] - ci[q];
      const real gr = br[q] + dr[q], gi = bi[q] + di[q], hr = bi[q] - di[q], hi = dr[q] - br[q];
      const real ur = fr + hr, ui = fi + hi, vr = er - gr, vi = ei - gi, wr = fr - hr, wi = fi - hi;
      y0r[q] = er + gr, y0i[q] = ei + gi;
      y1r[q] = ur * w1r - ui * w1i, y1i[q] = ur * w1i + ui * w1r;
      y2r[q] = vr * w2r - vi * w2i, y2i[q] = vr * w2i + vi * w2r;
      y3r[q] = wr * w3r - wi * w3i, y3i[q] = wr * w3i + wi * w3r;
    }
  }
}

/* Two transforms of 4, of the even and of the odd operands, whose results are turned by eighths and combined. */
static void FN(pass_8)(const FN(pass) * t, FN(planes) x, FN(planes) y) {
  const int64_t m = t->n / 8, s = t->s, apart = s * m;
  const real slant = (real)0.70710678118654752440;
  for (int64_t p = 0; p < m; p++) {
    real wr[8], wi[8];
    for (int64_t k = 0; k < 8; k++) wr[k] = t->re[k * p * t->step], wi[k] = t->im[k * p * t->step];
    const real *xr = x.re + s * p, *xi = x.im + s * p;
    real *yr = y.re + s * 8 * p, *yi = y.im + s * 8 * p;
/* clang-format off */
#define SUM(name, one, two)                                                            \
  const real name##r = xr[q + one * apart] + xr[q + two * apart], name##i = xi[q + one * apart] + xi[q + two * apart], \
             name##R = xr[q + one * apart] - xr[q + two * apart], name##I = xi[q + one * apart] - xi[q + two * apart]
#define PUT(k, re, im)                                                                 \
  {                                                                                    \
    const real tr = re, ti = im;                                                       \
    yr[q + k * s] = tr * wr[k] - ti * wi[k], yi[q + k * s] = tr * wi[k] + ti * wr[k];  \
  }
    /* clang-format on */
    INDEPENDENT
    for (int64_t q = 0; q < s; q++) {
      SUM(a, 0, 4);
      SUM(b, 2, 6);
      SUM(c, 1, 5);
      SUM(d, 3, 7);
      const real er = ar + br, ei = ai + bi, fr = ar - br, fi = ai - bi; /* even: 0 and 2 */
      const real gr = cr + dr, gi = ci + di, hr = ci - di, hi = dr - cr; /* odd: 0, and 2 turned by a quarter */
      const real ur = aR + bI, ui = aI - bR, vr = aR - bI, vi = aI + bR; /* even: 1 and 3 */
      const real kr = cR + dI, ki = cI - dR, lr = cR - dI, li = cI + dR; /* odd: 1 and 3 */
      const real mr = slant * (kr + ki), mi = slant * (ki - kr), nr = slant * (li - lr), ni = -slant * (lr + li);
      yr[q] = er + gr, yi[q] = ei + gi;
      PUT(1, ur + mr, ui + mi)
      PUT(2, fr + hr, fi + hi)
      PUT(3, vr + nr, vi + ni)
      PUT(4, er - gr, ei - gi)
      PUT(5, ur - mr, ui - mi)
      PUT(6, fr - hr, fi - hi)
      PUT(7, vr - nr, vi - ni)
    }
#undef SUM
#undef PUT
  }
}

/* Any factor r, by its definition: y_k is the sum of r terms, and then times its root. */
static void FN(pass_any)(const FN(pass) * t, int64_t r, FN(planes) x, FN(planes) y) {
  const int64_t m = t->n / r, s = t->s, turn = t->all / r;
  for (int64_t p = 0; p < m; p++)
    for (int64_t k = 0; k < r; k++) {
      const real *ar = x.re + s * p, *ai = x.im + s * p;
      real *yr = y.re + s * (r * p + k), *yi = y.im + s * (r * p + k);
      memcpy(yr, ar, (size_t)s * sizeof(real));
      memcpy(yi, ai, (size_t)s * sizeof(real));
      for (int64_t j = 1; j < r; j++) {
        const real wr = t->re[j * k % r * turn], wi = t->im[j * k % r * turn];
        const real *br = ar + j * s * m, *bi = ai + j * s * m;
        INDEPENDENT
        for (int64_t q = 0; q < s; q++) {
          yr[q] += br[q] * wr - bi[q] * wi;
          yi[q] += br[q] * wi + bi[q] * wr;
        }
      }
      const real wr = t->re[p * k * t->step], wi = t->im[p * k * t->step];
      INDEPENDENT
      for (int64_t q = 0; q < s; q++) {
        const real er = yr[q], ei = yi[q];
        yr[q] = er * wr - ei * wi, yi[q] = er * wi + ei * wr;
      }
    }
}

/* All passes; returns x or other, whichever has the result. */
static FN(planes) FN(by_radix)(const situ__fft_plan *plan, int64_t lanes, FN(planes) x, FN(planes) other) {
  const real *root = plan->root;
  FN(pass) t = { .re = root, .im = root + plan->n, .all = plan->n, .n = plan->n, .s = lanes, .step = 1 };
  for (int k = 0; k < plan->radices; k++) {
    const int r = plan->radix[k];
    if (r == 2) FN(pass_2)(&t, x, other);
    else if (r == 3) FN(pass_3)(&t, x, other);
    else if (r == 4) FN(pass_4)(&t, x, other);
    else if (r == 8) FN(pass_8)(&t, x, other);
    else FN(pass_any)(&t, r, x, other);
    const FN(planes) swap = x;
    x = other, other = swap;
    t.n /= r, t.s *= r, t.step *= r;
  }
  return x;
}
