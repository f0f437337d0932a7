/* An f32 in three parts of bf16, and products of such parts by tile registers (AMX).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_AMX_PARTS_H
#define SITU_BACKEND_CPU_ISA_AMX_PARTS_H

#include "tiles.h"

enum { PARTS = 3, BLOCK_BYTES = PARTS * 2 * TILE_BYTES };

/* ---- splitting ---- */

/* An f32 is the exact sum of three bf16, as 24 digits are 8, 8 and 8: the first are cut off, the second rounded. The
   exceptions are infinities and NaN, numbers whose splitting overflows, and those with a subnormal part, which AMX
   takes as 0: all that is not between 2^-100 and 2^100. */
#define LEAST_BITS 0x0d800000u
#define MOST_BITS 0x71800000u
#define UPPER_HALF 0xffff0000u

typedef struct magnitudes {
  __m512i least, most; /* bits of magnitudes; least: less 1, so that 0 counts as large */
} magnitudes;

ALWAYS_INLINE magnitudes no_magnitudes(void) { return (magnitudes){ .least = _mm512_set1_epi32(-1) }; }
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

/* Stores the pairs of each part, `next` bytes after those of the one before. */
ALWAYS_INLINE void store_split(vec_f32 low, vec_f32 high, char *to, int64_t next) {
  __m512 x[PARTS], y[PARTS];
  split_f32((__m512)low, x);
  split_f32((__m512)high, y);
  UNROLL for (int p = 0; p < PARTS; p++) _mm512_store_si512(to + p * next, paired(x[p], y[p]));
}
ALWAYS_INLINE void store_parts(magnitudes *seen, vec_f32 low, vec_f32 high, char *to, int64_t next) {
  note_magnitudes(seen, (__m512)low);
  note_magnitudes(seen, (__m512)high);
  store_split(low, high, to, next);
}

/* ---- packing ---- */

ALWAYS_INLINE __mmask16 first_16(int64_t count) {
  return (__mmask16)(count >= 16 ? 0xffff : count > 0 ? (1 << count) - 1 : 0);
}

/* Loads a square of up to 16 lanes and 16 elements of each; what is missing is 0. Vectors are elements of all lanes if
   those follow each other in memory (in_rows), else they are lanes. The square that the same vectors come from next is
   asked for, that of the next panel or, in rows, of the next block: runs are so short that a processor does not see it
   coming, and weights come from memory. */
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
    __builtin_prefetch(src + (i + WIDTH) * row, 0, 2);
    square[i] = (vec_f32)_mm512_maskz_loadu_ps(i < rows ? some : (__mmask16)0, src + i * row);
  }
}

/* Half of a square of 16 lanes and 32 elements. */
ALWAYS_INLINE void load_half(vec_f32 half[TILE], const float *src, int64_t lane, int64_t step, int64_t lanes, int64_t k,
                             bool in_rows) {
  if (in_rows) load_square(half, src, 1, step, lanes, k, true);
  else load_square(half, src, lane, step, lanes, k, false);
}

/* ---- multiplication ---- */

/* Two tiles of each part side by side: bytes between rows, from one to the other, from part to part. */
typedef struct part_tiles {
  const char *first;
  int64_t row, second, part;
} part_tiles;

ALWAYS_INLINE void load_a(const part_tiles *a, int part, bool tall) {
  const char *first = a->first + part * a->part;
  _tile_loadd(4, first, a->row);
  if (tall) _tile_loadd(5, first + a->second, a->row);
}
ALWAYS_INLINE void load_b(const part_tiles *b, int part, bool wide) {
  const char *first = b->first + part * b->part;
  _tile_loadd(6, first, b->row);
  if (wide) _tile_loadd(7, first + b->second, b->row);
}
ALWAYS_INLINE void multiply_loaded(bool tall, bool wide) {
  _tile_dpbf16ps(0, 4, 6);
  if (wide) _tile_dpbf16ps(1, 4, 7);
  if (tall) _tile_dpbf16ps(2, 5, 6);
  if (tall && wide) _tile_dpbf16ps(3, 5, 7);
}

ALWAYS_INLINE void multiply_one_part(const part_tiles *a, const part_tiles *b, bool tall, bool wide) {
  load_a(a, 0, tall);
  load_b(b, 0, wide);
  multiply_loaded(tall, wide);
}

/* Work of vectors after product `number` of the six; each file that has some defines its company. */
typedef struct company company;
typedef void vector_work(company *of, int number);

/* The six products of parts that are above 2^-24 of the whole, the small ones first; each loads one side anew. beside:
   may be NULL. */
ALWAYS_INLINE void multiply_three_parts(const part_tiles *a, const part_tiles *b, bool tall, bool wide,
                                        vector_work *beside, company *of) {
  static const struct { int a, b; } order[] = { { 0, 2 }, { 0, 1 }, { 1, 1 }, { 1, 0 }, { 2, 0 }, { 0, 0 } };
  UNROLL for (int i = 0; i < 6; i++) {
    if (i == 0 || order[i].a != order[i - 1].a) load_a(a, order[i].a, tall);
    if (i == 0 || order[i].b != order[i - 1].b) load_b(b, order[i].b, wide);
    multiply_loaded(tall, wide);
    if (beside) beside(of, i);
  }
}

#endif
