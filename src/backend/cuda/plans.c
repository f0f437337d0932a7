/* Cache of plans: set-associative by a hash of the problem.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/plans.h"

#include <string.h>

static uint64_t hash_of(const unsigned char *problem, size_t bytes) {
  uint64_t hash = 0;
  for (size_t at = 0; at + sizeof hash <= bytes; at += sizeof hash) {
    uint64_t word;
    memcpy(&word, problem + at, sizeof word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

void *situ__cuda_place(void *plans, size_t count, size_t size, const void *problem, size_t bytes,
                       void (*drop)(void *plan)) {
  const size_t first = hash_of(problem, bytes) % (count / SITU__PLAN_WAYS) * SITU__PLAN_WAYS;
  situ__cuda_plan *oldest = NULL;
  for (size_t k = first; k < first + SITU__PLAN_WAYS; k++) {
    situ__cuda_plan *plan = (situ__cuda_plan *)(void *)((char *)plans + k * size);
    if (plan->used && memcmp(plan + 1, problem, bytes) == 0) return plan;
    if (!oldest || plan->used < oldest->used) oldest = plan;
  }
  if (oldest->used) drop(oldest);
  return oldest;
}
