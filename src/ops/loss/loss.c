/* Losses that consist of other ops: mean squared and absolute errors, binary cross entropy, Kullback-Leibler
   divergence.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "device/device.h"
#include "dispatch/dispatch.h"
#include "loss.h"

situ_tensor *situ__reduce_loss(const char *op, situ_tensor *each, situ_reduction reduction) {
  switch (reduction) {
  case SITU_REDUCTION_MEAN: return situ_mean(each, NULL);
  case SITU_REDUCTION_SUM: return situ_sum(each, NULL);
  case SITU_REDUCTION_NONE: return each;
  }
  return situ__fail(SITU_E_ARG, op, "%d is not a reduction", (int)reduction), NULL;
}

static bool is_floating(const situ_tensor *x) { return situ_dtype_is_floating((situ_dtype)x->view.dtype); }
/* For losses that torch does not support for integers. */
static bool any_floating(const char *op, situ_tensor *input, situ_tensor *target) {
  if (is_floating(input) || is_floating(target)) return true;
  return situ__fail(SITU_E_DTYPE, op, "input is %s, target %s: one must be a floating dtype",
                    situ_dtype_name((situ_dtype)input->view.dtype), situ_dtype_name((situ_dtype)target->view.dtype)),
         false;
}
/* Converts bool to the other operand's floating dtype: 0 and 1. */
static situ_tensor *numbers(situ_tensor *x, const situ_tensor *other) {
  return x->view.dtype == SITU_BOOL && is_floating(other) ? situ_to_dtype(x, (situ_dtype)other->view.dtype) : x;
}

bool situ__loss_operands(const char *op, const situ_operand *operands, situ_tensor **in, int count) {
  situ_op schema = { .name = op, .autocast = { SITU_CAST_F32, SITU_CAST_F32 } };
  for (int i = 0; i < count; i++) schema.operand[i] = operands[i];
  return situ__together(&schema, in, count) && situ__autocast(&schema, in, count);
}

/* The operands of most losses. */
static bool pair(const char *op, situ_tensor **input, situ_tensor **target) {
  static const situ_operand operands[] = { { "input", 0 }, { "target", 0 } };
  situ_tensor *in[2] = { *input, *target };
  if (!situ__loss_operands(op, operands, in, 2)) return false;
  *input = in[0];
  *target = in[1];
  return true;
}

/* As torch does, once for each place in the program: [n, 1] and [n] make [n, n], which is seldom meant. */
static void warn_of_sizes(const char *op, const situ_tensor *input, const situ_tensor *target) {
  if (__builtin_expect(situ__same_sizes(&input->view, &target->view), 1)) return;
  if (!situ__is_new_here(SITU__WARN_SIZES, op)) return;
  const situ_shape x = situ__shape(&input->view), y = situ__shape(&target->view);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  situ__log(
      "%s: input is %s, target %s: they are broadcast, which likely gives a wrong loss; reshape one of them; this "
      "line is not warned of again",
      op, situ_shape_text(&x, a), situ_shape_text(&y, b));
}

bool situ__equal_shapes(const char *op, const char *name, const situ_tensor *x, const char *other_name,
                        const situ_tensor *other) {
  if (situ__same_sizes(&x->view, &other->view)) return true;
  const situ_shape own = situ__shape(&x->view), want = situ__shape(&other->view);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "%s is %s, %s %s: they must be equal", name, situ_shape_text(&own, a), other_name,
                    situ_shape_text(&want, b)),
         false;
}

situ_tensor *situ_mse_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction) {
  SITU__MADE_OF_OPS("mse_loss");
  if (!pair("mse_loss", &input, &target) || !any_floating("mse_loss", input, target)) return NULL;
  warn_of_sizes("mse_loss", input, target);
  situ_tensor *d = situ_sub(numbers(input, target), numbers(target, input));
  if (reduction == SITU_REDUCTION_MEAN) return situ__mean_square(d);
  return situ__reduce_loss("mse_loss", situ_square(d), reduction);
}

situ_tensor *situ_l1_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction) {
  SITU__MADE_OF_OPS("l1_loss");
  if (!pair("l1_loss", &input, &target)) return NULL;
  warn_of_sizes("l1_loss", input, target);
  return situ__reduce_loss("l1_loss", situ_abs(situ_sub(input, target)), reduction);
}

/* With d = |input - target|: near * d^2 where d < edge, else far * (d - edge / 2). Equal at the edge if near = far / (2
   edge). */
static situ_tensor *bent(situ_tensor *input, situ_tensor *target, double edge, double far) {
  if (!(input = numbers(input, target)) || !(target = numbers(target, input))) return NULL;
  situ_tensor *d = situ_abs(situ_sub(input, target));
  /* large values of d are not squared: in the gradient, the 0 of the branch not taken would be multiplied by Inf */
  situ_tensor *is_far = situ_ge_scalar(d, edge), *outside = situ_sub_scalar(d, edge / 2);
  situ_tensor *inside = situ_mul_scalar(situ_square(situ_masked_fill(d, is_far, 0)), 0.5 * far / edge);
  return situ_where(is_far, far == 1 ? outside : situ_mul_scalar(outside, far), inside);
}

/* d^2 / (2 beta) where |d| < beta, else |d| - beta / 2. */
situ_tensor *situ_smooth_l1_loss(situ_tensor *input, situ_tensor *target, double beta, situ_reduction reduction) {
  SITU__MADE_OF_OPS("smooth_l1_loss");
  if (!pair("smooth_l1_loss", &input, &target) || !any_floating("smooth_l1_loss", input, target)) return NULL;
  if (!(beta >= 0) || isinf(beta))
    return situ__fail(SITU_E_ARG, "smooth_l1_loss", "beta is %g: must not be negative", beta), NULL;
  if (beta == 0) return situ_l1_loss(numbers(input, target), numbers(target, input), reduction);
  warn_of_sizes("smooth_l1_loss", input, target);
  return situ__reduce_loss("smooth_l1_loss", bent(input, target, beta, 1), reduction);
}

situ_tensor *situ_huber_loss(situ_tensor *input, situ_tensor *target, double delta, situ_reduction reduction) {
  SITU__MADE_OF_OPS("huber_loss");
  if (!pair("huber_loss", &input, &target) || !any_floating("huber_loss", input, target)) return NULL;
  if (!(delta > 0) || isinf(delta))
    return situ__fail(SITU_E_ARG, "huber_loss", "delta is %g: must be positive and finite", delta), NULL;
  warn_of_sizes("huber_loss", input, target);
  return situ__reduce_loss("huber_loss", bent(input, target, delta, delta), reduction);
}

bool situ__spreads_to(const char *op, const char *name, const situ_tensor *factor, const situ_tensor *input) {
  if (!factor) return true;
  const situ_shape own = situ__shape(&factor->view), whole = situ__shape(&input->view);
  bool good = own.ndim <= whole.ndim;
  for (int d = 1; good && d <= own.ndim; d++)
    good = own.dim[own.ndim - d] == 1 || own.dim[own.ndim - d] == whole.dim[whole.ndim - d];
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  if (!good)
    situ__fail(SITU_E_SHAPE, op, "%s is %s, which does not broadcast to input's shape %s", name,
               situ_shape_text(&own, a), situ_shape_text(&whole, b));
  return good;
}

/* (1 - t) x + softplus(-x), which cannot overflow; pos_weight scales the t = 1 part. From the threshold on,
   softplus(-x) equals -x to the last bit of f64. */
situ_tensor *situ_binary_cross_entropy_with_logits(situ_tensor *input, situ_tensor *target, situ_tensor *weight,
                                                   situ_tensor *pos_weight, situ_reduction reduction) {
  SITU__MADE_OF_OPS("binary_cross_entropy_with_logits");
  const char *op = "binary_cross_entropy_with_logits";
  static const situ_op schema = { .name = "binary_cross_entropy_with_logits",
                                  .operand = { { "input", SITU_FLOATING },
                                               { "target", SITU_FLOATING },
                                               { "weight", SITU_OPTIONAL },
                                               { "pos_weight", SITU_OPTIONAL } },
                                  .autocast = { SITU_CAST_F32, SITU_CAST_F32 } };
  situ_tensor *in[4] = { input, target, weight, pos_weight };
  if (!situ__together(&schema, in, 4) || !situ__autocast(&schema, in, 4)) return NULL;
  input = in[0], target = in[1], weight = in[2], pos_weight = in[3];
  if (!situ__equal_shapes(op, "target", target, "input", input)) return NULL;
  if (!situ__spreads_to(op, "weight", weight, input) || !situ__spreads_to(op, "pos_weight", pos_weight, input))
    return NULL;
  situ_tensor *tail = situ_softplus(situ_neg(input), 1, 40);
  situ_tensor *miss = situ_mul(situ_rsub_scalar(target, 1), input);
  if (pos_weight) tail = situ_mul(situ_add_scalar(situ_mul(situ_sub_scalar(pos_weight, 1), target), 1), tail);
  situ_tensor *each = situ_add(miss, tail);
  return situ__reduce_loss(op, weight ? situ_mul(each, weight) : each, reduction);
}

/* t log t - t x, the first term 0 where t is 0, with a gradient of NaN there: it has no limit. */
situ_tensor *situ_kl_div(situ_tensor *input, situ_tensor *target, situ_kl_reduction reduction, bool log_target) {
  SITU__MADE_OF_OPS("kl_div");
  const char *op = "kl_div";
  static const situ_op floats = { .name = "kl_div",
                                  .operand = { { "input", SITU_FLOATING }, { "target", SITU_FLOATING } } };
  if (!situ__together(&floats, (situ_tensor *[]){ input, target }, 2) || !pair(op, &input, &target)) return NULL;
  situ_tensor *each;
  if (log_target) {
    each = situ_mul(situ_exp(target), situ_sub(target, input));
  } else {
    each = situ_sub(situ_xlogy(target, target), situ_mul(target, input));
  }
  if (!each) return NULL;
  if (reduction != SITU_KL_BATCHMEAN) return situ__reduce_loss(op, each, (situ_reduction)reduction);
  if (!each->view.ndim) return situ__fail(SITU_E_SHAPE, op, "batchmean needs a batch dimension"), NULL;
  return situ_div_scalar(situ_sum(each, NULL), (double)each->view.size[0]);
}
