/* Golden values: element-wise functions of one tensor.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <math.h>
#include <string.h>

#include "support/gold_run.h"

static void leaky_relu(gold_call *c) { c->out[0] = situ_leaky_relu(c->in[0], gold_real(c, "negative_slope", 0.01)); }
static void elu(gold_call *c) { c->out[0] = situ_elu(c->in[0], gold_real(c, "alpha", 1)); }

static void gelu(gold_call *c) {
  bool tanh = strcmp(gold_word(c, "approximate", "none"), "tanh") == 0;
  c->out[0] = situ_gelu(c->in[0], tanh ? SITU_GELU_TANH : SITU_GELU_NONE);
}

static void softplus(gold_call *c) {
  c->out[0] = situ_softplus(c->in[0], gold_real(c, "beta", 1), gold_real(c, "threshold", 20));
}

static void hardtanh(gold_call *c) {
  c->out[0] = situ_hardtanh(c->in[0], gold_real(c, "min_val", -1), gold_real(c, "max_val", 1));
}

static void clamp(gold_call *c) {
  c->out[0] = situ_clamp(c->in[0], gold_real(c, "min", -INFINITY), gold_real(c, "max", INFINITY));
}

static void clamp_(gold_call *c) {
  c->out[0] = situ_clamp_(c->in[0], gold_real(c, "min", -INFINITY), gold_real(c, "max", INFINITY));
}

static void nan_to_num(gold_call *c) {
  double posinf = gold_real(c, "posinf", 0), neginf = gold_real(c, "neginf", 0);
  situ_nan_to_num_options options = {
    .nan = gold_real(c, "nan", 0),
    .posinf = gold_has(c, "posinf") ? &posinf : NULL,
    .neginf = gold_has(c, "neginf") ? &neginf : NULL,
  };
  c->out[0] = situ_nan_to_num(c->in[0], &options);
}

static const gold_op ops[] = {
  { "neg", .one = situ_neg },
  { "neg_", .one = situ_neg_ },
  { "abs", .one = situ_abs },
  { "abs_", .one = situ_abs_ },
  { "exp", .one = situ_exp },
  { "exp_", .one = situ_exp_ },
  { "log", .one = situ_log },
  { "log_", .one = situ_log_ },
  { "sqrt", .one = situ_sqrt },
  { "sqrt_", .one = situ_sqrt_ },
  { "rsqrt", .one = situ_rsqrt },
  { "rsqrt_", .one = situ_rsqrt_ },
  { "square", .one = situ_square },
  { "square_", .one = situ_square_ },
  { "reciprocal", .one = situ_reciprocal },
  { "reciprocal_", .one = situ_reciprocal_ },
  { "sin", .one = situ_sin },
  { "sin_", .one = situ_sin_ },
  { "cos", .one = situ_cos },
  { "cos_", .one = situ_cos_ },
  { "tanh", .one = situ_tanh },
  { "tanh_", .one = situ_tanh_ },
  { "sigmoid", .one = situ_sigmoid },
  { "sigmoid_", .one = situ_sigmoid_ },
  { "relu", .one = situ_relu },
  { "relu_", .one = situ_relu_ },
  { "floor", .one = situ_floor },
  { "floor_", .one = situ_floor_ },
  { "ceil", .one = situ_ceil },
  { "ceil_", .one = situ_ceil_ },
  { "round", .one = situ_round },
  { "round_", .one = situ_round_ },
  { "trunc", .one = situ_trunc },
  { "trunc_", .one = situ_trunc_ },
  { "sign", .one = situ_sign },
  { "expm1", .one = situ_expm1 },
  { "log1p", .one = situ_log1p },
  { "log2", .one = situ_log2 },
  { "silu", .one = situ_silu },
  { "erf", .one = situ_erf },
  { "isnan", .one = situ_isnan },
  { "isinf", .one = situ_isinf },
  { "logical_not", .one = situ_logical_not },
  { "bitwise_not", .one = situ_bitwise_not },
  { "leaky_relu", .run = leaky_relu },
  { "elu", .run = elu },
  { "gelu", .run = gelu },
  { "softplus", .run = softplus },
  { "hardtanh", .run = hardtanh },
  { "nan_to_num", .run = nan_to_num },
  { "clamp", .run = clamp },
  { "clamp_", .run = clamp_ },
  { 0 },
};

#define AT_A_BOUND "the gradient at a bound is 0, as in torch 2.15; it was 1 in 1.13"
#define TURNED "min above max is refused, as in torch 2.15; 1.13 gave max"
static const gold_exception exceptions[] = {
  { "clamp", "pick/special", .where = "min", .is = -0.5, .values = true, .why = AT_A_BOUND },
  { "clamp", "pick/special", .where = "max", .is = INFINITY, .values = true, .why = AT_A_BOUND },
  { "clamp", "pick/edge", .values = true, .why = AT_A_BOUND },
  { "clamp_", "pick/special", .where = "min", .is = -0.5, .values = true, .why = AT_A_BOUND },
  { "clamp_", "pick/special", .where = "max", .is = INFINITY, .values = true, .why = AT_A_BOUND },
  { "clamp_", "pick/edge", .values = true, .why = AT_A_BOUND },
  { "hardtanh", .where = "min_val", .is = 0.5, .why = TURNED },
  { 0 },
};

int main(void) { return gold_main("unary", ops, exceptions); }
