/* The weight's gradient by tile registers, each f32 in three parts of bf16. A product of tiles adds up 32 images in one
   place: places, not images, are what the kernel shifts, so that padding is left out instead of multiplied, and strides
   and dilation are steps. Blocks of rows of windows are packed, by all threads, and then multiplied; of the rows of x,
   those that the next block needs, too, stay. A task is 32 outputs and 32 channels. Each sum runs along the images and
   the places in one order. Numbers that do not have three parts are left to another algorithm.
   SPDX-License-Identifier: MIT */
#include "amx.h"
#include "algorithm.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

#ifdef SITU_HAVE_ISA_AMX
extern const situ__amx_kernels situ__amx_kernels_f32;

enum {
  LANES = SITU__AMX_LANES,
  PANEL = SITU__AMX_OUTPUTS, /* outputs, or channels, of a task; images of a group */
  LEAST = 1 << 22,           /* multiply-adds below which they do not pay */
  FEW_IMAGES = 24,           /* below which too much of a group is zeros */
  BLOCK = 3 << 19,           /* bytes that stay in the L2 cache, */
  MOST = 3 << 21,            /* and the most that pay if 32 windows have more */
  ROWS = 32                  /* the most in a block */
};

typedef struct conv {
  const situ__conv *g;
  const situ__amx_kernels *kernels;
  int64_t place, taps;       /* bytes of a place in a panel; elements of the kernel */
  int64_t rows, ring;        /* of windows in a block; of x that are kept */
  int64_t outputs, channels; /* panels */
  int64_t image, images;     /* the group: its first image, how many it has */
  int64_t row, here;         /* the block: its first row of windows, how many it has */
  int64_t packed;            /* the row of x that is packed next */
  bool first, last;          /* of all blocks */
  char *y, *x;               /* [panels, rows, out_width] and [panels, ring, width] places */
  float *sums;               /* [tasks, taps, 32, 32] */
  bool odd;                  /* a number did not have three parts */
} conv;

static void note(conv *c, bool good) {
  if (!good) __atomic_store_n(&c->odd, true, __ATOMIC_RELAXED);
}

/* ---- packing ---- */

/* Where lane i of a panel begins in a place. */
static int64_t lane_at(int64_t i) { return i % PANEL / LANES * 1024 + i % LANES * 64; }

/* Rows of y: images are in the lanes. */
static void pack_y(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  const situ__conv *g = c->g;
  const int64_t windows = g->out_height * g->out_width;
  for (int64_t i = begin; i < end; i++) {
    const int64_t output = i % g->outputs, row = i / g->outputs;
    const float *from =
        (const float *)(const void *)g->y + (c->image * g->outputs + output) * windows + (c->row + row) * g->out_width;
    char *to = c->y + (output / PANEL * c->rows + row) * g->out_width * c->place + lane_at(output);
    note(c, c->kernels->transpose(&(situ__amx_transpose){ .low = from,
                                                          .high = from + LANES * g->outputs * windows,
                                                          .lane = g->outputs * windows,
                                                          .lows = situ__min_i64(LANES, c->images),
                                                          .highs = situ__max_i64(0, c->images - LANES),
                                                          .count = g->out_width,
                                                          .step = c->place,
                                                          .to = to }));
  }
}

/* Rows of x, from the one that is packed next on: 16 channels are in the lanes, of the two images of a pair. */
static void pack_x(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  const situ__conv *g = c->g;
  const int64_t groups = 2 * c->channels, plane = g->height * g->width, image = g->channels * plane;
  for (int64_t i = begin; i < end; i++) {
    const int64_t pair = i % LANES, channel = i / LANES % groups * LANES, row = c->packed + i / LANES / groups;
    const int64_t lanes = situ__max_i64(0, situ__min_i64(LANES, g->channels - channel));
    const float *from =
        (const float *)(const void *)g->x + (c->image + pair) * image + channel * plane + row * g->width;
    char *to = c->x + (channel / PANEL * c->ring + row % c->ring) * g->width * c->place +
               channel % PANEL / LANES * 1024 + pair * 64;
    note(c, c->kernels->transpose(&(situ__amx_transpose){ .low = from,
                                                          .high = from + LANES * image,
                                                          .lane = plane,
                                                          .lows = pair < c->images ? lanes : 0,
                                                          .highs = pair + LANES < c->images ? lanes : 0,
                                                          .count = g->width,
                                                          .step = c->place,
                                                          .to = to }));
  }
}

/* ---- products ---- */

/* The windows of a block for which this element of the kernel is in the image: a run of them in each row. */
static int64_t find_runs(const conv *c, int64_t tap, const char *y, const char *x, situ__amx_run run[ROWS]) {
  const situ__conv *g = c->g;
  const situ_window *w = g->window;
  const int64_t down = tap / w->kernel[1] * w->dilation[0] - w->padding[0],
                across = tap % w->kernel[1] * w->dilation[1] - w->padding[1];
  const int64_t begin = situ__ceil_div(situ__max_i64(0, -across), w->stride[1]),
                end = across >= g->width ? 0
                                         : situ__min_i64(g->out_width, situ__ceil_div(g->width - across, w->stride[1]));
  int64_t runs = 0;
  for (int64_t r = 0; r < c->here && begin < end; r++) {
    const int64_t row = (c->row + r) * w->stride[0] + down;
    if (row < 0 || row >= g->height) continue;
    run[runs++] = (situ__amx_run){ .a = y + (r * g->out_width + begin) * c->place,
                                   .b = x + (row % c->ring * g->width + begin * w->stride[1] + across) * c->place,
                                   .count = end - begin };
  }
  return runs;
}

static void run_tasks(int64_t begin, int64_t end, void *payload) {
  const conv *c = payload;
  const situ__conv *g = c->g;
  situ__amx_run run[ROWS];
  for (int64_t task = begin; task < end; task++) {
    const int64_t output = task % c->outputs * PANEL, channel = task / c->outputs * PANEL;
    const char *y = c->y + task % c->outputs * c->rows * g->out_width * c->place,
               *x = c->x + task / c->outputs * c->ring * g->width * c->place;
    float *sums = c->sums + task * c->taps * PANEL * PANEL;
    for (int64_t tap = 0; tap < c->taps; tap++)
      c->kernels->sum(&(situ__amx_sum){ .run = run,
                                        .runs = find_runs(c, tap, y, x, run),
                                        .a_step = c->place,
                                        .b_step = g->window->stride[1] * c->place,
                                        .sums = sums + tap * PANEL * PANEL,
                                        .add = !c->first });
    if (!c->last) continue;
    c->kernels->unpack(&(situ__amx_unpack){ .sums = sums,
                                            .places = c->taps,
                                            .outputs = situ__min_i64(PANEL, g->outputs - output),
                                            .lanes = situ__min_i64(PANEL, g->channels - channel),
                                            .next_output = g->channels * c->taps,
                                            .next_lane = c->taps,
                                            .to = (float *)(void *)g->w + (output * g->channels + channel) * c->taps });
  }
}

/* ---- splitting the work ---- */

static int64_t ring_of(const situ__conv *g, int64_t rows) {
  const situ_window *w = g->window;
  return situ__min_i64(g->height, (rows - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1);
}

static int64_t block_bytes(const conv *c, int64_t rows) {
  const situ__conv *g = c->g;
  return (rows * g->out_width * c->outputs + ring_of(g, rows) * g->width * c->channels) * c->place;
}

static conv describe(const situ__conv *g) {
  conv c = { .g = g,
             .kernels = &situ__amx_kernels_f32,
             .place = situ__amx_kernels_f32.parts * SITU__AMX_BYTES,
             .taps = g->window->kernel[0] * g->window->kernel[1],
             .outputs = situ__ceil_div(g->outputs, PANEL),
             .channels = situ__ceil_div(g->channels, PANEL) };
  const int64_t most = situ__min_i64(ROWS, g->out_height);
  c.rows = situ__min_i64(most, situ__ceil_div(PANEL, g->out_width));
  while (c.rows < most && block_bytes(&c, c.rows + 1) <= BLOCK) c.rows++;
  c.ring = ring_of(g, c.rows);
  return c;
}

static bool suits(const situ__conv *g) {
  if (situ__cpu_isa() != SITU__ISA_AMX || g->pass != SITU_CONV_GRAD_WEIGHT || g->dtype != SITU_F32) return false;
  if (!situ__conv_is_plain(g) || g->groups != 1 || g->channels < PANEL || g->outputs < PANEL || g->images < FEW_IMAGES)
    return false;
  const conv c = describe(g);
  /* Packing for one element of the kernel takes as long as its products. */
  return c.taps > 1 && c.taps <= SITU__AMX_TAPS && block_bytes(&c, c.rows) <= MOST &&
         (double)(g->images * g->outputs * g->channels) * (double)(c.taps * g->out_height * g->out_width) >= LEAST;
}

/* Packs what the block needs and is not there yet, and adds its products to the sums. */
static void run_block(conv *c) {
  const situ__conv *g = c->g;
  const situ_window *w = g->window;
  const int64_t end = (c->row + c->here - 1) * w->stride[0] - w->padding[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
  const int64_t fresh = situ__min_i64(g->height, end) - c->packed;
  situ__parallel(c->here * g->outputs, situ__max_i64(1, 64 / g->out_width), pack_y, c);
  if (fresh > 0) situ__parallel(fresh * 2 * c->channels * LANES, situ__max_i64(1, 64 / g->width), pack_x, c);
  c->packed += situ__max_i64(0, fresh);
  if (!c->odd) situ__parallel(c->outputs * c->channels, 1, run_tasks, c);
}

static situ_status run(const situ__conv *g) {
  static const situ_device cpu = { .kind = SITU_CPU };
  conv c = describe(g);
  const int64_t of_y = c.outputs * c.rows * g->out_width * c.place, of_x = c.channels * c.ring * g->width * c.place,
                of_sums = c.outputs * c.channels * c.taps * PANEL * PANEL * (int64_t)sizeof(float);
  const situ_status status = situ__memory_alloc("conv", cpu, (size_t)(of_y + of_x + of_sums), (void **)&c.y);
  if (status != SITU_OK) return status;
  c.x = c.y + of_y;
  c.sums = (float *)(void *)(c.x + of_x);
  for (c.image = 0; c.image < g->images && !c.odd; c.image += PANEL) {
    c.images = situ__min_i64(PANEL, g->images - c.image);
    c.packed = 0;
    for (c.row = 0; c.row < g->out_height && !c.odd; c.row += c.rows) {
      c.here = situ__min_i64(c.rows, g->out_height - c.row);
      c.first = c.image == 0 && c.row == 0;
      c.last = c.image + PANEL >= g->images && c.row + c.rows >= g->out_height;
      run_block(&c);
    }
  }
  situ__memory_free(cpu, c.y, (size_t)(of_y + of_x + of_sums));
  return c.odd ? SITU_E_UNSUPPORTED : SITU_OK;
}

const situ__conv_algorithm situ__conv_backward_weight_amx = { suits, run };
#else
const situ__conv_algorithm situ__conv_backward_weight_amx = { NULL, NULL };
#endif
