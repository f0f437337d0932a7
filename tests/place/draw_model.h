/* The models that the tests of drawing look at.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_DRAW_MODEL_H
#define SITU_TEST_DRAW_MODEL_H

#include <stdio.h>
#include <string.h>

#include "situ/nn.h"
#include "situ/place.h"
#include "situ/sys/alloc.h"
#include "situ/sys/sim.h"
#include "support/modules.h"

#define DRAW_TEST(name) cmocka_unit_test_setup_teardown(name, test_begin_modules, test_end_modules)

static inline void must(situ_status status) {
  if (status != SITU_OK) fail_msg("%s", situ_error_message());
}

/* Four blocks of two layers on two devices, a head tied to the embedding, a buffer: `0` embedding,
   `1` blocks, `2` batch norm, `3` a second name of the embedding. */
static inline situ_nn_module *draw_model(void) {
  situ_nn_module *embed = situ_nn_embedding(64, 8, NULL);
  situ_nn_module *block[4];
  for (int i = 0; i < 4; i++)
    block[i] = situ_nn_sequential(situ_nn_linear(8, 16, NULL), situ_nn_relu(), situ_nn_linear(16, 8, NULL));
  situ_nn_module *blocks = situ_nn_module_list(block[0], block[1], block[2], block[3]);
  situ_nn_module *m = situ_nn_module_list(embed, blocks, situ_nn_batch_norm1d(8, NULL), situ_nn_retain(embed));
  assert_non_null(m);
  must(situ_sim_create(2));
  for (int i = 0; i < 4; i++) must(situ_nn_to(block[i], situ_dev(i < 3 ? "sim:0" : "sim:1")));
  return m;
}

#endif
