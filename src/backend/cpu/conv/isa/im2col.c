/* Unfolding (im2col) and folding (col2im), compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/conv/im2col.h"
#include "backend/cpu/common/isa/halves.h"
#include "base/size.h"

/* Elements that one element of the kernel reads: windows [first, last) of the rows [top, bottom) of `rows` are inside
   the plane; window 0 of a row that begins at 0 reads element `offset` of the plane, which may be outside it. */
typedef struct reach {
  int64_t rows, top, bottom, first, last, offset;
} reach;

/* Among `count` windows, `stride` apart, the first that reads an element >= 0, and the first that reads past `size`. */
static void inside(int64_t start, int64_t stride, int64_t size, int64_t count, int64_t *first, int64_t *last) {
  *first = start < 0 ? situ__min_i64(situ__ceil_div(-start, stride), count) : 0;
  *last = start < size ? situ__max_i64(*first, situ__min_i64(situ__ceil_div(size - start, stride), count)) : *first;
}

static reach reach_of(const situ__im2col *u, int64_t tap) {
  const situ_window *w = u->window;
  const int64_t y = u->row * w->stride[0] - w->padding[0] + tap / w->kernel[1] * w->dilation[0];
  const int64_t x = tap % w->kernel[1] * w->dilation[1] - w->padding[1];
  reach at = { .rows = u->rows };
  inside(y, w->stride[0], u->height, u->rows, &at.top, &at.bottom);
  inside(x, w->stride[1], u->width, u->out_width, &at.first, &at.last);
  if (at.first == at.last) at.bottom = at.top;
  at.offset = y * u->width + x + at.first * w->stride[1];
  return at;
}

/* Which lanes of a vector that begins at column `first` are inside of the row. */
typedef struct lane_range {
  int64_t first;
  int low, high;
} lane_range;

static lane_range lanes_of(int64_t first, int64_t width, int lanes) {
  const int64_t low = situ__min_i64(situ__max_i64(0, -first), lanes), high = situ__min_i64(width - first, lanes);
  return (lane_range){ first, (int)low, (int)situ__max_i64(low, high) };
}

ALWAYS_INLINE vec_f64 F64(load_between)(const double *p, int first, int last) {
  vec_f64 v = { 0 };
  for (int l = first; l < last; l++) v[l] = p[l];
  return v;
}

#define FN F32
#define LANES ((int)(VECTOR / sizeof(float)))
#define real float
#define vec vec_f32
#define HALF(a, b, k) HALF_32(picks_f32, a, b, k)
#include "im2col_compute.h"
#undef FN
#undef LANES
#undef real
#undef vec
#undef HALF

#define FN F64
#define LANES ((int)(VECTOR / sizeof(double)))
#define real double
#define vec vec_f64
#define HALF(a, b, k) HALF_64(picks_f64, a, b, k)
#include "im2col_compute.h"
