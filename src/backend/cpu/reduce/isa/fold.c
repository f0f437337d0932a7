/* Reductions of blocks, compiled for each instruction set: f32, f64 and i64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/reduce/fold.h"
#include "backend/cpu/common/isa/exp.h"
#include "backend/cpu/common/isa/simd.h"
#include "backend/cpu/common/isa/widen.h"
#include "kernels/half.h"
#include "kernels/vector_math.h"

#include <stdlib.h>
#include <string.h>

#undef WIDE     /* of a tile; here of fold_steps.h */
#define WIDE 64 /* independent partial results */

/* Integers wrap, as in torch, which unsigned arithmetic makes well-defined. */
#define T int64_t
#define FN(name) name##_i64
#define PLUS(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define TIMES(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define MAGNITUDE(v) llabs(v)
#define POWER(v, p) ((void)(p), (v)) /* only norms use it, and they compute in floating types */
#define IS_NAN(v) 0
#include "fold_steps.h"
#include "fold_compute.h"
#undef T
#undef FN
#undef PLUS
#undef TIMES
#undef MAGNITUDE
#undef POWER
#undef IS_NAN

#define FLOATING
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define MAGNITUDE(v) fabs(v)
#define POWER(v, p) pow(v, p)
#define IS_NAN(v) ((v) != (v))
#define T float
#define FN(name) name##_f32
#define EXP(v) situ__exp_f32(v)
#include "fold_steps.h"
#include "fold_compute.h"

#if defined(__AVX2__) && defined(__F16C__)
/* run_f32 with a conversion: as there, 16 rows of WIDE numbers are added up before they join the sum. */
ALWAYS_INLINE float run_16(bool bf16, const uint16_t *x, int64_t count) {
  enum { LANES = VECTOR / 4, VECTORS = WIDE / LANES };
  _Static_assert(SITU__FOLD_RUN == 2 * WIDE, "the least run that run_f32 sums so");
  float sum[WIDE];
  vec_f32 all[VECTORS] = { 0 };
  const int64_t rows = count / WIDE;
  for (int64_t r = 0; r < rows; r += 16) {
    vec_f32 part[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) part[v] = number_16(bf16, x + r * WIDE + v * LANES);
    for (int64_t i = r + 1; i < r + 16 && i < rows; i++)
      UNROLL for (int v = 0; v < VECTORS; v++) part[v] += number_16(bf16, x + i * WIDE + v * LANES);
    UNROLL for (int v = 0; v < VECTORS; v++) all[v] = r ? all[v] + part[v] : part[v];
  }
  memcpy(sum, all, sizeof sum);
  const int64_t left = count - rows * WIDE;
  for (int64_t j = 0; j < left; j++) {
    const uint16_t bits = x[rows * WIDE + j];
    sum[j] += bf16 ? situ__bf16_to_f32(bits) : situ__f16_to_f32(bits);
  }
  return run_f32(SITU__FOLD_SUM, sum, WIDE);
}
static float sum_16(bool bf16, const uint16_t *x, int64_t count) {
  return bf16 ? run_16(true, x, count) : run_16(false, x, count);
}
#define SUM_16 sum_16
#else
#define SUM_16 NULL
#endif
#undef T
#undef FN
#undef EXP

#define T double
#define FN(name) name##_f64
#define EXP(v) exp(v)
#include "fold_steps.h"
#include "fold_compute.h"

const situ__folds SITU__ISA_NAME(situ__folds) = { .by_compute = {
                                                      [SITU__F32] = { .fold = fold_f32,
                                                                      .sum_16 = SUM_16,
                                                                      .merge = merge_f32,
                                                                      .find = find_f32,
                                                                      .arg_columns = arg_columns_f32 },
                                                      [SITU__F64] = { .fold = fold_f64,
                                                                      .merge = merge_f64,
                                                                      .find = find_f64,
                                                                      .arg_columns = arg_columns_f64 },
                                                      [SITU__I64] = { .fold = fold_i64,
                                                                      .merge = merge_i64,
                                                                      .find = find_i64,
                                                                      .arg_columns = arg_columns_i64 },
                                                  } };
