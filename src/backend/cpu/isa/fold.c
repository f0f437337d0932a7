/* Reductions of blocks, compiled for each instruction set: f32, f64 and i64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/fold.h"
#include "backend/cpu/isa/exp.h"
#include "kernels/vector_math.h"

#include <stdlib.h>
#include <string.h>

#define WIDE 64 /* independent partial results */

/* Integers wrap, as in torch, which unsigned arithmetic makes well-defined. */
#define T int64_t
#define LANE(name) name##_i64
#define PLUS(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define TIMES(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define MAGNITUDE(v) llabs(v)
#define POWER(v, p) ((void)(p), (v)) /* only norms use it, and they compute in floating types */
#define IS_NAN(v) 0
#include "backend/cpu/isa/fold_steps.h"
#include "backend/cpu/isa/fold_lane.h"
#undef T
#undef LANE
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
#define LANE(name) name##_f32
#define EXP(v) situ__exp_f32(v)
#include "backend/cpu/isa/fold_steps.h"
#include "backend/cpu/isa/fold_lane.h"
#undef T
#undef LANE
#undef EXP

#define T double
#define LANE(name) name##_f64
#define EXP(v) exp(v)
#include "backend/cpu/isa/fold_steps.h"
#include "backend/cpu/isa/fold_lane.h"

const situ__folds SITU__ISA_NAME(situ__folds) = { .lane = {
                                                      [SITU__F32] = { .fold = fold_f32,
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
