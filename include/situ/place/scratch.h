/* Tensors whose memory is a file: weights, gradients and optimiser states that are larger than the host's memory.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_SCRATCH_H
#define SITU_PLACE_SCRATCH_H

#include "../nn.h"

SITU_BEGIN

/** Of a scratch file. */
typedef struct situ_scratch_options {
  bool keep; /**< it keeps its name, and the program removes it; by default it loses it when it is made */
} situ_scratch_options;

/** Moves m's parameters and buffers, with their gradients and what follows them (optimiser states), into a new file at
    `path`: they are on the cpu, and their memory is the file's, which the system reads and writes back as it needs
    memory. All calls take them, and after situ_nn_offload a device computes with them. Gradients and optimiser states
    of these parameters are made in the file from then on: a gradient as soon as backward has no other use of its
    parameter. Handles, values, ties and offloading stay.

    SITU_E_IO: the disk is full, or there is a file at `path` already. Space is reserved before it is used, so nothing
    has changed then; the same is true of a backward, a step or a load that needs more space. The file has no format
    (situ_save writes one that can be loaded), and a forked child shares its bytes. options may be NULL. */
SITU_API SITU_CHECKED situ_status situ_nn_to_scratch(situ_nn_module *m, const char *path,
                                                     const situ_scratch_options *options);
/** Gives those of m's tensors that are in a scratch file, or mapped from a file (situ_nn_spill, situ_load with .map),
    memory of the host again, with their gradients and what follows them; all, or none. */
SITU_API SITU_CHECKED situ_status situ_nn_unspill(situ_nn_module *m);

SITU_END
#endif
