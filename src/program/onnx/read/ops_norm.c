/* ONNX's norms, dropout, losses, and a scaler.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "onnx.h"

/* Whether result i is asked for. */
static bool wants(const situ__op_call *c, int i) { return i < c->node->outs && c->node->out[i] >= 0; }

/* ---- norms ---- */

/* In training mode the results are also the running statistics: old * momentum + the batch's * (1 - momentum). */
static situ_tensor *run_batch_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *operand[4];
  /* Computed ones may be expanded, which the kernel does not take. */
  for (int k = 0; k < 4; k++) operand[k] = situ_contiguous(situ__arg_tensor(c, k + 1));
  situ_tensor *mean = operand[2], *var = operand[3];
  const bool old = c->node->row->since < 9, training = !old && situ__arg_flag(c, 7);
  const double momentum = situ__arg_number(c, 6);
  const situ_batch_norm_options o = { .size = sizeof o, .training = training, .eps = situ__arg_number(c, 5) };
  if (old && !situ__arg_flag(c, 7)) { /* not spatial: statistics of each element of a sample */
    x = situ_mul(situ_sub(x, mean), situ_rsqrt(situ_add_scalar(var, o.eps)));
    return situ_add(situ_mul(x, operand[0]), operand[1]);
  }
  situ_tensor *y = situ_batch_norm(x, training ? NULL : mean, training ? NULL : var, operand[0], operand[1], &o);
  if (!training || !y || c->node->outs < 2) return y;
  situ_reduce_options r = { .dim = { .ndim = 0 } };
  for (int d = 0; d < situ_dim(x); d++)
    if (d != 1) r.dim.dim[r.dim.ndim++] = d;
  situ_tensor *batch[2] = { situ_mean(x, &r), situ_var(x, 0, &r) }, *before[2] = { mean, var };
  for (int i = 0; i < 2 && i + 1 < c->node->outs; i++)
    c->result[i + 1] = situ_add(situ_mul_scalar(before[i], momentum), situ_mul_scalar(batch[i], 1 - momentum));
  return y;
}

static situ_shape last_dims(const situ_tensor *x, int axis) {
  const situ_shape all = situ_shape_of(x);
  situ_shape last = { .ndim = 0 };
  for (int d = situ__dim_of(axis, all.ndim); d >= 0 && d < all.ndim; d++) last.dim[last.ndim++] = all.dim[d];
  return last;
}

/* Mean and the inverse of the standard deviation are results too. */
static bool give_statistics(situ__op_call *c, situ_tensor *x, int dims, double eps) {
  situ_reduce_options o = { .dim = { .ndim = dims }, .keepdim = true };
  for (int i = 0; i < dims; i++) o.dim.dim[i] = i - dims;
  if (!situ_dtype_is_floating(situ_dtype_of(x)) || situ_dtype_of(x) == SITU_F16 || situ_dtype_of(x) == SITU_BF16)
    x = situ_to_dtype(x, SITU_F32);
  if (wants(c, 1) && !(c->result[1] = situ_mean(x, &o))) return false;
  return !wants(c, 2) || (c->result[2] = situ_rsqrt(situ_add_scalar(situ_var(x, 0, &o), eps)));
}
static situ_tensor *run_layer_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1), *bias = situ__arg_tensor(c, 2);
  const double eps = situ__arg_number(c, 4);
  const situ_shape dims = last_dims(x, situ__arg_dim(c, 3));
  const situ_shape of_weight = weight ? situ_shape_of(weight) : dims; /* a pattern may have none (patterns.h) */
  if (dims.ndim < 1) return situ__call_refuse(c, "has an axis outside of its input");
  if (!give_statistics(c, x, dims.ndim, eps)) return NULL;
  const bool same =
      dims.ndim == of_weight.ndim && memcmp(dims.dim, of_weight.dim, (size_t)dims.ndim * sizeof *dims.dim) == 0;
  if (same) return situ_layer_norm(x, dims, weight, bias, eps);
  situ_tensor *y = situ_mul(situ_layer_norm(x, dims, NULL, NULL, eps), weight);
  return bias ? situ_add(y, bias) : y;
}
static situ_tensor *run_rms_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1);
  const situ_shape dims = last_dims(x, situ__arg_dim(c, 2)), of_weight = situ_shape_of(weight);
  const double eps = situ__arg_number(c, 3);
  if (dims.ndim < 1) return situ__call_refuse(c, "has an axis outside of its input");
  const bool same =
      dims.ndim == of_weight.ndim && memcmp(dims.dim, of_weight.dim, (size_t)dims.ndim * sizeof *dims.dim) == 0;
  if (same) return situ_rms_norm(x, dims, weight, eps);
  return situ_mul(situ_rms_norm(x, dims, NULL, eps), weight);
}
/* Of one element or none in each channel, for which torch refuses to normalise. */
static situ_tensor *instance_norm_of_one(situ__op_call *c, situ_tensor *x, const situ_shape *size) {
  situ_shape of_channels = { .ndim = size->ndim - 1, .dim = { size->dim[1] } }, one = SITU_SHAPE(1);
  for (int d = 1; d < of_channels.ndim; d++) of_channels.dim[d] = 1;
  situ_tensor *y = situ_layer_norm(situ_unsqueeze(x, -1), one, NULL, NULL, situ__arg_number(c, 3));
  y = situ_mul(situ_squeeze(y, SITU_SHAPE(-1)), situ_reshape(situ__arg_tensor(c, 1), of_channels));
  return situ_add(y, situ_reshape(situ__arg_tensor(c, 2), of_channels));
}
static situ_tensor *run_instance_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape size = situ_shape_of(x);
  int64_t plane = 1;
  for (int d = 2; d < size.ndim; d++) plane *= size.dim[d];
  if (size.ndim >= 3 && plane <= 1) return instance_norm_of_one(c, x, &size);
  situ_instance_norm_options o = situ_instance_norm_defaults();
  o.eps = situ__arg_number(c, 3);
  return situ_instance_norm(x, NULL, NULL, situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), &o);
}
static situ_tensor *group_norm(situ__op_call *c, bool of_groups) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1), *bias = situ__arg_tensor(c, 2);
  const int64_t groups = situ__arg_int(c, 4), channels = situ_size(x, 1);
  if (groups < 1 || channels % groups) return situ__call_refuse(c, "has channels that its groups do not divide");
  if (of_groups) {
    weight = situ_repeat_interleave(weight, channels / groups, SITU_SHAPE(0));
    bias = situ_repeat_interleave(bias, channels / groups, SITU_SHAPE(0));
  }
  return situ_group_norm(x, groups, weight, bias, situ__arg_number(c, 3));
}
static situ_tensor *run_group_norm(situ__op_call *c) { return group_norm(c, false); }
/* Before opset 21 weight and bias are of groups, not of channels. */
static situ_tensor *run_group_norm_18(situ__op_call *c) { return group_norm(c, true); }

/* Of an even number of channels ONNX has one more after, torch before. */
static const char *lrn_lacks(const situ__op_call *c) {
  return situ__arg_int(c, 1) % 2 == 0 ? "has an even size" : NULL;
}
static situ_tensor *run_lrn(situ__op_call *c) {
  return situ_local_response_norm(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_number(c, 2),
                                  situ__arg_number(c, 3), situ__arg_number(c, 4));
}
static situ_tensor *run_mean_variance_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape dims = situ__arg_given(c, 1) ? situ__arg_dims(c, 1) : SITU_SHAPE(0, 2, 3);
  const situ_reduce_options o = { .dim = dims, .keepdim = true };
  situ_tensor *deviation = situ_std(x, 0, &o);
  return situ_div(situ_sub(x, situ_mean(x, &o)), situ_add_scalar(deviation, 1e-9));
}
static situ_tensor *run_lp_norm(situ__op_call *c) {
  return situ_normalize(situ__arg_tensor(c, 0), situ__arg_number(c, 1), situ__arg_dim(c, 2), 1e-12);
}

/* ---- dropout ---- */

static situ_tensor *run_dropout(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  double ratio = 0.5;
  int64_t training = 0;
  if (situ__arg_host_numbers(c, 1, &ratio, 1) < 0 || situ__arg_host_ints(c, 2, &training, 1) < 0) return NULL;
  const bool on = training && ratio > 0;
  if (wants(c, 1)) {
    if (on) return situ__call_refuse(c, "gives its mask in training");
    c->result[1] = situ_ones_like(x, &(situ_options){ .dtype = SITU_BOOL });
  }
  return situ_dropout(x, ratio, on, NULL);
}

static const char *dropout_6_lacks(const situ__op_call *c) {
  return situ__arg_flag(c, 2) ? NULL : "drops elements (is_test is 0)";
}
/* Before opset 12 a model that is run drops nothing, and its mask, which before 10 had the input's dtype, is 0. */
static situ_tensor *run_dropout_7(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_options mask = { .dtype = c->node->row->since < 10 ? situ_dtype_of(x) : SITU_BOOL };
  if (wants(c, 1)) c->result[1] = situ_zeros_like(x, &mask);
  return x;
}

/* ---- losses ---- */

static bool read_loss(const situ__op_call *c, situ_cross_entropy_options *o) {
  const char *reduction = situ__arg_given(c, 4) ? situ__arg_text(c, 4) : "mean";
  *o = (situ_cross_entropy_options){ .weight = situ__arg_tensor(c, 2),
                                     .has_ignore_index = situ__arg_given(c, 3),
                                     .ignore_index = situ__arg_given(c, 3) ? situ__arg_int(c, 3) : 0,
                                     .reduction = *reduction == 'm'   ? SITU_REDUCTION_MEAN
                                                  : *reduction == 's' ? SITU_REDUCTION_SUM
                                                                      : SITU_REDUCTION_NONE };
  return true;
}
static situ_tensor *run_nll_loss(situ__op_call *c) {
  situ_cross_entropy_options o;
  read_loss(c, &o);
  return situ_nll_loss(situ__arg_tensor(c, 0), situ_to_dtype(situ__arg_tensor(c, 1), SITU_I64), &o);
}
static situ_tensor *run_cross_entropy(situ__op_call *c) {
  situ_cross_entropy_options o;
  situ_tensor *scores = situ__arg_tensor(c, 0);
  read_loss(c, &o);
  if (wants(c, 1)) c->result[1] = situ_log_softmax(scores, 1);
  return situ_cross_entropy(scores, situ_to_dtype(situ__arg_tensor(c, 1), SITU_I64), &o);
}

/* ---- features ---- */

static situ_tensor *run_scaler(situ__op_call *c) {
  situ_tensor *x = situ_to_dtype(situ__arg_tensor(c, 0), SITU_F32);
  situ_tensor *offset = situ__arg_tensor(c, 1), *scale = situ__arg_tensor(c, 2);
  if (offset) x = situ_sub(x, offset);
  return scale ? situ_mul(x, scale) : x;
}

#define BATCH_NORM "t X, t scale, t B, t input_mean, t input_var, n epsilon=1e-05, n momentum=0.9"

static const situ__op_row rows[] = {
  { "BatchNormalization", BATCH_NORM ", i spatial=1, i? is_test", .inputs = 5, .run = run_batch_norm },
  { "BatchNormalization", BATCH_NORM ", i spatial=1", .inputs = 5, .since = 7, .run = run_batch_norm },
  { "BatchNormalization", BATCH_NORM ", i training_mode=0", .inputs = 5, .results = 3, .since = 9,
    .run = run_batch_norm },
  { "LayerNormalization", "t X, t Scale, t? B, i axis=-1, n epsilon=1e-05, i? stash_type", .inputs = 3, .results = 3,
    .run = run_layer_norm },
  { "RMSNormalization", "t X, t scale, i axis=-1, n epsilon=1e-05, i? stash_type", .inputs = 2, .run = run_rms_norm },
  { "InstanceNormalization", "t input, t scale, t B, n epsilon=1e-05", .inputs = 3, .run = run_instance_norm },
  { "GroupNormalization", "t X, t scale, t bias, n epsilon=1e-05, i num_groups", .inputs = 3,
    .run = run_group_norm_18 },
  { "GroupNormalization", "t X, t scale, t bias, n epsilon=1e-05, i num_groups, i? stash_type", .inputs = 3,
    .since = 21, .run = run_group_norm },
  { "LRN", "t X, i size, n alpha=0.0001, n beta=0.75, n bias=1", .inputs = 1, .lacks = lrn_lacks, .run = run_lrn },
  { "MeanVarianceNormalization", "t X, I? axes", .inputs = 1, .run = run_mean_variance_norm },
  { "LpNormalization", "t input, i p=2, i axis=-1", .inputs = 1, .run = run_lp_norm },
  { "Dropout", "t data, n ratio=0.5, i is_test=0", .inputs = 1, .results = 2, .lacks = dropout_6_lacks,
    .run = run_dropout_7 },
  { "Dropout", "t data, n ratio=0.5", .inputs = 1, .results = 2, .since = 7, .run = run_dropout_7 },
  { "Dropout", "t data, n ratio=0.5", .inputs = 1, .results = 2, .since = 10, .run = run_dropout_7 },
  { "Dropout", "t data, h? ratio, h? training_mode, i? seed", .inputs = 3, .results = 2, .since = 12,
    .run = run_dropout },
  { "NegativeLogLikelihoodLoss", "t input, t target, t? weight, i? ignore_index, s? reduction(none|mean|sum)",
    .inputs = 3, .run = run_nll_loss },
  { "SoftmaxCrossEntropyLoss", "t scores, t labels, t? weights, i? ignore_index, s? reduction(none|mean|sum)",
    .inputs = 3, .results = 2, .run = run_cross_entropy },
  { "ai.onnx.ml.Scaler", "t X, t? offset, t? scale", .inputs = 1, .run = run_scaler },
};
const situ__op_family situ__onnx_norm_family = { rows, sizeof rows / sizeof *rows };
