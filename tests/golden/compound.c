/* Golden values from PyTorch 2.15: ops that are made of others.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

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

static void multilabel_margin_loss(gold_call *c) {
  c->out[0] =
      situ_multilabel_margin_loss(c->in[0], gold_in(c, "target"), reduction_of(gold_word(c, "reduction", "mean")));
}

/* ---- what lies between rows ---- */

static void bilinear(gold_call *c) { c->out[0] = situ_bilinear(c->in[0], c->in[1], c->in[2], gold_in(c, "bias")); }
static void linear_activation(gold_call *c) {
  static const char *const words[] = { "", "relu", "gelu_tanh", "gelu", "silu" };
  int k = SITU_ACTIVATION_SILU;
  while (k && strcmp(words[k], gold_word(c, "activation", "")) != 0) k--;
  c->out[0] = situ_linear_activation(c->in[0], c->in[1], gold_in(c, "bias"), (situ_activation)k);
}
static void cov(gold_call *c) { c->out[0] = situ_cov(c->in[0], gold_real(c, "correction", 1)); }
static void dist(gold_call *c) { c->out[0] = situ_dist(c->in[0], c->in[1], gold_real(c, "p", 2)); }
static void pdist(gold_call *c) { c->out[0] = situ_pdist(c->in[0], gold_real(c, "p", 2)); }
static void combinations(gold_call *c) {
  c->out[0] = situ_combinations(c->in[0], (int)gold_int(c, "r", 2), gold_bool(c, "with_replacement", false));
}
/* Of one shape, meta tensors have no answer. */
static void equal(gold_call *c) {
  bool same = false;
  if (c->device.kind == SITU_META || situ_equal(c->in[0], c->in[1], &same) == SITU_OK)
    c->out[0] = situ_scalar_tensor(same, &(situ_options){ .dtype = SITU_BOOL, .device = c->device });
}

/* ---- pieces and joins ---- */

static void split(gold_call *c, int dim) {
  if (gold_has(c, "indices"))
    (void)!situ_tensor_split_indices(c->in[0], gold_list(c, "indices"), dim, c->out, GOLD_MAX_OUTPUTS);
  else (void)!situ_tensor_split(c->in[0], gold_int(c, "sections", 1), dim, c->out, GOLD_MAX_OUTPUTS);
}
static void tensor_split(gold_call *c) { split(c, (int)gold_int(c, "dim", 0)); }
static void hsplit(gold_call *c) { split(c, situ_dim(c->in[0]) > 1); }
static void vsplit(gold_call *c) { split(c, 0); }
static void dsplit(gold_call *c) { split(c, 2); }
static void column_stack(gold_call *c) {
  situ_tensor *parts[GOLD_MAX_INPUTS + 1];
  int count = gold_tensors(c, "tensors", parts);
  c->out[0] = situ_column_stack(parts, count);
}
static void broadcast_tensors(gold_call *c) {
  situ_tensor *parts[GOLD_MAX_INPUTS + 1];
  int count = gold_tensors(c, "tensors", parts);
  (void)!situ_broadcast_tensors(parts, count, c->out);
}
static void diagflat(gold_call *c) {
  c->out[0] = situ_diag(situ_reshape(c->in[0], SITU_SHAPE(-1)), gold_int(c, "offset", 0));
}

/* ---- functions of a number; draws ---- */

static void mvlgamma(gold_call *c) { c->out[0] = situ_mvlgamma(c->in[0], (int)gold_int(c, "p", 1)); }
static void exponential_(gold_call *c) { c->out[0] = situ_exponential_(c->in[0], gold_real(c, "lambd", 1), NULL); }

static const gold_op ops[] = {
  { "multinomial", .run = multinomial },
  { "repeat_interleave_tensor", .run = repeat_interleave },
  { "unique_dim", .run = unique_dim },
  { "linalg_multi_dot", .run = multi_dot, .steps = 16, .grad_steps = 16, .why = GOLD_ROUNDS },
  { "linalg_vander", .run = vander, .steps = 8, .grad_steps = 8, .why = GOLD_ROUNDS },
  { "linalg_householder_product", .two = situ_linalg_householder_product, .steps = 16, .grad_steps = 32,
    .why = GOLD_ROUNDS },
  { "ctc_loss", .run = ctc_loss, .steps = 32, .grad_steps = 64, .why = GOLD_ROUNDS },
  { "multilabel_margin_loss", .run = multilabel_margin_loss, .steps = 16, .grad_steps = 16, .why = GOLD_ROUNDS },
  { "bilinear", .run = bilinear, .steps = 8, .grad_steps = 16, .why = GOLD_ROUNDS },
  { "linear_activation", .run = linear_activation, .steps = 4, .grad_steps = 8, .why = GOLD_ROUNDS },
  { "cov", .run = cov, .steps = 8, .grad_steps = 16, .why = GOLD_ROUNDS },
  { "corrcoef", .one = situ_corrcoef, .steps = 16, .grad_steps = 64, .why = GOLD_ROUNDS },
  { "dist", .run = dist, .steps = 4, .grad_steps = 8, .why = GOLD_ROUNDS },
  { "pdist", .run = pdist, .steps = 4, .grad_steps = 8, .why = GOLD_ROUNDS },
  { "combinations", .run = combinations },
  { "equal", .run = equal },
  { "tensor_split", .run = tensor_split },
  { "hsplit", .run = hsplit },
  { "vsplit", .run = vsplit },
  { "dsplit", .run = dsplit },
  { "column_stack", .run = column_stack },
  { "broadcast_tensors", .run = broadcast_tensors },
  { "diagflat", .run = diagflat },
  { "argwhere", .one = situ_nonzero },
  { "mvlgamma", .run = mvlgamma, .steps = 16, .grad_steps = 16, .why = GOLD_ROUNDS },
  { "special_ndtr", .one = situ_special_ndtr, .steps = 4, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "exponential_", .run = exponential_ },
  { 0 },
};

#define NO_VALUES "a meta tensor has no values, on which the size depends"
static const gold_exception exceptions[] = {
  { "repeat_interleave_tensor", .device = "meta", .why = NO_VALUES },
  { "unique_dim", .device = "meta", .why = NO_VALUES },
  { "combinations", .device = "meta", .why = NO_VALUES },
  { "argwhere", .device = "meta", .why = NO_VALUES },
  { 0 },
};

int main(void) { return gold_main("compound", ops, exceptions); }
