/* Element-wise functions of two tensors: broadcast, promoted, computed by a row of the formula table.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

/* ---- shape and dtype ---- */

/* Integers divide into f32. */
static bool infer_quotient(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  if (!situ_dtype_is_floating(c->dtype[0])) c->dtype[0] = c->compute = SITU_F32;
  return true;
}
static bool infer_test(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  c->dtype[0] = SITU_BOOL;
  return true;
}
static bool infer_number(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  if (c->dtype[0] == SITU_BOOL)
    return situ_refuse(c, SITU_E_DTYPE, "both operands are bool; use the logical functions, or cast one");
  return true;
}

static bool infer_difference(situ_call *c) {
  for (int i = 0; i < 2; i++)
    if (situ__desc(c->in[i])->dtype == SITU_BOOL)
      return situ_refuse(c, SITU_E_DTYPE, "%s is bool; use the logical functions, or cast it", c->op->operand[i].name);
  return situ_infer_broadcast(c);
}

static bool forward(situ_call *c) { return situ__elementwise(c, SITU_VERB_BINARY, NULL, 0); }

/* ---- gradients; the tape sums what was broadcast ---- */

static bool add_backward(situ_grad_call *g) { return GRAD(g, 0, g->grad[0]) && GRAD(g, 1, g->grad[0]); }
static bool sub_backward(situ_grad_call *g) { return GRAD(g, 0, g->grad[0]) && GRAD(g, 1, situ_neg(g->grad[0])); }
bool situ__mul_backward(situ_grad_call *g) {
  return GRAD(g, 0, situ_mul(g->grad[0], g->in[1])) && GRAD(g, 1, situ_mul(g->grad[0], g->in[0]));
}

static bool div_backward(situ_grad_call *g) {
  situ_tensor *a = g->in[0], *b = g->in[1], *up = g->grad[0];
  return GRAD(g, 0, situ_div(up, b)) && GRAD(g, 1, situ_neg(situ_mul(up, situ_div(situ_div(a, b), b))));
}

/* Rounding functions have a gradient of 0. */
static bool zero_backward(situ_grad_call *g) {
  return GRAD(g, 0, situ_zeros_like(g->grad[0], NULL)) && GRAD(g, 1, situ_zeros_like(g->grad[0], NULL));
}

/* At a = 0, a^0 has a gradient of 0 with respect to a; 0^b has one of 0 with respect to b for b >= 0. */
static bool pow_backward(situ_grad_call *g) {
  situ_tensor *a = g->in[0], *b = g->in[1], *y = g->out[0], *up = g->grad[0];
  return GRAD(g, 0,
              situ_masked_fill(situ_mul(up, situ_mul(b, situ_pow(a, situ_sub_scalar(b, 1)))), situ_eq_scalar(b, 0),
                               0)) &&
         GRAD(g, 1,
              situ_masked_fill(situ_mul(up, situ_mul(y, situ_log(a))),
                               situ_logical_and(situ_eq_scalar(a, 0), situ_ge_scalar(b, 0)), 0));
}

static bool fmod_backward(situ_grad_call *g) {
  return GRAD(g, 0, g->grad[0]) &&
         GRAD(g, 1, situ_neg(situ_mul(g->grad[0], situ_div_mode(g->in[0], g->in[1], SITU_ROUND_TRUNC))));
}
static bool remainder_backward(situ_grad_call *g) {
  return GRAD(g, 0, g->grad[0]) &&
         GRAD(g, 1, situ_neg(situ_mul(g->grad[0], situ_div_mode(g->in[0], g->in[1], SITU_ROUND_FLOOR))));
}

/* The smaller (for minimum: the larger) operand gets no gradient; equal operands share it. With a NaN both get it. */
static situ_tensor *share(situ_tensor *up, situ_tensor *a, situ_tensor *b, situ_tensor *loses) {
  return situ_masked_fill(situ_where(situ_eq(a, b), situ_mul_scalar(up, 0.5), up), loses, 0);
}
static bool maximum_backward(situ_grad_call *g) {
  situ_tensor *a = g->in[0], *b = g->in[1];
  return GRAD(g, 0, share(g->grad[0], a, b, situ_lt(a, b))) && GRAD(g, 1, share(g->grad[0], a, b, situ_lt(b, a)));
}
static bool minimum_backward(situ_grad_call *g) {
  situ_tensor *a = g->in[0], *b = g->in[1];
  return GRAD(g, 0, share(g->grad[0], a, b, situ_gt(a, b))) && GRAD(g, 1, share(g->grad[0], a, b, situ_gt(b, a)));
}

/* ---- torch.export ---- */

static bool binary_traced(const situ_call *c, situ_export_trace *t) {
  switch (c->op->code) {
  case SITU_BINARY_div_trunc: return situ_export_call(t, "div.Tensor_mode", "tts", c->in[0], c->in[1], "trunc");
  case SITU_BINARY_div_floor: return situ_export_call(t, "div.Tensor_mode", "tts", c->in[0], c->in[1], "floor");
  case SITU_BINARY_pow: return situ_export_operands(t, c, "Tensor_Tensor");
  case SITU_BINARY_maximum:
  case SITU_BINARY_minimum:
  case SITU_BINARY_logical_and:
  case SITU_BINARY_logical_or:
  case SITU_BINARY_logical_xor: return situ_export_operands(t, c, "default");
  default: return situ_export_operands(t, c, "Tensor");
  }
}

/* ---- the ops ---- */

enum { BOTH = SITU_SAVE(0) | SITU_SAVE(1) };
#define BINARY(id, rule, back, saves, flag) CASTING(id, rule, back, saves, flag, SITU_CAST_NOT)
#define CASTING(id, rule, back, saves, flag, elsewhere)               \
  SITU_OP(id##_op) = { .name = #id,                                   \
                       .operand = { { "input", 0 }, { "other", 0 } }, \
                       .code = SITU_BINARY_##id,                      \
                       .save = saves,                                 \
                       .flags = flag,                                 \
                       .autocast = { SITU_CAST_NOT, elsewhere },      \
                       .infer = rule,                                 \
                       .forward = forward,                            \
                       .batched = situ_batch_broadcast,               \
                       .traced = binary_traced,                       \
                       .mend = situ_mend_largest,                     \
                       .backward = back,                              \
                       .backward_recorded = back };
BINARY(add, situ_infer_broadcast, add_backward, 0, SITU_OP_PAIR | SITU_OP_LINEAR)
BINARY(sub, infer_difference, sub_backward, 0, SITU_OP_PAIR | SITU_OP_LINEAR)
BINARY(mul, situ_infer_broadcast, situ__mul_backward, BOTH, SITU_OP_PRODUCT | SITU_OP_BILINEAR | SITU_OP_PAIR)
BINARY(div, infer_quotient, div_backward, BOTH, SITU_OP_PAIR)
BINARY(div_trunc, infer_number, zero_backward, 0, 0)
BINARY(div_floor, infer_number, zero_backward, 0, 0)
CASTING(pow, infer_number, pow_backward, BOTH | SITU_SAVE_OUT(0), 0, SITU_CAST_F32)
BINARY(fmod, infer_number, fmod_backward, BOTH, 0)
BINARY(remainder, infer_number, remainder_backward, BOTH, 0)
BINARY(maximum, situ_infer_broadcast, maximum_backward, BOTH, SITU_OP_PAIR)
BINARY(minimum, situ_infer_broadcast, minimum_backward, BOTH, SITU_OP_PAIR)
#define TEST(id) BINARY(id, infer_test, NULL, 0, SITU_OP_NO_GRAD)
/* clang-format off */
TEST(eq) TEST(ne) TEST(lt) TEST(le) TEST(gt) TEST(ge) TEST(logical_and) TEST(logical_or) TEST(logical_xor)
/* clang-format on */
#define BITS(id)                                                                           \
  SITU_OP(bitwise_##id##_op) = { .name = "bitwise_" #id,                                   \
                                 .operand = { { "input", SITU_INTEGRAL | SITU_BOOLEAN },   \
                                              { "other", SITU_INTEGRAL | SITU_BOOLEAN } }, \
                                 .code = SITU_BINARY_bitwise_##id,                         \
                                 .flags = SITU_OP_NO_GRAD,                                 \
                                 .infer = situ_infer_broadcast,                            \
                                 .forward = forward,                                       \
                                 .batched = situ_batch_broadcast,                          \
                                 .traced = binary_traced };
    /* clang-format off */
BITS(and) BITS(or) BITS(xor)
/* clang-format on */

#define PUBLIC(id) \
  situ_tensor *situ_##id(situ_tensor *input, situ_tensor *other) { return situ__run_two(&id##_op, input, other); }
/* clang-format off */
PUBLIC(add) PUBLIC(sub) PUBLIC(mul) PUBLIC(div) PUBLIC(pow) PUBLIC(fmod) PUBLIC(remainder)
PUBLIC(maximum) PUBLIC(minimum)
PUBLIC(eq) PUBLIC(ne) PUBLIC(lt) PUBLIC(le) PUBLIC(gt) PUBLIC(ge)
PUBLIC(logical_and) PUBLIC(logical_or) PUBLIC(logical_xor)
PUBLIC(bitwise_and) PUBLIC(bitwise_or) PUBLIC(bitwise_xor)
/* clang-format on */

static situ_tensor *in_place(const situ_op *op, situ_tensor *a, situ_tensor *b) {
  return situ_op_run_(op, (situ_tensor *[]){ a, b }, 2, NULL);
}
#define IN_PLACE(id) \
  situ_tensor *situ_##id##_(situ_tensor *input, situ_tensor *other) { return in_place(&id##_op, input, other); }
/* clang-format off */
IN_PLACE(add) IN_PLACE(sub) IN_PLACE(mul) IN_PLACE(div) IN_PLACE(pow)
/* clang-format on */

situ_tensor *situ_div_mode(situ_tensor *input, situ_tensor *other, situ_rounding_mode rounding_mode) {
  SITU__MADE_OF_OPS("div_mode");
  static const situ_op *const op[] = { &div_op, &div_trunc_op, &div_floor_op };
  if ((unsigned)rounding_mode > SITU_ROUND_FLOOR)
    return situ__fail(SITU_E_ARG, "div_mode", "%d is not a rounding mode", (int)rounding_mode), NULL;
  return situ_op_run2(op[rounding_mode], input, other, NULL);
}
situ_tensor *situ_floor_divide(situ_tensor *input, situ_tensor *other) {
  SITU__MADE_OF_OPS("floor_divide");
  return situ_op_run2(&div_floor_op, input, other, NULL);
}

/* b times alpha, in the dtype of the sum; 1, the common case, costs nothing. Checks the operands first, so that errors
   name b, not the product. Refuses a fractional alpha if the sum must be an integer. */
static situ_tensor *times(const char *op, const situ_tensor *a, situ_tensor *b, double alpha) {
  static const situ_op schema = { .name = "add_alpha", .operand = { { "input", 0 }, { "other", 0 } } };
  if (alpha == 1 || !situ__alive(a) || !situ__alive(b)) return b;
  if (!situ__together(&schema, (situ_tensor *[]){ (situ_tensor *)a, b }, 2)) return NULL;
  const situ_dtype sum = situ_result_type((situ_tensor *[]){ (situ_tensor *)a, b }, 2);
  const bool fits = situ_dtype_is_floating(sum) || situ__is_integer(alpha);
  if (fits && sum == SITU_BOOL) return alpha != 0 ? b : situ_zeros_like(b, NULL);
  if (fits) return situ_mul_scalar(situ_to_dtype(b, sum), alpha);
  return situ__fail(SITU_E_ARG, op, "alpha is %g, but input and other are whole numbers; cast one of them", alpha),
         NULL;
}
situ_tensor *situ_add_alpha(situ_tensor *input, situ_tensor *other, double alpha) {
  SITU__MADE_OF_OPS("add_alpha");
  return situ_add(input, times("add_alpha", input, other, alpha));
}
situ_tensor *situ_sub_alpha(situ_tensor *input, situ_tensor *other, double alpha) {
  SITU__MADE_OF_OPS("sub_alpha");
  return situ_sub(input, times("sub_alpha", input, other, alpha));
}
situ_tensor *situ_add_alpha_(situ_tensor *input, situ_tensor *other, double alpha) {
  SITU__MADE_OF_OPS("add_alpha_");
  return situ_add_(input, times("add_alpha_", input, other, alpha));
}
