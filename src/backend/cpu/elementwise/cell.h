/* Recurrent cells, compiled for every instruction set (isa/cell.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CELL_H
#define SITU_BACKEND_CPU_CELL_H

#include "backend/cpu/common/isa.h"

/* n elements of each part of the operands and of the results, in the compute type: in[0..3] are i, f, g and o, and so
   on. n is a multiple of CELL_WIDTH, so that an element's value does not depend on its position. */
enum { SITU__CELL_WIDTH = 16, SITU__CELL_PARTS = 9 };
typedef void (*situ__cell_fn)(int64_t n, void *const *in, void *const *out);
typedef struct situ__cells {
  situ__cell_fn run[2][SITU_CELLS]; /* f32, f64 */
} situ__cells;

SITU__ISA_DECLARE(situ__cells, situ__cells);

#endif
