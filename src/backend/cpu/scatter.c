/* Writing or adding by index. Places that are named several times take in their values in the order of the index, on one
   thread: what is shared between threads is the rest of the shape.
   SPDX-License-Identifier: MIT */
#include "index.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <stdio.h>

enum { GRAIN = 16384, STRIP = 256 };  /* STRIP: elements beside each other that one thread looks after */

typedef struct plan {
  const situ_view_desc *index, *src;
  situ_view_desc        y;            /* without gaps, of the lane: out itself, or a copy that is written back */
  situ__lane            lane;
  int                   dim;
  bool                  add, slices;
  double                alpha;
  int64_t               along;        /* from one index to the next, in y */
  int64_t               outer, count, inner;  /* src as [outer, count, inner], count being its size at dim */
  int64_t               strips;
} plan;

/* y[at[i]] takes in v[i]. */
static void write_f32(float *y, const int64_t *at, const float *v, int64_t count, bool add, float alpha) {
  if (!add) for (int64_t i = 0; i < count; i++) y[at[i]] = v[i];
  else for (int64_t i = 0; i < count; i++) y[at[i]] += alpha * v[i];
}
static void write_f64(double *y, const int64_t *at, const double *v, int64_t count, bool add, double alpha) {
  if (!add) for (int64_t i = 0; i < count; i++) y[at[i]] = v[i];
  else for (int64_t i = 0; i < count; i++) y[at[i]] += alpha * v[i];
}
static void write_i64(uint64_t *y, const int64_t *at, const uint64_t *v, int64_t count, bool add, int64_t alpha) {
  if (!add) for (int64_t i = 0; i < count; i++) y[at[i]] = v[i];
  else for (int64_t i = 0; i < count; i++) y[at[i]] += (uint64_t)alpha * v[i];
}
static void take_in(const plan *p, const int64_t *at, const void *v, int64_t count) {
  void *y = situ__cpu_data(&p->y);
  switch (p->lane) {
  case SITU__F32: write_f32(y, at, v, count, p->add, (float)p->alpha); break;
  case SITU__F64: write_f64(y, at, v, count, p->add, p->alpha); break;
  default: write_i64(y, at, v, count, p->add, (int64_t)p->alpha);
  }
}

/* Where element i of the dimensions before (or after) dim of src lies in y, dim itself aside. */
static int64_t place(const plan *p, int first, int end, int64_t i) {
  int64_t at = 0;
  for (int d = end - 1; d >= first; i /= p->src->size[d--]) at += i % p->src->size[d] * p->y.stride[d];
  return at;
}

/* Single elements along the last dimension: index and src are read in long pieces. */
static void along_last(const plan *p, int64_t outer) {
  int64_t base = place(p, 0, p->dim, outer), at[SITU__BLOCK];
  double values[SITU__BLOCK];
  for (int64_t i = 0, count; i < p->count; i += count) {
    count = situ__min_i64(SITU__BLOCK, p->count - i);
    situ__cpu_load(p->index, (p->slices ? 0 : outer * p->count) + i, count, SITU__I64, at);
    situ__cpu_load(p->src, outer * p->count + i, count, p->lane, values);
    for (int64_t k = 0; k < count; k++) at[k] = base + at[k] * p->along;
    take_in(p, at, values, count);
  }
}

/* A strip of inner elements, one index (or one row of them) after the other. */
static void strip_by_strip(const plan *p, int64_t outer, int64_t first, int64_t columns) {
  int64_t base = place(p, 0, p->dim, outer), beside[STRIP], at[STRIP], index[STRIP];
  double values[STRIP];
  for (int64_t j = 0; j < columns; j++) beside[j] = base + place(p, p->dim + 1, p->src->ndim, first + j);
  for (int64_t i = 0; i < p->count; i++) {
    int64_t from = (outer * p->count + i) * p->inner + first;
    if (p->slices) situ__cpu_load(p->index, i, 1, SITU__I64, index);
    else situ__cpu_load(p->index, from, columns, SITU__I64, index);
    for (int64_t j = 0; j < columns; j++) at[j] = beside[j] + index[p->slices ? 0 : j] * p->along;
    situ__cpu_load(p->src, from, columns, p->lane, values);
    take_in(p, at, values, columns);
  }
}

static void scatter(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  for (int64_t u = begin; u < end; u++) {
    int64_t outer = u / p->strips, first = u % p->strips * STRIP;
    if (p->inner == 1) along_last(p, outer);
    else strip_by_strip(p, outer, first, situ__min_i64(STRIP, p->inner - first));
  }
}

/* A gapless view of y in the lane, with memory of its own. */
static bool copy_in_lane(const situ_view_desc *y, situ__lane lane, situ_storage *memory, situ_view_desc *copy) {
  static const situ_dtype dtype[] = { [SITU__F32] = SITU_F32, [SITU__F64] = SITU_F64, [SITU__I64] = SITU_I64 };
  *copy = *y;
  copy->storage = memory;
  copy->offset = 0;
  copy->dtype = (uint8_t)dtype[lane];
  copy->contiguous = true;
  int64_t step = 1;
  for (int d = y->ndim - 1; d >= 0; step *= y->size[d--]) copy->stride[d] = step;
  memory->bytes = (size_t)y->numel * situ__lane_size(lane);
  memory->data = situ__alloc(memory->bytes);
  if (memory->data) situ__cpu_load(y, 0, y->numel, lane, memory->data);
  return memory->data;
}

situ_status situ__cpu_scatter(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *y = work->out[0];
  plan p = { .index = work->in[0], .src = work->in[1], .y = *y, .dim = (int)work->integer[0], .alpha = work->scalar[0] };
  p.add = work->op & SITU_INDEX_ADD;
  p.slices = !(work->op & SITU_INDEX_ELEMENTS);
  p.lane = situ__cpu_lane((situ_dtype)y->dtype);
  char what[64];
  int64_t bound = y->ndim ? y->size[p.dim] : 1;
  (void)snprintf(what, sizeof what, "dimension %d, whose size is %lld", p.dim, (long long)bound);
  situ_status status = situ__check_index("scatter", p.index, bound, NULL, what);
  if (status != SITU_OK || !p.src->numel) return status;

  situ_storage memory = { 0 };
  bool copied = !y->contiguous || !situ__cpu_native((situ_dtype)y->dtype, p.lane);
  if (copied && !copy_in_lane(y, p.lane, &memory, &p.y)) return situ__no_memory("scatter", memory.bytes);
  /* An index with fewer elements than src names only the first of them. */
  situ_view_desc part = *p.src;
  if (!p.slices) {
    part.numel = p.index->numel;
    part.contiguous = p.src->contiguous && p.src->numel == part.numel;
    for (int d = 0; d < part.ndim; d++) part.size[d] = p.index->size[d];
    p.src = &part;
  }
  situ__lines lines = situ__lines_of(p.src, p.dim);
  p.outer = lines.outer, p.count = lines.size, p.inner = lines.inner;
  p.along = p.y.ndim ? p.y.stride[p.dim] : 1;
  p.strips = situ__ceil_div(p.inner, STRIP);
  int64_t unit = p.count * situ__min_i64(p.inner, STRIP);
  if (unit) situ__parallel(p.outer * p.strips, situ__max_i64(1, GRAIN / unit), scatter, &p);
  if (copied) situ__cpu_store(y, 0, y->numel, p.lane, memory.data);
  situ__free(memory.data);
  return SITU_OK;
}
