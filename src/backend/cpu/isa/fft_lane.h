/* Transforms of groups of lines for one type: included by fft.c after fft_radix.h.
   SPDX-License-Identifier: MIT */

static FN(planes) FN(transform)(const situ__fft_plan *plan, int64_t lanes, FN(planes) x, real *memory);

static FN(planes) FN(planes_at)(real *memory, int64_t count) { return (FN(planes)){ memory, memory + count }; }

/* x[i] *= (re + i im)[i] for i < count; lanes of each are side by side. */
static void FN(multiply)(FN(planes) x, const real *re, const real *im, int64_t count, int64_t lanes) {
  for (int64_t k = 0; k < count; k++) {
    real *xr = x.re + k * lanes, *xi = x.im + k * lanes;
    const real wr = re[k], wi = im[k];
    INDEPENDENT
    for (int64_t l = 0; l < lanes; l++) {
      const real er = xr[l], ei = xi[l];
      xr[l] = er * wr - ei * wi, xi[l] = er * wi + ei * wr;
    }
  }
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
    for (int64_t l = 0; l < count; l++)
      for (int64_t k = 0; k < width; k++) {
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

/* ---- from and to tensors ---- */

typedef struct FN(group) {
  const situ__fft *f;
  const situ__fft_side *x, *y;
  int64_t lanes;
  int lines;
} FN(group);

/* Numbers as they are. */
static void FN(load)(const FN(group) * g, FN(planes) to, int64_t count) {
  const int64_t step = g->x->step, gap = g->x->gap;
  for (int l = 0; l < g->lines; l++) {
    const real *from = g->x->at[l];
    for (int64_t k = 0; k < count; k++) {
      to.re[k * g->lanes + l] = from[k * step];
      to.im[k * g->lanes + l] = from[k * step + gap];
    }
  }
}

/* A real line of odd length, as a complex one. */
static void FN(load_odd)(const FN(group) * g, FN(planes) to) {
  memset(to.im, 0, (size_t)(g->f->length * g->lanes) * sizeof(real));
  for (int l = 0; l < g->lines; l++)
    for (int64_t k = 0; k < g->f->length; k++) to.re[k * g->lanes + l] = ((const real *)g->x->at[l])[k * g->x->step];
}

/* A half spectrum, to be transformed back: the other half is its mirror image, conjugated. */
static void FN(load_mirrored)(const FN(group) * g, FN(planes) to) {
  const int64_t n = g->f->length, step = g->x->step, gap = g->x->gap;
  const real sign = g->f->inverse ? 1 : -1;
  for (int l = 0; l < g->lines; l++) {
    const real *from = g->x->at[l];
    to.re[l] = from[0], to.im[l] = 0;
    for (int64_t k = 1; k <= n / 2; k++) {
      const int64_t near = k * g->lanes + l, far = (n - k) * g->lanes + l;
      to.re[near] = to.re[far] = from[k * step];
      to.im[near] = sign * from[k * step + gap];
      to.im[far] = -to.im[near];
    }
  }
}

/* A half spectrum X of an even length n = 2 h: (X_k + conj X_{h-k}) + i w^-k (X_k - conj X_{h-k}) is transformed to the
   even elements, as real parts, and the odd ones. */
static void FN(load_halves)(const FN(group) * g, FN(planes) to) {
  const int64_t h = g->f->length / 2, step = g->x->step, gap = g->x->gap;
  const real *wr = g->f->half, *wi = wr + h + 1, sign = g->f->inverse ? 1 : -1;
  for (int l = 0; l < g->lines; l++) {
    const real *from = g->x->at[l];
    to.re[l] = from[0] + from[h * step], to.im[l] = from[0] - from[h * step];
    for (int64_t k = 1; k < h; k++) {
      const real *a = from + k * step, *b = from + (h - k) * step;
      const real ai = sign * a[gap], bi = sign * b[gap];
      const real sr = a[0] + b[0], si = ai - bi, dr = a[0] - b[0], di = ai + bi;
      to.re[k * g->lanes + l] = sr - (di * wr[k] - dr * wi[k]);
      to.im[k * g->lanes + l] = si + (dr * wr[k] + di * wi[k]);
    }
  }
}

static void FN(store)(const FN(group) * g, FN(planes) from, int64_t count, real sign) {
  const int64_t step = g->y->step, gap = g->y->gap;
  const real factor = (real)g->f->factor;
  for (int l = 0; l < g->lines; l++) {
    real *to = (real *)(uintptr_t)g->y->at[l];
    for (int64_t k = 0; k < count; k++) {
      to[k * step] = factor * from.re[k * g->lanes + l];
      to[k * step + gap] = sign * factor * from.im[k * g->lanes + l];
    }
  }
}

static void FN(store_odd)(const FN(group) * g, FN(planes) from) {
  const real factor = (real)g->f->factor;
  for (int l = 0; l < g->lines; l++) {
    real *to = (real *)(uintptr_t)g->y->at[l];
    for (int64_t k = 0; k < g->f->length; k++) to[k * g->y->step] = factor * from.re[k * g->lanes + l];
  }
}

/* From the transform Z of even elements + i odd elements, n = 2 h: X_k = E + w^k O and X_{h-k} = conj(E - w^k O), where
   E = (Z_k + conj Z_{h-k}) / 2 and O = (Z_k - conj Z_{h-k}) / 2i. */
static void FN(store_halves)(const FN(group) * g, FN(planes) from) {
  const int64_t h = g->f->length / 2, step = g->y->step, gap = g->y->gap;
  const real *wr = g->f->half, *wi = wr + h + 1, half = (real)0.5 * (real)g->f->factor, sign = g->f->inverse ? -1 : 1;
  for (int l = 0; l < g->lines; l++) {
    real *to = (real *)(uintptr_t)g->y->at[l];
    for (int64_t k = 0; k <= h - k; k++) {
      const int64_t a = k * g->lanes + l, b = (k ? h - k : 0) * g->lanes + l;
      const real er = from.re[a] + from.re[b], ei = from.im[a] - from.im[b];
      const real pr = from.im[a] + from.im[b], pi = from.re[b] - from.re[a];
      const real or = pr * wr[k] - pi * wi[k], oi = pr * wi[k] + pi * wr[k];
      to[k * step] = half * (er + or);
      to[k * step + gap] = sign * half * (ei + oi);
      to[(h - k) * step] = half * (er - or);
      to[(h - k) * step + gap] = sign * half * (oi - ei);
    }
  }
}

static void FN(group_of)(const situ__fft *f, const situ__fft_side *x, const situ__fft_side *y, int lines,
                         void *memory) {
  const int64_t n = f->plan->n, lanes = f->plan->lanes;
  const FN(group) g = { f, x, y, lanes, lines };
  FN(planes) a = FN(planes_at)(memory, n * lanes);
  const bool swap = f->op == SITU_FFT_REAL_BACK || (f->op == SITU_FFT_COMPLEX && f->inverse);
  const FN(planes) in = swap ? (FN(planes)){ a.im, a.re } : a;
  if (lines < lanes) memset(memory, 0, (size_t)(2 * n * lanes) * sizeof(real));
  if (f->op == SITU_FFT_COMPLEX || (f->op == SITU_FFT_REAL && f->half)) FN(load)(&g, in, n);
  else if (f->op == SITU_FFT_REAL) FN(load_odd)(&g, in);
  else if (f->half) FN(load_halves)(&g, in);
  else FN(load_mirrored)(&g, in);
  a = FN(transform)(f->plan, lanes, a, (real *)memory + 2 * n * lanes);
  const FN(planes) out = swap ? (FN(planes)){ a.im, a.re } : a;
  if (f->op == SITU_FFT_COMPLEX || (f->op == SITU_FFT_REAL_BACK && f->half)) FN(store)(&g, out, n, 1);
  else if (f->op == SITU_FFT_REAL_BACK) FN(store_odd)(&g, out);
  else if (f->half) FN(store_halves)(&g, out);
  else FN(store)(&g, out, f->length / 2 + 1, f->inverse ? -1 : 1);
}

static void FN(once)(const situ__fft_plan *plan, void *planes, void *memory) {
  const FN(planes) x = FN(planes_at)(planes, plan->n), y = FN(transform)(plan, 1, x, memory);
  if (y.re != x.re) memcpy(x.re, y.re, (size_t)(2 * plan->n) * sizeof(real));
}

const situ__fft_kernels FN(situ__fft_kernels) = { .group = FN(group_of), .once = FN(once) };
