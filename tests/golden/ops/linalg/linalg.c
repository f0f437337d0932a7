/* Golden values: matrix products.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { .name = "mm" }, { .name = "mv" }, { .name = "dot" }, { "*", GOLD_STEPS(0, 2) }, { 0 },
};

int main(void) { return gold_main("linalg", ops, NULL); }
