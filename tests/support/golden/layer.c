/* See gold_layer.h.
   SPDX-License-Identifier: MIT */
#include "support/golden/layer.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "state.";
static bool is_state(const char *name) { return strncmp(name, prefix, strlen(prefix)) == 0; }

situ_nn_module *gold_layer_new(gold_call *c, const char *functions, const char *settings) {
  char name[64];
  snprintf(name, sizeof name, "nn_%s", c->c->op + strlen("nn."));
  return gold_make(c, functions ? functions : name, settings, NULL);
}

bool gold_layer_load(gold_call *c, situ_nn_module *m) {
  c->payload = m;
  situ_tree *state = situ_tree_dict();
  for (int i = 0; i < c->c->inputs; i++) {
    const char *name = c->c->input[i].name;
    if (is_state(name)) state = situ_tree_put(state, name + strlen(prefix), situ_tree_tensor(c->in[i]));
  }
  bool good = situ_nn_load_state_dict(m, state, NULL) == SITU_OK;
  situ_tree_free(state);
  for (int i = 0; good && i < c->c->inputs; i++) {
    const char *name = c->c->input[i].name;
    if (is_state(name)) c->leaf[i] = situ_nn_get_tensor(m, name + strlen(prefix));
  }
  if (good) situ_nn_train(m, gold_bool(c, "training", true));
  return good;
}

void gold_layer_show(gold_call *c) {
  for (int i = 1; i < c->c->outputs; i++) {
    const char *name = c->c->output[i].name;
    if (is_state(name)) c->out[i] = situ_nn_get_tensor(c->payload, name + strlen(prefix));
  }
}

void gold_layer_done(gold_call *c) { situ_nn_free(c->payload); }

int gold_layer_main(const char *family, const gold_op *ops) {
  return situ_set_default_device(gold_device()) == SITU_OK ? gold_main(family, ops, NULL) : 1;
}
