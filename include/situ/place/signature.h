/* The signature of a module: on which devices its parameters, its inputs and its results are.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_SIGNATURE_H
#define SITU_PLACE_SIGNATURE_H

#include "../nn.h"

SITU_BEGIN

/* A signature is a text, a map of devices by path as in situ_nn_to_options.map:

     "parameters.encoder=sim:0, parameters.head=cpu, inputs.0=sim:0, inputs.mask=cpu, outputs=cpu"

   Paths begin with `parameters` (of parameters and buffers), `inputs` or `outputs`; then comes the path in the module,
   or in the tree of a call. A single tensor is "inputs", or "outputs". */

/** Writes the signature of a module: where its parameters and buffers are, where its inputs must be, and where its
    results are then. Runs it dry, as situ_place_check does, on inputs of which shape and dtype matter. An input that
    the module takes from several devices is listed where it is; on meta, on the module's device. inputs NULL:
    parameters alone, without a run. SITU_E_STATE, with the report of the check, if no devices of the inputs let it run.

    Written to buffer (truncated at size, always terminated; may be NULL if size is 0); returns the length of the whole
    text, as snprintf does; negative on error. */
SITU_API int64_t situ_place_signature(situ_nn_module *m, const situ_tree *inputs, char *buffer, size_t size);

/** Declares the signature that a module must have, or a part of it: what has no path in it may be anywhere. Each call
    of the module is then checked: SITU_E_DEVICE names the module, the tensor, both devices, and what to write.
    situ_place_check finds all that differs. As a hook it runs in the order of registration, so behind
    situ_nn_bring_inputs if that was told before; a clone has it too. NULL: no signature any more.

    SITU_E_ARG for what is not a signature, and for parameters that are not there; at a call, for a path of inputs or
    outputs that it does not have. */
SITU_API SITU_CHECKED situ_status situ_place_declare(situ_nn_module *m, const char *signature);

SITU_END
#endif
