/* Remembers, in a forked child, that threads and devices exist only in the parent.
   SPDX-License-Identifier: MIT */
#include "base/fork.h"

#include <pthread.h>

bool situ__fork_happened;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void) { __atomic_store_n(&situ__fork_happened, true, __ATOMIC_RELAXED); }
static void install_handler(void) { (void)pthread_atfork(NULL, NULL, in_child); }

void situ__fork_guard(void) { (void)pthread_once(&once, install_handler); }
