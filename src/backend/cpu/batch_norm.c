/* Batch norm over [N, C, S]: statistics of each channel over N and S.
   SPDX-License-Identifier: MIT */
#include "rows.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 16384, PIECE = 32768 };

/* With S > 1 a channel's elements form runs of S; with S == 1 rows hold all channels. Per-channel vectors, in the
   compute type, are in one allocation. */
typedef struct plan {
  const situ_view_desc *g, *x, *y;
  situ__lane lane;
  size_t size;
  const situ__row_kernels *kernels;
  int64_t batch, channels, inner, pieces, piece; /* piece: the part of the batch that is summed at once */
  char *mean, *rstd, *factor, *shift, *c;
  char *sums; /* [pieces][sum, dot][channels] */
} plan;

static double get_value(const plan *p, const char *v, int64_t i) {
  return p->lane == SITU__F32 ? (double)((const float *)(const void *)v)[i] : ((const double *)(const void *)v)[i];
}
static void put_value(const plan *p, char *v, int64_t i, double x) {
  if (p->lane == SITU__F32) ((float *)(void *)v)[i] = (float)x;
  else ((double *)(void *)v)[i] = x;
}
/* Channel c's value of an optional [C] operand. */
static double given(const situ_view_desc *v, int64_t c, double otherwise) {
  double x = otherwise;
  if (v) situ__cpu_load(v, c, 1, SITU__F64, &x);
  return x;
}
static void store_value(const situ_view_desc *v, int64_t c, double x) {
  if (v) situ__cpu_store(v, c, 1, SITU__F64, &x);
}

/* Pointer to elements [first, + count) of v: in place, or converted into buffer. */
static const char *elements(const plan *p, const situ_view_desc *v, int64_t first, int64_t count, void *buffer) {
  if (situ__cpu_native((situ_dtype)v->dtype, p->lane)) return situ__cpu_data(v) + first * (int64_t)p->size;
  situ__cpu_load(v, first, count, p->lane, buffer);
  return buffer;
}

/* Called for up to SITU__FOLD_BLOCK elements of one channel (with S == 1: of adjacent channels). */
typedef void (*visit)(const plan *p, int64_t first, int64_t count, int64_t channel, void *payload);

static void each_run(const plan *p, int64_t n, int64_t channel, int64_t channels, visit fn, void *payload) {
  int64_t from = (n * p->channels + channel) * p->inner, length = p->inner == 1 ? channels : p->inner;
  for (int64_t i = 0; i < length; i += SITU__FOLD_BLOCK)
    fn(p, from + i, situ__min_i64(SITU__FOLD_BLOCK, length - i), p->inner == 1 ? channel + i : channel, payload);
}

/* ---- forward ---- */

static void normalise(const plan *p, int64_t first, int64_t count, int64_t channel, void *payload) {
  double in[SITU__FOLD_BLOCK], out[SITU__FOLD_BLOCK];
  size_t at = (size_t)channel * p->size;
  bool native = situ__cpu_native((situ_dtype)p->y->dtype, p->lane);
  const char *x = elements(p, p->x, first, count, in);
  void *y = native ? situ__cpu_data(p->y) + first * (int64_t)p->size : (char *)out;
  if (!p->g) {
    p->kernels->affine(p->inner == 1, x, count, p->mean + at, p->factor + at, p->shift + at, y);
  } else {
    double gradient[SITU__FOLD_BLOCK];
    const char *g = elements(p, p->g, first, count, gradient);
    p->kernels->affine_grad(p->inner == 1, g, x, count, p->mean + at, p->factor + at, p->shift + at, p->c + at, y);
  }
  if (!native) situ__cpu_store(p->y, first, count, p->lane, y);
  (void)payload;
}

/* Unit: one batch item and one channel, or all channels if S == 1. */
static void normalise_units(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  for (int64_t u = begin; u < end; u++) {
    if (p->inner == 1) each_run(p, u, 0, p->channels, normalise, NULL);
    else each_run(p, u / p->channels, u % p->channels, 1, normalise, NULL);
  }
}

static void write_all(plan *p) {
  int64_t length = p->inner == 1 ? p->channels : p->inner;
  if (!p->x->numel) return;
  situ__parallel(p->x->numel / length, situ__max_i64(1, GRAIN / length), normalise_units, p);
}

/* Computes each channel's mean and sum of squared deviations, into p->mean and p->rstd. */
static situ_status moments(plan *p) {
  situ_storage mean = { .data = p->mean }, squares = { .data = p->rstd };
  situ_view_desc to = { .storage = &mean,
                        .dtype = p->lane == SITU__F32 ? SITU_F32 : SITU_F64,
                        .ndim = 3,
                        .numel = p->channels,
                        .contiguous = true,
                        .size = { 1, p->channels, 1 },
                        .stride = { p->channels, 1, 1 } },
                 to2 = to;
  to2.storage = &squares;
  return situ__reduce(&(situ__reduction){
      .op = "batch_norm", .lane = p->lane, .fold = SITU__FOLD_MOMENTS, .x = p->x, .y = &to, .y2 = &to2 });
}

static situ_status forward(plan *p, const situ_work *work) {
  bool training = work->integer[0];
  double eps = work->scalar[0], momentum = work->scalar[1], n = (double)(p->batch * p->inner);
  const situ_view_desc *weight = work->in[1], *bias = work->in[2], *mean = work->in[3], *var = work->in[4];
  if (training) {
    if (!p->x->numel) return situ__fail(SITU_E_ARG, "batch_norm", "no elements have no statistics");
    situ_status status = moments(p);
    if (status != SITU_OK) return status;
  }
  for (int64_t c = 0; c < p->channels; c++) {
    double m = training ? get_value(p, p->mean, c) : given(mean, c, 0),
           squares = training ? get_value(p, p->rstd, c) : 0;
    double v = training ? squares / n : given(var, c, 1), rstd = 1 / sqrt(v + eps);
    if (training && work->out[3]) {
      store_value(work->out[3], c, (1 - momentum) * given(mean, c, 0) + momentum * m);
      store_value(work->out[4], c, (1 - momentum) * given(var, c, 1) + momentum * squares / (n - 1));
    }
    put_value(p, p->mean, c, m);
    store_value(work->out[1], c, m);
    store_value(work->out[2], c, rstd);
    put_value(p, p->factor, c, rstd * given(weight, c, 1));
    put_value(p, p->shift, c, given(bias, c, 0));
  }
  write_all(p);
  return SITU_OK;
}

/* ---- backward ---- */

static void add_sums(const plan *p, int64_t first, int64_t count, int64_t channel, void *payload) {
  double g[SITU__FOLD_BLOCK], x[SITU__FOLD_BLOCK];
  size_t at = (size_t)channel * p->size;
  char *sums = payload;
  p->kernels->sums(p->inner == 1, elements(p, p->g, first, count, g), elements(p, p->x, first, count, x), count,
                   p->mean + at, sums + at, sums + (size_t)p->channels * p->size + at);
}

/* Unit: a piece of the batch, of one channel or of all. */
static void sum_units(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  int64_t channels = p->inner == 1 ? p->channels : 1, units = p->channels / channels;
  for (int64_t u = begin; u < end; u++) {
    int64_t k = u / units, c = u % units, last = situ__min_i64((k + 1) * p->piece, p->batch);
    char *sums = p->sums + 2 * (size_t)(k * p->channels) * p->size;
    for (int64_t n = k * p->piece; n < last; n++) each_run(p, n, c, channels, add_sums, sums);
  }
}

static situ_status backward(plan *p, const situ_work *work) {
  bool training = work->integer[0];
  double n = (double)(p->batch * p->inner);
  int64_t length = situ__max_i64(1, p->inner == 1 ? p->channels : p->inner);
  p->piece = situ__max_i64(1, PIECE / length);
  p->pieces = situ__max_i64(1, situ__ceil_div(p->batch, p->piece));
  size_t row = (size_t)p->channels * p->size, bytes = (2 * (size_t)p->pieces + 2) * row;
  p->sums = situ__calloc(bytes, 1);
  if (!p->sums) return situ__no_memory("batch_norm", bytes);
  for (int64_t c = 0; c < p->channels; c++) {
    put_value(p, p->mean, c, given(work->in[2], c, 0));
    put_value(p, p->rstd, c, given(work->in[3], c, 1));
  }
  situ__parallel(p->pieces * p->channels / (p->inner == 1 ? p->channels : 1),
                 situ__max_i64(1, GRAIN / (p->piece * length)), sum_units, p);
  situ__fold_block k = { p->sums, 1, p->pieces, 2 * p->channels, 2 * p->channels };
  char *sum = p->sums + 2 * (size_t)p->pieces * row, *dot = sum + row;
  situ__fold_kernels_for(p->lane)->fold(SITU__FOLD_SUM, SITU__MAP_NONE, 0, &k, sum, NULL);
  for (int64_t c = 0; c < p->channels; c++) {
    double rstd = get_value(p, p->rstd, c), factor = rstd * given(work->in[4], c, 1), s = get_value(p, sum, c),
           d = get_value(p, dot, c);
    /* dx = factor (g - mean(g) - (x - mean) rstd^2 mean(g (x - mean))); with fixed statistics, factor g. */
    put_value(p, p->factor, c, factor);
    put_value(p, p->shift, c, training ? factor * rstd * rstd * d / n : 0);
    put_value(p, p->c, c, training ? factor * s / n : 0);
    store_value(work->out[1], c, d * rstd);
    store_value(work->out[2], c, s);
  }
  if (p->y) write_all(p);
  situ__free(p->sums);
  return SITU_OK;
}

situ_status situ__cpu_batch_norm(int index, const situ_work *work) {
  (void)index;
  bool back = work->op == SITU_BATCH_NORM_GRAD;
  plan p = { .g = back ? work->in[0] : NULL, .x = work->in[back ? 1 : 0], .y = work->out[0] };
  p.lane = situ__cpu_lane((situ_dtype)p.x->dtype);
  if (p.lane == SITU__I64)
    return situ__fail(SITU_E_DTYPE, "batch_norm", "%s has no norm", situ__dtype_name((situ_dtype)p.x->dtype));
  p.size = situ__lane_size(p.lane);
  p.kernels = situ__row_kernels_for(p.lane);
  p.batch = p.x->size[0], p.channels = p.x->size[1], p.inner = p.x->size[2];
  size_t row = (size_t)p.channels * p.size;
  char *memory = situ__calloc(5, row);
  if (!memory) return situ__no_memory("batch_norm", 5 * row);
  p.mean = memory, p.rstd = memory + row, p.factor = memory + 2 * row, p.shift = memory + 3 * row,
  p.c = memory + 4 * row;
  situ_status status = back ? backward(&p, work) : forward(&p, work);
  situ__free(memory);
  return status;
}
