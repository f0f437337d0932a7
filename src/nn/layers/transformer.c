/* TransformerEncoderLayer, TransformerDecoderLayer, and stacks of them: TransformerEncoder, TransformerDecoder.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "nn/nn.h"

/* Of an encoder's layer, or of a decoder's, which alone has multihead_attn, norm3 and dropout3. */
typedef struct block {
  situ_nn_module base;
  situ_nn_module *self_attn, *multihead_attn, *linear1, *dropout, *linear2, *norm1, *norm2, *norm3;
  situ_nn_module *dropout1, *dropout2, *dropout3;
  bool norm_first, gelu;
} block;

static situ_tensor *attention_block(const block *m, situ_tensor *x, const situ_nn_attend_options *masks) {
  return situ_nn_forward(m->dropout1, situ_nn_attend(m->self_attn, x, x, x, masks));
}

static situ_tensor *feed_forward_block(const block *m, situ_tensor *x) {
  x = situ_nn_forward(m->linear1, x);
  x = situ_nn_forward(m->dropout, m->gelu ? situ_gelu(x, SITU_GELU_NONE) : situ_relu(x));
  return situ_nn_forward(m->dropout3 ? m->dropout3 : m->dropout2, situ_nn_forward(m->linear2, x));
}

static situ_tensor *optional(const situ_tree *dict, const char *key) {
  const situ_tree *item = situ_tree_find(dict, key);
  return item ? situ_tree_value(item) : NULL;
}

/* Returns src; NULL after recording an error. */
static situ_tensor *read_encoding(const situ_tree *inputs, situ_nn_attend_options *masks) {
  *masks = (situ_nn_attend_options){ .attn_mask = optional(inputs, "src_mask"),
                                     .is_causal = situ_tree_find(inputs, "is_causal"),
                                     .key_padding_mask = optional(inputs, "src_key_padding_mask") };
  return situ_tree_kind_of(inputs) == SITU_TREE_DICT ? situ_tree_get(inputs, "src") : situ_tree_value(inputs);
}

static situ_tree *encoder_layer_call(situ_nn_module *self, const situ_tree *inputs) {
  const block *m = (const block *)self;
  situ_nn_attend_options masks;
  situ_tensor *x = read_encoding(inputs, &masks);
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

situ_tensor *situ_nn_encode(situ_nn_module *encoder, situ_tensor *src, const situ_nn_attend_options *masks) {
  const char *op = "nn_encode";
  if (!situ__nn_given(op, "encoder", encoder) || !situ__valid(op, "src", src, SITU__A_TENSOR)) return NULL;
  if (!masks) return situ_nn_forward(encoder, src);
  if (!situ__optional(op, "attn_mask", masks->attn_mask, SITU__A_TENSOR) ||
      !situ__optional(op, "key_padding_mask", masks->key_padding_mask, SITU__A_TENSOR))
    return NULL;
  situ_tree *in = situ_tree_put(situ_tree_dict(), "src", situ_tree_tensor(src));
  in = situ__nn_put_tensor(in, "src_mask", masks->attn_mask);
  in = situ__nn_put_tensor(in, "src_key_padding_mask", masks->key_padding_mask);
  in = situ__nn_put_flag(in, "is_causal", masks->is_causal);
  situ_tree *out = in ? situ_nn_call(encoder, in) : NULL;
  situ_tensor *y = out ? situ_tree_value(out) : NULL;
  situ_tree_free(out);
  situ_tree_free(in);
  return y;
}

static const situ_nn_type encoder_layer_type = { .name = "TransformerEncoderLayer",
                                                 .size = sizeof(block),
                                                 .call = encoder_layer_call };

/* ---- the decoder's layer ---- */

typedef struct decoding {
  situ_tensor *tgt, *memory;
  situ_nn_decode_options with;
} decoding;

static bool read_decoding(const situ_nn_module *self, const situ_tree *in, decoding *d) {
  if (situ_tree_kind_of(in) == SITU_TREE_DICT)
    *d = (decoding){ situ_tree_get(in, "tgt"),
                     situ_tree_get(in, "memory"),
                     { .tgt_mask = optional(in, "tgt_mask"),
                       .memory_mask = optional(in, "memory_mask"),
                       .tgt_key_padding_mask = optional(in, "tgt_key_padding_mask"),
                       .memory_key_padding_mask = optional(in, "memory_key_padding_mask"),
                       .tgt_is_causal = situ_tree_find(in, "tgt_is_causal"),
                       .memory_is_causal = situ_tree_find(in, "memory_is_causal") } };
  else if (situ_tree_kind_of(in) == SITU_TREE_LIST && situ_tree_count(in) == 2)
    *d = (decoding){ .tgt = situ_tree_tensor_at(in, 0), .memory = situ_tree_tensor_at(in, 1) };
  else
    return situ__fail(SITU_E_ARG, "nn_decode", "%s needs tgt and memory: call situ_nn_decode", self->type->name), false;
  return d->tgt && d->memory;
}

static situ_tensor *memory_block(const block *m, situ_tensor *x, const decoding *d) {
  const situ_nn_attend_options masks = { .attn_mask = d->with.memory_mask,
                                         .key_padding_mask = d->with.memory_key_padding_mask,
                                         .is_causal = d->with.memory_is_causal };
  return situ_nn_forward(m->dropout2, situ_nn_attend(m->multihead_attn, x, d->memory, d->memory, &masks));
}

static situ_tree *decoder_layer_call(situ_nn_module *self, const situ_tree *inputs) {
  const block *m = (const block *)self;
  decoding d;
  if (!read_decoding(self, inputs, &d)) return NULL;
  const situ_nn_attend_options masks = { .attn_mask = d.with.tgt_mask,
                                         .key_padding_mask = d.with.tgt_key_padding_mask,
                                         .is_causal = d.with.tgt_is_causal };
  situ_tensor *x = d.tgt;
  if (m->norm_first) {
    x = situ_add(x, attention_block(m, situ_nn_forward(m->norm1, x), &masks));
    x = situ_add(x, memory_block(m, situ_nn_forward(m->norm2, x), &d));
    x = situ_add(x, feed_forward_block(m, situ_nn_forward(m->norm3, x)));
  } else {
    x = situ_nn_forward(m->norm1, situ_add(x, attention_block(m, x, &masks)));
    x = situ_nn_forward(m->norm2, situ_add(x, memory_block(m, x, &d)));
    x = situ_nn_forward(m->norm3, situ_add(x, feed_forward_block(m, x)));
  }
  return situ_tree_tensor(x);
}

static const situ_nn_type decoder_layer_type = { .name = "TransformerDecoderLayer",
                                                 .size = sizeof(block),
                                                 .call = decoder_layer_call };

situ_tensor *situ_nn_decode(situ_nn_module *decoder, situ_tensor *tgt, situ_tensor *memory,
                            const situ_nn_decode_options *options) {
  static const situ_nn_decode_options torch;
  const char *op = "nn_decode";
  if (!situ__nn_given(op, "decoder", decoder) || !situ__valid(op, "tgt", tgt, SITU__A_TENSOR) ||
      !situ__valid(op, "memory", memory, SITU__A_TENSOR))
    return NULL;
  if (!options) options = &torch;
  else if (!situ__optional(op, "tgt_mask", options->tgt_mask, SITU__A_TENSOR) ||
           !situ__optional(op, "memory_mask", options->memory_mask, SITU__A_TENSOR) ||
           !situ__optional(op, "tgt_key_padding_mask", options->tgt_key_padding_mask, SITU__A_TENSOR) ||
           !situ__optional(op, "memory_key_padding_mask", options->memory_key_padding_mask, SITU__A_TENSOR))
    return NULL;
  situ_tree *in = situ_tree_put(situ_tree_dict(), "tgt", situ_tree_tensor(tgt));
  in = situ_tree_put(in, "memory", situ_tree_tensor(memory));
  in = situ__nn_put_tensor(in, "tgt_mask", options->tgt_mask);
  in = situ__nn_put_tensor(in, "memory_mask", options->memory_mask);
  in = situ__nn_put_tensor(in, "tgt_key_padding_mask", options->tgt_key_padding_mask);
  in = situ__nn_put_tensor(in, "memory_key_padding_mask", options->memory_key_padding_mask);
  in = situ__nn_put_flag(in, "tgt_is_causal", options->tgt_is_causal);
  in = situ__nn_put_flag(in, "memory_is_causal", options->memory_is_causal);
  situ_tree *out = in ? situ_nn_call(decoder, in) : NULL;
  situ_tensor *y = out ? situ_tree_value(out) : NULL;
  situ_tree_free(out);
  situ_tree_free(in);
  return y;
}

/* ---- making a layer ---- */

static situ_nn_module *make_layer(const char *op, const situ_nn_type *type, int64_t d_model, int64_t nhead,
                                  const situ_nn_transformer_options *options) {
  situ_nn_transformer_options o = situ_nn_transformer_defaults();
  if (!situ__options_read(op, "situ_nn_transformer_defaults", options, &o, sizeof o)) return NULL;
  const bool decodes = type == &decoder_layer_type;
  situ_nn_multihead_attention_options attention = {
    .dropout = o.dropout, .no_bias = o.no_bias, .batch_first = o.batch_first, .dtype = o.dtype, .device = o.device
  };
  situ_nn_linear_options linear = { .no_bias = o.no_bias, .dtype = o.dtype, .device = o.device };
  const situ_nn_norm_options norm = {
    .size = sizeof norm, .eps = o.layer_norm_eps, .no_bias = o.no_bias, .dtype = o.dtype, .device = o.device
  };
  block *m = situ_nn_alloc(type);
  if (!m) return NULL;
  m->norm_first = o.norm_first;
  m->gelu = o.gelu;
  situ_nn_child(m, self_attn, situ_nn_multihead_attention(d_model, nhead, &attention));
  if (decodes) situ_nn_child(m, multihead_attn, situ_nn_multihead_attention(d_model, nhead, &attention));
  situ_nn_child(m, linear1, situ_nn_linear(d_model, o.dim_feedforward, &linear));
  situ_nn_child(m, dropout, situ_nn_dropout(o.dropout));
  situ_nn_child(m, linear2, situ_nn_linear(o.dim_feedforward, d_model, &linear));
  situ_nn_child(m, norm1, situ_nn_layer_norm(SITU_SHAPE(d_model), &norm));
  situ_nn_child(m, norm2, situ_nn_layer_norm(SITU_SHAPE(d_model), &norm));
  if (decodes) situ_nn_child(m, norm3, situ_nn_layer_norm(SITU_SHAPE(d_model), &norm));
  situ_nn_child(m, dropout1, situ_nn_dropout(o.dropout));
  situ_nn_child(m, dropout2, situ_nn_dropout(o.dropout));
  if (decodes) situ_nn_child(m, dropout3, situ_nn_dropout(o.dropout));
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_transformer_encoder_layer(int64_t d_model, int64_t nhead,
                                                  const situ_nn_transformer_options *options) {
  return make_layer("nn_transformer_encoder_layer", &encoder_layer_type, d_model, nhead, options);
}
situ_nn_module *situ_nn_transformer_decoder_layer(int64_t d_model, int64_t nhead,
                                                  const situ_nn_transformer_options *options) {
  return make_layer("nn_transformer_decoder_layer", &decoder_layer_type, d_model, nhead, options);
}

/* ---- stacks ---- */

enum { MOST_LAYERS = 1 << 16 };

typedef struct stack {
  situ_nn_module base;
  situ_nn_module *layers, *norm; /* norm: NULL for none */
} stack;

static situ_tree *end_of(const stack *m, situ_tensor *x) {
  return x ? situ_tree_tensor(m->norm ? situ_nn_forward(m->norm, x) : x) : NULL;
}

static situ_tree *encoder_call(situ_nn_module *self, const situ_tree *inputs) {
  const stack *m = (const stack *)self;
  situ_nn_attend_options masks;
  situ_tensor *x = read_encoding(inputs, &masks);
  for (int64_t i = 0, count = situ_nn_len(m->layers); i < count && x; i++)
    x = situ_nn_encode(situ_nn_at(m->layers, i), x, &masks);
  return end_of(m, x);
}

static situ_tree *decoder_call(situ_nn_module *self, const situ_tree *inputs) {
  const stack *m = (const stack *)self;
  decoding d;
  if (!read_decoding(self, inputs, &d)) return NULL;
  situ_tensor *x = d.tgt;
  for (int64_t i = 0, count = situ_nn_len(m->layers); i < count && x; i++)
    x = situ_nn_decode(situ_nn_at(m->layers, i), x, d.memory, &d.with);
  return end_of(m, x);
}

static const situ_nn_type encoder_type = { .name = "TransformerEncoder", .size = sizeof(stack), .call = encoder_call },
                          decoder_type = { .name = "TransformerDecoder", .size = sizeof(stack), .call = decoder_call };

/* A ModuleList of the layer and its clones. Takes over the layer, also on error. */
static situ_nn_module *repeat(const char *op, situ_nn_module *layer, int64_t count) {
  situ_nn_module **all = situ__calloc((size_t)count, sizeof *all);
  if (!all) return situ__no_memory(op, (size_t)count * sizeof *all), situ__nn_give_up(layer), NULL;
  all[0] = layer;
  for (int64_t i = 1; i < count && all[i - 1]; i++) all[i] = situ_nn_clone(layer);
  situ_nn_module *list = situ_nn_module_list_of(count, all);
  situ__free(all);
  return list;
}

/* `what`: the layer's name in messages. Takes over the layer and the norm, also on error. */
static situ_nn_module *make_stack(const char *op, const char *what, const situ_nn_type *type, situ_nn_module *layer,
                                  int64_t num_layers, situ_nn_module *norm) {
  const bool given = situ__nn_given(op, what, layer) && situ__optional(op, "norm", norm, SITU__A_MODULE);
  if (given && (num_layers < 1 || num_layers > MOST_LAYERS))
    situ__fail(SITU_E_ARG, op, "num_layers is %" PRId64 ": it must be in 1..%d", num_layers, MOST_LAYERS);
  if (!given || num_layers < 1 || num_layers > MOST_LAYERS)
    return situ__nn_give_up(layer), situ__nn_give_up(norm), NULL;
  stack *m = situ_nn_alloc(type);
  situ_nn_child(m, layers, repeat(op, layer, num_layers));
  if (norm) situ_nn_child(m, norm, norm);
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_transformer_encoder(situ_nn_module *encoder_layer, int64_t num_layers, situ_nn_module *norm) {
  return make_stack("nn_transformer_encoder", "encoder_layer", &encoder_type, encoder_layer, num_layers, norm);
}
situ_nn_module *situ_nn_transformer_decoder(situ_nn_module *decoder_layer, int64_t num_layers, situ_nn_module *norm) {
  return make_stack("nn_transformer_decoder", "decoder_layer", &decoder_type, decoder_layer, num_layers, norm);
}
