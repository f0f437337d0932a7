/* Minima and maxima along a dimension with their indices, cumulative sums and products, sorting.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

typedef struct order_params {
  int dim;
  bool keepdim, descending;
  int64_t k;
} order_params;

/* For samples: along the same dimension of the whole. */
static bool order_batched(situ_batch_call *c) { return situ__batch_dim(c, offsetof(order_params, dim)); }

/* ---- min, max, argmin, argmax along one dimension ---- */

static bool arg_infer(situ_call *c) {
  const order_params *p = c->params;
  situ_infer_like(c);
  situ_shape *shape = &c->shape[0];
  if (shape->ndim && shape->dim[p->dim] == 0)
    return situ_refuse(c, SITU_E_ARG, "no elements to choose from: dimension %d has size 0", p->dim);
  if (shape->ndim) shape->dim[p->dim] = 1;
  if (shape->ndim && !p->keepdim) {
    for (int d = p->dim; d + 1 < shape->ndim; d++) shape->dim[d] = shape->dim[d + 1];
    shape->ndim--;
  }
  c->shape[1] = *shape;
  c->dtype[1] = SITU_I64;
  return true;
}

static bool arg_forward(situ_call *c) {
  const order_params *p = c->params;
  situ_tensor *x = situ_contiguous(c->in[0]);
  if (!x) return false;
  situ_view_desc from, values, indices;
  const situ_view_desc *v = situ__ranked(situ_desc(x), &from);
  situ_shape kept = situ__shape(v);
  kept.dim[p->dim] = 1;
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_ARG_REDUCE, .op = c->op->code, .compute = (situ_dtype)v->dtype, .ins = 1,
                                   .outs = 2, .in = { v },
                                   .out = { situ_desc_reshape(situ__desc(c->out[0]), kept, &values),
                                            situ_desc_reshape(situ__desc(c->out[1]), kept, &indices) },
                                   .integer = { p->dim } });
}

/* The gradient flows to the element that was selected. */
static bool place_backward(situ_grad_call *g) {
  const order_params *p = g->params;
  situ_tensor *up = g->grad[0], *place = g->out[1];
  if (!up)
    return (g->dx[0] = situ_zeros(g->shape[0], &(situ_options){ .dtype = g->dtype[0], .device = g->device })) != NULL;
  if (!g->shape[0].ndim) return (g->dx[0] = up) != NULL;
  if (situ_dim(up) < g->shape[0].ndim) {
    up = situ_unsqueeze(up, p->dim);
    place = situ_unsqueeze(place, p->dim);
  }
  situ_tensor *zero = situ_zeros(g->shape[0], &(situ_options){ .dtype = situ_dtype_of(up), .device = g->device });
  return (g->dx[0] = situ_scatter_add_(zero, p->dim, place, up)) != NULL;
}

static bool arg_traced(const situ_call *c, situ_export_trace *t) {
  const order_params *p = c->params;
  return situ_export_call(t, "*.dim", "tib", c->in[0], (int64_t)p->dim, (int)p->keepdim);
}

#define ARG(id, which)                                      \
  SITU_OP(id##_op) = { .name = #id,                         \
                       .operand = { { "input", 0 } },       \
                       .outs = 2,                           \
                       .code = which,                       \
                       .flags = SITU_OP_COMPOSED,           \
                       .save = SITU_SAVE_OUT(1),            \
                       .params_size = sizeof(order_params), \
                       .infer = arg_infer,                  \
                       .traced = arg_traced,                \
                       .forward = arg_forward,              \
                       .batched = order_batched,            \
                       .backward = place_backward,          \
                       .backward_recorded = place_backward };
ARG(min, 0)
ARG(max, 1)

static situ_tensor *extreme(const situ_op *op, situ_tensor *x, int dim, bool keepdim, situ_tensor **indices) {
  order_params p = { .keepdim = keepdim };
  situ_tensor *outs[2] = { NULL, NULL };
  if (situ__need(op->name, "input", x) && situ_wrap_dim(op->name, dim, x->view.ndim, &p.dim))
    situ_op_run(op, &x, 1, &p, outs);
  if (indices) *indices = outs[1];
  return outs[0];
}

situ_tensor *situ_min_dim(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices) {
  SITU__MADE_OF_OPS("min_dim");
  return extreme(&min_op, input, dim, keepdim, indices);
}
situ_tensor *situ_max_dim(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices) {
  SITU__MADE_OF_OPS("max_dim");
  return extreme(&max_op, input, dim, keepdim, indices);
}

static situ_tensor *place_of(const char *name, const situ_op *op, situ_tensor *x, const situ_reduce_options *o) {
  SITU__MADE_OF_OPS(name);
  situ_tensor *indices = NULL;
  if (!situ__need(name, "input", x)) return NULL;
  if (o && o->dim.ndim > 1)
    return situ__fail(SITU_E_ARG, name, "%d dimensions listed: one, or none for the flattened tensor", o->dim.ndim),
           NULL;
  if (o && o->dtype) return situ__fail(SITU_E_ARG, name, "dtype is given: indices are i64; cast them"), NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  bool flat = !o || !o->dim.ndim;
  situ_tensor *from = flat ? situ_reshape(x, SITU_SHAPE(-1)) : x;
  extreme(op, from, flat ? 0 : (int)o->dim.dim[0], o && o->keepdim && !flat, &indices);
  if (flat && o && o->keepdim) {
    situ_shape ones = { .ndim = x->view.ndim };
    for (int d = 0; d < ones.ndim; d++) ones.dim[d] = 1;
    indices = situ_reshape(indices, ones);
  }
  indices = situ_escape(&s, indices);
  SITU_IGNORE(situ_scope_end(&s));
  return indices;
}
situ_tensor *situ_argmin(situ_tensor *input, const situ_reduce_options *options) {
  return place_of("argmin", &min_op, input, options);
}
situ_tensor *situ_argmax(situ_tensor *input, const situ_reduce_options *options) {
  return place_of("argmax", &max_op, input, options);
}

/* ---- cumsum, cumprod ---- */

static bool scan_infer(situ_call *c) {
  situ_infer_like(c);
  if (!situ_dtype_is_floating(c->dtype[0])) c->dtype[0] = SITU_I64;
  return true;
}
static bool scan_forward(situ_call *c) {
  const order_params *p = c->params;
  situ_tensor *x = situ_contiguous(c->in[0]);
  if (!x) return false;
  situ_view_desc from, to;
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_SCAN, .op = c->op->code, .compute = c->dtype[0], .ins = 1, .outs = 1,
                                   .in = { situ__ranked(situ_desc(x), &from) },
                                   .out = { situ__ranked(situ__desc(c->out[0]), &to) }, .integer = { p->dim } });
}
static bool cumsum_backward(situ_grad_call *g) {
  const order_params *p = g->params;
  return (g->dx[0] = situ_flip(situ_cumsum(situ_flip(g->grad[0], SITU_DIMS(p->dim)), p->dim), SITU_DIMS(p->dim))) !=
         NULL;
}
static bool scan_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "*.default", "ti", c->in[0], (int64_t)((const order_params *)c->params)->dim);
}

SITU_OP(cumsum_op) = { .name = "cumsum",
                       .operand = { { "input", 0 } },
                       .flags = SITU_OP_COMPOSED | SITU_OP_LINEAR,
                       .autocast = { SITU_CAST_NOT, SITU_CAST_F32 },
                       .params_size = sizeof(order_params),
                       .infer = scan_infer,
                       .forward = scan_forward,
                       .batched = order_batched,
                       .traced = scan_traced,
                       .backward = cumsum_backward,
                       .backward_recorded = cumsum_backward };

situ_tensor *situ_cumsum(situ_tensor *input, int dim) {
  order_params p = { 0 };
  return situ__need("cumsum", "input", input) && situ_wrap_dim("cumsum", dim, input->view.ndim, &p.dim)
             ? situ_op_run1(&cumsum_op, input, &p)
             : NULL;
}

/* Without a division, so that elements may be 0. */
static bool cumprod_backward(situ_grad_call *g) {
  const order_params *p = g->params;
  situ_tensor *x = situ_contiguous(g->in[0]), *y = g->out[0], *up = situ_contiguous(g->grad[0]);
  if (!x || !up || !(g->dx[0] = situ_empty_like(y, NULL))) return false;
  if (!situ_numel(y) || g->device.kind == SITU_META) return true;
  situ_view_desc v[4];
  return situ_launch(g->op->name, g->device,
                     &(situ_work){ SITU_VERB_SCAN, .op = SITU_SCAN_PROD_GRAD, .compute = situ_dtype_of(y), .ins = 3,
                                   .outs = 1,
                                   .in = { situ__ranked(situ_desc(x), &v[0]), situ__ranked(situ_desc(y), &v[1]),
                                           situ__ranked(situ_desc(up), &v[2]) },
                                   .out = { situ__ranked(situ_desc(g->dx[0]), &v[3]) }, .integer = { p->dim } });
}
/* One product an element: no division, in any order of derivative. */
static situ_tensor *cumprod_composed(const situ_grad_call *g, situ_tensor *const *in, int result) {
  (void)result;
  const int dim = ((const order_params *)g->params)->dim;
  situ_tensor *x = situ_dim(in[0]) ? in[0] : situ_reshape(in[0], SITU_SHAPE(1));
  const int64_t count = situ_size(x, dim);
  situ_tensor *y = situ_narrow(x, dim, 0, count < 1 ? count : 1), *last = y;
  for (int64_t k = 1; y && k < count; k++) {
    last = situ_mul(last, situ_narrow(x, dim, k, 1));
    y = situ_cat((situ_tensor *[]){ y, last }, 2, dim);
  }
  return situ_reshape(y, g->shape[0]);
}
static bool cumprod_recorded(situ_grad_call *g) { return situ_backward_through(g, cumprod_composed); }

SITU_OP(cumprod_op) = { .name = "cumprod",
                        .operand = { { "input", 0 } },
                        .flags = SITU_OP_COMPOSED,
                        .code = SITU_SCAN_PROD,
                        .autocast = { SITU_CAST_NOT, SITU_CAST_F32 },
                        .save = SITU_SAVE(0) | SITU_SAVE_OUT(0),
                        .params_size = sizeof(order_params),
                        .infer = scan_infer,
                        .forward = scan_forward,
                        .traced = scan_traced,
                        .backward = cumprod_backward,
                        .backward_recorded = cumprod_recorded };

situ_tensor *situ_cumprod(situ_tensor *input, int dim) {
  order_params p = { 0 };
  return situ__need("cumprod", "input", input) && situ_wrap_dim("cumprod", dim, input->view.ndim, &p.dim)
             ? situ_op_run1(&cumprod_op, input, &p)
             : NULL;
}

/* ---- sort, topk ---- */

static bool sort_infer(situ_call *c) {
  const order_params *p = c->params;
  situ_infer_like(c);
  int64_t size = c->shape[0].ndim ? c->shape[0].dim[p->dim] : 1;
  if (p->k > size || p->k < 0)
    return situ_refuse(c, SITU_E_ARG, "the %lld first of dimension %d, of size %lld", (long long)p->k, p->dim,
                       (long long)size);
  if (c->shape[0].ndim) c->shape[0].dim[p->dim] = p->k;
  else if (!p->k) return situ_refuse(c, SITU_E_ARG, "k is 0 for a 0-dim tensor");
  c->shape[1] = c->shape[0];
  c->dtype[1] = SITU_I64;
  return true;
}
static bool sort_forward(situ_call *c) {
  const order_params *p = c->params;
  situ_tensor *x = situ_contiguous(c->in[0]);
  if (!x) return false;
  situ_view_desc from, values, indices;
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_SORT, .op = p->descending, .compute = (situ_dtype)situ_desc(x)->dtype,
                                   .ins = 1, .outs = 2, .in = { situ__ranked(situ_desc(x), &from) },
                                   .out = { situ__ranked(situ__desc(c->out[0]), &values),
                                            situ__ranked(situ__desc(c->out[1]), &indices) },
                                   .integer = { p->dim } });
}

static bool sort_traced(const situ_call *c, situ_export_trace *t) {
  const order_params *p = c->params;
  if (strcmp(c->op->name, "topk") == 0)
    return situ_export_call(t, "topk.default", "tiib", c->in[0], p->k, (int64_t)p->dim, (int)p->descending);
  return situ_export_call(t, "sort.default", "tib", c->in[0], (int64_t)p->dim, (int)p->descending);
}

#define SORT(id)                                            \
  SITU_OP(id##_op) = { .name = #id,                         \
                       .operand = { { "input", 0 } },       \
                       .outs = 2,                           \
                       .flags = SITU_OP_COMPOSED,           \
                       .save = SITU_SAVE_OUT(1),            \
                       .params_size = sizeof(order_params), \
                       .infer = sort_infer,                 \
                       .forward = sort_forward,             \
                       .batched = order_batched,            \
                       .traced = sort_traced,               \
                       .backward = place_backward,          \
                       .backward_recorded = place_backward };
SORT(sort)
SORT(topk)

static situ_tensor *sorted(const situ_op *op, situ_tensor *x, int dim, bool descending, const int64_t *k,
                           situ_tensor **indices) {
  order_params p = { .descending = descending };
  situ_tensor *outs[2] = { NULL, NULL };
  if (situ__need(op->name, "input", x) && situ_wrap_dim(op->name, dim, x->view.ndim, &p.dim)) {
    p.k = k ? *k : x->view.ndim ? x->view.size[p.dim] : 1;
    situ_op_run(op, &x, 1, &p, outs);
  }
  if (indices) *indices = outs[1];
  return outs[0];
}

situ_tensor *situ_sort(situ_tensor *input, int dim, bool descending, situ_tensor **indices) {
  return sorted(&sort_op, input, dim, descending, NULL, indices);
}
situ_tensor *situ_topk(situ_tensor *input, int64_t k, int dim, bool largest, situ_tensor **indices) {
  return sorted(&topk_op, input, dim, largest, &k, indices);
}
situ_tensor *situ_argsort(situ_tensor *input, int dim, bool descending) {
  SITU__MADE_OF_OPS("argsort");
  situ_tensor *indices = NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  if (situ_sort(input, dim, descending, &indices)) situ_escape(&s, indices);
  SITU_IGNORE(situ_scope_end(&s));
  return indices;
}
