/* ATen's element-wise ops, comparisons and casts.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "program/graph/program.h"
#include "program/graph/rows.h"
#include "situ/autograd.h"

/* ---- arithmetic ---- */

/* alpha * other, where other is a number. */
static bool wraps_times(const situ__op_call *c, int64_t *out) {
  for (int k = 1; k < 3; k++)
    if (!situ__arg_is_integer(c, k)) return false;
  *out = (int64_t)((uint64_t)situ__arg_int(c, 1) * (uint64_t)situ__arg_int(c, 2));
  return true;
}
static situ_tensor *add_number(situ__op_call *c, situ_tensor *x, double sign) {
  int64_t integer;
  if (situ__arg_is_bool(c, 1) && situ_dtype_of(x) == SITU_BOOL && sign > 0)
    return situ_add(x, situ__arg_scalar(c, 1, x));
  if (!wraps_times(c, &integer)) {
    x = situ__arg_operand(c, 0, situ__arg_is_integer(c, 1) ? 2 : 1);
    return situ_add_scalar(x, sign * (situ__arg_number(c, 2) * situ__arg_number(c, 1)));
  }
  const situ__arg product = { .kind = SITU__ARG_INT, .integer = integer };
  const situ__op_call of = { .node = c->node, .arg = &product };
  if (!situ__arg_is_wide(&of, 0)) return situ_add_scalar(x, sign * (double)integer);
  return (sign < 0 ? situ_sub : situ_add)(x, situ__arg_scalar(&of, 0, x));
}

/* The first argument, which may be a number if the second is a tensor. */
static situ_tensor *first_of(situ__op_call *c) {
  return c->self || situ__arg_is_tensor(c, 0) ? situ__arg_tensor(c, 0) : situ__arg_scalar(c, 0, situ__arg_tensor(c, 1));
}

static situ_tensor *run_add(situ__op_call *c) {
  if (!situ__arg_is_tensor(c, 1)) return add_number(c, situ__arg_tensor(c, 0), 1);
  situ_tensor *x = first_of(c);
  const double alpha = situ__arg_number(c, 2);
  return alpha == 1 ? situ_add(x, situ__arg_tensor(c, 1)) : situ_add_alpha(x, situ__arg_tensor(c, 1), alpha);
}

static situ_tensor *run_sub(situ__op_call *c) {
  if (!situ__arg_is_tensor(c, 1)) return add_number(c, situ__arg_tensor(c, 0), -1);
  const double alpha = situ__arg_number(c, 2);
  situ_tensor *x = first_of(c), *y = situ__arg_tensor(c, 1);
  return alpha == 1 ? situ_sub(x, y) : situ_sub_alpha(x, y, alpha);
}

static situ_tensor *run_add_(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  int64_t integer;
  if (!situ__arg_is_tensor(c, 1)) {
    if (!wraps_times(c, &integer)) return situ_add_scalar_(x, situ__arg_number(c, 2) * situ__arg_number(c, 1));
    situ_tensor *y = add_number(c, x, 1);
    return y ? situ_copy_(x, y) : NULL;
  }
  const double alpha = situ__arg_number(c, 2);
  return alpha == 1 ? situ_add_(x, situ__arg_tensor(c, 1)) : situ_add_alpha_(x, situ__arg_tensor(c, 1), alpha);
}

/* other - alpha * self */
static situ_tensor *run_rsub(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const double alpha = situ__arg_number(c, 2);
  if (situ__arg_is_tensor(c, 1)) return situ_sub_alpha(situ__arg_tensor(c, 1), x, alpha);
  if (alpha == 1 && !situ__arg_is_wide(c, 1))
    return situ_rsub_scalar(situ__arg_operand(c, 0, 1), situ__arg_number(c, 1));
  return situ_sub_alpha(situ__arg_scalar(c, 1, x), x, alpha);
}

/* Of the number that torch converts to the tensor's dtype before it computes: -3 is 253 beside u8. */
typedef situ_tensor *binary(situ_tensor *, situ_tensor *);
static situ_tensor *apply(situ__op_call *c, binary *fn) {
  situ_tensor *x = first_of(c);
  return fn(x, situ__arg_is_tensor(c, 1) ? situ__arg_tensor(c, 1) : situ__arg_scalar(c, 1, x));
}
static situ_tensor *run_fmod(situ__op_call *c) { return apply(c, situ_fmod); }
static situ_tensor *run_remainder(situ__op_call *c) { return apply(c, situ_remainder); }

static situ_tensor *run_scalar_pow(situ__op_call *c) {
  situ_tensor *exponent = situ__arg_operand(c, 1, 0);
  if (situ__arg_is_wide(c, 0)) return situ_pow(situ__arg_scalar(c, 0, exponent), exponent);
  return situ_scalar_pow(situ__arg_number(c, 0), exponent);
}

static situ_tensor *run_div_mode(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_tensor *y = situ__arg_is_tensor(c, 1) ? situ__arg_tensor(c, 1) : situ__arg_scalar(c, 1, x);
  const char *mode = situ__arg_text(c, 2);
  return situ_div_mode(x, y, *mode == 'f' ? SITU_ROUND_FLOOR : *mode == 't' ? SITU_ROUND_TRUNC : SITU_ROUND_NONE);
}

static situ_tensor *run_floor_divide(situ__op_call *c) { return apply(c, situ_floor_divide); }

/* Bounds beyond 2^53, which are tensors. */
static situ_tensor *clamp_wide(situ__op_call *c, int least, int most) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  return situ_clamp_tensor(x, least && situ__arg_given(c, least) ? situ__arg_scalar(c, least, x) : NULL,
                           most && situ__arg_given(c, most) ? situ__arg_scalar(c, most, x) : NULL);
}
static situ_tensor *clamp(situ__op_call *c, int least, int most) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  double bound[2] = { -INFINITY, INFINITY };
  const int at[2] = { least, most };
  for (int i = 0; i < 2; i++) {
    if (!at[i] || !situ__arg_given(c, at[i])) continue;
    if (situ__arg_is_wide(c, at[i])) return clamp_wide(c, least, most);
    bound[i] = situ__arg_number(c, at[i]);
    x = situ_dtype_is_floating(situ_dtype_of(x)) ? x : situ__arg_operand(c, 0, at[i]);
  }
  return situ_clamp(x, bound[0], bound[1]);
}
static situ_tensor *run_clamp(situ__op_call *c) { return clamp(c, 1, 2); }
static situ_tensor *run_clamp_max(situ__op_call *c) { return clamp(c, 0, 1); }
static situ_tensor *run_clamp_min(situ__op_call *c) { return clamp(c, 1, 0); }
static situ_tensor *run_clamp_tensor(situ__op_call *c) {
  return situ_clamp_tensor(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2));
}

static situ_tensor *run_lerp(situ__op_call *c) {
  return situ_lerp_scalar(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_number(c, 2));
}
static situ_tensor *run_addcmul(situ__op_call *c) {
  return situ_addcmul(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), situ__arg_number(c, 3));
}
static situ_tensor *run_addcdiv(situ__op_call *c) {
  return situ_addcdiv(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), situ__arg_number(c, 3));
}

/* ---- activations with numbers ---- */

static situ_tensor *run_hardtanh(situ__op_call *c) {
  return situ_hardtanh(situ__arg_tensor(c, 0), situ__arg_number(c, 1), situ__arg_number(c, 2));
}
static situ_tensor *run_hardtanh_(situ__op_call *c) {
  return situ_hardtanh_(situ__arg_tensor(c, 0), situ__arg_number(c, 1), situ__arg_number(c, 2));
}
static situ_tensor *run_softplus(situ__op_call *c) {
  return situ_softplus(situ__arg_tensor(c, 0), situ__arg_number(c, 1), situ__arg_number(c, 2));
}
/* With x's layout, as in torch: of it depends whether a later reshape is a view. */
static situ_tensor *run_threshold(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_options o = { .dtype = situ_dtype_of(x), .device = situ_device_of(x) };
  return situ_where(situ_le_scalar(x, situ__arg_number(c, 1)), situ_full(SITU_SCALAR, situ__arg_number(c, 2), &o), x);
}
static situ_tensor *run_gelu(situ__op_call *c) {
  return situ_gelu(situ__arg_tensor(c, 0), *situ__arg_text(c, 1) == 't' ? SITU_GELU_TANH : SITU_GELU_NONE);
}
static situ_tensor *run_elu(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const double alpha = situ__arg_number(c, 1), scale = situ__arg_number(c, 2), each = situ__arg_number(c, 3);
  if (scale == 1 && each == 1) return situ_elu(x, alpha);
  situ_tensor *below = situ_expm1(situ_mul_scalar(situ_clamp(x, -INFINITY, 0), each));
  return situ_where(situ_gt_scalar(x, 0), situ_mul_scalar(x, scale), situ_mul_scalar(below, alpha * scale));
}
static situ_tensor *run_logit(situ__op_call *c) {
  return situ_logit(situ__arg_tensor(c, 0), situ__arg_given(c, 1) ? situ__arg_number(c, 1) : 0);
}
static situ_tensor *run_nan_to_num(situ__op_call *c) {
  const double high = situ__arg_given(c, 2) ? situ__arg_number(c, 2) : 0;
  const double low = situ__arg_given(c, 3) ? situ__arg_number(c, 3) : 0;
  return situ_nan_to_num(situ__arg_tensor(c, 0),
                         &(situ_nan_to_num_options){ .nan = situ__arg_given(c, 1) ? situ__arg_number(c, 1) : 0,
                                                     .posinf = situ__arg_given(c, 2) ? &high : NULL,
                                                     .neginf = situ__arg_given(c, 3) ? &low : NULL });
}

/* ---- choices ---- */

/* The dtype of two numbers as torch's. */
static situ_dtype dtype_of_numbers(const situ__op_call *c, int a, int b) {
  if (!situ__arg_is_integer(c, a) || !situ__arg_is_integer(c, b)) return situ__call_real(c);
  return situ__arg_is_bool(c, a) && situ__arg_is_bool(c, b) ? SITU_BOOL : SITU_I64;
}
static situ_tensor *run_where(situ__op_call *c) {
  situ_tensor *condition = situ__arg_tensor(c, 0), *t[2] = { NULL, NULL };
  for (int i = 0; i < 2; i++)
    if (situ__arg_is_tensor(c, i + 1)) t[i] = situ__arg_tensor(c, i + 1);
  situ_tensor *like = t[0] ? t[0] : t[1];
  if (!like)
    like = situ_empty(SITU_SCALAR,
                      &(situ_options){ .dtype = dtype_of_numbers(c, 1, 2), .device = situ_device_of(condition) });
  for (int i = 0; i < 2 && like; i++)
    if (!t[i]) t[i] = situ__arg_scalar(c, i + 1, like);
  return situ_where(condition, t[0], t[1]);
}

/* The number at k for the elements of x. */
static situ_tensor *element(situ__op_call *c, int k, situ_tensor *x) {
  const situ_dtype dtype = situ_dtype_of(x);
  if (situ__arg_is_wide(c, k)) return situ__arg_scalar(c, k, x);
  return situ_full(SITU_SCALAR, situ__arg_element(c, k, dtype),
                   &(situ_options){ .dtype = dtype, .device = situ_device_of(x) });
}

static situ_tensor *run_masked_fill(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *mask = situ__arg_tensor(c, 1);
  if (!situ__arg_is_tensor(c, 2)) {
    if (situ__arg_is_wide(c, 2)) return situ_where(mask, element(c, 2, x), x);
    return situ_masked_fill(x, mask, situ__arg_element(c, 2, situ_dtype_of(x)));
  }
  return situ_where(mask, situ_to_dtype(situ__arg_tensor(c, 2), situ_dtype_of(x)), x);
}

static situ_tensor *run_fill_(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  if (!situ__arg_is_wide(c, 1)) return situ_fill_(x, situ__arg_element(c, 1, situ_dtype_of(x)));
  return situ_copy_(x, situ_expand(element(c, 1, x), situ_shape_of(x)));
}

static situ_tensor *run_copy_(situ__op_call *c) {
  return situ__arg_is_tensor(c, 1) ? situ_copy_(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1)) : run_fill_(c);
}

/* ---- copies and casts; devices are the module's, whatever the file says ---- */

static situ_tensor *run_to(situ__op_call *c) {
  const situ_dtype dtype = situ__arg_dtype(c, 1);
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_tensor *y = dtype ? situ_to_dtype(x, dtype) : x;
  return y == x && situ__arg_flag(c, 2) ? situ_clone(x) : y;
}
static situ_tensor *run_to_copy(situ__op_call *c) {
  const situ_dtype dtype = situ__arg_dtype(c, 1);
  situ_tensor *x = situ__arg_tensor(c, 0);
  return dtype && dtype != situ_dtype_of(x) ? situ_to_dtype(x, dtype) : situ_clone(x);
}
static situ_tensor *run_type_as(situ__op_call *c) {
  return situ_to_dtype(situ__arg_tensor(c, 0), situ_dtype_of(situ__arg_tensor(c, 1)));
}
static situ_tensor *run_copy(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *src = situ__arg_tensor(c, 1);
  return situ_clone(situ_expand(situ_to_dtype(src, situ_dtype_of(x)), situ_shape_of(x)));
}
static situ_tensor *same(situ_tensor *x) { return x; }
static situ_tensor *detach(situ_tensor *x) { return situ_detach(x); }

#define WRITES(name) \
  { #name "_.default", "t self", .unary = situ_##name, .in_place = true }
#define WITH_SCALAR(name, function) \
  { name, "x self, x other", .binary = function, .scalar = function##_scalar }

static const situ__op_row rows[] = {
  UNARY(abs),
  UNARY(acos),
  UNARY(acosh),
  UNARY(asin),
  UNARY(asinh),
  UNARY(atan),
  UNARY(atanh),
  UNARY(bitwise_not),
  UNARY(ceil),
  UNARY(cos),
  UNARY(cosh),
  UNARY(erf),
  UNARY(erfc),
  UNARY(exp),
  UNARY(exp2),
  UNARY(expm1),
  UNARY(floor),
  UNARY(hardsigmoid),
  UNARY(hardswish),
  UNARY(isfinite),
  UNARY(isinf),
  UNARY(isnan),
  UNARY(log),
  UNARY(log10),
  UNARY(log1p),
  UNARY(log2),
  UNARY(logical_not),
  UNARY(mish),
  UNARY(neg),
  UNARY(reciprocal),
  UNARY(relu),
  UNARY(relu6),
  UNARY(round),
  UNARY(rsqrt),
  UNARY(selu),
  UNARY(sigmoid),
  UNARY(sign),
  UNARY(silu),
  UNARY(sin),
  UNARY(sinh),
  UNARY(sqrt),
  UNARY(square),
  UNARY(tan),
  UNARY(tanh),
  UNARY(trunc),
  UNARY(hardswish_),
  UNARY(hardsigmoid_),
  UNARY(relu_),
  UNARY(relu6_),
  UNARY(sigmoid_),
  UNARY(tanh_),
  UNARY(exp_),
  UNARY(neg_),
  UNARY(abs_),
  UNARY(sqrt_),
  UNARY(rsqrt_),
  UNARY(mish_),
  UNARY(selu_),
  WRITES(silu),
  WRITES(log),
  WRITES(sin),
  WRITES(cos),
  WRITES(logical_not),
  { "log_sigmoid.default", "t self", .unary = situ_logsigmoid },

  { "add.Tensor", "x self, x other, *n alpha=1", .run = run_add },
  { "add.Scalar", "t self, n other, n alpha=1", .run = run_add },
  { "add_.Tensor", "t self, x other, *n alpha=1", .run = run_add_ },
  { "sub.Tensor", "x self, x other, *n alpha=1", .run = run_sub },
  { "sub.Scalar", "t self, n other, n alpha=1", .run = run_sub },
  { "sub_.Tensor", "t self, x other, *n alpha=1", .run = run_sub, .in_place = true },
  { "rsub.Scalar", "t self, n other, n alpha=1", .run = run_rsub },
  { "rsub.Tensor", "t self, t other, *n alpha=1", .run = run_rsub },
  WITH_SCALAR("mul.Tensor", situ_mul),
  WITH_SCALAR("mul.Scalar", situ_mul),
  WITH_SCALAR("div.Tensor", situ_div),
  WITH_SCALAR("div.Scalar", situ_div),
  WITH_SCALAR("eq.Tensor", situ_eq),
  WITH_SCALAR("eq.Scalar", situ_eq),
  WITH_SCALAR("ne.Tensor", situ_ne),
  WITH_SCALAR("ne.Scalar", situ_ne),
  WITH_SCALAR("lt.Tensor", situ_lt),
  WITH_SCALAR("lt.Scalar", situ_lt),
  WITH_SCALAR("le.Tensor", situ_le),
  WITH_SCALAR("le.Scalar", situ_le),
  WITH_SCALAR("gt.Tensor", situ_gt),
  WITH_SCALAR("gt.Scalar", situ_gt),
  WITH_SCALAR("ge.Tensor", situ_ge),
  WITH_SCALAR("ge.Scalar", situ_ge),
  { "fmod.Tensor", "t self, x other", .run = run_fmod },
  { "fmod.Scalar", "t self, n other", .run = run_fmod },
  { "remainder.Tensor", "t self, x other", .run = run_remainder },
  { "remainder.Scalar_Tensor", "n self, t other", .run = run_remainder },
  { "remainder.Scalar", "t self, n other", .run = run_remainder },
  { "mul_.Tensor", "t self, x other", .binary = situ_mul_, .scalar = situ_mul_scalar_ },
  { "div_.Tensor", "t self, x other", .binary = situ_div_, .scalar = situ_div_scalar_ },
  { "pow.Tensor_Scalar", "t self, n exponent", .scalar = situ_pow_scalar },
  { "pow.Tensor_Tensor", "t self, t exponent", .binary = situ_pow },
  { "pow_.Tensor", "t self, t exponent", .binary = situ_pow_ },
  { "pow_.Scalar", "t self, n exponent", .scalar = situ_pow_scalar, .in_place = true },
  { "pow.Scalar", "n self, t exponent", .run = run_scalar_pow },
  { "div.Tensor_mode", "t self, x other, *s? rounding_mode", .run = run_div_mode },
  { "floor_divide.default", "x self, x other", .run = run_floor_divide },
  { "floor_divide.Scalar", "t self, n other", .run = run_floor_divide },
  { "floor_divide_.Tensor", "t self, x other", .run = run_floor_divide, .in_place = true },
  PAIR("min.other", situ_minimum),
  PAIR("max.other", situ_maximum),
  PAIR("minimum.default", situ_minimum),
  PAIR("maximum.default", situ_maximum),
  PAIR("atan2.default", situ_atan2),
  PAIR("__and__.Tensor", situ_bitwise_and),
  PAIR("__or__.Tensor", situ_bitwise_or),
  PAIR("__xor__.Tensor", situ_bitwise_xor),
  PAIR("bitwise_and.Tensor", situ_bitwise_and),
  PAIR("bitwise_or.Tensor", situ_bitwise_or),
  PAIR("bitwise_xor.Tensor", situ_bitwise_xor),
  PAIR("logical_and.default", situ_logical_and),
  PAIR("logical_or.default", situ_logical_or),
  PAIR("logical_xor.default", situ_logical_xor),
  { "clamp.default", "t self, n? min, n? max", .run = run_clamp },
  { "clamp_.default", "t self, n? min, n? max", .run = run_clamp, .in_place = true },
  { "clamp.Tensor", "t self, t? min, t? max", .run = run_clamp_tensor },
  { "clamp_min.default", "t self, n min", .run = run_clamp_min },
  { "clamp_max.default", "t self, n max", .run = run_clamp_max },
  { "lerp.Scalar", "t self, t end, n weight", .run = run_lerp },
  { "addcmul.default", "t self, t tensor1, t tensor2, *n value=1", .run = run_addcmul },
  { "addcdiv.default", "t self, t tensor1, t tensor2, *n value=1", .run = run_addcdiv },

  { "leaky_relu.default", "t self, n negative_slope=0.01", .scalar = situ_leaky_relu },
  { "leaky_relu_.default", "t self, n negative_slope=0.01", .scalar = situ_leaky_relu, .in_place = true },
  { "hardtanh.default", "t self, n min_val=-1, n max_val=1", .run = run_hardtanh },
  { "hardtanh_.default", "t self, n min_val=-1, n max_val=1", .run = run_hardtanh_ },
  { "softplus.default", "t self, n beta=1, n threshold=20", .run = run_softplus },
  { "threshold.default", "t self, n threshold, n value", .run = run_threshold },
  { "gelu.default", "t self, *s? approximate", .run = run_gelu },
  { "gelu_.default", "t self, *s? approximate", .run = run_gelu, .in_place = true },
  { "elu.default", "t self, n alpha=1, n scale=1, n input_scale=1", .run = run_elu },
  { "elu_.default", "t self, n alpha=1, n scale=1, n input_scale=1", .run = run_elu, .in_place = true },
  { "celu.default", "t self, n alpha=1", .scalar = situ_celu },
  { "softshrink.default", "t self, n lambd=0.5", .scalar = situ_softshrink },
  { "hardshrink.default", "t self, n lambd=0.5", .scalar = situ_hardshrink },
  { "logit.default", "t self, n? eps", .run = run_logit },
  { "nan_to_num.default", "t self, n? nan, n? posinf, n? neginf", .run = run_nan_to_num },

  { "where.self", "t condition, t self, t other", .run = run_where },
  { "where.ScalarOther", "t condition, t self, n other", .run = run_where },
  { "where.ScalarSelf", "t condition, n self, t other", .run = run_where },
  { "where.Scalar", "t condition, n self, n other", .run = run_where },
  { "masked_fill.Scalar", "t self, t mask, n value", .run = run_masked_fill },
  { "masked_fill.Tensor", "t self, t mask, t value", .run = run_masked_fill },
  { "masked_fill_.Scalar", "t self, t mask, n value", .run = run_masked_fill, .in_place = true },
  { "fill_.Scalar", "t self, n value", .run = run_fill_ },
  { "zero_.default", "t self", .unary = situ_zero_ },
  { "copy.default", "t self, t src, _ non_blocking", .run = run_copy },
  { "copy_.default", "t self, x src, _ non_blocking", .run = run_copy_ },

  { "to.dtype", "t self, d dtype, b copy=0, _ non_blocking, _ memory_format", .run = run_to },
  { "to.device", "t self, d? dtype, b copy=0, _ device, _ non_blocking, _ memory_format", .run = run_to },
  { "to.dtype_layout", "t self, d? dtype, b copy=0, _ layout, _ device, _ pin_memory, _ non_blocking, _ memory_format",
    .run = run_to },
  { "_to_copy.default", "t self, d? dtype, _ layout, _ device, _ pin_memory, _ non_blocking, _ memory_format",
    .run = run_to_copy },
  { "type_as.default", "t self, t other", .run = run_type_as },
  { "contiguous.default", "t self, _ memory_format", .unary = situ_contiguous },
  { "clone.default", "t self, _ memory_format", .unary = situ_clone },
  { "lift_fresh_copy.default", "t self", .unary = situ_clone },
  { "lift_fresh.default", "t self", .unary = same },
  { "alias.default", "t self", .unary = same },
  { "detach.default", "t self", .unary = detach },
  { "detach_.default", "t self", .unary = detach },
};
const situ__op_family situ__elementwise_family = { rows, sizeof rows / sizeof *rows };
