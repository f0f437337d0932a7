/* Linear and Embedding on quantised weights.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/fail.h"
#include "nn/nn.h"
#include "situ/nn/adapt.h"

typedef struct block_layer {
  situ_nn_module base;
  situ_tensor *weight, *bias;
} block_layer;

/* The weight, of which nothing is known before a state is loaded. */
static bool add_weight(block_layer *m, situ_shape shape, situ_block_type type, situ_device device) {
  m->base.home = device;
  return situ_nn_buffer(m, weight, situ_blocks_from_host(NULL, 0, &shape, type, &(situ_options){ .device = device })) !=
         NULL;
}

/* ---- linear ---- */

static situ_tensor *linear_forward(situ_nn_module *self, situ_tensor *x) {
  const block_layer *m = (const block_layer *)self;
  return situ_block_linear(x, m->weight, m->bias);
}
static int linear_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const block_layer *m = (const block_layer *)self;
  const situ_shape shape = situ_block_shape(m->weight);
  return snprintf(buffer, size, "in_features=%" PRId64 ", out_features=%" PRId64 ", type=%s, bias=%s", shape.dim[1],
                  shape.dim[0], situ_block_name(situ_block_type_of(m->weight)), situ__nn_bool(m->bias != NULL));
}
static int linear_brief(const situ_nn_module *self, char *buffer, size_t size) {
  const block_layer *m = (const block_layer *)self;
  const situ_shape shape = situ_block_shape(m->weight);
  return snprintf(buffer, size, "%" PRId64 " -> %" PRId64 ", %s", shape.dim[1], shape.dim[0],
                  situ_block_name(situ_block_type_of(m->weight)));
}

static const situ_nn_type linear_type = { .name = "BlockLinear",
                                          .size = sizeof(block_layer),
                                          .forward = linear_forward,
                                          .single_op = true,
                                          .extra_repr = linear_repr,
                                          .brief = linear_brief };

situ_nn_module *situ_nn_block_linear(int64_t in_features, int64_t out_features, situ_block_type type,
                                     const situ_nn_linear_options *options) {
  static const situ_nn_linear_options torch;
  const situ_nn_linear_options *o = options ? options : &torch;
  if (o->activation != SITU_ACTIVATION_NONE)
    return situ__fail(SITU_E_ARG, "nn_block_linear", "activation is %d, must be none", (int)o->activation), NULL;
  block_layer *m = situ_nn_alloc(&linear_type);
  if (!m) return NULL;
  add_weight(m, SITU_SHAPE(out_features, in_features), type, o->device);
  if (!o->no_bias) {
    const double bound = in_features > 0 ? 1 / sqrt((double)in_features) : 0;
    situ_tensor *bias = situ_empty(SITU_SHAPE(out_features), &(situ_options){ .dtype = o->dtype, .device = o->device });
    situ_nn_param(m, bias, situ_nn_init_uniform_(bias, -bound, bound, NULL));
  }
  return situ_nn_done(m);
}

/* ---- embedding ---- */

static situ_tensor *embedding_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_block_embedding(x, ((const block_layer *)self)->weight);
}
static int embedding_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const block_layer *m = (const block_layer *)self;
  const situ_shape shape = situ_block_shape(m->weight);
  return snprintf(buffer, size, "%" PRId64 ", %" PRId64 ", type=%s", shape.dim[0], shape.dim[1],
                  situ_block_name(situ_block_type_of(m->weight)));
}

static const situ_nn_type embedding_type = { .name = "BlockEmbedding",
                                             .size = sizeof(block_layer),
                                             .forward = embedding_forward,
                                             .single_op = true,
                                             .extra_repr = embedding_repr };

situ_nn_module *situ_nn_block_embedding(int64_t num_embeddings, int64_t embedding_dim, situ_block_type type,
                                        const situ_options *options) {
  block_layer *m = situ_nn_alloc(&embedding_type);
  if (m) add_weight(m, SITU_SHAPE(num_embeddings, embedding_dim), type, options ? options->device : (situ_device){ 0 });
  return situ_nn_done(m);
}
