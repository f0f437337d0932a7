/* Golden values from PyTorch 2.15: losses and distances that consist of other ops.
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

static void huber_loss(gold_call *c) {
  c->out[0] = situ_huber_loss(c->in[0], gold_in(c, "target"), gold_real(c, "delta", 1), reduction(c));
}
static void soft_margin_loss(gold_call *c) {
  c->out[0] = situ_soft_margin_loss(c->in[0], gold_in(c, "target"), reduction(c));
}
static void binary_cross_entropy(gold_call *c) {
  c->out[0] = situ_binary_cross_entropy(c->in[0], gold_in(c, "target"), gold_in(c, "weight"), reduction(c));
}
static void poisson_nll_loss(gold_call *c) {
  c->out[0] = situ_poisson_nll_loss(c->in[0], gold_in(c, "target"), gold_bool(c, "log_input", true),
                                    gold_bool(c, "full", false), gold_real(c, "eps", 1e-8), reduction(c));
}
static void gaussian_nll_loss(gold_call *c) {
  c->out[0] = situ_gaussian_nll_loss(c->in[0], gold_in(c, "target"), gold_in(c, "var"), gold_bool(c, "full", false),
                                     gold_real(c, "eps", 1e-6), reduction(c));
}
static void hinge_embedding_loss(gold_call *c) {
  c->out[0] = situ_hinge_embedding_loss(c->in[0], gold_in(c, "target"), gold_real(c, "margin", 1), reduction(c));
}
static void margin_ranking_loss(gold_call *c) {
  c->out[0] = situ_margin_ranking_loss(c->in[0], gold_in(c, "input2"), gold_in(c, "target"), gold_real(c, "margin", 0),
                                       reduction(c));
}
static void cosine_embedding_loss(gold_call *c) {
  c->out[0] = situ_cosine_embedding_loss(c->in[0], gold_in(c, "input2"), gold_in(c, "target"),
                                         gold_real(c, "margin", 0), reduction(c));
}
static void multilabel_soft_margin_loss(gold_call *c) {
  c->out[0] = situ_multilabel_soft_margin_loss(c->in[0], gold_in(c, "target"), gold_in(c, "weight"), reduction(c));
}
static void triplet_margin_loss(gold_call *c) {
  const situ_triplet_margin_options options = OPTIONS_OF(
      situ_triplet_margin, with.margin = gold_real(c, "margin", 1), with.p = gold_real(c, "p", 2),
      with.eps = gold_real(c, "eps", 1e-6), with.swap = gold_bool(c, "swap", false), with.reduction = reduction(c));
  c->out[0] = situ_triplet_margin_loss(c->in[0], gold_in(c, "positive"), gold_in(c, "negative"), &options);
}
static void multi_margin_loss(gold_call *c) {
  const situ_multi_margin_options options =
      OPTIONS_OF(situ_multi_margin, with.p = gold_real(c, "p", 1), with.margin = gold_real(c, "margin", 1),
                 with.weight = gold_in(c, "weight"), with.reduction = reduction(c));
  c->out[0] = situ_multi_margin_loss(c->in[0], gold_in(c, "target"), &options);
}

static void normalize(gold_call *c) {
  c->out[0] = situ_normalize(c->in[0], gold_real(c, "p", 2), (int)gold_int(c, "dim", 1), gold_real(c, "eps", 1e-12));
}
static void cosine_similarity(gold_call *c) {
  c->out[0] = situ_cosine_similarity(c->in[0], gold_in(c, "x2"), (int)gold_int(c, "dim", 1), gold_real(c, "eps", 1e-8));
}
static void pairwise_distance(gold_call *c) {
  c->out[0] = situ_pairwise_distance(c->in[0], gold_in(c, "x2"), gold_real(c, "p", 2), gold_real(c, "eps", 1e-6),
                                     gold_bool(c, "keepdim", false));
}

#define SEVERAL .steps = 4, .grad_steps = 6, .why = GOLD_ROUNDS
static const gold_op ops[] = {
  { "huber_loss", .run = huber_loss, SEVERAL },
  { "soft_margin_loss", .run = soft_margin_loss, SEVERAL },
  { "binary_cross_entropy", .run = binary_cross_entropy, SEVERAL },
  { "poisson_nll_loss", .run = poisson_nll_loss, SEVERAL },
  { "gaussian_nll_loss", .run = gaussian_nll_loss, SEVERAL },
  { "hinge_embedding_loss", .run = hinge_embedding_loss, SEVERAL },
  { "margin_ranking_loss", .run = margin_ranking_loss, SEVERAL },
  { "cosine_embedding_loss", .run = cosine_embedding_loss, SEVERAL },
  { "multilabel_soft_margin_loss", .run = multilabel_soft_margin_loss, SEVERAL },
  { "triplet_margin_loss", .run = triplet_margin_loss, SEVERAL },
  { "multi_margin_loss", .run = multi_margin_loss, SEVERAL },
  { "normalize", .run = normalize, SEVERAL },
  { "cosine_similarity", .run = cosine_similarity, SEVERAL },
  { "pairwise_distance", .run = pairwise_distance, SEVERAL },
  { 0 },
};

static const gold_exception exceptions[] = {
  { .op = "normalize",
    .variant = "f16/2",
    .dtype = SITU_F16,
    .values = true,
    .why = "p = 0.5: the two parts of the gradient cancel, and each is rounded to 16 bits" },
  { 0 },
};

int main(void) { return gold_main("criterion", ops, exceptions); }
