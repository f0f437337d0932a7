/* Golden values from PyTorch 2.15: rearrangements, diagonals, joins, contractions, ranges.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "tile", GOLD_STEPS(0, 2) }, { "einsum", GOLD_STEPS(3, 3) },   { "tensordot", GOLD_STEPS(1, 1) },
  { "kron", GOLD_STEPS(0, 2) }, { "logspace", GOLD_STEPS(2, 0) }, { 0 },
};

int main(void) { return gold_main("arrange", ops, NULL); }
