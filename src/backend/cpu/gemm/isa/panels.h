/* Packed factors of one element type, and their products by register tiles: included by gemm.c after tiles.h.
   SPDX-License-Identifier: MIT */

/* Panels of `width` lanes, one after the other. Memory is read in order. */
ALWAYS_INLINE bool FN(pack_panels)(real *to, int64_t width, const real *from, int64_t lane, int64_t step, int64_t lanes,
                                   int64_t k) {
  if (lane == 1) {
    for (int64_t p = 0; p < k; p++) {
      for (int64_t i = 0; i < lanes; i += width) {
        FN(pack_line)(to + i * k + p * width, width, from + i + p * step, lanes - i);
      }
    }
    return true;
  }
  for (int64_t i = 0; i < lanes; i += width) {
    const int64_t count = lanes - i < width ? lanes - i : width;
    FN(pack)(to + i * k, width, from + i * lane, lane, step, count, k);
  }
  return true;
}

static bool FN(pack_a)(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  return FN(pack_panels)(dst, PANEL_ROWS, src, lane, step, lanes, k);
}

static bool FN(pack_b)(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  return FN(pack_panels)(dst, PANEL_VECTORS * LANES, src, lane, step, lanes, k);
}

/* A tile at the lower or the right edge: of fewer vectors, some rows after others. */
static __attribute__((noinline)) void FN(multiply_edge)(situ__tile t, int64_t rows) {
  static const int height[SITU__TILE_HEIGHTS] = SITU__TILE_ROWS;
  const situ__tile_fn *tile = FN(situ__gemm).tile[(t.columns + LANES - 1) / LANES - 1];
  int h = SITU__TILE_HEIGHTS - 1;
  for (int64_t i = 0; i < rows; i += height[h]) {
    while (!tile[h] || height[h] > rows - i) h--;
    tile[h](&t);
    t.a = (const real *)t.a + height[h] * t.a_row;
    t.c = (real *)t.c + height[h] * t.c_row;
    if (t.from) t.from = (const real *)t.from + height[h] * t.from_row;
  }
}

static void FN(multiply)(const situ__tile *first, int64_t rows) {
  situ__tile t = *first;
  const int64_t next = PANEL_ROWS * (t.a_col == 1 ? t.a_row : t.k);
  t.b_row = PANEL_VECTORS * LANES;
  /* Together the tiles, or the first 32, ask for all of the next panel. */
  const int64_t tiles = situ__min_i64(32, (rows - 1) / PANEL_ROWS + 1);
  const uintptr_t share = (uintptr_t)situ__ceil_div(PANEL_VECTORS * VECTOR, tiles);
  uintptr_t ahead = (uintptr_t)t.b + (uintptr_t)(t.k * t.b_row) * sizeof(real);
  for (int64_t i = 0; i < rows; i += PANEL_ROWS) {
    if (rows - i >= PANEL_ROWS && t.columns > (PANEL_VECTORS - 1) * LANES)
      FN(tile)(&t, PANEL_ROWS, PANEL_VECTORS, IN_PANEL, ahead, share);
    else FN(multiply_edge)(t, rows - i < PANEL_ROWS ? rows - i : PANEL_ROWS);
    ahead += (uintptr_t)t.k * share;
    t.a = (const real *)t.a + next;
    t.c = (real *)t.c + PANEL_ROWS * t.c_row;
    if (t.from) t.from = (const real *)t.from + PANEL_ROWS * t.from_row;
  }
}

const situ__panels FN(situ__panels) = { .dtype = sizeof(real) == 4 ? SITU_F32 : SITU_F64,
                                        .rows = PANEL_ROWS,
                                        .columns = PANEL_VECTORS * LANES,
                                        .unit = 1,
                                        .depth = PANEL_DEPTH,
                                        .bytes = sizeof(real),
                                        .tiling = { .tile_m = TASK_ROWS,
                                                    .tile_n = TASK_COLUMNS,
                                                    .least_m = SITU__FEW,
                                                    .least_n = 64,
                                                    .unit_m = PANEL_ROWS,
                                                    .unit_n = PANEL_VECTORS * LANES,
                                                    .tasks = 16,
                                                    .pace = 1 },
                                        .least = 14 << 20,
                                        .least_m = 32,
                                        .in_place = 1,
                                        .pack_a = FN(pack_a),
                                        .pack_b = FN(pack_b),
                                        .multiply = FN(multiply) };
