/* Thread-local state that is cheap to read.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_THREAD_H
#define SITU_BASE_THREAD_H

/* For pointers and counters only: a shared library's variables of this TLS model must fit into the few hundred bytes
   that the loader reserves for libraries opened by dlopen. Reading one costs a single instruction more than a
   global. */
#define SITU__THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

#endif
