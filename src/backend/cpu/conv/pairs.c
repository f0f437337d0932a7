/* Convolution of bf16 by products of pairs: two channels of each element are multiplied at once, and results are
   rounded from sums in f32.
   SPDX-License-Identifier: MIT */
#include "conv.h"

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

bool situ__conv_pairs(const situ__conv *g, const situ_view_desc *bias, situ_status *status) {
  static const situ_device cpu = { .kind = SITU_CPU };
  const bool forward = g->pass == SITU_CONV_FORWARD;
  situ_window turned;
  situ__conv c = *g;
  if (!situ__conv_kernels_of_pairs() || g->dtype != SITU_BF16 || g->halved || g->activation) return false;
  if (!forward && !situ__conv_turn(g, &turned, &c)) return false;
  packing p = { .g = g, .inner = c.channels, .outer = c.outputs, .taps = c.window->kernel[0] * c.window->kernel[1] };
  p.pairs = situ__ceil_div(p.inner, 2);
  c.dtype = SITU_F32, c.singles = p.inner, c.channels = p.pairs;
  if (p.inner < FEW || !situ__conv_suits_shifted(&c)) return false;
  const int64_t rows = g->groups * p.outer;
  const size_t weights = (size_t)situ__round_up(rows * p.pairs * p.taps * (int64_t)sizeof(uint32_t), 64),
               bytes = weights + (bias ? (size_t)rows * sizeof(float) : 0);
  *status = situ__memory_alloc("conv", cpu, bytes, (void **)&c.w);
  if (*status != SITU_OK) return true;
  p.to = (uint32_t *)(void *)c.w;
  situ__parallel(rows, 1 + (1 << 14) / (p.pairs * p.taps), pack_weights, &p);
  c.bias = bias ? c.w + weights : NULL;
  if (bias) situ__cpu_load(bias, 0, rows, SITU__F32, c.bias);
  (void)situ__conv_shifted(&c, status);
  situ__memory_free(cpu, c.w, bytes);
  return true;
}
