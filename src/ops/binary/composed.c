/* Element-wise functions of two and three tensors that consist of other ops.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

static bool are_two(const char *op, situ_tensor *a, situ_tensor *b, unsigned accept) {
  const situ_op schema = { .name = op, .operand = { { "input", accept }, { "other", accept } } };
  return situ__together(&schema, (situ_tensor *[]){ a, b }, 2);
}
/* a where b is NaN. */
static situ_tensor *unless_nan(situ_tensor *b, situ_tensor *a) { return situ_where(situ_isnan(b), a, b); }
/* Of two NaN the gradient is the first operand's, as in PyTorch. */
situ_tensor *situ_fmax(situ_tensor *input, situ_tensor *other) {
  SITU__MADE_OF_OPS("fmax");
  if (!are_two("fmax", input, other, 0)) return NULL;
  return situ_where(situ_isnan(other), input, situ_maximum(unless_nan(input, other), other));
}
situ_tensor *situ_fmin(situ_tensor *input, situ_tensor *other) {
  SITU__MADE_OF_OPS("fmin");
  if (!are_two("fmin", input, other, 0)) return NULL;
  return situ_where(situ_isnan(other), input, situ_minimum(unless_nan(input, other), other));
}

situ_tensor *situ_float_power(situ_tensor *input, situ_tensor *other) {
  SITU__MADE_OF_OPS("float_power");
  return are_two("float_power", input, other, 0)
             ? situ_pow(situ_to_dtype(input, SITU_F64), situ_to_dtype(other, SITU_F64))
             : NULL;
}
situ_tensor *situ_ldexp(situ_tensor *input, situ_tensor *other) {
  SITU__MADE_OF_OPS("ldexp");
  if (!are_two("ldexp", input, other, 0)) return NULL;
  const situ_dtype dtype = (situ_dtype)input->view.dtype;
  if (!situ_dtype_is_floating((situ_dtype)other->view.dtype))
    other = situ_to_dtype(other, situ_dtype_is_floating(dtype) ? dtype : SITU_F32);
  return situ_mul(input, situ_scalar_pow(2, other));
}

/* Without a gradient, as in torch. */
situ_tensor *situ_heaviside(situ_tensor *input, situ_tensor *values) {
  SITU__MADE_OF_OPS("heaviside");
  static const situ_op schema = { .name = "heaviside", .operand = { { "input", SITU_SAME }, { "values", SITU_SAME } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, values }, 2)) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *step = situ_to_dtype(situ_gt_scalar(input, 0), (situ_dtype)input->view.dtype);
  return situ_scope_return(&s, situ_where(situ_eq_scalar(input, 0), values, step));
}

situ_tensor *situ_clamp_tensor(situ_tensor *input, situ_tensor *min, situ_tensor *max) {
  SITU__MADE_OF_OPS("clamp_tensor");
  static const situ_op schema = { .name = "clamp_tensor",
                                  .operand = { { "input", 0 }, { "min", SITU_OPTIONAL }, { "max", SITU_OPTIONAL } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, min, max }, 3)) return NULL;
  if (!min && !max)
    return situ__fail(SITU_E_ARG, "clamp_tensor", "min and max are NULL; at least one of them must be a tensor"), NULL;
  if (min) input = situ_maximum(input, min);
  return max ? situ_minimum(input, max) : input;
}
