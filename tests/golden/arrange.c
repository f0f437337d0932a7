/* Golden values from PyTorch 2.15: rearrangements, diagonals, joins, contractions, ranges.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

#include "support/gold_run.h"

static int dim(const gold_call *c, const char *name, int64_t otherwise) { return (int)gold_int(c, name, otherwise); }

static void swapaxes(gold_call *c) { c->out[0] = situ_swapaxes(c->in[0], dim(c, "axis0", 0), dim(c, "axis1", 0)); }
static void movedim(gold_call *c) {
  c->out[0] = situ_movedim(c->in[0], gold_list(c, "source"), gold_list(c, "destination"));
}
static void unflatten(gold_call *c) { c->out[0] = situ_unflatten(c->in[0], dim(c, "dim", 0), gold_list(c, "sizes")); }
static void diagonal(gold_call *c) {
  c->out[0] = situ_diagonal(c->in[0], gold_int(c, "offset", 0), dim(c, "dim1", 0), dim(c, "dim2", 1));
}
static void diag_embed(gold_call *c) {
  c->out[0] = situ_diag_embed(c->in[0], gold_int(c, "offset", 0), dim(c, "dim1", -2), dim(c, "dim2", -1));
}
static void diag(gold_call *c) { c->out[0] = situ_diag(c->in[0], gold_int(c, "diagonal", 0)); }
static void rot90(gold_call *c) {
  situ_shape dims = gold_has(c, "dims") ? gold_list(c, "dims") : SITU_DIMS(0, 1);
  c->out[0] = situ_rot90(c->in[0], gold_int(c, "k", 1), dims);
}
static void tile(gold_call *c) { c->out[0] = situ_tile(c->in[0], gold_list(c, "dims")); }
static void repeat_interleave(gold_call *c) {
  c->out[0] = situ_repeat_interleave(c->in[0], gold_int(c, "repeats", 0), gold_list(c, "dim"));
}
static void pixel_shuffle(gold_call *c) { c->out[0] = situ_pixel_shuffle(c->in[0], gold_int(c, "upscale_factor", 0)); }
static void pixel_unshuffle(gold_call *c) {
  c->out[0] = situ_pixel_unshuffle(c->in[0], gold_int(c, "downscale_factor", 0));
}

static void joined(gold_call *c, situ_tensor *(*f)(situ_tensor *const *, int)) {
  situ_tensor *parts[GOLD_MAX_INPUTS + 1];
  int count = gold_tensors(c, "tensors", parts);
  c->out[0] = f(parts, count);
}
static void hstack(gold_call *c) { joined(c, situ_hstack); }
static void vstack(gold_call *c) { joined(c, situ_vstack); }
static void dstack(gold_call *c) { joined(c, situ_dstack); }
static void block_diag(gold_call *c) { joined(c, situ_block_diag); }
static void meshgrid(gold_call *c) {
  situ_tensor *parts[GOLD_MAX_INPUTS + 1];
  int count = gold_tensors(c, "tensors", parts);
  bool swap = strcmp(gold_word(c, "indexing", "ij"), "xy") == 0;
  if (situ_meshgrid(parts, count, swap ? SITU_INDEXING_XY : SITU_INDEXING_IJ, c->out) != SITU_OK) c->out[0] = NULL;
}

static void einsum(gold_call *c) {
  situ_tensor *parts[GOLD_MAX_INPUTS + 1];
  int count = gold_tensors(c, "operands", parts);
  c->out[0] = situ_einsum(gold_word(c, "equation", ""), parts, count);
}
static void tensordot(gold_call *c) {
  c->out[0] = situ_tensordot(c->in[0], gold_in(c, "other"), gold_list(c, "dims_self"), gold_list(c, "dims_other"));
}

static void created(gold_call *c, situ_tensor *(*f)(situ_tensor *, situ_shape, const situ_options *)) {
  c->out[0] = f(c->in[0], gold_list(c, "shape"), &(situ_options){ .dtype = gold_dtype(c, "dtype") });
}
static void new_empty(gold_call *c) { created(c, situ_new_empty); }
static void new_zeros(gold_call *c) { created(c, situ_new_zeros); }
static void new_ones(gold_call *c) { created(c, situ_new_ones); }
static void new_full(gold_call *c) {
  c->out[0] = situ_new_full(c->in[0], gold_list(c, "shape"), gold_real(c, "fill_value", 0),
                            &(situ_options){ .dtype = gold_dtype(c, "dtype") });
}
static void logspace(gold_call *c) {
  situ_options o = gold_options(c);
  c->out[0] = situ_logspace(gold_real(c, "start", 0), gold_real(c, "end", 0), gold_int(c, "steps", 0),
                            gold_real(c, "base", 10), &o);
}
static void triangle(gold_call *c,
                     situ_tensor *(*f)(int64_t row, int64_t col, int64_t offset, const situ_options *options)) {
  situ_options o = gold_options(c);
  c->out[0] = f(gold_int(c, "row", 0), gold_int(c, "col", 0), gold_int(c, "offset", 0), &o);
}
static void tril_indices(gold_call *c) { triangle(c, situ_tril_indices); }
static void triu_indices(gold_call *c) { triangle(c, situ_triu_indices); }

static const gold_op ops[] = {
  { "swapaxes", .run = swapaxes },
  { "movedim", .run = movedim },
  { "unflatten", .run = unflatten },
  { "diagonal", .run = diagonal },
  { "diag_embed", .run = diag_embed },
  { "diag", .run = diag },
  { "fliplr", .one = situ_fliplr },
  { "flipud", .one = situ_flipud },
  { "rot90", .run = rot90 },
  { "tile", .run = tile, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "repeat_interleave", .run = repeat_interleave },
  { "pixel_shuffle", .run = pixel_shuffle },
  { "pixel_unshuffle", .run = pixel_unshuffle },
  { "hstack", .run = hstack },
  { "vstack", .run = vstack },
  { "dstack", .run = dstack },
  { "block_diag", .run = block_diag },
  { "atleast_1d", .one = situ_atleast_1d },
  { "atleast_2d", .one = situ_atleast_2d },
  { "atleast_3d", .one = situ_atleast_3d },
  { "meshgrid", .run = meshgrid },
  { "einsum", .run = einsum, .steps = 3, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "tensordot", .run = tensordot, .steps = 1, .grad_steps = 1, .why = GOLD_ROUNDS },
  { "kron", .two = situ_kron, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "trace", .one = situ_trace },
  { "new_empty", .run = new_empty },
  { "new_zeros", .run = new_zeros },
  { "new_ones", .run = new_ones },
  { "new_full", .run = new_full },
  { "logspace", .run = logspace, .steps = 2, .why = GOLD_ROUNDS },
  { "tril_indices", .run = tril_indices },
  { "triu_indices", .run = triu_indices },
  { 0 },
};

int main(void) { return gold_main("arrange", ops, NULL); }
