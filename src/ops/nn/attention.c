/* Scaled dot product attention: softmax(scale q k^T + mask) v. If the device supports SITU_VERB_ATTENTION for the
   operands, the matrix of weights is never in memory, and backward gets one number for each row; else, and where the
   mask has a gradient, two products compute it without copies, and the weights are kept.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/options.h"
#include "ops/ops.h"

#include <math.h>

typedef struct attention_params {
  double scale, keep; /* keep: 1 - dropout_p */
  bool causal;
  situ_generator draw;
} attention_params;

enum { QUERY, KEY, VALUE, MASK };
/* KEPT: dropout's mask for the weights; absent without dropout. STATS: the logsumexp of each row, which replaces the
   weights in fused attention. */
enum { RESULT, WEIGHTS, KEPT, STATS };

/* ---- shapes ---- */

static int64_t last(const situ_view_desc *v, int from_end) { return v->size[v->ndim - from_end]; }

static bool differ(const situ_call *c, const char *what, int64_t a, int64_t b) {
  return situ_refuse(c, SITU_E_SHAPE, "%s: %lld and %lld differ", what, (long long)a, (long long)b);
}

/* The dtype of scores and their softmax: 16 bits would round scores by more than the weights are rounded. */
static situ_dtype scores_dtype(situ_dtype x) { return x == SITU_F64 ? SITU_F64 : SITU_F32; }

/* What forward and backward of SITU_VERB_ATTENTION share; *mask is filled if there is one. */
static situ_work work_of(const attention_params *p, situ_tensor *const *in, situ_view_desc *mask) {
  const situ_view_desc *q = situ__desc(in[QUERY]);
  situ_work work = { SITU_VERB_ATTENTION,
                     .op = SITU_ATTENTION,
                     .compute = (situ_dtype)q->dtype,
                     .ins = 3,
                     .in = { q, situ__desc(in[KEY]), situ__desc(in[VALUE]) },
                     .scalar = { p->scale, 1 - p->keep },
                     .integer = { p->causal },
                     .seed = p->draw.seed,
                     .offset = p->draw.offset };
  if (!in[MASK]) return work;
  situ_view_desc weights = *q;
  weights.size[q->ndim - 1] = last(work.in[KEY], 2);
  work.in[work.ins++] = situ_desc_expand(situ__desc(in[MASK]), &weights, mask);
  return work;
}

/* Whether the operands are what SITU_VERB_ATTENTION takes: key and value may lack heads of the query, but have no
   others. */
static bool lie_well(const situ_call *c) {
  const situ_view_desc *q = situ__desc(c->in[QUERY]), *k = situ__desc(c->in[KEY]), *v = situ__desc(c->in[VALUE]);
  bool good = q->ndim == k->ndim && q->ndim == v->ndim && last(q, 1) > 0 && last(k, 2) > 0 && last(v, 1) > 0;
  for (int d = 0; good && d < q->ndim - 2; d++)
    good = q->size[d] == c->shape[RESULT].dim[d] && k->size[d] == v->size[d];
  return good && !(c->in[MASK] && c->in[MASK]->requires_grad && situ__recording());
}

/* Chooses fused attention if the device offers it. */
static bool choose(situ_call *c) {
  situ_view_desc mask;
  bool offered;
  if (!situ__has_verb(c->device, SITU_VERB_ATTENTION) || !lie_well(c)) return true;
  const situ_work work = work_of(c->params, c->in, &mask);
  if (situ__offers(c->op->name, c->device, &work, &offered) != SITU_OK) return false;
  if (!offered) return true;
  c->dtype[WEIGHTS] = c->dtype[KEPT] = SITU_DTYPE_DEFAULT;
  c->dtype[STATS] = scores_dtype(c->dtype[RESULT]);
  c->shape[STATS] = c->shape[RESULT];
  c->shape[STATS].dim[c->shape[RESULT].ndim - 1] = 1;
  return true;
}

static bool infer(situ_call *c) {
  const attention_params *p = c->params;
  const situ_view_desc *q = situ__desc(c->in[QUERY]), *k = situ__desc(c->in[KEY]), *v = situ__desc(c->in[VALUE]),
                       *mask = situ__desc(c->in[MASK]);
  if (mask && mask->dtype != SITU_BOOL && mask->dtype != SITU_F32 && mask->dtype != q->dtype)
    return situ_refuse(c, SITU_E_DTYPE, "attn_mask is %s, must be bool, f32 or %s",
                       situ_dtype_name((situ_dtype)mask->dtype), situ_dtype_name((situ_dtype)q->dtype));
  if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
    return situ_refuse(c, SITU_E_SHAPE, "needs operands of at least 2 dimensions, got %d, %d and %d", q->ndim, k->ndim,
                       v->ndim);
  if (last(q, 1) != last(k, 1)) return differ(c, "last dimension of query and key", last(q, 1), last(k, 1));
  if (last(k, 2) != last(v, 2)) return differ(c, "dimension -2 of key and value", last(k, 2), last(v, 2));
  situ_shape batch = situ__shape(q), other = situ__shape(k), third = situ__shape(v);
  batch.ndim -= 2, other.ndim -= 2, third.ndim -= 2;
  if (!situ_shape_broadcast(c->op->name, &batch, &other) || !situ_shape_broadcast(c->op->name, &batch, &third))
    return false;
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
      return situ_refuse(c, SITU_E_SHAPE, "attn_mask %s does not broadcast to %s", situ_shape_text(&own, a),
                         situ_shape_text(&c->shape[WEIGHTS], b));
  }
  if (mask && p->causal) return situ_refuse(c, SITU_E_ARG, "attn_mask and is_causal are given; give one");
  if (!(p->keep >= 0 && p->keep <= 1))
    return situ_refuse(c, SITU_E_ARG, "dropout_p is %g, must be in 0..1", 1 - p->keep);
  c->dtype[RESULT] = c->dtype[WEIGHTS] = (situ_dtype)q->dtype;
  c->dtype[KEPT] = p->keep < 1 ? c->dtype[WEIGHTS] : SITU_DTYPE_DEFAULT;
  c->dtype[STATS] = SITU_DTYPE_DEFAULT;
  return choose(c);
}

/* ---- forward ---- */

/* The bias that is added to the scores: 0 where a query sees the key, -Inf elsewhere; *mask stays NULL if no bias is
   needed. */
static bool bias_of(const situ_call *c, situ_tensor **mask) {
  const attention_params *p = c->params;
  const situ_options like = { .dtype = scores_dtype(c->dtype[WEIGHTS]), .device = c->device };
  *mask = c->in[MASK];
  if (p->causal) {
    const situ_shape *s = &c->shape[WEIGHTS];
    return (*mask = situ_triu(situ_full(SITU_SHAPE(s->dim[s->ndim - 2], s->dim[s->ndim - 1]), -INFINITY, &like), 1)) !=
           NULL;
  }
  if (!*mask) return true;
  if (situ_dtype_of(*mask) != SITU_BOOL) return (*mask = situ_to_dtype(*mask, like.dtype)) != NULL;
  return (*mask = situ_where(*mask, situ_full(SITU_SCALAR, 0, &like), situ_full(SITU_SCALAR, -INFINITY, &like))) !=
         NULL;
}

static bool softmax(const char *op, situ_device device, situ_softmax_pass pass, situ_tensor *a, situ_tensor *b,
                    situ_tensor *y) {
  return situ_launch(op, device,
                     &(situ_work){ SITU_VERB_SOFTMAX, .op = pass, .compute = situ_dtype_of(y), .ins = b ? 2 : 1,
                                   .outs = 1, .in = { situ_desc(a), situ_desc(b) }, .out = { situ_desc(y) },
                                   .integer = { situ_dim(y) - 1, 1 } }); /* masked: a query that sees no key gets 0 */
}

/* softmax(scale q k^T + mask), in the dtype of the scores; `weights` gets it, rounded. Returns NULL after recording an
   error. */
static situ_tensor *weigh(const situ_call *c, situ_tensor *weights) {
  const attention_params *p = c->params;
  const situ_dtype wide = scores_dtype(c->dtype[WEIGHTS]);
  const situ_options like = { .dtype = wide };
  const bool narrow = c->dtype[WEIGHTS] != wide;
  situ_tensor *q = situ_to_dtype(c->in[QUERY], wide), *k = situ_to_dtype(c->in[KEY], wide), *mask,
              *scores = situ_empty_like(weights, &like);
  situ_tensor *exact = narrow ? situ_empty_like(weights, &like) : weights;
  situ_view_desc desc;
  if (!q || !k || !scores || !exact || !bias_of(c, &mask)) return NULL;
  const bool good = situ__product(c->op->name, c->device, situ_desc(q), situ__transposed(situ_desc(k), &desc),
                                  situ_desc(mask), situ_desc(scores), p->scale, 1) &&
                    softmax(c->op->name, c->device, SITU_SOFTMAX, scores, NULL, exact) &&
                    (!narrow || situ_copy_(weights, exact));
  return good ? exact : NULL;
}

static bool fused(situ_call *c) {
  situ_view_desc mask;
  situ_work work = work_of(c->params, c->in, &mask);
  work.outs = 2;
  work.out[0] = situ__desc(c->out[RESULT]);
  work.out[1] = situ__desc(c->out[STATS]);
  return situ_launch(c->op->name, c->device, &work);
}

/* weights v, rounded once. */
static bool blend(const situ_call *c, situ_tensor *weights) {
  situ_tensor *y = c->out[RESULT], *v = situ_to_dtype(c->in[VALUE], situ_dtype_of(weights)), *exact = y;
  const bool narrow = situ_dtype_of(weights) != situ_dtype_of(y);
  if (narrow) exact = situ_empty_like(y, &(situ_options){ .dtype = situ_dtype_of(weights) });
  return v && exact &&
         situ__product(c->op->name, c->device, situ_desc(weights), situ_desc(v), NULL, situ_desc(exact), 1, 0) &&
         (!narrow || situ_copy_(y, exact));
}

static bool forward(situ_call *c) {
  const attention_params *p = c->params;
  situ_tensor *weights = c->out[WEIGHTS];
  if (c->out[STATS]) return fused(c);
  if (situ_numel(weights) > 0) {
    if (!(weights = weigh(c, weights))) return false;
    if (c->out[KEPT]) {
      situ_tensor *kept = situ__dropout_of(situ_ones_like(weights, NULL), 1 - p->keep, p->draw);
      if (!kept || !situ_copy_(c->out[KEPT], kept) || !(weights = situ_mul(weights, kept))) return false;
    }
  }
  return situ_numel(c->out[RESULT]) == 0 || blend(c, weights);
}

/* ---- backward ---- */

/* The gradient of scale q k^T + mask: softmax's backward, in the dtype of the scores. */
static situ_tensor *grad_scores(const situ_grad_call *g, situ_tensor *up, situ_tensor *weights) {
  const situ_dtype wide = scores_dtype(situ_dtype_of(weights));
  situ_tensor *d = situ_matmul(situ_to_dtype(up, wide), situ_transpose(situ_to_dtype(g->in[VALUE], wide), -2, -1));
  if (g->out[KEPT]) d = situ_mul(d, situ_to_dtype(g->out[KEPT], wide));
  situ_tensor *exact = situ_to_dtype(weights, wide),
              *scores = situ_empty_like(weights, &(situ_options){ .dtype = wide });
  if (!d || !exact || !scores) return NULL;
  if (situ_numel(weights) == 0) return scores;
  return softmax(g->op->name, g->device, SITU_SOFTMAX_GRAD, exact, d, scores) ? scores : NULL;
}

/* All three gradients in one call. Sets *done if the device computed them. */
static bool fused_back(situ_grad_call *g, situ_tensor *up, bool *done) {
  *done = g->out[STATS] != NULL;
  if (!*done) return true;
  situ_tensor *dx[3];
  for (int k = QUERY; k <= VALUE; k++) /* contiguous, whatever the operand's strides */
    if (!(dx[k] = situ_empty(g->shape[k], &(situ_options){ .dtype = g->dtype[k], .device = g->device }))) return false;
  situ_view_desc desc;
  situ_work work = work_of(g->params, g->in, &desc);
  const situ_view_desc *mask = g->in[MASK] ? work.in[3] : NULL;
  work.op = SITU_ATTENTION_GRAD;
  work.ins = mask ? 7 : 6;
  work.in[3] = situ__desc(g->out[RESULT]);
  work.in[4] = situ__desc(g->out[STATS]);
  work.in[5] = situ_desc(up);
  work.in[6] = mask;
  work.outs = 3;
  for (int k = QUERY; k <= VALUE; k++) work.out[k] = situ_desc(dx[k]);
  if (situ__offers(g->op->name, g->device, &work, done) != SITU_OK) return false;
  for (int k = QUERY; *done && k <= VALUE; k++) g->dx[k] = g->wants[k] ? dx[k] : NULL;
  return !*done || situ_launch(g->op->name, g->device, &work);
}

/* Scores as forward masks them: -Inf where a query does not see the key. */
static situ_tensor *mask_scores(const attention_params *p, situ_tensor *scores, situ_tensor *mask) {
  if (p->causal) {
    const situ_shape square = SITU_SHAPE(situ_size(scores, -2), situ_size(scores, -1));
    mask = situ_tril(situ_ones(square, &(situ_options){ .dtype = SITU_BOOL, .device = situ_device_of(scores) }), 0);
  }
  if (!mask) return scores;
  if (situ_dtype_of(mask) == SITU_BOOL) return situ_masked_fill(scores, situ_logical_not(mask), -INFINITY);
  return situ_add(scores, situ_to_dtype(mask, situ_dtype_of(scores)));
}

/* softmax(scale q k^T + mask) by public calls. */
static situ_tensor *weights_by_calls(const attention_params *p, situ_tensor *const *in) {
  situ_tensor *scores = situ_mul_scalar(situ_matmul(in[QUERY], situ_transpose(in[KEY], -2, -1)), p->scale);
  if (!(scores = mask_scores(p, scores, in[MASK]))) return NULL;
  if (!in[MASK] || !situ_numel(scores)) return situ_softmax(scores, -1);
  situ_tensor *most = situ_amax(scores, &(situ_reduce_options){ .dim = SITU_DIMS(-1), .keepdim = true });
  situ_tensor *blind = situ_eq_scalar(most, -INFINITY); /* a query that sees no key gets 0 */
  return situ_masked_fill(situ_softmax(situ_masked_fill(scores, blind, 0), -1), blind, 0);
}

/* The weights, recomputed if forward kept only logsumexp and the device offers no fused backward for it. */
static situ_tensor *weights_of(const situ_grad_call *g) {
  if (g->out[WEIGHTS]) return g->out[WEIGHTS];
  const situ_dtype wide = scores_dtype(g->dtype[QUERY]);
  situ_tensor *q = situ_to_dtype(g->in[QUERY], wide), *k = situ_to_dtype(g->in[KEY], wide);
  situ_tensor *const in[] = { [QUERY] = q, [KEY] = k, [MASK] = g->in[MASK] };
  return q && k ? situ_to_dtype(weights_by_calls(g->params, in), g->dtype[QUERY]) : NULL;
}

static bool backward(situ_grad_call *g) {
  const attention_params *p = g->params;
  bool done;
  situ_tensor *up = situ_contiguous(g->grad[RESULT]), *weights;
  if (!up || !fused_back(g, up, &done)) return false;
  if (done) return true;
  if (!(weights = weights_of(g))) return false;
  if (g->wants[VALUE]) {
    situ_tensor *used = g->out[KEPT] ? situ_mul(weights, g->out[KEPT]) : weights;
    if (!(g->dx[VALUE] = situ_matmul(situ_transpose(used, -2, -1), up))) return false;
  }
  if (!g->wants[QUERY] && !g->wants[KEY] && !g->wants[MASK]) return true;
  situ_tensor *scores = grad_scores(g, up, weights);
  if (!scores) return false;
  g->dx[MASK] = g->wants[MASK] ? scores : NULL;
  if (!(scores = situ_to_dtype(scores, g->dtype[QUERY]))) return false;
  if (g->wants[QUERY] && !(g->dx[QUERY] = situ_mul_scalar_(situ_matmul(scores, g->in[KEY]), p->scale))) return false;
  return !g->wants[KEY] ||
         (g->dx[KEY] = situ_mul_scalar_(situ_matmul(situ_transpose(scores, -2, -1), g->in[QUERY]), p->scale)) != NULL;
}

/* ---- derivatives by recorded calls, and in forward mode ---- */

/* Dropout's factor of each weight, which forward drew; NULL after recording an error. */
static situ_tensor *dropped(const attention_params *p, const situ_tensor *weights) {
  return situ__dropout_of(situ_ones_like((situ_tensor *)weights, NULL), 1 - p->keep, p->draw);
}

static situ_tensor *composed(const situ_grad_call *g, situ_tensor *const *in, int result) {
  (void)result;
  const attention_params *p = g->params;
  situ_tensor *weights = weights_by_calls(p, in);
  if (weights && p->keep < 1) weights = situ_mul(weights, dropped(p, weights));
  return situ_matmul(weights, in[VALUE]);
}
static bool backward_recorded(situ_grad_call *g) { return situ_backward_through(g, composed); }

/* a b + c; c may be NULL, and the first product is then alone. */
static situ_tensor *product_and(situ_tensor *a, situ_tensor *b, situ_tensor *c) {
  situ_tensor *y = situ_matmul(a, b);
  return c && y ? situ_add_(y, c) : y;
}

/* The derivative of the weights: that of the scores, through softmax, whose Jacobian is symmetric. */
static situ_tensor *weights_along(const situ_call *c, situ_tensor *weights, situ_tensor *const *in,
                                  situ_tensor *const *tangent) {
  const attention_params *p = c->params;
  situ_tensor *scores = NULL;
  if (tangent[QUERY]) scores = situ_matmul(tangent[QUERY], situ_transpose(in[KEY], -2, -1));
  if (tangent[KEY]) scores = product_and(in[QUERY], situ_transpose(tangent[KEY], -2, -1), scores);
  if (scores && !(scores = situ_mul_scalar_(scores, p->scale))) return NULL;
  if (tangent[MASK]) {
    situ_tensor *mask = situ_expand(tangent[MASK], situ_shape_of(weights));
    scores = scores ? situ_add_(scores, mask) : situ_contiguous(mask);
  }
  situ_tensor *along = scores ? situ_empty_like(weights, NULL) : NULL;
  return along && softmax(c->op->name, c->device, SITU_SOFTMAX_GRAD, weights, scores, along) ? along : NULL;
}

/* In the dtype of the scores, rounded once. */
static bool forward_derivative(const situ_call *c, situ_tensor *const *tangent, situ_tensor **dy) {
  const attention_params *p = c->params;
  const situ_dtype wide = scores_dtype(c->dtype[RESULT]);
  situ_tensor *in[4] = { NULL }, *t[4] = { NULL }, *weights, *along = NULL;
  for (int i = 0; i < 4; i++) {
    const bool keep = i == MASK && c->in[i] && situ_dtype_of(c->in[i]) == SITU_BOOL;
    if (c->in[i] && !(in[i] = keep ? c->in[i] : situ_to_dtype(c->in[i], wide))) return false;
    if (tangent[i] && !(t[i] = situ_to_dtype(tangent[i], wide))) return false;
  }
  if (!(weights = weights_by_calls(p, in))) return false;
  const bool any = situ_numel(weights) > 0 && (t[QUERY] || t[KEY] || t[MASK]);
  if (any && !(along = weights_along(c, weights, in, t))) return false;
  if (p->keep < 1) {
    situ_tensor *kept = dropped(p, weights);
    if (!(weights = situ_mul(weights, kept)) || (along && !(along = situ_mul(along, kept)))) return false;
  }
  situ_tensor *y = along ? situ_matmul(along, in[VALUE]) : NULL;
  if (along && !y) return false;
  if (t[VALUE]) y = product_and(weights, t[VALUE], y);
  return y ? (dy[0] = situ_to_dtype(y, c->dtype[RESULT])) != NULL : situ_numel(weights) == 0;
}

static bool traced(const situ_call *c, situ_export_trace *t) {
  const attention_params *p = c->params;
  return situ_export_call(t, "scaled_dot_product_attention.default", "ttttnbn", c->in[QUERY], c->in[KEY], c->in[VALUE],
                          c->in[MASK], 1 - p->keep, (int)p->causal, p->scale);
}

SITU_OP(attention_op) = {
  .name = "scaled_dot_product_attention",
  .traced = traced,
  .operand = { { "query", SITU_FLOATING | SITU_SAME },
               { "key", SITU_FLOATING | SITU_SAME },
               { "value", SITU_FLOATING | SITU_SAME },
               { "attn_mask", SITU_FLOATING | SITU_BOOLEAN | SITU_OPTIONAL } },
  .outs = 4,
  .shown = 1,
  .flags = SITU_OP_COMPOSED,
  .autocast = { SITU_CAST_LOW, SITU_CAST_LOW },
  .params_size = sizeof(attention_params),
  .save = SITU_SAVE(QUERY) | SITU_SAVE(KEY) | SITU_SAVE(VALUE) | SITU_SAVE(MASK) | SITU_SAVE_OUT(RESULT) |
          SITU_SAVE_OUT(WEIGHTS) | SITU_SAVE_OUT(KEPT) | SITU_SAVE_OUT(STATS),
  .infer = infer,
  .forward = forward,
  .backward = backward,
  .backward_recorded = backward_recorded,
  .forward_derivative = forward_derivative,
};

/* ---- heads that share a key ---- */

/* x [.., heads, *, *] as [.., groups, heads / groups, *, *]. Key, value and a mask without heads get a dimension of
   size 1, so that they are broadcast rather than repeated. */
static situ_tensor *grouped(situ_tensor *x, int64_t heads, int64_t groups) {
  if (!x || situ_dim(x) < 3) return x;
  return situ_size(x, -3) == heads ? situ_unflatten(x, -3, SITU_SHAPE(groups, heads / groups)) : situ_unsqueeze(x, -3);
}

static situ_tensor *attend(situ_tensor *query, situ_tensor *key, situ_tensor *value, situ_tensor *mask,
                           const attention_params *p) {
  return situ_op_run(&attention_op, (situ_tensor *[]){ query, key, value, mask }, 4, p, NULL);
}

static bool refuse_heads(int64_t q, int64_t k, int64_t v) {
  return situ__fail(SITU_E_SHAPE, attention_op.name,
                    "query has %lld heads, key %lld, value %lld: key and value need the same number, which divides "
                    "the query's",
                    (long long)q, (long long)k, (long long)v),
         false;
}

/* Refuses heads that cannot be grouped. */
static bool can_group(situ_tensor *query, situ_tensor *key, situ_tensor *value, situ_tensor *mask) {
  const char *op = attention_op.name;
  if (!situ__need(op, "query", query) || !situ__need(op, "key", key) || !situ__need(op, "value", value)) return false;
  if (situ_dim(query) < 3 || situ_dim(key) < 3 || situ_dim(value) < 3)
    return situ__fail(SITU_E_SHAPE, op, "enable_gqa needs operands of at least 3 dimensions, got %d, %d and %d",
                      situ_dim(query), situ_dim(key), situ_dim(value)),
           false;
  const int64_t q = situ_size(query, -3), k = situ_size(key, -3), v = situ_size(value, -3);
  if (k != v || k == 0 || q % k != 0) return refuse_heads(q, k, v);
  if (!mask) return true;
  if (!situ__need(op, "attn_mask", mask)) return false;
  const int64_t m = situ_dim(mask) < 3 ? 1 : situ_size(mask, -3);
  if (m != 1 && m != q)
    situ__fail(SITU_E_SHAPE, op, "attn_mask has %lld heads, must have %lld or 1", (long long)m, (long long)q);
  return m == 1 || m == q;
}

static situ_tensor *attend_in_groups(situ_tensor *query, situ_tensor *key, situ_tensor *value, situ_tensor *mask,
                                     const attention_params *p) {
  if (!can_group(query, key, value, mask)) return NULL;
  const int64_t heads = situ_size(query, -3), groups = situ_size(key, -3);
  if (heads == groups) return attend(query, key, value, mask, p);
  situ_tensor *q = grouped(query, heads, groups), *k = grouped(key, heads, groups), *v = grouped(value, heads, groups),
              *m = grouped(mask, heads, groups);
  if (!q || !k || !v || (mask && !m)) return NULL;
  situ_tensor *y = attend(q, k, v, m, p);
  return y ? situ_flatten(y, -4, -3) : NULL;
}

situ_tensor *situ_scaled_dot_product_attention(situ_tensor *query, situ_tensor *key, situ_tensor *value,
                                               const situ_attention_options *options) {
  SITU__DEFAULT_FPU;
  situ_attention_options o = situ_attention_defaults();
  if (!situ__options_read("scaled_dot_product_attention", "situ_attention_defaults", options, &o, sizeof o))
    return NULL;
  attention_params p = { .scale = o.scale, .keep = 1 - o.dropout_p, .causal = o.is_causal };
  const int64_t width = situ__alive(query) && query->view.ndim ? last(&query->view, 1) : 0;
  if (p.scale == SITU_NONE) p.scale = width > 0 ? 1 / sqrt((double)width) : 0;
  if (p.keep >= 0 && p.keep < 1) p.draw = situ_generator_draw(NULL);
  return (o.enable_gqa ? attend_in_groups : attend)(query, key, value, o.attn_mask, &p);
}
