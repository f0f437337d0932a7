/* Losses as modules: situ_nn_forward2(loss, input, target).
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_LOSS_H
#define SITU_NN_LOSS_H

#include "../nn.h"

SITU_BEGIN

/** MSELoss. */
SITU_API situ_nn_module *situ_nn_mse_loss(situ_reduction reduction);
/** L1Loss. */
SITU_API situ_nn_module *situ_nn_l1_loss(situ_reduction reduction);
/** SmoothL1Loss; torch's default beta is 1, and 0 is L1Loss. */
SITU_API situ_nn_module *situ_nn_smooth_l1_loss(double beta, situ_reduction reduction);
/** HuberLoss; torch's default delta is 1. */
SITU_API situ_nn_module *situ_nn_huber_loss(double delta, situ_reduction reduction);
/** BCELoss, of probabilities; weight becomes a buffer of this name, and may be NULL. */
SITU_API situ_nn_module *situ_nn_bce_loss(situ_tensor *weight, situ_reduction reduction);
/** CrossEntropyLoss; options->weight becomes the buffer "weight". */
SITU_API situ_nn_module *situ_nn_cross_entropy_loss(const situ_cross_entropy_options *options);
/** NLLLoss; options->weight becomes the buffer "weight". */
SITU_API situ_nn_module *situ_nn_nll_loss(const situ_cross_entropy_options *options);
/** BCEWithLogitsLoss; weight and pos_weight become buffers of these names; each may be NULL. */
SITU_API situ_nn_module *situ_nn_bce_with_logits_loss(situ_tensor *weight, situ_tensor *pos_weight,
                                                      situ_reduction reduction);
/** KLDivLoss. */
SITU_API situ_nn_module *situ_nn_kl_div_loss(situ_kl_reduction reduction, bool log_target);

SITU_END
#endif
