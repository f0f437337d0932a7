/* Rounding to bf16 by the processor's instruction, for sources that are compiled with AVX512_BF16.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_ROUND_BF16_H
#define SITU_BACKEND_CPU_ISA_ROUND_BF16_H

#include "backend/cpu/isa/loops.h"
#include "kernels/half.h"

#include <immintrin.h>

/* Writes 32 numbers. The instruction has the same bits as situ__f32_to_bf16 but for subnormal numbers, that it takes as
   0, and NaN. */
ALWAYS_INLINE void round_32(__m512 low, __m512 high, uint16_t *to) {
  enum { QUIET = 0x01, SUBNORMAL = 0x20, SIGNALLING = 0x80, OTHERS = QUIET | SUBNORMAL | SIGNALLING };
  if (!(_mm512_fpclass_ps_mask(low, OTHERS) | _mm512_fpclass_ps_mask(high, OTHERS))) {
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    return;
  }
  float number[32];
  _mm512_storeu_ps(number, low);
  _mm512_storeu_ps(number + 16, high);
  for (int i = 0; i < 32; i++) to[i] = situ__f32_to_bf16(number[i]);
}

#endif
