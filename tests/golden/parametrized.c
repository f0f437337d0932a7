/* Golden values from PyTorch 2.15: weight_norm and spectral_norm of layers, and EmbeddingBag, loaded with torch's
   state_dict by name.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/gold_layer.h"

/* Loads the layer, calls it, and shows its buffers as outputs. */
static void layer(gold_call *c, situ_nn_module *m) {
  const situ_nn_embedding_bag_kwargs bag = { gold_in(c, "offsets"), gold_in(c, "per_sample_weights") };
  c->payload = m;
  if (!m || !gold_load_state(c, m)) return;
  situ_nn_train(m, gold_bool(c, "training", true));
  c->out[0] = situ_nn_forward_kwargs(m, gold_in(c, "input"), bag.offsets ? &bag : NULL);
  for (int i = 1; i < c->c->outputs; i++) c->out[i] = situ_nn_get_tensor(m, c->c->output[i].name + strlen("state."));
}
static void done(gold_call *c) { situ_nn_free(c->payload); }

static int64_t whole(const gold_call *c, const char *name) { return gold_int(c, name, 0); }
static situ_nn_module *plain(const gold_call *c) {
  const char *kind = c->c->op + strlen("nn.weightnorm");
  if (strncmp(c->c->op, "nn.spectralnorm", strlen("nn.spectralnorm")) == 0)
    kind += strlen("spectral") - strlen("weight");
  if (strcmp(kind, "linear") == 0) return situ_nn_linear(whole(c, "in_features"), whole(c, "out_features"), NULL);
  if (strcmp(kind, "embedding") == 0)
    return situ_nn_embedding(whole(c, "num_embeddings"), whole(c, "embedding_dim"), NULL);
  if (strcmp(kind, "layernorm") == 0) return situ_nn_layer_norm(gold_list(c, "normalized_shape"), NULL);
  return (strcmp(kind, "conv2d") == 0 ? situ_nn_conv2d : situ_nn_conv_transpose2d)(
      whole(c, "in_channels"), whole(c, "out_channels"), gold_list(c, "kernel_size"), NULL);
}

static void weight_norm(gold_call *c) {
  situ_nn_module *m = plain(c);
  layer(c, situ_nn_utils_weight_norm(m, NULL, (int)whole(c, "dim")));
}
static void spectral_norm(gold_call *c) {
  situ_nn_module *m = plain(c);
  layer(c, situ_nn_utils_spectral_norm(m, "weight",
                                       OPTIONS_AT(situ_nn_spectral_norm,
                                                  with.n_power_iterations = gold_int(c, "n_power_iterations", 1),
                                                  with.eps = gold_real(c, "eps", 1e-12),
                                                  with.has_dim = gold_has(c, "dim"), with.dim = (int)whole(c, "dim"))));
}
static void embedding_bag(gold_call *c) {
  const char *mode = gold_word(c, "mode", "mean");
  const situ_nn_embedding_bag_options o =
      OPTIONS_OF(situ_nn_embedding_bag,
                 with.mode = *mode == 's'     ? SITU_EMBEDDING_BAG_SUM
                             : mode[1] == 'a' ? SITU_EMBEDDING_BAG_MAX
                                              : SITU_EMBEDDING_BAG_MEAN,
                 with.include_last_offset = gold_bool(c, "include_last_offset", false),
                 with.has_padding_idx = gold_has(c, "padding_idx"), with.padding_idx = whole(c, "padding_idx"));
  layer(c, situ_nn_embedding_bag(whole(c, "num_embeddings"), whole(c, "embedding_dim"), &o));
}

#define LAYER(op, call, times, reason)                                                                        \
  {                                                                                                           \
    .name = "nn." op, .run = call, .done = done, .writes = true, .bound = times, .steps = 4, .grad_steps = 8, \
    .why = reason                                                                                             \
  }
#define SIGMA "bound 4: sigma of random vectors is a sum whose terms cancel"
static const gold_op ops[] = {
  LAYER("weightnormlinear", weight_norm, 1, GOLD_ROUNDS),
  LAYER("weightnormconv2d", weight_norm, 1, GOLD_ROUNDS),
  LAYER("weightnormconvtranspose2d", weight_norm, 1, GOLD_ROUNDS),
  LAYER("weightnormembedding", weight_norm, 1, GOLD_ROUNDS),
  LAYER("spectralnormlinear", spectral_norm, 4, SIGMA),
  LAYER("spectralnormconv2d", spectral_norm, 4, SIGMA),
  LAYER("spectralnormconvtranspose2d", spectral_norm, 4, SIGMA),
  LAYER("spectralnormlayernorm", spectral_norm, 4, SIGMA),
  LAYER("embeddingbag", embedding_bag, 1, GOLD_ROUNDS),
  { 0 },
};

int main(void) {
  /* so that the layers' parameters are made there */
  return situ_set_default_device(gold_device()) == SITU_OK ? gold_main("parametrized", ops, NULL) : 1;
}
