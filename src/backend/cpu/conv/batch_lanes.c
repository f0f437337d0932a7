/* Convolution with an image in each lane of a vector: planes are gathered from as many images as a vector has lanes, so
   that rows of any length fill whole vectors and nothing is multiplied in vain. It is for few channels, which do not
   fill oneDNN's blocks, and small images. Bands of rows in the images of a vector are a task, forward, or part of one;
   they and partial sums depend on the problem alone. Each sum runs in one order, forward in that of shifted rows
   (implicit_gemm.c).
   SPDX-License-Identifier: MIT */
#include "batch_lanes.h"
#include "algorithm.h"
#include "backend/cpu/common/isa.h"
#include "backend/cpu/common/slots.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

#include <string.h>

enum {
  BAND = 1 << 17,  /* elements of a band and its results, so that they stay in the L2 cache */
  BLOCK_K = 384,   /* rows of the matrix that are multiplied at a time */
  TASKS = 16,      /* to split a large problem into: work for several threads */
  TASK = 1 << 20,  /* minimum multiply-adds of a chunk of tasks */
  WINDOWS = 48,    /* of a band whose products are added up in registers */
  FEW_IMAGES = 12, /* below which most lanes are idle */
  SUM_TASKS = 8,   /* w's gradient: fewer, as each has sums of its own, */
  SUMS = 1 << 13,  /* so many vectors, so that they stay in the L2 cache */
  SPLIT = 24,      /* outputs of a task: a multiple of what tiles are high */
  MOVING = 12      /* what gathering or scattering a vector takes, in products of vectors */
};

SITU__ISA_DECLARE(situ__batch_lanes_kernels, situ__batch_lanes_kernels_f32);
SITU__ISA_DECLARE(situ__batch_lanes_kernels, situ__batch_lanes_kernels_f64);
const situ__batch_lanes_kernels *situ__batch_lanes_kernels_for(situ_dtype dtype) {
  const situ__isa isa = situ__cpu_isa();
  return dtype == SITU_F64 ? SITU__ISA_PICK(isa, situ__batch_lanes_kernels_f64)
                           : SITU__ISA_PICK(isa, situ__batch_lanes_kernels_f32);
}

typedef struct conv {
  const situ__conv *g;
  const situ__batch_lanes_kernels *kernels;
  const situ__conv_kernels *tiles;
  int64_t elem, vector, depth; /* bytes of an element, of a vector; channels times elements of a kernel */
  int64_t packs;               /* of images that share a vector */
  int64_t ld, band, bands;     /* places of a padded row; rows of windows of a band */
  int64_t reach;               /* rows of a band of images */
  int tallest, widest;
  situ__conv_lanes full[SITU__CONV_WIDTHS];
  int64_t *offset;       /* of each row of the matrix */
  int64_t units;         /* bands whose sums of w's gradient a task adds up */
  int64_t parts;         /* such tasks of the same weights */
  int64_t split, splits; /* outputs of a task */
  char *partial;         /* their sums, or NULL */
  size_t padded, sums;   /* bytes of a slot: the images' band; vectors of sums (w's gradient) */
  situ__slots slots;
} conv;

static int images_of(const conv *c, int64_t pack) {
  return (int)situ__min_i64(c->kernels->lanes, c->g->images - pack * c->kernels->lanes);
}
static int64_t rows_of(const conv *c, int64_t band) {
  return situ__min_i64(c->band, c->g->out_height - band * c->band);
}

/* The rows that the windows of a band see, between zeros: [channels, reach, ld] vectors. */
static void gather_band(const conv *c, int64_t pack, int64_t group, int64_t band, char *to) {
  const situ__conv *g = c->g;
  const situ_window *w = g->window;
  const int64_t plane = g->height * g->width, first = band * c->band * w->stride[0] - w->padding[0],
                left = w->padding[1];
  const int64_t image = pack * c->kernels->lanes * g->groups + group;
  const size_t before = (size_t)(left * c->vector);
  for (int64_t i = 0; i < g->channels * c->reach; i++, to += c->ld * c->vector) {
    const int64_t channel = i / c->reach, row = first + i % c->reach;
    if (row < 0 || row >= g->height) {
      memset(to, 0, (size_t)(c->ld * c->vector));
      continue;
    }
    memset(to, 0, before);
    c->kernels->gather(
        &(situ__batch_lanes_run){ .image = g->x + ((image * g->channels + channel) * plane + row * g->width) * c->elem,
                                  .next = g->groups * g->channels * plane,
                                  .images = images_of(c, pack),
                                  .count = g->width,
                                  .lanes = to + before,
                                  .step = 1 });
    memset(to + before + (size_t)(g->width * c->vector), 0, (size_t)((c->ld - left - g->width) * c->vector));
  }
}

/* A band of results, or of their gradients, in one output. */
static situ__batch_lanes_run results(const conv *c, int64_t pack, int64_t output, int64_t band, char *lanes) {
  const situ__conv *g = c->g;
  const int64_t windows = g->out_height * g->out_width, all = g->groups * g->outputs;
  return (situ__batch_lanes_run){
    .image = g->y + ((pack * c->kernels->lanes * all + output) * windows + band * c->band * g->out_width) * c->elem,
    .next = all * windows,
    .images = images_of(c, pack),
    .count = rows_of(c, band) * g->out_width,
    .lanes = lanes
  };
}

/* ---- forward ---- */

/* A row of windows: y [outputs, out_width] vectors = weights times the matrix, plus bias. */
static void multiply_row(const conv *c, const situ__conv_tile *full, int64_t outputs) {
  const int64_t width = c->g->out_width, blocks = situ__ceil_div(width, c->widest);
  for (int64_t k = 0; k < c->depth; k += BLOCK_K)
    for (int64_t b = 0; b < blocks; b++) {
      const int64_t begin = b * width / blocks, end = (b + 1) * width / blocks;
      situ__conv_tile t = *full;
      t.k = situ__min_i64(BLOCK_K, c->depth - k);
      t.w = (const char *)full->w + k * c->elem;
      t.x = (const char *)full->x + begin * c->vector;
      t.at = full->at + k;
      t.add = k > 0;
      t.sums = (char *)full->y + (size_t)(begin * c->vector);
      t.bias = k == 0 ? full->bias : NULL;
      t.y = k + BLOCK_K >= c->depth ? t.sums : NULL;
      situ__conv_panel(c->tiles, &t, (int)(end - begin), outputs, c->tallest, c->elem);
    }
}

static void run_band(const conv *c, int64_t pack, int64_t group, int64_t band, char *slot) {
  const situ__conv *g = c->g;
  const int64_t rows = rows_of(c, band), first = group * g->outputs, plane = rows * g->out_width;
  char *sums = slot + c->padded;
  gather_band(c, pack, group, band, slot);
  situ__conv_tile full = { .w = g->w + first * c->depth * c->elem,
                           .w_row = c->depth,
                           .at = c->offset,
                           .sums_row = plane * c->kernels->lanes,
                           .y_row = plane * c->kernels->lanes,
                           .bias = g->bias ? g->bias + first * c->elem : NULL,
                           .lanes = c->full,
                           .relu = g->relu };
  for (int64_t r = 0; r < rows; r++) {
    full.x = slot + r * c->ld * c->vector;
    full.y = sums + r * g->out_width * c->vector;
    multiply_row(c, &full, g->outputs);
  }
  for (int64_t o = 0; o < g->outputs; o++) {
    const situ__batch_lanes_run run = results(c, pack, first + o, band, sums + o * plane * c->vector);
    c->kernels->scatter(&run);
  }
  for (int i = 0; i < images_of(c, pack); i++) {
    const situ__batch_lanes_run run = results(c, pack, first, band, NULL);
    situ__conv_activate(g, (char *)run.image + i * run.next * c->elem, g->outputs, plane, g->out_height * g->out_width);
  }
}

static void run_bands(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  const int64_t groups = c->g->groups;
  char *slot = situ__slots_take(&c->slots);
  for (int64_t i = begin; i < end; i++) run_band(c, i / c->bands / groups, i / c->bands % groups, i % c->bands, slot);
  situ__slots_give(&c->slots, slot);
}

/* ---- the weight's gradient ---- */

/* Adds the products of some outputs, of which a tile is that high, with the whole matrix. */
static void add_products(const conv *c, int tile, int64_t rows, const char *x, const char *y, char *sums, bool add) {
  const situ__conv *g = c->g;
  const int64_t lanes = c->kernels->lanes;
  for (int64_t k = 0, columns; k < c->depth; k += columns) {
    columns = situ__min_i64(c->widest, c->depth - k);
    c->kernels->sum[columns - 1][tile](&(situ__batch_lanes_sum){ .y = y,
                                                                 .x = x,
                                                                 .at = c->offset + k,
                                                                 .rows = rows,
                                                                 .width = g->out_width,
                                                                 .x_row = g->window->stride[0] * c->ld * lanes,
                                                                 .x_step = g->window->stride[1] * lanes,
                                                                 .sums = sums + k * c->vector,
                                                                 .sums_row = c->depth * lanes,
                                                                 .add = add });
  }
}

/* The outputs of a tile are gathered beside each other, so that it reads them one after the other. */
static void sum_band(const conv *c, int64_t unit, int64_t first, int64_t outputs, char *sums, bool add) {
  const int64_t pack = unit / c->bands, band = unit % c->bands;
  char *x = sums + c->sums, *y = x + c->padded;
  int height;
  gather_band(c, pack, first / c->g->outputs, band, x);
  for (int64_t o = 0; o < outputs; o += height) {
    const int tile = situ__conv_next(c->tiles, 1, outputs - o, c->tallest, &height);
    for (int i = 0; i < height; i++) {
      situ__batch_lanes_run run = results(c, pack, first + o + i, band, y + i * c->vector);
      run.step = height;
      c->kernels->gather(&run);
    }
    add_products(c, tile, rows_of(c, band), x, y, sums + o * c->depth * c->vector, add);
  }
}

static void sum_tasks(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  const situ__conv *g = c->g;
  char *sums = situ__slots_take(&c->slots);
  for (int64_t task = begin; task < end; task++) {
    const int64_t part = task % c->parts, split = task / c->parts % c->splits, group = task / c->parts / c->splits;
    const int64_t output = group * g->outputs + split * c->split,
                  outputs = situ__min_i64(c->split, g->outputs - split * c->split);
    const int64_t first = part * c->units, last = situ__min_i64(first + c->units, c->packs * c->bands);
    for (int64_t unit = first; unit < last; unit++) sum_band(c, unit, output, outputs, sums, unit > first);
    char *to = c->parts > 1 ? c->partial + part * g->groups * g->outputs * c->depth * c->elem : g->w;
    c->kernels->add_lanes(sums, outputs * c->depth, to + output * c->depth * c->elem);
  }
  situ__slots_give(&c->slots, sums);
}

/* ---- splitting the work ---- */

static void set_offsets(const conv *c) {
  const situ_window *w = c->g->window;
  int64_t *at = c->offset;
  for (int64_t channel = 0; channel < c->g->channels; channel++)
    for (int64_t kh = 0; kh < w->kernel[0]; kh++)
      for (int64_t kw = 0; kw < w->kernel[1]; kw++)
        *at++ = ((channel * c->reach + kh * w->dilation[0]) * c->ld + kw * w->dilation[1]) * c->kernels->lanes;
}

static int64_t reach_of(const situ__conv *g, int64_t rows) {
  const situ_window *w = g->window;
  return (rows - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
}

static conv describe(const situ__conv *g) {
  const situ_window *w = g->window;
  conv c = { .g = g,
             .kernels = situ__batch_lanes_kernels_for(g->dtype),
             .tiles = situ__conv_kernels_for(g->dtype),
             .elem = situ__cpu_size(g->dtype),
             .depth = g->channels * w->kernel[0] * w->kernel[1],
             .ld = g->width + 2 * w->padding[1] };
  const int64_t lanes = c.kernels->lanes;
  c.vector = lanes * c.elem;
  c.packs = situ__ceil_div(g->images, lanes);
  const bool sums = g->pass == SITU_CONV_GRAD_WEIGHT;
  c.tallest = situ__conv_tallest(c.tiles, g->outputs);
  c.widest = situ__conv_widest(c.tiles, c.tallest);
  c.split = sums ? situ__min_i64(g->outputs, situ__max_i64(SPLIT, SUMS / c.depth / SPLIT * SPLIT)) : g->outputs;
  c.splits = situ__ceil_div(g->outputs, c.split);
  const int64_t least = situ__ceil_div(WINDOWS, g->out_width), pieces = situ__ceil_div(TASKS, c.packs * g->groups);
  int64_t rows = situ__max_i64(situ__min_i64(least, g->out_height), situ__ceil_div(g->out_height, pieces));
  const int64_t row = (g->channels * w->stride[0] * c.ld + g->outputs * g->out_width) * lanes;
  rows = situ__max_i64(1, situ__min_i64(rows, (sums ? BAND / 4 : BAND) / row));
  c.bands = situ__ceil_div(g->out_height, rows);
  c.band = situ__ceil_div(g->out_height, c.bands);
  c.bands = situ__ceil_div(g->out_height, c.band);
  c.reach = reach_of(g, c.band);
  c.units = situ__ceil_div(c.packs * c.bands, situ__ceil_div(SUM_TASKS, g->groups * c.splits));
  c.parts = situ__ceil_div(c.packs * c.bands, c.units);
  for (int v = 0; v < SITU__CONV_WIDTHS; v++)
    c.full[v] = (situ__conv_lanes){ .at = (int32_t)(v * lanes), .mask = UINT16_MAX, .count = (uint16_t)lanes };
  c.padded = (size_t)(g->channels * c.reach * c.ld * c.vector);
  c.sums = sums ? (size_t)(c.split * c.depth * c.vector) : 0;
  return c;
}

static situ_status run(conv *c, int64_t tasks, situ__range_fn fn) {
  static const situ_device cpu = { .kind = SITU_CPU };
  const situ__conv *g = c->g;
  const double cost = (double)(g->images * g->groups * g->outputs) * (double)(g->out_height * g->out_width * c->depth);
  const int64_t grain = situ__max_i64(1, (int64_t)((double)TASK * (double)tasks / (cost + 1)));
  const int64_t weights = g->groups * g->outputs * c->depth;
  const size_t offsets = (size_t)situ__round_up(c->depth, 8) * sizeof *c->offset,
               bytes = offsets + (size_t)(c->sums && c->parts > 1 ? c->parts * weights * c->elem : 0);
  situ_status status = situ__memory_alloc("conv", cpu, bytes, (void **)&c->offset);
  if (status != SITU_OK) return status;
  c->partial = (char *)c->offset + offsets;
  set_offsets(c);
  const size_t slot = c->sums + c->padded + (size_t)(g->outputs * c->band * g->out_width * c->vector);
  status = situ__slots_open(&c->slots, "conv", slot, situ__ceil_div(tasks, grain));
  if (status == SITU_OK) situ__parallel(tasks, grain, fn, c);
  situ__slots_close(&c->slots);
  if (status == SITU_OK && c->sums && c->parts > 1) situ__conv_add_parts(g->dtype, c->partial, c->parts, weights, g->w);
  situ__memory_free(cpu, c->offset, bytes);
  return status;
}

static bool fills_lanes(const situ__conv *g, situ_conv_pass pass) {
  const int64_t lanes = situ__batch_lanes_kernels_for(g->dtype)->lanes;
  return g->pass == pass && situ__conv_is_plain(g) && g->images >= FEW_IMAGES &&
         4 * g->images >= 3 * situ__round_up(g->images, lanes) && g->window->kernel[0] * g->window->kernel[1] > 1;
}

/* False if moving images into lanes takes longer than the places without a window that shifted rows multiply. */
static bool suits(const situ__conv *g) {
  const situ_window *w = g->window;
  if (!fills_lanes(g, SITU_CONV_FORWARD) || w->stride[0] != 1 || w->stride[1] != 1) return false;
  const conv c = describe(g);
  const int64_t moved = g->channels * c.ld + g->outputs * g->out_width, idle = c.ld - g->out_width;
  return !situ__conv_suits_offsets(g) || MOVING * moved <= g->outputs * c.depth * idle;
}

static situ_status run_forward(const situ__conv *g) {
  conv c = describe(g);
  return run(&c, c.packs * g->groups * c.bands, run_bands);
}

/* False where oneDNN's blocks of channels would not be padding. */
static bool suits_weight(const situ__conv *g) {
  return fills_lanes(g, SITU_CONV_GRAD_WEIGHT) && !situ__conv_fills_blocks(g);
}

static situ_status run_weight(const situ__conv *g) {
  conv c = describe(g);
  return run(&c, c.parts * c.splits * g->groups, sum_tasks);
}

const situ__conv_algorithm situ__conv_batch_lanes = { suits, run_forward };
const situ__conv_algorithm situ__conv_backward_weight_batch = { suits_weight, run_weight };
