/* Maxima of a convolution's 2 x 2 results, for one element type: included by conv.c with `real`, `vec`, `picks`, LANES,
   LANE_NUMBERS, FN and FN(larger). Outputs are in the lanes and elements of the image are broadcast, so rows of any
   width fill the lanes, maxima of neighbours need no shuffles, and only these are transposed.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/isa/transpose.h"

/* Sums of 2 rows of windows that lie beside each other; columns and vectors are constants where this is inlined. */
ALWAYS_INLINE void FN(maxima_tile)(const situ__conv_maxima *a, const real *x, real *to, int columns, int vectors) {
  const real *w = a->w;
  const int64_t ld = a->ld, k = a->k, *at = a->at;
  vec sum[14][2];
  UNROLL for (int v = 0; v < vectors; v++) {
    const vec bias = a->bias ? FN(load)((const real *)a->bias + v * LANES) : (vec){ 0 };
    UNROLL for (int i = 0; i < 2 * columns; i++) sum[i][v] = bias;
  }
  for (int64_t p = 0; p < k; p++, w += vectors * LANES) {
    const real *row[] = { x + at[p], x + at[p] + ld };
    vec weight[2];
    UNROLL for (int v = 0; v < vectors; v++) weight[v] = FN(load)(w + v * LANES);
    UNROLL for (int i = 0; i < 2 * columns; i++) {
      const vec value = FN(splat)(row[i / columns][i % columns]);
      UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = FN(fma_vec)(weight[v], value, sum[i][v]);
    }
  }
  UNROLL for (int i = 0; i < 2 * columns; i++) {
    UNROLL for (int v = 0; v < vectors; v++) {
      const vec kept = a->relu ? FN(relu)(sum[i][v]) : sum[i][v];
      FN(store)(to + ((i / columns * a->width + i % columns) * vectors + v) * LANES, kept);
    }
  }
}

ALWAYS_INLINE void FN(maxima_rows)(const situ__conv_maxima *a, const real *x, real *to, int vectors) {
  const int64_t next = vectors * LANES;
  int64_t c = 0;
  for (; c + 7 <= a->width; c += 7) FN(maxima_tile)(a, x + c, to + c * next, 7, vectors);
  if (c + 4 <= a->width) FN(maxima_tile)(a, x + c, to + c * next, 4, vectors), c += 4;
  if (c + 2 <= a->width) FN(maxima_tile)(a, x + c, to + c * next, 2, vectors), c += 2;
  if (c < a->width) FN(maxima_tile)(a, x + c, to + c * next, 1, vectors);
}

/* Maxima of 2 x 2 sums, in the place of the first ones. */
ALWAYS_INLINE void FN(maxima_halve)(const situ__conv_maxima *a, int vectors) {
  const int64_t right = vectors * LANES, down = a->width * right;
  real *to = a->sums;
  for (int64_t r = 0; r < a->rows; r += 2) {
    const real *from = (const real *)a->sums + r * down;
    for (int64_t c = 0; c < a->width; c += 2, from += 2 * right, to += right) UNROLL for (int v = 0; v < vectors; v++) {
        const real *at = from + v * LANES;
        vec most = FN(larger)(FN(load)(at + right), FN(load)(at));
        most = FN(larger)(FN(load)(at + down), most);
        FN(store)(to + v * LANES, FN(larger)(FN(load)(at + down + right), most));
      }
  }
}

/* y [outputs, maxima]. */
ALWAYS_INLINE void FN(maxima_finish)(const situ__conv_maxima *a, int vectors) {
  const int64_t maxima = a->rows * a->width / 4;
  for (int64_t first = 0; first < maxima; first += LANES)
    for (int v = 0; v < vectors; v++) {
      const int count = (int)situ__min_i64(LANES, maxima - first);
      const real *from = (const real *)a->sums + (first * vectors + v) * LANES;
      real *to = (real *)a->y + v * LANES * a->y_row + first;
      vec square[LANES];
      UNROLL for (int i = 0; i < LANES; i++) square[i] = FN(load)(from + (i < count ? i : 0) * vectors * LANES);
      FN(transpose)(square);
      UNROLL for (int i = 0; i < LANES; i++) FN(store_some)(to + i * a->y_row, square[i], count);
    }
}

ALWAYS_INLINE void FN(maxima_vectors)(const situ__conv_maxima *a, int vectors) {
  real *sums = a->sums;
  for (int64_t r = 0; r < a->rows; r += 2)
    FN(maxima_rows)(a, (const real *)a->x + r * a->ld, sums + r * a->width * vectors * LANES, vectors);
  FN(maxima_halve)(a, vectors);
  FN(maxima_finish)(a, vectors);
}
static void FN(maxima)(const situ__conv_maxima *a) {
  if (a->vectors == 2) FN(maxima_vectors)(a, 2);
  else FN(maxima_vectors)(a, 1);
}

/* panel [k, vectors * LANES] = transposed w, whose rows have k elements. */
static void FN(maxima_weights)(const void *weights, int64_t k, int vectors, void *panel) {
  for (int v = 0; v < vectors; v++)
    for (int64_t p = 0; p < k; p += LANES) {
      const int count = (int)situ__min_i64(LANES, k - p);
      const real *w = (const real *)weights + v * LANES * k + p;
      real *to = (real *)panel + (p * vectors + v) * LANES;
      vec square[LANES];
      UNROLL for (int i = 0; i < LANES; i++) square[i] = FN(load_some)(w + i * k, count);
      FN(transpose)(square);
      for (int i = 0; i < count; i++) FN(store)(to + i * vectors * LANES, square[i]);
    }
}
