/* Functions of a tensor and a host number, which are rows of kernels/unary.h: an integer keeps an integer dtype, any
   other number gives f32.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

#define ROW(id) situ__unary_row(SITU_UNARY_##id)

static situ_tensor *scalar(const situ_op *op, situ_tensor *x, double value) {
  if (!situ__need(op->name, "input", x)) return NULL;
  /* the op refuses bool; run it, so that it does */
  if (x->view.dtype == SITU_BOOL && op->operand[0].accept) return situ__run_unary(op, x, value, 0, 0);
  if (!situ_dtype_is_floating((situ_dtype)x->view.dtype) && !situ__is_integer(value)) x = situ_to_dtype(x, SITU_F32);
  else if (x->view.dtype == SITU_BOOL && situ__unary_keeps(op)) x = situ_to_dtype(x, SITU_I64);
  return situ__run_unary(op, x, value, 0, 0);
}

#define SCALAR(id) \
  situ_tensor *situ_##id(situ_tensor *input, double other) { return scalar(ROW(id), input, other); }
/* clang-format off */
SCALAR(add_scalar) SCALAR(rsub_scalar) SCALAR(mul_scalar) SCALAR(div_scalar)
SCALAR(eq_scalar) SCALAR(ne_scalar) SCALAR(lt_scalar) SCALAR(le_scalar) SCALAR(gt_scalar) SCALAR(ge_scalar)
/* clang-format on */

/* Integers have no x mod 0; reported here rather than by a kernel that may run later. */
static bool has_remainder(const char *op, const situ_tensor *x, double value) {
  if (!situ__need(op, "input", x)) return false;
  if (value != 0 || situ_dtype_is_floating((situ_dtype)x->view.dtype)) return true;
  return situ__fail(SITU_E_ARG, op, "division by zero"), false;
}
situ_tensor *situ_fmod_scalar(situ_tensor *input, double other) {
  return has_remainder("fmod_scalar", input, other) ? scalar(ROW(fmod_scalar), input, other) : NULL;
}
situ_tensor *situ_remainder_scalar(situ_tensor *input, double other) {
  return has_remainder("remainder_scalar", input, other) ? scalar(ROW(remainder_scalar), input, other) : NULL;
}

/* A negative power of an integer is a fraction, which its dtype cannot hold; torch refuses it, too. */
static bool has_power(const situ_tensor *x, double exponent) {
  if (!situ__need("pow_scalar", "input", x)) return false;
  if (situ_dtype_is_floating((situ_dtype)x->view.dtype) || exponent >= 0 || exponent != trunc(exponent)) return true;
  return situ__fail(SITU_E_ARG, "pow_scalar", "a negative power (%g) of whole numbers; cast them to a floating dtype",
                    exponent),
         false;
}
situ_tensor *situ_pow_scalar(situ_tensor *input, double exponent) {
  return has_power(input, exponent) ? scalar(ROW(pow_scalar), input, exponent) : NULL;
}
/* The number to add instead of subtracting `value`. The negative of -2^63 is not an i64, but integers wrap: adding it
   is the same. */
static double negated(const situ_tensor *x, double value) {
  return value == -0x1p63 && situ_dtype_is_integer((situ_dtype)x->view.dtype) ? value : -value;
}
situ_tensor *situ_sub_scalar(situ_tensor *input, double other) {
  SITU__MADE_OF_OPS("sub_scalar");
  if (!situ__need("sub_scalar", "input", input)) return NULL;
  if (input->view.dtype != SITU_BOOL) return scalar(ROW(add_scalar), input, negated(input, other));
  return situ__fail(SITU_E_DTYPE, "sub_scalar",
                    "input is bool, must be a floating or integer dtype; use the logical functions, or cast it"),
         NULL;
}
situ_tensor *situ_scalar_pow(double base, situ_tensor *exponent) { return scalar(ROW(scalar_pow), exponent, base); }

/* In place the dtype is kept, so bool, whose arithmetic gives integers, is refused, as is a number that the dtype
   cannot hold. */
static situ_tensor *scalar_(const situ_op *op, situ_tensor *x, double value) {
  SITU__IN_PLACE_AS(op->name);
  if (!situ__need(op->name, "input", x) || !situ__unary_holds(op, x)) return NULL;
  if (!situ_dtype_is_floating((situ_dtype)x->view.dtype) && !situ__is_integer(value))
    return situ__fail(SITU_E_DTYPE, op->name, "%g cannot be combined in place with a tensor of %s", value,
                      situ_dtype_name((situ_dtype)x->view.dtype)),
           NULL;
  return situ__run_unary_(op, x, value, 0, 0);
}

situ_tensor *situ_add_scalar_(situ_tensor *input, double other) { return scalar_(ROW(add_scalar), input, other); }
situ_tensor *situ_sub_scalar_(situ_tensor *input, double other) {
  SITU__MADE_OF_OPS("sub_scalar_");
  if (!situ__need("sub_scalar_", "input", input)) return NULL;
  return scalar_(ROW(add_scalar), input, negated(input, other));
}
situ_tensor *situ_mul_scalar_(situ_tensor *input, double other) { return scalar_(ROW(mul_scalar), input, other); }
situ_tensor *situ_div_scalar_(situ_tensor *input, double other) { return scalar_(ROW(div_scalar), input, other); }
situ_tensor *situ_pow_scalar_(situ_tensor *input, double exponent) {
  SITU__IN_PLACE_AS("pow_scalar");
  return has_power(input, exponent) ? scalar_(ROW(pow_scalar), input, exponent) : NULL;
}
