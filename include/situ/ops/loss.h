/* Losses: how far an output is from what was wanted.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_LOSS_H
#define SITU_OPS_LOSS_H

#include "../tensor.h"

SITU_BEGIN

SITU_API SITU_CHECKED situ_tensor *situ_mse_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction);
SITU_API SITU_CHECKED situ_tensor *situ_l1_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction);
/** Quadratic below beta, linear above; torch's default beta is 1. */
SITU_API SITU_CHECKED situ_tensor *situ_smooth_l1_loss(situ_tensor *input, situ_tensor *target, double beta,
                                                       situ_reduction reduction);

typedef struct situ_cross_entropy_options {
  situ_tensor *weight;   /**< [C] or NULL */
  bool has_ignore_index; /**< false: torch's -100 */
  int64_t ignore_index;
  situ_reduction reduction;
  double label_smoothing; /**< 0..1 */
} situ_cross_entropy_options;
/** input [N, C, ...] or [C]; target class indices (i64 [N, ...]) or probabilities (input's shape and dtype). */
SITU_API SITU_CHECKED situ_tensor *situ_cross_entropy(situ_tensor *input, situ_tensor *target,
                                                      const situ_cross_entropy_options *options);
/** input: log-probabilities. label_smoothing is not offered here. */
SITU_API SITU_CHECKED situ_tensor *situ_nll_loss(situ_tensor *input, situ_tensor *target,
                                                 const situ_cross_entropy_options *options);
/** weight and pos_weight broadcast to input, or NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_binary_cross_entropy_with_logits(situ_tensor *input, situ_tensor *target,
                                                                         situ_tensor *weight, situ_tensor *pos_weight,
                                                                         situ_reduction reduction);

typedef enum situ_kl_reduction { SITU_KL_MEAN = 0, SITU_KL_SUM, SITU_KL_NONE, SITU_KL_BATCHMEAN } situ_kl_reduction;
/** input: log-probabilities; target: probabilities, or their logarithms if log_target. */
SITU_API SITU_CHECKED situ_tensor *situ_kl_div(situ_tensor *input, situ_tensor *target, situ_kl_reduction reduction,
                                               bool log_target);

SITU_END
#endif
