/* Shared by the ops whose verb is LAPACK's: matrices are the last two dimensions.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_LAPACK_H
#define SITU_OPS_LAPACK_H

#include "ops/ops.h"

/* situ_op_run; on a device without the verb, on the cpu with copies of the operands and the results, if this thread's
   policy allows them. Their gradients take the same way. Returns the first result; the first `wanted` go to outs, the
   others are only saved for backward. */
situ_tensor *situ__lapack_run(const situ_op *op, situ_tensor *const *in, int ins, const void *params,
                              situ_tensor **outs, int wanted);
static inline situ_tensor *situ__lapack_run1(const situ_op *op, situ_tensor *a, const void *params) {
  situ_tensor *y = NULL;
  return situ__lapack_run(op, &a, 1, params, &y, 1);
}
static inline situ_tensor *situ__lapack_run2(const situ_op *op, situ_tensor *a, situ_tensor *b, const void *params) {
  situ_tensor *y = NULL;
  return situ__lapack_run(op, (situ_tensor *[]){ a, b }, 2, params, &y, 1);
}

/* Refuses an operand without two dimensions, of a dtype that LAPACK lacks, or (square) others than square ones. */
bool situ__lapack_matrix(const situ_call *c, int operand, bool square);
/* The batch dimensions of an operand, with two more; rows or columns < 0: one less. */
situ_shape situ__lapack_shape(const situ_call *c, int operand, int64_t rows, int64_t columns);
/* Infers shape[0] of x^T [.., k, n] where a x = b, and refuses operands that do not fit. */
bool situ__lapack_system(situ_call *c, bool square);
/* Whether b is vectors beside matrices a, by torch's rule. */
bool situ__is_vectors(const situ_view_desc *a, const situ_view_desc *b);
/* v with the batch dimensions of y, before its own last `dims`, in *desc. */
const situ_view_desc *situ__lapack_batched(const situ_view_desc *v, const situ_view_desc *y, int dims,
                                           situ_view_desc *desc);

/* x with its last two dimensions swapped; NULL for NULL. */
static inline situ_tensor *situ__mt(situ_tensor *x) { return x ? situ_transpose(x, -2, -1) : NULL; }

/* ---- for gradients: without one of their own ---- */

/* x^T of a x = b, a triangular. */
situ_tensor *situ__triangular(situ_tensor *a, situ_tensor *b, bool upper, bool unit);

#endif
