/* Types of quantised blocks: names and sizes, as in ggml-common.h.
   SPDX-License-Identifier: MIT */
#include "base/block.h"

const situ__block_facts situ__blocks[SITU_BLOCK_TYPES] = {
  [SITU_BLOCK_NONE] = { "numbers", 0, 0 },  [SITU_BLOCK_Q8_0] = { "Q8_0", 32, 34 },
  [SITU_BLOCK_Q4_0] = { "Q4_0", 32, 18 },   [SITU_BLOCK_Q4_K] = { "Q4_K", 256, 144 },
  [SITU_BLOCK_Q5_K] = { "Q5_K", 256, 176 }, [SITU_BLOCK_Q6_K] = { "Q6_K", 256, 210 },
  [SITU_BLOCK_Q4_1] = { "Q4_1", 32, 20 },   [SITU_BLOCK_Q5_0] = { "Q5_0", 32, 22 },
  [SITU_BLOCK_Q5_1] = { "Q5_1", 32, 24 },   [SITU_BLOCK_IQ4_NL] = { "IQ4_NL", 32, 18 },
};
