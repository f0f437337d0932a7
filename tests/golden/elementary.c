/* Golden values from PyTorch 2.15: activations and elementary functions beyond those of unary.c and binary.c.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

/* ---- activations ---- */

#define NUMBER(id, name, otherwise) \
  static void id(gold_call *c) { c->out[0] = situ_##id(c->in[0], gold_real(c, name, otherwise)); }
NUMBER(celu, "alpha", 1)
NUMBER(celu_, "alpha", 1)
NUMBER(softshrink, "lambd", 0.5)
NUMBER(hardshrink, "lambd", 0.5)
#define NUMBERS(id, first, second) \
  static void id(gold_call *c) { c->out[0] = situ_##id(c->in[0], gold_real(c, first, 0), gold_real(c, second, 0)); }
NUMBERS(threshold, "threshold", "value")
NUMBERS(threshold_, "threshold", "value")
NUMBERS(hardtanh_, "min_val", "max_val")

static void glu(gold_call *c) { c->out[0] = situ_glu(c->in[0], (int)gold_int(c, "dim", -1)); }

/* ---- elementary functions ---- */

static void polygamma(gold_call *c) { c->out[0] = situ_polygamma(gold_int(c, "n", 0), c->in[0]); }
NUMBER(logit, "eps", 0)

static void round_decimals(gold_call *c) { c->out[0] = situ_round_decimals(c->in[0], (int)gold_int(c, "decimals", 0)); }
static void clamp_tensor(gold_call *c) {
  c->out[0] = situ_clamp_tensor(c->in[0], gold_in(c, "min"), gold_in(c, "max"));
}

static const gold_op ops[] = {
  { "hardswish", .one = situ_hardswish },
  { "hardswish_", .one = situ_hardswish_ },
  { "hardsigmoid", .one = situ_hardsigmoid },
  { "hardsigmoid_", .one = situ_hardsigmoid_ },
  { "relu6", .one = situ_relu6 },
  { "relu6_", .one = situ_relu6_ },
  { "mish", .one = situ_mish },
  { "mish_", .one = situ_mish_ },
  { "quick_gelu", .one = situ_quick_gelu },
  { "selu", .one = situ_selu },
  { "selu_", .one = situ_selu_, .grad_steps = 2, .why = "torch's backward reads the rounded result" },
  { "celu", .run = celu },
  { "celu_", .run = celu_, .grad_steps = 2, .why = "as selu_" },
  { "hardtanh_", .run = hardtanh_ },
  { "logsigmoid", .one = situ_logsigmoid },
  { "softsign", .one = situ_softsign, .grad_steps = 3, .why = "torch rounds |x| and 1 + |x| too" },
  { "tanhshrink", .one = situ_tanhshrink },
  { "softshrink", .run = softshrink },
  { "hardshrink", .run = hardshrink },
  { "threshold", .run = threshold },
  { "threshold_", .run = threshold_ },
  { "glu", .run = glu, .steps = 2, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "prelu", .two = situ_prelu, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "tan", .one = situ_tan },
  { "asin", .one = situ_asin },
  { "acos", .one = situ_acos },
  { "atan", .one = situ_atan },
  { "sinh", .one = situ_sinh },
  { "cosh", .one = situ_cosh },
  { "asinh", .one = situ_asinh },
  { "acosh", .one = situ_acosh },
  { "atanh", .one = situ_atanh },
  { "exp2", .one = situ_exp2 },
  { "log10", .one = situ_log10 },
  { "erfc", .one = situ_erfc },
  { "erfinv", .one = situ_erfinv },
  { "lgamma", .one = situ_lgamma },
  { "digamma", .one = situ_digamma },
  { "i0", .one = situ_i0 },
  { "sinc", .one = situ_sinc },
  { "tan_", .one = situ_tan_ },
  { "asin_", .one = situ_asin_ },
  { "acos_", .one = situ_acos_ },
  { "atan_", .one = situ_atan_ },
  { "sinh_", .one = situ_sinh_ },
  { "cosh_", .one = situ_cosh_ },
  { "exp2_", .one = situ_exp2_ },
  { "log10_", .one = situ_log10_ },
  { "polygamma", .run = polygamma },
  { "logit", .run = logit },
  { "frac", .one = situ_frac },
  { "deg2rad", .one = situ_deg2rad },
  { "rad2deg", .one = situ_rad2deg },
  { "isfinite", .one = situ_isfinite },
  { "isposinf", .one = situ_isposinf },
  { "isneginf", .one = situ_isneginf },
  { "round_decimals", .run = round_decimals },
  { "fmax", .two = situ_fmax },
  { "fmin", .two = situ_fmin },
  { "float_power", .two = situ_float_power },
  { "ldexp", .two = situ_ldexp, .steps = 2, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "heaviside", .two = situ_heaviside },
  { "clamp_tensor", .run = clamp_tensor },
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
