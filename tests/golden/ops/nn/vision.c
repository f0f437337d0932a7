/* Golden values from PyTorch 2.15: ops for images.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "conv1d_same", .with = ".same=1", .call = "conv1d" },
  { "conv2d_same", .with = ".same=1", .call = "conv2d" },
  { "deform_conv2d", GOLD_STEPS(2, 4) },
  { "instance_norm", GOLD_STEPS(0, 4), .writes = true },
  { 0 },
};

int main(void) { return gold_main("vision", ops, NULL); }
