/* Rows of functions of one tensor, and of their gradients. Compiled once for each instruction set.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/common/isa/erf.h"
#include "backend/cpu/common/isa/loops.h"
#include "kernels/dialect.h"
#include "kernels/integer.h"

enum { PIECE = 64 }; /* elements of a row whose steps are done one after the other */

/* WIDTH: elements of the widest vector, a multiple of all others. */
#define FLOATING
#define T double
#define TNAME f64
#define WIDTH 8
#include "unary_compute.h"

/* Loops over the C library's functions are vectors only where it has those. */
#if defined(SITU__FUSED) && !defined(SITU__VECTOR_LIBRARY)
#include "backend/cpu/common/isa/branchless.h"
#include "backend/cpu/common/isa/sine.h"
#define OWN_SINE
#undef SIN
#undef COS
#define SIN(x) (far ? sin(x) : sin_near(x))
#define COS(x) (far ? cos(x) : cos_near(x))
#endif

#define FLOATING
#define ROWS_16
#define T float
#define TNAME f32
#define WIDTH 16
#undef erf
#undef NORMAL_POWER
#undef NORMAL_BY
#undef EXP_BELOW
#define erf(x) situ__erf_f32(x)
#define NORMAL_POWER(x) situ__normal_power_f32(x)
#define NORMAL_BY(x, e) situ__normal_by_f32(x, e)
#define EXP_BELOW(x) situ__exp_below_f32(x)
#include "unary_compute.h"

#define T int64_t
#define TNAME i64
#include "unary_compute.h"

const situ__unary_rows SITU__ISA_NAME(situ__unary_rows) = {
  .row = { rows_f32, rows_f64, rows_i64 },
  .row_16 = rows_16_f32,
  .grad = { grads_f32, grads_f64, NULL },
};
