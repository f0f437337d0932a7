/* Element-wise functions of two tensors beyond arithmetic: whole numbers, angles, logarithms. Each is a row of the
   formula table; 16 bits are computed in f32, and rounded once.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

/* ---- shape and dtype ---- */

static bool infer_integer(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  if (c->dtype[0] == SITU_BOOL)
    return situ_refuse(c, SITU_E_DTYPE, "both operands are bool; cast one to an integer dtype");
  return true;
}

/* Integers give f32. */
static bool infer_floating(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  if (!situ_dtype_is_floating(c->dtype[0])) c->dtype[0] = SITU_F32;
  c->compute = situ__wide(c->dtype[0]);
  return true;
}
/* Integers are refused, as by torch. */
static bool infer_real(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  if (!situ_dtype_is_floating(c->dtype[0]))
    return situ_refuse(c, SITU_E_DTYPE, "neither operand is floating; cast one to a floating dtype");
  c->compute = situ__wide(c->dtype[0]);
  return true;
}

static bool forward(situ_call *c) { return situ__elementwise(c, SITU_VERB_BINARY, NULL, 0); }

/* A neighbour in f32 is not one in 16 bits. Those are 2^-digits to 2^(1 - digits) of x away, or the smallest number:
   1.25 times the lower bound is nearer to the neighbour than to x and to what is behind, and so is rounded to it. */
static bool forward_neighbour(situ_call *c) {
  if (c->compute == c->dtype[0]) return forward(c);
  const double most = situ__dtype(c->dtype[0])->largest, least = c->dtype[0] == SITU_F16 ? 0x1p-24 : 0x1p-133;
  situ_tensor *x = situ_to_dtype(c->in[0], c->dtype[0]), *to = situ_to_dtype(c->in[1], c->dtype[0]);
  x = situ_to_dtype(x, SITU_F32), to = situ_to_dtype(to, SITU_F32);
  situ_tensor *above = situ_gt(to, x), *below = situ_lt(to, x);
  situ_tensor *way = situ_sub(situ_to_dtype(above, SITU_F32), situ_to_dtype(below, SITU_F32));
  situ_tensor *step =
      situ_clamp(situ_mul_scalar(situ_abs(x), 1.25 / situ__dtype(c->dtype[0])->exact), 0.75 * least, INFINITY);
  situ_tensor *moved = situ_where(situ_isinf(x), situ_clamp(x, -most, most), situ_add(x, situ_mul(way, step)));
  situ_tensor *y = situ_where(situ_logical_or(above, below), moved, situ_where(situ_isnan(x), x, to));
  return y && situ__copy_values(c->op->name, &y->view, &c->out[0]->view);
}

/* ---- gradients; the tape sums what was broadcast ---- */

static situ_tensor *zeros(const situ_grad_call *g) { return situ_zeros_like(g->grad[0], NULL); }

/* At (0, 0) both are 0. */
static bool atan2_backward(situ_grad_call *g) {
  situ_tensor *y = g->in[0], *x = g->in[1], *square = situ_add(situ_square(y), situ_square(x));
  situ_tensor *up = situ_mul(g->grad[0], situ_masked_fill(situ_reciprocal(square), situ_eq_scalar(square, 0), 0));
  return GRAD(g, 0, situ_mul(up, x)) && GRAD(g, 1, situ_mul(up, situ_neg(y)));
}

static bool hypot_backward(situ_grad_call *g) {
  return GRAD(g, 0, situ_mul(g->grad[0], situ_div(g->in[0], g->out[0]))) &&
         GRAD(g, 1, situ_mul(g->grad[0], situ_div(g->in[1], g->out[0])));
}

/* The sign that was changed; 0 where input is 0. */
static bool copysign_backward(situ_grad_call *g) {
  situ_tensor *x = g->in[0], *sign = situ_masked_fill(situ_div(g->out[0], x), situ_eq_scalar(x, 0), 0);
  return GRAD(g, 0, situ_mul(g->grad[0], sign)) && GRAD(g, 1, zeros(g));
}

/* 0 where input is 0 and other is at or before the end of the logarithm's domain. */
static situ_tensor *within(situ_grad_call *g, double end, situ_tensor *slope) {
  return situ_masked_fill(slope, situ_logical_and(situ_eq_scalar(g->in[0], 0), situ_le_scalar(g->in[1], end)), 0);
}
static bool xlogy_backward(situ_grad_call *g) {
  situ_tensor *x = g->in[0], *y = g->in[1];
  return GRAD(g, 0, within(g, 0, situ_xlogy(g->grad[0], y))) && GRAD(g, 1, situ_mul(g->grad[0], situ_div(x, y)));
}
static bool xlog1py_backward(situ_grad_call *g) {
  situ_tensor *x = g->in[0], *y = g->in[1];
  return GRAD(g, 0, within(g, -1, situ_mul(g->grad[0], situ_log1p(y)))) &&
         GRAD(g, 1, situ_mul(g->grad[0], situ_div(x, situ_add_scalar(y, 1))));
}

/* A weight of a softmax over two: 1 / (1 + base^x). A recorded one is a sigmoid, whose own derivative is finite for any
   x; the quotient, which is PyTorch's, has the first derivative alone. */
static situ_tensor *share(situ_grad_call *g, situ_tensor *x, double ln_base, situ_tensor *(*power)(situ_tensor *)) {
  if (situ__recording()) return situ_mul(g->grad[0], situ_sigmoid(situ_mul_scalar(x, -ln_base)));
  return situ_div(g->grad[0], situ_add_scalar(power(x), 1));
}
static bool logaddexp_backward(situ_grad_call *g) {
  situ_tensor *a = g->in[0], *b = g->in[1];
  return GRAD(g, 0, share(g, situ_sub(b, a), 1, situ_exp)) && GRAD(g, 1, share(g, situ_sub(a, b), 1, situ_exp));
}
static bool logaddexp2_backward(situ_grad_call *g) {
  const double ln2 = 0.69314718055994530942;
  situ_tensor *a = g->in[0], *b = g->in[1];
  return GRAD(g, 0, share(g, situ_sub(b, a), ln2, situ_exp2)) && GRAD(g, 1, share(g, situ_sub(a, b), ln2, situ_exp2));
}

static bool binary_traced(const situ_call *c, situ_export_trace *t) { return situ_export_operands(t, c, "default"); }

/* ---- the ops ---- */

enum { INPUT = SITU_SAVE(0), OTHER = SITU_SAVE(1), RESULT = SITU_SAVE_OUT(0) };
#define OP(id, word, accept, rule, back, saves, flag, elsewhere)                         \
  SITU_OP(id##_op) = { .name = word,                                                     \
                       .operand = { { "input", accept }, { "other", accept } },          \
                       .code = SITU_BINARY_##id,                                         \
                       .save = saves,                                                    \
                       .flags = flag,                                                    \
                       .autocast = { SITU_CAST_NOT, elsewhere },                         \
                       .infer = rule,                                                    \
                       .forward = (flag)&SITU_OP_COMPOSED ? forward_neighbour : forward, \
                       .batched = situ_batch_broadcast,                                  \
                       .traced = binary_traced,                                          \
                       .mend = situ_mend_largest,                                        \
                       .backward = back,                                                 \
                       .backward_recorded = back };
#define INTEGER(id) \
  OP(id, #id, SITU_INTEGRAL | SITU_BOOLEAN, infer_integer, NULL, 0, SITU_OP_NO_GRAD, SITU_CAST_NOT) PUBLIC(id, id)
#define REAL(id, rule, saves, elsewhere) OP(id, #id, 0, rule, id##_backward, saves, 0, elsewhere) PUBLIC(id, id)
#define PUBLIC(id, name)                                             \
  situ_tensor *situ_##name(situ_tensor *input, situ_tensor *other) { \
    return situ_op_run2(&id##_op, input, other, NULL);               \
  }
/* clang-format off */
INTEGER(bitwise_left_shift) INTEGER(bitwise_right_shift) INTEGER(gcd) INTEGER(lcm)
    /* clang-format on */
    REAL(atan2, infer_floating, INPUT | OTHER, SITU_CAST_WIDEST)
        REAL(hypot, infer_real, INPUT | OTHER | RESULT, SITU_CAST_NOT)
            REAL(copysign, infer_floating, INPUT | RESULT, SITU_CAST_NOT)
                REAL(xlogy, infer_floating, INPUT | OTHER, SITU_CAST_NOT)
                    REAL(logaddexp, infer_real, INPUT | OTHER, SITU_CAST_NOT)
                        REAL(logaddexp2, infer_real, INPUT | OTHER, SITU_CAST_NOT)
                            OP(xlog1py, "special_xlog1py", 0, infer_floating, xlog1py_backward, INPUT | OTHER, 0,
                               SITU_CAST_NOT) PUBLIC(xlog1py, special_xlog1py)
OP(nextafter, "nextafter", 0, infer_real, NULL, 0, SITU_OP_COMPOSED, SITU_CAST_NOT)
PUBLIC(nextafter, nextafter)

#define IN_PLACE(id)                                                           \
  situ_tensor *situ_##id##_(situ_tensor *input, situ_tensor *other) {          \
    return situ_op_run_(&id##_op, (situ_tensor *[]){ input, other }, 2, NULL); \
  }
/* clang-format off */
IN_PLACE(bitwise_left_shift) IN_PLACE(bitwise_right_shift) IN_PLACE(gcd) IN_PLACE(lcm)
IN_PLACE(atan2) IN_PLACE(hypot) IN_PLACE(copysign) IN_PLACE(nextafter) IN_PLACE(xlogy)
/* clang-format on */
