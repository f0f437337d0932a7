/* Golden values: recurrent layers and cells, with states before and after, loaded with torch's state_dict by name.
   SPDX-License-Identifier: MIT */
#include <situ/nn.h>
#include <string.h>

#include "support/gold_run.h"

/* Loads the state_dict into the module, whose parameters are the leaves from then on. */
static bool load(gold_call *c, situ_nn_module *m) {
  situ_tree *state = situ_tree_dict();
  for (int i = 0; i < c->c->inputs; i++)
    if (strncmp(c->c->input[i].name, "state.", 6) == 0)
      state = situ_tree_put(state, c->c->input[i].name + 6, situ_tree_tensor(c->in[i]));
  bool good = situ_nn_load_state_dict(m, state, NULL) == SITU_OK;
  situ_tree_free(state);
  for (int i = 0; good && i < c->c->inputs; i++)
    if (strncmp(c->c->input[i].name, "state.", 6) == 0) c->leaf[i] = situ_nn_get_tensor(m, c->c->input[i].name + 6);
  return good;
}

static void run(gold_call *c, situ_nn_module *(*make)(int64_t, int64_t, const situ_nn_rnn_options *)) {
  situ_nn_rnn_options options = { .num_layers = gold_int(c, "num_layers", 0),
                                  .dropout = gold_real(c, "dropout", 0),
                                  .proj_size = gold_int(c, "proj_size", 0),
                                  .relu = strcmp(gold_word(c, "nonlinearity", "tanh"), "relu") == 0,
                                  .no_bias = !gold_bool(c, "bias", true),
                                  .batch_first = gold_bool(c, "batch_first", false),
                                  .bidirectional = gold_bool(c, "bidirectional", false) };
  situ_nn_module *m = c->payload = make(gold_int(c, "input_size", 0), gold_int(c, "hidden_size", 0), &options);
  if (!m || !load(c, m)) return;
  situ_nn_train(m, gold_bool(c, "training", true));
  situ_nn_hx hx = { gold_in(c, "h"), gold_in(c, "c") };
  c->out[0] = situ_nn_recur(m, gold_in(c, "input"), &hx);
  c->out[1] = hx.h;
  if (c->c->outputs > 2) c->out[2] = hx.c;
}
static void done(gold_call *c) { situ_nn_free(c->payload); }

static void rnn(gold_call *c) { run(c, situ_nn_rnn); }
static void lstm(gold_call *c) { run(c, situ_nn_lstm); }
static void gru(gold_call *c) { run(c, situ_nn_gru); }
static void rnn_cell(gold_call *c) { run(c, situ_nn_rnn_cell); }
static void lstm_cell(gold_call *c) { run(c, situ_nn_lstm_cell); }
static void gru_cell(gold_call *c) { run(c, situ_nn_gru_cell); }

#define LAYER(torch, adapter) \
  { .name = "nn." torch, .run = adapter, .done = done, .writes = true, .steps = 4, .grad_steps = 8, .why = GOLD_ROUNDS }
static const gold_op ops[] = { LAYER("rnn", rnn),
                               LAYER("lstm", lstm),
                               LAYER("gru", gru),
                               LAYER("rnncell", rnn_cell),
                               LAYER("lstmcell", lstm_cell),
                               LAYER("grucell", gru_cell),
                               { 0 } };

int main(void) {
  /* so that the layers' parameters are made there */
  return situ_set_default_device(gold_device()) == SITU_OK ? gold_main("recurrent", ops, NULL) : 1;
}
