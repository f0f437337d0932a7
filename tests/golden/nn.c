/* Golden values: convolutions, pools, norms, softmax, dropout, attention.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static void convolved(gold_call *c,
                      situ_tensor *(*f)(situ_tensor *, situ_tensor *, situ_tensor *, const situ_conv_options *)) {
  situ_conv_options options = {
    .stride = gold_list(c, "stride"),
    .padding = gold_list(c, "padding"),
    .dilation = gold_list(c, "dilation"),
    .output_padding = gold_list(c, "output_padding"),
    .groups = gold_int(c, "groups", 0),
  };
  c->out[0] = f(gold_in(c, "input"), gold_in(c, "weight"), gold_in(c, "bias"), &options);
}
static void conv1d(gold_call *c) { convolved(c, situ_conv1d); }
static void conv2d(gold_call *c) { convolved(c, situ_conv2d); }
static void conv_transpose2d(gold_call *c) { convolved(c, situ_conv_transpose2d); }

static situ_pool_options pool(const gold_call *c) {
  return (situ_pool_options){
    .kernel = gold_list(c, "kernel_size"),
    .stride = gold_list(c, "stride"),
    .padding = gold_list(c, "padding"),
    .dilation = gold_list(c, "dilation"),
    .ceil_mode = gold_bool(c, "ceil_mode", false),
    .exclude_pad = !gold_bool(c, "count_include_pad", true),
    .divisor_override = gold_int(c, "divisor_override", 0),
  };
}

static void max_pool2d(gold_call *c) {
  situ_pool_options options = pool(c);
  c->out[0] = situ_max_pool2d(c->in[0], &options, gold_bool(c, "return_indices", false) ? &c->out[1] : NULL);
}

static void avg_pool2d(gold_call *c) {
  situ_pool_options options = pool(c);
  c->out[0] = situ_avg_pool2d(c->in[0], &options);
}

static void adaptive_avg_pool2d(gold_call *c) { c->out[0] = situ_adaptive_avg_pool2d(c->in[0], gold_sizes(c)); }

static void batch_norm(gold_call *c) {
  situ_tensor *mean = gold_in(c, "running_mean"), *var = gold_in(c, "running_var");
  const situ_batch_norm_options options =
      OPTIONS_OF(situ_batch_norm, with.training = gold_bool(c, "training", false),
                 with.momentum = gold_real(c, "momentum", 0.1), with.eps = gold_real(c, "eps", 1e-5));
  c->out[0] = situ_batch_norm(c->in[0], mean, var, gold_in(c, "weight"), gold_in(c, "bias"), &options);
  c->out[1] = mean;
  c->out[2] = var;
}

static void layer_norm(gold_call *c) {
  c->out[0] = situ_layer_norm(c->in[0], gold_list(c, "normalized_shape"), gold_in(c, "weight"), gold_in(c, "bias"),
                              gold_real(c, "eps", 1e-5));
}

static void rms_norm(gold_call *c) {
  c->out[0] =
      situ_rms_norm(c->in[0], gold_list(c, "normalized_shape"), gold_in(c, "weight"), gold_real(c, "eps", SITU_NONE));
}

static void group_norm(gold_call *c) {
  c->out[0] = situ_group_norm(c->in[0], gold_int(c, "num_groups", 0), gold_in(c, "weight"), gold_in(c, "bias"),
                              gold_real(c, "eps", 1e-5));
}

static void softmax(gold_call *c) { c->out[0] = situ_softmax(c->in[0], (int)gold_int(c, "dim", 0)); }
static void log_softmax(gold_call *c) { c->out[0] = situ_log_softmax(c->in[0], (int)gold_int(c, "dim", 0)); }

static void dropout(gold_call *c) {
  c->out[0] = situ_dropout(c->in[0], gold_real(c, "p", 0.5), gold_bool(c, "training", true), NULL);
}

static void attention(gold_call *c) {
  situ_attention_options options =
      OPTIONS_OF(situ_attention, with.attn_mask = gold_in(c, "attn_mask"),
                 with.is_causal = gold_bool(c, "is_causal", false), with.scale = gold_real(c, "scale", SITU_NONE));
  c->out[0] = situ_scaled_dot_product_attention(gold_in(c, "query"), gold_in(c, "key"), gold_in(c, "value"), &options);
}

static const gold_op ops[] = {
  { "conv1d", .run = conv1d },
  { "conv2d", .run = conv2d },
  { "conv_transpose2d", .run = conv_transpose2d },
  { "max_pool2d", .run = max_pool2d },
  { "avg_pool2d", .run = avg_pool2d },
  { "adaptive_avg_pool2d", .run = adaptive_avg_pool2d },
  { "batch_norm", .run = batch_norm, .writes = true, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "layer_norm", .run = layer_norm, .steps = 2, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "rms_norm", .run = rms_norm, .steps = 2, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "group_norm", .run = group_norm, .steps = 2, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "softmax", .run = softmax },
  { "log_softmax", .run = log_softmax },
  { "dropout", .run = dropout },
  { "scaled_dot_product_attention", .run = attention, .steps = 4, .grad_steps = 32, .why = GOLD_ROUNDS },
  { 0 },
};

int main(void) { return gold_main("nn", ops, NULL); }
