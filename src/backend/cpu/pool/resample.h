/* Resampling with tables of weights; the tables are made once for all lines.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_RESAMPLE_H
#define SITU_BACKEND_CPU_RESAMPLE_H

#include "backend/cpu/common/cpu.h"

/* Place o of a result is the sum of count[o] places of the operand from first[o] on, times the weights from
   weight[start[o]] on, which have the operand's dtype. */
typedef struct situ__bands {
  int64_t places, most; /* places of the result, largest count */
  int64_t *first, *count, *start;
  void *weight;
} situ__bands;

typedef struct situ__resample_kernels {
  /* One place of `inner` adjacent lines: x is the operand's place 0, y the result's place o. */
  void (*beside)(const situ__bands *b, int64_t o, int64_t inner, const void *x, void *y);
  /* A whole line of adjacent places. */
  void (*along)(const situ__bands *b, const void *x, void *y);
} situ__resample_kernels;

#endif
