/* torch.linalg: factorizations, systems of linear equations, inverses and determinants. Matrices are the last two
   dimensions, [..., n, n]; those before are a batch. f32 and f64. Computed by LAPACK on the CPU: a build without it
   refuses them with SITU_E_UNSUPPORTED. Operands on a device of another kind are copied to the CPU, and results back,
   if the thread's policy allows copies both ways (policy.h); else SITU_E_UNSUPPORTED.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_MATRIX_H
#define SITU_OPS_MATRIX_H

#include "../tensor.h"

SITU_BEGIN

/** Lower triangular L with input = L L^T, [..., n, n]; upper: L^T. Only that triangle of the symmetric input is read;
    the gradient is symmetric. An input that is not positive definite is SITU_E_ARG, with the leading minor's order. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_cholesky(situ_tensor *input, bool upper);
/** X with A X = B: A [..., n, n], B [..., n, k], or vectors [..., n] if B has one dimension, or A's shape without its
    last. left false: X A = B, with B [..., k, n]. Batches broadcast. A singular matrix is SITU_E_ARG. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_solve(situ_tensor *A, situ_tensor *B, bool left);
/** The same, B matrices, for triangular A, of which only that triangle is read; unitriangular: its diagonal is taken as
    ones. A diagonal with a 0 gives infinity or NaN. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_solve_triangular(situ_tensor *A, situ_tensor *B, bool upper, bool left,
                                                                bool unitriangular);
/** The inverse, [..., n, n]. A singular matrix is SITU_E_ARG. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_inv(situ_tensor *A);
/** The determinant, [...]; 1 for n = 0. The gradient of a singular matrix is that of its cofactors, where PyTorch 2.15
    gives 0. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_det(situ_tensor *A);
/** The determinant's sign, [...], -1, 0 or 1; the logarithm of its absolute value, of the same shape, goes to
    *logabsdet (may be NULL). */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_slogdet(situ_tensor *A, situ_tensor **logabsdet);

SITU_END
#endif
