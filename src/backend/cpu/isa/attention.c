/* Rows of attention's scores, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/attention.h"
#include "backend/cpu/fold.h"
#include "backend/cpu/isa/exp.h"
#include "kernels/dialect.h"
#include "kernels/random.h"
#include "kernels/vector_math.h"

#include <string.h>

#define WIDE 64
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define IS_NAN(v) ((v) != (v))

#define T float
#define LANE(name) name##_f32
#define EXP(v) situ__exp_f32(v)
#include "backend/cpu/isa/fold_steps.h"
#include "backend/cpu/isa/attention_lane.h"
#undef T
#undef LANE
#undef EXP

#define T double
#define LANE(name) name##_f64
#define EXP(v) exp(v)
#include "backend/cpu/isa/fold_steps.h"
#include "backend/cpu/isa/attention_lane.h"
#undef T
#undef LANE

#define KERNELS(t)                                                                                        \
  {                                                                                                       \
    .soften = soften_##t, .finish = finish_##t, .weigh = weigh_##t, .slope = slope_##t, .mask = mask_##t, \
    .drop = drop_##t, .dots = dots_##t                                                                    \
  }
const situ__attention_lanes
    SITU__ISA_NAME(situ__attention_lanes) = { .lane = { [SITU__F32] = KERNELS(f32), [SITU__F64] = KERNELS(f64) } };
