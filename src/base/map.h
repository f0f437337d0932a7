/* A hash map from pointers to pointers: which objects were visited, and what each was replaced with.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_MAP_H
#define SITU_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed: empty. Keys must not be NULL. */
typedef struct situ__map {
  struct situ__map_entry {
    const void *key;
    void *value;
  } * entries;
  size_t size, count; /* size: capacity, a power of two */
} situ__map;

/* Returns NULL for an absent key. */
void *situ__map_get(const situ__map *map, const void *key);
/* Inserts or replaces. Returns false when memory runs out, with the map unchanged. */
bool situ__map_put(situ__map *map, const void *key, void *value);
void situ__map_free(situ__map *map);

#endif
