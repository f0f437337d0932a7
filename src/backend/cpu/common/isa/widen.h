/* Numbers of 16 bits as f32, by the instructions of AVX2 and F16C or AVX-512.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_WIDEN_H
#define SITU_BACKEND_CPU_ISA_WIDEN_H

#include "simd.h"

#if defined(__AVX2__) && defined(__F16C__)
/* A vector's lanes of f32 from as many numbers of 16 bits. */
ALWAYS_INLINE vec_f32 number_16(bool bf16, const uint16_t *x) {
#if defined(__AVX512F__)
  const __m256i bits = _mm256_loadu_si256((const void *)x);
  return (vec_f32)(bf16 ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))
                        : _mm512_cvtph_ps(bits));
#else
  const __m128i bits = _mm_loadu_si128((const void *)x);
  return (vec_f32)(bf16 ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))
                        : _mm256_cvtph_ps(bits));
#endif
}
#endif

#endif
