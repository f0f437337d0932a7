/* Panels of f32 in three parts of bf16, multiplied by tile registers (AMX). For each 32 elements a panel has two tiles
   of first parts, two of second parts and two of third parts.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/isa_amx/tiles.h"

enum { PARTS = 3, BLOCK_BYTES = PARTS * 2 * TILE_BYTES };

/* ---- packing ---- */

/* An f32 is the exact sum of three bf16, as 24 digits are 8, 8 and 8: the first are cut off, the second rounded. The
   exceptions are infinities and NaN, numbers whose splitting overflows, and those with a subnormal part, which AMX
   takes as 0: all that is not between 2^-100 and 2^100. */
#define LEAST_BITS 0x0d800000u
#define MOST_BITS 0x71800000u
#define UPPER_HALF 0xffff0000u

typedef struct magnitudes {
  __m512i least, most; /* bits of magnitudes; least: less 1, so that 0 counts as large */
} magnitudes;

ALWAYS_INLINE void note_magnitudes(magnitudes *seen, __m512 x) {
  const __m512i bits = _mm512_and_si512((__m512i)x, _mm512_set1_epi32(0x7fffffff));
  seen->most = _mm512_max_epu32(seen->most, bits);
  seen->least = _mm512_min_epu32(seen->least, _mm512_sub_epi32(bits, _mm512_set1_epi32(1)));
}
ALWAYS_INLINE bool has_parts(const magnitudes *seen) {
  return _mm512_reduce_max_epu32(seen->most) <= MOST_BITS && _mm512_reduce_min_epu32(seen->least) >= LEAST_BITS - 1;
}

/* f32 whose lower halves are 0. */
ALWAYS_INLINE void split_f32(__m512 x, __m512 part[PARTS]) {
  part[0] = (__m512)_mm512_and_si512((__m512i)x, _mm512_set1_epi32((int)UPPER_HALF));
  const __m512 left = _mm512_sub_ps(x, part[0]), shifted = _mm512_mul_ps(left, _mm512_set1_ps(0x1p16f + 1));
  part[1] = _mm512_sub_ps(shifted, _mm512_sub_ps(shifted, left)); /* Dekker's splitting: left, rounded to 8 digits */
  part[2] = _mm512_sub_ps(left, part[1]);
}

/* Pairs of the bf16 of two vectors. */
ALWAYS_INLINE __m512i paired(__m512 low, __m512 high) {
  return _mm512_or_si512(_mm512_srli_epi32((__m512i)low, 16), (__m512i)high);
}

ALWAYS_INLINE __mmask16 first_16(int64_t count) {
  return (__mmask16)(count >= 16 ? 0xffff : count > 0 ? (1 << count) - 1 : 0);
}

/* Loads a square of up to 16 lanes and 16 elements of each; what is missing is 0. Vectors are elements of all lanes if
   those follow each other in memory (in_rows), else they are lanes. The square of the next panel is asked for: runs are
   so short that a processor does not see it coming, and weights come from memory. */
ALWAYS_INLINE void load_square(vec_f32 square[TILE], const float *src, int64_t lane, int64_t step, int64_t lanes,
                               int64_t k, bool in_rows) {
  float strip[TILE * TILE];
  if (!in_rows && step != 1) {
    memset(strip, 0, sizeof strip);
    for (int64_t i = 0; i < TILE && i < lanes; i++)
      for (int64_t p = 0; p < TILE && p < k; p++) strip[i * TILE + p] = src[i * lane + p * step];
    src = strip, lane = TILE;
  }
  const __mmask16 some = first_16(in_rows ? lanes : k);
  const int64_t rows = in_rows ? k : lanes, row = in_rows ? step : lane;
  UNROLL for (int i = 0; i < TILE; i++) {
    __builtin_prefetch(src + i * row + WIDTH * lane);
    square[i] = (vec_f32)_mm512_maskz_loadu_ps(i < rows ? some : (__mmask16)0, src + i * row);
  }
}

/* Packs one tile of each part for each 16 lanes and 32 elements; lanes last if they follow each other, so that memory
   is read in order. The elements of a pair are 16 apart. */
ALWAYS_INLINE bool pack_tiles(char *to, const float *src, int64_t lane, int64_t step, int64_t lanes, int64_t k,
                              bool by_lane) {
  const int64_t blocks = (k + DEPTH - 1) / DEPTH, across = (lanes + WIDTH - 1) / WIDTH * 2;
  const bool in_rows = lane == 1 && step != 1;
  magnitudes seen = { .least = _mm512_set1_epi32(-1) };
  for (int64_t at = 0; at < blocks * across; at++) {
    const int64_t t = in_rows ? at % across : at / blocks, q = in_rows ? at / across : at % blocks;
    const int64_t some = lanes - t * TILE, left = k - q * DEPTH;
    const float *from = src + t * TILE * lane + q * DEPTH * step;
    vec_f32 low[TILE], high[TILE];
    if (in_rows) {
      load_square(low, from, 1, step, some, left, true);
      load_square(high, from + TILE * step, 1, step, some, left - TILE, true);
    } else {
      load_square(low, from, lane, step, some, left, false);
      load_square(high, from + TILE * step, lane, step, some, left - TILE, false);
    }
    if (in_rows == by_lane) FN(transpose)(low), FN(transpose)(high);
    char *block = to + t / 2 * blocks * BLOCK_BYTES + q * BLOCK_BYTES + t % 2 * TILE_BYTES;
    UNROLL for (int i = 0; i < TILE; i++) {
      __m512 x[PARTS], y[PARTS];
      note_magnitudes(&seen, (__m512)low[i]);
      note_magnitudes(&seen, (__m512)high[i]);
      split_f32((__m512)low[i], x);
      split_f32((__m512)high[i], y);
      UNROLL for (int p = 0; p < PARTS; p++)
          _mm512_store_si512(block + p * 2 * TILE_BYTES + i * 64, paired(x[p], y[p]));
    }
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
                                                        .least_n = 256,
                                                        .unit_m = WIDTH,
                                                        .unit_n = WIDTH,
                                                        .tasks = 8,
                                                        .pace = 2 },
                                            .least = 1 << 20,
                                            .least_m = 80,
                                            .least_n = 96,
                                            .least_k = 64,
                                            .finite = true,
                                            .whole = TILE,
                                            .pack_a = pack_rows,
                                            .pack_b = pack_columns,
                                            .multiply = multiply };
