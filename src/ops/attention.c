/* Scaled dot product attention: softmax(scale q k^T + mask) v, in two products that need no copy of anything. What the way back
   needs, the weights of the values, is kept.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

#include <math.h>

typedef struct attention_params {
  double         scale, keep;  /* keep: 1 - dropout_p */
  bool           causal;
  situ_generator draw;
} attention_params;

enum { QUERY, KEY, VALUE, MASK };
enum { RESULT, WEIGHTS, KEPT };  /* KEPT: what dropout multiplies the weights by; absent without it */

/* ---- shapes ---- */

static int64_t last(const situ_view_desc *v, int from_end) { return v->size[v->ndim - from_end]; }

static bool differ(const situ_call *c, const char *what, int64_t a, int64_t b) {
  return situ_refuse(c, SITU_E_SHAPE, "%s: %lld and %lld differ", what, (long long)a, (long long)b);
}

static bool infer(situ_call *c) {
  const attention_params *p = c->params;
  const situ_view_desc *q = situ_desc(c->in[QUERY]), *k = situ_desc(c->in[KEY]), *v = situ_desc(c->in[VALUE]), *mask = situ_desc(c->in[MASK]);
  if (mask && mask->dtype != SITU_BOOL && mask->dtype != q->dtype)
    return situ_refuse(c, SITU_E_DTYPE, "attn_mask is %s, must be bool or %s", situ_dtype_name((situ_dtype)mask->dtype), situ_dtype_name((situ_dtype)q->dtype));
  if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
    return situ_refuse(c, SITU_E_SHAPE, "needs operands of at least 2 dimensions, got %d, %d and %d", q->ndim, k->ndim, v->ndim);
  if (last(q, 1) != last(k, 1)) return differ(c, "last dimension of query and key", last(q, 1), last(k, 1));
  if (last(k, 2) != last(v, 2)) return differ(c, "dimension -2 of key and value", last(k, 2), last(v, 2));
  situ_shape batch = situ__shape(q), other = situ__shape(k), third = situ__shape(v);
  batch.ndim -= 2, other.ndim -= 2, third.ndim -= 2;
  if (!situ_shape_broadcast(c->op->name, &batch, &other) || !situ_shape_broadcast(c->op->name, &batch, &third)) return false;
  c->shape[RESULT] = c->shape[WEIGHTS] = batch;
  const int l = batch.ndim, s = batch.ndim + 1;
  c->shape[RESULT].ndim = c->shape[WEIGHTS].ndim = batch.ndim + 2;
  c->shape[RESULT].dim[l] = c->shape[WEIGHTS].dim[l] = last(q, 2);
  c->shape[RESULT].dim[s] = last(v, 1);
  c->shape[WEIGHTS].dim[s] = last(k, 2);
  c->shape[KEPT] = c->shape[WEIGHTS];
  if (mask) {
    situ_shape whole = c->shape[WEIGHTS], own = situ__shape(mask);
    char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
    if (!situ_shape_broadcast(c->op->name, &whole, &own)) return false;
    if (!situ_shape_equal(&whole, &c->shape[WEIGHTS]))
      return situ_refuse(c, SITU_E_SHAPE, "attn_mask %s does not broadcast to %s", situ_shape_text(&own, a), situ_shape_text(&c->shape[WEIGHTS], b));
  }
  if (mask && p->causal) return situ_refuse(c, SITU_E_ARG, "attn_mask and is_causal are given; give one");
  if (!(p->keep >= 0 && p->keep <= 1)) return situ_refuse(c, SITU_E_ARG, "dropout_p is %g, must be in 0..1", 1 - p->keep);
  c->dtype[RESULT] = c->dtype[WEIGHTS] = (situ_dtype)q->dtype;
  c->dtype[KEPT] = p->keep < 1 ? c->dtype[WEIGHTS] : SITU_DTYPE_DEFAULT;
  return true;
}

/* ---- forward ---- */

/* What is added to the scores: 0 where a query looks, -infinity where not; *mask stays NULL if there is nothing to add. */
static bool bias_of(const situ_call *c, situ_tensor **mask) {
  const attention_params *p = c->params;
  const situ_options like = { .dtype = c->dtype[WEIGHTS], .device = c->device };
  *mask = c->in[MASK];
  if (p->causal) {
    const situ_shape *s = &c->shape[WEIGHTS];
    return (*mask = situ_triu(situ_full(SITU_SHAPE(s->dim[s->ndim - 2], s->dim[s->ndim - 1]), -INFINITY, &like), 1)) != NULL;
  }
  if (!*mask || situ_dtype_of(*mask) != SITU_BOOL) return true;
  return (*mask = situ_where(*mask, situ_full(SITU_SCALAR, 0, &like), situ_full(SITU_SCALAR, -INFINITY, &like))) != NULL;
}

static bool softmax(const char *op, situ_device device, situ_softmax_pass pass, situ_tensor *a, situ_tensor *b, situ_tensor *y) {
  return situ_launch(op, device, &(situ_work){ .verb = SITU_VERB_SOFTMAX, .op = pass, .compute = situ_dtype_of(y), .ins = b ? 2 : 1, .outs = 1,
                     .in = { situ_desc(a), situ_desc(b) }, .out = { situ_desc(y) }, .integer = { situ_dim(y) - 1 } });
}

static bool forward(situ_call *c) {
  const attention_params *p = c->params;
  situ_tensor *weights = c->out[WEIGHTS], *mask;
  if (situ_numel(weights) > 0) {
    situ_view_desc room;
    const situ_view_desc *across = situ__transposed(situ_desc(c->in[KEY]), &room);
    situ_tensor *scores = situ_empty_like(weights, NULL);
    if (!scores || !bias_of(c, &mask)) return false;
    if (!situ__product(c->op->name, c->device, situ_desc(c->in[QUERY]), across, situ_desc(mask), situ_desc(scores), p->scale, 1) ||
        !softmax(c->op->name, c->device, SITU_SOFTMAX, scores, NULL, weights)) return false;
    if (c->out[KEPT]) {
      situ_generator draw = p->draw;
      situ_tensor *kept = situ_dropout(situ_ones_like(weights, NULL), 1 - p->keep, true, &draw);
      if (!kept || !situ_copy_(c->out[KEPT], kept) || !(weights = situ_mul(weights, kept))) return false;
    }
  }
  return situ_numel(c->out[RESULT]) == 0 ||
         situ__product(c->op->name, c->device, situ_desc(weights), situ_desc(c->in[VALUE]), NULL, situ_desc(c->out[RESULT]), 1, 0);
}

/* ---- backward ---- */

/* The gradient of scale q k^T + mask: through the softmax. */
static situ_tensor *grad_scores(const situ_grad_call *g, situ_tensor *up) {
  situ_tensor *weights = g->out[WEIGHTS], *d = situ_matmul(up, situ_transpose(g->in[VALUE], -2, -1));
  if (g->out[KEPT]) d = situ_mul(d, g->out[KEPT]);
  situ_tensor *scores = situ_empty_like(weights, NULL);
  if (!d || !scores || situ_numel(weights) == 0) return scores;
  return softmax(g->op->name, g->device, SITU_SOFTMAX_GRAD, weights, d, scores) ? scores : NULL;
}

static bool backward(situ_grad_call *g) {
  const attention_params *p = g->params;
  situ_tensor *up = situ_contiguous(g->grad[RESULT]), *weights = g->out[WEIGHTS];
  if (g->wants[VALUE]) {
    situ_tensor *used = g->out[KEPT] ? situ_mul(weights, g->out[KEPT]) : weights;
    if (!(g->dx[VALUE] = situ_matmul(situ_transpose(used, -2, -1), up))) return false;
  }
  if (!g->wants[QUERY] && !g->wants[KEY] && !g->wants[MASK]) return true;
  situ_tensor *scores = grad_scores(g, up);
  if (!scores) return false;
  g->dx[MASK] = g->wants[MASK] ? scores : NULL;
  if (g->wants[QUERY] && !(g->dx[QUERY] = situ_mul_scalar_(situ_matmul(scores, g->in[KEY]), p->scale))) return false;
  return !g->wants[KEY] || (g->dx[KEY] = situ_mul_scalar_(situ_matmul(situ_transpose(scores, -2, -1), g->in[QUERY]), p->scale)) != NULL;
}

SITU_OP(attention_op) = {
  .name = "scaled_dot_product_attention",
  .operand = { { "query", SITU_FLOATING | SITU_SAME }, { "key", SITU_FLOATING | SITU_SAME }, { "value", SITU_FLOATING | SITU_SAME },
               { "attn_mask", SITU_FLOATING | SITU_BOOLEAN | SITU_OPTIONAL } },
  .outs = 3, .flags = SITU_OP_COMPOSED, .autocast = { SITU_CAST_LOW, SITU_CAST_LOW }, .params_size = sizeof(attention_params),
  .save = SITU_SAVE(QUERY) | SITU_SAVE(KEY) | SITU_SAVE(VALUE) | SITU_SAVE_OUT(WEIGHTS) | SITU_SAVE_OUT(KEPT),
  .infer = infer, .forward = forward, .backward = backward,
};

situ_tensor *situ_scaled_dot_product_attention(situ_tensor *query, situ_tensor *key, situ_tensor *value, const situ_attention_options *options) {
  const situ_attention_options o = options ? *options : (situ_attention_options){ 0 };
  attention_params p = { .scale = o.scale, .keep = 1 - o.dropout_p, .causal = o.is_causal };
  const int64_t width = situ__alive(query) && query->view.ndim ? last(&query->view, 1) : 0;
  if (p.scale == 0 && width > 0) p.scale = 1 / sqrt((double)width);
  if (p.keep >= 0 && p.keep < 1) p.draw = situ_generator_draw(NULL);
  return situ_op_run(&attention_op, (situ_tensor *[]){ query, key, value, o.attn_mask }, 4, &p, NULL);
}
