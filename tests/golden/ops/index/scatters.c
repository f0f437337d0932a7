/* Golden values from PyTorch 2.15: reductions by index, and parts and elements written into a copy.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "scatter_reduce*", GOLD_STEPS(4, 6) },
  { "index_reduce*", GOLD_STEPS(4, 6) },
  { 0 },
};

static const gold_exception exceptions[] = {
  { "masked_scatter", "pick/empty", .device = "meta", .why = "asks for values, and meta has none" },
  { "masked_scatter_", "pick/empty", .device = "meta", .why = "asks for values, and meta has none" },
  { 0 },
};

int main(void) { return gold_main("scatters", ops, exceptions); }
