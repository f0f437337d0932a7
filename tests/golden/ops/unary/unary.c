/* Golden values: element-wise functions of one tensor.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <math.h>

#include "support/golden/run.h"

#define AT_A_BOUND "the gradient at a bound is 0, as in torch 2.15; it was 1 in 1.13"
#define TURNED "min above max is refused, as in torch 2.15; 1.13 gave max"
static const gold_exception exceptions[] = {
  { "clamp", "pick/special", .where = "min", .is = -0.5, .values = true, .why = AT_A_BOUND },
  { "clamp", "pick/special", .where = "max", .is = INFINITY, .values = true, .why = AT_A_BOUND },
  { "clamp", "pick/edge", .values = true, .why = AT_A_BOUND },
  { "clamp_", "pick/special", .where = "min", .is = -0.5, .values = true, .why = AT_A_BOUND },
  { "clamp_", "pick/special", .where = "max", .is = INFINITY, .values = true, .why = AT_A_BOUND },
  { "clamp_", "pick/edge", .values = true, .why = AT_A_BOUND },
  { "hardtanh", .where = "min_val", .is = 0.5, .why = TURNED },
  { 0 },
};

int main(void) { return gold_main("unary", NULL, exceptions); }
