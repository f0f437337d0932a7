/* Convolution of 3 x 3 at stride 1 by Winograd's transforms: of the weights once, then block by block of tiles, which
   become 16 matrix products of the channels. Blocks depend on the problem alone; each sum runs along the channels in
   one order. A NaN would spread over its tile: if a result is not finite, the convolution is left to another algorithm.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"
#include "backend/cpu/common/isa.h"
#include "backend/cpu/common/slots.h"
#include "im2col.h"
#include "winograd.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

enum {
  INPUT = 3 << 16, /* elements of the transformed tiles of a block, so that they stay in the L2 cache */
  SUMS = 1 << 17,  /* of sums before they are transformed back */
  LEAST = 64,      /* places of a block, and the most: */
  MOST = 512,
  TASKS = 16,      /* to split a large problem into: work for several threads */
  TASK = 1 << 20,  /* minimum multiply-adds of a task */
  LEAST_ROWS = 96, /* outputs that are not split further: each part transforms the input again */
  FEW = 32,        /* channels below which the transforms take as long as the products that they save */
  FEW_TILES = 40,  /* tiles for which the transform of the weights is too dear */
  STEP = 24,       /* outputs in whole tiles of each height */
  BLOCK_K = 384    /* channels that are multiplied at a time */
};

SITU__ISA_DECLARE(situ__winograd_kernels, situ__winograd_kernels);

typedef struct conv {
  const situ__conv *g;
  const situ__winograd_kernels *kernels;
  const situ__im2col_kernels *im2col;
  const situ__conv_kernels *tiles;
  int tallest, widest;
  situ__conv_sides s;
  int64_t *offset;                /* of each channel's places in a block */
  float *u;                       /* transformed weights */
  int64_t line, rows;             /* places of a row of tiles; rows of tiles of a plane */
  int64_t images, band;           /* of a block: images, if they fit whole, or else rows of tiles of one */
  int64_t blocks, bands;          /* in the batch, in an image */
  int64_t split, splits;          /* outputs of a task */
  int64_t part;                   /* outputs whose sums are transformed back together */
  int64_t row, next_x, next_sums; /* elements between channels' or outputs' places, between the 16 of them */
  int64_t phase, scratch, size_phase, size_scratch; /* elements of a slot's parts */
  situ__slots slots;
  bool odd; /* a result was not finite */
} conv;

/* ---- weights: u [16, groups * outputs, channels] ---- */

static void transform_weights(int64_t begin, int64_t end, void *payload) {
  const conv *c = payload;
  const bool flipped = c->g->pass == SITU_CONV_GRAD_DATA;
  const float *w = (const float *)(const void *)c->g->w;
  for (int64_t o = begin; o < end; o++) {
    const int64_t group = o / c->s.outputs, output = o % c->s.outputs;
    c->kernels->weight(&(situ__winograd_weight){
        .w = w + 9 * (flipped ? group * c->s.channels * c->s.outputs + output : o * c->s.channels),
        .step = 9 * (flipped ? c->s.outputs : 1),
        .channels = c->s.channels,
        .flipped = flipped,
        .to = c->u + o * c->s.channels,
        .next = c->g->groups * c->s.outputs * c->s.channels });
  }
}

/* ---- blocks ---- */

typedef struct block {
  int64_t group, image, images, row, rows; /* rows: of tiles */
  float *phase, *scratch, *tiles, *sums;
} block;

static void transform_input(const conv *c, const block *b) {
  const situ__split split = { .height = c->s.height,
                              .width = c->s.width,
                              .row = 2 * b->row - c->s.padding[0],
                              .left = c->s.padding[1],
                              .rows = b->rows + 1,
                              .line = c->line,
                              .size = c->size_phase };
  for (int64_t channel = 0; channel < c->s.channels; channel++)
    for (int64_t i = 0; i < b->images; i++) {
      const int64_t plane = ((b->image + i) * c->g->groups + b->group) * c->s.channels + channel;
      c->im2col->split(&split, c->s.x + plane * c->s.height * c->s.width, b->phase);
      c->kernels->input(&(situ__winograd_input){ .phase = b->phase,
                                                 .size = c->size_phase,
                                                 .line = c->line,
                                                 .rows = b->rows,
                                                 .to = b->tiles + channel * c->row + i * b->rows * c->line,
                                                 .next = c->next_x });
    }
}

/* Sums of outputs [first, first + count) of all groups' outputs. */
static void multiply(const conv *c, const block *b, int64_t first, int64_t count) {
  const int64_t lanes = c->tiles->lanes, vectors = situ__ceil_div(b->images * b->rows * c->line, lanes);
  for (int k = 0; k < SITU__WINOGRAD; k++)
    for (int64_t j = 0, width; j < vectors; j += width) {
      width = situ__ceil_div(vectors - j, situ__ceil_div(vectors - j, c->widest)); /* tiles of about the same width */
      for (int64_t depth = 0; depth < c->s.channels; depth += BLOCK_K) {
        situ__conv_tile t = { .k = situ__min_i64(BLOCK_K, c->s.channels - depth),
                              .w = c->u + (k * c->g->groups * c->s.outputs + first) * c->s.channels + depth,
                              .w_row = c->s.channels,
                              .x = b->tiles + k * c->next_x + j * lanes,
                              .at = c->offset + depth,
                              .sums = b->sums + k * c->next_sums + j * lanes,
                              .sums_row = c->row,
                              .add = depth > 0 };
        situ__conv_panel(c->tiles, &t, (int)width, count, c->tallest, sizeof(float));
      }
    }
}

static bool transform_output(const conv *c, const block *b, int64_t first, int64_t count) {
  const int64_t plane = c->s.out_height * c->s.out_width, all = c->g->groups * c->s.outputs;
  bool finite = true;
  for (int64_t o = 0; o < count; o++)
    for (int64_t i = 0; i < b->images; i++) {
      const situ__winograd_output out = { .from = b->sums + o * c->row + i * b->rows * c->line,
                                          .scratch = b->scratch,
                                          .next = c->next_sums,
                                          .size = c->size_scratch,
                                          .line = c->line,
                                          .rows = b->rows,
                                          .y = c->s.y + ((b->image + i) * all + first + o) * plane +
                                               2 * b->row * c->s.out_width,
                                          .width = c->s.out_width,
                                          .height = situ__min_i64(2 * b->rows, c->s.out_height - 2 * b->row),
                                          .bias = c->s.bias ? c->s.bias[first + o] : 0,
                                          .relu = c->g->relu };
      finite = c->kernels->output(&out) && finite;
      situ__conv_activate(c->g, (char *)out.y, 1, out.height * out.width, 0);
    }
  return finite;
}

static bool run_task(const conv *c, int64_t task, float *slot) {
  const int64_t split = task % c->splits, band = task / c->splits % c->bands;
  const int64_t at = task / c->splits / c->bands % c->blocks;
  block b = { .group = task / c->splits / c->bands / c->blocks,
              .image = at * c->images,
              .images = situ__min_i64(c->images, c->g->images - at * c->images),
              .row = band * c->band,
              .rows = situ__min_i64(c->band, c->rows - band * c->band),
              .phase = slot };
  b.scratch = b.phase + c->phase;
  b.tiles = b.scratch + c->scratch;
  b.sums = b.tiles + SITU__WINOGRAD * c->next_x;
  const int64_t first = split * c->split, last = situ__min_i64(first + c->split, c->s.outputs);
  bool finite = true;
  transform_input(c, &b);
  for (int64_t o = first; o < last && finite; o += c->part) {
    const int64_t count = situ__min_i64(c->part, last - o);
    multiply(c, &b, b.group * c->s.outputs + o, count);
    finite = transform_output(c, &b, b.group * c->s.outputs + o, count);
  }
  return finite;
}

static void run_tasks(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  float *slot = situ__slots_take(&c->slots);
  for (int64_t task = begin; task < end && !__atomic_load_n(&c->odd, __ATOMIC_RELAXED); task++)
    if (!run_task(c, task, slot)) __atomic_store_n(&c->odd, true, __ATOMIC_RELAXED);
  situ__slots_give(&c->slots, slot);
}

/* ---- splitting the work ---- */

/* Blocks of whole images, or bands of one. */
static void split_places(conv *c) {
  const int64_t plane = c->rows * c->line;
  const int64_t most = situ__min_i64(MOST, situ__max_i64(LEAST, INPUT / SITU__WINOGRAD / c->s.channels));
  const int64_t fit = situ__min_i64(c->rows, situ__max_i64(1, most / c->line));
  c->bands = situ__ceil_div(c->rows, fit);
  c->band = situ__ceil_div(c->rows, c->bands);
  c->bands = situ__ceil_div(c->rows, c->band);
  c->images = c->bands > 1 ? 1 : situ__max_i64(1, most / plane);
  c->images = situ__min_i64(c->images, situ__ceil_div(c->g->images, situ__ceil_div(TASKS, c->g->groups)));
  c->blocks = situ__ceil_div(c->g->images, c->images);
}

/* The number of tasks. */
static int64_t split_work(conv *c) {
  const int64_t lanes = c->kernels->lanes;
  split_places(c);
  const int64_t tasks = c->g->groups * c->blocks * c->bands;
  c->split = situ__max_i64(LEAST_ROWS, situ__ceil_div(c->s.outputs, situ__ceil_div(TASKS, tasks)));
  c->split = situ__min_i64(c->s.outputs, situ__round_up(c->split, STEP));
  c->splits = situ__ceil_div(c->s.outputs, c->split);
  /* An odd number of lines: rows of a power of two evict each other from the cache. */
  c->row = situ__round_up(c->images * c->band * c->line + lanes, 16);
  if (c->row / 16 % 2 == 0) c->row += 16;
  c->part = situ__min_i64(c->split, situ__max_i64(STEP, SUMS / SITU__WINOGRAD / c->row / STEP * STEP));
  c->next_x = c->s.channels * c->row + 16;
  c->next_sums = c->part * c->row + 16;
  c->size_phase = situ__round_up((c->band + 1) * c->line + 2 * lanes, 16);
  c->phase = 4 * c->size_phase;
  c->size_scratch = situ__round_up(2 * c->band * c->line + 2 * lanes, 16);
  c->scratch = 2 * c->size_scratch;
  return tasks * c->splits;
}

/* The geometry of the pass: the data's gradient is the convolution of that of the result, by flipped weights. */
static conv describe(const situ__conv *g) {
  conv c = { .g = g,
             .kernels = SITU__ISA_PICK(situ__cpu_isa(), situ__winograd_kernels),
             .im2col = situ__im2col_kernels_for(SITU_F32),
             .tiles = situ__conv_kernels_for(SITU_F32),
             .s = situ__conv_sides_of(g) };
  c.tallest = situ__conv_tallest(c.tiles, c.s.outputs);
  c.widest = situ__conv_widest(c.tiles, c.tallest);
  c.line = situ__ceil_div(c.s.out_width, 2) + 1;
  c.rows = situ__ceil_div(c.s.out_height, 2);
  return c;
}

/* False for other windows, few channels, few tiles, rows that a block would not hold, and planes of which too much is
   beyond the last tile. */
static bool suits(const situ__conv *g) {
  const situ_window *w = g->window;
  if (g->dtype != SITU_F32 || !situ__conv_is_plain(g) || g->pass == SITU_CONV_GRAD_WEIGHT) return false;
  for (int d = 0; d < 2; d++)
    if (w->kernel[d] != 3 || w->stride[d] != 1 || w->dilation[d] != 1 || w->padding[d] > 2) return false;
  if (g->channels < FEW || g->outputs < FEW || g->images * g->out_height * g->out_width < 4 * FEW_TILES) return false;
  const conv c = describe(g);
  return c.line <= MOST && 5 * SITU__WINOGRAD * c.rows * c.line <= 3 * 9 * c.s.out_height * c.s.out_width;
}

static situ_status run(const situ__conv *g) {
  static const situ_device cpu = { .kind = SITU_CPU };
  conv c = describe(g);
  const int64_t tasks = split_work(&c), weights = g->groups * c.s.outputs * c.s.channels;
  const size_t offsets = (size_t)situ__round_up(c.s.channels, 8) * sizeof *c.offset,
               bytes = offsets + (size_t)(SITU__WINOGRAD * weights) * sizeof *c.u;
  const double cost = (double)(g->images * c.rows * c.line) * (double)(SITU__WINOGRAD * weights);
  const int64_t grain = situ__max_i64(1, (int64_t)((double)TASK * (double)tasks / cost));
  const int64_t slot = c.phase + c.scratch + SITU__WINOGRAD * (c.next_x + c.next_sums);
  situ_status status = situ__memory_alloc("conv", cpu, bytes, (void **)&c.offset);
  if (status != SITU_OK) return status;
  c.u = (float *)(void *)((char *)c.offset + offsets);
  for (int64_t i = 0; i < c.s.channels; i++) c.offset[i] = i * c.row;
  status = situ__slots_open(&c.slots, "conv", (size_t)slot * sizeof(float), situ__ceil_div(tasks, grain));
  if (status == SITU_OK) {
    situ__parallel(g->groups * c.s.outputs, situ__max_i64(1, (1 << 12) / c.s.channels), transform_weights, &c);
    situ__parallel(tasks, grain, run_tasks, &c);
  }
  situ__slots_close(&c.slots);
  situ__memory_free(cpu, c.offset, bytes);
  return c.odd ? SITU_E_UNSUPPORTED : status;
}

const situ__conv_algorithm situ__conv_winograd = { suits, run };
