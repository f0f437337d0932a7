/* torch.linalg: factorizations, systems of linear equations, inverses and determinants. Matrices are the last two
   dimensions, [..., n, n]; those before are a batch. f32 and f64. Computed by LAPACK on the CPU, which the first call
   opens: libopenblas.so.0, liblapack.so.3, or the file that the environment's SITU_LAPACK names, with 32-bit integers;
   without one SITU_E_UNSUPPORTED. Operands on a device of another kind are copied to the CPU, and results back, if the
   thread's policy allows copies both ways (policy.h); else SITU_E_UNSUPPORTED.
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

/** Which factors situ_linalg_qr computes, k = min(m, n). */
typedef enum situ_linalg_qr_mode {
  SITU_LINALG_QR_REDUCED,  /**< Q [..., m, k], R [..., k, n] */
  SITU_LINALG_QR_COMPLETE, /**< Q [..., m, m], R [..., m, n]; a gradient only for m <= n */
  SITU_LINALG_QR_R         /**< Q empty, [0]; R [..., k, n]; no gradient */
} situ_linalg_qr_mode;
/** A [..., m, n] = Q R: returns Q, its columns orthonormal; R, upper triangular, goes to *R (may be NULL). */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_qr(situ_tensor *A, situ_linalg_qr_mode mode, situ_tensor **R);
/** A [..., m, n] = U diag(S) Vh: returns U [..., m, k]; S [..., k], descending, and Vh [..., k, n] go to *S and *Vh
    (each may be NULL); k = min(m, n). full_matrices: U [..., m, m], Vh [..., n, n]. Vectors are unique up to their
    sign, and their gradient holds where singular values differ. NaN and infinity are SITU_E_ARG, as is an iteration
    that does not converge. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_svd(situ_tensor *A, bool full_matrices, situ_tensor **S,
                                                   situ_tensor **Vh);
/** Only the singular values of situ_linalg_svd. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_svdvals(situ_tensor *A);
/** Eigenvalues of symmetric A [..., n, n], of which the lower triangle is read (upper: the upper), ascending, [..., n];
    eigenvectors, the columns of [..., n, n], go to *eigenvectors (may be NULL). As for situ_linalg_svd, vectors are
    unique up to their sign, and NaN and infinity are SITU_E_ARG. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_eigh(situ_tensor *A, bool upper, situ_tensor **eigenvectors);
/** Only the eigenvalues of situ_linalg_eigh. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_eigvalsh(situ_tensor *A, bool upper);

/** Which singular values count as 0: those up to max(atol, rtol * the largest); and how they are found. */
typedef struct situ_linalg_tolerance {
  size_t size;    /**< of this struct; from situ_linalg_tolerance_defaults(), as the other defaults */
  double atol;    /**< torch's default is 0 */
  double rtol;    /**< SITU_NONE, torch's default: max(m, n) times the dtype's epsilon, or 0 if atol is above 0 */
  bool hermitian; /**< A is symmetric: only its lower triangle is read, and eigenvalues take the place of singular
                       values, by their absolute value */
} situ_linalg_tolerance;
/** torch's defaults. */
static inline situ_linalg_tolerance situ_linalg_tolerance_defaults(void) {
  situ_linalg_tolerance o = SITU_ZERO_;
  o.size = sizeof o;
  o.rtol = SITU_NONE;
  return o;
}
/** The pseudoinverse (Moore-Penrose) of A [..., m, n], [..., n, m]. tolerance NULL: torch's. Its gradient holds where
    the rank does not change. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_pinv(situ_tensor *A, const situ_linalg_tolerance *tolerance);
/** The number of singular values of A [..., m, n] that count, i64 [...]. tolerance NULL: torch's. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_matrix_rank(situ_tensor *A, const situ_linalg_tolerance *tolerance);
/** X [..., n, k] with the least |A X - B|, the shortest of them: A [..., m, n], B [..., m, k], or vectors [..., m] by
    the rule of situ_linalg_solve. rcond: singular values below it times the largest count as 0; SITU_NONE, torch's
    default: max(m, n) times the dtype's epsilon. The rank, i64 [...], goes to *rank (may be NULL). By complete
    orthogonal factorization (torch's driver gelsy). */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_lstsq(situ_tensor *A, situ_tensor *B, double rcond, situ_tensor **rank);
/** e^A for A [..., n, n]; a matrix with NaN or infinity gives NaN. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_matrix_exp(situ_tensor *A);
/** A [..., n, n] multiplied n times by itself; n 0: the identity; n < 0: of the inverse. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_matrix_power(situ_tensor *A, int64_t n);

/** A [..., m, n] = P L U by partial pivoting: L without its diagonal of ones, and U, in one matrix [..., m, n]. The row
    swaps, i32 [..., min(m, n)], go to *pivots (may be NULL): row i was exchanged with row pivots[i] - 1, in order. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_lu_factor(situ_tensor *A, situ_tensor **pivots);
/** The factors of situ_linalg_lu_factor one by one: returns the permutation P [..., m, m]; L [..., m, k] and U
    [..., k, n], k = min(m, n), go to *L and *U (each may be NULL). */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_lu(situ_tensor *A, situ_tensor **L, situ_tensor **U);
/** X with A X = B by what situ_linalg_lu_factor gave for A [..., n, n]: B [..., n, k]; adjoint: A^T X = B. left false:
    X A = B, with B [..., k, n]. Batches broadcast. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_lu_solve(situ_tensor *LU, situ_tensor *pivots, situ_tensor *B, bool left,
                                                        bool adjoint);
/** A [..., n, n] = P L D L^T P^T for symmetric A, of which the lower triangle is read: L, lower triangular without its
    diagonal of ones, and D, of blocks of 1 and 2 rows, in one matrix [..., n, n], with 0 above. The exchanged rows, i32
    [..., n], go to *pivots (may be NULL): a row from 1 for a block of one, the negative of a row twice for a block of
    two (LAPACK's sytrf). A singular matrix is SITU_E_ARG. As in torch, it has no gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_ldl_factor(situ_tensor *A, situ_tensor **pivots);
/** situ_linalg_ldl_factor; a singular matrix is not an error, unless check_errors: i32 [...], 0 or the number of the
    first element of D's diagonal that is 0, from 1, goes to *info (may be NULL). */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_ldl_factor_ex(situ_tensor *A, bool check_errors, situ_tensor **pivots,
                                                             situ_tensor **info);
/** X with A X = B by what situ_linalg_ldl_factor gave for A [..., n, n]: B [..., n, k]. Batches broadcast. Other pivots
    than it gives are SITU_E_INDEX. As in torch, it has no gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_ldl_solve(situ_tensor *LD, situ_tensor *pivots, situ_tensor *B);
/** X for which tensordot(A, X, as many dimensions as X has) is B. The dimensions of A listed in dims (none: the order
    that it has) are last; its first ones are B's shape, the others X's, of as many elements. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_tensorsolve(situ_tensor *A, situ_tensor *B, situ_shape dims);
/** The inverse of A as a map from its last dimensions to its first `ind`, which have as many elements: of shape
    A.shape[ind:] + A.shape[:ind]. torch's default ind is 2. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_tensorinv(situ_tensor *A, int ind);

/** X with A X = B, [..., n, k], where L [..., n, n] is situ_linalg_cholesky's factor of A (upper: L^T). */
SITU_API SITU_CHECKED situ_tensor *situ_cholesky_solve(situ_tensor *B, situ_tensor *L, bool upper);
/** The inverse of A, [..., n, n], where L is situ_linalg_cholesky's factor of A (upper: L^T). */
SITU_API SITU_CHECKED situ_tensor *situ_cholesky_inverse(situ_tensor *L, bool upper);
/** The logarithm of the determinant of A [..., n, n], [...]; NaN where that is negative. */
SITU_API SITU_CHECKED situ_tensor *situ_logdet(situ_tensor *A);

SITU_END
#endif
