/* ONNX's element-wise operators, comparisons, casts and choices.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "program/graph/flow.h"
#include "program/onnx/values/format.h"
#include "situ/autograd.h"
#include "situ/sys/dry.h"

/* ---- arithmetic ---- */

/* Of whole numbers ONNX's quotient is whole too, rounded towards 0. */
static situ_tensor *divide(situ_tensor *a, situ_tensor *b) {
  return situ_dtype_is_floating(situ_dtype_of(a)) ? situ_div(a, b) : situ_div_mode(a, b, SITU_ROUND_TRUNC);
}
/* ONNX's sign of NaN is NaN; torch's is 0. */
static situ_tensor *sign(situ_tensor *x) {
  return situ_dtype_is_floating(situ_dtype_of(x)) ? situ_where(situ_isnan(x), x, situ_sign(x)) : situ_sign(x);
}
/* A zero has the divisor's sign, as other remainders. */
static situ_tensor *run_mod(situ__op_call *c) {
  situ_tensor *a = situ__arg_tensor(c, 0), *b = situ__arg_tensor(c, 1);
  if (situ__arg_flag(c, 2)) return situ_fmod(a, b);
  situ_tensor *y = situ_remainder(a, b);
  if (!situ_dtype_is_floating(situ_dtype_of(a))) return y;
  situ_tensor *zero = situ_abs(y);
  return situ_where(situ_eq_scalar(y, 0), situ_where(situ_lt_scalar(b, 0), situ_neg(zero), zero), y);
}
/* The result has the base's dtype. */
static situ_tensor *power(situ_tensor *base, situ_tensor *exponent) {
  const situ_dtype dtype = situ_dtype_of(base);
  return situ_to_dtype(situ_pow(base, exponent), dtype);
}
static situ_tensor *run_shift(situ__op_call *c) {
  const bool left = *situ__arg_text(c, 2) == 'L';
  situ_tensor *a = situ__arg_tensor(c, 0), *b = situ__arg_tensor(c, 1);
  return left ? situ_bitwise_left_shift(a, b) : situ_bitwise_right_shift(a, b);
}

/* Any number of inputs, two by two. */
static situ_tensor *combine(situ__op_call *c, situ_tensor *(*pair)(situ_tensor *, situ_tensor *), int *count) {
  situ_tensor **list = situ__arg_tensors(c, 0, count);
  if (!list) return NULL;
  if (*count == 0) return situ__call_refuse(c, "has no input");
  situ_tensor *y = list[0];
  for (int i = 1; i < *count; i++) y = pair(y, list[i]);
  return y;
}
static situ_tensor *run_max(situ__op_call *c) { return combine(c, situ_maximum, &(int){ 0 }); }
static situ_tensor *run_min(situ__op_call *c) { return combine(c, situ_minimum, &(int){ 0 }); }
static situ_tensor *run_sum(situ__op_call *c) { return combine(c, situ_add, &(int){ 0 }); }
static situ_tensor *run_mean(situ__op_call *c) {
  int count;
  situ_tensor *y = combine(c, situ_add, &count);
  return situ_div_scalar(y, count);
}

/* Before opset 7 operands had equal sizes, or those of B were some of A's, from `axis` on or the last ones. */
static situ_tensor *run_aligned(situ__op_call *c) {
  situ_tensor *a = situ__arg_tensor(c, 0), *b = situ__arg_tensor(c, 1);
  situ_shape size = situ_shape_of(b);
  const int64_t axis = situ__arg_given(c, 2) ? situ__arg_int(c, 2) : situ_dim(a) - size.ndim;
  if (axis < -situ_dim(a) || axis > situ_dim(a)) return situ__call_refuse(c, "has an axis outside of its input");
  const int64_t last = (axis < 0 ? axis + situ_dim(a) : axis) + size.ndim;
  for (int64_t d = last; d < situ_dim(a) && size.ndim < SITU_MAX_DIMS; d++) size.dim[size.ndim++] = 1;
  return situ__onnx_row_of(c->node->row->target, 7)->binary(a, situ_reshape(b, size));
}

/* Bounds are tensors of one number; an absent one is none. */
static situ_tensor *run_clip(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *low = situ__arg_tensor(c, 1), *high = situ__arg_tensor(c, 2);
  return low || high ? situ_clamp_tensor(x, low, high) : x;
}
static situ_tensor *run_clip_6(situ__op_call *c) {
  return situ_clamp(situ__arg_tensor(c, 0), situ__arg_number(c, 1), situ__arg_number(c, 2));
}

/* ---- activations with numbers ---- */

/* A slope of a number, or of the channels; any other that broadcasts is a choice. */
static situ_tensor *prelu(situ_tensor *x, situ_tensor *slope) {
  const situ_shape s = situ_shape_of(slope);
  const int64_t numel = situ_numel(slope);
  const bool channels = s.ndim >= 1 && s.ndim == situ_dim(x) - 1 && s.dim[0] == numel && numel == situ_size(x, 1);
  if (numel == 1 || channels) return situ_prelu(x, situ_reshape(slope, SITU_SHAPE(-1)));
  return situ_where(situ_lt_scalar(x, 0), situ_mul(x, slope), x);
}

/* Before opset 7: of a number or of the channels. */
static situ_tensor *prelu_6(situ_tensor *x, situ_tensor *slope) {
  return situ_prelu(x, situ_reshape(slope, SITU_SHAPE(-1)));
}

static situ_tensor *run_gelu(situ__op_call *c) {
  const bool tanh_form = *situ__arg_text(c, 1) == 't';
  return situ_gelu(situ__arg_tensor(c, 0), tanh_form ? SITU_GELU_TANH : SITU_GELU_NONE);
}
static situ_tensor *run_hard_sigmoid(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  return situ_clamp(situ_add_scalar(situ_mul_scalar(x, situ__arg_number(c, 1)), situ__arg_number(c, 2)), 0, 1);
}
static situ_tensor *run_thresholded_relu(situ__op_call *c) {
  return situ_threshold(situ__arg_tensor(c, 0), situ__arg_number(c, 1), 0);
}
/* gamma (max(x, 0) + min(alpha e^x - alpha, 0)); torch's numbers are situ_selu's own. */
static situ_tensor *run_selu(situ__op_call *c) {
  const double alpha = situ__arg_number(c, 1), gamma = situ__arg_number(c, 2);
  situ_tensor *x = situ__arg_tensor(c, 0);
  if (fabs(alpha - 1.67326319217681884765625) < 1e-6 && fabs(gamma - 1.05070102214813232421875) < 1e-6)
    return situ_selu(x);
  return situ_mul_scalar(situ_elu(x, alpha), gamma);
}
static situ_tensor *run_shrink(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const double bias = situ__arg_number(c, 1), lambd = situ__arg_number(c, 2);
  const situ_dtype dtype = situ_dtype_of(x);
  if (dtype == SITU_I64) return situ__call_refuse(c, "takes no i64: cast it to a floating dtype");
  if (!situ_dtype_is_floating(dtype)) x = situ_to_dtype(x, SITU_F64); /* f32 does not hold each whole number */
  situ_tensor *zero = situ_zeros_like(x, NULL);
  situ_tensor *above = situ_where(situ_gt_scalar(x, lambd), situ_sub_scalar(x, bias), zero);
  return situ_to_dtype(situ_where(situ_lt_scalar(x, -lambd), situ_add_scalar(x, bias), above), dtype);
}
static situ_tensor *softplus(situ_tensor *x) { return situ_softplus(x, 1, 20); }
static situ_tensor *run_swish(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const double alpha = situ__arg_number(c, 1);
  return alpha == 1 ? situ_silu(x) : situ_mul(x, situ_sigmoid(situ_mul_scalar(x, alpha)));
}
static situ_tensor *run_isinf(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const bool negative = situ__arg_flag(c, 1), positive = situ__arg_flag(c, 2);
  if (negative && positive) return situ_isinf(x);
  return negative   ? situ_isneginf(x)
         : positive ? situ_isposinf(x)
                    : situ_zeros_like(x, &(situ_options){ .dtype = SITU_BOOL });
}

/* ---- casts ---- */

/* To the format of the call, arguments from k on: saturate, round_mode. */
static situ_tensor *to_format(const situ__op_call *c, int k) {
  const char mode = situ__arg_given(c, k + 1) ? *situ__arg_text(c, k + 1) : 'u';
  const bool saturate = !situ__arg_given(c, k) || situ__arg_flag(c, k);
  situ__onnx_format_rounding rounding = mode == 'u' ? SITU__FORMAT_UP : SITU__FORMAT_DOWN;
  /* other formats have no choice */
  if (mode == 'n' || c->node->format->mantissa) rounding = SITU__FORMAT_NEAREST;
  return situ__onnx_format_cast(c->node->format, situ__arg_tensor(c, 0), saturate, rounding);
}
static situ_tensor *run_cast(situ__op_call *c) { return c->node->format ? to_format(c, 2) : situ__arg_cast(c, 1); }
static situ_tensor *run_cast_like(situ__op_call *c) {
  if (c->node->format) return to_format(c, 2);
  return situ_to_dtype(situ__arg_tensor(c, 0), situ_dtype_of(situ__arg_tensor(c, 1)));
}
/* The bytes of another dtype of the same size, by way of the host. */
static situ_tensor *run_bit_cast(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_dtype to = situ__arg_dtype(c, 1);
  const situ_options there = { .dtype = to, .device = situ_device_of(x) };
  const size_t size = situ_dtype_size(to);
  if (to == SITU_BOOL || size != situ_dtype_size(situ_dtype_of(x)))
    return situ__call_refuse(c, "gives another size of an element than it takes, or bools");
  if (situ__flow_tracing) return situ__call_refuse(c, "has no form in a traced program");
  if (situ_is_dry() || there.device.kind == SITU_META) return situ_empty_like(x, &there);
  void *bytes = situ__call_take(c, situ_numel(x), size);
  if (!bytes || situ_copy_to_host(x, bytes, (size_t)situ_numel(x) * size) != SITU_OK) return NULL;
  return situ_from_host(bytes, (size_t)situ_numel(x) * size, situ_shape_of(x), &there);
}
static situ_tensor *same(situ_tensor *x) { return x; }
static situ_tensor *run_has_element(situ__op_call *c) {
  const unsigned char has = situ__arg_given(c, 0);
  const situ_options o = situ__call_options(c, SITU_BOOL);
  return situ_from_host(&has, 1, SITU_SCALAR, &o);
}

static situ_tensor *run_where(situ__op_call *c) {
  return situ_where(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2));
}

#define UNARY(name, function) \
  { name, "t X", .inputs = 1, .unary = function }
/* Of the arithmetic of shapes too. */
#define UNARY_SHAPES(name, function) \
  { name, "t X", .inputs = 1, .unary = function, .shapes = true }
#define PAIR(name, function) \
  { name, "t A, t B", .inputs = 2, .since = 7, .binary = function }
#define PAIR_SHAPES(name, function) \
  { name, "t A, t B", .inputs = 2, .since = 7, .binary = function, .shapes = true }
#define ALIGNED(name) \
  { name, "t A, t B, i? axis, i? broadcast", .inputs = 2, .run = run_aligned, .shapes = true }
#define VARIADIC(name, function) \
  { name, "T inputs", .inputs = 1, .run = function, .shapes = true }
#define WITH_ALPHA(name, alpha, function) \
  { name, "t X, n alpha=" alpha, .inputs = 1, .scalar = function }

static const situ__op_row rows[] = {
  UNARY_SHAPES("Abs", situ_abs),
  UNARY("Acos", situ_acos),
  UNARY("Acosh", situ_acosh),
  UNARY("Asin", situ_asin),
  UNARY("Asinh", situ_asinh),
  UNARY("Atan", situ_atan),
  UNARY("Atanh", situ_atanh),
  UNARY("BitwiseNot", situ_bitwise_not),
  UNARY_SHAPES("Ceil", situ_ceil),
  UNARY("Cos", situ_cos),
  UNARY("Cosh", situ_cosh),
  UNARY("Erf", situ_erf),
  UNARY("Exp", situ_exp),
  UNARY_SHAPES("Floor", situ_floor),
  UNARY("HardSwish", situ_hardswish),
  UNARY_SHAPES("Identity", same),
  UNARY("IsNaN", situ_isnan),
  UNARY("Log", situ_log),
  UNARY("Mish", situ_mish),
  UNARY_SHAPES("Neg", situ_neg),
  UNARY_SHAPES("Not", situ_logical_not),
  UNARY("Reciprocal", situ_reciprocal),
  UNARY("Relu", situ_relu),
  UNARY_SHAPES("Round", situ_round),
  UNARY("Sigmoid", situ_sigmoid),
  UNARY("Sign", sign),
  UNARY("Sin", situ_sin),
  UNARY("Sinh", situ_sinh),
  UNARY("Softplus", softplus),
  UNARY("Softsign", situ_softsign),
  UNARY_SHAPES("Sqrt", situ_sqrt),
  UNARY("Tan", situ_tan),
  UNARY("Tanh", situ_tanh),

  PAIR_SHAPES("Add", situ_add),
  PAIR_SHAPES("And", situ_logical_and),
  PAIR("BitwiseAnd", situ_bitwise_and),
  PAIR("BitwiseOr", situ_bitwise_or),
  PAIR("BitwiseXor", situ_bitwise_xor),
  PAIR_SHAPES("Div", divide),
  PAIR_SHAPES("Equal", situ_eq),
  PAIR_SHAPES("Greater", situ_gt),
  PAIR_SHAPES("GreaterOrEqual", situ_ge),
  PAIR_SHAPES("Less", situ_lt),
  PAIR_SHAPES("LessOrEqual", situ_le),
  PAIR_SHAPES("Mul", situ_mul),
  PAIR_SHAPES("Or", situ_logical_or),
  PAIR_SHAPES("Pow", power),
  PAIR("PRelu", prelu),
  PAIR_SHAPES("Sub", situ_sub),
  PAIR("Xor", situ_logical_xor),
  ALIGNED("Add"),
  ALIGNED("And"),
  ALIGNED("Div"),
  ALIGNED("Equal"),
  ALIGNED("Greater"),
  ALIGNED("Less"),
  ALIGNED("Mul"),
  ALIGNED("Or"),
  ALIGNED("Pow"),
  ALIGNED("Sub"),
  ALIGNED("Xor"),
  { "PRelu", "t X, t slope", .inputs = 2, .binary = prelu_6 },
  VARIADIC("Max", run_max),
  VARIADIC("Min", run_min),
  VARIADIC("Sum", run_sum),
  { "Mean", "T inputs", .inputs = 1, .run = run_mean },
  { "BitShift", "t X, t Y, s direction(LEFT|RIGHT)", .inputs = 2, .run = run_shift },
  { "Mod", "t A, t B, i fmod=0", .inputs = 2, .run = run_mod, .shapes = true },
  { "Clip", "t input, n min=-3.4028234663852886e+38, n max=3.4028234663852886e+38", .inputs = 1, .run = run_clip_6 },
  { "Clip", "t input, t? min, t? max", .inputs = 3, .since = 11, .run = run_clip, .shapes = true },

  WITH_ALPHA("Celu", "1", situ_celu),
  WITH_ALPHA("Elu", "1", situ_elu),
  WITH_ALPHA("LeakyRelu", "0.01", situ_leaky_relu),
  { "Gelu", "t X, s? approximate(none|tanh)", .inputs = 1, .run = run_gelu },
  { "HardSigmoid", "t X, n alpha=0.2, n beta=0.5", .inputs = 1, .run = run_hard_sigmoid },
  { "Selu", "t X, n alpha=1.67326319217681884765625, n gamma=1.05070102214813232421875", .inputs = 1, .run = run_selu },
  { "Shrink", "t input, n bias=0, n lambd=0.5", .inputs = 1, .run = run_shrink },
  { "Swish", "t X, n alpha=1", .inputs = 1, .run = run_swish },
  { "ThresholdedRelu", "t X, n alpha=1", .inputs = 1, .run = run_thresholded_relu },
  { "IsInf", "t X, i detect_negative=1, i detect_positive=1", .inputs = 1, .run = run_isinf },

  { "Cast", "t input, d to, i? saturate, s? round_mode(up|down|nearest)", .folds = true, .inputs = 1, .run = run_cast,
    .shapes = true },
  { "CastLike", "t input, t target_type, i? saturate, s? round_mode(up|down|nearest)", .inputs = 2,
    .run = run_cast_like },
  { "BitCast", "t input, d to", .inputs = 1, .run = run_bit_cast },
  UNARY("OptionalGetElement", same),
  { "OptionalHasElement", "t? input", .inputs = 1, .run = run_has_element },
  { "Where", "t condition, t X, t Y", .inputs = 3, .run = run_where, .shapes = true },
};
const situ__op_family situ__onnx_elementwise_family = { rows, sizeof rows / sizeof *rows };
