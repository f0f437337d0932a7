/* After fork, a child must not touch threads and devices of its parent: calls refuse instead of hanging.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FORK_H
#define SITU_BASE_FORK_H

#include <stdbool.h>

/* True in a child of a process in which the pool or a queue had been started. One relaxed load. */
bool situ__forked(void);
/* Called once by whoever starts a thread or opens a device. */
void situ__fork_guard(void);

#endif
