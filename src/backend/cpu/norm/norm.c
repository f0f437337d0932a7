/* Layer norm and RMS norm over the rows of a matrix, and their gradients.
   SPDX-License-Identifier: MIT */
#include "rows.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <stdatomic.h>
#include <string.h>

enum {
  GRAIN = 8192,
  PARTS = 64,
  ON_STACK = 1024,
  LINE = 64,
  /* bytes of padding between rows of scratch: rows a multiple of 4 KiB apart map to the same cache sets */
  APART = 5 * LINE
};

typedef struct plan {
  const situ_work *work;
  situ__compute compute;
  size_t size, row; /* bytes of an element, and of a row of scratch */
  const situ__row_kernels *kernels;
  bool centred, gradient;
  int64_t rows, width, chunk; /* chunk: rows of a part */
  const void *weight, *bias;  /* in the compute type */
  void *mean, *rstd;
  char *parts; /* each part's dweight and dbias */
  atomic_bool no_memory;
} plan;

static bool native(const plan *p, const situ_view_desc *v) {
  return situ__cpu_native((situ_dtype)v->dtype, p->compute);
}

/* A vector in the compute type: in place, or a copy at *scratch, which is advanced. */
static const void *vector(const plan *p, const situ_view_desc *v, char **scratch) {
  if (!v) return NULL;
  if (native(p, v)) return situ__cpu_data(v);
  char *to = *scratch;
  *scratch += (size_t)v->numel * p->size;
  situ__cpu_load(v, 0, v->numel, p->compute, to);
  return to;
}

/* Computes a part's rows: in one call, or for f16 and bf16 row by row through scratch. */
static void part_rows(const plan *p, situ__norm_rows *n, int64_t first, int64_t rows, char *scratch) {
  const situ_work *w = p->work;
  const situ_view_desc *x = w->in[p->gradient ? 1 : 0], *g = p->gradient ? w->in[0] : NULL, *out = w->out[0];
  bool direct = native(p, x);
  int64_t step = direct ? rows : 1;
  for (int64_t r = first; r < first + rows; r += step) {
    int64_t at = r * p->width * (int64_t)p->size;
    char *lx = scratch, *lg = scratch + p->row, *ly = scratch + 2 * p->row;
    if (direct) {
      lx = situ__cpu_data(x) + at;
      lg = g ? situ__cpu_data(g) + at : NULL;
      ly = out ? situ__cpu_data(out) + at : NULL;
    } else {
      situ__cpu_load(x, r * p->width, p->width, p->compute, lx);
      if (g) situ__cpu_load(g, r * p->width, p->width, p->compute, lg);
    }
    n->rows = step;
    n->x = lx;
    n->g = lg;
    n->y = n->dx = out ? ly : NULL;
    n->mean = p->mean ? (char *)p->mean + (size_t)r * p->size : NULL;
    n->rstd = (char *)p->rstd + (size_t)r * p->size;
    if (p->gradient) p->kernels->norm_grad(n);
    else p->kernels->norm(n);
    if (!direct && out) situ__cpu_store(out, r * p->width, p->width, p->compute, ly);
  }
}

static void parts(int64_t begin, int64_t end, void *payload) {
  plan *p = payload;
  /* Three rows for part_rows, if it converts, and two for the gradient. */
  size_t row = p->row, bytes = p->gradient || !native(p, p->work->in[0]) ? 5 * row : 0;
  _Alignas(LINE) char stack[5 * (ON_STACK * sizeof(double) + APART)];
  char *scratch = bytes <= sizeof stack ? stack : situ__alloc(bytes);
  if (!scratch) {
    atomic_store(&p->no_memory, true);
    return;
  }
  for (int64_t k = begin; k < end; k++) {
    situ__norm_rows n = { .centred = p->centred,
                          .width = p->width,
                          .eps = p->work->scalar[0],
                          .weight = p->weight,
                          .bias = p->bias,
                          .scratch = { scratch + 3 * row, scratch + 4 * row } };
    if (p->parts) {
      char *own = p->parts + 2 * (size_t)k * row;
      memset(own, 0, 2 * row);
      n.dweight = own;
      n.dbias = own + row;
    }
    part_rows(p, &n, k * p->chunk, situ__min_i64(p->chunk, p->rows - k * p->chunk), scratch);
  }
  if (scratch != stack) situ__free(scratch);
}

/* Sums `count` parts of a parameter's gradient, which are two rows apart, into `to`; scratch holds one row. */
static void add_parts(const plan *p, const situ_view_desc *to, const char *first, int64_t count, char *scratch) {
  situ__fold_block k = { first, 1, count, p->width, 2 * (int64_t)(p->row / p->size) };
  situ__fold_kernels_for(p->compute)->fold(SITU__FOLD_SUM, SITU__MAP_NONE, 0, &k, scratch, NULL);
  situ__cpu_store(to, 0, p->width, p->compute, scratch);
}

situ_status situ__cpu_norm(int index, const situ_work *work) {
  (void)index;
  plan p = { .work = work, .centred = work->op == SITU_LAYER_NORM || work->op == SITU_LAYER_NORM_GRAD };
  p.gradient = work->op == SITU_LAYER_NORM_GRAD || work->op == SITU_RMS_NORM_GRAD;
  const situ_view_desc *x = work->in[p.gradient ? 1 : 0];
  p.compute = situ__cpu_compute((situ_dtype)x->dtype);
  if (p.compute == SITU__I64)
    return situ__fail(SITU_E_DTYPE, "norm", "%s has no norm", situ__dtype_name((situ_dtype)x->dtype));
  p.size = situ__compute_size(p.compute);
  p.kernels = situ__row_kernels_for(p.compute);
  p.rows = x->size[0];
  p.width = x->size[1];

  /* Operands have different positions forward and backward: see situ_norm_pass. */
  int statistics = p.gradient ? 2 : 1, weight = !p.gradient ? 1 : p.centred ? 4 : 3;
  const situ_view_desc *const *of = p.gradient ? work->in : work->out;
  const situ_view_desc *mean = p.centred ? of[statistics] : NULL, *rstd = of[statistics + (p.centred ? 1 : 0)];
  const situ_view_desc *dweight = p.gradient ? work->out[1] : NULL,
                       *dbias = p.gradient && p.centred ? work->out[2] : NULL;
  p.mean = mean ? situ__cpu_data(mean) : NULL;
  p.rstd = situ__cpu_data(rstd);

  p.chunk = situ__max_i64(1, GRAIN / p.width);
  if (p.gradient) p.chunk = situ__max_i64(p.chunk, situ__ceil_div(p.rows, PARTS));
  int64_t count = situ__max_i64(1, situ__ceil_div(p.rows, p.chunk)); /* with no rows, one part writes gradients of 0 */
  const situ_view_desc *w = work->in[weight], *b = !p.gradient && p.centred ? work->in[2] : NULL;
  size_t row = p.row = (size_t)situ__round_up(p.width * (int64_t)p.size, LINE) + APART,
         vectors = (w && !native(&p, w) ? row : 0) + (b && !native(&p, b) ? row : 0);
  size_t sums = p.gradient ? 2 * (size_t)count * row : 0, bytes = vectors + (sums ? sums + row : 0);
  char *memory = bytes ? situ__alloc(bytes) : NULL, *scratch = memory;
  if (bytes && !memory) return situ__no_memory("norm", bytes);
  p.weight = vector(&p, w, &scratch);
  p.bias = vector(&p, b, &scratch);
  p.parts = sums ? memory + vectors : NULL;
  situ__parallel(count, 1, parts, &p);
  if (!atomic_load(&p.no_memory)) {
    if (dweight) add_parts(&p, dweight, p.parts, count, p.parts + sums);
    if (dbias) add_parts(&p, dbias, p.parts + row, count, p.parts + sums);
  }
  situ__free(memory);
  return atomic_load(&p.no_memory) ? situ__no_memory("norm", 5 * row) : SITU_OK;
}
