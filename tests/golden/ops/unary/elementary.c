/* Golden values from PyTorch 2.15: activations and elementary functions beyond those of unary.c and binary.c.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static const gold_op ops[] = {
  { "selu_", .grad_steps = 2, .why = "torch's backward reads the rounded result" },
  { "celu_", .grad_steps = 2, .why = "as selu_" },
  { "softsign", .grad_steps = 3, .why = "torch rounds |x| and 1 + |x| too" },
  { "glu", GOLD_STEPS(2, 3) },
  { "prelu", GOLD_STEPS(0, 3) },
  { "ldexp", GOLD_STEPS(2, 3) },
  { 0 },
};

static const gold_exception exceptions[] = {
  { "digamma", "f32/0", .values = true, .why = "torch's gradient near a pole multiplies by pi before it reduces" },
  { "polygamma", "polygamma_n_0/i8/5", .values = true, .why = "torch's value at a pole is that of a rounded pi" },
  { "polygamma", "polygamma_n_0/i16/5", .values = true, .why = "torch's value at a pole is that of a rounded pi" },
  { "sinc", "pick/edge", .dtype = SITU_F32, .values = true,
    .why = "torch's gradient near 0 is a difference of terms that cancel" },
  { 0 },
};

int main(void) { return gold_main("elementary", ops, exceptions); }
