/* The dtypes and shapes of valid tensors, where a matrix of f32 will not do.
   SPDX-License-Identifier: MIT */
#include "support/api/shapes.h"

static const struct row {
  const char *functions, *parameters; /* words; NULL: any */
  situ_dtype dtype;
  situ_shape shape;
} rows[] = {
  /* clang-format off */
  { "one_hot embedding embedding_bag block_embedding", "input", SITU_I64, { 2, { 2, 2 } } },
  { "block_linear", "input", SITU_F32, { 2, { 2, 32 } } },
  { "block_linear", "bias", SITU_F32, { 1, { 2 } } },
  { "set_block_type", "t", SITU_U8, { 2, { 2, 34 } } },
  { "gather take_along_dim scatter scatter_value scatter_add scatter_ scatter_add_ scatter_reduce scatter_reduce_", "index", SITU_I64, { 2, { 2, 2 } } },
  { "bincount", "input", SITU_I64, { 1, { 2 } } },
  { "bincount", NULL, SITU_F32, { 1, { 2 } } },
  { "cross_entropy nll_loss multi_margin_loss", "target", SITU_I64, { 1, { 2 } } },
  { "max_unpool1d", "indices", SITU_I64, { 3, { 1, 2, 4 } } },
  { "max_unpool2d", "indices", SITU_I64, { 4, { 1, 2, 4, 4 } } },
  { "max_unpool3d", "indices", SITU_I64, { 5, { 1, 2, 4, 4, 4 } } },
  { "bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift gcd lcm "
    "bitwise_left_shift_ bitwise_right_shift_ gcd_ lcm_", NULL,
    SITU_I64, { 2, { 2, 2 } } },
  { "repeat_interleave_tensor", "repeats", SITU_I64, { 1, { 2 } } },
  { "ctc_loss", "targets", SITU_I64, { 1, { 0 } } },
  { "ctc_loss", "input_lengths target_lengths", SITU_I64, { 0 } },
  { "write_png write_jpeg", "input", SITU_U8, { 3, { 3, 2, 2 } } },
  { "nn_utils_rnn_unpad_sequence", "lengths", SITU_I64, { 1, { 2 } } },
  { "linalg_lu_solve", "LU", SITU_F32, { 2, { 0, 0 } } },
  { "linalg_lu_solve", "pivots", SITU_I64, { 1, { 0 } } },
  { "linalg_lu_solve", "B", SITU_F32, { 2, { 0, 0 } } },
  { "linalg_ldl_solve", "LD", SITU_F32, { 2, { 0, 0 } } },
  { "linalg_ldl_solve", "pivots", SITU_I64, { 1, { 0 } } },
  { "linalg_ldl_solve", "B", SITU_F32, { 2, { 0, 0 } } },
  { "linalg_tensorsolve", "B", SITU_F32, { 1, { 2 } } },
  { "linalg_householder_product", "tau", SITU_F32, { 1, { 2 } } },
  { "nms", "boxes", SITU_F32, { 2, { 2, 4 } } },
  { "nms", "scores", SITU_F32, { 1, { 2 } } },
  { "roi_align", "boxes", SITU_F32, { 2, { 2, 5 } } },
  { "roi_align", "input", SITU_F32, { 4, { 1, 2, 4, 4 } } },
  { "multilabel_margin_loss", "target", SITU_I64, { 2, { 2, 2 } } },
  { "combinations", "input", SITU_F32, { 1, { 2 } } },
  { "bilinear", "weight", SITU_F32, { 3, { 2, 2, 2 } } },
  { "bilinear", "bias", SITU_F32, { 1, { 2 } } },
  { "put put_", "source", SITU_F32, { 1, { 2 } } },
  { "select_scatter diagonal_scatter", "src", SITU_F32, { 1, { 2 } } },
  { NULL, "boundaries", SITU_F32, { 1, { 2 } } },
  { NULL, "index indices", SITU_I64, { 1, { 2 } } },
  { NULL, "condition mask", SITU_BOOL, { 2, { 2, 2 } } },
  { "op_run3", "a", SITU_BOOL, { 2, { 2, 2 } } },

  { "linalg_cholesky", NULL, SITU_F32, { 2, { 1, 1 } } },
  { "dot outer meshgrid cartesian_prod nn_bce_with_logits_loss", NULL, SITU_F32, { 1, { 2 } } },
  { "mv", "vec", SITU_F32, { 1, { 2 } } },
  { "addmv", "input vec", SITU_F32, { 1, { 2 } } },
  { "addr", "vec1 vec2", SITU_F32, { 1, { 2 } } },
  { "addbmm", "batch1 batch2", SITU_F32, { 3, { 2, 2, 2 } } },
  { "linalg_cross", NULL, SITU_F32, { 2, { 3, 3 } } },
  { "cosine_embedding_loss", "target", SITU_F32, { 1, { 2 } } },
  { "item item_i64 tree_value", NULL, SITU_F32, { 1, { 1 } } },
  { "bmm baddbmm scaled_dot_product_attention", NULL, SITU_F32, { 3, { 2, 2, 2 } } },
  { "nn_attend nn_encode", NULL, SITU_F32, { 3, { 2, 1, 2 } } },
  { "pixel_shuffle pixel_unshuffle", NULL, SITU_F32, { 3, { 4, 2, 2 } } },
  { "stft", "input", SITU_F32, { 2, { 2, 8 } } },
  { "istft", "input", SITU_F32, { 3, { 2, 3, 2 } } },
  { "stft istft", "window", SITU_F32, { 1, { 2 } } },
  { "fft_fft2 fft_ifft2 fft_irfft2 fft_hfft2", NULL, SITU_F32, { 3, { 2, 2, 2 } } },
  { "deform_conv2d", "input", SITU_F32, { 4, { 1, 2, 4, 4 } } },
  { "deform_conv2d", "offset", SITU_F32, { 4, { 1, 8, 3, 3 } } },
  { "deform_conv2d", "weight", SITU_F32, { 4, { 2, 2, 2, 2 } } },
  { "deform_conv2d", "bias", SITU_F32, { 1, { 2 } } },
  { "affine_grid", NULL, SITU_F32, { 3, { 1, 2, 3 } } },
  { "grid_sample", "grid", SITU_F32, { 4, { 1, 3, 3, 2 } } },
  { "interpolate grid_sample unfold", NULL, SITU_F32, { 4, { 1, 2, 4, 4 } } },
  { "instance_norm channel_shuffle local_response_norm", "input", SITU_F32, { 3, { 1, 2, 4 } } },
  { "instance_norm", NULL, SITU_F32, { 1, { 2 } } },
  { "batch_norm group_norm layer_norm rms_norm prelu", "weight bias running_mean running_var", SITU_F32, { 1, { 2 } } },

  { "autograd_gradcheck autograd_gradgradcheck", "inputs", SITU_F64, { 2, { 2, 2 } } },
  { "func_vjp", "cotangent", SITU_F32, { 0, { 0 } } },
  { "rnn_layer", "gates", SITU_F32, { 3, { 3, 2, 2 } } },
  { "rnn_layer", "bias_hh", SITU_F32, { 1, { 2 } } },
  { "lstm_layer", "gates", SITU_F32, { 3, { 3, 2, 8 } } },
  { "lstm_layer", "weight_hh", SITU_F32, { 2, { 8, 2 } } },
  { "lstm_layer", "bias_hh", SITU_F32, { 1, { 8 } } },
  { "gru_layer", "gates", SITU_F32, { 3, { 3, 2, 6 } } },
  { "gru_layer", "weight_hh", SITU_F32, { 2, { 6, 2 } } },
  { "gru_layer", "bias_hh", SITU_F32, { 1, { 6 } } },

  { "conv1d conv2d conv2d_by conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear linear_by linear_activation", "bias", SITU_F32,
    { 1, { 2 } } },
  { "conv1d conv_transpose1d", "weight", SITU_F32, { 3, { 2, 2, 3 } } },
  { "conv1d conv_transpose1d", NULL, SITU_F32, { 3, { 1, 2, 5 } } },
  { "conv2d_by", "packed", SITU_U8, { 1, { 36928 } } },
  { "linear_by", "packed", SITU_U8, { 1, { 6208 } } },
  { "conv2d conv2d_by conv2d_lay_out conv_transpose2d", "weight", SITU_F32, { 4, { 2, 2, 3, 3 } } },
  { "conv2d conv2d_by conv2d_lay_out conv_transpose2d", NULL, SITU_F32, { 4, { 1, 2, 5, 5 } } },
  { "conv3d conv_transpose3d", "weight", SITU_F32, { 5, { 2, 2, 2, 2, 2 } } },
  { "conv3d conv_transpose3d", NULL, SITU_F32, { 5, { 1, 2, 4, 4, 4 } } },
  { "max_pool1d avg_pool1d adaptive_avg_pool1d adaptive_max_pool1d lp_pool1d max_unpool1d fold", NULL, SITU_F32,
    { 3, { 1, 2, 4 } } },
  { "max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d lp_pool2d max_unpool2d", NULL, SITU_F32,
    { 4, { 1, 2, 4, 4 } } },
  { "max_pool3d avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d lp_pool3d max_unpool3d", NULL, SITU_F32,
    { 5, { 1, 2, 4, 4, 4 } } },
  /* clang-format on */
};

situ_tensor *api_valid_tensor(api_world *w, const char *parameter) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if ((!rows[i].functions || api_is(api_name(w), rows[i].functions)) &&
        (!rows[i].parameters || api_is(parameter, rows[i].parameters)))
      return api_tensor(w, rows[i].dtype, rows[i].shape);
  return api_tensor(w, SITU_F32, SITU_SHAPE(2, 2));
}
