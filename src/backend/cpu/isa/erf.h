/* erf in f32: within 1.2 ULP (1.5 without FMA), less than half of the cost of the C library's vector variant. Without
   branches, so that loops become vectors. The coefficients are least maximum fits of erf(x) / x - 1 by x^2 on [0, 1],
   and of -ln erfc(x) on [1, 4], computed by Lawson's iteration.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_ERF_H
#define SITU_BACKEND_CPU_ISA_ERF_H

#include "backend/cpu/isa/exp.h"

ALWAYS_INLINE float situ__erf_f32(float x) {
  const float s = x * x;
  float p = MULTIPLY_ADD(0x1.496a2p-14f, s, -0x1.a3f6f8p-11f);
  p = MULTIPLY_ADD(p, s, 0x1.5405bp-8f);
  p = MULTIPLY_ADD(p, s, -0x1.b7f90cp-6f);
  p = MULTIPLY_ADD(p, s, 0x1.ce2cf8p-4f);
  p = MULTIPLY_ADD(p, s, -0x1.81273ep-2f);
  p = MULTIPLY_ADD(p, s, 0x1.06eba8p-3f);
  const float small = MULTIPLY_ADD(x, p, x);
  const float size = __builtin_fabsf(x), t = size < 4 ? size : 4; /* beyond 4 all are 1 */
  float h = MULTIPLY_ADD(-0x1.86dcecp-13f, t, 0x1.825a9ap-9f);
  h = MULTIPLY_ADD(h, t, -0x1.65cb48p-6f);
  h = MULTIPLY_ADD(h, t, 0x1.a6532ap-4f);
  h = MULTIPLY_ADD(h, t, 0x1.46baf0p-1f);
  h = MULTIPLY_ADD(h, t, 0x1.2088eap+0f);
  h = MULTIPLY_ADD(h, t, 0x1.66213cp-12f);
  const float large = 1.0f - situ__exp_between_f32(-h);
  return !(size >= 1) ? small : __builtin_copysignf(large, x); /* small: NaN for NaN */
}

#endif
