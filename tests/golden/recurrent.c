/* Golden values: recurrent layers and cells, with states before and after, loaded with torch's state_dict by name.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/gold_layer.h"

/* Packs the input, and pads the output. */
static void run_packed(gold_call *c, situ_nn_module *m, bool batch_first, situ_nn_hx *hx) {
  const situ_shape given = gold_list(c, "lengths");
  situ_tensor *lengths = situ_from_host(given.dim, (size_t)given.ndim * sizeof *given.dim, SITU_SHAPE(given.ndim),
                                        &(situ_options){ .dtype = SITU_I64, .device = situ_dev("cpu") });
  situ_nn_packed_sequence packed = { 0 };
  if (situ_nn_utils_rnn_pack_padded_sequence(gold_in(c, "input"), lengths, batch_first,
                                             gold_bool(c, "enforce_sorted", true), &packed) != SITU_OK ||
      situ_nn_recur_packed(m, &packed, hx, &packed) != SITU_OK)
    return;
  c->out[0] =
      situ_nn_utils_rnn_pad_packed_sequence(&packed,
                                            &(situ_nn_pad_options){ .batch_first = batch_first,
                                                                    .padding_value = gold_real(c, "padding_value", 0),
                                                                    .total_length = gold_int(c, "total_length", 0) },
                                            NULL);
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
  if (!m || !gold_load_state(c, m)) return;
  situ_nn_train(m, gold_bool(c, "training", true));
  situ_nn_hx hx = { gold_in(c, "h"), gold_in(c, "c") };
  if (gold_has(c, "lengths")) run_packed(c, m, options.batch_first, &hx);
  else c->out[0] = situ_nn_recur(m, gold_in(c, "input"), &hx);
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
