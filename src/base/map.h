/* A map from pointers to pointers: which parts have been seen, and what became of them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_MAP_H
#define SITU_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* Cleared is empty. Keys are not NULL. */
typedef struct situ__map {
  struct situ__map_entry {
    const void *key;
    void *value;
  } * entries;
  size_t size, count; /* size: a power of two */
} situ__map;

/* NULL: not there. */
void *situ__map_get(const situ__map *map, const void *key);
/* Adds or replaces; false: no memory, nothing changed. */
bool situ__map_put(situ__map *map, const void *key, void *value);
void situ__map_free(situ__map *map);

#endif
