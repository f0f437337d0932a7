/* Views: other sizes and strides on the same storage. Each rule derives call->view from the operand's.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "autograd/view.h"
#include "base/fail.h"
#include "base/size.h"
#include "device/dry.h"
#include "ops/ops.h"

/* Parameters of view ops; each op uses some of them. */
typedef struct view_params {
  situ_shape shape, strides;
  int64_t start, end, step;
  int a, b;
  bool unfit; /* view, in a dry run: the shape is wrong, and the result has it nevertheless */
} view_params;

/* Starts from the operand's view; done() updates what depends on sizes and strides. */
static situ_view_desc *begin(situ_call *c) {
  c->view = *situ__desc(c->in[0]);
  return &c->view;
}
static bool done(situ_call *c) {
  situ_desc_refresh(&c->view);
  return true;
}

/* ---- torch.export ---- */

/* torch's strides may be others, of which it takes no view. */
static bool view_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "reshape.default", "tI", c->in[0], &((const view_params *)c->params)->shape);
}
static bool permute_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "permute.default", "tI", c->in[0], &((const view_params *)c->params)->shape);
}
static bool expand_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "expand.default", "tI", c->in[0], &((const view_params *)c->params)->shape);
}
static bool slice_traced(const situ_call *c, situ_export_trace *t) {
  const view_params *p = c->params;
  if (p->b) return situ_export_call(t, "select.int", "tii", c->in[0], (int64_t)p->a, p->start);
  return situ_export_call(t, "slice.Tensor", "tiiii", c->in[0], (int64_t)p->a, p->start, p->end, p->step);
}

/* The shape that was asked for. */
static bool unfit_mend(situ_call *c) {
  const view_params *p = c->params;
  c->shape[0] = p->shape;
  c->dtype[0] = (situ_dtype)situ__desc(c->in[0])->dtype;
  return p->unfit;
}

#define VIEW_OP(op, text, rule, back, trace)          \
  SITU_OP(op) = { .name = text,                       \
                  .operand = { { "input", 0 } },      \
                  .flags = SITU_OP_VIEW,              \
                  .params_size = sizeof(view_params), \
                  .infer = rule,                      \
                  .mend = unfit_mend,                 \
                  .traced = trace,                    \
                  .backward = back,                   \
                  .backward_recorded = back }

/* ---- view: other sizes, same order; possible if no dimension spans a gap ---- */

/* Strides for `shape` on v without a copy: groups of contiguous dimensions of v are split anew. */
static bool view_strides(const situ_view_desc *v, const situ_shape *shape, int64_t stride[SITU_MAX_DIMS]) {
  if (v->numel == 0 || v->contiguous) {
    int64_t step = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
      stride[d] = step;
      if (shape->dim[d] > 1) step *= shape->dim[d];
    }
    return true;
  }
  int to = shape->ndim - 1;
  int64_t group = 1, filled = 1, base = v->stride[v->ndim - 1];
  for (int d = v->ndim - 1; d >= 0; d--) {
    group *= v->size[d];
    bool gap = d == 0 || (v->size[d - 1] != 1 && v->stride[d - 1] != group * base);
    if (!gap) continue;
    while (to >= 0 && (filled < group || shape->dim[to] == 1)) {
      stride[to] = filled * base;
      filled *= shape->dim[to--];
    }
    if (filled != group) return false;
    if (d > 0) base = v->stride[d - 1];
    group = filled = 1;
  }
  return to < 0;
}

static bool view_infer(situ_call *c) {
  const view_params *p = c->params;
  situ_view_desc *v = begin(c);
  int64_t stride[SITU_MAX_DIMS];
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  if (p->unfit) return false; /* after situ__resolve_shape has recorded why */
  if (!view_strides(v, &p->shape, stride)) {
    situ_shape own = situ__shape(v);
    return situ_refuse(c, SITU_E_SHAPE, "%s with its strides cannot be seen as %s without a copy; use situ_reshape",
                       situ_shape_text(&own, a), situ_shape_text(&p->shape, b));
  }
  v->ndim = (uint8_t)p->shape.ndim;
  memcpy(v->size, p->shape.dim, sizeof(int64_t) * (size_t)v->ndim);
  memcpy(v->stride, stride, sizeof(int64_t) * (size_t)v->ndim);
  return done(c);
}

static bool reshape_backward(situ_grad_call *g) { return (g->dx[0] = situ_reshape(g->grad[0], g->shape[0])) != NULL; }

VIEW_OP(view_op, "view", view_infer, reshape_backward, view_traced);

/* After a shape was refused: a dry run goes on with it, its unknown size as large as possible. */
static situ_tensor *view_unfit(situ_tensor *input, const situ_shape *asked) {
  view_params p = { .shape = *asked, .unfit = true };
  int64_t known = 1, *unknown = NULL;
  if (!situ__is_dry() || p.shape.ndim < 0 || p.shape.ndim > SITU_MAX_DIMS) return NULL;
  for (int d = 0; d < p.shape.ndim; d++) {
    int64_t *size = &p.shape.dim[d];
    if (*size == -1 && !unknown) unknown = size;
    else if (*size < 0 || !situ__mul_i64(known, *size, &known)) return NULL;
  }
  if (unknown) *unknown = situ__max_i64(known ? input->view.numel / known : 0, 1);
  return situ_op_run1(&view_op, input, &p);
}

situ_tensor *situ_view(situ_tensor *input, situ_shape shape) {
  if (!situ__need("view", "input", input)) return NULL;
  if (!situ__resolve_shape("view", &shape, input->view.numel)) return view_unfit(input, &shape);
  return situ_op_run1(&view_op, input, &(view_params){ .shape = shape });
}

situ_tensor *situ_reshape(situ_tensor *input, situ_shape shape) {
  SITU__MADE_OF_OPS("reshape");
  int64_t stride[SITU_MAX_DIMS];
  if (!situ__need("reshape", "input", input)) return NULL;
  if (!situ__resolve_shape("reshape", &shape, input->view.numel)) return view_unfit(input, &shape);
  const bool copied = !view_strides(&input->view, &shape, stride);
  if (copied) input = situ_contiguous(input);
  situ_tensor *y = input ? situ_op_run1(&view_op, input, &(view_params){ .shape = shape }) : NULL;
  if (copied && y) situ__view_settle(y);
  return y;
}

situ_tensor *situ_flatten(situ_tensor *input, int start_dim, int end_dim) {
  SITU__MADE_OF_OPS("flatten");
  int a, b;
  if (!situ__need("flatten", "input", input) || !situ_wrap_dim("flatten", start_dim, input->view.ndim, &a) ||
      !situ_wrap_dim("flatten", end_dim, input->view.ndim, &b))
    return NULL;
  if (a > b) return situ__fail(SITU_E_ARG, "flatten", "start %d comes after end %d", a, b), NULL;
  situ_shape shape = { .ndim = 0 };
  int64_t merged = 1;
  for (int d = 0; d < input->view.ndim; d++) {
    if (d >= a && d <= b) merged *= input->view.size[d];
    if (d == b || d < a || d > b) shape.dim[shape.ndim++] = d == b ? merged : input->view.size[d];
  }
  if (!input->view.ndim) shape = SITU_SHAPE(1);
  return situ_reshape(input, shape);
}

situ_tensor *situ_squeeze(situ_tensor *input, situ_shape dims) {
  SITU__MADE_OF_OPS("squeeze");
  unsigned mask;
  if (!situ__need("squeeze", "input", input) || !situ__dim_mask("squeeze", &dims, input->view.ndim, true, &mask))
    return NULL;
  situ_view_desc v = input->view;
  v.ndim = 0;
  for (int d = 0; d < input->view.ndim; d++) {
    if (mask >> d & 1 && input->view.size[d] == 1) continue;
    v.size[v.ndim++] = input->view.size[d];
  }
  return situ_view(input, situ__shape(&v));
}

situ_tensor *situ_unsqueeze(situ_tensor *input, int dim) {
  SITU__MADE_OF_OPS("unsqueeze");
  int at;
  if (!situ__need("unsqueeze", "input", input) || !situ_wrap_dim("unsqueeze", dim, input->view.ndim + 1, &at))
    return NULL;
  if (input->view.ndim == SITU_MAX_DIMS)
    return situ__fail(SITU_E_ARG, "unsqueeze", "the tensor has %d dimensions already", SITU_MAX_DIMS), NULL;
  situ_shape shape = { .ndim = input->view.ndim + 1 };
  for (int d = 0, from = 0; d < shape.ndim; d++) shape.dim[d] = d == at ? 1 : input->view.size[from++];
  return situ_view(input, shape);
}

/* ---- permute ---- */

static bool permute_infer(situ_call *c) {
  const view_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]);
  situ_view_desc *v = begin(c);
  unsigned mask;
  if (p->shape.ndim != x->ndim)
    return situ_refuse(c, SITU_E_ARG, "%d dimensions listed for a tensor of %d", p->shape.ndim, x->ndim);
  if (!situ__dim_mask(c->op->name, &p->shape, x->ndim, false, &mask)) return false;
  for (int d = 0; d < x->ndim; d++) {
    int64_t from = p->shape.dim[d] < 0 ? p->shape.dim[d] + x->ndim : p->shape.dim[d];
    v->size[d] = x->size[from];
    v->stride[d] = x->stride[from];
  }
  return done(c);
}

static bool permute_backward(situ_grad_call *g) {
  const view_params *p = g->params;
  situ_shape back = { .ndim = p->shape.ndim };
  for (int d = 0; d < back.ndim; d++) back.dim[p->shape.dim[d] < 0 ? p->shape.dim[d] + back.ndim : p->shape.dim[d]] = d;
  return (g->dx[0] = situ_permute(g->grad[0], back)) != NULL;
}

VIEW_OP(permute_op, "permute", permute_infer, permute_backward, permute_traced);

situ_tensor *situ_permute(situ_tensor *input, situ_shape dims) {
  return situ_op_run1(&permute_op, input, &(view_params){ .shape = dims });
}

situ_tensor *situ_transpose(situ_tensor *input, int dim0, int dim1) {
  if (!situ__need("transpose", "input", input) || !situ_wrap_dim("transpose", dim0, input->view.ndim, &dim0) ||
      !situ_wrap_dim("transpose", dim1, input->view.ndim, &dim1))
    return NULL;
  situ_shape dims = { .ndim = input->view.ndim };
  for (int d = 0; d < dims.ndim; d++) dims.dim[d] = d == dim0 ? dim1 : d == dim1 ? dim0 : d;
  return situ_permute(input, dims);
}

/* ---- expand: sizes of 1 become any size, by strides of 0 ---- */

static bool expand_infer(situ_call *c) {
  const view_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]);
  situ_view_desc *v = begin(c);
  situ_shape to = p->shape, own = situ__shape(x);
  int64_t numel;
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  bool good = to.ndim >= x->ndim && to.ndim <= SITU_MAX_DIMS;
  int missing = good ? to.ndim - x->ndim : 0;
  for (int d = 0; good && d < to.ndim; d++) {
    int64_t size = d < missing ? 1 : x->size[d - missing];
    if (to.dim[d] == -1 && d >= missing) to.dim[d] = size;
    good = size == 1 || size == to.dim[d];
    v->size[d] = to.dim[d];
    v->stride[d] = d < missing || (size == 1 && to.dim[d] != 1) ? 0 : x->stride[d - missing];
  }
  if (!good)
    return situ_refuse(c, SITU_E_SHAPE, "%s does not expand to %s", situ_shape_text(&own, a),
                       situ_shape_text(&p->shape, b));
  if (!situ_shape_numel(c->op->name, &to, &numel)) return false;
  v->ndim = (uint8_t)to.ndim;
  return done(c);
}

/* The tape sums the gradient of expanded dimensions when it fits it to the operand. */
static bool expand_backward(situ_grad_call *g) { return (g->dx[0] = g->grad[0]) != NULL; }

VIEW_OP(expand_op, "expand", expand_infer, expand_backward, expand_traced);

situ_tensor *situ_expand(situ_tensor *input, situ_shape shape) {
  return situ_op_run1(&expand_op, input, &(view_params){ .shape = shape });
}

/* ---- slice, narrow, select: part of one dimension; a = dim, b = 1 drops it ---- */

static bool slice_infer(situ_call *c) {
  const view_params *p = c->params;
  situ_view_desc *v = begin(c);
  v->offset += p->start * v->stride[p->a];
  v->size[p->a] = p->end > p->start ? situ__ceil_div(p->end - p->start, p->step) : 0;
  if (v->size[p->a] > 1) v->stride[p->a] *= p->step; /* else the stride is not used, and the product may overflow */
  if (p->b) {
    v->ndim--;
    for (int d = p->a; d < v->ndim; d++) {
      v->size[d] = v->size[d + 1];
      v->stride[d] = v->stride[d + 1];
    }
  }
  return done(c);
}

/* The gradient outside the slice is 0: accumulates into the gradient so far, or into zeros. */
static bool slice_backward(situ_grad_call *g) {
  const view_params *p = g->params;
  situ_tensor *grad = p->b ? situ_unsqueeze(g->grad[0], p->a) : g->grad[0], *sum = situ_grad_collected(g, 0);
  if (sum) return situ_add_(situ_slice(sum, p->a, p->start, p->end, p->step), grad) != NULL;
  situ_tensor *zero =
      situ_zeros(g->shape[0], &(situ_options){ .dtype = situ_dtype_of(g->grad[0]), .device = g->device });
  return situ_copy_(situ_slice(zero, p->a, p->start, p->end, p->step), grad) && (g->dx[0] = zero);
}

VIEW_OP(slice_op, "slice", slice_infer, slice_backward, slice_traced);
VIEW_OP(narrow_op, "narrow", slice_infer, slice_backward, slice_traced);
VIEW_OP(select_op, "select", slice_infer, slice_backward, slice_traced);

/* Checks a dimension to slice: 0-dim tensors have none. */
static bool cut_dim(const char *op, const situ_tensor *x, int dim, int *out) {
  if (!situ__need(op, "input", x)) return false;
  if (!x->view.ndim) return situ__fail(SITU_E_ARG, op, "a 0-dim tensor has no dimension to pick from"), false;
  return situ_wrap_dim(op, dim, x->view.ndim, out);
}

situ_tensor *situ_slice(situ_tensor *input, int dim, int64_t start, int64_t end, int64_t step) {
  int d;
  if (!cut_dim("slice", input, dim, &d)) return NULL;
  if (step <= 0) return situ__fail(SITU_E_ARG, "slice", "step %lld must be positive", (long long)step), NULL;
  int64_t size = input->view.size[d];
  if (start < 0) start = situ__max_i64(start + size, 0);
  if (end < 0) end = situ__max_i64(end + size, 0);
  start = situ__min_i64(start, size);
  end = situ__max_i64(situ__min_i64(end, size), start);
  return situ_op_run1(&slice_op, input, &(view_params){ .a = d, .start = start, .end = end, .step = step });
}

situ_tensor *situ_narrow(situ_tensor *input, int dim, int64_t start, int64_t length) {
  int d;
  if (!cut_dim("narrow", input, dim, &d)) return NULL;
  int64_t size = input->view.size[d], from = start < 0 && start >= -size ? start + size : start;
  if (from < 0 || from > size || length < 0 || length > size - from)
    return situ__fail(SITU_E_INDEX, "narrow", "start %lld and length %lld leave dimension %d, of size %lld",
                      (long long)start, (long long)length, d, (long long)size),
           NULL;
  return situ_op_run1(&narrow_op, input, &(view_params){ .a = d, .start = from, .end = from + length, .step = 1 });
}

situ_tensor *situ_select(situ_tensor *input, int dim, int64_t index) {
  int d;
  if (!cut_dim("select", input, dim, &d)) return NULL;
  int64_t size = input->view.size[d];
  if (index < -size || index >= size)
    return situ__fail(SITU_E_INDEX, "select", "index %lld is outside dimension %d, of size %lld", (long long)index, d,
                      (long long)size),
           NULL;
  if (index < 0) index += size;
  return situ_op_run1(&select_op, input, &(view_params){ .a = d, .b = 1, .start = index, .end = index + 1, .step = 1 });
}
