/* The fused step of an optimiser. SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_OPTIMIZER_H
#define SITU_SYS_OPTIMIZER_H

#include "../optim.h"
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

/** The checks of situ_optimizer_step. */
SITU_API SITU_CHECKED situ_status situ_optimizer_check(situ_optimizer_rule rule, const situ_optimizer_tensors *list,
                                                       int64_t count);

/** A list of parameters with hyperparameters of its own. */
typedef struct situ_optimizer_list {
  situ_optimizer_params params;
  const situ_optimizer_tensors *list;
  int64_t count;
} situ_optimizer_list;
/** What the caller of situ_optimizer_step_lists does meanwhile; NULL: nothing. */
typedef struct situ_optimizer_caller {
  /** An item without a state that the rule needs, with a master, or that does not have one dtype, shape and device and
      is not row-major: may change that item before it is checked. Called for each, in order. Returns false after
      recording an error. */
  bool (*complete)(int list, int64_t item, void *payload);
  bool (*begin)(int list, void *payload); /**< before the step of a list; false after recording an error */
  void (*end)(int list, bool done, void *payload);
  void *payload;
} situ_optimizer_caller;
/** Steps of several lists, all or none: all items are checked before the first one changes. */
SITU_API SITU_CHECKED situ_status situ_optimizer_step_lists(situ_optimizer_rule rule, const situ_optimizer_list *lists,
                                                            int count, const situ_optimizer_caller *caller);

/** An optimiser with o's rule, groups and hyperparameters, and without state, for a copy of a module: its parameters
    are those of `to` under the paths that o's have in `from`; what is not in there is left out. NULL after recording an
    error. */
SITU_API situ_optim *situ_optim_twin(const situ_optim *o, const situ_tree *from, const situ_tree *to);

SITU_END
#endif
