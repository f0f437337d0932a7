/* Convolutions, and transposed ones, whose forward is the data gradient of the plain one. One dimension is computed as
   two, of height 1.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"
#include "situ/sys/plain.h"

/* What a call has besides its operands. */
typedef struct conv_params {
  situ_conv_options options;
  const situ_tensor *packed; /* the weight as SITU_VERB_PREPACK laid it out, or NULL */
  bool halved;               /* the result has the maxima of 2 x 2 results */
} conv_params;

/* ---- the window, from options where zero means torch's default ---- */

/* The list's value for dimension d of `spatial`; a single value holds for all dimensions. */
static bool entry(const situ_call *c, const char *name, const situ_shape *list, int spatial, int d, int64_t missing,
                  int64_t *out) {
  if (list->ndim != 0 && list->ndim != 1 && list->ndim != spatial)
    return situ_refuse(c, SITU_E_ARG, "%s has %d values, must have 1 or %d", name, list->ndim, spatial);
  *out = list->ndim == 0 ? missing : list->dim[list->ndim == 1 ? 0 : d];
  const int64_t least = missing; /* stride and dilation are at least 1, padding is at least 0 */
  if (*out < least)
    return situ_refuse(c, SITU_E_ARG, "%s is %lld, must be at least %lld", name, (long long)*out, (long long)least);
  /* kernels multiply it by sizes */
  return *out <= INT32_MAX ||
         situ_refuse(c, SITU_E_OVERFLOW, "%s is %lld, must be at most %lld: sizes would not fit in 63 bits", name,
                     (long long)*out, (long long)INT32_MAX);
}

static bool read_window(const situ_call *c, const situ_conv_options *o, const situ_shape *weight, situ_window *w) {
  const int spatial = weight->ndim - 2;
  *w = (situ_window){
    .kernel = { 1, 1 }, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = o->groups ? o->groups : 1
  };
  for (int d = 0; d < spatial; d++) {
    const int to = d + 2 - spatial;
    w->kernel[to] = weight->dim[2 + d];
    if (!entry(c, "stride", &o->stride, spatial, d, 1, &w->stride[to]) ||
        !entry(c, "padding", &o->padding, spatial, d, 0, &w->padding[to]) ||
        !entry(c, "dilation", &o->dilation, spatial, d, 1, &w->dilation[to]))
      return false;
  }
  return w->groups > 0 || situ_refuse(c, SITU_E_ARG, "groups is %lld, must be positive", (long long)w->groups);
}

/* The window of a checked call, for forward and backward. */
static situ_window window_of(const situ_op *op, const situ_conv_options *o, const situ_shape *weight) {
  const situ_call c = { .op = op };
  situ_window w;
  SITU_IGNORE(read_window(&c, o, weight, &w));
  return w;
}

/* ---- shapes ---- */

static bool refuse_shape(const situ_call *c, const char *what, const situ_shape *shape, const char *wanted) {
  char text[SITU_SHAPE_TEXT];
  return situ_refuse(c, SITU_E_SHAPE, "%s is %s, must be %s", what, situ_shape_text(shape, text), wanted);
}

/* Checks ranks, groups, channels and bias; sets the window and the result's shape except height and width. */
static bool check_shapes(situ_call *c, bool transposed, situ_window *w) {
  const situ_view_desc *bias = situ__desc(c->in[2]);
  const situ_shape x = situ__shape(situ__desc(c->in[0])), weight = situ__shape(situ__desc(c->in[1]));
  const int spatial = c->op->code;
  if (x.ndim != spatial + 1 && x.ndim != spatial + 2)
    return refuse_shape(c, "input", &x, spatial == 1 ? "[N, C, L] or [C, L]" : "[N, C, H, W] or [C, H, W]");
  if (weight.ndim != spatial + 2 || situ__desc(c->in[1])->numel == 0)
    return refuse_shape(c, "weight", &weight,
                        transposed ? spatial == 1 ? "[C, O/groups, k] without a 0" : "[C, O/groups, kh, kw] without a 0"
                        : spatial == 1 ? "[O, C/groups, k] without a 0"
                                       : "[O, C/groups, kh, kw] without a 0");
  if (!read_window(c, c->params, &weight, w)) return false;
  const int64_t channels = x.dim[x.ndim - spatial - 1], first = weight.dim[0];
  int64_t second;
  if (channels % w->groups || first % w->groups)
    return situ_refuse(c, SITU_E_ARG, "groups is %lld, must divide the input's %lld channels and the weight's %lld",
                       (long long)w->groups, (long long)channels, (long long)first);
  if (!situ__mul_i64(weight.dim[1], w->groups, &second))
    return situ_refuse(c, SITU_E_OVERFLOW, "more than 2^63 channels");
  if (channels != (transposed ? first : second))
    return situ_refuse(c, SITU_E_SHAPE, "input has %lld channels, the weight is for %lld", (long long)channels,
                       (long long)(transposed ? first : second));
  const situ_shape outputs = SITU_SHAPE(transposed ? second : first);
  if (bias && (bias->ndim != 1 || bias->size[0] != outputs.dim[0])) {
    const situ_shape shape = situ__shape(bias);
    char text[SITU_SHAPE_TEXT];
    return refuse_shape(c, "bias", &shape, situ_shape_text(&outputs, text));
  }
  c->shape[0] = x;
  c->shape[0].dim[x.ndim - spatial - 1] = outputs.dim[0];
  c->dtype[0] = c->compute = (situ_dtype)situ__desc(c->in[0])->dtype;
  return true;
}

/* dilation (kernel - 1) + 1: the extent of a window. */
static bool reach(const situ_window *w, int d, int64_t *out) {
  return situ__mul_i64(w->dilation[d], w->kernel[d] - 1, out) && situ__add_i64(*out, 1, out);
}

/* Channels last, if the input or the weight is, as in torch (conv_determine_backend_memory_format). */
static void set_format(situ_call *c) {
  for (int i = 0; i < 2; i++)
    if (c->shape[0].ndim == 4 && situ__suggest_format(situ__desc(c->in[i])) == SITU_CHANNELS_LAST) {
      situ__format_results(c, SITU_CHANNELS_LAST);
      return;
    }
}

/* Checks the operands; sets the window and the result's shape before maxima are taken. */
static bool infer_results(situ_call *c, situ_window *window) {
  situ_window w;
  if (!check_shapes(c, false, &w)) return false;
  *window = w;
  for (int d = 2 - c->op->code; d < 2; d++) {
    int64_t *size = &c->shape[0].dim[c->shape[0].ndim - 2 + d], padded, covered;
    if (!situ__mul_i64(w.padding[d], 2, &padded) || !situ__add_i64(padded, *size, &padded) || !reach(&w, d, &covered))
      return situ_refuse(c, SITU_E_OVERFLOW, "padding or dilation is too large: the size does not fit in 63 bits");
    if (padded < covered)
      return situ_refuse(c, SITU_E_SHAPE, "the kernel covers %lld elements, the padded input has %lld",
                         (long long)covered, (long long)padded);
    *size = (padded - covered) / w.stride[d] + 1;
  }
  return true;
}

static bool conv_infer(situ_call *c) {
  const conv_params *p = c->params;
  situ_window w;
  if (p->options.output_padding.ndim)
    return situ_refuse(c, SITU_E_ARG, "output_padding is given: only transposed convolutions have it");
  if ((unsigned)p->options.activation > SITU_ACTIVATION_SILU)
    return situ_refuse(c, SITU_E_ARG, "activation is %d, must be one of situ_activation", (int)p->options.activation);
  if (p->options.activation > SITU_ACTIVATION_RELU && !situ_dtype_is_floating((situ_dtype)situ__desc(c->in[0])->dtype))
    return situ_refuse(c, SITU_E_DTYPE, "activation is given: it needs floating dtypes");
  if (!infer_results(c, &w)) return false;
  if (!p->halved) return set_format(c), true;
  for (int d = c->shape[0].ndim - 2; d < c->shape[0].ndim; d++) {
    if (c->shape[0].dim[d] < 2)
      return situ_refuse(c, SITU_E_SHAPE, "max_pool of 2 x 2: results have size 1 at dimension %d", d);
    c->shape[0].dim[d] /= 2;
  }
  return true;
}

static bool transposed_infer(situ_call *c) {
  const situ_conv_options *o = c->params;
  situ_window w;
  if (o->same || o->activation)
    return situ_refuse(c, SITU_E_ARG, "%s is given: transposed convolutions do not have it",
                       o->same ? "same" : "activation");
  if (!check_shapes(c, true, &w)) return false;
  for (int d = 2 - c->op->code; d < 2; d++) {
    int64_t *size = &c->shape[0].dim[c->shape[0].ndim - 2 + d], extra = 0, covered, spread, padded;
    if (!entry(c, "output_padding", &o->output_padding, c->op->code, d - 2 + c->op->code, 0, &extra)) return false;
    if (extra >= w.stride[d] && extra >= w.dilation[d])
      return situ_refuse(c, SITU_E_ARG, "output_padding is %lld, must be smaller than stride %lld or dilation %lld",
                         (long long)extra, (long long)w.stride[d], (long long)w.dilation[d]);
    const bool fits = situ__mul_i64(*size - 1, w.stride[d], &spread) && reach(&w, d, &covered) &&
                      situ__add_i64(spread, covered, &spread) && situ__add_i64(spread, extra, &spread) &&
                      situ__mul_i64(w.padding[d], 2, &padded);
    if (!fits) return situ_refuse(c, SITU_E_OVERFLOW, "the size of the result does not fit in 63 bits");
    if (spread - padded < 1 || *size < 1)
      return situ_refuse(c, SITU_E_SHAPE, "the result would have size %lld at dimension %d",
                         (long long)(*size < 1 ? 0 : spread - padded), d);
    *size = spread - padded;
  }
  set_format(c);
  return true;
}

/* ---- one launch ---- */

/* A tensor as [N, C, H, W] (or a weight as [O, C, kh, kw]): a missing N or H is 1. */
static const situ_view_desc *four(situ_tensor *t, int spatial, situ_view_desc *desc) {
  const situ_view_desc *v = situ_desc(t);
  if (!v || v->ndim == 4) return v;
  const bool batch = v->ndim == spatial + 2;
  return situ_desc_reshape(
      v,
      SITU_SHAPE(batch ? v->size[0] : 1, v->size[batch], spatial == 2 ? v->size[v->ndim - 2] : 1, v->size[v->ndim - 1]),
      desc);
}

/* An image that is not row-major; what has one channel or one pixel is both. */
static bool is_last(const situ_tensor *t) {
  return !t->view.contiguous && t->view.ndim == 4 && situ__is_format(&t->view, SITU_CHANNELS_LAST);
}

/* One pass, all of whose images are channels_last, or none; the weight is row-major. */
typedef struct conv_pass {
  const situ_op *op;
  situ_device device;
  situ_conv_pass pass;
  const situ_window *window;
  situ_activation activation; /* of the result */
  const situ_tensor *packed;
} conv_pass;

/* b: the weight, or, for its gradient, an image. */
static situ_work work_of(const conv_pass *p, situ_tensor *const in[3], const situ_tensor *out, situ_view_desc desc[3]) {
  const int spatial = p->op->code;
  return (situ_work){ SITU_VERB_CONV,
                      .op = p->pass,
                      .compute = situ_dtype_of(out),
                      .ins = p->packed ? 4 : 3,
                      .outs = 1,
                      .in = { four(in[0], spatial, &desc[0]), four(in[1], spatial, &desc[1]), situ_desc(in[2]),
                              p->packed ? situ_desc(p->packed) : NULL },
                      .out = { four((situ_tensor *)(uintptr_t)out, spatial, &desc[2]) },
                      .window = p->window };
}

/* y = f(y). */
static bool launch_unary(const conv_pass *p, const situ_view_desc *y) {
  return situ_launch(p->op->name, p->device,
                     &(situ_work){ SITU_VERB_UNARY, .op = situ__activation_unary(p->activation),
                                   .compute = (situ_dtype)y->dtype, .ins = 1, .outs = 1, .in = { y }, .out = { y } });
}

/* In one launch if the device offers it, else in two. */
static bool launch_activated(const conv_pass *p, const situ_work *conv) {
  situ_work work = *conv;
  bool offered;
  work.integer[0] = situ__activation_unary(p->activation);
  if (situ__offers(p->op->name, p->device, &work, &offered) != SITU_OK) return false;
  if (offered) return situ_launch(p->op->name, p->device, &work);
  return situ_launch(p->op->name, p->device, conv) && launch_unary(p, conv->out[0]);
}

/* With images in this format; out has it already. */
static bool launch_as(const conv_pass *p, situ_memory_format format, situ_tensor *const given[3], situ_tensor *out,
                      bool *taken) {
  const situ_memory_format second = p->pass == SITU_CONV_GRAD_WEIGHT ? format : SITU_CONTIGUOUS_FORMAT;
  situ_tensor *in[3] = { situ_contiguous_memory_format(given[0], format),
                         situ_contiguous_memory_format(given[1], second), given[2] ? situ_contiguous(given[2]) : NULL };
  situ_view_desc desc[3];
  *taken = true;
  if (!in[0] || !in[1] || !in[2] != !given[2]) return false;
  const situ_work work = work_of(p, in, out, desc);
  if (format == SITU_CHANNELS_LAST && !(*taken = situ__takes_channels_last(p->device, &work))) return true;
  return p->activation ? launch_activated(p, &work) : situ_launch(p->op->name, p->device, &work);
}

/* Images that are channels_last are computed with as they are where the device can, else by row-major copies. */
static bool launch(const conv_pass *p, situ_tensor *a, situ_tensor *b, situ_tensor *bias, situ_tensor *out) {
  situ_tensor *in[3] = { a, b, bias };
  const bool weight = p->pass == SITU_CONV_GRAD_WEIGHT, last = weight ? is_last(a) || is_last(b) : is_last(out);
  bool taken = false;
  if (last && !launch_as(p, SITU_CHANNELS_LAST, in, out, &taken)) return false;
  if (taken) return true;
  if (weight || !last) return launch_as(p, SITU_CONTIGUOUS_FORMAT, in, out, &taken);
  situ_tensor *rows = situ_op_new(p->op->name, situ_shape_of(out), situ_dtype_of(out), p->device);
  return rows && launch_as(p, SITU_CONTIGUOUS_FORMAT, in, rows, &taken) &&
         situ__copy_values(p->op->name, situ_desc(rows), situ_desc(out));
}

/* Maxima of 2 x 2 results: in one launch if the device offers it, else of results in scratch memory. */
static bool launch_halved(const conv_pass *p, situ_call *c) {
  static const situ_window pool = { .kernel = { 2, 2 }, .stride = { 2, 2 }, .dilation = { 1, 1 }, .groups = 1 };
  situ_tensor *in[3] = { situ_contiguous(c->in[0]), situ_contiguous(c->in[1]),
                         c->in[2] ? situ_contiguous(c->in[2]) : NULL };
  situ_view_desc desc[3], whole;
  situ_call results = *c;
  situ_window w;
  bool offered;
  if (!in[0] || !in[1] || !in[2] != !c->in[2]) return false;
  situ_work work = work_of(p, in, c->out[0], desc);
  work.integer[0] = p->activation ? situ__activation_unary(p->activation) : 0;
  work.integer[1] = 1;
  if (situ__offers(p->op->name, p->device, &work, &offered) != SITU_OK) return false;
  if (offered) return situ_launch(p->op->name, p->device, &work);
  if (!infer_results(&results, &w)) return false;
  situ_tensor *y = situ_op_new(p->op->name, results.shape[0], situ_dtype_of(c->out[0]), p->device);
  return y && launch(p, in[0], in[1], in[2], y) &&
         situ_launch(p->op->name, p->device,
                     &(situ_work){ SITU_VERB_POOL, .op = SITU_POOL_MAX, .compute = situ_dtype_of(y), .ins = 1,
                                   .outs = 1, .in = { four(y, 2, &whole) }, .out = { work.out[0] }, .window = &pool });
}

/* A gradient of the operand's shape, channels_last as that of the result; zeros if `a` has no elements. */
static situ_tensor *gradient(const situ_grad_call *g, int operand, situ_conv_pass pass, const situ_window *w,
                             situ_tensor *a, situ_tensor *b) {
  const conv_pass p = { .op = g->op, .device = g->device, .pass = pass, .window = w };
  const situ_options o = { .dtype = g->dtype[operand],
                           .device = g->device,
                           .memory_format = operand == 0 && is_last(g->grad[0]) ? SITU_CHANNELS_LAST : 0 };
  situ_tensor *dx = situ_empty(g->shape[operand], &o);
  if (!dx || situ_numel(dx) == 0) return dx;
  if (situ_numel(a) == 0) return situ_zero_(dx);
  return launch(&p, a, b, NULL, dx) ? dx : NULL;
}

/* The bias is added to every pixel: its gradient is the sum over all pixels. */
static situ_tensor *bias_gradient(const situ_grad_call *g) {
  situ_tensor *up = g->grad[0];
  const int channel = situ_dim(up) - g->op->code - 1;
  situ_reduce_options o = { .dim = { 0 } };
  for (int d = 0; d < situ_dim(up); d++)
    if (d != channel) o.dim.dim[o.dim.ndim++] = d;
  return situ_sum(up, &o);
}

/* ---- the ops ---- */

static bool conv_forward(situ_call *c) {
  const situ_shape weight = situ__shape(situ__desc(c->in[1]));
  const conv_params *p = c->params;
  const situ_window w = window_of(c->op, &p->options, &weight);
  const conv_pass pass = { c->op, c->device, SITU_CONV_FORWARD, &w, p->options.activation, p->packed };
  return p->halved ? launch_halved(&pass, c) : launch(&pass, c->in[0], c->in[1], c->in[2], c->out[0]);
}

static bool conv_backward(situ_grad_call *g) {
  const situ_window w = window_of(g->op, g->params, &g->shape[1]);
  situ_tensor *up = g->grad[0];
  if (g->wants[0] && !(g->dx[0] = gradient(g, 0, SITU_CONV_GRAD_DATA, &w, up, g->in[1]))) return false;
  if (g->wants[1] && !(g->dx[1] = gradient(g, 1, SITU_CONV_GRAD_WEIGHT, &w, g->in[0], up))) return false;
  return !g->wants[2] || (g->dx[2] = bias_gradient(g)) != NULL;
}

static bool transposed_forward(situ_call *c) {
  const situ_shape weight = situ__shape(situ__desc(c->in[1]));
  const situ_window w = window_of(c->op, c->params, &weight);
  const conv_pass p = { .op = c->op, .device = c->device, .pass = SITU_CONV_GRAD_DATA, .window = &w };
  return launch(&p, c->in[0], c->in[1], c->in[2], c->out[0]);
}

/* The bias is not a factor. */
static bool backward_recorded(situ_grad_call *g) {
  return situ_backward_linear(g, 1u << 0 | 1u << 1) && GRAD(g, 2, bias_gradient(g));
}

static bool transposed_backward(situ_grad_call *g) {
  const situ_window w = window_of(g->op, g->params, &g->shape[1]);
  situ_tensor *up = g->grad[0];
  if (g->wants[0] && !(g->dx[0] = gradient(g, 0, SITU_CONV_FORWARD, &w, up, g->in[1]))) return false;
  if (g->wants[1] && !(g->dx[1] = gradient(g, 1, SITU_CONV_GRAD_WEIGHT, &w, up, g->in[0]))) return false;
  return !g->wants[2] || (g->dx[2] = bias_gradient(g)) != NULL;
}

/* For a dry run: assumes that the input has the channels that the weight expects. */
static bool conv_mend(situ_call *c) {
  const situ_conv_options *o = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]), *w = situ__desc(c->in[1]);
  const int spatial = c->op->code;
  const bool transposed = c->op->infer == transposed_infer;
  if (x->ndim <= spatial || w->ndim != spatial + 2) return false;
  int64_t channels = w->size[0];
  if (!transposed && !situ__mul_i64(w->size[1], o->groups ? o->groups : 1, &channels)) return false;
  return situ_mend_size(c, 0, x->ndim - spatial - 1, channels);
}

static situ_tensor *activate(situ_tensor *x, situ_activation activation) {
  switch (activation) {
  case SITU_ACTIVATION_RELU: return situ_relu(x);
  case SITU_ACTIVATION_GELU_TANH: return situ_gelu(x, SITU_GELU_TANH);
  case SITU_ACTIVATION_GELU: return situ_gelu(x, SITU_GELU_NONE);
  case SITU_ACTIVATION_SILU: return situ_silu(x);
  case SITU_ACTIVATION_NONE: break;
  }
  return x;
}

static situ_tensor *run(const situ_op *op, situ_tensor *x, situ_tensor *weight, situ_tensor *bias,
                        const conv_params *params) {
  conv_params p = *params;
  /* Only where values are computed and nothing else are activation and maxima part of the call, which so needs no
     gradients for them. */
  if (!situ_is_plain() && op->infer == conv_infer && (unsigned)p.options.activation <= SITU_ACTIVATION_SILU) {
    p = (conv_params){ .options = p.options };
    p.options.activation = SITU_ACTIVATION_NONE;
    if (params->halved || params->options.activation) {
      situ_tensor *y = run(op, x, weight, bias, &p);
      if (params->options.activation) y = activate(y, params->options.activation);
      return y && params->halved ? situ_max_pool2d(y, &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL) : y;
    }
  }
  if (!p.options.same || op->infer == transposed_infer) return situ_op_run3(op, x, weight, bias, &p);
  if (!situ__need(op->name, "input", x) || !situ__need(op->name, "weight", weight)) return NULL;
  const char *called_before = situ__call_as(op->name, "");
  situ_tensor *y =
      situ__conv_same(op->name, op->code, &x, weight, &p.options) ? situ_op_run3(op, x, weight, bias, &p) : NULL;
  situ__call_end(&called_before);
  return y;
}

static bool batched(situ_batch_call *c) {
  return c->batched[0] && c->in[0]->view.ndim == c->op->code + 3 ? situ_batch_fold(c) : situ_batch_each(c);
}

enum { NUMBERS = SITU_FLOATING | SITU_INTEGRAL | SITU_SAME };

/* A value for each dimension. */
static situ_shape spread(const situ_shape *list, int dims, int64_t missing) {
  situ_shape all = { .ndim = dims };
  for (int d = 0; d < dims; d++) all.dim[d] = !list->ndim ? missing : list->dim[list->ndim == 1 ? 0 : d];
  return all;
}

static bool traced(const situ_call *c, situ_export_trace *t) {
  const situ_conv_options *o = c->params;
  const int dims = c->op->code;
  const situ_shape stride = spread(&o->stride, dims, 1), padding = spread(&o->padding, dims, 0),
                   dilation = spread(&o->dilation, dims, 1), more = spread(&o->output_padding, dims, 0);
  const int64_t groups = o->groups ? o->groups : 1;
  situ_tensor *x = c->in[0], *weight = c->in[1], *bias = c->in[2];
  if (c->op->infer == conv_infer)
    return situ_export_call(t, dims == 1 ? "conv1d.default" : "conv2d.default", "tttIIIi", x, weight, bias, &stride,
                            &padding, &dilation, groups);
  return situ_export_call(t, dims == 1 ? "conv_transpose1d.default" : "conv_transpose2d.input", "tttIIIiI", x, weight,
                          bias, &stride, &padding, &more, groups, &dilation);
}

static const situ_conv_options no_options;

#define CONV(id, dims, kind)                                                                                        \
  SITU_OP(                                                                                                          \
      id##_op) = { .name = #id,                                                                                     \
                   .operand = { { "input", NUMBERS }, { "weight", NUMBERS }, { "bias", NUMBERS | SITU_OPTIONAL } }, \
                   .flags = SITU_OP_PRODUCT | SITU_OP_BILINEAR | SITU_OP_COMPOSED,                                  \
                   .save = SITU_SAVE(0) | SITU_SAVE(1),                                                             \
                   .code = dims,                                                                                    \
                   .autocast = { SITU_CAST_LOW, SITU_CAST_LOW },                                                    \
                   .params_size = sizeof(conv_params),                                                              \
                   .infer = kind##_infer,                                                                           \
                   .forward = kind##_forward,                                                                       \
                   .batched = batched,                                                                              \
                   .traced = traced,                                                                                \
                   .mend = conv_mend,                                                                               \
                   .backward = kind##_backward,                                                                     \
                   .backward_recorded = backward_recorded };                                                        \
  situ_tensor *situ_##id(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,                                \
                         const situ_conv_options *options) {                                                        \
    return run(&id##_op, input, weight, bias, &(conv_params){ .options = options ? *options : no_options });        \
  }
CONV(conv1d, 1, conv)
CONV(conv2d, 2, conv)
CONV(conv_transpose1d, 1, transposed)
CONV(conv_transpose2d, 2, transposed)

/* ---- weights that are laid out before ---- */

/* The size of a weight that is prepacked; 0: it has none. */
static int64_t prepack_bytes(const situ_view_desc *weight) {
  if (weight->ndim != 4 || !weight->contiguous) return 0;
  return situ_conv_prepack_bytes(weight->size[0], weight->size[1], (int64_t[]){ weight->size[2], weight->size[3] });
}

bool situ_conv2d_lay_out(situ_tensor *weight, const situ_conv_options *options, situ_tensor **packed) {
  const char *op = "conv2d_lay_out";
  if (!situ__given(op, "packed", packed)) return false;
  *packed = NULL;
  if (!situ__need(op, "weight", weight)) return false;
  const situ_view_desc *v = situ_desc(weight);
  const int64_t bytes = prepack_bytes(v);
  if (bytes == 0) return true;
  const situ_call c = { .op = &conv2d_op };
  const situ_shape shape = situ__shape(v);
  situ_window w;
  if (!read_window(&c, options ? options : &no_options, &shape, &w)) return false;
  situ_work work = { SITU_VERB_PREPACK, .compute = (situ_dtype)v->dtype, .ins = 1, .in = { v }, .window = &w };
  return situ__prepack(op, situ_device_of(weight), &work, bytes, packed);
}

situ_tensor *situ_conv2d_by(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                            const situ_conv_options *options, situ_tensor *packed, bool max_pool) {
  const char *op = "conv2d_by";
  if (packed && (!situ__need(op, "weight", weight) ||
                 !situ__is_prepacked(op, "conv2d_lay_out", packed, weight, prepack_bytes(situ_desc(weight)))))
    return NULL;
  return run(&conv2d_op, input, weight, bias,
             &(conv_params){ .options = options ? *options : no_options, .packed = packed, .halved = max_pool });
}
