/* ATen's layers: products, convolutions, pooling, norms, attention, upsampling.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "program/graph/program.h"
#include "program/graph/rows.h"
#include "situ/sys/plain.h"

/* ---- products ---- */

static situ_tensor *run_linear(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1), *packed;
  return situ__call_prepack(c, x, weight, &packed) ? situ_linear_by(x, weight, situ__arg_tensor(c, 2), packed) : NULL;
}
static situ_tensor *run_einsum(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 1, &count);
  return situ_einsum(situ__arg_text(c, 0), list, count);
}

/* ---- convolutions ---- */

typedef situ_tensor *convolution(situ_tensor *, situ_tensor *, situ_tensor *, const situ_conv_options *);

static situ_tensor *convolve(situ__op_call *c, convolution *conv, const situ_conv_options *o) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1), *bias = situ__arg_tensor(c, 2);
  return conv == situ_conv2d ? situ__call_conv2d(c, x, weight, bias, NULL, o, false) : conv(x, weight, bias, o);
}
static situ_conv_options conv_options(const situ__op_call *c) {
  return (situ_conv_options){ .stride = situ__arg_dims(c, 3),
                              .padding = situ__arg_dims(c, 4),
                              .dilation = situ__arg_dims(c, 5),
                              .groups = situ__arg_int(c, 6) };
}
static situ_tensor *run_conv(situ__op_call *c, convolution *conv) {
  const situ_conv_options o = conv_options(c);
  return convolve(c, conv, &o);
}
static situ_tensor *run_conv1d(situ__op_call *c) { return run_conv(c, situ_conv1d); }
static situ_tensor *run_conv2d(situ__op_call *c) { return run_conv(c, situ_conv2d); }
static situ_tensor *run_conv3d(situ__op_call *c) { return run_conv(c, situ_conv3d); }

/* padding is "valid" or "same". */
static situ_tensor *run_conv_named(situ__op_call *c, convolution *conv) {
  const situ_conv_options o = { .stride = situ__arg_dims(c, 3),
                                .dilation = situ__arg_dims(c, 5),
                                .groups = situ__arg_int(c, 6),
                                .same = *situ__arg_text(c, 4) == 's' };
  return convolve(c, conv, &o);
}
static situ_tensor *run_conv1d_named(situ__op_call *c) { return run_conv_named(c, situ_conv1d); }
static situ_tensor *run_conv2d_named(situ__op_call *c) { return run_conv_named(c, situ_conv2d); }
static situ_tensor *run_conv3d_named(situ__op_call *c) { return run_conv_named(c, situ_conv3d); }

/* Transposed: output_padding and groups come before dilation. */
static situ_tensor *run_conv_transpose(situ__op_call *c, convolution *conv) {
  const situ_conv_options o = { .stride = situ__arg_dims(c, 3),
                                .padding = situ__arg_dims(c, 4),
                                .output_padding = situ__arg_dims(c, 5),
                                .groups = situ__arg_int(c, 6),
                                .dilation = situ__arg_dims(c, 7) };
  return convolve(c, conv, &o);
}
static situ_tensor *run_conv_transpose1d(situ__op_call *c) { return run_conv_transpose(c, situ_conv_transpose1d); }
static situ_tensor *run_conv_transpose2d(situ__op_call *c) { return run_conv_transpose(c, situ_conv_transpose2d); }
static situ_tensor *run_conv_transpose3d(situ__op_call *c) { return run_conv_transpose(c, situ_conv_transpose3d); }

/* core-ATen's one convolution for all. */
static situ_tensor *run_convolution(situ__op_call *c) {
  static convolution *const plain[] = { situ_conv1d, situ_conv2d, situ_conv3d };
  static convolution *const transposed[] = { situ_conv_transpose1d, situ_conv_transpose2d, situ_conv_transpose3d };
  const int spatial = situ_dim(situ__arg_tensor(c, 1)) - 2;
  if (spatial < 1 || spatial > 3) return situ__call_refuse(c, "has a weight that is not of 1 to 3 spatial dimensions");
  const bool back = situ__arg_flag(c, 6);
  const situ_conv_options o = { .stride = situ__arg_dims(c, 3),
                                .padding = situ__arg_dims(c, 4),
                                .dilation = situ__arg_dims(c, 5),
                                .output_padding = back ? situ__arg_dims(c, 7) : SITU_SCALAR,
                                .groups = situ__arg_int(c, 8) };
  return convolve(c, back ? transposed[spatial - 1] : plain[spatial - 1], &o);
}

/* ---- pooling ---- */

static situ_pool_options max_options(const situ__op_call *c) {
  return (situ_pool_options){ .kernel = situ__arg_dims(c, 1),
                              .stride = situ__arg_dims(c, 2),
                              .padding = situ__arg_dims(c, 3),
                              .dilation = situ__arg_dims(c, 4),
                              .ceil_mode = situ__arg_flag(c, 5) };
}
static situ_tensor *run_max_pool1d(situ__op_call *c) {
  const situ_pool_options o = max_options(c);
  return situ_max_pool1d(situ__arg_tensor(c, 0), &o, situ__call_wanted(c, 1));
}
static situ_tensor *run_max_pool2d(situ__op_call *c) {
  const situ_pool_options o = max_options(c);
  return situ_max_pool2d(situ__arg_tensor(c, 0), &o, situ__call_wanted(c, 1));
}
static situ_tensor *run_max_pool3d(situ__op_call *c) {
  const situ_pool_options o = max_options(c);
  return situ_max_pool3d(situ__arg_tensor(c, 0), &o, situ__call_wanted(c, 1));
}
static situ_pool_options avg_options(const situ__op_call *c) {
  return (situ_pool_options){ .kernel = situ__arg_dims(c, 1),
                              .stride = situ__arg_dims(c, 2),
                              .padding = situ__arg_dims(c, 3),
                              .ceil_mode = situ__arg_flag(c, 4),
                              .exclude_pad = !situ__arg_flag(c, 5),
                              .divisor_override = situ__arg_given(c, 6) ? situ__arg_int(c, 6) : 0 };
}
static situ_tensor *run_avg_pool1d(situ__op_call *c) {
  const situ_pool_options o = avg_options(c);
  return situ_avg_pool1d(situ__arg_tensor(c, 0), &o);
}
static situ_tensor *run_avg_pool2d(situ__op_call *c) {
  const situ_pool_options o = avg_options(c);
  return situ_avg_pool2d(situ__arg_tensor(c, 0), &o);
}
static situ_tensor *run_avg_pool3d(situ__op_call *c) {
  const situ_pool_options o = avg_options(c);
  return situ_avg_pool3d(situ__arg_tensor(c, 0), &o);
}
static situ_tensor *run_adaptive_avg_pool1d(situ__op_call *c) {
  return situ_adaptive_avg_pool1d(situ__arg_tensor(c, 0), situ__arg_dims(c, 1).dim[0]);
}
static situ_tensor *run_adaptive_avg_pool2d(situ__op_call *c) {
  return situ_adaptive_avg_pool2d(situ__arg_tensor(c, 0), situ__arg_dims(c, 1));
}
static situ_tensor *run_adaptive_avg_pool3d(situ__op_call *c) {
  return situ_adaptive_avg_pool3d(situ__arg_tensor(c, 0), situ__arg_dims(c, 1));
}
/* Each value goes to its place among those of its plane. */
static situ_tensor *run_max_unpool2d(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_shape size = situ_shape_of(x);
  const situ_shape plane = situ__arg_dims(c, 2);
  if (size.ndim < 3 || plane.ndim != 2)
    return situ__call_refuse(c, "needs planes [.., H, W], and two numbers as output_size");
  size.dim[size.ndim - 2] = plane.dim[0], size.dim[size.ndim - 1] = plane.dim[1];
  situ_tensor *y = situ_flatten(situ_new_zeros(x, size, NULL), -2, -1);
  y = situ_scatter(y, -1, situ_flatten(situ__arg_tensor(c, 1), -2, -1), situ_flatten(x, -2, -1));
  return situ_reshape(y, size);
}
static situ_tensor *run_adaptive_max_pool1d(situ__op_call *c) {
  return situ_adaptive_max_pool1d(situ__arg_tensor(c, 0), situ__arg_dims(c, 1).dim[0], situ__call_wanted(c, 1));
}
static situ_tensor *run_adaptive_max_pool2d(situ__op_call *c) {
  return situ_adaptive_max_pool2d(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), situ__call_wanted(c, 1));
}
static situ_tensor *run_adaptive_max_pool3d(situ__op_call *c) {
  return situ_adaptive_max_pool3d(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), situ__call_wanted(c, 1));
}

/* ---- norms ---- */

/* The further results of a norm, where the program uses them: x's mean over dims, and 1 / sqrt(variance + eps). */
static situ_tensor *with_statistics(situ__op_call *c, situ_tensor *y, situ_tensor *x, const situ_reduce_options *over,
                                    double eps) {
  situ_tensor **mean = situ__call_wanted(c, 1), **rstd = situ__call_wanted(c, 2), *m;
  if (!y || (!mean && !rstd)) return y;
  situ_tensor *variance = situ_var_mean(x, 0, over, &m), *r = situ_rsqrt(situ_add_scalar(variance, eps));
  if (mean) *mean = m;
  if (rstd) *rstd = r;
  return r ? y : NULL;
}
/* Of batch norm, over all dimensions but the second; in evaluation they are empty. */
static situ_tensor *with_batch_statistics(situ__op_call *c, situ_tensor *y, bool training, double eps) {
  situ_tensor *x = situ__arg_tensor(c, 0), **further[] = { situ__call_wanted(c, 1), situ__call_wanted(c, 2) };
  situ_reduce_options over = { 0 };
  for (int d = 0; y && d < situ_dim(x); d++)
    if (d != 1) over.dim.dim[over.dim.ndim++] = d;
  if (training) return with_statistics(c, y, x, &over, eps);
  for (int k = 0; y && k < 2; k++)
    if (further[k] && !(*further[k] = situ_new_zeros(x, SITU_SHAPE(0), NULL))) return NULL;
  return y;
}

/* Exported in training mode, a norm trains as its module does. */
static situ_tensor *run_batch_norm(situ__op_call *c) {
  situ_batch_norm_options o = situ_batch_norm_defaults();
  o.training = situ__arg_flag(c, 5) && (situ__call_trains(c) || !situ__arg_given(c, 3));
  if (situ__arg_flag(c, 5)) o.momentum = situ__arg_number(c, 6);
  o.eps = situ__arg_number(c, 7);
  situ_tensor *y = situ_batch_norm(situ__arg_tensor(c, 0), situ__arg_tensor(c, 3), situ__arg_tensor(c, 4),
                                   situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), &o);
  return with_batch_statistics(c, y, o.training, o.eps);
}
static situ_tensor *run_batch_norm_eval(situ__op_call *c) {
  const situ_batch_norm_options o = { .size = sizeof o, .eps = situ__arg_number(c, 6) };
  situ_tensor *y = situ_batch_norm(situ__arg_tensor(c, 0), situ__arg_tensor(c, 3), situ__arg_tensor(c, 4),
                                   situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), &o);
  return with_batch_statistics(c, y, false, o.eps);
}
/* What instance norm decomposes into. */
static situ_tensor *run_batch_norm_of_batch(situ__op_call *c) {
  const situ_batch_norm_options o = { .size = sizeof o, .training = true, .eps = situ__arg_number(c, 5) };
  situ_tensor *y =
      situ_batch_norm(situ__arg_tensor(c, 0), NULL, NULL, situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), &o);
  return with_batch_statistics(c, y, true, o.eps);
}
static situ_tensor *run_instance_norm(situ__op_call *c) {
  situ_instance_norm_options o = situ_instance_norm_defaults();
  o.no_input_stats = !situ__arg_flag(c, 5);
  if (situ__arg_given(c, 3)) o.momentum = situ__arg_number(c, 6); /* without running statistics torch takes any */
  o.eps = situ__arg_number(c, 7);
  return situ_instance_norm(situ__arg_tensor(c, 0), situ__arg_tensor(c, 3), situ__arg_tensor(c, 4),
                            situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), &o);
}
static situ_tensor *run_layer_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const double eps = situ__arg_number(c, 4);
  const situ_shape last = situ__arg_dims(c, 1);
  situ_reduce_options over = { .keepdim = true };
  for (int d = situ_dim(x) - last.ndim; d >= 0 && d < situ_dim(x); d++) over.dim.dim[over.dim.ndim++] = d;
  situ_tensor *y = situ_layer_norm(x, last, situ__arg_tensor(c, 2), situ__arg_tensor(c, 3), eps);
  return with_statistics(c, y, x, &over, eps);
}
static situ_tensor *run_group_norm(situ__op_call *c) {
  return situ_group_norm(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_tensor(c, 2), situ__arg_tensor(c, 3),
                         situ__arg_number(c, 4));
}
static situ_tensor *run_native_group_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int64_t groups = situ__arg_int(c, 6);
  const double eps = situ__arg_number(c, 7);
  situ_tensor *y = situ_group_norm(x, groups, situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), eps);
  if (!y || (!situ__call_wanted(c, 1) && !situ__call_wanted(c, 2))) return y;
  x = situ_unflatten(situ_flatten(x, 1, -1), 1, SITU_SHAPE(groups, -1)); /* a batch may be empty */
  return with_statistics(c, y, x, &(situ_reduce_options){ .dim = SITU_DIMS(2) }, eps);
}
static situ_tensor *run_rms_norm(situ__op_call *c) {
  return situ_rms_norm(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), situ__arg_tensor(c, 2),
                       situ__arg_given(c, 3) ? situ__arg_number(c, 3) : SITU_NONE);
}
/* g v / |v|, with a norm for each index of dim. */
static situ_tensor *run_weight_norm(situ__op_call *c) {
  situ_tensor *v = situ__arg_tensor(c, 0), *g = situ__arg_tensor(c, 1);
  const int rank = situ_dim(v), dim = situ__arg_dim_of(c, 2, rank);
  situ_reduce_options all = { .keepdim = true };
  for (int d = 0; d < rank; d++)
    if (d != dim) all.dim.dim[all.dim.ndim++] = d;
  return situ_mul(v, situ_div(g, situ_norm(v, 2, &all)));
}

/* ---- softmax, dropout, attention, embedding ---- */

static situ_tensor *run_softmax(situ__op_call *c) { return situ_softmax(situ__arg_cast(c, 2), situ__arg_dim(c, 1)); }
static situ_tensor *run_log_softmax(situ__op_call *c) {
  return situ_log_softmax(situ__arg_cast(c, 2), situ__arg_dim(c, 1));
}
/* 0 where all that it is of is masked by -inf. */
static situ_tensor *run_safe_softmax(situ__op_call *c) {
  situ_tensor *x = situ__arg_cast(c, 2);
  const situ_reduce_options along = { .dim = SITU_SHAPE(situ__arg_dim(c, 1)), .keepdim = true };
  return situ_masked_fill(situ_softmax(x, situ__arg_dim(c, 1)), situ_all(situ_isneginf(x), &along), 0);
}
/* half_to_float: the cast of CUDA's kernels. */
static situ_tensor *run_softmax_core(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  return situ_softmax(situ__arg_flag(c, 2) ? situ_to_dtype(x, SITU_F32) : x, situ__arg_dim(c, 1));
}
static situ_tensor *run_log_softmax_core(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  return situ_log_softmax(situ__arg_flag(c, 2) ? situ_to_dtype(x, SITU_F32) : x, situ__arg_dim(c, 1));
}
static situ_tensor *run_dropout(situ__op_call *c) {
  const bool on = situ__arg_flag(c, 2) && situ__call_trains(c);
  return situ_dropout(situ__arg_tensor(c, 0), situ__arg_number(c, 1), on, NULL);
}
/* And what was kept. */
static situ_tensor *run_native_dropout(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const bool on = (!situ__arg_given(c, 2) || situ__arg_flag(c, 2)) && situ__call_trains(c);
  situ_tensor *factor = situ_dropout(situ_ones_like(x, NULL), situ__arg_number(c, 1), on, NULL);
  if (c->node->outs > 1) c->result[1] = situ_gt_scalar(factor, 0);
  return situ_mul(x, factor);
}
/* Whole channels are dropped: one factor for each, of the first two dimensions. */
static situ_tensor *run_feature_dropout(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  if (!situ__arg_flag(c, 2) || !situ__call_trains(c)) return x;
  situ_shape shape = situ_shape_of(x);
  for (int d = 2; d < shape.ndim; d++) shape.dim[d] = 1;
  return situ_mul(x, situ_dropout(situ_new_ones(x, shape, NULL), situ__arg_number(c, 1), true, NULL));
}
static situ_tensor *run_alpha_dropout(situ__op_call *c) {
  if (!situ__arg_flag(c, 2) || !situ__call_trains(c)) return situ__arg_tensor(c, 0);
  return situ__call_refuse(c, "drops with SELU's mean and variance, which situ lacks in training");
}
static situ_tensor *run_attention(situ__op_call *c) {
  const double p = situ__arg_number(c, 4);
  const situ_attention_options o = { .size = sizeof o,
                                     .attn_mask = situ__arg_tensor(c, 3),
                                     .dropout_p = p > 0 && situ__call_trains(c) ? p : 0,
                                     .is_causal = situ__arg_flag(c, 5),
                                     .scale = situ__arg_given(c, 6) ? situ__arg_number(c, 6) : SITU_NONE,
                                     .enable_gqa = situ__arg_flag(c, 7) };
  return situ_scaled_dot_product_attention(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), &o);
}
/* Its second result, the logarithms of the sums, is backward's. */
static situ_tensor *run_attention_for_cpu(situ__op_call *c) {
  const situ__arg arg[] = { c->arg[0], c->arg[1], c->arg[2], c->arg[5], c->arg[3], c->arg[4], c->arg[6], { 0 } };
  situ__op_call call = *c;
  call.arg = arg;
  situ_tensor **sums = situ__call_wanted(c, 1);
  const situ_reduce_options last = { .dim = SITU_DIMS(-1) };
  if (sums) *sums = situ_logsumexp(situ__attention_scores(c, 0, 4, situ__attention_scale(c, 0, 6)), &last);
  return run_attention(&call);
}
static situ_tensor *run_embedding(situ__op_call *c) {
  const int64_t padding = situ__arg_int(c, 2);
  situ_embedding_options o = situ_embedding_defaults();
  o.has_padding_idx = padding >= 0;
  if (padding >= 0) o.padding_idx = padding;
  o.scale_grad_by_freq = situ__arg_flag(c, 3);
  return situ_embedding(situ__arg_tensor(c, 1), situ__arg_tensor(c, 0), &o);
}
/* The rows of the indices, in a copy, which the row's first argument then gets. */
static situ_tensor *run_embedding_renorm(situ__op_call *c) {
  situ_tensor *weight = situ__arg_tensor(c, 0);
  const situ_embedding_options o = { .size = sizeof o,
                                     .max_norm = situ__arg_number(c, 2),
                                     .norm_type = situ__arg_number(c, 3) };
  return situ_embedding(situ__arg_tensor(c, 1), weight, &o) ? weight : NULL;
}
/* The bags' sizes and places, torch's further results, are backward's. */
static situ_tensor *run_embedding_bag(situ__op_call *c) {
  static const situ_embedding_bag_mode modes[] = { SITU_EMBEDDING_BAG_SUM, SITU_EMBEDDING_BAG_MEAN,
                                                   SITU_EMBEDDING_BAG_MAX };
  const int64_t mode = situ__arg_int(c, 4);
  if (mode < 0 || mode > 2) return situ__call_refuse(c, "has a mode that situ does not know");
  situ_embedding_bag_options o = situ_embedding_bag_defaults();
  o.offsets = situ__arg_tensor(c, 2);
  o.scale_grad_by_freq = situ__arg_flag(c, 3);
  o.mode = modes[mode];
  o.per_sample_weights = situ__arg_tensor(c, 6);
  o.include_last_offset = situ__arg_flag(c, 7);
  o.has_padding_idx = situ__arg_given(c, 8);
  if (o.has_padding_idx) o.padding_idx = situ__arg_int(c, 8);
  return situ_embedding_bag(situ__arg_tensor(c, 1), situ__arg_tensor(c, 0), &o);
}

#define PRODUCT(name) \
  { #name ".default", "t self, t other", .binary = situ_##name }
/* The weight has a dimension for each of x's. */
static situ_tensor *prelu_each(situ_tensor *x, situ_tensor *weight) {
  return situ_where(situ_gt_scalar(x, 0), x, situ_mul(x, weight));
}

#define CONV "t input, t weight, t? bias, I? stride, I? padding, I? dilation, i groups=1"
#define CONV_NAMED "t input, t weight, t? bias, I? stride, s? padding, I? dilation, i groups=1"
#define CONV_TRANSPOSE "t input, t weight, t? bias, I? stride, I? padding, I? output_padding, i groups=1, I? dilation"
#define MAX_POOL "t self, I kernel_size, I? stride, I? padding, I? dilation, b ceil_mode=0"
#define AVG_POOL \
  "t self, I kernel_size, I? stride, I? padding, b ceil_mode=0, b count_include_pad=1, i? divisor_override"
#define BAG                                                                                             \
  "t weight, t indices, t offsets, b scale_grad_by_freq=0, i mode=0, _ sparse, t? per_sample_weights, " \
  "b include_last_offset=0, i? padding_idx"
#define BATCH_NORM \
  "t input, t? weight, t? bias, t? running_mean, t? running_var, b training, n momentum, n eps, _ cudnn_enabled"

static const situ__op_row rows[] = {
  { "linear.default", "t input, t weight, t? bias", .prepacked = 1, .run = run_linear },
  PRODUCT(matmul),
  { "mm.default", "t self, t mat2", .binary = situ_mm },
  { "bmm.default", "t self, t mat2", .binary = situ_bmm },
  { "mv.default", "t self, t vec", .binary = situ_mv },
  { "dot.default", "t self, t tensor", .binary = situ_dot },
  { "einsum.default", "s equation, T tensors, _ path", .run = run_einsum },

  { "conv1d.default", CONV, .run = run_conv1d },
  { "conv2d.default", CONV, .prepacked = 1, .run = run_conv2d },
  { "conv3d.default", CONV, .run = run_conv3d },
  { "conv1d.padding", CONV_NAMED, .run = run_conv1d_named },
  { "conv2d.padding", CONV_NAMED, .prepacked = 1, .run = run_conv2d_named },
  { "conv3d.padding", CONV_NAMED, .run = run_conv3d_named },
  { "conv_transpose1d.default", CONV_TRANSPOSE, .run = run_conv_transpose1d },
  { "conv_transpose2d.input", CONV_TRANSPOSE, .run = run_conv_transpose2d },
  { "conv_transpose3d.input", CONV_TRANSPOSE, .run = run_conv_transpose3d },
  { "convolution.default",
    "t input, t weight, t? bias, I stride, I padding, I dilation, b transposed, I output_padding, i groups",
    .prepacked = 1, .run = run_convolution },

  { "max_pool1d.default", MAX_POOL, .run = run_max_pool1d },
  { "max_pool2d.default", MAX_POOL, .run = run_max_pool2d },
  { "max_pool3d.default", MAX_POOL, .run = run_max_pool3d },
  { "max_unpool2d.default", "t self, t indices, I output_size", .run = run_max_unpool2d },
  { "max_pool1d_with_indices.default", MAX_POOL, .results = 2, .run = run_max_pool1d },
  { "max_pool2d_with_indices.default", MAX_POOL, .results = 2, .run = run_max_pool2d },
  { "max_pool3d_with_indices.default", MAX_POOL, .results = 2, .run = run_max_pool3d },
  { "avg_pool1d.default", AVG_POOL, .run = run_avg_pool1d },
  { "avg_pool2d.default", AVG_POOL, .run = run_avg_pool2d },
  { "avg_pool3d.default", AVG_POOL, .run = run_avg_pool3d },
  { "adaptive_avg_pool1d.default", "t self, I output_size", .run = run_adaptive_avg_pool1d },
  { "adaptive_avg_pool2d.default", "t self, I output_size", .run = run_adaptive_avg_pool2d },
  { "_adaptive_avg_pool2d.default", "t self, I output_size", .run = run_adaptive_avg_pool2d },
  { "adaptive_avg_pool3d.default", "t self, I output_size", .run = run_adaptive_avg_pool3d },
  { "_adaptive_avg_pool3d.default", "t self, I output_size", .run = run_adaptive_avg_pool3d },
  { "adaptive_max_pool1d.default", "t self, I output_size", .results = 2, .run = run_adaptive_max_pool1d },
  { "adaptive_max_pool2d.default", "t self, I output_size", .results = 2, .run = run_adaptive_max_pool2d },
  { "adaptive_max_pool3d.default", "t self, I output_size", .results = 2, .run = run_adaptive_max_pool3d },

  { "batch_norm.default", BATCH_NORM, .run = run_batch_norm },
  { "_native_batch_norm_legit.default", BATCH_NORM, .results = 3, .run = run_batch_norm },
  { "native_batch_norm.default",
    "t input, t? weight, t? bias, t? running_mean, t? running_var, b training, n momentum, n eps", .results = 3,
    .run = run_batch_norm },
  { "_native_batch_norm_legit.no_stats", "t input, t? weight, t? bias, _ training, n momentum, n eps", .results = 3,
    .run = run_batch_norm_of_batch },
  { "_native_batch_norm_legit_no_training.default",
    "t input, t? weight, t? bias, t running_mean, t running_var, n momentum, n eps", .results = 3,
    .run = run_batch_norm_eval },
  { "instance_norm.default",
    "t input, t? weight, t? bias, t? running_mean, t? running_var, b use_input_stats, n momentum, n eps, "
    "_ cudnn_enabled",
    .run = run_instance_norm },
  { "layer_norm.default", "t input, I normalized_shape, t? weight, t? bias, n eps=1e-05, _ cudnn_enable",
    .run = run_layer_norm },
  { "native_layer_norm.default", "t input, I normalized_shape, t? weight, t? bias, n eps", .results = 3,
    .run = run_layer_norm },
  { "group_norm.default", "t input, i num_groups, t? weight, t? bias, n eps=1e-05, _ cudnn_enabled",
    .run = run_group_norm },
  { "native_group_norm.default", "t input, t? weight, t? bias, i N, i C, i HxW, i group, n eps", .results = 3,
    .run = run_native_group_norm },
  { "rms_norm.default", "t input, I normalized_shape, t? weight, n? eps", .run = run_rms_norm },
  { "_weight_norm.default", "t v, t g, i dim=0", .run = run_weight_norm },

  { "softmax.int", "t self, i dim, d? dtype", .run = run_softmax },
  { "log_softmax.int", "t self, i dim, d? dtype", .run = run_log_softmax },
  { "_safe_softmax.default", "t self, i dim, d? dtype", .run = run_safe_softmax },
  { "special_softmax.default", "t self, i dim, d? dtype", .run = run_softmax },
  { "special_log_softmax.default", "t self, i dim, *d? dtype", .run = run_log_softmax },
  { "_softmax.default", "t self, i dim, b half_to_float", .run = run_softmax_core },
  { "_log_softmax.default", "t self, i dim, b half_to_float", .run = run_log_softmax_core },
  { "dropout.default", "t input, n p, b train", .run = run_dropout },
  { "native_dropout.default", "t input, n p, b? train", .results = 2, .run = run_native_dropout },
  { "feature_dropout.default", "t input, n p, b train", .run = run_feature_dropout },
  { "alpha_dropout.default", "t input, n p, b train", .run = run_alpha_dropout },
  { "feature_alpha_dropout.default", "t input, n p, b train", .run = run_alpha_dropout },
  { "dropout_.default", "t self, n p, b train", .run = run_dropout, .in_place = true },
  { "feature_dropout_.default", "t self, n p, b train", .run = run_feature_dropout, .in_place = true },
  { "alpha_dropout_.default", "t self, n p, b train", .run = run_alpha_dropout, .in_place = true },
  { "scaled_dot_product_attention.default",
    "t query, t key, t value, t? attn_mask, n dropout_p=0, b is_causal=0, *n? scale, *b enable_gqa=0",
    .run = run_attention },
  { "_scaled_dot_product_flash_attention_for_cpu.default",
    "t query, t key, t value, n dropout_p=0, b is_causal=0, *t? attn_mask, *n? scale", .results = 2,
    .run = run_attention_for_cpu },
  { "embedding.default", "t weight, t indices, i padding_idx=-1, b scale_grad_by_freq=0, _ sparse",
    .run = run_embedding },
  { "embedding_renorm_.default", "t self, t indices, n max_norm, n norm_type", .run = run_embedding_renorm,
    .in_place = true },
  { "embedding_bag.default", BAG, .results = 4, .run = run_embedding_bag },
  { "embedding_bag.padding_idx", BAG, .results = 4, .run = run_embedding_bag },
  { "prelu.default", "t self, t weight", .binary = situ_prelu },
  { "_prelu_kernel.default", "t self, t weight", .binary = prelu_each },
};
const situ__op_family situ__layers_family = { rows, sizeof rows / sizeof *rows };
