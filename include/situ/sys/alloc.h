/* The allocator hook: where the library's own host memory comes from.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_ALLOC_H
#define SITU_SYS_ALLOC_H

#include "../api.h"

SITU_BEGIN

/** Replaces malloc, realloc and free. realloc(NULL, n) allocates; alignment is 64 bytes at least for every
    block that asks for it through `alignment` (a power of two; 0: as malloc). */
typedef struct situ_allocator {
  void *(*allocate)(size_t bytes, size_t alignment, void *payload);
  void *(*reallocate)(void *old, size_t bytes, void *payload);
  void (*release)(void *memory, void *payload);
  void *payload;
} situ_allocator;

/** Installs an allocator; NULL: malloc's. Only while the library holds nothing (before the first call, or after
    situ_empty_cache with no live tensor): memory goes back to the allocator that is installed then. */
SITU_API void situ_set_allocator(const situ_allocator *allocator);

/** For tests: the n-th allocation from now (1: the next) and, if `sticky`, every later one fails; 0: none.
    Counts host and cpu-tensor allocations of every thread. */
SITU_API void situ_fail_allocation(uint64_t nth, bool sticky);
/** Allocations since the last situ_fail_allocation. */
SITU_API uint64_t situ_allocation_count(void);

SITU_END
#endif
