/* What trains a module, or steps an optimiser, over ranks: how a dry run takes its steps on a copy, and sends nothing.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_TRAINER_H
#define SITU_SYS_TRAINER_H

#include "../nn.h"

SITU_BEGIN

/** A copy of a module, and the parameters of both under the same paths. */
typedef struct situ_twin_module {
  situ_nn_module *copy;
  const situ_tree *from, *to; /**< parameters of the original, and of the copy: flat */
  void *trainer;              /**< the twin of what trains the module; NULL: there is none */
} situ_twin_module;

/** How a loss is made of a module's results, with what it gets. */
typedef situ_tensor *(*situ_twin_loss)(const situ_tree *outputs, void *payload);

/** Functions of a trainer. Twins are made, used and freed in one dry run. */
typedef struct situ_trainer {
  /** Makes the twin of `self` for a copy of its module, as at the beginning of a step. NULL after recording an
      error. */
  void *(*twin)(void *self, const situ_twin_module *module);
  void (*free)(void *twin);
  /** Of a module: forwards and backwards of this rank in a step. NULL for an optimiser, and where `run` is given. */
  int64_t (*passes)(const void *twin);
  /** Of a module: all forwards and backwards of a step, on the inputs of the check, where they are. May be NULL. */
  situ_status (*run)(void *twin, const situ_tree *inputs, situ_twin_loss loss, void *payload);
  /** Of an optimiser: a step, after which no parameter has a gradient. NULL for a module. */
  situ_status (*step)(void *twin);
} situ_trainer;

/** Notes what trains a module, or steps an optimiser, in place of what did; how NULL: nothing does, if `self` did. */
SITU_API SITU_CHECKED situ_status situ_set_trainer(const void *object, const situ_trainer *how, void *self);
/** What trains a module, or steps an optimiser, and in *self the object that was noted; NULL if there is none. */
SITU_API const situ_trainer *situ_trainer_of(const void *object, void **self);

SITU_END
#endif
