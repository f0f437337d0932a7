/* Indices of nonzero elements.
   SPDX-License-Identifier: MIT */
#include "cpu.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

enum { CHUNK = 16384 };

typedef struct plan {
  const situ_view_desc *x;
  int64_t *before; /* number of nonzero elements before each chunk */
  int64_t *to;     /* [count, ndim] */
} plan;

/* marks[i] = element first + i is nonzero; NaN is nonzero. */
static void mark(const plan *p, int64_t first, int64_t count, bool *marks) {
  situ__lane lane = situ__cpu_lane((situ_dtype)p->x->dtype) == SITU__I64 ? SITU__I64 : SITU__F64;
  union {
    double real[SITU__BLOCK];
    int64_t whole[SITU__BLOCK];
  } block;
  situ__cpu_load(p->x, first, count, lane, &block);
  if (lane == SITU__I64)
    for (int64_t i = 0; i < count; i++) marks[i] = block.whole[i] != 0;
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

static void write_chunks(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  bool marks[SITU__BLOCK];
  for (int64_t c = begin; c < end; c++) {
    int64_t *to = p->to + p->before[c] * p->x->ndim, last = situ__min_i64((c + 1) * CHUNK, p->x->numel);
    for (int64_t at = c * CHUNK, n; at < last; at += n) {
      n = situ__min_i64(SITU__BLOCK, last - at);
      mark(p, at, n, marks);
      for (int64_t i = 0; i < n; i++) {
        if (!marks[i]) continue;
        int64_t rest = at + i;
        for (int d = p->x->ndim - 1; d >= 0; rest /= p->x->size[d--]) to[d] = rest % p->x->size[d];
        to += p->x->ndim;
      }
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
