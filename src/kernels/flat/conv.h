/* Convolution: y (OP 0), the gradient of x (1) and of w (2). x is [images, groups * channels, height, width], w [groups *
   outputs, channels, kernel], y [images, groups * outputs, out_height, out_width], all of them without gaps.
   SPDX-License-Identifier: MIT

   D0 is the result; D1 and D2 are the operands in the order of situ_conv_pass; D3 the bias. */
#include "kernels/element.h"

#define TAPS (c.window[0] * c.window[1])
#define X_AT(image, group, channel, row, column) \
  (c.x + ((((image) * c.groups + (group)) * c.channels + (channel)) * c.height + (row)) * c.width + (column))
#define W_AT(group, output, channel, tap) (c.w + (((group) * c.outputs + (output)) * c.channels + (channel)) * TAPS + (tap))
#define Y_AT(image, group, output, row, column) \
  (c.y + ((((image) * c.groups + (group)) * c.outputs + (output)) * c.out_height + (row)) * c.out_width + (column))

GROUPS KERNEL run(GLOBAL MEMORY(D0) *result, GLOBAL const MEMORY(D1) *a, GLOBAL const MEMORY(D2) *b
#ifdef D3
                  , GLOBAL const MEMORY(D3) *bias
#endif
                  , const windows c) {
  I64 rest = ITEM;
  T sum = 0;
#if OP == 0
  if (rest >= c.images * c.groups * c.outputs * c.out_height * c.out_width) return;
  const I64 ow = rest % c.out_width, oh = (rest /= c.out_width) % c.out_height, o = (rest /= c.out_height) % c.outputs;
  const I64 group = (rest /= c.outputs) % c.groups, image = rest / c.groups;
  const I64 top = oh * c.stride[0] - c.padding[0], left = ow * c.stride[1] - c.padding[1];
  for (I64 ch = 0; ch < c.channels; ch++)
    for (I64 kh = 0; kh < c.window[0]; kh++) {
      const I64 row = top + kh * c.dilation[0];
      if (row < 0 || row >= c.height) continue;
      for (I64 kw = 0; kw < c.window[1]; kw++) {
        const I64 column = left + kw * c.dilation[1];
        if (column < 0 || column >= c.width) continue;
        sum += LOAD(D1, a[X_AT(image, group, ch, row, column)]) * LOAD(D2, b[W_AT(group, o, ch, kh * c.window[1] + kw)]);
      }
    }
#ifdef D3
  sum += LOAD(D3, bias[c.bias + group * c.outputs + o]);
#endif
  result[Y_AT(image, group, o, oh, ow)] = STORE(D0, sum);
#elif OP == 1
  if (rest >= c.images * c.groups * c.channels * c.height * c.width) return;
  const I64 column = rest % c.width, row = (rest /= c.width) % c.height, ch = (rest /= c.height) % c.channels;
  const I64 group = (rest /= c.channels) % c.groups, image = rest / c.groups;
  for (I64 kh = 0; kh < c.window[0]; kh++) {
    const I64 oh = row + c.padding[0] - kh * c.dilation[0];
    if (oh < 0 || oh % c.stride[0] || oh / c.stride[0] >= c.out_height) continue;
    for (I64 kw = 0; kw < c.window[1]; kw++) {
      const I64 ow = column + c.padding[1] - kw * c.dilation[1];
      if (ow < 0 || ow % c.stride[1] || ow / c.stride[1] >= c.out_width) continue;
      for (I64 o = 0; o < c.outputs; o++)
        sum += LOAD(D1, a[Y_AT(image, group, o, oh / c.stride[0], ow / c.stride[1])]) *
               LOAD(D2, b[W_AT(group, o, ch, kh * c.window[1] + kw)]);
    }
  }
#ifdef D3
  sum += LOAD(D3, bias[c.bias + group * c.channels + ch]);
#endif
  result[X_AT(image, group, ch, row, column)] = STORE(D0, sum);
#else
  if (rest >= c.groups * c.outputs * c.channels * TAPS) return;
  const I64 tap = rest % TAPS, ch = (rest /= TAPS) % c.channels, o = (rest /= c.channels) % c.outputs, group = rest / c.outputs;
  for (I64 image = 0; image < c.images; image++) {
    T part = 0; /* of one image: short sums of their own keep a long one exact */
    for (I64 oh = 0; oh < c.out_height; oh++) {
      const I64 row = oh * c.stride[0] - c.padding[0] + tap / c.window[1] * c.dilation[0];
      if (row < 0 || row >= c.height) continue;
      for (I64 ow = 0; ow < c.out_width; ow++) {
        const I64 column = ow * c.stride[1] - c.padding[1] + tap % c.window[1] * c.dilation[1];
        if (column < 0 || column >= c.width) continue;
        part += LOAD(D1, a[X_AT(image, group, ch, row, column)]) * LOAD(D2, b[Y_AT(image, group, o, oh, ow)]);
      }
    }
    sum += part;
  }
  result[W_AT(group, o, ch, tap)] = STORE(D0, sum);
#endif
}
