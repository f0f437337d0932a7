/* Rows of attention's scores, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/attention.h"
#include "backend/cpu/fold.h"
#include "backend/cpu/isa/exp.h"
#include "backend/cpu/isa/simd.h"
#include "kernels/dialect.h"
#include "kernels/random.h"
#include "kernels/vector_math.h"

#include <string.h>

#undef WIDE /* of a tile; here of fold_steps.h */
#define WIDE 64
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define IS_NAN(v) ((v) != (v))

#define T float
#define LANE(name) name##_f32
#define EXP(v) situ__exp_f32(v)
#include "backend/cpu/isa/fold_steps.h"

/* ---- f32: rows of whole vectors, as they take most of the time that the products leave ---- */

enum { LANES = VECTOR / (int)sizeof(float) };
typedef uint32_t bits_f32 __attribute__((vector_size(VECTOR)));

ALWAYS_INLINE vec_f32 pick_lanes(picks_f32 which, vec_f32 a, vec_f32 b) {
  return (vec_f32)((which & (picks_f32)a) | (~which & (picks_f32)b));
}
ALWAYS_INLINE vec_f32 larger_lanes(vec_f32 a, vec_f32 b) { return pick_lanes(b > a, b, a); }

ALWAYS_INLINE float fold_lanes(situ__fold f, vec_f32 v) {
#if defined(__AVX512F__)
  return f == SITU__FOLD_TOP ? _mm512_reduce_max_ps((__m512)v) : _mm512_reduce_add_ps((__m512)v);
#else
  float sum = v[0];
  for (int i = 1; i < LANES; i++) sum = step_f32(f, sum, v[i]);
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
static float top_f32(const float *x, int64_t count) {
  vec_f32 top[4];
  int64_t i = 0;
  for (int k = 0; k < 4; k++) top[k] = F32(load)(x);
  for (; i + 4 * LANES <= count; i += 4 * LANES)
    UNROLL for (int k = 0; k < 4; k++) top[k] = larger_lanes(top[k], F32(load)(x + i + k * LANES));
  for (; i < count; i += LANES) top[0] = larger_lanes(top[0], F32(load)(x + i));
  return fold_lanes(SITU__FOLD_TOP, larger_lanes(larger_lanes(top[0], top[1]), larger_lanes(top[2], top[3])));
}

/* x becomes exp(x - centre); returns its sum. */
static float exp_total_f32(float *x, float centre, int64_t count) {
  vec_f32 sum = { 0 };
  for (int64_t i = 0; i < count; i += LANES) {
    const vec_f32 y = exp_lanes(F32(load)(x + i) - F32(splat)(centre));
    memcpy(x + i, &y, sizeof y);
    sum += y;
  }
  return fold_lanes(SITU__FOLD_SUM, sum);
}

#include "backend/cpu/isa/attention_lane.h"
#undef T
#undef LANE
#undef EXP

#define T double
#define LANE(name) name##_f64
#define EXP(v) exp(v)
#include "backend/cpu/isa/fold_steps.h"

static double top_f64(const double *x, int64_t count) { return total_f64(SITU__FOLD_TOP, x, count); }
static double exp_total_f64(double *x, double centre, int64_t count) {
  for (int64_t i = 0; i < count; i++) x[i] = EXP(x[i] - centre);
  return total_f64(SITU__FOLD_SUM, x, count);
}

#include "backend/cpu/isa/attention_lane.h"
#undef T
#undef LANE

#define KERNELS(t)                                                                                        \
  {                                                                                                       \
    .soften = soften_##t, .finish = finish_##t, .weigh = weigh_##t, .slope = slope_##t, .mask = mask_##t, \
    .drop = drop_##t, .scaled = scaled_##t, .dots = dots_##t                                              \
  }
const situ__attention_lanes
    SITU__ISA_NAME(situ__attention_lanes) = { .lane = { [SITU__F32] = KERNELS(f32), [SITU__F64] = KERNELS(f64) } };
