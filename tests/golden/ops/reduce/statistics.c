/* Golden values from PyTorch 2.15: searching, counting, ranks and statistics.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "*quantile", GOLD_STEPS(3, 3) },
  { "nanmean", GOLD_STEPS(2, 2) },
  { "var_mean", GOLD_STEPS(0, 3) },
  { "std_mean", GOLD_STEPS(0, 4) },
  { "cdist", GOLD_STEPS(2, 5) },
  { "renorm", GOLD_STEPS(3, 6) },
  { 0 },
};

#define NO_VALUES "the size depends on values, and meta has none"
static const gold_exception exceptions[] = {
  { "unique", .device = "meta", .why = NO_VALUES },
  { "unique_consecutive", .device = "meta", .why = NO_VALUES },
  { "bincount", .device = "meta", .why = NO_VALUES },
  { "histc", .device = "meta", .where = "max", .is = 0, .why = "the range depends on values, and meta has none" },
  { 0 },
};

int main(void) { return gold_main("statistics", ops, exceptions); }
