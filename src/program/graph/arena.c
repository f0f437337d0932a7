/* Memory that is released as a whole.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "program.h"

enum { BLOCK = 16 << 10, ALIGNMENT = 16 };

struct situ__arena_block {
  struct situ__arena_block *older;
  _Alignas(ALIGNMENT) char data[];
};

void *situ__arena_take(situ__arena *arena, size_t count, size_t size) {
  size_t bytes;
  if (!situ__mul_size(count, size, &bytes) || bytes > SIZE_MAX / 2) return NULL;
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (!arena->block || bytes > arena->size - arena->used) {
    const size_t capacity = bytes > BLOCK ? bytes : BLOCK;
    struct situ__arena_block *block = situ__alloc(sizeof *block + capacity);
    if (!block) return NULL;
    block->older = arena->block;
    arena->block = block;
    arena->size = capacity;
    arena->used = 0;
  }
  void *taken = arena->block->data + arena->used;
  arena->used += bytes;
  return memset(taken, 0, bytes);
}

char *situ__arena_text(situ__arena *arena, const char *text, size_t length) {
  char *copy = situ__arena_take(arena, length + 1, 1);
  if (copy && length) memcpy(copy, text, length);
  return copy;
}

void situ__arena_free(situ__arena *arena) {
  while (arena->block) {
    struct situ__arena_block *older = arena->block->older;
    situ__free(arena->block);
    arena->block = older;
  }
}
