/* Element-wise functions of one tensor that consist of other ops.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

situ_tensor *situ_frac(situ_tensor *input) {
  SITU__MADE_OF_OPS("frac");
  static const situ_op schema = { .name = "frac", .operand = { { "input", SITU_FLOATING } } };
  return situ__together(&schema, &input, 1) ? situ_sub(input, situ_trunc(input)) : NULL;
}

situ_tensor *situ_isfinite(situ_tensor *input) {
  SITU__MADE_OF_OPS("isfinite");
  return situ_logical_not(situ_logical_or(situ_isnan(input), situ_isinf(input)));
}
situ_tensor *situ_isposinf(situ_tensor *input) {
  SITU__MADE_OF_OPS("isposinf");
  return situ_eq_scalar(input, INFINITY);
}
situ_tensor *situ_isneginf(situ_tensor *input) {
  SITU__MADE_OF_OPS("isneginf");
  return situ_eq_scalar(input, -INFINITY);
}

situ_tensor *situ_signbit(situ_tensor *input) {
  SITU__MADE_OF_OPS("signbit");
  if (!situ__need("signbit", "input", input)) return NULL;
  if (!situ_dtype_is_floating((situ_dtype)input->view.dtype)) return situ_lt_scalar(input, 0);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *one = situ_ones(
      SITU_SCALAR, &(situ_options){ .dtype = (situ_dtype)input->view.dtype, .device = situ_device_of(input) });
  return situ_scope_return(&s, situ_lt_scalar(situ_copysign(one, input), 0));
}

#define DEGREE 0.017453292519943295769
situ_tensor *situ_deg2rad(situ_tensor *input) {
  SITU__MADE_OF_OPS("deg2rad");
  return situ__need("deg2rad", "input", input) ? situ_mul_scalar(situ__floating(input), DEGREE) : NULL;
}
situ_tensor *situ_rad2deg(situ_tensor *input) {
  SITU__MADE_OF_OPS("rad2deg");
  return situ__need("rad2deg", "input", input) ? situ_mul_scalar(situ__floating(input), 1 / DEGREE) : NULL;
}

/* 16 bits are computed in f32, and rounded once. */
situ_tensor *situ_round_decimals(situ_tensor *input, int decimals) {
  SITU__MADE_OF_OPS("round_decimals");
  static const situ_op schema = { .name = "round_decimals", .operand = { { "input", SITU_FLOATING } } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  const situ_dtype dtype = (situ_dtype)input->view.dtype;
  const double power = pow(10, fabs((double)decimals));
  if (dtype == SITU_F16 || dtype == SITU_BF16) input = situ_to_dtype(input, SITU_F32);
  input = decimals < 0 ? situ_mul_scalar(situ_round(situ_div_scalar(input, power)), power)
                       : situ_div_scalar(situ_round(situ_mul_scalar(input, power)), power);
  return situ_to_dtype(input, dtype);
}

situ_tensor *situ_special_ndtr(situ_tensor *input) {
  SITU__MADE_OF_OPS("special_ndtr");
  if (!situ__need("special_ndtr", "input", input)) return NULL;
  return situ_mul_scalar(situ_erfc(situ_mul_scalar(situ__floating(input), -0.70710678118654752440)), 0.5);
}

/* The sum of log gamma(input - j / 2), j < p, and p (p - 1) / 4 log pi. */
situ_tensor *situ_mvlgamma(situ_tensor *input, int p) {
  SITU__MADE_OF_OPS("mvlgamma");
  enum { MOST = 1 << 20 };
  static const situ_op schema = { .name = "mvlgamma", .operand = { { "input", SITU_FLOATING | SITU_INTEGRAL } } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  if (p < 1 || p > MOST) return situ__fail(SITU_E_ARG, "mvlgamma", "p is %d, must be 1 to %d", p, MOST), NULL;
  if (!(input = situ__floating(input))) return NULL;
  const situ_options like = { .dtype = situ_dtype_of(input), .device = situ_device_of(input) };
  situ_tensor *less = situ_arange(-(p - 1) / 2.0, 0.25, 0.5, &like);
  situ_tensor *sum =
      situ_sum(situ_lgamma(situ_add(situ_unsqueeze(input, -1), less)), &(situ_reduce_options){ .dim = SITU_DIMS(-1) });
  return situ_add_scalar(sum, (double)p * (p - 1) / 4 * 1.14472988584940017414);
}
