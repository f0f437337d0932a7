/* Modules that compute on one device while their tensors are elsewhere: weights that are larger than a device's memory.
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_OFFLOAD_H
#define SITU_NN_OFFLOAD_H

#include "../nn.h"

SITU_BEGIN

/** From now on m and its parts compute on `device`, while their parameters and buffers stay where they are: on the
    host, in a mapped file, on meta with a recipe, on another device. The call of a module copies its own tensors to
    `device` and frees the copies when it returns; backward copies a parameter again for each call that needs its
    values. What calls save for backward does not hold such a copy. So `device` holds the activations, and the weights
    of the modules that run. Inputs must be on `device`, and results are there. Copies to `device`, and of gradients,
    are queued: with a queue of their own they run beside the layer before, whose copies stay until then as far as
    `device` has memory.

    The module's fields, its state dict, optimisers, files and moves see its own tensors only: gradients arrive where
    the parameters are, and optimisers step there. A buffer that a forward has written is copied back when the call
    returns; SITU_E_STATE if another thread has written it meanwhile. Several threads may run m, each with copies of its
    own. A ledger records every copy with the reason "offload" (situ_ledger_options.allow_offload).

    A copy is made of the tensors of the module that is called. A forward that reads a tensor in a field of a part,
    instead of calling the part, gets it where it is, and an error names both devices; so does a program from a file.
    A part that is added later is offloaded too. situ_nn_to, of m or of a part, ends it for what it moves, as does
    device {0} here, which copies nothing.

    SITU_E_DEVICE: device is meta. SITU_E_STATE: m has a lazy part, or another thread uses m. */
SITU_API SITU_CHECKED situ_status situ_nn_offload(situ_nn_module *m, situ_device device);
/** The device that m computes on since situ_nn_offload; {0}: where its tensors are. */
SITU_API situ_device situ_nn_offloaded_to(const situ_nn_module *m);

SITU_END
#endif
