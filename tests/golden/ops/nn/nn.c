/* Golden values: convolutions, pools, norms, softmax, dropout, attention.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "batch_norm", GOLD_STEPS(0, 4), .writes = true },
  { "layer_norm", GOLD_STEPS(2, 4) },
  { "group_norm", GOLD_STEPS(2, 4) },
  { "rms_norm", GOLD_STEPS(2, 4) },
  { "scaled_dot_product_attention", GOLD_STEPS(4, 32) },
  { 0 },
};

int main(void) { return gold_main("nn", ops, NULL); }
