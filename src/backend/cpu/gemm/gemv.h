/* Products of few rows with a factor of 16 bits, which is read once, as it is.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_GEMV_H
#define SITU_BACKEND_CPU_GEMV_H

#include "backend/cpu/common/isa.h"

/* c [m, n] = a [m, k] b [k, n]: a is contiguous; lane and step are b's strides along n and k, one of which is 1. */
enum { SITU__GEMV_ROWS = 4 };
typedef struct situ__gemv {
  int64_t m, n, k; /* m is at most GEMV_ROWS, k at least 1 */
  const void *a;   /* f32; for situ__gemv_dots bf16 */
  const uint16_t *b;
  int64_t lane, step;
  float *c;
  int64_t c_row;
} situ__gemv;

typedef struct situ__gemv_kernels {
  void (*bf16)(const situ__gemv *t);
  void (*f16)(const situ__gemv *t);
} situ__gemv_kernels;
SITU__ISA_DECLARE(situ__gemv_kernels, situ__gemv_kernels);

/* Of bf16, whose columns of b are contiguous (step is 1), by the instruction that adds two products of bf16 to an f32.
   Exists with SITU_HAVE_ISA_BF16. */
void situ__gemv_dots(const situ__gemv *t);

#endif
