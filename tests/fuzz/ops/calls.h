/* Calls whose numbers are fuzzed too; those of support/calls.h have fixed ones. Included by input.c alone.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_FUZZ_OPS_CALLS_H
#define SITU_TESTS_FUZZ_OPS_CALLS_H

#include "ops/input.h"
#include "support/options.h"

#define I(k) n->i[k]
#define DIM(k) (int)n->i[k]
#define D(k) n->d[k]
#define S(k) n->s[k]
#define ALONG(k) (&(situ_reduce_options){ .dim = S(k), .keepdim = I(3) & 1 })
#define REDUCTION(k) (situ_reduction)(I(k) & 3)
#define HERE (&(situ_options){ .device = n->on })
#define FFT (&(situ_fft_options){ .n = I(0) & 63, .dim = S(0), .norm = (situ_fft_norm)(I(1) & 3) })
#define FFTN (&(situ_fftn_options){ .s = S(1), .dim = S(0), .norm = (situ_fft_norm)(I(1) & 3) })
#define STFT                                                                   \
  (&(situ_stft_options){ .hop_length = I(1) & 7,                               \
                         .win_length = I(2) & 7,                               \
                         .no_center = I(3) & 1,                                \
                         .pad_mode = (situ_stft_pad)((unsigned)I(3) >> 1 & 3), \
                         .normalized = I(3) & 8,                               \
                         .two_sided = I(3) & 16,                               \
                         .length = (unsigned)I(3) >> 5 & 31 })
#define CONV (&(situ_conv_options){ .stride = S(0), .padding = S(1), .dilation = S(2), .groups = I(0) })
#define GRID                    \
  (&(situ_grid_sample_options){ \
      .mode = (situ_grid_mode)(I(0) & 3), .padding_mode = (situ_grid_padding)(I(1) & 3), .align_corners = I(2) & 1 })
#define RECUR \
  &(situ_recurrent_options) { .reverse = I(0) & 1, .relu = I(0) & 2, .c_n = also }
#define FACTORS OPTIONS_AT(situ_addmm, with.beta = D(0), with.alpha = D(1))
#define LIMITS OPTIONS_AT(situ_linalg_tolerance, with.atol = D(0), with.rtol = D(1), with.hermitian = I(0) & 1)
#define CAUSAL OPTIONS_AT(situ_attention, with.is_causal = true)
#define POOL (&(situ_pool_options){ .kernel = S(0), .stride = S(1), .padding = S(2), .ceil_mode = I(0) & 1 })

static situ_tensor *situ_masked_attention(situ_tensor *query, situ_tensor *key, situ_tensor *value, situ_tensor *mask,
                                          double scale) {
  const situ_attention_options options = OPTIONS_OF(situ_attention, with.attn_mask = mask, with.scale = scale);
  return situ_scaled_dot_product_attention(query, key, value, &options);
}
static situ_tensor *situ_grouped_attention(situ_tensor *query, situ_tensor *key, situ_tensor *mask, double dropout) {
  const situ_attention_options options =
      OPTIONS_OF(situ_attention, with.attn_mask = mask, with.dropout_p = dropout, with.enable_gqa = true);
  return situ_scaled_dot_product_attention(query, key, key, &options);
}

/* operands, whether f64 has other values by nature (the steps of a recurrent layer multiply what f32 rounds: with weights
   of 2 and 33 steps PyTorch's gradients in f32 differ by more than 2e-4 for every tenth RNN and for 131 of 300 LSTMs, by
   7 % at most; the factorial in polygamma is infinite in f32, as in torch), name, arguments */
#define OP_CALLS(_)                                                                                                 \
  _("x", false, sum, (t[0], ALONG(0)))                                                                              \
  _("x", false, mean, (t[0], ALONG(0)))                                                                             \
  _("x", false, prod, (t[0], ALONG(0)))                                                                             \
  _("x", false, var, (t[0], D(0), ALONG(0)))                                                                        \
  _("x", false, std, (t[0], D(0), ALONG(0)))                                                                        \
  _("x", false, amin, (t[0], ALONG(0)))                                                                             \
  _("x", false, amax, (t[0], ALONG(0)))                                                                             \
  _("x", false, all, (t[0], ALONG(0)))                                                                              \
  _("x", false, any, (t[0], ALONG(0)))                                                                              \
  _("x", false, norm, (t[0], D(0), ALONG(0)))                                                                       \
  _("x", false, logsumexp, (t[0], ALONG(0)))                                                                        \
  _("x", false, argmin, (t[0], ALONG(0)))                                                                           \
  _("x", false, argmax, (t[0], ALONG(0)))                                                                           \
  _("x", false, min_dim, (t[0], DIM(0), I(1) & 1, also))                                                            \
  _("x", false, max_dim, (t[0], DIM(0), I(1) & 1, also))                                                            \
  _("x", false, cumsum, (t[0], DIM(0)))                                                                             \
  _("x", false, cumprod, (t[0], DIM(0)))                                                                            \
  _("x", false, sort, (t[0], DIM(0), I(1) & 1, also))                                                               \
  _("x", false, argsort, (t[0], DIM(0), I(1) & 1))                                                                  \
  _("x", false, topk, (t[0], I(0), DIM(1), I(2) & 1, also))                                                         \
  _("x", false, logcumsumexp, (t[0], DIM(0)))                                                                       \
  _("x", false, trapezoid, (t[0], NULL, D(0), DIM(0)))                                                              \
  _("xo", false, cumulative_trapezoid, (t[0], t[1], D(0), DIM(0)))                                                  \
  _("x", false, kthvalue, (t[0], I(0), DIM(1), I(2) & 1, also))                                                     \
  _("x", false, median_dim, (t[0], DIM(0), I(1) & 1, also))                                                         \
  _("x", false, nanmedian, (t[0]))                                                                                  \
  _("x", false, mode, (t[0], DIM(0), I(1) & 1, also))                                                               \
  _("x", false, cummax, (t[0], DIM(0), also))                                                                       \
  _("x", false, cummin, (t[0], DIM(0), also))                                                                       \
  _("x", false, count_nonzero, (t[0], S(0)))                                                                        \
  _("x", false, nansum, (t[0], ALONG(0)))                                                                           \
  _("x", false, nanmean, (t[0], ALONG(0)))                                                                          \
  _("x", false, aminmax, (t[0], ALONG(0), also))                                                                    \
  _("x", false, diff, (t[0], I(0), DIM(1)))                                                                         \
  _("x", true, quantile, (t[0], D(0), ALONG(0), (situ_quantile_interpolation)(I(0) & 3)))                           \
  _("x", true, renorm, (t[0], D(0), DIM(0), D(1)))                                                                  \
  _("xo", false, isin, (t[0], t[1], I(0) & 1))                                                                      \
  _("vo", false, searchsorted, (t[0], t[1], I(0) & 1))                                                              \
  _("x", false, unique, (t[0], also, NULL))                                                                         \
  _("x", false, unique_dim, (t[0], DIM(0), also, NULL))                                                             \
  _("x", false, unique_consecutive, (t[0], also, NULL))                                                             \
  _("i", false, bincount, (t[0], NULL, I(0)))                                                                       \
  _("x", true, histc, (t[0], I(0), D(0), D(1)))                                                                     \
  _("x", false, softmax, (t[0], DIM(0)))                                                                            \
  _("x", false, log_softmax, (t[0], DIM(0)))                                                                        \
  _("x", false, reshape, (t[0], S(0)))                                                                              \
  _("x", false, view, (t[0], S(0)))                                                                                 \
  _("x", false, flatten, (t[0], DIM(0), DIM(1)))                                                                    \
  _("x", false, squeeze, (t[0], S(0)))                                                                              \
  _("x", false, unsqueeze, (t[0], DIM(0)))                                                                          \
  _("x", false, permute, (t[0], S(0)))                                                                              \
  _("x", false, transpose, (t[0], DIM(0), DIM(1)))                                                                  \
  _("x", false, expand, (t[0], S(0)))                                                                               \
  _("x", false, narrow, (t[0], DIM(0), I(1), I(2)))                                                                 \
  _("x", false, select, (t[0], DIM(0), I(1)))                                                                       \
  _("x", false, slice, (t[0], DIM(0), I(1), I(2), I(3)))                                                            \
  _("x", false, as_strided, (t[0], S(0), S(1), I(0)))                                                               \
  _("x", false, flip, (t[0], S(0)))                                                                                 \
  _("x", false, roll, (t[0], S(0), S(1)))                                                                           \
  _("x", false, repeat, (t[0], S(0)))                                                                               \
  _("x", false, pad, (t[0], S(0), (situ_pad_mode)(I(0) & 3), D(0)))                                                 \
  _("x", false, tril, (t[0], I(0)))                                                                                 \
  _("x", false, triu, (t[0], I(0)))                                                                                 \
  _("x", false, diagonal, (t[0], I(0), DIM(1), DIM(2)))                                                             \
  _("x", false, diag_embed, (t[0], I(0), DIM(1), DIM(2)))                                                           \
  _("x", false, diag, (t[0], I(0)))                                                                                 \
  _("x", false, movedim, (t[0], S(0), S(1)))                                                                        \
  _("x", false, unflatten, (t[0], DIM(0), S(0)))                                                                    \
  _("x", false, rot90, (t[0], I(0), S(0)))                                                                          \
  _("x", false, tile, (t[0], S(0)))                                                                                 \
  _("x", false, repeat_interleave, (t[0], I(0), S(0)))                                                              \
  _("xi", false, repeat_interleave_tensor, (t[0], t[1], S(0)))                                                      \
  _("x", false, pixel_shuffle, (t[0], I(0)))                                                                        \
  _("x", false, pixel_unshuffle, (t[0], I(0)))                                                                      \
  _("xo", false, block_diag, (t, 2))                                                                                \
  _("xo", false, kron, (t[0], t[1]))                                                                                \
  _("xo", false, tensordot, (t[0], t[1], S(0), S(1)))                                                               \
  _("mM", false, einsum, (I(0) & 1 ? "bij,bjk->kb" : "...j,bjk", t, 2))                                             \
  _("arR", false, addmm, (t[0], t[1], t[2], FACTORS))                                                               \
  _("arR", false, addr, (t[0], t[1], t[2], FACTORS))                                                                \
  _("arR", false, addmv, (t[0], t[1], t[2], FACTORS))                                                               \
  _("arR", false, addbmm, (t[0], t[1], t[2], FACTORS))                                                              \
  _("xo", false, inner, (t[0], t[1]))                                                                               \
  _("xo", false, linalg_cross, (t[0], t[1], DIM(0)))                                                                \
  _("xo", false, linalg_vecdot, (t[0], t[1], DIM(0)))                                                               \
  _("m", true, cov, (t[0], D(0)))                                                                                   \
  _("m", true, corrcoef, (t[0]))                                                                                    \
  _("xo", false, dist, (t[0], t[1], D(0)))                                                                          \
  _("m", false, pdist, (t[0], D(0)))                                                                                \
  _("v", false, combinations, (t[0], (int)I(0), I(1) & 1))                                                          \
  _("mmk", false, bilinear, (t[0], t[1], t[2], NULL))                                                               \
  _("rR", false, linalg_multi_dot, (t, 2))                                                                          \
  _("x", false, linalg_vander, (t[0], I(0)))                                                                        \
  _("mr", true, linalg_householder_product, (t[0], t[1]))                                                           \
  _("x", false, linalg_vector_norm, (t[0], D(0), ALONG(0)))                                                         \
  _("x", true, linalg_matrix_norm, (t[0], (situ_matrix_norm)(I(0) & 15), ALONG(0)))                                 \
  _("xo", false, cat, (t, 2, DIM(0)))                                                                               \
  _("xx", false, stack, (t, 2, DIM(0)))                                                                             \
  _("xo", false, column_stack, (t, 2))                                                                              \
  _("xi", false, index_select, (t[0], DIM(0), t[1]))                                                                \
  _("rj", false, gather, (t[0], DIM(0), t[1]))                                                                      \
  _("rj", false, take_along_dim, (t[0], t[1], DIM(0)))                                                              \
  _("rjr", false, scatter, (t[0], DIM(0), t[1], t[2]))                                                              \
  _("rj", false, scatter_value, (t[0], DIM(0), t[1], D(0)))                                                         \
  _("rjr", false, scatter_add, (t[0], DIM(0), t[1], t[2]))                                                          \
  _("ris", false, index_add, (t[0], DIM(0), t[1], t[2], D(0)))                                                      \
  _("ris", false, index_copy, (t[0], DIM(0), t[1], t[2]))                                                           \
  _("ri", false, index_fill, (t[0], DIM(0), t[1], D(0)))                                                            \
  _("xi", false, index, (t[0], t + 1, 1))                                                                           \
  _("ris", false, index_put, (t[0], t + 1, 1, t[2], I(0) & 1))                                                      \
  _("ris", false, index_put_, (t[0], t + 1, 1, t[2], I(0) & 1))                                                     \
  _("rjr", false, scatter_reduce, (t[0], DIM(0), t[1], t[2], (situ_scatter_reduction)(I(1) & 7), I(2) & 1))         \
  _("ris", false, index_reduce, (t[0], DIM(0), t[1], t[2], (situ_scatter_reduction)(I(1) & 7), I(2) & 1))           \
  _("xj", false, take, (t[0], t[1]))                                                                                \
  _("xij", false, put, (t[0], t[1], t[2], I(0) & 1))                                                                \
  _("xzo", false, masked_scatter, (t[0], t[1], t[2]))                                                               \
  _("xzo", false, masked_scatter_, (t[0], t[1], t[2]))                                                              \
  _("xx", false, slice_scatter, (t[0], t[1], DIM(0), I(1), I(2), I(3)))                                             \
  _("xu", false, select_scatter, (t[0], t[1], DIM(0), I(1)))                                                        \
  _("xu", false, diagonal_scatter, (t[0], t[1], I(0), DIM(1), DIM(2)))                                              \
  _("xz", false, masked_fill, (t[0], t[1], D(0)))                                                                   \
  _("xz", false, masked_select, (t[0], t[1]))                                                                       \
  _("x", false, nonzero, (t[0]))                                                                                    \
  _("i", false, one_hot, (t[0], I(0)))                                                                              \
  _("mKc", false, conv1d, (t[0], t[1], t[2], CONV))                                                                 \
  _("gkc", false, conv2d, (t[0], t[1], t[2], CONV))                                                                 \
  _("gTc", false, conv_transpose2d, (t[0], t[1], t[2], CONV))                                                       \
  _("gkc", false, conv3d, (t[0], t[1], t[2], CONV))                                                                 \
  _("gTc", false, conv_transpose3d, (t[0], t[1], t[2], CONV))                                                       \
  _("gj", false, max_unpool2d, (t[0], t[1], S(0), S(1), S(2), S(2)))                                                \
  _("mj", false, max_unpool1d, (t[0], t[1], S(0), S(1), S(2), S(2)))                                                \
  _("gj", false, max_unpool3d, (t[0], t[1], S(0), S(1), S(2), S(2)))                                                \
  _("gg", true, grid_sample, (t[0], t[1], GRID))                                                                    \
  _("gggv", true, deform_conv2d, (t[0], t[1], t[2], t[3], &(situ_deform_conv2d_options){ S(0), S(1), S(0), NULL })) \
  _("m", true, affine_grid, (t[0], S(0), I(0) & 1))                                                                 \
  _("g", false, max_pool2d, (t[0], POOL, also))                                                                     \
  _("g", false, avg_pool2d, (t[0], POOL))                                                                           \
  _("g", false, adaptive_avg_pool2d, (t[0], S(0)))                                                                  \
  _("mWc", false, conv_transpose1d, (t[0], t[1], t[2], CONV))                                                       \
  _("m", false, max_pool1d, (t[0], POOL, also))                                                                     \
  _("m", false, avg_pool1d, (t[0], POOL))                                                                           \
  _("g", false, max_pool3d, (t[0], POOL, also))                                                                     \
  _("g", false, avg_pool3d, (t[0], POOL))                                                                           \
  _("g", false, adaptive_avg_pool3d, (t[0], S(0)))                                                                  \
  _("g", false, adaptive_max_pool2d, (t[0], S(0), also))                                                            \
  _("m", false, adaptive_max_pool1d, (t[0], I(0), also))                                                            \
  _("g", false, lp_pool2d, (t[0], D(0), S(0), S(1), I(0) & 1))                                                      \
  _("g", false, unfold, (t[0], S(0), &(situ_unfold_options){ .padding = S(1), .stride = S(2) }))                    \
  _("m", false, fold, (t[0], S(0), S(1), NULL))                                                                     \
  _("m", false, channel_shuffle, (t[0], I(0)))                                                                      \
  _("m", false, local_response_norm, (t[0], I(0) & 7, D(0), D(1), 2))                                               \
  _("muu", false, instance_norm, (t[0], NULL, NULL, t[1], t[2], OPTIONS_AT(situ_instance_norm, with.eps = D(0))))   \
  _("h", true, linalg_cholesky, (t[0], I(0) & 1))                                                                   \
  _("h", true, linalg_inv, (t[0]))                                                                                  \
  _("h", true, linalg_det, (t[0]))                                                                                  \
  _("h", true, linalg_slogdet, (t[0], also))                                                                        \
  _("hR", true, linalg_solve, (t[0], t[1], I(0) & 1))                                                               \
  _("hR", true, linalg_solve_triangular, (t[0], t[1], I(0) & 1, I(0) & 2, I(0) & 4))                                \
  _("r", true, linalg_qr, (t[0], (situ_linalg_qr_mode)(I(0) & 3), also))                                            \
  _("m", true, linalg_svd, (t[0], I(0) & 1, also, NULL))                                                            \
  _("m", true, linalg_svdvals, (t[0]))                                                                              \
  _("h", true, linalg_eigh, (t[0], I(0) & 1, also))                                                                 \
  _("h", true, linalg_eigvalsh, (t[0], I(0) & 1))                                                                   \
  _("m", true, linalg_pinv, (t[0], LIMITS))                                                                         \
  _("m", true, linalg_matrix_rank, (t[0], LIMITS))                                                                  \
  _("mA", true, linalg_lstsq, (t[0], t[1], D(0), also))                                                             \
  _("r", true, linalg_lu_factor, (t[0], also))                                                                      \
  _("h", true, linalg_lu, (t[0], also, NULL))                                                                       \
  _("hiR", true, linalg_lu_solve, (t[0], t[1], t[2], I(0) & 1, I(0) & 2))                                           \
  _("h", true, linalg_ldl_factor, (t[0], also))                                                                     \
  _("h", true, linalg_ldl_factor_ex, (t[0], I(0) & 1, also, NULL))                                                  \
  _("hiR", true, linalg_ldl_solve, (t[0], t[1], t[2]))                                                              \
  _("hv", true, linalg_tensorsolve, (t[0], t[1], S(0)))                                                             \
  _("h", true, linalg_tensorinv, (t[0], DIM(0)))                                                                    \
  _("h", true, linalg_matrix_exp, (t[0]))                                                                           \
  _("h", true, linalg_matrix_power, (t[0], I(0)))                                                                   \
  _("Rh", true, cholesky_solve, (t[0], t[1], I(0) & 1))                                                             \
  _("h", true, cholesky_inverse, (t[0], I(0) & 1))                                                                  \
  _("h", true, logdet, (t[0]))                                                                                      \
  _("m", false, fft_rfft, (t[0], FFT))                                                                              \
  _("m", false, fft_ihfft, (t[0], FFT))                                                                             \
  _("k", false, fft_rfftn, (t[0], FFTN))                                                                            \
  _("g", false, fft_ihfft2, (t[0], FFTN))                                                                           \
  _("c", false, fft_fft, (t[0], FFT))                                                                               \
  _("W", false, fft_fftshift, (t[0], S(0)))                                                                         \
  _("m", false, fft_ifftshift, (t[0], S(0)))                                                                        \
  _("rv", false, stft, (t[0], NULL, I(0) & 15, STFT))                                                               \
  _("g", false, interpolate,                                                                                        \
    (t[0], &(situ_interpolate_options){ .size = S(0),                                                               \
                                        .scale_factor = { D(0) },                                                   \
                                        .mode = (situ_interpolate_mode)(I(0) & 7),                                  \
                                        .align_corners = I(1) & 1,                                                  \
                                        .antialias = I(2) & 1 }))                                                   \
  _("xx", true, nms, (t[0], t[1], D(0)))                                                                            \
  _("gx", true, roi_align, (t[0], t[1], S(0), D(0), I(0), I(1) & 1))                                                \
  _("mvv", false, layer_norm, (t[0], S(0), t[1], t[2], D(0)))                                                       \
  _("muu", false, group_norm, (t[0], I(0), t[1], t[2], D(0)))                                                       \
  _("mv", false, rms_norm, (t[0], S(0), t[1], D(0)))                                                                \
  _("mmm", false, scaled_dot_product_attention, (t[0], t[1], t[2], CAUSAL))                                         \
  _("mmmz", false, masked_attention, (t[0], t[1], t[2], t[3], D(0)))                                                \
  _("mmz", false, grouped_attention, (t[0], t[1], t[2], D(0)))                                                      \
  _("mhr", true, rnn_layer, (t[0], t[1], t[2], RECUR))                                                              \
  _("GHrr", true, lstm_layer, (t[0], t[1], NULL, t[2], t[3], RECUR))                                                \
  _("JLr", true, gru_layer, (t[0], t[1], NULL, t[2], RECUR))                                                        \
  _("rtV", false, cross_entropy,                                                                                    \
    (t[0], t[1],                                                                                                    \
     &(situ_cross_entropy_options){ .weight = t[2],                                                                 \
                                    .has_ignore_index = true,                                                       \
                                    .ignore_index = I(0),                                                           \
                                    .reduction = REDUCTION(1),                                                      \
                                    .label_smoothing = D(0) }))                                                     \
  _("mi", false, multilabel_margin_loss, (t[0], t[1], REDUCTION(0)))                                                \
  _("miii", true, ctc_loss,                                                                                         \
    (t[0], t[1], t[2], t[3],                                                                                        \
     &(situ_ctc_loss_options){ .blank = I(0), .reduction = REDUCTION(1), .zero_infinity = I(2) & 1 }))              \
  _("xo", false, mse_loss, (t[0], t[1], REDUCTION(0)))                                                              \
  _("xo", false, l1_loss, (t[0], t[1], REDUCTION(0)))                                                               \
  _("xo", false, smooth_l1_loss, (t[0], t[1], D(0), REDUCTION(0)))                                                  \
  _("xqpp", false, binary_cross_entropy_with_logits, (t[0], t[1], t[2], t[3], REDUCTION(0)))                        \
  _("xq", false, kl_div, (t[0], t[1], (situ_kl_reduction)(I(0) & 3), I(1) & 1))                                     \
  _("x", false, leaky_relu, (t[0], D(0)))                                                                           \
  _("x", false, elu, (t[0], D(0)))                                                                                  \
  _("x", false, softplus, (t[0], D(0), D(1)))                                                                       \
  _("x", true, round_decimals, (t[0], DIM(0)))                                                                      \
  _("xo", false, fmax, (t[0], t[1]))                                                                                \
  _("xo", false, fmin, (t[0], t[1]))                                                                                \
  _("xo", false, ldexp, (t[0], t[1]))                                                                               \
  _("xo", false, heaviside, (t[0], t[1]))                                                                           \
  _("xoo", false, clamp_tensor, (t[0], t[1], t[2]))                                                                 \
  _("x", true, mvlgamma, (t[0], (int)I(0)))                                                                         \
  _("x", false, special_ndtr, (t[0]))                                                                               \
  _("x", true, polygamma, (I(0), t[0]))                                                                             \
  _("x", false, logit, (t[0], D(0)))                                                                                \
  _("x", false, celu, (t[0], D(0)))                                                                                 \
  _("x", false, softshrink, (t[0], D(0)))                                                                           \
  _("x", false, hardshrink, (t[0], D(0)))                                                                           \
  _("x", false, threshold, (t[0], D(0), D(1)))                                                                      \
  _("x", false, glu, (t[0], DIM(0)))                                                                                \
  _("xo", false, prelu, (t[0], t[1]))                                                                               \
  _("x", false, hardtanh, (t[0], D(0), D(1)))                                                                       \
  _("x", false, clamp, (t[0], D(0), D(1)))                                                                          \
  _("x", true, add_scalar, (t[0], D(0)))                                                                            \
  _("x", true, rsub_scalar, (t[0], D(0)))                                                                           \
  _("x", true, mul_scalar, (t[0], D(0)))                                                                            \
  _("x", true, div_scalar, (t[0], D(0)))                                                                            \
  _("x", true, fmod_scalar, (t[0], D(0)))                                                                           \
  _("x", true, remainder_scalar, (t[0], D(0)))                                                                      \
  _("x", true, pow_scalar, (t[0], D(0)))                                                                            \
  _("x", true, eq_scalar, (t[0], D(0)))                                                                             \
  _("x", true, lt_scalar, (t[0], D(0)))                                                                             \
  _("xo", false, lerp_scalar, (t[0], t[1], D(0)))                                                                   \
  _("xoo", false, addcmul, (t[0], t[1], t[2], D(0)))                                                                \
  _("xop", false, addcdiv, (t[0], t[1], t[2], D(0)))                                                                \
  _("xo", false, add_, (t[0], t[1]))                                                                                \
  _("xo", false, sub_, (t[0], t[1]))                                                                                \
  _("xo", false, mul_, (t[0], t[1]))                                                                                \
  _("xp", false, div_, (t[0], t[1]))                                                                                \
  _("xp", false, pow_, (t[0], t[1]))                                                                                \
  _("x", true, add_scalar_, (t[0], D(0)))                                                                           \
  _("x", false, clamp_, (t[0], D(0), D(1)))                                                                         \
  _("x", false, sqrt_, (t[0]))                                                                                      \
  _("xz", false, masked_fill_, (t[0], t[1], D(0)))                                                                  \
  _("rjr", false, scatter_, (t[0], DIM(0), t[1], t[2]))                                                             \
  _("rjr", false, scatter_add_, (t[0], DIM(0), t[1], t[2]))                                                         \
  _("ris", false, index_add_, (t[0], DIM(0), t[1], t[2], D(0)))                                                     \
  _("xo", false, copy_, (t[0], t[1]))                                                                               \
  _("x", false, to_dtype, (t[0], (situ_dtype)(I(0) & 15)))                                                          \
  _("x", true, full_like, (t[0], D(0), NULL))                                                                       \
  _("", true, full, (S(0), D(0), HERE))                                                                             \
  _("", true, arange, (D(0), D(1), (double)I(0) / 4, HERE))                                                         \
  _("", true, linspace, (D(0), D(1), I(0) & 1023, HERE))                                                            \
  _("", true, eye, (I(0) & 63, I(1) & 63, HERE))                                                                    \
  _("", true, randint, (I(0), I(1), S(0), HERE))                                                                    \
  _("x", true, exponential_, (t[0], D(0), NULL))                                                                    \
  _("x", true, multinomial, (t[0], I(0), I(1) & 1, NULL))                                                           \
  _("", true, rand, (S(0), HERE))

#define OP_CALL_FUNCTION(operands, narrow, name, arguments)                                      \
  static situ_tensor *call_of_##name(situ_tensor **t, situ_tensor **also, const op_numbers *n) { \
    (void)t, (void)also, (void)n;                                                                \
    return situ_##name arguments;                                                                \
  }
OP_CALLS(OP_CALL_FUNCTION)
#define OP_CALL_ROW(operands, narrow, name, arguments) { #name, operands, narrow, call_of_##name },
static const op_call op_calls[] = { OP_CALLS(OP_CALL_ROW) };

#endif
