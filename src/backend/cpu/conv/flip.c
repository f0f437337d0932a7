/* The data's gradient at stride 1 as a forward pass: the convolution of the result's gradient by flipped weights.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"

#include "device/device.h"

enum { MANY = 64 }; /* channels of a group that fill oneDNN's layouts: other algorithms are as fast */

/* w [groups, outputs, channels, taps] as [groups, channels, outputs, taps], the last tap first. */
static void flip_weights(const situ__conv *g, char *to) {
  const int64_t taps = g->window->kernel[0] * g->window->kernel[1], rows = g->groups * g->channels;
  int64_t at = 0;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t output = 0; output < g->outputs; output++) {
      const int64_t from = ((row / g->channels * g->outputs + output) * g->channels + row % g->channels + 1) * taps - 1;
      for (int64_t tap = 0; tap < taps; tap++, at++) {
        if (g->dtype == SITU_F64) ((double *)(void *)to)[at] = ((const double *)(const void *)g->w)[from - tap];
        else ((float *)(void *)to)[at] = ((const float *)(const void *)g->w)[from - tap];
      }
    }
}

bool situ__conv_flip(const situ__conv *g, situ_window *w, situ__conv *flipped) {
  if (g->pass != SITU_CONV_GRAD_DATA || g->channels_last) return false;
  *w = *g->window;
  const int64_t size[] = { g->height, g->width }, windows[] = { g->out_height, g->out_width };
  for (int d = 0; d < 2; d++) {
    const int64_t reach = w->dilation[d] * (w->kernel[d] - 1);
    w->padding[d] = reach - w->padding[d];
    if (w->stride[d] != 1 || w->padding[d] < 0 || size[d] != windows[d] + 2 * w->padding[d] - reach) return false;
  }
  *flipped = *g;
  flipped->pass = SITU_CONV_FORWARD, flipped->window = w;
  flipped->x = g->y, flipped->channels = g->outputs, flipped->height = g->out_height, flipped->width = g->out_width;
  flipped->y = g->x, flipped->outputs = g->channels, flipped->out_height = g->height, flipped->out_width = g->width;
  return true;
}

/* False where oneDNN is as fast, too, and where oneDNN's or im2col's own pass is the faster one: channels are few. */
bool situ__conv_suits_flipped(const situ__conv *g, situ_window *w, situ__conv *flipped) {
  return situ__conv_is_plain(g) && g->channels < MANY && situ__conv_flip(g, w, flipped) &&
         !situ__conv_fills_blocks(g) && situ__conv_suits_offsets(flipped);
}

situ_status situ__conv_run_flipped(const situ__conv *g, const situ__conv_algorithm *algorithm) {
  static const situ_device cpu = { .kind = SITU_CPU };
  situ_window w;
  situ__conv flipped;
  (void)situ__conv_flip(g, &w, &flipped);
  const size_t bytes =
      (size_t)(g->groups * g->channels * g->outputs * w.kernel[0] * w.kernel[1]) * (size_t)situ__cpu_size(g->dtype);
  situ_status status = situ__memory_alloc("conv", cpu, bytes, (void **)&flipped.w);
  if (status != SITU_OK) return status;
  flip_weights(g, flipped.w);
  status = algorithm->run(&flipped);
  situ__memory_free(cpu, flipped.w, bytes);
  return status;
}
