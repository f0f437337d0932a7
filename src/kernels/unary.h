/* Table of element-wise functions of one tensor: the only place where each formula is written.
   SPDX-License-Identifier: MIT

   FLOAT(name, y, dx, uses)         floating types only
   WIDE(name, y, dx, uses)          the same, for functions that are seldom called: devices have kernels of f32 and f64
                                    alone, and cast 16 bits to f32
   BOTH(name, y, integer y, dx, uses) integers too
   MATH(name, y, integer y, dx, uses) the same, with calls of library functions
   INTEGER(name, integer y)             integers only
   TEST(name, y, integer y)           y is bool
   STEPS(name, e, f, dx, uses)      FLOAT whose y is f(x, e), for loops that compute e of many elements first
   NEAR(name, y, dx, uses)          FLOAT of SIN or COS, for loops without far arguments

   x is the element, y = f(x), g the incoming gradient, p0 to p2 the call's parameters; `uses` says whether dx reads x
   or y, and which dtypes torch takes and gives where that is not the rule (dialect.h). The including file defines the
   first six macros, and may define STEPS and NEAR; this file undefines them at its end. The names are those of
   SITU_UNARY_NAMES. */
#ifndef STEPS
#define STEPS(name, e, f, dx, uses) FLOAT(name, f(x, e), dx, uses)
#endif
#ifndef NEAR
#define NEAR FLOAT /* a name is not expanded on the way: some drivers define cos */
#endif
/* clang-format would parse a * b as a declaration. */
/* clang-format off */

BOTH(neg, -x, integer_neg(x), -g, OF_NUMBERS)
BOTH(abs, fabs(x), x < 0 ? integer_neg(x) : x, g * FN(sign_of)(x), USES_X | OF_NUMBERS)
BOTH(sign, FN(sign_of)(x), (x > 0) - (x < 0), 0, USES_NOTHING)
BOTH(square, x * x, integer_mul(x, x), g * 2 * x, USES_X | IN_F32)
FLOAT(sqrt, sqrt(x), g / (2 * y), USES_Y)
FLOAT(rsqrt, 1 / sqrt(x), (T)-0.5 * g * y * y * y, USES_Y | IN_F32)
FLOAT(reciprocal, 1 / x, -g * y * y, USES_Y | IN_F32)

FLOAT(exp, exp(x), g * y, USES_Y | IN_F32)
FLOAT(expm1, expm1(x), g * (y + 1), USES_Y | IN_F32)
FLOAT(log, log(x), g / x, USES_X | IN_F32)
FLOAT(log1p, log1p(x), g / (x + 1), USES_X | IN_F32)
FLOAT(log2, log2(x), g / (x * (T)0.69314718055994530942), USES_X | IN_F32)
NEAR(sin, SIN(x), g * COS(x), USES_X)
NEAR(cos, COS(x), -g * SIN(x), USES_X)
FLOAT(erf, erf(x), g * (T)1.12837916709551257390 * exp(-x * x), USES_X)
WIDE(tan, tan(x), g * (1 + y * y), USES_Y | IN_F32)
WIDE(asin, asin(x), g / sqrt(1 - x * x), USES_X | IN_F32)
WIDE(acos, acos(x), -g / sqrt(1 - x * x), USES_X | IN_F32)
WIDE(atan, atan(x), g / (1 + x * x), USES_X)
WIDE(sinh, sinh(x), g * cosh(x), USES_X | IN_F32)
WIDE(cosh, cosh(x), g * sinh(x), USES_X | IN_F32)
WIDE(asinh, asinh(x), g / sqrt(x * x + 1), USES_X)
WIDE(acosh, acosh(x), g / sqrt(x * x - 1), USES_X)
WIDE(atanh, atanh(x), g / (1 - x * x), USES_X)
WIDE(exp2, exp2(x), g * y * (T)0.69314718055994530942, USES_Y)
WIDE(log10, log10(x), g / (x * (T)2.30258509299404568402), USES_X | IN_F32)
WIDE(erfc, erfc(x), (T)-1.12837916709551257390 * g * exp(-x * x), USES_X)
WIDE(erfinv, FN(erf_inverse)(x), (T)0.88622692545275801365 * g * exp(y * y), USES_Y | IN_F32)
WIDE(lgamma, LOG_GAMMA(x), g * FN(digamma)(x), USES_X)
/* p0 the order of the derivative */
WIDE(polygamma, FN(digamma_derivative)(p0, x), g * FN(digamma_derivative)(p0 + 1, x), USES_X)
WIDE(i0, FN(bessel_i)(0, x), g * FN(bessel_i)(1, x), USES_X)
WIDE(special_entr, x > 0 ? -x * log(x) : x == 0 ? 0 : x < 0 ? -INFINITY : x, -g * (log(x) + 1), USES_X)
WIDE(sinc, FN(sinc_of)(x), g * FN(sinc_slope)(x), USES_X)
/* p0 and p1 the bounds of x */
WIDE(logit, log(FN(smaller)(FN(larger)(x, p0), p1) / (1 - FN(smaller)(FN(larger)(x, p0), p1))),
     x < p0 || x > p1 ? 0 : x < 0 || x > 1 ? NAN : g / (x * (1 - x)), USES_X)

FLOAT(tanh, tanh(x), g * (1 - y * y), USES_Y)
STEPS(sigmoid, FN(logistic_power)(x), FN(logistic_by), g * (1 - y) * y, USES_Y)
BOTH(relu, x < 0 ? 0 : x, x < 0 ? 0 : x, y <= 0 ? 0 : g, USES_Y | OF_NUMBERS)
FLOAT(leaky_relu, x > 0 ? x : x * p0, x > 0 ? g : g * p0, USES_X | OF_FLOATS)
/* alpha, input's scale, result's scale: p0 is alpha times p2 */
FLOAT(elu, x <= 0 ? expm1(x * p1) * p0 : x * p2, x <= 0 ? g * p0 * p1 * exp(x * p1) : g * p2, USES_X | OF_FLOATS)
STEPS(gelu, FN(normal_power)(x), x * FN(normal_by), g * (FN(normal_cdf)(x) + x * FN(normal_pdf)(x)), USES_X | OF_FLOATS)
FLOAT(gelu_tanh, (T)0.5 * x * (1 + tanh(FN(gelu_inner)(x))), g * FN(gelu_tanh_slope)(x), USES_X | OF_FLOATS)
STEPS(silu, FN(logistic_power)(x), x * FN(logistic_by), g * FN(silu_slope)(x), USES_X | OF_FLOATS)
FLOAT(quick_gelu, x * FN(logistic)((T)1.702 * x), g * FN(silu_slope)((T)1.702 * x), USES_X | OF_FLOATS)
FLOAT(mish, x * tanh(log1p(exp(x))), g * FN(mish_slope)(x), USES_X | OF_FLOATS)
FLOAT(hardswish, x * FN(smaller)(FN(larger)(x + 3, 0), 6) / 6, x <= -3 ? 0 : x >= 3 ? g : g * (x / 3 + (T)0.5),
      USES_X | OF_FLOATS)
FLOAT(hardsigmoid, FN(smaller)(FN(larger)(x + 3, 0), 6) / 6, x > -3 && x < 3 ? g / 6 : 0, USES_X | OF_FLOATS)
WIDE(softsign, x / (1 + fabs(x)), g / ((1 + fabs(x)) * (1 + fabs(x))), USES_X | OF_NUMBERS)
WIDE(tanhshrink, x - tanh(x), g * (tanh(x) * tanh(x)), USES_X | OF_NUMBERS)
/* p0 lambd */
WIDE(softshrink, x > p0 ? x - p0 : x < -p0 ? x + p0 : x * 0, x >= -p0 && x <= p0 ? 0 : g, USES_X | OF_FLOATS)
WIDE(hardshrink, x >= -p0 && x <= p0 ? 0 : x, x >= -p0 && x <= p0 ? 0 : g, USES_X | OF_FLOATS)
/* p0 beta, p1 threshold */
FLOAT(softplus, x * p0 > p1 ? x : log1p(exp(x * p0)) / p0,
      x * p0 > p1 ? g : g * exp(x * p0) / (exp(x * p0) + 1), USES_X | OF_FLOATS | IN_F32)
/* p0 minimum, p1 maximum */
BOTH(hardtanh, FN(bounded)(x, p0, p1), x < p0 ? p0 : x > p1 ? p1 : x,
     x <= p0 || x >= p1 ? 0 : g, USES_X | OF_NUMBERS)
BOTH(clamp, FN(bounded)(x, p0, p1), x > p1 || p0 > p1 ? p1 : x < p0 ? p0 : x,
     (x > p0 || p0 == -INFINITY) && (x < p1 || p1 == INFINITY) ? g : 0, USES_X)
/* p0 for NaN, p1 for Inf, p2 for -Inf */
BOTH(nan_to_num, x != x ? p0 : x == INFINITY ? p1 : x == -INFINITY ? p2 : x, x,
     fabs(x) < INFINITY ? g : 0, USES_X)

BOTH(floor, floor(x), x, 0, OF_NUMBERS)
BOTH(ceil, ceil(x), x, 0, OF_NUMBERS)
BOTH(round, rint(x), x, 0, OF_NUMBERS)
BOTH(trunc, trunc(x), x, 0, OF_NUMBERS)

TEST(isnan, x != x, 0)
TEST(isinf, fabs(x) == INFINITY, 0)
TEST(logical_not, x == 0, x == 0)
INTEGER(bitwise_not, ~x)

/* With a scalar from the host, p0. */
BOTH(add_scalar, x + p0, integer_add(x, p0), g, USES_NOTHING)
BOTH(rsub_scalar, p0 - x, integer_sub(p0, x), -g, OF_NUMBERS)
BOTH(mul_scalar, x * p0, integer_mul(x, p0), g * p0, USES_NOTHING)
FLOAT(div_scalar, x / p0, g / p0, USES_NOTHING)
MATH(pow_scalar, FN(power)(x, p0), integer_pow(x, p0), p0 == 0 ? 0 : g * (p0 * FN(power)(x, p0 - 1)), USES_X | IN_F32)
MATH(scalar_pow, pow(p0, x), integer_pow(p0, x), p0 == 0 && x >= 0 ? 0 : g * (pow(p0, x) * log(p0)),
     USES_X | IN_F32)
BOTH(fmod_scalar, fmod(x, p0), integer_rem(x, p0), g, USES_NOTHING)
BOTH(remainder_scalar, FN(modulo)(x, p0), integer_modulo(x, p0), g, USES_NOTHING)
TEST(eq_scalar, x == p0, x == p0)
TEST(ne_scalar, x != p0, x != p0)
TEST(lt_scalar, x < p0, x < p0)
TEST(le_scalar, x <= p0, x <= p0)
TEST(gt_scalar, x > p0, x > p0)
TEST(ge_scalar, x >= p0, x >= p0)

#undef FLOAT
#undef WIDE
#undef BOTH
#undef MATH
#undef INTEGER
#undef TEST
#undef STEPS
#undef NEAR
