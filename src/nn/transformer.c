/* TransformerEncoderLayer.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "nn/nn.h"

typedef struct encoder_layer {
  situ_nn_module base;
  situ_nn_module *self_attn, *linear1, *dropout, *linear2, *norm1, *norm2, *dropout1, *dropout2;
  bool norm_first, gelu;
} encoder_layer;

static situ_tensor *attention_block(encoder_layer *m, situ_tensor *x, const situ_nn_attend_options *masks) {
  return situ_nn_forward(m->dropout1, situ_nn_attend(m->self_attn, x, x, x, masks));
}

static situ_tensor *feed_forward_block(encoder_layer *m, situ_tensor *x) {
  x = situ_nn_forward(m->linear1, x);
  x = situ_nn_forward(m->dropout, m->gelu ? situ_gelu(x, SITU_GELU_NONE) : situ_relu(x));
  return situ_nn_forward(m->dropout2, situ_nn_forward(m->linear2, x));
}

static situ_tensor *optional(const situ_tree *dict, const char *key) {
  const situ_tree *item = situ_tree_find(dict, key);
  return item ? situ_tree_value(item) : NULL;
}

static situ_tree *encoder_layer_call(situ_nn_module *self, const situ_tree *inputs) {
  encoder_layer *m = (encoder_layer *)self;
  bool dict = situ_tree_kind_of(inputs) == SITU_TREE_DICT;
  situ_tensor *x = dict ? situ_tree_get(inputs, "src") : situ_tree_value(inputs);
  situ_nn_attend_options masks = { .attn_mask = optional(inputs, "src_mask"),
                                   .is_causal = situ_tree_find(inputs, "is_causal"),
                                   .key_padding_mask = optional(inputs, "src_key_padding_mask") };
  if (!x) return NULL;
  if (m->norm_first) {
    x = situ_add(x, attention_block(m, situ_nn_forward(m->norm1, x), &masks));
    x = situ_add(x, feed_forward_block(m, situ_nn_forward(m->norm2, x)));
  } else {
    x = situ_nn_forward(m->norm1, situ_add(x, attention_block(m, x, &masks)));
    x = situ_nn_forward(m->norm2, situ_add(x, feed_forward_block(m, x)));
  }
  return situ_tree_tensor(x);
}

situ_tensor *situ_nn_encode(situ_nn_module *layer, situ_tensor *src, const situ_nn_attend_options *masks) {
  if (!situ__nn_given("nn_encode", "layer", layer) || !situ__valid("nn_encode", "src", src, SITU__A_TENSOR))
    return NULL;
  if (!masks) return situ_nn_forward(layer, src);
  situ_tree *in = situ_tree_put(situ_tree_dict(), "src", situ_tree_tensor(src));
  if (masks->attn_mask) in = situ_tree_put(in, "src_mask", situ_tree_tensor(masks->attn_mask));
  if (masks->key_padding_mask)
    in = situ_tree_put(in, "src_key_padding_mask", situ_tree_tensor(masks->key_padding_mask));
  if (masks->is_causal) in = situ_tree_put(in, "is_causal", situ_tree_none());
  situ_tree *out = in ? situ_nn_call(layer, in) : NULL;
  situ_tensor *y = out ? situ_tree_value(out) : NULL;
  situ_tree_free(out);
  situ_tree_free(in);
  return y;
}

static const situ_nn_type encoder_layer_type = { .name = "TransformerEncoderLayer",
                                                 .size = sizeof(encoder_layer),
                                                 .call = encoder_layer_call };

situ_nn_module *situ_nn_transformer_encoder_layer(int64_t d_model, int64_t nhead,
                                                  const situ_nn_transformer_options *options) {
  static const situ_nn_transformer_options torch;
  if (!options) options = &torch;
  double p = options->no_dropout ? 0 : options->dropout == 0 ? 0.1 : options->dropout;
  int64_t inner = options->dim_feedforward ? options->dim_feedforward : 2048;
  situ_nn_multihead_attention_options attention = { .dropout = p,
                                                    .no_bias = options->no_bias,
                                                    .batch_first = options->batch_first,
                                                    .dtype = options->dtype,
                                                    .device = options->device };
  situ_nn_linear_options linear = { .no_bias = options->no_bias, .dtype = options->dtype, .device = options->device };
  situ_nn_norm_options norm = {
    .eps = options->layer_norm_eps, .no_bias = options->no_bias, .dtype = options->dtype, .device = options->device
  };
  encoder_layer *m = situ_nn_alloc(&encoder_layer_type);
  if (!m) return NULL;
  m->norm_first = options->norm_first;
  m->gelu = options->gelu;
  situ_nn_child(m, self_attn, situ_nn_multihead_attention(d_model, nhead, &attention));
  situ_nn_child(m, linear1, situ_nn_linear(d_model, inner, &linear));
  situ_nn_child(m, dropout, situ_nn_dropout(p));
  situ_nn_child(m, linear2, situ_nn_linear(inner, d_model, &linear));
  situ_nn_child(m, norm1, situ_nn_layer_norm(SITU_SHAPE(d_model), &norm));
  situ_nn_child(m, norm2, situ_nn_layer_norm(SITU_SHAPE(d_model), &norm));
  situ_nn_child(m, dropout1, situ_nn_dropout(p));
  situ_nn_child(m, dropout2, situ_nn_dropout(p));
  return situ_nn_done(m);
}
