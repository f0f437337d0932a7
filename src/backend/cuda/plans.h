/* What a library made of the problems it was asked about: a few places for each, and the one that was not used for longest goes.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CUDA_PLANS_H
#define SITU_BACKEND_CUDA_PLANS_H

#include <stddef.h>
#include <stdint.h>

/* What a plan begins with; the problem follows, which is compared as bytes. */
typedef struct situ__cuda_plan {
  uint64_t used; /* when; 0: an empty place */
} situ__cuda_plan;

/* The place of a problem of `bytes` bytes (whole words) among `count` plans (of SITU__PLAN_WAYS) of `size` bytes: its plan, or
   an empty one (used is 0), for which an old plan may have been dropped. */
enum { SITU__PLAN_WAYS = 8 };
void *situ__cuda_place(void *plans, size_t count, size_t size, const void *problem, size_t bytes,
                       void (*drop)(void *plan));

#endif
