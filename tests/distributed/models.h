/* Small models, and the data of micro-batches by their number, for tests of training over ranks.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_DIST_MODELS_H
#define SITU_TEST_DIST_MODELS_H

#include "situ/situ.h"
#include "support/options.h"

enum { DIST_BATCH = 4, DIST_KINDS = 3 };

static inline situ_nn_module *dist_mlp(void) {
  return situ_nn_sequential(situ_nn_linear(6, 16, NULL), situ_nn_tanh(), situ_nn_linear(16, 3, NULL));
}
static inline situ_nn_module *dist_cnn(void) {
  return situ_nn_sequential(situ_nn_conv2d(1, 4, SITU_DIMS(3), NULL), situ_nn_batch_norm2d(4, NULL), situ_nn_relu(),
                            situ_nn_flatten(1, -1), situ_nn_linear(64, 3, NULL));
}
static inline situ_nn_module *dist_transformer(void) {
  const situ_nn_transformer_options options =
      OPTIONS_OF(situ_nn_transformer, with.dim_feedforward = 16, with.batch_first = true, with.dropout = 0);
  return situ_nn_sequential(situ_nn_transformer_encoder_layer(8, 2, &options), situ_nn_flatten(1, -1),
                            situ_nn_linear(40, 3, NULL));
}

typedef struct dist_kind {
  const char *name;
  situ_nn_module *(*make)(void);
  situ_shape input; /* of one micro-batch */
} dist_kind;
static const dist_kind dist_kinds[DIST_KINDS] = { { "mlp", dist_mlp, { 2, { DIST_BATCH, 6 } } },
                                                  { "cnn", dist_cnn, { 4, { DIST_BATCH, 1, 6, 6 } } },
                                                  { "transformer", dist_transformer, { 3, { DIST_BATCH, 5, 8 } } } };

static inline void dist_data(const dist_kind *kind, situ_device device, int64_t number, situ_tensor **x,
                             situ_tensor **y) {
  situ_generator g = situ_generator_seeded(1000 + (uint64_t)number);
  *x = situ_to(situ_randn(kind->input, &(situ_options){ .generator = &g }), device);
  *y = situ_to(situ_randint(0, 3, SITU_SHAPE(DIST_BATCH), &(situ_options){ .generator = &g }), device);
}

/* The parameters that are vectors, as those that usually have no weight decay, or the others. */
static inline situ_tree *dist_group(situ_nn_module *model, bool vectors) {
  situ_tree *all = situ_nn_parameters(model), *group = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(all) && group; i++) {
    situ_tensor *p = situ_tree_tensor_at(all, i);
    if ((situ_dim(p) == 1) == vectors) group = situ_tree_put(group, situ_tree_key(all, i), situ_tree_tensor(p));
  }
  situ_tree_free(all);
  return group;
}

/* Options for them beside the first group's: a real 0 is among them. */
static inline situ_optim_options dist_vectors(const situ_optim *optim) {
  situ_optim_options options = situ_optim_group_options(optim, 0);
  options.lr = 0.02;
  options.weight_decay = 0;
  return options;
}

/* Forward and backward of one micro-batch. */
static inline situ_status dist_micro_batch(const dist_kind *kind, situ_nn_module *model, situ_device device,
                                           int64_t number) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x, *y;
  dist_data(kind, device, number, &x, &y);
  const situ_status status = situ_backward(situ_cross_entropy(situ_nn_forward(model, x), y, NULL), NULL);
  const situ_status end = situ_scope_end(&s);
  return status == SITU_OK ? end : status;
}

#endif
