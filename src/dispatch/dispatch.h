/* Floor 4: the one way to a kernel: check, infer, launch, record.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DISPATCH_DISPATCH_H
#define SITU_DISPATCH_DISPATCH_H

#include "autograd/tape.h"
#include "tensor/tensor.h"

/* check.c: handles alive, one device, dtypes as the schema says. Sets call->device. False: recorded, explained. */
bool situ__check(situ_call *call);

/* explain.c: records a mismatch of operands, with the table of all of them; odd: bit mask of those at fault, 0: those that
   have not what most have. */
bool situ__explain(const situ_call *call, situ_status status, unsigned odd, const char *fmt, ...) SITU_PRINTF(4, 5) SITU_COLD;

/* fit.c: a gradient in its operand's shape and dtype: broadcast dimensions summed, cast back. Owned by the scope;
   NULL: recorded. */
situ_tensor *situ__fit_gradient(const char *op, situ_tensor *grad, const situ_shape *shape, situ_dtype dtype);

#endif
