/* A described matrix product, split into tiles of the result: what its algorithms share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_MATMUL_H
#define SITU_BACKEND_CPU_MATMUL_H

#include "gemm.h"
#include "backend/cpu/common/slots.h"

/* Strides of the operands along one dimension of the batch, or offsets of one of its items; 0 for a NULL operand. */
typedef struct situ__steps {
  int64_t count, a, b, c, bias;
} situ__steps;

/* c = alpha a b + beta bias for each item of the batch. */
typedef struct situ__matmul {
  situ__gemm g; /* of the batch's first item, without its bias; its dtype may be F16 or BF16 */
  int64_t elem;
  const char *bias;
  int64_t bias_row, bias_col;
  const char *packed_b; /* b laid out by situ__packed_prepack; NULL: not */
  bool same;            /* to lay out: only for products that have the same bits without it */
  double beta;
  int dims;
  int64_t done; /* items that an algorithm had done before it found values that do not suit */
  int64_t items, tile_m, tile_n, tiles_m, tiles_n; /* a task is a tile of an item's c */
  bool down;                                       /* tiles follow each other down c's columns; else along its rows */
  situ__slots slots;
  situ__steps batch[SITU_MAX_DIMS]; /* the last member, as it is not zeroed: entries from dims on are not set */
} situ__matmul;

/* Estimated cost of [m, k] x [k, n]: multiply-adds plus memory traffic. */
static inline double situ__matmul_cost(double m, double n, double k) { return m * n * k + 4 * (m * k + k * n + m * n); }

/* Rows for which an element of b is read so seldom that it is not packed, or columns, and one of a. Parts of c are not
   split to fewer rows, as each would pack a transposed b. */
enum { SITU__FEW = 80 };

/* How to split: the largest tiles, those that are not split further for the sake of `tasks`, and what their sizes are
   multiples of; pace: multiply-adds in the time of one in f32; beside_n: columns of tiles that all lie beside each
   other, 0: as of others. */
typedef struct situ__tiling {
  int64_t tile_m, tile_n, least_m, least_n, unit_m, unit_n, tasks;
  double pace;
  int64_t beside_n;
} situ__tiling;
/* Sets the tiles; returns the number of tasks for each chunk. */
int64_t situ__matmul_split(situ__matmul *p, const situ__tiling *tiling);
/* First row and column of a tile of c. A thread's share of tiles is a part of the longer side, and is as much work as
   the next one's. */
static inline void situ__matmul_tile(const situ__matmul *p, int64_t tile, int64_t *i, int64_t *j) {
  *i = (p->down ? tile % p->tiles_m : tile / p->tiles_n) * p->tile_m;
  *j = (p->down ? tile / p->tiles_m : tile % p->tiles_n) * p->tile_n;
}
/* Offsets of an item of the batch, in elements. */
situ__steps situ__matmul_item(const situ__matmul *p, int64_t item);

/* What a product starts from: beta times elements that are so far apart. */
typedef struct situ__matmul_start {
  const void *bias;
  int64_t row, col;
  double beta;
} situ__matmul_start;
/* Writes that, in f32 or f64, to m rows of c, which are c_row apart. */
void situ__matmul_set_rows(const situ__matmul_start *s, situ_dtype dtype, void *c, int64_t c_row, int64_t m, int64_t n);
/* g, a part of the product in f32 or f64, reads rows of the bias itself, else c is set first. */
static inline void situ__matmul_start_at(const situ__matmul_start *s, situ__gemm *g) {
  if (s->beta == 1 && s->col == 1) {
    g->from = s->bias;
    g->from_row = s->row;
  } else {
    situ__matmul_set_rows(s, g->dtype, g->c, g->c_row, g->m, g->n);
  }
}
static inline situ__matmul_start situ__matmul_start_of(const situ__matmul *p, const char *bias) {
  return (situ__matmul_start){ bias, p->bias_row, p->bias_col, p->beta };
}
static inline void situ__matmul_start_from(const situ__matmul *p, const char *bias, situ__gemm *g) {
  const situ__matmul_start s = situ__matmul_start_of(p, bias);
  situ__matmul_start_at(&s, g);
}

/* situ__matmul_cost() below which one thread computes the product */
enum { SITU__MATMUL_SMALL = 1 << 20 };
/* Of f32 or f64. */
static inline bool situ__matmul_is_real(const situ__matmul *p) {
  return p->g.dtype == SITU_F32 || p->g.dtype == SITU_F64;
}
/* Whether vectors can read a factor in place, and read its elements too seldom to pack it. */
bool situ__matmul_is_in_place(const situ__matmul *p);
/* Runs it by tiles that read both factors as they are, or pack their own parts of them: F32 and F64. */
situ_status situ__matmul_by_tiles(situ__matmul *p);

#endif
