/* Picking and placing elements by index. Indices are i64 or i32 tensors on x's device; negative ones are refused.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_INDEX_H
#define SITU_OPS_INDEX_H

#include "../tensor.h"

SITU_BEGIN

/** Rows of x along dim, in index's order (1-D). */
SITU_API SITU_CHECKED situ_tensor *situ_index_select(situ_tensor *x, int dim, situ_tensor *index);
/** out[i][j] = x[index[i][j]][j] for dim 0. */
SITU_API SITU_CHECKED situ_tensor *situ_gather(situ_tensor *x, int dim, situ_tensor *index);
SITU_API SITU_CHECKED situ_tensor *situ_take_along_dim(situ_tensor *x, situ_tensor *index, int dim);
/** A copy of x with src written (added) at index along dim. Of several writes to one place the last counts. */
SITU_API SITU_CHECKED situ_tensor *situ_scatter(situ_tensor *x, int dim, situ_tensor *index, situ_tensor *src);
SITU_API SITU_CHECKED situ_tensor *situ_scatter_value(situ_tensor *x, int dim, situ_tensor *index, double value);
SITU_API SITU_CHECKED situ_tensor *situ_scatter_add(situ_tensor *x, int dim, situ_tensor *index, situ_tensor *src);
/** A copy of x with alpha * rows of src added at index (1-D) along dim. */
SITU_API SITU_CHECKED situ_tensor *situ_index_add(situ_tensor *x, int dim, situ_tensor *index, situ_tensor *src,
                                                  double alpha);
SITU_API situ_tensor *situ_scatter_(situ_tensor *x, int dim, situ_tensor *index, situ_tensor *src);
SITU_API situ_tensor *situ_scatter_add_(situ_tensor *x, int dim, situ_tensor *index, situ_tensor *src);
SITU_API situ_tensor *situ_index_add_(situ_tensor *x, int dim, situ_tensor *index, situ_tensor *src, double alpha);

/** value where mask (bool, broadcastable to x) is true. */
SITU_API SITU_CHECKED situ_tensor *situ_masked_fill(situ_tensor *x, situ_tensor *mask, double value);
SITU_API situ_tensor *situ_masked_fill_(situ_tensor *x, situ_tensor *mask, double value);
/** The elements where mask is true, 1-D. Waits for the device: the size depends on values. */
SITU_API SITU_CHECKED situ_tensor *situ_masked_select(situ_tensor *x, situ_tensor *mask);
/** Where x is not 0: [count, x's ndim], i64. Waits for the device. */
SITU_API SITU_CHECKED situ_tensor *situ_nonzero(situ_tensor *x);

typedef struct situ_embedding_options {
  bool has_padding_idx; /**< rows padding_idx get no gradient */
  int64_t padding_idx;
} situ_embedding_options;
/** Rows of weight [vocabulary, width] by the indices in input: [..., width]. */
SITU_API SITU_CHECKED situ_tensor *situ_embedding(situ_tensor *input, situ_tensor *weight,
                                                  const situ_embedding_options *options);
/** i64 [..., num_classes]; num_classes < 0: largest index + 1 (waits for the device). */
SITU_API SITU_CHECKED situ_tensor *situ_one_hot(situ_tensor *input, int64_t num_classes);

SITU_END
#endif
