/* After fork, a child must not touch the threads and devices of its parent: calls return errors instead of hanging.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FORK_H
#define SITU_BASE_FORK_H

#include <stdbool.h>

extern bool situ__fork_happened;
/* True in a child of a process that had started the pool or a queue before the fork. One relaxed load. */
static inline bool situ__forked(void) { return __atomic_load_n(&situ__fork_happened, __ATOMIC_RELAXED); }
/* From here on a fork takes all locks (mutex.h) and leaves them free. */
void situ__fork_watch(void);
/* Call before starting a thread or opening a device. */
void situ__fork_guard(void);

#endif
