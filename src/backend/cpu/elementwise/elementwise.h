/* Element-wise work: rows of formulas compiled for every instruction set, and the driver that applies them to any
   views.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ELEMENTWISE_H
#define SITU_BACKEND_CPU_ELEMENTWISE_H

#include "backend/cpu/common/isa.h"
#include "backend/cpu/common/loop.h"

/* y[i] = f(x[0][i], x[1][i], ...) for i < n, all contiguous, in the compute type; y may be one of x. Bit k of splat:
   x[k] is one value for the whole row (rows of two operands only, and only one of them). p: the parameters, in the
   compute type. */
typedef void (*situ__row)(void *y, const void *const *x, uint32_t splat, int64_t n, const void *p);

/* Tables by compute type and op code; NULL where the type lacks that formula. row_16: rows of f32 that cost less, for
   results of 16 bits; NULL where there is none besides row's. They are in isa/. */
typedef struct situ__unary_rows {
  const situ__row *row[3], *row_16, *grad[3];
} situ__unary_rows;
typedef struct situ__binary_rows {
  const situ__row *row[3];
} situ__binary_rows;
typedef struct situ__ternary_rows {
  const situ__row *row[3];
} situ__ternary_rows;
/* By op code, rows for operands and results of f16 alone, and of bf16 alone; NULL where blocks of f32 are as fast. */
typedef struct situ__half_rows {
  const situ__row (*binary)[2], (*unary)[2];
} situ__half_rows;
SITU__ISA_DECLARE(situ__half_rows, situ__half_rows);
SITU__ISA_DECLARE(situ__unary_rows, situ__unary_rows);
SITU__ISA_DECLARE(situ__binary_rows, situ__binary_rows);
SITU__ISA_DECLARE(situ__ternary_rows, situ__ternary_rows);

/* One element-wise call. view[0] is y, the others are x; native[k] is the dtype that the row can use in place; bool:
   the row can use no other dtype. */
typedef struct situ__row_call {
  situ__row row, half; /* half: the same for operands of `compute` alone, if that is f16 or bf16; or NULL */
  situ__compute type;
  uint8_t compute; /* the dtype that operands are rounded to first */
  uint8_t ins;
  bool takes_splat;
  uint8_t native[4];
  const situ_view_desc *view[4];
  const double *p; /* four parameters, or NULL */
} situ__row_call;

/* The dtype that a row can use in place when it computes in `compute`: itself if it is a compute type, else none. */
static inline uint8_t situ__cpu_native(situ_dtype compute) {
  bool direct = compute == SITU_F32 || compute == SITU_F64 || compute == SITU_I64;
  return direct ? (uint8_t)compute : SITU_DTYPE_DEFAULT;
}

/* Whether a row uses all of v as it is, in one call for n elements. */
static inline bool situ__in_place(const situ_view_desc *v, uint8_t native, int64_t n) {
  return n <= SITU__GRAIN && v->numel == n && v->dtype == native && v->contiguous;
}

/* Runs the call, on the thread pool if it is large. Fails only if memory for a copy of an operand cannot be
   allocated. */
situ_status situ__cpu_elementwise(const situ__row_call *call);

#endif
