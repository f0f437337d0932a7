/* Batch norm over [N, C, S]: statistics of each channel over N and S. Group norm: of each group of channels of each
   sample, whose channels count as N C channels of one sample, with the weights of C.
   SPDX-License-Identifier: MIT */
#include "rows.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { GRAIN = 16384, PIECE = 32768, CACHED = 1 << 17 };

/* With S > 1 a channel's elements form runs of S; with S == 1 rows hold all channels. Per-channel vectors, in the
   compute type, are in one allocation. */
typedef struct plan {
  const situ_view_desc *g, *x, *y;
  situ__compute compute;
  size_t size;
  bool in_place; /* no operand needs a conversion */
  const situ__row_kernels *kernels;
  int64_t batch, channels, inner, pieces, piece; /* piece: the part of the batch that is summed at once */
  int64_t weights, group; /* number of weights, which repeat; adjacent channels of one mean and variance */
  int64_t repeat;         /* with S == 1: rows that are normalised in one call, each by its own copy of the vectors */
  char *mean, *rstd, *factor, *shift, *c;
  char *sums;      /* of g and of g (x - mean): [pieces][sum, dot][channels] */
  char *sum, *dot; /* of all pieces: [channels] each, one behind the other */
} plan;

static double get_value(const plan *p, const char *v, int64_t i) {
  return p->compute == SITU__F32 ? (double)((const float *)(const void *)v)[i] : ((const double *)(const void *)v)[i];
}
static void put_value(const plan *p, char *v, int64_t i, double x) {
  if (p->compute == SITU__F32) ((float *)(void *)v)[i] = (float)x;
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

static bool native(const plan *p, const situ_view_desc *v) {
  return !v || situ__cpu_native((situ_dtype)v->dtype, p->compute);
}
static char *at_element(const plan *p, const situ_view_desc *v, int64_t first) {
  return situ__cpu_data(v) + first * (int64_t)p->size;
}

/* Called for up to SITU__FOLD_BLOCK elements of one channel (with S == 1: of adjacent channels). */
typedef void (*visit)(const plan *p, int64_t first, int64_t count, int64_t channel, void *payload);

static void each_run(const plan *p, int64_t n, int64_t channel, int64_t channels, visit fn, void *payload) {
  int64_t from = (n * p->channels + channel) * p->inner, length = p->inner == 1 ? channels : p->inner;
  for (int64_t i = 0; i < length; i += SITU__FOLD_BLOCK)
    fn(p, from + i, situ__min_i64(SITU__FOLD_BLOCK, length - i), p->inner == 1 ? channel + i : channel, payload);
}

/* ---- forward ---- */

static void normalise_run(const plan *p, const void *g, const void *x, int64_t count, int64_t channel, void *y) {
  const size_t at = (size_t)channel * p->size;
  const bool each = p->inner == 1;
  if (g) p->kernels->affine_grad(each, g, x, count, p->mean + at, p->factor + at, p->shift + at, p->c + at, y);
  else p->kernels->affine(each, x, count, p->mean + at, p->factor + at, p->shift + at, y);
}
static SITU__OWN_FRAME void normalise_converted(const plan *p, int64_t first, int64_t count, int64_t channel) {
  _Alignas(64) double g[SITU__FOLD_BLOCK], x[SITU__FOLD_BLOCK], y[SITU__FOLD_BLOCK];
  if (p->g) situ__cpu_load(p->g, first, count, p->compute, g);
  situ__cpu_load(p->x, first, count, p->compute, x);
  normalise_run(p, p->g ? g : NULL, x, count, channel, y);
  situ__cpu_store(p->y, first, count, p->compute, y);
}
static void normalise(const plan *p, int64_t first, int64_t count, int64_t channel, void *payload) {
  (void)payload;
  if (p->in_place)
    normalise_run(p, p->g ? at_element(p, p->g, first) : NULL, at_element(p, p->x, first), count, channel,
                  at_element(p, p->y, first));
  else normalise_converted(p, first, count, channel);
}

/* Unit: one batch item and one channel, or all channels of `repeat` items if S == 1. */
static void normalise_units(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  for (int64_t u = begin; u < end; u++) {
    const int64_t n = u * p->repeat, items = situ__min_i64(p->repeat, p->batch - n);
    if (p->inner != 1) each_run(p, u / p->channels, u % p->channels, 1, normalise, NULL);
    else if (p->repeat == 1) each_run(p, n, 0, p->channels, normalise, NULL);
    else normalise(p, n * p->channels, items * p->channels, 0, NULL);
  }
}

static void repeat_vectors(const plan *p) {
  const size_t row = (size_t)p->channels * p->size;
  char *const vector[] = { p->mean, p->factor, p->shift, p->c };
  for (int64_t i = 1; i < p->repeat; i++)
    for (int k = 0; k < 4; k++) memcpy(vector[k] + (size_t)i * row, vector[k], row);
}

static void write_all(plan *p) {
  if (!p->x->numel) return;
  repeat_vectors(p);
  const int64_t length = p->inner == 1 ? p->channels * p->repeat : p->inner;
  situ__parallel(situ__ceil_div(p->x->numel, length), situ__max_i64(1, GRAIN / length), normalise_units, p);
}

/* Computes the mean and the sum of squared deviations of groups [first, end), into p->c and p->rstd. */
static situ_status moments(const plan *p, int64_t first, int64_t end) {
  const int64_t all = p->channels / p->group, groups = end - first, width = p->group * p->inner;
  situ_view_desc x = *p->x;
  x.ndim = 3;
  x.size[0] = p->batch, x.size[1] = groups, x.size[2] = width;
  x.stride[0] = all * width, x.stride[1] = width, x.stride[2] = 1;
  x.offset += first * width;
  x.numel = p->batch * groups * width;
  x.contiguous = p->batch == 1 || groups == all;
  situ_storage mean = { .data = p->c }, squares = { .data = p->rstd };
  situ_view_desc to = { .storage = &mean,
                        .dtype = p->compute == SITU__F32 ? SITU_F32 : SITU_F64,
                        .ndim = 3,
                        .offset = first,
                        .numel = groups,
                        .contiguous = true,
                        .size = { 1, groups, 1 },
                        .stride = { groups, 1, 1 } },
                 to2 = to;
  to2.storage = &squares;
  return situ__reduce(&(situ__reduction){
      .op = "batch_norm", .compute = p->compute, .fold = SITU__FOLD_MOMENTS, .x = &x, .y = &to, .y2 = &to2 });
}

/* Channel c is normalised by this mean and variance. */
static void set_channel(const plan *p, const situ_work *work, int64_t c, double mean, double rstd) {
  put_value(p, p->mean, c, mean);
  put_value(p, p->factor, c, rstd * given(work->in[1], c % p->weights, 1));
  put_value(p, p->shift, c, given(work->in[2], c % p->weights, 0));
}

static void set_groups(const plan *p, const situ_work *work, const situ_view_desc *const *fixed, int64_t first,
                       int64_t end) {
  const double eps = work->scalar[0], n = (double)(p->batch * p->group * p->inner);
  for (int64_t k = first; k < end; k++) {
    const double mean = fixed ? given(fixed[0], k, 0) : get_value(p, p->c, k),
                 var = fixed ? given(fixed[1], k, 1) : get_value(p, p->rstd, k) / n, rstd = 1 / sqrt(var + eps);
    store_value(work->out[1], k, mean);
    store_value(work->out[2], k, rstd);
    for (int64_t c = k * p->group; c < (k + 1) * p->group; c++) set_channel(p, work, c, mean, rstd);
  }
}

typedef struct some_groups {
  const plan *p;
  const situ_work *work;
  atomic_int status;
} some_groups;

static void normalise_groups(int64_t begin, int64_t end, void *payload) {
  some_groups *s = payload;
  const plan *p = s->p;
  const situ_status status = moments(p, begin, end);
  if (status != SITU_OK) {
    atomic_store(&s->status, status);
    return;
  }
  set_groups(p, s->work, NULL, begin, end);
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t c = begin * p->group; c < end * p->group; c++) each_run(p, n, c, 1, normalise, NULL);
}

/* Normalises by the statistics of x, or by `fixed` ones: mean and variance. Groups that fit into a core's cache are
   normalised from there. */
static situ_status forward(plan *p, const situ_work *work, const situ_view_desc *const *fixed) {
  const int64_t groups = p->channels / p->group, width = p->batch * p->group * p->inner;
  if (!fixed && p->inner > 1 && p->x->numel && width <= CACHED) {
    some_groups s = { p, work, SITU_OK };
    situ__parallel(groups, situ__max_i64(1, 2 * GRAIN / width), normalise_groups, &s);
    return (situ_status)atomic_load(&s.status);
  }
  const situ_status status = fixed ? SITU_OK : moments(p, 0, groups);
  if (status != SITU_OK) return status;
  set_groups(p, work, fixed, 0, groups);
  write_all(p);
  return SITU_OK;
}

/* The running statistics of a batch norm, by the moments of its batch. */
static void update_running(const plan *p, const situ_work *work) {
  const double momentum = work->scalar[1], n = (double)(p->batch * p->inner);
  for (int64_t c = 0; work->out[3] && c < p->channels; c++) {
    store_value(work->out[3], c, (1 - momentum) * given(work->in[3], c, 0) + momentum * get_value(p, p->c, c));
    store_value(work->out[4], c,
                (1 - momentum) * given(work->in[4], c, 0) + momentum * get_value(p, p->rstd, c) / (n - 1));
  }
}

/* ---- backward ---- */

static void add_sums_of(const plan *p, const void *g, const void *x, int64_t count, int64_t channel, char *sums) {
  const size_t at = (size_t)channel * p->size;
  p->kernels->sums(p->inner == 1, g, x, count, p->mean + at, sums + at, sums + (size_t)p->channels * p->size + at);
}
static SITU__OWN_FRAME void add_sums_converted(const plan *p, int64_t first, int64_t count, int64_t channel,
                                               char *sums) {
  _Alignas(64) double g[SITU__FOLD_BLOCK], x[SITU__FOLD_BLOCK];
  situ__cpu_load(p->g, first, count, p->compute, g);
  situ__cpu_load(p->x, first, count, p->compute, x);
  add_sums_of(p, g, x, count, channel, sums);
}
static void add_sums(const plan *p, int64_t first, int64_t count, int64_t channel, void *payload) {
  if (p->in_place) add_sums_of(p, at_element(p, p->g, first), at_element(p, p->x, first), count, channel, payload);
  else add_sums_converted(p, first, count, channel, payload);
}

static void add_piece(const plan *p, int64_t k, int64_t channel, int64_t channels) {
  const int64_t last = situ__min_i64((k + 1) * p->piece, p->batch);
  char *sums = p->sums + 2 * (size_t)(k * p->channels) * p->size;
  for (int64_t n = k * p->piece; n < last; n++) each_run(p, n, channel, channels, add_sums, sums);
}

/* Unit: a piece of the batch, of one channel or of all. */
static void sum_units(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  const int64_t channels = p->inner == 1 ? p->channels : 1, units = p->channels / channels;
  for (int64_t u = begin; u < end; u++) add_piece(p, u / units, u % units, channels);
}

/* Adds up the pieces' sums of g and of g (x - mean): of some columns of [sum, dot][channels]. */
static void add_pieces(const plan *p, int64_t column, int64_t columns) {
  const size_t at = (size_t)column * p->size;
  const situ__fold_block k = { p->sums + at, 1, p->pieces, columns, 2 * p->channels };
  situ__fold_kernels_for(p->compute)->fold(SITU__FOLD_SUM, SITU__MAP_NONE, 0, &k, p->sum + at, NULL);
}

/* dx = factor g - mean(factor g) - (x - mean) rstd^2 mean(factor g (x - mean)); with fixed statistics, factor g. */
static void set_group_gradient(const plan *p, const situ_work *work, bool fixed, int64_t k) {
  const double n = (double)(p->batch * p->group * p->inner), rstd = given(work->in[3], k, 1);
  double s = 0, d = 0;
  for (int64_t c = k * p->group; c < (k + 1) * p->group; c++) {
    const double factor = rstd * given(work->in[4], c % p->weights, 1);
    s += factor * get_value(p, p->sum, c);
    d += factor * rstd * rstd * get_value(p, p->dot, c);
    put_value(p, p->factor, c, factor);
  }
  for (int64_t c = k * p->group; c < (k + 1) * p->group; c++) {
    put_value(p, p->shift, c, fixed ? 0 : d / n);
    put_value(p, p->c, c, fixed ? 0 : s / n);
  }
}

static void set_weight_gradients(const plan *p, const situ_work *work) {
  for (int64_t w = 0; w < p->weights; w++) {
    double s = 0, d = 0;
    for (int64_t c = w; c < p->channels; c += p->weights) {
      s += get_value(p, p->sum, c);
      d += get_value(p, p->dot, c) * given(work->in[3], c / p->group, 1);
    }
    store_value(work->out[1], w, d);
    store_value(work->out[2], w, s);
  }
}

static void backward_groups(int64_t begin, int64_t end, void *payload) {
  const some_groups *s = payload;
  const plan *p = s->p;
  for (int64_t k = begin; k < end; k++) {
    const int64_t first = k * p->group, last = first + p->group;
    for (int64_t i = 0; i < p->pieces; i++)
      for (int64_t c = first; c < last; c++) add_piece(p, i, c, 1);
    add_pieces(p, first, p->group);
    add_pieces(p, p->channels + first, p->group);
    set_group_gradient(p, s->work, false, k);
    for (int64_t n = 0; n < p->batch; n++)
      for (int64_t c = first; c < last; c++) each_run(p, n, c, 1, normalise, NULL);
  }
}

/* Groups whose gradients and elements fit into a core's cache are read once, as in forward. */
static situ_status backward(plan *p, const situ_work *work, bool fixed) {
  const int64_t groups = p->channels / p->group, width = p->batch * p->group * p->inner;
  const int64_t length = situ__max_i64(1, p->inner == 1 ? p->channels : p->inner);
  p->piece = situ__max_i64(1, PIECE / length);
  p->pieces = situ__max_i64(1, situ__ceil_div(p->batch, p->piece));
  size_t row = (size_t)p->channels * p->size, bytes = (2 * (size_t)p->pieces + 2) * row;
  p->sums = situ__calloc(bytes, 1);
  if (!p->sums) return situ__no_memory("batch_norm", bytes);
  p->sum = p->sums + 2 * (size_t)p->pieces * row, p->dot = p->sum + row;
  for (int64_t c = 0; c < p->channels; c++) put_value(p, p->mean, c, given(work->in[2], c / p->group, 0));
  if (!fixed && p->y && p->inner > 1 && p->x->numel && 2 * width <= CACHED) {
    some_groups s = { p, work, SITU_OK };
    situ__parallel(groups, situ__max_i64(1, GRAIN / width), backward_groups, &s);
  } else {
    situ__parallel(p->pieces * p->channels / (p->inner == 1 ? p->channels : 1),
                   situ__max_i64(1, GRAIN / (p->piece * length)), sum_units, p);
    add_pieces(p, 0, 2 * p->channels);
    for (int64_t k = 0; k < groups; k++) set_group_gradient(p, work, fixed, k);
    if (p->y) write_all(p);
  }
  set_weight_gradients(p, work);
  situ__free(p->sums);
  return SITU_OK;
}

/* x as [batch, channels, inner], and a vector of the channels for each need. */
static situ_status begin(plan *p, const situ_work *work, const char *op, bool back) {
  *p = (plan){ .g = back ? work->in[0] : NULL, .x = work->in[back ? 1 : 0], .y = work->out[0], .group = 1 };
  p->compute = situ__cpu_compute((situ_dtype)p->x->dtype);
  if (p->compute == SITU__I64)
    return situ__fail(SITU_E_DTYPE, op, "%s has no norm", situ__dtype_name((situ_dtype)p->x->dtype));
  p->size = situ__compute_size(p->compute);
  p->in_place = native(p, p->g) && native(p, p->x) && native(p, p->y);
  p->kernels = situ__row_kernels_for(p->compute);
  p->batch = p->x->size[0], p->channels = p->weights = p->x->size[1], p->inner = p->x->size[2];
  return SITU_OK;
}

static situ_status take_vectors(plan *p, const char *op) {
  const int64_t fit = p->inner == 1 ? SITU__FOLD_BLOCK / situ__max_i64(1, p->channels) : 1;
  p->repeat = situ__max_i64(1, situ__min_i64(fit, p->batch));
  const size_t row = (size_t)(p->channels * p->repeat) * p->size;
  char *memory = situ__calloc(5, row);
  if (!memory) return situ__no_memory(op, 5 * row);
  p->mean = memory, p->rstd = memory + row, p->factor = memory + 2 * row, p->shift = memory + 3 * row,
  p->c = memory + 4 * row;
  return SITU_OK;
}

situ_status situ__cpu_batch_norm(int index, const situ_work *work) {
  (void)index;
  const char *op = "batch_norm";
  const bool back = work->op == SITU_BATCH_NORM_GRAD, training = work->integer[0] != 0;
  plan p;
  situ_status status = begin(&p, work, op, back);
  if (status == SITU_OK && !back && training && !p.x->numel)
    status = situ__fail(SITU_E_ARG, op, "no elements have no statistics");
  if (status != SITU_OK || (status = take_vectors(&p, op)) != SITU_OK) return status;
  status = back ? backward(&p, work, !training) : forward(&p, work, training ? NULL : &work->in[3]);
  if (status == SITU_OK && !back && training) update_running(&p, work);
  situ__free(p.mean);
  return status;
}

situ_status situ__cpu_group_norm(int index, const situ_work *work) {
  (void)index;
  const char *op = "group_norm";
  const bool back = work->op == SITU_GROUP_NORM_GRAD;
  plan p;
  situ_status status = begin(&p, work, op, back);
  if (status != SITU_OK) return status;
  p.group = p.channels / work->integer[0];
  p.channels *= p.batch;
  p.batch = 1;
  if ((status = take_vectors(&p, op)) != SITU_OK) return status;
  status = back ? backward(&p, work, false) : forward(&p, work, NULL);
  situ__free(p.mean);
  return status;
}
