/* Convolution of many small images by tile registers, each f32 in three parts of bf16: a tile of b is 16 pairs of
   channels of 16 images in one place. An element of the kernel is then another place, so that padding is left out
   instead of multiplied, and rows of any length waste nothing: of padded planes of 4 x 4 half of the columns have no
   window, and of the other products a third is padding. Some groups of channels are transposed at a time, by all
   threads, and multiplied with panels of weights; sums of a place are added up over them. A task is 32 outputs in some
   rows. Each sum runs along the channels and the kernel in one order. Numbers that do not have three parts are left to
   another algorithm.
   SPDX-License-Identifier: MIT */
#include "amx.h"
#include "algorithm.h"
#include "backend/cpu/common/slots.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

#ifdef SITU_HAVE_ISA_AMX
extern const situ__amx_kernels situ__amx_kernels_f32;

enum {
  LANES = SITU__AMX_LANES,
  GROUP = 2 * LANES,         /* channels, and images, that are multiplied together */
  PANEL = SITU__AMX_OUTPUTS, /* outputs of a task */
  SQUARE = PANEL * GROUP,    /* sums of a place */
  STEPS = 64,                /* of a panel of weights, so that it stays in the L2 cache, */
  BLOCK = 3 << 18,           /* and bytes of the images beside it */
  TASKS = 8,                 /* to split panels into: work for several threads */
  LEAST = 1 << 22,           /* multiply-adds below which they do not pay */
  FEW_IMAGES = 24,           /* below which too much of a tile is zeros */
  FEW_ROWS = 2,              /* of a task */
  MOST_PLACES = 256          /* of an image: with more, padded planes have little padding */
};

typedef struct conv {
  const situ__conv *g;
  const situ__amx_kernels *kernels;
  situ__conv_sides s;
  int64_t place, taps;         /* bytes of a place in a group, or of a step of weights; elements of the kernel */
  int64_t panels, band, bands; /* of outputs; rows of a task */
  int64_t groups, depth;       /* of channels: in all, and those that are transposed together */
  int64_t image, images;       /* the images that are in the lanes: the first one, and how many */
  int64_t group, here;         /* the groups that are transposed */
  char *transposed;            /* [depth, height * width] places */
  float *sums;                 /* [panels, out_height * out_width, 32, 32] */
  situ__slots slots;
  bool odd; /* a number did not have three parts */
} conv;

static void note(conv *c, bool good) {
  if (!good) __atomic_store_n(&c->odd, true, __ATOMIC_RELAXED);
}

/* Pairs of channels, each of which is a row of both tiles of a place. */
static void transpose_images(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  const int64_t plane = c->s.height * c->s.width, image = c->s.channels * plane;
  for (int64_t i = begin; i < end; i++) {
    const int64_t pair = i % LANES, half = i / LANES % 2, group = i / LANES / 2;
    const int64_t first = half * LANES, images = situ__max_i64(0, situ__min_i64(LANES, c->images - first));
    const float *from = c->s.x + (c->image + first) * image + ((c->group + group) * GROUP + pair) * plane;
    note(c, c->kernels->transpose(&(situ__amx_transpose){ .low = from,
                                                          .high = from + LANES * plane,
                                                          .lane = image,
                                                          .lows = images,
                                                          .highs = images,
                                                          .count = plane,
                                                          .step = c->place,
                                                          .to = c->transposed + group * plane * c->place +
                                                                half * SITU__AMX_BYTES / 2 + pair * 64 }));
  }
}

/* The elements of the kernel that are in the image, in one direction: [*begin, *end). */
static void find_taps(const conv *c, int d, int64_t window, int64_t *begin, int64_t *end) {
  const situ_window *w = c->g->window;
  const int64_t at = window * w->stride[d] - c->s.padding[d], size = d ? c->s.width : c->s.height;
  *begin = situ__min_i64(w->kernel[d], situ__ceil_div(situ__max_i64(0, -at), w->dilation[d]));
  *end = at >= size ? *begin : situ__min_i64(w->kernel[d], situ__ceil_div(size - at, w->dilation[d]));
  *end = situ__max_i64(*begin, *end);
}

/* What a place of the result is the sum of: a run for each group and each row of the kernel. */
static int64_t find_runs(const conv *c, int64_t row, int64_t column, const char *weights, situ__amx_run run[STEPS]) {
  const situ_window *w = c->g->window;
  int64_t top, bottom, left, right, runs = 0;
  find_taps(c, 0, row, &top, &bottom);
  find_taps(c, 1, column, &left, &right);
  const int64_t across = column * w->stride[1] - c->s.padding[1] + left * w->dilation[1];
  for (int64_t group = 0; group < c->here && left < right; group++)
    for (int64_t kh = top; kh < bottom; kh++) {
      const int64_t down = row * w->stride[0] - c->s.padding[0] + kh * w->dilation[0];
      run[runs++] =
          (situ__amx_run){ .a = weights + (group * c->taps + kh * w->kernel[1] + left) * c->place,
                           .b = c->transposed + ((group * c->s.height + down) * c->s.width + across) * c->place,
                           .count = right - left };
    }
  return runs;
}

static void store_rows(const conv *c, int64_t panel, int64_t first, int64_t places, const float *sums) {
  const int64_t plane = c->s.out_height * c->s.out_width, outputs = situ__min_i64(PANEL, c->s.outputs - panel * PANEL);
  float *y = c->s.y + (c->image * c->s.outputs + panel * PANEL) * plane + first;
  c->kernels->unpack(&(situ__amx_unpack){ .sums = sums,
                                          .bias = c->s.bias ? c->s.bias + panel * PANEL : NULL,
                                          .places = places,
                                          .outputs = outputs,
                                          .lanes = c->images,
                                          .next_output = plane,
                                          .next_lane = c->s.outputs * plane,
                                          .to = y,
                                          .relu = c->g->relu });
  for (int64_t i = 0; i < c->images; i++)
    situ__conv_activate(c->g, (char *)(y + i * c->s.outputs * plane), outputs, places, plane);
}

static void run_tasks(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  char *slot = situ__slots_take(&c->slots);
  situ__amx_run run[STEPS];
  for (int64_t task = begin; task < end; task++) {
    const int64_t panel = task / c->bands, first = task % c->bands * c->band * c->s.out_width,
                  last = situ__min_i64(c->s.out_height, (task % c->bands + 1) * c->band) * c->s.out_width;
    float *sums = c->sums + panel * c->s.out_height * c->s.out_width * SQUARE;
    const char *weights = situ__conv_amx_panel(c->g, panel, c->group, c->here, slot);
    note(c, weights);
    for (int64_t i = first; i < last && weights; i++)
      c->kernels->sum(&(situ__amx_sum){ .run = run,
                                        .runs = find_runs(c, i / c->s.out_width, i % c->s.out_width, weights, run),
                                        .a_step = c->place,
                                        .b_step = c->g->window->dilation[1] * c->place,
                                        .sums = sums + i * SQUARE,
                                        .add = c->group > 0 });
    if (c->group + c->here == c->groups && first < last)
      store_rows(c, panel, first, last - first, sums + first * SQUARE);
  }
  situ__slots_give(&c->slots, slot);
}

/* ---- splitting the work ---- */

/* The geometry of the pass: the data's gradient is the convolution of that of the result, by flipped weights. */
static conv describe(const situ__conv *g) {
  const situ_window *w = g->window;
  conv c = { .g = g,
             .kernels = &situ__amx_kernels_f32,
             .s = situ__conv_sides_of(g),
             .place = situ__amx_kernels_f32.parts * SITU__AMX_BYTES,
             .taps = w->kernel[0] * w->kernel[1] };
  c.groups = c.s.channels / GROUP;
  c.panels = situ__ceil_div(c.s.outputs, PANEL);
  const int64_t fit = situ__min_i64(STEPS / c.taps, BLOCK / (c.s.height * c.s.width * c.place));
  c.depth = situ__min_i64(c.groups, situ__max_i64(1, fit));
  c.band = situ__max_i64(FEW_ROWS, situ__ceil_div(c.s.out_height, situ__ceil_div(TASKS, c.panels)));
  c.bands = situ__ceil_div(c.s.out_height, c.band);
  return c;
}

/* False for few or large images, and where tile registers do not suit. */
static bool suits(const situ__conv *g) {
  const bool forward = g->pass == SITU_CONV_FORWARD;
  if (g->from_bf16 || g->images < FEW_IMAGES || !situ__conv_suits_amx(g)) return false;
  if ((forward ? g->channels : g->outputs) % GROUP != 0) return false;
  const conv c = describe(g);
  return c.taps > 1 && c.s.height * c.s.width <= MOST_PLACES && c.s.out_height * c.s.out_width <= MOST_PLACES &&
         (double)(g->images * c.s.outputs * c.s.channels) * (double)(c.taps * c.s.out_height * c.s.out_width) >= LEAST;
}

static situ_status run(const situ__conv *g) {
  static const situ_device cpu = { .kind = SITU_CPU };
  if (g->packed_w && !*g->packed_w) return SITU_E_UNSUPPORTED; /* not all of its numbers have three parts */
  conv c = describe(g);
  const int64_t of_transposed = c.depth * c.s.height * c.s.width * c.place,
                of_sums = c.panels * c.s.out_height * c.s.out_width * SQUARE * (int64_t)sizeof(float);
  situ_status status = situ__memory_alloc("conv", cpu, (size_t)(of_transposed + of_sums), (void **)&c.transposed);
  if (status != SITU_OK) return status;
  c.sums = (float *)(void *)(c.transposed + of_transposed);
  status = situ__slots_open(&c.slots, "conv", (size_t)(c.depth * c.taps * c.place), c.panels * c.bands);
  for (c.image = 0; c.image < g->images && status == SITU_OK; c.image += GROUP) {
    c.images = situ__min_i64(GROUP, g->images - c.image);
    for (c.group = 0; c.group < c.groups && !c.odd; c.group += c.depth) {
      c.here = situ__min_i64(c.depth, c.groups - c.group);
      situ__parallel(c.here * GROUP, 4, transpose_images, &c);
      if (!c.odd) situ__parallel(c.panels * c.bands, 1, run_tasks, &c);
    }
  }
  situ__slots_close(&c.slots);
  situ__memory_free(cpu, c.transposed, (size_t)(of_transposed + of_sums));
  return c.odd ? SITU_E_UNSUPPORTED : status;
}

const situ__conv_algorithm situ__conv_amx_positions = { suits, run };
#else
const situ__conv_algorithm situ__conv_amx_positions = { NULL, NULL };
#endif
