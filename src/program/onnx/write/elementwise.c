/* ATen's element-wise calls as ONNX operators.
   SPDX-License-Identifier: MIT */
#include <float.h>
#include <math.h>
#include <string.h>

#include "write.h"

#define IN SITU__ONNX_IN

static situ_dtype gives(const situ__onnx_writer *w) { return w->gives->dtype; }
static const char *number(situ__onnx_writer *w, double value) { return situ__onnx_scalar(w, value, gives(w)); }
static const char *self(situ__onnx_writer *w) { return situ__onnx_arg_as(w, 0, gives(w)); }
static bool is_floating(const situ__onnx_writer *w) { return situ_dtype_is_floating(gives(w)); }
static const char *choose(situ__onnx_writer *w, const char *condition, const char *yes, const char *no) {
  if (gives(w) == SITU_BOOL && condition) /* runtimes do not choose bools */
    return situ__onnx_put2(w, "Or", situ__onnx_put2(w, "And", condition, yes),
                           situ__onnx_put2(w, "And", situ__onnx_put1(w, "Not", condition), no));
  return condition && yes && no ? situ__onnx_put(w, "Where", IN(condition, yes, no), "") : NULL;
}

/* ---- one operand ---- */

static const char *write_rsqrt(situ__onnx_writer *w) {
  return situ__onnx_put1(w, "Reciprocal", situ__onnx_put1(w, "Sqrt", self(w)));
}
static const char *write_silu(situ__onnx_writer *w) {
  const char *x = self(w);
  return situ__onnx_put2(w, "Mul", x, situ__onnx_put1(w, "Sigmoid", x));
}
static const char *write_square(situ__onnx_writer *w) {
  const char *x = self(w);
  return situ__onnx_put2(w, "Mul", x, x);
}
/* Toward 0. */
static const char *truncated(situ__onnx_writer *w, const char *x) {
  return situ__onnx_put2(w, "Mul", situ__onnx_put1(w, "Sign", x),
                         situ__onnx_put1(w, "Floor", situ__onnx_put1(w, "Abs", x)));
}
static const char *write_trunc(situ__onnx_writer *w) { return is_floating(w) ? truncated(w, self(w)) : self(w); }
/* ONNX rounds floating numbers only. */
static const char *rounded(situ__onnx_writer *w, const char *type) {
  return is_floating(w) ? situ__onnx_put1(w, type, self(w)) : self(w);
}
static const char *write_ceil(situ__onnx_writer *w) { return rounded(w, "Ceil"); }
static const char *write_floor(situ__onnx_writer *w) { return rounded(w, "Floor"); }
static const char *write_round(situ__onnx_writer *w) { return rounded(w, "Round"); }
static const char *write_relu(situ__onnx_writer *w) {
  return gives(w) == SITU_U8 ? self(w) : situ__onnx_put1(w, "Relu", self(w));
}
static const char *write_neg(situ__onnx_writer *w) {
  return gives(w) == SITU_U8 ? situ__onnx_put2(w, "Sub", number(w, 0), self(w)) : situ__onnx_put1(w, "Neg", self(w));
}
/* Of NaN it is 0 for torch, NaN for ONNX. */
static const char *write_sign(situ__onnx_writer *w) {
  const char *x = self(w);
  if (gives(w) == SITU_BOOL) return x;
  const char *y = situ__onnx_put1(w, "Sign", x);
  return is_floating(w) ? choose(w, situ__onnx_put1(w, "IsNaN", x), number(w, 0), y) : y;
}
/* 1 - erf(x) would keep nothing of a small result: t exp(p(t) - x^2), with t = 1 / (1 + |x| / 2), whose relative error
   is below 1.2e-7 (Press et al., Numerical Recipes, 6.2); of -x it is 2 minus that. */
static const char *write_erfc(situ__onnx_writer *w) {
  static const double of_t[] = { 0.17087277,  -0.82215223, 1.48851587, -1.13520398, 0.27886807,
                                 -0.18628806, 0.09678418,  0.37409196, 1.00002368,  -1.26551223 };
  if (gives(w) == SITU_F64) return situ__onnx_lacks(w, "is of f64");
  const char *x = self(w), *size = situ__onnx_put1(w, "Abs", x), *one = number(w, 1), *sum = number(w, of_t[0]);
  const char *half = situ__onnx_put2(w, "Mul", size, number(w, 0.5)), *t = situ__onnx_put2(w, "Add", half, one);
  if (!t) return NULL;
  t = situ__onnx_put1(w, "Reciprocal", t);
  for (size_t i = 1; i < sizeof of_t / sizeof *of_t; i++)
    sum = situ__onnx_put2(w, "Add", situ__onnx_put2(w, "Mul", sum, t), number(w, of_t[i]));
  const char *power = situ__onnx_put2(w, "Sub", sum, situ__onnx_put2(w, "Mul", x, x));
  const char *y = situ__onnx_put2(w, "Mul", t, power ? situ__onnx_put1(w, "Exp", power) : NULL);
  return choose(w, situ__onnx_put2(w, "Less", x, number(w, 0)), situ__onnx_put2(w, "Sub", number(w, 2), y), y);
}
/* Of f64: y of f32, which runtimes have, plus the angle that is left of x, whose tangent is that angle by far. */
static const char *arctangent(situ__onnx_writer *w, const char *x) {
  if (gives(w) != SITU_F64) return x ? situ__onnx_put1(w, "Atan", x) : NULL;
  const char *size = situ__onnx_put2(w, "Min", situ__onnx_put2(w, "Max", x, number(w, -1e12)), number(w, 1e12));
  const char *single = situ__onnx_cast(w, size, SITU_F64, SITU_F32);
  const char *y = single ? situ__onnx_cast(w, situ__onnx_put1(w, "Atan", single), SITU_F32, SITU_F64) : NULL;
  const char *sine = y ? situ__onnx_put1(w, "Sin", y) : NULL, *cosine = y ? situ__onnx_put1(w, "Cos", y) : NULL;
  const char *over = situ__onnx_put2(w, "Sub", situ__onnx_put2(w, "Mul", size, cosine), sine);
  const char *under = situ__onnx_put2(w, "Add", cosine, situ__onnx_put2(w, "Mul", size, sine));
  return situ__onnx_put2(w, "Add", y, situ__onnx_put2(w, "Div", over, under));
}
static const char *write_atan(situ__onnx_writer *w) { return arctangent(w, self(w)); }
static const char *write_exp2(situ__onnx_writer *w) { return situ__onnx_put2(w, "Pow", number(w, 2), self(w)); }
/* |x| < 1. */
static const char *is_small(situ__onnx_writer *w, const char *x) {
  return situ__onnx_put2(w, "Less", situ__onnx_put1(w, "Abs", x), number(w, 1));
}
/* Small x would vanish beside 1: (u - 1) x / log(u), where u = exp(x) is rounded; x itself, if u is 1 (Kahan). */
static const char *expm1_of(situ__onnx_writer *w, const char *x) {
  const char *one = number(w, 1), *u = situ__onnx_put1(w, "Exp", x), *less = situ__onnx_put2(w, "Sub", u, one);
  if (!less) return NULL;
  const char *part = situ__onnx_put2(w, "Mul", less, situ__onnx_put2(w, "Div", x, situ__onnx_put1(w, "Log", u)));
  const char *none = situ__onnx_put2(w, "Equal", u, one);
  return choose(w, is_small(w, x), choose(w, none, x, part), less);
}
static const char *write_expm1(situ__onnx_writer *w) { return expm1_of(w, self(w)); }
/* log(u) x / (u - 1), where u = 1 + x is rounded; x itself, if u is 1 (Kahan). */
static const char *write_log1p(situ__onnx_writer *w) {
  const char *x = self(w), *one = number(w, 1), *u = situ__onnx_put2(w, "Add", x, one),
             *log = situ__onnx_put1(w, "Log", u), *rest = situ__onnx_put2(w, "Sub", u, one),
             *part = situ__onnx_put2(w, "Mul", log, situ__onnx_put2(w, "Div", x, rest));
  const char *none = situ__onnx_put2(w, "Equal", u, one);
  return choose(w, is_small(w, x), choose(w, none, x, part), log);
}
static const char *write_log2(situ__onnx_writer *w) {
  return situ__onnx_put2(w, "Div", situ__onnx_put1(w, "Log", self(w)), number(w, 0.69314718055994530942));
}
static const char *write_log10(situ__onnx_writer *w) {
  return situ__onnx_put2(w, "Div", situ__onnx_put1(w, "Log", self(w)), number(w, 2.30258509299404568402));
}
/* min(x, 0) - log(exp(-|x|) + 1), in which nothing overflows. */
static const char *write_log_sigmoid(situ__onnx_writer *w) {
  const char *x = self(w), *size = situ__onnx_put1(w, "Abs", x), *away = size ? situ__onnx_put1(w, "Neg", size) : NULL;
  const char *sum = situ__onnx_put2(w, "Add", away ? situ__onnx_put1(w, "Exp", away) : NULL, number(w, 1));
  return situ__onnx_put2(w, "Sub", situ__onnx_put2(w, "Min", x, number(w, 0)),
                         sum ? situ__onnx_put1(w, "Log", sum) : NULL);
}
static const char *clip(situ__onnx_writer *w, const char *x, const char *least, const char *most) {
  return x && least && most ? situ__onnx_put(w, "Clip", IN(x, least, most), "") : NULL;
}
/* Attributes are f32: what they say of f64 is written as arithmetic. */
static bool is_wide(const situ__onnx_writer *w) { return gives(w) == SITU_F64; }
static const char *write_hardsigmoid(situ__onnx_writer *w) {
  if (!is_wide(w)) return situ__onnx_put(w, "HardSigmoid", IN(self(w)), "alpha:f beta:f", 1.0 / 6, 0.5);
  const char *line = situ__onnx_put2(w, "Div", situ__onnx_put2(w, "Add", self(w), number(w, 3)), number(w, 6));
  return clip(w, line, number(w, 0), number(w, 1));
}
static const char *write_relu6(situ__onnx_writer *w) { return clip(w, self(w), number(w, 0), number(w, 6)); }
static const char *write_logical_not(situ__onnx_writer *w) {
  return situ__onnx_put1(w, "Not", situ__onnx_arg_as(w, 0, SITU_BOOL));
}
static const char *write_bitwise_not(situ__onnx_writer *w) {
  return situ__onnx_put1(w, gives(w) == SITU_BOOL ? "Not" : "BitwiseNot", self(w));
}
/* In a dtype whose infinities ONNX looks for: whole numbers have none. */
static const char *as_wide(situ__onnx_writer *w) {
  return situ__onnx_arg_as(w, 0, situ__onnx_about(w, 0)->dtype == SITU_F64 ? SITU_F64 : SITU_F32);
}
static const char *write_hardswish(situ__onnx_writer *w) {
  return is_wide(w) ? situ__onnx_put2(w, "Mul", self(w), write_hardsigmoid(w))
                    : situ__onnx_put1(w, "HardSwish", self(w));
}
static const char *write_isnan(situ__onnx_writer *w) { return situ__onnx_put1(w, "IsNaN", as_wide(w)); }
static const char *write_isinf(situ__onnx_writer *w) { return situ__onnx_put1(w, "IsInf", as_wide(w)); }
static const char *write_isfinite(situ__onnx_writer *w) {
  const char *x = as_wide(w);
  return situ__onnx_put1(w, "Not",
                         situ__onnx_put2(w, "Or", situ__onnx_put1(w, "IsNaN", x), situ__onnx_put1(w, "IsInf", x)));
}

/* ---- two operands ---- */

/* other, times alpha. */
static const char *scaled_other(situ__onnx_writer *w) {
  const char *other = situ__onnx_arg_as(w, 1, gives(w));
  const double alpha = situ__arg_number(&w->call, 2);
  return alpha == 1 ? other : situ__onnx_put2(w, "Mul", other, number(w, alpha));
}
static const char *write_add(situ__onnx_writer *w) {
  if (gives(w) == SITU_BOOL) return situ__onnx_put2(w, "Or", self(w), situ__onnx_arg_as(w, 1, SITU_BOOL));
  return situ__onnx_put2(w, "Add", self(w), scaled_other(w));
}
static const char *write_sub(situ__onnx_writer *w) { return situ__onnx_put2(w, "Sub", self(w), scaled_other(w)); }
static const char *write_rsub(situ__onnx_writer *w) {
  const double alpha = situ__arg_number(&w->call, 2);
  const char *x = alpha == 1 ? self(w) : situ__onnx_put2(w, "Mul", self(w), number(w, alpha));
  return situ__onnx_put2(w, "Sub", situ__onnx_arg_as(w, 1, gives(w)), x);
}
static const char *write_mul(situ__onnx_writer *w) {
  return situ__onnx_put2(w, gives(w) == SITU_BOOL ? "And" : "Mul", self(w), situ__onnx_arg_as(w, 1, gives(w)));
}
static const char *write_div(situ__onnx_writer *w) {
  return situ__onnx_put2(w, "Div", self(w), situ__onnx_arg_as(w, 1, gives(w)));
}
/* The remainder toward 0, and whether it is not 0 and has another sign than b: then the one that floors is b more. */
static const char *remainder_of(situ__onnx_writer *w, const char *a, const char *b, const char **other) {
  const char *zero = number(w, 0), *rest = a && b ? situ__onnx_put(w, "Mod", IN(a, b), "fmod:i", (int64_t)1) : NULL;
  const char *apart =
      situ__onnx_put2(w, "Xor", situ__onnx_put2(w, "Less", rest, zero), situ__onnx_put2(w, "Less", b, zero));
  const char *none = situ__onnx_put2(w, "Equal", rest, zero);
  *other = situ__onnx_put2(w, "And", apart, none ? situ__onnx_put1(w, "Not", none) : NULL);
  return *other ? rest : NULL;
}
/* Division that rounds down, as torch computes it, also of infinities and by 0. Of integers, Div is toward 0. */
static const char *floor_of_quotient(situ__onnx_writer *w) {
  const char *a = self(w), *b = situ__onnx_arg_as(w, 1, gives(w)), *other;
  if (is_floating(w)) {
    const char *rest = remainder_of(w, a, b, &other);
    const char *whole = situ__onnx_put2(w, "Div", situ__onnx_put2(w, "Sub", a, rest), b);
    whole = situ__onnx_put1(w, "Round", choose(w, other, situ__onnx_put2(w, "Sub", whole, number(w, 1)), whole));
    return choose(w, situ__onnx_put2(w, "Equal", b, number(w, 0)), situ__onnx_put2(w, "Div", a, b), whole);
  }
  return situ__onnx_put2(w, "Div", situ__onnx_put2(w, "Sub", a, situ__onnx_put2(w, "Mod", a, b)), b);
}
static const char *write_div_mode(situ__onnx_writer *w) {
  const char *mode = situ__arg_text(&w->call, 2);
  if (*mode == 'f') return floor_of_quotient(w);
  const char *quotient = situ__onnx_put2(w, "Div", self(w), situ__onnx_arg_as(w, 1, gives(w)));
  return *mode == 't' && is_floating(w) ? truncated(w, quotient) : quotient;
}
static const char *extreme(situ__onnx_writer *w, const char *type, const char *of_bools) {
  return situ__onnx_put2(w, gives(w) == SITU_BOOL ? of_bools : type, self(w), situ__onnx_arg_as(w, 1, gives(w)));
}
static const char *write_minimum(situ__onnx_writer *w) { return extreme(w, "Min", "And"); }
static const char *write_maximum(situ__onnx_writer *w) { return extreme(w, "Max", "Or"); }
/* Whole numbers to a power that is a tensor: squares by its bits. A negative power leaves 0, but of 1 and -1. */
static const char *power_by_bits(situ__onnx_writer *w) {
  enum { BITS = 16 };
  const char *x = self(w), *e = situ__onnx_arg_as(w, 1, gives(w)), *y = number(w, 1), *zero = number(w, 0);
  const char *square = x;
  if (gives(w) == SITU_BOOL || !e) return NULL;
  for (int k = 0; k < BITS; k++) {
    const char *bit = situ__onnx_put2(w, "Mod", situ__onnx_put2(w, "Div", e, number(w, 1 << k)), number(w, 2));
    y = choose(w, situ__onnx_put2(w, "Equal", bit, zero), y, situ__onnx_put2(w, "Mul", y, square));
    square = situ__onnx_put2(w, "Mul", square, square);
  }
  const char *negative = situ__onnx_put2(w, "Less", e, zero), *odd = situ__onnx_put2(w, "Mod", e, number(w, 2));
  const char *sign = choose(w, situ__onnx_put2(w, "Equal", odd, zero), number(w, 1), x);
  const char *one = situ__onnx_put2(w, "Equal", situ__onnx_put1(w, "Abs", x), number(w, 1));
  return choose(w, negative, choose(w, one, sign, zero), y);
}
/* Whole numbers by products, since runtimes compute their powers as floating ones. */
static const char *write_pow(situ__onnx_writer *w) {
  enum { MOST = 16 };
  const situ__arg *power = &w->node->arg[1];
  if (is_floating(w)) return situ__onnx_put2(w, "Pow", self(w), situ__onnx_arg_as(w, 1, gives(w)));
  if (power->kind != SITU__ARG_INT || power->integer < 0 || power->integer > MOST || gives(w) == SITU_BOOL)
    return power_by_bits(w);
  const char *x = self(w), *y = x;
  if (power->integer == 0) return situ__onnx_formula(w, "Add(Mul($0,0),1)", gives(w));
  for (int64_t n = 1; n < power->integer; n++) y = situ__onnx_put2(w, "Mul", y, x);
  return y;
}
static const char *write_fmod(situ__onnx_writer *w) {
  const char *a = self(w), *b = situ__onnx_arg_as(w, 1, gives(w));
  return a && b ? situ__onnx_put(w, "Mod", IN(a, b), "fmod:i", (int64_t)1) : NULL;
}
static const char *write_remainder(situ__onnx_writer *w) {
  const char *a = self(w), *b = situ__onnx_arg_as(w, 1, gives(w));
  const char *other;
  if (!is_floating(w)) return situ__onnx_put2(w, "Mod", a, b);
  const char *rest = remainder_of(w, a, b, &other);
  return choose(w, other, situ__onnx_put2(w, "Add", rest, b), rest);
}
/* Whether x is negative, as -0 is too. */
static const char *is_negative(situ__onnx_writer *w, const char *x) {
  const char *zero = number(w, 0), *none = situ__onnx_put2(w, "Equal", x, zero);
  return situ__onnx_put2(w, "Less", choose(w, none, situ__onnx_put2(w, "Div", number(w, 1), x), x), zero);
}
/* Of |y| / |x|, which is 1 for two infinities and 0 for two zeros, then turned to the quadrant. */
static const char *write_atan2(situ__onnx_writer *w) {
  const char *y = self(w), *x = situ__onnx_arg_as(w, 1, gives(w)), *zero = number(w, 0);
  const char *up = situ__onnx_put1(w, "Abs", y), *along = situ__onnx_put1(w, "Abs", x);
  const char *none = situ__onnx_put2(w, "Equal", up, zero), *same = situ__onnx_put2(w, "Equal", up, along);
  const char *slope = choose(w, same, choose(w, none, zero, number(w, 1)), situ__onnx_put2(w, "Div", up, along));
  const char *angle = arctangent(w, slope);
  angle = choose(w, is_negative(w, x), situ__onnx_put2(w, "Sub", number(w, M_PI), angle), angle);
  return choose(w, is_negative(w, y), angle ? situ__onnx_put1(w, "Neg", angle) : NULL, angle);
}

/* ---- comparisons and logic ---- */

/* The dtype in which two operands are compared: of the wider category, then the wider dtype; a 0-dim tensor or a number
   yields to one of its category. */
static int category(situ_dtype dtype) { return dtype == SITU_BOOL ? 0 : situ_dtype_is_floating(dtype) ? 2 : 1; }
static situ_dtype compared_in(const situ__onnx_writer *w, int i, int k) {
  const situ__inferred *a = situ__onnx_about(w, i), *b = situ__onnx_about(w, k);
  if (!b->dtype) {
    const bool real = w->node->arg[k].kind == SITU__ARG_FLOAT;
    return real && category(a->dtype) < 2 ? SITU_F32 : a->dtype == SITU_BOOL ? SITU_I64 : a->dtype;
  }
  if (!a->dtype) return b->dtype;
  if (category(a->dtype) != category(b->dtype)) return category(a->dtype) > category(b->dtype) ? a->dtype : b->dtype;
  if (!a->size.ndim != !b->size.ndim) return a->size.ndim ? a->dtype : b->dtype;
  if (a->dtype != b->dtype && situ_dtype_size(a->dtype) == situ_dtype_size(b->dtype))
    return category(a->dtype) == 2 ? SITU_F32 : SITU_I16;
  return situ_dtype_size(a->dtype) > situ_dtype_size(b->dtype) ? a->dtype : b->dtype;
}
static const char *compare(situ__onnx_writer *w, const char *type) {
  situ_dtype dtype = compared_in(w, 0, 1);
  if (dtype == SITU_BOOL) dtype = SITU_I32; /* ONNX has no order of bools */
  return situ__onnx_put2(w, type, situ__onnx_arg_as(w, 0, dtype), situ__onnx_arg_as(w, 1, dtype));
}
static const char *write_eq(situ__onnx_writer *w) { return compare(w, "Equal"); }
static const char *write_ne(situ__onnx_writer *w) { return situ__onnx_put1(w, "Not", compare(w, "Equal")); }
static const char *write_lt(situ__onnx_writer *w) { return compare(w, "Less"); }
static const char *write_le(situ__onnx_writer *w) { return compare(w, "LessOrEqual"); }
static const char *write_gt(situ__onnx_writer *w) { return compare(w, "Greater"); }
static const char *write_ge(situ__onnx_writer *w) { return compare(w, "GreaterOrEqual"); }

static const char *logic(situ__onnx_writer *w, const char *type) {
  return situ__onnx_put2(w, type, situ__onnx_arg_as(w, 0, SITU_BOOL), situ__onnx_arg_as(w, 1, SITU_BOOL));
}
static const char *write_logical_and(situ__onnx_writer *w) { return logic(w, "And"); }
static const char *write_logical_or(situ__onnx_writer *w) { return logic(w, "Or"); }
static const char *write_logical_xor(situ__onnx_writer *w) { return logic(w, "Xor"); }
static const char *bits(situ__onnx_writer *w, const char *of_bools, const char *of_integers) {
  return situ__onnx_put2(w, gives(w) == SITU_BOOL ? of_bools : of_integers, self(w), situ__onnx_arg_as(w, 1, gives(w)));
}
static const char *write_bitwise_and(situ__onnx_writer *w) { return bits(w, "And", "BitwiseAnd"); }
static const char *write_bitwise_or(situ__onnx_writer *w) { return bits(w, "Or", "BitwiseOr"); }
static const char *write_bitwise_xor(situ__onnx_writer *w) { return bits(w, "Xor", "BitwiseXor"); }

/* ---- with numbers ---- */

/* The bound at k; of a whole number, the end of its dtype for one that is beyond it. */
static const char *bound(situ__onnx_writer *w, int k) {
  const situ__arg *a = &w->node->arg[k];
  double least, most;
  if (a->kind != SITU__ARG_FLOAT && a->kind != SITU__ARG_INT) return situ__onnx_arg_as(w, k, gives(w));
  const double value = situ__arg_number(&w->call, k);
  if (!situ__onnx_range_of(gives(w), &least, &most)) return number(w, value);
  return number(w, value < least ? least : value > most ? most : value);
}
/* Not Clip, which makes the largest number of an infinity. */
static const char *clamp(situ__onnx_writer *w) {
  const bool bools = gives(w) == SITU_BOOL;
  const char *x = self(w);
  if (situ__arg_given(&w->call, 1)) x = situ__onnx_put2(w, bools ? "Or" : "Max", x, bound(w, 1));
  return situ__arg_given(&w->call, 2) ? situ__onnx_put2(w, bools ? "And" : "Min", x, bound(w, 2)) : x;
}
static const char *write_clamp(situ__onnx_writer *w) {
  const bool both = situ__arg_given(&w->call, 1) && situ__arg_given(&w->call, 2);
  return both ? clip(w, self(w), bound(w, 1), bound(w, 2)) : clamp(w);
}
static const char *write_clamp_min(situ__onnx_writer *w) { return situ__onnx_put2(w, "Max", self(w), bound(w, 1)); }
static const char *write_clamp_max(situ__onnx_writer *w) { return situ__onnx_put2(w, "Min", self(w), bound(w, 1)); }
/* As torch rounds it: from the end that is nearer. */
static const char *write_lerp(situ__onnx_writer *w) {
  const double weight = situ__arg_number(&w->call, 2);
  const char *a = self(w), *b = situ__onnx_arg_as(w, 1, gives(w)), *span = situ__onnx_put2(w, "Sub", b, a);
  if (fabs(weight) < 0.5) return situ__onnx_put2(w, "Add", a, situ__onnx_put2(w, "Mul", span, number(w, weight)));
  return situ__onnx_put2(w, "Sub", b, situ__onnx_put2(w, "Mul", span, number(w, 1 - weight)));
}
static const char *add_combined(situ__onnx_writer *w, const char *type) {
  const double value = situ__arg_number(&w->call, 3);
  const char *product = situ__onnx_put2(w, type, situ__onnx_arg_as(w, 1, gives(w)), situ__onnx_arg_as(w, 2, gives(w)));
  return situ__onnx_put2(w, "Add", self(w),
                         value == 1 ? product : situ__onnx_put2(w, "Mul", product, number(w, value)));
}
static const char *write_addcmul(situ__onnx_writer *w) { return add_combined(w, "Mul"); }
static const char *write_addcdiv(situ__onnx_writer *w) { return add_combined(w, "Div"); }
static const char *write_leaky_relu(situ__onnx_writer *w) {
  const double slope = situ__arg_number(&w->call, 1);
  const char *x = self(w);
  if (!is_wide(w)) return situ__onnx_put(w, "LeakyRelu", IN(x), "alpha:f", slope);
  return choose(w, situ__onnx_put2(w, "Greater", x, number(w, 0)), x, situ__onnx_put2(w, "Mul", x, number(w, slope)));
}
static const char *write_softplus(situ__onnx_writer *w) {
  const double beta = situ__arg_number(&w->call, 1), threshold = situ__arg_number(&w->call, 2);
  const char *x = self(w), *scaled = beta == 1 ? x : situ__onnx_put2(w, "Mul", x, number(w, beta));
  const char *y = situ__onnx_put1(w, "Softplus", scaled);
  if (beta != 1) y = situ__onnx_put2(w, "Div", y, number(w, beta));
  if (threshold >= 20 || !y) return y; /* beyond which it is x in f32 */
  const char *beyond = situ__onnx_put2(w, "Greater", scaled, number(w, threshold));
  return beyond ? situ__onnx_put(w, "Where", IN(beyond, x, y), "") : NULL;
}
static const char *write_threshold(situ__onnx_writer *w) {
  const char *x = self(w), *below = situ__onnx_put2(w, "LessOrEqual", x, situ__onnx_arg_as(w, 1, gives(w)));
  return choose(w, below, situ__onnx_arg_as(w, 2, gives(w)), x);
}
/* Opset 20 has the operator. */
static const char *write_gelu(situ__onnx_writer *w) {
  const char *x = self(w), *approximate = situ__arg_text(&w->call, 1), *inner;
  const bool tanh = *approximate == 't';
  if (w->opset >= 20) return situ__onnx_put(w, "Gelu", IN(x), "approximate:s", tanh ? "tanh" : "none");
  if (tanh) {
    const char *cube = situ__onnx_put2(w, "Mul", situ__onnx_put2(w, "Mul", x, x), x);
    cube = situ__onnx_put2(w, "Add", x, situ__onnx_put2(w, "Mul", cube, number(w, 0.044715)));
    inner = situ__onnx_put1(w, "Tanh", situ__onnx_put2(w, "Mul", cube, number(w, 0.79788456080286535588)));
  } else {
    inner = situ__onnx_put1(w, "Erf", situ__onnx_put2(w, "Mul", x, number(w, M_SQRT1_2)));
  }
  return situ__onnx_put2(w, "Mul", situ__onnx_put2(w, "Mul", x, number(w, 0.5)),
                         situ__onnx_put2(w, "Add", inner, number(w, 1)));
}
/* x above 0, else alpha (exp(x / divisor) - 1). */
static const char *bent(situ__onnx_writer *w, double alpha, double divisor) {
  const char *x = self(w), *below = expm1_of(w, situ__onnx_put2(w, "Div", x, number(w, divisor)));
  return choose(w, situ__onnx_put2(w, "Greater", x, number(w, 0)), x,
                situ__onnx_put2(w, "Mul", below, number(w, alpha)));
}
static const char *write_elu(situ__onnx_writer *w) {
  const double alpha = situ__arg_number(&w->call, 1), scale = situ__arg_number(&w->call, 2);
  if (situ__arg_number(&w->call, 3) != 1) return NULL;
  const char *y = is_wide(w) ? bent(w, alpha, 1) : situ__onnx_put(w, "Elu", IN(self(w)), "alpha:f", alpha);
  return scale == 1 ? y : situ__onnx_put2(w, "Mul", y, number(w, scale));
}
/* Not Celu, which is of f32 only, and loses small x. */
static const char *write_celu(situ__onnx_writer *w) {
  const double alpha = situ__arg_number(&w->call, 1);
  return bent(w, alpha, alpha);
}
static const char *write_selu(situ__onnx_writer *w) {
  if (!is_wide(w)) return situ__onnx_put1(w, "Selu", self(w));
  return situ__onnx_put2(w, "Mul", bent(w, 1.6732632423543772848170429916717, 1),
                         number(w, 1.0507009873554804934193349852946));
}
/* Not Shrink, which makes 0 of NaN. */
static const char *shrink(situ__onnx_writer *w, bool soft) {
  const char *lambda = number(w, situ__arg_number(&w->call, 1)), *x = self(w), *size = situ__onnx_put1(w, "Abs", x);
  const char *beyond =
      soft ? situ__onnx_put2(w, "Sub", x, situ__onnx_put2(w, "Mul", situ__onnx_put1(w, "Sign", x), lambda)) : x;
  return choose(w, situ__onnx_put2(w, "LessOrEqual", size, lambda), number(w, 0), beyond);
}
static const char *write_softshrink(situ__onnx_writer *w) { return shrink(w, true); }
static const char *write_hardshrink(situ__onnx_writer *w) { return shrink(w, false); }
static const char *write_logit(situ__onnx_writer *w) {
  const char *x = self(w);
  if (situ__arg_given(&w->call, 1)) {
    const double eps = situ__arg_number(&w->call, 1);
    x = clip(w, x, number(w, eps), number(w, 1 - eps));
  }
  return situ__onnx_put1(w, "Log", situ__onnx_put2(w, "Div", x, situ__onnx_put2(w, "Sub", number(w, 1), x)));
}

/* ---- choices and copies ---- */

static const char *write_where(situ__onnx_writer *w) {
  return choose(w, situ__onnx_arg_as(w, 0, SITU_BOOL), situ__onnx_arg_as(w, 1, gives(w)),
                situ__onnx_arg_as(w, 2, gives(w)));
}
static const char *write_masked_fill(situ__onnx_writer *w) {
  return choose(w, situ__onnx_arg_as(w, 1, SITU_BOOL), situ__onnx_arg_as(w, 2, gives(w)), self(w));
}
/* x in the sizes of the tensor that is written. */
static const char *spread(situ__onnx_writer *w, const char *x) {
  return situ__onnx_expand(w, x, situ__onnx_put1(w, "Shape", situ__onnx_arg(w, 0)), gives(w));
}
static const char *write_fill(situ__onnx_writer *w) { return spread(w, situ__onnx_arg_as(w, 1, gives(w))); }
static const char *write_zero(situ__onnx_writer *w) { return spread(w, number(w, 0)); }
static const char *write_copy(situ__onnx_writer *w) { return spread(w, situ__onnx_arg_as(w, 1, gives(w))); }

/* Rows whose elements are computed. */
#define SAME(text, type) \
  { text, .same = type, .computes = true }
#define FORM(text, function) \
  { text, .write = function, .computes = true }
#define BOTH(text, function) FORM(text ".Tensor", function), FORM(text ".Scalar", function)
/* The second operand may be a size. */
#define SIZED(text, function) \
  { text, .write = function, .varies = 1U << 1, .computes = true }
#define LOGICAL(text, function) \
  { text, .write = function, .logical = true }
#define COMPARE(text, function) LOGICAL(text ".Tensor", function), LOGICAL(text ".Scalar", function)

static const situ__onnx_form forms[] = {
  SAME("abs.default", "Abs"),
  SAME("acos.default", "Acos"),
  SAME("acosh.default", "Acosh"),
  SAME("asin.default", "Asin"),
  SAME("asinh.default", "Asinh"),
  FORM("atan.default", write_atan),
  SAME("atanh.default", "Atanh"),
  FORM("ceil.default", write_ceil),
  SAME("cos.default", "Cos"),
  SAME("cosh.default", "Cosh"),
  SAME("erf.default", "Erf"),
  SAME("exp.default", "Exp"),
  FORM("floor.default", write_floor),
  FORM("hardswish.default", write_hardswish),
  SAME("log.default", "Log"),
  SAME("mish.default", "Mish"),
  FORM("neg.default", write_neg),
  SAME("reciprocal.default", "Reciprocal"),
  FORM("relu.default", write_relu),
  FORM("round.default", write_round),
  FORM("selu.default", write_selu),
  SAME("sigmoid.default", "Sigmoid"),
  FORM("sign.default", write_sign),
  SAME("sin.default", "Sin"),
  SAME("sinh.default", "Sinh"),
  SAME("softsign.default", "Softsign"),
  SAME("sqrt.default", "Sqrt"),
  SAME("tan.default", "Tan"),
  SAME("tanh.default", "Tanh"),
  FORM("rsqrt.default", write_rsqrt),
  FORM("silu.default", write_silu),
  FORM("square.default", write_square),
  FORM("trunc.default", write_trunc),
  FORM("erfc.default", write_erfc),
  FORM("exp2.default", write_exp2),
  FORM("expm1.default", write_expm1),
  FORM("log1p.default", write_log1p),
  FORM("log2.default", write_log2),
  FORM("log10.default", write_log10),
  FORM("log_sigmoid.default", write_log_sigmoid),
  FORM("hardsigmoid.default", write_hardsigmoid),
  FORM("relu6.default", write_relu6),
  LOGICAL("logical_not.default", write_logical_not),
  FORM("bitwise_not.default", write_bitwise_not),
  FORM("isnan.default", write_isnan),
  FORM("isinf.default", write_isinf),
  FORM("isfinite.default", write_isfinite),

  SIZED("add.Tensor", write_add),
  SIZED("add.Scalar", write_add),
  SIZED("sub.Tensor", write_sub),
  SIZED("sub.Scalar", write_sub),
  SIZED("rsub.Scalar", write_rsub),
  SIZED("mul.Tensor", write_mul),
  SIZED("mul.Scalar", write_mul),
  SIZED("div.Tensor", write_div),
  SIZED("div.Scalar", write_div),
  FORM("div.Tensor_mode", write_div_mode),
  FORM("floor_divide.default", floor_of_quotient),
  BOTH("floor_divide", floor_of_quotient),
  BOTH("fmod", write_fmod),
  BOTH("remainder", write_remainder),
  FORM("remainder.Scalar_Tensor", write_remainder),
  FORM("pow.Tensor_Scalar", write_pow),
  FORM("pow.Tensor_Tensor", write_pow),
  FORM("pow.Scalar", write_pow),
  FORM("min.other", write_minimum),
  FORM("max.other", write_maximum),
  FORM("minimum.default", write_minimum),
  FORM("maximum.default", write_maximum),
  FORM("atan2.default", write_atan2),
  COMPARE("eq", write_eq),
  COMPARE("ne", write_ne),
  COMPARE("lt", write_lt),
  COMPARE("le", write_le),
  COMPARE("gt", write_gt),
  COMPARE("ge", write_ge),
  LOGICAL("logical_and.default", write_logical_and),
  LOGICAL("logical_or.default", write_logical_or),
  LOGICAL("logical_xor.default", write_logical_xor),
  BOTH("__and__", write_bitwise_and),
  BOTH("__or__", write_bitwise_or),
  BOTH("__xor__", write_bitwise_xor),
  FORM("bitwise_and.Tensor", write_bitwise_and),
  FORM("bitwise_or.Tensor", write_bitwise_or),
  FORM("bitwise_xor.Tensor", write_bitwise_xor),

  FORM("clamp.default", write_clamp),
  FORM("clamp.Tensor", clamp),
  FORM("clamp_min.default", write_clamp_min),
  FORM("clamp_max.default", write_clamp_max),
  FORM("hardtanh.default", write_clamp),
  FORM("lerp.Scalar", write_lerp),
  FORM("addcmul.default", write_addcmul),
  FORM("addcdiv.default", write_addcdiv),
  FORM("leaky_relu.default", write_leaky_relu),
  FORM("softplus.default", write_softplus),
  FORM("threshold.default", write_threshold),
  FORM("gelu.default", write_gelu),
  FORM("elu.default", write_elu),
  FORM("celu.default", write_celu),
  FORM("softshrink.default", write_softshrink),
  FORM("hardshrink.default", write_hardshrink),
  FORM("logit.default", write_logit),

  { "where.self", .write = write_where, .varies = 6, .computes = true },
  { "where.ScalarOther", .write = write_where, .varies = 6, .computes = true },
  { "where.ScalarSelf", .write = write_where, .varies = 6, .computes = true },
  { "where.Scalar", .write = write_where, .varies = 6, .computes = true },
  FORM("masked_fill.Scalar", write_masked_fill),
  FORM("masked_fill.Tensor", write_masked_fill),
  { "fill_.Scalar", .write = write_fill, .varies = 1U << 1 },
  { "fill.Scalar", .write = write_fill, .varies = 1U << 1 },
  { "fill_.Tensor", .write = write_fill },
  { "fill.Tensor", .write = write_fill },
  { "zero_.default", .write = write_zero },
  { "copy_.default", .write = write_copy, .varies = 1U << 1 },
  { "to.dtype", .write = self },
  { "to.device", .write = self },
  { "to.dtype_layout", .write = self },
  { "_to_copy.default", .write = self },
  { "type_as.default", .write = self },
  { "contiguous.default", .write = self },
  { "clone.default", .write = self },
  { "lift_fresh_copy.default", .write = self },
  { "lift_fresh.default", .write = self },
  { "alias.default", .write = self },
  { "detach.default", .write = self },
};
const situ__onnx_forms situ__onnx_form_elementwise = { forms, sizeof forms / sizeof *forms };
