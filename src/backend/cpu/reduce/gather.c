/* Reads by index: whole slices (index_select, embedding) or single elements (gather). The result is new, so each index
   is checked just before its use: if one is out of range, the partial result is discarded.
   SPDX-License-Identifier: MIT */
#include "index.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>

enum { GRAIN = 16384 };

typedef struct plan {
  const situ_view_desc *x, *index, *y;
  int dim;
  size_t size;
  /* slices: the dimensions after dim, contiguous neighbours merged */
  int inner_dims;
  int64_t inner, picked;
  int64_t bound;
  atomic_bool bad; /* an index was out of range; nothing was read there */
  int64_t inner_size[SITU_MAX_DIMS], from_step[SITU_MAX_DIMS], to_step[SITU_MAX_DIMS];
} plan;

/* ---- slices ---- */

static void merge_inner(plan *p) {
  p->inner = 1;
  for (int d = p->dim + 1; d < p->x->ndim; d++) {
    int64_t size = p->x->size[d], from = p->x->stride[d], to = p->y->stride[d];
    int last = p->inner_dims - 1;
    p->inner *= size;
    if (size == 1) continue;
    if (last >= 0 && p->from_step[last] == from * size && p->to_step[last] == to * size) {
      p->inner_size[last] *= size;
      p->from_step[last] = from;
      p->to_step[last] = to;
      continue;
    }
    p->inner_size[++last] = size;
    p->from_step[last] = from;
    p->to_step[last] = to;
    p->inner_dims++;
  }
  if (!p->inner_dims) {
    p->inner_size[0] = p->from_step[0] = p->to_step[0] = 1;
    p->inner_dims = 1;
  }
}

static void copy_slice(const plan *p, char *to, const char *from) {
  int64_t row = p->inner_size[p->inner_dims - 1], rows = p->inner / row;
  for (int64_t r = 0; r < rows; r++) {
    int64_t rest = r, f = 0, t = 0;
    for (int d = p->inner_dims - 2; d >= 0; rest /= p->inner_size[d--]) {
      f += rest % p->inner_size[d] * p->from_step[d];
      t += rest % p->inner_size[d] * p->to_step[d];
    }
    int last = p->inner_dims - 1;
    situ__copy_elements(to + t * (int64_t)p->size, p->to_step[last], from + f * (int64_t)p->size, p->from_step[last],
                        row, p->size);
  }
}

/* Element j of `to` is the one that index[j] says, of those that begin at from + j * step. */
#define PICK_BY(bytes, to_step, step, along) \
  for (int64_t j = 0; j < count; j++)        \
  memcpy(to + j * (to_step) * (bytes), from + (j * (step) + index[j] * (along)) * (bytes), bytes)
#define PICK(bytes)                   \
  if (dense) PICK_BY(bytes, 1, 0, 1); \
  else PICK_BY(bytes, to_step, step, along)
static void pick(char *to, int64_t to_step, const char *from, int64_t step, int64_t along, const int64_t *index,
                 int64_t count, size_t size) {
  const bool dense = to_step == 1 && step == 0 && along == 1; /* without multiplications */
  switch (size) {
  case 1: PICK(1); break;
  case 2: PICK(2); break;
  case 4: PICK(4); break;
  default: PICK(8);
  }
}
#undef PICK
#undef PICK_BY

/* Unit: one slice of one outer block. */
static void copy_slices(int64_t begin, int64_t end, void *payload) {
  plan *p = payload;
  int64_t from_dim = p->x->ndim ? p->x->stride[p->dim] : 0, to_dim = p->x->ndim ? p->y->stride[p->dim] : 0,
          block[SITU__BLOCK];
  for (int64_t u = begin, count; u < end; u += count) {
    int64_t outer = u / p->picked, i = u % p->picked, from = 0, to = 0;
    count = situ__min_i64(SITU__BLOCK, situ__min_i64(p->picked - i, end - u));
    const int64_t *index = situ__index_checked(p->index, i, count, p->bound, &p->bad, block);
    if (!index) return;
    for (int d = p->dim - 1; d >= 0; outer /= p->x->size[d--]) {
      from += outer % p->x->size[d] * p->x->stride[d];
      to += outer % p->x->size[d] * p->y->stride[d];
    }
    const char *x = situ__cpu_data(p->x) + from * (int64_t)p->size;
    char *y = situ__cpu_data(p->y) + (to + i * to_dim) * (int64_t)p->size;
    if (p->inner == 1) pick(y, to_dim, x, 0, from_dim, index, count, p->size);
    for (int64_t k = 0; k < count && p->inner != 1; k++)
      copy_slice(p, y + k * to_dim * (int64_t)p->size, x + index[k] * from_dim * (int64_t)p->size);
  }
}

/* ---- elements ---- */

/* Elements [begin, end) in row-major order, one row of the last dimension at a time. */
static void pick_elements(int64_t begin, int64_t end, void *payload) {
  plan *p = payload;
  const situ_view_desc *x = p->x, *y = p->y;
  int last = y->ndim - 1;
  int64_t row = last < 0 ? 1 : y->size[last], along = last < 0 ? 0 : x->stride[p->dim];
  int64_t step = last < 0 || p->dim == last ? 0 : x->stride[last], to_step = last < 0 ? 0 : y->stride[last],
          block[SITU__BLOCK];
  for (int64_t at = begin, count; at < end; at += count) {
    int64_t j = at % row, rest = at / row, from = j * step, to = j * to_step;
    count = situ__min_i64(SITU__BLOCK, situ__min_i64(row - j, end - at));
    for (int d = last - 1; d >= 0; rest /= y->size[d--]) {
      to += rest % y->size[d] * y->stride[d];
      if (d != p->dim) from += rest % y->size[d] * x->stride[d];
    }
    const int64_t *index = situ__index_checked(p->index, at, count, p->bound, &p->bad, block);
    if (!index) return;
    pick(situ__cpu_data(y) + to * (int64_t)p->size, to_step, situ__cpu_data(x) + from * (int64_t)p->size, step, along,
         index, count, p->size);
  }
}

situ_status situ__cpu_gather(int index, const situ_work *work) {
  (void)index;
  plan p = { .x = work->in[0], .index = work->in[1], .y = work->out[0], .dim = (int)work->integer[0] };
  p.size = situ__dtype_size((situ_dtype)p.x->dtype);
  p.bound = p.x->ndim ? p.x->size[p.dim] : 1;
  if (work->op & SITU_INDEX_ELEMENTS) {
    situ__parallel(p.y->numel, GRAIN, pick_elements, &p);
  } else {
    merge_inner(&p);
    p.picked = p.index->numel;
    situ__parallel(p.y->numel / p.inner, situ__max_i64(1, GRAIN / p.inner), copy_slices, &p);
  }
  if (!atomic_load(&p.bad)) return SITU_OK;
  char what[64];
  (void)snprintf(what, sizeof what, "dimension %d, whose size is %lld", p.dim, (long long)p.bound);
  return situ__refuse_index("gather", p.index, p.bound, NULL, what);
}
