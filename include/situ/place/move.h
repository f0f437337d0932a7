/* Moving modules, whole or not at all.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_MOVE_H
#define SITU_PLACE_MOVE_H

#include "../nn.h"

SITU_BEGIN

/** Moves every parameter, buffer and gradient of a module to a device, in place: storages move, so
    tied weights, views and the caller's own handles follow. All or nothing: on failure everything is
    where it was, bit for bit. */
SITU_API SITU_CHECKED situ_status situ_nn_to(situ_nn_module *m, situ_device device);

SITU_END
#endif
