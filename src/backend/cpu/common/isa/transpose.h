/* The transposition of a square of vectors, for one element type: included with `real`, `vec`, `picks`, LANES and
   LANE_NUMBERS.
   SPDX-License-Identifier: MIT */

/* Transposes LANES rows in log2(LANES) steps: each swaps the off-diagonal blocks of size d. */
ALWAYS_INLINE void FN(transpose)(vec row[LANES]) {
#if defined(__clang__)
  real from[LANES][LANES], to[LANES][LANES];
  memcpy(from, row, sizeof from);
  for (int i = 0; i < LANES; i++) {
    for (int j = 0; j < LANES; j++) to[j][i] = from[i][j];
  }
  memcpy(row, to, sizeof to);
#else
  static const picks lane = { LANE_NUMBERS };
  UNROLL for (int d = 1; d < LANES; d *= 2) {
    const picks low = lane + (((lane & d) != 0) & (LANES - d)), high = low + d;
    UNROLL for (int i = 0; i < LANES; i++) {
      if (i & d) continue;
      const vec x = row[i], y = row[i + d];
      row[i] = __builtin_shuffle(x, y, low);
      row[i + d] = __builtin_shuffle(x, y, high);
    }
  }
#endif
}
