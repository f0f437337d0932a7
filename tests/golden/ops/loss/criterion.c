/* Golden values from PyTorch 2.15: losses and distances that consist of other ops.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = { { "*", GOLD_STEPS(4, 6) }, { 0 } };

static const gold_exception exceptions[] = {
  { .op = "normalize",
    .variant = "f16/2",
    .dtype = SITU_F16,
    .values = true,
    .why = "p = 0.5: the two parts of the gradient cancel, and each is rounded to 16 bits" },
  { 0 },
};

int main(void) { return gold_main("criterion", ops, exceptions); }
