/* A hash table from texts to numbers: open addressing, at most half full.
   SPDX-License-Identifier: MIT */
#include "base/names.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

/* A file can make names collide, so that a table of n names takes n^2 steps: n is bounded by the file. */
static uint64_t hash_name(const char *name) {
  const uint64_t hash = situ__hash_text(name);
  return hash ^ hash >> 29;
}

/* The entry of a name, or the free one where it would be. */
static struct situ__names_entry *find_entry(const situ__names *n, const char *name) {
  for (uint64_t at = hash_name(name);; at++) {
    struct situ__names_entry *e = &n->entry[at & (uint64_t)(n->size - 1)];
    if (!e->name || strcmp(e->name, name) == 0) return e;
  }
}

int32_t situ__names_get(const situ__names *names, const char *name) {
  const struct situ__names_entry *e = names->size ? find_entry(names, name) : NULL;
  return e && e->name ? e->number : -1;
}

bool situ__names_put(situ__names *names, const char *name, int32_t number) {
  if (2 * (names->count + 1) > names->size) {
    situ__names larger = { .size = names->size ? 2 * names->size : 64, .count = names->count };
    larger.entry = situ__calloc((size_t)larger.size, sizeof *larger.entry);
    if (!larger.entry) return false;
    for (int64_t i = 0; i < names->size; i++)
      if (names->entry[i].name) *find_entry(&larger, names->entry[i].name) = names->entry[i];
    situ__free(names->entry);
    *names = larger;
  }
  *find_entry(names, name) = (struct situ__names_entry){ name, number };
  names->count++;
  return true;
}

void situ__names_free(situ__names *names) {
  situ__free(names->entry);
  *names = (situ__names){ 0 };
}
