/* Loss functions: how far an output is from its target.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_LOSS_H
#define SITU_OPS_LOSS_H

#include "../tensor.h"

SITU_BEGIN

/* Results: 0-dim, or one value per element (per sample for cross_entropy and nll_loss) with SITU_REDUCTION_NONE. */

/** (input - target)^2; shapes broadcast; one of the two is floating. */
SITU_API SITU_CHECKED situ_tensor *situ_mse_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction);
/** |input - target|; shapes broadcast. */
SITU_API SITU_CHECKED situ_tensor *situ_l1_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction);
/** d^2 / (2 beta) where d = |input - target| < beta, else d - beta / 2. torch's default beta is 1; 0 is l1_loss. */
SITU_API SITU_CHECKED situ_tensor *situ_smooth_l1_loss(situ_tensor *input, situ_tensor *target, double beta,
                                                       situ_reduction reduction);

typedef struct situ_cross_entropy_options {
  situ_tensor *weight;   /**< [C] or NULL */
  bool has_ignore_index; /**< false: torch's -100 */
  int64_t ignore_index;
  situ_reduction reduction;
  double label_smoothing; /**< 0..1 */
} situ_cross_entropy_options;
/** input: logits [N, C, ...] or [C]; target: class indices (i64 [N, ...]) or probabilities (input's shape and dtype).
    */
SITU_API SITU_CHECKED situ_tensor *situ_cross_entropy(situ_tensor *input, situ_tensor *target,
                                                      const situ_cross_entropy_options *options);
/** input: log-probabilities [N, C, ...] or [C]; target: class indices. label_smoothing is SITU_E_ARG here. */
SITU_API SITU_CHECKED situ_tensor *situ_nll_loss(situ_tensor *input, situ_tensor *target,
                                                 const situ_cross_entropy_options *options);
/** input: logits; target: probabilities of input's shape. weight and pos_weight broadcast to input, or NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_binary_cross_entropy_with_logits(situ_tensor *input, situ_tensor *target,
                                                                         situ_tensor *weight, situ_tensor *pos_weight,
                                                                         situ_reduction reduction);

typedef enum situ_kl_reduction { SITU_KL_MEAN = 0, SITU_KL_SUM, SITU_KL_NONE, SITU_KL_BATCHMEAN } situ_kl_reduction;
/** target * (log target - input). input: log-probabilities; target: probabilities, or their logarithms if log_target.
    */
SITU_API SITU_CHECKED situ_tensor *situ_kl_div(situ_tensor *input, situ_tensor *target, situ_kl_reduction reduction,
                                               bool log_target);

SITU_END
#endif
