/* Rounding to bf16 by the processor's instruction, for sources that are compiled with AVX512_BF16.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_ROUND_BF16_H
#define SITU_BACKEND_CPU_ISA_ROUND_BF16_H

#include "loops.h"
#include "kernels/half.h"

#include <immintrin.h>

/* In a function of its own, as it is rarely called and stands wherever a tile stores a vector. */
static __attribute__((noinline, unused)) __m512i rounded_one_by_one(__m512 low, __m512 high) {
  float number[32];
  uint16_t rounded[32];
  _mm512_storeu_ps(number, low);
  _mm512_storeu_ps(number + 16, high);
  for (int i = 0; i < 32; i++) rounded[i] = situ__f32_to_bf16(number[i]);
  return _mm512_loadu_si512(rounded);
}

/* The instruction has the same bits as situ__f32_to_bf16 but for subnormal numbers, that it takes as
   0, and NaN. */
ALWAYS_INLINE __m512i rounded_32(__m512 low, __m512 high) {
  enum { QUIET = 0x01, SUBNORMAL = 0x20, SIGNALLING = 0x80, OTHERS = QUIET | SUBNORMAL | SIGNALLING };
  if (__builtin_expect(_mm512_fpclass_ps_mask(low, OTHERS) | _mm512_fpclass_ps_mask(high, OTHERS), 0))
    return rounded_one_by_one(low, high);
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
ALWAYS_INLINE void round_32(__m512 low, __m512 high, uint16_t *to) { _mm512_storeu_si512(to, rounded_32(low, high)); }

#endif
