/* Pooling of planes. OP is a situ_pool_pass, D0 the result, D1 the operand. In gradients each element of the plane
   gathers from the windows that contain it; in max pooling's gradient one work-item scatters a whole plane.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"

enum { MAX, MAX_GRAD, AVG, AVG_GRAD, ADAPTIVE, ADAPTIVE_GRAD };
#define LARGE (c.height * c.width)
#define SMALL (c.out_height * c.out_width)
#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))

/* Number of a window's elements along one dimension inside the padded plane, or inside the plane. */
DEVICE I64 extent(const windows *c, int d, I64 at, I64 size) {
  I64 start = at * c->stride[d] - c->padding[d], end = start + c->window[d];
  if (end > size + c->padding[d]) end = size + c->padding[d];
  if (!c->exclude_pad) return end - start;
  return (end < size ? end : size) - (start > 0 ? start : 0);
}
DEVICE T divisor(const windows *c, I64 oh, I64 ow) {
  return c->divisor != 0 ? (T)c->divisor : (T)(extent(c, 0, oh, c->height) * extent(c, 1, ow, c->width));
}
/* A window's elements inside the plane along a dimension, of `size` elements: [first_in, past_in). */
DEVICE I64 first_in(const windows *c, int d, I64 start) { return start < 0 ? CEIL_DIV(-start, c->dilation[d]) : 0; }
DEVICE I64 past_in(const windows *c, int d, I64 start, I64 size) {
  const I64 past = start < size ? CEIL_DIV(size - start, c->dilation[d]) : 0;
  return past < c->window[d] ? past : c->window[d];
}
/* Integers have no -Inf, and division by -1 must not trap. */
#if FLOATING
#define LEAST (-INFINITY)
#define QUOTIENT(a, b) ((a) / (b))
#else
#define LEAST LEAST_I64
#define QUOTIENT(a, b) ((b) == -1 ? (T)(0 - (U64)(a)) : (a) / (b))
#endif

/* Row and column of element i of the result's planes; within one run the column is incremented, not divided out. */
#define LEFT_IN_ROW(width) (-(first_ % width) + width)
#define RUN(width) (LEFT_IN_ROW(width) < end_ - first_ ? LEFT_IN_ROW(width) : end_ - first_)
#define EACH_CELL(i, plane, row, column, height, width)                                              \
  FOR_RUNS(first_, end_, c.images * height * width, RUN(width))                                      \
    for (I64 i = first_, stop_ = i + RUN(width), column = i % (width), row = i / (width) % (height), \
             plane = i / ((height) * (width));                                                       \
         i < stop_; i++, column++)

#if OP == 0
FLAT run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, GLOBAL I64 *index, CONST_PARAM windows c) {
  EACH_CELL(i, plane, oh, ow, c.out_height, c.out_width) {
    const I64 top = oh * c.stride[0] - c.padding[0], left = ow * c.stride[1] - c.padding[1];
    T best = LEAST;
    /* The index if no element is greater than LEAST: the first element inside the plane. */
    I64 at = (top + first_in(&c, 0, top) * c.dilation[0]) * c.width + left + first_in(&c, 1, left) * c.dilation[1];
    for (I64 kh = first_in(&c, 0, top); kh < past_in(&c, 0, top, c.height); kh++)
      for (I64 kw = first_in(&c, 1, left); kw < past_in(&c, 1, left, c.width); kw++) {
        const I64 row = top + kh * c.dilation[0], column = left + kw * c.dilation[1];
        const T v = LOAD(D1, x[c.x + plane * LARGE + row * c.width + column]);
        const bool wins = v > best || v != v;
        best = wins ? v : best;
        at = wins ? row * c.width + column : at;
      }
    y[c.y + i] = STORE(D0, best);
#if FLAGS & FLAG_EACH
    index[c.w + i] = at;
#endif
  }
}
#elif OP == 1
GROUPS KERNEL run(GLOBAL MEMORY(D0) *dx, GLOBAL const MEMORY(D1) *g, GLOBAL const I64 *index, GLOBAL T *scratch,
                  CONST_PARAM windows c, const I64 verb, GLOBAL fault *found) {
  const I64 plane = ITEM;
  if (plane >= c.images) return;
  /* Sums are kept in T: dx's dtype may have less precision. */
  GLOBAL T *sum = scratch + plane * LARGE;
  for (I64 i = 0; i < LARGE; i++) sum[i] = 0;
  for (I64 i = 0; i < SMALL; i++) {
    const I64 at = index[c.w + plane * SMALL + i];
    if (at >= 0 && at < LARGE) {
      sum[at] += LOAD(D1, g[c.y + plane * SMALL + i]);
    } else if (FIRST_TO_RAISE(&found->raised)) {
      found->verb = verb;
      found->value = at;
      found->bound = LARGE;
      found->at = i;
    }
  }
  for (I64 i = 0; i < LARGE; i++) dx[c.x + plane * LARGE + i] = STORE(D0, sum[i]);
}
#elif OP == 2
FLAT run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, CONST_PARAM windows c) {
  EACH_CELL(i, plane, oh, ow, c.out_height, c.out_width) {
    const I64 top = oh * c.stride[0] - c.padding[0], left = ow * c.stride[1] - c.padding[1];
    T sum = 0;
    for (I64 kh = first_in(&c, 0, top); kh < past_in(&c, 0, top, c.height); kh++)
      for (I64 kw = first_in(&c, 1, left); kw < past_in(&c, 1, left, c.width); kw++)
        sum += LOAD(D1, x[c.x + plane * LARGE + (top + kh) * c.width + left + kw]);
    const T by = divisor(&c, oh, ow);
    sum = QUOTIENT(sum, by);
    y[c.y + i] = STORE(D0, sum);
  }
}
#elif OP == 3
/* The windows that contain element `at` of the padded plane. */
DEVICE I64 first_over(const windows *c, int d, I64 at) {
  return at < c->window[d] ? 0 : (at - c->window[d]) / c->stride[d] + 1;
}
DEVICE I64 last_over(const windows *c, int d, I64 at, I64 count) {
  return at / c->stride[d] < count ? at / c->stride[d] : count - 1;
}
FLAT run(GLOBAL MEMORY(D0) *dx, GLOBAL const MEMORY(D1) *g, CONST_PARAM windows c) {
  EACH_CELL(i, plane, row, column, c.height, c.width) {
    const I64 down = row + c.padding[0], right = column + c.padding[1];
    T sum = 0;
    for (I64 oh = last_over(&c, 0, down, c.out_height); oh >= first_over(&c, 0, down); oh--)
      for (I64 ow = last_over(&c, 1, right, c.out_width); ow >= first_over(&c, 1, right); ow--) {
        const T by = divisor(&c, oh, ow);
        sum += QUOTIENT(LOAD(D1, g[c.y + plane * SMALL + oh * c.out_width + ow]), by);
      }
    dx[c.x + i] = STORE(D0, sum);
  }
}
#else
/* Part `at` of `parts` of a dimension is [at * size / parts, ceil((at + 1) * size / parts)). Parts may overlap by an
   element. */
#define FIRST_OF(at, size, parts) ((at) * (size) / (parts))
#define LAST_OF(at, size, parts) CEIL_DIV(((at) + 1) * (size), parts)
#if OP == 4
FLAT run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, CONST_PARAM windows c) {
  EACH_CELL(i, plane, oh, ow, c.out_height, c.out_width) {
    const I64 top = FIRST_OF(oh, c.height, c.out_height), bottom = LAST_OF(oh, c.height, c.out_height);
    const I64 left = FIRST_OF(ow, c.width, c.out_width), right = LAST_OF(ow, c.width, c.out_width);
    T sum = 0;
    for (I64 row = top; row < bottom; row++) {
      T part = 0;
      for (I64 column = left; column < right; column++)
        part += LOAD(D1, x[c.x + plane * LARGE + row * c.width + column]);
      sum += part;
    }
    sum /= (T)((bottom - top) * (right - left));
    y[c.y + i] = STORE(D0, sum);
  }
}
#else
FLAT run(GLOBAL MEMORY(D0) *dx, GLOBAL const MEMORY(D1) *g, CONST_PARAM windows c) {
  EACH_CELL(i, plane, row, column, c.height, c.width) {
    T sum = 0;
    for (I64 oh = row * c.out_height / c.height; oh < c.out_height && FIRST_OF(oh, c.height, c.out_height) <= row;
         oh++) {
      const I64 top = FIRST_OF(oh, c.height, c.out_height), bottom = LAST_OF(oh, c.height, c.out_height);
      if (row >= bottom) continue;
      for (I64 ow = column * c.out_width / c.width; ow < c.out_width && FIRST_OF(ow, c.width, c.out_width) <= column;
           ow++) {
        const I64 left = FIRST_OF(ow, c.width, c.out_width), right = LAST_OF(ow, c.width, c.out_width);
        if (column >= right) continue;
        sum += LOAD(D1, g[c.y + plane * SMALL + oh * c.out_width + ow]) / (T)((bottom - top) * (right - left));
      }
    }
    dx[c.x + i] = STORE(D0, sum);
  }
}
#endif
#endif
