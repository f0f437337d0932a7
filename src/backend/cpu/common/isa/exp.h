/* exp for the sums of softmax and similar kernels: within 1 ULP (1.01 above 0), half the cost of the C library's vector
   variant, and the same bits at every position of a row. Results below 1.7e-38 become 0, which is negligible beside a
   largest term of 1.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_EXP_H
#define SITU_BACKEND_CPU_ISA_EXP_H

#include "loops.h"
#include "kernels/half.h"

/* One rounding with FMA; else the constants below are short enough that two roundings do little harm. */
#ifdef __FP_FAST_FMAF
#define MULTIPLY_ADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* exp(x) = 2^n exp(r) with x = n ln 2 + r. Adding 1.5 * 2^23 leaves the nearest integer n in the lowest bits, and
   adding k more, k + n: the result is 2^k exp(x). ln 2 is subtracted in two parts, the first of which has so few digits
   that its product with n is exact. For results between 2^-126 and 2^127. */
ALWAYS_INLINE float situ__exp_scaled_f32(float x, float shift) {
  float shifted = MULTIPLY_ADD(x, 0x1.715476p+0f, shift), n = shifted - shift;
  float r = MULTIPLY_ADD(n, -0x1.7f7d1cp-20f, MULTIPLY_ADD(n, -0x1.62e4p-1f, x));
  float p = MULTIPLY_ADD(0x1.6850e4p-10f, r, 0x1.123bccp-7f);
  p = MULTIPLY_ADD(p, r, 0x1.555b98p-5f);
  p = MULTIPLY_ADD(p, r, 0x1.55548ep-3f);
  p = MULTIPLY_ADD(p, r, 0x1.fffff8p-2f);
  float y = MULTIPLY_ADD(p, r * r, r) + 1.0f;
  return situ__from_bits(situ__to_bits(y) + (situ__to_bits(shifted) << 23));
}
/* For x in [-87, 88]. */
ALWAYS_INLINE float situ__exp_between_f32(float x) { return situ__exp_scaled_f32(x, 0x1.8p23f); }

/* For x <= 0, and NaN: subnormal results, too. They are 2^64 times as large until the last rounding. */
ALWAYS_INLINE float situ__exp_below_f32(float x) {
  const float bounded = x < -104.0f ? -104.0f : x, y = situ__exp_scaled_f32(bounded, 0x1.8p23f + 64) * 0x1p-64f;
  return x <= 0 ? y : x;
}

ALWAYS_INLINE float situ__exp_f32(float x) {
  const float y = x < -87.0f ? 0.0f : situ__exp_between_f32(x);
  return x <= 0x1.62e42ep+6f ? y : x + __builtin_inff(); /* too large: Inf; NaN: NaN */
}

#endif
