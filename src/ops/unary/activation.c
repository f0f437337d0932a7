/* Activations that consist of other ops: relu6, logsigmoid, threshold. Those of one formula are rows of the
   table (unary.c).
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

situ_tensor *situ_relu6(situ_tensor *input) {
  SITU__MADE_OF_OPS("relu6");
  return situ_hardtanh(input, 0, 6);
}
situ_tensor *situ_relu6_(situ_tensor *input) {
  SITU__MADE_OF_OPS("relu6_");
  return situ_hardtanh_(input, 0, 6);
}

/* From 40 on softplus is its argument to the last bit of f64. */
situ_tensor *situ_logsigmoid(situ_tensor *input) {
  SITU__MADE_OF_OPS("logsigmoid");
  static const situ_op schema = { .name = "logsigmoid", .operand = { { "input", SITU_FLOATING } } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  return situ_neg(situ_softplus(situ_neg(input), 1, 40));
}

static const situ_op threshold_schema = { .name = "threshold",
                                          .operand = { { "input", SITU_FLOATING | SITU_INTEGRAL } } };
situ_tensor *situ_threshold(situ_tensor *input, double threshold, double value) {
  SITU__MADE_OF_OPS("threshold");
  if (!situ__together(&threshold_schema, &input, 1)) return NULL;
  return situ_masked_fill(input, situ_le_scalar(input, threshold), value);
}
situ_tensor *situ_threshold_(situ_tensor *input, double threshold, double value) {
  SITU__MADE_OF_OPS("threshold_");
  if (!situ__together(&threshold_schema, &input, 1)) return NULL;
  return situ_masked_fill_(input, situ_le_scalar(input, threshold), value);
}
