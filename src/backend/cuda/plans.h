/* Cache of the plans that a library made for problems: a few slots for each hash; the least recently used one is
   evicted.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CUDA_PLANS_H
#define SITU_BACKEND_CUDA_PLANS_H

#include <stddef.h>
#include <stdint.h>

/* Begins every plan; the problem follows, and is compared as bytes. */
typedef struct situ__cuda_plan {
  uint64_t used; /* time of last use; 0: a free slot */
} situ__cuda_plan;

/* The slot of a problem of `bytes` bytes (whole words) among `count` plans (a multiple of SITU__PLAN_WAYS) of `size`
   bytes: its plan, or a free one (used is 0), for which an old plan may have been dropped. */
enum { SITU__PLAN_WAYS = 8 };
void *situ__cuda_place(void *plans, size_t count, size_t size, const void *problem, size_t bytes,
                       void (*drop)(void *plan));

#endif
