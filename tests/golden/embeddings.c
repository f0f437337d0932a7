/* Golden values from PyTorch 2.15: embeddings with limits of their rows' norms, and bags of embeddings.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

/* The second result is the weight after the call, in which rows were scaled. */
static void embedding(gold_call *c) {
  situ_tensor *weight = gold_in(c, "weight");
  const situ_embedding_options o =
      OPTIONS_OF(situ_embedding, with.has_padding_idx = gold_has(c, "padding_idx"),
                 with.padding_idx = gold_int(c, "padding_idx", 0), with.max_norm = gold_real(c, "max_norm", SITU_NONE),
                 with.norm_type = gold_real(c, "norm_type", 2),
                 with.scale_grad_by_freq = gold_bool(c, "scale_grad_by_freq", false));
  c->out[0] = situ_embedding(gold_in(c, "input"), weight, &o);
  c->out[1] = situ_detach(weight);
}

static situ_embedding_bag_mode mode_of(const char *word) {
  return *word == 's' ? SITU_EMBEDDING_BAG_SUM : word[1] == 'a' ? SITU_EMBEDDING_BAG_MAX : SITU_EMBEDDING_BAG_MEAN;
}
static void embedding_bag(gold_call *c) {
  situ_tensor *weight = gold_in(c, "weight");
  const situ_embedding_bag_options o = OPTIONS_OF(
      situ_embedding_bag, with.offsets = gold_in(c, "offsets"),
      with.per_sample_weights = gold_in(c, "per_sample_weights"), with.mode = mode_of(gold_word(c, "mode", "mean")),
      with.include_last_offset = gold_bool(c, "include_last_offset", false),
      with.has_padding_idx = gold_has(c, "padding_idx"), with.padding_idx = gold_int(c, "padding_idx", 0),
      with.max_norm = gold_real(c, "max_norm", SITU_NONE), with.norm_type = gold_real(c, "norm_type", 2),
      with.scale_grad_by_freq = gold_bool(c, "scale_grad_by_freq", false));
  c->out[0] = situ_embedding_bag(gold_in(c, "input"), weight, &o);
  if (o.max_norm > 0) c->out[1] = situ_detach(weight);
}

static const gold_op ops[] = {
  { "embedding_limited", .run = embedding, .writes = true, .steps = 3, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "embedding_bag", .run = embedding_bag, .writes = true, .steps = 3, .grad_steps = 4, .why = GOLD_ROUNDS },
  { 0 },
};

int main(void) { return gold_main("embeddings", ops, NULL); }
