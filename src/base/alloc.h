/* Host memory for the library's own objects, behind one hook, so that tests can make each allocation fail once.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_ALLOC_H
#define SITU_BASE_ALLOC_H

#include "base/thread.h"
#include "situ/sys/alloc.h"

/* All return NULL when memory runs out, without recording an error: only the caller knows the op. */
void *situ__alloc(size_t bytes);                     /* not initialised */
void *situ__calloc(size_t count, size_t size);       /* zeroed; NULL if count * size overflows */
void *situ__realloc(void *old, size_t bytes);        /* old stays valid on failure */
void *situ__aligned(size_t alignment, size_t bytes); /* free with situ__free; 2 MiB: on huge pages where possible */
void situ__free(void *memory);
char *situ__strdup(const char *text);
/* A text with several owners: the parts of a copied module have the names of those that they are copies of. NULL in:
   NULL out. */
char *situ__shared_text(const char *text); /* a copy, with one owner; NULL when memory runs out */
char *situ__share_text(char *shared);      /* one owner more */
void situ__drop_given(char *shared);
/* The last owner frees it. */
static inline void situ__drop_text(char *shared) {
  if (shared) situ__drop_given(shared);
}
/* For error records and caches: situ_fail_allocation neither counts nor fails it, so that the n-th allocation is the
   same one whether or not an error was recorded before. */
void *situ__alloc_uncounted(size_t bytes);
void *situ__aligned_uncounted(size_t alignment, size_t bytes);

/* Ensures capacity for `needed` elements of `size` bytes. `array` is the address of a pointer to the elements; an empty
   array is NULL with capacity 0. The capacity at least doubles, so that n additions of one element cost O(n). If memory
   runs out or the size overflows, both stay as they are, and false is returned, after recording an error of op; op
   NULL: the caller records it. */
bool situ__grow_slow(const char *op, void *array, int64_t *capacity, size_t size, int64_t needed) SITU_COLD;
static inline bool situ__grow(const char *op, void *array, int64_t *capacity, size_t size, int64_t needed) {
  /* Unsigned, so that a sum that has overflowed is refused. */
  return __builtin_expect((uint64_t)needed <= (uint64_t)*capacity, 1) ||
         situ__grow_slow(op, array, capacity, size, needed);
}

/* Memory for what a kernel allocates and frees again before it returns, so that a graph's replay calls no allocator.
   While a thread has one, situ__alloc and situ__calloc serve from it what fits, and situ__free of such memory does
   nothing: it is free when `used` is set to 0. */
typedef struct situ__scratch {
  char *memory;
  size_t bytes, used; /* used: what was asked for, whether it fitted or not */
} situ__scratch;
extern SITU__THREAD_LOCAL situ__scratch *situ__scratch_now; /* NULL: this thread has none */
/* 64-byte aligned; NULL if it does not fit. Only if there is one. */
void *situ__scratch_take(size_t bytes);
static inline bool situ__scratch_owns(const void *memory) {
  const situ__scratch *s = situ__scratch_now;
  const char *at = memory;
  return __builtin_expect(s != NULL, 0) && at >= s->memory && at < s->memory + s->bytes;
}

/* Small objects of one size that are allocated and freed often (tensors, tape nodes): thread-local free lists over
   slabs, one class per 64 bytes up to 1 KiB, which begin at cache lines; larger sizes go to situ__alloc. Pass the same
   size to both functions. */
void *situ__small_alloc(size_t size);
void situ__small_free(void *object, size_t size);
/* A larger one with the same content; NULL with nothing done when memory runs out. old may be NULL, of size 0. */
void *situ__small_grow(void *old, size_t old_size, size_t size);
/* Frees the memory in this thread's free lists, and what no object of any thread uses. */
void situ__small_trim(void);

/* Counts one allocation for situ_fail_allocation. Returns true if it must fail. For allocators that serve from a
   cache. */
extern bool situ__alloc_watched;
bool situ__alloc_count(void);
static inline bool situ__alloc_is_watched(void) {
  return __builtin_expect(__atomic_load_n(&situ__alloc_watched, __ATOMIC_RELAXED), 0);
}
static inline bool situ__alloc_refused(void) { return situ__alloc_is_watched() && situ__alloc_count(); }

/* Poisons memory in a free list, so that AddressSanitizer reports a use after free. */
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
