/* View descriptors of tensors, and shapes: checked, compared, broadcast, printed. SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_SHAPE_H
#define SITU_SYS_SHAPE_H

#include "backend.h"

SITU_BEGIN

/** The view descriptor of a tensor, for kernels; NULL for NULL. Valid as long as the tensor. */
SITU_API const situ_view_desc *situ_desc(const situ_tensor *t);
/** v broadcast to the sizes of `to`: v itself, or *buffer filled with strides of 0. Returns NULL after recording an
    error. */
SITU_API const situ_view_desc *situ_desc_expand(const situ_view_desc *v, const situ_view_desc *to,
                                                situ_view_desc *buffer);
/** v with another shape; v must be contiguous and have the same numel. Fills and returns *buffer. Returns NULL after
    recording an error. */
SITU_API const situ_view_desc *situ_desc_reshape(const situ_view_desc *v, situ_shape shape, situ_view_desc *buffer);
/** Recomputes numel and contiguous after the caller has changed v's sizes or strides. */
SITU_API void situ_desc_refresh(situ_view_desc *v);

/** Writes dim, in -ndim..ndim-1, made non-negative, to *out (a 0-dim tensor has dim 0); out of range is SITU_E_ARG. */
SITU_API bool situ_wrap_dim(const char *op, int64_t dim, int ndim, int *out);
/** Writes the product of the sizes to *numel; negative sizes, overflow and more than SITU_MAX_DIMS are errors. */
SITU_API bool situ_shape_numel(const char *op, const situ_shape *shape, int64_t *numel);
/** Whether rank and sizes are equal. */
SITU_API bool situ_shape_equal(const situ_shape *a, const situ_shape *b);
/** Broadcasts *a with b, into *a; the error has both shapes. */
SITU_API bool situ_shape_broadcast(const char *op, situ_shape *a, const situ_shape *b);
#define SITU_SHAPE_TEXT 200
/** Writes "[2, 3]" to buffer; returns buffer. */
SITU_API const char *situ_shape_text(const situ_shape *shape, char buffer[SITU_SHAPE_TEXT]);

SITU_END
#endif
