/* Panels of bf16, and of f16 in two parts, multiplied by tile registers (AMX). A tile of a is 16 rows of 32 elements,
   one of b 16 pairs of elements of 16 columns; each is 1 KiB. A panel has two tiles side by side, or two for each part.
   SPDX-License-Identifier: MIT */
#include "tiles.h"

/* ---- packing ---- */

/* Each f16 is the sum of two bf16, exactly, if it is finite: 11 digits are 8 and 3. */
ALWAYS_INLINE void split_tile(vec_f32 high[TILE], vec_f32 low[TILE]) {
  UNROLL for (int i = 0; i < TILE; i++) {
    const __m512i x = (__m512i)high[i];
    const __m512 even = _mm512_cvtph_ps(_mm512_castsi512_si256(x)),
                 odd = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1));
    const __m512i near = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    const __m512 even_left = _mm512_sub_ps(
                     even, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(near)), 16)),
                 odd_left = _mm512_sub_ps(
                     odd, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(near, 1)), 16));
    high[i] = (vec_f32)near;
    low[i] = (vec_f32)_mm512_cvtne2ps_pbh(odd_left, even_left);
  }
}

static bool is_finite(const vec_f32 tile[TILE]) {
  const __m512i exponent = _mm512_set1_epi16(0x7c00);
  __mmask32 special = 0;
  for (int i = 0; i < TILE; i++)
    special |= _mm512_cmpeq_epi16_mask(_mm512_and_si512((__m512i)tile[i], exponent), exponent);
  return special == 0;
}

/* Packs one tile for each square. */
ALWAYS_INLINE bool pack_tiles(char *to, const uint16_t *src, int64_t lane, int64_t step, int64_t lanes, int64_t k,
                              bool by_lane, int parts) {
  const squares all = squares_of(lane, step, lanes, k);
  const int64_t panel = all.blocks * 2 * parts * TILE_BYTES;
  bool finite = true;
  for (int64_t at = 0; at < count_squares(&all); at++) {
    const square_place place = square_at(&all, at);
    const int64_t t = place.lanes, q = place.block;
    vec_f32 tile[TILE], low[TILE];
    load_tile(tile, src + t * TILE * lane + q * DEPTH * step, lane, step, lanes - t * TILE, k - q * DEPTH, all.in_rows);
    if (all.in_rows == by_lane) FN(transpose)(tile);
    char *block = to + t / 2 * panel + (q * 2 * parts + t % 2) * TILE_BYTES;
    if (parts == 2) {
      finite = finite && is_finite(tile);
      split_tile(tile, low);
      store_tile(block + 2 * TILE_BYTES, low);
    }
    store_tile(block, tile);
  }
  return finite;
}

#define PACK(name, by_lane, parts)                                                                     \
  static bool name(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) { \
    return pack_tiles(dst, src, lane, step, lanes, k, by_lane, parts);                                 \
  }
PACK(pack_rows, true, 1)
PACK(pack_columns, false, 1)
PACK(pack_rows_apart, true, 2)
PACK(pack_columns_apart, false, 2)

/* ---- multiplication ---- */

/* streamed: panels of a and of b are too large for the L1 cache together: those of a, each of which is read once for a
   panel of b, leave it alone. */
ALWAYS_INLINE void tile_products(const char *a, int64_t row, const char *b, bool tall, bool wide, bool streamed) {
  if (streamed) _tile_stream_loadd(4, a, row);
  else _tile_loadd(4, a, row);
  _tile_loadd(6, b, 64);
  _tile_dpbf16ps(0, 4, 6);
  if (wide) {
    _tile_loadd(7, b + TILE_BYTES, 64);
    _tile_dpbf16ps(1, 4, 7);
  }
  if (!tall) return;
  if (streamed) _tile_stream_loadd(5, a + TILE * row, row);
  else _tile_loadd(5, a + TILE * row, row);
  _tile_dpbf16ps(2, 5, 6);
  if (wide) _tile_dpbf16ps(3, 5, 7);
}
ALWAYS_INLINE void multiply_block(const char *a, int64_t row, const char *b, bool tall, bool wide) {
  tile_products(a, row, b, tall, wide, false);
}
ALWAYS_INLINE void multiply_streamed(const char *a, int64_t row, const char *b, bool tall, bool wide) {
  tile_products(a, row, b, tall, wide, true);
}

/* The four products of two parts each. */
ALWAYS_INLINE void multiply_two_parts(const char *a, int64_t row, const char *b, bool tall, bool wide) {
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) multiply_block(a + i * 2 * TILE_BYTES, row, b + j * 2 * TILE_BYTES, tall, wide);
}

static void multiply_bf16(const situ__tile *t, int64_t rows) {
  if (t->k > 256) multiply_panels(t, rows, 1, multiply_streamed);
  else multiply_panels(t, rows, 1, multiply_block);
}
static void multiply_f16(const situ__tile *t, int64_t rows) { multiply_panels(t, rows, 2, multiply_two_parts); }

const situ__panels situ__panels_bf16_amx = { .dtype = SITU_BF16,
                                             .rows = WIDTH,
                                             .columns = WIDTH,
                                             .unit = DEPTH,
                                             .depth = 512,
                                             .bytes = 2,
                                             .tiling = { .tile_m = 512,
                                                         .tile_n = 512,
                                                         .least_m = 48,
                                                         .least_n = 64,
                                                         .unit_m = WIDTH,
                                                         .unit_n = WIDTH,
                                                         .tasks = 16,
                                                         .pace = 8 },
                                             .in_place = WIDTH,
                                             .rounds = true,
                                             .pack_a = pack_rows,
                                             .pack_b = pack_columns,
                                             .multiply = multiply_bf16,
                                             .begin = begin_tiles,
                                             .end = end_tiles };
const situ__panels situ__panels_f16_amx = { .dtype = SITU_F16,
                                            .rows = WIDTH,
                                            .columns = WIDTH,
                                            .unit = DEPTH,
                                            .depth = 1024,
                                            .shallow = 128,
                                            .bytes = 4,
                                            .tiling = { .tile_m = 256,
                                                        .tile_n = 256,
                                                        .least_m = 48,
                                                        .least_n = 64,
                                                        .unit_m = WIDTH,
                                                        .unit_n = WIDTH,
                                                        .tasks = 16,
                                                        .pace = 2 },
                                            .finite = true,
                                            .pack_a = pack_rows_apart,
                                            .pack_b = pack_columns_apart,
                                            .multiply = multiply_f16,
                                            .begin = begin_tiles,
                                            .end = end_tiles };
