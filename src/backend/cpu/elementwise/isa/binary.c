/* Rows of functions of two and of three tensors. Compiled once for each instruction set.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/common/isa/loops.h"
#include "kernels/dialect.h"
#include "kernels/integer.h"

/* WIDTH: elements of the widest vector, a multiple of all others. */
#define FLOATING
#define T double
#define TNAME f64
#define WIDTH 8
#include "binary_compute.h"

/* As in unary.c. */
#if defined(SITU__FUSED) && !defined(SITU__VECTOR_LIBRARY)
#include "backend/cpu/common/isa/branchless.h"
#endif

#define FLOATING
#define T float
#define TNAME f32
#define WIDTH 16
#include "binary_compute.h"

#define T int64_t
#define TNAME i64
#include "binary_compute.h"

const situ__binary_rows SITU__ISA_NAME(situ__binary_rows) = {
  .row = { binaries_f32, binaries_f64, binaries_i64 },
};

const situ__ternary_rows SITU__ISA_NAME(situ__ternary_rows) = {
  .row = { ternaries_f32, ternaries_f64, ternaries_i64 },
};
