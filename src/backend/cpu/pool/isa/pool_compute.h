/* Pooling of a plane for one compute type: included by pool.c with `real`, its vector `vec`, `whole` and `picks` (an
   integer of the same width and its vector), LOWEST, IS_NAN, PLUS, QUOTIENT, HALF and FN. Loops over averages run along
   rows of windows, one element of the kernel at a time, so that they vectorise.
   SPDX-License-Identifier: MIT */

#include "pool_max.h"

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
  columns c;
  list_columns(p, &c);
  real *y = small;
  for (int64_t oh = 0; oh < p->out_height; oh++, y += p->out_width) {
    for (int64_t i = 0; i < p->out_width; i++) y[i] = 0;
    const span rows = rows_of(p, oh);
    span s;
    for (int64_t kh = rows.first; kh < rows.last; kh++)
      for (int64_t kw = 0; next_column(p, &c, &kw, &s); kw++) {
        const real *x = (const real *)large + (rows.offset + kh) * p->width + s.offset;
        if (w->stride[1] == 1) FN(sum_row)(x, 1, s.first, s.last, y);
        else if (w->stride[1] == 2) FN(sum_row)(x, 2, s.first, s.last, y);
        else FN(sum_row)(x, w->stride[1], s.first, s.last, y);
      }
    for (int64_t i = 0; i < p->out_width; i++) y[i] = QUOTIENT(y[i], (real)divisor(p, oh, i));
  }
}

static void FN(avg_grad)(const situ__plane *p, const void *small, void *large) {
  const real *g = small;
  real *share = p->scratch;
  const int64_t step = p->window->stride[1];
  columns c;
  list_columns(p, &c);
  memset(large, 0, (size_t)(p->height * p->width) * sizeof(real));
  for (int64_t oh = 0; oh < p->out_height; oh++, g += p->out_width) {
    for (int64_t i = 0; i < p->out_width; i++) share[i] = QUOTIENT(g[i], (real)divisor(p, oh, i));
    const span rows = rows_of(p, oh);
    span s;
    for (int64_t kh = rows.first; kh < rows.last; kh++)
      for (int64_t kw = 0; next_column(p, &c, &kw, &s); kw++) {
        real *dx = (real *)large + (rows.offset + kh) * p->width + s.offset;
        INDEPENDENT
        for (int64_t i = s.first; i < s.last; i++) dx[i * step] = PLUS(dx[i * step], share[i]);
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
