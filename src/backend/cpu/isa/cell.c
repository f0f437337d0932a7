/* Loops over recurrent cells. Compiled once for each instruction set.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/cell.h"
#include "backend/cpu/isa/loops.h"
#include "kernels/dialect.h"

#define T double
#define TNAME f64
#include "backend/cpu/isa/cell_lane.h"

#if defined(__FMA__) || defined(__FP_FAST_FMAF)
#define OF_F32(name) ALWAYS_INLINE float name##_of(float x)
#define as_float(bits) F32_BITS((U32)(bits))
#define as_int(x) (int)BITS_F32(x)
#undef exp
#undef expm1
#undef log
#undef log1p
#undef tanh
#undef erf
#include "kernels/branchless.h"
/* Of logistic functions: a power of less than 2^-126 counts as that. */
#undef EXP_BELOW
#define EXP_BELOW(x) exp_near((x) < -87 ? -87 : (x))
#endif

#define T float
#define TNAME f32
#include "backend/cpu/isa/cell_lane.h"

const situ__cells
    SITU__ISA_NAME(situ__cells) = { { { lstm_loop_f32, lstm_grad_loop_f32, gru_loop_f32, gru_grad_loop_f32 },
                                      { lstm_loop_f64, lstm_grad_loop_f64, gru_loop_f64, gru_grad_loop_f64 } } };
