/* Golden values: recurrent layers and cells, with states before and after, loaded with torch's state_dict by name.
   SPDX-License-Identifier: MIT */
#include "support/golden/layer.h"

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

static void run(gold_call *c) {
  situ_nn_module *m = gold_layer_new(c, NULL, "-lengths -enforce_sorted -padding_value -total_length");
  if (!m || !gold_layer_load(c, m)) return;
  situ_nn_hx hx = { gold_in(c, "h"), gold_in(c, "c") };
  if (gold_has(c, "lengths")) run_packed(c, m, gold_bool(c, "batch_first", false), &hx);
  else c->out[0] = situ_nn_recur(m, gold_in(c, "input"), &hx);
  c->out[1] = hx.h;
  if (c->c->outputs > 2) c->out[2] = hx.c;
}

static const gold_op ops[] = { { "*", .run = run, GOLD_LAYER, GOLD_STEPS(4, 8) }, { 0 } };

int main(void) { return gold_layer_main("recurrent", ops); }
