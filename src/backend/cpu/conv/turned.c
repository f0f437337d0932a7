/* The data's gradient at stride 1: the convolution of that of the result by turned weights. Where channels fill
   oneDNN's blocks, other algorithms are as fast.
   SPDX-License-Identifier: MIT */
#include "conv.h"

#include "base/size.h"
#include "device/device.h"

enum { MANY = 64 }; /* channels of a group that fill oneDNN's layouts */

/* w [groups, outputs, channels, taps] as [groups, channels, outputs, taps], the last tap first. */
static void turn_weights(const situ__conv *g, char *to) {
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

bool situ__conv_turn(const situ__conv *g, situ_window *w, situ__conv *turned) {
  if (g->pass != SITU_CONV_GRAD_DATA || g->last) return false;
  *w = *g->window;
  const int64_t size[] = { g->height, g->width }, windows[] = { g->out_height, g->out_width };
  for (int d = 0; d < 2; d++) {
    const int64_t reach = w->dilation[d] * (w->kernel[d] - 1);
    w->padding[d] = reach - w->padding[d];
    if (w->stride[d] != 1 || w->padding[d] < 0 || size[d] != windows[d] + 2 * w->padding[d] - reach) return false;
  }
  *turned = *g;
  turned->pass = SITU_CONV_FORWARD, turned->window = w;
  turned->x = g->y, turned->channels = g->outputs, turned->height = g->out_height, turned->width = g->out_width;
  turned->y = g->x, turned->outputs = g->channels, turned->out_height = g->height, turned->out_width = g->width;
  return true;
}

/* False where oneDNN is as fast, too. */
static bool describe(const situ__conv *g, situ_window *w, situ__conv *turned) {
  const bool real = g->dtype == SITU_F32 || g->dtype == SITU_F64;
  return real && g->channels < MANY && situ__conv_turn(g, w, turned) && !situ__conv_fills_blocks(g);
}

bool situ__conv_turned(const situ__conv *g, situ_status *status) {
  static const situ_device cpu = { .kind = SITU_CPU };
  situ_window w;
  situ__conv turned;
  if (!describe(g, &w, &turned) || !situ__conv_suits_shifted(&turned)) return false;
  const size_t bytes =
      (size_t)(g->groups * g->channels * g->outputs * w.kernel[0] * w.kernel[1]) * situ__cpu_size(g->dtype);
  *status = situ__memory_alloc("conv", cpu, bytes, (void **)&turned.w);
  if (*status != SITU_OK) return true;
  turn_weights(g, turned.w);
  const bool done =
      situ__conv_planes(&turned) || situ__conv_images(&turned, status) || situ__conv_shifted(&turned, status);
  situ__memory_free(cpu, turned.w, bytes);
  return done;
}
