/* Golden values: element-wise functions of two and three tensors.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

/* There is no situ_sub_alpha_: a - alpha b is a + (-alpha) b. */
static void sub_(gold_call *c) {
  if (!gold_has(c, "alpha")) (void)gold_invoke(c, "sub_ sub_scalar_", NULL);
  else c->out[0] = situ_add_alpha_(c->in[0], gold_in(c, "other"), -gold_real(c, "alpha", 1));
}

static const gold_op ops[] = {
  { "add", .steps = 1, .why = GOLD_ROUNDS },
  { "sub", .steps = 1, .why = GOLD_ROUNDS },
  { "sub_", .run = sub_ },
  { "rsub", .call = "rsub_scalar" },
  { "mul*", GOLD_STEPS(0, 2) },
  { "div*", GOLD_STEPS(0, 4) },
  { "pow", .call = "pow pow_scalar scalar_pow", GOLD_STEPS(0, 5) },
  { "pow_", GOLD_STEPS(0, 5) },
  { "fmod", GOLD_STEPS(0, 2) },
  { "remainder", GOLD_STEPS(0, 2) },
  { "lerp*", GOLD_STEPS(0, 3) },
  { "addcmul*", GOLD_STEPS(0, 3) },
  { "addcdiv*", GOLD_STEPS(0, 4) },
  { 0 },
};

int main(void) { return gold_main("binary", ops, NULL); }
