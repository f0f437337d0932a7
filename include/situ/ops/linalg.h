/* Matrix products.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_LINALG_H
#define SITU_OPS_LINALG_H

#include "../tensor.h"
#include "reduce.h"

SITU_BEGIN

/* Operands have one dtype, floating or integer; sizes that do not match are SITU_E_SHAPE. */

/** torch.matmul: all combinations of ranks, batch dimensions broadcast. */
SITU_API SITU_CHECKED situ_tensor *situ_matmul(situ_tensor *input, situ_tensor *other);
/** [n, k] x [k, m]: [n, m]. */
SITU_API SITU_CHECKED situ_tensor *situ_mm(situ_tensor *input, situ_tensor *mat2);
/** [b, n, k] x [b, k, m]: [b, n, m]. */
SITU_API SITU_CHECKED situ_tensor *situ_bmm(situ_tensor *input, situ_tensor *mat2);
/** [n, k] x [k]: [n]. */
SITU_API SITU_CHECKED situ_tensor *situ_mv(situ_tensor *input, situ_tensor *vec);
/** Inner product [k] . [k], 0-dim. */
SITU_API SITU_CHECKED situ_tensor *situ_dot(situ_tensor *input, situ_tensor *tensor);
/** Outer product [n] x [m]: [n, m]. */
SITU_API SITU_CHECKED situ_tensor *situ_outer(situ_tensor *input, situ_tensor *vec2);

/** Sum of products over named dimensions: "bij,bjk->bik". `...` stands for dimensions without a name, which broadcast;
    a label that is repeated in one operand takes its diagonal; without "->" the result has the labels that occur once,
    in alphabetical order. Contracts from left to right (numpy.einsum's notation). */
SITU_API SITU_CHECKED situ_tensor *situ_einsum(const char *equation, situ_tensor *const *operands, int count);
/** Sums over dimensions dims_self[i] of input and dims_other[i] of other; the rest of input, then of other. */
SITU_API SITU_CHECKED situ_tensor *situ_tensordot(situ_tensor *input, situ_tensor *other, situ_shape dims_self,
                                                  situ_shape dims_other);
/** Kronecker product: each element of input times the whole of other; at most SITU_MAX_DIMS / 2 dimensions. Dtypes
    promote. */
SITU_API SITU_CHECKED situ_tensor *situ_kron(situ_tensor *input, situ_tensor *other);
/** Sum of a matrix's diagonal, 0-dim; integer dtypes in i64. */
SITU_API SITU_CHECKED situ_tensor *situ_trace(situ_tensor *input);

typedef struct situ_addmm_options {
  size_t size;        /**< of this struct; from situ_addmm_defaults(), as the other defaults */
  double beta, alpha; /**< torch's defaults are 1 */
} situ_addmm_options;
/** torch's defaults. */
static inline situ_addmm_options situ_addmm_defaults(void) {
  situ_addmm_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.beta = 1;
  o.alpha = 1;
  return o;
}
/** beta * input + alpha * (mat1 x mat2); input broadcasts to [n, m]. With beta 0, NaN in input is not passed on. */
SITU_API SITU_CHECKED situ_tensor *situ_addmm(situ_tensor *input, situ_tensor *mat1, situ_tensor *mat2,
                                              const situ_addmm_options *options);
/** situ_addmm on batches: batch1 [b, n, k], batch2 [b, k, m]. */
SITU_API SITU_CHECKED situ_tensor *situ_baddbmm(situ_tensor *input, situ_tensor *batch1, situ_tensor *batch2,
                                                const situ_addmm_options *options);
/** beta * input + alpha * (vec1 [n] x vec2 [m]), [n, m]; input broadcasts to it. */
SITU_API SITU_CHECKED situ_tensor *situ_addr(situ_tensor *input, situ_tensor *vec1, situ_tensor *vec2,
                                             const situ_addmm_options *options);
/** beta * input + alpha * (mat [n, k] x vec [k]), [n]; input broadcasts to it. */
SITU_API SITU_CHECKED situ_tensor *situ_addmv(situ_tensor *input, situ_tensor *mat, situ_tensor *vec,
                                              const situ_addmm_options *options);
/** beta * input + alpha * the sum of the products of batch1 [b, n, k] and batch2 [b, k, m], [n, m]; input broadcasts to
    it. */
SITU_API SITU_CHECKED situ_tensor *situ_addbmm(situ_tensor *input, situ_tensor *batch1, situ_tensor *batch2,
                                               const situ_addmm_options *options);
/** Sum of products over the last dimension of both, which have one size; a product if one is 0-dim. */
SITU_API SITU_CHECKED situ_tensor *situ_inner(situ_tensor *input, situ_tensor *other);
/** x W[o] y for each output o: input1 [..., in1], input2 [..., in2], weight [out, in1, in2], bias [out] (may be NULL):
    [..., out]. */
SITU_API SITU_CHECKED situ_tensor *situ_bilinear(situ_tensor *input1, situ_tensor *input2, situ_tensor *weight,
                                                 situ_tensor *bias);
/** Cross product of vectors of 3 elements along dim, of tensors of equal rank and one dtype, which broadcast.
    torch's default dim is -1. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_cross(situ_tensor *input, situ_tensor *other, int dim);
/** Sum of x * y along dim; shapes broadcast, floating dtypes. torch's default dim is -1. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_vecdot(situ_tensor *x, situ_tensor *y, int dim);

/** The product of 2 to 64 matrices, in the order with the fewest multiplications; the first may be a row [n], the last
    a column [n]. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_multi_dot(situ_tensor *const *tensors, int count);
/** Powers 0 to N - 1 of each element of x [..., n] (0-dim: [1]): [..., n, N], N at least 2. N 0: n. Integer
    dtypes give i64. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_vander(situ_tensor *x, int64_t N);
/** The first n columns of the product of k reflections I - tau[i] v v^T, where v is column i of A [..., m, n] below the
    diagonal, 1 on it and 0 above: [..., m, n]. tau [..., k], k <= n <= m, floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_householder_product(situ_tensor *A, situ_tensor *tau);

/** situ_norm under torch's other name: (sum |x|^ord)^(1/ord); torch's default ord is 2. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_vector_norm(situ_tensor *x, double ord,
                                                           const situ_reduce_options *options);
/** Norms of a matrix; those of singular values need LAPACK (matrix.h). */
typedef enum situ_matrix_norm {
  SITU_MATRIX_NORM_FRO = 0,  /**< Frobenius: the root of the sum of squares */
  SITU_MATRIX_NORM_NUC,      /**< nuclear: the sum of the singular values */
  SITU_MATRIX_NORM_2,        /**< the largest singular value */
  SITU_MATRIX_NORM_MINUS_2,  /**< the smallest singular value */
  SITU_MATRIX_NORM_1,        /**< the largest sum of |A| over a column */
  SITU_MATRIX_NORM_MINUS_1,  /**< the smallest sum of |A| over a column */
  SITU_MATRIX_NORM_INF,      /**< the largest sum of |A| over a row */
  SITU_MATRIX_NORM_MINUS_INF /**< the smallest sum of |A| over a row */
} situ_matrix_norm;
/** The norm of each matrix of A, floating, at least 2 dimensions: options->dim has two, rows and columns (none: the
    last two). An empty matrix has no smallest value: SITU_E_ARG for those. */
SITU_API SITU_CHECKED situ_tensor *situ_linalg_matrix_norm(situ_tensor *A, situ_matrix_norm ord,
                                                           const situ_reduce_options *options);

/** input [..., in] x weight [out, in], transposed, + bias [out] (may be NULL): [..., out]. */
SITU_API SITU_CHECKED situ_tensor *situ_linear(situ_tensor *input, situ_tensor *weight, situ_tensor *bias);
/** The activation function after a linear layer. */
typedef enum situ_activation {
  SITU_ACTIVATION_NONE = 0,
  SITU_ACTIVATION_RELU,
  SITU_ACTIVATION_GELU_TANH, /**< gelu(approximate="tanh") */
  SITU_ACTIVATION_GELU,      /**< gelu, exact: by erf */
  SITU_ACTIVATION_SILU
} situ_activation;
/** activation(linear(input, weight, bias)), fused where the device can (CUDA: relu and gelu_tanh); the sums are not
    rounded to f16 or bf16 before the activation then. */
SITU_API SITU_CHECKED situ_tensor *situ_linear_activation(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                                          situ_activation activation);

SITU_END
#endif
