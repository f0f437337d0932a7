/* What a piece of work reads, writes and computes, as profiles tell it.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/dtype.h"
#include "device/device.h"
#include "device/profile/profile.h"

/* ---- bytes ---- */

static uint64_t size_of(const situ_view_desc *v) { return situ__dtype_size((situ_dtype)v->dtype); }

/* Elements in memory: a broadcast dimension has one. */
static uint64_t elements(const situ_view_desc *v) {
  uint64_t count = v->numel > 0;
  for (int d = 0; count && d < v->ndim; d++)
    if (v->stride[d]) count *= (uint64_t)v->size[d];
  return count;
}

static uint64_t bytes_of(const situ_view_desc *v) { return v ? elements(v) * size_of(v) : 0; }

/* Parameter and state are read and written, the gradient is read. */
static uint64_t bytes_of_step(const situ_optimizer_item *x) {
  uint64_t bytes = 2 * bytes_of(x->param) + bytes_of(x->grad);
  for (int k = 0; k < 3; k++) bytes += 2 * bytes_of(x->state[k]);
  return bytes;
}

uint64_t situ__work_bytes(const situ_work *work) {
  uint64_t bytes = 0;
  for (int i = 0; i < work->ins; i++) bytes += bytes_of(work->in[i]);
  for (int i = 0; i < work->outs; i++) bytes += bytes_of(work->out[i]);
  /* Of what it picks from, a gather reads as much as it writes; a scatter writes what it reads. */
  if (work->verb == SITU_VERB_GATHER) bytes += bytes_of(work->out[0]) - bytes_of(work->in[0]);
  if (work->verb == SITU_VERB_SCATTER) bytes += bytes_of(work->in[1]) - bytes_of(work->out[0]);
  for (int64_t i = 0; i < work->list_count; i++) bytes += bytes_of_step(&work->list[i]);
  for (int64_t i = 0; i < work->pack_count; i++)
    bytes += (uint64_t)work->pack[i].numel * situ__dtype_size(work->pack[i].dtype);
  return bytes;
}

/* ---- operations ---- */

static double last(const situ_view_desc *v) { return v->ndim ? (double)v->size[v->ndim - 1] : 1; }
static double all(const situ_view_desc *v) { return (double)v->numel; }

/* Scores of one row of queries: a causal query i sees keys 0..i. */
static double scores_of(double queries, double keys, bool causal) {
  if (!causal) return queries * keys;
  const double square = queries < keys ? queries : keys;
  return square * (square + 1) / 2 + (queries - square) * keys;
}

static double of_attention(const situ_work *work) {
  const situ_view_desc *q = work->in[0], *k = work->in[1], *v = work->in[2];
  const double queries = (double)q->size[q->ndim - 2], keys = (double)k->size[k->ndim - 2];
  const double scores = all(q) / (queries * last(q)) * scores_of(queries, keys, work->integer[0] == 1);
  return work->op == SITU_ATTENTION ? 2 * scores * (last(q) + last(v)) : 2 * scores * (3 * last(q) + 2 * last(v));
}

/* Each place of the side y is the product of a window of x with the filter of its channel. */
static double of_conv(const situ_work *work) {
  const bool of_weight = work->op == SITU_CONV_GRAD_WEIGHT;
  const situ_view_desc *y = work->op == SITU_CONV_FORWARD ? work->out[0] : work->in[of_weight ? 1 : 0],
                       *w = of_weight ? work->out[0] : work->in[1];
  const double windows = all(y) * (work->op == SITU_CONV_FORWARD && work->integer[1] ? 4 : 1);
  return 2 * windows * all(w) / (double)w->size[0];
}

/* 5 n log2 n for each line of n complex numbers, half of it where one side is real (Cooley and Tukey's count). */
static double of_fft(const situ_work *work) {
  const int64_t dim = work->integer[0];
  const bool real = work->op == SITU_FFT_REAL;
  const situ_view_desc *x = real ? work->in[0] : work->out[0];
  const double n = (double)x->size[dim], numbers = work->op == SITU_FFT_COMPLEX ? all(x) / 2 : all(x);
  return n > 1 ? (work->op == SITU_FFT_COMPLEX ? 5 : 2.5) * numbers * log2(n) : 0;
}

static double of_elements(const situ_work *work) {
  double most = 0;
  for (int i = 0; i < work->ins; i++)
    if (work->in[i]) most = fmax(most, all(work->in[i]));
  for (int i = 0; i < work->outs; i++)
    if (work->out[i]) most = fmax(most, all(work->out[i]));
  for (int64_t i = 0; i < work->list_count; i++) most += all(work->list[i].param);
  return most;
}

double situ__work_operations(const situ_work *work) {
  switch (work->verb) {
  case SITU_VERB_COPY:
  case SITU_VERB_PACK:
  case SITU_VERB_PREPACK:
  case SITU_VERB_LINALG: return 0;
  case SITU_VERB_MATMUL: return 2 * all(work->out[0]) * last(work->in[0]);
  case SITU_VERB_LINEAR:
    return work->op == SITU_LINEAR ? 2 * all(work->out[0]) * last(work->in[0])
                                   : 2 * all(work->out[0]) * (double)work->in[0]->size[0];
  case SITU_VERB_BLOCKS: return work->op == SITU_BLOCKS_LINEAR ? 2 * all(work->out[0]) * last(work->in[0]) : 0;
  case SITU_VERB_INTEGER:
    return 2 * all(work->out[0]) *
           (work->op == SITU_INTEGER_MATMUL ? last(work->in[0]) : all(work->in[1]) / (double)work->in[1]->size[0]);
  case SITU_VERB_CONV: return of_conv(work);
  case SITU_VERB_ATTENTION: return of_attention(work);
  case SITU_VERB_FFT: return of_fft(work);
  default: return of_elements(work);
  }
}
