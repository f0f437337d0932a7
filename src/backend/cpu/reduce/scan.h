/* Running sums of f32: kernels compiled for each instruction set.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_SCAN_H
#define SITU_BACKEND_CPU_SCAN_H

#include "backend/cpu/common/isa.h"

typedef struct situ__scans {
  /* Writes total + x[0], total + x[0] + x[1], ... to y, which may be x. In f64. Returns the last one. */
  double (*sums)(const float *x, float *y, int64_t count, double total);
} situ__scans;
SITU__ISA_DECLARE(situ__scans, situ__scans);

#endif
