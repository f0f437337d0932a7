/* Golden values: layers, loaded with torch's state_dict by name.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "support/gold_layer.h"

static situ_reduction reduction(const gold_call *c) {
  const char *word = gold_word(c, "reduction", "mean");
  return strcmp(word, "mean") == 0  ? SITU_REDUCTION_MEAN
         : strcmp(word, "sum") == 0 ? SITU_REDUCTION_SUM
                                    : SITU_REDUCTION_NONE;
}

static situ_tensor *called(gold_call *c, situ_nn_module *m) {
  situ_tensor *query = gold_in(c, "query"), *src = gold_in(c, "src"), *target = gold_in(c, "target");
  bool weights = c->c->outputs > 1 && strcmp(c->c->output[1].name, "weights") == 0;
  situ_nn_attend_options options = {
    .key_padding_mask = gold_in(c, "key_padding_mask"),
    .attn_mask = gold_in(c, src ? "src_mask" : "attn_mask"),
    .weights = weights ? &c->out[1] : NULL,
  };
  return query    ? situ_nn_attend(m, query, gold_in(c, "key"), gold_in(c, "value"), &options)
         : src    ? situ_nn_encode(m, src, &options)
         : target ? situ_nn_forward2(m, gold_in(c, "input"), target)
                  : situ_nn_forward(m, gold_in(c, "input"));
}

/* Loads the layer, calls it, and shows its buffers as outputs. */
static void layer(gold_call *c, situ_nn_module *m) {
  c->payload = m;
  if (!m || !gold_load_state(c, m)) { return; }
  situ_nn_train(m, gold_bool(c, "training", true));
  c->out[0] = called(c, m);
  for (int i = 1; i < c->c->outputs; i++) {
    if (gold_is_state(c->c->output[i].name)) { c->out[i] = situ_nn_get_tensor(m, c->c->output[i].name + 6); }
  }
}

static void done(gold_call *c) { situ_nn_free(c->payload); }

static situ_nn_linear_options affine(const gold_call *c) {
  return (situ_nn_linear_options){ .no_bias = !gold_bool(c, "bias", true) };
}

static void linear(gold_call *c) {
  situ_nn_linear_options options = affine(c);
  layer(c, situ_nn_linear(gold_int(c, "in_features", 0), gold_int(c, "out_features", 0), &options));
}

static void lazy_linear(gold_call *c) {
  situ_nn_linear_options options = affine(c);
  situ_nn_module *m = situ_nn_lazy_linear(gold_int(c, "out_features", 0), &options);
  situ_nn_forward(m, gold_in(c, "input")); /* it learns its width */
  layer(c, m);
}

static void embedding(gold_call *c) {
  situ_nn_embedding_options options = OPTIONS_OF(situ_nn_embedding, with.has_padding_idx = gold_has(c, "padding_idx"),
                                                 with.padding_idx = gold_int(c, "padding_idx", 0));
  layer(c, situ_nn_embedding(gold_int(c, "num_embeddings", 0), gold_int(c, "embedding_dim", 0), &options));
}

static situ_nn_conv_options conv(const gold_call *c) {
  return (situ_nn_conv_options){
    .stride = gold_list(c, "stride"),
    .padding = gold_list(c, "padding"),
    .dilation = gold_list(c, "dilation"),
    .output_padding = gold_list(c, "output_padding"),
    .groups = gold_int(c, "groups", 0),
    .no_bias = !gold_bool(c, "bias", true),
  };
}

static void conv1d(gold_call *c) {
  situ_nn_conv_options options = conv(c);
  layer(c, situ_nn_conv1d(gold_int(c, "in_channels", 0), gold_int(c, "out_channels", 0), gold_int(c, "kernel_size", 0),
                          &options));
}

static void conv_2d(gold_call *c, situ_nn_module *(*make)(int64_t, int64_t, situ_shape, const situ_nn_conv_options *)) {
  situ_nn_conv_options options = conv(c);
  layer(c, make(gold_int(c, "in_channels", 0), gold_int(c, "out_channels", 0), gold_list(c, "kernel_size"), &options));
}
static void conv2d(gold_call *c) { conv_2d(c, situ_nn_conv2d); }
static void conv_transpose2d(gold_call *c) { conv_2d(c, situ_nn_conv_transpose2d); }

static void pool(gold_call *c, situ_nn_module *(*make)(situ_shape, const situ_pool_options *)) {
  situ_pool_options options = {
    .stride = gold_list(c, "stride"),
    .padding = gold_list(c, "padding"),
    .ceil_mode = gold_bool(c, "ceil_mode", false),
    .exclude_pad = !gold_bool(c, "count_include_pad", true),
  };
  layer(c, make(gold_list(c, "kernel_size"), &options));
}
static void max_pool2d(gold_call *c) { pool(c, situ_nn_max_pool2d); }
static void avg_pool2d(gold_call *c) { pool(c, situ_nn_avg_pool2d); }
static void adaptive_avg_pool2d(gold_call *c) { layer(c, situ_nn_adaptive_avg_pool2d(gold_sizes(c))); }
static void flatten(gold_call *c) {
  layer(c, situ_nn_flatten((int)gold_int(c, "start_dim", 1), (int)gold_int(c, "end_dim", -1)));
}

static void batch_norm(gold_call *c, situ_nn_module *(*make)(int64_t, const situ_nn_batch_norm_options *)) {
  situ_nn_batch_norm_options options = OPTIONS_OF(
      situ_nn_batch_norm, with.eps = gold_real(c, "eps", 1e-5), with.momentum = gold_real(c, "momentum", 0.1),
      with.cumulative = gold_bool(c, "cumulative", false), with.no_affine = !gold_bool(c, "affine", true),
      with.no_track_running_stats = !gold_bool(c, "track_running_stats", true));
  layer(c, make(gold_int(c, "num_features", 0), &options));
}
static void batch_norm1d(gold_call *c) { batch_norm(c, situ_nn_batch_norm1d); }
static void batch_norm2d(gold_call *c) { batch_norm(c, situ_nn_batch_norm2d); }

static situ_nn_norm_options norm(const gold_call *c) {
  bool on = gold_bool(c, "elementwise_affine", true) && gold_bool(c, "affine", true);
  return OPTIONS_OF(situ_nn_norm, with.eps = gold_real(c, "eps", SITU_NONE), with.no_affine = !on);
}
static void layer_norm(gold_call *c) {
  situ_nn_norm_options options = norm(c);
  layer(c, situ_nn_layer_norm(gold_list(c, "normalized_shape"), &options));
}
static void rms_norm(gold_call *c) {
  situ_nn_norm_options options = norm(c);
  layer(c, situ_nn_rms_norm(gold_list(c, "normalized_shape"), &options));
}
static void group_norm(gold_call *c) {
  situ_nn_norm_options options = norm(c);
  layer(c, situ_nn_group_norm(gold_int(c, "num_groups", 0), gold_int(c, "num_channels", 0), &options));
}

static void identity(gold_call *c) { layer(c, situ_nn_identity()); }
static void dropout(gold_call *c) { layer(c, situ_nn_dropout(gold_real(c, "p", 0.5))); }
static void relu(gold_call *c) { layer(c, situ_nn_relu()); }
static void silu(gold_call *c) { layer(c, situ_nn_silu()); }
static void sigmoid(gold_call *c) { layer(c, situ_nn_sigmoid()); }
static void tanh_(gold_call *c) { layer(c, situ_nn_tanh()); }
static void gelu(gold_call *c) {
  bool tanh = strcmp(gold_word(c, "approximate", "none"), "tanh") == 0;
  layer(c, situ_nn_gelu(tanh ? SITU_GELU_TANH : SITU_GELU_NONE));
}
static void leaky_relu(gold_call *c) { layer(c, situ_nn_leaky_relu(gold_real(c, "negative_slope", 0.01))); }
static void elu(gold_call *c) { layer(c, situ_nn_elu(gold_real(c, "alpha", 1))); }
static void softplus(gold_call *c) {
  layer(c, situ_nn_softplus(gold_real(c, "beta", 1), gold_real(c, "threshold", 20)));
}
static void hardtanh(gold_call *c) {
  layer(c, situ_nn_hardtanh(gold_real(c, "min_val", -1), gold_real(c, "max_val", 1)));
}
static void softmax(gold_call *c) { layer(c, situ_nn_softmax((int)gold_int(c, "dim", 0))); }
static void log_softmax(gold_call *c) { layer(c, situ_nn_log_softmax((int)gold_int(c, "dim", 0))); }

static void multihead_attention(gold_call *c) {
  situ_nn_multihead_attention_options options = { .no_bias = !gold_bool(c, "bias", true),
                                                  .batch_first = gold_bool(c, "batch_first", false) };
  layer(c, situ_nn_multihead_attention(gold_int(c, "embed_dim", 0), gold_int(c, "num_heads", 0), &options));
}

static void transformer_encoder_layer(gold_call *c) {
  double dropout = gold_real(c, "dropout", 0.1);
  situ_nn_transformer_options options = OPTIONS_OF(
      situ_nn_transformer, with.dim_feedforward = gold_int(c, "dim_feedforward", 2048), with.dropout = dropout,
      with.gelu = strcmp(gold_word(c, "activation", "relu"), "gelu") == 0,
      with.layer_norm_eps = gold_real(c, "layer_norm_eps", 1e-5), with.batch_first = gold_bool(c, "batch_first", false),
      with.norm_first = gold_bool(c, "norm_first", false));
  layer(c, situ_nn_transformer_encoder_layer(gold_int(c, "d_model", 0), gold_int(c, "nhead", 0), &options));
}

static void mse_loss(gold_call *c) { layer(c, situ_nn_mse_loss(reduction(c))); }
static void l1_loss(gold_call *c) { layer(c, situ_nn_l1_loss(reduction(c))); }
static void smooth_l1_loss(gold_call *c) { layer(c, situ_nn_smooth_l1_loss(gold_real(c, "beta", 1), reduction(c))); }
static void bce_with_logits_loss(gold_call *c) { layer(c, situ_nn_bce_with_logits_loss(NULL, NULL, reduction(c))); }
static void kl_div_loss(gold_call *c) {
  bool batch = strcmp(gold_word(c, "reduction", "mean"), "batchmean") == 0;
  layer(c, situ_nn_kl_div_loss(batch ? SITU_KL_BATCHMEAN : (situ_kl_reduction)reduction(c),
                               gold_bool(c, "log_target", false)));
}

static situ_cross_entropy_options classes(const gold_call *c) {
  return (situ_cross_entropy_options){
    .has_ignore_index = gold_has(c, "ignore_index"),
    .ignore_index = gold_int(c, "ignore_index", 0),
    .reduction = reduction(c),
    .label_smoothing = gold_real(c, "label_smoothing", 0),
  };
}
static void nll_loss(gold_call *c) {
  situ_cross_entropy_options options = classes(c);
  layer(c, situ_nn_nll_loss(&options));
}
static void cross_entropy_loss(gold_call *c) {
  situ_cross_entropy_options options = classes(c);
  layer(c, situ_nn_cross_entropy_loss(&options));
}

#define LAYER(torch, adapter) \
  { .name = "nn." torch, .run = adapter, .done = done, .writes = true }
static const gold_op ops[] = {
  LAYER("linear", linear),
  LAYER("lazylinear", lazy_linear),
  LAYER("embedding", embedding),
  LAYER("conv1d", conv1d),
  LAYER("conv2d", conv2d),
  LAYER("convtranspose2d", conv_transpose2d),
  LAYER("maxpool2d", max_pool2d),
  LAYER("avgpool2d", avg_pool2d),
  LAYER("adaptiveavgpool2d", adaptive_avg_pool2d),
  LAYER("flatten", flatten),
  LAYER("batchnorm1d", batch_norm1d),
  LAYER("batchnorm2d", batch_norm2d),
  LAYER("layernorm", layer_norm),
  LAYER("rmsnorm", rms_norm),
  LAYER("groupnorm", group_norm),
  LAYER("identity", identity),
  LAYER("dropout", dropout),
  LAYER("relu", relu),
  LAYER("silu", silu),
  LAYER("sigmoid", sigmoid),
  LAYER("tanh", tanh_),
  LAYER("gelu", gelu),
  LAYER("leakyrelu", leaky_relu),
  LAYER("elu", elu),
  LAYER("softplus", softplus),
  LAYER("hardtanh", hardtanh),
  LAYER("softmax", softmax),
  LAYER("logsoftmax", log_softmax),
  LAYER("multiheadattention", multihead_attention),
  LAYER("transformerencoderlayer", transformer_encoder_layer),
  LAYER("mseloss", mse_loss),
  LAYER("l1loss", l1_loss),
  LAYER("smoothl1loss", smooth_l1_loss),
  LAYER("bcewithlogitsloss", bce_with_logits_loss),
  LAYER("kldivloss", kl_div_loss),
  LAYER("nllloss", nll_loss),
  LAYER("crossentropyloss", cross_entropy_loss),
  { 0 },
};

int main(void) {
  /* so that the layers' parameters are made there */
  return situ_set_default_device(gold_device()) == SITU_OK ? gold_main("layers", ops, NULL) : 1;
}
