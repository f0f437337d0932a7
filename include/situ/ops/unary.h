/* Element-wise functions of one tensor.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_UNARY_H
#define SITU_OPS_UNARY_H

#include "../tensor.h"

SITU_BEGIN

/* Results have input's shape and dtype. Functions with fractional results (exp, sqrt, ...) give f32 for integer and
   bool dtypes, as in torch; a dtype that torch refuses is SITU_E_DTYPE. */

/** -input; bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_neg(situ_tensor *input);
/** |input|; bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_abs(situ_tensor *input);
/** -1, 0 or 1. */
SITU_API SITU_CHECKED situ_tensor *situ_sign(situ_tensor *input);
/** e ** input. */
SITU_API SITU_CHECKED situ_tensor *situ_exp(situ_tensor *input);
/** exp(input) - 1, accurate near 0. */
SITU_API SITU_CHECKED situ_tensor *situ_expm1(situ_tensor *input);
/** Natural logarithm. */
SITU_API SITU_CHECKED situ_tensor *situ_log(situ_tensor *input);
/** log(1 + input), accurate near 0. */
SITU_API SITU_CHECKED situ_tensor *situ_log1p(situ_tensor *input);
/** Logarithm to base 2. */
SITU_API SITU_CHECKED situ_tensor *situ_log2(situ_tensor *input);
/** Square root. */
SITU_API SITU_CHECKED situ_tensor *situ_sqrt(situ_tensor *input);
/** 1 / sqrt(input). */
SITU_API SITU_CHECKED situ_tensor *situ_rsqrt(situ_tensor *input);
/** input * input; bool gives i64. */
SITU_API SITU_CHECKED situ_tensor *situ_square(situ_tensor *input);
/** 1 / input. */
SITU_API SITU_CHECKED situ_tensor *situ_reciprocal(situ_tensor *input);
/** Sine of radians. */
SITU_API SITU_CHECKED situ_tensor *situ_sin(situ_tensor *input);
/** Cosine of radians. */
SITU_API SITU_CHECKED situ_tensor *situ_cos(situ_tensor *input);
/** Tangent of radians. */
SITU_API SITU_CHECKED situ_tensor *situ_tan(situ_tensor *input);
/** Inverse sine in radians; NaN outside of [-1, 1]. */
SITU_API SITU_CHECKED situ_tensor *situ_asin(situ_tensor *input);
/** Inverse cosine in radians; NaN outside of [-1, 1]. */
SITU_API SITU_CHECKED situ_tensor *situ_acos(situ_tensor *input);
/** Inverse tangent in radians. */
SITU_API SITU_CHECKED situ_tensor *situ_atan(situ_tensor *input);
/** Hyperbolic sine. */
SITU_API SITU_CHECKED situ_tensor *situ_sinh(situ_tensor *input);
/** Hyperbolic cosine. */
SITU_API SITU_CHECKED situ_tensor *situ_cosh(situ_tensor *input);
/** Inverse hyperbolic sine. */
SITU_API SITU_CHECKED situ_tensor *situ_asinh(situ_tensor *input);
/** Inverse hyperbolic cosine; NaN below 1. */
SITU_API SITU_CHECKED situ_tensor *situ_acosh(situ_tensor *input);
/** Inverse hyperbolic tangent; NaN outside of [-1, 1]. */
SITU_API SITU_CHECKED situ_tensor *situ_atanh(situ_tensor *input);
/** 2 ** input. */
SITU_API SITU_CHECKED situ_tensor *situ_exp2(situ_tensor *input);
/** Logarithm to base 10. */
SITU_API SITU_CHECKED situ_tensor *situ_log10(situ_tensor *input);
/** 1 - erf(input), accurate where it is small. */
SITU_API SITU_CHECKED situ_tensor *situ_erfc(situ_tensor *input);
/** Inverse of erf; NaN outside of [-1, 1]. */
SITU_API SITU_CHECKED situ_tensor *situ_erfinv(situ_tensor *input);
/** log |gamma(input)|. */
SITU_API SITU_CHECKED situ_tensor *situ_lgamma(situ_tensor *input);
/** The derivative of log gamma; NaN at negative whole numbers, infinite at 0. */
SITU_API SITU_CHECKED situ_tensor *situ_digamma(situ_tensor *input);
/** Logarithm of the multivariate gamma function of dimension p; input above (p - 1) / 2. */
SITU_API SITU_CHECKED situ_tensor *situ_mvlgamma(situ_tensor *input, int p);
/** The area under the standard normal density up to input. */
SITU_API SITU_CHECKED situ_tensor *situ_special_ndtr(situ_tensor *input);
/** -input log(input), whose sum is the entropy of probabilities; 0 at 0, -infinity below. */
SITU_API SITU_CHECKED situ_tensor *situ_special_entr(situ_tensor *input);
/** The n-th derivative of digamma, n from 0 to 170. torch's at negative whole numbers depends on rounding; here it is
    infinite. */
SITU_API SITU_CHECKED situ_tensor *situ_polygamma(int64_t n, situ_tensor *input);
/** Modified Bessel function of the first kind, of order 0. */
SITU_API SITU_CHECKED situ_tensor *situ_i0(situ_tensor *input);
/** sin(pi input) / (pi input), 1 at 0. */
SITU_API SITU_CHECKED situ_tensor *situ_sinc(situ_tensor *input);
/** log(input / (1 - input)), input raised to eps (at most 0.5) and lowered to 1 - eps; with eps 0, torch's default, it
    is NaN outside of [0, 1]. */
SITU_API SITU_CHECKED situ_tensor *situ_logit(situ_tensor *input, double eps);
/** Hyperbolic tangent. */
SITU_API SITU_CHECKED situ_tensor *situ_tanh(situ_tensor *input);
/** 1 / (1 + exp(-input)). */
SITU_API SITU_CHECKED situ_tensor *situ_sigmoid(situ_tensor *input);
/** max(input, 0); bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_relu(situ_tensor *input);
/** input * sigmoid(input); floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_silu(situ_tensor *input);
/** input * sigmoid(1.702 input), CLIP's approximation of gelu (Hendrycks and Gimpel, arXiv:1606.08415; torch has no
    name for it); floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_quick_gelu(situ_tensor *input);
/** input * tanh(log(1 + exp(input))) (Misra, arXiv:1908.08681); floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_mish(situ_tensor *input);
/** input * relu6(input + 3) / 6 (Howard et al., arXiv:1905.02244); floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_hardswish(situ_tensor *input);
/** relu6(input + 3) / 6; floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_hardsigmoid(situ_tensor *input);
/** max(min(input, 6), 0); bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_relu6(situ_tensor *input);
/** scale * (max(input, 0) + alpha * (exp(min(input, 0)) - 1)), with scale 1.0507 and alpha 1.6733 (Klambauer et al.,
    arXiv:1706.02515); floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_selu(situ_tensor *input);
/** log(sigmoid(input)), also where sigmoid is 0; floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_logsigmoid(situ_tensor *input);
/** input / (1 + |input|); bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_softsign(situ_tensor *input);
/** input - tanh(input); bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_tanhshrink(situ_tensor *input);
/** Error function. */
SITU_API SITU_CHECKED situ_tensor *situ_erf(situ_tensor *input);
/** The largest whole number not above input; bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_floor(situ_tensor *input);
/** The smallest whole number not below input; bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_ceil(situ_tensor *input);
/** The nearest whole number, halves to even; bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_round(situ_tensor *input);
/** Cuts the fraction off; bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_trunc(situ_tensor *input);
/** input is NaN, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_isnan(situ_tensor *input);
/** input is +Inf or -Inf, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_isinf(situ_tensor *input);
/** The sign bit is set, as bool: of negative numbers, -0, and NaN with a sign. */
SITU_API SITU_CHECKED situ_tensor *situ_signbit(situ_tensor *input);
/** input is neither NaN nor infinite, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_isfinite(situ_tensor *input);
/** input is +Inf, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_isposinf(situ_tensor *input);
/** input is -Inf, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_isneginf(situ_tensor *input);
/** input - trunc(input); floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_frac(situ_tensor *input);
/** Degrees in radians. */
SITU_API SITU_CHECKED situ_tensor *situ_deg2rad(situ_tensor *input);
/** Radians in degrees. */
SITU_API SITU_CHECKED situ_tensor *situ_rad2deg(situ_tensor *input);
/** torch.round(input, decimals=decimals): the nearest multiple of 10 ** -decimals, halves to even; floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_round_decimals(situ_tensor *input, int decimals);
/** input is 0, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_logical_not(situ_tensor *input);
/** ~input; integer dtypes, and bool (logical not). */
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_not(situ_tensor *input);

/* A number below is taken as it is given: 0 is 0, not torch's default. */

/** input where input > 0, else negative_slope * input; floating dtypes. torch's default is 0.01; 0 is relu. */
SITU_API SITU_CHECKED situ_tensor *situ_leaky_relu(situ_tensor *input, double negative_slope);
/** input where input > 0, else alpha * (exp(input) - 1); floating dtypes. torch's default is 1; 0 is relu. */
SITU_API SITU_CHECKED situ_tensor *situ_elu(situ_tensor *input, double alpha);
/** max(input, 0) + min(0, alpha * (exp(input / alpha) - 1)); floating dtypes. torch's default alpha is 1; 0 is
    SITU_E_ARG. */
SITU_API SITU_CHECKED situ_tensor *situ_celu(situ_tensor *input, double alpha);
/** input - lambd above lambd, input + lambd below -lambd, else 0; floating dtypes. torch's default is 0.5; a negative
    lambd is SITU_E_ARG. */
SITU_API SITU_CHECKED situ_tensor *situ_softshrink(situ_tensor *input, double lambd);
/** input outside of [-lambd, lambd], else 0; floating dtypes. torch's default is 0.5. */
SITU_API SITU_CHECKED situ_tensor *situ_hardshrink(situ_tensor *input, double lambd);
/** input above threshold, else value, whose fraction an integer dtype cuts off; NaN stays; bool is refused. */
SITU_API SITU_CHECKED situ_tensor *situ_threshold(situ_tensor *input, double threshold, double value);

typedef enum situ_gelu_approximate { SITU_GELU_NONE = 0, SITU_GELU_TANH } situ_gelu_approximate;
/** input * Phi(input), exactly (erf) or by the tanh formula (Hendrycks and Gimpel, arXiv:1606.08415); floating dtypes.
    */
SITU_API SITU_CHECKED situ_tensor *situ_gelu(situ_tensor *input, situ_gelu_approximate approximate);
/** log(1 + exp(beta * input)) / beta; input itself where beta * input > threshold; floating dtypes. torch's defaults
    are beta 1 and threshold 20; beta 0 divides by 0. */
SITU_API SITU_CHECKED situ_tensor *situ_softplus(situ_tensor *input, double beta, double threshold);
/** max(min(input, max_val), min_val); torch's defaults are -1 and 1. min_val > max_val is SITU_E_ARG. */
SITU_API SITU_CHECKED situ_tensor *situ_hardtanh(situ_tensor *input, double min_val, double max_val);
/** max(min(input, max), min); -INFINITY and INFINITY leave a side open. NaN stays; a NaN bound makes everything NaN.
    The gradient at a bound is 0. Integer dtypes give f32 for a bound with a fraction. */
SITU_API SITU_CHECKED situ_tensor *situ_clamp(situ_tensor *input, double min, double max);

typedef struct situ_nan_to_num_options {
  double nan;           /**< replaces NaN */
  const double *posinf; /**< replaces +Inf; NULL: the dtype's largest */
  const double *neginf; /**< replaces -Inf; NULL: the dtype's lowest */
} situ_nan_to_num_options;
/** Replaces NaN (by 0 if options are NULL), +Inf and -Inf. */
SITU_API SITU_CHECKED situ_tensor *situ_nan_to_num(situ_tensor *input, const situ_nan_to_num_options *options);

/* In place: each writes into input and returns it, NULL on error. input's dtype stays, so functions with fractional
   results refuse integer dtypes. */

/** situ_neg in place. */
SITU_API situ_tensor *situ_neg_(situ_tensor *input);
/** situ_abs in place. */
SITU_API situ_tensor *situ_abs_(situ_tensor *input);
/** situ_exp in place. */
SITU_API situ_tensor *situ_exp_(situ_tensor *input);
/** situ_log in place. */
SITU_API situ_tensor *situ_log_(situ_tensor *input);
/** situ_sqrt in place. */
SITU_API situ_tensor *situ_sqrt_(situ_tensor *input);
/** situ_rsqrt in place. */
SITU_API situ_tensor *situ_rsqrt_(situ_tensor *input);
/** situ_square in place. */
SITU_API situ_tensor *situ_square_(situ_tensor *input);
/** situ_reciprocal in place. */
SITU_API situ_tensor *situ_reciprocal_(situ_tensor *input);
/** situ_sin in place. */
SITU_API situ_tensor *situ_sin_(situ_tensor *input);
/** situ_cos in place. */
SITU_API situ_tensor *situ_cos_(situ_tensor *input);
/** situ_tan in place. */
SITU_API situ_tensor *situ_tan_(situ_tensor *input);
/** situ_asin in place. */
SITU_API situ_tensor *situ_asin_(situ_tensor *input);
/** situ_acos in place. */
SITU_API situ_tensor *situ_acos_(situ_tensor *input);
/** situ_atan in place. */
SITU_API situ_tensor *situ_atan_(situ_tensor *input);
/** situ_sinh in place. */
SITU_API situ_tensor *situ_sinh_(situ_tensor *input);
/** situ_cosh in place. */
SITU_API situ_tensor *situ_cosh_(situ_tensor *input);
/** situ_asinh in place. */
SITU_API situ_tensor *situ_asinh_(situ_tensor *input);
/** situ_acosh in place. */
SITU_API situ_tensor *situ_acosh_(situ_tensor *input);
/** situ_atanh in place. */
SITU_API situ_tensor *situ_atanh_(situ_tensor *input);
/** situ_exp2 in place. */
SITU_API situ_tensor *situ_exp2_(situ_tensor *input);
/** situ_log10 in place. */
SITU_API situ_tensor *situ_log10_(situ_tensor *input);
/** situ_tanh in place. */
SITU_API situ_tensor *situ_tanh_(situ_tensor *input);
/** situ_sigmoid in place. */
SITU_API situ_tensor *situ_sigmoid_(situ_tensor *input);
/** situ_relu in place. */
SITU_API situ_tensor *situ_relu_(situ_tensor *input);
/** situ_floor in place. */
SITU_API situ_tensor *situ_floor_(situ_tensor *input);
/** situ_ceil in place. */
SITU_API situ_tensor *situ_ceil_(situ_tensor *input);
/** situ_round in place. */
SITU_API situ_tensor *situ_round_(situ_tensor *input);
/** situ_trunc in place. */
SITU_API situ_tensor *situ_trunc_(situ_tensor *input);
/** situ_mish in place. */
SITU_API situ_tensor *situ_mish_(situ_tensor *input);
/** situ_hardswish in place. */
SITU_API situ_tensor *situ_hardswish_(situ_tensor *input);
/** situ_hardsigmoid in place. */
SITU_API situ_tensor *situ_hardsigmoid_(situ_tensor *input);
/** situ_relu6 in place. */
SITU_API situ_tensor *situ_relu6_(situ_tensor *input);
/** situ_selu in place. */
SITU_API situ_tensor *situ_selu_(situ_tensor *input);
/** situ_celu in place. */
SITU_API situ_tensor *situ_celu_(situ_tensor *input, double alpha);
/** situ_hardtanh in place. */
SITU_API situ_tensor *situ_hardtanh_(situ_tensor *input, double min_val, double max_val);
/** situ_threshold in place. */
SITU_API situ_tensor *situ_threshold_(situ_tensor *input, double threshold, double value);
/** situ_clamp in place; a bound with a fraction is SITU_E_DTYPE for integer dtypes. */
SITU_API situ_tensor *situ_clamp_(situ_tensor *input, double min, double max);

SITU_END
#endif
