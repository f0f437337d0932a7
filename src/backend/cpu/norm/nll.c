/* Cross entropy with class indices. Given logits, log-softmax is never stored: only each position's logsumexp is, from
   which the gradient is computed in one pass.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/reduce/index.h"
#include "rows.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1024, GRAIN = 16384 };

/* x is [N, C, S]; a position is one (n, s). */
typedef struct plan {
  const situ_view_desc *x, *target, *y, *dx, *g, *logsumexp;
  situ__compute compute;
  size_t size;
  int64_t classes, inner, positions;
  int64_t ignore, reduction;
  bool logits;
  double smoothing, weight_sum, divisor;
  double *weight;       /* [C]; NULL: all 1 */
  void *compute_weight; /* the same in the compute type */
  double *loss, *used;  /* partial sums of each piece of positions: loss and weight */
} plan;

static double weight_of(const plan *p, int64_t c) { return p->weight ? p->weight[c] : 1; }
static int64_t x_at(const plan *p, int64_t position, int64_t c) {
  return (position / p->inner * p->classes + c) * p->inner + position % p->inner;
}

/* Element i of a contiguous view. */
static double value(const situ_view_desc *v, int64_t i) {
  double x;
  if (v->dtype == SITU_F32) return (double)((const float *)(const void *)situ__cpu_data(v))[i];
  situ__cpu_load(v, i, 1, SITU__F64, &x);
  return x;
}

/* ---- loss ---- */

/* Sum over the classes of weight * -log-probability, for label smoothing. */
static double all_classes(const plan *p, int64_t position, double lse) {
  double sum = 0, block[SITU__BLOCK];
  for (int64_t c = 0, count; c < p->classes; c += count) {
    count = p->inner == 1 ? situ__min_i64(SITU__BLOCK, p->classes - c) : 1;
    situ__cpu_load(p->x, x_at(p, position, c), count, SITU__F64, block);
    for (int64_t k = 0; k < count; k++)
      if (weight_of(p, c + k) != 0) sum += weight_of(p, c + k) * (lse - block[k]);
  }
  return sum;
}

static double position_loss(const plan *p, int64_t position, int64_t target, double *used) {
  *used = 0;
  if (target == p->ignore) return 0;
  *used = weight_of(p, target);
  double lse = p->logits ? value(p->logsumexp, position) : 0,
         loss = *used * (lse - value(p->x, x_at(p, position, target)));
  if (p->smoothing == 0) return loss;
  return (1 - p->smoothing) * loss + p->smoothing / (double)p->classes * all_classes(p, position, lse);
}

/* Tree sum, as there may be millions of losses. */
static double total(const double *x, int64_t count) {
  double sum = 0;
  situ__fold_block k = { x, 1, count, 1, 1 };
  if (count) situ__fold_kernels_for(SITU__F64)->fold(SITU__FOLD_SUM, SITU__MAP_NONE, 0, &k, &sum, NULL);
  return sum;
}

static void losses(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  int64_t target[PIECE];
  double loss[PIECE], used[PIECE];
  for (int64_t k = begin; k < end; k++) {
    int64_t at = k * PIECE, count = situ__min_i64(PIECE, p->positions - at);
    situ__cpu_load(p->target, at, count, SITU__I64, target);
    for (int64_t i = 0; i < count; i++) loss[i] = position_loss(p, at + i, target[i], &used[i]);
    p->loss[k] = total(loss, count);
    p->used[k] = total(used, count);
    if (p->reduction == SITU_REDUCTION_NONE) situ__cpu_store(p->y, at, count, SITU__F64, loss);
  }
}

/* The log-softmax of a row that contains Inf is NaN, as in torch, although its logsumexp is Inf. */
static void infinite_is_nan(const situ_view_desc *v) {
  double block[SITU__BLOCK];
  for (int64_t at = 0, count; at < v->numel; at += count) {
    count = situ__min_i64(SITU__BLOCK, v->numel - at);
    situ__cpu_load(v, at, count, SITU__F64, block);
    bool any = false;
    for (int64_t i = 0; i < count; i++) {
      if (block[i] != INFINITY) continue;
      block[i] = NAN;
      any = true;
    }
    if (any) situ__cpu_store(v, at, count, SITU__F64, block);
  }
}

static situ_status forward(plan *p, const situ_work *work) {
  if (p->logits && p->x->numel) {
    situ_view_desc to = *p->logsumexp;
    to.ndim = 3;
    to.size[0] = p->x->size[0], to.size[1] = 1, to.size[2] = p->inner;
    to.stride[0] = to.stride[1] = p->inner, to.stride[2] = 1;
    situ_work sum = { SITU_VERB_REDUCE,
                      .op = SITU_REDUCE_LOGSUMEXP,
                      .compute = (situ_dtype)p->x->dtype,
                      .ins = 1,
                      .outs = 1,
                      .in = { p->x },
                      .out = { &to } };
    situ_status status = situ__cpu_reduce(0, &sum);
    if (status != SITU_OK) return status;
    infinite_is_nan(p->logsumexp);
  }
  int64_t pieces = situ__ceil_div(p->positions, PIECE);
  p->loss = situ__alloc(2 * (size_t)(pieces + 1) * sizeof(double));
  if (!p->loss) return situ__no_memory("cross_entropy", 2 * (size_t)pieces * sizeof(double));
  p->used = p->loss + pieces;
  situ__parallel(pieces, 4, losses, p);
  double loss = total(p->loss, pieces), used = total(p->used, pieces);
  if (p->reduction == SITU_REDUCTION_MEAN) loss /= used; /* 0 / 0 if all positions are ignored: NaN, as in torch */
  if (p->reduction != SITU_REDUCTION_NONE) situ__cpu_store(p->y, 0, 1, SITU__F64, &loss);
  if (work->out[1]) situ__cpu_store(work->out[1], 0, 1, SITU__F64, &used);
  situ__free(p->loss);
  return SITU_OK;
}

/* ---- gradient ---- */

/* Gradient of one position: dx[c] = scale [ softmax(x)[c] all - smooth weight[c] - hit (c is the target) ] with hit =
   (1 - smoothing) weight[target], smooth = smoothing / C and all = hit + smooth sum(weight). */
static double scale_of(const plan *p, int64_t position) {
  double g = value(p->g, p->reduction == SITU_REDUCTION_NONE ? position : 0);
  return p->reduction == SITU_REDUCTION_MEAN ? g / p->divisor : g;
}

static void put_value(const plan *p, void *v, int64_t i, double x) {
  if (p->compute == SITU__F32) ((float *)v)[i] = (float)x;
  else ((double *)v)[i] = x;
}

static void subtract_value(const plan *p, void *v, int64_t i, double x) {
  if (p->compute == SITU__F32) ((float *)v)[i] -= (float)x;
  else ((double *)v)[i] -= x;
}

/* A strip of adjacent positions, with the terms of its gradient. */
typedef struct strip {
  int64_t first, count;
  int64_t target[SITU__COLUMNS];
  /* the last three are arrays of the compute type */
  double hit[SITU__COLUMNS], lse[SITU__COLUMNS], a[SITU__COLUMNS], b[SITU__COLUMNS];
} strip;

/* Writes elements of dx from class c on: of that class for all positions (each), or `count` classes of one position. */
static void part(const plan *p, const strip *s, bool each, int64_t c, int64_t count) {
  double in[SITU__BLOCK], out[SITU__BLOCK];
  int64_t at = x_at(p, s->first, c);
  bool native = situ__cpu_native((situ_dtype)p->x->dtype, p->compute);
  const void *x = native ? situ__cpu_data(p->x) + at * (int64_t)p->size : (char *)in;
  void *y = native ? situ__cpu_data(p->dx) + at * (int64_t)p->size : (char *)out;
  const void *weight = p->weight ? (char *)p->compute_weight + (size_t)c * p->size : NULL;
  if (p->logits) {
    if (!native) situ__cpu_load(p->x, at, count, p->compute, in);
    situ__row_kernels_for(p->compute)->exp_affine(each, x, count, s->lse, s->a, s->b, weight, y);
  } else {
    memset(y, 0, (size_t)count * p->size); /* the loss does not depend on other classes' log-probabilities */
  }
  /* `hit` of an ignored position is 0. */
  if (!each && s->target[0] >= c && s->target[0] < c + count) subtract_value(p, y, s->target[0] - c, s->hit[0]);
  for (int64_t i = 0; each && i < count; i++)
    if (s->target[i] == c) subtract_value(p, y, i, s->hit[i]);
  if (!native) situ__cpu_store(p->dx, at, count, p->compute, y);
}

static void gradient_of(const plan *p, int64_t first, int64_t count) {
  strip s; /* of which a position needs a few bytes: to zero it takes longer than ten classes */
  s.first = first;
  s.count = count;
  double smooth = p->smoothing / (double)p->classes;
  situ__cpu_load(p->target, first, count, SITU__I64, s.target);
  if (p->logits) situ__cpu_load(p->logsumexp, first, count, p->compute, s.lse);
  for (int64_t i = 0; i < count; i++) {
    bool ignored = s.target[i] == p->ignore;
    double scale = ignored ? 0 : scale_of(p, first + i);
    s.hit[i] = ignored ? 0 : scale * (1 - p->smoothing) * weight_of(p, s.target[i]);
    put_value(p, s.a, i, s.hit[i] + scale * smooth * p->weight_sum);
    put_value(p, s.b, i, -scale * smooth);
  }
  if (p->inner == 1)
    for (int64_t c = 0; c < p->classes; c += SITU__BLOCK)
      part(p, &s, false, c, situ__min_i64(SITU__BLOCK, p->classes - c));
  else
    for (int64_t c = 0; c < p->classes; c++) part(p, &s, true, c, count);
}

/* Unit: one n and up to SITU__COLUMNS of its positions. */
static void gradients(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  int64_t strips = situ__ceil_div(p->inner, SITU__COLUMNS);
  for (int64_t u = begin; u < end; u++) {
    int64_t s = u % strips * SITU__COLUMNS;
    gradient_of(p, u / strips * p->inner + s, situ__min_i64(SITU__COLUMNS, p->inner - s));
  }
}

static situ_status backward(plan *p) {
  int64_t strips = situ__ceil_div(p->inner, SITU__COLUMNS), unit = p->classes * situ__min_i64(p->inner, SITU__COLUMNS);
  situ__parallel(p->x->size[0] * strips, situ__max_i64(1, GRAIN / unit), gradients, p);
  return SITU_OK;
}

/* ---- the verb ---- */

static situ_status load_weight(plan *p, const situ_view_desc *weight) {
  p->weight_sum = (double)p->classes;
  if (!weight) return SITU_OK;
  size_t bytes = (size_t)p->classes * (sizeof(double) + p->size);
  p->weight = situ__alloc(bytes);
  if (!p->weight) return situ__no_memory("cross_entropy", bytes);
  p->compute_weight = p->weight + p->classes;
  situ__cpu_load(weight, 0, p->classes, SITU__F64, p->weight);
  situ__cpu_load(weight, 0, p->classes, p->compute, p->compute_weight);
  p->weight_sum = 0;
  for (int64_t c = 0; c < p->classes; c++) p->weight_sum += p->weight[c];
  return SITU_OK;
}

situ_status situ__cpu_nll(int index, const situ_work *work) {
  (void)index;
  int back = work->op == SITU_NLL_GRAD;
  plan p = { .g = back ? work->in[0] : NULL,
             .x = work->in[back],
             .target = work->in[back + 1],
             .ignore = work->integer[0],
             .reduction = work->integer[1],
             .logits = work->integer[2],
             .smoothing = work->scalar[0] };
  p.y = work->out[0], p.dx = work->out[0];
  p.logsumexp = back ? work->in[5] : work->out[2];
  p.compute = situ__cpu_compute((situ_dtype)p.x->dtype);
  if (p.compute == SITU__I64)
    return situ__fail(SITU_E_DTYPE, "cross_entropy", "%s has no logarithm", situ__dtype_name((situ_dtype)p.x->dtype));
  p.size = situ__compute_size(p.compute);
  p.classes = p.x->size[1], p.inner = p.x->size[2], p.positions = p.target->numel;
  if (back && work->in[4]) situ__cpu_load(work->in[4], 0, 1, SITU__F64, &p.divisor);
  char what[48];
  (void)snprintf(what, sizeof what, "%lld classes", (long long)p.classes);
  situ_status status = situ__check_index("cross_entropy", p.target, p.classes, &p.ignore, what);
  if (status == SITU_OK) status = load_weight(&p, work->in[back + 2]);
  if (status == SITU_OK) status = back ? backward(&p) : forward(&p, work);
  situ__free(p.weight);
  return status;
}
