/* Golden values: picking and placing by index.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

#define NO_VALUES "the size depends on values, and meta has none"
static const gold_exception exceptions[] = {
  { "masked_select", .device = "meta", .why = NO_VALUES },
  { "nonzero", .device = "meta", .why = NO_VALUES },
  { "one_hot", .device = "meta", .unless = "num_classes", .why = NO_VALUES },
  { 0 },
};

int main(void) { return gold_main("index", NULL, exceptions); }
