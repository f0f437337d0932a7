/* Panels of f32 in three parts of bf16, multiplied by tile registers (AMX). For each 32 elements a panel has two tiles
   of first parts, two of second parts and two of third parts.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/isa_amx/tiles.h"

enum { PARTS = 3, BLOCK_BYTES = PARTS * 2 * TILE_BYTES };

/* ---- packing ---- */

/* An f32 is the exact sum of three bf16, as 24 digits are 8, 8 and 8; each rounds what the ones before leave. The
   exceptions are numbers that round to infinity, and those with a subnormal part, which AMX takes as 0. */
#define LEAST_BITS 0x0d800000u /* 2^-100 */
#define TOO_LARGE 0x7f7f8000u

ALWAYS_INLINE __mmask16 has_no_parts(__m512 x) {
  const __m512i bits = _mm512_and_si512((__m512i)x, _mm512_set1_epi32(0x7fffffff)),
                above = _mm512_sub_epi32(bits, _mm512_set1_epi32(LEAST_BITS));
  return _mm512_mask_cmpge_epu32_mask(_mm512_test_epi32_mask(bits, bits), above,
                                      _mm512_set1_epi32((int)(TOO_LARGE - LEAST_BITS)));
}

ALWAYS_INLINE __m512 widened(__m256i x) { return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16); }

/* part[] of the 16 elements of low, then of those of high. */
ALWAYS_INLINE void split_f32(__m512 low, __m512 high, __m512i part[PARTS]) {
  UNROLL for (int i = 0; i < PARTS; i++) {
    part[i] = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    low = _mm512_sub_ps(low, widened(_mm512_castsi512_si256(part[i])));
    high = _mm512_sub_ps(high, widened(_mm512_extracti64x4_epi64(part[i], 1)));
  }
}

/* Pairs of an element of the lower and one of the upper half. */
ALWAYS_INLINE __m512i interleaved(__m512i x) {
  const __m512i from = _mm512_or_si512(
      _mm512_slli_epi32(_mm512_set_epi32(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16), 16),
      _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
  return _mm512_permutexvar_epi16(from, x);
}

ALWAYS_INLINE __mmask16 first_16(int64_t count) {
  return (__mmask16)(count >= 16 ? 0xffff : count > 0 ? (1 << count) - 1 : 0);
}

/* Loads a tile of each part: up to 16 lanes, 32 elements of each; what is missing is 0. Vectors are pairs of elements
   if lanes follow each other in memory (in_rows), else they are lanes. Returns false if an element has no parts. */
ALWAYS_INLINE bool load_tiles(vec_f32 tile[PARTS][TILE], const float *src, int64_t lane, int64_t step, int64_t lanes,
                              int64_t k, bool in_rows) {
  float strip[TILE * DEPTH];
  if (!in_rows && step != 1) {
    memset(strip, 0, sizeof strip);
    for (int64_t i = 0; i < TILE && i < lanes; i++)
      for (int64_t p = 0; p < DEPTH && p < k; p++) strip[i * DEPTH + p] = src[i * lane + p * step];
    src = strip, lane = DEPTH;
  }
  __mmask16 none = 0;
  UNROLL for (int i = 0; i < TILE; i++) {
    const int64_t low = in_rows     ? (2 * i < k ? lanes : 0)
                        : i < lanes ? k
                                    : 0,
                  high = in_rows ? (2 * i + 1 < k ? lanes : 0) : low - TILE;
    const float *from = src + (in_rows ? 2 * i * step : i * lane);
    const __m512 x = _mm512_maskz_loadu_ps(first_16(low), from),
                 y = _mm512_maskz_loadu_ps(first_16(high), from + (in_rows ? step : TILE));
    __m512i part[PARTS];
    split_f32(x, y, part);
    none |= has_no_parts(x) | has_no_parts(y);
    UNROLL for (int q = 0; q < PARTS; q++) tile[q][i] = (vec_f32)(in_rows ? interleaved(part[q]) : part[q]);
  }
  return none == 0;
}

/* Packs one tile of each part for each 16 lanes and 32 elements; lanes last if they follow each other, so that memory
   is read in order. */
ALWAYS_INLINE bool pack_tiles(char *to, const float *src, int64_t lane, int64_t step, int64_t lanes, int64_t k,
                              bool by_lane) {
  const int64_t blocks = (k + DEPTH - 1) / DEPTH, across = (lanes + WIDTH - 1) / WIDTH * 2;
  const bool in_rows = lane == 1 && step != 1;
  bool good = true;
  for (int64_t at = 0; at < blocks * across; at++) {
    const int64_t t = in_rows ? at % across : at / blocks, q = in_rows ? at / across : at % blocks;
    const float *from = src + t * TILE * lane + q * DEPTH * step;
    vec_f32 tile[PARTS][TILE];
    good &= in_rows ? load_tiles(tile, from, 1, step, lanes - t * TILE, k - q * DEPTH, true)
                    : load_tiles(tile, from, lane, step, lanes - t * TILE, k - q * DEPTH, false);
    char *block = to + t / 2 * blocks * BLOCK_BYTES + q * BLOCK_BYTES + t % 2 * TILE_BYTES;
    for (int i = 0; i < PARTS; i++) {
      if (in_rows == by_lane) FN(transpose)(tile[i]);
      store_tile(block + i * 2 * TILE_BYTES, tile[i]);
    }
  }
  return good;
}

static bool pack_rows(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  return pack_tiles(dst, src, lane, step, lanes, k, true);
}
static bool pack_columns(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  return pack_tiles(dst, src, lane, step, lanes, k, false);
}

/* ---- multiplication ---- */

/* tall, wide: the second tile of a's panel, of b's, is needed. Tiles 0 to 3 are sums, 4 and 5 of a, 6 and 7 of b. */
ALWAYS_INLINE void load_a(const char *a, int part, bool tall) {
  _tile_loadd(4, a + part * 2 * TILE_BYTES, 64);
  if (tall) _tile_loadd(5, a + (part * 2 + 1) * TILE_BYTES, 64);
}
ALWAYS_INLINE void load_b(const char *b, int part, bool wide) {
  _tile_loadd(6, b + part * 2 * TILE_BYTES, 64);
  if (wide) _tile_loadd(7, b + (part * 2 + 1) * TILE_BYTES, 64);
}
ALWAYS_INLINE void multiply_loaded(bool tall, bool wide) {
  _tile_dpbf16ps(0, 4, 6);
  if (wide) _tile_dpbf16ps(1, 4, 7);
  if (tall) _tile_dpbf16ps(2, 5, 6);
  if (tall && wide) _tile_dpbf16ps(3, 5, 7);
}

/* The six products of parts that are above 2^-24 of the whole, the small ones first; each loads one side anew. */
ALWAYS_INLINE void multiply_block(const char *a, const char *b, bool tall, bool wide) {
  static const struct { int a, b; } order[] = { { 0, 2 }, { 0, 1 }, { 1, 1 }, { 1, 0 }, { 2, 0 }, { 0, 0 } };
  UNROLL for (int i = 0; i < 6; i++) {
    if (i == 0 || order[i].a != order[i - 1].a) load_a(a, order[i].a, tall);
    if (i == 0 || order[i].b != order[i - 1].b) load_b(b, order[i].b, wide);
    multiply_loaded(tall, wide);
  }
}

ALWAYS_INLINE void multiply_panel(const char *a, const char *b, float *c, int64_t c_row, int64_t blocks, bool add,
                                  bool tall, bool wide) {
  const int64_t row = c_row * (int64_t)sizeof(float);
  float *below = c + TILE * c_row;
  if (add) {
    _tile_loadd(0, c, row);
    if (wide) _tile_loadd(1, c + TILE, row);
    if (tall) _tile_loadd(2, below, row);
    if (tall && wide) _tile_loadd(3, below + TILE, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t q = 0; q < blocks; q++) multiply_block(a + q * BLOCK_BYTES, b + q * BLOCK_BYTES, tall, wide);
  _tile_stored(0, c, row);
  if (wide) _tile_stored(1, c + TILE, row);
  if (tall) _tile_stored(2, below, row);
  if (tall && wide) _tile_stored(3, below + TILE, row);
}

static void multiply(const situ__tile *t, int64_t rows) {
  const int64_t blocks = (t->k + DEPTH - 1) / DEPTH;
  const char *a = t->a, *b = t->b;
  float *c = t->c;
  _tile_loadconfig(&layout);
  for (int64_t i = 0; i < rows; i += WIDTH, a += blocks * BLOCK_BYTES, c += WIDTH * t->c_row) {
    const bool tall = rows - i > TILE, wide = t->columns > TILE;
    if (tall && wide) multiply_panel(a, b, c, t->c_row, blocks, t->add, true, true);
    else if (tall) multiply_panel(a, b, c, t->c_row, blocks, t->add, true, false);
    else if (wide) multiply_panel(a, b, c, t->c_row, blocks, t->add, false, true);
    else multiply_panel(a, b, c, t->c_row, blocks, t->add, false, false);
  }
  _tile_release();
}

const situ__panels situ__panels_f32_amx = { .dtype = SITU_F32,
                                            .rows = WIDTH,
                                            .columns = WIDTH,
                                            .unit = DEPTH,
                                            .depth = 128,
                                            .bytes = 2 * PARTS,
                                            .tiling = { .tile_m = 512,
                                                        .tile_n = 512,
                                                        .least_m = 128,
                                                        .least_n = 128,
                                                        .unit_m = WIDTH,
                                                        .unit_n = WIDTH,
                                                        .tasks = 8,
                                                        .pace = 2 },
                                            .least = 1 << 20,
                                            .least_side = 80,
                                            .finite = true,
                                            .apart = true,
                                            .pack_a = pack_rows,
                                            .pack_b = pack_columns,
                                            .multiply = multiply };
