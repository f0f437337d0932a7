/* Shared by the losses that consist of other ops.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_LOSS_INTERNAL_H
#define SITU_OPS_LOSS_INTERNAL_H

#include "ops/ops.h"

/* Checks a loss's tensors under its own name, before anything runs; under autocast they are cast to f32, in place in
   `in`. Returns false after recording an error. */
bool situ__loss_operands(const char *op, const situ_operand *operands, situ_tensor **in, int count);
/* Combines the values of all samples. NULL stays NULL. */
situ_tensor *situ__reduce_loss(const char *op, situ_tensor *each, situ_reduction reduction);
/* Checks that two tensors have one shape. Returns false after recording an error. */
bool situ__equal_shapes(const char *op, const char *name, const situ_tensor *x, const char *other_name,
                        const situ_tensor *other);
/* Checks that a factor broadcasts to input's shape without enlarging it; NULL does. Returns false after recording an
   error. */
bool situ__spreads_to(const char *op, const char *name, const situ_tensor *factor, const situ_tensor *input);

#endif
