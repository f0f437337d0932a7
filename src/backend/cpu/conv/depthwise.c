/* Depthwise convolution, forward: each plane by its own kernel, without padding or unfolding anything. A plane is done
   by one thread, and each sum runs along the kernel in one order.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"

#include "base/pool.h"
#include "base/size.h"

enum {
  TASK = 1 << 20, /* minimum multiply-adds of a chunk of planes */
  MANY = 4,       /* outputs of a channel from which those of a tile share what it loads */
  FEW = 1 << 11   /* results that are activated together, as their ends take as long as whole vectors */
};

typedef struct conv {
  const situ__conv *g;
  situ__conv_plane_fn run;
} conv;

static void run_planes(int64_t begin, int64_t end, void *payload) {
  const conv *c = payload;
  const situ__conv *g = c->g;
  const situ_window *w = g->window;
  const int64_t taps = w->kernel[0] * w->kernel[1], in = g->height * g->width, out = g->out_height * g->out_width;
  const float *const bias = (const float *)(const void *)g->bias;
  float *const y = (float *)(void *)g->y;
  int64_t activated = begin;
  for (int64_t i = begin; i < end; i++) {
    const int64_t output = i % (g->groups * g->outputs);
    c->run(&(situ__conv_plane){ .x = (const float *)(const void *)g->x + i / g->outputs * in,
                                .w = (const float *)(const void *)g->w + output * taps,
                                .bias = bias ? bias + output : NULL,
                                .y = y + i * out,
                                .height = g->height,
                                .width = g->width,
                                .out_height = g->out_height,
                                .out_width = g->out_width,
                                .padding = { w->padding[0], w->padding[1] },
                                .relu = g->relu });
    if ((i + 1 - activated) * out < FEW && i + 1 < end) continue;
    situ__conv_activate(g, (char *)(y + activated * out), i + 1 - activated, out, out);
    activated = i + 1;
  }
}

/* NULL for other kernels. */
static situ__conv_plane_fn find(const situ__conv *g) {
  const situ_window *w = g->window;
  const int64_t size = w->kernel[0], stride = w->stride[0];
  if (g->pass != SITU_CONV_FORWARD || g->dtype != SITU_F32 || g->channels != 1 || !situ__conv_is_plain(g)) return NULL;
  if (g->outputs >= MANY) return NULL;
  if (size != w->kernel[1] || stride != w->stride[1] || w->dilation[0] != 1 || w->dilation[1] != 1) return NULL;
  if (size % 2 == 0 || size < 3 || size > 7 || stride > 2) return NULL;
  return situ__conv_kernels_for(SITU_F32)->plane[size / 2 - 1][stride - 1];
}

static bool suits(const situ__conv *g) { return find(g) != NULL; }

static situ_status run(const situ__conv *g) {
  conv c = { .g = g, .run = find(g) };
  const int64_t work = g->out_height * g->out_width * g->window->kernel[0] * g->window->kernel[1];
  situ__parallel(g->images * g->groups * g->outputs, situ__max_i64(1, TASK / situ__max_i64(1, work)), run_planes, &c);
  return SITU_OK;
}

const situ__conv_algorithm situ__conv_depthwise = { suits, run };
