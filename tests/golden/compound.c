/* Golden values from PyTorch 2.15: ops that are made of others.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static void multinomial(gold_call *c) {
  c->out[0] = situ_multinomial(c->in[0], gold_int(c, "num_samples", 1), gold_bool(c, "replacement", false), NULL);
}

static const gold_op ops[] = {
  { "multinomial", .run = multinomial },
  { 0 },
};

int main(void) { return gold_main("compound", ops, NULL); }
