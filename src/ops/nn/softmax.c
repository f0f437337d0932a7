/* softmax and log_softmax along a dimension.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

typedef struct softmax_params {
  int dim;
} softmax_params;

static bool forward(situ_call *c) {
  const softmax_params *p = c->params;
  situ_tensor *x = situ_contiguous(c->in[0]);
  situ_view_desc from, to;
  return x && situ_launch(c->op->name, c->device,
                          &(situ_work){ SITU_VERB_SOFTMAX, .op = c->op->code, .compute = c->dtype[0], .ins = 1,
                                        .outs = 1, .in = { situ__ranked(situ_desc(x), &from) },
                                        .out = { situ__ranked(situ__desc(c->out[0]), &to) }, .integer = { p->dim } });
}

/* The gradient's pass is the forward's code plus two. */
static bool backward(situ_grad_call *g) {
  const softmax_params *p = g->params;
  situ_tensor *y = g->out[0], *up = situ_contiguous(g->grad[0]), *dx = situ_empty_like(y, NULL);
  if (!up || !dx) return false;
  g->dx[0] = dx;
  situ_view_desc a, b, to;
  if (!situ_numel(dx) || g->device.kind == SITU_META) return true;
  return situ_launch(g->op->name, g->device,
                     &(situ_work){ SITU_VERB_SOFTMAX, .op = g->op->code + SITU_SOFTMAX_GRAD,
                                   .compute = situ_dtype_of(y), .ins = 2, .outs = 1,
                                   .in = { situ__ranked(situ_desc(y), &a), situ__ranked(situ_desc(up), &b) },
                                   .out = { situ__ranked(situ_desc(dx), &to) }, .integer = { p->dim } });
}

/* softmax's Jacobian is symmetric: its product with a tangent is the gradient's pass. */
static bool softmax_forward_derivative(const situ_call *c, situ_tensor *const *tangent, situ_tensor **dy) {
  situ_grad_call g = { .op = c->op,
                       .params = c->params,
                       .device = c->device,
                       .out = c->out,
                       .grad = (situ_tensor *[]){ tangent[0] },
                       .dx = dy };
  return backward(&g);
}
/* t - sum(e^y t). */
static bool log_softmax_forward_derivative(const situ_call *c, situ_tensor *const *tangent, situ_tensor **dy) {
  const softmax_params *p = c->params;
  const situ_reduce_options along = { .dim = SITU_DIMS(p->dim), .keepdim = true };
  return (dy[0] = situ_sub(tangent[0], situ_sum(situ_mul(situ_exp(c->out[0]), tangent[0]), &along))) != NULL;
}

/* y (g - sum(g y)), and g - e^y sum(g) of the logarithm. */
static bool softmax_recorded(situ_grad_call *g) {
  const softmax_params *p = g->params;
  situ_tensor *y = g->out[0], *up = g->grad[0];
  const situ_reduce_options along = { .dim = SITU_DIMS(p->dim), .keepdim = true };
  return (g->dx[0] = situ_mul(y, situ_sub(up, situ_sum(situ_mul(up, y), &along)))) != NULL;
}
static bool log_softmax_recorded(situ_grad_call *g) {
  const softmax_params *p = g->params;
  const situ_reduce_options along = { .dim = SITU_DIMS(p->dim), .keepdim = true };
  return (g->dx[0] = situ_sub(g->grad[0], situ_mul(situ_exp(g->out[0]), situ_sum(g->grad[0], &along)))) != NULL;
}

static bool batched(situ_batch_call *c) { return situ__batch_dim(c, offsetof(softmax_params, dim)); }

static bool traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "*.int", "ti", c->in[0], (int64_t)((const softmax_params *)c->params)->dim);
}

#define SOFTMAX(id, pass)                                                                       \
  SITU_OP(id##_op) = { .name = #id,                                                             \
                       .operand = { { "input", SITU_FLOATING } },                               \
                       .flags = SITU_OP_COMPOSED,                                               \
                       .code = pass,                                                            \
                       .autocast = { SITU_CAST_NOT, SITU_CAST_F32 },                            \
                       .save = SITU_SAVE_OUT(0),                                                \
                       .params_size = sizeof(softmax_params),                                   \
                       .infer = situ_infer_like,                                                \
                       .forward = forward,                                                      \
                       .batched = batched,                                                      \
                       .traced = traced,                                                        \
                       .backward = backward,                                                    \
                       .backward_recorded = id##_recorded,                                      \
                       .forward_derivative = id##_forward_derivative };                         \
  situ_tensor *situ_##id(situ_tensor *input, int dim) {                                         \
    softmax_params p;                                                                           \
    return situ__need(#id, "input", input) && situ_wrap_dim(#id, dim, input->view.ndim, &p.dim) \
               ? situ_op_run1(&id##_op, input, &p)                                              \
               : NULL;                                                                          \
  }
SOFTMAX(softmax, SITU_SOFTMAX)
SOFTMAX(log_softmax, SITU_LOG_SOFTMAX)
