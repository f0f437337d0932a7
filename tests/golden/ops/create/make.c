/* Golden values: factories.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

/* One number is the end. */
static void arange(gold_call *c) {
  (void)gold_invoke(c, "arange", gold_has(c, "end") ? "step=1" : "start:none start=0 end:start step=1");
}
static void randint_like(gold_call *c) {
  (void)gold_invoke(c, "randint_like", gold_has(c, "high") ? NULL : "low:none low=0 high:low");
}

static const gold_op ops[] = {
  { "arange", .run = arange },
  { "randint_like", .run = randint_like },
  { 0 },
};

int main(void) { return gold_main("make", ops, NULL); }
