/* Products by tiles that read both factors as they are, or pack their own parts of them; what all algorithms share of
   splitting and of biases.
   SPDX-License-Identifier: MIT */
#include "matmul.h"

#include "base/pool.h"
#include "base/size.h"

enum {
  TILE_M = 252,
  TILE_N = 512,   /* the largest part of c for one task: whole register tiles */
  LEAST_N = 64,   /* columns of c that are not split further */
  TASKS = 16,     /* to split a large problem into: work for several threads */
  NEAR = 2 << 20, /* bytes of a that stay in the L2 cache */
  TASK = 1 << 20  /* minimum situ__matmul_cost() of a task */
};

void situ__matmul_set_rows(const situ__matmul_start *s, situ_dtype dtype, void *c, int64_t c_row, int64_t m,
                           int64_t n) {
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

bool situ__matmul_is_in_place(const situ__matmul *p) {
  const situ__gemm *g = &p->g;
  return (g->m < SITU__FEW && g->b_col == 1) || (g->n < SITU__FEW && g->a_col != 1 && g->m * g->k * p->elem <= NEAR);
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
    if (p->bias) situ__matmul_start_from(p, p->bias + (at.bias + i * p->bias_row + j * p->bias_col) * p->elem, &g);
    situ__gemm_run(&g, scratch);
  }
  situ__slots_give(&p->slots, scratch);
}

static int64_t half_of(int64_t n, int64_t unit) { return situ__ceil_div(situ__ceil_div(n, 2), unit) * unit; }

static int64_t even_tile(int64_t size, int64_t most, int64_t unit) {
  return situ__min_i64(size, situ__round_up(situ__even_part(size, most), unit));
}

int64_t situ__matmul_split(situ__matmul *p, const situ__tiling *t) {
  const double item = situ__matmul_cost((double)p->g.m, (double)p->g.n, (double)p->g.k) / t->pace;
  int64_t grain = 1;
  p->tile_m = p->g.m;
  p->tile_n = p->g.n;
  p->down = p->g.n > p->g.m;
  if (item * (double)p->items <= SITU__MATMUL_SMALL) {
    grain = p->items;
  } else if (item <= TASK) {
    grain = situ__max_i64(1, (int64_t)(SITU__MATMUL_SMALL / item));
  } else {
    p->tile_m = even_tile(p->g.m, t->tile_m, t->unit_m);
    p->tile_n = even_tile(p->g.n, t->tile_n, t->unit_n);
    while (situ__ceil_div(p->g.m, p->tile_m) * situ__ceil_div(p->g.n, p->tile_n) * p->items < t->tasks &&
           situ__matmul_cost((double)p->tile_m, (double)p->tile_n, (double)p->g.k) / t->pace > TASK) {
      if (p->tile_n >= p->tile_m && p->tile_n > t->least_n) p->tile_n = half_of(p->tile_n, t->unit_n);
      else if (p->tile_m > t->least_m) p->tile_m = half_of(p->tile_m, t->unit_m);
      else if (p->tile_n > t->least_n) p->tile_n = half_of(p->tile_n, t->unit_n);
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

situ_status situ__matmul_by_tiles(situ__matmul *p) {
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
