/* Indexing: picking and placing elements. Indices are i64 or i32 tensors on input's device; a negative index, or one
   past the end, is SITU_E_INDEX.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_INDEX_H
#define SITU_OPS_INDEX_H

#include "../tensor.h"

SITU_BEGIN

/** Slices of input along dim, in index's order (1-D). */
SITU_API SITU_CHECKED situ_tensor *situ_index_select(situ_tensor *input, int dim, situ_tensor *index);
/** out[i][j] = input[index[i][j]][j] for dim 0; index has input's rank, and is no larger outside dim. */
SITU_API SITU_CHECKED situ_tensor *situ_gather(situ_tensor *input, int dim, situ_tensor *index);
/** situ_gather after both have been broadcast to each other, except along dim (numpy's rule). */
SITU_API SITU_CHECKED situ_tensor *situ_take_along_dim(situ_tensor *input, situ_tensor *index, int dim);
/** A copy of input with src written at index along dim. Of several writes to one place the last counts. src has input's
    dtype, index's rank, and at least index's sizes. */
SITU_API SITU_CHECKED situ_tensor *situ_scatter(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src);
/** situ_scatter of one number. */
SITU_API SITU_CHECKED situ_tensor *situ_scatter_value(situ_tensor *input, int dim, situ_tensor *index, double value);
/** situ_scatter that adds src instead of writing it. */
SITU_API SITU_CHECKED situ_tensor *situ_scatter_add(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src);
/** A copy of input with alpha * slices of src added at index (1-D) along dim. torch's default alpha is 1; 0 is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_index_add(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src,
                                                  double alpha);
/** situ_scatter in place; returns input. */
SITU_API situ_tensor *situ_scatter_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src);
/** situ_scatter_add in place; returns input. */
SITU_API situ_tensor *situ_scatter_add_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src);
/** situ_index_add in place; returns input. */
SITU_API situ_tensor *situ_index_add_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src, double alpha);

/** A copy of input with slices of src at index (1-D) along dim. Of several writes to one place the last counts. */
SITU_API SITU_CHECKED situ_tensor *situ_index_copy(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src);
/** situ_index_copy in place; returns input. */
SITU_API situ_tensor *situ_index_copy_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src);
/** A copy of input with value in the slices at index (1-D) along dim. */
SITU_API SITU_CHECKED situ_tensor *situ_index_fill(situ_tensor *input, int dim, situ_tensor *index, double value);
/** situ_index_fill in place; returns input. */
SITU_API situ_tensor *situ_index_fill_(situ_tensor *input, int dim, situ_tensor *index, double value);

/** input[indices[0], indices[1], ...] with `count` indices, at most one for each dimension: i64 or i32, which are
    broadcast to each other and may be negative, or NULL for all of a dimension; a bool mask stands for as many
    dimensions as it has. The indices' dimensions take the place of the indexed ones; if those are not adjacent, they
    come first, as in torch:

        situ_index(x, (situ_tensor *[]){ NULL, i }, 2)      x[:, i]

    An index out of range is SITU_E_INDEX: at once on cpu, with the next wait on a device, which gives a position in the
    merged dimensions. A mask waits for the device, and is SITU_E_UNSUPPORTED on meta. */
SITU_API SITU_CHECKED situ_tensor *situ_index(situ_tensor *input, situ_tensor *const *indices, int count);
/** A copy of input in which situ_index(input, indices, count) is values (input's dtype, broadcast to it). accumulate:
    values are added, to one place as often as it is named; otherwise the last of several counts. */
SITU_API SITU_CHECKED situ_tensor *situ_index_put(situ_tensor *input, situ_tensor *const *indices, int count,
                                                  situ_tensor *values, bool accumulate);
/** situ_index_put in place; returns input. */
SITU_API situ_tensor *situ_index_put_(situ_tensor *input, situ_tensor *const *indices, int count, situ_tensor *values,
                                      bool accumulate);

/** value where mask (bool, broadcastable to input) is true, else input. */
SITU_API SITU_CHECKED situ_tensor *situ_masked_fill(situ_tensor *input, situ_tensor *mask, double value);
/** situ_masked_fill in place; returns input. */
SITU_API situ_tensor *situ_masked_fill_(situ_tensor *input, situ_tensor *mask, double value);
/** The elements where mask (bool, broadcast with input) is true, 1-D. Waits for the device: the size depends on values.
    On meta it is SITU_E_UNSUPPORTED. */
SITU_API SITU_CHECKED situ_tensor *situ_masked_select(situ_tensor *input, situ_tensor *mask);
/** Indices of the elements that are not 0: [count, input's ndim], i64. Waits for the device; on meta it is
    SITU_E_UNSUPPORTED. */
SITU_API SITU_CHECKED situ_tensor *situ_nonzero(situ_tensor *input);

/* Searching and counting. Results have no gradient. */

/** For each of values the place in sorted_sequence, i64, before which it would be inserted: before equal elements, or
    with right after them. sorted_sequence is ascending along its last dimension and 1-D, or of values' shape but for
    that dimension; one dtype. */
SITU_API SITU_CHECKED situ_tensor *situ_searchsorted(situ_tensor *sorted_sequence, situ_tensor *values, bool right);
/** situ_searchsorted of input in boundaries (1-D). */
SITU_API SITU_CHECKED situ_tensor *situ_bucketize(situ_tensor *input, situ_tensor *boundaries, bool right);
/** For each of elements whether it is (with invert: is not) among test_elements, as bool. Dtypes promote. */
SITU_API SITU_CHECKED situ_tensor *situ_isin(situ_tensor *elements, situ_tensor *test_elements, bool invert);
/** The distinct elements, ascending, 1-D. *inverse_indices gets the place of each element among them, in input's
    shape, *counts how often each occurs, both i64 (each may be NULL). Waits for the device; on meta it is
    SITU_E_UNSUPPORTED. */
SITU_API SITU_CHECKED situ_tensor *situ_unique(situ_tensor *input, situ_tensor **inverse_indices, situ_tensor **counts);
/** situ_unique of runs: the first of each run of equal elements of the flattened input, in their order. */
SITU_API SITU_CHECKED situ_tensor *situ_unique_consecutive(situ_tensor *input, situ_tensor **inverse_indices,
                                                           situ_tensor **counts);
/** How often each of 0, 1, ... occurs in input (1-D, an integer dtype, none negative), i64, of at least minlength
    elements; with weights (1-D, may be NULL) their sums, f32 if weights are, else f64. Waits for the device; on meta
    it is SITU_E_UNSUPPORTED. */
SITU_API SITU_CHECKED situ_tensor *situ_bincount(situ_tensor *input, situ_tensor *weights, int64_t minlength);
/** How many elements lie in each of `bins` equal parts of [min, max], in input's dtype (floating); min equal to max: of
    the smallest to the largest element, which waits for the device. torch's defaults are 100, 0 and 0. */
SITU_API SITU_CHECKED situ_tensor *situ_histc(situ_tensor *input, int64_t bins, double min, double max);

typedef struct situ_embedding_options {
  bool has_padding_idx; /**< row padding_idx gets no gradient */
  int64_t padding_idx;  /**< negative counts from the end */
} situ_embedding_options;
/** Rows of weight [vocabulary, width] by the indices in input: [..., width]. */
SITU_API SITU_CHECKED situ_tensor *situ_embedding(situ_tensor *input, situ_tensor *weight,
                                                  const situ_embedding_options *options);
/** i64 [..., num_classes]; num_classes < 0: largest index + 1 (waits for the device). */
SITU_API SITU_CHECKED situ_tensor *situ_one_hot(situ_tensor *input, int64_t num_classes);

SITU_END
#endif
