/* Norms of images that are made of other ops: instance_norm, local_response_norm. And channel_shuffle.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/options.h"
#include "base/size.h"
#include "ops/ops.h"

/* ---- instance_norm: a batch norm whose channels are those of every instance ---- */

/* v [C] once for each instance, [N C]; NULL stays NULL. */
static bool each(situ_tensor *v, int64_t batch, situ_tensor **out) {
  *out = v ? situ_repeat(v, SITU_SHAPE(batch)) : NULL;
  return *out || !v;
}

/* The running values become the means of what the instances made of them: both, or none. */
static bool update(situ_tensor *const running[2], situ_tensor *const of_each[2], int64_t batch) {
  situ_tensor *mean[2];
  for (int k = 0; running[0] && k < 2; k++) {
    situ_tensor *all = situ_reshape(of_each[k], SITU_SHAPE(batch, situ_numel(running[k])));
    if (!(mean[k] = situ_mean(all, &(situ_reduce_options){ .dim = SITU_DIMS(0) }))) return false;
  }
  return !running[0] || (situ_copy_(running[0], mean[0]) && situ_copy_(running[1], mean[1]));
}

/* Returns false after recording an error if statistics that are to be updated show one element several times. */
static bool can_update(const char *op, situ_tensor *const running[2]) {
  for (int k = 0; k < 2; k++) {
    if (!running[k] || !situ__desc_overlaps(&running[k]->view)) continue;
    return situ__fail(SITU_E_ALIAS, op,
                      "running_%s is updated in place, but its elements share memory (expanded?); clone it first",
                      k ? "var" : "mean"),
           false;
  }
  return true;
}

situ_tensor *situ_instance_norm(situ_tensor *input, situ_tensor *running_mean, situ_tensor *running_var,
                                situ_tensor *weight, situ_tensor *bias, const situ_instance_norm_options *options) {
  SITU__MADE_OF_OPS("instance_norm");
  const char *op = "instance_norm";
  enum { VECTOR = SITU_FLOATING | SITU_OPTIONAL };
  const unsigned same = situ__setting.autocast ? 0 : SITU_SAME; /* autocast casts the operands of the batch norm */
  const situ_op schema = { .name = "instance_norm",
                           .operand = { { "input", SITU_FLOATING | same },
                                        { "running_mean", VECTOR },
                                        { "running_var", VECTOR },
                                        { "weight", VECTOR | same },
                                        { "bias", VECTOR | same } } };
  situ_instance_norm_options o = situ_instance_norm_defaults();
  if (!situ__options_read(op, "situ_instance_norm_defaults", options, &o, sizeof o)) return NULL;
  situ_tensor *vector[4] = { running_mean, running_var, weight, bias };
  if (!situ__together(&schema, (situ_tensor *[]){ input, running_mean, running_var, weight, bias }, 5)) return NULL;
  const situ_shape shape = situ__shape(&input->view);
  int64_t inner = 1;
  for (int d = 2; d < shape.ndim; d++) inner *= shape.dim[d];
  bool good = shape.ndim >= 3 && (o.no_input_stats || inner > 1);
  for (int k = 0; good && k < 4; k++)
    good = !vector[k] || (vector[k]->view.ndim == 1 && vector[k]->view.size[0] == shape.dim[1]);
  if (!good || (o.no_input_stats && !(running_mean && running_var)) || !running_mean != !running_var) {
    char text[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, op,
                      "input is %s, must be [N, C, ...] with more than one element of each channel, and the other "
                      "operands [C] (both of the running ones, or none; without input statistics they are needed)",
                      situ_shape_text(&shape, text)),
           NULL;
  }
  const int64_t batch = shape.dim[0];
  situ_tensor *const running[2] = { running_mean, running_var };
  if (!o.no_input_stats && !can_update(op, running)) return NULL;
  if (!input->view.numel) return situ_clone(input);
  for (int k = 0; k < 4; k++)
    if (!each(vector[k], batch, &vector[k])) return NULL;
  situ_batch_norm_options each_instance = situ_batch_norm_defaults();
  each_instance.training = !o.no_input_stats;
  each_instance.momentum = o.momentum;
  each_instance.eps = o.eps;
  situ_tensor *y = situ_batch_norm(situ_reshape(input, SITU_SHAPE(1, batch * shape.dim[1], inner)), vector[0],
                                   vector[1], vector[2], vector[3], &each_instance);
  if (y && !o.no_input_stats && !update(running, vector, batch)) return NULL;
  return situ_reshape(y, shape);
}

/* ---- local_response_norm ---- */

situ_tensor *situ_local_response_norm(situ_tensor *input, int64_t size, double alpha, double beta, double k) {
  SITU__MADE_OF_OPS("local_response_norm");
  static const situ_op schema = { .name = "local_response_norm",
                                  .operand = { { "input", SITU_FLOATING } },
                                  .autocast = { SITU_CAST_F32, SITU_CAST_F32 } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  /* Of [N, C, L] torch makes an average pooling in two dimensions, which the cpu does not cast. */
  const bool stays = input->view.ndim == 3 && input->view.storage->device.kind == SITU_CPU;
  if (!stays && !situ__autocast(&schema, &input, 1)) return NULL;
  const situ_shape shape = situ__shape(&input->view);
  if (shape.ndim < 3 || size < 1 || size > INT32_MAX)
    return situ__fail(shape.ndim < 3 ? SITU_E_SHAPE : SITU_E_ARG, "local_response_norm",
                      "input has %d dimensions, must be [N, C, ...] with 3 or more; size is %lld, must be positive",
                      shape.ndim, (long long)size),
           NULL;
  if (!input->view.numel) return situ_clone(input);
  int64_t inner = 1;
  for (int d = 2; d < shape.ndim; d++) inner *= shape.dim[d];
  const bool low = situ_dtype_size(situ_dtype_of(input)) == 2; /* f32 inside for the 16-bit dtypes */
  situ_tensor *x = low ? situ_to_dtype(input, SITU_F32) : input;
  situ_tensor *squares = situ_reshape(situ_square(x), SITU_SHAPE(shape.dim[0], 1, shape.dim[1], inner));
  squares = situ_pad(squares, SITU_DIMS(0, 0, size / 2, (size - 1) / 2), SITU_PAD_CONSTANT, 0);
  situ_tensor *mean =
      situ_avg_pool2d(squares, &(situ_pool_options){ .kernel = SITU_DIMS(size, 1), .stride = SITU_DIMS(1) });
  mean = situ_add_scalar(situ_mul_scalar(situ_reshape(mean, shape), alpha), k);
  return situ_to_dtype(situ_div(x, situ_pow_scalar(mean, beta)), situ_dtype_of(input));
}

/* ---- channel_shuffle ---- */

situ_tensor *situ_channel_shuffle(situ_tensor *input, int64_t groups) {
  SITU__MADE_OF_OPS("channel_shuffle");
  if (!situ__need("channel_shuffle", "input", input)) return NULL;
  const situ_shape shape = situ__shape(&input->view);
  if (shape.ndim < 3 || groups < 1 || shape.dim[1] % groups)
    return situ__fail(SITU_E_ARG, "channel_shuffle",
                      "groups is %lld, input has %d dimensions: must divide the channels of "
                      "[N, C, ...]",
                      (long long)groups, shape.ndim),
           NULL;
  int64_t inner = 1;
  for (int d = 2; d < shape.ndim; d++) inner *= shape.dim[d];
  situ_tensor *x = situ_reshape(input, SITU_SHAPE(shape.dim[0], groups, shape.dim[1] / groups, inner));
  return situ_reshape(situ_clone(situ_contiguous(situ_transpose(x, 1, 2))), shape);
}
