/* ATen's indexing, and the grouped product of mixtures of experts.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "program/graph/program.h"

static situ_tensor *run_index(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 1, &count);
  return situ_index(situ__arg_tensor(c, 0), list, count);
}
static situ_tensor *run_index_put(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 1, &count);
  return situ_index_put(situ__arg_tensor(c, 0), list, count, situ__arg_tensor(c, 2), situ__arg_flag(c, 3));
}
static situ_tensor *run_index_put_(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 1, &count);
  return situ_index_put_(situ__arg_tensor(c, 0), list, count, situ__arg_tensor(c, 2), situ__arg_flag(c, 3));
}
static situ_tensor *run_index_select(situ__op_call *c) {
  return situ_index_select(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_tensor(c, 2));
}
static situ_tensor *run_gather(situ__op_call *c) {
  return situ_gather(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_tensor(c, 2));
}
static situ_tensor *run_scatter(situ__op_call *c) {
  return situ_scatter(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_tensor(c, 2), situ__arg_tensor(c, 3));
}
static situ_tensor *run_scatter_value(situ__op_call *c) {
  return situ_scatter_value(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_tensor(c, 2),
                            situ__arg_number(c, 3));
}
static situ_tensor *run_scatter_add(situ__op_call *c) {
  return situ_scatter_add(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_tensor(c, 2), situ__arg_tensor(c, 3));
}
static situ_tensor *run_index_add(situ__op_call *c) {
  return situ_index_add(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_tensor(c, 2), situ__arg_tensor(c, 3),
                        situ__arg_number(c, 4));
}
static situ_tensor *run_index_copy(situ__op_call *c) {
  return situ_index_copy(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_tensor(c, 2), situ__arg_tensor(c, 3));
}
/* Indices below 0 count from the end. */
static situ_tensor *run_index_fill(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *index = situ__arg_tensor(c, 2);
  const int dim = situ__arg_dim(c, 1);
  const int64_t size = situ_dim(x) ? situ_size(x, dim) : 1;
  if (size < 0) return NULL;
  index = situ_where(situ_lt_scalar(index, 0), situ_add_scalar(index, (double)size), index);
  if (!situ__arg_is_tensor(c, 3)) return situ_index_fill(x, dim, index, situ__arg_element(c, 3, situ_dtype_of(x)));
  situ_shape shape = situ_shape_of(x);
  if (shape.ndim) shape.dim[situ__dim_of(dim, shape.ndim)] = situ_numel(index);
  return situ_index_copy(x, dim, index, situ_expand(situ_to_dtype(situ__arg_tensor(c, 3), situ_dtype_of(x)), shape));
}
static situ_tensor *run_take(situ__op_call *c) { return situ_take(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1)); }
static situ_tensor *run_take_along_dim(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *index = situ__arg_tensor(c, 1);
  if (situ__arg_given(c, 2)) return situ_take_along_dim(x, index, situ__arg_dim(c, 2));
  return situ_gather(situ_reshape(x, SITU_SHAPE(-1)), 0, situ_reshape(index, SITU_SHAPE(-1)));
}
static situ_tensor *run_put(situ__op_call *c) {
  return situ_put(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), situ__arg_flag(c, 3));
}
static situ_tensor *run_masked_scatter(situ__op_call *c) {
  return situ_masked_scatter(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2));
}

/* Arguments: self, dim, index, src, reduce, include_self. */
typedef situ_tensor *scattering(situ_tensor *, int, situ_tensor *, situ_tensor *, situ_scatter_reduction, bool);
static situ_tensor *scatter_by(situ__op_call *c, scattering *fn) {
  static const char *const names[] = { "sum", "prod", "mean", "amax", "amin", "add", "multiply" };
  static const situ_scatter_reduction means[] = { SITU_SCATTER_SUM,  SITU_SCATTER_PROD, SITU_SCATTER_MEAN,
                                                  SITU_SCATTER_AMAX, SITU_SCATTER_AMIN, SITU_SCATTER_SUM,
                                                  SITU_SCATTER_PROD };
  situ_tensor *x = situ__arg_tensor(c, 0), *index = situ__arg_tensor(c, 2);
  situ_tensor *src = situ__arg_is_tensor(c, 3) ? situ__arg_tensor(c, 3)
                                               : situ_new_full(x, situ_shape_of(index), situ__arg_number(c, 3), NULL);
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (strcmp(names[k], situ__arg_text(c, 4)) == 0)
      return fn(x, situ__arg_dim(c, 1), index, src, means[k], situ__arg_flag(c, 5));
  return situ__call_refuse(c, "has a reduction that situ does not know");
}
static situ_tensor *run_scatter_reduce(situ__op_call *c) { return scatter_by(c, situ_scatter_reduce); }
static situ_tensor *run_index_reduce(situ__op_call *c) { return scatter_by(c, situ_index_reduce); }
static situ_tensor *run_one_hot(situ__op_call *c) { return situ_one_hot(situ__arg_tensor(c, 0), situ__arg_int(c, 1)); }

/* Rows up to end[e] of input [n, k] by weight[e] of [experts, k, m]. Waits for the device. */
static situ_tensor *run_grouped_mm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1);
  int experts;
  const int64_t *end = situ__arg_host_list(c, 2, &experts), rows_of_x = situ_size(x, 0);
  situ_tensor **piece = situ__call_take(c, experts, sizeof *piece);
  if (!end || !piece) return NULL;
  if (experts < 1 || situ_size(weight, 0) != experts)
    return situ__call_refuse(c, "has another number of offsets than of experts");
  int64_t at = 0;
  for (int e = 0; e < experts; e++) {
    if (end[e] < at || end[e] > rows_of_x) return situ__call_refuse(c, "has offsets that are not ascending rows");
    piece[e] = situ_matmul(situ_narrow(x, 0, at, end[e] - at), situ_select(weight, 0, e));
    at = end[e];
  }
  if (at != rows_of_x) return situ__call_refuse(c, "has rows that belong to no expert");
  return situ_cat(piece, experts, 0);
}

static const situ__op_row rows[] = {
  { "index.Tensor", "t self, T indices", .run = run_index },
  { "index_put.default", "t self, T indices, t values, b accumulate=0", .run = run_index_put },
  { "index_put_.default", "t self, T indices, t values, b accumulate=0", .run = run_index_put_ },
  { "index_select.default", "t self, i dim, t index", .run = run_index_select },
  { "gather.default", "t self, i dim, t index, _ sparse_grad", .run = run_gather },
  { "scatter.src", "t self, i dim, t index, t src", .run = run_scatter },
  { "scatter.value", "t self, i dim, t index, n value", .run = run_scatter_value },
  { "scatter_.value", "t self, i dim, t index, n value", .run = run_scatter_value, .in_place = true },
  { "scatter_add.default", "t self, i dim, t index, t src", .run = run_scatter_add },
  { "index_add.default", "t self, i dim, t index, t source, *n alpha=1", .run = run_index_add },
  { "index_add_.default", "t self, i dim, t index, t source, *n alpha=1", .run = run_index_add, .in_place = true },
  { "scatter.reduce", "t self, i dim, t index, t src, *s reduce, b whole=1", .run = run_scatter_reduce },
  { "scatter.value_reduce", "t self, i dim, t index, n value, *s reduce, b whole=1", .run = run_scatter_reduce },
  { "scatter_reduce.two", "t self, i dim, t index, t src, s reduce, *b include_self=1", .run = run_scatter_reduce },
  { "index_reduce.default", "t self, i dim, t index, t source, s reduce, *b include_self=1", .run = run_index_reduce },
  { "index_copy.default", "t self, i dim, t index, t source", .run = run_index_copy },
  { "index_fill.int_Scalar", "t self, i dim, t index, n value", .run = run_index_fill },
  { "index_fill.int_Tensor", "t self, i dim, t index, t value", .run = run_index_fill },
  { "take.default", "t self, t index", .run = run_take },
  { "take_along_dim.default", "t self, t indices, i? dim", .run = run_take_along_dim },
  { "put.default", "t self, t index, t source, b accumulate=0", .run = run_put },
  { "masked_scatter.default", "t self, t mask, t source", .run = run_masked_scatter },
  { "one_hot.default", "t self, i num_classes=-1", .run = run_one_hot },
  { "torch.ops.transformers.grouped_mm_fallback.default", "t input, t weight, t offs", .run = run_grouped_mm },
};
const situ__op_family situ__index_family = { rows, sizeof rows / sizeof *rows };
