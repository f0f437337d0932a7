/* Shapes: views where possible, copies where not; conversion between dtypes and devices.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_SHAPE_H
#define SITU_OPS_SHAPE_H

#include "../tensor.h"

SITU_BEGIN

/* ---- views: same storage, no copy ---- */

/** The same elements in another shape; one size may be -1, inferred from the rest. Copies if strides require it. */
SITU_API SITU_CHECKED situ_tensor *situ_reshape(situ_tensor *input, situ_shape shape);
/** situ_reshape without a copy: strides that would require one are SITU_E_SHAPE. */
SITU_API SITU_CHECKED situ_tensor *situ_view(situ_tensor *input, situ_shape shape);
/** Merges dimensions start_dim..end_dim, both included; torch's defaults are 0 and -1. Copies as situ_reshape does. */
SITU_API SITU_CHECKED situ_tensor *situ_flatten(situ_tensor *input, int start_dim, int end_dim);
/** Drops the listed dimensions that have size 1; none listed: every such dimension. */
SITU_API SITU_CHECKED situ_tensor *situ_squeeze(situ_tensor *input, situ_shape dims);
/** Inserts a dimension of size 1 before dim; -1 appends it. */
SITU_API SITU_CHECKED situ_tensor *situ_unsqueeze(situ_tensor *input, int dim);
/** Reorders the dimensions: result dimension i is input's dims[i]. */
SITU_API SITU_CHECKED situ_tensor *situ_permute(situ_tensor *input, situ_shape dims);
/** Swaps two dimensions. */
SITU_API SITU_CHECKED situ_tensor *situ_transpose(situ_tensor *input, int dim0, int dim1);
/** Broadcasts to shape, with strides of 0; -1 keeps a size. */
SITU_API SITU_CHECKED situ_tensor *situ_expand(situ_tensor *input, situ_shape shape);
/** Elements start..start+length-1 of dim; outside it is SITU_E_INDEX. */
SITU_API SITU_CHECKED situ_tensor *situ_narrow(situ_tensor *input, int dim, int64_t start, int64_t length);
/** One index of dim, which is dropped; outside it is SITU_E_INDEX. */
SITU_API SITU_CHECKED situ_tensor *situ_select(situ_tensor *input, int dim, int64_t index);
/** input[..., start:end:step, ...]; bounds are clamped as in Python; step > 0. INT64_MAX: to the end. */
SITU_API SITU_CHECKED situ_tensor *situ_slice(situ_tensor *input, int dim, int64_t start, int64_t end, int64_t step);
/** Sizes and strides as given, from the storage offset (in elements); must stay inside the storage. */
SITU_API SITU_CHECKED situ_tensor *situ_as_strided(situ_tensor *input, situ_shape size, situ_shape stride,
                                                   int64_t storage_offset);

/* Pieces: views, written to out[]. *count is the capacity of out, and becomes the number of pieces; a capacity that is
   too small is SITU_E_ARG. */

/** Pieces of split_size along dim, the last one smaller if it must be. */
SITU_API SITU_CHECKED situ_status situ_split(situ_tensor *input, int64_t split_size, int dim, situ_tensor **out,
                                             int *count);
/** Pieces of the listed sizes (at most SITU_MAX_DIMS), which add up to input's size at dim. */
SITU_API SITU_CHECKED situ_status situ_split_sizes(situ_tensor *input, situ_shape split_sizes, int dim,
                                                   situ_tensor **out, int *count);
/** At most `chunks` pieces of equal size along dim, the last one smaller if it must be. */
SITU_API SITU_CHECKED situ_status situ_chunk(situ_tensor *input, int64_t chunks, int dim, situ_tensor **out,
                                             int *count);
/** One piece for each index of dim, which is dropped. */
SITU_API SITU_CHECKED situ_status situ_unbind(situ_tensor *input, int dim, situ_tensor **out, int *count);

/* ---- copies ---- */

/** Concatenates along dim; all other sizes must be equal. Dtypes promote. */
SITU_API SITU_CHECKED situ_tensor *situ_cat(situ_tensor *const *tensors, int count, int dim);
/** Concatenates along a new dimension dim; all shapes must be equal. */
SITU_API SITU_CHECKED situ_tensor *situ_stack(situ_tensor *const *tensors, int count, int dim);
/** Reverses the listed dimensions. A copy, as in torch. */
SITU_API SITU_CHECKED situ_tensor *situ_flip(situ_tensor *input, situ_shape dims);
/** Shifts cyclically by shifts[i] along dims[i]; no dims and one shift: the flattened tensor. */
SITU_API SITU_CHECKED situ_tensor *situ_roll(situ_tensor *input, situ_shape shifts, situ_shape dims);
/** Tiles input repeats[i] times along dimension i; repeats has at least input's rank. */
SITU_API SITU_CHECKED situ_tensor *situ_repeat(situ_tensor *input, situ_shape repeats);

typedef enum situ_pad_mode {
  SITU_PAD_CONSTANT = 0,
  SITU_PAD_REFLECT,
  SITU_PAD_REPLICATE,
  SITU_PAD_CIRCULAR
} situ_pad_mode;
/** F.pad: pad lists (before, after) pairs from the last dimension backwards; negative crops. value: constant mode only.
    */
SITU_API SITU_CHECKED situ_tensor *situ_pad(situ_tensor *input, situ_shape pad, situ_pad_mode mode, double value);

/** input itself if it is contiguous, else a contiguous copy. */
SITU_API SITU_CHECKED situ_tensor *situ_contiguous(situ_tensor *input);
/** A contiguous copy. The gradient flows back to input. */
SITU_API SITU_CHECKED situ_tensor *situ_clone(situ_tensor *input);
/** Writes src (broadcast, cast) into input and returns input. Both on one device: situ_to copies between devices. */
SITU_API situ_tensor *situ_copy_(situ_tensor *input, situ_tensor *src);

/** A copy on another device; input itself if it is there already. input stays where it is: situ_to_ moves it. */
SITU_API SITU_CHECKED situ_tensor *situ_to(situ_tensor *input, situ_device device);
/** A copy in another dtype; input itself if it has it already. */
SITU_API SITU_CHECKED situ_tensor *situ_to_dtype(situ_tensor *input, situ_dtype dtype);

SITU_END
#endif
