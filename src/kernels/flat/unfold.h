/* Windows as the columns of a matrix for each image and group, [channels * taps, out_height * out_width] (OP 0), and the sums
   of such columns where they came from (1), which is the other's gradient. A row of windows, or of the plane, is an item.
   SPDX-License-Identifier: MIT

   OP 0: D1 is x. OP 1: D0 is x's gradient, D3 a bias of its channels. Columns are T. */
#include "kernels/element.h"

#define TAPS (c.window[0] * c.window[1])
#define SMALL (c.out_height * c.out_width)

#if OP == 0
FLAT run(GLOBAL T *columns, GLOBAL const MEMORY(D1) *x, GIVEN windows c) {
  FOR_EACH(i, c.images * c.groups * c.channels * TAPS * c.out_height) {
    const I64 oh = i % c.out_height, rest = i / c.out_height, tap = rest % TAPS, plane = rest / TAPS;
    const I64 row = oh * c.stride[0] - c.padding[0] + tap / c.window[1] * c.dilation[0];
    const I64 left = tap % c.window[1] * c.dilation[1] - c.padding[1];
    GLOBAL const MEMORY(D1) *from = x + c.x + (plane * c.height + row) * c.width;
    GLOBAL T *to = columns + i * c.out_width;
    const bool inside = row >= 0 && row < c.height;
    for (I64 ow = 0; ow < c.out_width; ow++) {
      const I64 column = left + ow * c.stride[1];
      to[ow] = inside && column >= 0 && column < c.width ? LOAD(D1, from[column]) : 0;
    }
  }
}
#else
FLAT run(GLOBAL MEMORY(D0) *dx, GLOBAL const T *columns
#ifdef D3
         , GLOBAL const MEMORY(D3) *bias
#endif
         , GIVEN windows c) {
  FOR_EACH(i, c.images * c.groups * c.channels * c.height) {
    const I64 row = i % c.height, plane = i / c.height;
    GLOBAL const T *from = columns + plane * TAPS * SMALL;
    for (I64 column = 0; column < c.width; column++) {
      T sum = 0;
      for (I64 kh = 0; kh < c.window[0]; kh++) {
        const I64 down = row + c.padding[0] - kh * c.dilation[0], oh = c.stride[0] == 1 ? down : down / c.stride[0];
        if (down < 0 || oh * c.stride[0] != down || oh >= c.out_height) continue;
        for (I64 kw = 0; kw < c.window[1]; kw++) {
          const I64 right = column + c.padding[1] - kw * c.dilation[1], ow = c.stride[1] == 1 ? right : right / c.stride[1];
          if (right < 0 || ow * c.stride[1] != right || ow >= c.out_width) continue;
          sum += from[(kh * c.window[1] + kw) * SMALL + oh * c.out_width + ow];
        }
      }
#ifdef D3
      sum += LOAD(D3, bias[c.bias + plane % (c.groups * c.channels)]);
#endif
      dx[c.x + i * c.width + column] = STORE(D0, sum);
    }
  }
}
#endif
