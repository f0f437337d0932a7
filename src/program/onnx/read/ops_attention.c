/* ONNX's attention, rotary embeddings, gated units and layers with a state.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "patterns.h"

/* ---- Attention ---- */

/* Places of the arguments. */
enum {
  Q,
  K,
  V,
  MASK,
  PAST_KEY,
  PAST_VALUE,
  LENGTHS,
  CAUSAL,
  KV_HEADS,
  Q_HEADS,
  SCALE,
  SOFTCAP,
  OUTPUT_MODE,
  LEFT,
  RIGHT
};

static bool wants(const situ__op_call *c, int i) { return i < c->node->outs && c->node->out[i] >= 0; }

/* [N, L, heads * E] to [N, heads, L, E]. */
static situ_tensor *split_heads(situ_tensor *x, int64_t heads) {
  const situ_shape s = situ_shape_of(x);
  if (s.ndim != 3) return x;
  x = situ_reshape(x, SITU_SHAPE(s.dim[0], s.dim[1], heads, -1));
  return situ_transpose(x, 1, 2);
}

typedef struct attention {
  situ_tensor *q, *k, *v, *bias; /* bias: what is added to the scores; NULL: nothing */
  double scale, cap;
  int64_t past; /* keys before the first query */
} attention;

static situ_tensor *add_bias(situ_tensor *bias, situ_tensor *more) { return bias ? situ_add(bias, more) : more; }

/* -inf where `off`, else 0. */
static situ_tensor *mask_off(situ_tensor *off, situ_dtype dtype) {
  situ_tensor *zero = situ_zeros_like(off, &(situ_options){ .dtype = dtype });
  return situ_masked_fill(zero, off, -INFINITY);
}

/* Collects masks: the given one, the causal one or the window, and the lengths of sequences of keys. */
static bool read_bias(situ__op_call *c, attention *a) {
  const situ_dtype dtype = situ_dtype_of(a->q);
  const int64_t queries = situ_size(a->q, 2), keys = situ_size(a->k, 2);
  const situ_options integer = { .dtype = SITU_I64, .device = situ_device_of(a->q) };
  const int64_t left = situ__arg_int(c, LEFT), right = situ__arg_flag(c, CAUSAL) ? 0 : situ__arg_int(c, RIGHT);
  situ_tensor *mask = situ__arg_tensor(c, MASK), *lengths = situ__arg_tensor(c, LENGTHS);
  situ_tensor *key = situ_arange(0, (double)keys, 1, &integer);
  if (mask) {
    if (situ_size(mask, -1) < keys) { /* further keys are not attended to */
      const int64_t more = keys - situ_size(mask, -1);
      const bool boolean = situ_dtype_of(mask) == SITU_BOOL;
      mask = situ_pad(mask, SITU_SHAPE(0, more), SITU_PAD_CONSTANT, boolean ? 0 : -INFINITY);
    }
    a->bias = situ_dtype_of(mask) == SITU_BOOL ? mask_off(situ_logical_not(mask), dtype) : situ_to_dtype(mask, dtype);
    if (!a->bias) return false;
  }
  if (right >= 0 || left >= 0) {
    situ_tensor *query = situ_unsqueeze(situ_arange((double)a->past, (double)(a->past + queries), 1, &integer), 1);
    if (lengths && !situ__arg_given(c, PAST_KEY)) { /* queries are the last ones of each sequence */
      situ_tensor *last = situ_sub_scalar(situ_to_dtype(lengths, SITU_I64), (double)queries);
      query = situ_add(situ_reshape(last, SITU_SHAPE(-1, 1, 1, 1)), query);
    }
    if (right >= 0) a->bias = add_bias(a->bias, mask_off(situ_gt(key, situ_add_scalar(query, (double)right)), dtype));
    if (left >= 0) a->bias = add_bias(a->bias, mask_off(situ_lt(key, situ_sub_scalar(query, (double)left)), dtype));
  }
  if (lengths) {
    situ_tensor *end = situ_reshape(situ_to_dtype(lengths, SITU_I64), SITU_SHAPE(-1, 1, 1, 1));
    a->bias = add_bias(a->bias, mask_off(situ_ge(key, end), dtype));
  }
  return true;
}

/* With the scores as a result too: at first (0), after the cap (1), after the bias (2), after softmax (3). */
static situ_tensor *attend(situ__op_call *c, attention *a) {
  const int64_t mode = situ__arg_int(c, OUTPUT_MODE), groups = situ_size(a->q, 1) / situ_size(a->k, 1);
  const bool scores_too = wants(c, 3);
  if (!scores_too && a->cap == 0) {
    const situ_attention_options o = {
      .size = sizeof o, .attn_mask = a->bias, .scale = a->scale, .enable_gqa = groups > 1
    };
    return situ_scaled_dot_product_attention(a->q, a->k, a->v, &o);
  }
  situ_tensor *k = a->k, *v = a->v;
  if (groups > 1) {
    k = situ_repeat_interleave(k, groups, SITU_SHAPE(1));
    v = situ_repeat_interleave(v, groups, SITU_SHAPE(1));
  }
  situ_tensor *scores = situ_mul_scalar(situ_matmul(a->q, situ_transpose(k, -2, -1)), a->scale), *given = scores;
  if (a->cap > 0) scores = situ_mul_scalar(situ_tanh(situ_div_scalar(scores, a->cap)), a->cap);
  if (mode == 1) given = scores;
  if (a->bias) scores = situ_add(scores, a->bias);
  if (mode == 2) given = scores;
  situ_tensor *weights = situ_softmax(scores, -1);
  if (a->bias) weights = situ_where(situ_isnan(weights), situ_zeros_like(weights, NULL), weights);
  if (scores_too) c->result[3] = mode == 3 ? weights : given;
  return situ_matmul(weights, v);
}

static situ_tensor *run_attention(situ__op_call *c) {
  const bool flat = situ_dim(situ__arg_tensor(c, Q)) == 3;
  const int64_t q_heads = situ__arg_given(c, Q_HEADS) ? situ__arg_int(c, Q_HEADS) : 1;
  const int64_t kv_heads = situ__arg_given(c, KV_HEADS) ? situ__arg_int(c, KV_HEADS) : q_heads;
  situ_tensor *past_key = situ__arg_tensor(c, PAST_KEY), *past_value = situ__arg_tensor(c, PAST_VALUE);
  if (q_heads < 1 || kv_heads < 1) return situ__call_refuse(c, "has a number of heads below 1");
  attention a = { .q = split_heads(situ__arg_tensor(c, Q), q_heads),
                  .k = split_heads(situ__arg_tensor(c, K), kv_heads),
                  .v = split_heads(situ__arg_tensor(c, V), kv_heads),
                  .cap = situ__arg_number(c, SOFTCAP) };
  if (!a.q || !a.k || !a.v) return NULL;
  if (past_key && past_value) {
    a.past = situ_size(past_key, 2);
    a.k = situ_cat((situ_tensor *[]){ past_key, a.k }, 2, 2);
    a.v = situ_cat((situ_tensor *[]){ past_value, a.v }, 2, 2);
  }
  if (!a.k || !a.v) return NULL;
  if (situ_dim(a.q) != 4 || situ_dim(a.k) != 4 || situ_size(a.k, 1) < 1 || situ_size(a.q, 1) % situ_size(a.k, 1))
    return situ__call_refuse(c, "needs 3 or 4 dimensions, and heads that those of the keys divide");
  a.scale = situ__arg_given(c, SCALE) ? situ__arg_number(c, SCALE) : 1 / sqrt((double)situ_size(a.q, -1));
  if (!read_bias(c, &a)) return NULL;
  if (wants(c, 1)) c->result[1] = a.k;
  if (wants(c, 2)) c->result[2] = a.v;
  situ_tensor *y = attend(c, &a);
  return flat ? situ_flatten(situ_transpose(y, 1, 2), 2, 3) : y;
}

/* ---- attention that was written as its products (patterns.h) ---- */

/* Arguments: query, key (transposed), value, mask, scale, axis. Whether the operands are those of one call: with equal
   batches and heads, and a mask that adds no dimension. */
static bool is_one_call(situ__op_call *c, const situ_shape *q, const situ_shape *k, const situ_shape *v) {
  const int n = q->ndim;
  const situ_tensor *mask = situ__arg_tensor(c, 3);
  const int64_t axis = situ__arg_int(c, 5);
  const situ_dtype dtype = situ_dtype_of(situ__arg_tensor(c, 0));
  bool one = n >= 3 && k->ndim == n && v->ndim == n && (axis == -1 || axis == n - 1) && situ_dtype_is_floating(dtype);
  for (int d = 0; d < n - 2 && one; d++) one = q->dim[d] == k->dim[d] && q->dim[d] == v->dim[d];
  if (!one || !mask) return one;
  const situ_shape m = situ_shape_of(mask);
  for (int d = 1; d <= m.ndim && m.ndim <= n; d++)
    one = one && (m.dim[m.ndim - d] == 1 || m.dim[m.ndim - d] == (d == 1 ? k : q)->dim[n - d]);
  return one && m.ndim <= n && situ_dtype_of(mask) == dtype;
}
static situ_tensor *run_attend(situ__op_call *c) {
  situ_tensor *q = situ__arg_tensor(c, 0), *k = situ__arg_tensor(c, 1), *v = situ__arg_tensor(c, 2);
  situ_tensor *mask = situ__arg_tensor(c, 3);
  const double scale = situ__arg_number(c, 4);
  const situ_shape of_q = situ_shape_of(q), of_k = situ_shape_of(k), of_v = situ_shape_of(v);
  const situ_attention_options o = { .size = sizeof o, .attn_mask = mask, .scale = scale };
  if (is_one_call(c, &of_q, &of_k, &of_v))
    return situ_scaled_dot_product_attention(q, situ_transpose(k, -2, -1), v, &o);
  situ_tensor *scores = situ_mul_scalar(situ_matmul(q, k), scale);
  if (mask) scores = situ_add(scores, mask);
  return situ_matmul(situ_softmax(scores, situ__arg_dim(c, 5)), v);
}
const situ__op_row situ__onnx_attend = { "attention", "t query, t key, t value, t? mask, n scale, i axis",
                                         .run = run_attend };

/* ---- rotary embeddings (Su et al., arXiv:2104.09864) ---- */

/* Arguments: X, cos_cache, sin_cache, position_ids, interleaved, num_heads, rotary_embedding_dim. */
static situ_tensor *run_rotary(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *positions = situ__arg_tensor(c, 3);
  situ_tensor *angle[2] = { situ__arg_tensor(c, 1), situ__arg_tensor(c, 2) };
  const bool flat = situ_dim(x) == 3, interleaved = situ__arg_flag(c, 4);
  if (flat && situ__arg_int(c, 5) < 1) return situ__call_refuse(c, "has a number of heads below 1");
  x = flat ? split_heads(x, situ__arg_int(c, 5)) : x;
  const int64_t width = situ_size(x, -1), part = situ__arg_int(c, 6) ? situ__arg_int(c, 6) : width;
  if (part < 0 || part > width) return situ__call_refuse(c, "turns more features than its input has");
  situ_tensor *turned = situ_narrow(x, -1, 0, part),
              *rest = part < width ? situ_narrow(x, -1, part, width - part) : NULL;
  for (int i = 0; i < 2; i++) {
    if (positions) angle[i] = situ_index(angle[i], &positions, 1);
    angle[i] = situ_unsqueeze(angle[i], 1); /* of all heads */
  }
  const int64_t half = part / 2;
  situ_tensor *a = interleaved ? situ_slice(turned, -1, 0, INT64_MAX, 2) : situ_narrow(turned, -1, 0, half);
  situ_tensor *b = interleaved ? situ_slice(turned, -1, 1, INT64_MAX, 2) : situ_narrow(turned, -1, half, half);
  situ_tensor *pair[2] = { situ_sub(situ_mul(a, angle[0]), situ_mul(b, angle[1])),
                           situ_add(situ_mul(a, angle[1]), situ_mul(b, angle[0])) };
  situ_tensor *y = interleaved ? situ_flatten(situ_stack(pair, 2, -1), -2, -1) : situ_cat(pair, 2, -1);
  if (rest) y = situ_cat((situ_tensor *[]){ y, rest }, 2, -1);
  return flat ? situ_flatten(situ_transpose(y, 1, 2), 2, 3) : y;
}

static situ_tensor *run_swiglu(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const double alpha = situ__arg_number(c, 2);
  situ_tensor *gate = alpha == 1 ? situ_silu(x) : situ_mul(x, situ_sigmoid(situ_mul_scalar(x, alpha)));
  return situ_mul(gate, situ__arg_tensor(c, 1));
}

/* ---- layers with a state, which the next call gets ---- */

/* A convolution of each channel by itself, which sees the steps before the input. */
static situ_tensor *run_causal_conv(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1), *past = situ__arg_tensor(c, 3);
  if (situ_dim(x) != 3 || situ_dim(weight) != 3)
    return situ__call_refuse(c, "needs an input and a weight of 3 dimensions");
  const int64_t channels = situ_size(x, 1), before = situ_size(weight, 2) - 1;
  if (before < 0 || (past && situ_size(past, 2) != before))
    return situ__call_refuse(c, "needs a state of one step less than its weight");
  x = past ? situ_cat((situ_tensor *[]){ past, x }, 2, 2) : situ_pad(x, SITU_SHAPE(before, 0), SITU_PAD_CONSTANT, 0);
  situ_tensor *y = situ_conv1d(x, weight, situ__arg_tensor(c, 2), &(situ_conv_options){ .groups = channels });
  situ_tensor **state = situ__call_result(c, 1);
  if (state) *state = situ_narrow(x, 2, situ_size(x, 2) - before, before);
  return *situ__arg_text(c, 4) == 's' ? situ_silu(y) : y;
}

/* Heads in f32, [N, heads, L, E]. */
static situ_tensor *f32_heads(situ_tensor *x, int64_t heads) { return situ_to_dtype(split_heads(x, heads), SITU_F32); }

typedef struct linear_attention {
  situ_tensor *q, *k, *v, *decay,
      *beta;          /* heads; q has those of a key in a group of their own, [N, heads, group, L, E] */
  situ_tensor *state; /* [N, heads, E, value's E] */
} linear_attention;

/* Step t: the state decays, takes in what the value differs (beta) from what it has for the key, and is read. */
static situ_tensor *attend_step(linear_attention *a, int64_t t) {
  situ_tensor *k = situ_narrow(a->k, 2, t, 1), *v = situ_narrow(a->v, 2, t, 1);
  if (a->decay) a->state = situ_mul(a->state, situ_exp(situ_unsqueeze(situ_select(a->decay, 2, t), -1)));
  if (a->beta) v = situ_mul(situ_narrow(a->beta, 2, t, 1), situ_sub(v, situ_matmul(k, a->state)));
  a->state = situ_add(a->state, situ_matmul(situ_transpose(k, -2, -1), v));
  return situ_matmul(situ_select(a->q, 3, t), a->state);
}

/* Arguments: query, key, value, past_state, decay, beta, chunk_size, kv_num_heads, q_num_heads, scale, update_rule. */
static situ_tensor *run_linear_attention(situ__op_call *c) {
  situ_tensor *query = situ__arg_tensor(c, 0), *past = situ__arg_tensor(c, 3), *decay = situ__arg_tensor(c, 4);
  situ_tensor *beta = situ__arg_tensor(c, 5);
  const char *rule = situ__arg_given(c, 10) ? situ__arg_text(c, 10) : "gated_delta";
  const int64_t heads = situ__arg_int(c, 7), group = heads > 0 ? situ__arg_int(c, 8) / heads : 0;
  const int64_t steps = situ_dim(query) == 3 ? situ_size(query, 1) : 0;
  if (group < 1 || group * heads != situ__arg_int(c, 8) || steps < 1 || steps > SITU__CALL_MOST)
    return situ__call_refuse(c, "needs heads of the query for each of the key, and 1 to 131072 steps of 3 dimensions");
  if ((*rule == 'g') != (decay != NULL) || (strstr(rule, "delta") != NULL) != (beta != NULL))
    return situ__call_refuse(c, "has another update_rule than inputs decay and beta");
  linear_attention a = { .q = f32_heads(query, heads * group),
                         .k = f32_heads(situ__arg_tensor(c, 1), heads),
                         .v = f32_heads(situ__arg_tensor(c, 2), heads),
                         .decay = decay ? f32_heads(decay, heads) : NULL,
                         .beta = beta ? f32_heads(beta, situ_size(beta, -1)) : NULL };
  const int64_t batch = situ_size(a.q, 0), size = situ_size(a.q, 3);
  const double scale = situ__arg_number(c, 9);
  const situ_options f32 = { .dtype = SITU_F32, .device = situ_device_of(a.q) };
  a.q = situ_reshape(situ_mul_scalar(a.q, scale != 0 ? scale : 1 / sqrt((double)size)),
                     SITU_SHAPE(batch, heads, group, steps, size));
  a.state = past ? situ_to_dtype(past, SITU_F32) : situ_zeros(SITU_SHAPE(batch, heads, size, situ_size(a.v, 3)), &f32);
  situ_tensor **y = situ__call_take(c, steps, sizeof(situ_tensor *)), **state = situ__call_result(c, 1);
  const bool same = situ_device_of(a.q).kind == SITU_META; /* all steps are, there */
  for (int64_t t = 0; y && t < steps; t++)
    if (!(y[t] = same && t ? y[0] : attend_step(&a, t))) return NULL;
  if (!y) return NULL;
  if (state) *state = situ_to_dtype(a.state, situ_dtype_of(past ? past : query));
  situ_tensor *all = situ_flatten(situ_stack(y, (int)steps, 3), 1, 2); /* [N, heads, L, E] */
  return situ_to_dtype(situ_flatten(situ_transpose(all, 1, 2), 2, 3), situ_dtype_of(query));
}

static const situ__op_row rows[] = {
  { "Attention",
    "t Q, t K, t V, t? attn_mask, t? past_key, t? past_value, t? nonpad_kv_seqlen, i is_causal=0, "
    "i? kv_num_heads, i? q_num_heads, n? scale, n softcap=0, i qk_matmul_output_mode=0, "
    "i left_window_size=-1, i right_window_size=-1, i? softmax_precision",
    .inputs = 7, .results = 4, .run = run_attention },
  { "RotaryEmbedding",
    "t X, t cos_cache, t sin_cache, t? position_ids, i interleaved=0, i num_heads=0, "
    "i rotary_embedding_dim=0",
    .inputs = 4, .run = run_rotary },
  { "SwiGLU", "t A, t B, n alpha=1", .inputs = 2, .run = run_swiglu },
  { "CausalConvWithState", "t input, t weight, t? bias, t? past_state, s? activation(none|silu|swish)", .inputs = 4,
    .results = 2, .run = run_causal_conv },
  { "LinearAttention",
    "t query, t key, t value, t? past_state, t? decay, t? beta, _ chunk_size, i kv_num_heads, i q_num_heads, "
    "n scale=0, s? update_rule(linear|gated|delta|gated_delta)",
    .inputs = 6, .results = 2, .run = run_linear_attention },
};
const situ__op_family situ__onnx_attention_family = { rows, sizeof rows / sizeof *rows };
