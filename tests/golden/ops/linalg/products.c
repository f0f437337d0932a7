/* Golden values from PyTorch 2.15: products and running sums that are made of other ops.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "addr", GOLD_STEPS(2, 2) },
  { "addmv", GOLD_STEPS(3, 3) },
  { "addbmm", GOLD_STEPS(6, 3) },
  { "inner", GOLD_STEPS(1, 1) },
  { "linalg_cross", GOLD_STEPS(2, 2) },
  { "linalg_vecdot", GOLD_STEPS(3, 1) },
  { "linalg_vector_norm", GOLD_STEPS(1, 3) },
  { "logcumsumexp", GOLD_STEPS(4, 4) },
  { "trapezoid", GOLD_STEPS(4, 4) },
  { "cumulative_trapezoid", GOLD_STEPS(6, 6) },
  { "cartesian_prod", GOLD_STEPS(0, 2) },
  { 0 },
};

int main(void) { return gold_main("products", ops, NULL); }
