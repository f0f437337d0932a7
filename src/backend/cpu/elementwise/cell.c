/* One step of a recurrent layer.
   SPDX-License-Identifier: MIT */
#include "cell.h"
#include "backend/cpu/common/loop.h"

#include "base/pool.h"
#include "base/size.h"

#include <string.h>

enum {
  BLOCK = 256, /* elements of a part that are staged */
  LINE = 64    /* bytes of a line of a cache */
};

/* The parts of all operands, or of all results: part p of row r begins at data[p] + r * row[p] bytes. */
typedef struct side {
  int parts;
  char *data[SITU__CELL_PARTS];
  int64_t row[SITU__CELL_PARTS];
} side;

typedef struct pass {
  situ__cell_fn run;
  situ_dtype dtype;
  int64_t hidden, size;
  side in, out;
} pass;

static void add_operand(const pass *p, side *to, const situ_view_desc *v) {
  const int64_t parts = v->size[1] / p->hidden;
  for (int64_t k = 0; k < parts; k++) {
    to->data[to->parts] = situ__cpu_data(v) + k * p->hidden * p->size;
    to->row[to->parts++] = v->size[1] * p->size;
  }
}

/* Elements that are halves, or too few for a vector, are copied to f32 or to whole vectors, and back. */
static void run_staged(const pass *p, int64_t n, void *const *in, void *const *out) {
  double memory[2 * SITU__CELL_PARTS][BLOCK];
  void *from[SITU__CELL_PARTS], *to[SITU__CELL_PARTS];
  const bool half = p->size == 2;
  const size_t size = half ? sizeof(float) : (size_t)p->size;
  const int64_t full = situ__ceil_div(n, SITU__CELL_WIDTH) * SITU__CELL_WIDTH;
  for (int k = 0; k < p->in.parts; k++) {
    from[k] = memory[k];
    if (half) situ__cpu_widen(in[k], p->dtype, n, SITU__F32, from[k]);
    else memcpy(from[k], in[k], (size_t)n * size);
    memset((char *)from[k] + (size_t)n * size, 0, (size_t)(full - n) * size);
  }
  for (int k = 0; k < p->out.parts; k++) to[k] = memory[SITU__CELL_PARTS + k];
  p->run(full, from, to);
  for (int k = 0; k < p->out.parts; k++) {
    if (half) situ__cpu_narrow(to[k], SITU__F32, n, p->dtype, out[k]);
    else memcpy(out[k], to[k], (size_t)n * size);
  }
}

static void run_row(const pass *p, int64_t row) {
  void *in[SITU__CELL_PARTS], *out[SITU__CELL_PARTS];
  const int64_t direct = p->size == 2 ? 0 : p->hidden / SITU__CELL_WIDTH * SITU__CELL_WIDTH;
  for (int64_t at = 0, n; at < p->hidden; at += n) {
    n = at < direct ? direct : situ__min_i64(BLOCK, p->hidden - at);
    for (int k = 0; k < p->in.parts; k++) in[k] = p->in.data[k] + row * p->in.row[k] + at * p->size;
    for (int k = 0; k < p->out.parts; k++) out[k] = p->out.data[k] + row * p->out.row[k] + at * p->size;
    if (at < direct) p->run(n, in, out);
    else run_staged(p, n, in, out);
  }
}

/* Parts are short and far apart, and gates come from memory: a processor does not see the next row coming. */
static void fetch_row(const pass *p, int64_t row) {
  const int64_t bytes = p->hidden * p->size;
  for (int k = 0; k < p->in.parts; k++)
    for (int64_t at = 0; at < bytes; at += LINE) __builtin_prefetch(p->in.data[k] + row * p->in.row[k] + at);
}

static void run_rows(int64_t begin, int64_t end, void *payload) {
  for (int64_t row = begin; row < end; row++) {
    if (row + 1 < end) fetch_row(payload, row + 1);
    run_row(payload, row);
  }
}

situ_status situ__cpu_cell(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *h = work->out[work->outs - 1];
  const situ__compute compute = situ__cpu_compute((situ_dtype)h->dtype);
  if (compute == SITU__I64) return SITU_E_UNSUPPORTED;
  pass p = { .run = SITU__ISA_PICK(situ__cpu_isa(), situ__cells)->run[compute][work->op],
             .dtype = (situ_dtype)h->dtype,
             .hidden = h->size[1],
             .size = situ__cpu_size(h->dtype) };
  for (int k = 0; k < work->ins; k++) add_operand(&p, &p.in, work->in[k]);
  for (int k = 0; k < work->outs; k++) add_operand(&p, &p.out, work->out[k]);
  situ__parallel(h->size[0], situ__max_i64(1, SITU__GRAIN / (8 * p.hidden)), run_rows, &p);
  return SITU_OK;
}
