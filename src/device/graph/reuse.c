/* Results that take over the memory of an operand which nothing reads afterwards: an element-wise function then writes
   over it, and a copy of it is left out. A copy that gives a result other strides is left out, too, where what computes
   the result can write there.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/fail.h"
#include "device/graph/parts.h"
#include "device/view.h"

/* into[i]: the place whose memory place i has become; i: its own. last[i]: the work so far that used place i last;
   uses[i]: how many did. */
typedef struct reuse {
  situ_graph *g;
  size_t *into, *uses;
  situ__graph_work **last;
} reuse;

size_t situ__graph_find(const situ_graph *g, const situ_storage *storage) {
  size_t low = 0, high = g->places;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (g->place[middle].storage > storage) high = middle;
    else low = middle;
  }
  return low;
}

static size_t place_of(const reuse *r, const situ_view_desc *v) {
  size_t i = situ__graph_find(r->g, v->storage);
  while (r->into[i] != i) i = r->into[i] = r->into[r->into[i]];
  return i;
}

/* Whether the result of k, which is in memory that k is the first to use, may be in that of operand x. Not where k
   reads its result's old value (an op in place): what makes x would write over that. */
static bool may_take_over(const reuse *r, const situ__graph_work *k, const situ_view_desc *x) {
  const situ_view_desc *y = k->work.out[0];
  const size_t from = place_of(r, x), to = place_of(r, y);
  const situ__graph_place *dies = &r->g->place[from], *born = &r->g->place[to];
  if (!dies->temporary || dies->last != k->number || born->first != k->number || born->aliased) return false;
  if (from == to || dies->storage->bytes != born->storage->bytes || x->dtype != y->dtype) return false;
  if (!situ__graph_is_whole(y)) return false;
  for (int i = 0; i < k->work.ins; i++) {
    const situ_view_desc *each = k->work.in[i];
    const size_t place = each ? place_of(r, each) : SIZE_MAX;
    if (place == to || (place == from && !situ__graph_is_whole(each))) return false;
  }
  return true;
}

/* All that was in x's memory is in y's from now on. */
static void merge(const reuse *r, const situ_view_desc *x, const situ_view_desc *y) {
  const size_t from = place_of(r, x), to = place_of(r, y);
  r->g->place[to].first = r->g->place[from].first;
  r->g->place[to].set = r->g->place[from].set;
  r->into[from] = to;
}

/* Returns whether the work is still needed. */
static bool take_over(const reuse *r, const situ__graph_work *k) {
  if (!situ__graph_is_elementwise(&k->work) || k->values) return true; /* values: it may be skipped */
  for (int i = 0; i < k->work.ins; i++) {
    const situ_view_desc *x = k->work.in[i];
    if (!x || !may_take_over(r, k, x)) continue;
    merge(r, x, k->work.out[0]);
    return k->work.verb != SITU_VERB_COPY;
  }
  return true;
}

static bool uses_place(const reuse *r, const situ__graph_work *k, size_t place) {
  size_t i = 0;
  while (i < k->views && place_of(r, &k->view[i]) != place) i++;
  return i < k->views;
}

/* Whether k copies a temporary, which one piece of element-wise work alone has made, to where that can write it. */
static bool may_write_through(const reuse *r, const situ__graph_work *k) {
  if (k->work.verb != SITU_VERB_COPY || k->work.outs != 1 || k->values) return false;
  const situ_view_desc *x = k->work.in[0], *y = k->work.out[0];
  const size_t from = place_of(r, x), to = place_of(r, y);
  const situ__graph_place *temporary = &r->g->place[from];
  const situ__graph_work *maker = r->last[from];
  if (!temporary->temporary || temporary->last != k->number || r->uses[from] != 1 || r->g->place[to].aliased)
    return false;
  if (maker->values || !situ__graph_is_elementwise(&maker->work) || place_of(r, maker->work.out[0]) != from)
    return false;
  const situ_view_desc *made = maker->work.out[0];
  if (x->dtype != y->dtype || made->dtype != x->dtype || !situ__same_sizes(made, y)) return false;
  if (!situ__graph_is_whole(x) || !situ__graph_is_whole(made) || !situ__same_sizes(made, x)) return false;
  return !uses_place(r, maker, to) && (!r->last[to] || r->last[to]->number < maker->number);
}

/* Returns whether the work is still needed. */
static bool write_through(const reuse *r, const situ__graph_work *k) {
  if (!may_write_through(r, k)) return true;
  const situ_view_desc *y = k->work.out[0];
  const size_t from = place_of(r, k->work.in[0]), to = place_of(r, y);
  situ__graph_work *maker = r->last[from];
  maker->view[maker->work.out[0] - maker->view] = *y;
  if (r->g->place[to].first > maker->number) r->g->place[to].first = maker->number;
  r->into[from] = to;
  r->last[to] = maker;
  r->uses[to]++;
  return false;
}

static void note_uses(const reuse *r, situ__graph_work *k) {
  for (size_t i = 0; i < k->views; i++) {
    const size_t place = place_of(r, &k->view[i]);
    if (r->last[place] == k) continue;
    r->last[place] = k;
    r->uses[place]++;
  }
}

static void drop_work(situ_graph *g, situ__graph_work **link) {
  situ__graph_work *k = *link;
  *link = k->next;
  situ__free(k);
  g->length--;
}

/* Drops places that are others now, and cuts their array to what is left: a graph lives long. Returns false if memory
   runs out. */
static bool drop_places(const reuse *r) {
  situ_graph *g = r->g;
  size_t kept = 0;
  for (size_t i = 0; i < g->places; i++) {
    if (r->into[i] == i) g->place[kept++] = g->place[i];
    else situ__storage_release(g->place[i].storage);
  }
  g->places = kept;
  situ__graph_place *shorter = situ__realloc(g->place, kept * sizeof *shorter);
  if (!shorter) return false;
  g->place = shorter;
  g->capacity = kept;
  return true;
}

situ_status situ__graph_reuse(situ_graph *g) {
  const size_t bytes = g->places * (2 * sizeof(size_t) + sizeof(situ__graph_work *));
  situ__graph_work **last = situ__calloc(1, bytes + 1);
  if (!last) return situ__no_memory("graph_capture_end", bytes);
  size_t *const into = (size_t *)(last + g->places);
  const reuse r = { g, into, into + g->places, last };
  for (size_t i = 0; i < g->places; i++) r.into[i] = i;
  for (situ__graph_work **link = &g->first; *link;) {
    if (write_through(&r, *link)) note_uses(&r, *link), link = &(*link)->next;
    else drop_work(g, link);
  }
  for (situ__graph_work **link = &g->first; *link;) {
    if (take_over(&r, *link)) link = &(*link)->next;
    else drop_work(g, link);
  }
  for (situ__graph_work *k = g->first; k; k = k->next)
    for (size_t i = 0; i < k->views; i++) k->view[i].storage = g->place[place_of(&r, &k->view[i])].storage;
  const bool good = drop_places(&r);
  situ__free(last);
  return good ? SITU_OK : situ__no_memory("graph_capture_end", g->places * sizeof *g->place);
}
