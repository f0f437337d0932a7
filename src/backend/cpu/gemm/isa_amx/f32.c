/* Panels of f32 in three parts of bf16, multiplied by tile registers (AMX). For each 32 elements a panel has two tiles
   of first parts, two of second parts and two of third parts.
   SPDX-License-Identifier: MIT */
#include "parts.h"

/* ---- packing ---- */

/* Packs one tile of each part for each square. The elements of a pair are 16 apart. */
ALWAYS_INLINE bool pack_tiles(char *to, const float *src, int64_t lane, int64_t step, int64_t lanes, int64_t k,
                              bool by_lane) {
  const squares all = squares_of(lane, step, lanes, k);
  magnitudes seen = no_magnitudes();
  for (int64_t at = 0; at < count_squares(&all); at++) {
    const square_place place = square_at(&all, at);
    const int64_t t = place.lanes, q = place.block;
    const float *from = src + t * TILE * lane + q * DEPTH * step;
    vec_f32 low[TILE], high[TILE];
    load_half(low, from, lane, step, lanes - t * TILE, k - q * DEPTH, all.in_rows);
    load_half(high, from + TILE * step, lane, step, lanes - t * TILE, k - q * DEPTH - TILE, all.in_rows);
    if (all.in_rows == by_lane) FN(transpose)(low), FN(transpose)(high);
    char *block = to + (t / 2 * all.blocks + q) * BLOCK_BYTES + t % 2 * TILE_BYTES;
    UNROLL for (int i = 0; i < TILE; i++) store_parts(&seen, low[i], high[i], block + i * 64, 2 * TILE_BYTES);
  }
  return has_parts(&seen);
}

static bool pack_rows(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  return pack_tiles(dst, src, lane, step, lanes, k, true);
}
static bool pack_columns(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  return pack_tiles(dst, src, lane, step, lanes, k, false);
}

/* ---- multiplication ---- */

ALWAYS_INLINE void multiply_block(const char *a, int64_t row, const char *b, bool tall, bool wide) {
  enum { NEXT = 2 * TILE_BYTES };
  multiply_three_parts(&(part_tiles){ a, row, TILE * row, NEXT }, &(part_tiles){ b, 64, TILE_BYTES, NEXT }, tall, wide,
                       NULL, NULL);
}

static void multiply(const situ__tile *t, int64_t rows) { multiply_panels(t, rows, PARTS, multiply_block); }

const situ__panels situ__panels_f32_amx = { .dtype = SITU_F32,
                                            .rows = WIDTH,
                                            .columns = WIDTH,
                                            .unit = DEPTH,
                                            .depth = 1024,
                                            .shallow = 128,
                                            .bytes = 2 * PARTS,
                                            .tiling = { .tile_m = 128,
                                                        .tile_n = 1024,
                                                        .least_m = 128,
                                                        .least_n = 128,
                                                        .unit_m = WIDTH,
                                                        .unit_n = WIDTH,
                                                        .tasks = 8,
                                                        .pace = 2 },
                                            .least = 1 << 19,
                                            .least_m = 80,
                                            .least_n = 96,
                                            .least_k = 64,
                                            .finite = true,
                                            .full = TILE,
                                            .gain = 1.4,
                                            .pack_a = pack_rows,
                                            .pack_b = pack_columns,
                                            .multiply = multiply,
                                            .begin = begin_tiles,
                                            .end = end_tiles };
