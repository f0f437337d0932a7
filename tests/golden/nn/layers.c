/* Golden values: layers, loaded with torch's state_dict by name.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/golden/layer.h"

static situ_tensor *called(gold_call *c, situ_nn_module *m) {
  situ_tensor *query = gold_in(c, "query"), *src = gold_in(c, "src");
  const bool two = c->c->inputs > 1 && strncmp(c->c->input[1].name, "state.", strlen("state.")) != 0;
  bool weights = c->c->outputs > 1 && strcmp(c->c->output[1].name, "weights") == 0;
  situ_nn_attend_options options = {
    .key_padding_mask = gold_in(c, "key_padding_mask"),
    .attn_mask = gold_in(c, src ? "src_mask" : "attn_mask"),
    .weights = weights ? &c->out[1] : NULL,
  };
  return query ? situ_nn_attend(m, query, gold_in(c, "key"), gold_in(c, "value"), &options)
         : src ? situ_nn_encode(m, src, &options)
         : two ? situ_nn_forward2(m, c->in[0], c->in[1])
               : situ_nn_forward(m, c->in[0]);
}

static void load_and_call(gold_call *c, situ_nn_module *m) {
  if (!m || !gold_layer_load(c, m)) return;
  c->out[0] = called(c, m);
  gold_layer_show(c);
}

static void layer(gold_call *c) { load_and_call(c, gold_layer_new(c, NULL, NULL)); }

/* It learns its width from an input. */
static void lazy(gold_call *c) {
  situ_nn_module *m = gold_layer_new(c, NULL, NULL);
  (void)!situ_nn_forward(m, gold_in(c, "input"));
  load_and_call(c, m);
}

static const gold_op ops[] = {
  { "nn.lazylinear", .run = lazy, GOLD_LAYER },
  { "*", .run = layer, GOLD_LAYER },
  { 0 },
};

int main(void) { return gold_layer_main("layers", ops); }
