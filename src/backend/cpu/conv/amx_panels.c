/* What convolutions by tile registers share: which geometries suit, and panels of weights, each f32 in three parts of
   bf16.
   SPDX-License-Identifier: MIT */
#include "amx.h"
#include "conv.h"

#include "base/pool.h"
#include "base/size.h"

#ifdef SITU_HAVE_ISA_AMX
extern const situ__amx_kernels situ__amx_kernels_f32, situ__amx_kernels_bf16;

enum {
  GROUP = 2 * SITU__AMX_LANES, /* channels that are multiplied together */
  PANEL = SITU__AMX_OUTPUTS,
  HEAD = 64,       /* bytes before panels that are laid out before: the first one is 1 if they can be multiplied */
  LEAST = 1 << 20, /* multiply-adds below which splitting does not pay */
  FEW = 32,        /* outputs below which it does not */
  FEW_ONES = 64,   /* channels, and outputs, below which products of 1 x 1 are too few beside storing sums */
  MANY_ONES = 96,  /* and beside splitting */
  MANY = 128,      /* channels from which 3 x 3 at stride 1 is not left to Winograd's transforms */
  PADDING = 8      /* of a side, beyond the size of the image */
};

const situ__amx_kernels *situ__conv_amx_kernels_for(const situ__conv *g) {
  return g->from_bf16 ? &situ__amx_kernels_bf16 : &situ__amx_kernels_f32;
}

const char *situ__conv_amx_panel(const situ__conv *g, int64_t panel, int64_t group, int64_t groups, char *to) {
  const bool flipped = g->pass == SITU_CONV_GRAD_DATA;
  const int64_t taps = g->window->kernel[0] * g->window->kernel[1], first = panel * PANEL,
                channels = flipped ? g->outputs : g->channels, outputs = flipped ? g->channels : g->outputs,
                next_output = taps * (flipped ? 1 : channels), next_channel = taps * (flipped ? outputs : 1);
  const situ__amx_kernels *kernels = situ__conv_amx_kernels_for(g);
  if (g->packed_w)
    return g->packed_w + HEAD +
           (panel * situ__ceil_div(channels, GROUP) + group) * taps * kernels->parts * SITU__AMX_BYTES;
  const situ__amx_weights weights = { .w = (const float *)(const void *)g->w + first * next_output +
                                           group * GROUP * next_channel,
                                      .outputs = situ__min_i64(PANEL, outputs - first),
                                      .next_output = next_output,
                                      .channels = situ__min_i64(groups * GROUP, channels - group * GROUP),
                                      .next_channel = next_channel,
                                      .taps = (int)taps,
                                      .flipped = flipped,
                                      .to = to };
  return kernels->pack(&weights) ? to : NULL;
}

/* False for other strides, few channels or outputs, and where Winograd's transforms are faster. */
static bool suits_weights(const situ__conv *g) {
  const situ_window *w = g->window;
  const bool forward = g->pass == SITU_CONV_FORWARD;
  const int64_t taps = w->kernel[0] * w->kernel[1], channels = forward ? g->channels : g->outputs,
                outputs = forward ? g->outputs : g->channels;
  if (situ__cpu_isa() != SITU__ISA_AMX || g->dtype != SITU_F32 || g->groups != 1) return false;
  if (g->pass == SITU_CONV_GRAD_WEIGHT || w->stride[0] != w->stride[1] || w->stride[0] > 1 + forward) return false;
  const bool winograd = w->kernel[0] == 3 && w->kernel[1] == 3 && w->stride[0] == 1 && channels < MANY;
  if (winograd && !g->from_bf16) return false;
  /* Planes of 1 x 1 are not copied, so that a last group of zeros costs less. */
  const bool plain = situ__conv_is_one(w) && forward;
  const int64_t full = situ__round_up(channels, GROUP);
  if (plain) return channels >= FEW_ONES && outputs >= MANY_ONES && 3 * full <= 4 * channels;
  return taps <= SITU__AMX_TAPS && outputs >= FEW && full == channels && (taps > 1 || w->stride[0] == 2);
}

/* Nor for little work, and padding that would outgrow the image. */
bool situ__conv_suits_amx(const situ__conv *g) {
  if (!situ__conv_is_plain(g) || !suits_weights(g)) return false;
  const situ__conv_sides s = situ__conv_sides_of(g);
  for (int d = 0; d < 2; d++)
    if (s.padding[d] < 0 || s.padding[d] > (d ? s.width : s.height) + PADDING) return false;
  const int64_t taps = g->window->kernel[0] * g->window->kernel[1];
  return (double)(g->images * s.outputs * s.channels) * (double)(taps * s.out_height * s.out_width) >= LEAST;
}

/* ---- weights that are laid out before ---- */

typedef struct laying {
  const situ__conv *g;
  int64_t groups, panel; /* of channels; bytes of a panel */
  char *to;
  bool odd; /* a number did not have three parts */
} laying;

static void lay_out_panels(int64_t begin, int64_t end, void *payload) {
  laying *l = payload;
  for (int64_t i = begin; i < end; i++)
    if (!situ__conv_amx_panel(l->g, i, 0, l->groups, l->to + HEAD + i * l->panel))
      __atomic_store_n(&l->odd, true, __ATOMIC_RELAXED);
}

bool situ__conv_amx_offers_prepack(const situ__conv *g) { return suits_weights(g); }

void situ__conv_amx_prepack(const situ__conv *g, char *to) {
  laying l = { .g = g, .groups = situ__ceil_div(g->channels, GROUP), .to = to };
  l.panel =
      l.groups * g->window->kernel[0] * g->window->kernel[1] * situ__conv_amx_kernels_for(g)->parts * SITU__AMX_BYTES;
  situ__parallel(situ__ceil_div(g->outputs, PANEL), 1, lay_out_panels, &l);
  *to = !l.odd;
}
#else
bool situ__conv_amx_offers_prepack(const situ__conv *g) {
  (void)g;
  return false;
}
void situ__conv_amx_prepack(const situ__conv *g, char *to) { (void)g, (void)to; }
#endif
