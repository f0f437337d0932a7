/* ATen's gradients, which exported training steps call: what situ's backward makes of the op, computed once more.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "program/graph/bind.h"
#include "program/graph/rows.h"
#include "situ/autograd.h"
#include "situ/scope.h"

enum { ARGS_MOST = 16 };

/* A tensor that results are differentiated with respect to: with the history that it has, if that is wanted. */
static situ_tensor *leaf_of(situ_tensor *x, bool recorded) {
  if (recorded && situ_requires_grad(x)) return x;
  x = situ_detach(x);
  return x ? situ_requires_grad_(x, true) : NULL;
}

/* The gradients of a call of `target` with respect to x, its first argument, and with `count` 2 to its second, a
   tensor. Behind the first come `more`, and none; c's first argument is the gradient of its result. */
static bool differentiate(situ__op_call *c, const char *target, int count, situ_tensor *x, const situ__arg *more,
                          int given, situ_tensor **gradient) {
  situ__program_node node = *c->node;
  situ__arg arg[ARGS_MOST] = { 0 };
  memcpy(arg + 1, more, (size_t)given * sizeof *arg);
  node.row = situ__op_row_of(target), node.arg = arg, node.outs = 1;
  situ_tensor *grad = situ__arg_tensor(c, 0), *leaf[2] = { 0 };
  /* Where the call reads its second argument. */
  situ_tensor **slot = count > 1 ? &c->value[more->integer].tensor : NULL;
  situ_tensor *second = slot ? *slot : NULL;
  const bool wanted = situ_is_grad_enabled() &&
                      (situ_requires_grad(grad) || situ_requires_grad(x) || (second && situ_requires_grad(second)));
  situ_scope scope;
  situ_scope_begin_enable_grad(&scope);
  leaf[0] = leaf_of(x, wanted);
  if (second) leaf[1] = leaf_of(second, wanted);
  situ__op_call call = {
    .node = &node, .arg = arg, .value = c->value, .root = c->root, .dry = c->dry, .self = leaf[0], .memory = c->memory
  };
  situ_tensor *y = NULL;
  if (leaf[0] && (!slot || leaf[1])) {
    if (slot) *slot = leaf[1];
    y = situ__call_function(&call);
    if (slot) *slot = second;
  }
  const situ_backward_options o = { .gradient = grad, .create_graph = wanted };
  bool good = y && situ_autograd_grad(y, count, leaf, gradient, &o) == SITU_OK;
  for (int i = 0; i < count && good; i++) {
    if (!wanted) gradient[i] = situ_detach(gradient[i]);
    good = gradient[i] && situ_escape(&scope, gradient[i]);
  }
  return situ_scope_end(&scope) == SITU_OK && good;
}

/* Rows with `.gradient_of`: the argument after the gradient is the op's first, or its sizes. */
static situ_tensor *run_gradient(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 1), *gradient;
  if (!x) x = situ_new_zeros(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), NULL);
  const int more = situ__op_parameters(c->node->row) - 2;
  return x && differentiate(c, c->node->row->gradient_of, 1, x, c->arg + 2, more, &gradient) ? gradient : NULL;
}
/* Of what is linear in its input, whose sizes come after those of the result. */
situ_tensor *situ__run_resized_gradient(situ__op_call *c) {
  situ__arg more[ARGS_MOST];
  const int count = situ__op_parameters(c->node->row) - 2;
  memcpy(more, c->arg + 2, (size_t)count * sizeof *more);
  more[0] = c->arg[1];
  situ_tensor *x = situ_new_zeros(situ__arg_tensor(c, 0), situ__arg_dims(c, 2), NULL), *gradient;
  return x && differentiate(c, c->node->row->gradient_of, 1, x, more, count, &gradient) ? gradient : NULL;
}

/* Of an input and a second argument. */
static situ_tensor *run_gradients(situ__op_call *c) {
  situ_tensor *gradient[2], **second = situ__call_result(c, 1);
  const int more = situ__op_parameters(c->node->row) - 3;
  if (!differentiate(c, c->node->row->gradient_of, 2, situ__arg_tensor(c, 1), c->arg + 2, more, gradient)) return NULL;
  if (second) *second = gradient[1];
  return gradient[0];
}

/* Arguments: grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
   output_mask. */
static situ_tensor *run_convolution(situ__op_call *c) {
  situ_tensor *gradient[2], *grad = situ__arg_tensor(c, 0);
  if (!situ__arg_is_tensor(c, 2)) return situ__call_refuse(c, "has no weight");
  if (!differentiate(c, "convolution.default", 2, situ__arg_tensor(c, 1), c->arg + 2, 8, gradient)) return NULL;
  situ_reduce_options o = { .dim = SITU_DIMS(0) };
  for (int d = 2; d < situ_dim(grad); d++) o.dim.dim[o.dim.ndim++] = d;
  if (c->node->outs > 1) c->result[1] = gradient[1];
  situ_tensor **bias = situ__call_wanted(c, 2);
  if (bias) *bias = situ_sum(grad, &o);
  return gradient[0];
}

/* ---- of results ---- */

/* y (1 - y) */
static situ_tensor *run_sigmoid(situ__op_call *c) {
  situ_tensor *y = situ__arg_tensor(c, 1);
  return situ_mul(situ__arg_tensor(c, 0), situ_mul(y, situ_rsub_scalar(y, 1)));
}
/* 1 - y^2 */
static situ_tensor *run_tanh(situ__op_call *c) {
  return situ_mul(situ__arg_tensor(c, 0), situ_rsub_scalar(situ_square(situ__arg_tensor(c, 1)), 1));
}
static situ_tensor *run_softmax(situ__op_call *c) {
  const situ_reduce_options o = { .dim = SITU_DIMS(situ__arg_dim(c, 2)), .keepdim = true };
  situ_tensor *grad = situ__arg_tensor(c, 0), *y = situ__arg_tensor(c, 1), *total = situ_sum(situ_mul(grad, y), &o);
  return situ_mul(y, situ_sub(grad, total));
}
static situ_tensor *run_log_softmax(situ__op_call *c) {
  const situ_reduce_options o = { .dim = SITU_DIMS(situ__arg_dim(c, 2)), .keepdim = true };
  situ_tensor *grad = situ__arg_tensor(c, 0);
  return situ_sub(grad, situ_mul(situ_exp(situ__arg_tensor(c, 1)), situ_sum(grad, &o)));
}
/* Arguments: grad_output, alpha, scale, input_scale, is_result, self_or_result. */
static situ_tensor *run_elu(situ__op_call *c) {
  situ_tensor *grad = situ__arg_tensor(c, 0), *x = situ__arg_tensor(c, 5);
  const double alpha = situ__arg_number(c, 1), scale = situ__arg_number(c, 2), each = situ__arg_number(c, 3);
  situ_tensor *rise = situ__arg_flag(c, 4) ? situ_mul_scalar(situ_add_scalar(x, alpha * scale), each)
                                           : situ_mul_scalar(situ_exp(situ_mul_scalar(x, each)), alpha * scale * each);
  return situ_where(situ_gt_scalar(x, 0), situ_mul_scalar(grad, scale), situ_mul(grad, rise));
}
static situ_tensor *run_prelu(situ__op_call *c) {
  situ_tensor *grad = situ__arg_tensor(c, 0), *x = situ__arg_tensor(c, 1), *weight = situ__arg_tensor(c, 2);
  situ_tensor *above = situ_gt_scalar(x, 0), **second = situ__call_wanted(c, 1);
  if (second) *second = situ_masked_fill(situ_mul(grad, x), above, 0);
  return situ_where(above, grad, situ_mul(grad, weight));
}
static situ_tensor *run_dropout(situ__op_call *c) {
  return situ_mul_scalar(situ_mul(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1)), situ__arg_number(c, 2));
}

/* ---- of other arguments ---- */

/* Arguments: grad_output, indices, num_weights, padding_idx, scale_grad_by_freq. */
static situ_tensor *run_embedding(situ__op_call *c) {
  situ_tensor *grad = situ__arg_tensor(c, 0), *gradient;
  if (situ_dim(grad) < 1) return situ__call_refuse(c, "has a gradient without dimensions");
  situ_tensor *weight = situ_new_zeros(grad, SITU_SHAPE(situ__arg_int(c, 2), situ_size(grad, -1)), NULL);
  const situ__arg more[] = { c->arg[1], c->arg[3], c->arg[4] };
  return weight && differentiate(c, "embedding.default", 1, weight, more, 3, &gradient) ? gradient : NULL;
}
/* Arguments: grad, dim, indices, sizes, keepdim. */
static situ_tensor *run_selecting(situ__op_call *c) {
  situ_tensor *grad = situ__arg_tensor(c, 0), *indices = situ__arg_tensor(c, 2);
  const int dim = situ__arg_dim(c, 1);
  const situ_shape size = situ__arg_dims(c, 3);
  if (size.ndim == 0) return situ_reshape(grad, SITU_SCALAR);
  if (!situ__arg_flag(c, 4)) grad = situ_unsqueeze(grad, dim), indices = situ_unsqueeze(indices, dim);
  return situ_scatter(situ_new_zeros(grad, size, NULL), dim, indices, grad);
}

/* The sides of the result are those of its gradient. */
static situ_tensor *run_adaptive(situ__op_call *c) {
  situ_tensor *grad = situ__arg_tensor(c, 0), *x = situ__arg_tensor(c, 1), *gradient;
  const situ_shape size = situ_shape_of(grad);
  const int sides = strstr(c->node->row->gradient_of, "3d") ? 3 : 2;
  if (size.ndim < sides) return situ__call_refuse(c, "has a gradient of too few dimensions");
  situ__arg side[3] = { 0 };
  for (int d = 0; d < sides; d++)
    side[d] = (situ__arg){ .kind = SITU__ARG_INT, .integer = size.dim[size.ndim - sides + d] };
  const situ__arg list = { .kind = SITU__ARG_LIST, .count = sides, .list = side };
  return differentiate(c, c->node->row->gradient_of, 1, x, &list, 1, &gradient) ? gradient : NULL;
}

/* ---- attention ---- */

situ_tensor *situ__attention_scores(const situ__op_call *c, int query, int causal, double scale) {
  situ_tensor *q = situ__arg_tensor(c, query), *k = situ__arg_tensor(c, query + 1),
              *mask = situ__arg_tensor(c, causal + 1);
  situ_tensor *scores = situ_mul_scalar(situ_matmul(q, situ_transpose(k, -2, -1)), scale);
  if (situ__arg_flag(c, causal)) {
    const situ_options o = situ__call_options(c, SITU_BOOL);
    situ_tensor *seen = situ_tril(situ_ones(SITU_SHAPE(situ_size(q, -2), situ_size(k, -2)), &o), 0);
    scores = situ_masked_fill(scores, situ_logical_not(seen), -INFINITY);
  }
  if (mask && situ_dtype_of(mask) == SITU_BOOL) return situ_masked_fill(scores, situ_logical_not(mask), -INFINITY);
  return mask ? situ_add(scores, mask) : scores;
}
double situ__attention_scale(const situ__op_call *c, int query, int scale) {
  return situ__arg_given(c, scale) ? situ__arg_number(c, scale)
                                   : 1 / sqrt((double)situ_size(situ__arg_tensor(c, query), -1));
}

/* Arguments: grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale. With weights p, the
   gradient of the scores is p (grad value^T - sum(grad out)). */
static situ_tensor *run_attention(situ__op_call *c) {
  const situ_reduce_options last = { .dim = SITU_DIMS(-1), .keepdim = true };
  const double scale = situ__attention_scale(c, 1, 9);
  situ_tensor *grad = situ__arg_tensor(c, 0), *value = situ__arg_tensor(c, 3), *out = situ__arg_tensor(c, 4);
  situ_tensor *sums = situ_unsqueeze(situ__arg_tensor(c, 5), -1), *scores = situ__attention_scores(c, 1, 7, scale);
  situ_tensor *p = situ_to_dtype(situ_exp(situ_sub(scores, sums)), situ_dtype_of(grad));
  situ_tensor *of_p = situ_sub(situ_matmul(grad, situ_transpose(value, -2, -1)), situ_sum(situ_mul(grad, out), &last));
  situ_tensor *of_scores = situ_mul_scalar(situ_mul(p, of_p), scale);
  situ_tensor **of_key = situ__call_wanted(c, 1), **of_value = situ__call_wanted(c, 2);
  if (situ__arg_number(c, 6) > 0) return situ__call_refuse(c, "has dropout");
  if (of_key) *of_key = situ_matmul(situ_transpose(of_scores, -2, -1), situ__arg_tensor(c, 1));
  if (of_value) *of_value = situ_matmul(situ_transpose(p, -2, -1), grad);
  return situ_matmul(of_scores, situ__arg_tensor(c, 2));
}

/* ---- norms, whose statistics are given ---- */

/* A norm over x as [n, groups, channels, rest]: each group has one mean, over n too if `over_all`. */
typedef struct norm {
  situ_shape size;
  bool over_all;
  bool fixed; /* the statistics do not depend on x */
  situ_tensor *mean, *rstd, *weight;
} norm;

static situ_tensor *shaped(situ_tensor *t, situ_shape size) {
  return situ_reshape(situ_to_dtype(t, situ_dtype_of(t) == SITU_F64 ? SITU_F64 : SITU_F32), size);
}

/* The gradients of x, weight and bias (Ioffe and Szegedy 2015; Ba, Kiros and Hinton 2016): with x^ = (x - mean) rstd,
   g = grad * weight and means over what has one mean, rstd (g - mean(g) - x^ mean(g x^)). */
static situ_tensor *differentiate_norm(situ__op_call *c, const norm *n) {
  situ_tensor *x = situ__arg_tensor(c, 1);
  const situ_shape each = SITU_SHAPE(n->over_all ? 1 : n->size.dim[0], n->size.dim[1], 1, 1),
                   channels = SITU_SHAPE(1, n->size.dim[1], n->size.dim[2], 1);
  const situ_reduce_options own = { .dim = n->over_all ? SITU_DIMS(0, 2, 3) : SITU_DIMS(2, 3), .keepdim = true },
                            rest = { .dim = SITU_DIMS(0, 3) };
  situ_tensor *rstd = shaped(n->rstd, each), *mean = shaped(n->mean, each),
              *grad = shaped(situ__arg_tensor(c, 0), n->size);
  situ_tensor *normal = situ_mul(situ_sub(shaped(x, n->size), mean), rstd);
  situ_tensor *g = n->weight ? situ_mul(grad, shaped(n->weight, channels)) : grad, *dx = g;
  if (!n->fixed) dx = situ_sub(situ_sub(g, situ_mean(g, &own)), situ_mul(normal, situ_mean(situ_mul(g, normal), &own)));
  dx = situ_mul(dx, rstd);
  for (int k = 1; k < 3 && k < c->node->outs; k++) {
    situ_tensor *sum = situ_sum(k == 1 ? situ_mul(grad, normal) : grad, &rest);
    if (n->weight) sum = situ_to_dtype(situ_reshape(sum, situ_shape_of(n->weight)), situ_dtype_of(n->weight));
    c->result[k] = n->weight ? sum : situ_flatten(sum, 0, -1);
  }
  return situ_to_dtype(situ_reshape(dx, situ_shape_of(x)), situ_dtype_of(x));
}

/* Arguments: grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask. */
static situ_tensor *run_layer_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 1);
  const int first = situ_dim(x) - situ__arg_dims(c, 2).ndim;
  if (first < 0 || situ_numel(x) == 0) return situ__call_refuse(c, "has no elements to normalize");
  int64_t inner = 1;
  for (int d = first; d < situ_dim(x); d++) inner *= situ_size(x, d);
  const norm n = { .size = SITU_SHAPE(situ_numel(x) / inner, 1, inner, 1),
                   .mean = situ__arg_tensor(c, 3),
                   .rstd = situ__arg_tensor(c, 4),
                   .weight = situ__arg_tensor(c, 5) };
  return differentiate_norm(c, &n);
}
/* Arguments: grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask. */
static situ_tensor *run_group_norm(situ__op_call *c) {
  const int64_t groups = situ__arg_int(c, 8);
  if (groups < 1) return situ__call_refuse(c, "has no groups");
  const norm n = { .size = SITU_SHAPE(situ__arg_int(c, 5), groups, situ__arg_int(c, 6) / groups, situ__arg_int(c, 7)),
                   .mean = situ__arg_tensor(c, 2),
                   .rstd = situ__arg_tensor(c, 3),
                   .weight = situ__arg_tensor(c, 4) };
  return differentiate_norm(c, &n);
}
/* Arguments: grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask. */
static situ_tensor *run_batch_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 1);
  const bool train = situ__arg_flag(c, 7) && (situ__call_trains(c) || !situ__arg_given(c, 3)); /* as the norm did */
  if (situ_dim(x) < 2 || situ_numel(x) == 0) return situ__call_refuse(c, "has no elements to normalize");
  const int64_t batch = situ_size(x, 0), channels = situ_size(x, 1);
  norm n = { .size = SITU_SHAPE(batch, channels, 1, situ_numel(x) / (batch * channels)),
             .over_all = true,
             .fixed = !train,
             .mean = situ__arg_tensor(c, train ? 5 : 3),
             .rstd = situ__arg_tensor(c, train ? 6 : 4),
             .weight = situ__arg_tensor(c, 2) };
  if (!n.mean || !n.rstd) return situ__call_refuse(c, "has no statistics");
  if (!train) n.rstd = situ_rsqrt(situ_add_scalar(n.rstd, situ__arg_number(c, 8)));
  return differentiate_norm(c, &n);
}

#define OF_INPUT "t grad_output, t self"
#define OF_SIZES "t grad_output, I input_sizes"
#define GRADIENT(name, parameters, op) \
  { name "_backward.default", parameters, .run = run_gradient, .gradient_of = op }
#define ADAPTIVE(name, parameters) \
  { name "_backward.default", parameters, .run = run_adaptive, .gradient_of = name ".default" }
#define GRID "t grad_output, t input, t grid, i interpolation_mode, i padding_mode, b align_corners, _ output_mask"
#define MAX_POOL ", I kernel_size, I stride, I padding, I dilation, b ceil_mode, t indices"
#define AVG_POOL ", I kernel_size, I stride, I padding, b ceil_mode, b count_include_pad, i? divisor_override"

static const situ__op_row rows[] = {
  GRADIENT("silu", OF_INPUT, "silu.default"),
  GRADIENT("mish", OF_INPUT, "mish.default"),
  GRADIENT("hardswish", OF_INPUT, "hardswish.default"),
  GRADIENT("hardsigmoid", OF_INPUT, "hardsigmoid.default"),
  GRADIENT("gelu", OF_INPUT ", *s? approximate", "gelu.default"),
  GRADIENT("hardtanh", OF_INPUT ", n min_val, n max_val", "hardtanh.default"),
  GRADIENT("threshold", OF_INPUT ", n threshold", "threshold.default"),
  GRADIENT("softplus", OF_INPUT ", n beta, n threshold", "softplus.default"),
  GRADIENT("leaky_relu", OF_INPUT ", n negative_slope, b self_is_result", "leaky_relu.default"), /* the same sign */
  GRADIENT("log_sigmoid", OF_INPUT ", _ buffer", "log_sigmoid.default"),
  GRADIENT("glu", OF_INPUT ", i dim", "glu.default"),
  GRADIENT("max_pool2d_with_indices", OF_INPUT MAX_POOL, "max_pool2d.default"),
  GRADIENT("max_pool3d_with_indices", OF_INPUT MAX_POOL, "max_pool3d.default"),
  GRADIENT("avg_pool2d", OF_INPUT AVG_POOL, "avg_pool2d.default"),
  GRADIENT("avg_pool3d", OF_INPUT AVG_POOL, "avg_pool3d.default"),
  GRADIENT("reflection_pad1d", OF_INPUT ", I padding", "reflection_pad1d.default"),
  GRADIENT("reflection_pad2d", OF_INPUT ", I padding", "reflection_pad2d.default"),
  GRADIENT("reflection_pad3d", OF_INPUT ", I padding", "reflection_pad3d.default"),
  GRADIENT("replication_pad1d", OF_INPUT ", I padding", "replication_pad1d.default"),
  GRADIENT("replication_pad2d", OF_INPUT ", I padding", "replication_pad2d.default"),
  GRADIENT("replication_pad3d", OF_INPUT ", I padding", "replication_pad3d.default"),
  GRADIENT("_cdist", "t grad_output, t x1, t x2, n p, t cdist", "_cdist_forward.default"),
  GRADIENT("multi_margin_loss", OF_INPUT ", t target, n p, n margin, t? weight, i reduction=1",
           "multi_margin_loss.default"),
  GRADIENT("soft_margin_loss", OF_INPUT ", t target, i reduction", "soft_margin_loss.default"),
  GRADIENT("mse_loss", OF_INPUT ", t target, i reduction", "mse_loss.default"),
  GRADIENT("smooth_l1_loss", OF_INPUT ", t target, i reduction, n beta", "smooth_l1_loss.default"),
  GRADIENT("huber_loss", OF_INPUT ", t target, i reduction, n delta", "huber_loss.default"),
  GRADIENT("binary_cross_entropy", OF_INPUT ", t target, t? weight, i reduction=1", "binary_cross_entropy.default"),
  GRADIENT("nll_loss", OF_INPUT ", t target, t? weight, i reduction, i ignore_index, t total_weight",
           "nll_loss.default"),
  GRADIENT("nll_loss2d", OF_INPUT ", t target, t? weight, i reduction, i ignore_index, t total_weight",
           "nll_loss2d.default"),
  GRADIENT("slice", OF_SIZES ", i dim, i start, i end, i step", "slice.Tensor"),
  GRADIENT("select", OF_SIZES ", i dim, i index", "select.int"),
  GRADIENT("diagonal", OF_SIZES ", i offset, i dim1, i dim2", "diagonal.default"),
  GRADIENT("unfold", "t grad_in, I input_sizes, i dim, i size, i step", "unfold.default"),

  { "convolution_backward.default",
    "t grad_output, t input, t weight, I? bias_sizes, I stride, I padding, I dilation, b transposed, I output_padding, "
    "i groups, _ output_mask",
    .results = 3, .run = run_convolution },
  { "embedding_dense_backward.default", "t grad_output, t indices, i num_weights, i padding_idx, b scale_grad_by_freq",
    .run = run_embedding },
  { "value_selecting_reduction_backward.default", "t grad, i dim, t indices, I sizes, b keepdim",
    .run = run_selecting },
  ADAPTIVE("_adaptive_avg_pool2d", OF_INPUT),
  ADAPTIVE("_adaptive_avg_pool3d", OF_INPUT),
  ADAPTIVE("adaptive_max_pool2d", OF_INPUT ", t indices"),
  ADAPTIVE("adaptive_max_pool3d", OF_INPUT ", t indices"),
  { "grid_sampler_2d_backward.default", GRID, .results = 2, .run = run_gradients,
    .gradient_of = "grid_sampler_2d.default" },
  { "grid_sampler_3d_backward.default", GRID, .results = 2, .run = run_gradients,
    .gradient_of = "grid_sampler_3d.default" },
  { "sigmoid_backward.default", "t grad_output, t output", .run = run_sigmoid },
  { "tanh_backward.default", "t grad_output, t output", .run = run_tanh },
  { "_softmax_backward_data.default", "t grad_output, t output, i dim, _ input_dtype", .run = run_softmax },
  { "_log_softmax_backward_data.default", "t grad_output, t output, i dim, _ input_dtype", .run = run_log_softmax },
  { "elu_backward.default", "t grad_output, n alpha, n scale, n input_scale, b is_result, t self_or_result",
    .run = run_elu },
  { "_prelu_kernel_backward.default", "t grad_output, t self, t weight", .results = 2, .run = run_prelu },
  { "native_dropout_backward.default", "t grad_output, t mask, n scale", .run = run_dropout },
  { "_scaled_dot_product_flash_attention_for_cpu_backward.default",
    "t grad_out, t query, t key, t value, t out, t logsumexp, n dropout_p, b is_causal, *t? attn_mask, *n? scale",
    .results = 3, .run = run_attention },
  { "native_layer_norm_backward.default",
    "t grad_out, t input, I normalized_shape, t mean, t rstd, t? weight, t? bias, _ output_mask", .results = 3,
    .run = run_layer_norm },
  { "native_group_norm_backward.default",
    "t grad_out, t input, t mean, t rstd, t? weight, i N, i C, i HxW, i group, _ output_mask", .results = 3,
    .run = run_group_norm },
  { "native_batch_norm_backward.default",
    "t grad_out, t input, t? weight, t? running_mean, t? running_var, t? save_mean, t? save_invstd, b train, n eps, "
    "_ output_mask",
    .results = 3, .run = run_batch_norm },
};
const situ__op_family situ__backward_family = { rows, sizeof rows / sizeof *rows };
