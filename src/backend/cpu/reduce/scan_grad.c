/* The gradient of cumulative products, without a division: elements may be 0. In f64, from the end of each line.

   dx[i] = sum over j >= i of g[j] dy[j]/dx[i], where dy[j]/dx[i] is the product of x[0..j] without x[i]; so
   dx[i] = y[i-1] s[i], with y[-1] = 1 and s[i] = g[i] + x[i+1] s[i+1].
   SPDX-License-Identifier: MIT */
#include "fold.h"
#include "base/pool.h"
#include "base/size.h"

enum { GRAIN = 16384 };

typedef struct plan {
  const situ_view_desc *x, *y, *g, *dx;
  situ__lines lines;
} plan;

/* `count` elements in f64, of which the first is `first`. The element before the line's first is 1. */
static void load_before(const plan *p, int64_t first, int64_t count, bool at_start, double *y) {
  if (at_start) *y = 1;
  if (count > at_start) situ__cpu_load(p->y, first - !at_start, count - at_start, SITU__F64, y + at_start);
}

/* Unit: one line. */
static void along_lines(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  double x[SITU__BLOCK], y[SITU__BLOCK], g[SITU__BLOCK];
  for (int64_t u = begin; u < end; u++) {
    double rest = 0; /* x[i+1] s[i+1] */
    for (int64_t last = p->lines.size, count; last > 0; last -= count) {
      count = situ__min_i64(SITU__BLOCK, last);
      int64_t first = u * p->lines.size + last - count;
      situ__cpu_load(p->x, first, count, SITU__F64, x);
      situ__cpu_load(p->g, first, count, SITU__F64, g);
      load_before(p, first, count, last == count, y);
      for (int64_t i = count - 1; i >= 0; i--) {
        double s = g[i] + rest;
        rest = x[i] * s;
        y[i] *= s;
      }
      situ__cpu_store(p->dx, first, count, SITU__F64, y);
    }
  }
}

/* Unit: some columns of one outer block, row by row. */
static void across_lines(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  int64_t inner = p->lines.inner, tiles = situ__ceil_div(inner, SITU__BLOCK);
  double x[SITU__BLOCK], y[SITU__BLOCK], g[SITU__BLOCK], rest[SITU__BLOCK];
  for (int64_t u = begin; u < end; u++) {
    int64_t column = u % tiles * SITU__BLOCK, columns = situ__min_i64(SITU__BLOCK, inner - column);
    for (int64_t j = 0; j < columns; j++) rest[j] = 0, y[j] = 1;
    for (int64_t r = p->lines.size - 1; r >= 0; r--) {
      int64_t at = (u / tiles * p->lines.size + r) * inner + column;
      situ__cpu_load(p->x, at, columns, SITU__F64, x);
      situ__cpu_load(p->g, at, columns, SITU__F64, g);
      if (r) situ__cpu_load(p->y, at - inner, columns, SITU__F64, y);
      for (int64_t j = 0; j < columns; j++) {
        double s = g[j] + rest[j];
        rest[j] = x[j] * s;
        g[j] = r ? y[j] * s : s;
      }
      situ__cpu_store(p->dx, at, columns, SITU__F64, g);
    }
  }
}

situ_status situ__cpu_scan_grad(const situ_work *work) {
  plan p = { .x = work->in[0], .y = work->in[1], .g = work->in[2], .dx = work->out[0] };
  p.lines = situ__lines_of(p.x, work->integer[0]);
  bool along = p.lines.inner == 1;
  int64_t tiles = along ? 1 : situ__ceil_div(p.lines.inner, SITU__BLOCK);
  int64_t each = p.lines.size * situ__min_i64(p.lines.inner, SITU__BLOCK);
  situ__parallel(p.lines.outer * tiles, situ__max_i64(1, GRAIN / each), along ? along_lines : across_lines, &p);
  return SITU_OK;
}
