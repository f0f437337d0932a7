/* Golden values from PyTorch 2.15: ops that are made of others.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

/* Of one shape, meta tensors have no answer. */
static void equal(gold_call *c) {
  bool same = false;
  if (c->device.kind == SITU_META || situ_equal(c->in[0], c->in[1], &same) == SITU_OK)
    c->out[0] = situ_scalar_tensor(same, &(situ_options){ .dtype = SITU_BOOL, .device = c->device });
}
static void hsplit(gold_call *c) {
  (void)gold_invoke(c, "tensor_split tensor_split_indices", situ_dim(c->in[0]) > 1 ? "dim=1" : "dim=0");
}
static void diagflat(gold_call *c) {
  c->out[0] = situ_diag(situ_reshape(c->in[0], SITU_SHAPE(-1)), gold_int(c, "offset", 0));
}

static const gold_op ops[] = {
  { "linalg_multi_dot", GOLD_STEPS(16, 16) },
  { "linalg_vander", GOLD_STEPS(8, 8) },
  { "linalg_householder_product", GOLD_STEPS(16, 32) },
  { "ctc_loss", GOLD_STEPS(32, 64) },
  { "multilabel_margin_loss", GOLD_STEPS(16, 16) },
  { "bilinear", GOLD_STEPS(8, 16) },
  { "linear_activation", GOLD_STEPS(4, 8) },
  { "cov", GOLD_STEPS(8, 16) },
  { "corrcoef", GOLD_STEPS(16, 64) },
  { "dist", GOLD_STEPS(4, 8) },
  { "pdist", GOLD_STEPS(4, 8) },
  { "equal", .run = equal },
  { "hsplit", .run = hsplit },
  { "vsplit", .call = "tensor_split tensor_split_indices" },
  { "dsplit", .with = "dim=2", .call = "tensor_split tensor_split_indices" },
  { "diagflat", .run = diagflat },
  { "argwhere", .call = "nonzero" },
  { "mvlgamma", GOLD_STEPS(16, 16) },
  { "special_ndtr", GOLD_STEPS(4, 4) },
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
