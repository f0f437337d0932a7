/* Loops over the optimisers' rules. Compiled once for each instruction set, with the same bits in all.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cpu/common/isa/loops.h"
#include "backend/cpu/elementwise/optimizer.h"
#include "kernels/dialect.h"

#define T float
#define TNAME f32
#include "optimizer_compute.h"

#define T double
#define TNAME f64
#include "optimizer_compute.h"

const situ__rules SITU__ISA_NAME(situ__rules) = { { prepare_f32, prepare_f64 } };
