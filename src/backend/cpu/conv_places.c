/* Convolution of many small images by tile registers, each f32 in three parts of bf16: a tile of b is 16 pairs of
   channels of 16 images in one place. An element of the kernel is then another place, so that padding is left out
   instead of multiplied, and rows of any length waste nothing: of padded planes of 4 x 4 half of the columns have no
   window, and of the other products a third is padding. Some groups of channels are turned at a time, by all threads,
   and multiplied with panels of weights; sums of a place are added up over them. A task is 32 outputs in some rows.
   Each sum runs along the channels and the kernel in one order. Numbers that do not have three parts are left to
   another algorithm.
   SPDX-License-Identifier: MIT */
#include "conv_parts.h"
#include "conv.h"
#include "isa.h"
#include "slots.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

#ifdef SITU_HAVE_ISA_AMX
extern const situ__parts_kernels situ__parts_kernels_f32;

enum {
  LANES = SITU__PARTS_LANES,
  GROUP = 2 * LANES,           /* channels, and images, that are multiplied together */
  PANEL = SITU__PARTS_OUTPUTS, /* outputs of a task */
  SQUARE = PANEL * GROUP,      /* sums of a place */
  STEPS = 64,                  /* of a panel of weights, so that it stays in the L2 cache, */
  BLOCK = 3 << 18,             /* and bytes of the images beside it */
  TASKS = 8,                   /* to split panels into: work for several threads */
  LEAST = 1 << 22,             /* multiply-adds below which they do not pay */
  FEW_IMAGES = 24,             /* below which too much of a tile is zeros */
  FEW_ROWS = 2,                /* of a task */
  MOST_PLACES = 256            /* of an image: with more, padded planes have little padding */
};

typedef struct conv {
  const situ__conv *g;
  const situ__parts_kernels *kernels;
  const float *x, *bias; /* the images that are read: channels, height x width */
  float *y;              /* the result: outputs, out_height x out_width */
  int64_t channels, outputs, height, width, out_height, out_width, padding[2];
  int64_t place, taps;         /* bytes of a place in a group, or of a step of weights; elements of the kernel */
  int64_t panels, band, bands; /* of outputs; rows of a task */
  int64_t groups, depth;       /* of channels: in all, and those that are turned together */
  int64_t image, images;       /* the images that are in the lanes: the first one, and how many */
  int64_t group, here;         /* the groups that are turned */
  char *turned;                /* [depth, height * width] places */
  float *sums;                 /* [panels, out_height * out_width, 32, 32] */
  situ__slots slots;
  bool odd; /* a number did not have three parts */
} conv;

static void note(conv *c, bool good) {
  if (!good) __atomic_store_n(&c->odd, true, __ATOMIC_RELAXED);
}

/* Pairs of channels, each of which is a row of both tiles of a place. */
static void turn_images(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  const int64_t plane = c->height * c->width, image = c->channels * plane;
  for (int64_t i = begin; i < end; i++) {
    const int64_t pair = i % LANES, half = i / LANES % 2, group = i / LANES / 2;
    const int64_t first = half * LANES, images = situ__max_i64(0, situ__min_i64(LANES, c->images - first));
    const float *from = c->x + (c->image + first) * image + ((c->group + group) * GROUP + pair) * plane;
    note(c, c->kernels->turn(&(situ__parts_turned){ .low = from,
                                                    .high = from + LANES * plane,
                                                    .lane = image,
                                                    .lows = images,
                                                    .highs = images,
                                                    .count = plane,
                                                    .step = c->place,
                                                    .to = c->turned + group * plane * c->place +
                                                          half * SITU__PARTS_BYTES / 2 + pair * 64 }));
  }
}

/* The elements of the kernel that are in the image, in one direction: [*begin, *end). */
static void find_taps(const conv *c, int d, int64_t window, int64_t *begin, int64_t *end) {
  const situ_window *w = c->g->window;
  const int64_t at = window * w->stride[d] - c->padding[d], size = d ? c->width : c->height;
  *begin = situ__min_i64(w->kernel[d], situ__ceil_div(situ__max_i64(0, -at), w->dilation[d]));
  *end = at >= size ? *begin : situ__min_i64(w->kernel[d], situ__ceil_div(size - at, w->dilation[d]));
  *end = situ__max_i64(*begin, *end);
}

/* What a place of the result is the sum of: a run for each group and each row of the kernel. */
static int64_t find_runs(const conv *c, int64_t row, int64_t column, const char *weights, situ__parts_run run[STEPS]) {
  const situ_window *w = c->g->window;
  int64_t top, bottom, left, right, runs = 0;
  find_taps(c, 0, row, &top, &bottom);
  find_taps(c, 1, column, &left, &right);
  const int64_t across = column * w->stride[1] - c->padding[1] + left * w->dilation[1];
  for (int64_t group = 0; group < c->here && left < right; group++)
    for (int64_t kh = top; kh < bottom; kh++) {
      const int64_t down = row * w->stride[0] - c->padding[0] + kh * w->dilation[0];
      run[runs++] = (situ__parts_run){ .a = weights + (group * c->taps + kh * w->kernel[1] + left) * c->place,
                                       .b = c->turned + ((group * c->height + down) * c->width + across) * c->place,
                                       .count = right - left };
    }
  return runs;
}

static void store_rows(const conv *c, int64_t panel, int64_t first, int64_t places, const float *sums) {
  const int64_t plane = c->out_height * c->out_width, outputs = situ__min_i64(PANEL, c->outputs - panel * PANEL);
  float *y = c->y + (c->image * c->outputs + panel * PANEL) * plane + first;
  c->kernels->unpack(&(situ__parts_unpack){ .sums = sums,
                                            .bias = c->bias ? c->bias + panel * PANEL : NULL,
                                            .places = places,
                                            .outputs = outputs,
                                            .lanes = c->images,
                                            .next_output = plane,
                                            .next_lane = c->outputs * plane,
                                            .to = y,
                                            .relu = c->g->relu });
  for (int64_t i = 0; i < c->images; i++)
    situ__conv_activate(c->g, (char *)(y + i * c->outputs * plane), outputs, places, plane);
}

static void run_tasks(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  char *slot = situ__slots_take(&c->slots);
  situ__parts_run run[STEPS];
  for (int64_t task = begin; task < end; task++) {
    const int64_t panel = task / c->bands, first = task % c->bands * c->band * c->out_width,
                  last = situ__min_i64(c->out_height, (task % c->bands + 1) * c->band) * c->out_width;
    float *sums = c->sums + panel * c->out_height * c->out_width * SQUARE;
    const char *weights = situ__conv_parts_panel(c->g, panel, c->group, c->here, slot);
    note(c, weights);
    for (int64_t i = first; i < last && weights; i++)
      c->kernels->sum(&(situ__parts_sum){ .run = run,
                                          .runs = find_runs(c, i / c->out_width, i % c->out_width, weights, run),
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

/* The geometry of the pass: the data's gradient is the convolution of that of the result, by turned weights. */
static conv describe(const situ__conv *g) {
  const bool forward = g->pass == SITU_CONV_FORWARD;
  const situ_window *w = g->window;
  conv c = { .g = g,
             .kernels = &situ__parts_kernels_f32,
             .x = (const float *)(const void *)(forward ? g->x : g->y),
             .y = (float *)(void *)(forward ? g->y : g->x),
             .bias = (const float *)(const void *)g->bias,
             .channels = forward ? g->channels : g->outputs,
             .outputs = forward ? g->outputs : g->channels,
             .height = forward ? g->height : g->out_height,
             .width = forward ? g->width : g->out_width,
             .out_height = forward ? g->out_height : g->height,
             .out_width = forward ? g->out_width : g->width,
             .place = situ__parts_kernels_f32.parts * SITU__PARTS_BYTES,
             .taps = w->kernel[0] * w->kernel[1] };
  for (int d = 0; d < 2; d++)
    c.padding[d] = forward ? w->padding[d] : w->dilation[d] * (w->kernel[d] - 1) - w->padding[d];
  c.groups = c.channels / GROUP;
  c.panels = situ__ceil_div(c.outputs, PANEL);
  const int64_t fit = situ__min_i64(STEPS / c.taps, BLOCK / (c.height * c.width * c.place));
  c.depth = situ__min_i64(c.groups, situ__max_i64(1, fit));
  c.band = situ__max_i64(FEW_ROWS, situ__ceil_div(c.out_height, situ__ceil_div(TASKS, c.panels)));
  c.bands = situ__ceil_div(c.out_height, c.band);
  return c;
}

/* False for few or large images, and where situ__conv_parts does not suit. */
static bool suits(const situ__conv *g) {
  const bool forward = g->pass == SITU_CONV_FORWARD;
  if (g->narrow || g->images < FEW_IMAGES || !situ__conv_suits_parts(g)) return false;
  if ((forward ? g->channels : g->outputs) % GROUP != 0) return false;
  const conv c = describe(g);
  return c.taps > 1 && c.height * c.width <= MOST_PLACES && c.out_height * c.out_width <= MOST_PLACES &&
         (double)(g->images * c.outputs * c.channels) * (double)(c.taps * c.out_height * c.out_width) >= LEAST;
}

bool situ__conv_places(const situ__conv *g, situ_status *status) {
  static const situ_device cpu = { .kind = SITU_CPU };
  if (!suits(g)) return false;
  conv c = describe(g);
  const int64_t of_turned = c.depth * c.height * c.width * c.place,
                of_sums = c.panels * c.out_height * c.out_width * SQUARE * (int64_t)sizeof(float);
  *status = situ__memory_alloc("conv", cpu, (size_t)(of_turned + of_sums), (void **)&c.turned);
  if (*status != SITU_OK) return true;
  c.sums = (float *)(void *)(c.turned + of_turned);
  *status = situ__slots_open(&c.slots, "conv", (size_t)(c.depth * c.taps * c.place), c.panels * c.bands);
  for (c.image = 0; c.image < g->images && *status == SITU_OK; c.image += GROUP) {
    c.images = situ__min_i64(GROUP, g->images - c.image);
    for (c.group = 0; c.group < c.groups && !c.odd; c.group += c.depth) {
      c.here = situ__min_i64(c.depth, c.groups - c.group);
      situ__parallel(c.here * GROUP, 4, turn_images, &c);
      if (!c.odd) situ__parallel(c.panels * c.bands, 1, run_tasks, &c);
    }
  }
  situ__slots_close(&c.slots);
  situ__memory_free(cpu, c.turned, (size_t)(of_turned + of_sums));
  return !c.odd;
}
#else
bool situ__conv_places(const situ__conv *g, situ_status *status) {
  (void)g, (void)status;
  return false;
}
#endif
