/* Golden values from PyTorch 2.15: elementary functions of two tensors.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "atan2*", GOLD_STEPS(0, 3) },
  { "hypot*", GOLD_STEPS(0, 3) },
  { "copysign*", GOLD_STEPS(0, 3) },
  { "xlogy*", GOLD_STEPS(0, 3) },
  { "special_xlog1py", GOLD_STEPS(0, 3) },
  { "logaddexp*", GOLD_STEPS(0, 3) },
  { 0 },
};

int main(void) { return gold_main("pairs", ops, NULL); }
