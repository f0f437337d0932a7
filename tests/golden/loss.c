/* Golden values: losses.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

#include "support/gold_run.h"

static situ_reduction reduction(const gold_call *c) {
  const char *word = gold_word(c, "reduction", "mean");
  return strcmp(word, "mean") == 0  ? SITU_REDUCTION_MEAN
         : strcmp(word, "sum") == 0 ? SITU_REDUCTION_SUM
                                    : SITU_REDUCTION_NONE;
}

static void mse_loss(gold_call *c) { c->out[0] = situ_mse_loss(c->in[0], gold_in(c, "target"), reduction(c)); }
static void l1_loss(gold_call *c) { c->out[0] = situ_l1_loss(c->in[0], gold_in(c, "target"), reduction(c)); }

static void smooth_l1_loss(gold_call *c) {
  c->out[0] = situ_smooth_l1_loss(c->in[0], gold_in(c, "target"), gold_real(c, "beta", 1), reduction(c));
}

static void classes(gold_call *c, situ_tensor *(*f)(situ_tensor *, situ_tensor *, const situ_cross_entropy_options *)) {
  situ_cross_entropy_options options = {
    .weight = gold_in(c, "weight"),
    .has_ignore_index = gold_has(c, "ignore_index"),
    .ignore_index = gold_int(c, "ignore_index", 0),
    .reduction = reduction(c),
    .label_smoothing = gold_real(c, "label_smoothing", 0),
  };
  c->out[0] = f(c->in[0], gold_in(c, "target"), &options);
}
static void cross_entropy(gold_call *c) { classes(c, situ_cross_entropy); }
static void nll_loss(gold_call *c) { classes(c, situ_nll_loss); }

static void with_logits(gold_call *c) {
  c->out[0] = situ_binary_cross_entropy_with_logits(c->in[0], gold_in(c, "target"), gold_in(c, "weight"),
                                                    gold_in(c, "pos_weight"), reduction(c));
}

static void kl_div(gold_call *c) {
  bool batch = strcmp(gold_word(c, "reduction", "mean"), "batchmean") == 0;
  situ_kl_reduction kind = batch ? SITU_KL_BATCHMEAN : (situ_kl_reduction)reduction(c);
  c->out[0] = situ_kl_div(c->in[0], gold_in(c, "target"), kind, gold_bool(c, "log_target", false));
}

static const gold_op ops[] = {
  { "mse_loss", .run = mse_loss },
  { "l1_loss", .run = l1_loss },
  { "smooth_l1_loss", .run = smooth_l1_loss, .steps = 2, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "cross_entropy", .run = cross_entropy, .steps = 2, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "nll_loss", .run = nll_loss },
  { "binary_cross_entropy_with_logits", .run = with_logits, .steps = 4, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "kl_div", .run = kl_div, .steps = 2, .grad_steps = 3, .why = GOLD_ROUNDS },
  { 0 },
};

int main(void) { return gold_main("loss", ops, NULL); }
