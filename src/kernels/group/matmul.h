/* y = alpha a b + beta bias, batched, any strides: a group makes a tile of y, on a gpu with a small square for each lane, on a
   processor alone, with vectors.
   SPDX-License-Identifier: MIT

   D0 is y, D1 a, D2 b, D3 bias (where there is one). */
#include "kernels/element.h"

typedef struct parameters {
  T p[4];
} parameters;

#ifdef D3
#define BIAS(r, c) (q.p[1] * LOAD(D3, bias[walk_at(&batch, 3, item) + (r) * s.bias_row + (c) * s.bias_col]))
#else
#define BIAS(r, c) 0
#endif
#define ARGUMENTS GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *a, GLOBAL const MEMORY(D2) *b
#ifdef D3
#define MORE , GLOBAL const MEMORY(D3) *bias, const walk batch, const products s, const parameters q
#else
#define MORE , const walk batch, const products s, const parameters q
#endif
#define TILE_OF(rows, columns)                                                                                      \
  const I64 tiles_n = (s.n + columns - 1) / columns, tiles_m = (s.m + rows - 1) / rows, item = GROUP / (tiles_m * tiles_n); \
  const I64 row = GROUP % (tiles_m * tiles_n) / tiles_n * rows, column = GROUP % tiles_n * columns;                 \
  const I64 at_a = walk_at(&batch, 1, item), at_b = walk_at(&batch, 2, item), at_y = walk_at(&batch, 0, item)

#if ON_CPU
/* Two vectors of columns; b is laid out anew, DEPTH rows at a time, so that its strides, gaps and dtype cost once for all rows
   of the tile. */
#if FLOATING
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif
#define VECTOR__(type, wide) type##wide
#define VECTOR_(type, wide) VECTOR__(type, wide)
#define VLOAD_(wide) vload##wide
#define VSTORE_(wide) vstore##wide
#define VLOAD(wide) VLOAD_(wide)
#define VSTORE(wide) VSTORE_(wide)
typedef VECTOR_(TYPE, WIDE) vector;
enum { HEIGHT = 6, ROWS = MATMUL_ROWS, COLUMNS = 2 * WIDE, DEPTH = 128 };

ALONE KERNEL run(ARGUMENTS MORE) {
  TILE_OF(ROWS, COLUMNS);
  T part[DEPTH * COLUMNS], sum[ROWS * COLUMNS];
  const int rows = s.m - row < ROWS ? (int)(s.m - row) : ROWS, columns = s.n - column < COLUMNS ? (int)(s.n - column) : COLUMNS;
  for (int i = 0; i < ROWS * COLUMNS; i++) sum[i] = 0;
  for (int i = 0; i < DEPTH * COLUMNS; i++) part[i] = 0;
  for (I64 first = 0; first < s.k; first += DEPTH) {
    const int depth = s.k - first < DEPTH ? (int)(s.k - first) : DEPTH;
    GLOBAL const MEMORY(D2) *from = b + at_b + first * s.b_row + column * s.b_col;
    if (s.b_col == 1) {
      for (int k = 0; k < depth; k++)
        for (int j = 0; j < columns; j++) part[k * COLUMNS + j] = LOAD(D2, from[k * s.b_row + j]);
    } else {
      for (int j = 0; j < columns; j++)
        for (int k = 0; k < depth; k++) part[k * COLUMNS + j] = LOAD(D2, from[k * s.b_row + j * s.b_col]);
    }
    for (int i = 0; i < rows; i += HEIGHT) {
      vector low[HEIGHT], high[HEIGHT];
      GLOBAL const MEMORY(D1) *line[HEIGHT];
#pragma unroll
      for (int r = 0; r < HEIGHT; r++) {
        low[r] = VLOAD(WIDE)(0, sum + (i + r) * COLUMNS);
        high[r] = VLOAD(WIDE)(1, sum + (i + r) * COLUMNS);
        /* Rows past the last are the last again; nobody reads their sums. */
        line[r] = a + at_a + (row + (i + r < rows ? i + r : rows - 1)) * s.a_row + first * s.a_col;
      }
      for (int k = 0; k < depth; k++) {
        const vector b_low = VLOAD(WIDE)(0, part + k * COLUMNS), b_high = VLOAD(WIDE)(1, part + k * COLUMNS);
#pragma unroll
        for (int r = 0; r < HEIGHT; r++) {
          const vector v = (vector)(LOAD(D1, line[r][k * s.a_col]));
          low[r] = MULTIPLY_ADD(v, b_low, low[r]);
          high[r] = MULTIPLY_ADD(v, b_high, high[r]);
        }
      }
#pragma unroll
      for (int r = 0; r < HEIGHT; r++) {
        VSTORE(WIDE)(low[r], 0, sum + (i + r) * COLUMNS);
        VSTORE(WIDE)(high[r], 1, sum + (i + r) * COLUMNS);
      }
    }
  }
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      const T v = q.p[0] * sum[i * COLUMNS + j] + BIAS(row + i, column + j);
      y[at_y + (row + i) * s.y_row + (column + j) * s.y_col] = STORE(D0, v);
    }
}
#else
/* Lanes as a square of SIDE x SIDE; DEPTH columns of a are kept in local memory at a time. */
enum { SIDE = GROUP_SIZE >= 256 ? 16 : 8, MICRO = 4, TILE = SIDE * MICRO, DEPTH = 16 };

GROUPS KERNEL run(ARGUMENTS MORE) {
  LOCAL T part_a[DEPTH][TILE + 1], part_b[DEPTH][TILE + 1];
  TILE_OF(TILE, TILE);
  const int lane_row = LANE / SIDE, lane_column = LANE % SIDE;
  T sum[MICRO][MICRO];
  for (int i = 0; i < MICRO; i++)
    for (int j = 0; j < MICRO; j++) sum[i][j] = 0;
  for (I64 first = 0; first < s.k; first += DEPTH) {
    for (int e = LANE; e < DEPTH * TILE; e += SIDE * SIDE) {
      /* Neighbouring lanes read neighbours: along k where a's rows, along n where b's rows have no gaps. */
      const int ka = s.a_col == 1 ? e % DEPTH : e / TILE, ia = s.a_col == 1 ? e / DEPTH : e % TILE;
      const int kb = s.b_row == 1 ? e % DEPTH : e / TILE, jb = s.b_row == 1 ? e / DEPTH : e % TILE;
      const bool in_a = row + ia < s.m && first + ka < s.k, in_b = column + jb < s.n && first + kb < s.k;
      part_a[ka][ia] = in_a ? LOAD(D1, a[at_a + (row + ia) * s.a_row + (first + ka) * s.a_col]) : 0;
      part_b[kb][jb] = in_b ? LOAD(D2, b[at_b + (first + kb) * s.b_row + (column + jb) * s.b_col]) : 0;
    }
    SYNC;
    const int depth = s.k - first < DEPTH ? (int)(s.k - first) : DEPTH;
    for (int k = 0; k < depth; k++)
      for (int i = 0; i < MICRO; i++)
        for (int j = 0; j < MICRO; j++) sum[i][j] += part_a[k][lane_row + i * SIDE] * part_b[k][lane_column + j * SIDE];
    SYNC;
  }
  for (int i = 0; i < MICRO; i++)
    for (int j = 0; j < MICRO; j++) {
      const I64 r = row + lane_row + i * SIDE, c = column + lane_column + j * SIDE;
      if (r >= s.m || c >= s.n) continue;
      const T v = q.p[0] * sum[i][j] + BIAS(r, c);
      y[at_y + r * s.y_row + c * s.y_col] = STORE(D0, v);
    }
}
#endif
