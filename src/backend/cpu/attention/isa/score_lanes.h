/* Rows of attention's scores in whole vectors of f32.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_SCORE_LANES_H
#define SITU_BACKEND_CPU_ISA_SCORE_LANES_H

#include "backend/cpu/common/isa/simd.h"

enum { SCORE_LANES = VECTOR / (int)sizeof(float) };
typedef uint32_t bits_f32 __attribute__((vector_size(VECTOR)));

ALWAYS_INLINE vec_f32 pick_lanes(picks_f32 which, vec_f32 a, vec_f32 b) {
  return (vec_f32)((which & (picks_f32)a) | (~which & (picks_f32)b));
}
ALWAYS_INLINE vec_f32 larger_lanes(vec_f32 a, vec_f32 b) {
#if defined(__AVX512F__)
  return (vec_f32)_mm512_max_ps((__m512)b, (__m512)a);
#else
  return pick_lanes(b > a, b, a);
#endif
}

ALWAYS_INLINE float top_lanes(vec_f32 v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)v);
#else
  float top = v[0];
  for (int i = 1; i < SCORE_LANES; i++) top = v[i] > top ? v[i] : top;
  return top;
#endif
}
ALWAYS_INLINE float sum_lanes(vec_f32 v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  float sum = v[0];
  for (int i = 1; i < SCORE_LANES; i++) sum += v[i];
  return sum;
#endif
}

/* situ__exp_f32 of each lane. */
ALWAYS_INLINE vec_f32 exp_lanes(vec_f32 x) {
  const vec_f32 magic = F32(splat)(0x1.8p23f), shifted = F32(fma_vec)(x, F32(splat)(0x1.715476p+0f), magic),
                n = shifted - magic;
  const vec_f32 r = F32(fma_vec)(n, F32(splat)(-0x1.7f7d1cp-20f), F32(fma_vec)(n, F32(splat)(-0x1.62e4p-1f), x));
  vec_f32 p = F32(fma_vec)(F32(splat)(0x1.6850e4p-10f), r, F32(splat)(0x1.123bccp-7f));
  p = F32(fma_vec)(p, r, F32(splat)(0x1.555b98p-5f));
  p = F32(fma_vec)(p, r, F32(splat)(0x1.55548ep-3f));
  p = F32(fma_vec)(p, r, F32(splat)(0x1.fffff8p-2f));
  const vec_f32 y = F32(fma_vec)(p, r * r, r) + 1.0f;
#if defined(__AVX512F__)
  const __mmask16 kept = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
  return (vec_f32)_mm512_maskz_scalef_ps(kept, (__m512)y, (__m512)n); /* infinity and NaN come out by themselves */
#else
  const bits_f32 bits = (bits_f32)y + ((bits_f32)shifted << 23);
  const vec_f32 value = (vec_f32)(bits & ~(bits_f32)(x < F32(splat)(-87.0f)));
  return pick_lanes(x <= F32(splat)(0x1.62e42ep+6f), value, x + __builtin_inff());
#endif
}

/* The largest of a row; a NaN may be missed. */
ALWAYS_INLINE float top_f32(const float *x, int64_t count) {
  vec_f32 top[4];
  int64_t i = 0;
  for (int k = 0; k < 4; k++) top[k] = F32(load)(x);
  for (; i + 4 * SCORE_LANES <= count; i += 4 * SCORE_LANES)
    UNROLL for (int k = 0; k < 4; k++) top[k] = larger_lanes(top[k], F32(load)(x + i + k * SCORE_LANES));
  for (; i < count; i += SCORE_LANES) top[0] = larger_lanes(top[0], F32(load)(x + i));
  return top_lanes(larger_lanes(larger_lanes(top[0], top[1]), larger_lanes(top[2], top[3])));
}

#endif
