/* A decoder in Llama's shape (Touvron et al., arXiv:2302.13971): rotary positions, RMS norms, grouped queries, SiLU
   gates, and a cache of keys and values.
   SPDX-License-Identifier: MIT */
#ifndef SITU_EXAMPLE_LLAMA_H
#define SITU_EXAMPLE_LLAMA_H

#include <math.h>

#include "situ/situ.h"

enum { WIDTH = 64, HEADS = 4, GROUPS = 2, HEAD = WIDTH / HEADS, HIDDEN = 160, LAYERS = 2, LONGEST = 264 };

/* ---- a layer: attention and a gated network, each added to x ---- */

typedef struct {
  situ_nn_module base;
  situ_nn_module *norm1, *q_proj, *k_proj, *v_proj, *o_proj, *norm2, *gate_proj, *up_proj, *down_proj;
} layer;

/* What a layer gets beside x: sine and cosine of each position [L, HEAD], and its cache, of which `at` are filled. */
typedef struct {
  situ_tensor *cos, *sin, *keys, *values; /* [1, GROUPS, LONGEST, HEAD]; NULL: no cache */
  int64_t at;
} layer_kwargs;

static situ_tensor *heads(situ_tensor *x, int64_t count) { /* [N, L, count HEAD] to [N, count, L, HEAD] */
  return situ_transpose(situ_unflatten(x, 2, SITU_DIMS(count, HEAD)), 1, 2);
}
static situ_tensor *rotate(situ_tensor *x, const layer_kwargs *k) { /* rotary positions: Su et al., arXiv:2104.09864 */
  situ_tensor *a = situ_narrow(x, -1, 0, HEAD / 2), *b = situ_narrow(x, -1, HEAD / 2, HEAD / 2);
  situ_tensor *turned = situ_cat((situ_tensor *[]){ situ_neg(b), a }, 2, -1);
  return situ_add(situ_mul(x, k->cos), situ_mul(turned, k->sin));
}
/* Puts x behind what the cache has and returns all of it. */
static situ_tensor *append(situ_tensor *cache, situ_tensor *x, int64_t at) {
  int64_t length = situ_size(x, 2);
  if (!cache) return x;
  return situ_copy_(situ_narrow(cache, 2, at, length), x) ? situ_narrow(cache, 2, 0, at + length) : NULL;
}

static situ_tensor *layer_forward(situ_nn_module *self, situ_tensor *x, const void *kwargs) {
  layer *m = (layer *)self;
  const layer_kwargs *k = kwargs;
  situ_tensor *h = situ_nn_forward(m->norm1, x);
  situ_tensor *query = rotate(heads(situ_nn_forward(m->q_proj, h), HEADS), k);
  situ_tensor *key = append(k->keys, rotate(heads(situ_nn_forward(m->k_proj, h), GROUPS), k), k->at);
  situ_tensor *value = append(k->values, heads(situ_nn_forward(m->v_proj, h), GROUPS), k->at);
  situ_attention_options causal = situ_attention_defaults();
  causal.is_causal = k->at == 0;
  h = situ_scaled_dot_product_attention(query, situ_repeat_interleave(key, HEADS / GROUPS, SITU_DIMS(1)),
                                        situ_repeat_interleave(value, HEADS / GROUPS, SITU_DIMS(1)), &causal);
  x = situ_add(x, situ_nn_forward(m->o_proj, situ_flatten(situ_transpose(h, 1, 2), 2, 3)));
  h = situ_nn_forward(m->norm2, x);
  h = situ_mul(situ_silu(situ_nn_forward(m->gate_proj, h)), situ_nn_forward(m->up_proj, h));
  return situ_add(x, situ_nn_forward(m->down_proj, h));
}
static const situ_nn_type layer_type = { .name = "Layer", .size = sizeof(layer), .forward_kwargs = layer_forward };

static situ_nn_module *layer_new(void) {
  situ_nn_linear_options plain = { .no_bias = true };
  layer *m = situ_nn_alloc(&layer_type);
  situ_nn_child(m, norm1, situ_nn_rms_norm(SITU_SHAPE(WIDTH), NULL));
  situ_nn_child(m, q_proj, situ_nn_linear(WIDTH, HEADS * HEAD, &plain));
  situ_nn_child(m, k_proj, situ_nn_linear(WIDTH, GROUPS * HEAD, &plain));
  situ_nn_child(m, v_proj, situ_nn_linear(WIDTH, GROUPS * HEAD, &plain));
  situ_nn_child(m, o_proj, situ_nn_linear(HEADS * HEAD, WIDTH, &plain));
  situ_nn_child(m, norm2, situ_nn_rms_norm(SITU_SHAPE(WIDTH), NULL));
  situ_nn_child(m, gate_proj, situ_nn_linear(WIDTH, HIDDEN, &plain));
  situ_nn_child(m, up_proj, situ_nn_linear(WIDTH, HIDDEN, &plain));
  situ_nn_child(m, down_proj, situ_nn_linear(HIDDEN, WIDTH, &plain));
  return situ_nn_done(m);
}

/* ---- the model ---- */

typedef struct {
  situ_nn_module base;
  situ_nn_module *tokens, *layers, *norm, *head;
  situ_tensor *cos, *sin; /* [LONGEST, HEAD] */
} llama;
typedef struct {
  situ_tensor *keys[LAYERS], *values[LAYERS];
  int64_t filled;
} llama_cache;

/* The scores of the next symbol at each place of ids [N, L]; kwargs: a llama_cache, or NULL. */
static situ_tensor *llama_forward(situ_nn_module *self, situ_tensor *ids, const void *kwargs) {
  llama *m = (llama *)self;
  const llama_cache *cache = kwargs;
  int64_t at = cache ? cache->filled : 0, length = situ_size(ids, 1);
  layer_kwargs k = { .at = at, .cos = situ_narrow(m->cos, 0, at, length), .sin = situ_narrow(m->sin, 0, at, length) };
  situ_tensor *x = situ_nn_forward(m->tokens, ids);
  for (int i = 0; i < LAYERS; i++) {
    if (cache) k.keys = cache->keys[i], k.values = cache->values[i];
    x = situ_nn_forward_kwargs(situ_nn_at(m->layers, i), x, &k);
  }
  return situ_nn_forward(m->head, situ_nn_forward(m->norm, x));
}
static const situ_nn_type llama_type = { .name = "Llama", .size = sizeof(llama), .forward_kwargs = llama_forward };

static inline situ_nn_module *llama_new(int64_t symbols) {
  llama *m = situ_nn_alloc(&llama_type);
  situ_nn_child(m, tokens, situ_nn_embedding(symbols, WIDTH, NULL));
  situ_nn_child(m, layers, situ_nn_module_list_of(0, NULL));
  for (int i = 0; m && i < LAYERS; i++) situ_nn_append(m->layers, layer_new());
  situ_nn_child(m, norm, situ_nn_rms_norm(SITU_SHAPE(WIDTH), NULL));
  situ_nn_child(m, head, situ_nn_linear(WIDTH, symbols, &(situ_nn_linear_options){ .no_bias = true }));
  situ_tensor *rate = situ_exp(situ_mul_scalar(situ_arange(0, HEAD / 2, 1, NULL), -2 * log(10000.) / HEAD));
  situ_tensor *angle = situ_outer(situ_arange(0, LONGEST, 1, NULL), rate);
  angle = situ_cat((situ_tensor *[]){ angle, angle }, 2, 1);
  situ_nn_transient_buffer(m, cos, situ_cos(angle));
  situ_nn_transient_buffer(m, sin, situ_sin(angle));
  return situ_nn_done(m);
}

/* An empty cache on the default device, for texts of at most LONGEST symbols. */
static inline bool llama_cache_new(llama_cache *cache) {
  *cache = (llama_cache){ 0 };
  for (int i = 0; i < LAYERS; i++) {
    cache->keys[i] = situ_zeros(SITU_SHAPE(1, GROUPS, LONGEST, HEAD), NULL);
    cache->values[i] = situ_zeros_like(cache->keys[i], NULL);
    if (!cache->values[i]) return false;
  }
  return true;
}

#endif
