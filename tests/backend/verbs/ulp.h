/* How far a result is from the exact one.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_ULP_H
#define SITU_TESTS_SUPPORT_ULP_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Units in the last place of a type with `digits` bits of fraction and least exponent `least`. */
static inline double ulps(long double got, long double want, long double near, int digits, int least) {
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  if (got == want) return 0;
  long double most = least < -200 ? (long double)DBL_MAX : (long double)FLT_MAX;
  if (isinf(got)) return fabsl(want) > most * 0.999999L && signbit(got) == signbit(want) ? 0 : INFINITY;
  int e;
  (void)frexpl(fmaxl(fabsl(want), near), &e);
  if (e < least) e = least;
  return (double)(fabsl(got - want) / ldexpl(1, e - digits));
}

/* At most so many of them between f32s, as ulps says, in a tenth of its time. */
static inline bool is_near_f32(double got, double want, double near, double most) {
  const double size = fmax(fabs(want), near);
  if (!isfinite(got) || !isfinite(want)) return ulps(got, want, near, 24, -125) <= most;
  uint64_t unit;
  memcpy(&unit, &size, sizeof unit);
  unit >>= 52;
  unit = ((unit < 1023 - 126 ? 1023 - 126 : unit) - 23) << 52; /* a power of two */
  double one;
  memcpy(&one, &unit, sizeof one);
  return fabs(got - want) <= most * one;
}

#endif
