/* ATen's element-wise ops beyond arithmetic: special functions, bits, and those of real numbers that are of complex
   ones as well.
   SPDX-License-Identifier: MIT */
#include "program/graph/program.h"
#include "program/graph/rows.h"

static situ_tensor *other_of(const situ__op_call *c, int k, situ_tensor *like) {
  return situ__arg_is_tensor(c, k) ? situ__arg_tensor(c, k) : situ__arg_scalar(c, k, like);
}
typedef situ_tensor *binary(situ_tensor *, situ_tensor *);
static situ_tensor *apply(situ__op_call *c, binary *fn) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  return fn(x, other_of(c, 1, x));
}
static situ_tensor *run_left_shift(situ__op_call *c) { return apply(c, situ_bitwise_left_shift); }
static situ_tensor *run_right_shift(situ__op_call *c) { return apply(c, situ_bitwise_right_shift); }
static situ_tensor *run_and(situ__op_call *c) { return apply(c, situ_bitwise_and); }
static situ_tensor *run_or(situ__op_call *c) { return apply(c, situ_bitwise_or); }
static situ_tensor *run_xor(situ__op_call *c) { return apply(c, situ_bitwise_xor); }
static situ_tensor *run_copysign(situ__op_call *c) { return apply(c, situ_copysign); }
static situ_tensor *run_xlogy(situ__op_call *c) { return apply(c, situ_xlogy); }
/* In f64, by which alone torch computes it. */
static situ_tensor *run_float_power(situ__op_call *c) {
  situ_tensor *x = situ_to_dtype(situ__arg_tensor(c, 0), SITU_F64);
  return situ_float_power(x, other_of(c, 1, x));
}

static situ_tensor *run_mvlgamma(situ__op_call *c) {
  return situ_mvlgamma(situ__arg_tensor(c, 0), situ__arg_dim(c, 1));
}
static situ_tensor *run_polygamma(situ__op_call *c) {
  return situ_polygamma(situ__arg_int(c, 0), situ__arg_tensor(c, 1));
}
static situ_tensor *run_round(situ__op_call *c) {
  return situ_round_decimals(situ__arg_tensor(c, 0), situ__arg_dim(c, 1));
}
static situ_tensor *run_lerp(situ__op_call *c) {
  return situ_lerp(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2));
}
static situ_tensor *run_isclose(situ__op_call *c) {
  return situ_isclose(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_number(c, 2), situ__arg_number(c, 3),
                      situ__arg_flag(c, 4));
}
/* In eval mode the slope is the middle one. */
static situ_tensor *run_rrelu(situ__op_call *c) {
  if (situ__arg_flag(c, 3) && situ__call_trains(c))
    return situ__call_refuse(c, "draws its slopes in training, which situ lacks");
  return situ_leaky_relu(situ__arg_tensor(c, 0), (situ__arg_number(c, 1) + situ__arg_number(c, 2)) / 2);
}
static situ_tensor *run_fill(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_tensor *value = situ__arg_is_tensor(c, 1) ? situ__arg_tensor(c, 1) : NULL;
  if (!value && !situ__arg_is_wide(c, 1)) return situ_full_like(x, situ__arg_element(c, 1, situ_dtype_of(x)), NULL);
  if (!value) value = situ__arg_scalar(c, 1, x);
  return situ_clone(situ_expand(situ_to_dtype(value, situ_dtype_of(x)), situ_shape_of(x)));
}
static situ_tensor *run_glu(situ__op_call *c) { return situ_glu(situ__arg_tensor(c, 0), situ__arg_dim(c, 1)); }

/* ---- of complex numbers, for real ones ---- */

static situ_tensor *same(situ_tensor *x) { return x; }
static situ_tensor *all_real(situ_tensor *x) { return situ_full_like(x, 1, &(situ_options){ .dtype = SITU_BOOL }); }
/* 0, or pi below 0. */
static situ_tensor *angle(situ_tensor *x) {
  const bool real = situ_dtype_is_floating(situ_dtype_of(x));
  situ_tensor *y = real ? x : situ_to_dtype(x, SITU_F32);
  situ_tensor *turned =
      situ_where(situ_lt_scalar(y, 0), situ_full_like(y, 3.14159265358979323846, NULL), situ_zeros_like(y, NULL));
  return situ_where(situ_isnan(y), y, turned);
}

static const situ__op_row rows[] = {
  UNARY(deg2rad),
  UNARY(digamma),
  UNARY(erfinv),
  UNARY(frac),
  UNARY(i0),
  UNARY(isneginf),
  UNARY(isposinf),
  UNARY(lgamma),
  UNARY(rad2deg),
  UNARY(signbit),
  UNARY(sinc),
  UNARY(special_entr),
  UNARY(special_ndtr),
  { "sgn.default", "t self", .unary = situ_sign },
  { "angle.default", "t self", .unary = angle },
  { "positive.default", "t self", .unary = same },
  { "real.default", "t self", .unary = same },
  { "conj.default", "t self", .unary = same },
  { "conj_physical.default", "t self", .unary = same },
  { "resolve_conj.default", "t self", .unary = same },
  { "resolve_neg.default", "t self", .unary = same },
  { "isreal.default", "t self", .unary = all_real },

  { "clamp_max.Tensor", "t self, t max", .binary = situ_minimum },
  { "clamp_min.Tensor", "t self, t min", .binary = situ_maximum },
  PAIR("fmax.default", situ_fmax),
  PAIR("fmin.default", situ_fmin),
  PAIR("gcd.default", situ_gcd),
  { "heaviside.default", "t self, t values", .binary = situ_heaviside },
  PAIR("hypot.default", situ_hypot),
  PAIR("lcm.default", situ_lcm),
  PAIR("ldexp.Tensor", situ_ldexp),
  PAIR("logaddexp.default", situ_logaddexp),
  PAIR("logaddexp2.default", situ_logaddexp2),
  PAIR("nextafter.default", situ_nextafter),
  PAIR("special_xlog1py.default", situ_special_xlog1py),
  PAIR("xlogy.default", situ_xlogy),
  { "xlogy.Tensor", "t self, t other", .run = run_xlogy },
  { "special_xlogy.other_scalar", "t self, n other", .run = run_xlogy },
  { "special_xlogy.self_scalar", "n self, t other", .binary = situ_xlogy },
  { "xlogy.Scalar_Self", "n self, t other", .binary = situ_xlogy },
  { "xlogy.Scalar_Other", "t self, n other", .run = run_xlogy },
  { "copysign.Tensor", "t self, t other", .run = run_copysign },
  { "copysign.Scalar", "t self, n other", .run = run_copysign },
  { "float_power.Tensor_Tensor", "t self, t exponent", .run = run_float_power },
  { "float_power.Tensor_Scalar", "t self, n exponent", .run = run_float_power },
  { "bitwise_left_shift.Tensor", "t self, x other", .run = run_left_shift },
  { "bitwise_left_shift.Scalar_Tensor", "n self, t other", .binary = situ_bitwise_left_shift },
  { "bitwise_right_shift.Scalar_Tensor", "n self, t other", .binary = situ_bitwise_right_shift },
  { "bitwise_left_shift.Tensor_Scalar", "t self, n other", .run = run_left_shift },
  { "bitwise_right_shift.Tensor", "t self, x other", .run = run_right_shift },
  { "bitwise_right_shift.Tensor_Scalar", "t self, n other", .run = run_right_shift },
  { "__lshift__.Tensor", "t self, t other", .run = run_left_shift },
  { "__lshift__.Scalar", "t self, n other", .run = run_left_shift },
  { "__rshift__.Tensor", "t self, t other", .run = run_right_shift },
  { "__rshift__.Scalar", "t self, n other", .run = run_right_shift },
  { "__and__.Scalar", "t self, n other", .run = run_and },
  { "__or__.Scalar", "t self, n other", .run = run_or },
  { "__xor__.Scalar", "t self, n other", .run = run_xor },
  { "bitwise_and.Scalar", "t self, n other", .run = run_and },
  { "bitwise_or.Scalar", "t self, n other", .run = run_or },
  { "bitwise_xor.Scalar", "t self, n other", .run = run_xor },

  { "mvlgamma.default", "t self, i p", .run = run_mvlgamma },
  { "polygamma.default", "i n, t self", .run = run_polygamma },
  { "round.decimals", "t self, *i decimals", .run = run_round },
  { "lerp.Tensor", "t self, t end, t weight", .run = run_lerp },
  { "isclose.default", "t self, t other, n rtol=1e-05, n atol=1e-08, b equal_nan=0", .run = run_isclose },
  { "rrelu.default", "t self, n lower=0.125, n upper=0.3333333333333333, b training=0, _ generator", .run = run_rrelu },
  { "fill.Scalar", "t self, n value", .run = run_fill },
  { "fill.Tensor", "t self, t value", .run = run_fill },
  { "glu.default", "t self, i dim=-1", .run = run_glu },
};
const situ__op_family situ__special_family = { rows, sizeof rows / sizeof *rows };
