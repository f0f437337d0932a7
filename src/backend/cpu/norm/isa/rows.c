/* Softmax, norms and their gradients, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/norm/rows.h"
#include "backend/cpu/common/isa/exp.h"
#include "kernels/vector_math.h"

#include <string.h>

#define WIDE 64
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define IS_NAN(v) ((v) != (v))

#define T float
#define FN(name) name##_f32
#define EXP(v) situ__exp_f32(v)
#include "backend/cpu/reduce/isa/fold_steps.h"
#include "rows_compute.h"
#undef T
#undef FN
#undef EXP

#define T double
#define FN(name) name##_f64
#define EXP(v) exp(v)
#include "backend/cpu/reduce/isa/fold_steps.h"
#include "rows_compute.h"
#undef T
#undef FN

#define KERNELS(t)                                                                                       \
  {                                                                                                      \
    .softmax = softmax_##t, .softmax_columns = softmax_columns_##t, .softmax_grad = softmax_grad_##t,    \
    .softmax_grad_columns = softmax_grad_columns_##t, .norm = norm_##t, .norm_grad = norm_grad_##t,      \
    .affine = affine_##t, .affine_grad = affine_grad_##t, .sums = sums_##t, .exp_affine = exp_affine_##t \
  }
const situ__rows SITU__ISA_NAME(situ__rows) = { .by_compute = {
                                                    [SITU__F32] = KERNELS(f32), [SITU__F64] = KERNELS(f64) } };
