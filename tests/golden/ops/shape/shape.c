/* Golden values: shapes, views, copies and conversions.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

/* One argument of torch's is two here. */
static void split(gold_call *c) {
  const bool sizes = gold_find(c->c, "split_size_or_sections")->kind == 'l';
  (void)gold_invoke(c, sizes ? "split_sizes" : "split",
                    "split_size:split_size_or_sections split_sizes:split_size_or_sections dim=0");
}

static const gold_op ops[] = {
  { "split", .run = split },
  { "repeat", GOLD_STEPS(0, 2) },
  { "pad", GOLD_STEPS(0, 3) },
  { "to", .call = "to_dtype" },
  { 0 },
};

int main(void) { return gold_main("shape", ops, NULL); }
