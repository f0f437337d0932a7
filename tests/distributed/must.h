/* An assertion in the thread of a rank.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_DIST_MUST_H
#define SITU_TEST_DIST_MUST_H

#include "situ/sys/comm.h"

/* Errors of a thread cannot be asserted in it: it records them, goes to its `out`, and the main thread looks. */
#define MUST(condition)                                                                      \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      if (situ_error() == SITU_OK) (void)situ_comm_refuse(SITU_E_STATE, "test", #condition); \
      goto out;                                                                              \
    }                                                                                        \
  } while (0)

#endif
