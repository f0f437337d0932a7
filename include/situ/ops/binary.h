/* Element-wise functions of two and three tensors.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_BINARY_H
#define SITU_OPS_BINARY_H

#include "../tensor.h"

SITU_BEGIN

/* Shapes broadcast and dtypes promote as in torch; shapes that do not broadcast are SITU_E_SHAPE. `_scalar` takes a
   host number, which has no device: a whole number keeps an integer tensor's dtype, any other makes it f32. */

/** input + other. bool + bool is a logical or. */
SITU_API SITU_CHECKED situ_tensor *situ_add(situ_tensor *input, situ_tensor *other);
/** input - other; two bool tensors are SITU_E_DTYPE. */
SITU_API SITU_CHECKED situ_tensor *situ_sub(situ_tensor *input, situ_tensor *other);
/** input * other. */
SITU_API SITU_CHECKED situ_tensor *situ_mul(situ_tensor *input, situ_tensor *other);
/** input / other; integer and bool dtypes give f32. situ_div_mode rounds. */
SITU_API SITU_CHECKED situ_tensor *situ_div(situ_tensor *input, situ_tensor *other);
/** input ** exponent; two bool tensors are SITU_E_DTYPE. */
SITU_API SITU_CHECKED situ_tensor *situ_pow(situ_tensor *input, situ_tensor *exponent);
/** Remainder of input / other, with input's sign (C's fmod); two bool tensors are SITU_E_DTYPE. */
SITU_API SITU_CHECKED situ_tensor *situ_fmod(situ_tensor *input, situ_tensor *other);
/** Remainder of input / other, with other's sign (Python's %); two bool tensors are SITU_E_DTYPE. */
SITU_API SITU_CHECKED situ_tensor *situ_remainder(situ_tensor *input, situ_tensor *other);
/** The larger element; NaN if either is NaN. Equal elements share the gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_maximum(situ_tensor *input, situ_tensor *other);
/** The smaller element; NaN if either is NaN. Equal elements share the gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_minimum(situ_tensor *input, situ_tensor *other);
/** The larger, elementwise; where one is NaN the other. Equal elements share the gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_fmax(situ_tensor *input, situ_tensor *other);
/** The smaller, elementwise; where one is NaN the other. Equal elements share the gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_fmin(situ_tensor *input, situ_tensor *other);
/** torch.clamp with tensors as bounds: min(max(input, min), max). min or max may be NULL, not both.
    An element that equals its bound shares the gradient with it. */
SITU_API SITU_CHECKED situ_tensor *situ_clamp_tensor(situ_tensor *input, situ_tensor *min, situ_tensor *max);
/** input ** other, in f64 for all dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_float_power(situ_tensor *input, situ_tensor *other);
/** input * 2 ** other; integer dtypes give f32. */
SITU_API SITU_CHECKED situ_tensor *situ_ldexp(situ_tensor *input, situ_tensor *other);
/** 0 where input < 0 or NaN, 1 where input > 0, values where input is 0; equal dtypes. Without a gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_heaviside(situ_tensor *input, situ_tensor *values);
/** input == other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_eq(situ_tensor *input, situ_tensor *other);
/** input != other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_ne(situ_tensor *input, situ_tensor *other);
/** input < other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_lt(situ_tensor *input, situ_tensor *other);
/** input <= other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_le(situ_tensor *input, situ_tensor *other);
/** input > other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_gt(situ_tensor *input, situ_tensor *other);
/** input >= other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_ge(situ_tensor *input, situ_tensor *other);
/** Both are not 0, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_logical_and(situ_tensor *input, situ_tensor *other);
/** At least one is not 0, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_logical_or(situ_tensor *input, situ_tensor *other);
/** Exactly one is not 0, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_logical_xor(situ_tensor *input, situ_tensor *other);
/** input & other; integer dtypes and bool. */
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_and(situ_tensor *input, situ_tensor *other);
/** input | other; integer dtypes and bool. */
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_or(situ_tensor *input, situ_tensor *other);
/** input ^ other; integer dtypes and bool. */
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_xor(situ_tensor *input, situ_tensor *other);
/** input * 2 ** other, wrapped; 0 where other is negative or as many bits as the dtype has. Integer dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_left_shift(situ_tensor *input, situ_tensor *other);
/** floor(input / 2 ** other); 0, or -1 of a negative input, where other is negative or as many bits as the dtype has.
    Integer dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_right_shift(situ_tensor *input, situ_tensor *other);
/** The greatest common divisor, not negative; integer dtypes. gcd(0, 0) is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_gcd(situ_tensor *input, situ_tensor *other);
/** The least common multiple, not negative; integer dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_lcm(situ_tensor *input, situ_tensor *other);

/* Floating: integer and bool operands give f32, or SITU_E_DTYPE where torch refuses them. */

/** The angle of the point (other, input), from -pi to pi (C's atan2). At (0, 0) its gradient is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_atan2(situ_tensor *input, situ_tensor *other);
/** sqrt(input^2 + other^2), without overflow; at least one operand is floating. */
SITU_API SITU_CHECKED situ_tensor *situ_hypot(situ_tensor *input, situ_tensor *other);
/** |input| with the sign of other, which -0 and NaN have too. */
SITU_API SITU_CHECKED situ_tensor *situ_copysign(situ_tensor *input, situ_tensor *other);
/** The next number after input in the direction of other: f32 and f64, without a gradient. 16 bits are SITU_E_DTYPE. */
SITU_API SITU_CHECKED situ_tensor *situ_nextafter(situ_tensor *input, situ_tensor *other);
/** input * log(other); 0 where input is 0, unless other is NaN. */
SITU_API SITU_CHECKED situ_tensor *situ_xlogy(situ_tensor *input, situ_tensor *other);
/** input * log(1 + other); 0 where input is 0, unless other is NaN. */
SITU_API SITU_CHECKED situ_tensor *situ_special_xlog1py(situ_tensor *input, situ_tensor *other);
/** log(exp(input) + exp(other)), without overflow; at least one operand is floating. */
SITU_API SITU_CHECKED situ_tensor *situ_logaddexp(situ_tensor *input, situ_tensor *other);
/** log2(2^input + 2^other), without overflow; at least one operand is floating. */
SITU_API SITU_CHECKED situ_tensor *situ_logaddexp2(situ_tensor *input, situ_tensor *other);

/** Whether |input - other| <= atol + rtol * |other|, or both are equal, as bool: torch.isclose. Shapes broadcast; both
    have one dtype. NaN is close to NaN only with equal_nan. torch's defaults are rtol 1e-5, atol 1e-8, equal_nan false;
    negative tolerances are SITU_E_ARG. Records no gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_isclose(situ_tensor *input, situ_tensor *other, double rtol, double atol,
                                                bool equal_nan);
/** *out: whether all elements are close, as in situ_isclose (torch.allclose). Waits for the device. On error *out is
    unchanged. */
SITU_API SITU_CHECKED situ_status situ_allclose(situ_tensor *input, situ_tensor *other, double rtol, double atol,
                                                bool equal_nan, bool *out);
/** Sets *out to whether both have one shape and equal elements: torch.equal. Waits for the device. */
SITU_API SITU_CHECKED situ_status situ_equal(situ_tensor *input, situ_tensor *other, bool *out);

/** input + other. */
SITU_API SITU_CHECKED situ_tensor *situ_add_scalar(situ_tensor *input, double other);
/** input - other; bool is SITU_E_DTYPE. */
SITU_API SITU_CHECKED situ_tensor *situ_sub_scalar(situ_tensor *input, double other);
/** other - input; bool is SITU_E_DTYPE. */
SITU_API SITU_CHECKED situ_tensor *situ_rsub_scalar(situ_tensor *input, double other);
/** input * other. */
SITU_API SITU_CHECKED situ_tensor *situ_mul_scalar(situ_tensor *input, double other);
/** input / other; integer and bool dtypes give f32. */
SITU_API SITU_CHECKED situ_tensor *situ_div_scalar(situ_tensor *input, double other);
/** input ** exponent; a negative whole exponent of an integer dtype is SITU_E_ARG. */
SITU_API SITU_CHECKED situ_tensor *situ_pow_scalar(situ_tensor *input, double exponent);
/** As situ_fmod. */
SITU_API SITU_CHECKED situ_tensor *situ_fmod_scalar(situ_tensor *input, double other);
/** As situ_remainder. */
SITU_API SITU_CHECKED situ_tensor *situ_remainder_scalar(situ_tensor *input, double other);
/** input == other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_eq_scalar(situ_tensor *input, double other);
/** input != other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_ne_scalar(situ_tensor *input, double other);
/** input < other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_lt_scalar(situ_tensor *input, double other);
/** input <= other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_le_scalar(situ_tensor *input, double other);
/** input > other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_gt_scalar(situ_tensor *input, double other);
/** input >= other, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_ge_scalar(situ_tensor *input, double other);
/** base ** exponent (torch.pow with a number first). */
SITU_API SITU_CHECKED situ_tensor *situ_scalar_pow(double base, situ_tensor *exponent);

typedef enum situ_rounding_mode { SITU_ROUND_NONE = 0, SITU_ROUND_TRUNC, SITU_ROUND_FLOOR } situ_rounding_mode;
/** input / other, rounded: integer dtypes stay integer with TRUNC and FLOOR. */
SITU_API SITU_CHECKED situ_tensor *situ_div_mode(situ_tensor *input, situ_tensor *other,
                                                 situ_rounding_mode rounding_mode);
/** situ_div_mode with SITU_ROUND_FLOOR. */
SITU_API SITU_CHECKED situ_tensor *situ_floor_divide(situ_tensor *input, situ_tensor *other);

/** input + alpha * other. torch's default alpha is 1; 0 is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_add_alpha(situ_tensor *input, situ_tensor *other, double alpha);
/** input - alpha * other. torch's default alpha is 1; 0 is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_sub_alpha(situ_tensor *input, situ_tensor *other, double alpha);

/** condition ? input : other; condition is bool, input and other promote. */
SITU_API SITU_CHECKED situ_tensor *situ_where(situ_tensor *condition, situ_tensor *input, situ_tensor *other);
/** input + weight * (end - input); all of one floating dtype. */
SITU_API SITU_CHECKED situ_tensor *situ_lerp(situ_tensor *input, situ_tensor *end, situ_tensor *weight);
/** input + weight * (end - input); f16 and bf16 are computed in f32. */
SITU_API SITU_CHECKED situ_tensor *situ_lerp_scalar(situ_tensor *input, situ_tensor *end, double weight);
/** input + value * tensor1 * tensor2. torch's default value is 1; 0 is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_addcmul(situ_tensor *input, situ_tensor *tensor1, situ_tensor *tensor2,
                                                double value);
/** input + value * tensor1 / tensor2; floating dtypes. torch's default value is 1; 0 is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_addcdiv(situ_tensor *input, situ_tensor *tensor1, situ_tensor *tensor2,
                                                double value);

/* In place, into input: the result must have input's shape (SITU_E_SHAPE) and a dtype that fits input's
   (SITU_E_DTYPE). Returns input, borrowed; NULL on error. */

/** input += other. */
SITU_API situ_tensor *situ_add_(situ_tensor *input, situ_tensor *other);
/** input -= other. */
SITU_API situ_tensor *situ_sub_(situ_tensor *input, situ_tensor *other);
/** input *= other. */
SITU_API situ_tensor *situ_mul_(situ_tensor *input, situ_tensor *other);
/** input /= other; input is floating. */
SITU_API situ_tensor *situ_div_(situ_tensor *input, situ_tensor *other);
/** input **= exponent. */
SITU_API situ_tensor *situ_pow_(situ_tensor *input, situ_tensor *exponent);
/** input = situ_bitwise_left_shift(input, other). */
SITU_API situ_tensor *situ_bitwise_left_shift_(situ_tensor *input, situ_tensor *other);
/** input = situ_bitwise_right_shift(input, other). */
SITU_API situ_tensor *situ_bitwise_right_shift_(situ_tensor *input, situ_tensor *other);
/** input = situ_gcd(input, other). */
SITU_API situ_tensor *situ_gcd_(situ_tensor *input, situ_tensor *other);
/** input = situ_lcm(input, other). */
SITU_API situ_tensor *situ_lcm_(situ_tensor *input, situ_tensor *other);
/** input = situ_atan2(input, other); input is floating. */
SITU_API situ_tensor *situ_atan2_(situ_tensor *input, situ_tensor *other);
/** input = situ_hypot(input, other); input is floating. */
SITU_API situ_tensor *situ_hypot_(situ_tensor *input, situ_tensor *other);
/** input = situ_copysign(input, other); input is floating. */
SITU_API situ_tensor *situ_copysign_(situ_tensor *input, situ_tensor *other);
/** input = situ_nextafter(input, other). */
SITU_API situ_tensor *situ_nextafter_(situ_tensor *input, situ_tensor *other);
/** input = situ_xlogy(input, other); input is floating. */
SITU_API situ_tensor *situ_xlogy_(situ_tensor *input, situ_tensor *other);
/** input += other. */
SITU_API situ_tensor *situ_add_scalar_(situ_tensor *input, double other);
/** input -= other. */
SITU_API situ_tensor *situ_sub_scalar_(situ_tensor *input, double other);
/** input *= other. */
SITU_API situ_tensor *situ_mul_scalar_(situ_tensor *input, double other);
/** input /= other; input is floating. */
SITU_API situ_tensor *situ_div_scalar_(situ_tensor *input, double other);
/** input **= exponent. */
SITU_API situ_tensor *situ_pow_scalar_(situ_tensor *input, double exponent);
/** input += alpha * other. torch's default alpha is 1; 0 is 0. */
SITU_API situ_tensor *situ_add_alpha_(situ_tensor *input, situ_tensor *other, double alpha);
/** input += weight * (end - input). */
SITU_API situ_tensor *situ_lerp_scalar_(situ_tensor *input, situ_tensor *end, double weight);
/** input += value * tensor1 * tensor2. torch's default value is 1; 0 is 0. */
SITU_API situ_tensor *situ_addcmul_(situ_tensor *input, situ_tensor *tensor1, situ_tensor *tensor2, double value);
/** input += value * tensor1 / tensor2. torch's default value is 1; 0 is 0. */
SITU_API situ_tensor *situ_addcdiv_(situ_tensor *input, situ_tensor *tensor1, situ_tensor *tensor2, double value);

SITU_END
#endif
