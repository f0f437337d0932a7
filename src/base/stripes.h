/* Spin locks for objects of which there are too many for the list of mutex.h: they share these, by address, and a fork
   takes all of them. A thread holds at most one, for a few instructions, and does not fork meanwhile.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_STRIPES_H
#define SITU_BASE_STRIPES_H

#include "base/refs.h"

enum { SITU__STRIPES = 64 };
/* Each in a cache line of its own. */
typedef struct situ__stripe {
  _Alignas(64) uint32_t lock;
} situ__stripe;
extern situ__stripe situ__stripes[SITU__STRIPES]; /* fork.c */

static inline uint32_t *situ__stripe_of(const void *object) {
  return &situ__stripes[(uintptr_t)object / 128 % SITU__STRIPES].lock;
}
static inline void situ__stripe_lock(const void *object) { situ__spin_lock(situ__stripe_of(object)); }
static inline void situ__stripe_unlock(const void *object) { situ__spin_unlock(situ__stripe_of(object)); }

#endif
