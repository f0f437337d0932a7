/* Convolution at strides 1 and 2 by tile registers, each f32 in three parts of bf16 (in one, where it was bf16),
   without unfolding: a block of padded images is split into parts once, and each element of the kernel multiplies the
   same planes, shifted (shifted.c says more). Tasks are panels of outputs times pieces of images: bands of rows,
   or several images. Each sum runs along the channels and the kernel in one order. Numbers that do not have three parts
   are left to another algorithm.
   SPDX-License-Identifier: MIT */
#include "parts.h"
#include "conv.h"
#include "backend/cpu/common/isa.h"
#include "backend/cpu/common/slots.h"
#include "unfold.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

#include <string.h>

#ifdef SITU_HAVE_ISA_AMX
extern const situ__parts_kernels situ__parts_kernels_f32, situ__parts_kernels_bf16;

enum {
  LANES = SITU__PARTS_LANES,
  GROUP = 2 * LANES, /* channels whose 16 planes of pairs are multiplied together */
  PANEL = SITU__PARTS_OUTPUTS,
  COLUMNS = 1024,  /* of a task, for which a panel of weights is packed */
  BLOCK = 1 << 20, /* bytes of pairs, so that they stay in the L2 cache */
  STEPS = 64,      /* of a panel, for the same reason */
  TASK = 1 << 20,  /* minimum multiply-adds of a chunk of tasks */
  SPLIT = 1 << 12, /* minimum floats of a chunk of planes */
  LEAST = 1 << 20, /* multiply-adds below which splitting does not pay */
  HEAD = 64,       /* bytes before panels that are laid out before: the first one is 1 if they can be multiplied */
  FEW = 32,        /* outputs below which it does not */
  FEW_ONES = 64,   /* channels, and outputs, below which products of 1 x 1 are too few beside storing sums */
  MANY_ONES = 96,  /* and beside splitting */
  MANY = 128,      /* channels from which 3 x 3 at stride 1 is not left to Winograd's transforms */
  PADDING = 8      /* of a side, beyond the size of the image */
};

typedef struct conv {
  const situ__conv *g;
  const situ__parts_kernels *kernels;
  const situ__unfold_kernels *unfold;
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
    c->unfold->pad(&(situ__pad){ .channels = 1,
                                 .height = c->s.height,
                                 .width = c->s.width,
                                 .row = row,
                                 .rows = rows,
                                 .left = c->s.padding[1],
                                 .ld = c->ld },
                   x, to);
  else
    c->unfold->split(&(situ__split){ .height = c->s.height,
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
    const situ__parts_plane plane = { .low = plane_at(c, c->first + piece, channel, low),
                                      .high = plane_at(c, c->first + piece, channel + LANES, high),
                                      .count = c->plain ? rows * c->s.width : c->phases * c->plane,
                                      .next = c->part,
                                      .to = c->pairs + piece * c->piece + pair * c->row };
    if (!c->kernels->pair(&plane)) __atomic_store_n(&c->odd, true, __ATOMIC_RELAXED);
  }
  situ__slots_give(&c->slots, low);
}

/* ---- products ---- */

static const situ__parts_kernels *kernels_for(const situ__conv *g) {
  return g->narrow ? &situ__parts_kernels_bf16 : &situ__parts_kernels_f32;
}

const char *situ__conv_parts_panel(const situ__conv *g, int64_t panel, int64_t group, int64_t groups, char *to) {
  const bool turned = g->pass == SITU_CONV_GRAD_DATA;
  const int64_t taps = g->window->kernel[0] * g->window->kernel[1], first = panel * PANEL,
                channels = turned ? g->outputs : g->channels, outputs = turned ? g->channels : g->outputs,
                next_output = taps * (turned ? 1 : channels), next_channel = taps * (turned ? outputs : 1);
  const situ__parts_kernels *kernels = kernels_for(g);
  if (g->factor)
    return g->factor + HEAD +
           (panel * situ__ceil_div(channels, GROUP) + group) * taps * kernels->parts * SITU__PARTS_BYTES;
  const situ__parts_weights weights = { .w = (const float *)(const void *)g->w + first * next_output +
                                             group * GROUP * next_channel,
                                        .outputs = situ__min_i64(PANEL, outputs - first),
                                        .next_output = next_output,
                                        .channels = situ__min_i64(groups * GROUP, channels - group * GROUP),
                                        .next_channel = next_channel,
                                        .taps = (int)taps,
                                        .turned = turned,
                                        .to = to };
  return kernels->pack(&weights) ? to : NULL;
}

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
  c->kernels->finish(&(situ__parts_rows){ .sums = sums,
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
    const char *weights = situ__conv_parts_panel(c->g, panel, group, groups, slot);
    if (!weights) return false;
    for (int64_t i = first; i < last; i++)
      c->kernels->multiply(&(situ__parts_product){ .weights = weights,
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

/* The geometry of the pass: the data's gradient is the convolution of that of the result, by turned weights. */
static conv describe(const situ__conv *g) {
  const situ_window *w = g->window;
  conv c = { .g = g,
             .kernels = kernels_for(g),
             .unfold = situ__unfold_kernels_for(SITU_F32),
             .s = situ__conv_sides_of(g),
             .stride = w->stride[0],
             .phases = w->stride[0] == 1 || w->kernel[0] * w->kernel[1] == 1 ? 1 : 4 };
  c.reach = w->dilation[0] * (w->kernel[0] - 1) / c.stride;
  c.ld = c.s.out_width + w->dilation[1] * (w->kernel[1] - 1) / c.stride;
  if (c.stride == 1) c.ld = c.s.width + 2 * c.s.padding[1];
  c.groups = situ__ceil_div(c.s.channels, GROUP);
  c.taps = w->kernel[0] * w->kernel[1];
  c.plain = c.taps == 1 && c.stride == 1 && c.s.padding[0] == 0 && c.s.padding[1] == 0;
  c.step = c.kernels->parts * SITU__PARTS_BYTES;
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

/* False for other strides, few channels or outputs, and where Winograd's transforms are faster. */
static bool suits_weights(const situ__conv *g) {
  const situ_window *w = g->window;
  const bool forward = g->pass == SITU_CONV_FORWARD;
  const int64_t taps = w->kernel[0] * w->kernel[1], channels = forward ? g->channels : g->outputs,
                outputs = forward ? g->outputs : g->channels;
  if (situ__cpu_isa() != SITU__ISA_AMX || g->dtype != SITU_F32 || g->groups != 1) return false;
  if (g->pass == SITU_CONV_GRAD_WEIGHT || w->stride[0] != w->stride[1] || w->stride[0] > 1 + forward) return false;
  const bool winograd = w->kernel[0] == 3 && w->kernel[1] == 3 && w->stride[0] == 1 && channels < MANY;
  if (winograd && !g->narrow) return false;
  /* Planes of 1 x 1 are not copied, so that a last group of zeros costs less. */
  const bool plain = taps == 1 && w->stride[0] == 1 && w->padding[0] == 0 && w->padding[1] == 0 && forward;
  const int64_t whole = situ__round_up(channels, GROUP);
  if (plain) return channels >= FEW_ONES && outputs >= MANY_ONES && 3 * whole <= 4 * channels;
  return taps <= SITU__PARTS_TAPS && outputs >= FEW && whole == channels && (taps > 1 || w->stride[0] == 2);
}

/* Nor for little work, and padding that would outgrow the image. */
bool situ__conv_suits_parts(const situ__conv *g) {
  if (g->last || !suits_weights(g) || (g->factor && !*g->factor)) return false;
  const conv c = describe(g);
  for (int d = 0; d < 2; d++)
    if (c.s.padding[d] < 0 || c.s.padding[d] > (d ? c.s.width : c.s.height) + PADDING) return false;
  return (double)(g->images * c.s.outputs * c.s.channels) * (double)(c.taps * c.s.out_height * c.s.out_width) >= LEAST;
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

bool situ__conv_parts(const situ__conv *g, situ_status *status) {
  static const situ_device cpu = { .kind = SITU_CPU };
  if (!situ__conv_suits_parts(g)) return false;
  conv c = describe(g);
  split_work(&c);
  const size_t offsets = (size_t)situ__round_up(c.depth * c.taps, 8) * sizeof *c.at,
               bytes = offsets + (size_t)(c.block * c.piece);
  const int64_t planes = 2 * (c.row + 4 * LANES),
                panel = c.depth * c.taps * c.step + 4 * (PANEL * c.batch * c.columns + LANES);
  *status = situ__memory_alloc("conv", cpu, bytes, (void **)&c.at);
  if (*status != SITU_OK) return true;
  c.pairs = (char *)c.at + offsets;
  set_offsets(&c);
  *status = situ__slots_open(&c.slots, "conv", (size_t)situ__max_i64(planes, panel),
                             situ__max_i64(c.block * c.groups * LANES, c.panels * situ__ceil_div(c.block, c.batch)));
  if (*status == SITU_OK) run_blocks(&c);
  situ__slots_close(&c.slots);
  situ__memory_free(cpu, c.at, bytes);
  return !c.odd;
}
/* ---- weights that are laid out before ---- */

typedef struct laying {
  conv c;
  char *to;
} laying;

static void lay_out_panels(int64_t begin, int64_t end, void *payload) {
  laying *l = payload;
  const int64_t panel = l->c.groups * l->c.taps * l->c.step;
  for (int64_t i = begin; i < end; i++)
    if (!situ__conv_parts_panel(l->c.g, i, 0, l->c.groups, l->to + HEAD + i * panel))
      __atomic_store_n(&l->c.odd, true, __ATOMIC_RELAXED);
}

bool situ__conv_parts_offers_factor(const situ__conv *g) { return suits_weights(g); }

void situ__conv_parts_factor(const situ__conv *g, char *to) {
  laying l = { .c = describe(g), .to = to };
  situ__parallel(l.c.panels, 1, lay_out_panels, &l);
  *to = !l.c.odd;
}
#else
bool situ__conv_parts_offers_factor(const situ__conv *g) {
  (void)g;
  return false;
}
void situ__conv_parts_factor(const situ__conv *g, char *to) { (void)g, (void)to; }
bool situ__conv_parts(const situ__conv *g, situ_status *status) {
  (void)g, (void)status;
  return false;
}
#endif
