/* Element-wise functions of one tensor.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_UNARY_H
#define SITU_OPS_UNARY_H

#include "../tensor.h"

SITU_BEGIN

/* y = f(x), element by element, in x's shape. Whole-number inputs of functions that are not whole-numbered
   (exp, sqrt, ...) give f32, as in torch. */
SITU_API SITU_CHECKED situ_tensor *situ_neg(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_abs(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_sign(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_exp(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_expm1(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_log(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_log1p(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_log2(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_sqrt(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_rsqrt(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_square(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_reciprocal(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_sin(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_cos(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_tanh(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_sigmoid(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_relu(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_silu(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_erf(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_floor(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_ceil(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_round(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_trunc(situ_tensor *x);
/** bool results. */
SITU_API SITU_CHECKED situ_tensor *situ_isnan(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_isinf(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_logical_not(situ_tensor *x);

/** x where x > 0, else slope * x; torch's default slope is 0.01. */
SITU_API SITU_CHECKED situ_tensor *situ_leaky_relu(situ_tensor *x, double negative_slope);
/** x where x > 0, else alpha * (exp(x) - 1). */
SITU_API SITU_CHECKED situ_tensor *situ_elu(situ_tensor *x, double alpha);

typedef enum situ_gelu_approximate { SITU_GELU_NONE = 0, SITU_GELU_TANH } situ_gelu_approximate;
/** x * Phi(x), exactly (erf) or by the tanh formula (Hendrycks and Gimpel, arXiv:1606.08415). */
SITU_API SITU_CHECKED situ_tensor *situ_gelu(situ_tensor *x, situ_gelu_approximate approximate);
/** log(1 + exp(beta x)) / beta; x itself where beta x > threshold. torch's defaults: 1, 20. */
SITU_API SITU_CHECKED situ_tensor *situ_softplus(situ_tensor *x, double beta, double threshold);
SITU_API SITU_CHECKED situ_tensor *situ_hardtanh(situ_tensor *x, double min, double max);
/** max(min(x, max), min); -INFINITY and INFINITY leave a side open. NaN stays; with a NaN bound all is NaN. The gradient at a bound
    is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_clamp(situ_tensor *x, double min, double max);

typedef struct situ_nan_to_num_options {
  double nan;           /**< replaces NaN */
  const double *posinf; /**< replaces +Inf; NULL: the dtype's largest */
  const double *neginf; /**< replaces -Inf; NULL: the dtype's lowest */
} situ_nan_to_num_options;
SITU_API SITU_CHECKED situ_tensor *situ_nan_to_num(situ_tensor *x, const situ_nan_to_num_options *options);

/* In place. */
SITU_API situ_tensor *situ_neg_(situ_tensor *x);
SITU_API situ_tensor *situ_abs_(situ_tensor *x);
SITU_API situ_tensor *situ_exp_(situ_tensor *x);
SITU_API situ_tensor *situ_log_(situ_tensor *x);
SITU_API situ_tensor *situ_sqrt_(situ_tensor *x);
SITU_API situ_tensor *situ_rsqrt_(situ_tensor *x);
SITU_API situ_tensor *situ_square_(situ_tensor *x);
SITU_API situ_tensor *situ_reciprocal_(situ_tensor *x);
SITU_API situ_tensor *situ_sin_(situ_tensor *x);
SITU_API situ_tensor *situ_cos_(situ_tensor *x);
SITU_API situ_tensor *situ_tanh_(situ_tensor *x);
SITU_API situ_tensor *situ_sigmoid_(situ_tensor *x);
SITU_API situ_tensor *situ_relu_(situ_tensor *x);
SITU_API situ_tensor *situ_floor_(situ_tensor *x);
SITU_API situ_tensor *situ_ceil_(situ_tensor *x);
SITU_API situ_tensor *situ_round_(situ_tensor *x);
SITU_API situ_tensor *situ_trunc_(situ_tensor *x);
SITU_API situ_tensor *situ_clamp_(situ_tensor *x, double min, double max);

SITU_END
#endif
