/* Joins of tensors that are first brought to a rank: hstack, vstack, dstack, column_stack, meshgrid;
   tensors that are expanded to each other; combinations of their elements.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "ops/ops.h"

situ_tensor *situ_atleast_1d(situ_tensor *input) {
  SITU__MADE_OF_OPS("atleast_1d");
  if (!situ__need("atleast_1d", "input", input)) return NULL;
  return input->view.ndim ? input : situ_reshape(input, SITU_SHAPE(1));
}

situ_tensor *situ_atleast_2d(situ_tensor *input) {
  SITU__MADE_OF_OPS("atleast_2d");
  if (!situ__need("atleast_2d", "input", input)) return NULL;
  return input->view.ndim >= 2 ? input : situ_reshape(input, SITU_SHAPE(1, input->view.numel));
}

situ_tensor *situ_atleast_3d(situ_tensor *input) {
  SITU__MADE_OF_OPS("atleast_3d");
  if (!situ__need("atleast_3d", "input", input)) return NULL;
  if (input->view.ndim == 2) return situ_unsqueeze(input, -1);
  return input->view.ndim >= 3 ? input : situ_reshape(input, SITU_SHAPE(1, input->view.numel, 1));
}

/* Joins along dim; a tensor of lower rank along dimension 0. */
static situ_tensor *join(const char *op, situ_tensor *const *tensors, int count, int dim,
                         situ_tensor *(*raise)(situ_tensor *)) {
  const situ_op schema = { .name = op, .operand = { { "tensors", 0 } }, .flags = SITU_OP_VARIADIC };
  if (!situ__some(op, tensors, count) || !situ__together(&schema, tensors, count)) return NULL;
  situ_tensor **raised = situ__alloc((size_t)count * sizeof *raised), *out = NULL;
  if (!raised) return situ__no_memory(op, (size_t)count * sizeof *raised), NULL;
  bool good = true;
  for (int i = 0; good && i < count; i++) good = (raised[i] = raise(tensors[i])) != NULL;
  if (good) out = situ_cat(raised, count, dim < raised[0]->view.ndim ? dim : 0);
  situ__free(raised);
  return out;
}

situ_tensor *situ_hstack(situ_tensor *const *tensors, int count) {
  SITU__MADE_OF_OPS("hstack");
  return join("hstack", tensors, count, 1, situ_atleast_1d);
}
situ_tensor *situ_vstack(situ_tensor *const *tensors, int count) {
  SITU__MADE_OF_OPS("vstack");
  return join("vstack", tensors, count, 0, situ_atleast_2d);
}
situ_tensor *situ_dstack(situ_tensor *const *tensors, int count) {
  SITU__MADE_OF_OPS("dstack");
  return join("dstack", tensors, count, 2, situ_atleast_3d);
}

static situ_tensor *as_column(situ_tensor *x) {
  return x->view.ndim >= 2 ? x : situ_reshape(x, SITU_SHAPE(x->view.numel, 1));
}
situ_tensor *situ_column_stack(situ_tensor *const *tensors, int count) {
  SITU__MADE_OF_OPS("column_stack");
  return join("column_stack", tensors, count, 1, as_column);
}

/* ---- broadcast_tensors ---- */

situ_status situ_broadcast_tensors(situ_tensor *const *tensors, int count, situ_tensor **out) {
  const char *op = "broadcast_tensors";
  SITU__MADE_OF_OPS(op);
  static const situ_op schema = { .name = "broadcast_tensors",
                                  .operand = { { "tensors", 0 } },
                                  .flags = SITU_OP_VARIADIC };
  if (!situ__some(op, tensors, count) || !situ__together(&schema, tensors, count)) return situ_error();
  if (!situ__given(op, "out", out)) return situ_error();
  if (out != tensors && !situ__apart(op, "tensors and out", tensors, count, out, count)) return situ_error();
  situ_shape all = { 0 };
  for (int i = 0; i < count; i++) {
    const situ_shape own = situ__shape(&tensors[i]->view);
    if (!situ_shape_broadcast(op, &all, &own)) return situ_error();
  }
  for (int i = 0; i < count; i++)
    if (!(out[i] = situ_expand(tensors[i], all))) return situ_error();
  return SITU_OK;
}

/* ---- meshgrid ---- */

static situ_status check_axes(situ_tensor *const *tensors, int count, situ_tensor **out) {
  const char *op = "meshgrid";
  static const situ_op schema = { .name = "meshgrid",
                                  .operand = { { "tensors", SITU_SAME } },
                                  .flags = SITU_OP_VARIADIC };
  if (!situ__some(op, tensors, count) || !situ__together(&schema, tensors, count)) return situ_error();
  if (!out) return situ__fail(SITU_E_ARG, op, "out is NULL");
  if (out != tensors && !situ__apart(op, "tensors and out", tensors, count, out, count)) return situ_error();
  if (count > SITU_MAX_DIMS)
    return situ__fail(SITU_E_ARG, op, "%d tensors: a result has at most %d dimensions", count, SITU_MAX_DIMS);
  for (int i = 0; i < count; i++) {
    if (tensors[i]->view.ndim > 1)
      return situ__fail(SITU_E_SHAPE, op, "tensor %d has %d dimensions: 0 or 1", i, tensors[i]->view.ndim);
    if (tensors[i]->view.dtype != tensors[0]->view.dtype)
      return situ__fail(SITU_E_DTYPE, op, "tensor %d is %s, the first is %s: they must be equal", i,
                        situ_dtype_name((situ_dtype)tensors[i]->view.dtype),
                        situ_dtype_name((situ_dtype)tensors[0]->view.dtype));
  }
  return SITU_OK;
}

situ_status situ_meshgrid(situ_tensor *const *tensors, int count, situ_indexing indexing, situ_tensor **out) {
  SITU__MADE_OF_OPS("meshgrid");
  if (indexing != SITU_INDEXING_IJ && indexing != SITU_INDEXING_XY)
    return situ__fail(SITU_E_ARG, "meshgrid", "indexing %d is neither IJ nor XY", (int)indexing);
  if (check_axes(tensors, count, out) != SITU_OK) return situ_error();
  const bool swap = indexing == SITU_INDEXING_XY && count > 1;
  situ_shape grid = { .ndim = count };
  for (int i = 0; i < count; i++) grid.dim[swap && i < 2 ? 1 - i : i] = tensors[i]->view.numel;
  for (int i = 0; i < count; i++) {
    situ_shape along = { .ndim = count };
    for (int d = 0; d < count; d++) along.dim[d] = 1;
    along.dim[swap && i < 2 ? 1 - i : i] = tensors[i]->view.numel;
    if (!(out[i] = situ_expand(situ_reshape(tensors[i], along), grid))) return situ_error();
  }
  return SITU_OK;
}

/* ---- combinations of elements ---- */

/* True in the grid of indices where each is above (or equal to) the one before. */
static situ_tensor *ascending(situ_tensor *const *grid, int r, bool with_replacement) {
  situ_tensor *all = situ_ge_scalar(grid[0], 0);
  for (int k = 1; k < r && all; k++)
    all = situ_logical_and(all, with_replacement ? situ_ge(grid[k], grid[k - 1]) : situ_gt(grid[k], grid[k - 1]));
  return all;
}

static situ_tensor *choose(situ_tensor *input, int r, bool with_replacement) {
  const situ_options integer = { .dtype = SITU_I64, .device = situ_device_of(input) };
  situ_tensor *lines[SITU_MAX_DIMS], *grid[SITU_MAX_DIMS];
  situ_tensor *line = situ_arange(0, (double)input->view.numel, 1, &integer);
  for (int k = 0; k < r; k++) lines[k] = line;
  if (!line || situ_meshgrid(lines, r, SITU_INDEXING_IJ, grid) != SITU_OK) return NULL;
  situ_tensor *chosen = ascending(grid, r, with_replacement);
  for (int k = 0; k < r && chosen; k++)
    if (!(grid[k] = situ_index_select(input, 0, situ_masked_select(grid[k], chosen)))) return NULL;
  return chosen ? situ_stack(grid, r, 1) : NULL;
}

situ_tensor *situ_combinations(situ_tensor *input, int r, bool with_replacement) {
  const char *op = "combinations";
  SITU__MADE_OF_OPS(op);
  if (!situ__need(op, "input", input)) return NULL;
  if (input->view.ndim != 1 || r < 1 || r > SITU_MAX_DIMS)
    return situ__fail(input->view.ndim != 1 ? SITU_E_SHAPE : SITU_E_ARG, op,
                      "input has %d dimensions, r is %d: 1, and 1 to %d", input->view.ndim, r, SITU_MAX_DIMS),
           NULL;
  if (input->view.storage->device.kind == SITU_META)
    return situ__fail(SITU_E_UNSUPPORTED, op, "the size depends on values, which a meta tensor does not have"), NULL;
  situ_scope s;
  situ_scope_begin(&s);
  return situ_scope_return(&s, choose(input, r, with_replacement));
}

situ_tensor *situ_cartesian_prod(situ_tensor *const *tensors, int count) {
  SITU__MADE_OF_OPS("cartesian_prod");
  situ_tensor *grid[SITU_MAX_DIMS];
  if (situ_meshgrid(tensors, count, SITU_INDEXING_IJ, grid) != SITU_OK) return NULL;
  for (int k = 0; k < count; k++) grid[k] = situ_reshape(grid[k], SITU_SHAPE(-1));
  return count == 1 ? grid[0] : situ_stack(grid, count, 1);
}
