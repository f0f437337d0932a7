/* A hash map from pointers to pointers: open addressing, load factor at most one half.
   SPDX-License-Identifier: MIT */
#include "base/map.h"

#include <stdint.h>

#include "base/alloc.h"

/* Fibonacci hashing, but what lies within 2 KiB stays in order: a walk over objects that were allocated one after
   another then meets the table in order, too, and does not wait for each entry. Larger ranges would fill each other's
   entries. Objects in the same 128 bytes are scattered, as they would all want the same entry. */
static size_t slot_of(const void *key) {
  enum { FINE = 7, RANGE = 11 };
  const uint64_t address = (uint64_t)(uintptr_t)key, order = (UINT64_C(1) << RANGE) - (UINT64_C(1) << FINE);
  return (size_t)(((address & ~order) * 0x9e3779b97f4a7c15u >> 20) + ((address & order) >> FINE));
}

static struct situ__map_entry *find(struct situ__map_entry *entries, size_t size, const void *key) {
  size_t at = slot_of(key);
  while (entries[at & (size - 1)].key && entries[at & (size - 1)].key != key) at++;
  return &entries[at & (size - 1)];
}

void *situ__map_get(const situ__map *map, const void *key) {
  return map->size ? find(map->entries, map->size, key)->value : NULL;
}

bool situ__map_put(situ__map *map, const void *key, void *value) {
  if (2 * (map->count + 1) > map->size) {
    size_t size = map->size ? 2 * map->size : 32;
    struct situ__map_entry *entries = situ__calloc(size, sizeof *entries);
    if (!entries) return false;
    for (size_t i = 0; i < map->size; i++)
      if (map->entries[i].key) *find(entries, size, map->entries[i].key) = map->entries[i];
    situ__free(map->entries);
    map->entries = entries;
    map->size = size;
  }
  struct situ__map_entry *entry = find(map->entries, map->size, key);
  map->count += !entry->key;
  entry->key = key;
  entry->value = value;
  return true;
}

void situ__map_free(situ__map *map) {
  situ__free(map->entries);
  *map = (situ__map){ 0 };
}
