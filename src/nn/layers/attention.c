/* MultiheadAttention.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>

#include "base/fail.h"
#include "nn/nn.h"
#include "situ/sys/layers.h"

typedef struct multihead_attention {
  situ_nn_module base;
  situ_tensor *in_proj_weight, *in_proj_bias, *q_proj_weight, *k_proj_weight, *v_proj_weight;
  situ_nn_module *out_proj;
  int64_t width, heads;
  int64_t inner; /* width of the heads together: the module's own, unless it has a part of them */
  double dropout;
  bool batch_first;
} multihead_attention;

/* Properties of a call, derived from its inputs. */
typedef struct request {
  situ_tensor *q, *k, *v, *key_padding_mask, *attn_mask;
  bool causal, weights, per_head;
} request;

/* ---- masks ---- */

/* In torch's masks true means: left out. Converted to numbers to add: -Inf there. */
static situ_tensor *additive(situ_tensor *mask, situ_tensor *like) {
  if (situ_dtype_of(mask) != SITU_BOOL) return mask;
  situ_options options = { .dtype = situ_dtype_of(like), .device = situ_device_of(mask) };
  return situ_masked_fill(situ_zeros(situ_shape_of(mask), &options), mask, -INFINITY);
}

static situ_tensor *causal_mask(int64_t rows, int64_t columns, situ_tensor *like) {
  situ_options options = { .dtype = situ_dtype_of(like), .device = situ_device_of(like) };
  return situ_triu(situ_full(SITU_SHAPE(rows, columns), -INFINITY, &options), 1);
}

/* The sum of all masks, broadcastable to [N, heads, L, S], in *out (NULL: none). q is [N, L, E], k is [N, S, E]. */
static bool merge_masks(const multihead_attention *m, const request *r, situ_tensor *q, situ_tensor *k,
                        situ_tensor **out) {
  int64_t batch = situ_size(q, 0), rows = situ_size(q, 1), columns = situ_size(k, 1);
  situ_tensor *part[3] = { NULL, NULL, NULL };
  int count = 0;
  *out = NULL;
  if (r->attn_mask) {
    situ_tensor *mask = additive(r->attn_mask, q);
    if (situ_dim(r->attn_mask) == 3) mask = situ_view(mask, SITU_SHAPE(batch, m->heads, rows, columns));
    if (!(part[count++] = mask)) return false;
  }
  if (r->key_padding_mask) {
    situ_tensor *mask = additive(r->key_padding_mask, q);
    if (!(part[count++] = situ_view(mask, SITU_SHAPE(batch, 1, 1, columns)))) return false;
  }
  /* Without other masks, attention itself applies the causal mask, which then needs no memory. */
  if (r->causal && (count || r->weights) && !(part[count++] = causal_mask(rows, columns, q))) return false;
  if (count) *out = part[0];
  for (int i = 1; i < count && *out; i++) *out = situ_add(*out, part[i]);
  return count == 0 || *out;
}

/* ---- projections ---- */

static situ_tensor *third(situ_tensor *t, int i, int64_t width) {
  return t ? situ_narrow(t, 0, i * width, width) : NULL;
}

/* Projects [N, L, E] by the i-th part of the weights, and splits heads: [N, heads, L, E / heads]. */
static situ_tensor *project(const multihead_attention *m, situ_tensor *x, int i) {
  situ_tensor *const own[] = { m->q_proj_weight, m->k_proj_weight, m->v_proj_weight };
  situ_tensor *weight = m->in_proj_weight ? third(m->in_proj_weight, i, m->inner) : own[i];
  if (m->in_proj_bias && !weight) return NULL;
  x = situ_linear(x, weight, third(m->in_proj_bias, i, m->inner));
  if (!x) return NULL;
  return situ_transpose(situ_view(x, SITU_SHAPE(situ_size(x, 0), situ_size(x, 1), m->heads, m->inner / m->heads)), 1,
                        2);
}

/* Computes q, k and v of self-attention in one product. */
static bool project_together(const multihead_attention *m, situ_tensor *x, situ_tensor *qkv[3]) {
  x = situ_linear(x, m->in_proj_weight, m->in_proj_bias);
  if (!x) return false;
  x = situ_view(x, SITU_SHAPE(situ_size(x, 0), situ_size(x, 1), 3, m->heads, m->inner / m->heads));
  x = situ_permute(x, SITU_DIMS(2, 0, 3, 1, 4));
  for (int i = 0; i < 3; i++) qkv[i] = situ_select(x, 0, i);
  return qkv[0] && qkv[1] && qkv[2];
}

/* ---- the call ---- */

/* [L, N, E] or [L, E] as [N, L, E]. */
static situ_tensor *batched(const multihead_attention *m, situ_tensor *x) {
  if (!x) return NULL;
  if (situ_dim(x) == 2) return situ_unsqueeze(x, 0);
  return m->batch_first ? x : situ_transpose(x, 0, 1);
}

static bool attend(const multihead_attention *m, const request *r, situ_tensor **out, situ_tensor **weights) {
  bool self = r->q == r->k && r->k == r->v && m->in_proj_weight;
  situ_tensor *q = batched(m, r->q), *k = self ? q : batched(m, r->k), *v = self ? q : batched(m, r->v), *mask, *qkv[3];
  if (!q || !k || !v || !merge_masks(m, r, q, k, &mask)) return false;
  if (self) {
    if (!project_together(m, q, qkv)) return false;
  } else {
    situ_tensor *const from[] = { q, k, v };
    for (int i = 0; i < 3; i++)
      if (!(qkv[i] = project(m, from[i], i))) return false;
  }
  double p = m->base.training ? m->dropout : 0;
  situ_tensor *y, *w = NULL;
  if (r->weights) {
    situ_tensor *scores =
        situ_matmul(situ_mul_scalar(qkv[0], 1 / sqrt((double)(m->inner / m->heads))), situ_transpose(qkv[1], 2, 3));
    if (mask) scores = situ_add(scores, mask);
    w = situ_dropout(situ_softmax(scores, -1), p, m->base.training, NULL);
    y = situ_matmul(w, qkv[2]);
    if (!r->per_head) w = situ_mean(w, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
  } else {
    situ_attention_options o = situ_attention_defaults();
    o.attn_mask = mask;
    o.is_causal = r->causal && !mask;
    o.dropout_p = p;
    y = situ_scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], &o);
  }
  if (!y) return false;
  y = situ_reshape(situ_transpose(y, 1, 2), SITU_SHAPE(situ_size(q, 0), situ_size(q, 1), m->inner));
  y = situ_nn_forward(m->out_proj, y);
  if (situ_dim(r->q) == 2) {
    y = y ? situ_select(y, 0, 0) : NULL;
    w = w ? situ_select(w, 0, 0) : NULL;
  } else if (!m->batch_first && y) {
    y = situ_transpose(y, 0, 1);
  }
  *out = y;
  *weights = w;
  return y && (w || !r->weights);
}

static bool check(const multihead_attention *m, const request *r) {
  int ndim = situ_dim(r->q);
  if ((ndim != 2 && ndim != 3) || situ_dim(r->k) != ndim || situ_dim(r->v) != ndim)
    situ__fail(SITU_E_SHAPE, "nn_multihead_attention",
               "query, key and value need 3 dimensions each, or 2 without a batch, not %d, %d and %d", ndim,
               situ_dim(r->k), situ_dim(r->v));
  else if (r->attn_mask && situ_dim(r->attn_mask) != 2 && situ_dim(r->attn_mask) != 3)
    situ__fail(SITU_E_SHAPE, "nn_multihead_attention", "attn_mask needs 2 or 3 dimensions, not %d",
               situ_dim(r->attn_mask));
  else if (r->weights && m->inner != m->width)
    situ__fail(SITU_E_UNSUPPORTED, "nn_multihead_attention",
               "the module has %" PRId64 " of its heads, and no attention weights of the others", m->heads);
  else if (r->causal && r->attn_mask)
    situ__fail(SITU_E_ARG, "nn_multihead_attention", "is_causal and attn_mask exclude each other");
  else if (situ_size(r->q, -1) != m->width)
    situ__fail(SITU_E_SHAPE, "nn_multihead_attention", "query is %" PRId64 " wide, not %" PRId64, situ_size(r->q, -1),
               m->width);
  else return true;
  return false;
}

static situ_tensor *optional(const situ_tree *dict, const char *key) {
  const situ_tree *item = situ_tree_find(dict, key);
  return situ_tree_kind_of(item) == SITU_TREE_NONE ? NULL : situ_tree_value(item);
}

static bool read(const situ_tree *in, request *r) {
  *r = (request){ 0 };
  if (situ_tree_kind_of(in) == SITU_TREE_DICT) {
    *r = (request){ situ_tree_get(in, "query"),         situ_tree_get(in, "key"),
                    situ_tree_get(in, "value"),         optional(in, "key_padding_mask"),
                    optional(in, "attn_mask"),          situ_tree_find(in, "is_causal"),
                    situ_tree_find(in, "need_weights"), situ_tree_find(in, "per_head_weights") };
    return r->q && r->k && r->v;
  }
  if (situ_tree_count(in) == 3) {
    r->q = situ_tree_tensor_at(in, 0);
    r->k = situ_tree_tensor_at(in, 1);
    r->v = situ_tree_tensor_at(in, 2);
  } else {
    r->q = r->k = r->v = situ_tree_value(in);
  }
  return r->q && r->k && r->v;
}

static situ_tree *attention_call(situ_nn_module *self, const situ_tree *inputs) {
  const multihead_attention *m = (const multihead_attention *)self;
  situ_tensor *out, *weights;
  request r;
  if (!read(inputs, &r) || !check(m, &r) || !attend(m, &r, &out, &weights)) return NULL;
  return r.weights ? SITU_TREE(out, weights) : SITU_TREE(out);
}

situ_tree *situ__nn_put_flag(situ_tree *dict, const char *key, bool yes) {
  return yes ? situ_tree_put(dict, key, situ_tree_none()) : dict;
}
situ_tree *situ__nn_put_tensor(situ_tree *dict, const char *key, situ_tensor *t) {
  return t ? situ_tree_put(dict, key, situ_tree_tensor(t)) : dict;
}

situ_tensor *situ_nn_attend(situ_nn_module *attention, situ_tensor *query, situ_tensor *key, situ_tensor *value,
                            const situ_nn_attend_options *options) {
  static const situ_nn_attend_options torch;
  const char *op = "nn_attend";
  if (!situ__nn_given(op, "attention", attention) || !situ__valid(op, "query", query, SITU__A_TENSOR) ||
      !situ__valid(op, "key", key, SITU__A_TENSOR) || !situ__valid(op, "value", value, SITU__A_TENSOR))
    return NULL;
  if (!options) options = &torch;
  else if (!situ__optional(op, "key_padding_mask", options->key_padding_mask, SITU__A_TENSOR) ||
           !situ__optional(op, "attn_mask", options->attn_mask, SITU__A_TENSOR))
    return NULL;
  situ_tree *in = situ_tree_put(situ_tree_dict(), "query", situ_tree_tensor(query));
  in = situ_tree_put(in, "key", situ_tree_tensor(key));
  in = situ_tree_put(in, "value", situ_tree_tensor(value));
  in = situ__nn_put_tensor(in, "key_padding_mask", options->key_padding_mask);
  in = situ__nn_put_tensor(in, "attn_mask", options->attn_mask);
  in = situ__nn_put_flag(in, "is_causal", options->is_causal);
  in = situ__nn_put_flag(in, "need_weights", options->weights != NULL);
  in = situ__nn_put_flag(in, "per_head_weights", options->per_head_weights);
  situ_tree *both = in ? situ_nn_call(attention, in) : NULL;
  situ_tensor *out = both ? situ_tree_tensor_at(both, 0) : NULL;
  if (out && options->weights) *options->weights = situ_tree_tensor_at(both, 1);
  situ_tree_free(both);
  situ_tree_free(in);
  return out;
}

/* ---- creation ---- */

static const situ_nn_type attention_type = { .name = "MultiheadAttention",
                                             .size = sizeof(multihead_attention),
                                             .call = attention_call };

bool situ_nn_multihead_attention_read(const situ_nn_module *m, int64_t *num_heads) {
  const char *op = "nn_multihead_attention_read";
  if (!situ__nn_given(op, "module", m) || !situ__given(op, "num_heads", num_heads)) return false;
  if (m->type != &attention_type) return false;
  *num_heads = ((const multihead_attention *)m)->heads;
  return true;
}

bool situ_nn_multihead_attention_keep(situ_nn_module *m, int64_t num_heads) {
  SITU__CLAIM(claim);
  const char *op = "nn_multihead_attention_keep";
  if (!situ__nn_given(op, "module", m) || m->type != &attention_type || !situ__nn_change(op, m, &claim)) return false;
  multihead_attention *a = (multihead_attention *)m;
  const int64_t each = a->inner / a->heads;
  if (num_heads < 1 || num_heads > a->width / each)
    return situ__fail(SITU_E_ARG, op, "%" PRId64 " of %" PRId64 " heads", num_heads, a->width / each), false;
  a->heads = num_heads;
  a->inner = num_heads * each;
  return true;
}

static void fill(multihead_attention *m, int64_t kdim, int64_t vdim, const situ_nn_multihead_attention_options *o) {
  situ_options where = { .dtype = o->dtype, .device = o->device };
  int64_t e = m->width;
  if (kdim == e && vdim == e) {
    situ_nn_param(m, in_proj_weight, situ_nn_init_xavier_uniform_(situ_empty(SITU_SHAPE(3 * e, e), &where), 1, NULL));
  } else {
    situ_nn_param(m, q_proj_weight, situ_nn_init_xavier_uniform_(situ_empty(SITU_SHAPE(e, e), &where), 1, NULL));
    situ_nn_param(m, k_proj_weight, situ_nn_init_xavier_uniform_(situ_empty(SITU_SHAPE(e, kdim), &where), 1, NULL));
    situ_nn_param(m, v_proj_weight, situ_nn_init_xavier_uniform_(situ_empty(SITU_SHAPE(e, vdim), &where), 1, NULL));
  }
  if (!o->no_bias) situ_nn_param(m, in_proj_bias, situ_zeros(SITU_SHAPE(3 * e), &where));
  situ_nn_linear_options like = { .no_bias = o->no_bias, .dtype = o->dtype, .device = o->device };
  if (!situ_nn_child(m, out_proj, situ_nn_linear(e, e, &like)) || o->no_bias) return;
  if (!situ_nn_init_zeros_(situ_nn_get_tensor(m->out_proj, "bias"))) m->base.broken = true;
}

situ_nn_module *situ_nn_multihead_attention(int64_t embed_dim, int64_t num_heads,
                                            const situ_nn_multihead_attention_options *options) {
  static const situ_nn_multihead_attention_options torch;
  if (!options) options = &torch;
  multihead_attention *m = situ_nn_alloc(&attention_type);
  if (!m) return NULL;
  m->base.home = options->device;
  m->width = m->inner = embed_dim;
  m->heads = num_heads;
  m->dropout = options->dropout;
  m->batch_first = options->batch_first;
  if (embed_dim > 0 && embed_dim <= INT64_MAX / 3 && num_heads > 0 && embed_dim % num_heads == 0) {
    fill(m, options->kdim ? options->kdim : embed_dim, options->vdim ? options->vdim : embed_dim, options);
  } else {
    situ__fail(SITU_E_ARG, "nn_multihead_attention", "a width of %" PRId64 " does not divide into %" PRId64 " heads",
               embed_dim, num_heads);
    m->base.broken = true;
  }
  return situ_nn_done(m);
}
