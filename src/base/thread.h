/* State of one thread: a pointer that is cheap to read, and a call when the thread ends.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_THREAD_H
#define SITU_BASE_THREAD_H

/* For pointers and counters only: a shared library that uses this model must fit into the few
   hundred bytes that the loader keeps for libraries opened late. Reading one costs a single
   instruction more than a global. */
#define SITU__THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

#endif
