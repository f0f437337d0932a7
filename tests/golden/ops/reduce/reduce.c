/* Golden values: reductions, scans and sorting.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "prod", GOLD_STEPS(0, 3) },
  { "var", GOLD_STEPS(0, 3) },
  { "std", GOLD_STEPS(0, 4) },
  { "norm", GOLD_STEPS(0, 5) },
  { 0 },
};

static const gold_exception exceptions[] = {
  { "norm", "f16/9", .why = "f16 and p = -2: |x|^(p - 2) overflows on the way, as in torch's formula" },
  { "all", .dtype = SITU_U8, .why = "bool for u8 too: torch's u8 is from before it had bool" },
  { "any", .dtype = SITU_U8, .why = "bool for u8 too: torch's u8 is from before it had bool" },
  { 0 },
};

int main(void) { return gold_main("reduce", ops, exceptions); }
