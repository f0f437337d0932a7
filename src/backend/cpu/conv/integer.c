/* Convolution of integers: exact, wrapping. Plain loops, as speed does not matter here.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"

#include "base/pool.h"
#include "base/size.h"

#include <string.h>

/* Adds all products of one image and one group to the pass's result. */
static void products(const situ__conv *c, int64_t image, int64_t group) {
  const situ_window *w = c->window;
  uint64_t *const base[] = { (uint64_t *)(void *)c->y, (uint64_t *)(void *)c->x, (uint64_t *)(void *)c->w };
  uint64_t *y = base[0] + (image * c->groups + group) * c->outputs * c->out_height * c->out_width;
  for (int64_t o = 0; o < c->outputs; o++)
    for (int64_t at = 0; at < c->out_height * c->out_width; at++, y++)
      for (int64_t ch = 0; ch < c->channels; ch++)
        for (int64_t tap = 0; tap < w->kernel[0] * w->kernel[1]; tap++) {
          const int64_t row = at / c->out_width * w->stride[0] - w->padding[0] + tap / w->kernel[1] * w->dilation[0];
          const int64_t col = at % c->out_width * w->stride[1] - w->padding[1] + tap % w->kernel[1] * w->dilation[1];
          if (row < 0 || row >= c->height || col < 0 || col >= c->width) continue;
          uint64_t *x = base[1] + (((image * c->groups + group) * c->channels + ch) * c->height + row) * c->width + col;
          uint64_t *weight =
              base[2] + ((group * c->outputs + o) * c->channels + ch) * w->kernel[0] * w->kernel[1] + tap;
          if (c->pass == SITU_CONV_FORWARD) *y += *x * *weight;
          else if (c->pass == SITU_CONV_GRAD_DATA) *x += *y * *weight;
          else *weight += *x * *y;
        }
}

static void images(int64_t begin, int64_t end, void *payload) {
  for (int64_t i = begin; i < end; i++)
    for (int64_t group = 0; group < ((const situ__conv *)payload)->groups; group++) products(payload, i, group);
}

/* Sets count planes of `size` elements, `channels` for each image, to the bias or 0. */
static void fill(const situ__conv *c, char *to, int64_t count, int64_t channels, int64_t size) {
  const int64_t *bias = (const int64_t *)(void *)c->bias;
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = 0; k < size; k++) ((int64_t *)(void *)to)[i * size + k] = bias ? bias[i % channels] : 0;
}

static bool suits(const situ__conv *c) { return c->dtype == SITU_I64 && !c->channels_last && !c->pool_2x2; }

static situ_status run(const situ__conv *c) {
  const int64_t in = c->groups * c->channels, out = c->groups * c->outputs;
  if (c->pass == SITU_CONV_FORWARD) fill(c, c->y, c->images * out, out, c->out_height * c->out_width);
  else if (c->pass == SITU_CONV_GRAD_DATA) fill(c, c->x, c->images * in, in, c->height * c->width);
  else memset(c->w, 0, (size_t)(out * c->channels * c->window->kernel[0] * c->window->kernel[1]) * sizeof(int64_t));
  /* Images share only the gradient of the weights. */
  situ__parallel(c->images, c->pass == SITU_CONV_GRAD_WEIGHT ? situ__max_i64(1, c->images) : 1, images,
                 (void *)(uintptr_t)c);
  return SITU_OK;
}

const situ__conv_algorithm situ__conv_integer = { suits, run };
