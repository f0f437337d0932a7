/* Convolution at strides 1 and 2 by tile registers, each f32 in three parts of bf16 (in one, where it was bf16),
   without unfolding: a block of padded images is split into parts once, and each element of the kernel multiplies the
   same planes, shifted (implicit_gemm.c says more). Tasks are panels of outputs times pieces of images: bands of rows,
   or several images. Each sum runs along the channels and the kernel in one order. Numbers that do not have three parts
   are left to another algorithm.
   SPDX-License-Identifier: MIT */
#include "amx.h"
#include "algorithm.h"
#include "backend/cpu/common/slots.h"
#include "im2col.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

#include <string.h>

#ifdef SITU_HAVE_ISA_AMX
enum {
  LANES = SITU__AMX_LANES,
  GROUP = 2 * LANES, /* channels whose 16 planes of pairs are multiplied together */
  PANEL = SITU__AMX_OUTPUTS,
  COLUMNS = 1024,  /* of a task, for which a panel of weights is packed */
  BLOCK = 1 << 20, /* bytes of pairs, so that they stay in the L2 cache */
  STEPS = 64,      /* of a panel, for the same reason */
  TASK = 1 << 20,  /* minimum multiply-adds of a chunk of tasks */
  SPLIT = 1 << 12  /* minimum floats of a chunk of planes */
};

typedef struct conv {
  const situ__conv *g;
  const situ__amx_kernels *kernels;
  const situ__im2col_kernels *im2col;
  situ__conv_sides s;
  bool plain;                           /* 1 x 1 at stride 1, which reads planes where they are */
  int64_t stride, phases;               /* planes of a channel: 1, or 4 at stride 2 */
  int64_t ld, reach;                    /* floats of a padded row; how many rows a window needs after its first */
  int64_t groups, taps;                 /* of 32 channels; elements of the kernel */
  int64_t *at;                          /* of each step of a panel: bytes from its first pairs */
  int64_t step, depth;                  /* bytes of a step, and groups, of a panel */
  int64_t band, bands, columns;         /* rows of a piece; columns of their sums */
  int64_t plane, row, part, piece;      /* floats of a phase; bytes of a plane of pairs, of a part, of a piece */
  int64_t pieces, batch, block;         /* in all; of a task; that are split together */
  int64_t first, here, batches, panels; /* the block: its first piece, how many it has; its tasks */
  char *pairs;
  situ__slots slots;
  bool odd; /* a number did not have three parts */
} conv;

/* ---- pairs ---- */

/* The padded rows of a piece in one channel. */
static void fill_plane(const conv *c, int64_t piece, int64_t channel, float *to) {
  const int64_t image = piece / c->bands, row = piece % c->bands * c->band * c->stride - c->s.padding[0],
                rows = c->band + c->reach;
  const float *x = c->s.x + (image * c->s.channels + channel) * c->s.height * c->s.width;
  if (c->stride == 1)
    c->im2col->pad(&(situ__pad){ .channels = 1,
                                 .height = c->s.height,
                                 .width = c->s.width,
                                 .row = row,
                                 .rows = rows,
                                 .left = c->s.padding[1],
                                 .ld = c->ld },
                   x, to);
  else
    c->im2col->split(&(situ__split){ .height = c->s.height,
                                     .width = c->s.width,
                                     .row = row,
                                     .left = c->s.padding[1],
                                     .rows = rows,
                                     .line = c->ld,
                                     .size = c->plane,
                                     .first = c->phases == 1 },
                     x, to);
  for (int64_t p = 0; p < c->phases; p++)
    memset(to + p * c->plane + rows * c->ld, 0, (size_t)(c->plane - rows * c->ld) * sizeof *to);
}

/* A piece in one channel: padded in `memory`, or where it is; zeros for a channel that completes the last group. */
static const float *plane_at(const conv *c, int64_t piece, int64_t channel, float *memory) {
  const int64_t image = piece / c->bands, row = piece % c->bands * c->band;
  if (channel >= c->s.channels) return memset(memory, 0, (size_t)c->row);
  if (c->plain) return c->s.x + ((image * c->s.channels + channel) * c->s.height + row) * c->s.width;
  fill_plane(c, piece, channel, memory);
  return memory;
}

/* Planes of pairs: 16 for each group in each piece. */
static void split_planes(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  float *low = situ__slots_take(&c->slots), *high = low + c->row / 4 + LANES;
  for (int64_t i = begin; i < end; i++) {
    const int64_t pair = i % (c->groups * LANES), piece = i / (c->groups * LANES);
    const int64_t channel = pair / LANES * GROUP + pair % LANES;
    const int64_t rows = situ__min_i64(c->band, c->s.height - (c->first + piece) % c->bands * c->band);
    const situ__amx_plane plane = { .low = plane_at(c, c->first + piece, channel, low),
                                    .high = plane_at(c, c->first + piece, channel + LANES, high),
                                    .count = c->plain ? rows * c->s.width : c->phases * c->plane,
                                    .next = c->part,
                                    .to = c->pairs + piece * c->piece + pair * c->row };
    if (!c->kernels->pair(&plane)) __atomic_store_n(&c->odd, true, __ATOMIC_RELAXED);
  }
  situ__slots_give(&c->slots, low);
}

/* ---- products ---- */

/* Results of a piece, from its first row of the output on. */
static float *results(const conv *c, int64_t piece, int64_t output) {
  return c->s.y +
         ((piece / c->bands * c->s.outputs + output) * c->s.out_height + piece % c->bands * c->band) * c->s.out_width;
}
static int64_t result_rows(const conv *c, int64_t piece) {
  return situ__min_i64(c->band, c->s.out_height - piece % c->bands * c->band);
}

static void finish_piece(const conv *c, int64_t piece, int64_t output, const float *sums) {
  const int64_t rows = result_rows(c, piece);
  c->kernels->finish(&(situ__amx_rows){ .sums = sums,
                                        .y = results(c, piece, output),
                                        .bias = c->s.bias ? c->s.bias[output] : 0,
                                        .rows = c->plain ? 1 : rows,
                                        .width = c->plain ? rows * c->s.out_width : c->s.out_width,
                                        .line = c->ld,
                                        .relu = c->g->relu });
}

static void activate_piece(const conv *c, int64_t piece, int64_t output, int64_t outputs) {
  situ__conv_activate(c->g, (char *)results(c, piece, output), outputs, result_rows(c, piece) * c->s.out_width,
                      c->s.out_height * c->s.out_width);
}

/* Returns false for weights that do not have three parts. */
static bool run_task(const conv *c, int64_t task, char *slot) {
  const int64_t panel = task / c->batches, first = task % c->batches * c->batch,
                last = situ__min_i64(first + c->batch, c->here), row = c->batch * c->columns;
  float *sums = (float *)(void *)(slot + c->depth * c->taps * c->step);
  const int64_t outputs = situ__min_i64(PANEL, c->s.outputs - panel * PANEL);
  for (int64_t group = 0; group < c->groups; group += c->depth) {
    const int64_t groups = situ__min_i64(c->depth, c->groups - group);
    const char *weights = situ__conv_amx_panel(c->g, panel, group, groups, slot);
    if (!weights) return false;
    for (int64_t i = first; i < last; i++)
      c->kernels->multiply(&(situ__amx_product){ .weights = weights,
                                                 .pairs = c->pairs + i * c->piece + group * LANES * c->row,
                                                 .at = c->at,
                                                 .steps = groups * c->taps,
                                                 .row = c->row,
                                                 .part = c->part,
                                                 .sums = sums + (i - first) * c->columns,
                                                 .sums_row = row,
                                                 .columns = c->columns,
                                                 .tall = outputs > LANES,
                                                 .add = group > 0 });
  }
  for (int64_t i = first; i < last; i++)
    for (int64_t o = 0; o < outputs; o++)
      finish_piece(c, c->first + i, panel * PANEL + o, sums + o * row + (i - first) * c->columns);
  for (int64_t i = first; i < last; i++) activate_piece(c, c->first + i, panel * PANEL, outputs);
  return true;
}

static void run_tasks(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  char *slot = situ__slots_take(&c->slots);
  for (int64_t task = begin; task < end && !__atomic_load_n(&c->odd, __ATOMIC_RELAXED); task++)
    if (!run_task(c, task, slot)) __atomic_store_n(&c->odd, true, __ATOMIC_RELAXED);
  situ__slots_give(&c->slots, slot);
}

/* ---- splitting the work ---- */

static void set_offsets(const conv *c) {
  const situ_window *w = c->g->window;
  const int64_t odd = c->stride - 1;
  for (int64_t i = 0; i < c->depth * c->taps; i++) {
    const int64_t tap = i % c->taps, row = tap / w->kernel[1] * w->dilation[0],
                  column = tap % w->kernel[1] * w->dilation[1], phase = (row & odd) * 2 + (column & odd);
    c->at[i] = i / c->taps * LANES * c->row + 4 * (phase * c->plane + (row >> odd) * c->ld + (column >> odd));
  }
}

/* The geometry of the pass: the data's gradient is the convolution of that of the result, by flipped weights. */
static conv describe(const situ__conv *g) {
  const situ_window *w = g->window;
  conv c = { .g = g,
             .kernels = situ__conv_amx_kernels_for(g),
             .im2col = situ__im2col_kernels_for(SITU_F32),
             .s = situ__conv_sides_of(g),
             .stride = w->stride[0],
             .phases = w->stride[0] == 1 || w->kernel[0] * w->kernel[1] == 1 ? 1 : 4 };
  c.reach = w->dilation[0] * (w->kernel[0] - 1) / c.stride;
  c.ld = c.s.out_width + w->dilation[1] * (w->kernel[1] - 1) / c.stride;
  if (c.stride == 1) c.ld = c.s.width + 2 * c.s.padding[1];
  c.groups = situ__ceil_div(c.s.channels, GROUP);
  c.taps = w->kernel[0] * w->kernel[1];
  c.plain = c.taps == 1 && c.stride == 1 && c.s.padding[0] == 0 && c.s.padding[1] == 0;
  c.step = c.kernels->parts * SITU__AMX_BYTES;
  c.panels = situ__ceil_div(c.s.outputs, PANEL);
  return c;
}

static void split_work(conv *c) {
  const int64_t fit = situ__min_i64(c->s.out_height, situ__max_i64(1, COLUMNS / c->ld));
  c->bands = situ__ceil_div(c->s.out_height, fit);
  c->band = situ__ceil_div(c->s.out_height, c->bands);
  c->bands = situ__ceil_div(c->s.out_height, c->band);
  c->columns = situ__round_up((c->band - 1) * c->ld + c->s.out_width, LANES);
  c->plane = situ__round_up((c->band + c->reach) * c->ld + LANES, LANES);
  /* An odd number of lines: planes a power of two apart evict each other from the cache. */
  c->row = c->phases * c->plane * 4;
  if (c->row / 64 % 2 == 0) c->row += 64;
  c->part = c->groups * LANES * c->row;
  c->piece = c->kernels->parts * c->part;
  c->pieces = c->g->images * c->bands;
  c->batch = situ__min_i64(c->pieces, situ__max_i64(1, COLUMNS / c->columns));
  c->block = situ__min_i64(c->pieces, situ__max_i64(1, BLOCK / c->piece / c->batch) * c->batch);
  c->depth = situ__min_i64(c->groups, situ__max_i64(1, STEPS / c->taps));
}

/* A block of pieces after the other. */
static void run_blocks(conv *c) {
  const double cost = (double)(c->batch * c->columns * PANEL) * (double)(c->groups * c->taps * GROUP);
  const int64_t grain = situ__max_i64(1, (int64_t)((double)TASK / cost));
  for (c->first = 0; c->first < c->pieces && !c->odd; c->first += c->block) {
    c->here = situ__min_i64(c->block, c->pieces - c->first);
    c->batches = situ__ceil_div(c->here, c->batch);
    situ__parallel(c->here * c->groups * LANES, situ__max_i64(1, SPLIT / (c->row / 4)), split_planes, c);
    if (!c->odd) situ__parallel(c->panels * c->batches, grain, run_tasks, c);
  }
}

static bool suits(const situ__conv *g) { return situ__conv_suits_amx(g); }

static situ_status run(const situ__conv *g) {
  static const situ_device cpu = { .kind = SITU_CPU };
  if (g->packed_w && !*g->packed_w) return SITU_E_UNSUPPORTED; /* not all of its numbers have three parts */
  conv c = describe(g);
  split_work(&c);
  const size_t offsets = (size_t)situ__round_up(c.depth * c.taps, 8) * sizeof *c.at,
               bytes = offsets + (size_t)(c.block * c.piece);
  const int64_t planes = 2 * (c.row + 4 * LANES),
                panel = c.depth * c.taps * c.step + 4 * (PANEL * c.batch * c.columns + LANES);
  situ_status status = situ__memory_alloc("conv", cpu, bytes, (void **)&c.at);
  if (status != SITU_OK) return status;
  c.pairs = (char *)c.at + offsets;
  set_offsets(&c);
  status = situ__slots_open(&c.slots, "conv", (size_t)situ__max_i64(planes, panel),
                            situ__max_i64(c.block * c.groups * LANES, c.panels * situ__ceil_div(c.block, c.batch)));
  if (status == SITU_OK) run_blocks(&c);
  situ__slots_close(&c.slots);
  situ__memory_free(cpu, c.at, bytes);
  return c.odd ? SITU_E_UNSUPPORTED : status;
}

const situ__conv_algorithm situ__conv_amx_bf16x3 = { suits, run };
#else
const situ__conv_algorithm situ__conv_amx_bf16x3 = { NULL, NULL };
#endif
