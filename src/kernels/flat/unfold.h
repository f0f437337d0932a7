/* im2col (OP 0): the windows of each image and group as columns of a matrix, [channels * taps, out_height * out_width];
   and col2im (1), its gradient, which sums columns into the plane. An item is a row of windows, or of the plane.
   SPDX-License-Identifier: MIT

   OP 0: D1 is x. OP 1: D0 is x's gradient, D3 a bias of its channels. Columns are T. */
#include "kernels/element.h"

#define TAPS (c.window[0] * c.window[1])
#define SMALL (c.out_height * c.out_width)
#define OVER_STRIDE(n) (c.stride[1] == 1 ? (n) : (n) / c.stride[1])

#if OP == 0
/* Only the first item of a share is split by divisions, which cost more than the copies; the next ones are counted on
   from it. */
FLAT run(GLOBAL T *columns, GLOBAL const MEMORY(D1) *x, CONST_PARAM windows c) {
  I64 oh = 0, kh = 0, kw = 0, plane = -1, rows = 1;
  FOR_RUNS(i, end, c.images * c.groups * c.channels * TAPS * c.out_height, rows) {
    if (plane < 0) {
      const I64 tap = i / c.out_height % TAPS;
      oh = i % c.out_height, kh = tap / c.window[1], kw = tap % c.window[1], plane = i / c.out_height / TAPS;
    }
    /* Rows of windows that read x through this tap, which is inside the plane for windows `begin` to `stop` of each. */
    rows = c.out_height - oh < end - i ? c.out_height - oh : end - i;
    const I64 left = kw * c.dilation[1] - c.padding[1];
    I64 begin = left < 0 ? OVER_STRIDE(c.stride[1] - 1 - left) : 0;
    I64 stop = left < c.width ? OVER_STRIDE(c.width - 1 - left) + 1 : 0;
    if (stop > c.out_width) stop = c.out_width;
    if (begin > stop) begin = stop;
    for (I64 r = 0; r < rows; r++) {
      const I64 row = (oh + r) * c.stride[0] + kh * c.dilation[0] - c.padding[0];
      const I64 inside = row >= 0 && row < c.height ? stop : 0;
      GLOBAL const MEMORY(D1) *from = x + c.x + (plane * c.height + row) * c.width + left;
      GLOBAL T *to = columns + (i + r) * c.out_width;
      I64 ow = 0;
      for (; ow < begin; ow++) to[ow] = 0;
      for (; ow < inside; ow++) to[ow] = LOAD(D1, from[ow * c.stride[1]]);
      for (; ow < c.out_width; ow++) to[ow] = 0;
    }
    oh = 0;
    if (++kw < c.window[1]) continue;
    kw = 0;
    if (++kh < c.window[0]) continue;
    kh = 0, plane++;
  }
}
#else
/* Number of columns of a row that are summed at a time. */
enum { SPAN = ON_CPU ? 16 : 1 };

FLAT run(GLOBAL MEMORY(D0) *dx, GLOBAL const T *columns
#ifdef D3
         ,
         GLOBAL const MEMORY(D3) *bias
#endif
         ,
         CONST_PARAM windows c) {
  FOR_EACH(i, c.images * c.groups * c.channels * c.height) {
    const I64 row = i % c.height, plane = i / c.height;
    GLOBAL const T *from = columns + plane * TAPS * SMALL;
    for (I64 column = 0; column < c.width; column += SPAN) {
      const I64 span = c.width - column < SPAN ? c.width - column : SPAN;
      T sum[SPAN];
      for (I64 l = 0; l < SPAN; l++) sum[l] = 0;
      for (I64 kh = 0; kh < c.window[0]; kh++) {
        const I64 down = row + c.padding[0] - kh * c.dilation[0], oh = c.stride[0] == 1 ? down : down / c.stride[0];
        if (down < 0 || oh * c.stride[0] != down || oh >= c.out_height) continue;
        for (I64 kw = 0; kw < c.window[1]; kw++) {
          const I64 right = column + c.padding[1] - kw * c.dilation[1];
          GLOBAL const T *at = from + (kh * c.window[1] + kw) * SMALL + oh * c.out_width;
          if (c.stride[1] == 1) {
            const I64 begin = right < 0 ? -right : 0, stop = c.out_width - right < span ? c.out_width - right : span;
            for (I64 l = begin; l < stop; l++) sum[l] += at[right + l];
          } else {
            for (I64 l = 0; l < span; l++) {
              const I64 ow = (right + l) / c.stride[1];
              if (right + l >= 0 && ow * c.stride[1] == right + l && ow < c.out_width) sum[l] += at[ow];
            }
          }
        }
      }
      for (I64 l = 0; l < span; l++) {
#ifdef D3
        sum[l] += LOAD(D3, bias[c.bias + plane % (c.groups * c.channels)]);
#endif
        dx[c.x + i * c.width + column + l] = STORE(D0, sum[l]);
      }
    }
  }
}
#endif
