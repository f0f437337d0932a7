/* What the kernels of quantised blocks share: scales, minima, and memory that is asked for ahead.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_BLOCK_PARTS_H
#define SITU_BACKEND_CPU_ISA_BLOCK_PARTS_H

#include "backend/cpu/common/isa/simd.h"
#include "kernels/blocks.h"

#include <string.h>

enum { LANES = VECTOR / 4 };

/* The f16 at b. */
ALWAYS_INLINE float load_half(const unsigned char *b) {
#if defined(__F16C__)
  return _cvtsh_ss((unsigned short)(b[0] | b[1] << 8));
#else
  return block_half(b);
#endif
}

ALWAYS_INLINE float add_lanes(vec_f32 v) {
  float sum = 0;
  for (int l = 0; l < LANES; l++) sum += v[l];
  return sum;
}

/* Asks for memory that a row's strided reads alone ask for too late: far ahead into the L2 cache, as the L1 cache has
   too few misses at a time to wait for memory, then from there. */
enum { NEAR = 768, FAR = 3072 };
ALWAYS_INLINE void fetch_ahead(const unsigned char *b, int bytes) {
  for (int at = 0; at < bytes; at += 64) {
    __builtin_prefetch((const void *)((uintptr_t)b + NEAR + (uintptr_t)at), 0, 3);
    __builtin_prefetch((const void *)((uintptr_t)b + FAR + (uintptr_t)at), 0, 2);
  }
}

typedef unsigned char bytes_8 __attribute__((vector_size(8)));
typedef int32_t ints_8 __attribute__((vector_size(32)));
typedef float floats_8 __attribute__((vector_size(32)));

/* Scales and minima of a block of Q4_K or Q5_K: packed_scale and packed_minimum of four groups at a time. */
#if defined(__AVX512F__)
ALWAYS_INLINE void unpack_scales(const unsigned char *b, floats_8 *scale, floats_8 *minimum) {
  const __m128i six = _mm_set1_epi8(0x3f), four = _mm_set1_epi8(0x0f), top = _mm_set1_epi8(0x30);
  const __m128i words = _mm_loadu_si128((const __m128i *)(const void *)(b + 4));
  const __m128i last = _mm_srlv_epi32(_mm_shuffle_epi32(words, 0xaa), _mm_setr_epi32(0, 4, 0, 0));
  const __m128i high = _mm_or_si128(_mm_and_si128(last, four), _mm_and_si128(_mm_srli_epi32(words, 2), top));
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_unpacklo_epi32(_mm_and_si128(words, six), high));
  const __m128 halves = _mm_cvtph_ps(_mm_loadu_si32(b));
  const __m512i first = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m512 factor = _mm512_permutexvar_ps(first, _mm512_castps128_ps512(halves));
  const __m512d both = _mm512_castps_pd(_mm512_mul_ps(_mm512_cvtepi32_ps(bytes), factor));
  *scale = (floats_8)_mm512_castpd512_pd256(both);
  *minimum = (floats_8)_mm512_extractf64x4_pd(both, 1);
}
#else
/* The bytes of two words, in memory's order, times a factor. */
ALWAYS_INLINE void scale_bytes(uint32_t first, uint32_t second, float factor, floats_8 *out) {
  const uint32_t words[2] = { first, second };
  bytes_8 byte;
  memcpy(&byte, words, sizeof byte);
#if defined(__AVX2__)
  const ints_8 integer = (ints_8)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)&byte));
#else
  const ints_8 integer = __builtin_convertvector(byte, ints_8);
#endif
  *out = factor * __builtin_convertvector(integer, floats_8);
}

ALWAYS_INLINE void unpack_scales(const unsigned char *b, floats_8 *scale, floats_8 *minimum) {
  const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, top = 0x30303030;
  uint32_t word[3];
  memcpy(word, b + 4, sizeof word);
  scale_bytes(word[0] & six, (word[2] & four) | (word[0] >> 2 & top), load_half(b), scale);
  scale_bytes(word[1] & six, (word[2] >> 4 & four) | (word[1] >> 2 & top), load_half(b + 2), minimum);
}
#endif

/* Adds the sums of a block's groups of x times their minima. Vectors are not passed by value: how depends on flags. */
ALWAYS_INLINE void add_minima(const floats_8 *minimum, const float *sums, floats_8 *all) {
  floats_8 group;
  memcpy(&group, sums, sizeof group);
  *all += *minimum * group;
}
ALWAYS_INLINE float add_eight(const floats_8 *v) {
  float x[8];
  memcpy(x, v, sizeof x);
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

#endif
