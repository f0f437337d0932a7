/* Facts about a convolution's geometry that several algorithms ask for, and activations of its results.
   SPDX-License-Identifier: MIT */
#include "conv.h"

#include "base/size.h"

enum {
  PADDING = 8, /* of a side, beyond the size of the image */
  FEW = 4,     /* outputs of a group below which tiles are too low */
  BLOCK = 16,  /* channels of one of oneDNN's blocks */
  FIRST = 4    /* channels of an image, for which oneDNN has other kernels */
};

bool situ__conv_is_one(const situ_window *w) {
  return w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 && w->padding[0] == 0 &&
         w->padding[1] == 0;
}

void situ__conv_relu(const situ__conv *c, void *y, int64_t rows, int64_t count, int64_t row) {
  float *f = y;
  double *d = y;
  for (int64_t r = 0; r < rows && c->relu; r++, f += row, d += row)
    for (int64_t i = 0; i < count; i++) {
      if (c->dtype == SITU_F64) d[i] = d[i] < 0 ? 0 : d[i];
      else f[i] = f[i] < 0 ? 0 : f[i];
    }
}

void situ__conv_activate(const situ__conv *c, char *y, int64_t rows, int64_t count, int64_t row) {
  static const double none[4] = { 0 };
  const int64_t next = row * situ__cpu_size(c->dtype);
  if (row == count) count *= rows, rows = rows > 0;
  for (int64_t i = 0; i < rows && c->activation; i++, y += next) c->activation(y, &(const void *){ y }, 0, count, none);
}

situ__conv_sides situ__conv_sides_of(const situ__conv *g) {
  const bool forward = g->pass == SITU_CONV_FORWARD;
  const situ_window *w = g->window;
  situ__conv_sides s = { .x = (const float *)(const void *)(forward ? g->x : g->y),
                         .bias = (const float *)(const void *)g->bias,
                         .y = (float *)(void *)(forward ? g->y : g->x),
                         .channels = forward ? g->channels : g->outputs,
                         .outputs = forward ? g->outputs : g->channels,
                         .height = forward ? g->height : g->out_height,
                         .width = forward ? g->width : g->out_width,
                         .out_height = forward ? g->out_height : g->height,
                         .out_width = forward ? g->out_width : g->width };
  for (int d = 0; d < 2; d++)
    s.padding[d] = forward ? w->padding[d] : w->dilation[d] * (w->kernel[d] - 1) - w->padding[d];
  return s;
}

bool situ__conv_fills_blocks(const situ__conv *g) {
  const int64_t in = g->channels <= FIRST ? BLOCK : g->channels, out = g->outputs;
  return g->groups == 1 && 5 * in * out >= 4 * situ__round_up(in, BLOCK) * situ__round_up(out, BLOCK);
}

/* False for other strides, few outputs, and padding that would outgrow the image. */
bool situ__conv_suits_offsets(const situ__conv *g) {
  const situ_window *w = g->window;
  const bool one = w->kernel[0] * w->kernel[1] == 1 && w->stride[0] == 1;
  if (w->padding[0] > g->height + PADDING || w->padding[1] > g->width + PADDING) return false;
  return g->pass == SITU_CONV_FORWARD && w->stride[0] == w->stride[1] && w->stride[0] <= 2 &&
         (!one || g->channels_unpaired) && (g->outputs >= FEW || g->channels == 1);
}
