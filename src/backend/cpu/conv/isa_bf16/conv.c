/* Register tiles of a convolution whose elements are pairs of bf16, by the instruction that adds two products of bf16
   to an f32 (AVX512_BF16). Vectors of pairs are moved as those of f32, which no instruction here changes.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/conv/conv.h"
#include "backend/cpu/common/isa/round_bf16.h"
#include "backend/cpu/common/isa/simd.h"

ALWAYS_INLINE vec_f32 dots_of_pairs(vec_f32 weight, vec_f32 row, vec_f32 sum) {
  return (vec_f32)_mm512_dpbf16_ps((__m512)sum, (__m512bh)weight, (__m512bh)row);
}
ALWAYS_INLINE __m256i rounded_16(vec_f32 v) {
  return _mm512_castsi512_si256(rounded_32((__m512)v, _mm512_setzero_ps()));
}
ALWAYS_INLINE void round_16(uint16_t *to, vec_f32 v) { _mm256_storeu_si256((void *)to, rounded_16(v)); }
ALWAYS_INLINE void round_some(uint16_t *to, vec_f32 v, int count) {
  _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), rounded_16(v));
}

static void pair(const uint16_t *even, const uint16_t *odd, int64_t count, uint32_t *to) {
  for (int64_t i = 0; i < count; i++) to[i] = even[i] | (uint32_t)(odd ? odd[i] : 0) << 16;
}

#define FN F32
#define LANES 16
#define real float
#define result uint16_t
#define vec vec_f32
#define MULTIPLY_ADD dots_of_pairs
#define GIVE round_16
#define GIVE_SOME round_some
#define KERNELS situ__conv_kernels_bf16_pairs
#define OTHERS .pair = pair
#include "backend/cpu/conv/isa/tiles.h"
