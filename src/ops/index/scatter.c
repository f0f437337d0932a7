/* Elements and parts of a tensor written into a copy of it: masked_scatter, put, slice_scatter and relatives; take.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

situ_tensor *situ__write(situ_tensor *x, situ_tensor *y) {
  return y && situ_synchronize(x->view.storage->device) == SITU_OK ? situ_copy_(x, y) : NULL;
}

/* ---- masked_scatter: the k-th true of the mask takes the k-th element of source ---- */

/* An empty source has no elements to stand in where the mask is false: it is right only if the mask is true nowhere. */
static situ_tensor *unless_any(const char *op, situ_tensor *x, situ_tensor *mask) {
  int64_t any = 0;
  if (situ_numel(mask) && situ_item_i64(situ_any(mask, NULL), &any) != SITU_OK) return NULL;
  if (!any) return situ_clone(x);
  return situ__fail(SITU_E_INDEX, op, "source is empty, but mask is true somewhere"), NULL;
}

static situ_tensor *masked_scatter(const char *op, situ_tensor *x, situ_tensor *mask, situ_tensor *source) {
  const situ_op schema = { .name = op,
                           .operand = { { "input", SITU_SAME }, { "mask", SITU_BOOLEAN }, { "source", SITU_SAME } } };
  if (!situ__together(&schema, (situ_tensor *[]){ x, mask, source }, 3)) return NULL;
  situ_shape both = situ__shape(&x->view), own = situ__shape(&mask->view);
  if (!situ_shape_broadcast(op, &both, &own)) return NULL;
  x = situ_expand(x, both);
  mask = situ_expand(mask, both);
  if (!source->view.numel) return x && mask ? unless_any(op, x, mask) : NULL;
  situ_tensor *flat = situ_reshape(mask, SITU_SHAPE(-1));
  situ_tensor *place = situ_mul(situ_sub_scalar(situ_cumsum(flat, 0), 1), flat);
  situ_tensor *values = situ_index_select(situ_reshape(source, SITU_SHAPE(-1)), 0, place);
  return situ_where(mask, situ_reshape(values, both), x);
}
situ_tensor *situ_masked_scatter(situ_tensor *input, situ_tensor *mask, situ_tensor *source) {
  SITU__MADE_OF_OPS("masked_scatter");
  return masked_scatter("masked_scatter", input, mask, source);
}
situ_tensor *situ_masked_scatter_(situ_tensor *input, situ_tensor *mask, situ_tensor *source) {
  SITU__MADE_OF_OPS("masked_scatter_");
  return situ__write(input, masked_scatter("masked_scatter_", input, mask, source));
}

/* ---- parts: written through a view of a copy ---- */

static situ_tensor *copy_for_part(const char *op, situ_tensor *x, situ_tensor *src) {
  const situ_op schema = { .name = op, .operand = { { "input", SITU_SAME }, { "src", SITU_SAME } } };
  return situ__together(&schema, (situ_tensor *[]){ x, src }, 2) ? situ_clone(x) : NULL;
}
static situ_tensor *with_part(const char *op, situ_tensor *y, situ_tensor *part, situ_tensor *src) {
  if (!y || !part) return NULL;
  const situ_shape want = situ__shape(&part->view), own = situ__shape(&src->view);
  if (situ_shape_equal(&want, &own)) return situ_copy_(part, src) ? y : NULL;
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "src is %s, the part that it replaces %s: they must be equal",
                    situ_shape_text(&own, a), situ_shape_text(&want, b)),
         NULL;
}

situ_tensor *situ_slice_scatter(situ_tensor *input, situ_tensor *src, int dim, int64_t start, int64_t end,
                                int64_t step) {
  SITU__MADE_OF_OPS("slice_scatter");
  situ_tensor *y = copy_for_part("slice_scatter", input, src);
  return y ? with_part("slice_scatter", y, situ_slice(y, dim, start, end, step), src) : NULL;
}
situ_tensor *situ_select_scatter(situ_tensor *input, situ_tensor *src, int dim, int64_t index) {
  SITU__MADE_OF_OPS("select_scatter");
  situ_tensor *y = copy_for_part("select_scatter", input, src);
  return y ? with_part("select_scatter", y, situ_select(y, dim, index), src) : NULL;
}
situ_tensor *situ_diagonal_scatter(situ_tensor *input, situ_tensor *src, int64_t offset, int dim1, int dim2) {
  SITU__MADE_OF_OPS("diagonal_scatter");
  situ_tensor *y = copy_for_part("diagonal_scatter", input, src);
  return y ? with_part("diagonal_scatter", y, situ_diagonal(y, offset, dim1, dim2), src) : NULL;
}

/* ---- elements of the tensor as a line ---- */

situ_tensor *situ_take(situ_tensor *input, situ_tensor *index) {
  SITU__MADE_OF_OPS("take");
  static const situ_op schema = { .name = "take", .operand = { { "input", 0 }, { "index", SITU_INDEX } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, index }, 2)) return NULL;
  return situ_index(situ_reshape(input, SITU_SHAPE(-1)), &index, 1);
}

static situ_tensor *put(const char *op, situ_tensor *x, situ_tensor *index, situ_tensor *source, bool accumulate) {
  const situ_op schema = { .name = op,
                           .operand = { { "input", SITU_SAME }, { "index", SITU_INDEX }, { "source", SITU_SAME } } };
  if (!situ__together(&schema, (situ_tensor *[]){ x, index, source }, 3)) return NULL;
  if (index->view.numel != source->view.numel)
    return situ__fail(SITU_E_SHAPE, op, "index has %lld elements, source %lld: they must be equal",
                      (long long)index->view.numel, (long long)source->view.numel),
           NULL;
  index = situ_reshape(index, SITU_SHAPE(-1));
  source = situ_reshape(source, SITU_SHAPE(-1));
  return situ_reshape(situ_index_put(situ_reshape(x, SITU_SHAPE(-1)), &index, 1, source, accumulate),
                      situ__shape(&x->view));
}
situ_tensor *situ_put(situ_tensor *input, situ_tensor *index, situ_tensor *source, bool accumulate) {
  SITU__MADE_OF_OPS("put");
  return put("put", input, index, source, accumulate);
}
situ_tensor *situ_put_(situ_tensor *input, situ_tensor *index, situ_tensor *source, bool accumulate) {
  SITU__MADE_OF_OPS("put_");
  return situ__write(input, put("put_", input, index, source, accumulate));
}
