/* A hash index of a module's parts by name. Without it a container of 20,000 parts compares each new name with all of
   them: 20 us a part.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "nn/nn.h"

struct situ_nn_index {
  size_t size;      /* a power of two, at least twice the number of parts */
  int64_t places[]; /* of slots, from 1; 0: empty */
};

enum { FEW = 16 }; /* parts that are found as fast without an index; a lazy module has fewer */

/* FNV-1a */
static size_t hash_of(const char *name) {
  uint64_t h = 14695981039346656037u;
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
  return (size_t)(h ^ (h >> 32));
}

/* Where the name is, or where it would be. */
static int64_t *place_of(const situ_nn_module *m, const char *name) {
  const size_t mask = m->index->size - 1;
  size_t at = hash_of(name) & mask;
  while (m->index->places[at] && strcmp(m->slots[m->index->places[at] - 1].name, name) != 0) at = (at + 1) & mask;
  return &m->index->places[at];
}

void situ__nn_index_last(situ_nn_module *m) {
  if (m->count < FEW) return;
  int64_t first = m->count - 1;
  if (!m->index || m->index->size < 2 * (size_t)m->count) {
    size_t size = FEW;
    while (size < 4 * (size_t)m->count) size *= 2;
    situ__nn_index_drop(m);
    m->index = situ__calloc(1, sizeof *m->index + size * sizeof *m->index->places);
    if (!m->index) return;
    m->index->size = size;
    first = 0;
  }
  for (int64_t i = first; i < m->count; i++) *place_of(m, m->slots[i].name) = i + 1;
}

void situ__nn_index_drop(situ_nn_module *m) {
  situ__free(m->index);
  m->index = NULL;
}

situ_nn_slot *situ__nn_find(const situ_nn_module *m, const char *name) {
  if (m->index) {
    const int64_t place = *place_of(m, name);
    return place ? &m->slots[place - 1] : NULL;
  }
  for (int64_t i = 0; i < m->count; i++)
    if (strcmp(m->slots[i].name, name) == 0) return &m->slots[i];
  return NULL;
}
