/* Element-wise functions of two and three tensors.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_BINARY_H
#define SITU_OPS_BINARY_H

#include "../tensor.h"

SITU_BEGIN

/* Shapes broadcast and dtypes promote as in torch. `_scalar` takes a host number, which is no tensor and has no
   device: a whole number keeps an integer tensor's dtype, any other makes it f32. */
SITU_API SITU_CHECKED situ_tensor *situ_add(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_sub(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_mul(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_div(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_pow(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_fmod(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_remainder(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_maximum(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_minimum(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_eq(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_ne(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_lt(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_le(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_gt(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_ge(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_logical_and(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_logical_or(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_logical_xor(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_and(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_or(situ_tensor *a, situ_tensor *b);
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_xor(situ_tensor *a, situ_tensor *b);

SITU_API SITU_CHECKED situ_tensor *situ_add_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_sub_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_rsub_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_mul_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_div_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_pow_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_fmod_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_remainder_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_eq_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_ne_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_lt_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_le_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_gt_scalar(situ_tensor *a, double b);
SITU_API SITU_CHECKED situ_tensor *situ_ge_scalar(situ_tensor *a, double b);
/** base ** exponent. */
SITU_API SITU_CHECKED situ_tensor *situ_scalar_pow(double base, situ_tensor *exponent);
SITU_API SITU_CHECKED situ_tensor *situ_bitwise_not(situ_tensor *a);

typedef enum situ_rounding_mode { SITU_ROUND_NONE = 0, SITU_ROUND_TRUNC, SITU_ROUND_FLOOR } situ_rounding_mode;
/** a / b, rounded: whole numbers stay whole with TRUNC and FLOOR. */
SITU_API SITU_CHECKED situ_tensor *situ_div_mode(situ_tensor *a, situ_tensor *b, situ_rounding_mode mode);
SITU_API SITU_CHECKED situ_tensor *situ_floor_divide(situ_tensor *a, situ_tensor *b);

/** a + alpha b, a - alpha b. */
SITU_API SITU_CHECKED situ_tensor *situ_add_alpha(situ_tensor *a, situ_tensor *b, double alpha);
SITU_API SITU_CHECKED situ_tensor *situ_sub_alpha(situ_tensor *a, situ_tensor *b, double alpha);

/** condition ? a : b; condition is bool. */
SITU_API SITU_CHECKED situ_tensor *situ_where(situ_tensor *condition, situ_tensor *a, situ_tensor *b);
/** a + weight (b - a). */
SITU_API SITU_CHECKED situ_tensor *situ_lerp(situ_tensor *a, situ_tensor *b, situ_tensor *weight);
SITU_API SITU_CHECKED situ_tensor *situ_lerp_scalar(situ_tensor *a, situ_tensor *b, double weight);
/** x + value * a * b, x + value * a / b. */
SITU_API SITU_CHECKED situ_tensor *situ_addcmul(situ_tensor *x, situ_tensor *a, situ_tensor *b, double value);
SITU_API SITU_CHECKED situ_tensor *situ_addcdiv(situ_tensor *x, situ_tensor *a, situ_tensor *b, double value);

/* In place: the result must fit a's shape and dtype. */
SITU_API situ_tensor *situ_add_(situ_tensor *a, situ_tensor *b);
SITU_API situ_tensor *situ_sub_(situ_tensor *a, situ_tensor *b);
SITU_API situ_tensor *situ_mul_(situ_tensor *a, situ_tensor *b);
SITU_API situ_tensor *situ_div_(situ_tensor *a, situ_tensor *b);
SITU_API situ_tensor *situ_pow_(situ_tensor *a, situ_tensor *b);
SITU_API situ_tensor *situ_add_scalar_(situ_tensor *a, double b);
SITU_API situ_tensor *situ_sub_scalar_(situ_tensor *a, double b);
SITU_API situ_tensor *situ_mul_scalar_(situ_tensor *a, double b);
SITU_API situ_tensor *situ_div_scalar_(situ_tensor *a, double b);
SITU_API situ_tensor *situ_pow_scalar_(situ_tensor *a, double b);
SITU_API situ_tensor *situ_add_alpha_(situ_tensor *a, situ_tensor *b, double alpha);
SITU_API situ_tensor *situ_lerp_scalar_(situ_tensor *a, situ_tensor *b, double weight);
SITU_API situ_tensor *situ_addcmul_(situ_tensor *x, situ_tensor *a, situ_tensor *b, double value);
SITU_API situ_tensor *situ_addcdiv_(situ_tensor *x, situ_tensor *a, situ_tensor *b, double value);

SITU_END
#endif
