/* Matrix products: register tiles for one instruction set, and the blocked product that uses them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_GEMM_H
#define SITU_BACKEND_CPU_GEMM_H

#include "backend/cpu/common/cpu.h"

/* One call of a register tile: c [rows, columns] (+)= alpha a b, for as many rows and columns as the tile has. Strides
   are in elements; the rows of b and c are contiguous. Whole vectors of b must be readable; only `columns` columns of c
   are written. */
typedef struct situ__tile {
  int64_t k, columns;
  const void *a, *b;
  void *c;
  int64_t a_row, a_col, b_row, c_row;
  double alpha;
  bool add;         /* add to c instead of overwriting it */
  const void *from; /* with add: add to these rows instead of those of c, and write to c; NULL: of c */
  int64_t from_row;
  /* Panels that offer it (situ__panels.rounds): the sums are complete, and go there, rounded to bf16, instead of to c;
     before that `bias` is added to each row, NULL for none. past_cache: whole lines of 64 bytes go to memory alone. */
  uint16_t *rounded;
  int64_t rounded_row;
  bool past_cache;
  const float *bias;
} situ__tile;
typedef void (*situ__tile_fn)(const situ__tile *tile);

/* c [m, n] (+)= alpha a [m, k] b [k, n], on one thread. The columns of c are contiguous; k may be 0. */
typedef struct situ__gemm {
  situ_dtype dtype; /* F32 or F64 */
  int64_t m, n, k;
  const void *a, *b;
  void *c;
  int64_t a_row, a_col, b_row, b_col, c_row;
  double alpha;
  bool add;
  const void *from; /* with add: what is added to, instead of c; its columns are contiguous, its rows from_row apart */
  int64_t from_row;
} situ__gemm;

/* The kernels of one instruction set for f32 or f64. Tiles are 1 to `wide` vectors wide and 1, 2, 4, 6, 8 or 12 rows
   high (8 and 12 only the narrower ones); one of 1 row is 4 or 8 vectors wide as well, one of 2 rows 4, as fewer sums
   would wait for each other. Those that do not exist are NULL. */
enum { SITU__TILE_WIDTHS = 8, SITU__TILE_HEIGHTS = 6, SITU__SLIVER = 6 };
#define SITU__TILE_ROWS \
  { 1, 2, 4, SITU__SLIVER, 8, 2 * SITU__SLIVER }
typedef struct situ__gemm_kernels {
  int lanes; /* elements of a vector */
  int wide;  /* vectors of the widest tile: 2, or 4 if there are enough registers */
  situ__tile_fn tile[SITU__TILE_WIDTHS][SITU__TILE_HEIGHTS];
  /* One vector wide, of whose columns only `columns` of b are read: NULL where no instruction loads a part of one. */
  situ__tile_fn edge[SITU__TILE_HEIGHTS];
  /* Packs `lanes` rows of a, or columns of b, into dst [k][width]; lanes up to width are zeroed. lane and step: strides
     between lanes and along k. */
  void (*pack)(void *dst, int64_t width, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k);
  /* A product whose factors are both contiguous along k (a_col and b_row are 1): dot products. */
  void (*dots)(const situ__gemm *g);
} situ__gemm_kernels;
/* dtype F32 or F64; the kernels for this processor. */
const situ__gemm_kernels *situ__gemm_kernels_for(situ_dtype dtype);

/* Multiplies `rows` rows of a with a panel of b, `width` columns (1 to `wide` whole vectors) wide. t holds the panel
   and the addresses of the first row of a and of c. */
void situ__gemm_panel(const situ__gemm_kernels *kernels, situ__tile t, int64_t rows, int64_t width, size_t elem);

/* Elements along k whose sum is added to c at once; 0: dot products, which add in another order. */
int64_t situ__gemm_depth(const situ__gemm *g);
/* Bytes of scratch that a product needs, 64-byte aligned; 0 for small ones. */
size_t situ__gemm_scratch(const situ__gemm *g);
void situ__gemm_run(const situ__gemm *g, void *scratch);
/* Runs it without scratch. Returns false, with nothing done, if it needs some. */
bool situ__gemm_small(const situ__gemm *g);
/* Whether that would return true. */
bool situ__gemm_is_small(const situ__gemm *g);

#endif
