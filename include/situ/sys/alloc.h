/* The allocator hook for the library's host memory.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_ALLOC_H
#define SITU_SYS_ALLOC_H

#include "../api.h"

SITU_BEGIN

/** Replacements of malloc, realloc and free. reallocate(NULL, n) allocates. alignment is a power of two; 0: as
    malloc. */
typedef struct situ_allocator {
  void *(*allocate)(size_t bytes, size_t alignment, void *payload);
  void *(*reallocate)(void *old, size_t bytes, void *payload);
  void (*release)(void *memory, void *payload);
  void *payload;
} situ_allocator;

/** Installs an allocator; NULL: malloc's. Only while the library owns no memory (before the first call, or after
    situ_empty_cache with no live tensor), because memory is released by the allocator installed at that time. */
SITU_API void situ_set_allocator(const situ_allocator *allocator);

/** For tests: makes the n-th allocation from now (1: the next) fail and, if `sticky`, every later one; 0: none. Counts
    host and cpu-tensor allocations of all threads. */
SITU_API void situ_fail_allocation(uint64_t nth, bool sticky);
/** Number of allocations since the last situ_fail_allocation. */
SITU_API uint64_t situ_allocation_count(void);

SITU_END
#endif
