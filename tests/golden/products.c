/* Golden values from PyTorch 2.15: products and running sums that are made of other ops.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static int dim(const gold_call *c, int64_t otherwise) { return (int)gold_int(c, "dim", otherwise); }

typedef situ_tensor *(*sum)(situ_tensor *, situ_tensor *, situ_tensor *, const situ_addmm_options *);
static void added(gold_call *c, sum f) {
  const double beta = gold_real(c, "beta", 1), alpha = gold_real(c, "alpha", 1);
  c->out[0] = f(c->in[0], c->in[1], c->in[2], OPTIONS_AT(situ_addmm, with.beta = beta, with.alpha = alpha));
}
static void addr(gold_call *c) { added(c, situ_addr); }
static void addmv(gold_call *c) { added(c, situ_addmv); }
static void addbmm(gold_call *c) { added(c, situ_addbmm); }

static void linalg_cross(gold_call *c) { c->out[0] = situ_linalg_cross(c->in[0], c->in[1], dim(c, -1)); }
static void linalg_vecdot(gold_call *c) { c->out[0] = situ_linalg_vecdot(c->in[0], c->in[1], dim(c, -1)); }
static void linalg_vector_norm(gold_call *c) {
  const situ_reduce_options o = { gold_list(c, "dim"), gold_bool(c, "keepdim", false), gold_dtype(c, "dtype") };
  c->out[0] = situ_linalg_vector_norm(c->in[0], gold_real(c, "ord", 2), &o);
}

static void logcumsumexp(gold_call *c) { c->out[0] = situ_logcumsumexp(c->in[0], dim(c, 0)); }
#define AREA c->in[0], gold_in(c, "x"), gold_real(c, "dx", 1), dim(c, -1)
static void trapezoid(gold_call *c) { c->out[0] = situ_trapezoid(AREA); }
static void cumulative_trapezoid(gold_call *c) { c->out[0] = situ_cumulative_trapezoid(AREA); }
static void cartesian_prod(gold_call *c) {
  situ_tensor *parts[GOLD_MAX_INPUTS + 1];
  int count = gold_tensors(c, "tensors", parts);
  c->out[0] = situ_cartesian_prod(parts, count);
}

#define RUN(id, results, gradients) \
  { #id, .run = id, .steps = results, .grad_steps = gradients, .why = GOLD_ROUNDS }
static const gold_op ops[] = {
  RUN(addr, 2, 2),
  RUN(addmv, 3, 3),
  RUN(addbmm, 6, 3),
  { "inner", .two = situ_inner, .steps = 1, .grad_steps = 1, .why = GOLD_ROUNDS },
  RUN(linalg_cross, 2, 2),
  RUN(linalg_vecdot, 3, 1),
  RUN(linalg_vector_norm, 1, 3),
  RUN(logcumsumexp, 4, 4),
  RUN(trapezoid, 4, 4),
  RUN(cumulative_trapezoid, 6, 6),
  RUN(cartesian_prod, 0, 2),
  { 0 },
};

int main(void) { return gold_main("products", ops, NULL); }
