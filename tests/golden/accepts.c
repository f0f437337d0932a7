/* Which dtypes each function takes, and the dtype of what it gives: as torch 2.15 (tools/golden/accepts.py), but for the departures
   below, each with its reason. A departure that has gone fails.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/random.h"
#include "support/test.h"

#define MEAN SITU_REDUCTION_MEAN
#define SUM SITU_REDUCTION_SUM
#define ALONG(d) (&(situ_reduce_options){ .dim = SITU_DIMS(d) })
#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })

/* clang-format off */
/* [2, 2] of ones: x and y have the dtypes of the line; f is f32, h f16, i i64 zeros, b bool. d is the dtype itself. */
#define ELEMENTWISE(_)                                                                                            \
  _(neg, situ_neg(x)) _(abs, situ_abs(x)) _(sign, situ_sign(x)) _(exp, situ_exp(x)) _(expm1, situ_expm1(x))       \
  _(log, situ_log(x)) _(log1p, situ_log1p(x)) _(log2, situ_log2(x)) _(sqrt, situ_sqrt(x)) _(rsqrt, situ_rsqrt(x)) \
  _(square, situ_square(x)) _(reciprocal, situ_reciprocal(x)) _(sin, situ_sin(x)) _(cos, situ_cos(x))             \
  _(tanh, situ_tanh(x)) _(sigmoid, situ_sigmoid(x)) _(relu, situ_relu(x)) _(silu, situ_silu(x))                   \
  _(erf, situ_erf(x)) _(floor, situ_floor(x)) _(ceil, situ_ceil(x)) _(round, situ_round(x)) _(trunc, situ_trunc(x)) \
  _(signbit, situ_signbit(x)) _(isnan, situ_isnan(x)) _(isinf, situ_isinf(x)) _(logical_not, situ_logical_not(x))                             \
  _(bitwise_not, situ_bitwise_not(x)) _(leaky_relu, situ_leaky_relu(x, 0.01)) _(elu, situ_elu(x, 1))              \
  _(gelu, situ_gelu(x, SITU_GELU_NONE)) _(gelu_tanh, situ_gelu(x, SITU_GELU_TANH))                                \
  _(softplus, situ_softplus(x, 1, 20)) _(hardtanh, situ_hardtanh(x, -1, 1))                                       \
  _(hardtanh_fraction, situ_hardtanh(x, -0.5, 0.5)) _(clamp, situ_clamp(x, 0, 1))                                 \
  _(polygamma, situ_polygamma(1, x)) _(logit, situ_logit(x, 0)) _(tan, situ_tan(x)) _(asin, situ_asin(x)) \
  _(acos, situ_acos(x)) _(atan, situ_atan(x)) _(sinh, situ_sinh(x)) _(cosh, situ_cosh(x)) _(asinh, situ_asinh(x)) \
  _(acosh, situ_acosh(x)) _(atanh, situ_atanh(x)) _(exp2, situ_exp2(x)) _(log10, situ_log10(x)) \
  _(erfc, situ_erfc(x)) _(erfinv, situ_erfinv(x)) _(lgamma, situ_lgamma(x)) _(digamma, situ_digamma(x)) \
  _(i0, situ_i0(x)) _(sinc, situ_sinc(x)) \
  _(quick_gelu, situ_quick_gelu(x)) _(mish, situ_mish(x)) _(hardswish, situ_hardswish(x)) _(hardsigmoid, situ_hardsigmoid(x)) \
  _(relu6, situ_relu6(x)) _(selu, situ_selu(x)) _(celu, situ_celu(x, 1)) _(logsigmoid, situ_logsigmoid(x)) _(softsign, situ_softsign(x)) \
  _(tanhshrink, situ_tanhshrink(x)) _(softshrink, situ_softshrink(x, 0.5)) _(hardshrink, situ_hardshrink(x, 0.5)) \
  _(threshold, situ_threshold(x, 1, 2)) _(threshold_fraction, situ_threshold(x, 0.5, 1.5)) _(glu, situ_glu(x, -1)) \
  _(clamp_fraction, situ_clamp(x, 0.5, 1.5)) _(clamp_nan, situ_clamp(x, NAN, 1))                                  \
  _(nan_to_num, situ_nan_to_num(x, NULL)) _(neg_, situ_neg_(x)) _(exp_, situ_exp_(x)) _(square_, situ_square_(x)) \
  _(relu_, situ_relu_(x)) _(sqrt_, situ_sqrt_(x)) _(abs_, situ_abs_(x)) _(floor_, situ_floor_(x))                 \
  _(clamp_, situ_clamp_(x, 0, 1)) _(clamp_fraction_, situ_clamp_(x, 0.5, 1.5))                                    \
  _(add_scalar, situ_add_scalar(x, 2)) _(add_fraction, situ_add_scalar(x, 1.5))                                   \
  _(sub_scalar, situ_sub_scalar(x, 2)) _(sub_fraction, situ_sub_scalar(x, 1.5))                                   \
  _(rsub_scalar, situ_rsub_scalar(x, 2)) _(rsub_fraction, situ_rsub_scalar(x, 1.5))                               \
  _(mul_scalar, situ_mul_scalar(x, 2)) _(mul_fraction, situ_mul_scalar(x, 1.5))                                   \
  _(div_scalar, situ_div_scalar(x, 2)) _(pow_scalar, situ_pow_scalar(x, 2))                                       \
  _(pow_fraction, situ_pow_scalar(x, 1.5)) _(pow_negative, situ_pow_scalar(x, -1))                                \
  _(scalar_pow, situ_scalar_pow(2, x)) _(fraction_pow, situ_scalar_pow(1.5, x))                                   \
  _(fmod_scalar, situ_fmod_scalar(x, 2)) _(fmod_fraction, situ_fmod_scalar(x, 1.5))                               \
  _(fmod_zero, situ_fmod_scalar(x, 0)) _(remainder_scalar, situ_remainder_scalar(x, 2))                           \
  _(remainder_fraction, situ_remainder_scalar(x, 1.5)) _(eq_scalar, situ_eq_scalar(x, 2))                         \
  _(eq_fraction, situ_eq_scalar(x, 1.5)) _(lt_scalar, situ_lt_scalar(x, 2)) _(ge_fraction, situ_ge_scalar(x, 1.5)) \
  _(add_scalar_, situ_add_scalar_(x, 2)) _(add_fraction_, situ_add_scalar_(x, 1.5))                               \
  _(sub_scalar_, situ_sub_scalar_(x, 2)) _(mul_scalar_, situ_mul_scalar_(x, 2))                                   \
  _(div_scalar_, situ_div_scalar_(x, 2)) _(pow_scalar_, situ_pow_scalar_(x, 2))
#define REDUCTIONS(_)                                                                                             \
  _(sum, situ_sum(x, NULL)) _(sum_dim, situ_sum(x, ALONG(0)))                                                     \
  _(sum_i32, situ_sum(x, &(situ_reduce_options){ .dtype = SITU_I32 })) _(mean, situ_mean(x, NULL))                \
  _(mean_f32, situ_mean(x, &(situ_reduce_options){ .dtype = SITU_F32 }))                                          \
  _(prod, situ_prod(x, NULL)) _(var, situ_var(x, 1, NULL)) _(std, situ_std(x, 1, NULL))                           \
  _(amin, situ_amin(x, NULL)) _(amax, situ_amax(x, NULL)) _(all, situ_all(x, NULL)) _(any, situ_any(x, NULL))     \
  _(norm, situ_norm(x, 2, NULL)) _(logsumexp, situ_logsumexp(x, ALONG(1))) _(min, situ_min(x)) _(max, situ_max(x)) \
  _(min_dim, situ_min_dim(x, 0, false, NULL)) _(argmin, situ_argmin(x, NULL)) _(argmax, situ_argmax(x, NULL))     \
  _(argmax_dim, situ_argmax(x, ALONG(0))) _(cumsum, situ_cumsum(x, 0)) _(sort, situ_sort(x, -1, false, NULL))     \
  _(cumprod, situ_cumprod(x, 0))                                                                                  \
  _(argsort, situ_argsort(x, -1, false)) _(topk, situ_topk(x, 1, -1, true, NULL)) _(softmax, situ_softmax(x, 1))  \
  _(log_softmax, situ_log_softmax(x, 1)) _(dropout, situ_dropout(x, 0.5, true, NULL))                             \
  _(dropout_eval, situ_dropout(x, 0.5, false, NULL)) _(tril, situ_tril(x, 0)) _(triu, situ_triu(x, 0))            \
  _(flip, situ_flip(x, SITU_DIMS(0))) _(roll, situ_roll(x, SITU_SHAPE(1), SITU_SCALAR))                           \
  _(repeat, situ_repeat(x, SITU_SHAPE(2, 1))) _(pad, situ_pad(x, SITU_SHAPE(1, 1), SITU_PAD_CONSTANT, 0))         \
  _(pad_fraction, situ_pad(x, SITU_SHAPE(1, 1), SITU_PAD_CONSTANT, 0.5))                                          \
  _(pad_reflect, situ_pad(x, SITU_SHAPE(1, 1), SITU_PAD_REFLECT, 0))                                              \
  _(pad_circular, situ_pad(x, SITU_SHAPE(1, 1), SITU_PAD_CIRCULAR, 0))                                            \
  _(pad_replicate, situ_pad(x, SITU_SHAPE(1, 1), SITU_PAD_REPLICATE, 0))                                          \
  _(masked_fill_whole, situ_masked_fill(x, b, 2)) _(masked_fill_fraction, situ_masked_fill(x, b, 0.5))            \
  _(fill_, situ_fill_(x, 2)) _(fill_fraction_, situ_fill_(x, 0.5)) _(zero_, situ_zero_(x))                        \
  _(nonzero, situ_nonzero(x)) _(masked_select, situ_masked_select(x, b)) _(one_hot, situ_one_hot(x, 3))           \
  _(uniform_, situ_uniform_(x, 0, 1, NULL)) _(normal_, situ_normal_(x, 0, 1, NULL))                               \
  _(bernoulli_, situ_bernoulli_(x, 0.5, NULL)) _(bernoulli, situ_bernoulli(x, NULL))                              \
  _(full_like_fraction, situ_full_like(x, 0.5, NULL)) _(rand_like, situ_rand_like(x, NULL))                       \
  _(randn_like, situ_randn_like(x, NULL)) _(randint_like, situ_randint_like(x, 0, 2, NULL))                       \
  _(zeros_like, situ_zeros_like(x, NULL)) _(layer_norm, situ_layer_norm(x, SITU_SHAPE(2), NULL, NULL, 1e-5))         \
  _(rms_norm, situ_rms_norm(x, SITU_SHAPE(2), NULL, SITU_NONE)) _(group_norm, situ_group_norm(x, 1, NULL, NULL, 1e-5))       \
  _(batch_norm, situ_batch_norm(x, NULL, NULL, NULL, NULL, OPTIONS_AT(situ_batch_norm, with.training = true)))       \
  _(max_pool2d, situ_max_pool2d(situ_reshape(x, SITU_SHAPE(1, 2, 2)), &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL)) \
  _(avg_pool2d, situ_avg_pool2d(situ_reshape(x, SITU_SHAPE(1, 2, 2)), &(situ_pool_options){ .kernel = SITU_DIMS(2) })) \
  _(adaptive_avg_pool2d, situ_adaptive_avg_pool2d(situ_reshape(x, SITU_SHAPE(1, 2, 2)), SITU_DIMS(1)))            \
  _(conv_transpose1d, situ_conv_transpose1d(situ_unsqueeze(x, 0), situ_reshape(x, SITU_SHAPE(2, 2, 1)), NULL, NULL))
#define WINDOWS_AND_INDICES(_)                                                                                    \
  _(max_pool1d, situ_max_pool1d(x, &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL))                         \
  _(max_pool3d, situ_max_pool3d(situ_reshape(x, SITU_SHAPE(1, 1, 2, 2)), &(situ_pool_options){ .kernel = SITU_DIMS(1) }, NULL)) \
  _(avg_pool3d, situ_avg_pool3d(situ_reshape(x, SITU_SHAPE(1, 1, 2, 2)), &(situ_pool_options){ .kernel = SITU_DIMS(1) })) \
  _(adaptive_max_pool1d, situ_adaptive_max_pool1d(x, 1, NULL)) _(adaptive_avg_pool1d, situ_adaptive_avg_pool1d(x, 1)) \
  _(fft_fft, situ_fft_fft(x, NULL)) _(fft_rfft, situ_fft_rfft(x, NULL)) _(fft_irfft, situ_fft_irfft(x, NULL))     \
  _(stft, situ_stft(x, NULL, 2, &(situ_stft_options){ .hop_length = 1 }))                                         \
  _(fft_fftshift, situ_fft_fftshift(x, (situ_shape){ 0 }))                                                        \
  _(interpolate, situ_interpolate(situ_unsqueeze(x, 0), &(situ_interpolate_options){ .size = SITU_DIMS(3) }))     \
  _(index_select, situ_index_select(x, 0, situ_select(i, 0, 0))) _(gather, situ_gather(x, 0, i))                  \
  _(scatter, situ_scatter(x, 0, i, x)) _(scatter_add, situ_scatter_add(x, 0, i, x))                               \
  _(index_add, situ_index_add(x, 0, situ_select(i, 0, 0), x, 1)) _(embedding_weight, situ_embedding(i, x, NULL))  \
  _(index_copy, situ_index_copy(x, 0, situ_select(i, 0, 0), x)) _(index_fill, situ_index_fill(x, 0, situ_select(i, 0, 0), 1)) \
  _(index, situ_index(x, &i, 1)) _(index_put, situ_index_put(x, &i, 1, x, true))                                  \
  _(scatter_value, situ_scatter_value(x, 0, i, 2)) _(matmul, situ_matmul(x, x)) _(mm, situ_mm(x, x))              \
  _(bmm, situ_bmm(situ_unsqueeze(x, 0), situ_unsqueeze(x, 0))) _(mv, situ_mv(x, situ_select(x, 0, 0)))            \
  _(dot, situ_dot(situ_select(x, 0, 0), situ_select(x, 0, 0)))                                                    \
  _(outer, situ_outer(situ_select(x, 0, 0), situ_select(x, 0, 0))) _(addmm, situ_addmm(x, x, x, NULL))            \
  _(addr, situ_addr(x, situ_select(x, 0, 0), situ_select(x, 0, 0), NULL)) _(inner, situ_inner(x, x))              \
  _(addmv, situ_addmv(situ_select(x, 0, 0), x, situ_select(x, 0, 0), NULL))                                       \
  _(addbmm, situ_addbmm(x, situ_unsqueeze(x, 0), situ_unsqueeze(x, 0), NULL))                                     \
  _(linalg_vecdot, situ_linalg_vecdot(x, x, -1)) _(linalg_matrix_power, situ_linalg_matrix_power(x, 2))           \
  _(linalg_vector_norm, situ_linalg_vector_norm(x, 2, NULL)) _(multinomial, situ_multinomial(x, 1, true, NULL))   \
  _(linalg_matrix_norm, situ_linalg_matrix_norm(x, SITU_MATRIX_NORM_1, NULL))                                     \
  _(cov, situ_cov(x, 1)) _(corrcoef, situ_corrcoef(x)) _(dist, situ_dist(x, x, 2)) _(pdist, situ_pdist(x, 2))     \
  _(mvlgamma, situ_mvlgamma(x, 1)) _(special_ndtr, situ_special_ndtr(x)) _(exponential_, situ_exponential_(x, 1, NULL)) \
  _(combinations, situ_combinations(situ_select(x, 0, 0), 2, false))                                              \
  _(multilabel_margin_loss, situ_multilabel_margin_loss(x, i, MEAN))                                              \
  _(bilinear, situ_bilinear(x, x, situ_reshape(x, SITU_SHAPE(1, 2, 2)), NULL))                                    \
  _(linalg_multi_dot, situ_linalg_multi_dot((situ_tensor *[]){ x, x }, 2)) _(linalg_vander, situ_linalg_vander(x, 2)) \
  _(linalg_householder_product, situ_linalg_householder_product(x, situ_select(x, 0, 0)))                         \
  _(repeat_interleave_tensor, situ_repeat_interleave_tensor(x, situ_select(i, 0, 0), SITU_DIMS(0)))               \
  _(unique_dim, situ_unique_dim(x, 0, NULL, NULL)) _(ctc_loss, situ_ctc_loss(x, situ_narrow(situ_select(i, 0, 0), 0, 0, 0), \
    situ_select(situ_select(i, 0, 0), 0, 0), situ_select(situ_select(i, 0, 0), 0, 0), NULL))                      \
  _(logcumsumexp, situ_logcumsumexp(x, 0)) _(trapezoid, situ_trapezoid(x, NULL, 1, -1))                           \
  _(cumulative_trapezoid, situ_cumulative_trapezoid(x, NULL, 1, -1))
#define PRODUCTS_AND_LOSSES(_)                                                                                    \
  _(linear, situ_linear(x, x, situ_select(x, 0, 0)))                                                              \
  _(conv1d, situ_conv1d(situ_unsqueeze(x, 0), situ_reshape(x, SITU_SHAPE(2, 2, 1)), NULL, NULL))                  \
  _(conv2d, situ_conv2d(situ_reshape(x, SITU_SHAPE(1, 2, 2)), situ_reshape(x, SITU_SHAPE(4, 1, 1, 1)), NULL, NULL)) \
  _(conv_transpose2d, situ_conv_transpose2d(situ_reshape(x, SITU_SHAPE(1, 2, 2)), situ_reshape(x, SITU_SHAPE(1, 4, 1, 1)), NULL, NULL)) \
  _(attention, situ_scaled_dot_product_attention(x, x, x, NULL)) _(lerp, situ_lerp(x, x, x))                      \
  _(lerp_scalar, situ_lerp_scalar(x, x, 0.5)) _(addcmul, situ_addcmul(x, x, x, 1))                                \
  _(addcdiv, situ_addcdiv(x, x, x, 1)) _(addcmul_fraction, situ_addcmul(x, x, x, 0.5))                            \
  _(add_alpha, situ_add_alpha(x, x, 2)) _(add_alpha_fraction, situ_add_alpha(x, x, 0.5))                          \
  _(sub_alpha, situ_sub_alpha(x, x, 2)) _(mse_loss, situ_mse_loss(x, x, MEAN)) _(l1_loss, situ_l1_loss(x, x, MEAN)) \
  _(l1_loss_sum, situ_l1_loss(x, x, SUM)) _(mse_loss_sum, situ_mse_loss(x, x, SUM))                               \
  _(smooth_l1_loss, situ_smooth_l1_loss(x, x, 1, MEAN))                                                           \
  _(binary_cross_entropy_with_logits, situ_binary_cross_entropy_with_logits(x, x, NULL, NULL, MEAN))              \
  _(kl_div, situ_kl_div(x, x, SITU_KL_MEAN, false)) _(cross_entropy, situ_cross_entropy(x, situ_select(i, 0, 0), NULL)) \
  _(cross_entropy_probabilities, situ_cross_entropy(x, x, NULL)) _(nll_loss, situ_nll_loss(x, situ_select(i, 0, 0), NULL)) \
  _(index_select_by, situ_index_select(f, 0, situ_select(situ_zero_(x), 0, 0))) _(gather_by, situ_gather(f, 0, situ_zero_(x))) \
  _(scatter_by, situ_scatter(f, 0, situ_zero_(x), f)) _(index_add_by, situ_index_add(f, 0, situ_select(situ_zero_(x), 0, 0), f, 1)) \
  _(index_by, situ_index(f, &x, 1)) _(index_copy_by, situ_index_copy(f, 0, situ_select(situ_zero_(x), 0, 0), f))  \
  _(take_along_dim_by, situ_take_along_dim(f, situ_zero_(x), 0)) _(embedding_by, situ_embedding(situ_zero_(x), f, NULL)) \
  _(cross_entropy_by, situ_cross_entropy(f, situ_select(situ_zero_(x), 0, 0), NULL))                              \
  _(nll_loss_by, situ_nll_loss(f, situ_select(situ_zero_(x), 0, 0), NULL)) _(where_by, situ_where(x, f, f))       \
  _(masked_fill_by, situ_masked_fill(f, x, 0)) _(masked_select_by, situ_masked_select(f, x))                      \
  _(attention_by, situ_scaled_dot_product_attention(f, f, f, OPTIONS_AT(situ_attention, with.attn_mask = x)))        \
  _(attention_f16_by, situ_scaled_dot_product_attention(h, h, h, OPTIONS_AT(situ_attention, with.attn_mask = x)))
#define CREATION(_)                                                                                               \
  _(zeros, situ_zeros(SITU_SHAPE(2), HERE(.dtype = d))) _(full, situ_full(SITU_SHAPE(2), 2, HERE(.dtype = d)))    \
  _(full_fraction, situ_full(SITU_SHAPE(2), 1.5, HERE(.dtype = d))) _(full_minus_1, situ_full(SITU_SHAPE(2), -1, HERE(.dtype = d))) \
  _(full_300, situ_full(SITU_SHAPE(2), 300, HERE(.dtype = d))) _(full_70000, situ_full(SITU_SHAPE(2), 70000, HERE(.dtype = d))) \
  _(full_1e10, situ_full(SITU_SHAPE(2), 1e10, HERE(.dtype = d))) _(full_1e40, situ_full(SITU_SHAPE(2), 1e40, HERE(.dtype = d))) \
  _(full_nan, situ_full(SITU_SHAPE(2), NAN, HERE(.dtype = d))) _(full_inf, situ_full(SITU_SHAPE(2), INFINITY, HERE(.dtype = d))) \
  _(arange, situ_arange(0, 3, 1, HERE(.dtype = d))) _(linspace, situ_linspace(0, 3, 4, HERE(.dtype = d)))         \
  _(hann_window, situ_hann_window(4, true, HERE(.dtype = d)))                                                     \
  _(signal_windows_nuttall, situ_signal_windows_nuttall(4, true, HERE(.dtype = d)))                               \
  _(fft_fftfreq, situ_fft_fftfreq(4, 1, HERE(.dtype = d)))                                                        \
  _(eye, situ_eye(2, -1, HERE(.dtype = d))) _(rand, situ_rand(SITU_SHAPE(2), HERE(.dtype = d)))                   \
  _(randn, situ_randn(SITU_SHAPE(2), HERE(.dtype = d))) _(randint, situ_randint(0, 2, SITU_SHAPE(2), HERE(.dtype = d))) \
  _(randint_200, situ_randint(0, 200, SITU_SHAPE(2), HERE(.dtype = d)))                                           \
  _(randint_minus_1, situ_randint(-1, 2, SITU_SHAPE(2), HERE(.dtype = d)))                                        \
  _(randint_70000, situ_randint(0, 70000, SITU_SHAPE(2), HERE(.dtype = d))) _(randperm, situ_randperm(2, HERE(.dtype = d))) \
  _(randperm_200, situ_randperm(200, HERE(.dtype = d))) _(randperm_300, situ_randperm(300, HERE(.dtype = d)))     \
  _(randperm_3000, situ_randperm(3000, HERE(.dtype = d)))
#define PAIRS(_)                                                                                                  \
  _(add, situ_add(x, y)) _(sub, situ_sub(x, y)) _(mul, situ_mul(x, y)) _(div, situ_div(x, y)) _(pow, situ_pow(x, y)) \
  _(fmod, situ_fmod(x, y)) _(remainder, situ_remainder(x, y)) _(maximum, situ_maximum(x, y)) _(eq, situ_eq(x, y)) \
  _(lt, situ_lt(x, y)) _(logical_and, situ_logical_and(x, y)) _(bitwise_and, situ_bitwise_and(x, y))              \
  _(div_trunc, situ_div_mode(x, y, SITU_ROUND_TRUNC)) _(floor_divide, situ_floor_divide(x, y)) _(add_, situ_add_(x, y)) \
  _(sub_, situ_sub_(x, y)) _(mul_, situ_mul_(x, y)) _(div_, situ_div_(x, y)) _(pow_, situ_pow_(x, y))             \
  _(gcd, situ_gcd(x, y)) _(bitwise_left_shift, situ_bitwise_left_shift(x, y)) _(atan2, situ_atan2(x, y))          \
  _(hypot, situ_hypot(x, y)) _(copysign, situ_copysign(x, y)) _(nextafter, situ_nextafter(x, y)) _(xlogy, situ_xlogy(x, y)) \
  _(logaddexp, situ_logaddexp(x, y)) _(gcd_, situ_gcd_(x, y)) _(atan2_, situ_atan2_(x, y)) _(hypot_, situ_hypot_(x, y)) \
  _(add_of_0_dim, situ_add(x, situ_select(situ_select(y, 0, 0), 0, 0))) _(copy_, situ_copy_(x, y))                \
  _(where, situ_where(b, x, y)) _(cat, situ_cat((situ_tensor *[]){ x, y }, 2, 0)) _(stack, situ_stack((situ_tensor *[]){ x, y }, 2, 0)) \
  _(matmul_mixed, situ_matmul(x, y)) _(mse_loss_mixed, situ_mse_loss(x, y, MEAN)) _(l1_loss_mixed, situ_l1_loss(x, y, MEAN)) \
  _(smooth_l1_loss_mixed, situ_smooth_l1_loss(x, y, 1, MEAN))                                                     \
  _(bce_mixed, situ_binary_cross_entropy_with_logits(x, y, NULL, NULL, MEAN)) _(kl_div_mixed, situ_kl_div(x, y, SITU_KL_MEAN, false)) \
  _(scatter_mixed, situ_scatter(x, 0, i, y)) _(layer_norm_mixed, situ_layer_norm(x, SITU_SHAPE(2), situ_select(y, 0, 0), NULL, 1e-5)) \
  _(addcmul_mixed, situ_addcmul(x, y, y, 1)) _(lerp_mixed, situ_lerp(x, y, y))

/* Several macros, since clang-format takes half a minute for one of this length. */
#define FUNCTIONS(_) ELEMENTWISE(_) REDUCTIONS(_) WINDOWS_AND_INDICES(_) \
  PRODUCTS_AND_LOSSES(_) CREATION(_) PAIRS(_)
/* clang-format on */

/* x and y have the dtypes of the line; the others are the same for all. */
typedef struct operands {
  situ_tensor *x, *y, *f, *h, *i, *b;
  situ_dtype d;
} operands;

#define DEFINE(name, expression)                                                  \
  static situ_tensor *call_##name(const operands *o) {                            \
    situ_tensor *x = o->x, *y = o->y, *f = o->f, *h = o->h, *i = o->i, *b = o->b; \
    const situ_dtype d = o->d;                                                    \
    (void)x, (void)y, (void)f, (void)h, (void)i, (void)b, (void)d;                \
    return expression;                                                            \
  }
FUNCTIONS(DEFINE)

static const struct function {
  const char *name, *text; /* text: the call, which begins with the function's name */
  situ_tensor *(*call)(const operands *o);
} functions[] = {
#define LIST(name, expression) { #name, #expression, call_##name },
  FUNCTIONS(LIST)
};

static const situ_dtype dtypes[] = { SITU_BOOL, SITU_U8,  SITU_I8,   SITU_I16, SITU_I32,
                                     SITU_I64,  SITU_F16, SITU_BF16, SITU_F32, SITU_F64 };
enum { COUNT = sizeof dtypes / sizeof *dtypes };

/* Where situ has another dtype than torch, or takes or refuses what torch does not: a function, dtypes of the first and of the other
   operand ("" any; of lines with one dtype that is the other), what situ gives for it. Every cell that is covered must differ. */
typedef struct departure {
  const char *names, *first, *other, *gives, *why;
} departure;
#define INDICES "i32 indices are taken wherever i64 are"
#define KERNEL "torch has no kernel for it; the result is what it is for other dtypes"
#define PROMOTED "the promoted dtype, as everywhere; torch gives the target's"
static const departure departures[] = {
  { "all any", "", "u8", "bool", "bool for u8 too: torch's u8 is from before it had bool" },
  { "argmin argmax argmax_dim", "", "bool", "i64", KERNEL },
  { "topk pad_reflect pad_replicate", "", "bool", "bool", KERNEL },
  { "avg_pool2d max_pool1d conv_transpose1d conv_transpose2d", "", "u8", "u8", KERNEL },
  { "avg_pool2d max_pool1d conv_transpose1d conv_transpose2d", "", "i8", "i8", KERNEL },
  { "avg_pool2d max_pool1d conv_transpose1d conv_transpose2d", "", "i16", "i16", KERNEL },
  { "avg_pool2d max_pool1d conv_transpose1d conv_transpose2d", "", "i32", "i32", KERNEL },
  { "linalg_vander linalg_householder_product ctc_loss pdist multilabel_margin_loss", "", "f16", "f16", KERNEL },
  { "linalg_vander linalg_householder_product ctc_loss pdist multilabel_margin_loss", "", "bf16", "bf16", KERNEL },
  { "max_pool1d", "", "i64", "i64", KERNEL },
  { "avg_pool3d", "", "i64", "-", "an average of averages divides twice, which is not what one division gives" },
  { "avg_pool3d", "", "f16", "f16", KERNEL },
  { "avg_pool3d", "", "bf16", "bf16", KERNEL },
  { "one_hot", "", "i32", "i64", INDICES },
  { "take_along_dim_by cross_entropy_by nll_loss_by index_copy_by", "", "i32", "f32", INDICES },
  { "where_by index_by", "", "u8", "-", "torch calls masks of u8 deprecated" },
  { "signal_windows_nuttall", "", "f16", "f16", KERNEL },
  { "signal_windows_nuttall", "", "bf16", "bf16", KERNEL },
  { "randperm_300 randperm_3000", "", "bf16", "-", "bf16 does not have these numbers: some would come twice" },
  { "bce_mixed", "f64", "f16 bf16 f32", "f64", PROMOTED },
  { "bce_mixed", "f32", "f16 bf16", "f32", PROMOTED },
  { "bce_mixed", "f16", "bf16", "f32", PROMOTED },
  { "bce_mixed", "bf16", "f16", "f32", PROMOTED },
  { "layer_norm_mixed", "f16 bf16", "f32", "-", "dtypes are not mixed in silence: cast the input, or use autocast" },
  { 0 },
};

static bool has_word(const char *list, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += length)
    if ((at == list || at[-1] == ' ') && (at[length] == 0 || at[length] == ' ')) return true;
  return !*list;
}

static const departure *departure_for(const char *name, const char *first, const char *other) {
  for (const departure *d = departures; d->names; d++)
    if (has_word(d->names, name) && has_word(d->first, first) && has_word(d->other, other)) return d;
  return NULL;
}

static const struct function *find(const char *name) {
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    if (!strcmp(functions[k].name, name)) return &functions[k];
  fail_msg("%s is in the table, but not in the test", name);
  return NULL;
}

static situ_tensor *ones(situ_dtype dtype) { return situ_ones(SITU_SHAPE(2, 2), HERE(.dtype = dtype)); }

/* Is it the function that was called, or one of those that its arguments are made by? */
static bool is_called(const struct function *f, const char *op) {
  char call[64];
  snprintf(call, sizeof call, "situ_%s(", op);
  return strstr(f->text, call) != NULL;
}

static int wrong, checked;

static void check_cell(const struct function *f, const char *first, situ_dtype other, const char *want) {
  situ_dtype own = other;
  for (int k = 0; k < COUNT; k++)
    if (!strcmp(situ_dtype_name(dtypes[k]), first)) own = dtypes[k];
  situ_scope s;
  situ_scope_begin(&s);
  const operands o = {
    ones(own),       ones(other), ones(SITU_F32), ones(SITU_F16), situ_zeros(SITU_SHAPE(2, 2), HERE(.dtype = SITU_I64)),
    ones(SITU_BOOL), other
  };
  situ_tensor *result = f->call(&o);
  const char *got = result ? situ_dtype_name(situ_dtype_of(result)) : "-";
  const departure *d = departure_for(f->name, first, situ_dtype_name(other));
  const bool unsaid = !result && (situ_error() == SITU_OK || !is_called(f, situ_error_op()));
  checked++;
  if (unsaid || strcmp(got, d ? d->gives : want) || (d && !strcmp(want, d->gives))) {
    wrong++;
    print_error("%s %s %s: %s, %s has %s%s%s%s\n", f->name, first, situ_dtype_name(other), got,
                d ? "the departure" : "torch", d ? d->gives : want,
                d && !strcmp(want, d->gives) ? ", as torch: the departure has gone" : "", result ? "" : ": ",
                result ? "" : situ_error_message());
  }
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
  situ_error_clear();
}

static void dtypes_are_taken_as_in_torch(void **state) {
  (void)state;
  char path[1024], line[256];
  const char *root = getenv("SITU_TEST_ROOT");
  snprintf(path, sizeof path, "%s/golden/data/accepts.txt", root ? root : "tests");
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is not there", path);
  wrong = checked = 0;
  while (fgets(line, sizeof line, file)) {
    if (*line == '#') continue;
    char *cells = strchr(line, ':');
    if (!cells) fail_msg("not a line of the table: %s", line);
    *cells++ = 0;
    char *first = strchr(line, ' ');
    if (first) *first++ = 0;
    const struct function *f = find(line);
    char *at = NULL;
    int k = 0;
    for (char *cell = strtok_r(cells, " \n", &at); cell; cell = strtok_r(NULL, " \n", &at))
      check_cell(f, first ? first : "", dtypes[k++], cell);
    assert_int_equal(k, COUNT);
  }
  fclose(file);
  print_message("  %d cells\n", checked);
  if (wrong) fail_msg("%d of %d cells differ", wrong, checked);
}

/* The error of a missing operand names the function that was called. */
static void the_function_called_is_named(void **state) {
  (void)state;
  wrong = 0;
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
    const operands o = { NULL,
                         NULL,
                         ones(SITU_F32),
                         ones(SITU_F16),
                         situ_zeros(SITU_SHAPE(2, 2), HERE(.dtype = SITU_I64)),
                         ones(SITU_BOOL),
                         SITU_F32 };
    if (functions[k].call(&o)) continue; /* it takes neither */
    if (situ_error() == SITU_E_ARG && is_called(&functions[k], situ_error_op())) {
      situ_error_clear();
      continue;
    }
    wrong++;
    print_error("%s: named %s: %s\n", functions[k].text, situ_error_op(), situ_error_message());
    situ_error_clear();
  }
  if (wrong) fail_msg("%d functions are not named by their errors", wrong);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(dtypes_are_taken_as_in_torch), TEST(the_function_called_is_named) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
