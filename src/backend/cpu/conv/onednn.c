/* Convolution by oneDNN in its blocked layouts: images are reordered before and after, a few at a time, each batch of
   them on one thread. Batches and partial sums depend on the problem alone.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"
#include "dnnl.h"
#include "backend/cpu/common/slots.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

#include <string.h>

enum {
  TASKS = 16,         /* batches to split a large problem into */
  WINDOWS = 256,      /* minimum windows of a batch, so that its fixed cost does not matter */
  SUM_WINDOWS = 1024, /* the same for batches that have their own sums */
  SMALL = 1 << 18,    /* multiply-adds below which reordering costs too much */
  FEW_IN = 3,
  FEW_OUT = 6,  /* channels below which blocked layouts are mostly padding */
  FEW_ONES = 48 /* channels below which shifting, which needs stride 1, is as fast */
};

typedef struct conv {
  const situ__conv *g;
  situ__dnnl *d; /* for one batch */
  int64_t batch, batches;
  size_t partial; /* bytes of the sums of a batch (gradient of w) */
  char *fixed;    /* w in the wanted layout (NULL: w itself), or the sums */
  situ__slots slots;
  bool failed;
} conv;

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Address of image n of x or y. */
static char *image(const situ__conv *g, bool output, int64_t n) {
  const int64_t size = output ? g->outputs * g->out_height * g->out_width : g->channels * g->height * g->width;
  return (output ? g->y : g->x) + (size_t)(n * g->groups * size) * sizeof(float);
}

/* The operand in the wanted layout: in place, or reordered into *scratch, which is advanced. */
static void *arrange_operand(const situ__dnnl *d, int operand, void *from, char **scratch, bool *good) {
  const size_t bytes = situ__dnnl_bytes(d, operand);
  if (bytes == 0) return from;
  char *to = *scratch;
  *scratch += rounded(bytes);
  *good = *good && situ__dnnl_arrange(d, operand, from, to);
  return to;
}

/* y = x + bias of the channel, or relu of it. */
static inline float finished(const situ__conv *g, float x, int64_t channel) {
  const float y = g->bias ? x + ((const float *)(const void *)g->bias)[channel] : x;
  return g->relu && y < 0 ? 0 : y;
}

static void finish_images(const situ__conv *g, char *to, int64_t images, bool output) {
  const int64_t channels = g->groups * (output ? g->outputs : g->channels),
                size = output ? g->out_height * g->out_width : g->height * g->width;
  float *y = (float *)(void *)to;
  if (g->channels_last) {
    for (int64_t i = 0; i < images * size; i++)
      for (int64_t k = 0; k < channels; k++) y[i * channels + k] = finished(g, y[i * channels + k], k);
    return;
  }
  for (int64_t i = 0; i < images * channels; i++)
    for (int64_t k = 0; k < size; k++) y[i * size + k] = finished(g, y[i * size + k], i % channels);
}

/* Forward, or gradient of x: maps images of one to images of the other. */
static bool map_images(const conv *c, int64_t first, char *scratch) {
  const bool forward = c->g->pass == SITU_CONV_FORWARD;
  const int64_t plane = c->g->out_height * c->g->out_width;
  const size_t bytes = situ__dnnl_bytes(c->d, SITU__DNNL_RESULT);
  bool good = true;
  char *to = image(c->g, forward, first);
  void *operand[SITU__DNNL_OPERANDS] = { NULL };
  operand[0] = arrange_operand(c->d, 0, image(c->g, !forward, first), &scratch, &good);
  operand[1] = c->fixed ? c->fixed : c->g->w;
  operand[SITU__DNNL_RESULT] = bytes ? scratch : to;
  good = good && situ__dnnl_run(c->d, operand, scratch + rounded(bytes)) &&
         (!bytes || situ__dnnl_arrange(c->d, SITU__DNNL_RESULT, scratch, to));
  if (good && (c->g->bias || c->g->relu)) finish_images(c->g, to, c->batch, forward);
  if (good) situ__conv_activate(c->g, to, 1, c->batch * c->g->groups * c->g->outputs * plane, 0);
  return good;
}

/* Gradient of w over some images, in oneDNN's layout. */
static bool sum_images(const conv *c, int64_t first, char *sums, char *scratch) {
  bool good = true;
  void *operand[SITU__DNNL_OPERANDS] = { NULL };
  operand[0] = arrange_operand(c->d, 0, image(c->g, false, first), &scratch, &good);
  operand[1] = arrange_operand(c->d, 1, image(c->g, true, first), &scratch, &good);
  operand[SITU__DNNL_RESULT] = sums;
  return good && situ__dnnl_run(c->d, operand, scratch);
}

static void batches(int64_t begin, int64_t end, void *payload) {
  conv *c = payload;
  char *scratch = situ__slots_take(&c->slots);
  for (int64_t i = begin; i < end; i++) {
    const bool good = c->partial ? sum_images(c, i * c->batch, c->fixed + (size_t)i * c->partial, scratch)
                                 : map_images(c, i * c->batch, scratch);
    if (!good) __atomic_store_n(&c->failed, true, __ATOMIC_RELAXED);
  }
  situ__slots_give(&c->slots, scratch);
}

/* Adds the sums of all batches, in order, to the first. */
static void add_partials(int64_t begin, int64_t end, void *payload) {
  const conv *c = payload;
  float *to = (float *)(void *)c->fixed;
  for (int64_t i = 1; i < c->batches; i++) {
    const float *from = (const float *)(void *)(c->fixed + (size_t)i * c->partial);
    for (int64_t k = begin; k < end; k++) to[k] += from[k];
  }
}

/* Bytes of a slot: a batch's reordered operands, and the primitive's scratch. */
static size_t scratch_bytes(const conv *c, bool sums) {
  return rounded(situ__dnnl_scratch(c->d)) + rounded(situ__dnnl_bytes(c->d, 0)) +
         rounded(situ__dnnl_bytes(c->d, sums ? 1 : SITU__DNNL_RESULT));
}

static situ_status run_batches(conv *c) {
  const situ__conv *g = c->g;
  const situ_device cpu = { .kind = SITU_CPU };
  const bool sums = g->pass == SITU_CONV_GRAD_WEIGHT;
  const size_t plain =
      (size_t)(g->groups * g->outputs * g->channels * g->window->kernel[0] * g->window->kernel[1]) * sizeof(float);
  const size_t wanted = situ__dnnl_bytes(c->d, sums ? SITU__DNNL_RESULT : 1);
  c->partial = sums ? rounded(wanted ? wanted : plain) : 0;
  const size_t bytes = sums ? c->partial * (size_t)c->batches : wanted;
  situ_status status = bytes ? situ__memory_alloc("conv", cpu, bytes, (void **)&c->fixed) : SITU_OK;
  if (status != SITU_OK) return status;
  status = situ__slots_open(&c->slots, "conv", scratch_bytes(c, sums), c->batches);
  if (status == SITU_OK) {
    c->failed = !sums && wanted && !situ__dnnl_arrange(c->d, 1, g->w, c->fixed);
    situ__parallel(c->batches, 1, batches, c);
    if (sums) {
      situ__parallel((int64_t)(c->partial / sizeof(float)), 1 << 14, add_partials, c);
      if (!wanted) memcpy(g->w, c->fixed, plain);
      else if (!situ__dnnl_arrange(c->d, SITU__DNNL_RESULT, c->fixed, g->w)) c->failed = true;
    }
  }
  situ__slots_close(&c->slots);
  if (bytes) situ__memory_free(cpu, c->fixed, bytes);
  return c->failed ? situ__fail(SITU_E_NOMEM, "conv", "oneDNN could not run the convolution: out of memory") : status;
}

/* False where shifting or unfolding is as fast or faster: few channels, 1 x 1, one image, little work. */
static bool pays(const situ__conv *g) {
  const situ_window *w = g->window;
  const double work = (double)(g->images * g->groups * g->outputs) *
                      (double)(g->out_height * g->out_width * g->channels * w->kernel[0] * w->kernel[1]);
  const bool one = w->kernel[0] * w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1;
  if (g->dtype != SITU_F32 || g->pool_2x2 || (g->images < 2 && !g->channels_last) || (one && !g->channels_last) ||
      work < SMALL)
    return false;
  const int64_t in = g->groups * g->channels, out = g->groups * g->outputs;
  if (g->channels_last) return true; /* nothing is reordered */
  switch (g->pass) {
  case SITU_CONV_FORWARD: return in >= (w->stride[0] == 1 && w->stride[1] == 1 ? FEW_ONES : FEW_IN) && out >= FEW_OUT;
  case SITU_CONV_GRAD_DATA: return in >= FEW_OUT;
  default: return true;
  }
}

/* All batches have one size, as a smaller last one could need another layout. */
static int64_t batch_of(const situ__conv *g) {
  const bool sums = g->pass == SITU_CONV_GRAD_WEIGHT;
  const int64_t windows = g->out_height * g->out_width;
  int64_t batch =
      situ__max_i64(situ__ceil_div(g->images, TASKS), situ__ceil_div(sums ? SUM_WINDOWS : WINDOWS, windows));
  batch = situ__min_i64(batch, g->images);
  while (g->images % batch) batch += sums ? 1 : -1;
  return batch;
}

/* Operands that are channels_last are offered to ops only where this algorithm takes them. */
static bool suits(const situ__conv *g) {
  if (!pays(g)) return false;
  situ__dnnl *d = g->channels_last ? situ__dnnl_conv(g, batch_of(g)) : NULL;
  situ__dnnl_close(d);
  return d || (!g->channels_last && situ__dnnl_is_there());
}

static situ_status run(const situ__conv *g) {
  conv c = { .g = g, .batch = batch_of(g) };
  c.batches = g->images / c.batch;
  if (!(c.d = situ__dnnl_conv(g, c.batch))) return SITU_E_UNSUPPORTED;
  const situ_status status = run_batches(&c);
  situ__dnnl_close(c.d);
  return status;
}

const situ__conv_algorithm situ__conv_onednn = { suits, run };
