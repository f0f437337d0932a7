/* y = alpha a b + beta bias, batched, any strides: a group makes a tile of y, a lane MICRO x MICRO elements of it.
   SPDX-License-Identifier: MIT

   D0 is y, D1 a, D2 b, D3 bias (where there is one). */
#include "kernels/element.h"

/* Lanes as a square of SIDE x SIDE; DEPTH columns of a are kept in local memory at a time. */
#if GROUP_SIZE >= 256
enum { SIDE = 16, MICRO = 4, TILE = SIDE * MICRO, DEPTH = 16 };
#else
enum { SIDE = 8, MICRO = 4, TILE = SIDE * MICRO, DEPTH = 16 };
#endif
typedef struct parameters {
  T p[4];
} parameters;

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *a, GLOBAL const MEMORY(D2) *b
#ifdef D3
                  , GLOBAL const MEMORY(D3) *bias
#endif
                  , const walk batch, const products s, const parameters q) {
  LOCAL T part_a[DEPTH][TILE + 1], part_b[DEPTH][TILE + 1];
  const I64 tiles_n = (s.n + TILE - 1) / TILE, tiles_m = (s.m + TILE - 1) / TILE;
  const I64 item = GROUP / (tiles_m * tiles_n), tile = GROUP % (tiles_m * tiles_n);
  const I64 row = tile / tiles_n * TILE, column = tile % tiles_n * TILE;
  const I64 at_a = walk_at(&batch, 1, item), at_b = walk_at(&batch, 2, item), at_y = walk_at(&batch, 0, item);
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
      T v = q.p[0] * sum[i][j];
#ifdef D3
      v += q.p[1] * LOAD(D3, bias[walk_at(&batch, 3, item) + r * s.bias_row + c * s.bias_col]);
#endif
      y[at_y + r * s.y_row + c * s.y_col] = STORE(D0, v);
    }
}
