/* Rows of quantised blocks on the CPU, compiled for each instruction set (isa/blocks.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_BLOCKS_H
#define SITU_BACKEND_CPU_BLOCKS_H

#include "base/block.h"
#include "isa.h"

enum { SITU__BLOCK_GROUP = 32 }; /* numbers whose sum of x is known to dot */

typedef struct situ__block_kernels {
  /* The values of `count` blocks. */
  void (*values[SITU_BLOCK_TYPES])(const unsigned char *blocks, int64_t count, float *y);
  /* Product of the values of `count` blocks with x; sums: of each 32 elements of x. */
  float (*dot[SITU_BLOCK_TYPES])(const unsigned char *blocks, int64_t count, const float *x, const float *sums);
  /* Arranges x, of `count` blocks, as dot takes it; NULL: as it is. The sums are those of x as it was. */
  void (*arrange[SITU_BLOCK_TYPES])(const float *x, int64_t count, float *y);
  /* y[i] = sum of x[32 i .. 32 i + 31] */
  void (*sums)(const float *x, int64_t count, float *y);
} situ__block_kernels;
SITU__ISA_DECLARE(situ__block_kernels, situ__block_kernels);

static inline const situ__block_kernels *situ__block_kernels_best(void) {
  return SITU__ISA_PICK(situ__cpu_isa(), situ__block_kernels);
}

#endif
