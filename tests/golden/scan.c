/* Golden values: scans.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static void cumprod(gold_call *c) { c->out[0] = situ_cumprod(c->in[0], (int)gold_int(c, "dim", 0)); }

static const gold_op ops[] = {
  { "cumprod", .run = cumprod, .grad_steps = 3, .why = GOLD_ROUNDS },
  { 0 },
};

static const gold_exception exceptions[] = {
  { "cumprod", "pick/special", .values = true, .why = "torch divides by an element that is NaN, situ by none" },
  { 0 },
};

int main(void) { return gold_main("scan", ops, exceptions); }
