/* Golden values: scans.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "cumprod", GOLD_STEPS(0, 3) },
  { 0 },
};

static const gold_exception exceptions[] = {
  { "cumprod", "pick/special", .values = true, .why = "torch divides by an element that is NaN, situ by none" },
  { 0 },
};

int main(void) { return gold_main("scan", ops, exceptions); }
