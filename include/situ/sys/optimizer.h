/* The fused step of an optimiser. SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_OPTIMIZER_H
#define SITU_SYS_OPTIMIZER_H

#include "backend.h"

SITU_BEGIN

/** One parameter of a fused optimiser step. */
typedef struct situ_optimizer_tensors {
  situ_tensor *param, *grad, *state[3];
  situ_tensor
      *master; /**< NULL, or the f32 master copy of an f16 or bf16 param: stepped in its place; state is f32 then */
  uint32_t version; /**< version of param's storage when master was last rounded into it; for the owner of the list */
  int64_t step;
  double mu_product; /**< NAdam: product of its momentum factors; 0 before the first step */
} situ_optimizer_tensors;
/** One fused step over a list, in place: every parameter with its gradient and state, one launch per device; a
    parameter with a master is set to the rounded master. All are checked (device, dtype, shape, contiguous, alive)
    before anything changes. */
SITU_API SITU_CHECKED situ_status situ_optimizer_step(situ_optimizer_rule rule, const situ_optimizer_params *params,
                                                      const situ_optimizer_tensors *list, int64_t count);

/** The checks of situ_optimizer_step, for callers that make several steps, all or none. */
SITU_API SITU_CHECKED situ_status situ_optimizer_check(situ_optimizer_rule rule, const situ_optimizer_tensors *list,
                                                       int64_t count);

SITU_END
#endif
