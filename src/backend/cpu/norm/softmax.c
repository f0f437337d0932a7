/* Softmax, log-softmax, and their gradients along any dimension.
   SPDX-License-Identifier: MIT */
#include "rows.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <stdatomic.h>

enum { GRAIN = 8192, ON_STACK = 2048 };

/* A strip: some columns of one outer block, all of its rows. A contiguous line is a row instead. */
typedef struct plan {
  const situ_view_desc *in[2], *out;
  int ins;
  bool log, masked;
  situ__compute compute;
  const situ__row_kernels *kernels;
  situ__lines lines;
  int64_t strips;
  atomic_bool no_memory;
} plan;

/* Computes a strip of `width` columns, ld apart in each operand; where inner is 1, `count` rows. */
static void compute(const plan *p, const void *a, const void *b, void *y, int64_t count, int64_t width, int64_t ld) {
  const situ__row_kernels *k = p->kernels;
  if (p->lines.inner == 1) {
    if (p->ins == 1) k->softmax(p->log, p->masked, a, y, count, p->lines.size);
    else k->softmax_grad(p->log, a, b, y, count, p->lines.size);
  } else {
    if (p->ins == 1) k->softmax_columns(p->log, p->masked, a, y, p->lines.size, width, ld);
    else k->softmax_grad_columns(p->log, a, b, y, p->lines.size, width, ld);
  }
}

/* Converts a strip that begins at `at` to or from a buffer: rows of width elements that are `inner` apart. */
static void load_strip(const plan *p, const situ_view_desc *v, int64_t at, int64_t rows, int64_t width, char *buffer) {
  if (width == p->lines.inner) {
    situ__cpu_load(v, at, rows * width, p->compute, buffer);
    return;
  }
  for (int64_t r = 0; r < rows; r++, buffer += (size_t)width * situ__compute_size(p->compute))
    situ__cpu_load(v, at + r * p->lines.inner, width, p->compute, buffer);
}
static void store_strip(const plan *p, int64_t at, int64_t rows, int64_t width, const char *buffer) {
  if (width == p->lines.inner) {
    situ__cpu_store(p->out, at, rows * width, p->compute, buffer);
    return;
  }
  for (int64_t r = 0; r < rows; r++, buffer += (size_t)width * situ__compute_size(p->compute))
    situ__cpu_store(p->out, at + r * p->lines.inner, width, p->compute, buffer);
}

/* Units are rows, or strips; f16 and bf16 are converted one unit at a time. */
static void strips(int64_t begin, int64_t end, void *payload) {
  plan *p = payload;
  size_t size = situ__compute_size(p->compute);
  int64_t n = p->lines.size, inner = p->lines.inner, widest = situ__min_i64(inner, SITU__COLUMNS),
          elements = n * widest;
  if (situ__cpu_native((situ_dtype)p->out->dtype, p->compute)) {
    int64_t many = inner == 1 ? end - begin : 1; /* rows are contiguous: one call */
    for (int64_t u = begin; u < end; u += many) {
      int64_t column = u % p->strips * SITU__COLUMNS, at = u / p->strips * n * inner + column;
      const char *a = situ__cpu_data(p->in[0]) + at * (int64_t)size;
      const char *b = p->ins == 2 ? situ__cpu_data(p->in[1]) + at * (int64_t)size : NULL;
      compute(p, a, b, situ__cpu_data(p->out) + at * (int64_t)size, many, situ__min_i64(SITU__COLUMNS, inner - column),
              inner);
    }
    return;
  }
  float stack[3 * ON_STACK];
  char *memory = elements <= ON_STACK ? (char *)stack : situ__alloc(3 * (size_t)elements * size);
  if (!memory) {
    atomic_store(&p->no_memory, true);
    return;
  }
  char *in[2] = { memory, memory + (size_t)elements * size }, *out = memory + 2 * (size_t)elements * size;
  for (int64_t u = begin; u < end; u++) {
    int64_t column = u % p->strips * SITU__COLUMNS, at = u / p->strips * n * inner + column;
    int64_t width = situ__min_i64(SITU__COLUMNS, inner - column);
    for (int k = 0; k < p->ins; k++) load_strip(p, p->in[k], at, n, width, in[k]);
    compute(p, in[0], in[1], out, 1, width, width);
    store_strip(p, at, n, width, out);
  }
  if (memory != (char *)stack) situ__free(memory);
}

situ_status situ__cpu_softmax(int index, const situ_work *work) {
  (void)index;
  plan p = { .in = { work->in[0], work->in[1] }, .out = work->out[0], .ins = work->op >= SITU_SOFTMAX_GRAD ? 2 : 1 };
  p.log = work->op == SITU_LOG_SOFTMAX || work->op == SITU_LOG_SOFTMAX_GRAD;
  p.masked = work->integer[1] != 0 && !p.log;
  p.compute = situ__cpu_compute((situ_dtype)p.out->dtype);
  if (p.compute == SITU__I64)
    return situ__fail(SITU_E_DTYPE, "softmax", "%s has no softmax", situ__dtype_name((situ_dtype)p.out->dtype));
  p.kernels = situ__row_kernels_for(p.compute);
  p.lines = situ__lines_of(p.out, work->integer[0]);
  p.strips = situ__ceil_div(p.lines.inner, SITU__COLUMNS);
  int64_t unit = p.lines.size * situ__min_i64(p.lines.inner, SITU__COLUMNS);
  situ__parallel(p.lines.outer * p.strips, situ__max_i64(1, GRAIN / unit), strips, &p);
  if (atomic_load(&p.no_memory)) return situ__no_memory("softmax", 3 * (size_t)unit * situ__compute_size(p.compute));
  return SITU_OK;
}
