/* Running sums of f32, compiled for each instruction set, with the same bits.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/reduce/scan.h"
#include "backend/cpu/common/isa/simd.h"

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
  _mm256_storeu_ps(y, _mm512_cvtpd_ps(_mm512_add_pd(*total, sum)));
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
  for (int i = 0; i < LANES; i++) y[i] = (float)(*total + sum[i]);
  *total += sum[LANES - 1];
}
ALWAYS_INLINE double any_lane(sums x) { return x; }
#endif

/* Returns true where f64 holds each sum of eight elements exactly, in any order: the exponents of the elements, but for
   zeros, are close to each other. */
static bool sums_are_exact(const float *x, int64_t count) {
  enum { EXPONENT = 23, SPARE = 53 - 24 - 3 };
  uint32_t most = 0, least_less_1 = UINT32_MAX; /* of the bits of |x|; 0 - 1 is the largest number */
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    bits &= 0x7fffffff;
    most = bits > most ? bits : most;
    least_less_1 = bits - 1 < least_less_1 ? bits - 1 : least_less_1;
  }
  return most >> EXPONENT <= ((least_less_1 + 1) >> EXPONENT) + SPARE;
}

/* Elements of very different sizes are added one by one: the sum of eight would lose a small one behind two large ones
   that cancel. */
static double running_sums(const float *x, float *y, int64_t count, double before_all) {
  if (!sums_are_exact(x, count)) {
    for (int64_t i = 0; i < count; i++) y[i] = (float)(before_all += (double)x[i]);
    return before_all;
  }
  sums total = all_lanes(before_all);
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) add_eight(x + i, y + i, &total);
  if (i < count) {
    float rest[LANES] = { 0 };
    memcpy(rest, x + i, (size_t)(count - i) * sizeof *x);
    add_eight(rest, rest, &total);
    memcpy(y + i, rest, (size_t)(count - i) * sizeof *y);
  }
  return any_lane(total);
}

const situ__scans SITU__ISA_NAME(situ__scans) = { .sums = running_sums };
