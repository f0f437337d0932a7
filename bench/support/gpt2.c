/* GPT-2's layers: every line is a public call.
   SPDX-License-Identifier: MIT */
#include "support/gpt2.h"

/* ---- a block: x + attention(norm(x)), then x + mlp(norm(x)), whose gelu is the first layer's ---- */

typedef struct block {
  situ_nn_module base;
  situ_nn_module *norm_1, *qkv, *project, *norm_2, *widen, *narrow;
  int64_t heads;
} block;

static situ_tensor *attend(const block *m, situ_tensor *x) {
  const int64_t batch = situ_size(x, 0), length = situ_size(x, 1), width = situ_size(x, 2);
  situ_tensor *qkv = situ_nn_forward(m->qkv, x), *part[3];
  if (situ_chunk(qkv, 3, 2, part, 3) < 0) return NULL;
  for (int k = 0; k < 3; k++)
    part[k] = situ_transpose(situ_reshape(part[k], SITU_SHAPE(batch, length, m->heads, width / m->heads)), 1, 2);
  situ_attention_options causal = situ_attention_defaults();
  causal.is_causal = true;
  situ_tensor *y = situ_scaled_dot_product_attention(part[0], part[1], part[2], &causal);
  return situ_nn_forward(m->project, situ_reshape(situ_transpose(y, 1, 2), SITU_SHAPE(batch, length, width)));
}

static situ_tensor *block_forward(situ_nn_module *self, situ_tensor *x) {
  const block *m = (const block *)self;
  x = situ_add(x, attend(m, situ_nn_forward(m->norm_1, x)));
  situ_tensor *wide = situ_nn_forward(m->widen, situ_nn_forward(m->norm_2, x));
  return situ_add(x, situ_nn_forward(m->narrow, wide));
}
static const situ_nn_type block_type = { .name = "Block", .size = sizeof(block), .forward = block_forward };

static situ_nn_module *block_new(const gpt2_config *c) {
  const situ_nn_linear_options gelu = { .activation = SITU_ACTIVATION_GELU_TANH };
  block *m = situ_nn_alloc(&block_type);
  if (m) m->heads = c->heads;
  situ_nn_child(m, norm_1, situ_nn_layer_norm(SITU_SHAPE(c->width), NULL));
  situ_nn_child(m, qkv, situ_nn_linear(c->width, 3 * c->width, NULL));
  situ_nn_child(m, project, situ_nn_linear(c->width, c->width, NULL));
  situ_nn_child(m, norm_2, situ_nn_layer_norm(SITU_SHAPE(c->width), NULL));
  situ_nn_child(m, widen, situ_nn_linear(c->width, 4 * c->width, &gelu));
  situ_nn_child(m, narrow, situ_nn_linear(4 * c->width, c->width, NULL));
  return situ_nn_done(m);
}

/* ---- the whole; the head's weight is the tokens' ---- */

typedef struct gpt2 {
  situ_nn_module base;
  situ_nn_module *tokens, *positions, *blocks, *norm;
} gpt2;

static situ_tensor *gpt2_forward(situ_nn_module *self, situ_tensor *ids) {
  gpt2 *m = (gpt2 *)self;
  situ_tensor *place = situ_arange(0, (double)situ_size(ids, 1), 1, NULL);
  situ_tensor *x = situ_add(situ_nn_forward(m->tokens, ids), situ_nn_forward(m->positions, place));
  for (int64_t i = 0; i < situ_nn_len(m->blocks); i++) x = situ_nn_forward(situ_nn_at(m->blocks, i), x);
  return situ_linear(situ_nn_forward(m->norm, x), situ_nn_get_tensor(m->tokens, "weight"), NULL);
}
static const situ_nn_type gpt2_type = { .name = "GPT2", .size = sizeof(gpt2), .forward = gpt2_forward };

situ_nn_module *gpt2_new(const gpt2_config *c) {
  gpt2 *m = situ_nn_alloc(&gpt2_type);
  situ_nn_child(m, tokens, situ_nn_embedding(c->vocabulary, c->width, NULL));
  situ_nn_child(m, positions, situ_nn_embedding(c->context, c->width, NULL));
  situ_nn_child(m, blocks, situ_nn_module_list_of(0, NULL));
  for (int64_t i = 0; m && i < c->layers; i++) situ_nn_append(m->blocks, block_new(c));
  situ_nn_child(m, norm, situ_nn_layer_norm(SITU_SHAPE(c->width), NULL));
  return situ_nn_done(m);
}
