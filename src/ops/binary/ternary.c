/* Element-wise functions of three tensors: where, lerp, addcmul, addcdiv.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

typedef struct ternary_params {
  double value;
} ternary_params;

static bool forward(situ_call *c) {
  const ternary_params *p = c->params;
  return situ__elementwise(c, SITU_VERB_TERNARY, p ? &p->value : NULL, p ? 1 : 0);
}

/* ---- where ---- */

static bool where_infer(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  c->dtype[0] = c->compute = situ_result_type(c->in + 1, 2); /* the condition does not take part in promotion */
  return true;
}

static bool where_backward(situ_grad_call *g) {
  situ_tensor *zero =
      situ_zeros(SITU_SCALAR, &(situ_options){ .dtype = situ_dtype_of(g->grad[0]), .device = g->device });
  return GRAD(g, 1, situ_where(g->in[0], g->grad[0], zero)) && GRAD(g, 2, situ_where(g->in[0], zero, g->grad[0]));
}

static bool where_traced(const situ_call *c, situ_export_trace *t) { return situ_export_operands(t, c, "self"); }

SITU_OP(where_op) = { .name = "where",
                      .operand = { { "condition", SITU_BOOLEAN }, { "input", 0 }, { "other", 0 } },
                      .code = SITU_TERNARY_WHERE,
                      .save = SITU_SAVE(0),
                      .flags = SITU_OP_LINEAR,
                      .infer = where_infer,
                      .forward = forward,
                      .batched = situ_batch_broadcast,
                      .traced = where_traced,
                      .backward = where_backward,
                      .backward_recorded = where_backward };

situ_tensor *situ_where(situ_tensor *condition, situ_tensor *input, situ_tensor *other) {
  return situ_op_run3(&where_op, condition, input, other, NULL);
}

/* ---- lerp: a + weight (b - a) ---- */

static bool lerp_backward(situ_grad_call *g) {
  situ_tensor *a = g->in[0], *b = g->in[1], *w = g->in[2], *up = g->grad[0];
  return GRAD(g, 0, situ_mul(up, situ_rsub_scalar(w, 1))) && GRAD(g, 1, situ_mul(up, w)) &&
         GRAD(g, 2, situ_mul(up, situ_sub(b, a)));
}

static bool lerp_traced(const situ_call *c, situ_export_trace *t) { return situ_export_operands(t, c, "Tensor"); }

SITU_OP(lerp_op) = { .name = "lerp",
                     .operand = { { "input", SITU_FLOATING | SITU_SAME },
                                  { "end", SITU_FLOATING | SITU_SAME },
                                  { "weight", SITU_FLOATING | SITU_SAME } },
                     .code = SITU_TERNARY_LERP,
                     .save = SITU_SAVE(0) | SITU_SAVE(1) | SITU_SAVE(2),
                     .infer = situ_infer_broadcast,
                     .forward = forward,
                     .batched = situ_batch_broadcast,
                     .traced = lerp_traced,
                     .backward = lerp_backward,
                     .backward_recorded = lerp_backward };

situ_tensor *situ_lerp(situ_tensor *input, situ_tensor *end, situ_tensor *weight) {
  return situ_op_run3(&lerp_op, input, end, weight, NULL);
}

/* The weight as a 0-dim tensor on a's device; it does not influence the device of the result. */
static situ_tensor *weight_like(situ_tensor *a, situ_dtype dtype, double weight) {
  return situ_full(SITU_SCALAR, weight, &(situ_options){ .dtype = dtype, .device = a->view.storage->device });
}
static bool is_short(const situ_tensor *x) { return x->view.dtype == SITU_F16 || x->view.dtype == SITU_BF16; }
/* 16 bits cannot represent 0.999: the weight and its products are f32. */
static situ_tensor *lerp_short(situ_tensor *a, situ_tensor *b, double weight) {
  situ_tensor *y = situ_lerp(situ_to_dtype(a, SITU_F32), situ_to_dtype(b, SITU_F32), weight_like(a, SITU_F32, weight));
  return situ_to_dtype(y, (situ_dtype)a->view.dtype);
}
static const situ_op lerp_pair = {
  .name = "lerp", .operand = { { "input", SITU_FLOATING | SITU_SAME }, { "end", SITU_FLOATING | SITU_SAME } }
};
situ_tensor *situ_lerp_scalar(situ_tensor *input, situ_tensor *end, double weight) {
  SITU__MADE_OF_OPS("lerp_scalar");
  if (!situ__together(&lerp_pair, (situ_tensor *[]){ input, end }, 2)) return NULL;
  return is_short(input) ? lerp_short(input, end, weight)
                         : situ_lerp(input, end, weight_like(input, (situ_dtype)input->view.dtype, weight));
}
situ_tensor *situ_lerp_scalar_(situ_tensor *input, situ_tensor *end, double weight) {
  SITU__MADE_OF_OPS("lerp_scalar_");
  if (!situ__together(&lerp_pair, (situ_tensor *[]){ input, end }, 2)) return NULL;
  if (is_short(input)) return situ_copy_(input, lerp_short(input, end, weight));
  return situ_op_run_(
      &lerp_op, (situ_tensor *[]){ input, end, weight_like(input, (situ_dtype)input->view.dtype, weight) }, 3, NULL);
}

/* ---- addcmul, addcdiv ---- */

static bool addcmul_backward(situ_grad_call *g) {
  double value = ((const ternary_params *)g->params)->value;
  situ_tensor *up = g->grad[0];
  return GRAD(g, 0, up) && GRAD(g, 1, situ_mul_scalar(situ_mul(up, g->in[2]), value)) &&
         GRAD(g, 2, situ_mul_scalar(situ_mul(up, g->in[1]), value));
}

static bool addcdiv_backward(situ_grad_call *g) {
  double value = ((const ternary_params *)g->params)->value;
  situ_tensor *a = g->in[1], *b = g->in[2], *up = g->grad[0];
  return GRAD(g, 0, up) && GRAD(g, 1, situ_mul_scalar(situ_div(up, b), value)) &&
         GRAD(g, 2, situ_mul_scalar(situ_mul(up, situ_div(situ_div(a, b), b)), -value));
}

static bool number_infer(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  return c->dtype[0] != SITU_BOOL ||
         situ_refuse(c, SITU_E_DTYPE, "all operands are bool; use the logical functions, or cast one");
}
static bool quotient_infer(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  if (!situ_dtype_is_floating(c->dtype[0]))
    return situ_refuse(c, SITU_E_DTYPE, "whole numbers do not divide here; cast an operand to a floating dtype");
  return true;
}

static bool addc_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "*.default", "tttn", c->in[0], c->in[1], c->in[2],
                          ((const ternary_params *)c->params)->value);
}

#define ADDC(id, code_, rule)                                                                                   \
  SITU_OP(id##_op) = { .name = #id,                                                                             \
                       .operand = { { "input", 0 }, { "tensor1", 0 }, { "tensor2", 0 } },                       \
                       .code = code_,                                                                           \
                       .save = SITU_SAVE(1) | SITU_SAVE(2),                                                     \
                       .params_size = sizeof(ternary_params),                                                   \
                       .infer = rule,                                                                           \
                       .autocast = { SITU_CAST_NOT, SITU_CAST_WIDEST },                                         \
                       .forward = forward,                                                                      \
                       .batched = situ_batch_broadcast,                                                         \
                       .traced = addc_traced,                                                                   \
                       .backward = id##_backward,                                                               \
                       .backward_recorded = id##_backward };                                                    \
  situ_tensor *situ_##id(situ_tensor *input, situ_tensor *tensor1, situ_tensor *tensor2, double value) {        \
    return situ_op_run3(&id##_op, input, tensor1, tensor2, &(ternary_params){ value });                         \
  }                                                                                                             \
  situ_tensor *situ_##id##_(situ_tensor *input, situ_tensor *tensor1, situ_tensor *tensor2, double value) {     \
    return situ_op_run_(&id##_op, (situ_tensor *[]){ input, tensor1, tensor2 }, 3, &(ternary_params){ value }); \
  }
ADDC(addcmul, SITU_TERNARY_ADDCMUL, number_infer)
ADDC(addcdiv, SITU_TERNARY_ADDCDIV, quotient_infer)
