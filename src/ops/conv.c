/* Convolutions: one verb with three passes serves conv1d, conv2d, conv_transpose2d and all of their gradients.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

#define GIVE(i, value) (!g->wants[i] || (g->dx[i] = (value)) != NULL)

typedef struct conv_params {
  situ_window window;         /* kernel filled in by infer's caller */
  int64_t     output_padding[2];
} conv_params;

/* ---- geometry ---- */

/* Both options of one dimension: none given takes the default, one serves both. */
static bool pair(const char *op, const char *name, const situ_shape *given, int dims, int64_t otherwise, int64_t least, int64_t out[2]) {
  out[0] = least > 0 ? 1 : 0;  /* conv1d: the height that is not there */
  if (given->ndim != 0 && given->ndim != 1 && given->ndim != dims) {
    situ__fail(SITU_E_ARG, op, "%s lists %d values, must be 1 or %d", name, given->ndim, dims);
    return false;
  }
  for (int k = 0; k < dims; k++) {
    int64_t value = given->ndim == 0 ? otherwise : given->dim[given->ndim == 1 ? 0 : k];
    if (value < least || value > INT32_MAX) {
      situ__fail(SITU_E_ARG, op, "%s %lld: must be at least %lld", name, (long long)value, (long long)least);
      return false;
    }
    out[2 - dims + k] = value;
  }
  return true;
}

static bool geometry(const char *op, const situ_conv_options *o, int dims, conv_params *p) {
  static const situ_conv_options none = { 0 };
  if (!o) o = &none;
  memset(p, 0, sizeof *p);
  p->window.groups = o->groups ? o->groups : 1;
  if (p->window.groups < 1) {
    situ__fail(SITU_E_ARG, op, "groups %lld: must be at least 1", (long long)o->groups);
    return false;
  }
  return pair(op, "stride", &o->stride, dims, 1, 1, p->window.stride) && pair(op, "padding", &o->padding, dims, 0, 0, p->window.padding) &&
         pair(op, "dilation", &o->dilation, dims, 1, 1, p->window.dilation) &&
         pair(op, "output_padding", &o->output_padding, dims, 0, 0, p->output_padding);
}

/* The window's reach beyond its first element. */
static bool reach(const situ_call *c, const situ_window *w, int k, int64_t *out) {
  return situ__mul_i64(w->dilation[k], w->kernel[k] - 1, out) || situ_refuse(c, SITU_E_OVERFLOW, "dilation and kernel overflow");
}

/* ---- shapes: input [N, C, H, W], weight [O, C/groups, kh, kw] (transposed: [C, O/groups, kh, kw]) ---- */

static bool ranks(const situ_call *c) {
  const situ_view_desc *x = situ_desc(c->in[0]), *w = situ_desc(c->in[1]);
  if (x->ndim == 4 && w->ndim == 4) return true;
  return situ_refuse(c, SITU_E_SHAPE, "needs input [N, C, H, W] (or [C, H, W]) and weight [O, C/groups, kh, kw], got %d and %d dimensions", x->ndim, w->ndim);
}

static bool check_parts(const situ_call *c, const situ_window *w, int64_t in_channels, int64_t out_channels) {
  const situ_view_desc *x = situ_desc(c->in[0]), *weight = situ_desc(c->in[1]), *bias = situ_desc(c->in[2]);
  situ_shape xs = situ__shape(x), ws = situ__shape(weight);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  if (x->size[1] != in_channels || x->size[1] % w->groups || out_channels % w->groups)
    return situ_refuse(c, SITU_E_SHAPE, "input %s and weight %s do not fit with %lld groups: input has %lld channels, weight wants %lld", situ_shape_text(&xs, a),
                       situ_shape_text(&ws, b), (long long)w->groups, (long long)x->size[1], (long long)in_channels);
  if (weight->size[2] < 1 || weight->size[3] < 1) return situ_refuse(c, SITU_E_SHAPE, "weight %s has an empty kernel", situ_shape_text(&ws, b));
  if (bias && (bias->ndim != 1 || bias->size[0] != out_channels)) {
    situ_shape bs = situ__shape(bias);
    return situ_refuse(c, SITU_E_SHAPE, "bias is %s, must be [%lld]", situ_shape_text(&bs, a), (long long)out_channels);
  }
  return true;
}

static bool conv_infer(situ_call *c) {
  const conv_params *p = c->params;
  const situ_window *w = &p->window;
  if (!ranks(c)) return false;
  const situ_view_desc *x = situ_desc(c->in[0]), *weight = situ_desc(c->in[1]);
  if (!check_parts(c, w, weight->size[1] * w->groups, weight->size[0])) return false;
  c->shape[0] = SITU_SHAPE(x->size[0], weight->size[0], 0, 0);
  for (int k = 0; k < 2; k++) {
    int64_t extent, span;
    if (!reach(c, w, k, &span)) return false;
    if (!situ__add_i64(x->size[2 + k], 2 * w->padding[k], &extent)) return situ_refuse(c, SITU_E_OVERFLOW, "padding overflows");
    if (extent - span - 1 < 0)
      return situ_refuse(c, SITU_E_SHAPE, "the kernel reaches over %lld, the padded input has %lld", (long long)span + 1, (long long)extent);
    c->shape[0].dim[2 + k] = (extent - span - 1) / w->stride[k] + 1;
  }
  c->dtype[0] = (situ_dtype)x->dtype;
  return true;
}

static bool transpose_infer(situ_call *c) {
  const conv_params *p = c->params;
  const situ_window *w = &p->window;
  if (!ranks(c)) return false;
  const situ_view_desc *x = situ_desc(c->in[0]), *weight = situ_desc(c->in[1]);
  int64_t channels = weight->size[1] * w->groups;
  if (!check_parts(c, w, weight->size[0], channels)) return false;
  c->shape[0] = SITU_SHAPE(x->size[0], channels, 0, 0);
  for (int k = 0; k < 2; k++) {
    int64_t span, size;
    if (!reach(c, w, k, &span)) return false;
    if (p->output_padding[k] >= situ__max_i64(w->stride[k], w->dilation[k]))
      return situ_refuse(c, SITU_E_ARG, "output_padding %lld must be smaller than stride or dilation", (long long)p->output_padding[k]);
    if (!situ__mul_i64(x->size[2 + k] - 1, w->stride[k], &size) || !situ__add_i64(size, span + p->output_padding[k] + 1 - 2 * w->padding[k], &size))
      return situ_refuse(c, SITU_E_OVERFLOW, "the result's size overflows");
    if (size < 1) return situ_refuse(c, SITU_E_SHAPE, "the result would have size %lld", (long long)size);
    c->shape[0].dim[2 + k] = size;
  }
  c->dtype[0] = (situ_dtype)x->dtype;
  return true;
}

/* ---- passes ---- */

static bool pass(const char *op, situ_device device, const conv_params *p, situ_conv_pass which, situ_tensor *a, situ_tensor *b, situ_tensor *bias, situ_tensor *out) {
  a = situ_contiguous(a);
  b = situ_contiguous(b);
  if (bias) bias = situ_contiguous(bias);
  if (!a || !b || !out) return false;
  if (!situ_numel(out) || device.kind == SITU_META) return true;
  return situ_launch(op, device, &(situ_work){ .verb = SITU_VERB_CONV, .op = (int)which, .compute = situ_dtype_of(out), .ins = 3, .outs = 1,
                     .in = { situ_desc(a), situ_desc(b), situ_desc(bias) }, .out = { situ_desc(out) }, .window = &p->window });
}

static situ_tensor *fresh(const situ_grad_call *g, int operand) {
  return situ_empty(g->shape[operand], &(situ_options){ .dtype = g->dtype[operand], .device = g->device });
}
static situ_tensor *computed(const situ_grad_call *g, int operand, situ_conv_pass which, situ_tensor *a, situ_tensor *b) {
  situ_tensor *out = fresh(g, operand);
  return pass(g->op->name, g->device, g->params, which, a, b, NULL, out) ? out : NULL;
}
static situ_tensor *bias_gradient(const situ_grad_call *g) { return situ_sum(g->grad[0], &(situ_reduce_options){ .dim = SITU_DIMS(0, 2, 3) }); }

static bool conv_forward(situ_call *c) { return pass(c->op->name, c->device, c->params, SITU_CONV_FORWARD, c->in[0], c->in[1], c->in[2], c->out[0]); }
static bool conv_backward(situ_grad_call *g) {
  return GIVE(0, computed(g, 0, SITU_CONV_GRAD_DATA, g->grad[0], g->in[1])) && GIVE(1, computed(g, 1, SITU_CONV_GRAD_WEIGHT, g->in[0], g->grad[0])) &&
         GIVE(2, bias_gradient(g));
}

/* The transposed convolution is the other's way back, and the other way round. */
static bool transpose_forward(situ_call *c) { return pass(c->op->name, c->device, c->params, SITU_CONV_GRAD_DATA, c->in[0], c->in[1], c->in[2], c->out[0]); }
static bool transpose_backward(situ_grad_call *g) {
  return GIVE(0, computed(g, 0, SITU_CONV_FORWARD, g->grad[0], g->in[1])) && GIVE(1, computed(g, 1, SITU_CONV_GRAD_WEIGHT, g->grad[0], g->in[0])) &&
         GIVE(2, bias_gradient(g));
}

#define CONV(id, rule, there, back)                                                                                  \
  SITU_OP(id##_op) = { .name = #id, .operand = { { "input", SITU_FLOATING | SITU_SAME }, { "weight", SITU_FLOATING | SITU_SAME }, \
                       { "bias", SITU_FLOATING | SITU_SAME | SITU_OPTIONAL } }, .flags = SITU_OP_PRODUCT | SITU_OP_COMPOSED, \
                       .save = SITU_SAVE(0) | SITU_SAVE(1), .params_size = sizeof(conv_params),                      \
                       .infer = rule, .forward = there, .backward = back };
CONV(conv2d, conv_infer, conv_forward, conv_backward)
CONV(conv1d, conv_infer, conv_forward, conv_backward)
CONV(conv_transpose2d, transpose_infer, transpose_forward, transpose_backward)

/* A sample without its batch dimension is a batch of one. */
static situ_tensor *run(const situ_op *op, situ_tensor *input, situ_tensor *weight, situ_tensor *bias, const situ_conv_options *o, int dims) {
  conv_params p;
  if (!situ__need(op->name, "input", input) || !situ__need(op->name, "weight", weight) || !geometry(op->name, o, dims, &p)) return NULL;
  bool single = input->view.ndim == dims + 1;
  situ_tensor *x = single ? situ_unsqueeze(input, 0) : input;
  if (dims == 1 && situ_dim(x) == 3 && weight->view.ndim == 3) {  /* a line is a picture of height 1 */
    x = situ_unsqueeze(x, 2);
    weight = situ_unsqueeze(weight, 2);
  }
  if (!x || !weight) return NULL;
  for (int k = 0; k < 2 && weight->view.ndim == 4; k++) p.window.kernel[k] = weight->view.size[2 + k];
  situ_tensor *y = situ_op_run3(op, x, weight, bias, &p);
  if (dims == 1) y = situ_squeeze(y, SITU_DIMS(2));
  return single ? situ_squeeze(y, SITU_DIMS(0)) : y;
}

situ_tensor *situ_conv1d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias, const situ_conv_options *o) { return run(&conv1d_op, input, weight, bias, o, 1); }
situ_tensor *situ_conv2d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias, const situ_conv_options *o) { return run(&conv2d_op, input, weight, bias, o, 2); }
situ_tensor *situ_conv_transpose2d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias, const situ_conv_options *o) {
  return run(&conv_transpose2d_op, input, weight, bias, o, 2);
}
