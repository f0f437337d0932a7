/* Convolution by unfolding (im2col): windows become a matrix, band by band, which is multiplied with the weights. Tasks
   and partial sums depend on the problem alone.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/common/slots.h"
#include "im2col.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

#include <string.h>

enum {
  COLUMNS = 1 << 17, /* elements of an unfolded band, so that it stays in the L2 cache */
  TASKS = 16,        /* to split a large problem into: work for several threads */
  TASK = 1 << 20,    /* minimum multiply-adds of a task */
  LEAST_ROWS = 48    /* rows of the unfolded matrix, or of the weights, that are not split further */
};

typedef struct conv {
  situ__conv g;
  const situ__im2col_kernels *kernels;
  int64_t elem;
  char *partial;                       /* partial sums of w's gradient, if the images are split in parts */
  int64_t plane, windows, taps, depth; /* height width; out_height out_width; taps of a kernel; channels taps */
  bool plain;                          /* 1 x 1 windows at stride 1: the matrix is x itself */
  /* outputs (forward) or channels (gradients) of a task, and the number of such tasks */
  int64_t split, splits;
  int64_t band, bands; /* rows of windows that are unfolded at a time */
  int64_t part, parts; /* images whose gradients of w are summed together */
  situ__slots slots;
  size_t columns, scratch; /* bytes of a slot: the unfolded band, then the product's scratch */
} conv;

/* ---- shared by the passes ---- */

static int64_t band_rows(const conv *c, int64_t at) { return situ__min_i64(c->band, c->g.out_height - at * c->band); }

static situ__im2col band_of(const conv *c, int64_t at, int64_t channels) {
  const int64_t rows = band_rows(c, at);
  return (situ__im2col){ .window = c->g.window,
                         .channels = channels,
                         .height = c->g.height,
                         .width = c->g.width,
                         .out_width = c->g.out_width,
                         .row = at * c->band,
                         .rows = rows,
                         .ld = situ__ceil_div(rows * c->g.out_width, 16) * 16 };
}

static char *at(char *base, int64_t index, int64_t elem) { return base + index * elem; }

/* Sets count elements at `to` to bias[index], or to 0. */
static void fill(const conv *c, char *to, int64_t index, int64_t count) {
  if (!c->g.bias) {
    memset(to, 0, (size_t)(count * c->elem));
  } else if (c->g.dtype == SITU_F64) {
    for (int64_t i = 0; i < count; i++) ((double *)(void *)to)[i] = ((const double *)(void *)c->g.bias)[index];
  } else {
    for (int64_t i = 0; i < count; i++) ((float *)(void *)to)[i] = ((const float *)(void *)c->g.bias)[index];
  }
}

static void run_gemm(const conv *c, const situ__gemm *g, char *slot) {
  situ__gemm_run(g, c->scratch ? slot + c->columns : NULL);
}

/* ---- forward: y = w columns + bias ---- */

static situ__gemm forward_gemm(const conv *c, int64_t outputs, int64_t rows) {
  const int64_t n = rows * c->g.out_width;
  return (situ__gemm){ .dtype = c->g.dtype,
                       .m = outputs,
                       .n = n,
                       .k = c->depth,
                       .a_row = c->depth,
                       .a_col = 1,
                       .b_row = c->plain ? c->plane : situ__ceil_div(n, 16) * 16,
                       .b_col = 1,
                       .c_row = c->windows,
                       .alpha = 1,
                       .add = c->g.bias != NULL };
}

static void forward(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  char *slot = situ__slots_take(&c->slots);
  for (int64_t task = begin; task < end; task++) {
    const int64_t split = task % c->splits, band = task / c->splits % c->bands;
    const int64_t group = task / c->splits / c->bands % c->g.groups, image = task / c->splits / c->bands / c->g.groups;
    const int64_t first = group * c->g.outputs + split * c->split, row = band * c->band;
    const int64_t outputs = situ__min_i64(c->split, c->g.outputs - split * c->split);
    situ__gemm g = forward_gemm(c, outputs, band_rows(c, band));
    const char *x = at(c->g.x, (image * c->g.groups + group) * c->g.channels * c->plane, c->elem);
    if (c->plain) {
      g.b = x + row * c->g.width * c->elem;
    } else {
      const situ__im2col u = band_of(c, band, c->g.channels);
      c->kernels->im2col(&u, x, slot);
      g.b = slot;
    }
    g.a = at(c->g.w, first * c->depth, c->elem);
    g.c = at(c->g.y, (image * c->g.groups * c->g.outputs + first) * c->windows + row * c->g.out_width, c->elem);
    for (int64_t o = 0; o < outputs && c->g.bias; o++) fill(c, at(g.c, o * c->windows, c->elem), first + o, g.n);
    run_gemm(c, &g, slot);
    situ__conv_relu(&c->g, g.c, outputs, g.n, c->windows);
    situ__conv_activate(&c->g, g.c, outputs, g.n, c->windows);
  }
  situ__slots_give(&c->slots, slot);
}

/* ---- gradient of x: columns = w^T g, folded ---- */

static situ__gemm data_gemm(const conv *c, int64_t channels, int64_t rows) {
  const int64_t n = rows * c->g.out_width;
  return (situ__gemm){ .dtype = c->g.dtype,
                       .m = channels * c->taps,
                       .n = n,
                       .k = c->g.outputs,
                       .a_row = 1,
                       .a_col = c->depth,
                       .b_row = c->windows,
                       .b_col = 1,
                       .c_row = c->plain ? c->plane : situ__ceil_div(n, 16) * 16,
                       .alpha = 1,
                       .add = c->plain };
}

static void grad_data(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  char *slot = situ__slots_take(&c->slots);
  for (int64_t task = begin; task < end; task++) {
    const int64_t split = task % c->splits, group = task / c->splits % c->g.groups,
                  image = task / c->splits / c->g.groups;
    const int64_t first = split * c->split, channels = situ__min_i64(c->split, c->g.channels - first);
    const int64_t channel = group * c->g.channels + first;
    char *x = at(c->g.x, (image * c->g.groups * c->g.channels + channel) * c->plane, c->elem);
    for (int64_t i = 0; i < channels; i++) fill(c, at(x, i * c->plane, c->elem), channel + i, c->plane);
    for (int64_t band = 0; band < c->bands; band++) {
      situ__gemm g = data_gemm(c, channels, band_rows(c, band));
      const int64_t column = band * c->band * c->g.out_width;
      g.a = at(c->g.w, group * c->g.outputs * c->depth + first * c->taps, c->elem);
      g.b = at(c->g.y, (image * c->g.groups + group) * c->g.outputs * c->windows + column, c->elem);
      g.c = c->plain ? at(x, column, c->elem) : slot;
      run_gemm(c, &g, slot);
      if (c->plain) continue;
      const situ__im2col u = band_of(c, band, channels);
      c->kernels->col2im(&u, slot, x);
    }
  }
  situ__slots_give(&c->slots, slot);
}

/* ---- gradient of w: g columns^T, summed over the images ---- */

static situ__gemm weight_gemm(const conv *c, int64_t channels, int64_t rows) {
  const int64_t k = rows * c->g.out_width;
  return (situ__gemm){ .dtype = c->g.dtype,
                       .m = c->g.outputs,
                       .n = channels * c->taps,
                       .k = k,
                       .a_row = c->windows,
                       .a_col = 1,
                       .b_row = 1,
                       .b_col = c->plain ? c->plane : situ__ceil_div(k, 16) * 16,
                       .c_row = c->depth,
                       .alpha = 1 };
}

static void grad_weight(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  char *slot = situ__slots_take(&c->slots);
  for (int64_t task = begin; task < end; task++) {
    const int64_t split = task % c->splits, group = task / c->splits % c->g.groups,
                  part = task / c->splits / c->g.groups;
    const int64_t first = split * c->split, channels = situ__min_i64(c->split, c->g.channels - first);
    char *sums = c->parts > 1 ? at(c->partial, part * c->g.groups * c->g.outputs * c->depth, c->elem) : c->g.w;
    const int64_t last = situ__min_i64((part + 1) * c->part, c->g.images);
    for (int64_t image = part * c->part; image < last; image++) {
      const char *x = at(c->g.x, ((image * c->g.groups + group) * c->g.channels + first) * c->plane, c->elem);
      for (int64_t band = 0; band < c->bands; band++) {
        situ__gemm g = weight_gemm(c, channels, band_rows(c, band));
        const int64_t column = band * c->band * c->g.out_width;
        g.a = at(c->g.y, (image * c->g.groups + group) * c->g.outputs * c->windows + column, c->elem);
        g.c = at(sums, group * c->g.outputs * c->depth + first * c->taps, c->elem);
        g.add = image > part * c->part || band > 0;
        if (c->plain) {
          g.b = x + column * c->elem;
        } else {
          const situ__im2col u = band_of(c, band, channels);
          c->kernels->im2col(&u, x, slot);
          g.b = slot;
        }
        run_gemm(c, &g, slot);
      }
    }
  }
  situ__slots_give(&c->slots, slot);
}

/* ---- splitting the work ---- */

/* Size of at least `pieces` equal pieces of count, each at least `least`. */
static int64_t piece(int64_t count, int64_t pieces, int64_t least) {
  return situ__min_i64(count, situ__max_i64(situ__ceil_div(count, pieces), least));
}

/* Bands whose columns, of `channels` channels, fit in the cache; of 1 x 1 the results, if a function is applied to
   them. */
static void split_bands(conv *c, int64_t channels) {
  const int64_t depth = c->plain ? c->g.outputs : channels * c->taps;
  const bool full = c->plain && !c->g.activation;
  const int64_t fit = full ? c->g.out_height : situ__max_i64(1, COLUMNS / (depth * c->g.out_width));
  c->bands = situ__ceil_div(c->g.out_height, situ__min_i64(fit, c->g.out_height));
  c->band = situ__ceil_div(c->g.out_height, c->bands);
  c->bands = situ__ceil_div(c->g.out_height, c->band);
}

static int64_t split_work(conv *c) {
  const situ_conv_pass pass = c->g.pass;
  const int64_t least = situ__ceil_div(LEAST_ROWS, c->taps);
  c->part = c->g.images;
  c->parts = 1;
  if (pass == SITU_CONV_FORWARD) {
    split_bands(c, c->g.channels);
    c->split = piece(c->g.outputs, situ__ceil_div(TASKS, c->g.images * c->g.groups * c->bands), LEAST_ROWS);
    c->splits = situ__ceil_div(c->g.outputs, c->split);
    return c->g.images * c->g.groups * c->bands * c->splits;
  }
  c->split =
      piece(c->g.channels, situ__ceil_div(TASKS, c->g.groups * (pass == SITU_CONV_GRAD_DATA ? c->g.images : 1)), least);
  if (!c->plain) c->split = situ__max_i64(1, situ__min_i64(c->split, COLUMNS / (c->taps * c->g.out_width)));
  c->splits = situ__ceil_div(c->g.channels, c->split);
  split_bands(c, c->split);
  if (pass == SITU_CONV_GRAD_DATA) return c->g.images * c->g.groups * c->splits;
  c->part = piece(c->g.images, situ__ceil_div(TASKS, c->g.groups * c->splits), 1);
  c->parts = situ__ceil_div(c->g.images, c->part);
  return c->parts * c->g.groups * c->splits;
}

/* Scratch for the products: of whole pieces and of those at the ends, which may use another algorithm. */
static size_t gemm_scratch(const conv *c) {
  const situ_conv_pass pass = c->g.pass;
  situ__gemm (*const gemm[])(const conv *, int64_t, int64_t) = { forward_gemm, data_gemm, weight_gemm };
  const int64_t all = pass == SITU_CONV_FORWARD ? c->g.outputs : c->g.channels;
  size_t most = 0;
  for (int corner = 0; corner < 4; corner++) {
    const situ__gemm g = gemm[pass](c, corner & 1 ? all - (c->splits - 1) * c->split : c->split,
                                    band_rows(c, corner & 2 ? c->bands - 1 : 0));
    const size_t bytes = situ__gemm_scratch(&g);
    if (bytes > most) most = bytes;
  }
  return most;
}

static bool suits(const situ__conv *g) { return situ__conv_is_plain(g); }

static situ_status run(const situ__conv *geometry) {
  static const situ__range_fn task[] = { forward, grad_data, grad_weight };
  static const situ_device cpu = { .kind = SITU_CPU };
  const situ_window *w = geometry->window;
  conv full = { .g = *geometry,
                .kernels = situ__im2col_kernels_for(geometry->dtype),
                .elem = situ__cpu_size(geometry->dtype) },
       *c = &full;
  c->plane = c->g.height * c->g.width;
  c->windows = c->g.out_height * c->g.out_width;
  c->taps = w->kernel[0] * w->kernel[1];
  c->depth = c->g.channels * c->taps;
  /* A transposed convolution's result may have more places than windows: output_padding. */
  c->plain = situ__conv_is_one(w) && c->g.height == c->g.out_height && c->g.width == c->g.out_width;
  const int64_t tasks = split_work(c);
  const double cost = (double)(c->g.images * c->g.groups * c->g.outputs) * (double)(c->windows * c->depth) + 1;
  const int64_t grain = situ__max_i64(1, (int64_t)((double)TASK * (double)tasks / cost));
  const situ__im2col u = band_of(c, 0, c->g.pass == SITU_CONV_FORWARD ? c->g.channels : c->split);
  c->columns = c->plain ? 0 : (size_t)(u.channels * c->taps * u.ld * c->elem);
  const size_t partial = c->parts > 1 ? (size_t)(c->parts * c->g.groups * c->g.outputs * c->depth * c->elem) : 0;
  situ_status status = partial ? situ__memory_alloc("conv", cpu, partial, (void **)&c->partial) : SITU_OK;
  if (status != SITU_OK) return status;
  c->scratch = gemm_scratch(c);
  status = situ__slots_open(&c->slots, "conv", c->columns + c->scratch, situ__ceil_div(tasks, grain));
  if (status == SITU_OK) situ__parallel(tasks, grain, task[c->g.pass], c);
  situ__slots_close(&c->slots);
  if (!partial) return status;
  if (status == SITU_OK)
    situ__conv_add_parts(c->g.dtype, c->partial, c->parts, c->g.groups * c->g.outputs * c->depth, c->g.w);
  situ__memory_free(cpu, c->partial, partial);
  return status;
}

const situ__conv_algorithm situ__conv_im2col = { suits, run };
