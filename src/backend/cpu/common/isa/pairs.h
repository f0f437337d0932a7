/* Squares of 16 lanes by 32 elements of 16 bits: what panels of pairs are packed from. With AVX-512.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_PAIRS_H
#define SITU_BACKEND_CPU_ISA_PAIRS_H

#include "simd.h"

#define FN F32
#define LANES 16
#define LANE_NUMBERS NUMBERS_F32
#define real float
#define vec vec_f32
#define picks picks_f32
#include "transpose.h"

enum { TILE = 16, DEPTH = 32 };

ALWAYS_INLINE __mmask32 first(int64_t count) { return count >= 32 ? ~0u : count > 0 ? (1u << count) - 1 : 0; }

ALWAYS_INLINE __m512i pair_up(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/* Loads a tile, of up to 16 lanes and 32 elements of each; what is missing is 0. Vectors are pairs of elements if lanes
   follow each other in memory (in_rows), else they are lanes. */
ALWAYS_INLINE void load_tile(vec_f32 tile[TILE], const uint16_t *src, int64_t lane, int64_t step, int64_t lanes,
                             int64_t k, bool in_rows) {
  if (in_rows && lanes >= TILE && k >= DEPTH) {
    UNROLL for (int p = 0; p < TILE; p++) {
      const uint16_t *from = src + 2 * p * step;
      tile[p] =
          (vec_f32)pair_up(_mm256_loadu_si256((const void *)from), _mm256_loadu_si256((const void *)(from + step)));
    }
  } else if (in_rows) {
    UNROLL for (int p = 0; p < TILE; p++) {
      const uint16_t *from = src + 2 * p * step;
      const __mmask16 even = (__mmask16)first(2 * p < k ? lanes : 0), odd = (__mmask16)first(2 * p + 1 < k ? lanes : 0);
      tile[p] = (vec_f32)pair_up(_mm256_maskz_loadu_epi16(even, from), _mm256_maskz_loadu_epi16(odd, from + step));
    }
  } else if (step == 1) {
    UNROLL for (int i = 0; i < TILE; i++) tile[i] =
        (vec_f32)_mm512_maskz_loadu_epi16(first(i < lanes ? k : 0), src + i * lane);
  } else {
    uint16_t part[TILE][DEPTH] = { { 0 } };
    for (int64_t i = 0; i < TILE && i < lanes; i++)
      for (int64_t p = 0; p < DEPTH && p < k; p++) part[i][p] = src[i * lane + p * step];
    memcpy(tile, part, sizeof part);
  }
}

#endif
