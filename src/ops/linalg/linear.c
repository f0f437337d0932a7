/* linear: input weight^T + bias, and the same with an activation. If the device supports SITU_VERB_LINEAR, bias,
   activation and the gradient of the bias are fused into the products; else they are composed here.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"
#include "ops/samples.h"
#include "situ/sys/plain.h"

enum { INPUT, WEIGHT, BIAS };
enum { RESULT, BEFORE }; /* BEFORE: the activation's input, where its gradient needs it; absent for relu */
enum { NUMBERS = SITU_FLOATING | SITU_INTEGRAL | SITU_SAME };

typedef struct linear_params {
  situ_activation activation;
} linear_params;

/* Of a call with a weight that is laid out before. */
typedef struct by_params {
  const situ_tensor *packed;
} by_params;

static int unary_of(const linear_params *p) { return situ__activation_unary(p->activation); }

situ_unary situ__activation_unary(situ_activation activation) {
  static const situ_unary all[] = { [SITU_ACTIVATION_RELU] = SITU_UNARY_relu,
                                    [SITU_ACTIVATION_GELU_TANH] = SITU_UNARY_gelu_tanh,
                                    [SITU_ACTIVATION_GELU] = SITU_UNARY_gelu,
                                    [SITU_ACTIVATION_SILU] = SITU_UNARY_silu };
  return all[activation];
}

/* ---- shapes ---- */

static bool infer(situ_call *c) {
  const situ_view_desc *x = situ__desc(c->in[INPUT]), *w = situ__desc(c->in[WEIGHT]), *b = situ__desc(c->in[BIAS]);
  char l[SITU_SHAPE_TEXT], r[SITU_SHAPE_TEXT];
  if (x->ndim < 1 || w->ndim != 2)
    return situ_refuse(c, SITU_E_SHAPE, "needs input [.., in] and weight [out, in], got %d and %d dimensions", x->ndim,
                       w->ndim);
  const int64_t in = x->size[x->ndim - 1], out = w->size[0];
  if (in != w->size[1]) {
    const situ_shape left = situ__shape(x), right = situ__shape(w);
    return situ_refuse(c, SITU_E_SHAPE, "%s x %s: %lld and %lld differ", situ_shape_text(&left, l),
                       situ_shape_text(&right, r), (long long)in, (long long)w->size[1]);
  }
  if (b && (b->ndim != 1 || b->size[0] != out)) {
    const situ_shape shape = situ__shape(b);
    return situ_refuse(c, SITU_E_SHAPE, "bias is %s, must be [%lld]", situ_shape_text(&shape, l), (long long)out);
  }
  c->shape[RESULT] = situ__shape(x);
  c->shape[RESULT].dim[x->ndim - 1] = out;
  c->dtype[RESULT] = (situ_dtype)x->dtype;
  return true;
}

/* relu's gradient needs only its result; the input of others is kept only if backward may run. */
static bool activation_infer(situ_call *c) {
  const linear_params *p = c->params;
  if (!infer(c)) return false;
  bool recorded = false;
  for (int k = INPUT; k <= BIAS; k++) recorded = recorded || situ__keeps(c->in[k]);
  c->shape[BEFORE] = c->shape[RESULT];
  c->dtype[BEFORE] =
      p->activation != SITU_ACTIVATION_RELU && recorded && situ__recording() ? c->dtype[RESULT] : SITU_DTYPE_DEFAULT;
  return true;
}

/* For a dry run: assumes that the input has the features that the weight expects. */
static bool mend(situ_call *c) {
  return situ__desc(c->in[WEIGHT])->ndim == 2 &&
         situ_mend_size(c, INPUT, situ__desc(c->in[INPUT])->ndim - 1, situ__desc(c->in[WEIGHT])->size[1]);
}

/* ---- forward ---- */

/* A matrix whose rows are the last dimension of v, which must be a matrix or contiguous. It has as many rows as y, the
   result, which has elements. */
static const situ_view_desc *rows_of(const situ_view_desc *v, const situ_view_desc *y, situ_view_desc *desc) {
  if (v->ndim == 2) return v;
  return situ_desc_reshape(v, SITU_SHAPE(y->numel / y->size[y->ndim - 1], v->size[v->ndim - 1]), desc);
}

/* packed: what situ_linear_lay_out made of the weight, or NULL. */
static bool multiply(const situ_call *c, const situ_view_desc *x, const situ_tensor *packed, const situ_view_desc *y) {
  situ_view_desc across;
  const situ_view_desc *b = situ__desc(c->in[BIAS]);
  return situ__product_by(c->op->name, c->device, x, situ__transposed(situ__desc(c->in[WEIGHT]), &across), packed, b, y,
                          1, b ? 1 : 0);
}

static inline bool plain_rows(situ_call *c, const situ_view_desc *x) {
  const by_params *p = c->params;
  situ_view_desc rows, to;
  const situ_view_desc *y = situ__desc(c->out[RESULT]);
  return multiply(c, rows_of(x, y, &rows), p ? p->packed : NULL, rows_of(y, y, &to));
}

static bool activated_rows(situ_call *c, const situ_view_desc *x) {
  const linear_params *p = c->params;
  situ_view_desc rows, to, before;
  const situ_view_desc *result = situ__desc(c->out[RESULT]), *y = rows_of(result, result, &to),
                       *kept = c->out[BEFORE] ? rows_of(situ__desc(c->out[BEFORE]), result, &before) : NULL;
  const situ_work whole = { SITU_VERB_LINEAR,
                            .op = SITU_LINEAR,
                            .compute = (situ_dtype)y->dtype,
                            .ins = 3,
                            .outs = 2,
                            .in = { rows_of(x, result, &rows), situ__desc(c->in[WEIGHT]), situ__desc(c->in[BIAS]) },
                            .out = { y, kept },
                            .integer = { unary_of(p) } };
  bool offered;
  if (situ__offers(c->op->name, c->device, &whole, &offered) != SITU_OK) return false;
  if (offered) return situ_launch(c->op->name, c->device, &whole);
  const situ_view_desc *from = kept ? kept : y;
  return multiply(c, whole.in[INPUT], NULL, from) &&
         situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_UNARY, .op = unary_of(p), .compute = (situ_dtype)y->dtype, .ins = 1,
                                   .outs = 1, .in = { from }, .out = { y } });
}

/* Copies an input that is neither a matrix nor contiguous, which needs a scope. */
static __attribute__((noinline)) bool on_copy(situ_call *c, bool (*of_rows)(situ_call *, const situ_view_desc *)) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *copy = situ_contiguous(c->in[INPUT]);
  const bool good = copy && of_rows(c, situ_desc(copy));
  SITU_IGNORE(situ_scope_end(&s));
  return good;
}
/* Others are used in place. */
static inline bool on_rows(situ_call *c, bool (*of_rows)(situ_call *, const situ_view_desc *)) {
  const situ_view_desc *x = situ__desc(c->in[INPUT]);
  return x->ndim == 2 || x->contiguous ? of_rows(c, x) : on_copy(c, of_rows);
}
static bool forward(situ_call *c) { return on_rows(c, plain_rows); }
static bool activation_forward(situ_call *c) { return situ_numel(c->out[RESULT]) == 0 || on_rows(c, activated_rows); }

/* ---- backward ---- */

static situ_tensor *as_rows(situ_tensor *x) {
  return situ_dim(x) == 2 ? x : situ_dim(x) == 1 ? situ_unsqueeze(x, 0) : situ_flatten(x, 0, -2);
}

/* Gradients of weight and bias in one product, if the device supports it. Sets *done if it did. */
static bool together(situ_grad_call *g, situ_tensor *rows, situ_tensor *x, bool *done) {
  if (!g->wants[WEIGHT] || !g->wants[BIAS] || !situ__has_verb(g->device, SITU_VERB_LINEAR) ||
      g->device.kind == SITU_META)
    return true;
  const situ_options like = { .dtype = situ_dtype_of(rows), .device = g->device };
  situ_tensor *weight = situ_empty(g->shape[WEIGHT], &like), *bias = situ_empty(g->shape[BIAS], &like);
  if (!weight || !bias) return false;
  const situ_work work = { SITU_VERB_LINEAR,
                           .op = SITU_LINEAR_GRAD_WEIGHT,
                           .compute = like.dtype,
                           .ins = 2,
                           .outs = 2,
                           .in = { situ_desc(rows), situ_desc(x) },
                           .out = { situ_desc(weight), situ_desc(bias) } };
  if (situ__offers(g->op->name, g->device, &work, done) != SITU_OK) return false;
  if (!*done) return true;
  g->dx[WEIGHT] = weight;
  g->dx[BIAS] = bias;
  return situ_launch(g->op->name, g->device, &work);
}

/* Whether nothing looks at the calls that a gradient is made of: then it needs no views for them. */
static bool is_unseen(const situ_grad_call *g) {
  return situ_is_plain() && situ__forward_mode != SITU__FORWARD_TRACED && g->device.kind != SITU_META;
}

/* a b in a new tensor of operand i's shape. */
static situ_tensor *product_for(const situ_grad_call *g, int i, const situ_view_desc *a, const situ_tensor *b) {
  situ_tensor *dx = situ__tensor_new(g->op->name, &g->shape[i], (situ_dtype)a->dtype, g->device);
  return dx && situ__product(g->op->name, g->device, a, situ_desc(b), NULL, situ_desc(dx), 1, 0) ? dx : NULL;
}

/* A recorded vector times a matrix is one call of linear; situ_matmul makes views for it. */
static situ_tensor *grad_input(const situ_grad_call *g, situ_tensor *up, situ_tensor *weight) {
  if (situ_dim(up) == 2 && is_unseen(g)) return product_for(g, INPUT, situ_desc(up), weight);
  const bool vector = situ_dim(up) == 1 && situ__recording();
  return vector ? situ_linear(up, situ_transpose(weight, 0, 1), NULL) : situ_matmul(up, weight);
}

/* rows^T x. */
static situ_tensor *grad_weight(const situ_grad_call *g, situ_tensor *rows, situ_tensor *x) {
  situ_view_desc across;
  return is_unseen(g) ? product_for(g, WEIGHT, situ__transposed(situ_desc(rows), &across), x)
                      : situ_mm(situ_transpose(rows, 0, 1), x);
}

/* The sum of the rows, which is taken of a gradient that has more dimensions than its operand. */
static situ_tensor *grad_bias(const situ_grad_call *g, situ_tensor *rows) {
  return is_unseen(g) ? rows : situ_sum(rows, &(situ_reduce_options){ .dim = SITU_DIMS(0) });
}

/* up: the gradient of input weight^T + bias. */
static bool back(situ_grad_call *g, situ_tensor *up) {
  bool done = false;
  if (!GRAD(g, INPUT, grad_input(g, up, g->in[WEIGHT]))) return false;
  if (!g->wants[WEIGHT] && !g->wants[BIAS]) return true;
  situ_tensor *rows = as_rows(up), *x = g->wants[WEIGHT] ? as_rows(g->in[INPUT]) : NULL;
  if (!rows || (g->wants[WEIGHT] && !x)) return false;
  if (g->wants[WEIGHT] && !situ__recording() && !together(g, rows, x, &done)) return false;
  return done || (GRAD(g, WEIGHT, grad_weight(g, rows, x)) && GRAD(g, BIAS, grad_bias(g, rows)));
}
static bool backward(situ_grad_call *g) { return back(g, g->grad[RESULT]); }

/* BEFORE has a gradient where the activation's one is differentiated again. */
static bool activation_backward(situ_grad_call *g) {
  static const double none[4] = { 0 };
  situ_tensor *value = g->out[BEFORE] ? g->out[BEFORE] : g->out[RESULT], *up = g->grad[BEFORE];
  if (g->grad[RESULT]) {
    situ_tensor *slope = situ__unary_gradient(situ__unary_row(unary_of(g->params)), none, value, g->grad[RESULT]);
    up = up ? situ_add(up, slope) : slope;
  }
  return up && back(g, up);
}

/* The activation's slope times the derivative of input weight^T + bias. */
static bool activation_forward_derivative(const situ_call *c, situ_tensor *const *tangent, situ_tensor **dy) {
  static const double none[4] = { 0 };
  situ_tensor *value = c->out[BEFORE] ? c->out[BEFORE] : c->out[RESULT], *before = NULL;
  if (tangent[INPUT] && !(before = situ_linear(tangent[INPUT], c->in[WEIGHT], tangent[BIAS]))) return false;
  if (tangent[WEIGHT]) {
    situ_tensor *part = situ_linear(c->in[INPUT], tangent[WEIGHT], before ? NULL : tangent[BIAS]);
    if (!(before = before ? situ_add(before, part) : part)) return false;
  }
  if (!before && !(before = situ_expand(tangent[BIAS], situ__shape(&c->out[RESULT]->view)))) return false;
  return (dy[0] = situ__unary_gradient(situ__unary_row(unary_of(c->params)), none, value, before)) != NULL;
}

/* ---- the ops ---- */

/* Weights of each sample: one product for each. */
static bool linear_batched(situ_batch_call *c) {
  situ_tensor *x = c->in[INPUT], *w = c->in[WEIGHT], *b = c->in[BIAS], *y;
  if (!c->batched[WEIGHT] && !b && situ__is_identity(x))
    return (c->out[0] = situ_clone(situ_transpose(w, 0, 1))) != NULL;
  if (!c->batched[WEIGHT] && !(b && c->batched[BIAS])) return situ_batch_leading(c);
  const int64_t width = situ_size(x, -1);
  x = situ_reshape(x, c->batched[INPUT] ? SITU_SHAPE(c->samples, -1, width) : SITU_SHAPE(-1, width));
  if (!width || !(y = situ_matmul(x, situ_transpose(w, -2, -1)))) return width ? false : situ_batch_each(c);
  if (b) y = situ_add(y, c->batched[BIAS] ? situ_unsqueeze(b, 1) : b);
  return (c->out[0] = situ__batch_result(c, y, 0)) != NULL;
}

static bool linear_traced(const situ_call *c, situ_export_trace *t) { return situ_export_operands(t, c, "default"); }

SITU_OP(linear_op) = { .name = "linear",
                       .traced = linear_traced,
                       .operand = { { "input", NUMBERS }, { "weight", NUMBERS }, { "bias", NUMBERS | SITU_OPTIONAL } },
                       .flags = SITU_OP_PRODUCT | SITU_OP_BILINEAR,
                       .autocast = { SITU_CAST_LOW, SITU_CAST_LOW },
                       .save = SITU_SAVE(INPUT) | SITU_SAVE(WEIGHT),
                       .infer = infer,
                       .forward = forward,
                       .batched = linear_batched,
                       .mend = mend,
                       .backward = backward,
                       .backward_recorded = backward };

/* A 1-D weight: one output without a dimension; as in torch, it takes no bias. */
static situ_tensor *of_vector(situ_tensor *input, situ_tensor *weight, situ_tensor *bias) {
  SITU__MADE_OF_OPS("linear");
  if (!situ__together(&linear_op, (situ_tensor *[]){ input, weight, bias }, 3)) return NULL;
  const situ_view_desc *x = situ_desc(input), *w = situ_desc(weight);
  if (bias || !x->ndim)
    return situ__fail(SITU_E_SHAPE, "linear",
                      bias ? "bias is given, but weight has 1 dimension: must be [out, in]"
                           : "input is 0-dim, must be [.., in]"),
           NULL;
  if (x->size[x->ndim - 1] == w->size[0]) return situ_matmul(input, weight);
  const situ_shape left = situ__shape(x), right = situ__shape(w);
  char l[SITU_SHAPE_TEXT], r[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, "linear", "input %s x weight %s: %lld and %lld differ", situ_shape_text(&left, l),
                    situ_shape_text(&right, r), (long long)x->size[x->ndim - 1], (long long)w->size[0]),
         NULL;
}

situ_tensor *situ_linear(situ_tensor *input, situ_tensor *weight, situ_tensor *bias) {
  if (situ__alive(weight) && weight->view.ndim == 1) return of_vector(input, weight, bias);
  return situ_op_run3(&linear_op, input, weight, bias, NULL);
}

/* ---- weights that are laid out before ---- */

/* Runs where values are computed and nothing else: it needs no gradient, and has the name of linear. */
static const situ_op by_op = {
  .name = "linear",
  .operand = { { "input", NUMBERS }, { "weight", NUMBERS }, { "bias", NUMBERS | SITU_OPTIONAL } },
  .flags = SITU_OP_PRODUCT,
  .params_size = sizeof(by_params),
  .infer = infer,
  .forward = forward
};

bool situ_linear_lay_out(situ_tensor *weight, int64_t rows, situ_tensor **packed) {
  const char *op = "linear_lay_out";
  if (!situ__given(op, "packed", packed)) return false;
  *packed = NULL;
  if (!situ__need(op, "weight", weight)) return false;
  situ_view_desc across;
  const situ_view_desc *w = situ_desc(weight);
  return w->ndim != 2 || situ__prepack_b(op, situ_device_of(weight), situ__transposed(w, &across), rows, true, packed);
}

situ_tensor *situ_linear_by(situ_tensor *input, situ_tensor *weight, situ_tensor *bias, situ_tensor *packed) {
  const char *op = "linear_by";
  if (!packed) return situ_linear(input, weight, bias);
  if (!situ__need(op, "weight", weight)) return NULL;
  const situ_view_desc *w = situ_desc(weight);
  const int64_t bytes = w->ndim == 2 ? situ_prepack_bytes(w->size[1], w->size[0]) : 0;
  if (!situ__is_prepacked(op, "linear_lay_out", packed, weight, bytes)) return NULL;
  if (!situ_is_plain()) return situ_linear(input, weight, bias);
  return situ_op_run3(&by_op, input, weight, bias, &(by_params){ packed });
}

/* ---- linear and an activation ---- */

enum { FLOATS = SITU_FLOATING | SITU_SAME };
static bool activation_traced(const situ_call *c, situ_export_trace *t) {
  const linear_params *p = c->params;
  if (!situ_export_call(t, "linear.default", "ttt", c->in[INPUT], c->in[WEIGHT], c->in[BIAS])) return false;
  if (unary_of(p) == SITU_UNARY_relu) return situ_export_call(t, "relu.default", "^");
  return situ_export_call(t, "gelu.default", "^s", "tanh");
}

SITU_OP(linear_activation_op) = {
  .name = "linear_activation",
  .traced = activation_traced,
  .operand = { { "input", FLOATS }, { "weight", FLOATS }, { "bias", FLOATS | SITU_OPTIONAL } },
  .outs = 2,
  .shown = 1,
  .flags = SITU_OP_PRODUCT,
  .autocast = { SITU_CAST_LOW, SITU_CAST_LOW },
  .params_size = sizeof(linear_params),
  .save = SITU_SAVE(INPUT) | SITU_SAVE(WEIGHT) | SITU_SAVE_OUT(RESULT) | SITU_SAVE_OUT(BEFORE),
  .infer = activation_infer,
  .forward = activation_forward,
  .batched = situ_batch_leading,
  .mend = mend,
  .backward = activation_backward,
  .backward_recorded = activation_backward,
  .forward_derivative = activation_forward_derivative
};

situ_tensor *situ_linear_activation(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                    situ_activation activation) {
  const linear_params p = { activation };
  if (activation == SITU_ACTIVATION_NONE) return situ_linear(input, weight, bias);
  if ((unsigned)activation <= SITU_ACTIVATION_SILU)
    return situ_op_run(&linear_activation_op, (situ_tensor *[]){ input, weight, bias }, 3, &p, NULL);
  return situ__fail(SITU_E_ARG, "linear_activation", "activation is %d, must be one of situ_activation",
                    (int)activation),
         NULL;
}
