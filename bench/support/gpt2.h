/* GPT-2 (Radford et al. 2019) as a training benchmark: the architecture with random weights and random tokens.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BENCH_GPT2_H
#define SITU_BENCH_GPT2_H

#include "situ/situ.h"

typedef struct gpt2_config {
  int64_t vocabulary, context, width, heads, layers, batch;
} gpt2_config;
/* 124 M parameters; the vocabulary is rounded up to a multiple of 64, as usual. And a small one for a laptop. */
static const gpt2_config gpt2_124m = { 50304, 1024, 768, 12, 12, 8 };
static const gpt2_config gpt2_tiny = { 512, 64, 64, 4, 2, 4 };

/* NULL: recorded. */
situ_nn_module *gpt2_new(const gpt2_config *config);
/* ids [batch, context] of i64 -> logits [batch, context, vocabulary]: situ_nn_forward. */

#endif
