/* Golden values: matrix products.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static void factored(gold_call *c,
                     situ_tensor *(*f)(situ_tensor *, situ_tensor *, situ_tensor *, const situ_addmm_options *)) {
  double beta = gold_real(c, "beta", 1), alpha = gold_real(c, "alpha", 1);
  const situ_addmm_options options = OPTIONS_OF(situ_addmm, with.beta = beta, with.alpha = alpha);
  c->out[0] = f(c->in[0], gold_in(c, "mat1"), gold_in(c, "mat2"), &options);
}
static void addmm(gold_call *c) { factored(c, situ_addmm); }
static void baddbmm(gold_call *c) { factored(c, situ_baddbmm); }

static void linear(gold_call *c) {
  c->out[0] = situ_linear(gold_in(c, "input"), gold_in(c, "weight"), gold_in(c, "bias"));
}

static const gold_op ops[] = {
  { "matmul", .two = situ_matmul, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "mm", .two = situ_mm },
  { "bmm", .two = situ_bmm, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "mv", .two = situ_mv },
  { "dot", .two = situ_dot },
  { "outer", .two = situ_outer, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "addmm", .run = addmm, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "baddbmm", .run = baddbmm, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "linear", .run = linear, .grad_steps = 2, .why = GOLD_ROUNDS },
  { 0 },
};

int main(void) { return gold_main("linalg", ops, NULL); }
