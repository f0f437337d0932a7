/* Golden values from PyTorch 2.15: attention, also with heads that share a key.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static void attention(gold_call *c) {
  const situ_attention_options options = OPTIONS_OF(
      situ_attention, with.attn_mask = gold_in(c, "attn_mask"), with.is_causal = gold_bool(c, "is_causal", false),
      with.scale = gold_real(c, "scale", SITU_NONE), with.enable_gqa = gold_bool(c, "enable_gqa", false));
  c->out[0] = situ_scaled_dot_product_attention(gold_in(c, "query"), gold_in(c, "key"), gold_in(c, "value"), &options);
}

static const gold_op ops[] = {
  { "attention", .run = attention, .steps = 4, .grad_steps = 32, .why = GOLD_ROUNDS },
  { 0 },
};

int main(void) { return gold_main("attention", ops, NULL); }
