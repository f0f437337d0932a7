/* Convolution of small planes by many windows of 1 x 1: outputs lie in the lanes of vectors, which read panels of
   weights in order, and pixels below each other. The other way round planes that do not fill vectors waste lanes, and
   weights come from far away line by line. Panels are laid out before (SITU_VERB_PREPACK), or by each call.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"
#include "backend/cpu/common/slots.h"
#include "backend/cpu/gemm/packed.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

enum {
  LEAST_WEIGHTS = 1 << 15, /* that do not stay in a cache from one call to the next */
  LEAST_OUTPUTS = 48,
  LEAST_PLANE = 16,
  MOST_PLANE = 256,
  ROWS = 256 /* pixels of the images that are multiplied together: each panel of weights is read once for them */
};

typedef struct conv {
  const situ__conv *g;
  const situ__panels *with;
  int64_t plane, rows; /* pixels of an image; the same, as panels have them */
  int64_t depth;       /* channels of a block */
  int64_t first, images;
  float *x;       /* of those images: block after block of channels */
  const float *w; /* panels: block after block, too */
  situ__slots slots;
} conv;

/* Vectors whose tiles are two wide: of wider ones it was not measured. */
static bool suits_weights(const situ__conv *g) {
  return g->pass == SITU_CONV_FORWARD && situ__conv_is_one(g->window) && g->groups == 1 && g->dtype == SITU_F32 &&
         !situ__panels_of_tiles() && situ__gemm_kernels_for(SITU_F32)->wide == 2 && g->outputs >= LEAST_OUTPUTS &&
         g->outputs * g->channels >= LEAST_WEIGHTS;
}

bool situ__conv_pointwise_offers_prepack(const situ__conv *g) { return suits_weights(g); }

typedef struct laying {
  const situ__conv *g;
  const situ__panels *with;
  float *to;
} laying;

static void lay_out_panels(int64_t begin, int64_t end, void *payload) {
  const laying *l = payload;
  const int64_t columns = l->with->columns, channels = l->g->channels, first = begin * columns,
                outputs = situ__min_i64(end * columns, l->g->outputs) - first,
                depth = situ__even_part(channels, l->with->depth), lanes = situ__round_up(l->g->outputs, columns);
  const float *w = (const float *)(const void *)l->g->w + first * channels;
  for (int64_t k = 0; k < channels; k += depth) {
    const int64_t count = situ__min_i64(depth, channels - k);
    l->with->pack_b(l->to + k * lanes + first * count, w + k, channels, 1, outputs, count);
  }
}

void situ__conv_pointwise_prepack(const situ__conv *g, char *to) {
  laying l = { g, situ__panels_of_vectors(), (float *)(void *)to };
  situ__parallel(situ__ceil_div(g->outputs, l.with->columns), 1, lay_out_panels, &l);
}

static bool suits(const situ__conv *g) {
  const int64_t plane = g->height * g->width;
  return situ__conv_is_plain(g) && suits_weights(g) && plane >= LEAST_PLANE && plane <= MOST_PLANE;
}

static float *x_at(const conv *c, int64_t image, int64_t k) {
  return c->x + k * c->images * c->rows + image * c->rows * situ__min_i64(c->depth, c->g->channels - k);
}

static void pack_images(int64_t begin, int64_t end, void *payload) {
  const conv *c = payload;
  const situ__conv *g = c->g;
  for (int64_t image = begin; image < end; image++)
    for (int64_t k = 0; k < g->channels; k += c->depth) {
      const float *x = (const float *)(const void *)g->x + ((c->first + image) * g->channels + k) * c->plane;
      c->with->pack_a(x_at(c, image, k), x, 1, c->plane, c->plane, situ__min_i64(c->depth, g->channels - k));
    }
}

/* sums [images, plane, columns of a panel] of the outputs from `first` on. */
static void multiply(const conv *c, int64_t first, int64_t outputs, float *sums) {
  const situ__conv *g = c->g;
  const int64_t columns = c->with->columns, lanes = situ__round_up(g->outputs, columns);
  situ__tile t = { .columns = outputs, .a_row = 1, .a_col = c->with->rows, .c_row = columns, .alpha = 1 };
  for (int64_t k = 0; k < g->channels; k += c->depth) {
    t.k = situ__min_i64(c->depth, g->channels - k);
    t.b = c->w + k * lanes + first * t.k;
    t.add = k > 0 || g->bias;
    t.from = k == 0 && g->bias ? (const float *)(const void *)g->bias + first : NULL;
    for (int64_t image = 0; image < c->images; image++) {
      t.a = x_at(c, image, k);
      t.c = sums + image * c->plane * columns;
      c->with->multiply(&t, c->plane);
    }
  }
}

static void run_panels(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  const situ__conv *g = c->g;
  const situ__gemm_kernels *kernels = situ__gemm_kernels_for(SITU_F32);
  const int64_t columns = c->with->columns;
  float *sums = situ__slots_take(&c->slots);
  for (int64_t panel = begin; panel < end; panel++) {
    const int64_t first = panel * columns, outputs = situ__min_i64(columns, g->outputs - first);
    multiply(c, first, outputs, sums);
    for (int64_t image = 0; image < c->images; image++) {
      float *y = (float *)(void *)g->y + ((c->first + image) * g->outputs + first) * c->plane;
      kernels->pack(y, c->plane, sums + image * c->plane * columns, columns, 1, c->plane, outputs);
      situ__conv_relu(g, y, outputs, c->plane, c->plane);
      situ__conv_activate(g, (char *)y, outputs, c->plane, c->plane);
    }
  }
  situ__slots_give(&c->slots, sums);
}

static situ_status run(const situ__conv *g) {
  static const situ_device cpu = { .kind = SITU_CPU };
  conv c = { .g = g, .with = situ__panels_of_vectors(), .plane = g->height * g->width };
  const int64_t panels = situ__ceil_div(g->outputs, c.with->columns);
  c.rows = situ__round_up(c.plane, c.with->rows);
  c.depth = situ__even_part(g->channels, c.with->depth);
  c.images = situ__min_i64(g->images, situ__max_i64(1, ROWS / c.plane));
  const size_t of_x = (size_t)(c.images * c.rows * g->channels) * sizeof *c.x,
               of_w = g->packed_w ? 0 : (size_t)(panels * c.with->columns * g->channels) * sizeof *c.x;
  const size_t sums = (size_t)(c.images * c.plane * c.with->columns) * sizeof *c.x;
  situ_status status = situ__memory_alloc("conv", cpu, of_x + of_w, (void **)&c.x);
  if (status != SITU_OK) return status;
  char *const own = (char *)c.x + of_x;
  c.w = (const float *)(const void *)(g->packed_w ? g->packed_w : own);
  status = situ__slots_open(&c.slots, "conv", sums, panels);
  const int64_t together = c.images;
  if (of_w && status == SITU_OK) situ__conv_pointwise_prepack(g, own);
  for (; c.first < g->images && status == SITU_OK; c.first += together) {
    c.images = situ__min_i64(together, g->images - c.first);
    situ__parallel(c.images, 1, pack_images, &c);
    situ__parallel(panels, 1, run_panels, &c);
  }
  if (status == SITU_OK) situ__slots_close(&c.slots);
  situ__memory_free(cpu, c.x, of_x + of_w);
  return status;
}

const situ__conv_algorithm situ__conv_pointwise = { suits, run };
