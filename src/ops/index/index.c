/* Reading and writing elements and rows by index: the gather and scatter families, one_hot. Kernels check
   every index before they access memory.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

typedef struct index_params {
  int dim;
  double alpha;
} index_params;

static situ_tensor *zeros(const situ_grad_call *g, int operand) {
  return situ_zeros(g->shape[operand], &(situ_options){ .dtype = situ_dtype_of(g->grad[0]), .device = g->device });
}

/* The tensor in which operand's gradient is accumulated: its gradient so far, or zeros. */
static situ_tensor *sum_of(situ_grad_call *g, int operand) {
  situ_tensor *sum = situ_grad_collected(g, operand);
  return sum ? sum : (g->dx[operand] = zeros(g, operand));
}

/* ---- index_select: rows along a dimension ---- */

/* An index of one dimension; of a 0-dim input one element. */
static bool check_index(const situ_call *c) {
  const situ_view_desc *x = situ__desc(c->in[0]), *index = situ__desc(c->in[1]);
  if (index->ndim > 1) return situ_refuse(c, SITU_E_SHAPE, "index has %d dimensions, must have 1", index->ndim);
  return x->ndim || index->numel == 1 ||
         situ_refuse(c, SITU_E_SHAPE, "index has %lld elements: input is 0-dim, which takes exactly one",
                     (long long)index->numel);
}

static bool rows_infer(situ_call *c) {
  if (situ__blocks_of(situ__desc(c->in[0])) && ((const index_params *)c->params)->dim == situ__desc(c->in[0])->ndim - 1)
    return situ_refuse(c, SITU_E_DTYPE, "input holds blocks along its last dimension: whole rows can be selected");
  const index_params *p = c->params;
  if (!check_index(c)) return false;
  situ_infer_like(c);
  if (c->shape[0].ndim) c->shape[0].dim[p->dim] = situ__desc(c->in[1])->numel;
  return true;
}

static bool gather_verb(situ_call *c, situ_index_mode mode) {
  const index_params *p = c->params;
  situ_view_desc x, index, y;
  return situ_launch(
      c->op->name, c->device,
      &(situ_work){ SITU_VERB_GATHER, .op = (int)mode, .ins = 2, .outs = 1,
                    .in = { situ__ranked(situ__desc(c->in[0]), &x), situ__ranked(situ__desc(c->in[1]), &index) },
                    .out = { situ__ranked(situ__desc(c->out[0]), &y) }, .integer = { p->dim } });
}
static bool rows_forward(situ_call *c) { return gather_verb(c, SITU_INDEX_ROWS); }

static bool rows_backward(situ_grad_call *g) {
  const index_params *p = g->params;
  return situ_index_add_(sum_of(g, 0), p->dim, g->in[1], g->grad[0], 1) != NULL;
}

static bool select_batched(situ_batch_call *c) {
  return c->batched[1] ? situ_batch_each(c) : situ__batch_dim(c, offsetof(index_params, dim));
}
static bool select_traced(const situ_call *c, situ_export_trace *t) {
  const index_params *p = c->params;
  return situ_export_call(t, "index_select.default", "tit", c->in[0], (int64_t)p->dim, c->in[1]);
}

SITU_OP(index_select_op) = { .name = "index_select",
                             .traced = select_traced,
                             .operand = { { "input", SITU_BLOCKS }, { "index", SITU_INDEX } },
                             .save = SITU_SAVE(1),
                             .params_size = sizeof(index_params),
                             .infer = rows_infer,
                             .forward = rows_forward,
                             .batched = select_batched,
                             .backward = rows_backward,
                             .backward_recorded = rows_backward };

/* Wraps a negative dim. */
static bool params_for(const char *op, const situ_tensor *x, int dim, index_params *p) {
  return situ__need(op, "input", x) && situ_wrap_dim(op, dim, x->view.ndim, &p->dim);
}

situ_tensor *situ_index_select(situ_tensor *input, int dim, situ_tensor *index) {
  index_params p = { 0 };
  return params_for("index_select", input, dim, &p) ? situ_op_run2(&index_select_op, input, index, &p) : NULL;
}

/* ---- gather: single elements ---- */

/* The index may be smaller than x except along dim; for scatter src must be at least as large as the index. */
static bool fits(const situ_call *c, const situ_view_desc *index, const situ_view_desc *other, const char *name,
                 int except) {
  situ_view_desc desc[2];
  index = situ__ranked(index, &desc[0]);
  other = situ__ranked(other, &desc[1]);
  bool good = index->ndim == other->ndim;
  for (int d = 0; good && d < index->ndim; d++) good = d == except || index->size[d] <= other->size[d];
  if (good || index->numel == 0) return true;
  situ_shape a = situ__shape(index), b = situ__shape(other);
  char x[SITU_SHAPE_TEXT], y[SITU_SHAPE_TEXT];
  return situ_refuse(c, SITU_E_SHAPE, "index %s does not fit %s %s: same rank, and no larger outside dimension %d",
                     situ_shape_text(&a, x), name, situ_shape_text(&b, y), except);
}

static bool gather_infer(situ_call *c) {
  const index_params *p = c->params;
  if (!fits(c, situ__desc(c->in[1]), situ__desc(c->in[0]), "input", p->dim)) return false;
  situ_infer_like(c);
  c->shape[0] = situ__shape(situ__desc(c->in[1]));
  return true;
}
static bool gather_forward(situ_call *c) { return gather_verb(c, SITU_INDEX_ELEMENTS); }
static bool gather_backward(situ_grad_call *g) {
  const index_params *p = g->params;
  return situ_scatter_add_(sum_of(g, 0), p->dim, g->in[1], g->grad[0]) != NULL;
}
static bool gather_batched(situ_batch_call *c) {
  return situ__batch_repeat(c) && situ__batch_dim(c, offsetof(index_params, dim));
}
static bool gather_traced(const situ_call *c, situ_export_trace *t) {
  const index_params *p = c->params;
  return situ_export_call(t, "gather.default", "tit", c->in[0], (int64_t)p->dim, c->in[1]);
}

SITU_OP(gather_op) = { .name = "gather",
                       .traced = gather_traced,
                       .operand = { { "input", 0 }, { "index", SITU_INDEX } },
                       .save = SITU_SAVE(1),
                       .params_size = sizeof(index_params),
                       .infer = gather_infer,
                       .forward = gather_forward,
                       .batched = gather_batched,
                       .backward = gather_backward,
                       .backward_recorded = gather_backward };

situ_tensor *situ_gather(situ_tensor *input, int dim, situ_tensor *index) {
  index_params p = { 0 };
  return params_for("gather", input, dim, &p) ? situ_op_run2(&gather_op, input, index, &p) : NULL;
}

/* numpy's rule: both are broadcast to each other except along dim. */
situ_tensor *situ_take_along_dim(situ_tensor *input, situ_tensor *index, int dim) {
  SITU__MADE_OF_OPS("take_along_dim");
  index_params p = { 0 };
  static const situ_op schema = { .name = "take_along_dim", .operand = { { "input", 0 }, { "index", SITU_INDEX } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, index }, 2) || !params_for("take_along_dim", input, dim, &p))
    return NULL;
  situ_shape own = situ__shape(&input->view), place = situ__shape(&index->view), both = own;
  if (own.ndim != place.ndim)
    return situ__fail(SITU_E_SHAPE, "take_along_dim", "input has %d dimensions, index %d: they must agree", own.ndim,
                      place.ndim),
           NULL;
  int64_t here = own.ndim ? own.dim[p.dim] : 1, there = own.ndim ? place.dim[p.dim] : 1;
  if (own.ndim) both.dim[p.dim] = place.dim[p.dim] = 1;
  if (!situ_shape_broadcast("take_along_dim", &both, &place)) return NULL;
  own = place = both;
  if (own.ndim) {
    own.dim[p.dim] = here;
    place.dim[p.dim] = there;
  }
  return situ_gather(situ_expand(input, own), p.dim, situ_expand(index, place));
}

/* ---- scatter, scatter_add, index_add: into a copy of x, or into x ---- */

/* The result starts as a copy of x, unless it is x. */
static bool start_from_input(situ_call *c) {
  if (c->in_place) return true;
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { situ__desc(c->in[0]) },
                                   .out = { situ__desc(c->out[0]) } });
}

static bool scatter_verb(situ_call *c, int mode) {
  const index_params *p = c->params;
  if (!situ__desc(c->in[1])->numel) return start_from_input(c);
  situ_view_desc index, src, y;
  return start_from_input(c) &&
         situ_launch(c->op->name, c->device,
                     &(situ_work){
                         SITU_VERB_SCATTER, .op = mode, .compute = (situ_dtype)situ__desc(c->out[0])->dtype, .ins = 2,
                         .outs = 1,
                         .in = { situ__ranked(situ__desc(c->in[1]), &index), situ__ranked(situ__desc(c->in[2]), &src) },
                         .out = { situ__ranked(situ__desc(c->out[0]), &y) }, .scalar = { p->alpha },
                         .integer = { p->dim, !c->in_place } });
}

/* A dimension of size 0 has no valid index. Checked here, as the kernel, which checks the values, is not run for an
   empty result. */
static bool check_dim_size(const situ_call *c, int dim) {
  const situ_view_desc *x = situ__desc(c->in[0]), *index = situ__desc(c->in[1]);
  return !index->numel || !x->ndim || x->size[dim] ||
         situ_refuse(c, SITU_E_INDEX, "index has %lld elements, but dimension %d of input has size 0",
                     (long long)index->numel, dim);
}

bool situ__fits_scatter(const situ_call *c, int dim) {
  const situ_view_desc *index = situ__desc(c->in[1]);
  return check_dim_size(c, dim) && fits(c, index, situ__desc(c->in[0]), "input", dim) &&
         fits(c, index, situ__desc(c->in[2]), "src", -1);
}
static bool scatter_infer(situ_call *c) {
  const index_params *p = c->params;
  return situ__fits_scatter(c, p->dim) && situ_infer_like(c);
}
static bool scatter_forward(situ_call *c) { return scatter_verb(c, SITU_INDEX_ELEMENTS); }
static bool scatter_add_forward(situ_call *c) { return scatter_verb(c, SITU_INDEX_ELEMENTS | SITU_INDEX_ADD); }

/* src's gradient outside the index is 0. */
static situ_tensor *picked(const situ_grad_call *g) {
  const index_params *p = g->params;
  situ_tensor *whole = zeros(g, 2), *place = whole;
  if (!whole || !situ_numel(g->in[1])) return whole;
  if (!situ_dim(whole)) place = situ_reshape(whole, SITU_SHAPE(1));
  situ_tensor *part =
      situ_gather(g->grad[0], p->dim, situ_dim(g->in[1]) ? g->in[1] : situ_reshape(g->in[1], SITU_SHAPE(1)));
  for (int d = 0; part && d < situ_dim(part); d++) place = situ_narrow(place, d, 0, situ_size(part, d));
  return situ_copy_(place, part) ? whole : NULL;
}
static bool scatter_backward(situ_grad_call *g) {
  const index_params *p = g->params;
  return GRAD(g, 0, situ_scatter_value(g->grad[0], p->dim, g->in[1], 0)) && GRAD(g, 2, picked(g));
}
static bool scatter_add_backward(situ_grad_call *g) { return GRAD(g, 0, g->grad[0]) && GRAD(g, 2, picked(g)); }

static bool index_add_infer(situ_call *c) {
  const index_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]), *index = situ__desc(c->in[1]), *src = situ__desc(c->in[2]);
  if (!check_index(c)) return false;
  bool good = x->ndim == src->ndim;
  for (int d = 0; good && d < x->ndim; d++) good = src->size[d] == (d == p->dim ? index->numel : x->size[d]);
  if (!good) {
    situ_shape a = situ__shape(x), b = situ__shape(src);
    char s[SITU_SHAPE_TEXT], t[SITU_SHAPE_TEXT];
    return situ_refuse(c, SITU_E_SHAPE, "source %s does not fit input %s with %lld indices along dimension %d",
                       situ_shape_text(&b, t), situ_shape_text(&a, s), (long long)index->numel, p->dim);
  }
  return check_dim_size(c, p->dim) && situ_infer_like(c) && situ__check_factor(c, "alpha", p->alpha);
}
static bool index_add_forward(situ_call *c) { return scatter_verb(c, SITU_INDEX_ROWS | SITU_INDEX_ADD); }
static bool index_add_backward(situ_grad_call *g) {
  const index_params *p = g->params;
  return GRAD(g, 0, g->grad[0]) &&
         GRAD(g, 2, situ_mul_scalar(situ_index_select(g->grad[0], p->dim, g->in[1]), p->alpha));
}

/* ---- index_copy: of several writes to one place the last counts ---- */

static bool index_copy_forward(situ_call *c) { return scatter_verb(c, SITU_INDEX_ROWS); }
static bool index_copy_backward(situ_grad_call *g) {
  const index_params *p = g->params;
  return GRAD(g, 0, situ_index_fill(g->grad[0], p->dim, g->in[1], 0)) &&
         GRAD(g, 2, situ_index_select(g->grad[0], p->dim, g->in[1]));
}

static bool place_traced(const situ_call *c, situ_export_trace *t) {
  const index_params *p = c->params;
  const bool adds = c->op->forward == index_add_forward;
  const char *target = c->op->forward == scatter_forward       ? "scatter.src"
                       : c->op->forward == scatter_add_forward ? "scatter_add.default"
                       : adds                                  ? "index_add.default"
                                                               : "index_copy.default";
  return situ_export_call(t, target, adds ? "tittn" : "titt", c->in[0], (int64_t)p->dim, c->in[1], c->in[2], p->alpha);
}

/* An index of one dimension is the same for all samples, or each has a call of its own. */
static bool place_batched(situ_batch_call *c) {
  const bool vector = c->op->infer == index_add_infer;
  if (vector && c->batched[1]) return situ_batch_each(c);
  situ_tensor *index = c->in[1];
  if (!situ__batch_repeat(c)) return false;
  if (vector) c->in[1] = index, c->batched[1] = false;
  return situ__batch_dim(c, offsetof(index_params, dim));
}

#define PLACE(id, rule, cast)                                                                              \
  SITU_OP(id##_op) = { .name = #id,                                                                        \
                       .operand = { { "input", SITU_SAME | SITU_FLOATING | SITU_INTEGRAL | SITU_BOOLEAN }, \
                                    { "index", SITU_INDEX },                                               \
                                    { "src", SITU_SAME | SITU_FLOATING | SITU_INTEGRAL | SITU_BOOLEAN } }, \
                       .save = SITU_SAVE(1),                                                               \
                       .flags = SITU_OP_SCATTERS,                                                          \
                       .autocast = { cast, cast },                                                         \
                       .params_size = sizeof(index_params),                                                \
                       .infer = rule,                                                                      \
                       .forward = id##_forward,                                                            \
                       .batched = place_batched,                                                           \
                       .traced = place_traced,                                                             \
                       .backward = id##_backward,                                                          \
                       .backward_recorded = id##_backward };
PLACE(scatter, scatter_infer, SITU_CAST_NOT)
PLACE(scatter_add, scatter_infer, SITU_CAST_WIDEST)
PLACE(index_add, index_add_infer, SITU_CAST_NOT)
PLACE(index_copy, index_add_infer, SITU_CAST_WIDEST)

static situ_tensor *place(const situ_op *op, situ_tensor *x, int dim, situ_tensor *index, situ_tensor *src,
                          double alpha, bool in_place) {
  index_params p = { .alpha = alpha };
  situ_tensor *in[3] = { x, index, src };
  if (!params_for(op->name, x, dim, &p)) return NULL;
  return in_place ? situ_op_run_(op, in, 3, &p) : situ_op_run(op, in, 3, &p, NULL);
}
situ_tensor *situ_scatter(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src) {
  return place(&scatter_op, input, dim, index, src, 1, false);
}
situ_tensor *situ_scatter_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src) {
  return place(&scatter_op, input, dim, index, src, 1, true);
}
situ_tensor *situ_scatter_add(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src) {
  return place(&scatter_add_op, input, dim, index, src, 1, false);
}
situ_tensor *situ_scatter_add_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src) {
  return place(&scatter_add_op, input, dim, index, src, 1, true);
}
situ_tensor *situ_index_add(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src, double alpha) {
  return place(&index_add_op, input, dim, index, src, alpha, false);
}
situ_tensor *situ_index_add_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src, double alpha) {
  return place(&index_add_op, input, dim, index, src, alpha, true);
}

situ_tensor *situ_index_copy(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src) {
  return place(&index_copy_op, input, dim, index, src, 1, false);
}
situ_tensor *situ_index_copy_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src) {
  return place(&index_copy_op, input, dim, index, src, 1, true);
}

static situ_tensor *index_fill(const char *op, situ_tensor *x, int dim, situ_tensor *index, double value,
                               bool in_place) {
  index_params p = { 0 };
  if (!params_for(op, x, dim, &p) || !situ__need(op, "index", index)) return NULL;
  if (!x->view.ndim) { /* as of one element, which any number of indices may name */
    situ_tensor *line = index_fill(op, situ_reshape(x, SITU_SHAPE(1)), 0, index, value, in_place);
    return !line ? NULL : in_place ? x : situ_reshape(line, SITU_SCALAR);
  }
  situ_options like = { .dtype = (situ_dtype)x->view.dtype, .device = x->view.storage->device };
  situ_shape shape = situ__shape(&x->view);
  shape.dim[p.dim] = index->view.numel;
  situ_tensor *src = situ_expand(situ_full(SITU_SCALAR, value, &like), shape);
  return src ? place(&index_copy_op, x, dim, index, src, 1, in_place) : NULL;
}
situ_tensor *situ_index_fill(situ_tensor *input, int dim, situ_tensor *index, double value) {
  SITU__MADE_OF_OPS("index_fill");
  return index_fill("index_fill", input, dim, index, value, false);
}
situ_tensor *situ_index_fill_(situ_tensor *input, int dim, situ_tensor *index, double value) {
  SITU__MADE_OF_OPS("index_fill_");
  return index_fill("index_fill_", input, dim, index, value, true);
}

/* One value everywhere: src is an expanded scalar, so nothing is filled. */
situ_tensor *situ_scatter_value(situ_tensor *input, int dim, situ_tensor *index, double value) {
  SITU__MADE_OF_OPS("scatter_value");
  if (!situ__need("scatter_value", "input", input) || !situ__need("scatter_value", "index", index)) return NULL;
  situ_options like = { .dtype = (situ_dtype)input->view.dtype, .device = index->view.storage->device };
  return situ_scatter(input, dim, index, situ_expand(situ_full(SITU_SCALAR, value, &like), situ__shape(&index->view)));
}

/* ---- one_hot ---- */

situ_tensor *situ_one_hot(situ_tensor *input, int64_t num_classes) {
  SITU__MADE_OF_OPS("one_hot");
  const char *op = "one_hot";
  if (!situ__need(op, "input", input)) return NULL;
  situ_dtype dtype = (situ_dtype)input->view.dtype;
  if (dtype != SITU_I64 && dtype != SITU_I32)
    return situ__fail(SITU_E_DTYPE, op, "input is %s, must be i64 or i32", situ_dtype_name(dtype)), NULL;
  if (num_classes < -1)
    return situ__fail(SITU_E_ARG, op,
                      "num_classes is %lld, must be at least 0, or -1 for one more than the largest index",
                      (long long)num_classes),
           NULL;
  if (num_classes < 0) {
    if (!input->view.numel) return situ__fail(SITU_E_ARG, op, "no classes given, and no index to tell them from"), NULL;
    if (situ_item_i64(situ_amax(input, NULL), &num_classes) != SITU_OK) return NULL;
    if (num_classes++ < 0) return situ__fail(SITU_E_INDEX, op, "every index is negative"), NULL;
  }
  situ_shape shape = situ__shape(&input->view);
  if (shape.ndim == SITU_MAX_DIMS)
    return situ__fail(SITU_E_ARG, op, "input has %d dimensions: the result would have one more than the limit",
                      SITU_MAX_DIMS),
           NULL;
  shape.dim[shape.ndim++] = num_classes;
  situ_tensor *zero = situ_zeros(shape, &(situ_options){ .dtype = SITU_I64, .device = input->view.storage->device });
  return zero ? situ_scatter_value(zero, -1, situ_unsqueeze(input, -1), 1) : NULL;
}
