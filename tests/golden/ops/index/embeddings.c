/* Golden values from PyTorch 2.15: embeddings with limits of their rows' norms, and bags of embeddings.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "embedding_limited", .call = "embedding", GOLD_STEPS(3, 3), .writes = true },
  { "embedding_bag", GOLD_STEPS(3, 4), .writes = true },
  { 0 },
};

int main(void) { return gold_main("embeddings", ops, NULL); }
