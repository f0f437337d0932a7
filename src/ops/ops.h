/* Floor 5: what the op families share. Each family is a file: schema, shape rule, forward, backward side by side.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_INTERNAL_H
#define SITU_OPS_INTERNAL_H

#include "base/fail.h"
#include "dispatch/dispatch.h"
#include "situ/ops.h"
#include "situ/sys/op.h"

/* Broadcast operands of a call launched as one element-wise verb into out[0]. */
bool situ__elementwise(const situ_call *c, situ_verb verb, const double *scalar, int scalars);

/* y = alpha a b + beta bias (which may be NULL), one launch: [.., m, k] x [.., k, n], a, b and bias broadcast to y. */
bool situ__product(const char *op, situ_device device, const situ_view_desc *a, const situ_view_desc *b,
                   const situ_view_desc *bias, const situ_view_desc *y, double alpha, double beta);
/* The last two dimensions exchanged. */
const situ_view_desc *situ__transposed(const situ_view_desc *v, situ_view_desc *room);

/* For a function that is made of other ops: the check of all its operands under its own name, before anything is done.
   Its schema is no entry of the table. False: recorded, explained. */
bool situ__together(const situ_op *schema, situ_tensor *const *in, int ins);

/* A 0-dim view seen as having one dimension of size 1; any other as it is. */
const situ_view_desc *situ__ranked(const situ_view_desc *v, situ_view_desc *room);

/* In a gradient: dx[i] = value where it is wanted; false if it could not be made. */
#define GIVE(i, value) (!g->wants[i] || (g->dx[i] = (value)) != NULL)

/* Does a number of the host's fit into dtype, as a constant there? u8 takes -255 .. -1 too, which wrap around, as in torch. False:
   recorded under op. */
bool situ__fits(const char *op, double value, situ_dtype dtype);
/* The whole number that a fill of a whole dtype gets for it. */
int64_t situ__whole(double value);

/* Sizes that may hold one -1, resolved against numel; false: recorded under op. */
bool situ__resolve_shape(const char *op, situ_shape *shape, int64_t numel);
/* Dimensions made non-negative, none twice; mask of them. An empty list is all of ndim if all_if_none. */
bool situ__dim_mask(const char *op, const situ_shape *dims, int ndim, bool all_if_none, unsigned *mask);

/* For the floors below (dispatch.h, tape.h). */
situ_tensor *situ__copy_operand(const char *op, situ_tensor *x, situ_device to);
struct situ__node *situ__strided_node_of_view(situ_tensor *view);
struct situ__node *situ__strided_node_of_part(situ_tensor *view);

#endif
