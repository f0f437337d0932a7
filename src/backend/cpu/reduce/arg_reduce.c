/* argmin and argmax: the first of equal elements; NaN wins over all numbers.
   SPDX-License-Identifier: MIT */
#include "fold.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <string.h>

enum { TILE = 512, SEGMENT = 32768, GRAIN = 16384 };

typedef struct plan {
  const situ_view_desc *x, *values, *indices;
  const situ__fold_kernels *kernels;
  situ__compute compute;
  size_t size;
  bool greatest, native;
  situ__lines lines;
  int64_t segments, tiles;
  char *best; /* of every (line, segment), if there are several segments */
  int64_t *at;
} plan;

/* Pointer to elements [first, + count): in place, or converted into buffer. */
static const void *elements(const plan *p, int64_t first, int64_t count, void *buffer) {
  if (p->native) return situ__cpu_data(p->x) + first * (int64_t)p->size;
  situ__cpu_load(p->x, first, count, p->compute, buffer);
  return buffer;
}

static void deliver(const plan *p, int64_t first, int64_t count, const void *best, const int64_t *at) {
  if (p->values) situ__cpu_store(p->values, first, count, p->compute, best);
  situ__cpu_store(p->indices, first, count, SITU__I64, at);
}

/* Updates *best and *at if v beats it. A row of one column is compared as columns are. */
static void update_best(const plan *p, const void *v, int64_t where, void *best, int64_t *at) {
  p->kernels->arg_columns(p->greatest, v, 1, 1, 1, where, best, at);
}

/* Unit: one segment of one line whose elements are contiguous. */
static void along_lines(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  situ__fold fold = p->greatest ? SITU__FOLD_MAX : SITU__FOLD_MIN;
  double buffer[SITU__FOLD_BLOCK], v, best = 0;
  int64_t step = p->native ? 4 * SITU__FOLD_BLOCK : SITU__FOLD_BLOCK; /* small enough that find() reads it from L1 */
  for (int64_t u = begin; u < end; u++) {
    int64_t line = u / p->segments, first = u % p->segments * SEGMENT, at = first;
    int64_t last = situ__min_i64(first + SEGMENT, p->lines.size);
    for (int64_t i = first; i < last; i += step) {
      int64_t count = situ__min_i64(step, last - i);
      situ__fold_block k = { elements(p, line * p->lines.size + i, count, buffer), 1, count, 1, 1 };
      p->kernels->fold(fold, SITU__MAP_NONE, 0, &k, &v, NULL);
      if (i == first) best = v, at = -1;
      else update_best(p, &v, -1, &best, &at);
      if (at < 0) at = i + p->kernels->find(k.x, count, &v); /* v is the new best value: find its index */
    }
    if (p->segments == 1) {
      deliver(p, line, 1, &best, &at);
    } else {
      memcpy(p->best + (size_t)u * p->size, &best, p->size);
      p->at[u] = at;
    }
  }
}

static void merge_segments(const plan *p) {
  for (int64_t line = 0; line < p->lines.outer; line++) {
    char *best = p->best + (size_t)(line * p->segments) * p->size;
    int64_t *at = p->at + line * p->segments;
    for (int64_t s = 1; s < p->segments; s++) update_best(p, best + (size_t)s * p->size, at[s], best, at);
    deliver(p, line, 1, best, at);
  }
}

/* Unit: one tile of columns of one outer block. */
static void across_lines(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  double buffer[TILE], best[TILE];
  int64_t at[TILE];
  for (int64_t u = begin; u < end; u++) {
    int64_t o = u / p->tiles, column = u % p->tiles * TILE, columns = situ__min_i64(TILE, p->lines.inner - column);
    int64_t first = o * p->lines.size * p->lines.inner + column;
    memcpy(best, elements(p, first, columns, buffer), (size_t)columns * p->size);
    memset(at, 0, sizeof at);
    int64_t step = p->native ? p->lines.size : 1;
    for (int64_t r = 1; r < p->lines.size; r += step) {
      int64_t rows = situ__min_i64(step, p->lines.size - r);
      const void *x = elements(p, first + r * p->lines.inner, columns, buffer);
      p->kernels->arg_columns(p->greatest, x, p->lines.inner, rows, columns, r, best, at);
    }
    deliver(p, o * p->lines.inner + column, columns, best, at);
  }
}

situ_status situ__cpu_arg_reduce(int index, const situ_work *work) {
  (void)index;
  plan p = { .x = work->in[0], .values = work->out[0], .indices = work->out[1], .greatest = work->op == 1 };
  p.compute = situ__cpu_compute((situ_dtype)p.x->dtype);
  p.size = situ__compute_size(p.compute);
  p.native = situ__cpu_native((situ_dtype)p.x->dtype, p.compute);
  p.kernels = situ__fold_kernels_for(p.compute);
  p.lines = situ__lines_of(p.x, work->integer[0]);
  if (!p.lines.size) return situ__fail(SITU_E_ARG, "arg_reduce", "no elements have no extreme");
  if (p.lines.inner > 1) {
    p.tiles = situ__ceil_div(p.lines.inner, TILE);
    int64_t unit = p.lines.size * situ__min_i64(p.lines.inner, TILE);
    situ__parallel(p.lines.outer * p.tiles, situ__max_i64(1, GRAIN / unit), across_lines, &p);
    return SITU_OK;
  }
  p.segments = situ__ceil_div(p.lines.size, SEGMENT);
  int64_t units = p.lines.outer * p.segments;
  if (p.segments > 1) {
    size_t bytes = (size_t)units * (p.size + sizeof *p.at);
    p.at = situ__alloc(bytes);
    if (!p.at) return situ__no_memory("arg_reduce", bytes);
    p.best = (char *)(p.at + units);
  }
  situ__parallel(units, situ__max_i64(1, GRAIN / situ__min_i64(p.lines.size, SEGMENT)), along_lines, &p);
  if (p.segments > 1) merge_segments(&p);
  situ__free(p.at);
  return SITU_OK;
}
