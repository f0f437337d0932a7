/* A hash index of a module's parts by name. Without it a container of 20,000 parts compares each new name with all of
   them: 20 us a part.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "nn/nn.h"

/* With the name's hash: slots and names of others, which are far apart in memory, are not looked at. */
typedef struct place {
  uint32_t hash, slot; /* slot: from 1; 0: empty */
} place;

struct situ_nn_index {
  size_t size; /* a power of two, at least 4/3 of the number of parts */
  place places[];
};

enum { FEW = 16 }; /* parts that are found as fast without an index; a lazy module has fewer */

static uint32_t hash_of(const char *name, size_t length) {
  const uint64_t h = situ__hash(SITU__HASH, name, length);
  return (uint32_t)(h ^ (h >> 32));
}

/* A name that is not there yet. */
static void insert(struct situ_nn_index *index, place p) {
  const size_t mask = index->size - 1;
  size_t at = p.hash & mask;
  while (index->places[at].slot) at = (at + 1) & mask;
  index->places[at] = p;
}

/* The place of slot i. */
static place place_of(const situ_nn_module *m, int64_t i) {
  const char *name = m->slots[i].name;
  return (place){ hash_of(name, strlen(name)), (uint32_t)i + 1 };
}

/* Another index of the parts before the last one, with space for at least half as many more. */
static void grow(situ_nn_module *m) {
  size_t size = FEW;
  while (size < 2 * (size_t)m->count) size *= 2;
  struct situ_nn_index *old = m->index;
  m->index = m->count <= UINT32_MAX ? situ__calloc(1, sizeof *old + size * sizeof *old->places) : NULL;
  if (m->index) m->index->size = size;
  for (size_t at = 0; m->index && old && at < old->size; at++)
    if (old->places[at].slot) insert(m->index, old->places[at]);
  for (int64_t i = 0; m->index && !old && i < m->count - 1; i++) insert(m->index, place_of(m, i));
  situ__free(old);
}

void situ__nn_index_last(situ_nn_module *m) {
  if (m->count < FEW) return;
  if (!m->index || m->index->size / 4 * 3 < (size_t)m->count) grow(m);
  if (m->index) insert(m->index, place_of(m, m->count - 1));
}

void situ__nn_index_drop(situ_nn_module *m) {
  situ__free(m->index);
  m->index = NULL;
}

void situ__nn_index_copy(situ_nn_module *copy, const situ_nn_module *m) {
  if (!m->index) return;
  const size_t bytes = sizeof *m->index + m->index->size * sizeof *m->index->places;
  copy->index = situ__alloc(bytes);
  if (copy->index) memcpy(copy->index, m->index, bytes);
}

static bool is_named(const situ_nn_slot *slot, const char *path, size_t length) {
  return strncmp(slot->name, path, length) == 0 && !slot->name[length];
}

/* Only the names with its hash are compared. */
static situ_nn_slot *find_indexed(const situ_nn_module *m, const char *path, size_t length) {
  const struct situ_nn_index *index = m->index;
  const uint32_t hash = hash_of(path, length);
  for (size_t at = hash;; at++) {
    const place *p = &index->places[at & (index->size - 1)];
    if (!p->slot) return NULL;
    if (p->hash == hash && is_named(&m->slots[p->slot - 1], path, length)) return &m->slots[p->slot - 1];
  }
}

situ_nn_slot *situ__nn_find_part(const situ_nn_module *m, const char *path, size_t length) {
  if (m->index) return find_indexed(m, path, length);
  for (int64_t i = 0; i < m->count; i++)
    if (is_named(&m->slots[i], path, length)) return &m->slots[i];
  return NULL;
}

situ_nn_slot *situ__nn_find(const situ_nn_module *m, const char *name) {
  return situ__nn_find_part(m, name, strlen(name));
}
