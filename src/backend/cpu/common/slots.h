/* Scratch memory for the chunks of a parallel loop: one slot for each chunk that can run at the same time.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_SLOTS_H
#define SITU_BACKEND_CPU_SLOTS_H

#include "base/fail.h"

typedef struct situ__slots {
  char *memory;
  size_t bytes, total; /* of a slot, of all slots */
  uint64_t taken;      /* one bit for each slot */
  int count;
} situ__slots;

/* Allocates slots for a loop of `chunks` chunks that need `bytes` each (0: none is needed). Records failure under
   op. */
situ_status situ__slots_open(situ__slots *slots, const char *op, size_t bytes, int64_t chunks);
void situ__slots_close(situ__slots *slots);
/* Takes a slot until it is given back; 64-byte aligned; NULL if none is needed. Its content is undefined. */
void *situ__slots_take(situ__slots *slots);
void situ__slots_give(situ__slots *slots, void *slot);

#endif
