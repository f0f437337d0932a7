/* Golden values from PyTorch 2.15: ops that are made of others.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static void multinomial(gold_call *c) {
  c->out[0] = situ_multinomial(c->in[0], gold_int(c, "num_samples", 1), gold_bool(c, "replacement", false), NULL);
}

static void repeat_interleave(gold_call *c) {
  const situ_shape dim = gold_has(c, "dim") ? SITU_DIMS(gold_int(c, "dim", 0)) : (situ_shape){ 0 };
  c->out[0] = situ_repeat_interleave_tensor(c->in[0], gold_in(c, "repeats"), dim);
}
static void unique_dim(gold_call *c) {
  c->out[0] = situ_unique_dim(c->in[0], (int)gold_int(c, "dim", 0), &c->out[1], &c->out[2]);
}

static void multi_dot(gold_call *c) {
  situ_tensor *parts[GOLD_MAX_INPUTS + 1];
  int count = gold_tensors(c, "tensors", parts);
  c->out[0] = situ_linalg_multi_dot(parts, count);
}
static void vander(gold_call *c) { c->out[0] = situ_linalg_vander(c->in[0], gold_int(c, "N", 0)); }

static situ_reduction reduction_of(const char *word) {
  return *word == 'm' ? SITU_REDUCTION_MEAN : *word == 's' ? SITU_REDUCTION_SUM : SITU_REDUCTION_NONE;
}
static void ctc_loss(gold_call *c) {
  const situ_ctc_loss_options o = { gold_int(c, "blank", 0), reduction_of(gold_word(c, "reduction", "mean")),
                                    gold_bool(c, "zero_infinity", false) };
  c->out[0] =
      situ_ctc_loss(c->in[0], gold_in(c, "targets"), gold_in(c, "input_lengths"), gold_in(c, "target_lengths"), &o);
}

static const gold_op ops[] = {
  { "multinomial", .run = multinomial },
  { "repeat_interleave_tensor", .run = repeat_interleave },
  { "unique_dim", .run = unique_dim },
  { "linalg_multi_dot", .run = multi_dot, .steps = 16, .grad_steps = 16, .why = GOLD_ROUNDS },
  { "linalg_vander", .run = vander, .steps = 8, .grad_steps = 8, .why = GOLD_ROUNDS },
  { "linalg_householder_product", .two = situ_linalg_householder_product, .steps = 16, .grad_steps = 32,
    .why = GOLD_ROUNDS },
  { "ctc_loss", .run = ctc_loss, .steps = 32, .grad_steps = 64, .why = GOLD_ROUNDS },
  { 0 },
};

#define NO_VALUES "a meta tensor has no values, on which the size depends"
static const gold_exception exceptions[] = {
  { "repeat_interleave_tensor", .device = "meta", .why = NO_VALUES },
  { "unique_dim", .device = "meta", .why = NO_VALUES },
  { 0 },
};

int main(void) { return gold_main("compound", ops, exceptions); }
