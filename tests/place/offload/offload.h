/* What the tests of offloaded modules share: a large model, and where its tensors are.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_OFFLOAD_H
#define SITU_TEST_OFFLOAD_H

#include <stdlib.h>
#include <unistd.h>

#include "place/preflight/models.h"
#include "situ/optim.h"
#include "support/pairs.h"

static situ_nn_module *large(void) {
  situ_nn_module *m = SEQ(LIN(32, 256), situ_nn_batch_norm1d(256, NULL));
  for (int i = 0; i < 14; i++) m = situ_nn_append(situ_nn_append(m, LIN(256, 256)), situ_nn_tanh());
  m = situ_nn_append(m, situ_nn_utils_weight_norm(LIN(256, 256), NULL, 0));
  return situ_nn_append(situ_nn_append(m, situ_nn_dropout(.1)), LIN(256, 4));
}
static const struct kind large_kind = { "large", large, { 2, { 8, 32 } }, 0, MEAN };

static uint64_t bytes_of(situ_nn_module *m) { return (uint64_t)situ_nn_num_parameters(m) * sizeof(float); }

static situ_tensor *input_of(const struct kind *k) { return situ_randn(k->in, &(situ_options){ .device = there() }); }

static situ_nn_module *offloaded(situ_nn_module *m) {
  expect_ok(situ_nn_offload(situ_nn_set_name(m, "net"), there()));
  return m;
}

#endif
