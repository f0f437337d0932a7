/* ATen's joins of several tensors, and divisions into several.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "program/graph/program.h"

/* ---- joins ---- */

static situ_tensor *run_cat(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  /* torch leaves out tensors of shape [0]. */
  int kept = 0;
  for (int i = 0; i < count; i++)
    if (situ_dim(list[i]) != 1 || situ_numel(list[i]) != 0) list[kept++] = list[i];
  return situ_cat(list, kept ? kept : count, situ__arg_dim(c, 1));
}
static situ_tensor *run_stack(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  return situ_stack(list, count, situ__arg_dim(c, 1));
}

typedef situ_tensor *joining(situ_tensor *const *, int);
static situ_tensor *join(situ__op_call *c, joining *fn) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  return fn(list, count);
}
static situ_tensor *run_hstack(situ__op_call *c) { return join(c, situ_hstack); }
static situ_tensor *run_vstack(situ__op_call *c) { return join(c, situ_vstack); }
static situ_tensor *run_dstack(situ__op_call *c) { return join(c, situ_dstack); }
static situ_tensor *run_column_stack(situ__op_call *c) { return join(c, situ_column_stack); }
static situ_tensor *run_block_diag(situ__op_call *c) { return join(c, situ_block_diag); }
static situ_tensor *run_cartesian_prod(situ__op_call *c) { return join(c, situ_cartesian_prod); }

/* ---- as many tensors as were given ---- */

static situ_tensor *run_meshgrid(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  const situ_indexing indexing = *situ__arg_text(c, 1) == 'x' ? SITU_INDEXING_XY : SITU_INDEXING_IJ;
  return situ_meshgrid(list, count, indexing, list) == SITU_OK ? situ__call_pieces(c, list, count) : NULL;
}
static situ_tensor *run_broadcast_tensors(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  return situ_broadcast_tensors(list, count, list) == SITU_OK ? situ__call_pieces(c, list, count) : NULL;
}
static situ_tensor *each(situ__op_call *c, situ_tensor *(*fn)(situ_tensor *)) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  for (int i = 0; i < count; i++)
    if (!(list[i] = fn(list[i]))) return NULL;
  return situ__call_pieces(c, list, count);
}
static situ_tensor *run_atleast_1d(situ__op_call *c) { return each(c, situ_atleast_1d); }
static situ_tensor *run_atleast_2d(situ__op_call *c) { return each(c, situ_atleast_2d); }
static situ_tensor *run_atleast_3d(situ__op_call *c) { return each(c, situ_atleast_3d); }

/* ---- pieces ---- */

typedef int64_t splitting(situ_tensor *, int64_t, int, situ_tensor **, int64_t);
/* Into as many pieces as a number says. */
static situ_tensor *split_by(situ__op_call *c, splitting *fn, int64_t number, int dim) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int64_t count = fn(x, number, dim, NULL, 0);
  return situ__call_pieces(c, c->result, count == c->node->outs ? fn(x, number, dim, c->result, count) : count);
}
static situ_tensor *run_split(situ__op_call *c) {
  return split_by(c, situ_split, situ__arg_int(c, 1), situ__arg_dim(c, 2));
}
static situ_tensor *run_chunk(situ__op_call *c) {
  return split_by(c, situ_chunk, situ__arg_int(c, 1), situ__arg_dim(c, 2));
}
static situ_tensor *run_split_sizes(situ__op_call *c) {
  int count;
  const int64_t *size = situ__arg_host_list(c, 1, &count);
  return situ__call_split(c, situ__arg_tensor(c, 0), situ__arg_dim(c, 2), size, count);
}
static situ_tensor *unbind(situ__op_call *c, situ_tensor *x, int dim) {
  const int64_t count = situ_unbind(x, dim, NULL, 0);
  return situ__call_pieces(c, c->result, count == c->node->outs ? situ_unbind(x, dim, c->result, count) : count);
}
static situ_tensor *run_unbind(situ__op_call *c) { return unbind(c, situ__arg_tensor(c, 0), situ__arg_dim(c, 1)); }

/* Along dim, into so many sections, or before the indices of a list. */
static situ_tensor *split_into(situ__op_call *c, int dim, bool sections) {
  int count;
  const int64_t *at = situ__arg_host_list(c, 1, &count);
  situ_tensor *x = situ__arg_tensor(c, 0);
  if (!at) return NULL;
  if (sections) return split_by(c, situ_tensor_split, count ? *at : 0, dim);
  for (int i = 0; i <= count && i < c->node->outs; i++)
    if (!(c->result[i] = situ_slice(x, dim, i ? at[i - 1] : 0, i < count ? at[i] : INT64_MAX, 1))) return NULL;
  return situ__call_pieces(c, c->result, (int64_t)count + 1);
}
static situ_tensor *run_sections(situ__op_call *c) { return split_into(c, situ__arg_dim(c, 2), true); }
static situ_tensor *run_indices(situ__op_call *c) { return split_into(c, situ__arg_dim(c, 2), false); }
static situ_tensor *run_sections_or_indices(situ__op_call *c) {
  return split_into(c, situ__arg_dim(c, 2), situ_dim(situ__arg_tensor(c, 1)) == 0);
}
/* Columns of a line are its elements. */
static int columns(const situ__op_call *c) { return situ_dim(situ__arg_tensor(c, 0)) > 1; }
static situ_tensor *run_hsplit(situ__op_call *c) { return split_into(c, columns(c), true); }
static situ_tensor *run_hsplit_indices(situ__op_call *c) { return split_into(c, columns(c), false); }
static situ_tensor *run_vsplit(situ__op_call *c) { return split_into(c, 0, true); }
static situ_tensor *run_vsplit_indices(situ__op_call *c) { return split_into(c, 0, false); }
static situ_tensor *run_dsplit(situ__op_call *c) { return split_into(c, 2, true); }
static situ_tensor *run_dsplit_indices(situ__op_call *c) { return split_into(c, 2, false); }

/* The places of what is not 0, dimension by dimension. */
static situ_tensor *run_where(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  if (!situ_dim(x)) x = situ_reshape(x, SITU_SHAPE(1)); /* which has a place, too */
  return unbind(c, situ_nonzero(x), 1);
}

#define LISTED(name, text, function) \
  { name, text, .results = SITU__RESULTS_LIST, .run = function }

static const situ__op_row rows[] = {
  { "cat.default", "T tensors, i dim=0", .run = run_cat },
  { "concat.default", "T tensors, i dim=0", .run = run_cat },
  { "stack.default", "T tensors, i dim=0", .run = run_stack },
  { "hstack.default", "T tensors", .run = run_hstack },
  { "vstack.default", "T tensors", .run = run_vstack },
  { "dstack.default", "T tensors", .run = run_dstack },
  { "column_stack.default", "T tensors", .run = run_column_stack },
  { "block_diag.default", "T tensors", .run = run_block_diag },
  { "cartesian_prod.default", "T tensors", .run = run_cartesian_prod },
  LISTED("meshgrid.default", "T tensors, s? indexing", run_meshgrid),
  LISTED("meshgrid.indexing", "T tensors, *s indexing(ij|xy)", run_meshgrid),
  LISTED("broadcast_tensors.default", "T tensors", run_broadcast_tensors),
  LISTED("atleast_1d.Sequence", "T tensors", run_atleast_1d),
  LISTED("atleast_2d.Sequence", "T tensors", run_atleast_2d),
  LISTED("atleast_3d.Sequence", "T tensors", run_atleast_3d),
  LISTED("split.Tensor", "t self, i split_size, i dim=0", run_split),
  LISTED("split_with_sizes.default", "t self, L split_sizes, i dim=0", run_split_sizes),
  LISTED("split.sizes", "t self, L split_size, i dim=0", run_split_sizes),
  LISTED("chunk.default", "t self, i chunks, i dim=0", run_chunk),
  LISTED("unbind.int", "t self, i dim=0", run_unbind),
  LISTED("tensor_split.sections", "t self, i sections, i dim=0", run_sections),
  LISTED("tensor_split.indices", "t self, L indices, i dim=0", run_indices),
  LISTED("tensor_split.tensor_indices_or_sections", "t self, h tensor_indices_or_sections, i dim=0",
         run_sections_or_indices),
  LISTED("hsplit.int", "t self, i sections", run_hsplit),
  LISTED("hsplit.array", "t self, L indices", run_hsplit_indices),
  LISTED("vsplit.int", "t self, i sections", run_vsplit),
  LISTED("vsplit.array", "t self, L indices", run_vsplit_indices),
  LISTED("dsplit.int", "t self, i sections", run_dsplit),
  LISTED("dsplit.array", "t self, L indices", run_dsplit_indices),
  LISTED("where.default", "t condition", run_where),
  LISTED("nonzero_numpy.default", "t self", run_where),
};
const situ__op_family situ__join_family = { rows, sizeof rows / sizeof *rows };
