/* Diagonals: as a view, as a new matrix, and functions made of the two.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

typedef struct diagonal_params {
  int64_t offset;
  int dim1, dim2;
} diagonal_params;

static bool wrap_dims(const char *op, int ndim, diagonal_params *p) {
  int a, b;
  if (!situ_wrap_dim(op, p->dim1, ndim, &a) || !situ_wrap_dim(op, p->dim2, ndim, &b)) return false;
  if (a == b || ndim < 2)
    return situ__fail(SITU_E_ARG, op, "a diagonal needs two different dimensions, got %d and %d", p->dim1, p->dim2),
           false;
  p->dim1 = a;
  p->dim2 = b;
  return true;
}

/* Turns v into the view of its diagonal: both dimensions are dropped, the diagonal is the last one. */
static void to_diagonal(situ_view_desc *v, const diagonal_params *p) {
  const int64_t offset = p->offset, n = v->size[p->dim1], m = v->size[p->dim2];
  const int64_t length = situ__max_i64(offset < 0 ? situ__min_i64(n + offset, m) : situ__min_i64(n, m - offset), 0);
  const int64_t down = v->stride[p->dim1], right = v->stride[p->dim2];
  int ndim = 0;
  for (int d = 0; d < v->ndim; d++) {
    if (d == p->dim1 || d == p->dim2) continue;
    v->size[ndim] = v->size[d];
    v->stride[ndim++] = v->stride[d];
  }
  if (length) v->offset += offset < 0 ? -offset * down : offset * right;
  v->size[ndim] = length;
  v->stride[ndim++] = length > 1 ? down + right : 1;
  v->ndim = (uint8_t)ndim;
  situ_desc_refresh(v);
}

/* ---- diagonal: a view ---- */

static bool diagonal_infer(situ_call *c) {
  c->view = *situ__desc(c->in[0]);
  to_diagonal(&c->view, c->params);
  return true;
}

/* The gradient outside the diagonal is 0: accumulates into the gradient so far, or into zeros. */
static bool diagonal_backward(situ_grad_call *g) {
  const diagonal_params *p = g->params;
  situ_tensor *sum = situ_grad_collected(g, 0);
  if (sum) return situ_add_(situ_diagonal(sum, p->offset, p->dim1, p->dim2), g->grad[0]) != NULL;
  situ_tensor *zero =
      situ_zeros(g->shape[0], &(situ_options){ .dtype = situ_dtype_of(g->grad[0]), .device = g->device });
  return situ_copy_(situ_diagonal(zero, p->offset, p->dim1, p->dim2), g->grad[0]) && (g->dx[0] = zero);
}

static bool diagonal_traced(const situ_call *c, situ_export_trace *t) {
  const diagonal_params *p = c->params;
  return situ_export_call(t, "diagonal.default", "tiii", c->in[0], p->offset, (int64_t)p->dim1, (int64_t)p->dim2);
}

SITU_OP(diagonal_op) = { .name = "diagonal",
                         .traced = diagonal_traced,
                         .operand = { { "input", 0 } },
                         .flags = SITU_OP_VIEW,
                         .params_size = sizeof(diagonal_params),
                         .infer = diagonal_infer,
                         .backward = diagonal_backward,
                         .backward_recorded = diagonal_backward };

situ_tensor *situ_diagonal(situ_tensor *input, int64_t offset, int dim1, int dim2) {
  diagonal_params p = { offset, dim1, dim2 };
  if (!situ__need("diagonal", "input", input) || !wrap_dims("diagonal", input->view.ndim, &p)) return NULL;
  return situ_op_run1(&diagonal_op, input, &p);
}

/* ---- diag_embed: the last dimension becomes the diagonal of a matrix of zeros ---- */

static bool embed_infer(situ_call *c) {
  const diagonal_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]);
  situ_shape *shape = &c->shape[0];
  int64_t size, length = x->size[x->ndim - 1];
  if (p->offset == INT64_MIN || !situ__add_i64(length, p->offset < 0 ? -p->offset : p->offset, &size))
    return situ_refuse(c, SITU_E_OVERFLOW, "offset %lld gives more than 2^63 rows", (long long)p->offset);
  shape->ndim = x->ndim + 1;
  for (int d = 0, from = 0; d < shape->ndim; d++) shape->dim[d] = d == p->dim1 || d == p->dim2 ? size : x->size[from++];
  c->dtype[0] = (situ_dtype)x->dtype;
  return true;
}

static bool embed_forward(situ_call *c) {
  situ_view_desc diagonal = *situ__desc(c->out[0]);
  to_diagonal(&diagonal, c->params);
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_FILL, .outs = 1, .out = { situ__desc(c->out[0]) } }) &&
         (!diagonal.numel || situ_launch(c->op->name, c->device,
                                         &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1,
                                                       .in = { situ__desc(c->in[0]) }, .out = { &diagonal } }));
}

static bool embed_backward(situ_grad_call *g) {
  const diagonal_params *p = g->params;
  return (g->dx[0] = situ_diagonal(g->grad[0], p->offset, p->dim1, p->dim2)) != NULL;
}

SITU_OP(diag_embed_op) = { .name = "diag_embed",
                           .operand = { { "input", 0 } },
                           .params_size = sizeof(diagonal_params),
                           .flags = SITU_OP_LINEAR,
                           .infer = embed_infer,
                           .forward = embed_forward,
                           .backward = embed_backward,
                           .backward_recorded = embed_backward };

situ_tensor *situ_diag_embed(situ_tensor *input, int64_t offset, int dim1, int dim2) {
  diagonal_params p = { offset, dim1, dim2 };
  if (!situ__need("diag_embed", "input", input)) return NULL;
  if (input->view.ndim == SITU_MAX_DIMS)
    return situ__fail(SITU_E_ARG, "diag_embed", "the tensor has %d dimensions already", SITU_MAX_DIMS), NULL;
  return wrap_dims("diag_embed", input->view.ndim + 1, &p) ? situ_op_run1(&diag_embed_op, input, &p) : NULL;
}

/* ---- made of these ---- */

situ_tensor *situ_diag(situ_tensor *input, int64_t diagonal) {
  SITU__MADE_OF_OPS("diag");
  if (!situ__need("diag", "input", input)) return NULL;
  if (input->view.ndim == 1) return situ_diag_embed(input, diagonal, 0, 1);
  if (input->view.ndim == 2) return situ_clone(situ_diagonal(input, diagonal, 0, 1));
  return situ__fail(SITU_E_SHAPE, "diag", "needs 1 or 2 dimensions, got %d; use situ_diagonal or situ_diag_embed",
                    input->view.ndim),
         NULL;
}

/* Row i of blocks: tensor i as a matrix, with zeros on both sides up to `columns`. *at is its first column. */
static situ_tensor *block_row(situ_tensor *x, int64_t columns, int64_t *at) {
  situ_tensor *block = x->view.ndim == 2 ? x : situ_reshape(x, SITU_SHAPE(1, x->view.numel));
  if (!block) return NULL;
  const int64_t before = *at;
  *at += block->view.size[1];
  return situ_pad(block, SITU_SHAPE(before, columns - *at), SITU_PAD_CONSTANT, 0);
}

static bool count_columns(situ_tensor *const *tensors, int count, int64_t *columns) {
  *columns = 0;
  for (int i = 0; i < count; i++) {
    const situ_view_desc *v = &tensors[i]->view;
    if (v->ndim > 2)
      return situ__fail(SITU_E_SHAPE, "block_diag", "tensor %d has %d dimensions: at most 2", i, v->ndim), false;
    if (!situ__add_i64(*columns, v->ndim == 2 ? v->size[1] : v->numel, columns))
      return situ__fail(SITU_E_OVERFLOW, "block_diag", "more than 2^63 columns"), false;
  }
  return true;
}

situ_tensor *situ_block_diag(situ_tensor *const *tensors, int count) {
  SITU__MADE_OF_OPS("block_diag");
  static const situ_op schema = { .name = "block_diag", .operand = { { "tensors", 0 } }, .flags = SITU_OP_VARIADIC };
  int64_t columns, at = 0;
  if (!situ__some("block_diag", tensors, count) || !situ__together(&schema, tensors, count) ||
      !count_columns(tensors, count, &columns))
    return NULL;
  situ_tensor **row = situ__alloc((size_t)count * sizeof *row), *out = NULL;
  if (!row) return situ__no_memory("block_diag", (size_t)count * sizeof *row), NULL;
  bool good = true;
  for (int i = 0; good && i < count; i++) good = (row[i] = block_row(tensors[i], columns, &at)) != NULL;
  if (good) out = situ_cat(row, count, 0);
  situ__free(row);
  return out;
}
