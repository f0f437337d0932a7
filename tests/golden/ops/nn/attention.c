/* Golden values from PyTorch 2.15: attention, also with heads that share a key.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "attention", .call = "scaled_dot_product_attention", GOLD_STEPS(4, 32) },
  { 0 },
};

int main(void) { return gold_main("attention", ops, NULL); }
