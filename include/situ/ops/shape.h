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

/** Swaps two dimensions: situ_transpose by numpy's name. */
SITU_API SITU_CHECKED situ_tensor *situ_swapaxes(situ_tensor *input, int axis0, int axis1);
/** Moves dimension source[i] to position destination[i]; the others keep their order. */
SITU_API SITU_CHECKED situ_tensor *situ_movedim(situ_tensor *input, situ_shape source, situ_shape destination);
/** Splits dimension dim into the listed sizes, of which one may be -1. */
SITU_API SITU_CHECKED situ_tensor *situ_unflatten(situ_tensor *input, int dim, situ_shape sizes);
/** The elements where index dim2 = index dim1 + offset, as a new last dimension in place of the two. torch's defaults
    are 0, 0 and 1; an offset outside gives an empty tensor. */
SITU_API SITU_CHECKED situ_tensor *situ_diagonal(situ_tensor *input, int64_t offset, int dim1, int dim2);
/** At least one dimension: a 0-dim tensor becomes [1], any other is returned itself. */
SITU_API SITU_CHECKED situ_tensor *situ_atleast_1d(situ_tensor *input);
/** At least two dimensions: [n] becomes [1, n]. */
SITU_API SITU_CHECKED situ_tensor *situ_atleast_2d(situ_tensor *input);
/** At least three dimensions: [n] becomes [1, n, 1], [n, m] becomes [n, m, 1]. */
SITU_API SITU_CHECKED situ_tensor *situ_atleast_3d(situ_tensor *input);

/** How situ_meshgrid arranges its results; with XY the first two dimensions are swapped. */
typedef enum situ_indexing { SITU_INDEXING_IJ = 0, SITU_INDEXING_XY } situ_indexing;
/** Coordinates of a grid: tensor i (0-dim or 1-D, all of one dtype) along dimension i of `count` results, which are
    views. out has capacity for `count`, at most SITU_MAX_DIMS; it may be tensors, but not overlap it otherwise
    (SITU_E_ALIAS). */
SITU_API SITU_CHECKED situ_status situ_meshgrid(situ_tensor *const *tensors, int count, situ_indexing indexing,
                                                situ_tensor **out);
/** Sets out[i] to a view of tensors[i] expanded to the shape that all broadcast to. out has capacity for `count`; it
    may be tensors, but not overlap it otherwise (SITU_E_ALIAS). */
SITU_API SITU_CHECKED situ_status situ_broadcast_tensors(situ_tensor *const *tensors, int count, situ_tensor **out);
/** All choices of r elements of input (1-D) in its order, as rows [count, r]; with_replacement: an element may be
    chosen again. torch's defaults are 2 and false. Memory grows with n^r. Waits for the device; on meta it is
    SITU_E_UNSUPPORTED. */
SITU_API SITU_CHECKED situ_tensor *situ_combinations(situ_tensor *input, int r, bool with_replacement);
/** All combinations of elements of `count` 1-D tensors of one dtype, as rows [product of sizes, count]; of one tensor
    itself. */
SITU_API SITU_CHECKED situ_tensor *situ_cartesian_prod(situ_tensor *const *tensors, int count);

/* Pieces: views, written to out[], which has `capacity` elements. Returns the number of pieces; -1 on error. A capacity
   that is too small is SITU_E_ARG, which names the number. out NULL with capacity 0: only returns the number. */

/** Pieces of split_size along dim, the last one smaller if it must be. */
SITU_API SITU_CHECKED int64_t situ_split(situ_tensor *input, int64_t split_size, int dim, situ_tensor **out,
                                         int64_t capacity);
/** Pieces of the listed sizes (at most SITU_MAX_DIMS), which add up to input's size at dim. */
SITU_API SITU_CHECKED int64_t situ_split_sizes(situ_tensor *input, situ_shape split_sizes, int dim, situ_tensor **out,
                                               int64_t capacity);
/** At most `chunks` pieces of equal size along dim, the last one smaller if it must be. */
SITU_API SITU_CHECKED int64_t situ_chunk(situ_tensor *input, int64_t chunks, int dim, situ_tensor **out,
                                         int64_t capacity);
/** `sections` pieces whose sizes differ by 1 at most, the larger ones first (torch.tensor_split). */
SITU_API SITU_CHECKED int64_t situ_tensor_split(situ_tensor *input, int64_t sections, int dim, situ_tensor **out,
                                                int64_t capacity);
/** Pieces that end before each of the indices, which count from the end if negative (torch.tensor_split with a list);
    the last piece is the rest. */
SITU_API SITU_CHECKED int64_t situ_tensor_split_indices(situ_tensor *input, situ_shape indices, int dim,
                                                        situ_tensor **out, int64_t capacity);
/** One piece for each index of dim, which is dropped. */
SITU_API SITU_CHECKED int64_t situ_unbind(situ_tensor *input, int dim, situ_tensor **out, int64_t capacity);

/* ---- copies ---- */

/** Concatenates along dim; all other sizes must be equal. Dtypes promote. */
SITU_API SITU_CHECKED situ_tensor *situ_cat(situ_tensor *const *tensors, int count, int dim);
/** Concatenates along a new dimension dim; all shapes must be equal. */
SITU_API SITU_CHECKED situ_tensor *situ_stack(situ_tensor *const *tensors, int count, int dim);
/** Joins columns: along dimension 1, after 0-dim and 1-D tensors have become columns [n, 1]. */
SITU_API SITU_CHECKED situ_tensor *situ_column_stack(situ_tensor *const *tensors, int count);
/** Joins side by side: along dimension 1, or 0 if the tensors are 1-D, after situ_atleast_1d. */
SITU_API SITU_CHECKED situ_tensor *situ_hstack(situ_tensor *const *tensors, int count);
/** Joins row by row: along dimension 0, after situ_atleast_2d. */
SITU_API SITU_CHECKED situ_tensor *situ_vstack(situ_tensor *const *tensors, int count);
/** Joins in depth: along dimension 2, after situ_atleast_3d. */
SITU_API SITU_CHECKED situ_tensor *situ_dstack(situ_tensor *const *tensors, int count);
/** A matrix with the tensors (at most 2-D; 0-dim and 1-D are one row) as blocks on its diagonal, 0 elsewhere. Dtypes
    promote. */
SITU_API SITU_CHECKED situ_tensor *situ_block_diag(situ_tensor *const *tensors, int count);
/** A 1-D input as a diagonal of a matrix of zeros, or a copy of a matrix's diagonal. torch's default diagonal is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_diag(situ_tensor *input, int64_t diagonal);
/** input's last dimension as the diagonal of new dimensions dim1 and dim2 of the result, 0 elsewhere. torch's defaults
    are 0, -2 and -1. */
SITU_API SITU_CHECKED situ_tensor *situ_diag_embed(situ_tensor *input, int64_t offset, int dim1, int dim2);
/** Reverses the listed dimensions. A copy, as in torch. */
SITU_API SITU_CHECKED situ_tensor *situ_flip(situ_tensor *input, situ_shape dims);
/** Shifts cyclically by shifts[i] along dims[i]; no dims and one shift: the flattened tensor. */
SITU_API SITU_CHECKED situ_tensor *situ_roll(situ_tensor *input, situ_shape shifts, situ_shape dims);
/** Tiles input repeats[i] times along dimension i; repeats has at least input's rank. */
SITU_API SITU_CHECKED situ_tensor *situ_repeat(situ_tensor *input, situ_shape repeats);

/** situ_repeat by numpy's rule: dims has one number for each of the last dimensions, the others are kept. */
SITU_API SITU_CHECKED situ_tensor *situ_tile(situ_tensor *input, situ_shape dims);
/** Repeats each element along dim (SITU_DIMS(1); none: of the flattened tensor) `repeats` times. */
SITU_API SITU_CHECKED situ_tensor *situ_repeat_interleave(situ_tensor *input, int64_t repeats, situ_shape dim);
/** Repeats each element along dim as often as repeats says: i64 or i32, one number for each or one for all, none
    negative. Waits for the device; on meta it is SITU_E_UNSUPPORTED. */
SITU_API SITU_CHECKED situ_tensor *situ_repeat_interleave_tensor(situ_tensor *input, situ_tensor *repeats,
                                                                 situ_shape dim);
/** Reverses dimension 1: left becomes right. At least 2 dimensions. */
SITU_API SITU_CHECKED situ_tensor *situ_fliplr(situ_tensor *input);
/** Reverses dimension 0: up becomes down. At least 1 dimension. */
SITU_API SITU_CHECKED situ_tensor *situ_flipud(situ_tensor *input);
/** Rotates by k times 90 degrees in the plane of two dimensions, from the first listed to the second. torch's defaults
    are 1 and SITU_DIMS(0, 1). */
SITU_API SITU_CHECKED situ_tensor *situ_rot90(situ_tensor *input, int64_t k, situ_shape dims);
/** [..., C r r, H, W] to [..., C, H r, W r] with r = upscale_factor (Shi et al., arXiv:1609.05158). */
SITU_API SITU_CHECKED situ_tensor *situ_pixel_shuffle(situ_tensor *input, int64_t upscale_factor);
/** [..., C, H r, W r] to [..., C r r, H, W] with r = downscale_factor: the inverse of situ_pixel_shuffle. */
SITU_API SITU_CHECKED situ_tensor *situ_pixel_unshuffle(situ_tensor *input, int64_t downscale_factor);

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
/** A copy with input's strides; without its gaps and repeats, if it has any. The gradient flows back to input. */
SITU_API SITU_CHECKED situ_tensor *situ_clone(situ_tensor *input);
/** The same with a memory_format: x.clone(memory_format=). SITU_E_SHAPE where input's rank cannot have it. */
SITU_API SITU_CHECKED situ_tensor *situ_clone_memory_format(situ_tensor *input, situ_memory_format memory_format);
/** x.contiguous(memory_format=): input itself if it is dense in that format, else a copy that is. SITU_E_SHAPE where
    input's rank cannot have it, SITU_E_ARG for PRESERVE. */
SITU_API SITU_CHECKED situ_tensor *situ_contiguous_memory_format(situ_tensor *input, situ_memory_format memory_format);
/** x.to(memory_format=): the same, but input itself too where its strides have gaps and are nearest to that format.
    PRESERVE: input itself. */
SITU_API SITU_CHECKED situ_tensor *situ_to_memory_format(situ_tensor *input, situ_memory_format memory_format);
/** Writes src (broadcast, cast) into input and returns input. Both on one device: situ_to copies between devices. */
SITU_API situ_tensor *situ_copy_(situ_tensor *input, situ_tensor *src);

/** A copy on another device, with input's order of strides; input itself if it is there already. input stays where it
    is: situ_to_ moves it. */
SITU_API SITU_CHECKED situ_tensor *situ_to(situ_tensor *input, situ_device device);
/** x.to(device, non_blocking=True): the copy is queued, and the call returns. input may be written, moved or freed at
    once, by the program too. A result on the host is waited for by the first call that uses it (an op, situ_item,
    situ_data_ptr, a lease, a move), so that it cannot be read early, and so is reported what failed on the way; a
    result on a device is used in the order of its queue. Between devices of two kinds, and of CUDA's that cannot reach
    each other's memory, it is situ_to. */
SITU_API SITU_CHECKED situ_tensor *situ_to_non_blocking(situ_tensor *input, situ_device device);
/** A copy in another dtype, with input's order of strides; input itself if it has it already. */
SITU_API SITU_CHECKED situ_tensor *situ_to_dtype(situ_tensor *input, situ_dtype dtype);

SITU_END
#endif
