/* y = alpha a b + beta bias, batched, any strides. A work-group computes a tile of y: on a GPU each thread has a small
   square of it, on a CPU one work-item computes it with vectors.
   SPDX-License-Identifier: MIT

   D0 is y, D1 a, D2 b, D3 bias (where there is one). */
#include "kernels/element.h"

typedef struct parameters {
  T p[4];
} parameters;

#ifdef D3
#define BIAS(r, c) (q.p[1] * LOAD(D3, bias[walk_at(&batch, 3, item) + s.bias_row * (r) + s.bias_col * (c)]))
#else
#define BIAS(r, c) 0
#endif
#define ARGUMENTS GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *a, GLOBAL const MEMORY(D2) *b
#ifdef D3
#define MORE , GLOBAL const MEMORY(D3) *bias, CONST_PARAM walk batch, const products s, const parameters q
#else
#define MORE , CONST_PARAM walk batch, const products s, const parameters q
#endif
#define TILE_OF(rows, columns)                                                                      \
  const I64 tiles_n = (s.n + columns - 1) / columns, tiles_m = (s.m + rows - 1) / rows,             \
            item = GROUP / (tiles_m * tiles_n);                                                     \
  const I64 row = GROUP % (tiles_m * tiles_n) / tiles_n * rows, column = GROUP % tiles_n * columns; \
  const I64 at_a = walk_at(&batch, 1, item), at_b = walk_at(&batch, 2, item), at_y = walk_at(&batch, 0, item)

/* Rounds once for each term, on every device. */
#if FLOATING
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

#if ON_CPU
/* A tile consists of panels of two vectors of columns. Blocks of a (DEPTH columns of all rows) and of b (as many rows
   of a panel) are packed, in T and without gaps: strides and dtypes are resolved once, and what is read often stays in
   cache. Each sum is in the order of k, whatever the tile's size. */
#define VECTOR__(type, wide) type##wide
#define VECTOR_(type, wide) VECTOR__(type, wide)
typedef VECTOR_(TYPE, WIDE) vector;
enum { HEIGHT = 8, ROWS = MATMUL_ROWS, PANEL = 2 * WIDE, PANELS = MATMUL_COLUMNS / PANEL, DEPTH = 128 };
/* to[r0 + r][c0 + c] = from[r][c]; the inner loop runs along the dimension of stride 1. */
#define LAY(to, r0, c0, dtype, from, rows, row_step, columns, column_step)                                     \
  if (column_step == 1) {                                                                                      \
    for (int r = 0; r < rows; r++)                                                                             \
      for (int c = 0; c < columns; c++) to[r0 + r][c0 + c] = LOAD(dtype, (from)[r * row_step + c]);            \
  } else {                                                                                                     \
    for (int c = 0; c < columns; c++)                                                                          \
      for (int r = 0; r < rows; r++) to[r0 + r][c0 + c] = LOAD(dtype, (from)[r * row_step + c * column_step]); \
  }
/* PLACE is the offset of the i-th column or term. EACH_RUN splits `count` of them from `begin` on into runs within one
   piece: `at` counts from `begin`. */
#define PLACE(i, piece, far, near) ((i) / (piece) * (far) + (i) % (piece) * (near))
#define UP_TO(a, b) ((a) < (b) ? (int)(a) : (int)(b))
#define EACH_RUN(at, run, begin, count, piece) \
  for (int at = 0, run; at < count && (run = UP_TO(piece - (begin + at) % piece, count - at)) > 0; at += run)

ALONE KERNEL run(ARGUMENTS MORE) {
  TILE_OF(s.tile_rows, s.tile_columns);
  T part_a[ROWS][DEPTH];
  union {
    T at[DEPTH][PANEL];
    vector by[DEPTH][2];
  } part_b;
  union {
    T at[PANELS][ROWS][PANEL];
    vector by[PANELS][ROWS][2];
  } sum;
  const int rows = UP_TO(s.m - row, s.tile_rows), columns = UP_TO(s.n - column, s.tile_columns);
  /* Rows and columns past the last are computed, too, but their sums are not read. */
  for (int p = 0; p * PANEL < columns; p++)
    for (int i = 0; i < ROWS; i++) sum.by[p][i][0] = sum.by[p][i][1] = 0;
  for (int k = 0; k < DEPTH; k++) part_b.by[k][0] = part_b.by[k][1] = 0;
  for (int i = rows; i % HEIGHT; i++)
    for (int k = 0; k < DEPTH; k++) part_a[i][k] = 0;
  for (I64 first = 0; first < s.k; first += DEPTH) {
    const int depth = UP_TO(s.k - first, DEPTH);
    EACH_RUN(k, terms, first, depth, s.k_piece) {
      GLOBAL const MEMORY(D1) *from = a + at_a + row * s.a_row + PLACE(first + k, s.k_piece, s.a_k, s.a_col);
      LAY(part_a, 0, k, D1, from, rows, s.a_row, terms, s.a_col)
    }
    for (int p = 0; p * PANEL < columns; p++) {
      const I64 left = column + p * PANEL;
      const int wide = UP_TO(columns - p * PANEL, PANEL);
      EACH_RUN(k, terms, first, depth, s.k_piece)
        EACH_RUN(j, run, left, wide, s.n_piece) {
          GLOBAL const MEMORY(D2) *from =
              b + at_b + PLACE(first + k, s.k_piece, s.b_k, s.b_row) + PLACE(left + j, s.n_piece, s.b_n, s.b_col);
          LAY(part_b.at, k, j, D2, from, terms, s.b_row, run, s.b_col)
        }
      for (int i = 0; i < rows; i += HEIGHT) {
        vector low[HEIGHT], high[HEIGHT];
#pragma unroll
        for (int r = 0; r < HEIGHT; r++) low[r] = sum.by[p][i + r][0], high[r] = sum.by[p][i + r][1];
        for (int k = 0; k < depth; k++) {
          const vector b_low = part_b.by[k][0], b_high = part_b.by[k][1];
#pragma unroll
          for (int r = 0; r < HEIGHT; r++) {
            const vector v = (vector)(part_a[i + r][k]);
            low[r] = MULTIPLY_ADD(v, b_low, low[r]);
            high[r] = MULTIPLY_ADD(v, b_high, high[r]);
          }
        }
#pragma unroll
        for (int r = 0; r < HEIGHT; r++) sum.by[p][i + r][0] = low[r], sum.by[p][i + r][1] = high[r];
      }
    }
  }
  for (int p = 0; p * PANEL < columns; p++) {
    const I64 left = column + p * PANEL;
    const int wide = UP_TO(columns - p * PANEL, PANEL);
    EACH_RUN(j, run, left, wide, s.n_piece) {
      const I64 within = (left + j) % s.n_piece;
      GLOBAL MEMORY(D0) *to = y + at_y + row * s.y_row + PLACE(left + j, s.n_piece, s.y_n, s.y_col);
      for (int i = 0; i < rows; i++)
        for (int c = 0; c < run; c++) {
          const T v = q.p[0] * sum.at[p][i][j + c] + BIAS(row + i, within + c);
          to[i * s.y_row + c * s.y_col] = STORE(D0, v);
        }
    }
  }
}
#else
/* Threads form the largest square of SIDE x SIDE that the group has, as lower/matmul.c computes it; others only load.
   DEPTH columns of a are kept in local memory at a time. */
enum {
  SIDE = GROUP_SIZE >= 256  ? 16
         : GROUP_SIZE >= 64 ? 8
         : GROUP_SIZE >= 16 ? 4
         : GROUP_SIZE >= 4  ? 2
                            : 1,
  MICRO = 4,
  TILE = SIDE * MICRO,
  DEPTH = 16
};

GROUPS KERNEL run(ARGUMENTS MORE) {
  LOCAL T part_a[DEPTH][TILE + 1], part_b[DEPTH][TILE + 1];
  TILE_OF(TILE, TILE);
  const int lane_row = LANE / SIDE, lane_column = LANE % SIDE;
  T sum[MICRO][MICRO];
  for (int i = 0; i < MICRO; i++)
    for (int j = 0; j < MICRO; j++) sum[i][j] = 0;
  for (I64 first = 0; first < s.k; first += DEPTH) {
    for (int e = LANE; e < DEPTH * TILE; e += GROUP_SIZE) {
      /* Adjacent threads read adjacent elements: along k where a's rows are contiguous, along n where b's are. */
      const int ka = s.a_col == 1 ? e % DEPTH : e / TILE, ia = s.a_col == 1 ? e / DEPTH : e % TILE;
      const int kb = s.b_row == 1 ? e % DEPTH : e / TILE, jb = s.b_row == 1 ? e / DEPTH : e % TILE;
      const bool in_a = row + ia < s.m && first + ka < s.k, in_b = column + jb < s.n && first + kb < s.k;
      part_a[ka][ia] = in_a ? LOAD(D1, a[at_a + (row + ia) * s.a_row + (first + ka) * s.a_col]) : 0;
      part_b[kb][jb] = in_b ? LOAD(D2, b[at_b + (first + kb) * s.b_row + (column + jb) * s.b_col]) : 0;
    }
    SYNC;
    const int depth = lane_row >= SIDE ? 0 : s.k - first < DEPTH ? (int)(s.k - first) : DEPTH;
    for (int k = 0; k < depth; k++)
      for (int i = 0; i < MICRO; i++)
        for (int j = 0; j < MICRO; j++)
          sum[i][j] = MULTIPLY_ADD(part_a[k][lane_row + i * SIDE], part_b[k][lane_column + j * SIDE], sum[i][j]);
    SYNC;
  }
  for (int i = 0; i < MICRO; i++)
    for (int j = 0; j < MICRO; j++) {
      const I64 r = row + lane_row + i * SIDE, c = column + lane_column + j * SIDE;
      if (lane_row >= SIDE || r >= s.m || c >= s.n) continue;
      const T v = q.p[0] * sum[i][j] + BIAS(r, c);
      y[at_y + r * s.y_row + c * s.y_col] = STORE(D0, v);
    }
}
#endif
