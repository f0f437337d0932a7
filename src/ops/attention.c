/* Scaled dot product attention (Vaswani et al., arXiv:1706.03762), made of products and a softmax.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

static bool shapes_fit(const char *op, const situ_tensor *q, const situ_tensor *k, const situ_tensor *v) {
  const situ_view_desc *a = &q->view, *b = &k->view, *c = &v->view;
  bool good = a->ndim >= 2 && b->ndim >= 2 && c->ndim >= 2 && a->size[a->ndim - 1] == b->size[b->ndim - 1] && b->size[b->ndim - 2] == c->size[c->ndim - 2];
  if (good) return true;
  situ_shape x = situ__shape(a), y = situ__shape(b), z = situ__shape(c);
  char s[SITU_SHAPE_TEXT], t[SITU_SHAPE_TEXT], u[SITU_SHAPE_TEXT];
  situ__fail(SITU_E_SHAPE, op, "query %s, key %s and value %s do not fit: [.., L, E], [.., S, E] and [.., S, V]", situ_shape_text(&x, s), situ_shape_text(&y, t),
             situ_shape_text(&z, u));
  return false;
}

/* The scores where the mask says no become -Inf (bool), or the mask is added (floating). A row in which every score
   is -Inf gives NaN, as in torch. */
static situ_tensor *masked(situ_tensor *scores, const situ_attention_options *o) {
  if (o->is_causal && scores) {
    int64_t rows = situ_size(scores, -2), columns = situ_size(scores, -1);
    situ_tensor *see = situ_tril(situ_ones(SITU_SHAPE(rows, columns), &(situ_options){ .dtype = SITU_BOOL, .device = situ_device_of(scores) }), 0);
    return situ_masked_fill(scores, situ_logical_not(see), -INFINITY);
  }
  if (!o->attn_mask) return scores;
  if (situ_dtype_of(o->attn_mask) == SITU_BOOL) return situ_masked_fill(scores, situ_logical_not(o->attn_mask), -INFINITY);
  return situ_add(scores, o->attn_mask);
}

/* A mask may not make the scores larger than they are. */
static bool mask_fits(const char *op, const situ_tensor *q, const situ_tensor *k, const situ_tensor *mask) {
  situ_shape scores = situ__shape(&q->view), keys = situ__shape(&k->view), both, m = situ__shape(&mask->view);
  scores.ndim -= 2;
  keys.ndim -= 2;
  if (!situ_shape_broadcast(op, &scores, &keys)) return false;
  scores.dim[scores.ndim++] = q->view.size[q->view.ndim - 2];
  scores.dim[scores.ndim++] = k->view.size[k->view.ndim - 2];
  both = scores;
  if (!situ_shape_broadcast(op, &both, &m)) return false;
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  if (situ_shape_equal(&both, &scores)) return true;
  situ__fail(SITU_E_SHAPE, op, "attn_mask %s does not broadcast to the scores %s", situ_shape_text(&m, a), situ_shape_text(&scores, b));
  return false;
}

situ_tensor *situ_scaled_dot_product_attention(situ_tensor *query, situ_tensor *key, situ_tensor *value, const situ_attention_options *options) {
  const char *op = "scaled_dot_product_attention";
  const situ_attention_options none = { 0 }, *o = options ? options : &none;
  if (!situ__need(op, "query", query) || !situ__need(op, "key", key) || !situ__need(op, "value", value) || !shapes_fit(op, query, key, value)) return NULL;
  if (o->attn_mask && o->is_causal) {
    situ__fail(SITU_E_ARG, op, "attn_mask and is_causal exclude each other");
    return NULL;
  }
  if (o->attn_mask && !mask_fits(op, query, key, o->attn_mask)) return NULL;
  int64_t width = query->view.size[query->view.ndim - 1];
  double scale = o->scale ? o->scale : width ? 1 / sqrt((double)width) : 1;
  situ_tensor *scores = situ_matmul(situ_mul_scalar(query, scale), situ_transpose(key, -2, -1));
  situ_tensor *weights = situ_softmax(masked(scores, o), -1);
  if (o->dropout_p) weights = situ_dropout(weights, o->dropout_p, true, NULL);
  return situ_matmul(weights, value);
}
