/* The calls. See calls.h.
   SPDX-License-Identifier: MIT */
#include "support/calls.h"

#include <math.h>

#include "situ/autograd.h"
#include "situ/blocks.h"
#include "support/options.h"

#define ALONG(d) (&(situ_reduce_options){ .dim = SITU_DIMS(d) })

/* A recurrent weight whose powers do not grow, nor with them the last digits in which devices differ. */
static situ_tensor *damped(situ_tensor *weight) {
  if (!situ_dtype_is_floating(situ_dtype_of(weight)) || situ_dim(weight) < 2) return weight;
  return situ_mul_scalar(weight, 1 / (double)(2 << (int)log2((double)situ_size(weight, 1) + 1) / 2));
}

/* Blocks of 32 columns on x's device, the same on each. */
static situ_tensor *blocks_for(situ_tensor *x, int64_t rows) {
  static unsigned char bytes[2048 * 34];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i % 34 == 1 ? 44 : i * 31 % 251);
  const situ_options where = { .device = situ_device_of(x) };
  return situ_blocks_from_host(bytes, (size_t)rows * 34, &SITU_SHAPE(rows, 32), SITU_BLOCK_Q8_0, &where);
}

/* Each element of x 32 times, along a last dimension. */
static situ_tensor *repeated(situ_tensor *x) {
  const situ_options like = { .dtype = situ_dtype_of(x), .device = situ_device_of(x) };
  return situ_mul(situ_unsqueeze(x, -1), situ_ones(SITU_SHAPE(32), &like));
}

/* x as complex numbers: itself and half of it. */
static situ_tensor *complex_of(situ_tensor *x) {
  return situ_stack((situ_tensor *[]){ x, situ_mul_scalar(x, situ_dtype_is_floating(situ_dtype_of(x)) ? 0.5 : 2) }, 2,
                    -1);
}

/* x x^T / (32 l + 1) + I: positive definite, of good condition. */
static situ_tensor *positive_of(situ_tensor *x) {
  const int64_t n = situ_size(x, -2);
  situ_tensor *square = situ_matmul(x, situ_transpose(x, -2, -1));
  if (!situ_dtype_is_floating(situ_dtype_of(x))) return square;
  situ_tensor *eye = situ_eye(n, n, &(situ_options){ .dtype = situ_dtype_of(x), .device = situ_device_of(x) });
  return situ_add(situ_div_scalar(square, 32.0 * (double)situ_size(x, -1) + 1), eye);
}

static situ_tensor *ldl_solved(situ_tensor *x, situ_tensor *b) {
  situ_tensor *pivots, *ld = situ_linalg_ldl_factor(positive_of(x), &pivots);
  return ld ? situ_linalg_ldl_solve(ld, pivots, b) : NULL;
}

/* A mask that has a gradient. */
static situ_tensor *scores_of(situ_tensor *query, situ_tensor *key) {
  situ_tensor *scores = situ_matmul(query, situ_transpose(key, -2, -1));
  return situ_dtype_is_floating(situ_dtype_of(query)) ? situ_tanh(scores) : scores;
}
static situ_tensor *attention_with(situ_tensor *const *t, situ_tensor *mask) {
  const situ_attention_options options = OPTIONS_OF(situ_attention, with.attn_mask = mask);
  return mask ? situ_scaled_dot_product_attention(t[0], t[1], t[2], &options) : NULL;
}
/* The first query sees no key, the others all. Where one saw a single key, the true gradient of its score is 0, and that
   of a fused backward in 16 bits is the rounding of its result. */
static situ_tensor *all_but_first(situ_tensor *query) {
  const situ_options like = { .dtype = SITU_I64, .device = situ_device_of(query) };
  situ_tensor *rows = situ_arange(0, (double)situ_size(query, -2), 1, &like);
  return situ_unsqueeze(situ_gt_scalar(rows, 0), -1);
}

/* A name, the op of the table, operands (parity_shape has the letters), how near its results and its gradients must
   be, the call. */
#define CALLS(_)                                                                                                       \
  _(neg, neg, "x", SAME, SAME, situ_neg(t[0]))                                                                         \
  _(abs, abs, "x", SAME, SAME, situ_abs(t[0]))                                                                         \
  _(sign, sign, "x", SAME, SAME, situ_sign(t[0]))                                                                      \
  _(relu, relu, "x", SAME, SAME, situ_relu(t[0]))                                                                      \
  _(square, square, "x", SAME, SAME, situ_square(t[0]))                                                                \
  _(floor, floor, "x", SAME, SAME, situ_floor(t[0]))                                                                   \
  _(ceil, ceil, "x", SAME, SAME, situ_ceil(t[0]))                                                                      \
  _(round, round, "x", SAME, SAME, situ_round(t[0]))                                                                   \
  _(trunc, trunc, "x", SAME, SAME, situ_trunc(t[0]))                                                                   \
  _(isnan, isnan, "x", SAME, NO_GRAD, situ_isnan(t[0]))                                                                \
  _(isinf, isinf, "x", SAME, NO_GRAD, situ_isinf(t[0]))                                                                \
  _(logical_not, logical_not, "x", SAME, NO_GRAD, situ_logical_not(t[0]))                                              \
  _(bitwise_not, bitwise_not, "x", SAME, NO_GRAD, situ_bitwise_not(t[0]))                                              \
  _(reciprocal, reciprocal, "x", SAME, MATH, situ_reciprocal(t[0]))                                                    \
  _(sqrt, sqrt, "x", SAME, MATH, situ_sqrt(t[0]))                                                                      \
  _(rsqrt, rsqrt, "x", MATH, MATH, situ_rsqrt(t[0]))                                                                   \
  _(exp, exp, "x", MATH, MATH, situ_exp(t[0]))                                                                         \
  _(expm1, expm1, "x", MATH, MATH, situ_expm1(t[0]))                                                                   \
  _(log, log, "x", MATH, MATH, situ_log(t[0]))                                                                         \
  _(log1p, log1p, "x", MATH, MATH, situ_log1p(t[0]))                                                                   \
  _(log2, log2, "x", MATH, MATH, situ_log2(t[0]))                                                                      \
  _(sin, sin, "x", MATH, MATH, situ_sin(t[0]))                                                                         \
  _(cos, cos, "x", MATH, MATH, situ_cos(t[0]))                                                                         \
  _(erf, erf, "x", MATH, MATH, situ_erf(t[0]))                                                                         \
  _(tan, tan, "x", MATH, MATH, situ_tan(t[0]))                                                                         \
  _(asin, asin, "x", MATH, MATH, situ_asin(t[0]))                                                                      \
  _(acos, acos, "x", MATH, MATH, situ_acos(t[0]))                                                                      \
  _(atan, atan, "x", MATH, MATH, situ_atan(t[0]))                                                                      \
  _(sinh, sinh, "x", MATH, MATH, situ_sinh(t[0]))                                                                      \
  _(cosh, cosh, "x", MATH, MATH, situ_cosh(t[0]))                                                                      \
  _(asinh, asinh, "x", MATH, MATH, situ_asinh(t[0]))                                                                   \
  _(acosh, acosh, "x", MATH, MATH, situ_acosh(t[0]))                                                                   \
  _(atanh, atanh, "x", MATH, MATH, situ_atanh(t[0]))                                                                   \
  _(exp2, exp2, "x", MATH, MATH, situ_exp2(t[0]))                                                                      \
  _(log10, log10, "x", MATH, MATH, situ_log10(t[0]))                                                                   \
  _(erfc, erfc, "x", MATH, MATH, situ_erfc(t[0]))                                                                      \
  _(i0, i0, "x", MATH, MATH, situ_i0(t[0]))                                                                            \
  _(lgamma, lgamma, "x", TAIL, TAIL, situ_lgamma(t[0]))                                                                \
  _(digamma, polygamma, "x", TAIL, TAIL, situ_digamma(t[0]))                                                           \
  _(polygamma, polygamma, "x", CHAIN, CHAIN, situ_polygamma(2, t[0]))                                                  \
  _(erfinv, erfinv, "q", MATH, CHAIN, situ_erfinv(t[0]))                                                               \
  _(special_entr, special_entr, "x", MATH, TAIL, situ_special_entr(t[0]))                                              \
  _(sinc, sinc, "x", TAIL, TAIL, situ_sinc(t[0]))                                                                      \
  _(logit, logit, "q", TAIL, CHAIN, situ_logit(t[0], 0.1))                                                             \
  _(tanh, tanh, "x", MATH, TAIL, situ_tanh(t[0]))                                                                      \
  _(sigmoid, sigmoid, "x", MATH, TAIL, situ_sigmoid(t[0]))                                                             \
  _(silu, silu, "x", MATH, TAIL, situ_silu(t[0]))                                                                      \
  _(leaky_relu, leaky_relu, "x", SAME, SAME, situ_leaky_relu(t[0], 0.1))                                               \
  _(elu, elu, "x", MATH, MATH, situ_elu(t[0], 1.5))                                                                    \
  _(gelu, gelu, "x", TAIL, TAIL, situ_gelu(t[0], SITU_GELU_NONE))                                                      \
  _(gelu_tanh, gelu_tanh, "x", TAIL, TAIL, situ_gelu(t[0], SITU_GELU_TANH))                                            \
  _(quick_gelu, quick_gelu, "x", MATH, TAIL, situ_quick_gelu(t[0]))                                                    \
  _(mish, mish, "x", MATH, TAIL, situ_mish(t[0]))                                                                      \
  _(hardswish, hardswish, "x", SAME, SAME, situ_hardswish(t[0]))                                                       \
  _(hardsigmoid, hardsigmoid, "x", SAME, SAME, situ_hardsigmoid(t[0]))                                                 \
  _(softsign, softsign, "x", SAME, SAME, situ_softsign(t[0]))                                                          \
  _(tanhshrink, tanhshrink, "x", TAIL, MATH, situ_tanhshrink(t[0]))                                                    \
  _(softshrink, softshrink, "x", SAME, SAME, situ_softshrink(t[0], 0.5))                                               \
  _(hardshrink, hardshrink, "x", SAME, SAME, situ_hardshrink(t[0], 0.5))                                               \
  _(selu, elu, "x", MATH, MATH, situ_selu(t[0]))                                                                       \
  _(logsigmoid, softplus, "x", MATH, MATH, situ_logsigmoid(t[0]))                                                      \
  _(threshold, masked_fill, "x", SAME, SAME, situ_threshold(t[0], 1, 2))                                               \
  _(softplus, softplus, "x", MATH, MATH, situ_softplus(t[0], 2, 20))                                                   \
  _(hardtanh, hardtanh, "x", SAME, SAME, situ_hardtanh(t[0], -1, 0.5))                                                 \
  _(clamp, clamp, "x", SAME, SAME, situ_clamp(t[0], -1, 1))                                                            \
  _(nan_to_num, nan_to_num, "x", SAME, SAME, situ_nan_to_num(t[0], NULL))                                              \
  _(add_scalar, add_scalar, "x", SAME, SAME, situ_add_scalar(t[0], 3))                                                 \
  _(rsub_scalar, rsub_scalar, "x", SAME, SAME, situ_rsub_scalar(t[0], 3))                                              \
  _(mul_scalar, mul_scalar, "x", SAME, SAME, situ_mul_scalar(t[0], 3))                                                 \
  _(div_scalar, div_scalar, "x", SAME, SAME, situ_div_scalar(t[0], 3))                                                 \
  _(fmod_scalar, fmod_scalar, "x", SAME, SAME, situ_fmod_scalar(t[0], 2))                                              \
  _(remainder_scalar, remainder_scalar, "x", SAME, SAME, situ_remainder_scalar(t[0], 2))                               \
  _(pow_scalar, pow_scalar, "x", MATH, MATH, situ_pow_scalar(t[0], 3))                                                 \
  _(scalar_pow, scalar_pow, "x", MATH, MATH, situ_scalar_pow(1.5, t[0]))                                               \
  _(eq_scalar, eq_scalar, "x", SAME, NO_GRAD, situ_eq_scalar(t[0], 1))                                                 \
  _(ne_scalar, ne_scalar, "x", SAME, NO_GRAD, situ_ne_scalar(t[0], 1))                                                 \
  _(lt_scalar, lt_scalar, "x", SAME, NO_GRAD, situ_lt_scalar(t[0], 1))                                                 \
  _(le_scalar, le_scalar, "x", SAME, NO_GRAD, situ_le_scalar(t[0], 1))                                                 \
  _(gt_scalar, gt_scalar, "x", SAME, NO_GRAD, situ_gt_scalar(t[0], 1))                                                 \
  _(ge_scalar, ge_scalar, "x", SAME, NO_GRAD, situ_ge_scalar(t[0], 1))                                                 \
  _(add, add, "xo", SAME, SUMS, situ_add(t[0], t[1]))                                                                  \
  _(sub, sub, "xo", SAME, SUMS, situ_sub(t[0], t[1]))                                                                  \
  _(mul, mul, "xo", SAME, SUMS, situ_mul(t[0], t[1]))                                                                  \
  _(div, div, "xp", SAME, SUMS, situ_div(t[0], t[1]))                                                                  \
  _(div_trunc, div_trunc, "xp", SAME, SUMS, situ_div_mode(t[0], t[1], SITU_ROUND_TRUNC))                               \
  _(div_floor, div_floor, "xp", SAME, SUMS, situ_floor_divide(t[0], t[1]))                                             \
  _(fmod, fmod, "xp", SAME, SUMS, situ_fmod(t[0], t[1]))                                                               \
  _(remainder, remainder, "xp", SAME, SUMS, situ_remainder(t[0], t[1]))                                                \
  _(pow, pow, "xp", MATH, SUMS, situ_pow(t[0], t[1]))                                                                  \
  _(maximum, maximum, "xo", SAME, SUMS, situ_maximum(t[0], t[1]))                                                      \
  _(minimum, minimum, "xo", SAME, SUMS, situ_minimum(t[0], t[1]))                                                      \
  _(fmax, maximum, "xo", SAME, SUMS, situ_fmax(t[0], t[1]))                                                            \
  _(clamp_tensor, minimum, "xoo", SAME, SUMS, situ_clamp_tensor(t[0], t[1], t[2]))                                     \
  _(round_decimals, round, "x", SAME, SAME, situ_round_decimals(t[0], 1))                                              \
  _(eq, eq, "xo", SAME, NO_GRAD, situ_eq(t[0], t[1]))                                                                  \
  _(ne, ne, "xo", SAME, NO_GRAD, situ_ne(t[0], t[1]))                                                                  \
  _(lt, lt, "xo", SAME, NO_GRAD, situ_lt(t[0], t[1]))                                                                  \
  _(le, le, "xo", SAME, NO_GRAD, situ_le(t[0], t[1]))                                                                  \
  _(gt, gt, "xo", SAME, NO_GRAD, situ_gt(t[0], t[1]))                                                                  \
  _(ge, ge, "xo", SAME, NO_GRAD, situ_ge(t[0], t[1]))                                                                  \
  _(logical_and, logical_and, "xo", SAME, NO_GRAD, situ_logical_and(t[0], t[1]))                                       \
  _(logical_or, logical_or, "xo", SAME, NO_GRAD, situ_logical_or(t[0], t[1]))                                          \
  _(logical_xor, logical_xor, "xo", SAME, NO_GRAD, situ_logical_xor(t[0], t[1]))                                       \
  _(bitwise_and, bitwise_and, "xo", SAME, NO_GRAD, situ_bitwise_and(t[0], t[1]))                                       \
  _(bitwise_or, bitwise_or, "xo", SAME, NO_GRAD, situ_bitwise_or(t[0], t[1]))                                          \
  _(bitwise_xor, bitwise_xor, "xo", SAME, NO_GRAD, situ_bitwise_xor(t[0], t[1]))                                       \
  _(bitwise_left_shift, bitwise_left_shift, "xo", SAME, NO_GRAD, situ_bitwise_left_shift(t[0], t[1]))                  \
  _(bitwise_right_shift, bitwise_right_shift, "xo", SAME, NO_GRAD, situ_bitwise_right_shift(t[0], t[1]))               \
  _(gcd, gcd, "xo", SAME, NO_GRAD, situ_gcd(t[0], t[1]))                                                               \
  _(lcm, lcm, "xo", SAME, NO_GRAD, situ_lcm(t[0], t[1]))                                                               \
  _(atan2, atan2, "xo", MATH, SUMS, situ_atan2(t[0], t[1]))                                                            \
  _(hypot, hypot, "xo", MATH, SUMS, situ_hypot(t[0], t[1]))                                                            \
  _(copysign, copysign, "xo", SAME, SUMS, situ_copysign(t[0], t[1]))                                                   \
  _(nextafter, nextafter, "xo", SAME, NO_GRAD, situ_nextafter(t[0], t[1]))                                             \
  _(xlogy, xlogy, "xp", MATH, SUMS, situ_xlogy(t[0], t[1]))                                                            \
  _(special_xlog1py, special_xlog1py, "xp", MATH, SUMS, situ_special_xlog1py(t[0], t[1]))                              \
  _(logaddexp, logaddexp, "xo", TAIL, SUMS, situ_logaddexp(t[0], t[1]))                                                \
  _(logaddexp2, logaddexp2, "xo", TAIL, SUMS, situ_logaddexp2(t[0], t[1]))                                             \
  _(signbit, copysign, "x", SAME, NO_GRAD, situ_signbit(t[0]))                                                         \
  _(where, where, "zxo", SAME, SUMS, situ_where(t[0], t[1], t[2]))                                                     \
  _(lerp, lerp, "xoo", MATH, SUMS, situ_lerp(t[0], t[1], t[2]))                                                        \
  _(addcmul, addcmul, "xoo", MATH, SUMS, situ_addcmul(t[0], t[1], t[2], 0.5))                                          \
  _(addcdiv, addcdiv, "xop", MATH, SUMS, situ_addcdiv(t[0], t[1], t[2], 0.5))                                          \
  _(masked_fill, masked_fill, "xz", SAME, SAME, situ_masked_fill(t[0], t[1], 1))                                       \
  _(clone, clone, "x", SAME, SAME, situ_clone(t[0]))                                                                   \
  _(copy_, copy_, "yo", SAME, NO_GRAD, situ_copy_(t[0], t[1]))                                                         \
  _(fill_, fill_, "y", SAME, NO_GRAD, situ_fill_(t[0], 3))                                                             \
  _(to_dtype, to_dtype, "x", SAME, SAME, situ_to_dtype(t[0], SITU_F32))                                                \
  _(to_dtype_2, to_dtype, "x", SAME, SAME, situ_to_dtype(t[0], SITU_F16))                                              \
  _(to_dtype_3, to_dtype, "x", SAME, SAME, situ_to_dtype(t[0], SITU_BF16))                                             \
  _(to_dtype_4, to_dtype, "x", SAME, SAME, situ_to_dtype(t[0], SITU_F64))                                              \
  _(to_dtype_5, to_dtype, "x", SAME, SAME, situ_to_dtype(t[0], SITU_I64))                                              \
  _(to_dtype_6, to_dtype, "x", SAME, SAME, situ_to_dtype(t[0], SITU_U8))                                               \
  _(to, to, "x", SAME, SAME, situ_to(t[0], situ_dev("cpu")))                                                           \
  _(tril, tril, "m", SAME, SAME, situ_tril(t[0], -1))                                                                  \
  _(triu, triu, "m", SAME, SAME, situ_triu(t[0], 1))                                                                   \
  _(diagonal, diagonal, "m", SAME, SAME, situ_diagonal(t[0], 1, 2, 0))                                                 \
  _(diag_embed, diag_embed, "r", SAME, SAME, situ_diag_embed(t[0], -1, 0, 2))                                          \
  _(repeat_interleave, view, "m", SAME, SUMS, situ_repeat_interleave(t[0], 2, SITU_DIMS(1)))                           \
  _(block_diag, cat, "rR", SAME, SAME, situ_block_diag(t, 2))                                                          \
  _(kron, mul, "rR", SAME, SUMS, situ_kron(t[0], t[1]))                                                                \
  _(einsum, bmm, "mM", SUMS, SUMS, situ_einsum("bij,bjk->kb", t, 2))                                                   \
  _(tensordot, bmm, "rR", SUMS, SUMS, situ_tensordot(t[0], t[1], SITU_DIMS(1), SITU_DIMS(0)))                          \
  _(bce, binary_cross_entropy, "qq", MATH, CHAIN, situ_binary_cross_entropy(t[0], t[1], NULL, SITU_REDUCTION_NONE))    \
  _(as_strided, as_strided, "m", SAME, SAME,                                                                           \
    situ_as_strided(situ_contiguous(t[0]), SITU_SHAPE(1, 2), SITU_SHAPE(1, 1), 0))                                     \
  _(select, select, "m", SAME, SAME, situ_select(t[0], 1, 0))                                                          \
  _(narrow, narrow, "m", SAME, SAME, situ_narrow(t[0], 1, 0, 1))                                                       \
  _(slice, slice, "m", SAME, SAME, situ_slice(t[0], 2, 1, INT64_MAX, 3))                                               \
  _(expand, expand, "u", SAME, SUMS, situ_expand(t[0], SITU_SHAPE(3, -1)))                                             \
  _(permute, permute, "m", SAME, SAME, situ_permute(t[0], SITU_DIMS(2, 0, 1)))                                         \
  _(view, view, "m", SAME, SAME, situ_reshape(t[0], SITU_SHAPE(-1)))                                                   \
  _(cat, cat, "mm", SAME, SAME, situ_cat(t, 2, 1))                                                                     \
  _(flip, flip, "m", SAME, SAME, situ_flip(t[0], SITU_DIMS(0, 2)))                                                     \
  _(pad, pad, "m", SAME, SUMS, situ_pad(t[0], SITU_SHAPE(1, 2, 0, 1), SITU_PAD_CONSTANT, 2))                           \
  _(pad_2, pad, "m", SAME, SUMS, situ_pad(t[0], SITU_SHAPE(2, 1), SITU_PAD_REPLICATE, 0))                              \
  _(sum, sum, "x", SUMS, SUMS, situ_sum(t[0], NULL))                                                                   \
  _(sum_2, sum, "m", SUMS, SUMS, situ_sum(t[0], ALONG(0)))                                                             \
  _(sum_3, sum, "m", SUMS, SUMS, situ_sum(t[0], ALONG(-1)))                                                            \
  _(mean, mean, "x", SUMS, SUMS, situ_mean(t[0], NULL))                                                                \
  _(mean_2, mean, "m", SUMS, SUMS, situ_mean(t[0], ALONG(0)))                                                          \
  _(mean_3, mean, "m", SUMS, SUMS, situ_mean(t[0], ALONG(-1)))                                                         \
  _(mse_loss, mean_square, "xx", SUMS, SUMS, situ_mse_loss(t[0], t[1], SITU_REDUCTION_MEAN))                           \
  _(prod, prod, "x", SUMS, SUMS, situ_prod(t[0], NULL))                                                                \
  _(prod_2, prod, "m", SUMS, SUMS, situ_prod(t[0], ALONG(0)))                                                          \
  _(prod_3, prod, "m", SUMS, SUMS, situ_prod(t[0], ALONG(-1)))                                                         \
  _(var, var, "x", SUMS, CHAIN, situ_var(t[0], 1, NULL))                                                               \
  _(var_2, var, "m", SUMS, CHAIN, situ_var(t[0], 1, ALONG(-1)))                                                        \
  _(std, std, "x", SUMS, CHAIN, situ_std(t[0], 1, NULL))                                                               \
  _(std_2, std, "m", SUMS, CHAIN, situ_std(t[0], 1, ALONG(-1)))                                                        \
  _(amin, amin, "x", SAME, SUMS, situ_amin(t[0], NULL))                                                                \
  _(amin_2, amin, "m", SAME, SUMS, situ_amin(t[0], ALONG(1)))                                                          \
  _(amax, amax, "x", SAME, SUMS, situ_amax(t[0], NULL))                                                                \
  _(amax_2, amax, "m", SAME, SUMS, situ_amax(t[0], ALONG(1)))                                                          \
  _(all, all, "x", SAME, NO_GRAD, situ_all(t[0], NULL))                                                                \
  _(all_2, all, "m", SAME, NO_GRAD, situ_all(t[0], ALONG(1)))                                                          \
  _(any, any, "x", SAME, NO_GRAD, situ_any(t[0], NULL))                                                                \
  _(any_2, any, "m", SAME, NO_GRAD, situ_any(t[0], ALONG(1)))                                                          \
  _(norm, norm, "x", SUMS, CHAIN, situ_norm(t[0], 2, NULL))                                                            \
  _(norm_2, norm, "m", SUMS, CHAIN, situ_norm(t[0], 3, ALONG(-1)))                                                     \
  _(logsumexp, logsumexp, "m", SUMS, CHAIN, situ_logsumexp(t[0], ALONG(-1)))                                           \
  _(min, min, "m", SAME, SAME, situ_min_dim(t[0], 1, false, also))                                                     \
  _(max, max, "m", SAME, SAME, situ_max_dim(t[0], 1, false, also))                                                     \
  _(cumsum, cumsum, "m", SUMS, SUMS, situ_cumsum(t[0], 1))                                                             \
  _(cumprod, cumprod, "m", SUMS, CHAIN, situ_cumprod(t[0], 1))                                                         \
  _(cumprod_2, cumprod, "m", SUMS, CHAIN, situ_cumprod(t[0], -1))                                                      \
  _(sort, sort, "m", SAME, SAME, situ_sort(t[0], -1, false, also))                                                     \
  _(sort_2, sort, "m", SAME, SAME, situ_sort(t[0], 1, true, also))                                                     \
  _(topk, topk, "m", SAME, SAME, situ_topk(t[0], 1, -1, true, also))                                                   \
  _(logcumsumexp, logcumsumexp, "m", CHAIN, CELLS, situ_logcumsumexp(t[0], 1))                                         \
  _(median, sort, "m", SAME, SAME, situ_median_dim(t[0], 1, false, also))                                              \
  _(mode, sort, "m", SAME, SAME, situ_mode(t[0], -1, false, also))                                                     \
  _(cummax, gather, "m", SAME, SUMS, situ_cummax(t[0], 1, also))                                                       \
  _(nansum, sum, "m", SUMS, SUMS, situ_nansum(t[0], ALONG(1)))                                                         \
  _(diff, sub, "m", SAME, SUMS, situ_diff(t[0], 1, 1))                                                                 \
  _(isin, eq, "xo", SAME, NO_GRAD, situ_isin(t[0], t[1], false))                                                       \
  _(index_select, index_select, "ri", SAME, SUMS, situ_index_select(t[0], 0, t[1]))                                    \
  _(gather, gather, "rj", SAME, SUMS, situ_gather(t[0], 0, t[1]))                                                      \
  _(scatter, scatter, "rjr", SAME, SUMS, situ_scatter(t[0], 0, t[1], t[2]))                                            \
  _(scatter_add, scatter_add, "rjr", SUMS, SUMS, situ_scatter_add(t[0], 0, t[1], t[2]))                                \
  _(index_add, index_add, "ris", SUMS, SUMS, situ_index_add(t[0], 0, t[1], t[2], 0.5))                                 \
  _(index_copy, index_copy, "ris", SAME, SUMS, situ_index_copy(t[0], 0, t[1], t[2]))                                   \
  _(scatter_reduce, scatter_reduce, "rjr", CHAIN, CHAIN,                                                               \
    situ_scatter_reduce(t[0], 0, t[1], t[2], SITU_SCATTER_PROD, true))                                                 \
  _(masked_scatter, where, "xzx", SAME, SUMS, situ_masked_scatter(t[0], t[1], t[2]))                                   \
  _(index, index_select, "ri", SAME, SUMS, situ_index(t[0], &t[1], 1))                                                 \
  _(index_put, index_add, "ris", SUMS, SUMS, situ_index_put(t[0], &t[1], 1, t[2], true))                               \
  _(embedding, embedding, "ir", SAME, SUMS, situ_embedding(t[0], t[1], NULL))                                          \
  _(dequantize, dequantize, "x", SAME, NO_GRAD, situ_dequantize(blocks_for(t[0], 3)))                                  \
  _(block_linear, block_linear, "x", SUMS, CHAIN, situ_block_linear(repeated(t[0]), blocks_for(t[0], 5), NULL))        \
  _(block_embedding, block_embedding, "i", SAME, NO_GRAD, situ_block_embedding(t[0], blocks_for(t[0], 2048)))          \
  _(embedding_limited, embedding, "ir", MATH, SUMS,                                                                    \
    situ_embedding(t[0], situ_clone(t[1]),                                                                             \
                   OPTIONS_AT(situ_embedding, with.max_norm = 0.5, with.scale_grad_by_freq = true)))                   \
  _(embedding_bag, embedding, "jr", SUMS, SUMS, situ_embedding_bag(t[0], t[1], NULL))                                  \
  _(embedding_bag_max, embedding, "jr", SAME, SUMS,                                                                    \
    situ_embedding_bag(t[0], t[1], OPTIONS_AT(situ_embedding_bag, with.mode = SITU_EMBEDDING_BAG_MAX)))                \
  _(embedding_bag_offsets, embedding, "ir", SUMS, SUMS,                                                                \
    situ_embedding_bag(                                                                                                \
        t[0], t[1],                                                                                                    \
        OPTIONS_AT(situ_embedding_bag,                                                                                 \
                   with.offsets = situ_arange(0, (double)situ_numel(t[0]), 2,                                          \
                                              &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(t[0]) })))) \
  _(matmul, matmul, "mM", SUMS, SUMS, situ_matmul(t[0], t[1]))                                                         \
  _(mm, mm, "rR", SUMS, SUMS, situ_mm(t[0], t[1]))                                                                     \
  _(bmm, bmm, "mM", SUMS, SUMS, situ_bmm(t[0], t[1]))                                                                  \
  _(mv, mv, "rv", PRODUCTS, SUMS, situ_mv(t[0], t[1]))                                                                 \
  _(dot, dot, "vv", SUMS, SUMS, situ_dot(t[0], t[1]))                                                                  \
  _(addmm, addmm, "arR", SUMS, SUMS,                                                                                   \
    situ_addmm(t[0], t[1], t[2], OPTIONS_AT(situ_addmm, with.beta = 0.5, with.alpha = 2)))                             \
  _(baddbmm, baddbmm, "AmM", SUMS, SUMS, situ_baddbmm(t[0], t[1], t[2], NULL))                                         \
  _(linear, linear, "mwe", SUMS, SUMS, situ_linear(t[0], t[1], t[2]))                                                  \
  _(linear_relu, linear_activation, "mwe", SUMS, CELLS,                                                                \
    situ_linear_activation(t[0], t[1], t[2], SITU_ACTIVATION_RELU))                                                    \
  _(linear_gelu, linear_activation, "mwe", SUMS, CELLS,                                                                \
    situ_linear_activation(t[0], t[1], t[2], SITU_ACTIVATION_GELU_TANH))                                               \
  _(linear_gelu_erf, linear_activation, "mwe", SUMS, CELLS,                                                            \
    situ_linear_activation(t[0], t[1], t[2], SITU_ACTIVATION_GELU))                                                    \
  _(linear_silu, linear_activation, "mwe", SUMS, CELLS,                                                                \
    situ_linear_activation(t[0], t[1], t[2], SITU_ACTIVATION_SILU))                                                    \
  _(conv1d, conv1d, "mKc", SUMS, SUMS, situ_conv1d(t[0], t[1], t[2], &(situ_conv_options){ .padding = SITU_DIMS(1) })) \
  _(conv2d, conv2d, "gkc", SUMS, SUMS,                                                                                 \
    situ_conv2d(t[0], t[1], t[2], &(situ_conv_options){ .padding = SITU_DIMS(1), .stride = SITU_DIMS(2) }))            \
  _(conv_transpose2d, conv_transpose2d, "gTc", SUMS, SUMS,                                                             \
    situ_conv_transpose2d(t[0], t[1], t[2], &(situ_conv_options){ .padding = SITU_DIMS(1) }))                          \
  _(conv_transpose1d, conv_transpose1d, "mWc", SUMS, SUMS,                                                             \
    situ_conv_transpose1d(t[0], t[1], t[2], &(situ_conv_options){ .padding = SITU_DIMS(1) }))                          \
  _(max_pool2d, max_pool2d, "g", SAME, SUMS,                                                                           \
    situ_max_pool2d(                                                                                                   \
        t[0], &(situ_pool_options){ .kernel = SITU_DIMS(2), .padding = SITU_DIMS(1), .stride = SITU_DIMS(1) }, also))  \
  _(avg_pool2d, avg_pool2d, "g", SUMS, SUMS,                                                                           \
    situ_avg_pool2d(t[0], &(situ_pool_options){ .kernel = SITU_DIMS(2), .padding = SITU_DIMS(1) }))                    \
  _(adaptive_avg_pool2d, adaptive_avg_pool2d, "g", SUMS, SUMS, situ_adaptive_avg_pool2d(t[0], SITU_DIMS(2, 3)))        \
  _(interpolate, interpolate, "g", SUMS, SUMS,                                                                         \
    situ_interpolate(t[0], &(situ_interpolate_options){ .size = SITU_DIMS(4, 7), .mode = SITU_INTERPOLATE_BILINEAR })) \
  _(interpolate_cubic, interpolate, "g", SUMS, SUMS,                                                                   \
    situ_interpolate(t[0], &(situ_interpolate_options){                                                                \
                               .size = SITU_DIMS(5, 3), .mode = SITU_INTERPOLATE_BICUBIC, .antialias = true }))        \
  _(interpolate_area, interpolate, "m", SUMS, SUMS,                                                                    \
    situ_interpolate(t[0], &(situ_interpolate_options){ .size = SITU_DIMS(6), .mode = SITU_INTERPOLATE_AREA }))        \
  _(interpolate_nearest, interpolate, "g", SUMS, SUMS,                                                                 \
    situ_interpolate(t[0], &(situ_interpolate_options){ .scale_factor = { 1.3 } }))                                    \
  _(linalg_cholesky, linalg_cholesky, "m", CHAIN, CHAIN, situ_linalg_cholesky(positive_of(t[0]), false))               \
  _(linalg_det, linalg_det, "m", CHAIN, CHAIN, situ_linalg_det(positive_of(t[0])))                                     \
  _(linalg_slogdet, linalg_slogdet, "m", CHAIN, CHAIN, situ_linalg_slogdet(positive_of(t[0]), also))                   \
  _(linalg_inv, linalg_inv, "m", CHAIN, CHAIN, situ_linalg_inv(positive_of(t[0])))                                     \
  _(linalg_solve, linalg_solve, "mA", CHAIN, CHAIN, situ_linalg_solve(positive_of(t[0]), t[1], true))                  \
  _(linalg_solve_triangular, linalg_solve_triangular, "mA", CHAIN, CHAIN,                                              \
    situ_linalg_solve_triangular(positive_of(t[0]), t[1], true, true, false))                                          \
  _(linalg_qr, linalg_qr, "m", CHAIN, CHAIN, situ_linalg_qr(positive_of(t[0]), SITU_LINALG_QR_REDUCED, also))          \
  _(linalg_svd, linalg_svd, "m", CHAIN, CHAIN, situ_linalg_svdvals(positive_of(t[0])))                                 \
  _(linalg_eigh, linalg_eigh, "m", CHAIN, CHAIN, situ_linalg_eigvalsh(positive_of(t[0]), false))                       \
  _(linalg_pinv, linalg_pinv, "m", CHAIN, CHAIN, situ_linalg_pinv(positive_of(t[0]), NULL))                            \
  _(linalg_lstsq, linalg_lstsq, "mA", CHAIN, CHAIN, situ_linalg_lstsq(positive_of(t[0]), t[1], SITU_NONE, also))       \
  _(linalg_lu_factor, linalg_lu_factor, "m", CHAIN, CHAIN, situ_linalg_lu_factor(positive_of(t[0]), NULL))             \
  _(linalg_ldl_factor, linalg_ldl_factor, "m", CHAIN, NO_GRAD, situ_linalg_ldl_factor(positive_of(t[0]), NULL))        \
  _(linalg_ldl_solve, linalg_ldl_solve, "mA", CHAIN, NO_GRAD, ldl_solved(t[0], t[1]))                                  \
  _(linalg_matrix_exp, linalg_matrix_exp, "m", CHAIN, CHAIN, situ_linalg_matrix_exp(situ_neg(positive_of(t[0]))))      \
  _(fft_fft, fft, "m", SUMS, SUMS, situ_fft_fft(complex_of(t[0]), NULL))                                               \
  _(fft_ifft, fft, "m", SUMS, SUMS, situ_fft_ifft(complex_of(t[0]), &(situ_fft_options){ .dim = SITU_DIMS(1) }))       \
  _(fft_rfft, fft, "m", SUMS, SUMS, situ_fft_rfft(t[0], NULL))                                                         \
  _(fft_ihfft, fft, "m", SUMS, SUMS, situ_fft_ihfft(t[0], &(situ_fft_options){ .dim = SITU_DIMS(1) }))                 \
  _(fft_irfft, fft, "m", SUMS, SUMS, situ_fft_irfft(complex_of(t[0]), &(situ_fft_options){ .n = 7 }))                  \
  _(fft_hfft, fft, "m", SUMS, SUMS, situ_fft_hfft(complex_of(t[0]), NULL))                                             \
  _(batch_norm, batch_norm, "mUUuu", CHAIN, CHAIN,                                                                     \
    situ_batch_norm(t[0], t[1], t[2], t[3], t[4], OPTIONS_AT(situ_batch_norm, with.training = true)))                  \
  _(layer_norm, layer_norm, "mvv", CHAIN, CHAIN, situ_layer_norm(t[0], situ_shape_of(t[1]), t[1], t[2], 1e-5))         \
  _(group_norm, group_norm, "guu", CHAIN, CHAIN,                                                                       \
    situ_group_norm(t[0], situ_size(t[0], 1) % 2 ? 1 : 2, t[1], t[2], 1e-5))                                           \
  _(rms_norm, rms_norm, "mv", CHAIN, CHAIN, situ_rms_norm(t[0], situ_shape_of(t[1]), t[1], SITU_NONE))                 \
  _(softmax, softmax, "m", CHAIN, CHAIN, situ_softmax(t[0], -1))                                                       \
  _(log_softmax, log_softmax, "m", CHAIN, CHAIN, situ_log_softmax(t[0], 1))                                            \
  _(cross_entropy, cross_entropy, "rt", CHAIN, CHAIN,                                                                  \
    situ_cross_entropy(t[0], t[1], &(situ_cross_entropy_options){ .label_smoothing = 0.1 }))                           \
  _(nll_loss, nll_loss, "rtV", CHAIN, CHAIN,                                                                           \
    situ_nll_loss(t[0], t[1], &(situ_cross_entropy_options){ .weight = t[2] }))                                        \
  _(scaled_dot_product_attention, scaled_dot_product_attention, "mmm", CHAIN, BLOCKS,                                  \
    situ_scaled_dot_product_attention(t[0], t[1], t[2], NULL))                                                         \
  _(attention_causal, scaled_dot_product_attention, "mmm", CHAIN, BLOCKS,                                              \
    situ_scaled_dot_product_attention(t[0], t[1], t[2],                                                                \
                                      OPTIONS_AT(situ_attention, with.is_causal = true, with.dropout_p = 0.25)))       \
  _(attention_added, scaled_dot_product_attention, "mmm", CHAIN, BLOCKS, attention_with(t, scores_of(t[0], t[1])))     \
  _(attention_masked, scaled_dot_product_attention, "mmm", CHAIN, BLOCKS, attention_with(t, all_but_first(t[0])))      \
  _(rnn_layer, rnn_layer, "mhr", CELLS, BLOCKS, situ_rnn_layer(t[0], damped(t[1]), t[2], NULL))                        \
  _(lstm_layer, lstm_layer, "GHrr", CELLS, BLOCKS,                                                                     \
    situ_lstm_layer(t[0], damped(t[1]), NULL, t[2], t[3], &(situ_recurrent_options){ .c_n = also }))                   \
  _(gru_layer, gru_layer, "JLr", CELLS, BLOCKS,                                                                        \
    situ_gru_layer(t[0], damped(t[1]), NULL, t[2], &(situ_recurrent_options){ .reverse = true }))                      \
  _(dropout, dropout, "x", SAME, SAME, situ_dropout(t[0], 0.5, true, NULL))                                            \
  _(bernoulli, bernoulli, "q", SAME, NO_GRAD, situ_bernoulli(t[0], NULL))                                              \
  _(bernoulli_, bernoulli_, "y", SAME, NO_GRAD, situ_bernoulli_(t[0], 0.3, NULL))                                      \
  _(uniform_, uniform_, "y", SAME, NO_GRAD, situ_uniform_(t[0], -1, 2, NULL))                                          \
  _(normal_, normal_, "y", MATH, NO_GRAD, situ_normal_(t[0], 0, 1, NULL))

#define DEFINE(name, op, operands, forward, backward, expression)        \
  static situ_tensor *call_##name(situ_tensor **t, situ_tensor **also) { \
    (void)also;                                                          \
    return expression;                                                   \
  }
CALLS(DEFINE)
#define LIST(name, op, operands, forward, backward, expression) { #op, operands, forward, backward, call_##name },
const parity_row parity_rows[] = { CALLS(LIST) };
const size_t parity_row_count = sizeof parity_rows / sizeof *parity_rows;

situ_shape parity_shape(char letter, situ_shape s, int variant) {
  int64_t b = 1, n = s.ndim > 1 ? s.dim[s.ndim - 2] : 1, l = s.ndim ? s.dim[s.ndim - 1] : 1;
  for (int d = 0; d < s.ndim - 2; d++) b *= s.dim[d];
  switch (letter) {
  case 'o': /* other */
  case 'p': /* other, above 0 */
    if (variant % 3 == 1 && s.ndim) s.dim[0] = 1;
    if (variant % 3 == 2) s = s.ndim > 1 ? SITU_SHAPE(l) : SITU_SCALAR;
    return s;
  case 'r': return SITU_SHAPE(n, l);
  case 'R': return SITU_SHAPE(l, n + 1);
  case 'a': return SITU_SHAPE(n, n + 1);
  case 'm': return SITU_SHAPE(b, n, l);
  case 'G': return SITU_SHAPE(b, n, 4 * l);
  case 'H': return SITU_SHAPE(4 * l, l);
  case 'J': return SITU_SHAPE(b, n, 3 * l);
  case 'L': return SITU_SHAPE(3 * l, l);
  case 'h': return SITU_SHAPE(l, l);
  case 'M': return SITU_SHAPE(b, l, n + 1);
  case 'A': return SITU_SHAPE(b, n, n + 1);
  case 'w': return SITU_SHAPE(n + 1, l);
  case 'e': return SITU_SHAPE(n + 1);
  case 'V':
  case 'v': return SITU_SHAPE(l);
  case 'U':
  case 'u': /* one for each of n */ return SITU_SHAPE(n);
  case 't': /* a class, of l, for each of n */ return SITU_SHAPE(l ? n : 0);
  case 'i': return SITU_SHAPE(n ? n + 1 : 0); /* rows of n */
  case 'j': return SITU_SHAPE(n, l);          /* rows of n */
  case 's': return SITU_SHAPE(n ? n + 1 : 0, l);
  case 'g': return SITU_SHAPE(b, n, l, 5);
  case 'k': return SITU_SHAPE(2, n, 3, 3);
  case 'K': return SITU_SHAPE(2, n, 3);
  case 'W': return SITU_SHAPE(n, 2, 3);
  case 'T': return SITU_SHAPE(n, 2, 3, 3);
  case 'c': return SITU_SHAPE(2);
  default: return s; /* x; y: as x, rows; z: bool; q: a probability */
  }
}
