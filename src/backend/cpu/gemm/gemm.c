/* The blocked matrix product: register tiles over blocks that fit in the caches, for any strides. Each sum runs along k
   in one order, whichever part of c is computed.
   SPDX-License-Identifier: MIT */
#include "gemm.h"
#include "backend/cpu/common/isa.h"

#include "base/size.h"

#include <string.h>

/* Measured on cores with 32 KiB and 1 MiB of cache, against the FMA peak; see bench/. */
enum {
  BLOCK_K = 384,
  BLOCK_M = 192,
  BLOCK_N = 512, /* a block of a and one of b stay in the L2 cache */
  PLACE_K = 128, /* where b is read in place by tiles of 4 vectors: its rows in a tile stay in the L1 cache, or near */
  THIN_M = 4,
  THIN_K = 32,    /* few rows: b is read once, so it is read in long runs */
  NEAR = 1 << 15, /* unless it has so few elements that it stays in the cache */
  PACK_B_M = 128,
  PACK_B = 16384,           /* rows, and elements of b, from which packing a contiguous b pays */
  DOTS_K = 14,              /* dot products are faster than packing b for m < k / 14 */
  DOTS_TINY = 1024,         /* and for products of few elements */
  EDGE_M = 24,              /* few rows: columns of b that are not a whole vector are read in place, not packed */
  STACK = 8192,             /* bytes of scratch on the stack */
  MOST_M = 2 * SITU__SLIVER /* rows of the highest tiles */
};

SITU__ISA_DECLARE(situ__gemm_kernels, situ__gemm_f32);
SITU__ISA_DECLARE(situ__gemm_kernels, situ__gemm_f64);

const situ__gemm_kernels *situ__gemm_kernels_for(situ_dtype dtype) {
  const situ__isa isa = situ__cpu_isa();
  return dtype == SITU_F64 ? SITU__ISA_PICK(isa, situ__gemm_f64) : SITU__ISA_PICK(isa, situ__gemm_f32);
}

/* Numbers of lanes, and of vectors of the widest tiles, are powers of two: nothing here divides, as a division takes as
   long as many a small product. */
typedef struct plan {
  const situ__gemm_kernels *kernels;
  int64_t widest; /* vectors of the widest tile */
  int64_t kc;     /* depth of a block */
  bool dots, pack_b;
  bool edges; /* the last columns of b, fewer than a vector, are read in place by tiles of their own */
} plan;

static inline int64_t full_vectors(const situ__gemm_kernels *kernels, int64_t columns) {
  return columns >> __builtin_ctz((unsigned)kernels->lanes);
}
static inline int64_t round_to_vectors(const situ__gemm_kernels *kernels, int64_t columns) {
  return (columns + kernels->lanes - 1) & -(int64_t)kernels->lanes;
}

static inline int64_t widest_of(const situ__gemm *g, const situ__gemm_kernels *kernels) {
  return g->m >= 4 ? kernels->wide : g->m == 1 ? 8 : 4;
}

static inline bool takes_dots(const situ__gemm *g, const situ__gemm_kernels *kernels) {
  return g->a_col == 1 && g->b_row == 1 &&
         (g->m * DOTS_K <= g->k || g->m * g->n * g->k <= DOTS_TINY || (g->n == 1 && g->c_row == 1 && g->k >= 32) ||
          (g->n < kernels->lanes && g->k >= 256));
}

static plan plan_of(const situ__gemm *g) {
  plan p = { .kernels = situ__gemm_kernels_for(g->dtype) };
  p.widest = widest_of(g, p.kernels);
  p.dots = takes_dots(g, p.kernels);
  p.pack_b = g->b_col != 1 || (g->m >= PACK_B_M && g->k * g->n > PACK_B);
  p.edges = g->m <= EDGE_M && !p.pack_b && p.kernels->edge[0];
  const int64_t place = p.kernels->wide > 2 ? PLACE_K : BLOCK_K;
  const int64_t most = p.pack_b ? BLOCK_K : g->m > THIN_M ? place : g->k * g->n <= NEAR ? BLOCK_K : THIN_K;
  p.kc = situ__even_part(g->k, most);
  return p;
}

/* Elements of scratch for a block of b: all of its panels, or only the last one, which is not a whole tile. */
static int64_t b_scratch(const situ__gemm *g, const plan *p) {
  if (p->edges) return 0;
  const int64_t columns = p->pack_b ? situ__min_i64(g->n, BLOCK_N) : g->n & (p->widest * p->kernels->lanes - 1);
  return p->kc * round_to_vectors(p->kernels, columns);
}

static size_t scratch_of(const situ__gemm *g, const plan *p) {
  if (p->dots) return 0;
  const size_t bytes = (size_t)b_scratch(g, p) * situ__dtype_size(g->dtype);
  return bytes <= STACK ? 0 : bytes;
}
size_t situ__gemm_scratch(const situ__gemm *g) {
  const plan p = plan_of(g);
  return scratch_of(g, &p);
}

int64_t situ__gemm_depth(const situ__gemm *g) {
  const plan p = plan_of(g);
  return p.dots ? 0 : p.kc;
}

/* The tile is not copied: wide loads of what was just written in parts wait for the stores, which took a quarter of a
   product of one row. */
static inline void panel(const situ__tile_fn *tiles, situ__tile *t, int64_t rows, size_t elem) {
  static const int height[SITU__TILE_HEIGHTS] = SITU__TILE_ROWS;
  const char *a = t->a, *from = t->from;
  char *c = t->c;
  int h = SITU__TILE_HEIGHTS - 1;
  for (int64_t i = 0; i < rows; i += height[h]) {
    while (height[h] > rows - i || !tiles[h]) h--;
    /* 4 and 4 rows are as many sums as hide the latency of one, 2 are not. */
    if (rows - i == SITU__SLIVER + 2 && height[h] == SITU__SLIVER) h--;
    /* Nor are the 2 to 4 that 12 leave of so many: 8 are first. */
    if (rows - i >= MOST_M + 2 && rows - i <= MOST_M + 4 && height[h] == MOST_M) h--;
    t->a = a + i * t->a_row * (int64_t)elem;
    t->c = c + (size_t)(i * t->c_row) * elem;
    if (from) t->from = from + i * t->from_row * (int64_t)elem;
    tiles[h](t);
  }
  t->a = a;
}

void situ__gemm_panel(const situ__gemm_kernels *kernels, situ__tile t, int64_t rows, int64_t width, size_t elem) {
  panel(kernels->tile[full_vectors(kernels, width) - 1], &t, rows, elem);
}

/* Position of a block, and its scratch. */
typedef struct block {
  int64_t k, kc, n, nc, m, mc; /* first index and count along each dimension */
  char *packed_b;
} block;

/* Vectors of the next tile, if `left` columns are left. Wide tiles of few rows are 4 and 8 vectors wide. */
static inline int64_t tile_vectors(const plan *p, int64_t left) {
  const situ__gemm_kernels *kernels = p->kernels;
  const int64_t full = full_vectors(kernels, left);
  int64_t vectors = p->widest;
  while (vectors > kernels->wide && vectors > full) vectors /= 2;
  if (vectors <= full) return vectors;
  return p->edges ? situ__max_i64(1, full) : full_vectors(kernels, round_to_vectors(kernels, left));
}

/* packs: a constant wherever this is inlined; false for a block of which nothing is packed. */
static inline __attribute__((always_inline)) void run_block(const situ__gemm *g, const plan *p, const block *at,
                                                            size_t elem, bool packs) {
  char *next = at->packed_b;
  situ__tile t = { .k = at->kc,
                   .a = (const char *)g->a + (at->m * g->a_row + at->k * g->a_col) * (int64_t)elem,
                   .a_row = g->a_row,
                   .a_col = g->a_col,
                   .c_row = g->c_row,
                   .alpha = g->alpha,
                   .add = g->add || at->k > 0,
                   .from_row = g->from_row };
  for (int64_t j = 0, width; j < at->nc; j += width) {
    const char *b = (const char *)g->b + (at->k * g->b_row + (at->n + j) * g->b_col) * (int64_t)elem;
    const int64_t vectors = tile_vectors(p, at->nc - j);
    width = vectors * p->kernels->lanes;
    t.columns = situ__min_i64(width, at->nc - j);
    const bool edge = (!packs || p->edges) && t.columns < width;
    t.c = (char *)g->c + (size_t)(at->m * g->c_row + at->n + j) * elem;
    if (g->from && at->k == 0) t.from = (const char *)g->from + (at->m * g->from_row + at->n + j) * (int64_t)elem;
    if (packs && (p->pack_b || (t.columns < width && !edge))) {
      if (at->m == 0) p->kernels->pack(next, width, b, g->b_col, g->b_row, t.columns, at->kc);
      t.b = next;
      t.b_row = width;
      next += (size_t)(at->kc * width) * elem;
    } else {
      t.b = b;
      t.b_row = g->b_row;
    }
    panel(edge ? p->kernels->edge : p->kernels->tile[vectors - 1], &t, at->mc, elem);
  }
}

static void run_blocks(const situ__gemm *g, const plan *p, char *memory, size_t elem) {
  block at = { .packed_b = memory };
  for (at.n = 0; at.n < g->n; at.n += BLOCK_N) {
    at.nc = situ__min_i64(BLOCK_N, g->n - at.n);
    for (at.k = 0; at.k < g->k; at.k += p->kc) {
      at.kc = situ__min_i64(p->kc, g->k - at.k);
      for (at.m = 0; at.m < g->m; at.m += BLOCK_M) {
        at.mc = situ__min_i64(BLOCK_M, g->m - at.m);
        run_block(g, p, &at, elem, true);
      }
    }
  }
}

static __attribute__((noinline)) void run_blocks_on_stack(const situ__gemm *g, const plan *p, size_t elem) {
  _Alignas(64) char stack[STACK];
  run_blocks(g, p, stack, elem);
}

static inline size_t elem_of(const situ__gemm *g) { return g->dtype == SITU_F64 ? sizeof(double) : sizeof(float); }

static void run_plan(const situ__gemm *g, const plan *p, void *scratch) {
  const size_t elem = elem_of(g);
  if (g->k == 0) {
    for (int64_t i = 0; i < g->m; i++) {
      char *c = (char *)g->c + (size_t)(i * g->c_row) * elem;
      if (!g->add) memset(c, 0, (size_t)g->n * elem);
      else if (g->from) memcpy(c, (const char *)g->from + i * g->from_row * (int64_t)elem, (size_t)g->n * elem);
    }
  } else if (p->dots) {
    p->kernels->dots(g);
  } else if (scratch) {
    run_blocks(g, p, scratch, elem);
  } else {
    run_blocks_on_stack(g, p, elem);
  }
}

void situ__gemm_run(const situ__gemm *g, void *scratch) {
  const plan p = plan_of(g);
  run_plan(g, &p, scratch);
}

/* Whether the plan would be one block of which nothing is packed: for few rows, from few elements of b. */
static inline bool is_one_block(const situ__gemm *g, const situ__gemm_kernels *kernels) {
  const bool full = (g->n & (kernels->lanes - 1)) == 0;
  return g->b_col == 1 && g->b_row != 1 && g->m <= EDGE_M && g->n <= BLOCK_N && g->k > 0 && g->k <= PLACE_K &&
         g->k * g->n <= NEAR && (full || kernels->edge[0]);
}

bool situ__gemm_small(const situ__gemm *g) {
  const situ__gemm_kernels *kernels = situ__gemm_kernels_for(g->dtype);
  if (is_one_block(g, kernels)) {
    const plan at_once = { .kernels = kernels, .widest = widest_of(g, kernels), .kc = g->k, .edges = kernels->edge[0] };
    run_block(g, &at_once, &(block){ .kc = g->k, .nc = g->n, .mc = g->m }, elem_of(g), false);
    return true;
  }
  if (g->k > 0 && takes_dots(g, kernels)) {
    kernels->dots(g);
    return true;
  }
  const plan p = plan_of(g);
  const bool fits = scratch_of(g, &p) == 0;
  if (fits) run_plan(g, &p, NULL);
  return fits;
}

bool situ__gemm_is_small(const situ__gemm *g) {
  return is_one_block(g, situ__gemm_kernels_for(g->dtype)) || situ__gemm_scratch(g) == 0;
}
