/* Indices of nonzero elements.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/cpu.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <string.h>

enum { CHUNK = 16384 };

typedef struct plan {
  const situ_view_desc *x;
  int64_t *before; /* number of nonzero elements before each chunk */
  int64_t *to;     /* [count, ndim] */
} plan;

/* marks[i] = element first + i is nonzero; NaN is nonzero. */
static void mark(const plan *p, int64_t first, int64_t count, bool *marks) {
  if (p->x->dtype == SITU_BOOL && p->x->contiguous) {
    memcpy(marks, situ__cpu_data(p->x) + first, (size_t)count);
    return;
  }
  situ__compute compute = situ__cpu_compute((situ_dtype)p->x->dtype) == SITU__I64 ? SITU__I64 : SITU__F64;
  union {
    double real[SITU__BLOCK];
    int64_t integer[SITU__BLOCK];
  } block;
  situ__cpu_load(p->x, first, count, compute, &block);
  if (compute == SITU__I64)
    for (int64_t i = 0; i < count; i++) marks[i] = block.integer[i] != 0;
  else
    for (int64_t i = 0; i < count; i++) marks[i] = block.real[i] != 0;
}

static void count_chunks(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  bool marks[SITU__BLOCK];
  for (int64_t c = begin; c < end; c++) {
    int64_t found = 0, last = situ__min_i64((c + 1) * CHUNK, p->x->numel);
    for (int64_t at = c * CHUNK, n; at < last; at += n) {
      n = situ__min_i64(SITU__BLOCK, last - at);
      mark(p, at, n, marks);
      for (int64_t i = 0; i < n; i++) found += marks[i];
    }
    p->before[c] = found;
  }
}

/* A row of the last dimension: the index of its first element, and its place in the other dimensions. */
typedef struct row {
  int64_t first, at[SITU_MAX_DIMS];
} row;

static row row_of(const plan *p, int64_t element) {
  const int last = p->x->ndim - 1;
  int64_t rest = element / p->x->size[last];
  row r = { .first = rest * p->x->size[last] };
  for (int d = last - 1; d >= 0; rest /= p->x->size[d--]) r.at[d] = rest % p->x->size[d];
  return r;
}

static void go_to_next(const plan *p, row *r) {
  r->first += p->x->size[p->x->ndim - 1];
  for (int d = p->x->ndim - 2; d >= 0 && ++r->at[d] == p->x->size[d]; d--) r->at[d] = 0;
}

/* Writes the indices of the marked ones of `count` elements; returns where the next ones go. Where they are is
   collected first: whether one is marked cannot be foretold, so no branch depends on it. */
static int64_t *write_marked(const plan *p, int64_t first, int64_t count, const bool *marks, int64_t *to) {
  const int ndim = p->x->ndim;
  int64_t found[SITU__BLOCK + 1], n = 0;
  for (int64_t i = 0; i < count; i++) {
    found[n] = first + i;
    n += marks[i];
  }
  if (ndim == 1) {
    memcpy(to, found, (size_t)n * sizeof *to);
    return to + n;
  }
  if (!ndim) return to;
  const int64_t width = p->x->size[ndim - 1];
  row r = row_of(p, first);
  for (int64_t i = 0; i < n; i++, to += ndim) {
    while (found[i] - r.first >= width) go_to_next(p, &r);
    for (int d = 0; d < ndim - 1; d++) to[d] = r.at[d];
    to[ndim - 1] = found[i] - r.first;
  }
  return to;
}

static void write_chunks(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  bool marks[SITU__BLOCK];
  for (int64_t c = begin; c < end; c++) {
    int64_t *to = p->to + p->before[c] * p->x->ndim, last = situ__min_i64((c + 1) * CHUNK, p->x->numel);
    for (int64_t at = c * CHUNK, n; at < last; at += n) {
      n = situ__min_i64(SITU__BLOCK, last - at);
      mark(p, at, n, marks);
      to = write_marked(p, at, n, marks, to);
    }
  }
}

situ_status situ__cpu_nonzero(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *y = work->out[0];
  plan p = { .x = work->in[0], .to = (int64_t *)(void *)situ__cpu_data(y) };
  int64_t chunks = situ__ceil_div(p.x->numel, CHUNK), total = 0;
  p.before = situ__alloc((size_t)chunks * sizeof *p.before);
  if (!p.before) return situ__no_memory("nonzero", (size_t)chunks * sizeof *p.before);
  situ__parallel(chunks, 1, count_chunks, &p);
  for (int64_t c = 0; c < chunks; c++) {
    int64_t own = p.before[c];
    p.before[c] = total;
    total += own;
  }
  /* Writes nothing if another thread changed x after the result was sized. */
  bool fits = total == y->size[0];
  if (fits) situ__parallel(chunks, 1, write_chunks, &p);
  situ__free(p.before);
  if (fits) return SITU_OK;
  return situ__fail(SITU_E_STATE, "nonzero", "%lld elements are not 0, where %lld were counted", (long long)total,
                    (long long)y->size[0]);
}
