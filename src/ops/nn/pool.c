/* Pooling: maxima and averages of windows, and averages over equal parts.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

typedef struct pool_params {
  situ_pool_options o;
  bool indices; /* the caller or backward needs the indices of the maxima */
} pool_params;

/* ---- the window ---- */

/* The list's value for dimension d; a single value holds for both. */
static bool entry(const situ_call *c, const char *name, const situ_shape *list, int d, int64_t missing, int64_t least,
                  int64_t *out) {
  if (list->ndim < 0 || list->ndim > 2)
    return situ_refuse(c, SITU_E_ARG, "%s has %d values, must have 1 or 2", name, list->ndim);
  *out = list->ndim == 0 ? missing : list->dim[list->ndim == 1 ? 0 : d];
  if (*out < least)
    return situ_refuse(c, SITU_E_ARG, "%s is %lld, must be at least %lld", name, (long long)*out, (long long)least);
  /* kernels multiply it by sizes */
  return *out <= INT32_MAX ||
         situ_refuse(c, SITU_E_OVERFLOW, "%s is %lld, must be at most %lld: sizes would not fit in 63 bits", name,
                     (long long)*out, (long long)INT32_MAX);
}

static bool read_window(const situ_call *c, const situ_pool_options *o, situ_window *w) {
  *w = (situ_window){ .groups = 1, .exclude_pad = o->exclude_pad, .divisor = o->divisor_override };
  for (int d = 0; d < 2; d++) {
    if (!entry(c, "kernel", &o->kernel, d, 0, 1, &w->kernel[d]) ||
        !entry(c, "stride", &o->stride, d, w->kernel[d], 1, &w->stride[d]) ||
        !entry(c, "padding", &o->padding, d, 0, 0, &w->padding[d]) ||
        !entry(c, "dilation", &o->dilation, d, 1, 1, &w->dilation[d]))
      return false;
    if (w->padding[d] > w->kernel[d] / 2)
      return situ_refuse(c, SITU_E_ARG, "padding is %lld, must be at most half of the kernel, %lld",
                         (long long)w->padding[d], (long long)w->kernel[d]);
  }
  return true;
}

/* The window of a checked call, for forward and backward. */
static situ_window window_of(const situ_op *op, const pool_params *p) {
  const situ_call c = { .op = op };
  situ_window w;
  SITU_IGNORE(read_window(&c, &p->o, &w));
  return w;
}

/* ---- shapes ---- */

static bool check_input(situ_call *c, bool needs_channels) {
  const situ_view_desc *x = situ__desc(c->in[0]);
  bool good = x->ndim == 3 || x->ndim == 4;
  for (int d = x->ndim - 2 - needs_channels; good && d < x->ndim; d++) good = x->size[d] > 0;
  if (!good) {
    const situ_shape shape = situ__shape(x);
    char text[SITU_SHAPE_TEXT];
    return situ_refuse(c, SITU_E_SHAPE, "input is %s, must be [N, C, H, W] or [C, H, W] without a 0 after %c",
                       situ_shape_text(&shape, text), needs_channels ? 'N' : 'C');
  }
  return situ_infer_like(c);
}

static bool windows_infer(situ_call *c) {
  const pool_params *p = c->params;
  situ_window w;
  if (!check_input(c, true) || !read_window(c, &p->o, &w)) return false;
  for (int d = 0; d < 2; d++) {
    int64_t *size = &c->shape[0].dim[c->shape[0].ndim - 2 + d], covered, span;
    const int64_t x = *size;
    if (!situ__mul_i64(w.dilation[d], w.kernel[d] - 1, &covered) || !situ__add_i64(x, 2 * w.padding[d], &span) ||
        !situ__sub_i64(span, covered, &span) || !situ__add_i64(span, w.stride[d], &span))
      return situ_refuse(c, SITU_E_OVERFLOW,
                         "kernel, stride or dilation is too large: the size does not fit in 63 bits");
    span -= w.stride[d] + 1;
    /* The last window of ceil_mode may reach beyond the end, and be the only one. */
    if (p->o.ceil_mode && span > -w.stride[d]) span = situ__max_i64(span, 0);
    if (span < 0)
      return situ_refuse(c, SITU_E_SHAPE, "the window covers %lld elements, the padded input has %lld",
                         (long long)covered + 1, (long long)(x + 2 * w.padding[d]));
    *size = (p->o.ceil_mode ? situ__ceil_div(span, w.stride[d]) : span / w.stride[d]) + 1;
    /* A window that would begin in the padding at the end is dropped. */
    if (p->o.ceil_mode && (*size - 1) * w.stride[d] >= x + w.padding[d]) --*size;
  }
  return true;
}

/* A window that is larger than its input has one place. */
static bool windows_mend(situ_call *c) {
  const pool_params *p = c->params;
  situ_window w;
  if (!check_input(c, true) || !read_window(c, &p->o, &w)) return false;
  for (int d = 0; d < 2; d++) {
    int64_t *size = &c->shape[0].dim[c->shape[0].ndim - 2 + d], last;
    if (!situ__mul_i64(w.dilation[d], w.kernel[d] - 1, &last)) return false;
    last = *size + 2 * w.padding[d] - 1 - last;
    *size = situ__max_i64(last, 0) / w.stride[d] + 1;
  }
  c->shape[1] = c->shape[0];
  return true;
}

/* ---- launches ---- */

static const situ_view_desc *four(situ_tensor *t, situ_view_desc *desc) {
  const situ_view_desc *v = situ_desc(t);
  return !v || v->ndim == 4 ? v : situ_desc_reshape(v, SITU_SHAPE(1, v->size[0], v->size[1], v->size[2]), desc);
}

static bool launch(const situ_op *op, situ_device device, situ_pool_pass pass, const situ_window *w, situ_tensor *from,
                   situ_tensor *index, situ_tensor *to) {
  situ_view_desc desc[3];
  if (!(from = situ_contiguous(from)) || (index && !(index = situ_contiguous(index)))) return false;
  situ_work work = { SITU_VERB_POOL,
                     .op = pass,
                     .compute = situ_dtype_of(to),
                     .ins = 1,
                     .outs = 1,
                     .in = { four(from, &desc[0]) },
                     .out = { four(to, &desc[1]) },
                     .window = w };
  const situ_view_desc *where = four(index, &desc[2]);
  if (pass == SITU_POOL_MAX && where) work.out[work.outs++] = where;
  if (pass == SITU_POOL_MAX_GRAD) work.in[work.ins++] = where;
  return situ_launch(op->name, device, &work);
}

static bool back(situ_grad_call *g, situ_pool_pass pass, const situ_window *w, situ_tensor *index) {
  situ_tensor *dx = situ_op_new(g->op->name, g->shape[0], g->dtype[0], g->device);
  if (!dx || (situ_numel(dx) && !launch(g->op, g->device, pass, w, g->grad[0], index, dx))) return false;
  g->dx[0] = dx;
  return true;
}

/* ---- max_pool2d ---- */

static bool max_infer(situ_call *c) {
  const pool_params *p = c->params;
  if (p->o.exclude_pad || p->o.divisor_override)
    return situ_refuse(c, SITU_E_ARG, "%s is given: only avg_pool2d has it",
                       p->o.exclude_pad ? "exclude_pad" : "divisor_override");
  if (!windows_infer(c)) return false;
  c->shape[1] = c->shape[0];
  c->dtype[1] = p->indices ? SITU_I64 : SITU_DTYPE_DEFAULT;
  return true;
}
static bool max_forward(situ_call *c) {
  const situ_window w = window_of(c->op, c->params);
  return launch(c->op, c->device, SITU_POOL_MAX, &w, c->in[0], c->out[1], c->out[0]);
}
static bool max_backward(situ_grad_call *g) {
  const situ_window w = window_of(g->op, g->params);
  return !g->grad[0] || back(g, SITU_POOL_MAX_GRAD, &w, g->out[1]);
}
/* Each window's gradient goes to the place of its maximum in the plane. */
static bool max_recorded(situ_grad_call *g) {
  if (!g->grad[0]) return true;
  situ_shape planes = g->shape[0];
  planes.dim[--planes.ndim - 1] *= g->shape[0].dim[g->shape[0].ndim - 1];
  situ_tensor *zero = situ_zeros(planes, &(situ_options){ .dtype = g->dtype[0], .device = g->device });
  situ_tensor *sum = situ_scatter_add(zero, -1, situ_flatten(g->out[1], -2, -1), situ_flatten(g->grad[0], -2, -1));
  return (g->dx[0] = situ_reshape(sum, g->shape[0])) != NULL;
}
/* The tangent at the place of each maximum. */
static bool max_forward_derivative(const situ_call *c, situ_tensor *const *tangent, situ_tensor **dy) {
  situ_tensor *along = situ_gather(situ_flatten(tangent[0], -2, -1), -1, situ_flatten(c->out[1], -2, -1));
  return (dy[0] = situ_reshape(along, situ__shape(&c->out[0]->view))) != NULL;
}
static bool average_recorded(situ_grad_call *g) { return situ_backward_linear(g, 1u << 0); }

static bool traced(const situ_call *c, situ_export_trace *t) {
  const pool_params *p = c->params;
  const situ_window w = window_of(c->op, p);
  const situ_shape kernel = SITU_SHAPE(w.kernel[0], w.kernel[1]), stride = SITU_SHAPE(w.stride[0], w.stride[1]),
                   padding = SITU_SHAPE(w.padding[0], w.padding[1]),
                   dilation = SITU_SHAPE(w.dilation[0], w.dilation[1]);
  const int ceiled = p->o.ceil_mode;
  if (c->outs == 2)
    return situ_export_call(t, p->indices ? "max_pool2d_with_indices.default" : "max_pool2d.default", "tIIIIb",
                            c->in[0], &kernel, &stride, &padding, &dilation, ceiled);
  const char *codes = p->o.divisor_override ? "tIIIbbi" : "tIIIbb";
  return situ_export_call(t, "avg_pool2d.default", codes, c->in[0], &kernel, &stride, &padding, ceiled,
                          !p->o.exclude_pad, p->o.divisor_override);
}

SITU_OP(max_pool2d_op) = { .name = "max_pool2d",
                           .operand = { { "input", SITU_FLOATING | SITU_INTEGRAL } },
                           .outs = 2,
                           .traced = traced,
                           .flags = SITU_OP_COMPOSED | SITU_OP_FORMAT | SITU_OP_ROWS,
                           .save = SITU_SAVE_OUT(1),
                           .params_size = sizeof(pool_params),
                           .infer = max_infer,
                           .mend = windows_mend,
                           .forward = max_forward,
                           .batched = situ_batch_fold,
                           .backward = max_backward,
                           .backward_recorded = max_recorded,
                           .forward_derivative = max_forward_derivative };

situ_tensor *situ_max_pool2d(situ_tensor *input, const situ_pool_options *options, situ_tensor **indices) {
  pool_params p = { .indices = indices || situ__keeps(input) };
  if (options) p.o = *options;
  situ_tensor *out[2];
  situ_tensor *y = situ_op_run(&max_pool2d_op, &input, 1, &p, out);
  if (indices) *indices = out[1];
  return y;
}

/* ---- avg_pool2d ---- */

static bool avg_infer(situ_call *c) {
  const pool_params *p = c->params;
  if (p->o.dilation.ndim) return situ_refuse(c, SITU_E_ARG, "dilation is given: only max_pool2d has it");
  return windows_infer(c);
}
static bool avg_forward(situ_call *c) {
  const situ_window w = window_of(c->op, c->params);
  return launch(c->op, c->device, SITU_POOL_AVG, &w, c->in[0], NULL, c->out[0]);
}
static bool avg_backward(situ_grad_call *g) {
  const situ_window w = window_of(g->op, g->params);
  return back(g, SITU_POOL_AVG_GRAD, &w, NULL);
}
SITU_OP(avg_pool2d_op) = { .name = "avg_pool2d",
                           .traced = traced,
                           .operand = { { "input", SITU_FLOATING | SITU_INTEGRAL } },
                           .flags = SITU_OP_COMPOSED | SITU_OP_LINEAR | SITU_OP_FORMAT | SITU_OP_ROWS,
                           .params_size = sizeof(pool_params),
                           .infer = avg_infer,
                           .mend = windows_mend,
                           .forward = avg_forward,
                           .batched = situ_batch_fold,
                           .backward = avg_backward,
                           .backward_recorded = average_recorded };

situ_tensor *situ_avg_pool2d(situ_tensor *input, const situ_pool_options *options) {
  pool_params p = { .indices = false };
  if (options) p.o = *options;
  return situ_op_run1(&avg_pool2d_op, input, &p);
}

/* ---- adaptive_avg_pool2d ---- */

static bool adaptive_infer(situ_call *c) {
  const situ_shape *wanted = c->params;
  if (!check_input(c, false)) return false;
  if (wanted->ndim < 1 || wanted->ndim > 2)
    return situ_refuse(c, SITU_E_ARG, "output_size has %d values, must have 1 or 2", wanted->ndim);
  for (int d = 0; d < 2; d++) {
    const int64_t size = wanted->dim[wanted->ndim == 1 ? 0 : d];
    if (size < 0 && size != SITU_KEEP_SIZE)
      return situ_refuse(c, SITU_E_ARG, "output_size is %lld, must not be negative; SITU_KEEP_SIZE is the input's size",
                         (long long)size);
    if (size != SITU_KEEP_SIZE) c->shape[0].dim[c->shape[0].ndim - 2 + d] = size;
  }
  return true;
}
static bool adaptive_forward(situ_call *c) {
  return launch(c->op, c->device, SITU_POOL_ADAPTIVE_AVG, NULL, c->in[0], NULL, c->out[0]);
}
static bool adaptive_backward(situ_grad_call *g) { return back(g, SITU_POOL_ADAPTIVE_AVG_GRAD, NULL, NULL); }
static bool adaptive_traced(const situ_call *c, situ_export_trace *t) {
  const situ_shape *y = &c->shape[0], size = SITU_SHAPE(y->dim[y->ndim - 2], y->dim[y->ndim - 1]);
  return situ_export_call(t, "adaptive_avg_pool2d.default", "tI", c->in[0], &size);
}

SITU_OP(adaptive_avg_pool2d_op) = { .name = "adaptive_avg_pool2d",
                                    .traced = adaptive_traced,
                                    .operand = { { "input", SITU_FLOATING } },
                                    .flags = SITU_OP_COMPOSED | SITU_OP_LINEAR | SITU_OP_FORMAT | SITU_OP_ROWS,
                                    .params_size = sizeof(situ_shape),
                                    .infer = adaptive_infer,
                                    .forward = adaptive_forward,
                                    .batched = situ_batch_fold,
                                    .backward = adaptive_backward,
                                    .backward_recorded = average_recorded };

situ_tensor *situ_adaptive_avg_pool2d(situ_tensor *input, situ_shape output_size) {
  return situ_op_run1(&adaptive_avg_pool2d_op, input, &output_size);
}
