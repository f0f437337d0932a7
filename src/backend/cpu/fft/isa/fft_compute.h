/* Transforms of groups of lines for one type: included by fft.c after fft_radix.h.
   SPDX-License-Identifier: MIT */

static FN(planes) FN(transform)(const situ__fft_plan *plan, int64_t lanes, FN(planes) x, real *memory);

static FN(planes) FN(planes_at)(real *memory, int64_t count) { return (FN(planes)){ memory, memory + count }; }

/* Number k of each of the lanes, times number k of the table. */
ALWAYS_INLINE void FN(multiply_lanes)(FN(planes) x, const real *re, const real *im, int64_t count, int64_t lanes) {
  INDEPENDENT
  for (int64_t k = 0; k < count; k++)
    for (int64_t l = k * lanes; l < (k + 1) * lanes; l++) {
      const real er = x.re[l], ei = x.im[l];
      x.re[l] = er * re[k] - ei * im[k], x.im[l] = er * im[k] + ei * re[k];
    }
}
static void FN(multiply)(FN(planes) x, const real *re, const real *im, int64_t count, int64_t lanes) {
  if (lanes == 1) FN(multiply_lanes)(x, re, im, count, 1);
  else FN(multiply_lanes)(x, re, im, count, LANES);
}

/* ---- as a matrix: transforms of columns, times roots, transforms of rows, transposed ---- */

static void FN(columns)(const situ__fft_plan *plan, FN(planes) x, FN(planes) y, real *memory) {
  const int64_t rows = plan->first->n, width = plan->second->n;
  const real *root = plan->root;
  for (int64_t c = 0; c < width; c += LANES) {
    FN(planes) part = FN(planes_at)(memory, rows * LANES);
    const int64_t count = situ__min_i64(LANES, width - c);
    if (count < LANES) memset(memory, 0, (size_t)(2 * rows * LANES) * sizeof(real));
    for (int64_t j = 0; j < rows; j++) {
      memcpy(part.re + j * LANES, x.re + j * width + c, (size_t)count * sizeof(real));
      memcpy(part.im + j * LANES, x.im + j * width + c, (size_t)count * sizeof(real));
    }
    part = FN(transform)(plan->first, LANES, part, memory + 2 * rows * LANES);
    for (int64_t j = 0; j < rows; j++) {
      const real *pr = part.re + j * LANES, *pi = part.im + j * LANES, *wr = root + j * width + c, *wi = wr + plan->n;
      real *yr = y.re + j * width + c, *yi = y.im + j * width + c;
      INDEPENDENT
      for (int64_t l = 0; l < count; l++) {
        yr[l] = pr[l] * wr[l] - pi[l] * wi[l];
        yi[l] = pr[l] * wi[l] + pi[l] * wr[l];
      }
    }
  }
}

static void FN(rows)(const situ__fft_plan *plan, FN(planes) x, FN(planes) y, real *memory) {
  const int64_t rows = plan->first->n, width = plan->second->n;
  for (int64_t r = 0; r < rows; r += LANES) {
    FN(planes) part = FN(planes_at)(memory, width * LANES);
    const int64_t count = situ__min_i64(LANES, rows - r);
    if (count < LANES) memset(memory, 0, (size_t)(2 * width * LANES) * sizeof(real));
    for (int64_t begin = 0; begin < width; begin += TILE)
      for (int64_t l = 0; l < count; l++)
        for (int64_t k = begin; k < situ__min_i64(begin + TILE, width); k++) {
          part.re[k * LANES + l] = x.re[(r + l) * width + k];
          part.im[k * LANES + l] = x.im[(r + l) * width + k];
        }
    part = FN(transform)(plan->second, LANES, part, memory + 2 * width * LANES);
    for (int64_t k = 0; k < width; k++) {
      memcpy(y.re + k * rows + r, part.re + k * LANES, (size_t)count * sizeof(real));
      memcpy(y.im + k * rows + r, part.im + k * LANES, (size_t)count * sizeof(real));
    }
  }
}

/* ---- as a convolution: n, padded with zeros to a longer line ---- */

static FN(planes) FN(by_chirp)(const situ__fft_plan *plan, int64_t lanes, FN(planes) x, real *memory) {
  const int64_t n = plan->n, m = plan->first->n;
  const real *chirp = plan->chirp, *filter = plan->filter;
  FN(planes) u = FN(planes_at)(memory, m * lanes);
  memory += 2 * m * lanes;
  FN(multiply)(x, chirp, chirp + n, n, lanes);
  memcpy(u.re, x.re, (size_t)(n * lanes) * sizeof(real));
  memcpy(u.im, x.im, (size_t)(n * lanes) * sizeof(real));
  memset(u.re + n * lanes, 0, (size_t)((m - n) * lanes) * sizeof(real));
  memset(u.im + n * lanes, 0, (size_t)((m - n) * lanes) * sizeof(real));
  const FN(planes) v = FN(transform)(plan->first, lanes, u, memory);
  FN(multiply)(v, filter, filter + m, m, lanes);
  if (v.re != u.re) memcpy(u.re, v.re, (size_t)(2 * m * lanes) * sizeof(real));
  /* Real and imaginary parts exchanged: the inverse transform. */
  const FN(planes) w = FN(transform)(plan->first, lanes, (FN(planes)){ u.im, u.re }, memory);
  memcpy(x.re, w.im, (size_t)(n * lanes) * sizeof(real));
  memcpy(x.im, w.re, (size_t)(n * lanes) * sizeof(real));
  FN(multiply)(x, chirp, chirp + n, n, lanes);
  return x;
}

/* Returns where the result is: x or in memory. */
static FN(planes) FN(transform)(const situ__fft_plan *plan, int64_t lanes, FN(planes) x, real *memory) {
  if (plan->way == SITU__FFT_CHIRP) return FN(by_chirp)(plan, lanes, x, memory);
  const FN(planes) other = FN(planes_at)(memory, plan->n * lanes);
  if (plan->way == SITU__FFT_RADIX) return FN(by_radix)(plan, lanes, x, other);
  FN(columns)(plan, x, other, memory + 2 * plan->n);
  FN(rows)(plan, other, x, memory + 2 * plan->n);
  return x;
}

/* ---- from and to tensors: numbers [begin, end) of a line at a time, so that the lines of a group stay together in the
   cache ---- */

typedef struct FN(group) {
  const situ__fft *f;
  const situ__fft_side *x, *y;
  int64_t lanes;
  int lines;
} FN(group);

typedef void (*FN(part))(const FN(group) * g, FN(planes) p, int l, int64_t begin, int64_t end);

ALWAYS_INLINE void FN(in_tiles)(const FN(group) * g, FN(planes) p, int64_t first, int64_t count, FN(part) part) {
  for (int64_t begin = first; begin < count; begin += TILE)
    for (int l = 0; l < g->lines; l++) part(g, p, l, begin, situ__min_i64(begin + TILE, count));
}

/* Numbers as they are, or conjugated. */
ALWAYS_INLINE void FN(load)(const FN(group) * g, FN(planes) to, int l, int64_t begin, int64_t end) {
  const int64_t step = g->x->step, gap = g->x->gap, lanes = g->lanes;
  const real *from = g->x->at[l], sign = g->f->op == SITU_FFT_REAL_BACK && !g->f->inverse ? -1 : 1;
  for (int64_t k = begin; k < end; k++) {
    to.re[k * lanes + l] = from[k * step];
    to.im[k * lanes + l] = sign * from[k * step + gap];
  }
}

/* A real line of odd length, as a complex one. */
ALWAYS_INLINE void FN(load_odd)(const FN(group) * g, FN(planes) to, int l, int64_t begin, int64_t end) {
  const real *from = g->x->at[l];
  for (int64_t k = begin; k < end; k++) {
    to.re[k * g->lanes + l] = from[k * g->x->step];
    to.im[k * g->lanes + l] = 0;
  }
}

/* From element 1 on: the other half of a spectrum is the mirror image of the first, conjugated. */
ALWAYS_INLINE void FN(load_mirrored)(const FN(group) * g, FN(planes) to, int l, int64_t begin, int64_t end) {
  const int64_t n = g->f->length, lanes = g->lanes;
  FN(load)(g, to, l, begin, end);
  for (int64_t k = begin; k < end; k++) {
    to.re[(n - k) * lanes + l] = to.re[k * lanes + l];
    to.im[(n - k) * lanes + l] = -to.im[k * lanes + l];
  }
}

/* Element 0 of a half spectrum; with the last one in the place of its imaginary part where that is real too. */
ALWAYS_INLINE void FN(load_ends)(const FN(group) * g, FN(planes) to) {
  const int64_t last = g->f->length / 2 * g->x->step;
  for (int l = 0; l < g->lines; l++) {
    const real *from = g->x->at[l];
    to.re[l] = from[0], to.im[l] = g->f->half ? from[last] : 0;
  }
}
ALWAYS_INLINE void FN(store_ends)(const FN(group) * g, FN(planes) from) {
  const int64_t last = g->f->length / 2 * g->y->step, gap = g->y->gap;
  const real factor = (real)g->f->factor;
  for (int l = 0; l < g->lines; l++) {
    real *to = (real *)(uintptr_t)g->y->at[l];
    to[0] = factor * from.re[l], to[last] = factor * from.im[l];
    to[gap] = to[last + gap] = 0;
  }
}

/* Between the half spectrum X of an even length n = 2 h, whose last element is in the imaginary part of the first, and
   the transform Z of the even elements + i the odd ones. With s = Z_k + conj Z_{h-k}, d = Z_k - conj Z_{h-k} and
   t = -i w^k d: 2 X_k = s + t, 2 X_{h-k} = conj(s - t). Back likewise with t = i w^-k d, without the 2. */
ALWAYS_INLINE void FN(exchange_halves)(const FN(group) * g, FN(planes) p) {
  const int64_t h = g->f->length / 2, lanes = g->lanes;
  const bool back = g->f->op == SITU_FFT_REAL_BACK;
  const real *re = g->f->half, *im = re + h + 1, part = back ? 1 : (real)0.5;
  for (int64_t l = 0; l < lanes; l++) {
    const real r = p.re[l], i = p.im[l];
    p.re[l] = r + i, p.im[l] = r - i;
  }
  for (int64_t k = 1; k <= h - k; k++) {
    real *ar = p.re + k * lanes, *ai = p.im + k * lanes, *br = p.re + (h - k) * lanes, *bi = p.im + (h - k) * lanes;
    const real wr = part * im[k], wi = back ? re[k] : -part * re[k];
    INDEPENDENT
    for (int64_t l = 0; l < lanes; l++) {
      const real sr = part * (ar[l] + br[l]), si = part * (ai[l] - bi[l]), dr = ar[l] - br[l], di = ai[l] + bi[l];
      const real tr = dr * wr - di * wi, ti = dr * wi + di * wr;
      ar[l] = sr + tr, ai[l] = si + ti;
      br[l] = sr - tr, bi[l] = ti - si;
    }
  }
}

ALWAYS_INLINE void FN(store)(const FN(group) * g, FN(planes) from, int l, int64_t begin, int64_t end) {
  const int64_t step = g->y->step, gap = g->y->gap, lanes = g->lanes;
  const real re = (real)g->f->factor, im = g->f->op == SITU_FFT_REAL && g->f->inverse ? -re : re;
  real *to = (real *)(uintptr_t)g->y->at[l];
  for (int64_t k = begin; k < end; k++) {
    to[k * step] = re * from.re[k * lanes + l];
    to[k * step + gap] = im * from.im[k * lanes + l];
  }
}

ALWAYS_INLINE void FN(store_odd)(const FN(group) * g, FN(planes) from, int l, int64_t begin, int64_t end) {
  const real factor = (real)g->f->factor;
  real *to = (real *)(uintptr_t)g->y->at[l];
  for (int64_t k = begin; k < end; k++) to[k * g->y->step] = factor * from.re[k * g->lanes + l];
}

ALWAYS_INLINE void FN(load_group)(const FN(group) * g, FN(planes) to) {
  const situ__fft *f = g->f;
  if (f->op == SITU_FFT_REAL && !f->half) {
    FN(in_tiles)(g, to, 0, f->length, FN(load_odd));
  } else if (f->op != SITU_FFT_REAL_BACK) {
    FN(in_tiles)(g, to, 0, f->plan->n, FN(load));
  } else {
    FN(load_ends)(g, to);
    if (f->half) FN(in_tiles)(g, to, 1, f->plan->n, FN(load));
    else FN(in_tiles)(g, to, 1, f->length / 2 + 1, FN(load_mirrored));
    if (f->half) FN(exchange_halves)(g, to);
  }
}

ALWAYS_INLINE void FN(store_group)(const FN(group) * g, FN(planes) from) {
  const situ__fft *f = g->f;
  if (f->op == SITU_FFT_REAL_BACK && !f->half) {
    FN(in_tiles)(g, from, 0, f->length, FN(store_odd));
  } else if (f->op == SITU_FFT_REAL && f->half) {
    FN(exchange_halves)(g, from);
    FN(store_ends)(g, from);
    FN(in_tiles)(g, from, 1, f->plan->n, FN(store));
  } else {
    FN(in_tiles)(g, from, 0, f->op == SITU_FFT_REAL ? f->length / 2 + 1 : f->plan->n, FN(store));
  }
}

/* lanes is a constant where this is called, so that loops over them are unrolled. */
ALWAYS_INLINE void FN(run_group)(const situ__fft *f, const situ__fft_side *x, const situ__fft_side *y, int lines,
                                 void *memory, int64_t lanes) {
  const int64_t n = f->plan->n;
  const FN(group) g = { f, x, y, lanes, lines };
  FN(planes) a = FN(planes_at)(memory, n * lanes);
  const bool swap = f->op == SITU_FFT_REAL_BACK || (f->op == SITU_FFT_COMPLEX && f->inverse);
  const FN(planes) in = swap ? (FN(planes)){ a.im, a.re } : a;
  if (lines < lanes) memset(memory, 0, (size_t)(2 * n * lanes) * sizeof(real));
  FN(load_group)(&g, in);
  a = FN(transform)(f->plan, lanes, a, (real *)memory + 2 * n * lanes);
  FN(store_group)(&g, swap ? (FN(planes)){ a.im, a.re } : a);
}

static void FN(group_of)(const situ__fft *f, const situ__fft_side *x, const situ__fft_side *y, int lines,
                         void *memory) {
  if (f->plan->lanes == 1) FN(run_group)(f, x, y, lines, memory, 1);
  else FN(run_group)(f, x, y, lines, memory, LANES);
}

static void FN(once)(const situ__fft_plan *plan, void *planes, void *memory) {
  const FN(planes) x = FN(planes_at)(planes, plan->n), y = FN(transform)(plan, 1, x, memory);
  if (y.re != x.re) memcpy(x.re, y.re, (size_t)(2 * plan->n) * sizeof(real));
}

const situ__fft_kernels FN(situ__fft_kernels) = { .group = FN(group_of), .once = FN(once) };
