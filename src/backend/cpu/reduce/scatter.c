/* Writes or adds by index, all of which is checked before anything is written, unless the result is discarded then.
   Elements that are named several times take their values in the order of the index, on one thread: threads share the
   other dimensions.
   SPDX-License-Identifier: MIT */
#include "index.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <stdio.h>

enum { GRAIN = 16384, STRIP = 256 }; /* STRIP: adjacent elements that one thread processes */

typedef struct plan {
  const situ_view_desc *index, *src;
  situ_view_desc y; /* contiguous, of the compute type: out itself, or a copy that is written back */
  situ__compute compute;
  int dim;
  bool add, slices;
  double alpha;
  int64_t along;               /* stride in y from one index to the next */
  int64_t outer, count, inner; /* src as [outer, count, inner], where count is its size at dim */
  int64_t strips;
  int64_t bound; /* of indices that are checked just before their use; 0: they were before */
  atomic_bool bad;
} plan;

/* Stores or adds v[i] to y[at[i] * along]; without `at`, to y[i]. */
#define TAKE_IN(name, type, factor)                                                                                    \
  static void name(type *restrict y, const int64_t *restrict at, int64_t along, const type *restrict v, int64_t count, \
                   bool add, factor alpha) {                                                                           \
    if (at && add)                                                                                                     \
      for (int64_t i = 0; i < count; i++) y[at[i] * along] += alpha * v[i];                                            \
    else if (at)                                                                                                       \
      for (int64_t i = 0; i < count; i++) y[at[i] * along] = v[i];                                                     \
    else if (add)                                                                                                      \
      for (int64_t i = 0; i < count; i++) y[i] += alpha * v[i];                                                        \
    else                                                                                                               \
      for (int64_t i = 0; i < count; i++) y[i] = v[i];                                                                 \
  }
TAKE_IN(take_in_f32, float, float)
TAKE_IN(take_in_f64, double, double)
TAKE_IN(take_in_i64, uint64_t, uint64_t)

static void take_in(const plan *p, int64_t base, const int64_t *at, int64_t along, const void *v, int64_t count) {
  void *y = situ__cpu_data(&p->y) + base * (int64_t)situ__compute_size(p->compute);
  switch (p->compute) {
  case SITU__F32: take_in_f32(y, at, along, v, count, p->add, (float)p->alpha); break;
  case SITU__F64: take_in_f64(y, at, along, v, count, p->add, p->alpha); break;
  default: take_in_i64(y, at, along, v, count, p->add, (uint64_t)(int64_t)p->alpha);
  }
}

/* Elements [first, + count) of the index, in place or in buffer; NULL if one of them is out of range. */
static const int64_t *indices(plan *p, int64_t first, int64_t count, int64_t *buffer) {
  return p->bound ? situ__index_checked(p->index, first, count, p->bound, &p->bad, buffer)
                  : situ__index_block(p->index, first, count, buffer);
}

/* Elements [first, + count) of src in the compute type: in place, or converted into buffer. */
static const void *values(const plan *p, int64_t first, int64_t count, void *buffer) {
  const situ_view_desc *v = p->src;
  if (v->contiguous && situ__cpu_native((situ_dtype)v->dtype, p->compute))
    return situ__cpu_data(v) + first * (int64_t)situ__compute_size(p->compute);
  situ__cpu_load(v, first, count, p->compute, buffer);
  return buffer;
}

/* Offset in y of element i of src's dimensions before (or after) dim. */
static int64_t place(const plan *p, int first, int end, int64_t i) {
  int64_t at = 0;
  for (int d = end - 1; d >= first; i /= p->src->size[d--]) at += i % p->src->size[d] * p->y.stride[d];
  return at;
}

/* Single elements along the last dimension, or slices of one element. */
static void along_last(plan *p, int64_t outer) {
  int64_t base = place(p, 0, p->dim, outer), index[SITU__BLOCK];
  double buffer[SITU__BLOCK];
  for (int64_t i = 0, count; i < p->count; i += count) {
    count = situ__min_i64(SITU__BLOCK, p->count - i);
    const int64_t *at = indices(p, (p->slices ? 0 : outer * p->count) + i, count, index);
    if (!at) return;
    take_in(p, base, at, p->along, values(p, outer * p->count + i, count, buffer), count);
  }
}

/* A strip of each slice; y's elements are as contiguous as src's. */
static void slices(plan *p, int64_t outer, int64_t first, int64_t columns) {
  int64_t base = place(p, 0, p->dim, outer) + first, index[SITU__BLOCK];
  double buffer[STRIP];
  for (int64_t i = 0, count; i < p->count; i += count) {
    count = situ__min_i64(SITU__BLOCK, p->count - i);
    const int64_t *at = indices(p, i, count, index);
    if (!at) return;
    for (int64_t k = 0; k < count; k++) {
      const void *v = values(p, (outer * p->count + i + k) * p->inner + first, columns, buffer);
      take_in(p, base + at[k] * p->along, NULL, 0, v, columns);
    }
  }
}

/* A strip of inner elements, each with its own index. */
static void elements(plan *p, int64_t outer, int64_t first, int64_t columns) {
  int64_t base = place(p, 0, p->dim, outer), beside[STRIP], at[STRIP], buffer[STRIP];
  double v[STRIP];
  for (int64_t j = 0; j < columns; j++) beside[j] = place(p, p->dim + 1, p->src->ndim, first + j);
  for (int64_t i = 0; i < p->count; i++) {
    int64_t from = (outer * p->count + i) * p->inner + first;
    const int64_t *index = indices(p, from, columns, buffer);
    if (!index) return;
    for (int64_t j = 0; j < columns; j++) at[j] = beside[j] + index[j] * p->along;
    take_in(p, base, at, 1, values(p, from, columns, v), columns);
  }
}

static void scatter(int64_t begin, int64_t end, void *payload) {
  plan *p = payload;
  for (int64_t u = begin; u < end; u++) {
    int64_t outer = u / p->strips, first = u % p->strips * STRIP;
    if (p->inner == 1) along_last(p, outer);
    else if (p->slices) slices(p, outer, first, situ__min_i64(STRIP, p->inner - first));
    else elements(p, outer, first, situ__min_i64(STRIP, p->inner - first));
  }
}

/* A contiguous copy of y in the compute type, with its own memory. */
static bool copy_to_compute(const situ_view_desc *y, situ__compute compute, situ_storage *memory,
                            situ_view_desc *copy) {
  static const situ_dtype dtype[] = { [SITU__F32] = SITU_F32, [SITU__F64] = SITU_F64, [SITU__I64] = SITU_I64 };
  *copy = *y;
  copy->storage = memory;
  copy->offset = 0;
  copy->dtype = (uint8_t)dtype[compute];
  copy->contiguous = true;
  int64_t step = 1;
  for (int d = y->ndim - 1; d >= 0; step *= y->size[d--]) copy->stride[d] = step;
  memory->bytes = (size_t)y->numel * situ__compute_size(compute);
  memory->data = situ__alloc(memory->bytes);
  if (memory->data) situ__cpu_load(y, 0, y->numel, compute, memory->data);
  return memory->data;
}

situ_status situ__cpu_scatter(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *y = work->out[0];
  plan p = {
    .index = work->in[0], .src = work->in[1], .y = *y, .dim = (int)work->integer[0], .alpha = work->scalar[0]
  };
  p.add = work->op & SITU_INDEX_ADD;
  p.slices = !(work->op & SITU_INDEX_ELEMENTS);
  p.compute = situ__cpu_compute((situ_dtype)y->dtype);
  char what[64];
  int64_t bound = y->ndim ? y->size[p.dim] : 1;
  (void)snprintf(what, sizeof what, "dimension %d, whose size is %lld", p.dim, (long long)bound);
  if (work->integer[1] && p.src->numel) p.bound = bound;
  situ_status status = p.bound ? SITU_OK : situ__check_index("scatter", p.index, bound, NULL, what);
  if (status != SITU_OK || !p.src->numel) return status;

  situ_storage memory = { 0 };
  bool copied = !y->contiguous || !situ__cpu_native((situ_dtype)y->dtype, p.compute);
  if (copied && !copy_to_compute(y, p.compute, &memory, &p.y)) return situ__no_memory("scatter", memory.bytes);
  /* An index with fewer elements than src selects only the first of them. */
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
  if (copied) situ__cpu_store(y, 0, y->numel, p.compute, memory.data);
  situ__free(memory.data);
  return atomic_load(&p.bad) ? situ__refuse_index("scatter", p.index, bound, NULL, what) : SITU_OK;
}
