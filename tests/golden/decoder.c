/* Golden values: TransformerDecoderLayer and TransformerDecoder, loaded with torch's state_dict by name.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/gold_layer.h"

static situ_nn_module *layer(const gold_call *c) {
  const double dropout = gold_real(c, "dropout", 0.1);
  const situ_nn_transformer_options options = OPTIONS_OF(
      situ_nn_transformer, with.dim_feedforward = gold_int(c, "dim_feedforward", 2048), with.dropout = dropout,
      with.gelu = strcmp(gold_word(c, "activation", "relu"), "gelu") == 0,
      with.layer_norm_eps = gold_real(c, "layer_norm_eps", 1e-5), with.batch_first = gold_bool(c, "batch_first", false),
      with.norm_first = gold_bool(c, "norm_first", false), with.no_bias = !gold_bool(c, "bias", true));
  return situ_nn_transformer_decoder_layer(gold_int(c, "d_model", 0), gold_int(c, "nhead", 0), &options);
}

/* torch's tgt_is_causal says what tgt_mask is; here it is in place of it. */
static void run(gold_call *c, situ_nn_module *m) {
  const bool causal = gold_bool(c, "call.tgt_is_causal", false);
  const situ_nn_decode_options options = { .tgt_mask = causal ? NULL : gold_in(c, "tgt_mask"),
                                           .memory_mask = gold_in(c, "memory_mask"),
                                           .tgt_key_padding_mask = gold_in(c, "tgt_key_padding_mask"),
                                           .memory_key_padding_mask = gold_in(c, "memory_key_padding_mask"),
                                           .tgt_is_causal = causal };
  c->payload = m;
  if (!m || !gold_load_state(c, m)) return;
  situ_nn_train(m, gold_bool(c, "training", true));
  c->out[0] = situ_nn_decode(m, gold_in(c, "tgt"), gold_in(c, "memory"), &options);
}
static void done(gold_call *c) { situ_nn_free(c->payload); }

static void decoder_layer(gold_call *c) { run(c, layer(c)); }
static void decoder(gold_call *c) {
  situ_nn_module *norm =
      gold_bool(c, "norm", false) ? situ_nn_layer_norm(SITU_SHAPE(gold_int(c, "d_model", 0)), NULL) : NULL;
  run(c, situ_nn_transformer_decoder(layer(c), gold_int(c, "num_layers", 0), norm));
}

static const gold_op ops[] = {
  { .name = "nn.transformerdecoderlayer", .run = decoder_layer, .done = done, .writes = true },
  { .name = "nn.transformerdecoder",
    .run = decoder,
    .done = done,
    .writes = true,
    .bound = 2,
    .why = "bound 2: two layers that normalise 4 elements; torch's own f32 gradients are 5e-6 from those in f64" },
  { 0 },
};

int main(void) {
  /* so that the layers' parameters are made there */
  return situ_set_default_device(gold_device()) == SITU_OK ? gold_main("decoder", ops, NULL) : 1;
}
