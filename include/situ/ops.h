/* Operations on tensors, one family per header. Conventions of all of them:
   - the result belongs to the innermost open scope; NULL on error, and NULL if any operand is NULL;
   - operands must be on one device: no op copies between devices to make a call work, unless a policy allows it
     (policy.h);
   - a dimension may be negative: it counts from the end;
   - a struct of options that begins with `size` comes from its function ..._defaults(), and 0 is 0 in it (a size of 0,
     or above the library's, is SITU_E_ARG); in the others a zero field is PyTorch's default; a positional number is
     taken as it is given;
   - a name that ends in `_` writes into its first operand and returns it.
   Threads: tensors may be read by several; writes in place are the caller's to lock (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_H
#define SITU_OPS_H

#include "ops/binary.h"
#include "ops/create.h"
#include "ops/fft.h"
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/loss.h"
#include "ops/matrix.h"
#include "ops/nn.h"
#include "ops/reduce.h"
#include "ops/shape.h"
#include "ops/unary.h"

#endif
