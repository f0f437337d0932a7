/* Golden values: element-wise functions of two and three tensors.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

/* a + alpha b in its four forms: tensor or scalar, with or without alpha. */
static void scaled(gold_call *c, situ_tensor *(*plain)(situ_tensor *, situ_tensor *),
                   situ_tensor *(*alpha)(situ_tensor *, situ_tensor *, double),
                   situ_tensor *(*scalar)(situ_tensor *, double)) {
  situ_tensor *other = gold_in(c, "other");
  c->out[0] = !other                 ? scalar(c->in[0], gold_real(c, "other", 0))
              : gold_has(c, "alpha") ? alpha(c->in[0], other, gold_real(c, "alpha", 1))
                                     : plain(c->in[0], other);
}
static void add(gold_call *c) { scaled(c, situ_add, situ_add_alpha, situ_add_scalar); }
static void sub(gold_call *c) { scaled(c, situ_sub, situ_sub_alpha, situ_sub_scalar); }
static void add_(gold_call *c) { scaled(c, situ_add_, situ_add_alpha_, situ_add_scalar_); }

/* There is no situ_sub_alpha_: a - alpha b is a + (-alpha) b. */
static situ_tensor *sub_alpha_(situ_tensor *a, situ_tensor *b, double alpha) { return situ_add_alpha_(a, b, -alpha); }
static void sub_(gold_call *c) { scaled(c, situ_sub_, sub_alpha_, situ_sub_scalar_); }

static void division(gold_call *c) {
  const char *mode = gold_word(c, "rounding_mode", "");
  situ_tensor *other = gold_in(c, "other");
  if (*mode) {
    c->out[0] = situ_div_mode(c->in[0], other, *mode == 't' ? SITU_ROUND_TRUNC : SITU_ROUND_FLOOR);
  } else {
    c->out[0] = other ? situ_div(c->in[0], other) : situ_div_scalar(c->in[0], gold_real(c, "other", 0));
  }
}

static void power(gold_call *c) {
  situ_tensor *base = gold_in(c, "input"), *exponent = gold_in(c, "exponent");
  c->out[0] = !base       ? situ_scalar_pow(gold_real(c, "input", 0), exponent)
              : !exponent ? situ_pow_scalar(base, gold_real(c, "exponent", 0))
                          : situ_pow(base, exponent);
}

static void where(gold_call *c) {
  c->out[0] = situ_where(gold_in(c, "condition"), gold_in(c, "self"), gold_in(c, "other"));
}

static void lerp(gold_call *c) {
  situ_tensor *weight = gold_in(c, "weight"), *end = gold_in(c, "end");
  c->out[0] = weight ? situ_lerp(c->in[0], end, weight) : situ_lerp_scalar(c->in[0], end, gold_real(c, "weight", 0));
}

static void lerp_(gold_call *c) {
  c->out[0] = situ_lerp_scalar_(c->in[0], gold_in(c, "end"), gold_real(c, "weight", 0));
}

static void three(gold_call *c, situ_tensor *(*f)(situ_tensor *, situ_tensor *, situ_tensor *, double)) {
  c->out[0] = f(c->in[0], gold_in(c, "tensor1"), gold_in(c, "tensor2"), gold_real(c, "value", 1));
}
static void addcmul(gold_call *c) { three(c, situ_addcmul); }
static void addcdiv(gold_call *c) { three(c, situ_addcdiv); }
static void addcmul_(gold_call *c) { three(c, situ_addcmul_); }
static void addcdiv_(gold_call *c) { three(c, situ_addcdiv_); }

static const gold_op ops[] = {
  { "add", .run = add, .steps = 1, .why = GOLD_ROUNDS },
  { "add_", .run = add_ },
  { "sub", .run = sub, .steps = 1, .why = GOLD_ROUNDS },
  { "sub_", .run = sub_ },
  { "rsub", .scalar = situ_rsub_scalar },
  { "mul", .two = situ_mul, .scalar = situ_mul_scalar, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "mul_", .two = situ_mul_, .scalar = situ_mul_scalar_, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "div", .run = division, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "div_", .two = situ_div_, .scalar = situ_div_scalar_, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "floor_divide", .two = situ_floor_divide },
  { "pow", .run = power, .grad_steps = 5, .why = GOLD_ROUNDS },
  { "pow_", .two = situ_pow_, .scalar = situ_pow_scalar_, .grad_steps = 5, .why = GOLD_ROUNDS },
  { "fmod", .two = situ_fmod, .scalar = situ_fmod_scalar, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "remainder", .two = situ_remainder, .scalar = situ_remainder_scalar, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "maximum", .two = situ_maximum },
  { "minimum", .two = situ_minimum },
  { "eq", .two = situ_eq, .scalar = situ_eq_scalar },
  { "ne", .two = situ_ne, .scalar = situ_ne_scalar },
  { "lt", .two = situ_lt, .scalar = situ_lt_scalar },
  { "le", .two = situ_le, .scalar = situ_le_scalar },
  { "gt", .two = situ_gt, .scalar = situ_gt_scalar },
  { "ge", .two = situ_ge, .scalar = situ_ge_scalar },
  { "logical_and", .two = situ_logical_and },
  { "logical_or", .two = situ_logical_or },
  { "logical_xor", .two = situ_logical_xor },
  { "bitwise_and", .two = situ_bitwise_and },
  { "bitwise_or", .two = situ_bitwise_or },
  { "bitwise_xor", .two = situ_bitwise_xor },
  { "where", .run = where },
  { "lerp", .run = lerp, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "lerp_", .run = lerp_, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "addcmul", .run = addcmul, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "addcdiv", .run = addcdiv, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "addcmul_", .run = addcmul_, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "addcdiv_", .run = addcdiv_, .grad_steps = 4, .why = GOLD_ROUNDS },
  { 0 },
};

int main(void) { return gold_main("binary", ops, NULL); }
