/* Cumulative sums and products, in f64 for all floating dtypes, so that a sum of millions does not lose what each
   element adds.
   SPDX-License-Identifier: MIT */
#include "fold.h"
#include "scan.h"

#include <math.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

enum {
  CHUNK = 16384, /* elements of a line that one thread sums before the next chunk begins */
  GRAIN = 16384,
  WAYS = 4, /* lines that are scanned at once */
  LANES = 8
};

/* A sum or product in the compute type: f64, or integers that wrap. */
typedef union sum {
  double real;
  uint64_t integer;
} sum;

typedef struct plan {
  double (*sums_f32)(const float *x, float *y, int64_t count, double total); /* for sums of f32; else NULL */
  const situ_view_desc *x, *y;
  bool real, product;
  situ__lines lines;
  int64_t chunks;
  sum *before;   /* the total before each chunk, if a line has several */
  double *error; /* of each of these, as a real sum has been rounded */
} plan;

static situ__compute compute_of(const plan *p) { return p->real ? SITU__F64 : SITU__I64; }

/* The total of no elements. */
static sum identity(const plan *p) { return p->real ? (sum){ .real = p->product } : (sum){ .integer = p->product }; }

static double fold_real(bool product, double a, double b) { return product ? a * b : a + b; }
static uint64_t fold_i64(bool product, uint64_t a, uint64_t b) { return product ? a * b : a + b; }

/* Replaces block[i] by the total up to it; returns the total. */
static sum scan_block(const plan *p, sum total, sum *block, int64_t count) {
  /* Local variables, as a total in memory would delay each addition. */
  double real = total.real;
  uint64_t integer = total.integer;
  const bool product = p->product;
  if (p->real) {
    for (int64_t i = 0; i < count; i++) block[i].real = real = fold_real(product, real, block[i].real);
    return (sum){ .real = real };
  }
  for (int64_t i = 0; i < count; i++) block[i].integer = integer = fold_i64(product, integer, block[i].integer);
  return (sum){ .integer = integer };
}

/* The same of a block of f32, in place where memory is contiguous. */
static double sum_block(const plan *p, int64_t first, int64_t count, double total) {
  float block[SITU__BLOCK], *y = block;
  const float *x = block;
  if (p->x->contiguous) x = (const float *)(const void *)situ__cpu_data(p->x) + first;
  else situ__cpu_load(p->x, first, count, SITU__F32, block);
  if (p->y->contiguous) y = (float *)(void *)situ__cpu_data(p->y) + first;
  total = p->sums_f32(x, y, count, total);
  if (!p->y->contiguous) situ__cpu_store(p->y, first, count, SITU__F32, block);
  return total;
}

/* Adds x to a sum of two numbers, the second being what the first lost in rounding (Knuth, The Art of Computer
   Programming 2, 4.2.2, theorem B). */
static inline void add_exactly(double *total, double *error, double x) {
  const double both = *total + x, part = both - *total;
  *error += (*total - (both - part)) + (x - part);
  *total = both;
}

/* The sum of a chunk of reals. Its error is kept: in the next chunk a large element may cancel one of the chunk before,
   and leave what was rounded off beside it. */
static void sum_chunk(const plan *p, int64_t first, int64_t count, double *total, double *error) {
  const bool may_overflow = p->x->dtype == SITU_F64; /* a sum of every eighth element, where that of all does not */
  double sums[LANES] = { 0 }, errors[LANES] = { 0 }, block[SITU__BLOCK];
  for (int64_t at = 0, size; at < count; at += size) {
    size = situ__min_i64(SITU__BLOCK, count - at);
    situ__cpu_load(p->x, first + at, size, SITU__F64, block);
    int64_t i = 0;
    for (; !may_overflow && i + LANES <= size; i += LANES)
      for (int l = 0; l < LANES; l++) add_exactly(&sums[l], &errors[l], block[i + l]);
    for (; i < size; i++) add_exactly(&sums[0], &errors[0], block[i]);
  }
  for (int l = 0; l < LANES; l++) {
    add_exactly(total, error, sums[l]);
    *error += errors[l];
  }
}

/* Unit: one chunk of one line; writes its running totals (`write`), or only the last. */
static void scan_chunk(const plan *p, int64_t u, sum *total, bool write) {
  int64_t at = u % p->chunks * CHUNK, last = situ__min_i64(at + CHUNK, p->lines.size),
          line = u / p->chunks * p->lines.size;
  sum block[SITU__BLOCK];
  for (int64_t count; at < last; at += count) {
    count = situ__min_i64(SITU__BLOCK, last - at);
    if (p->sums_f32) {
      total->real = sum_block(p, line + at, count, total->real);
      continue;
    }
    situ__cpu_load(p->x, line + at, count, compute_of(p), block);
    *total = scan_block(p, *total, block, count);
    if (write) situ__cpu_store(p->y, line + at, count, compute_of(p), block);
  }
}

static void totals(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  for (int64_t u = begin; u < end; u++) {
    const int64_t at = u % p->chunks * CHUNK, line = u / p->chunks * p->lines.size;
    p->before[u] = identity(p);
    if (p->error) p->error[u] = 0;
    if (p->error) sum_chunk(p, line + at, situ__min_i64(CHUNK, p->lines.size - at), &p->before[u].real, &p->error[u]);
    else scan_chunk(p, u, &p->before[u], false);
  }
}

/* Several short lines at once, as each addition waits for the one before it in its line. */
static void real_lines(const plan *p, int64_t first) {
  double total[WAYS], block[WAYS][SITU__BLOCK];
  for (int w = 0; w < WAYS; w++) total[w] = identity(p).real;
  for (int64_t at = 0, count; at < p->lines.size; at += count) {
    count = situ__min_i64(SITU__BLOCK, p->lines.size - at);
    for (int w = 0; w < WAYS; w++) situ__cpu_load(p->x, (first + w) * p->lines.size + at, count, SITU__F64, block[w]);
    for (int64_t i = 0; i < count; i++)
      for (int w = 0; w < WAYS; w++) block[w][i] = total[w] = fold_real(p->product, total[w], block[w][i]);
    for (int w = 0; w < WAYS; w++) situ__cpu_store(p->y, (first + w) * p->lines.size + at, count, SITU__F64, block[w]);
  }
}

static void along_lines(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  int64_t u = begin;
  for (; p->real && !p->sums_f32 && !p->before && u + WAYS <= end; u += WAYS) real_lines(p, u);
  for (; u < end; u++) {
    sum total = p->before ? p->before[u] : identity(p);
    scan_chunk(p, u, &total, true);
  }
}

/* Replaces each chunk's total by the total of those before it in its line. */
static void shift(const plan *p) {
  for (int64_t line = 0; p->error && line < p->lines.outer; line++) {
    double total = 0, error = 0;
    for (int64_t u = line * p->chunks; u < (line + 1) * p->chunks; u++) {
      const double own = p->before[u].real;
      p->before[u].real = isfinite(total) ? total + error : total;
      add_exactly(&total, &error, own);
      error += p->error[u];
    }
  }
  for (int64_t line = 0; !p->error && line < p->lines.outer; line++) {
    sum so_far = identity(p), *of = p->before + line * p->chunks;
    for (int64_t c = 0; c < p->chunks; c++) {
      sum own = of[c];
      of[c] = so_far;
      so_far = scan_block(p, so_far, &own, 1);
    }
  }
}

/* Unit: some columns of one outer block, row by row. */
static void across_lines(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  int64_t tiles = situ__ceil_div(p->lines.inner, SITU__BLOCK);
  sum total[SITU__BLOCK], row[SITU__BLOCK];
  for (int64_t u = begin; u < end; u++) {
    int64_t column = u % tiles * SITU__BLOCK, columns = situ__min_i64(SITU__BLOCK, p->lines.inner - column);
    for (int64_t j = 0; j < columns; j++) total[j] = identity(p);
    for (int64_t r = 0; r < p->lines.size; r++) {
      int64_t at = (u / tiles * p->lines.size + r) * p->lines.inner + column;
      situ__cpu_load(p->x, at, columns, compute_of(p), row);
      if (p->real)
        for (int64_t j = 0; j < columns; j++) total[j].real = fold_real(p->product, total[j].real, row[j].real);
      else
        for (int64_t j = 0; j < columns; j++) total[j].integer = fold_i64(p->product, total[j].integer, row[j].integer);
      situ__cpu_store(p->y, at, columns, compute_of(p), total);
    }
  }
}

situ_status situ__cpu_scan(int index, const situ_work *work) {
  (void)index;
  if (work->op == SITU_SCAN_PROD_GRAD) return situ__cpu_scan_grad(work);
  plan p = { .x = work->in[0], .y = work->out[0], .product = work->op == SITU_SCAN_PROD };
  p.real = situ__dtype_is_floating((situ_dtype)p.y->dtype);
  if (!p.product && p.x->dtype == SITU_F32 && p.y->dtype == SITU_F32)
    p.sums_f32 = SITU__ISA_PICK(situ__cpu_isa(), situ__scans)->sums;
  p.lines = situ__lines_of(p.x, work->integer[0]);
  if (p.lines.inner > 1) {
    int64_t width = situ__min_i64(p.lines.inner, SITU__BLOCK);
    int64_t units = p.lines.outer * situ__ceil_div(p.lines.inner, SITU__BLOCK);
    situ__parallel(units, situ__max_i64(1, GRAIN / (p.lines.size * width)), across_lines, &p);
    return SITU_OK;
  }
  p.chunks = situ__ceil_div(p.lines.size, CHUNK);
  int64_t units = p.lines.outer * p.chunks, grain = situ__max_i64(1, GRAIN / situ__min_i64(p.lines.size, CHUNK));
  if (p.chunks > 1) {
    const bool keeps_error = p.real && !p.product;
    const size_t each = sizeof(sum) + (keeps_error ? sizeof(double) : 0);
    p.before = situ__alloc((size_t)units * each);
    if (!p.before) return situ__no_memory("scan", (size_t)units * each);
    if (keeps_error) p.error = &p.before[units].real;
    situ__parallel(units, grain, totals, &p);
    shift(&p);
  }
  situ__parallel(units, grain, along_lines, &p);
  situ__free(p.before);
  return SITU_OK;
}
