/* sin and cos in f32 without branches, so that loops become vectors: within 1.6 ULP where IS_FAR is false. Needs fused
   multiply-adds. Include after kernels/dialect.h.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_SINE_H
#define SITU_BACKEND_CPU_ISA_SINE_H

#include "loops.h"

#define MOST_NEAR 0x1p28f /* n below is exact, and an int */

#define IS_FAR(x) (!(fabs(x) <= MOST_NEAR))

/* x = n pi/2 + r, with |r| <= pi/4. Doubles as large as ROUNDER have no fraction, so adding it rounds. In f64, pi/2 in
   two parts leaves r with all of f32's digits, however near x is to a multiple. */
ALWAYS_INLINE float quarter_turns(float x, int *n) {
  const double wide = (double)x, rounder = 0x1.8p52, turns = fma(wide, 0x1.45f306dc9c883p-1, rounder) - rounder;
  *n = (int)turns;
  return (float)fma(turns, -0x1.1a62633145c07p-54, fma(turns, -0x1.921fb54442d18p+0, wide));
}

/* sin(n pi/2 + r). The polynomials are least maximum fits by r^2, computed by Lawson's iteration. */
ALWAYS_INLINE float sine_at(int n, float r) {
  const float s = r * r;
  const float p = fma(fma(-0x1.994388p-13f, s, 0x1.11073ap-7f), s, -0x1.555546p-3f);
  const float q = fma(fma(0x1.99eb4ap-16f, s, -0x1.6c0c32p-10f), s, 0x1.55554ap-5f);
  const float y = n & 1 ? fma(s * s, q, fma(-0.5f, s, 1.0f)) : fma(s * r, p, r);
  return n & 2 ? -y : y;
}

ALWAYS_INLINE float sin_near(float x) {
  int n;
  const float r = quarter_turns(x, &n);
  return x == 0 ? x : sine_at(n, r); /* keeps -0 */
}
ALWAYS_INLINE float cos_near(float x) {
  int n;
  const float r = quarter_turns(x, &n);
  return sine_at(n + 1, r);
}

#endif
