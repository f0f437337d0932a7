/* Pooling of a plane for one compute type: included by pool.c with `real`, `whole` (an integer of the same width),
   LOWEST, IS_NAN, PLUS, QUOTIENT and FN. Loops run along rows of windows, one element of the kernel at a time, so that
   they vectorise.
   SPDX-License-Identifier: MIT */

/* ---- max: NaN wins, else the first of equal maxima ---- */

/* step is a constant in the common calls. */
ALWAYS_INLINE void FN(max_row)(const real *x, int64_t step, int64_t first, int64_t last, whole number, real *y,
                               whole *tap) {
  INDEPENDENT
  for (int64_t i = first; i < last; i++) {
    const real value = x[i * step];
    const bool take = value > y[i] || IS_NAN(value);
    y[i] = take ? value : y[i];
    tap[i] = take ? number : tap[i];
  }
}

/* Maxima without their places, in the same order. */
ALWAYS_INLINE real FN(larger)(real y, real value) { return value > y || IS_NAN(value) ? value : y; }

ALWAYS_INLINE void FN(max_values_row)(const real *x, int64_t step, int64_t first, int64_t last, real *y) {
  INDEPENDENT
  for (int64_t i = first; i < last; i++) y[i] = FN(larger)(y[i], x[i * step]);
}

static void FN(max_values)(const situ__plane *p, const real *large, real *y) {
  const situ_window *w = p->window;
  for (int64_t oh = 0; oh < p->out_height; oh++, y += p->out_width) {
    for (int64_t i = 0; i < p->out_width; i++) y[i] = LOWEST;
    for (int64_t kh = 0; kh < w->kernel[0]; kh++) {
      const int64_t row = oh * w->stride[0] - w->padding[0] + kh * w->dilation[0];
      if (row < 0 || row >= p->height) continue;
      for (int64_t kw = 0; kw < w->kernel[1]; kw++) {
        const span s = span_of(p, kw);
        const real *x = large + row * p->width + s.offset;
        if (w->stride[1] == 1) FN(max_values_row)(x, 1, s.first, s.last, y);
        else if (w->stride[1] == 2) FN(max_values_row)(x, 2, s.first, s.last, y);
        else FN(max_values_row)(x, w->stride[1], s.first, s.last, y);
      }
    }
  }
}

/* Windows of 2 x 2 side by side, all inside of the plane. */
static bool FN(is_halving)(const situ__plane *p) {
  const situ_window *w = p->window;
  bool halves = 2 * p->out_height <= p->height && 2 * p->out_width <= p->width;
  for (int d = 0; d < 2; d++)
    halves = halves && w->kernel[d] == 2 && w->stride[d] == 2 && w->padding[d] == 0 && w->dilation[d] == 1;
  return halves;
}

#ifdef HALVE
/* Maxima of `count` windows of two rows, 1 to LANES. A comparison of vectors is -1 where it holds. */
ALWAYS_INLINE void FN(max_pairs)(const real *const row[2], real *y, int count) {
  typedef whole mask __attribute__((vector_size(VECTOR)));
  vec part[4];
  for (int r = 0; r < 2; r++) {
    const int more = 2 * count - LANES;
    const vec a = FN(load_some)(row[r], more < 0 ? 2 * count : LANES),
              b = more > 0 ? FN(load_some)(row[r] + LANES, more) : (vec){ 0 };
    HALVE(a, b, part[2 * r], part[2 * r + 1]);
  }
  vec most = part[0];
  for (int k = 1; k < 4; k++) {
    const mask take = (part[k] > most) | (part[k] != part[k]);
    most = (vec)(((mask)part[k] & take) | ((mask)most & ~take));
  }
  FN(store_some)(y, most, count);
}
static void FN(max_halves)(const real *x, const real *below, real *y, int64_t count) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) FN(max_pairs)((const real *[]){ x + 2 * i, below + 2 * i }, y + i, LANES);
  if (i < count) FN(max_pairs)((const real *[]){ x + 2 * i, below + 2 * i }, y + i, (int)(count - i));
}
#else
static void FN(max_halves)(const real *x, const real *below, real *y, int64_t count) {
  INDEPENDENT
  for (int64_t i = 0; i < count; i++) {
    const real first = FN(larger)(x[2 * i], x[2 * i + 1]);
    y[i] = FN(larger)(FN(larger)(first, below[2 * i]), below[2 * i + 1]);
  }
}
#endif

static void FN(max_halving)(const situ__plane *p, const real *x, real *y) {
  for (int64_t oh = 0; oh < p->out_height; oh++, x += 2 * p->width, y += p->out_width)
    FN(max_halves)(x, x + p->width, y, p->out_width);
}

static void FN(max)(const situ__plane *p, const void *large, void *small, int64_t *index) {
  const situ_window *w = p->window;
  if (!index && FN(is_halving)(p)) {
    FN(max_halving)(p, large, small);
    return;
  }
  if (!index) {
    FN(max_values)(p, large, small);
    return;
  }
  whole *tap = p->row;
  real *y = small;
  for (int64_t oh = 0; oh < p->out_height; oh++, y += p->out_width) {
    for (int64_t i = 0; i < p->out_width; i++) y[i] = LOWEST, tap[i] = -1;
    for (int64_t kh = 0; kh < w->kernel[0]; kh++) {
      const int64_t row = oh * w->stride[0] - w->padding[0] + kh * w->dilation[0];
      if (row < 0 || row >= p->height) continue;
      for (int64_t kw = 0; kw < w->kernel[1]; kw++) {
        const span s = span_of(p, kw);
        const real *x = (const real *)large + row * p->width + s.offset;
        const whole number = (whole)(kh * w->kernel[1] + kw);
        if (w->stride[1] == 1) FN(max_row)(x, 1, s.first, s.last, number, y, tap);
        else if (w->stride[1] == 2) FN(max_row)(x, 2, s.first, s.last, number, y, tap);
        else FN(max_row)(x, w->stride[1], s.first, s.last, number, y, tap);
      }
    }
    for (int64_t i = 0; i < p->out_width; i++) *index++ = place(p, oh, i, tap[i]);
  }
}

static bool FN(max_grad)(const situ__plane *p, const void *small, const int64_t *index, void *large) {
  const real *g = small;
  real *dx = large;
  const int64_t plane = p->height * p->width, count = p->out_height * p->out_width;
  memset(dx, 0, (size_t)plane * sizeof(real));
  for (int64_t i = 0; i < count; i++) {
    if ((uint64_t)index[i] >= (uint64_t)plane) return false;
    dx[index[i]] = PLUS(dx[index[i]], g[i]);
  }
  return true;
}

/* ---- averages over windows ---- */

ALWAYS_INLINE void FN(sum_row)(const real *x, int64_t step, int64_t first, int64_t last, real *y) {
  INDEPENDENT
  for (int64_t i = first; i < last; i++) y[i] = PLUS(y[i], x[i * step]);
}

static void FN(avg)(const situ__plane *p, const void *large, void *small) {
  const situ_window *w = p->window;
  real *y = small;
  for (int64_t oh = 0; oh < p->out_height; oh++, y += p->out_width) {
    for (int64_t i = 0; i < p->out_width; i++) y[i] = 0;
    for (int64_t kh = 0; kh < w->kernel[0]; kh++) {
      const int64_t row = oh * w->stride[0] - w->padding[0] + kh;
      if (row < 0 || row >= p->height) continue;
      for (int64_t kw = 0; kw < w->kernel[1]; kw++) {
        const span s = span_of(p, kw);
        const real *x = (const real *)large + row * p->width + s.offset;
        if (w->stride[1] == 1) FN(sum_row)(x, 1, s.first, s.last, y);
        else if (w->stride[1] == 2) FN(sum_row)(x, 2, s.first, s.last, y);
        else FN(sum_row)(x, w->stride[1], s.first, s.last, y);
      }
    }
    for (int64_t i = 0; i < p->out_width; i++) y[i] = QUOTIENT(y[i], (real)divisor(p, oh, i));
  }
}

static void FN(avg_grad)(const situ__plane *p, const void *small, void *large) {
  const situ_window *w = p->window;
  const real *g = small;
  real *share = p->row;
  const int64_t step = w->stride[1];
  memset(large, 0, (size_t)(p->height * p->width) * sizeof(real));
  for (int64_t oh = 0; oh < p->out_height; oh++, g += p->out_width) {
    for (int64_t i = 0; i < p->out_width; i++) share[i] = QUOTIENT(g[i], (real)divisor(p, oh, i));
    for (int64_t kh = 0; kh < w->kernel[0]; kh++) {
      const int64_t row = oh * w->stride[0] - w->padding[0] + kh;
      if (row < 0 || row >= p->height) continue;
      for (int64_t kw = 0; kw < w->kernel[1]; kw++) {
        const span s = span_of(p, kw);
        real *dx = (real *)large + row * p->width + s.offset;
        INDEPENDENT
        for (int64_t i = s.first; i < s.last; i++) dx[i * step] = PLUS(dx[i * step], share[i]);
      }
    }
  }
}

#ifdef PARTS
/* ---- averages over equal parts of the plane ---- */

/* Eight partial sums, as one would be a dependency chain. */
static real FN(row_sum)(const real *x, int64_t count) {
  real sum[8] = { 0 };
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int l = 0; l < 8; l++) sum[l] += x[i + l];
  for (; i < count; i++) sum[0] += x[i];
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

static void FN(adaptive)(const situ__plane *p, const void *large, void *small) {
  real *y = small;
  for (int64_t oh = 0; oh < p->out_height; oh++) {
    const span v = part_of(p->height, p->out_height, oh);
    for (int64_t ow = 0; ow < p->out_width; ow++) {
      const span h = part_of(p->width, p->out_width, ow);
      real sum = 0;
      for (int64_t row = v.first; row < v.last; row++)
        sum += FN(row_sum)((const real *)large + row * p->width + h.first, h.last - h.first);
      *y++ = sum / (real)((v.last - v.first) * (h.last - h.first));
    }
  }
}

static void FN(adaptive_grad)(const situ__plane *p, const void *small, void *large) {
  const real *g = small;
  memset(large, 0, (size_t)(p->height * p->width) * sizeof(real));
  for (int64_t oh = 0; oh < p->out_height; oh++) {
    const span v = part_of(p->height, p->out_height, oh);
    for (int64_t ow = 0; ow < p->out_width; ow++) {
      const span h = part_of(p->width, p->out_width, ow);
      const real share = *g++ / (real)((v.last - v.first) * (h.last - h.first));
      for (int64_t row = v.first; row < v.last; row++) {
        real *dx = (real *)large + row * p->width;
        for (int64_t i = h.first; i < h.last; i++) dx[i] += share;
      }
    }
  }
}
#endif

const situ__pool_kernels FN(situ__pool_kernels) = {
  .max = FN(max),
  .max_grad = FN(max_grad),
  .avg = FN(avg),
  .avg_grad = FN(avg_grad),
#ifdef PARTS
  .adaptive = FN(adaptive),
  .adaptive_grad = FN(adaptive_grad),
#endif
};
