/* Rows of quantised blocks on the CPU, compiled for each instruction set (isa/blocks.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_BLOCKS_H
#define SITU_BACKEND_CPU_BLOCKS_H

#include "base/block.h"
#include "backend/cpu/common/isa.h"

enum { SITU__BLOCK_GROUP = 32 }; /* numbers whose sum of x is known to dot */

typedef struct situ__block_kernels {
  /* The values of `count` blocks. */
  void (*values[SITU_BLOCK_TYPES])(const unsigned char *blocks, int64_t count, float *y);
  /* Product of the values of `count` blocks with x, as it is or as it was arranged; sums: of each 32 elements of x. */
  float (*dot[SITU_BLOCK_TYPES])(const unsigned char *blocks, int64_t count, const void *x, const float *sums);
  /* Arranges a row of x, of `count` blocks, as dot takes it, in 64-byte aligned memory (situ__block_arranged); NULL: as
     it is. Returns false if dot cannot take it. */
  bool (*arrange[SITU_BLOCK_TYPES])(const float *x, int64_t count, void *to);
  /* y[i] = sum of x[32 i .. 32 i + 31] */
  void (*sums)(const float *x, int64_t count, float *y);
} situ__block_kernels;
SITU__ISA_DECLARE(situ__block_kernels, situ__block_kernels);

static inline const situ__block_kernels *situ__block_kernels_best(void) {
  return SITU__ISA_PICK(situ__cpu_isa(), situ__block_kernels);
}

#ifdef SITU_HAVE_ISA_BF16
extern const situ__block_kernels situ__block_kernels_digits;
#endif
/* Those that multiply x in digits, and cannot take each x; NULL: there are none. They have dot and arrange alone. */
static inline const situ__block_kernels *situ__block_kernels_in_digits(situ_block_type type) {
#ifdef SITU_HAVE_ISA_BF16
  if (situ__cpu_isa() >= SITU__ISA_BF16 && situ__block_kernels_digits.dot[type]) return &situ__block_kernels_digits;
#endif
  (void)type;
  return NULL;
}

/* Bytes of an arranged row of x: of f32, or of digits with what belongs to them, in chunks of 128 numbers. */
static inline int64_t situ__block_arranged(int64_t columns) { return (columns + 255) / 256 * 256 * 9 / 2; }

#endif
