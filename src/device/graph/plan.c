/* The memory of a graph: temporaries, which only the graph uses, and scratch of kernels lie in one block, or in results
   that the graph has not written yet. Those that are not needed at the same time share bytes.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/graph/parts.h"
#include "device/graph/space.h"

enum { ALIGNMENT = 64 };

static bool is_temporary(const situ__graph_place *p) {
  const situ_storage *s = p->storage;
  return p->made && situ__graph_is_plain(s) && !s->links && __atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1;
}

static int by_address(const void *a, const void *b) {
  const char *x = (*(situ__graph_place *const *)a)->storage->data, *y = (*(situ__graph_place *const *)b)->storage->data;
  return (x > y) - (x < y);
}

/* Marks those that overlap memory of a program, in a list by address, one of which is written. */
static void mark_aliased(situ__graph_place **list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const situ_storage *s = list[i]->storage;
    const char *end = (const char *)s->data + s->bytes;
    for (size_t k = i + 1; k < count && (const char *)list[k]->storage->data < end; k++) {
      const bool foreign = (s->flags | list[k]->storage->flags) & SITU_STORAGE_FOREIGN;
      if (foreign && (list[i]->written || list[k]->written)) list[i]->aliased = list[k]->aliased = true;
    }
  }
}

situ_status situ__graph_mark_places(situ_graph *g) {
  if (!situ__backend(g->device)->addressable) return SITU_OK;
  const size_t bytes = (g->places + 1) * sizeof(situ__graph_place *);
  situ__graph_place **list = situ__alloc(bytes);
  if (!list) return situ__no_memory("graph_capture_end", bytes);
  for (size_t i = 0; i < g->places; i++) {
    list[i] = &g->place[i];
    list[i]->temporary = is_temporary(list[i]);
  }
  qsort(list, g->places, sizeof(situ__graph_place *), by_address);
  mark_aliased(list, g->places);
  situ__free(list);
  return SITU_OK;
}

/* Bytes that are needed from the first to the last of two times, in `host`, or in the graph's block if that is NULL. */
typedef struct piece {
  size_t bytes, first, last, at;
  situ__graph_place *place; /* of a temporary; else `work` uses it as scratch */
  situ__graph_work *work;
  situ_storage *host;
} piece;

/* A result that pieces may lie in: offsets of the plan from `at` to `end`. */
typedef struct lodging {
  const situ__graph_place *place;
  size_t at, end;
} lodging;

/* Offsets of hosts follow each other, in the order in which they are first written, and then come those of the block:
   the lowest offset that is free is in the first host that has space, if one has. */
typedef struct plan {
  piece *piece; /* the largest first, those of one size in the order of their use: few lie side by side then */
  lodging *host;
  size_t count, hosts, block, total; /* block: the first offset of the block */
  situ__space space;
} plan;

static int by_size(const void *a, const void *b) {
  const piece *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return (x->first > y->first) - (x->first < y->first);
}

static size_t rounded(size_t bytes) { return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

/* The first host that ends behind `at` of those that are first written after `last`. */
static size_t find_host(const plan *p, size_t last, size_t at) {
  size_t low = 0, high = p->hosts;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (p->host[middle].place->first > last && p->host[middle].end > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Puts a piece into a result that is first written afterwards, into the first of those that have space, else into the
   block. Returns false if memory runs out. */
static bool put(plan *p, piece *own) {
  const situ__span span = { own->first, own->last, own->bytes };
  size_t k = find_host(p, own->last, 0), at = k < p->hosts ? p->host[k].at : p->block;
  for (;; at = p->host[k].end) {
    at = situ__space_lowest(&p->space, &span, at);
    k = find_host(p, own->last, at);
    if (k == p->hosts || at + own->bytes <= p->host[k].end) break;
  }
  own->host = k < p->hosts ? p->host[k].place->storage : NULL;
  own->at = at - (k < p->hosts ? p->host[k].at : p->block);
  if (!own->host && own->at + own->bytes > p->total) p->total = own->at + own->bytes;
  return situ__space_take(&p->space, &span, at);
}

/* ---- what is planned ---- */

static bool collect_pieces(situ_graph *g, plan *p) {
  size_t most = g->places;
  for (const situ__graph_work *k = g->first; k; k = k->next) most += k->scratch.bytes > 0;
  p->piece = situ__alloc(most * sizeof *p->piece + 1);
  if (!p->piece) return false;
  for (size_t i = g->shared; i < g->places; i++) {
    situ__graph_place *own = &g->place[i];
    p->piece[p->count++] =
        (piece){ .bytes = rounded(own->storage->bytes), .first = own->first, .last = own->last, .place = own };
  }
  for (situ__graph_work *k = g->first; k; k = k->next)
    if (k->scratch.bytes)
      p->piece[p->count++] =
          (piece){ .bytes = rounded(k->scratch.bytes), .first = k->number, .last = k->number, .work = k };
  qsort(p->piece, p->count, sizeof *p->piece, by_size);
  return true;
}

static int by_first(const void *a, const void *b) {
  const situ__graph_place *x = ((const lodging *)a)->place, *y = ((const lodging *)b)->place;
  if (x->first != y->first) return x->first > y->first ? 1 : -1;
  return (x > y) - (x < y);
}

static bool collect_hosts(const situ_graph *g, plan *p) {
  p->host = situ__alloc(g->shared * sizeof *p->host + 1);
  if (!p->host) return false;
  for (const situ__graph_place *r = g->place; r < g->place + g->shared; r++) {
    const bool fits = r->made && r->set && !r->skippable && !r->aliased && situ__graph_is_plain(r->storage);
    if (fits && r->storage->bytes >= ALIGNMENT) p->host[p->hosts++].place = r;
  }
  qsort(p->host, p->hosts, sizeof *p->host, by_first);
  for (lodging *h = p->host; h < p->host + p->hosts; h++) {
    h->at = p->block;
    h->end = p->block += h->place->storage->bytes & ~(size_t)(ALIGNMENT - 1);
  }
  return true;
}

/* Returns false if memory runs out. */
static bool make_plan(situ_graph *g, plan *p) {
  size_t times = 1;
  if (!collect_pieces(g, p) || !collect_hosts(g, p)) return false;
  for (size_t i = 0; i < p->count; i++) times = p->piece[i].last >= times ? p->piece[i].last + 1 : times;
  bool good = situ__space_begin(&p->space, times);
  for (size_t i = 0; i < p->count && good; i++) good = put(p, &p->piece[i]);
  return good;
}

static void move_pieces(situ_graph *g, const plan *p) {
  for (piece *own = p->piece; own < p->piece + p->count; own++) {
    situ_storage *host = own->host ? own->host : g->block;
    if (own->work) {
      own->work->scratch.memory = (char *)host->data + own->at;
      continue;
    }
    situ_storage *storage = own->place->storage;
    situ__storage_retain(host);
    situ__storage_replace(storage, host, own->at, storage->bytes, true);
    own->place->data = storage->data;
  }
}

static int temporaries_last(const void *a, const void *b) {
  const situ__graph_place *x = a, *y = b;
  return x->temporary - y->temporary;
}

situ_status situ__graph_plan(situ_graph *g) {
  plan p = { 0 };
  if (g->places) qsort(g->place, g->places, sizeof *g->place, temporaries_last);
  g->shared = g->places;
  while (g->shared && g->place[g->shared - 1].temporary) g->shared--;
  situ_status status = make_plan(g, &p) ? SITU_OK : situ__no_memory("graph_capture_end", p.count * sizeof *p.piece);
  if (status == SITU_OK && p.total) {
    g->block = situ__storage_new("graph_capture_end", g->device, p.total);
    if (!g->block) status = situ_error();
  }
  if (status == SITU_OK) move_pieces(g, &p);
  situ__space_free(&p.space);
  situ__free(p.host);
  situ__free(p.piece);
  return status;
}
