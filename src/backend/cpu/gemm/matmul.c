/* The matmul verb: reduces batches, strides and dtypes to plain products, split into tasks by the problem alone.
   SPDX-License-Identifier: MIT */
#include "matmul.h"
#include "backend/cpu/common/operand.h"
#include "packed.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

#include <string.h>

enum {
  TILE_M = 252,
  TILE_N = 512,    /* the largest part of c for one task: whole register tiles */
  LEAST_N = 64,    /* columns of c that are not split further */
  TASKS = 16,      /* to split a large problem into: work for several threads */
  SMALL = 1 << 20, /* situ__matmul_cost() below which one thread computes the product */
  TASK = 1 << 20   /* minimum situ__matmul_cost() of a task */
};

/* ---- describing the problem ---- */

static bool follows(const situ__steps *outer, const situ__steps *inner) {
  return outer->a == inner->a * inner->count && outer->b == inner->b * inner->count &&
         outer->c == inner->c * inner->count && outer->bias == inner->bias * inner->count;
}

/* Appends a dimension, outermost first; merges contiguous neighbours. */
static void add_dim(situ__matmul *p, situ__steps s) {
  p->items *= s.count;
  if (s.count == 1) return;
  if (p->dims > 0 && follows(&p->batch[p->dims - 1], &s)) {
    s.count *= p->batch[p->dims - 1].count;
    p->dims--;
  }
  p->batch[p->dims++] = s;
}

/* A batch that shares b is one product with more rows. */
static void fold_rows(situ__matmul *p) {
  if (p->dims == 0) return;
  const situ__steps *last = &p->batch[p->dims - 1];
  const bool bias_fits = !p->bias || last->bias == p->bias_row * p->g.m;
  if (last->b != 0 || last->a != p->g.a_row * p->g.m || last->c != p->g.c_row * p->g.m || !bias_fits) return;
  p->g.m *= last->count;
  p->items /= last->count;
  p->dims--;
}

/* c's columns must be contiguous: if its rows are, computes c^T = b^T a^T. */
static bool wants_transpose(const situ_view_desc *y) {
  const int64_t row = y->stride[y->ndim - 2], col = y->stride[y->ndim - 1];
  return row == 1 && (col != 1 || y->size[y->ndim - 1] == 1);
}

/* The operands of the product that is computed, c = a b or c^T = b^T a^T, and the dimensions that are its rows and its
   columns. */
typedef struct sides {
  const situ_view_desc *a, *b, *bias, *y;
  int row, col;
} sides;

static inline sides sides_of(const situ_view_desc *a, const situ_view_desc *b, const situ_view_desc *bias,
                             const situ_view_desc *y) {
  const int r = y->ndim - 2, c = y->ndim - 1;
  return wants_transpose(y) ? (sides){ b, a, bias, y, c, r } : (sides){ a, b, bias, y, r, c };
}

/* The product of the first item of the batch. */
static inline void set_gemm(situ__gemm *g, const situ_work *w, const sides *s) {
  const situ_view_desc *a = s->a, *b = s->b, *y = s->y;
  g->dtype = (situ_dtype)y->dtype;
  g->m = y->size[s->row];
  g->n = y->size[s->col];
  g->k = a->size[s->col];
  g->a = situ__cpu_data(a);
  g->b = situ__cpu_data(b);
  g->c = situ__cpu_data(y);
  g->a_row = a->stride[s->row];
  g->a_col = a->stride[s->col];
  g->b_row = b->stride[s->row];
  g->b_col = b->stride[s->col];
  g->c_row = y->stride[s->row];
  g->alpha = w->scalar[0];
  g->add = s->bias != NULL;
  g->from = NULL;
  g->from_row = 0;
}

static void describe(situ__matmul *p, const situ_work *w, const sides *s) {
  const situ_view_desc *bias = s->bias;
  memset(p, 0, offsetof(situ__matmul, batch));
  set_gemm(&p->g, w, s);
  p->elem = situ__cpu_size(s->y->dtype);
  p->beta = w->scalar[1];
  p->items = 1;
  if (bias) {
    p->bias = situ__cpu_data(bias);
    p->bias_row = bias->stride[s->row];
    p->bias_col = bias->stride[s->col];
  }
  for (int d = 0; d < s->y->ndim - 2; d++)
    add_dim(p, (situ__steps){ s->y->size[d], s->a->stride[d], s->b->stride[d], s->y->stride[d],
                              bias ? bias->stride[d] : 0 });
  fold_rows(p);
}

/* ---- running it ---- */

/* What a product starts from: beta times elements that are so far apart. */
typedef struct start {
  const void *bias;
  int64_t row, col;
  double beta;
} start;

static void set_rows(const start *s, situ_dtype dtype, void *c, int64_t c_row, int64_t m, int64_t n) {
  const int64_t row = s->row, col = s->col;
  if (dtype == SITU_F64) {
    const double *from = s->bias;
    double *to = c;
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) to[i * c_row + j] = s->beta * from[i * row + j * col];
  } else {
    const float *from = s->bias, beta = (float)s->beta;
    float *to = c;
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) to[i * c_row + j] = beta * from[i * row + j * col];
  }
}

/* g reads rows of the bias itself, else c is set first. */
static inline void start_from(const start *s, situ__gemm *g) {
  if (s->beta == 1 && s->col == 1) {
    g->from = s->bias;
    g->from_row = s->row;
  } else {
    set_rows(s, g->dtype, g->c, g->c_row, g->m, g->n);
  }
}

void situ__matmul_bias(const situ__matmul *p, const char *bias, void *c, int64_t c_row, int64_t m, int64_t n) {
  set_rows(&(start){ bias, p->bias_row, p->bias_col, p->beta }, p->g.dtype, c, c_row, m, n);
}
void situ__matmul_start(const situ__matmul *p, const char *bias, situ__gemm *g) {
  start_from(&(start){ bias, p->bias_row, p->bias_col, p->beta }, g);
}

situ__steps situ__matmul_item(const situ__matmul *p, int64_t item) {
  situ__steps at = { 0 };
  for (int d = p->dims - 1; d >= 0; item /= p->batch[d--].count) {
    const int64_t i = item % p->batch[d].count;
    at.a += i * p->batch[d].a, at.b += i * p->batch[d].b, at.c += i * p->batch[d].c, at.bias += i * p->batch[d].bias;
  }
  return at;
}

static void run_tasks(int64_t begin, int64_t end, void *payload) {
  situ__matmul *p = payload;
  void *scratch = situ__slots_take(&p->slots);
  for (int64_t task = begin; task < end; task++) {
    const int64_t tiles = p->tiles_m * p->tiles_n;
    int64_t i, j;
    situ__matmul_tile(p, task % tiles, &i, &j);
    const situ__steps at = situ__matmul_item(p, task / tiles);
    situ__gemm g = p->g;
    g.m = situ__min_i64(p->tile_m, p->g.m - i);
    g.n = situ__min_i64(p->tile_n, p->g.n - j);
    g.a = (const char *)g.a + (at.a + i * g.a_row) * p->elem;
    g.b = (const char *)g.b + (at.b + j * g.b_col) * p->elem;
    g.c = (char *)g.c + (at.c + i * g.c_row + j) * p->elem;
    if (p->bias) situ__matmul_start(p, p->bias + (at.bias + i * p->bias_row + j * p->bias_col) * p->elem, &g);
    situ__gemm_run(&g, scratch);
  }
  situ__slots_give(&p->slots, scratch);
}

static int64_t halved(int64_t n, int64_t unit) { return situ__ceil_div(situ__ceil_div(n, 2), unit) * unit; }

/* Tiles of at most `most`, all but the last of one size and that not much smaller. */
static int64_t even_tile(int64_t size, int64_t most, int64_t unit) {
  const int64_t tile = situ__ceil_div(size, situ__ceil_div(size, most));
  return situ__min_i64(size, situ__round_up(tile, unit));
}

int64_t situ__matmul_split(situ__matmul *p, const situ__tiling *t) {
  const double item = situ__matmul_cost((double)p->g.m, (double)p->g.n, (double)p->g.k) / t->pace;
  int64_t grain = 1;
  p->tile_m = p->g.m;
  p->tile_n = p->g.n;
  if (item * (double)p->items <= SMALL) {
    grain = p->items;
  } else if (item <= TASK) {
    grain = situ__max_i64(1, (int64_t)(SMALL / item));
  } else {
    p->tile_m = even_tile(p->g.m, t->tile_m, t->unit_m);
    p->tile_n = even_tile(p->g.n, t->tile_n, t->unit_n);
    while (situ__ceil_div(p->g.m, p->tile_m) * situ__ceil_div(p->g.n, p->tile_n) * p->items < t->tasks &&
           situ__matmul_cost((double)p->tile_m, (double)p->tile_n, (double)p->g.k) / t->pace > TASK) {
      if (p->tile_n >= p->tile_m && p->tile_n > t->least_n) p->tile_n = halved(p->tile_n, t->unit_n);
      else if (p->tile_m > t->least_m) p->tile_m = halved(p->tile_m, t->unit_m);
      else if (p->tile_n > t->least_n) p->tile_n = halved(p->tile_n, t->unit_n);
      else break;
    }
  }
  p->tiles_m = situ__ceil_div(p->g.m, p->tile_m);
  p->tiles_n = situ__ceil_div(p->g.n, p->tile_n);
  if (t->beside_n && p->tiles_m == 1 && p->tiles_n > 1) {
    p->tile_n = t->beside_n;
    p->tiles_n = situ__ceil_div(p->g.n, p->tile_n);
  }
  return grain;
}

/* The product of an inner tile, or of an edge tile, which may be smaller and use another algorithm. */
static situ__gemm tile_of(const situ__matmul *p, bool lower, bool right) {
  situ__gemm g = p->g;
  g.m = lower ? p->g.m - (p->tiles_m - 1) * p->tile_m : p->tile_m;
  g.n = right ? p->g.n - (p->tiles_n - 1) * p->tile_n : p->tile_n;
  return g;
}

situ_status situ__matmul_run(situ__matmul *p) {
  static const situ__tiling tiling = { TILE_M, TILE_N, SITU__FEW, LEAST_N, 12, LEAST_N, TASKS, 1, 0 };
  const int64_t grain = situ__matmul_split(p, &tiling), tasks = p->items * p->tiles_m * p->tiles_n;
  size_t most = 0;
  for (int edge = 0; edge < 4; edge++) {
    const situ__gemm g = tile_of(p, edge & 1, edge >> 1);
    const size_t bytes = situ__gemm_scratch(&g);
    if (bytes > most) most = bytes;
  }
  const situ_status status = situ__slots_open(&p->slots, "matmul", most, situ__ceil_div(tasks, grain));
  if (status != SITU_OK) return status;
  situ__parallel(tasks, grain, run_tasks, p);
  situ__slots_close(&p->slots);
  return SITU_OK;
}

static situ_status run_product(situ__matmul *p) {
  /* A small product is done before other threads would wake. */
  if (p->items == 1 && situ__matmul_cost((double)p->g.m, (double)p->g.n, (double)p->g.k) <= SMALL) {
    if (p->bias) situ__matmul_start(p, p->bias, &p->g);
    if (situ__gemm_small(&p->g)) return SITU_OK;
    p->g.from = NULL;
  }
  situ_status status = SITU_OK;
  if (situ__apart_run(p, &status) || situ__packed_run(p, &status)) return status;
  return situ__matmul_run(p);
}

/* ---- integers: exact, wrapping as their dtype does ---- */

static void whole_rows(int64_t begin, int64_t end, void *payload) {
  const situ__matmul *p = payload;
  const uint64_t alpha = (uint64_t)(int64_t)p->g.alpha, beta = (uint64_t)(int64_t)p->beta;
  for (int64_t row = begin; row < end; row++) {
    const int64_t i = row % p->g.m;
    int64_t item = row / p->g.m, a = i * p->g.a_row, b = 0, c = i * p->g.c_row, bias = i * p->bias_row;
    for (int d = p->dims - 1; d >= 0; item /= p->batch[d--].count) {
      const int64_t at = item % p->batch[d].count;
      a += at * p->batch[d].a, b += at * p->batch[d].b, c += at * p->batch[d].c, bias += at * p->batch[d].bias;
    }
    const uint64_t *x = (const uint64_t *)p->g.a, *y = (const uint64_t *)p->g.b,
                   *from = (const uint64_t *)(const void *)p->bias;
    uint64_t *to = (uint64_t *)p->g.c + c;
    for (int64_t j = 0; j < p->g.n; j++) to[j] = from ? beta * from[bias + j * p->bias_col] : 0;
    for (int64_t q = 0; q < p->g.k; q++) {
      const uint64_t factor = alpha * x[a + q * p->g.a_col];
      for (int64_t j = 0; j < p->g.n; j++) to[j] += factor * y[b + q * p->g.b_row + j * p->g.b_col];
    }
  }
}

/* ---- the verb ---- */

static situ_status run_direct(const situ_work *w, const situ_view_desc *a, const situ_view_desc *b,
                              const situ_view_desc *bias, const situ_view_desc *y) {
  const sides s = sides_of(a, b, bias, y);
  situ__matmul p;
  describe(&p, w, &s);
  if (w->ins > 3 && w->in[3] && p.items == 1 && p.g.b == situ__cpu_data(b)) p.factor = situ__cpu_data(w->in[3]);
  if (y->dtype != SITU_I64) return run_product(&p);
  situ__parallel(p.items * p.g.m, situ__max_i64(1, SMALL / (p.g.n * p.g.k + 1)), whole_rows, &p);
  return SITU_OK;
}

/* Products of 16 bits are packed, and converted only then if they must be. Returns false, with nothing done, if that is
   not faster. */
static bool run_halves(const situ_work *w, const situ_view_desc *bias, situ_status *status) {
  const situ_view_desc *a = w->in[0], *b = w->in[1], *y = w->out[0];
  if (w->compute != SITU_BF16 && w->compute != SITU_F16) return false;
  if (a->dtype != w->compute || b->dtype != w->compute || y->dtype != w->compute) return false;
  if (bias && bias->dtype != w->compute) return false;
  const sides s = sides_of(a, b, bias, y);
  situ__matmul p;
  describe(&p, w, &s);
  return situ__packed_run(&p, status);
}

/* A small product of two matrices is done before it would be described. Returns false for others, which have at most
   been started. */
static inline bool run_at_once(const situ_work *w, const situ_view_desc *bias) {
  const sides s = sides_of(w->in[0], w->in[1], bias, w->out[0]);
  situ__gemm g;
  set_gemm(&g, w, &s);
  if (situ__matmul_cost((double)g.m, (double)g.n, (double)g.k) > SMALL) return false;
  if (bias) start_from(&(start){ situ__cpu_data(bias), bias->stride[s.row], bias->stride[s.col], w->scalar[1] }, &g);
  return situ__gemm_small(&g);
}

/* Copies operands whose dtype or layout the product cannot use, then runs it. */
static SITU_COLD situ_status run_copies(const situ_work *w, const situ_view_desc *bias, situ_dtype dtype,
                                        bool ordered) {
  const char *op = "matmul";
  situ__cpu_operand a = { 0 }, b = { 0 }, x = { 0 }, y = { 0 };
  situ_status status = situ__operand_in(&a, op, w->in[0], dtype);
  if (status == SITU_OK) status = situ__operand_in(&b, op, w->in[1], dtype);
  if (status == SITU_OK) status = situ__operand_in(&x, op, bias, dtype);
  if (status == SITU_OK) status = situ__operand_out(&y, op, w->out[0], dtype, ordered);
  if (status == SITU_OK) status = run_direct(w, a.view, b.view, x.view, y.view);
  if (status == SITU_OK) situ__operand_write(&y);
  situ__operand_close(&a);
  situ__operand_close(&b);
  situ__operand_close(&x);
  situ__operand_close(&y);
  return status;
}

situ_status situ__cpu_matmul(int index, const situ_work *w) {
  (void)index;
  if (w->compute == SITU_BOOL) return SITU_E_UNSUPPORTED;
  const situ_dtype dtype = situ__cpu_lane_dtype(w->compute);
  const situ_view_desc *bias = w->ins > 2 && w->scalar[1] != 0 ? w->in[2] : NULL, *y = w->out[0];
  const bool ordered = y->stride[y->ndim - 1] == 1 || wants_transpose(y);
  const bool same =
      w->in[0]->dtype == dtype && w->in[1]->dtype == dtype && y->dtype == dtype && (!bias || bias->dtype == dtype);
  situ_status status = SITU_OK;
  if (same && ordered && y->ndim == 2 && dtype != SITU_I64 && run_at_once(w, bias)) return SITU_OK;
  if (ordered && run_halves(w, bias, &status)) return status;
  return same && ordered ? run_direct(w, w->in[0], w->in[1], bias, y) : run_copies(w, bias, dtype, ordered);
}

/* ---- factors that are laid out before ---- */

static situ__matmul factor_of(const situ_work *w) {
  const situ_view_desc *b = w->in[0];
  return (situ__matmul){ .elem = situ__cpu_size(b->dtype),
                         .items = 1,
                         .same = w->integer[1] != 0,
                         .g = { .dtype = (situ_dtype)b->dtype,
                                .m = w->integer[0],
                                .n = b->size[1],
                                .k = b->size[0],
                                .b = b->storage ? situ__cpu_data(b) : NULL,
                                .b_row = b->stride[0],
                                .b_col = b->stride[1] } };
}

situ_status situ__cpu_offers_matmul_factor(const situ_work *w) {
  const situ__matmul p = factor_of(w);
  return situ__packed_offers_factor(&p) ? SITU_OK : SITU_E_UNSUPPORTED;
}

situ_status situ__cpu_matmul_factor(const situ_work *w) {
  situ__matmul p = factor_of(w);
  return situ__packed_factor(&p, situ__cpu_data(w->out[0]));
}
