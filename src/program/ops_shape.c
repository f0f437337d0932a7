/* ATen's views, joins and rearrangements.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "program/program.h"

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
static situ_tensor *run_diagonal(situ__op_call *c) {
  return situ_diagonal(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_dim(c, 2), situ__arg_dim(c, 3));
}

/* ---- joins ---- */

static situ_tensor *run_cat(situ__op_call *c) {
  situ_tensor *list[SITU__LIST_MAX];
  const int count = situ__arg_tensors(c, 0, list);
  /* torch leaves out tensors of shape [0]. */
  int kept = 0;
  for (int i = 0; i < count; i++)
    if (situ_dim(list[i]) != 1 || situ_numel(list[i]) != 0) list[kept++] = list[i];
  return situ_cat(list, kept ? kept : count, situ__arg_dim(c, 1));
}
static situ_tensor *run_stack(situ__op_call *c) {
  situ_tensor *list[SITU__LIST_MAX];
  return situ_stack(list, situ__arg_tensors(c, 0, list), situ__arg_dim(c, 1));
}

/* ---- pieces ---- */

/* Hands over the pieces, which must be as many as the file says. */
static situ_tensor *give_pieces(situ__op_call *c, situ_tensor *const *piece, int64_t count) {
  if (count < 0) return NULL;
  if (count != c->node->outs) return situ__call_refuse(c, "gives another number of pieces than in the file");
  if (count > 1) memcpy(c->also, piece + 1, (size_t)(count - 1) * sizeof *piece);
  return piece[0];
}
static situ_tensor *run_split(situ__op_call *c) {
  situ_tensor *piece[SITU__LIST_MAX];
  return give_pieces(
      c, piece, situ_split(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_dim(c, 2), piece, SITU__LIST_MAX));
}
static situ_tensor *run_split_sizes(situ__op_call *c) {
  situ_tensor *piece[SITU__LIST_MAX];
  return give_pieces(
      c, piece,
      situ_split_sizes(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), situ__arg_dim(c, 2), piece, SITU__LIST_MAX));
}
static situ_tensor *run_chunk(situ__op_call *c) {
  situ_tensor *piece[SITU__LIST_MAX];
  return give_pieces(
      c, piece, situ_chunk(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_dim(c, 2), piece, SITU__LIST_MAX));
}
static situ_tensor *run_unbind(situ__op_call *c) {
  situ_tensor *piece[SITU__LIST_MAX];
  return give_pieces(c, piece, situ_unbind(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), piece, SITU__LIST_MAX));
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
static situ_tensor *run_pixel_shuffle(situ__op_call *c) {
  return situ_pixel_shuffle(situ__arg_tensor(c, 0), situ__arg_int(c, 1));
}
static situ_tensor *run_pixel_unshuffle(situ__op_call *c) {
  return situ_pixel_unshuffle(situ__arg_tensor(c, 0), situ__arg_int(c, 1));
}
static situ_tensor *run_pad(situ__op_call *c) {
  static const char *const names[] = { "constant", "reflect", "replicate", "circular" };
  const char *mode = situ__arg_given(c, 3) ? situ__arg_text(c, 3) : names[0];
  int k = 0;
  while (k < 4 && strcmp(mode, names[k]) != 0) k++;
  if (k == 4) return situ__call_refuse(c, "has a padding mode that situ does not know");
  return situ_pad(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), (situ_pad_mode)k,
                  situ__arg_given(c, 2) ? situ__arg_number(c, 2) : 0);
}

static const situ__op_row rows[] = {
  { .target = "view.default", .parameters = "t self, I size", .run = run_reshape },
  { .target = "_unsafe_view.default", .parameters = "t self, I size", .run = run_reshape },
  { .target = "reshape.default", .parameters = "t self, I shape", .run = run_reshape },
  { .target = "view_as.default", .parameters = "t self, t other", .run = run_reshape_as },
  { .target = "reshape_as.default", .parameters = "t self, t other", .run = run_reshape_as },
  { .target = "flatten.using_ints", .parameters = "t self, i start_dim=0, i end_dim=-1", .run = run_flatten },
  { .target = "unflatten.int", .parameters = "t self, i dim, I sizes", .run = run_unflatten },
  { .target = "transpose.int", .parameters = "t self, i dim0, i dim1", .run = run_transpose },
  { .target = "swapaxes.default", .parameters = "t self, i axis0, i axis1", .run = run_transpose },
  { .target = "swapdims.default", .parameters = "t self, i dim0, i dim1", .run = run_transpose },
  { .target = "permute.default", .parameters = "t self, I dims", .run = run_permute },
  { .target = "t.default", .parameters = "t self", .unary = reverse_dims },
  { .target = "numpy_T.default", .parameters = "t self", .unary = reverse_dims },
  { .target = "movedim.int", .parameters = "t self, I source, I destination", .run = run_movedim },
  { .target = "movedim.intlist", .parameters = "t self, I source, I destination", .run = run_movedim },
  { .target = "expand.default", .parameters = "t self, I size, _ implicit", .run = run_expand },
  { .target = "expand_as.default", .parameters = "t self, t other", .run = run_expand_as },
  { .target = "unsqueeze.default", .parameters = "t self, i dim", .run = run_unsqueeze },
  { .target = "squeeze.default", .parameters = "t self", .unary = squeeze_all },
  { .target = "squeeze.dim", .parameters = "t self, I dim", .run = run_squeeze },
  { .target = "squeeze.dims", .parameters = "t self, I dim", .run = run_squeeze },
  { .target = "slice.Tensor", .parameters = "t self, i dim=0, i? start, i? end, i step=1", .run = run_slice },
  { .target = "slice_scatter.default",
    .parameters = "t self, t src, i dim=0, i? start, i? end, i step=1",
    .run = run_slice_scatter },
  { .target = "select.int", .parameters = "t self, i dim, i index", .run = run_select },
  { .target = "narrow.default", .parameters = "t self, i dim, i start, i length", .run = run_narrow },
  { .target = "as_strided.default",
    .parameters = "t self, I size, I stride, i? storage_offset",
    .run = run_as_strided },
  { .target = "diagonal.default", .parameters = "t self, i offset=0, i dim1=0, i dim2=1", .run = run_diagonal },
  { .target = "cat.default", .parameters = "T tensors, i dim=0", .run = run_cat },
  { .target = "concat.default", .parameters = "T tensors, i dim=0", .run = run_cat },
  { .target = "stack.default", .parameters = "T tensors, i dim=0", .run = run_stack },
  { .target = "split.Tensor",
    .parameters = "t self, i split_size, i dim=0",
    .results = SITU__RESULTS_LIST,
    .run = run_split },
  { .target = "split_with_sizes.default",
    .parameters = "t self, I split_sizes, i dim=0",
    .results = SITU__RESULTS_LIST,
    .run = run_split_sizes },
  { .target = "split.sizes",
    .parameters = "t self, I split_size, i dim=0",
    .results = SITU__RESULTS_LIST,
    .run = run_split_sizes },
  { .target = "chunk.default",
    .parameters = "t self, i chunks, i dim=0",
    .results = SITU__RESULTS_LIST,
    .run = run_chunk },
  { .target = "unbind.int", .parameters = "t self, i dim=0", .results = SITU__RESULTS_LIST, .run = run_unbind },
  { .target = "repeat.default", .parameters = "t self, I repeats", .run = run_repeat },
  { .target = "repeat_interleave.self_int",
    .parameters = "t self, i repeats, I? dim, _ output_size",
    .run = run_repeat_interleave },
  { .target = "roll.default", .parameters = "t self, I shifts, I? dims", .run = run_roll },
  { .target = "flip.default", .parameters = "t self, I dims", .run = run_flip },
  { .target = "tril.default", .parameters = "t self, i diagonal=0", .run = run_tril },
  { .target = "triu.default", .parameters = "t self, i diagonal=0", .run = run_triu },
  { .target = "pixel_shuffle.default", .parameters = "t self, i upscale_factor", .run = run_pixel_shuffle },
  { .target = "pixel_unshuffle.default", .parameters = "t self, i downscale_factor", .run = run_pixel_unshuffle },
  { .target = "pad.default", .parameters = "t self, I pad, n? value, s? mode", .run = run_pad },
  { .target = "constant_pad_nd.default", .parameters = "t self, I pad, n? value, s? mode", .run = run_pad },
};
const situ__op_family situ__shape_family = { rows, sizeof rows / sizeof *rows };
