/* Gradients that leave the tensor that they belong to, and saved values that are kept elsewhere: for code that
   distributes training over ranks, or over memories.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_GRAD_H
#define SITU_SYS_GRAD_H

#include "../autograd.h"

SITU_BEGIN

/** Drops the gradient of t, and remembers that it is kept in parts elsewhere: situ_grad is NULL, and calls that need
    the whole gradient (clipping, a step, a gradient scaler) are refused with SITU_E_STATE. Ends with the next
    situ_set_grad or gradient of a backward. */
SITU_API SITU_CHECKED situ_status situ_set_grad_in_parts(situ_tensor *t);
/** Whether the gradient of t is kept in parts elsewhere. */
SITU_API bool situ_grad_is_in_parts(const situ_tensor *t);
/** From a grad ready hook: returns true if the gradient does not become .grad, so that its memory is free once the hook
    has let go of it; false if it is .grad already. Outside of such a hook false after recording SITU_E_STATE. */
SITU_API bool situ_take_ready_grad(void);

/** As situ_autograd_graph_saved_tensors_hooks_begin: but what pack returns NULL for is left to the enclosing hooks. */
SITU_API SITU_CHECKED situ_status situ_saved_hooks_begin_first(const situ_saved_tensors_hooks *hooks);

SITU_END
#endif
