/* Register tiles for one element type: included by gemm.c with `real`, `vec`, LANES, `fma_vec` and a suffix.
   SPDX-License-Identifier: MIT */

/* Stores the part of a tile that is inside c, whose columns are not whole vectors. */
static __attribute__((noinline)) void FN(finish)(const situ__tile *t, const vec *part, int rows, int vectors) {
  for (int i = 0; i < rows; i++, part += vectors) {
    real *to = (real *)t->c + i * t->c_row;
    const real *from = t->from ? (const real *)t->from + i * t->from_row : to;
    for (int v = 0; v * LANES < t->columns; v++) {
      const int64_t left = t->columns - v * LANES;
      const int count = left < LANES ? (int)left : LANES;
      const vec value = t->add ? FN(load_some)(from + v * LANES, count) + part[v] : part[v];
      FN(store_some)(to + v * LANES, value, count);
    }
  }
}

/* rows, vectors and layout are constants wherever this is inlined, so that the compiler keeps sum[] in registers.
   ahead: IN_PANEL, an address from which `share` bytes for each of the k elements are asked for, 0 elsewhere. */
ALWAYS_INLINE void FN(tile)(const situ__tile *t, int rows, int vectors, tile_layout layout, uintptr_t ahead,
                            uintptr_t share) {
  const real *a[4], *b = t->b;
  real *c = t->c;
  int64_t c_row = t->c_row;
  const int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row, k = t->k;
  /* Three rows have one address: a row more, or two, is part of the instruction. */
  UNROLL for (int i = 0; i < rows; i += 3) a[i / 3] = (const real *)t->a + i * a_row;
  const int last = (int)t->columns; /* IN_EDGE, which is one vector wide */
  vec sum[12][8];
  UNROLL for (int i = 0; i < rows; i++) {
    UNROLL for (int v = 0; v < vectors; v++) { sum[i][v] = (vec){ 0 }; }
  }
  for (int64_t p = 0; p < k; p++) {
    if (p < rows) { /* lines of c, row by row: all at once would delay those of a */
      UNROLL for (int v = 0; v < vectors; v++) __builtin_prefetch(c + p * c_row + v * LANES, 1);
    }
    vec row[8];
    UNROLL for (int v = 0; v < vectors; v++) {
      row[v] = layout == IN_EDGE ? FN(load_some)(b, last) : FN(load)(b + v * LANES);
    }
    if (layout == IN_ROWS && rows >= 4) { /* the next tile's columns: lines far apart, which no processor foresees */
      UNROLL for (int i = 0; i < vectors * VECTOR; i += 64) __builtin_prefetch((const char *)(b + vectors * LANES) + i);
    }
    if (layout == IN_PANEL) __builtin_prefetch((const void *)(ahead + (uintptr_t)p * share), 0, 2);
    UNROLL for (int i = 0; i < rows; i++) {
      const vec x = FN(splat)(a[i / 3][i % 3 * a_row]);
      UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = FN(fma_vec)(x, row[v], sum[i][v]);
    }
    UNROLL for (int i = 0; i < rows; i += 3) {
      a[i / 3] += a_col;
      RECOMPUTE(a[i / 3]);
    }
    b += b_row;
  }
  RECOMPUTE(c);
  RECOMPUTE(c_row);
  const vec alpha = FN(splat)((real)t->alpha);
  const bool add = t->add;
  const real *from = t->from ? t->from : c;
  const int64_t from_row = t->from ? t->from_row : c_row;
  if (layout == IN_EDGE) {
    UNROLL for (int i = 0; i < rows; i++) {
      const vec value = alpha * sum[i][0];
      FN(store_some)(c + i * c_row, add ? FN(load_some)(from + i * from_row, last) + value : value, last);
    }
  } else if (t->columns >= vectors * LANES) {
    UNROLL for (int i = 0; i < rows; i++) {
      UNROLL for (int v = 0; v < vectors; v++) {
        const vec value = alpha * sum[i][v];
        FN(store)(c + i * c_row + v * LANES, add ? FN(load)(from + i * from_row + v * LANES) + value : value);
      }
    }
  } else {
    vec part[12 * 4];
    UNROLL for (int i = 0; i < rows; i++) {
      UNROLL for (int v = 0; v < vectors; v++) part[i * vectors + v] = alpha * sum[i][v];
    }
    FN(finish)(t, part, rows, vectors);
  }
}

#define TILE(rows, vectors) \
  static void FN(tile_##rows##x##vectors)(const situ__tile *t) { FN(tile)(t, rows, vectors, IN_ROWS, 0, 0); }
/* clang-format off */
TILE(1, 1) TILE(2, 1) TILE(4, 1) TILE(6, 1) TILE(8, 1) TILE(12, 1)
TILE(1, 2) TILE(2, 2) TILE(4, 2) TILE(6, 2)
TILE(1, 4) TILE(2, 4) TILE(1, 8)
/* clang-format on */
#if WIDE == 4
    /* clang-format off */
TILE(8, 2) TILE(12, 2)
TILE(1, 3) TILE(2, 3) TILE(4, 3) TILE(6, 3)
TILE(4, 4) TILE(6, 4)
/* clang-format on */
#endif
#undef TILE
#if defined(__AVX2__)
#define EDGE(rows) \
  static void FN(edge_##rows)(const situ__tile *t) { FN(tile)(t, rows, 1, IN_EDGE, 0, 0); }
    /* clang-format off */
EDGE(1) EDGE(2) EDGE(4) EDGE(6) EDGE(8) EDGE(12)
/* clang-format on */
#undef EDGE
#endif

#include "backend/cpu/common/isa/transpose.h"

    /* Packs a square of up to LANES lanes, each contiguous along k, into rows of a panel. */
    ALWAYS_INLINE
    void FN(pack_square)(real *to, int64_t width, const real *from, int64_t lane, int64_t lanes, int64_t k, int store) {
  vec row[LANES];
  if (k >= LANES && lanes >= LANES) {
    UNROLL for (int i = 0; i < LANES; i++) row[i] = FN(load)(from + i * lane);
  } else {
    const int count = k < LANES ? (int)k : LANES;
    UNROLL for (int i = 0; i < LANES; i++) row[i] = i < lanes ? FN(load_some)(from + i * lane, count) : (vec){ 0 };
  }
  FN(transpose)(row);
  UNROLL for (int i = 0; i < LANES; i++) {
    if (i >= k) break;
    if (store == LANES) FN(store)(to + i * width, row[i]);
    else FN(store_some)(to + i * width, row[i], store);
  }
}

/* One row of a panel, of lanes that follow each other. */
ALWAYS_INLINE void FN(pack_line)(real *to, int64_t width, const real *from, int64_t lanes) {
  for (int64_t i = 0; i < width; i += LANES) {
    const int64_t left = lanes - i, last = width - i;
    const vec v = left >= LANES ? FN(load)(from + i) : FN(load_some)(from + i, left > 0 ? (int)left : 0);
    if (last >= LANES) FN(store)(to + i, v);
    else FN(store_some)(to + i, v, (int)last);
  }
}

static void FN(pack)(void *dst, int64_t width, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  real *to = dst;
  const real *from = src;
  if (lane == 1) {
    for (int64_t p = 0; p < k; p++) FN(pack_line)(to + p * width, width, from + p * step, lanes);
  } else if (step == 1) {
    for (int64_t i = 0; i < width; i += LANES) {
      const int store = width - i < LANES ? (int)(width - i) : LANES;
      for (int64_t p = 0; p < k; p += LANES)
        FN(pack_square)(to + p * width + i, width, from + i * lane + p, lane, lanes - i, k - p, store);
    }
  } else {
    for (int64_t p = 0; p < k; p++, to += width) {
      for (int64_t i = 0; i < width; i++) to[i] = i < lanes ? from[p * step + i * lane] : 0;
    }
  }
}

/* Dot products along k, a vector at a time, of rows x columns = LANES pairs: one transposition sums all of them.
   Missing rows and columns repeat the last one, and are not stored. */
ALWAYS_INLINE void FN(dot)(const situ__gemm *t, int64_t m, int64_t n, int rows, int columns) {
  const real *a[LANES], *b[LANES];
  vec sum[LANES];
  UNROLL for (int i = 0; i < rows; i++) a[i] = (const real *)t->a + (i < m ? i : m - 1) * t->a_row;
  UNROLL for (int j = 0; j < columns; j++) b[j] = (const real *)t->b + (j < n ? j : n - 1) * t->b_col;
  UNROLL for (int l = 0; l < LANES; l++) sum[l] = (vec){ 0 };
  const int64_t full = t->k - t->k % LANES;
  for (int64_t p = 0; p < full; p += LANES) {
    UNROLL for (int i = 0; i < rows; i++) {
      const vec x = FN(load)(a[i] + p);
      UNROLL for (int j = 0; j < columns; j++) {
        sum[i * columns + j] = FN(fma_vec)(x, FN(load)(b[j] + p), sum[i * columns + j]);
      }
    }
  }
  if (full < t->k) {
    const int left = (int)(t->k - full);
    UNROLL for (int i = 0; i < rows; i++) {
      const vec x = FN(load_some)(a[i] + full, left);
      UNROLL for (int j = 0; j < columns; j++) {
        sum[i * columns + j] = FN(fma_vec)(x, FN(load_some)(b[j] + full, left), sum[i * columns + j]);
      }
    }
  }
  FN(transpose)(sum);
  UNROLL for (int half = LANES / 2; half > 0; half /= 2) {
    UNROLL for (int l = 0; l < half; l++) sum[l] += sum[l + half];
  }
  real value[LANES];
  FN(store)(value, sum[0] * FN(splat)((real)t->alpha));
  for (int i = 0; i < rows && i < m; i++) {
    real *to = (real *)t->c + i * t->c_row;
    const real *from = t->from ? (const real *)t->from + i * t->from_row : to;
    for (int j = 0; j < columns && j < n; j++) {
      to[j] = t->add ? from[j] + value[i * columns + j] : value[i * columns + j];
    }
  }
}

static void FN(dot_block)(const situ__gemm *t, int64_t m, int64_t n) { FN(dot)(t, m, n, DOT_ROWS, LANES / DOT_ROWS); }
static void FN(dot_row)(const situ__gemm *t, int64_t n) { FN(dot)(t, 1, n, 1, LANES); }

/* Dot products of one row and up to BESIDE columns, side by side, so that none waits for its own last addition. The
   compiler must not make vectors of the loop: their lanes would be taken apart, to be added in the loop's order. */
ALWAYS_INLINE void FN(dots_beside)(const situ__gemm *t, const real *a, const real *b, real *c, const real *from,
                                   int columns) {
  const real *at[BESIDE];
  real sum[BESIDE] = { 0 };
  UNROLL for (int j = 0; j < columns; j++) {
    at[j] = b + j * t->b_col;
    RECOMPUTE(at[j]);
  }
  for (int64_t p = 0, k = t->k; p < k; p++) {
    RECOMPUTE(p);
    UNROLL for (int j = 0; j < columns; j++) sum[j] = FMA_ONE(a[p], at[j][p], sum[j]);
  }
  UNROLL for (int j = 0; j < columns; j++) {
    const real value = sum[j] * (real)t->alpha;
    c[j] = t->add ? from[j] + value : value;
  }
}

/* So few elements that summing vector lanes would cost more than it saves. */
static void FN(dots_few)(const situ__gemm *t) {
  for (int64_t i = 0; i < t->m; i++) {
    const real *a = (const real *)t->a + i * t->a_row, *b = t->b;
    real *c = (real *)t->c + i * t->c_row;
    const real *from = t->from ? (const real *)t->from + i * t->from_row : c;
    int64_t left = t->n;
    for (int columns; left > 0; left -= columns, b += columns * t->b_col, c += columns, from += columns) {
      columns = left > BESIDE ? BESIDE : (int)left;
      switch (columns) {
      case 1: FN(dots_beside)(t, a, b, c, from, 1); break;
      case 2: FN(dots_beside)(t, a, b, c, from, 2); break;
      case 3: FN(dots_beside)(t, a, b, c, from, 3); break;
      case 4: FN(dots_beside)(t, a, b, c, from, 4); break;
      case 5: FN(dots_beside)(t, a, b, c, from, 5); break;
      default: FN(dots_beside)(t, a, b, c, from, BESIDE);
      }
    }
  }
}

/* LANES columns at a time, so that their part of b is read from memory once. */
static void FN(dots)(const situ__gemm *call) {
  enum { ROWS = DOT_ROWS, COLUMNS = LANES / DOT_ROWS, FEW = 128 };
  if (call->m * call->n * call->k <= FEW) {
    FN(dots_few)(call);
    return;
  }
  situ__gemm t = *call;
  /* A vector's rows lie beside each other, as its columns would. */
  if (t.n == 1 && t.c_row == 1 && (!t.from || t.from_row == 1)) {
    t.m = 1, t.n = call->m;
    t.a = call->b, t.b = call->a, t.b_col = call->a_row;
  }
  const situ__gemm first = t;
  const int64_t m = t.m, n = t.n, b_col = t.b_col;
  for (int64_t j = 0; j < n; j += LANES) {
    const int64_t columns = n - j < LANES ? n - j : LANES;
    int64_t i = 0;
    for (; i < m;) {
      t.a = (const real *)first.a + i * first.a_row;
      t.b = (const real *)first.b + j * b_col;
      t.c = (real *)first.c + i * first.c_row + j;
      if (first.from) t.from = (const real *)first.from + i * first.from_row + j;
      if (m - i >= ROWS) {
        for (int64_t q = 0; q < columns; q += COLUMNS) {
          FN(dot_block)(&t, ROWS, columns - q);
          t.b = (const real *)t.b + COLUMNS * b_col;
          t.c = (real *)t.c + COLUMNS;
          if (t.from) t.from = (const real *)t.from + COLUMNS;
        }
        i += ROWS;
      } else {
        FN(dot_row)(&t, columns);
        i++;
      }
    }
  }
}

const situ__gemm_kernels FN(situ__gemm) = {
  .lanes = LANES,
  .wide = WIDE,
  .pack = FN(pack),
  .dots = FN(dots),
#if defined(__AVX2__)
  .edge = { FN(edge_1), FN(edge_2), FN(edge_4), FN(edge_6), FN(edge_8), FN(edge_12) },
#endif
  .tile = { { FN(tile_1x1), FN(tile_2x1), FN(tile_4x1), FN(tile_6x1), FN(tile_8x1), FN(tile_12x1) },
#if WIDE == 4
            { FN(tile_1x2), FN(tile_2x2), FN(tile_4x2), FN(tile_6x2), FN(tile_8x2), FN(tile_12x2) },
            { FN(tile_1x3), FN(tile_2x3), FN(tile_4x3), FN(tile_6x3) },
            { FN(tile_1x4), FN(tile_2x4), FN(tile_4x4), FN(tile_6x4) },
#else
            { FN(tile_1x2), FN(tile_2x2), FN(tile_4x2), FN(tile_6x2) },
            [3] = { FN(tile_1x4), FN(tile_2x4) },
#endif
            [7] = { FN(tile_1x8) } },
};
