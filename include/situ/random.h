/* Random numbers: counter-based (Philox), the same bits on every device.
   Threads: draws from the default generator may run concurrently; the caller locks its own generators
   (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_RANDOM_H
#define SITU_RANDOM_H

#include "tensor.h"

SITU_BEGIN

/** Seeds the default generator (torch.manual_seed) and sets its offset to 0. */
SITU_API void situ_manual_seed(uint64_t seed);
/** The default generator's state (torch.get_rng_state). */
SITU_API situ_generator situ_get_rng_state(void);
/** Restores the default generator's state. */
SITU_API void situ_set_rng_state(situ_generator state);
/** A new generator with this seed, at offset 0. */
SITU_API situ_generator situ_generator_seeded(uint64_t seed);

SITU_END
#endif
