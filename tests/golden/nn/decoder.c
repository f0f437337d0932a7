/* Golden values: TransformerDecoderLayer and TransformerDecoder, loaded with torch's state_dict by name.
   SPDX-License-Identifier: MIT */
#include "support/golden/layer.h"

/* torch's tgt_is_causal says what tgt_mask is; here it is in place of it. */
static void decode(gold_call *c, situ_nn_module *m) {
  const bool causal = gold_bool(c, "call.tgt_is_causal", false);
  const situ_nn_decode_options options = { .tgt_mask = causal ? NULL : gold_in(c, "tgt_mask"),
                                           .memory_mask = gold_in(c, "memory_mask"),
                                           .tgt_key_padding_mask = gold_in(c, "tgt_key_padding_mask"),
                                           .memory_key_padding_mask = gold_in(c, "memory_key_padding_mask"),
                                           .tgt_is_causal = causal };
  if (m && gold_layer_load(c, m)) c->out[0] = situ_nn_decode(m, gold_in(c, "tgt"), gold_in(c, "memory"), &options);
}

static situ_nn_module *layer(gold_call *c) {
  return gold_layer_new(c, "nn_transformer_decoder_layer", "-num_layers -norm");
}
static void decoder_layer(gold_call *c) { decode(c, layer(c)); }
static void decoder(gold_call *c) {
  situ_nn_module *norm =
      gold_bool(c, "norm", false) ? situ_nn_layer_norm(SITU_SHAPE(gold_int(c, "d_model", 0)), NULL) : NULL;
  decode(c, situ_nn_transformer_decoder(layer(c), gold_int(c, "num_layers", 0), norm));
}

static const gold_op ops[] = {
  { "nn.transformerdecoderlayer", .run = decoder_layer, GOLD_LAYER },
  { "nn.transformerdecoder", .run = decoder, GOLD_LAYER, .bound = 2,
    .why = "bound 2: two layers that normalise 4 elements; torch's own f32 gradients are 5e-6 from those in f64" },
  { 0 },
};

int main(void) { return gold_layer_main("decoder", ops); }
