/* Golden values from PyTorch 2.15: weight_norm and spectral_norm of layers, and EmbeddingBag, loaded with torch's
   state_dict by name.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "support/golden/layer.h"

/* Loads the layer, calls it, and shows its buffers as outputs. */
static void run(gold_call *c, situ_nn_module *m) {
  const situ_nn_embedding_bag_kwargs bag = { gold_in(c, "offsets"), gold_in(c, "per_sample_weights") };
  if (!m || !gold_layer_load(c, m)) return;
  c->out[0] = situ_nn_forward_kwargs(m, gold_in(c, "input"), bag.offsets ? &bag : NULL);
  gold_layer_show(c);
}

/* The layer that the parametrization is for. */
static situ_nn_module *plain(gold_call *c, const char *prefix) {
  char function[64];
  snprintf(function, sizeof function, "nn_%s", c->c->op + strlen(prefix));
  return gold_layer_new(c, function, "-dim -n_power_iterations -eps");
}
static void weight_norm(gold_call *c) {
  situ_nn_module *m = plain(c, "nn.weightnorm");
  run(c, situ_nn_utils_weight_norm(m, NULL, (int)gold_int(c, "dim", 0)));
}
static void spectral_norm(gold_call *c) {
  situ_nn_module *m = plain(c, "nn.spectralnorm");
  run(c, situ_nn_utils_spectral_norm(
             m, "weight",
             OPTIONS_AT(situ_nn_spectral_norm, with.n_power_iterations = gold_int(c, "n_power_iterations", 1),
                        with.eps = gold_real(c, "eps", 1e-12), with.has_dim = gold_has(c, "dim"),
                        with.dim = (int)gold_int(c, "dim", 0))));
}
static void embedding_bag(gold_call *c) { run(c, gold_layer_new(c, NULL, NULL)); }

#define SIGMA "bound 4: sigma of random vectors is a sum whose terms cancel"
static const gold_op ops[] = {
  { "nn.weightnorm*", .run = weight_norm, GOLD_LAYER, GOLD_STEPS(4, 8) },
  { "nn.spectralnorm*", .run = spectral_norm, GOLD_LAYER, .bound = 4, .steps = 4, .grad_steps = 8, .why = SIGMA },
  { "nn.embeddingbag", .run = embedding_bag, GOLD_LAYER, GOLD_STEPS(4, 8) },
  { 0 },
};

int main(void) { return gold_layer_main("parametrized", ops); }
