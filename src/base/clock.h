/* A clock that never jumps.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_CLOCK_H
#define SITU_BASE_CLOCK_H

#include <time.h>

/* Seconds since some time in the past. */
static inline double situ__seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
