/* Matrix products.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_LINALG_H
#define SITU_OPS_LINALG_H

#include "../tensor.h"

SITU_BEGIN

/** torch.matmul: all rank cases, batch dimensions broadcast. */
SITU_API SITU_CHECKED situ_tensor *situ_matmul(situ_tensor *a, situ_tensor *b);
/** [n, k] x [k, m]. */
SITU_API SITU_CHECKED situ_tensor *situ_mm(situ_tensor *a, situ_tensor *b);
/** [b, n, k] x [b, k, m]. */
SITU_API SITU_CHECKED situ_tensor *situ_bmm(situ_tensor *a, situ_tensor *b);
/** [n, k] x [k]. */
SITU_API SITU_CHECKED situ_tensor *situ_mv(situ_tensor *a, situ_tensor *x);
/** [k] . [k], 0-dim. */
SITU_API SITU_CHECKED situ_tensor *situ_dot(situ_tensor *a, situ_tensor *b);
/** [n] x [m]: [n, m]. */
SITU_API SITU_CHECKED situ_tensor *situ_outer(situ_tensor *a, situ_tensor *b);

/** Factors whose zero means torch's default, 1; to scale by 0, say so with `zero_beta` / `zero_alpha`. */
typedef struct situ_addmm_options {
  double beta, alpha;
  bool zero_beta, zero_alpha;
} situ_addmm_options;
/** beta x + alpha a b; x broadcasts. With beta 0, NaN in x is not passed on. */
SITU_API SITU_CHECKED situ_tensor *situ_addmm(situ_tensor *x, situ_tensor *a, situ_tensor *b,
                                              const situ_addmm_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_baddbmm(situ_tensor *x, situ_tensor *a, situ_tensor *b,
                                                const situ_addmm_options *options);

/** input [..., in] x weight [out, in], transposed, + bias [out] (may be NULL): [..., out]. */
SITU_API SITU_CHECKED situ_tensor *situ_linear(situ_tensor *input, situ_tensor *weight, situ_tensor *bias);
/** What follows a linear layer; gelu in its tanh form. */
typedef enum situ_activation {
  SITU_ACTIVATION_NONE = 0,
  SITU_ACTIVATION_RELU,
  SITU_ACTIVATION_GELU_TANH
} situ_activation;
/** activation(linear(input, weight, bias)), in one pass over the result where a device can; the sums
    are not rounded to f16 or bf16 before the activation then. */
SITU_API SITU_CHECKED situ_tensor *situ_linear_activation(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                                          situ_activation activation);

SITU_END
#endif
