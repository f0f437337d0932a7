/* Rearrangements that consist of views and of copies of views.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

situ_tensor *situ_swapaxes(situ_tensor *input, int axis0, int axis1) {
  SITU__MADE_OF_OPS("swapaxes");
  return situ_transpose(input, axis0, axis1);
}

situ_tensor *situ_movedim(situ_tensor *input, situ_shape source, situ_shape destination) {
  SITU__MADE_OF_OPS("movedim");
  const char *op = "movedim";
  unsigned from, to;
  if (!situ__need(op, "input", input)) return NULL;
  const int ndim = input->view.ndim;
  if (source.ndim != destination.ndim)
    return situ__fail(SITU_E_ARG, op, "source lists %d dimensions, destination %d", source.ndim, destination.ndim),
           NULL;
  if (!situ__dim_mask(op, &source, ndim, false, &from) || !situ__dim_mask(op, &destination, ndim, false, &to))
    return NULL;
  situ_shape dims = { .ndim = ndim };
  for (int d = 0, rest = 0; d < ndim; d++) { /* dimensions that are not listed keep their order */
    if (to >> d & 1) continue;
    while (from >> rest & 1) rest++;
    dims.dim[d] = rest++;
  }
  for (int k = 0; k < source.ndim && ndim; k++)
    dims.dim[destination.dim[k] < 0 ? destination.dim[k] + ndim : destination.dim[k]] = source.dim[k];
  return situ_permute(input, dims);
}

situ_tensor *situ_unflatten(situ_tensor *input, int dim, situ_shape sizes) {
  SITU__MADE_OF_OPS("unflatten");
  const char *op = "unflatten";
  int d;
  if (!situ__need(op, "input", input) || !situ_wrap_dim(op, dim, input->view.ndim, &d)) return NULL;
  const int ndim = input->view.ndim;
  if (!ndim || sizes.ndim < 1 || sizes.ndim > SITU_MAX_DIMS + 1 - ndim)
    return situ__fail(SITU_E_ARG, op,
                      "%d sizes for a dimension of a tensor of %d: needs 1 or more, and at most %d in all", sizes.ndim,
                      ndim, SITU_MAX_DIMS),
           NULL;
  if (!situ__resolve_shape(op, &sizes, input->view.size[d])) return NULL;
  situ_shape shape = { .ndim = 0 };
  for (int k = 0; k < d; k++) shape.dim[shape.ndim++] = input->view.size[k];
  for (int k = 0; k < sizes.ndim; k++) shape.dim[shape.ndim++] = sizes.dim[k];
  for (int k = d + 1; k < ndim; k++) shape.dim[shape.ndim++] = input->view.size[k];
  return situ_view(input, shape);
}

/* ---- turning ---- */

static bool has_dims(const char *op, const situ_tensor *x, int least) {
  if (x->view.ndim >= least) return true;
  return situ__fail(SITU_E_SHAPE, op, "needs a tensor of at least %d dimensions, got %d", least, x->view.ndim), false;
}

situ_tensor *situ_fliplr(situ_tensor *input) {
  SITU__MADE_OF_OPS("fliplr");
  return situ__need("fliplr", "input", input) && has_dims("fliplr", input, 2) ? situ_flip(input, SITU_DIMS(1)) : NULL;
}

situ_tensor *situ_flipud(situ_tensor *input) {
  SITU__MADE_OF_OPS("flipud");
  return situ__need("flipud", "input", input) && has_dims("flipud", input, 1) ? situ_flip(input, SITU_DIMS(0)) : NULL;
}

situ_tensor *situ_rot90(situ_tensor *input, int64_t k, situ_shape dims) {
  SITU__MADE_OF_OPS("rot90");
  unsigned mask;
  if (!situ__need("rot90", "input", input) || !has_dims("rot90", input, 2) ||
      !situ__dim_mask("rot90", &dims, input->view.ndim, false, &mask))
    return NULL;
  if (dims.ndim != 2) return situ__fail(SITU_E_ARG, "rot90", "%d dimensions listed: a rotation has 2", dims.ndim), NULL;
  const int from = (int)dims.dim[0], to = (int)dims.dim[1];
  switch ((k % 4 + 4) % 4) {
  case 1: return situ_transpose(situ_flip(input, SITU_DIMS(to)), from, to);
  case 2: return situ_flip(input, dims);
  case 3: return situ_transpose(situ_flip(input, SITU_DIMS(from)), from, to);
  default: return situ_clone(input);
  }
}

/* A copy of y if it is a view of x: torch's result has memory of its own. */
static situ_tensor *own_memory(situ_tensor *y, const situ_tensor *x) {
  return y && y->view.storage == x->view.storage ? situ_clone(y) : y;
}

/* ---- repeating ---- */

situ_tensor *situ_tile(situ_tensor *input, situ_shape dims) {
  SITU__MADE_OF_OPS("tile");
  if (!situ__need("tile", "input", input)) return NULL;
  situ_shape repeats = dims;
  const int missing = dims.ndim < 0 ? 0 : input->view.ndim - dims.ndim;
  if (missing > 0) {
    repeats.ndim = input->view.ndim;
    for (int d = 0; d < repeats.ndim; d++) repeats.dim[d] = d < missing ? 1 : dims.dim[d - missing];
  }
  return situ_repeat(input, repeats);
}

/* The dimension that is listed; none: the flattened tensor's. */
static bool one_dim(const char *op, situ_tensor **x, const situ_shape *dim, int *out) {
  if (dim->ndim > 1 || dim->ndim < 0)
    return situ__fail(SITU_E_ARG, op, "%d dimensions listed: at most one", dim->ndim), false;
  if (!dim->ndim || !(*x)->view.ndim) *x = situ_reshape(*x, SITU_SHAPE(-1));
  return *x && situ_wrap_dim(op, dim->ndim ? dim->dim[0] : 0, (*x)->view.ndim, out);
}

situ_tensor *situ_repeat_interleave(situ_tensor *input, int64_t repeats, situ_shape dim) {
  SITU__MADE_OF_OPS("repeat_interleave");
  const char *op = "repeat_interleave";
  int d;
  if (!situ__need(op, "input", input) || !one_dim(op, &input, &dim, &d)) return NULL;
  situ_shape shape = situ__shape(&input->view);
  if (repeats < 0 || !situ__mul_i64(shape.dim[d], repeats, &shape.dim[d]))
    return situ__fail(repeats < 0 ? SITU_E_ARG : SITU_E_OVERFLOW, op, "%lld repeats of size %lld", (long long)repeats,
                      (long long)input->view.size[d]),
           NULL;
  int64_t outer = 1, inner = 1;
  for (int k = 0; k <= d; k++) outer *= input->view.size[k];
  for (int k = d + 1; k < shape.ndim; k++) inner *= shape.dim[k];
  situ_tensor *spread =
      situ_expand(situ_reshape(input, SITU_SHAPE(outer, 1, inner)), SITU_SHAPE(outer, repeats, inner));
  return own_memory(situ_reshape(spread, shape), input);
}

/* For each element of the result, whose it is: the first whose repeats end behind it. */
static situ_tensor *sources(const char *op, situ_tensor *repeats, int64_t size) {
  const situ_options integer = { .dtype = SITU_I64, .device = situ_device_of(repeats) };
  int64_t least = 0, total = 0;
  if (!size) return situ_zeros(SITU_SHAPE(0), &integer);
  repeats = situ_expand(situ_to_dtype(repeats, SITU_I64), SITU_SHAPE(size));
  situ_tensor *ends = situ_cumsum(repeats, 0);
  if (!ends || situ_item_i64(situ_select(ends, 0, size - 1), &total) != SITU_OK ||
      situ_item_i64(situ_amin(repeats, NULL), &least) != SITU_OK)
    return NULL;
  if (least < 0 || total < 0)
    return situ__fail(least < 0 ? SITU_E_ARG : SITU_E_OVERFLOW, op,
                      "repeats has %lld and adds up to %lld: none may be negative", (long long)least, (long long)total),
           NULL;
  return situ_searchsorted(ends, situ_arange(0, (double)total, 1, &integer), true);
}

situ_tensor *situ_repeat_interleave_tensor(situ_tensor *input, situ_tensor *repeats, situ_shape dim) {
  const char *op = "repeat_interleave_tensor";
  SITU__MADE_OF_OPS(op);
  static const situ_op schema = { .name = "repeat_interleave_tensor",
                                  .operand = { { "input", 0 }, { "repeats", SITU_INDEX } } };
  int d;
  if (!situ__together(&schema, (situ_tensor *[]){ input, repeats }, 2) || !one_dim(op, &input, &dim, &d)) return NULL;
  const int64_t size = input->view.size[d], count = repeats->view.numel;
  if (repeats->view.ndim > 1 || (count != 1 && count != size))
    return situ__fail(SITU_E_SHAPE, op,
                      "repeats has %d dimensions and %lld elements: one for each of %lld, or one for all",
                      repeats->view.ndim, (long long)count, (long long)size),
           NULL;
  if (input->view.storage->device.kind == SITU_META)
    return situ__fail(SITU_E_UNSUPPORTED, op, "the size depends on values, which a meta tensor does not have"), NULL;
  situ_tensor *index = sources(op, repeats, size);
  return index ? situ_index_select(input, d, index) : NULL;
}

/* ---- pixels: blocks of channels become blocks of pixels, and back ---- */

static bool fits_blocks(const char *op, const situ_tensor *x, int64_t factor, bool up, situ_shape *shape) {
  int64_t area;
  if (!has_dims(op, x, 3)) return false;
  *shape = situ__shape(&x->view);
  const int64_t *last = shape->dim + shape->ndim - 3;
  if (factor < 1 || !situ__mul_i64(factor, factor, &area))
    return situ__fail(SITU_E_ARG, op, "a factor of %lld: must be positive, and its square below 2^63",
                      (long long)factor),
           false;
  if (up ? last[0] % area == 0 : last[1] % factor == 0 && last[2] % factor == 0) return true;
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op,
                    up ? "channels of %s do not divide by %lld" : "height and width of %s do not divide by %lld",
                    situ_shape_text(shape, text), (long long)(up ? area : factor)),
         false;
}

situ_tensor *situ_pixel_shuffle(situ_tensor *input, int64_t upscale_factor) {
  SITU__MADE_OF_OPS("pixel_shuffle");
  const int64_t r = upscale_factor;
  situ_shape shape;
  if (!situ__need("pixel_shuffle", "input", input) || !fits_blocks("pixel_shuffle", input, r, true, &shape))
    return NULL;
  int64_t *last = shape.dim + shape.ndim - 3, batch = 1;
  for (int d = 0; d < shape.ndim - 3; d++) batch *= shape.dim[d];
  const situ_shape blocks = SITU_SHAPE(batch, last[0] / (r * r), r, r, last[1], last[2]);
  last[0] /= r * r;
  if (!situ__mul_i64(last[1], r, &last[1]) || !situ__mul_i64(last[2], r, &last[2]))
    return situ__fail(SITU_E_OVERFLOW, "pixel_shuffle", "more than 2^63 pixels"), NULL;
  return own_memory(situ_reshape(situ_permute(situ_reshape(input, blocks), SITU_DIMS(0, 1, 4, 2, 5, 3)), shape), input);
}

situ_tensor *situ_pixel_unshuffle(situ_tensor *input, int64_t downscale_factor) {
  SITU__MADE_OF_OPS("pixel_unshuffle");
  const int64_t r = downscale_factor;
  situ_shape shape;
  if (!situ__need("pixel_unshuffle", "input", input) || !fits_blocks("pixel_unshuffle", input, r, false, &shape))
    return NULL;
  int64_t *last = shape.dim + shape.ndim - 3, batch = 1;
  for (int d = 0; d < shape.ndim - 3; d++) batch *= shape.dim[d];
  const situ_shape blocks = SITU_SHAPE(batch, last[0], last[1] / r, r, last[2] / r, r);
  if (!situ__mul_i64(last[0], r * r, &last[0]))
    return situ__fail(SITU_E_OVERFLOW, "pixel_unshuffle", "more than 2^63 channels"), NULL;
  last[1] /= r;
  last[2] /= r;
  return own_memory(situ_reshape(situ_permute(situ_reshape(input, blocks), SITU_DIMS(0, 1, 3, 5, 2, 4)), shape), input);
}
