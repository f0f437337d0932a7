/* Golden values: losses.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "smooth_l1_loss", GOLD_STEPS(2, 3) },
  { "cross_entropy", GOLD_STEPS(2, 3) },
  { "binary_cross_entropy_with_logits", GOLD_STEPS(4, 4) },
  { "kl_div", GOLD_STEPS(2, 3) },
  { 0 },
};

int main(void) { return gold_main("loss", ops, NULL); }
