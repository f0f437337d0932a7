/* Convolution with an image in each lane, for one element type: included by batch_lanes.c with `real`, `vec`, `picks`,
   LANES, LANE_NUMBERS and FN.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/isa/transpose.h"

/* all is a constant where this is inlined: whether there is an image for each lane, and an element for each image. */
ALWAYS_INLINE void FN(gather_square)(const situ__batch_lanes_run *r, const real *from, real *to, int count, bool all) {
  vec square[LANES];
  UNROLL for (int i = 0; i < LANES; i++) {
    if (all) square[i] = FN(load)(from + i * r->next);
    else square[i] = FN(load_some)(from + (i < r->images ? i * r->next : 0), i < r->images ? count : 0);
  }
  FN(transpose)(square);
  if (all) UNROLL for (int i = 0; i < LANES; i++) FN(store)(to + i * r->step * LANES, square[i]);
  else
    for (int i = 0; i < count; i++) FN(store)(to + i * r->step * LANES, square[i]);
}

static void FN(gather)(const situ__batch_lanes_run *r) {
  const real *from = r->image;
  real *to = r->lanes;
  int64_t left = r->count;
  for (; left >= LANES && r->images == LANES; left -= LANES, from += LANES, to += LANES * r->step * LANES)
    FN(gather_square)(r, from, to, LANES, true);
  for (; left > 0; left -= LANES, from += LANES, to += LANES * r->step * LANES)
    FN(gather_square)(r, from, to, (int)situ__min_i64(LANES, left), false);
}

ALWAYS_INLINE void FN(scatter_square)(const situ__batch_lanes_run *r, const real *from, real *to, int count, bool all) {
  vec square[LANES];
  UNROLL for (int i = 0; i < LANES; i++) square[i] = FN(load)(from + (all || i < count ? i : 0) * LANES);
  FN(transpose)(square);
  if (all) UNROLL for (int i = 0; i < LANES; i++) FN(store)(to + i * r->next, square[i]);
  else
    for (int i = 0; i < r->images; i++) FN(store_some)(to + i * r->next, square[i], count);
}

static void FN(scatter)(const situ__batch_lanes_run *r) {
  const real *from = r->lanes;
  real *to = r->image;
  int64_t left = r->count;
  for (; left >= LANES && r->images == LANES; left -= LANES, from += LANES * LANES, to += LANES)
    FN(scatter_square)(r, from, to, LANES, true);
  for (; left > 0; left -= LANES, from += LANES * LANES, to += LANES)
    FN(scatter_square)(r, from, to, (int)situ__min_i64(LANES, left), false);
}

/* rows and columns are constants wherever this is inlined, so that the compiler keeps sum[] in registers. */
ALWAYS_INLINE void FN(sum_tile)(const situ__batch_lanes_sum *s, int rows, int columns) {
  const real *y = s->y;
  const int64_t step = s->x_step;
  vec sum[8][4];
  UNROLL for (int i = 0; i < rows; i++) { UNROLL for (int j = 0; j < columns; j++) sum[i][j] = (vec){ 0 }; }
  for (int64_t r = 0; r < s->rows; r++) {
    const real *x[4];
    UNROLL for (int j = 0; j < columns; j++) x[j] = (const real *)s->x + s->at[j] + r * s->x_row;
    for (int64_t c = 0; c < s->width; c++, y += rows * LANES) {
      vec column[4];
      UNROLL for (int j = 0; j < columns; j++) column[j] = FN(load)(x[j]), x[j] += step;
      UNROLL for (int i = 0; i < rows; i++) {
        vec row = FN(load)(y + i * LANES);
        KEEP(row);
        UNROLL for (int j = 0; j < columns; j++) sum[i][j] = FN(fma_vec)(row, column[j], sum[i][j]);
      }
    }
  }
  UNROLL for (int i = 0; i < rows; i++) {
    UNROLL for (int j = 0; j < columns; j++) {
      real *to = (real *)s->sums + i * s->sums_row + j * LANES;
      FN(store)(to, s->add ? FN(load)(to) + sum[i][j] : sum[i][j]);
    }
  }
}

/* The sums of two vectors' halves, quarters and so on, side by side in one: half of the steps of a transposition. */
ALWAYS_INLINE vec FN(sum_lanes)(vec row[LANES]) {
#if defined(__clang__)
  vec sum = { 0 };
  FN(transpose)(row);
  for (int i = 0; i < LANES; i++) sum += row[i];
  return sum;
#else
  static const picks lane = { LANE_NUMBERS };
  UNROLL for (int d = 1; d < LANES; d *= 2) {
    const picks low = lane + (((lane & d) != 0) & (LANES - d)), high = low + d;
    UNROLL for (int i = 0; i < LANES; i += 2 * d) row[i] =
        __builtin_shuffle(row[i], row[i + d], low) + __builtin_shuffle(row[i], row[i + d], high);
  }
  return row[0];
#endif
}

static void FN(add_lanes)(const void *vectors, int64_t count, void *to) {
  for (int64_t at = 0; at < count; at += LANES) {
    const real *from = (const real *)vectors + at * LANES;
    const int here = (int)situ__min_i64(LANES, count - at);
    vec row[LANES];
    UNROLL for (int i = 0; i < LANES; i++) row[i] = FN(load)(from + (i < here ? i : 0) * LANES);
    FN(store_some)((real *)to + at, FN(sum_lanes)(row), here);
  }
}

#define TILE(rows, columns) \
  static void FN(sum_##rows##x##columns)(const situ__batch_lanes_sum *s) { FN(sum_tile)(s, rows, columns); }
#define TILES(columns) TILE(1, columns) TILE(2, columns) TILE(4, columns)
#define NAMES(columns) FN(sum_1x##columns), FN(sum_2x##columns), FN(sum_4x##columns)
/* clang-format off */
TILES(1) TILES(2) TILE(6, 1) TILE(6, 2) TILE(8, 1)
#if WIDE == 4
TILES(3) TILES(4) TILE(6, 3) TILE(6, 4) TILE(8, 2) TILE(8, 3)
#endif

const situ__batch_lanes_kernels FN(situ__batch_lanes_kernels) = {
  .lanes = LANES,
  .gather = FN(gather),
  .scatter = FN(scatter),
  .add_lanes = FN(add_lanes),
  .sum = { { NAMES(1), FN(sum_6x1), FN(sum_8x1) },
#if WIDE == 4
           { NAMES(2), FN(sum_6x2), FN(sum_8x2) },
           { NAMES(3), FN(sum_6x3), FN(sum_8x3) },
           { NAMES(4), FN(sum_6x4) } },
#else
           { NAMES(2), FN(sum_6x2) } },
#endif
};
/* clang-format on */
#undef TILE
#undef TILES
#undef NAMES
