/* Host memory for the library's own objects: one hook, so that a test can fail every allocation
   once.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_ALLOC_H
#define SITU_BASE_ALLOC_H

#include "situ/sys/alloc.h"

/* All return NULL when there is no memory, without recording an error: the caller knows the op. */
void *situ__alloc(size_t bytes);                     /* not cleared */
void *situ__calloc(size_t count, size_t size);       /* cleared; NULL if count * size overflows */
void *situ__realloc(void *old, size_t bytes);        /* old survives a failure */
void *situ__aligned(size_t alignment, size_t bytes); /* free with situ__free too; 2 MiB: on huge pages where possible */
void situ__free(void *memory);
char *situ__strdup(const char *text);
/* For keeping what an error says, and for caches: neither counted nor refused by
   situ_fail_allocation, so that the n-th allocation is the same one whether or not an error was
   met before. */
void *situ__alloc_uncounted(size_t bytes);

/* Objects of one small size that come and go quickly (tensors, tape nodes): thread-local free
   lists over situ__alloc, a class for every 64 bytes up to 1 KiB; larger goes through. size must
   be the same at both ends. */
void *situ__small_alloc(size_t size);
void situ__small_free(void *object, size_t size);
/* Gives this thread's lists back. */
void situ__small_trim(void);

/* Counts one allocation for situ_fail_allocation; true: it must fail. For allocators that serve
   from a cache. */
extern bool situ__alloc_watched;
bool situ__alloc_count(void);
static inline bool situ__alloc_refused(void) {
  return __builtin_expect(__atomic_load_n(&situ__alloc_watched, __ATOMIC_RELAXED), 0) && situ__alloc_count();
}

/* Memory in a free list is out of bounds for everybody else: AddressSanitizer then sees a use
   after free. */
#if defined(__SANITIZE_ADDRESS__)
#define SITU__ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SITU__ASAN 1
#endif
#endif
#ifdef SITU__ASAN
#include <sanitizer/asan_interface.h>
#define SITU__POISON(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define SITU__UNPOISON(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define SITU__POISON(memory, bytes) ((void)(memory), (void)(bytes))
#define SITU__UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#endif
