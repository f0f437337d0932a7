/* Steps, gradient scaling and clipping of optimisers whose gradients are not all on this rank.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_GRAD_SCALER_H
#define SITU_SYS_GRAD_SCALER_H

#include "../amp.h"

SITU_BEGIN

/** The gradients and the step of an optimiser, as a gradient scaler sees them. */
typedef struct situ_grad_scaler_source {
  situ_optim *optim;   /**< what the scaler remembers between unscale_, step and update */
  const void *payload; /**< for the functions */
  int64_t (*count)(const void *payload);
  /** Returns the i-th of `count` gradients; NULL: there is none. */
  situ_tensor *(*gradient)(const void *payload, int64_t i);
  /** Makes *finite false unless it is true on all ranks, and *scaled true if it is on one: the last stage of a pipeline
      alone has a loss to scale. Called also when this rank has failed: good is false. NULL: there is one rank, which
      has a gradient. Any result but SITU_OK ends the call. */
  situ_status (*agree)(const void *payload, bool good, bool *finite, bool *scaled);
  /** A step with gradients that are multiplied by grad_scale first. */
  situ_status (*step)(const void *payload, double grad_scale);
} situ_grad_scaler_source;
/** The gradients and the step of one optimiser, whose `agree` is NULL. It borrows the optimiser. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_source_of(situ_optim *o, situ_grad_scaler_source *source);
/** situ_grad_scaler_unscale_ of a source. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_unscale_source(situ_grad_scaler *s,
                                                                  const situ_grad_scaler_source *source);
/** situ_grad_scaler_step of a source. */
SITU_API SITU_CHECKED situ_status situ_grad_scaler_step_source(situ_grad_scaler *s,
                                                               const situ_grad_scaler_source *source, bool *stepped);
/** situ_optim_step with gradients that are multiplied by grad_scale first, in the step's own kernel. */
SITU_API SITU_CHECKED situ_status situ_optim_step_scaled(situ_optim *o, double grad_scale);
/** Scales gradients so that a norm that their caller has computed, a tensor of one element, becomes at most max_norm:
    what situ_nn_utils_clip_grad_norm_ does behind its norm. */
SITU_API SITU_CHECKED situ_status situ_clip_by_norm_(situ_tensor *const *grad, int64_t count, situ_tensor *norm,
                                                     double max_norm);

SITU_END
#endif
