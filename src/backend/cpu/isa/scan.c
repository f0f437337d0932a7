/* Running sums of f32, compiled for each instruction set, with the same bits.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/scan.h"
#include "backend/cpu/isa/simd.h"

enum { LANES = 8 };

/* Sums of the first 1, 2, ... of eight numbers: rounds add what is 1, 2 and 4 lanes before. `total` is added to them,
   and their last to it, so that the next eight wait for one addition only. */
#if defined(__AVX512F__)
typedef __m512d sums;
ALWAYS_INLINE sums all_lanes(double x) { return _mm512_set1_pd(x); }
ALWAYS_INLINE sums before(sums x, int lanes) {
  const __m512i none = _mm512_setzero_si512(), bits = _mm512_castpd_si512(x);
  return _mm512_castsi512_pd(lanes == 1   ? _mm512_alignr_epi64(bits, none, 7)
                             : lanes == 2 ? _mm512_alignr_epi64(bits, none, 6)
                                          : _mm512_alignr_epi64(bits, none, 4));
}
ALWAYS_INLINE void add_eight(const float *x, float *y, sums *total) {
  sums sum = _mm512_cvtps_pd(_mm256_loadu_ps(x));
  sum = _mm512_add_pd(sum, before(sum, 1));
  sum = _mm512_add_pd(sum, before(sum, 2));
  sum = _mm512_add_pd(sum, before(sum, 4));
  if (y) _mm256_storeu_ps(y, _mm512_cvtpd_ps(_mm512_add_pd(*total, sum)));
  *total = _mm512_add_pd(*total, _mm512_permutexvar_pd(_mm512_set1_epi64(LANES - 1), sum));
}
ALWAYS_INLINE double any_lane(sums x) { return _mm512_cvtsd_f64(x); }
#else
typedef double sums;
ALWAYS_INLINE sums all_lanes(double x) { return x; }
ALWAYS_INLINE void add_eight(const float *x, float *y, sums *total) {
  double sum[LANES];
  for (int i = 0; i < LANES; i++) sum[i] = (double)x[i];
  UNROLL for (int lanes = 1; lanes < LANES; lanes *= 2) {
    UNROLL for (int i = LANES - 1; i >= lanes; i--) sum[i] += sum[i - lanes];
  }
  for (int i = 0; y && i < LANES; i++) y[i] = (float)(*total + sum[i]);
  *total += sum[LANES - 1];
}
ALWAYS_INLINE double any_lane(sums x) { return x; }
#endif

static double running_sums(const float *x, float *y, int64_t count, double before_all) {
  sums total = all_lanes(before_all);
  int64_t i = 0;
  if (y)
    for (; i + LANES <= count; i += LANES) add_eight(x + i, y + i, &total);
  else
    for (; i + LANES <= count; i += LANES) add_eight(x + i, NULL, &total);
  if (i < count) {
    float rest[LANES] = { 0 };
    memcpy(rest, x + i, (size_t)(count - i) * sizeof *x);
    add_eight(rest, rest, &total);
    if (y) memcpy(y + i, rest, (size_t)(count - i) * sizeof *y);
  }
  return any_lane(total);
}

const situ__scans SITU__ISA_NAME(situ__scans) = { .sums = running_sums };
