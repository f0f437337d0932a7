/* Embedding.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/fail.h"
#include "nn/nn.h"

typedef struct embedding {
  situ_nn_module base;
  situ_tensor *weight;
  situ_embedding_options options;
} embedding;

static situ_tensor *embedding_forward(situ_nn_module *self, situ_tensor *x) {
  embedding *m = (embedding *)self;
  return situ_embedding(x, m->weight, &m->options);
}

static int embedding_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const embedding *m = (const embedding *)self;
  char padding[48] = "";
  if (m->options.has_padding_idx) snprintf(padding, sizeof padding, ", padding_idx=%" PRId64, m->options.padding_idx);
  return snprintf(buffer, size, "%" PRId64 ", %" PRId64 "%s", situ_size(m->weight, 0), situ_size(m->weight, 1),
                  padding);
}

static const situ_nn_type embedding_type = { .name = "Embedding",
                                             .size = sizeof(embedding),
                                             .forward = embedding_forward,
                                             .single_op = true,
                                             .extra_repr = embedding_repr };

situ_nn_module *situ_nn_embedding(int64_t num_embeddings, int64_t embedding_dim,
                                  const situ_nn_embedding_options *options) {
  static const situ_nn_embedding_options torch;
  if (!options) options = &torch;
  embedding *m = situ_nn_alloc(&embedding_type);
  situ_options where = { .dtype = options->dtype, .device = options->device };
  situ_tensor *weight = situ_nn_init_normal_(situ_empty(SITU_SHAPE(num_embeddings, embedding_dim), &where), 0, 1, NULL);
  if (m && weight && options->has_padding_idx) {
    int64_t row = options->padding_idx + (options->padding_idx < 0 ? num_embeddings : 0);
    if (row < 0 || row >= num_embeddings) {
      situ__fail(SITU_E_INDEX, "nn_embedding", "padding_idx %" PRId64 " of %" PRId64 " rows", options->padding_idx,
                 num_embeddings);
      weight = NULL;
    } else if (!situ_nn_init_zeros_(situ_select(weight, 0, row))) {
      weight = NULL;
    }
    m->options = (situ_embedding_options){ true, row };
  }
  situ_nn_param(m, weight, weight);
  return situ_nn_done(m);
}
