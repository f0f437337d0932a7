/* Convolution of bf16 by products of pairs: two channels of each element are multiplied at once, and results are
   rounded from sums in f32.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

enum { FEW = 2 }; /* channels of a group below which half of the products are with 0 */

typedef struct packing {
  const situ__conv *g;
  int64_t inner, outer, taps, pairs; /* of a group: channels that are added over, and results' */
  uint32_t *to;                      /* [groups, outer, pairs, taps] */
} packing;

/* The weight at w [groups, outputs, channels, taps] for each pass: the data's gradient has outputs as channels, and the
   last tap first. */
static uint16_t weight_at(const packing *p, int64_t group, int64_t outer, int64_t inner, int64_t tap) {
  const uint16_t *w = (const uint16_t *)(const void *)p->g->w;
  const bool forward = p->g->pass == SITU_CONV_FORWARD;
  if (inner >= p->inner) return 0;
  const int64_t output = forward ? outer : inner, channel = forward ? inner : outer;
  return w[((group * p->g->outputs + output) * p->g->channels + channel) * p->taps +
           (forward ? tap : p->taps - 1 - tap)];
}

static void pack_weights(int64_t begin, int64_t end, void *payload) {
  const packing *p = payload;
  for (int64_t row = begin; row < end; row++) {
    const int64_t group = row / p->outer, outer = row % p->outer;
    uint32_t *to = p->to + row * p->pairs * p->taps;
    for (int64_t pair = 0; pair < p->pairs; pair++)
      for (int64_t tap = 0; tap < p->taps; tap++)
        *to++ = weight_at(p, group, outer, 2 * pair, tap) | (uint32_t)weight_at(p, group, outer, 2 * pair + 1, tap)
                                                                << 16;
  }
}

/* The geometry of pairs, all but the weights. Returns false if it does not suit. */
static bool pair_channels(const situ__conv *g, situ_window *window, situ__conv *c) {
  *c = *g;
  if (!situ__conv_kernels_for_bf16_pairs() || g->dtype != SITU_BF16 || g->channels_last) return false;
  if (g->pool_2x2 || g->activation) return false;
  if (g->pass != SITU_CONV_FORWARD && !situ__conv_flip(g, window, c)) return false;
  c->dtype = SITU_F32, c->channels_unpaired = c->channels, c->channels = situ__ceil_div(c->channels, 2);
  return c->channels_unpaired >= FEW && situ__conv_suits_offsets(c);
}

static bool suits(const situ__conv *g) {
  situ_window window;
  situ__conv c;
  return pair_channels(g, &window, &c);
}

static situ_status run(const situ__conv *g) {
  static const situ_device cpu = { .kind = SITU_CPU };
  situ_window window;
  situ__conv c;
  (void)pair_channels(g, &window, &c);
  packing p = { .g = g,
                .inner = c.channels_unpaired,
                .outer = c.outputs,
                .taps = c.window->kernel[0] * c.window->kernel[1],
                .pairs = c.channels };
  const int64_t rows = g->groups * p.outer;
  const size_t bytes = (size_t)(rows * p.pairs * p.taps) * sizeof(uint32_t);
  situ_status status = situ__memory_alloc("conv", cpu, bytes, (void **)&c.w);
  if (status != SITU_OK) return status;
  p.to = (uint32_t *)(void *)c.w;
  situ__parallel(rows, 1 + (1 << 14) / (p.pairs * p.taps), pack_weights, &p);
  status = situ__conv_implicit_gemm(&c);
  situ__memory_free(cpu, c.w, bytes);
  return status;
}

const situ__conv_algorithm situ__conv_bf16_dot = { suits, run };
