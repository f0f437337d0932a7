/* The memory of a graph: temporaries, which only the graph uses, lie in one block, where those that are not needed at
   the same time share bytes.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/graph/parts.h"

enum { ALIGNMENT = 64 };

static bool is_temporary(const situ__graph_place *p) {
  const uint32_t special = SITU_STORAGE_FOREIGN | SITU_STORAGE_SLICE | SITU_STORAGE_SAMPLE | SITU_STORAGE_BLOCKS;
  const situ_storage *s = p->storage;
  return p->made && s->bytes && !(s->flags & special) && !s->links && __atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1;
}

/* Temporaries last, the largest first, those of one size in the order of their use: then as few as possible lie side by
   side. */
static int by_kind_and_size(const void *a, const void *b) {
  const situ__graph_place *x = a, *y = b;
  if (x->temporary != y->temporary) return x->temporary - y->temporary;
  if (x->storage->bytes != y->storage->bytes) return x->storage->bytes < y->storage->bytes ? 1 : -1;
  return (x->first > y->first) - (x->first < y->first);
}

typedef struct plan {
  const situ__graph_place *place; /* the temporaries */
  size_t *offset;                 /* of each */
  size_t *placed;                 /* their indices, in the order of their offsets */
  size_t count, total;
} plan;

static size_t rounded(size_t bytes) { return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

/* The lowest offset where no byte belongs to another one at the same time. */
static void put(plan *p, size_t i) {
  const situ__graph_place *own = &p->place[i];
  const size_t bytes = rounded(own->storage->bytes);
  size_t at = 0, k = 0;
  for (; k < i; k++) {
    const size_t j = p->placed[k];
    const situ__graph_place *other = &p->place[j];
    if (other->last < own->first || own->last < other->first) continue;
    if (p->offset[j] >= at + bytes) break;
    const size_t end = p->offset[j] + rounded(other->storage->bytes);
    if (end > at) at = end;
  }
  for (k = i; k > 0 && p->offset[p->placed[k - 1]] > at; k--) p->placed[k] = p->placed[k - 1];
  p->placed[k] = i;
  p->offset[i] = at;
  if (at + bytes > p->total) p->total = at + bytes;
}

static void move_into(const plan *p, situ_storage *block, situ__graph_place *place) {
  for (size_t i = 0; i < p->count; i++) {
    situ_storage *own = place[i].storage;
    situ__storage_retain(block);
    situ__storage_replace(own, block, p->offset[i], own->bytes, true);
    place[i].data = own->data;
  }
}

/* Lays out the temporaries, which are behind g->shared. */
static situ_status plan_temporaries(situ_graph *g) {
  const char *op = "graph_capture_end";
  plan p = { .place = g->place + g->shared, .count = g->places - g->shared };
  const size_t bytes = 2 * p.count * sizeof *p.offset;
  p.offset = situ__alloc(bytes);
  if (!p.offset) return situ__no_memory(op, bytes);
  p.placed = p.offset + p.count;
  for (size_t i = 0; i < p.count; i++) put(&p, i);
  situ_storage *block = situ__storage_new(op, g->device, p.total);
  if (block) move_into(&p, block, g->place + g->shared);
  situ__storage_release(block);
  situ__free(p.offset);
  return block ? SITU_OK : situ_error();
}

void situ__graph_mark_temporaries(situ_graph *g) {
  if (!situ__backend(g->device)->addressable) return;
  for (size_t i = 0; i < g->places; i++) g->place[i].temporary = is_temporary(&g->place[i]);
}

situ_status situ__graph_plan(situ_graph *g) {
  g->shared = g->places;
  if (!g->places) return SITU_OK;
  qsort(g->place, g->places, sizeof *g->place, by_kind_and_size);
  while (g->shared && g->place[g->shared - 1].temporary) g->shared--;
  return g->shared < g->places ? plan_temporaries(g) : SITU_OK;
}
