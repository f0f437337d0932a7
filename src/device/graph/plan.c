/* The memory of a graph: temporaries, which only the graph uses, and scratch of kernels lie in one block, or in results
   that the graph has not written yet. Those that are not needed at the same time share bytes.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/graph/parts.h"

enum { ALIGNMENT = 64 };

static bool is_temporary(const situ__graph_place *p) {
  const situ_storage *s = p->storage;
  return p->made && situ__graph_is_plain(s) && !s->links && __atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1;
}

static bool overlap(const situ_storage *a, const situ_storage *b) {
  const char *first = a->data, *second = b->data;
  return first < second + b->bytes && second < first + a->bytes;
}

void situ__graph_mark_places(situ_graph *g) {
  if (!situ__backend(g->device)->addressable) return;
  for (situ__graph_place *p = g->place; p < g->place + g->places; p++) {
    p->temporary = is_temporary(p);
    if (!(p->storage->flags & SITU_STORAGE_FOREIGN)) continue;
    for (situ__graph_place *q = g->place; q < g->place + g->places; q++)
      if (q != p && (p->written || q->written) && overlap(p->storage, q->storage)) p->aliased = q->aliased = true;
  }
}

/* Bytes that are needed from the first to the last of two times, in `host`, or in the graph's block if that is NULL. */
typedef struct piece {
  size_t bytes, first, last, at;
  situ__graph_place *place; /* of a temporary; else `work` uses it as scratch */
  situ__graph_work *work;
  situ_storage *host;
} piece;

typedef struct plan {
  piece *piece;   /* the largest first, those of one size in the order of their use: few lie side by side then */
  size_t *placed; /* indices of those with a place in memory, in the order of their offsets */
  size_t count, done, total;
} plan;

static int by_size(const void *a, const void *b) {
  const piece *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return (x->first > y->first) - (x->first < y->first);
}

static size_t rounded(size_t bytes) { return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

/* The lowest offset in `host` where no byte belongs to another piece at the same time. */
static size_t lowest_offset(const plan *p, const piece *own, const situ_storage *host) {
  size_t at = 0;
  for (size_t k = 0; k < p->done; k++) {
    const piece *other = &p->piece[p->placed[k]];
    if (other->host != host || other->last < own->first || own->last < other->first) continue;
    if (other->at >= at + own->bytes) break;
    if (other->at + other->bytes > at) at = other->at + other->bytes;
  }
  return at;
}

static void put(plan *p, piece *own, situ_storage *host, size_t at) {
  size_t k = p->done++;
  for (; k > 0 && p->piece[p->placed[k - 1]].at > at; k--) p->placed[k] = p->placed[k - 1];
  p->placed[k] = (size_t)(own - p->piece);
  own->host = host;
  own->at = at;
  if (!host && at + own->bytes > p->total) p->total = at + own->bytes;
}

/* Puts a piece into a result that is first written afterwards, into the first of those that have space. Returns false
   if there is none. */
static bool put_into_result(const situ_graph *g, plan *p, piece *own) {
  const situ__graph_place *best = NULL;
  size_t best_at = 0;
  for (size_t i = 0; i < g->shared; i++) {
    const situ__graph_place *r = &g->place[i];
    if (!r->made || !r->set || r->skippable || r->first <= own->last) continue;
    if (r->aliased || !situ__graph_is_plain(r->storage)) continue;
    if (own->bytes > r->storage->bytes || (best && best->first <= r->first)) continue;
    const size_t at = lowest_offset(p, own, r->storage);
    if (at + own->bytes <= r->storage->bytes) best = r, best_at = at;
  }
  if (best) put(p, own, best->storage, best_at);
  return best;
}

/* ---- what is planned ---- */

static bool collect_pieces(situ_graph *g, plan *p) {
  size_t most = g->places;
  for (const situ__graph_work *k = g->first; k; k = k->next) most += k->scratch.bytes > 0;
  p->piece = situ__alloc(most * (sizeof *p->piece + sizeof *p->placed) + 1);
  if (!p->piece) return situ__no_memory("graph_capture_end", most * sizeof *p->piece), false;
  p->placed = (size_t *)(p->piece + most);
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
  if (!collect_pieces(g, &p)) return situ_error();
  for (piece *own = p.piece; own < p.piece + p.count; own++)
    if (!put_into_result(g, &p, own)) put(&p, own, NULL, lowest_offset(&p, own, NULL));
  if (p.total) g->block = situ__storage_new("graph_capture_end", g->device, p.total);
  const situ_status status = p.total && !g->block ? situ_error() : SITU_OK;
  if (status == SITU_OK) move_pieces(g, &p);
  situ__free(p.piece);
  return status;
}
