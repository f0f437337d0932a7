/* Golden cases of layers, whose inputs state.<name> are torch's state_dict.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_GOLD_LAYER_H
#define SITU_TESTS_GOLD_LAYER_H

#include <situ/nn.h>
#include <string.h>

#include "support/gold_run.h"

static inline bool gold_is_state(const char *name) { return strncmp(name, "state.", 6) == 0; }

/* The state_dict goes into the module; from then on its parameters are the leaves to look at. */
static inline bool gold_load_state(gold_call *c, situ_nn_module *m) {
  situ_tree *state = situ_tree_dict();
  for (int i = 0; i < c->c->inputs; i++) {
    const char *name = c->c->input[i].name;
    if (gold_is_state(name)) state = situ_tree_put(state, name + 6, situ_tree_tensor(c->in[i]));
  }
  bool good = situ_nn_load_state_dict(m, state, NULL) == SITU_OK;
  situ_tree_free(state);
  for (int i = 0; good && i < c->c->inputs; i++) {
    const char *name = c->c->input[i].name;
    if (gold_is_state(name)) c->leaf[i] = situ_nn_get_tensor(m, name + 6);
  }
  return good;
}

#endif
