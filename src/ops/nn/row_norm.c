/* Normalisation of rows: layer_norm and rms_norm.
   SPDX-License-Identifier: MIT */
#include <float.h>
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

typedef struct norm_params {
  int dims; /* number of trailing dimensions that form a row */
  double eps;
} norm_params;

/* Statistics are kept in f32, in f64 for f64. */
static situ_dtype statistics(situ_dtype x) { return x == SITU_F64 ? SITU_F64 : SITU_F32; }

/* [rows, width] of a tensor whose last dims form a row. */
static void extent(const situ_shape *x, int dims, int64_t *rows, int64_t *width) {
  *rows = *width = 1;
  for (int d = 0; d < x->ndim; d++) *(d < x->ndim - dims ? rows : width) *= x->dim[d];
}

static bool same_tail(const situ_call *c, int operand, const norm_params *p) {
  const situ_view_desc *x = situ__desc(c->in[0]), *w = situ__desc(c->in[operand]);
  if (!w) return true;
  bool good = w->ndim == p->dims;
  for (int d = 0; good && d < p->dims; d++) good = w->size[d] == x->size[x->ndim - p->dims + d];
  if (good) return true;
  situ_shape own = situ__shape(w), whole = situ__shape(x);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  return situ_refuse(c, SITU_E_SHAPE, "%s is %s, must be the last %d dimensions of input %s",
                     c->op->operand[operand].name, situ_shape_text(&own, a), p->dims, situ_shape_text(&whole, b));
}

/* Results: y, mean (layer_norm only), 1 / standard deviation. */
static bool infer(situ_call *c) {
  const norm_params *p = c->params;
  for (int i = 1; i < c->ins; i++)
    if (!same_tail(c, i, p)) return false;
  situ_infer_like(c);
  int64_t rows, width;
  extent(&c->shape[0], p->dims, &rows, &width);
  for (int k = 1; k < c->outs; k++) {
    c->shape[k] = SITU_SHAPE(rows);
    c->dtype[k] = statistics(c->dtype[0]);
  }
  return true;
}

/* Operands in the verb's shapes: x and its gradient as [rows, width], weights as [width]. */
static const situ_view_desc *as_rows(situ_tensor *t, int64_t rows, int64_t width, situ_view_desc *desc) {
  return t ? situ_desc_reshape(situ_desc(t), SITU_SHAPE(rows, width), desc) : NULL;
}
static const situ_view_desc *as_weight(situ_tensor *t, int64_t width, situ_view_desc *desc) {
  return t ? situ_desc_reshape(situ_desc(t), SITU_SHAPE(width), desc) : NULL;
}

static bool forward(situ_call *c) {
  const norm_params *p = c->params;
  situ_tensor *in[3] = { NULL };
  int64_t rows, width;
  situ_view_desc desc[4];
  for (int i = 0; i < c->ins; i++)
    if (c->in[i] && !(in[i] = situ_contiguous(c->in[i]))) return false;
  extent(&c->shape[0], p->dims, &rows, &width);
  if (!width) { /* rows without elements: no kernel divides by their width */
    for (int k = 1; k < c->outs; k++)
      if (!situ_zero_(c->out[k])) return false;
    return true;
  }
  situ_work work = { SITU_VERB_NORM,
                     .op = c->op->code,
                     .compute = c->dtype[0],
                     .ins = c->ins,
                     .outs = c->outs,
                     .scalar = { p->eps },
                     .in = { as_rows(in[0], rows, width, &desc[0]), as_weight(in[1], width, &desc[1]),
                             as_weight(in[2], width, &desc[2]) },
                     .out = { as_rows(c->out[0], rows, width, &desc[3]) } };
  for (int k = 1; k < c->outs; k++) work.out[k] = situ__desc(c->out[k]);
  return situ_launch(c->op->name, c->device, &work);
}

static situ_tensor *like_operand(const situ_grad_call *g, int i) {
  if (!g->wants[i]) return NULL;
  return situ_empty(g->shape[i], &(situ_options){ .dtype = g->dtype[i], .device = g->device });
}

static bool backward(situ_grad_call *g) {
  const norm_params *p = g->params;
  bool centred = g->op->code == SITU_LAYER_NORM;
  int64_t rows, width;
  extent(&g->shape[0], p->dims, &rows, &width);
  situ_tensor *up = situ_contiguous(g->grad[0]), *x = situ_contiguous(g->in[0]),
              *weight = g->in[1] ? situ_contiguous(g->in[1]) : NULL;
  if (!up || !x || (g->in[1] && !weight)) return false;
  for (int i = 0; i < g->ins; i++)
    if (g->wants[i] && !(g->dx[i] = like_operand(g, i))) return false;
  if (g->device.kind == SITU_META) return true;
  if (!rows || !width) {
    for (int i = 1; i < g->ins; i++)
      if (g->wants[i] && !situ_zero_(g->dx[i])) return false;
    return true;
  }
  situ_view_desc desc[6];
  situ_work work = { SITU_VERB_NORM,
                     .op = g->op->code + 1,
                     .compute = g->dtype[0],
                     .scalar = { p->eps },
                     .in = { as_rows(up, rows, width, &desc[0]), as_rows(x, rows, width, &desc[1]) },
                     .out = { as_rows(g->dx[0], rows, width, &desc[2]), as_weight(g->dx[1], width, &desc[3]) } };
  int n = 2;
  if (centred) work.in[n++] = situ__desc(g->out[1]);
  work.in[n++] = situ__desc(g->out[centred ? 2 : 1]);
  work.in[n++] = as_weight(weight, width, &desc[4]);
  work.ins = n;
  work.outs = centred ? 3 : 2;
  if (centred) work.out[2] = as_weight(g->dx[2], width, &desc[5]);
  return situ_launch(g->op->name, g->device, &work);
}

static situ_tensor *composed(const situ_grad_call *g, situ_tensor *const *in, int result) {
  (void)result;
  const norm_params *p = g->params;
  situ_tensor *x = in[0];
  situ_reduce_options rows = { .keepdim = true };
  for (int d = -p->dims; d < 0; d++) rows.dim.dim[rows.dim.ndim++] = d;
  if (g->op->code == SITU_LAYER_NORM) x = situ_sub(x, situ_mean(x, &rows));
  situ_tensor *y = situ_mul(x, situ_rsqrt(situ_add_scalar(situ_mean(situ_square(x), &rows), p->eps)));
  if (in[1]) y = situ_mul(y, in[1]);
  return g->ins > 2 && in[2] ? situ_add(y, in[2]) : y;
}
static bool backward_recorded(situ_grad_call *g) { return situ_backward_through(g, composed); }

/* Without a weight the Jacobian by the input is symmetric: its product with a tangent is the gradient's pass. */
static situ_tensor *along_input(const situ_call *c, situ_tensor *tangent) {
  const situ_shape x = situ__shape(&c->in[0]->view);
  situ_tensor *dx[SITU_OPERANDS] = { NULL };
  situ_grad_call g = { .op = c->op,
                       .ins = c->ins,
                       .params = c->params,
                       .device = c->device,
                       .in = (situ_tensor *[SITU_OPERANDS]){ c->in[0] },
                       .out = c->out,
                       .grad = &tangent,
                       .dx = dx,
                       .wants = (const bool[SITU_OPERANDS]){ true },
                       .shape = &x,
                       .dtype = &c->dtype[0] };
  if (!backward(&g)) return NULL;
  return c->in[1] ? situ_mul(dx[0], c->in[1]) : dx[0];
}

static bool forward_derivative(const situ_call *c, situ_tensor *const *tangent, situ_tensor **dy) {
  situ_tensor *along[] = { NULL, NULL, c->ins > 2 ? tangent[2] : NULL };
  if (tangent[0] && !(along[0] = along_input(c, tangent[0]))) return false;
  if (tangent[1]) {
    situ_tensor *plain = situ_op_run(c->op, (situ_tensor *[]){ c->in[0], NULL, NULL }, c->ins, c->params, NULL);
    if (!plain || !(along[1] = situ_mul(plain, tangent[1]))) return false;
  }
  for (int i = 0; i < 3; i++)
    if (along[i] && !(dy[0] = dy[0] ? situ_add(dy[0], along[i]) : along[i])) return false;
  return tangent[0] || tangent[1] || (dy[0] = situ_expand(dy[0], situ__shape(&c->out[0]->view))) != NULL;
}

enum { WEIGHT = SITU_FLOATING | SITU_SAME | SITU_OPTIONAL };
static bool traced(const situ_call *c, situ_export_trace *t) {
  const norm_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]);
  situ_shape row = { .ndim = p->dims };
  memcpy(row.dim, x->size + x->ndim - p->dims, sizeof *row.dim * (size_t)p->dims);
  if (c->op->code == SITU_RMS_NORM)
    return situ_export_call(t, "rms_norm.default", "tItn", c->in[0], &row, c->in[1], p->eps);
  return situ_export_call(t, "layer_norm.default", "tIttn", c->in[0], &row, c->in[1], c->in[2], p->eps);
}

SITU_OP(layer_norm_op) = {
  .name = "layer_norm",
  .traced = traced,
  .operand = { { "input", SITU_FLOATING | SITU_SAME }, { "weight", WEIGHT }, { "bias", WEIGHT } },
  .outs = 3,
  .shown = 1,
  .flags = SITU_OP_COMPOSED,
  .autocast = { SITU_CAST_BACK, SITU_CAST_F32 },
  .code = SITU_LAYER_NORM,
  .save = SITU_SAVE(0) | SITU_SAVE(1) | SITU_SAVE_OUT(1) | SITU_SAVE_OUT(2),
  .params_size = sizeof(norm_params),
  .infer = infer,
  .forward = forward,
  .batched = situ_batch_leading,
  .mend = situ_infer_like,
  .backward = backward,
  .backward_recorded = backward_recorded,
  .forward_derivative = forward_derivative
};
SITU_OP(rms_norm_op) = { .name = "rms_norm",
                         .traced = traced,
                         .operand = { { "input", SITU_FLOATING | SITU_SAME }, { "weight", WEIGHT } },
                         .outs = 2,
                         .shown = 1,
                         .flags = SITU_OP_COMPOSED,
                         .autocast = { SITU_CAST_BACK, SITU_CAST_F32 },
                         .code = SITU_RMS_NORM,
                         .save = SITU_SAVE(0) | SITU_SAVE(1) | SITU_SAVE_OUT(1),
                         .params_size = sizeof(norm_params),
                         .infer = infer,
                         .forward = forward,
                         .batched = situ_batch_leading,
                         .mend = situ_infer_like,
                         .backward = backward,
                         .backward_recorded = backward_recorded,
                         .forward_derivative = forward_derivative };

static bool good_eps(const char *op, double eps) {
  if (eps >= 0 && isfinite(eps)) return true;
  return situ__fail(SITU_E_ARG, op, "eps is %g: it must not be negative, nor infinite", eps), false;
}

/* normalized_shape must be the end of in[0]'s shape. Reported after errors in the operands themselves. */
static bool tail(const situ_op *op, situ_tensor *const *in, int ins, const situ_shape *shape) {
  const situ_tensor *x = in[0];
  if (!situ__need(op->name, "input", x)) return false;
  bool good = shape->ndim >= 1 && shape->ndim <= x->view.ndim;
  for (int d = 0; good && d < shape->ndim; d++) good = shape->dim[d] == x->view.size[x->view.ndim - shape->ndim + d];
  if (good || !situ__together(op, in, ins)) return good;
  situ_shape own = situ__shape(&x->view);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op->name, "normalized_shape %s is not the end of input's shape %s",
                    situ_shape_text(shape, a), situ_shape_text(&own, b)),
         false;
}

situ_tensor *situ_layer_norm(situ_tensor *input, situ_shape normalized_shape, situ_tensor *weight, situ_tensor *bias,
                             double eps) {
  situ_tensor *in[] = { input, weight, bias };
  if (!tail(&layer_norm_op, in, 3, &normalized_shape) || !good_eps("layer_norm", eps)) return NULL;
  return situ_op_run(&layer_norm_op, in, 3, &(norm_params){ normalized_shape.ndim, eps }, NULL);
}

situ_tensor *situ_rms_norm(situ_tensor *input, situ_shape normalized_shape, situ_tensor *weight, double eps) {
  situ_tensor *in[] = { input, weight };
  if (!tail(&rms_norm_op, in, 2, &normalized_shape)) return NULL;
  if (eps == SITU_NONE) eps = input->view.dtype == SITU_F64 ? DBL_EPSILON : FLT_EPSILON;
  if (!good_eps("rms_norm", eps)) return NULL;
  return situ_op_run(&rms_norm_op, in, 2, &(norm_params){ normalized_shape.ndim, eps }, NULL);
}
