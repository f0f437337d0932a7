/* Matrix products.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_LINALG_H
#define SITU_OPS_LINALG_H

#include "../tensor.h"

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

/** Factors whose zero means torch's default, 1; to scale by 0, set `zero_beta` / `zero_alpha`. */
typedef struct situ_addmm_options {
  double beta, alpha;
  bool zero_beta, zero_alpha;
} situ_addmm_options;
/** beta * input + alpha * (mat1 x mat2); input broadcasts to [n, m]. With beta 0, NaN in input is not passed on. */
SITU_API SITU_CHECKED situ_tensor *situ_addmm(situ_tensor *input, situ_tensor *mat1, situ_tensor *mat2,
                                              const situ_addmm_options *options);
/** situ_addmm on batches: batch1 [b, n, k], batch2 [b, k, m]. */
SITU_API SITU_CHECKED situ_tensor *situ_baddbmm(situ_tensor *input, situ_tensor *batch1, situ_tensor *batch2,
                                                const situ_addmm_options *options);

/** input [..., in] x weight [out, in], transposed, + bias [out] (may be NULL): [..., out]. */
SITU_API SITU_CHECKED situ_tensor *situ_linear(situ_tensor *input, situ_tensor *weight, situ_tensor *bias);
/** The activation function after a linear layer; gelu by its tanh formula. */
typedef enum situ_activation {
  SITU_ACTIVATION_NONE = 0,
  SITU_ACTIVATION_RELU,
  SITU_ACTIVATION_GELU_TANH
} situ_activation;
/** activation(linear(input, weight, bias)), fused where the device can; the sums are not rounded to f16 or bf16 before
    the activation then. */
SITU_API SITU_CHECKED situ_tensor *situ_linear_activation(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                                          situ_activation activation);

SITU_END
#endif
