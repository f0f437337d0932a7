/* Counts the host memory that the library has, now and at most. Call heap_count before anything else.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_HEAP_H
#define SITU_TEST_HEAP_H

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "situ/sys/alloc.h"

static atomic_llong heap_bytes, heap_most;

static void heap_add(void *memory, int sign) {
  const long long now = atomic_fetch_add(&heap_bytes, sign * (long long)malloc_usable_size(memory)) +
                        sign * (long long)malloc_usable_size(memory);
  long long most = atomic_load(&heap_most);
  while (now > most && !atomic_compare_exchange_weak(&heap_most, &most, now)) continue;
}
static void *heap_take(size_t bytes, size_t alignment, void *payload) {
  (void)payload;
  void *memory = alignment ? aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : malloc(bytes);
  heap_add(memory, 1);
  return memory;
}
static void *heap_retake(void *old, size_t bytes, void *payload) {
  (void)payload;
  heap_add(old, -1);
  void *memory = realloc(old, bytes);
  heap_add(memory ? memory : old, 1);
  return memory;
}
static void heap_give(void *memory, void *payload) {
  (void)payload;
  heap_add(memory, -1);
  free(memory);
}
static inline void heap_count(void) {
  static const situ_allocator counting = { .allocate = heap_take, .reallocate = heap_retake, .release = heap_give };
  situ_set_allocator(&counting);
}
/* From now on heap_most is about what follows. Returns the bytes that are in use. */
static inline long long heap_begin(void) {
  const long long now = atomic_load(&heap_bytes);
  atomic_store(&heap_most, now);
  return now;
}

#endif
