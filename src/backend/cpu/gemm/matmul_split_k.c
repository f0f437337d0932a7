/* Gradients of small weights, a^T b: few sums of many terms, for which both factors' rows follow each other along k,
   which is the batch. Tiles write to memory of their own, and what they wrote is joined.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"
#include "backend/cpu/reduce/fold.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

enum {
  PARTS = 4, /* of a sum of LONG terms, where there are FEW: all parts stay in the L2 cache */
  LONG = 1 << 10,
  FEW = 1 << 15,
  MANY = 128,  /* rows of a result that is computed across: */
  NARROW = 16, /* of so few columns, */
  DEEP = 128,  /* with so many terms for each vector that they fill; */
  VECTORS = 3, /* or of columns that fill so many, if sums are LONG */
  WIDEST = 48, /* columns of one, whatever the vectors are */
  JOINED = 64  /* rows that are turned together */
};

/* Threads that computed the factors each have a part of their rows in their cache, and tiles of the result would read
   all of them: so parts of k are the items of a batch, whose results are added up. A narrow result is computed across,
   b^T a: tiles read long runs of a, where they read a few numbers of each row. All depends on the problem alone, so
   that bits do, too. */
typedef struct split {
  const situ__matmul *p;
  int64_t parts;
  bool across;
  char *sums; /* of each part, [m, n] or across [n, m] */
} split;

static bool is_across(const situ__gemm *g) {
  const int64_t vectors = situ__ceil_div(g->n, situ__gemm_kernels_for(g->dtype)->lanes);
  if (g->m < MANY || g->n > WIDEST) return false;
  return g->n <= NARROW ? g->k >= DEEP * vectors : g->k >= LONG && vectors <= VECTORS;
}

static split split_of(const situ__matmul *p) {
  const bool long_sums = p->g.k >= LONG && p->g.k % PARTS == 0;
  return (split){ .p = p, .parts = long_sums ? PARTS : 1, .across = is_across(&p->g) };
}

/* Of elements [begin, end) of what each part has. */
static void add_parts(const split *x, int64_t begin, int64_t end, char *to) {
  const situ__matmul *p = x->p;
  const situ__compute compute = p->g.dtype == SITU_F64 ? SITU__F64 : SITU__F32;
  const situ__fold_block block = { x->sums + begin * p->elem, 1, x->parts, end - begin, p->g.m * p->g.n };
  situ__fold_kernels_for(compute)->fold(SITU__FOLD_SUM, SITU__MAP_NONE, 0, &block, to, NULL);
}

static void join_elements(int64_t begin, int64_t end, void *payload) {
  const split *x = payload;
  add_parts(x, begin, end, (char *)x->p->g.c + begin * x->p->elem);
}

static void join_rows(int64_t begin, int64_t end, void *payload) {
  const split *x = payload;
  const situ__gemm *g = &x->p->g;
  const int64_t elem = x->p->elem, m = g->m, n = g->n;
  double block[WIDEST * JOINED];
  for (int64_t j = 0; j < n; j++) add_parts(x, j * m + begin, j * m + end, (char *)block + j * JOINED * elem);
  situ__gemm_kernels_for(g->dtype)->pack((char *)g->c + begin * n * elem, n, block, JOINED, 1, n, end - begin);
}

static situ__matmul part_of(const split *x) {
  const situ__gemm *full = &x->p->g;
  situ__matmul part = { .g = *full, .elem = x->p->elem, .dims = 1, .items = x->parts };
  situ__gemm *g = &part.g;
  if (x->across) {
    g->m = full->n, g->n = g->c_row = full->m;
    g->a = full->b, g->a_col = full->b_row;
    g->b = full->a, g->b_row = full->a_col;
  }
  g->k /= x->parts;
  g->c = x->sums;
  part.batch[0] = (situ__steps){ .count = x->parts, .a = g->k * g->a_col, .b = g->k * g->b_row, .c = g->m * g->n };
  return part;
}

static situ_status run_parts(split *x) {
  static const situ_device cpu = { .kind = SITU_CPU };
  const int64_t count = x->p->g.m * x->p->g.n;
  const size_t bytes = (size_t)(x->parts * count * x->p->elem);
  situ_status status = situ__memory_alloc("matmul", cpu, bytes, (void **)&x->sums);
  if (status != SITU_OK) return status;
  situ__matmul part = part_of(x);
  status = situ__matmul_by_tiles(&part);
  if (status == SITU_OK && x->across) situ__parallel(x->p->g.m, JOINED, join_rows, x);
  else if (status == SITU_OK) situ__parallel(count, WIDEST * JOINED, join_elements, x);
  situ__memory_free(cpu, x->sums, bytes);
  return status;
}

static bool suits(const situ__matmul *p) {
  const situ__gemm *g = &p->g;
  const bool gradient = g->a_row == 1 && g->b_col == 1 && g->c_row == g->n && p->items == 1 && !p->bias;
  if (!gradient || !situ__matmul_is_real(p) || g->m * g->n > FEW) return false;
  const split x = split_of(p);
  return x.across || (x.parts > 1 && situ__matmul_is_in_place(p));
}

static situ_status run(situ__matmul *p) {
  split x = split_of(p);
  return run_parts(&x);
}

const situ__matmul_algorithm situ__matmul_split_k = { "split_k", suits, run, SITU__ISA_BASE };
