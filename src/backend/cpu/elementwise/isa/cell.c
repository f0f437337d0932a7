/* Loops over recurrent cells. Compiled once for each instruction set.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/elementwise/cell.h"
#include "backend/cpu/common/isa/loops.h"
#include "kernels/dialect.h"

#define T double
#define TNAME f64
#include "cell_compute.h"

#ifdef SITU__FUSED
#include "backend/cpu/common/isa/branchless.h"
/* Of logistic functions: a power of less than 2^-126 counts as that. */
#undef EXP_BELOW
#define EXP_BELOW(x) exp_near((x) < -87 ? -87 : (x))
#endif

#define T float
#define TNAME f32
#include "cell_compute.h"

const situ__cells
    SITU__ISA_NAME(situ__cells) = { { { lstm_loop_f32, lstm_grad_loop_f32, gru_loop_f32, gru_grad_loop_f32 },
                                      { lstm_loop_f64, lstm_grad_loop_f64, gru_loop_f64, gru_grad_loop_f64 } } };
