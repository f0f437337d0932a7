/* Blocks: converts a stretch of any view to contiguous values of a compute type, and back.
   SPDX-License-Identifier: MIT */
#include "convert.h"
#include "base/size.h"

char situ__cpu_nothing[1] __attribute__((aligned(64)));

size_t situ__compute_size(situ__compute compute) { return compute == SITU__F32 ? 4 : 8; }

void situ__cpu_widen(const void *src, situ_dtype dtype, int64_t count, situ__compute compute, void *dst) {
  situ__cpu_convert()->load[dtype][compute](src, situ__cpu_size(dtype), count, dst);
}

void situ__cpu_narrow(const void *src, situ__compute compute, int64_t count, situ_dtype dtype, void *dst) {
  situ__cpu_convert()->store[compute][dtype](src, count, dst, situ__cpu_size(dtype));
}

/* Position of a row-major walk over a view: the address of an element, and the number of elements left in its row. */
typedef struct cursor {
  const situ_view_desc *view;
  int64_t size;      /* of an element, in bytes */
  int rows;          /* dimensions outside the row */
  int64_t row, step; /* elements of a row; stride in bytes */
  int64_t at[SITU_MAX_DIMS];
  char *data;
} cursor;

static cursor start(const situ_view_desc *v, int64_t first) {
  cursor c = { .view = v, .size = situ__cpu_size(v->dtype), .data = situ__cpu_data(v) };
  c.rows = v->ndim - 1;
  c.row = v->ndim ? v->size[c.rows] : 1;
  c.step = v->ndim ? v->stride[c.rows] * c.size : c.size;
  for (int d = v->ndim - 1; d >= 0; d--) {
    c.at[d] = first % v->size[d];
    first /= v->size[d];
    c.data += c.at[d] * v->stride[d] * c.size;
  }
  return c;
}

/* Skips `count` elements of the row; at its end, moves to the start of the next one. */
static void advance(cursor *c, int64_t count) {
  const situ_view_desc *v = c->view;
  if (!v->ndim) return;
  c->at[c->rows] += count;
  c->data += count * c->step;
  for (int d = c->rows; d > 0 && c->at[d] == v->size[d]; d--) {
    c->data += (v->stride[d - 1] - v->size[d] * v->stride[d]) * c->size;
    c->at[d] = 0;
    c->at[d - 1]++;
  }
}

static int64_t in_row(const cursor *c, int64_t wanted) {
  return situ__min_i64(wanted, c->row - (c->view->ndim ? c->at[c->rows] : 0));
}

void situ__cpu_load(const situ_view_desc *v, int64_t first, int64_t count, situ__compute compute, void *dst) {
  const int64_t width = (int64_t)situ__compute_size(compute);
  if (v->contiguous) {
    situ__cpu_widen(situ__cpu_data(v) + first * situ__cpu_size(v->dtype), (situ_dtype)v->dtype, count, compute, dst);
    return;
  }
  const situ__convert *convert = situ__cpu_convert();
  char *to = dst;
  for (cursor c = start(v, first); count > 0;) {
    int64_t n = in_row(&c, count);
    convert->load[v->dtype][compute](c.data, c.step, n, to);
    to += n * width;
    count -= n;
    advance(&c, n);
  }
}

void situ__cpu_store(const situ_view_desc *v, int64_t first, int64_t count, situ__compute compute, const void *src) {
  const int64_t width = (int64_t)situ__compute_size(compute);
  if (v->contiguous) {
    situ__cpu_narrow(src, compute, count, (situ_dtype)v->dtype, situ__cpu_data(v) + first * situ__cpu_size(v->dtype));
    return;
  }
  const situ__convert *convert = situ__cpu_convert();
  const char *from = src;
  for (cursor c = start(v, first); count > 0;) {
    int64_t n = in_row(&c, count);
    convert->store[compute][v->dtype](from, n, c.data, c.step);
    from += n * width;
    count -= n;
    advance(&c, n);
  }
}
