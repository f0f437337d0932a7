/* Looking at where modules are: sums, a tree in the terminal.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_DRAW_H
#define SITU_PLACE_DRAW_H

#include "../nn.h"

SITU_BEGIN

/** What of a module is where. */
typedef struct situ_placement {
  int64_t     parameters, buffers;  /**< tensors, shared ones once */
  uint64_t    bytes;                /**< of their storages, shared ones once */
  bool        mixed;                /**< on more than one device */
  situ_device device;               /**< the one device, if not mixed; {0}: no tensors */
} situ_placement;
SITU_API SITU_CHECKED situ_status situ_place_of(situ_nn_module *m, situ_placement *out);

/** Prints the module tree to stdout: each tensor with device, dtype, shape and bytes, each module
    with its sum. Colour by device on a terminal unless NO_COLOR is set. */
SITU_API void situ_place_print(situ_nn_module *m);

SITU_END
#endif
