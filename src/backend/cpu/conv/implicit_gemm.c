/* Convolution at strides 1 and 2 without unfolding: in a padded image whose rows follow each other, each element of the
   kernel multiplies the same numbers, shifted; at stride 2 the even and the odd rows and columns are 4 such images. So
   the matrix of the product exists only as the offsets of its rows. The sums of windows that reach over the end of a
   row are computed, and left out when results are stored. Tasks depend on the problem alone; each sum runs along the
   channels and the kernel in one order.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"
#include "backend/cpu/common/slots.h"
#include "im2col.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

enum {
  BAND = 1 << 15,  /* elements of a padded band, so that it stays in the L2 cache beside the weights */
  BLOCK_K = 384,   /* rows of the matrix that are multiplied at a time */
  BLOCK_M = 192,   /* outputs beside them */
  TASKS = 16,      /* to split a large problem into: work for several threads */
  TASK = 1 << 20,  /* minimum multiply-adds of a task */
  LEAST_ROWS = 48, /* outputs that are not split further */
  CHUNK = 256,     /* windows of a panel of outputs whose sums stay in the L1 cache until maxima are taken */
  OTHERS = 32      /* channels from which another algorithm may be chosen */
};

typedef struct conv {
  const situ__conv *g;
  const situ__conv_kernels *tiles;
  const situ__im2col_kernels *kernels;
  int64_t elem, depth;   /* bytes of an element; channels times elements of a kernel */
  int64_t step, planes;  /* the stride; padded planes of a channel: 1, or 4 at stride 2 */
  int64_t ld, reach;     /* elements of a padded row; how many rows a window needs after its first */
  int64_t band, bands;   /* rows of results of a task */
  int64_t split, splits; /* outputs of a task */
  int64_t sums;          /* elements of a row of sums */
  int tallest, widest;   /* the highest tile, by its number, and vectors of the widest one of that height */
  /* Offsets and lanes for the rows of a band, and for those of the last one. */
  int64_t *offset[2];
  situ__conv_lanes *mask[2];
  size_t padded; /* bytes of a slot; sums follow if the matrix has more rows than a block, */
  size_t pairs;  /* then the image's rows, if its elements are pairs: where those are */
  int64_t panel; /* of maxima: outputs in the lanes of vectors; else 0 */
  int64_t chunk; /* rows of windows whose maxima are taken together */
  char *panels;  /* the weights: [panels, depth, panel] */
  situ__slots slots;
} conv;

static int64_t band_rows(const conv *c, int64_t at) { return situ__min_i64(c->band, c->g->out_height - at * c->band); }

/* Elements between padded planes of `rows` windows. At stride 2 a vector may be written past the last row. */
static int64_t plane_of(const conv *c, int64_t rows) { return (rows + c->reach) * c->ld + (c->step == 1 ? 0 : 16); }

static void set_offsets(const conv *c, int64_t rows, int64_t *offset) {
  const situ_window *w = c->g->window;
  const int64_t plane = plane_of(c, rows), step = c->step;
  for (int64_t channel = 0; channel < c->g->channels; channel++)
    for (int64_t kh = 0; kh < w->kernel[0]; kh++)
      for (int64_t kw = 0; kw < w->kernel[1]; kw++) {
        const int64_t row = kh * w->dilation[0], column = kw * w->dilation[1], odd = step - 1;
        *offset++ =
            (channel * c->planes + (row & odd) * 2 + (column & odd)) * plane + (row >> odd) * c->ld + (column >> odd);
      }
}

/* Which sums of `rows` padded rows are windows. */
static void set_lanes(const conv *c, int64_t rows, situ__conv_lanes *lanes) {
  int64_t at = 0, column = 0, row = 0;
  for (int64_t first = 0; first < c->sums; first += c->tiles->lanes, lanes++) {
    *lanes = (situ__conv_lanes){ .at = (int32_t)at };
    for (int i = 0; i < c->tiles->lanes; i++) {
      if (row < rows && column < c->g->out_width) {
        lanes->mask |= (uint16_t)(1U << i);
        lanes->count++;
        at++;
      }
      if (++column == c->ld) column = 0, row++;
    }
  }
}

/* y [outputs, windows] = weights times the matrix, plus bias. */
static void multiply(const conv *c, situ__conv_tile full, const situ__conv_lanes *lanes, int64_t outputs,
                     int64_t columns) {
  const int64_t step = c->widest * c->tiles->lanes;
  for (int64_t k = 0; k < c->depth; k += BLOCK_K) {
    const bool complete = k + BLOCK_K >= c->depth;
    for (int64_t m = 0; m < outputs; m += BLOCK_M) {
      for (int64_t j = 0; j < columns; j += step) {
        const int vectors = (int)situ__ceil_div(situ__min_i64(step, columns - j), c->tiles->lanes);
        situ__conv_tile t = full;
        t.k = situ__min_i64(BLOCK_K, c->depth - k);
        t.w = (const char *)full.w + (m * c->depth + k) * c->elem;
        t.x = (const char *)full.x + j * c->elem;
        t.at = full.at + k;
        t.add = k > 0;
        t.sums = (char *)full.sums + (size_t)((m * c->sums + j) * c->elem);
        t.bias = full.bias && k == 0 ? (const char *)full.bias + m * c->elem : NULL;
        t.y = complete ? (char *)full.y + (size_t)(m * full.y_row * c->tiles->y_size) : NULL;
        t.lanes = lanes + j / c->tiles->lanes;
        situ__conv_panel(c->tiles, &t, vectors, situ__min_i64(BLOCK_M, outputs - m), c->tallest, c->elem);
      }
    }
  }
}

/* ---- maxima of results, with outputs in the lanes ---- */

/* Elements of y for so many windows. */
static int64_t results(const conv *c, int64_t windows) { return c->g->pool_2x2 ? windows / 4 : windows; }

static void find_maxima(const conv *c, const situ__conv_tile *t, int64_t first, int64_t outputs, int64_t rows) {
  for (int64_t m = 0; m < outputs; m += c->panel)
    for (int64_t row = 0; row < rows; row += c->chunk) {
      const int64_t to = m * t->y_row + results(c, row * c->g->out_width);
      c->tiles->maxima(&(situ__conv_maxima){ .k = c->depth,
                                             .w = c->panels + (first + m) * c->depth * c->elem,
                                             .x = (const char *)t->x + row * c->ld * c->elem,
                                             .at = t->at,
                                             .ld = c->ld,
                                             .rows = situ__min_i64(c->chunk, rows - row),
                                             .width = c->g->out_width,
                                             .bias = t->bias ? (const char *)t->bias + m * c->elem : NULL,
                                             .sums = t->sums,
                                             .y = (char *)t->y + (size_t)(to * c->elem),
                                             .y_row = t->y_row,
                                             .vectors = (int)(c->panel / c->tiles->lanes),
                                             .relu = t->relu });
    }
}

static void lay_out_panels(int64_t begin, int64_t end, void *payload) {
  const conv *c = payload;
  const int64_t bytes = c->panel * c->depth * c->elem;
  for (int64_t i = begin; i < end; i++)
    c->tiles->maxima_weights(c->g->w + i * bytes, c->depth, (int)(c->panel / c->tiles->lanes), c->panels + i * bytes);
}

/* Outputs of a panel; 0: maxima of results are not offered. */
static int64_t panel_of(const situ__conv *g, const situ__conv_kernels *tiles) {
  const int64_t depth = g->channels * g->window->kernel[0] * g->window->kernel[1], lanes = tiles->lanes;
  if (!tiles->maxima || g->window->stride[0] != 1 || g->outputs % lanes || depth > BLOCK_K) return 0;
  return g->outputs % (2 * lanes) ? lanes : 2 * lanes;
}

/* ---- tasks ---- */

/* The channels of an image, from row `top` on: `height` rows of each, one channel after the other. */
typedef struct planes {
  const char *x;
  int64_t top, height;
} planes;

/* Pairs of channels, of those rows of the image that are among `rows` from `first` on. */
static planes pair_channels(const conv *c, int64_t image, int64_t first, int64_t rows, char *to) {
  const situ__conv *g = c->g;
  const int64_t size = g->height * g->width, top = situ__min_i64(situ__max_i64(first, 0), g->height);
  const planes p = { to, top, situ__max_i64(0, situ__min_i64(first + rows, g->height) - top) };
  const uint16_t *x = (const uint16_t *)(const void *)g->x + image * g->channels_unpaired * size + top * g->width;
  const int64_t count = p.height * g->width;
  for (int64_t i = 0; i < g->channels; i++)
    c->tiles->pair(x + 2 * i * size, 2 * i + 1 < g->channels_unpaired ? x + (2 * i + 1) * size : NULL, count,
                   (uint32_t *)(void *)to + i * count);
  return p;
}

/* Rows of a padded image that are read for so many rows of results. */
static int64_t rows_read(const conv *c, int64_t rows) { return (rows + c->reach) * c->step; }

/* The planes of the windows' rows [row, row + rows). */
static void pad_image(const conv *c, int64_t image, int64_t row, int64_t rows, char *padded) {
  const situ__conv *g = c->g;
  const int64_t plane = plane_of(c, rows), before = g->window->padding[1],
                first = row * c->step - g->window->padding[0];
  const planes p = g->channels_unpaired
                       ? pair_channels(c, image, first, rows_read(c, rows), padded + c->pairs)
                       : (planes){ g->x + image * g->channels * g->height * g->width * c->elem, 0, g->height };
  if (c->step == 1) {
    const situ__pad pad = { .channels = g->channels,
                            .height = p.height,
                            .width = g->width,
                            .row = first - p.top,
                            .rows = rows + c->reach,
                            .left = before,
                            .ld = c->ld };
    c->kernels->pad(&pad, p.x, padded);
    return;
  }
  const situ__split split = { .height = p.height,
                              .width = g->width,
                              .row = first - p.top,
                              .left = before,
                              .rows = rows + c->reach,
                              .line = c->ld,
                              .size = plane,
                              .first = c->planes == 1 };
  for (int64_t channel = 0; channel < g->channels; channel++)
    c->kernels->split(&split, p.x + channel * p.height * g->width * c->elem,
                      padded + (size_t)(channel * c->planes * plane * c->elem));
}

static void run_task(const conv *c, int64_t task, char *padded) {
  const situ__conv *g = c->g;
  const int64_t split = task % c->splits, band = task / c->splits % c->bands, image = task / c->splits / c->bands;
  const int64_t rows = band_rows(c, band), first = image % g->groups * g->outputs + split * c->split,
                outputs = situ__min_i64(c->split, g->outputs - split * c->split),
                out_plane = results(c, g->out_height * g->out_width);
  const int last = rows < c->band;
  const int64_t to =
      (image / g->groups * g->groups * g->outputs + first) * out_plane + results(c, band * c->band * g->out_width);
  const situ__conv_tile full = { .w = g->w + first * c->depth * c->elem,
                                 .w_row = c->depth,
                                 .x = padded,
                                 .at = c->offset[last],
                                 .sums = padded + c->padded,
                                 .sums_row = c->sums,
                                 .bias = g->bias ? g->bias + first * c->elem : NULL,
                                 .y = g->y + to * c->tiles->y_size,
                                 .y_row = out_plane,
                                 .relu = g->relu };
  pad_image(c, image, band * c->band, rows, padded);
  if (c->panel) find_maxima(c, &full, first, outputs, rows);
  else multiply(c, full, c->mask[last], outputs, (rows - 1) * c->ld + g->out_width);
  situ__conv_activate(g, full.y, outputs, rows * g->out_width, out_plane);
}

static void run_tasks(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  char *slot = situ__slots_take(&c->slots);
  for (int64_t task = begin; task < end; task++) run_task(c, task, slot);
  situ__slots_give(&c->slots, slot);
}

static bool suits_maxima(const situ__conv *g) {
  return g->groups * g->channels < OTHERS && panel_of(g, situ__conv_kernels_for(g->dtype)) > 0;
}

static size_t rounded(int64_t elements, int64_t elem) { return (size_t)(elements * elem + 63) / 64 * 64; }

/* Sets the offsets and lanes, in memory for them; NULL: only returns its size. */
static size_t set_tables(conv *c, char *memory) {
  const size_t offsets = rounded(c->depth, sizeof(int64_t)),
               lanes = rounded(c->sums / c->tiles->lanes, sizeof(situ__conv_lanes));
  const int64_t rows[] = { c->band, band_rows(c, c->bands - 1) };
  const int tables = rows[0] == rows[1] ? 1 : 2;
  for (int i = 0; i < tables && memory; i++, memory += offsets + lanes) {
    c->offset[i] = (int64_t *)(void *)memory;
    c->mask[i] = (situ__conv_lanes *)(void *)(memory + offsets);
    set_offsets(c, rows[i], c->offset[i]);
    set_lanes(c, rows[i], c->mask[i]);
  }
  return (size_t)tables * (offsets + lanes);
}

situ_status situ__conv_implicit_gemm(const situ__conv *g) {
  static const situ_device cpu = { .kind = SITU_CPU };
  const situ_window *w = g->window;
  conv c = { .g = g,
             .tiles = g->channels_unpaired ? situ__conv_kernels_for_bf16_pairs() : situ__conv_kernels_for(g->dtype),
             .kernels = situ__im2col_kernels_for(g->dtype),
             .elem = situ__cpu_size(g->dtype),
             .depth = g->channels * w->kernel[0] * w->kernel[1],
             .step = w->stride[0],
             .planes = w->stride[0] == 1 || w->kernel[0] * w->kernel[1] == 1 ? 1 : 4,
             .reach = w->dilation[0] * (w->kernel[0] - 1) / w->stride[0] };
  c.ld = c.step == 1 ? g->width + 2 * w->padding[1] : g->out_width + w->dilation[1] * (w->kernel[1] - 1) / 2;
  const int64_t fit = situ__max_i64(1, BAND / (g->channels * c.ld) - c.reach), images = g->images * g->groups;
  c.bands = situ__ceil_div(g->out_height, situ__min_i64(fit, g->out_height));
  c.panel = g->pool_2x2 ? panel_of(g, c.tiles) : 0;
  c.band = situ__ceil_div(g->out_height, c.bands);
  if (c.panel) c.band = situ__ceil_div(c.band, 2) * 2;
  c.bands = situ__ceil_div(g->out_height, c.band);
  c.split = situ__max_i64(situ__ceil_div(g->outputs, situ__ceil_div(TASKS, images * c.bands)), LEAST_ROWS);
  if (c.panel) c.split = situ__ceil_div(c.split, c.panel) * c.panel;
  c.split = situ__min_i64(g->outputs, c.split);
  c.splits = situ__ceil_div(g->outputs, c.split);
  c.tallest = situ__conv_tallest(c.tiles, g->outputs);
  c.widest = situ__conv_widest(c.tiles, c.tallest);
  const int64_t widest = c.widest * c.tiles->lanes;
  c.sums = situ__ceil_div(c.band * c.ld, widest) * widest;
  /* Tiles read whole vectors past the last window. */
  c.padded = rounded(g->channels * c.planes * plane_of(&c, c.band) + widest, c.elem);
  const int64_t tasks = images * c.bands * c.splits;
  const double cost = (double)(images * g->outputs) * (double)(g->out_height * g->out_width * c.depth) + 1;
  const int64_t grain = situ__max_i64(1, (int64_t)((double)TASK * (double)tasks / cost));
  c.chunk = situ__max_i64(2, CHUNK / g->out_width / 2 * 2);
  const size_t sums = c.panel             ? rounded(c.chunk * g->out_width * c.panel, c.elem)
                      : c.depth > BLOCK_K ? rounded(c.split * c.sums, c.elem)
                                          : 0;
  const size_t tables = set_tables(&c, NULL), panels = c.panel ? rounded(g->groups * g->outputs * c.depth, c.elem) : 0;
  char *memory;
  situ_status status = situ__memory_alloc("conv", cpu, panels + tables, (void **)&memory);
  if (status != SITU_OK) return status;
  c.panels = memory;
  set_tables(&c, memory + panels);
  if (c.panel) situ__parallel(g->groups * g->outputs / c.panel, 1, lay_out_panels, &c);
  const int64_t paired_rows = situ__min_i64(g->height, rows_read(&c, c.band));
  const size_t paired = g->channels_unpaired ? rounded(g->channels * paired_rows * g->width, c.elem) : 0;
  c.pairs = c.padded + sums;
  status = situ__slots_open(&c.slots, "conv", c.padded + sums + paired, situ__ceil_div(tasks, grain));
  if (status == SITU_OK) situ__parallel(tasks, grain, run_tasks, &c);
  situ__slots_close(&c.slots);
  situ__memory_free(cpu, memory, panels + tables);
  return status;
}

static bool suits(const situ__conv *g) {
  if ((g->dtype != SITU_F32 && g->dtype != SITU_F64) || g->channels_last || !situ__conv_suits_offsets(g)) return false;
  return !g->pool_2x2 || (!g->activation && suits_maxima(g));
}

/* Forward, and the maxima of its results. */
const situ__conv_algorithm situ__conv_direct = { suits, situ__conv_implicit_gemm };
