/* Rows of attention's scores, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/reduce/fold.h"
#include "backend/cpu/common/isa/exp.h"
#include "score_lanes.h"
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
#define TNAME f32
#define EXP(v) situ__exp_f32(v)
#include "backend/cpu/reduce/isa/fold_steps.h"

/* ---- f32: rows of whole vectors, as they take most of the time that the products leave ---- */

/* x becomes exp(x - centre); returns its sum. */
static float exp_total_f32(float *x, float centre, int64_t count) {
  vec_f32 sum = { 0 };
  for (int64_t i = 0; i < count; i += SCORE_LANES) {
    const vec_f32 y = exp_lanes(F32(load)(x + i) - F32(splat)(centre));
    memcpy(x + i, &y, sizeof y);
    sum += y;
  }
  return sum_lanes(sum);
}

#include "attention_compute.h"
#undef T
#undef TNAME
#undef EXP

#define T double
#define TNAME f64
#define EXP(v) exp(v)
#include "backend/cpu/reduce/isa/fold_steps.h"

static double top_f64(const double *x, int64_t count) { return total_f64(SITU__FOLD_TOP, x, count); }
static double exp_total_f64(double *x, double centre, int64_t count) {
  for (int64_t i = 0; i < count; i++) x[i] = EXP(x[i] - centre);
  return total_f64(SITU__FOLD_SUM, x, count);
}

#include "attention_compute.h"
#undef T
#undef TNAME

#define KERNELS(t)                                                                                        \
  {                                                                                                       \
    .soften = soften_##t, .finish = finish_##t, .weigh = weigh_##t, .slope = slope_##t, .mask = mask_##t, \
    .drop = drop_##t, .scaled = scaled_##t, .dots = dots_##t                                              \
  }
const situ__attention_kernels SITU__ISA_NAME(situ__attention_kernels) = {
  .by_compute = { [SITU__F32] = KERNELS(f32), [SITU__F64] = KERNELS(f64) }
};
