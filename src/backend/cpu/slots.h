/* Scratch memory for the chunks of a parallel loop: one slot for each that can run at the same time.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_SLOTS_H
#define SITU_BACKEND_CPU_SLOTS_H

#include "base/fail.h"

typedef struct situ__slots {
  char *memory;
  size_t bytes, total; /* of a slot, of all */
  uint64_t taken;      /* bit by slot */
  int count;
} situ__slots;

/* Room for a loop of `chunks` chunks that need `bytes` each (0: none is needed). Failure is recorded under op. */
situ_status situ__slots_open(situ__slots *slots, const char *op, size_t bytes, int64_t chunks);
void situ__slots_close(situ__slots *slots);
/* A slot of one's own until it is given back; 64-byte aligned; NULL if none is needed. What it holds is undefined. */
void *situ__slots_take(situ__slots *slots);
void situ__slots_give(situ__slots *slots, void *slot);

#endif
