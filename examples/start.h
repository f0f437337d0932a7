/* `--start FILE` writes the weights that an example's training starts from: tools/golden/examples.py trains PyTorch's
   model from the same ones. SPDX-License-Identifier: MIT */
#ifndef SITU_EXAMPLE_START_H
#define SITU_EXAMPLE_START_H

#include <string.h>

#include "situ/io.h"

static inline situ_status save_start(int argc, char **argv, situ_nn_module *net) {
  if (argc < 3 || strcmp(argv[argc - 2], "--start") != 0) return SITU_OK;
  situ_tree *state = situ_nn_state_dict(net);
  situ_status status = situ_save(argv[argc - 1], state, NULL);
  situ_tree_free(state);
  return status;
}

#endif
