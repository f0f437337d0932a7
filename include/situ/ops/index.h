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
/** A copy of input with alpha * slices of src added at index (1-D; of a 0-dim input one element) along dim. torch's
    default alpha is 1; 0 is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_index_add(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src,
                                                  double alpha);
/** situ_scatter in place; returns input. */
SITU_API situ_tensor *situ_scatter_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src);
/** situ_scatter_add in place; returns input. */
SITU_API situ_tensor *situ_scatter_add_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src);
/** situ_index_add in place; returns input. */
SITU_API situ_tensor *situ_index_add_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src, double alpha);

/** A copy of input with slices of src at index (1-D; of a 0-dim input one element) along dim. Of several writes to one
    place the last counts. */
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
/** situ_index_put in place; returns input. An index that shares input's memory is read before it is written. */
SITU_API situ_tensor *situ_index_put_(situ_tensor *input, situ_tensor *const *indices, int count, situ_tensor *values,
                                      bool accumulate);

/** What situ_scatter_reduce and situ_index_reduce make of the elements of one place. */
typedef enum situ_scatter_reduction {
  SITU_SCATTER_SUM = 0,
  SITU_SCATTER_PROD,
  SITU_SCATTER_MEAN, /**< of integer dtypes: rounded down */
  SITU_SCATTER_AMAX,
  SITU_SCATTER_AMIN
} situ_scatter_reduction;
/** A copy of input in which each place along dim that index names has the reduction of the elements of src that index
    sends there, with include_self of input's element too. Other places keep input's element. src has input's dtype (not
    bool), index's rank, and at least index's sizes. torch's default include_self is true. */
SITU_API SITU_CHECKED situ_tensor *situ_scatter_reduce(situ_tensor *input, int dim, situ_tensor *index,
                                                       situ_tensor *src, situ_scatter_reduction reduce,
                                                       bool include_self);
/** situ_scatter_reduce in place; waits for the device; returns input. */
SITU_API situ_tensor *situ_scatter_reduce_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *src,
                                           situ_scatter_reduction reduce, bool include_self);
/** situ_scatter_reduce of slices: index is 1-D, and source has input's shape but along dim, where it has index's. */
SITU_API SITU_CHECKED situ_tensor *situ_index_reduce(situ_tensor *input, int dim, situ_tensor *index,
                                                     situ_tensor *source, situ_scatter_reduction reduce,
                                                     bool include_self);
/** situ_index_reduce in place; waits for the device; returns input. */
SITU_API situ_tensor *situ_index_reduce_(situ_tensor *input, int dim, situ_tensor *index, situ_tensor *source,
                                         situ_scatter_reduction reduce, bool include_self);

/** Elements of input as if it were 1-D, in index's shape; negative indices count from the end. */
SITU_API SITU_CHECKED situ_tensor *situ_take(situ_tensor *input, situ_tensor *index);
/** A copy of input in which situ_take(input, index) is source, which has index's number of elements and input's dtype.
    accumulate: source is added; otherwise the last of several counts. */
SITU_API SITU_CHECKED situ_tensor *situ_put(situ_tensor *input, situ_tensor *index, situ_tensor *source,
                                            bool accumulate);
/** situ_put in place; waits for the device; returns input. */
SITU_API situ_tensor *situ_put_(situ_tensor *input, situ_tensor *index, situ_tensor *source, bool accumulate);
/** input, in which the k-th element where mask (bool, broadcast with input) is true is the k-th of source (input's
    dtype). Fewer elements of source than true ones are SITU_E_INDEX. */
SITU_API SITU_CHECKED situ_tensor *situ_masked_scatter(situ_tensor *input, situ_tensor *mask, situ_tensor *source);
/** situ_masked_scatter in place; waits for the device; returns input. */
SITU_API situ_tensor *situ_masked_scatter_(situ_tensor *input, situ_tensor *mask, situ_tensor *source);
/** A copy of input in which situ_slice(input, dim, start, end, step) is src, of that shape and input's dtype. */
SITU_API SITU_CHECKED situ_tensor *situ_slice_scatter(situ_tensor *input, situ_tensor *src, int dim, int64_t start,
                                                      int64_t end, int64_t step);
/** A copy of input in which situ_select(input, dim, index) is src, of that shape and input's dtype. */
SITU_API SITU_CHECKED situ_tensor *situ_select_scatter(situ_tensor *input, situ_tensor *src, int dim, int64_t index);
/** A copy of input in which situ_diagonal(input, offset, dim1, dim2) is src, of that shape and input's dtype. torch's
    defaults are offset 0, dim1 0, dim2 1. */
SITU_API SITU_CHECKED situ_tensor *situ_diagonal_scatter(situ_tensor *input, situ_tensor *src, int64_t offset, int dim1,
                                                         int dim2);

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
/** The distinct slices along dim, in ascending order of their elements, the first one first. *inverse_indices gets the
    place of each slice among them, *counts how often each occurs, both 1-D. As situ_unique; sorts once for each element
    of a slice. */
SITU_API SITU_CHECKED situ_tensor *situ_unique_dim(situ_tensor *input, int dim, situ_tensor **inverse_indices,
                                                   situ_tensor **counts);
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
  size_t size;          /**< of this struct; from situ_embedding_defaults(), as the other defaults */
  bool has_padding_idx; /**< row padding_idx gets no gradient */
  int64_t padding_idx;  /**< negative counts from the end; without has_padding_idx it must be 0 (SITU_E_ARG) */
  double max_norm;      /**< rows that input names are scaled to at most this norm, in weight itself; SITU_NONE, torch's
                                default: none */
  double norm_type;     /**< the p of that norm; torch's default is 2 */
  bool scale_grad_by_freq; /**< a row's gradient is divided by the number of times that input names it */
} situ_embedding_options;
/** torch's defaults. */
static inline situ_embedding_options situ_embedding_defaults(void) {
  situ_embedding_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.max_norm = SITU_NONE;
  o.norm_type = 2;
  return o;
}
/** Rows of weight [vocabulary, width] by the indices in input: [..., width]. With max_norm weight is floating, and is
    written without being recorded, as in torch: a backward through a call before, which saved its values, is then
    refused. */
SITU_API SITU_CHECKED situ_tensor *situ_embedding(situ_tensor *input, situ_tensor *weight,
                                                  const situ_embedding_options *options);

typedef enum situ_embedding_bag_mode {
  SITU_EMBEDDING_BAG_MEAN, /**< torch's default */
  SITU_EMBEDDING_BAG_SUM,
  SITU_EMBEDDING_BAG_MAX /**< NaN is the largest; of equal elements the first gets the gradient */
} situ_embedding_bag_mode;
typedef struct situ_embedding_bag_options {
  size_t size; /**< of this struct; from situ_embedding_bag_defaults(), as the other defaults */
  situ_tensor
      *offsets; /**< i64 or i32 [bags], where each begins: from 0, not decreasing. NULL: input has a bag a row */
  situ_tensor *per_sample_weights; /**< input's shape, weight's dtype: a factor of each row. Sums only; or NULL */
  situ_embedding_bag_mode mode;
  bool include_last_offset; /**< the last offset is the end of the last bag; what follows it is in none */
  bool has_padding_idx;     /**< index padding_idx is not in its bag, whose size is without it */
  int64_t padding_idx;      /**< as for situ_embedding, with the next two */
  double max_norm;
  double norm_type;
  bool scale_grad_by_freq; /**< not for maxima */
} situ_embedding_bag_options;
/** torch's defaults. */
static inline situ_embedding_bag_options situ_embedding_bag_defaults(void) {
  situ_embedding_bag_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.max_norm = SITU_NONE;
  o.norm_type = 2;
  return o;
}
/** Means, sums or maxima of the rows of weight [vocabulary, width] that a bag of indices names: [bags, width]; 0 for an
    empty bag. input is [n] with offsets, or [bags, entries]. An offset outside 0..n or below the one before it is
    SITU_E_INDEX (the latter as an index below 0): at once on cpu, with the next wait on a device. */
SITU_API SITU_CHECKED situ_tensor *situ_embedding_bag(situ_tensor *input, situ_tensor *weight,
                                                      const situ_embedding_bag_options *options);
/** i64 [..., num_classes]; num_classes < 0: largest index + 1 (waits for the device). */
SITU_API SITU_CHECKED situ_tensor *situ_one_hot(situ_tensor *input, int64_t num_classes);

SITU_END
#endif
