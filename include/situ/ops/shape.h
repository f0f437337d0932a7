/* Shapes: views where possible, copies where not; moving between dtypes and devices.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_SHAPE_H
#define SITU_OPS_SHAPE_H

#include "../tensor.h"

SITU_BEGIN

/* Views: same storage, no copy. */
/** One size may be -1: what is left. reshape copies if it must; view refuses instead. */
SITU_API SITU_CHECKED situ_tensor *situ_reshape(situ_tensor *x, situ_shape shape);
SITU_API SITU_CHECKED situ_tensor *situ_view(situ_tensor *x, situ_shape shape);
/** Merges dimensions start..end (both included). */
SITU_API SITU_CHECKED situ_tensor *situ_flatten(situ_tensor *x, int start, int end);
/** Drops the listed dimensions where they are 1; none listed: every 1. */
SITU_API SITU_CHECKED situ_tensor *situ_squeeze(situ_tensor *x, situ_shape dims);
SITU_API SITU_CHECKED situ_tensor *situ_unsqueeze(situ_tensor *x, int dim);
SITU_API SITU_CHECKED situ_tensor *situ_permute(situ_tensor *x, situ_shape dims);
SITU_API SITU_CHECKED situ_tensor *situ_transpose(situ_tensor *x, int a, int b);
/** -1 keeps a size. */
SITU_API SITU_CHECKED situ_tensor *situ_expand(situ_tensor *x, situ_shape shape);
SITU_API SITU_CHECKED situ_tensor *situ_narrow(situ_tensor *x, int dim, int64_t start, int64_t length);
SITU_API SITU_CHECKED situ_tensor *situ_select(situ_tensor *x, int dim, int64_t index);
/** x[..., start:end:step, ...]; bounds are clamped as in Python; step > 0. INT64_MAX: to the end. */
SITU_API SITU_CHECKED situ_tensor *situ_slice(situ_tensor *x, int dim, int64_t start, int64_t end, int64_t step);
/** Sizes and strides as given, from storage offset (in elements); must stay inside the storage. */
SITU_API SITU_CHECKED situ_tensor *situ_as_strided(situ_tensor *x, situ_shape shape, situ_shape strides,
                                                   int64_t offset);

/* Pieces: views into out[], which must have room; *count is that room, and gets the number of pieces. */
SITU_API SITU_CHECKED situ_status situ_split(situ_tensor *x, int64_t size, int dim, situ_tensor **out, int *count);
/** sizes->dim lists at most SITU_MAX_DIMS sizes that add up to x's. */
SITU_API SITU_CHECKED situ_status situ_split_sizes(situ_tensor *x, situ_shape sizes, int dim, situ_tensor **out,
                                                   int *count);
SITU_API SITU_CHECKED situ_status situ_chunk(situ_tensor *x, int64_t chunks, int dim, situ_tensor **out, int *count);
SITU_API SITU_CHECKED situ_status situ_unbind(situ_tensor *x, int dim, situ_tensor **out, int *count);

/* Copies. */
SITU_API SITU_CHECKED situ_tensor *situ_cat(situ_tensor *const *tensors, int count, int dim);
SITU_API SITU_CHECKED situ_tensor *situ_stack(situ_tensor *const *tensors, int count, int dim);
SITU_API SITU_CHECKED situ_tensor *situ_flip(situ_tensor *x, situ_shape dims);
SITU_API SITU_CHECKED situ_tensor *situ_roll(situ_tensor *x, situ_shape shifts, situ_shape dims);
SITU_API SITU_CHECKED situ_tensor *situ_repeat(situ_tensor *x, situ_shape times);

typedef enum situ_pad_mode {
  SITU_PAD_CONSTANT = 0,
  SITU_PAD_REFLECT,
  SITU_PAD_REPLICATE,
  SITU_PAD_CIRCULAR
} situ_pad_mode;
/** F.pad: pad lists (before, after) pairs from the last dimension backwards; negative crops (constant mode). */
SITU_API SITU_CHECKED situ_tensor *situ_pad(situ_tensor *x, situ_shape pad, situ_pad_mode mode, double value);

/** x itself (retained by the scope) if it is contiguous already. */
SITU_API SITU_CHECKED situ_tensor *situ_contiguous(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_clone(situ_tensor *x);
/** Writes src (broadcast, cast) into x. Both on one device: a copy between devices is situ_to's. */
SITU_API situ_tensor *situ_copy_(situ_tensor *x, situ_tensor *src);

/* To another device or dtype: pure, x stays where it is. x itself if there is nothing to do. */
SITU_API SITU_CHECKED situ_tensor *situ_to(situ_tensor *x, situ_device device);
SITU_API SITU_CHECKED situ_tensor *situ_to_dtype(situ_tensor *x, situ_dtype dtype);

SITU_END
#endif
