/* group_norm: a device's own kernel where it has one, else rows of layer_norm.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

enum { INPUT, WEIGHT, BIAS };
enum { Y, MEAN, RSTD };

typedef struct group_norm_params {
  int64_t groups;
  double eps;
} group_norm_params;

/* ---- the kernel ---- */

static bool infer(situ_call *c) {
  const group_norm_params *p = c->params;
  situ_infer_like(c);
  for (int k = MEAN; k <= RSTD; k++) {
    c->shape[k] = SITU_SHAPE(c->shape[Y].dim[0] * p->groups);
    c->dtype[k] = c->dtype[Y] == SITU_F64 ? SITU_F64 : SITU_F32;
  }
  return true;
}

static situ_tensor *contiguous(situ_tensor *x, bool *good) {
  situ_tensor *y = x ? situ_contiguous(x) : NULL;
  *good = *good && !x == !y;
  return y;
}

static bool forward(situ_call *c) {
  const group_norm_params *p = c->params;
  bool good = true;
  situ_tensor *x = contiguous(c->in[INPUT], &good), *weight = contiguous(c->in[WEIGHT], &good),
              *bias = contiguous(c->in[BIAS], &good);
  const situ_shape planes = situ__planes(&c->shape[Y]);
  situ_view_desc from, to;
  return good &&
         situ_launch(
             c->op->name, c->device,
             &(situ_work){ SITU_VERB_GROUP_NORM, .op = SITU_GROUP_NORM, .compute = c->dtype[Y], .ins = 3, .outs = 3,
                           .in = { situ_desc_reshape(situ_desc(x), planes, &from), situ_desc(weight), situ_desc(bias) },
                           .out = { situ_desc_reshape(situ__desc(c->out[Y]), planes, &to), situ__desc(c->out[MEAN]),
                                    situ__desc(c->out[RSTD]) },
                           .scalar = { p->eps }, .integer = { p->groups } });
}

static bool backward(situ_grad_call *g) {
  const group_norm_params *p = g->params;
  bool good = true;
  situ_tensor *up = contiguous(g->grad[Y], &good), *x = contiguous(g->in[INPUT], &good),
              *weight = contiguous(g->in[WEIGHT], &good);
  for (int k = INPUT; k <= BIAS; k++)
    if (g->wants[k] &&
        !(g->dx[k] = situ_empty(g->shape[k], &(situ_options){ .dtype = g->dtype[k], .device = g->device })))
      return false;
  if (!good || g->device.kind == SITU_META) return good;
  const situ_shape planes = situ__planes(&g->shape[INPUT]);
  situ_view_desc a, b, to;
  return situ_launch(
      g->op->name, g->device,
      &(situ_work){ SITU_VERB_GROUP_NORM, .op = SITU_GROUP_NORM_GRAD, .compute = g->dtype[INPUT], .ins = 5, .outs = 3,
                    .in = { situ_desc_reshape(situ_desc(up), planes, &a), situ_desc_reshape(situ_desc(x), planes, &b),
                            situ__desc(g->out[MEAN]), situ__desc(g->out[RSTD]), situ_desc(weight) },
                    .out = { g->dx[INPUT] ? situ_desc_reshape(situ_desc(g->dx[INPUT]), planes, &to) : NULL,
                             situ_desc(g->dx[WEIGHT]), situ_desc(g->dx[BIAS]) },
                    .scalar = { p->eps }, .integer = { p->groups } });
}

/* ---- rows of layer_norm ---- */

/* Each group of channels of each sample is a row; the weights belong to channels and are applied afterwards. 16-bit
   dtypes are rounded once, at the end, and the result's dtype does not depend on the weights. */
static situ_tensor *by_rows(situ_tensor *const *in, const group_norm_params *p) {
  const situ_shape shape = situ__shape(&in[INPUT]->view);
  const situ_dtype dtype = (situ_dtype)in[INPUT]->view.dtype;
  const bool half = dtype == SITU_F16 || dtype == SITU_BF16;
  situ_shape per_channel = { .ndim = shape.ndim };
  for (int d = 0; d < shape.ndim; d++) per_channel.dim[d] = d == 1 ? shape.dim[1] : 1;
  const int64_t width = shape.dim[1] / p->groups * situ__planes(&shape).dim[2];
  situ_tensor *rows =
      situ_reshape(situ_to_dtype(in[INPUT], half ? SITU_F32 : dtype), SITU_SHAPE(shape.dim[0], p->groups, width));
  situ_tensor *y = situ_reshape(situ_layer_norm(rows, SITU_SHAPE(width), NULL, NULL, p->eps), shape);
  if (in[WEIGHT]) y = situ_mul(y, situ_reshape(in[WEIGHT], per_channel));
  if (in[BIAS]) y = situ_add(y, situ_reshape(in[BIAS], per_channel));
  return y ? situ_to_dtype(y, dtype) : NULL;
}

static situ_tensor *composed(const situ_grad_call *g, situ_tensor *const *in, int result) {
  (void)result;
  return by_rows(in, g->params);
}
static bool backward_recorded(situ_grad_call *g) { return situ_backward_through(g, composed); }

/* ---- the op ---- */

enum { VECTOR = SITU_FLOATING | SITU_OPTIONAL };
static bool traced(const situ_call *c, situ_export_trace *t) {
  const group_norm_params *p = c->params;
  return situ_export_call(t, "group_norm.default", "tittn", c->in[INPUT], p->groups, c->in[WEIGHT], c->in[BIAS],
                          p->eps);
}

SITU_OP(group_norm_op) = {
  .name = "group_norm",
  .traced = traced,
  .operand = { { "input", SITU_FLOATING | SITU_SAME }, { "weight", VECTOR }, { "bias", VECTOR } },
  .outs = 3,
  .shown = 1,
  .flags = SITU_OP_COMPOSED | SITU_OP_FORMAT | SITU_OP_ROWS,
  .save = SITU_SAVE(INPUT) | SITU_SAVE(WEIGHT) | SITU_SAVE_OUT(MEAN) | SITU_SAVE_OUT(RSTD),
  .params_size = sizeof(group_norm_params),
  .infer = infer,
  .forward = forward,
  .batched = situ_batch_fold,
  .mend = situ_infer_like,
  .backward = backward,
  .backward_recorded = backward_recorded
};

static bool good_shapes(situ_tensor *const *in, int64_t groups) {
  const char *op = group_norm_op.name;
  const situ_shape shape = situ__shape(&in[INPUT]->view);
  if (shape.ndim < 2)
    return situ__fail(SITU_E_SHAPE, op, "input has %d dimensions, must have at least 2: [N, C, ...]", shape.ndim),
           false;
  const int64_t channels = shape.dim[1];
  if (groups <= 0 || channels % groups)
    return situ__fail(SITU_E_ARG, op, "%lld channels do not divide into %lld groups", (long long)channels,
                      (long long)groups),
           false;
  for (int i = WEIGHT; i <= BIAS; i++)
    if (in[i] && (situ_dim(in[i]) != 1 || situ_size(in[i], 0) != channels))
      return situ__fail(SITU_E_SHAPE, op, "%s must have one value for each of the %lld channels",
                        group_norm_op.operand[i].name, (long long)channels),
             false;
  const int64_t width = channels / groups * situ__planes(&shape).dim[2];
  if (width && (width > 1 || shape.dim[0] != 1)) return true;
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "input is %s: %s to take a mean and a variance of", situ_shape_text(&shape, text),
                    width ? "one value in a group is not enough" : "a group has no values"),
         false;
}

/* The kernel takes each plane by itself: it does not pay for planes of a few elements. */
static bool has_kernel(const situ_tensor *input) {
  const situ_shape shape = situ__shape(&input->view);
  return input->view.numel && situ__planes(&shape).dim[2] >= 8 &&
         situ__has_verb(input->view.storage->device, SITU_VERB_GROUP_NORM);
}

situ_tensor *situ_group_norm(situ_tensor *input, int64_t num_groups, situ_tensor *weight, situ_tensor *bias,
                             double eps) {
  SITU__MADE_OF_OPS("group_norm");
  const char *op = group_norm_op.name;
  /* Every device can run it, if not by the kernel. */
  static const situ_op schema = { .name = "group_norm",
                                  .operand = { { "input", 0 }, { "weight", SITU_OPTIONAL }, { "bias", SITU_OPTIONAL } },
                                  .autocast = { SITU_CAST_NOT, SITU_CAST_F32 } };
  situ_tensor *in[] = { input, weight, bias };
  if (!situ__together(&schema, in, 3)) return NULL;
  if (!(eps >= 0 && isfinite(eps)))
    return situ__fail(SITU_E_ARG, op, "eps is %g: it must not be negative, nor infinite", eps), NULL;
  if (!situ__autocast(&schema, in, 3) || !good_shapes(in, num_groups)) return NULL;
  const group_norm_params p = { num_groups, eps };
  if (has_kernel(in[INPUT])) return situ_op_run(&group_norm_op, in, 3, &p, NULL);
  const situ_memory_format format = situ__suggest_format(&in[INPUT]->view);
  situ_scope s; /* its own: by_rows leaves operands out */
  situ_scope_begin(&s);
  situ_tensor *y = by_rows(in, &p);
  return situ_scope_return(&s, y && format >= SITU_CHANNELS_LAST ? situ_to_memory_format(y, format) : y);
}
