/* Sums over the rows of a matrix, for each column: of x (OP 0), or the gradients of layer norm's (1) and RMS norm's (2)
   weight and bias. A work-group sums a slice of the rows, and as many columns as `across` threads load in packs of 16
   bytes; its other threads sum other rows. The slices' sums are a matrix again. The order of summation depends on the
   sizes alone.
   SPDX-License-Identifier: MIT

   D0 is y and y2 (or T), D1 x, D2 g. */
#include "kernels/element.h"

enum { PACK = PACK_BYTES / SIZE(D1) };
typedef struct pack_1 {
  MEMORY(D1) v[PACK];
} ALIGNED(PACK_BYTES) pack_1;
#define READ(from, to)                                                                               \
  if (full) {                                                                                        \
    const pack_1 all = AS(GLOBAL const pack_1, from);                                                \
    UNROLL for (int e = 0; e < PACK; e++) to[e] = LOAD(D1, all.v[e]);                                \
  } else {                                                                                           \
    UNROLL for (int e = 0; e < PACK; e++) to[e] = column + e < n.width ? LOAD(D1, (from)[e]) : (T)0; \
  }
/* Adds the sums of threads of other rows; the threads of row 0 get the result. */
#define ADD_LANES(sum)                                                                            \
  UNROLL for (int e = 0; e < PACK; e++) scratch[e * GROUP_SIZE + LANE] = sum[e];                  \
  SYNC;                                                                                           \
  for (int apart = GROUP_SIZE / 2; apart >= across; apart /= 2) {                                 \
    UNROLL for (int e = 0; e < PACK; e++) {                                                       \
      if (LANE < apart) scratch[e * GROUP_SIZE + LANE] += scratch[e * GROUP_SIZE + LANE + apart]; \
    }                                                                                             \
    SYNC;                                                                                         \
  }
#define WRITE(y, at)                                           \
  UNROLL for (int e = 0; e < PACK; e++) {                      \
    if (LANE >= across || column + e >= n.width) continue;     \
    const T v = scratch[e * GROUP_SIZE + LANE] / (T)n.divisor; \
    y[at + slice * n.width + column + e] = STORE(D0, v);       \
  }

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x
#if OP
                  ,
                  GLOBAL MEMORY(D0) *y2, GLOBAL const MEMORY(D1) *g, GLOBAL const T *mean, GLOBAL const T *rstd
#endif
                  ,
                  const column_sums n) {
  LOCAL T scratch[GROUP_SIZE * PACK];
  const int across = (int)n.across;
  const I64 tile = GROUP % n.tiles, slice = GROUP / n.tiles, column = (tile * across + LANE % across) * PACK;
  const I64 first = slice * n.length, end = first + n.length < n.rows ? first + n.length : n.rows;
  const bool full = n.full && column + PACK <= n.width;
  T sum[PACK], sum_2[PACK];
  UNROLL for (int e = 0; e < PACK; e++) sum[e] = sum_2[e] = 0;
  for (I64 r = first + LANE / across; r < end; r += GROUP_SIZE / across) {
    T v[PACK];
    READ(x + n.x + r * n.row + column, v)
#if OP
    T h[PACK];
    READ(g + n.g + r * n.row + column, h)
    const T centre = OP == 1 ? mean[n.mean + r] : 0, scale = rstd[n.rstd + r];
    UNROLL for (int e = 0; e < PACK; e++) {
      sum[e] += h[e] * ((v[e] - centre) * scale);
      sum_2[e] += h[e];
    }
#else
    UNROLL for (int e = 0; e < PACK; e++) sum[e] += v[e];
#endif
  }
  ADD_LANES(sum)
  if (y) { WRITE(y, n.y) }
#if OP
  if (!y2) return;
  SYNC;
  ADD_LANES(sum_2)
  WRITE(y2, n.y2)
#endif
}
