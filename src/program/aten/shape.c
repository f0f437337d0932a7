/* ATen's views and rearrangements.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/size.h"
#include "program/graph/program.h"
#include "program/graph/rows.h"
#include "situ/sys/tensor.h"

/* torch's view is a reshape here: layouts of results may differ from torch's. */
static situ_tensor *run_reshape(situ__op_call *c) { return situ_reshape(situ__arg_tensor(c, 0), situ__arg_dims(c, 1)); }
static situ_tensor *run_reshape_as(situ__op_call *c) {
  return situ_reshape(situ__arg_tensor(c, 0), situ_shape_of(situ__arg_tensor(c, 1)));
}
static situ_tensor *run_flatten(situ__op_call *c) {
  return situ_flatten(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_dim(c, 2));
}
static situ_tensor *run_unflatten(situ__op_call *c) {
  return situ_unflatten(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_dims(c, 2));
}
static situ_tensor *run_transpose(situ__op_call *c) {
  return situ_transpose(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_dim(c, 2));
}
static situ_tensor *run_permute(situ__op_call *c) { return situ_permute(situ__arg_tensor(c, 0), situ__arg_dims(c, 1)); }
static situ_tensor *reverse_dims(situ_tensor *x) {
  situ_shape dims = { .ndim = situ_dim(x) };
  for (int d = 0; d < dims.ndim; d++) dims.dim[d] = dims.ndim - 1 - d;
  return situ_permute(x, dims);
}
static situ_tensor *run_movedim(situ__op_call *c) {
  return situ_movedim(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), situ__arg_dims(c, 2));
}
static situ_tensor *run_expand(situ__op_call *c) { return situ_expand(situ__arg_tensor(c, 0), situ__arg_dims(c, 1)); }
static situ_tensor *run_expand_as(situ__op_call *c) {
  return situ_expand(situ__arg_tensor(c, 0), situ_shape_of(situ__arg_tensor(c, 1)));
}
static situ_tensor *run_unsqueeze(situ__op_call *c) {
  return situ_unsqueeze(situ__arg_tensor(c, 0), situ__arg_dim(c, 1));
}
static situ_tensor *squeeze_all(situ_tensor *x) { return situ_squeeze(x, SITU_SCALAR); }
static situ_tensor *run_squeeze(situ__op_call *c) {
  const situ_shape dims = situ__arg_dims(c, 1);
  return dims.ndim ? situ_squeeze(situ__arg_tensor(c, 0), dims) : situ__arg_tensor(c, 0);
}

/* Bounds as in Python: negative ones count from the end, None is the end. */
static int64_t bound_of(const situ__op_call *c, int k, int64_t size, int64_t otherwise) {
  const int64_t at = situ__arg_given(c, k) ? situ__arg_int(c, k) : otherwise;
  return at < 0 && at >= -size ? at + size : at < 0 ? 0 : at;
}
static situ_tensor *run_slice(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int dim = situ__arg_dim(c, 1);
  const int64_t size = situ_size(x, dim);
  if (size < 0) return NULL;
  return situ_slice(x, dim, bound_of(c, 2, size, 0), bound_of(c, 3, size, INT64_MAX), situ__arg_int(c, 4));
}
static situ_tensor *run_slice_scatter(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int dim = situ__arg_dim(c, 2);
  const int64_t size = situ_size(x, dim);
  if (size < 0) return NULL;
  return situ_slice_scatter(x, situ__arg_tensor(c, 1), dim, bound_of(c, 3, size, 0), bound_of(c, 4, size, INT64_MAX),
                            situ__arg_int(c, 5));
}
static situ_tensor *run_select(situ__op_call *c) {
  return situ_select(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_int(c, 2));
}
static situ_tensor *run_narrow(situ__op_call *c) {
  return situ_narrow(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_int(c, 2), situ__arg_int(c, 3));
}
static situ_tensor *run_as_strided(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  return situ_as_strided(x, situ__arg_dims(c, 1), situ__arg_dims(c, 2),
                         situ__arg_given(c, 3) ? situ__arg_int(c, 3) : situ_storage_offset(x));
}
/* Windows of `size` elements of a dimension, `step` apart, which become the last dimension: a view. */
static situ_tensor *run_unfold(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int rank = situ_dim(x), dim = situ__arg_dim_of(c, 1, rank);
  const int64_t size = situ__arg_int(c, 2), step = situ__arg_int(c, 3);
  if (rank == 0) return situ_narrow(situ_reshape(x, SITU_SHAPE(1)), 0, 0, size);
  if (dim < 0 || dim >= rank || size < 0 || size > situ_size(x, dim) || step < 1)
    return situ__call_refuse(c, "has windows that do not fit in");
  situ_shape sizes = situ_shape_of(x), strides = { .ndim = rank };
  if (rank == SITU_MAX_DIMS) return situ__call_refuse(c, "would have more than 8 dimensions");
  for (int d = 0; d < rank; d++) strides.dim[d] = situ_stride(x, d);
  strides.dim[strides.ndim++] = strides.dim[dim];
  if (!situ__mul_i64(strides.dim[dim], step, &strides.dim[dim]))
    return situ__call_refuse(c, "has a step beyond 2^63 elements");
  sizes.dim[sizes.ndim++] = size;
  sizes.dim[dim] = (sizes.dim[dim] - size) / step + 1;
  /* Windows of windows: the gradient of an element that several show goes to the base at once. */
  situ_tensor *base = situ_view_base(x);
  return situ_as_strided(base && situ_dtype_of(base) == situ_dtype_of(x) ? base : x, sizes, strides,
                         situ_storage_offset(x));
}
static situ_tensor *run_sum_to_size(situ__op_call *c) {
  return situ_sum_to_size(situ__arg_tensor(c, 0), situ__arg_dims(c, 1));
}
static situ_tensor *ravel(situ_tensor *x) { return situ_reshape(x, SITU_SHAPE(-1)); }
static situ_tensor *transposed(situ_tensor *x) { return situ_dim(x) < 2 ? x : situ_transpose(x, -2, -1); }
static situ_tensor *run_select_scatter(situ__op_call *c) {
  return situ_select_scatter(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_dim(c, 2), situ__arg_int(c, 3));
}
static situ_tensor *run_diagonal_scatter(situ__op_call *c) {
  return situ_diagonal_scatter(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_int(c, 2), situ__arg_dim(c, 3),
                               situ__arg_dim(c, 4));
}
static situ_tensor *run_diagonal(situ__op_call *c) {
  return situ_diagonal(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_dim(c, 2), situ__arg_dim(c, 3));
}

/* ---- copies ---- */

static situ_tensor *run_repeat(situ__op_call *c) { return situ_repeat(situ__arg_tensor(c, 0), situ__arg_dims(c, 1)); }
static situ_tensor *run_repeat_interleave(situ__op_call *c) {
  return situ_repeat_interleave(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_dims(c, 2));
}
static situ_tensor *run_roll(situ__op_call *c) {
  return situ_roll(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), situ__arg_dims(c, 2));
}
static situ_tensor *run_flip(situ__op_call *c) { return situ_flip(situ__arg_tensor(c, 0), situ__arg_dims(c, 1)); }
static situ_tensor *run_tril(situ__op_call *c) { return situ_tril(situ__arg_tensor(c, 0), situ__arg_int(c, 1)); }
static situ_tensor *run_triu(situ__op_call *c) { return situ_triu(situ__arg_tensor(c, 0), situ__arg_int(c, 1)); }
static situ_tensor *run_tile(situ__op_call *c) { return situ_tile(situ__arg_tensor(c, 0), situ__arg_dims(c, 1)); }
static situ_tensor *run_repeat_by_tensor(situ__op_call *c) {
  return situ_repeat_interleave_tensor(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_dims(c, 2));
}
/* Each of 0, 1, ... as often as its number says. */
static situ_tensor *run_repeat_of_places(situ__op_call *c) {
  situ_tensor *repeats = situ__arg_tensor(c, 0);
  const situ_options integer = { .dtype = SITU_I64, .device = situ_device_of(repeats) };
  return situ_repeat_interleave_tensor(situ_arange(0, (double)situ_size(repeats, 0), 1, &integer), repeats,
                                       SITU_SCALAR);
}
static situ_tensor *run_rot90(situ__op_call *c) {
  return situ_rot90(situ__arg_tensor(c, 0), situ__arg_int(c, 1),
                    situ__arg_given(c, 2) ? situ__arg_dims(c, 2) : SITU_SHAPE(0, 1));
}
static situ_tensor *run_diag(situ__op_call *c) { return situ_diag(situ__arg_tensor(c, 0), situ__arg_int(c, 1)); }
static situ_tensor *run_diagflat(situ__op_call *c) {
  return situ_diag(situ_reshape(situ__arg_tensor(c, 0), SITU_SHAPE(-1)), situ__arg_int(c, 1));
}
static situ_tensor *run_diag_embed(situ__op_call *c) {
  return situ_diag_embed(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_dim(c, 2), situ__arg_dim(c, 3));
}
static situ_tensor *run_combinations(situ__op_call *c) {
  return situ_combinations(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_flag(c, 2));
}

/* Constant padding of the dimensions before the last four, which a situ_shape does not hold beside those: they come
   last meanwhile. */
static situ_tensor *pad_first(situ_tensor *x, const int64_t *list, int count, double value) {
  enum { LAST = SITU_MAX_DIMS / 2 };
  const int first = situ_dim(x) - LAST;
  situ_shape turned = { .ndim = LAST + first }, back = turned, pad = { .ndim = count };
  for (int d = 0; d < turned.ndim; d++) {
    turned.dim[d] = d < LAST ? first + d : d - LAST;
    back.dim[d] = d < first ? LAST + d : d - first;
  }
  memcpy(pad.dim, list, (size_t)count * sizeof *list);
  return situ_permute(situ_pad(situ_permute(x, turned), pad, SITU_PAD_CONSTANT, value), back);
}

static situ_tensor *run_pad(situ__op_call *c) {
  static const char *const names[] = { "constant", "reflect", "replicate", "circular" };
  const char *mode = situ__arg_given(c, 3) ? situ__arg_text(c, 3) : names[0];
  int k = 0;
  while (k < 4 && strcmp(mode, names[k]) != 0) k++;
  if (k == 4) return situ__call_refuse(c, "has a padding mode that situ does not know");
  int64_t list[2 * SITU_MAX_DIMS];
  int count = situ__arg_host_ints(c, 1, list, 2 * SITU_MAX_DIMS);
  if (count < 0) return NULL;
  while (count > SITU_MAX_DIMS && list[count - 1] == 0 && list[count - 2] == 0) count -= 2;
  const int first = count > SITU_MAX_DIMS ? count - SITU_MAX_DIMS : 0;
  situ_tensor *x = situ__arg_tensor(c, 0);
  if (first && (k != SITU_PAD_CONSTANT || count % 2 != 0 || count > 2 * situ_dim(x)))
    return situ__call_refuse(c, "pads before the last four dimensions");
  situ_shape pad = { .ndim = count - first };
  memcpy(pad.dim, list, (size_t)pad.ndim * sizeof *list);
  const double value = situ__arg_given(c, 2) ? situ__arg_number(c, 2) : 0;
  x = situ_pad(x, pad, (situ_pad_mode)k, value);
  return first ? pad_first(x, list + SITU_MAX_DIMS, first, value) : x;
}

static situ_tensor *run_reflection(situ__op_call *c) {
  return situ_pad(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), SITU_PAD_REFLECT, 0);
}
static situ_tensor *run_replication(situ__op_call *c) {
  return situ_pad(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), SITU_PAD_REPLICATE, 0);
}

/* With `wrap`, a matrix that is higher than wide has one diagonal below the other, each a row apart. */
static situ_tensor *run_fill_diagonal(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape size = situ_shape_of(x);
  const double value = situ__arg_number(c, 1);
  if (size.ndim < 2) return situ__call_refuse(c, "needs two dimensions or more");
  if (situ_numel(x) == 0) return x;
  if (size.ndim > 2) {
    int64_t step = 0;
    for (int d = 0; d < size.ndim; d++) {
      if (size.dim[d] != size.dim[0]) return situ__call_refuse(c, "needs dimensions of one size");
      step += situ_stride(x, d);
    }
    situ_tensor *all = situ_as_strided(x, SITU_SHAPE(size.dim[0]), SITU_SHAPE(step), situ_storage_offset(x));
    return situ_fill_(all, value) ? x : NULL;
  }
  const int64_t high = size.dim[0], wide = size.dim[1];
  for (int64_t row = 0; row < high; row += situ__arg_flag(c, 2) ? wide + 1 : high) {
    situ_tensor *block = situ_narrow(x, 0, row, high - row < wide ? high - row : wide);
    if (!situ_fill_(situ_diagonal(block, 0, 0, 1), value)) return NULL;
  }
  return x;
}

static const situ__op_row rows[] = {
  { "fill_diagonal_.default", "t self, n fill_value, b wrap=0", .run = run_fill_diagonal },
  { "view.default", "t self, I size", .run = run_reshape },
  { "_unsafe_view.default", "t self, I size", .run = run_reshape },
  { "reshape.default", "t self, I shape", .run = run_reshape },
  { "view_as.default", "t self, t other", .run = run_reshape_as },
  { "reshape_as.default", "t self, t other", .run = run_reshape_as },
  { "flatten.using_ints", "t self, i start_dim=0, i end_dim=-1", .run = run_flatten },
  { "unflatten.int", "t self, i dim, I sizes", .run = run_unflatten },
  { "transpose.int", "t self, i dim0, i dim1", .run = run_transpose },
  { "transpose_.default", "t self, i dim0, i dim1", .run = run_transpose },
  { "swapaxes.default", "t self, i axis0, i axis1", .run = run_transpose },
  { "swapdims.default", "t self, i dim0, i dim1", .run = run_transpose },
  { "permute.default", "t self, I dims", .run = run_permute },
  { "t.default", "t self", .unary = reverse_dims },
  { "numpy_T.default", "t self", .unary = reverse_dims },
  { "movedim.int", "t self, I source, I destination", .run = run_movedim },
  { "movedim.intlist", "t self, I source, I destination", .run = run_movedim },
  { "expand.default", "t self, I size, _ implicit", .run = run_expand },
  { "broadcast_to.default", "t self, I size", .run = run_expand },
  { "expand_as.default", "t self, t other", .run = run_expand_as },
  { "unsqueeze.default", "t self, i dim", .run = run_unsqueeze },
  { "squeeze.default", "t self", .unary = squeeze_all },
  { "squeeze.dim", "t self, I dim", .run = run_squeeze },
  { "squeeze.dims", "t self, I dim", .run = run_squeeze },
  { "slice.Tensor", "t self, i dim=0, i? start, i? end, i step=1", .run = run_slice },
  { "slice_scatter.default", "t self, t src, i dim=0, i? start, i? end, i step=1", .run = run_slice_scatter },
  { "select.int", "t self, i dim, i index", .run = run_select },
  { "narrow.default", "t self, i dim, i start, i length", .run = run_narrow },
  { "as_strided.default", "t self, I size, I stride, i? storage_offset", .run = run_as_strided },
  { "diagonal.default", "t self, i offset=0, i dim1=0, i dim2=1", .run = run_diagonal },
  { "linalg_diagonal.default", "t A, *i offset=0, *i dim1=-2, *i dim2=-1", .run = run_diagonal },
  { "diagonal_scatter.default", "t self, t src, i offset=0, i dim1=0, i dim2=1", .run = run_diagonal_scatter },
  { "select_scatter.default", "t self, t src, i dim, i index", .run = run_select_scatter },
  { "diag.default", "t self, i diagonal=0", .run = run_diag },
  { "diagflat.default", "t self, i offset=0", .run = run_diagflat },
  { "diag_embed.default", "t self, i offset=0, i dim1=-2, i dim2=-1", .run = run_diag_embed },
  { "unfold.default", "t self, i dimension, i size, i step", .run = run_unfold },
  { "sum_to_size.default", "t self, I size", .run = run_sum_to_size },
  { "ravel.default", "t self", .unary = ravel },
  { "mT.default", "t self", .unary = transposed },
  { "mH.default", "t self", .unary = transposed },
  { "matrix_H.default", "t self", .unary = transposed },
  { "adjoint.default", "t self", .unary = transposed },
  UNARY(atleast_1d),
  UNARY(atleast_2d),
  UNARY(atleast_3d),
  { "tile.default", "t self, I dims", .run = run_tile },
  { "combinations.default", "t self, i r=2, b with_replacement=0", .run = run_combinations },
  { "repeat.default", "t self, I repeats", .run = run_repeat },
  { "repeat_interleave.self_int", "t self, i repeats, I? dim, _ output_size", .run = run_repeat_interleave },
  { "repeat_interleave.self_Tensor", "t self, t repeats, I? dim, _ output_size", .run = run_repeat_by_tensor },
  { "repeat_interleave.Tensor", "t repeats, _ output_size", .run = run_repeat_of_places },
  { "roll.default", "t self, I shifts, I? dims", .run = run_roll },
  UNARY(fliplr),
  UNARY(flipud),
  { "rot90.default", "t self, i k=1, I? dims", .run = run_rot90 },
  { "flip.default", "t self, I dims", .run = run_flip },
  { "tril.default", "t self, i diagonal=0", .run = run_tril },
  { "triu.default", "t self, i diagonal=0", .run = run_triu },
  { "pad.default", "t self, h pad, n? value, s? mode", .run = run_pad },
  { "constant_pad_nd.default", "t self, h pad, n? value, s? mode", .run = run_pad },
  { "reflection_pad1d.default", "t self, I padding", .run = run_reflection },
  { "reflection_pad2d.default", "t self, I padding", .run = run_reflection },
  { "reflection_pad3d.default", "t self, I padding", .run = run_reflection },
  { "replication_pad1d.default", "t self, I padding", .run = run_replication },
  { "replication_pad2d.default", "t self, I padding", .run = run_replication },
  { "replication_pad3d.default", "t self, I padding", .run = run_replication },
};
const situ__op_family situ__shape_family = { rows, sizeof rows / sizeof *rows };
