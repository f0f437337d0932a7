/* After fork, a child must not touch threads and devices of its parent: calls refuse instead of
   hanging.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FORK_H
#define SITU_BASE_FORK_H

#include <stdbool.h>

extern bool situ__fork_happened;
/* True in a child of a process in which the pool or a queue had been started. One relaxed load. */
static inline bool situ__forked(void) { return __atomic_load_n(&situ__fork_happened, __ATOMIC_RELAXED); }
/* Called by whoever starts a thread or opens a device, before it does. */
void situ__fork_guard(void);

#endif
