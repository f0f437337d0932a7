/* Random blocks, compiled for every instruction set (isa/random.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_RANDOM_H
#define SITU_BACKEND_CPU_RANDOM_H

#include "backend/cpu/common/isa.h"

typedef struct situ__random_rows {
  /* `count` Philox blocks of four words each, from counter (first, offset) on. Numbers of 64 bits are two words, the
     low one first. */
  void (*words)(uint32_t *w, int64_t first, int64_t count, uint64_t seed, uint64_t offset);
  /* Each number becomes one in [low, low + range). */
  void (*integers)(uint64_t *y, int64_t count, uint64_t low, uint64_t range);
  /* Elements from `first` on of the permutation of [0, n) that (seed, offset) is the number of. At most SITU__BLOCK. */
  void (*permutation)(uint64_t *y, int64_t first, int64_t count, uint64_t n, uint64_t seed, uint64_t offset);
  /* Standard normal numbers: two from each two words. */
  void (*normal_32)(const uint32_t *w, int64_t pairs, float *y);
  void (*normal_64)(const uint64_t *w, int64_t pairs, double *y);
} situ__random_rows;

SITU__ISA_DECLARE(situ__random_rows, situ__random_rows);

#endif
