/* erf and the normal distribution's P(X < x) in f32, without branches, so that loops become vectors. Coefficients are
   least maximum fits, computed by Lawson's iteration.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_ERF_H
#define SITU_BACKEND_CPU_ISA_ERF_H

#include "exp.h"

/* Within 1.2 ULP (1.5 without FMA), less than half of the cost of the C library's vector variant. The fits are of
   erf(x) / x - 1 by x^2 on [0, 1], and of -ln erfc(x) on [1, 4]. */
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

/* P(X < x) is made of the tail at |x|, half of 2^e(|x|), where e = n + r and p = 2^r. Adding 1.5 * 2^23 - 1 leaves
   n - 1 in the lowest bits. Where e is less than -126 the tail is 0. */
#define ROUND_HALF_POWER (0x1.8p23f - 1)
ALWAYS_INLINE float situ__normal_side(float x, float shifted, float p) {
  const float tail = situ__from_bits(situ__to_bits(p) + (situ__to_bits(shifted) << 23));
  return x < 0 ? tail : 1 - tail;
}

/* P(X < x) in two steps: e, and the rest. x times it is within 1.2 units in the last place of the larger of 1 and
   the product (1.3 without FMA), and within 2.3 ULP for x > 0. The fit is of degree 10 on [0, 7], the tail's relative
   error there at most 2^-11; beyond, e falls faster than it should. */
ALWAYS_INLINE float situ__normal_power_f32(float x) {
  const float t = __builtin_fabsf(x);
  float e = MULTIPLY_ADD(-0x1.e7a586p-26f, t, 0x1.cb8bb0p-21f);
  e = MULTIPLY_ADD(e, t, -0x1.704af6p-17f);
  e = MULTIPLY_ADD(e, t, 0x1.409676p-14f);
  e = MULTIPLY_ADD(e, t, -0x1.23ff5ep-12f);
  e = MULTIPLY_ADD(e, t, -0x1.8e77e2p-18f);
  e = MULTIPLY_ADD(e, t, 0x1.c80edap-8f);
  e = MULTIPLY_ADD(e, t, -0x1.adb0a0p-5f);
  e = MULTIPLY_ADD(e, t, -0x1.d63cd4p-2f);
  e = MULTIPLY_ADD(e, t, -0x1.26aeccp+0f) * t;
  return e > -126.0f ? e : -126.0f; /* NaN, too */
}
ALWAYS_INLINE float situ__normal_by_f32(float x, float e) {
  const float shifted = e + ROUND_HALF_POWER, r = e - (shifted - ROUND_HALF_POWER);
  float p = MULTIPLY_ADD(0x1.41fbbep-13f, r, 0x1.5f3e54p-10f);
  p = MULTIPLY_ADD(p, r, 0x1.3b2d4cp-7f);
  p = MULTIPLY_ADD(p, r, 0x1.c6aee8p-5f);
  p = MULTIPLY_ADD(p, r, 0x1.ebfbdcp-3f);
  p = MULTIPLY_ADD(p, r, 0x1.62e430p-1f);
  p = MULTIPLY_ADD(p, r, 1.0f);
  return situ__normal_side(x, shifted, p);
}

/* For results of 16 bits: the relative error is at most 2^-15 from -4.2 on, where f16 has all its digits, and 2^-9 from
   -10 on. */
ALWAYS_INLINE float situ__normal_cdf_16(float x) {
  const float t = __builtin_fabsf(x);
  float e = MULTIPLY_ADD(-0x1.40fc2ep-20f, t, 0x1.8d8c74p-15f);
  e = MULTIPLY_ADD(e, t, -0x1.a81240p-11f);
  e = MULTIPLY_ADD(e, t, 0x1.062a74p-7f);
  e = MULTIPLY_ADD(e, t, -0x1.b14fe2p-5f);
  e = MULTIPLY_ADD(e, t, -0x1.d687e8p-2f);
  e = MULTIPLY_ADD(e, t, -0x1.26a15ep+0f) * t;
  e = e > -126.0f ? e : -126.0f;
  const float shifted = e + ROUND_HALF_POWER, r = e - (shifted - ROUND_HALF_POWER);
  float p = MULTIPLY_ADD(0x1.3a02cep-7f, r, 0x1.c9fc48p-5f);
  p = MULTIPLY_ADD(p, r, 0x1.ec0378p-3f);
  p = MULTIPLY_ADD(p, r, 0x1.62e12cp-1f);
  p = MULTIPLY_ADD(p, r, 1.0f);
  return situ__normal_side(x, shifted, p);
}

#endif
