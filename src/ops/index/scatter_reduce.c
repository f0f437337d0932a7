/* scatter_reduce and index_reduce: sums, products, means and extremes of the elements that an index sends to one place.
   Products and extremes sort the index, so that a place's elements are next to each other, and combine runs.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"
#include "ops/samples.h"

typedef struct reduce_params {
  int dim;
  situ_scatter_reduction reduce;
  bool include_self;
} reduce_params;

static bool is_sum(const reduce_params *p) { return p->reduce == SITU_SCATTER_SUM || p->reduce == SITU_SCATTER_MEAN; }
static situ_tensor *combine(const reduce_params *p, situ_tensor *a, situ_tensor *b) {
  if (p->reduce == SITU_SCATTER_AMAX) return situ_maximum(a, b);
  return p->reduce == SITU_SCATTER_AMIN ? situ_minimum(a, b) : situ_mul(a, b);
}

/* ---- runs of equal places ---- */

/* Combines each element with the one `apart` before it, if that goes to the same place. */
static situ_tensor *step(const reduce_params *p, situ_tensor *place, situ_tensor *x, int64_t apart) {
  situ_scope s;
  situ_scope_begin(&s);
  const int64_t rest = situ_size(place, p->dim) - apart;
  situ_tensor *early = situ_narrow(x, p->dim, 0, rest), *late = situ_narrow(x, p->dim, apart, rest);
  situ_tensor *same = situ_eq(situ_narrow(place, p->dim, 0, rest), situ_narrow(place, p->dim, apart, rest));
  situ_tensor *parts[2] = { situ_narrow(x, p->dim, 0, apart), situ_where(same, combine(p, early, late), late) };
  return situ_scope_return(&s, situ_cat(parts, 2, p->dim));
}

/* The last of each run becomes the run's total: after the step by 2^k an element has those up to 2^(k+1) - 1 before it
   (Hillis and Steele, Communications of the ACM 29, 1986). Of several writes to one place the last counts. */
static situ_tensor *combined(const reduce_params *p, situ_tensor *x, situ_tensor *index, situ_tensor *src) {
  situ_tensor *order = NULL, *place = situ_sort(index, p->dim, false, &order);
  if (!place) return NULL;
  situ_tensor *total = situ_gather(src, p->dim, order);
  for (int64_t apart = 1; total && apart < situ_size(place, p->dim); apart *= 2) total = step(p, place, total, apart);
  if (p->include_self) total = combine(p, situ_gather(x, p->dim, place), total);
  return situ_scatter(x, p->dim, place, total);
}

/* ---- sums ---- */

/* Number of elements that each place has; 1 where it has none. */
static situ_tensor *counts(const reduce_params *p, situ_tensor *x, situ_tensor *index) {
  situ_tensor *self = situ_full_like(x, p->include_self, NULL);
  const situ_options like = { .dtype = situ_dtype_of(x), .device = situ_device_of(x) };
  situ_tensor *ones = situ_expand(situ_ones(SITU_SCALAR, &like), situ_shape_of(index));
  situ_tensor *count = situ_scatter_add(self, p->dim, index, ones);
  return situ_masked_fill(count, situ_eq_scalar(count, 0), 1);
}

static situ_tensor *reduced(const reduce_params *p, situ_tensor *x, situ_tensor *index, situ_tensor *src) {
  if (!situ_numel(index)) return x;
  if (!is_sum(p)) return combined(p, x, index, src);
  situ_tensor *sum = p->include_self ? x : situ_scatter_value(x, p->dim, index, 0);
  sum = situ_scatter_add(sum, p->dim, index, src);
  if (p->reduce == SITU_SCATTER_SUM) return sum;
  situ_tensor *count = counts(p, x, index);
  return situ_dtype_is_floating(situ_dtype_of(x)) ? situ_div(sum, count) : situ_floor_divide(sum, count);
}

/* ---- the op ---- */

static bool infer(situ_call *c) {
  const reduce_params *p = c->params;
  return situ__fits_scatter(c, p->dim) && situ_infer_like(c);
}

/* 16 bits are computed in f32, and rounded once. */
static bool forward(situ_call *c) {
  const situ_dtype dtype = situ__wide(c->dtype[0]);
  situ_tensor *y = reduced(c->params, situ_to_dtype(c->in[0], dtype), c->in[1], situ_to_dtype(c->in[2], dtype));
  return y && situ_launch(c->op->name, c->device,
                          &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { situ_desc(y) },
                                        .out = { situ_desc(c->out[0]) } });
}

/* ---- gradients: dx of input before it is known whether input takes part, ds of src ---- */

typedef struct slopes {
  situ_tensor *dx, *ds;
} slopes;

/* By the op itself, so that it is recorded where gradients are differentiated again. */
static situ_tensor *multiplied(const reduce_params *p, situ_tensor *x, situ_tensor *index, situ_tensor *src) {
  return situ_scatter_reduce(x, p->dim, index, src, SITU_SCATTER_PROD, p->include_self);
}

static slopes mean_slopes(const reduce_params *p, const situ_grad_call *g) {
  situ_tensor *part = situ_div(g->grad[0], counts(p, g->in[0], g->in[1]));
  return (slopes){ part, situ_gather(part, p->dim, g->in[1]) };
}

/* Beside two zeros in one place a product has second derivatives that the division below would lose. */
static bool has_second(const situ_grad_call *g, situ_tensor *zeros) {
  double most = 0;
  if (!situ__recording() || g->device.kind == SITU_META || !situ_numel(zeros)) return true;
  zeros = situ__all_samples(g->op->name, zeros);
  if (!zeros || situ_item(situ_amax(situ_detach(zeros), NULL), &most) != SITU_OK) return false;
  if (most > 1)
    situ_fail(SITU_E_UNSUPPORTED, g->op->name,
              "create_graph: %g zeros meet in one place, where their product has no "
              "second derivative here",
              most);
  return most <= 1;
}

/* The product of the others: by division, but where the only 0 of a place is the element itself, without it. */
static slopes product_slopes(const reduce_params *p, const situ_grad_call *g) {
  situ_tensor *x = g->in[0], *index = g->in[1], *src = g->in[2], *y = g->out[0], *up = g->grad[0];
  situ_tensor *factor = situ_masked_fill(x, situ_eq_scalar(x, 0), 1), *zero = situ_eq_scalar(src, 0);
  situ_tensor *dx = situ_div(situ_mul(up, multiplied(p, factor, index, src)), factor);
  situ_tensor *zeros = situ_scatter_add(situ_zeros_like(x, NULL), p->dim, index, situ_to_dtype(zero, situ_dtype_of(x)));
  situ_tensor *single = situ_logical_and(zero, situ_eq_scalar(situ_gather(zeros, p->dim, index), 1));
  if (!zeros || !has_second(g, zeros)) return (slopes){ 0 };
  situ_tensor *others = multiplied(p, x, index, situ_masked_fill(src, single, 1));
  situ_tensor *divided = situ_div(situ_gather(situ_mul(up, y), p->dim, index), situ_masked_fill(src, zero, 1));
  return (slopes){ dx, situ_where(single, situ_gather(situ_mul(up, others), p->dim, index), divided) };
}

/* Elements that are equal to the extreme share its gradient. */
static slopes extreme_slopes(const reduce_params *p, const situ_grad_call *g) {
  situ_tensor *x = g->in[0], *index = g->in[1], *src = g->in[2], *y = g->out[0];
  const situ_dtype dtype = situ_dtype_of(y);
  situ_tensor *own = situ_to_dtype(situ_eq(x, y), dtype);
  situ_tensor *sent = situ_to_dtype(situ_eq(src, situ_gather(y, p->dim, index)), dtype);
  situ_tensor *part = situ_div(g->grad[0], situ_scatter_add(own, p->dim, index, sent));
  return (slopes){ situ_mul(own, part), situ_mul(sent, situ_gather(part, p->dim, index)) };
}

static bool backward(situ_grad_call *g) {
  const reduce_params *p = g->params;
  situ_tensor *index = g->in[1], *up = g->grad[0];
  slopes d = { up, NULL };
  if (p->reduce == SITU_SCATTER_SUM) d.ds = situ_gather(up, p->dim, index);
  else if (p->reduce == SITU_SCATTER_MEAN) d = mean_slopes(p, g);
  else d = p->reduce == SITU_SCATTER_PROD ? product_slopes(p, g) : extreme_slopes(p, g);
  if (!p->include_self && situ_numel(index)) d.dx = situ_scatter_value(d.dx, p->dim, index, 0);
  return GRAD(g, 0, d.dx) && GRAD(g, 2, d.ds);
}

static bool reduce_traced(const situ_call *c, situ_export_trace *t) {
  static const char *const names[] = { "sum", "prod", "mean", "amax", "amin" };
  const reduce_params *p = c->params;
  return situ_export_call(t, "scatter_reduce.two", "tittsb", c->in[0], (int64_t)p->dim, c->in[1], c->in[2],
                          names[p->reduce], (int)p->include_self);
}

enum { NUMBERS = SITU_SAME | SITU_FLOATING | SITU_INTEGRAL };
#define OPERANDS(src, accept)                                     \
  {                                                               \
    { "input", accept }, { "index", SITU_INDEX }, { src, accept } \
  }
SITU_OP(scatter_reduce_op) = { .name = "scatter_reduce",
                               .operand = OPERANDS("src", NUMBERS | SITU_BOOLEAN),
                               .save = SITU_SAVE(0) | SITU_SAVE(1) | SITU_SAVE(2) | SITU_SAVE_OUT(0),
                               .flags = SITU_OP_COMPOSED,
                               .params_size = sizeof(reduce_params),
                               .traced = reduce_traced,
                               .infer = infer,
                               .forward = forward,
                               .backward = backward,
                               .backward_recorded = backward };

/* ---- public functions ---- */

/* The part of src that index reads: src may be larger, index may not. */
static situ_tensor *part_of(situ_tensor *src, const situ_tensor *index) {
  if (src->view.ndim != index->view.ndim) return src;
  for (int d = 0; src && d < index->view.ndim; d++)
    if (index->view.size[d] < src->view.size[d]) src = situ_narrow(src, d, 0, index->view.size[d]);
  return src;
}

static bool is_reduction(const char *op, situ_scatter_reduction reduce) {
  if ((unsigned)reduce <= SITU_SCATTER_AMIN) return true;
  return situ__fail(SITU_E_ARG, op, "%d is not a reduction", (int)reduce), false;
}

/* The extreme that is the sum or product of truth values. Returns false after recording an error for their mean. */
static bool as_extreme(const char *op, situ_scatter_reduction *reduce) {
  if (*reduce == SITU_SCATTER_MEAN) return situ__fail(SITU_E_DTYPE, op, "bool has no mean; cast it first"), false;
  if (*reduce == SITU_SCATTER_SUM) *reduce = SITU_SCATTER_AMAX;
  if (*reduce == SITU_SCATTER_PROD) *reduce = SITU_SCATTER_AMIN;
  return true;
}

/* In place the gradient reads a copy of what input was. */
static situ_tensor *scatter_reduce(const char *op, situ_tensor *const *in, reduce_params p, bool in_place) {
  const situ_op schema = { .name = op, .operand = OPERANDS("src", NUMBERS | SITU_BOOLEAN) };
  if (!is_reduction(op, p.reduce) || !situ__together(&schema, in, 3) ||
      !situ_wrap_dim(op, p.dim, in[0]->view.ndim, &p.dim) ||
      (in[0]->view.dtype == SITU_BOOL && !as_extreme(op, &p.reduce)))
    return NULL;
  situ_tensor *x = in_place ? situ_clone(in[0]) : in[0];
  if (!x) return NULL;
  if (x->view.ndim)
    return situ_op_run(&scatter_reduce_op, (situ_tensor *[]){ x, in[1], part_of(in[2], in[1]) }, 3, &p, NULL);
  situ_tensor *line[3] = { situ_reshape(x, SITU_SHAPE(1)), situ_reshape(in[1], SITU_SHAPE(-1)),
                           situ_reshape(in[2], SITU_SHAPE(-1)) };
  return situ_reshape(situ_op_run(&scatter_reduce_op, line, 3, &p, NULL), SITU_SCALAR);
}
situ_tensor *situ_scatter_reduce(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src,
                                 situ_scatter_reduction reduce, bool include_self) {
  SITU__MADE_OF_OPS("scatter_reduce");
  const reduce_params p = { dim, reduce, include_self };
  return scatter_reduce("scatter_reduce", (situ_tensor *[]){ input, index, src }, p, false);
}
situ_tensor *situ_scatter_reduce_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src,
                                  situ_scatter_reduction reduce, bool include_self) {
  SITU__MADE_OF_OPS("scatter_reduce_");
  const reduce_params p = { dim, reduce, include_self };
  return situ__write(input, scatter_reduce("scatter_reduce_", (situ_tensor *[]){ input, index, src }, p, true));
}

/* index, of one dimension, as an index of scatter_reduce: the same for all elements of a slice. */
static situ_tensor *index_reduce(const char *op, situ_tensor *const *in, reduce_params p, bool in_place) {
  const situ_op schema = { .name = op, .operand = OPERANDS("source", NUMBERS) };
  if (!is_reduction(op, p.reduce) || !situ__together(&schema, in, 3) ||
      !situ_wrap_dim(op, p.dim, in[0]->view.ndim, &p.dim))
    return NULL;
  const situ_view_desc *index = &in[1]->view;
  situ_shape want = situ__shape(&in[0]->view), own = situ__shape(&in[2]->view), line = { .ndim = want.ndim };
  for (int d = 0; d < line.ndim; d++) line.dim[d] = 1;
  if (want.ndim) want.dim[p.dim] = line.dim[p.dim] = index->numel;
  if (index->ndim > 1 || !situ_shape_equal(&want, &own)) {
    char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, op, "index has %d dimensions, must have 1; source is %s, must be %s", index->ndim,
                      situ_shape_text(&own, a), situ_shape_text(&want, b)),
           NULL;
  }
  if (!want.ndim && index->numel != 1)
    return situ__fail(SITU_E_SHAPE, op, "index has %lld elements: input is 0-dim, which takes exactly one",
                      (long long)index->numel),
           NULL;
  situ_tensor *places = situ_expand(situ_reshape(in[1], line), want);
  return places ? scatter_reduce(op, (situ_tensor *[]){ in[0], places, in[2] }, p, in_place) : NULL;
}
situ_tensor *situ_index_reduce(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *source,
                               situ_scatter_reduction reduce, bool include_self) {
  SITU__MADE_OF_OPS("index_reduce");
  const reduce_params p = { dim, reduce, include_self };
  return index_reduce("index_reduce", (situ_tensor *[]){ input, index, source }, p, false);
}
situ_tensor *situ_index_reduce_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *source,
                                situ_scatter_reduction reduce, bool include_self) {
  SITU__MADE_OF_OPS("index_reduce_");
  const reduce_params p = { dim, reduce, include_self };
  return situ__write(input, index_reduce("index_reduce_", (situ_tensor *[]){ input, index, source }, p, true));
}
