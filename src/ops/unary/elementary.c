/* Element-wise functions of one tensor that consist of other ops.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

situ_tensor *situ_frac(situ_tensor *x) {
  SITU__MADE_OF_OPS("frac");
  static const situ_op schema = { .name = "frac", .operand = { { "input", SITU_FLOATING } } };
  return situ__together(&schema, &x, 1) ? situ_sub(x, situ_trunc(x)) : NULL;
}

situ_tensor *situ_isfinite(situ_tensor *x) {
  SITU__MADE_OF_OPS("isfinite");
  return situ_logical_not(situ_logical_or(situ_isnan(x), situ_isinf(x)));
}
situ_tensor *situ_isposinf(situ_tensor *x) {
  SITU__MADE_OF_OPS("isposinf");
  return situ_eq_scalar(x, INFINITY);
}
situ_tensor *situ_isneginf(situ_tensor *x) {
  SITU__MADE_OF_OPS("isneginf");
  return situ_eq_scalar(x, -INFINITY);
}

situ_tensor *situ_signbit(situ_tensor *x) {
  SITU__MADE_OF_OPS("signbit");
  if (!situ__need("signbit", "input", x)) return NULL;
  if (!situ_dtype_is_floating((situ_dtype)x->view.dtype)) return situ_lt_scalar(x, 0);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *one =
      situ_ones(SITU_SCALAR, &(situ_options){ .dtype = (situ_dtype)x->view.dtype, .device = situ_device_of(x) });
  return situ_scope_return(&s, situ_lt_scalar(situ_copysign(one, x), 0));
}

#define DEGREE 0.017453292519943295769
situ_tensor *situ_deg2rad(situ_tensor *x) {
  SITU__MADE_OF_OPS("deg2rad");
  return situ__need("deg2rad", "input", x) ? situ_mul_scalar(situ__floating(x), DEGREE) : NULL;
}
situ_tensor *situ_rad2deg(situ_tensor *x) {
  SITU__MADE_OF_OPS("rad2deg");
  return situ__need("rad2deg", "input", x) ? situ_mul_scalar(situ__floating(x), 1 / DEGREE) : NULL;
}

/* 16 bits are computed in f32, and rounded once. */
situ_tensor *situ_round_decimals(situ_tensor *x, int decimals) {
  SITU__MADE_OF_OPS("round_decimals");
  static const situ_op schema = { .name = "round_decimals", .operand = { { "input", SITU_FLOATING } } };
  if (!situ__together(&schema, &x, 1)) return NULL;
  const situ_dtype dtype = (situ_dtype)x->view.dtype;
  const double power = pow(10, fabs((double)decimals));
  if (dtype == SITU_F16 || dtype == SITU_BF16) x = situ_to_dtype(x, SITU_F32);
  x = decimals < 0 ? situ_mul_scalar(situ_round(situ_div_scalar(x, power)), power)
                   : situ_div_scalar(situ_round(situ_mul_scalar(x, power)), power);
  return situ_to_dtype(x, dtype);
}

situ_tensor *situ_special_ndtr(situ_tensor *x) {
  SITU__MADE_OF_OPS("special_ndtr");
  if (!situ__need("special_ndtr", "input", x)) return NULL;
  return situ_mul_scalar(situ_erfc(situ_mul_scalar(situ__floating(x), -0.70710678118654752440)), 0.5);
}

/* The sum of log gamma(x - j / 2), j < p, and p (p - 1) / 4 log pi. */
situ_tensor *situ_mvlgamma(situ_tensor *x, int p) {
  SITU__MADE_OF_OPS("mvlgamma");
  enum { MOST = 1 << 20 };
  static const situ_op schema = { .name = "mvlgamma", .operand = { { "input", SITU_FLOATING | SITU_INTEGRAL } } };
  if (!situ__together(&schema, &x, 1)) return NULL;
  if (p < 1 || p > MOST) return situ__fail(SITU_E_ARG, "mvlgamma", "p is %d, must be 1 to %d", p, MOST), NULL;
  if (!(x = situ__floating(x))) return NULL;
  const situ_options like = { .dtype = situ_dtype_of(x), .device = situ_device_of(x) };
  situ_tensor *less = situ_arange(-(p - 1) / 2.0, 0.25, 0.5, &like);
  situ_tensor *sum =
      situ_sum(situ_lgamma(situ_add(situ_unsqueeze(x, -1), less)), &(situ_reduce_options){ .dim = SITU_DIMS(-1) });
  return situ_add_scalar(sum, (double)p * (p - 1) / 4 * 1.14472988584940017414);
}
