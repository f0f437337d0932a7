/* A lower peak of memory: what is computed before the peak and needed after it is computed after it, where its operands
   are still there. If it is needed before as well, element-wise work does it again: activations that backward reads.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "device/graph/parts.h"
#include "device/graph/usage.h"

/* A view of a place's memory after the peak. */
typedef struct use {
  situ_view_desc *view;
  struct use *next;
} use;

/* How a place is used until the peak, and after it. */
typedef struct fact {
  situ__graph_work *only;  /* the work that writes it until the peak; NULL: none, or several */
  size_t writes;           /* how many do */
  size_t before, written;  /* its last use, and its last write, until the peak */
  size_t overwritten;      /* its first write after the peak */
  situ__graph_work **next; /* the link to the work that uses it first after the peak; NULL: none */
  use *after, *last;       /* its uses after the peak, in order */
} fact;

/* A place that may have a gap. */
typedef struct candidate {
  size_t bytes, place;
  struct candidate *next; /* the next largest */
} candidate;

typedef struct search {
  situ_graph *g;
  situ__map place;  /* a storage: number of its place, from 1 */
  fact *fact;       /* of each place */
  int64_t capacity; /* of fact */
  situ__usage used; /* by temporaries and scratch */
  use *use;
  candidate *list, *first;
  int64_t use_capacity, list_capacity;
} search;

static size_t place_of(const search *s, const situ_view_desc *v) {
  return (size_t)(uintptr_t)situ__map_get(&s->place, v->storage) - 1;
}

static bool note_place(search *s, size_t i) {
  return situ__map_put(&s->place, s->g->place[i].storage, (void *)(uintptr_t)(i + 1));
}

static void count_bytes(search *s, const situ__graph_place *p, size_t first, size_t last, bool more) {
  situ__usage_add(&s->used, first, last, more ? (int64_t)p->storage->bytes : -(int64_t)p->storage->bytes);
}

static void count_scratch(search *s, const situ__graph_work *k, bool more) {
  situ__usage_add(&s->used, k->number, k->number, more ? (int64_t)k->scratch.bytes : -(int64_t)k->scratch.bytes);
}

/* Begins with all places, and with works that know the one before them. Returns false if memory runs out. */
static bool count_all(search *s) {
  const situ_graph *g = s->g;
  bool good = true;
  for (size_t i = 0; i < g->places && good; i++) {
    if (g->place[i].temporary) count_bytes(s, &g->place[i], g->place[i].first, g->place[i].last, true);
    good = note_place(s, i);
  }
  situ__graph_work *before = NULL;
  for (situ__graph_work *k = g->first; k; before = k, k = k->next) {
    count_scratch(s, k, true);
    k->before = before;
  }
  return good;
}

static void note_use(fact *f, situ__graph_work **link, bool writes, size_t peak) {
  const size_t now = (*link)->number;
  if (now <= peak) {
    f->before = now;
    if (!writes) return;
    f->written = now;
    f->only = f->writes++ ? NULL : *link;
  } else {
    if (!f->next) f->next = link;
    if (writes && now < f->overwritten) f->overwritten = now;
  }
}

/* Returns false if memory runs out. */
static bool note_uses(search *s, size_t peak) {
  int64_t views = 0;
  for (size_t i = 0; i < s->g->places; i++) s->fact[i] = (fact){ .overwritten = SIZE_MAX };
  for (const situ__graph_work *k = s->g->first; k; k = k->next) views += (int64_t)k->views;
  if (!situ__grow(NULL, &s->use, &s->use_capacity, sizeof *s->use, views)) return false;
  use *own = s->use;
  for (situ__graph_work **link = &s->g->first; *link; link = &(*link)->next)
    for (size_t i = 0; i < (*link)->views; i++) {
      situ_view_desc *v = &(*link)->view[i];
      fact *f = &s->fact[place_of(s, v)];
      note_use(f, link, situ__graph_writes(*link, v), peak);
      if ((*link)->number <= peak) continue;
      *own = (use){ .view = v };
      f->last = *(f->last ? &f->last->next : &f->after) = own++;
    }
  return true;
}

/* Whether the operands of k have the same values at time `until` as when it ran, without being kept for that. */
static bool operands_last(const search *s, const situ__graph_work *k, size_t until) {
  for (int i = 0; i < k->work.ins; i++) {
    if (!k->work.in[i]) continue;
    const size_t at = place_of(s, k->work.in[i]);
    const situ__graph_place *p = &s->g->place[at];
    const fact *f = &s->fact[at];
    if (p->aliased || !situ__graph_is_plain(p->storage)) return false;
    if (f->written > k->number || f->overwritten < until) return false;
    if (p->temporary && p->last < until) return false;
  }
  return true;
}

/* Nothing reads it before the peak. */
static bool is_early(const situ__graph_place *p, const fact *f) { return f->before <= p->first; }

/* Whether a place is needed after the peak and not then, and what makes it can be run in between. */
static bool may_have_gap(const search *s, size_t place, size_t peak) {
  const situ__graph_place *p = &s->g->place[place];
  const fact *f = &s->fact[place];
  if (!p->temporary || p->first >= peak || !f->only || !f->next || f->only->number != p->first) return false;
  if (f->before == peak || f->next == &f->only->next || f->only->values || f->only->work.outs != 1) return false;
  return is_early(p, f) || situ__graph_is_elementwise(&f->only->work);
}

/* Whether there is memory for it then. */
static bool has_gap(const search *s, const fact *f, size_t peak) {
  const size_t now = (*f->next)->number - 1; /* odd, unless `next` was put between others itself */
  const int64_t used = situ__usage_at(&s->used, now) + (int64_t)f->only->scratch.bytes;
  return now % 2 && used < situ__usage_at(&s->used, peak);
}

/* ---- computing it later ---- */

static void insert_work(situ__graph_work **link, situ__graph_work *k) {
  k->next = *link;
  k->before = k->next->before;
  *link = k->next->before = k;
}

/* Moves the work that makes a place to where that is needed. */
static void delay(search *s, size_t place) {
  situ__graph_place *p = &s->g->place[place];
  const fact *f = &s->fact[place];
  situ__graph_work *moved = f->only, *before = moved->before;
  *(before ? &before->next : &s->g->first) = moved->next;
  moved->next->before = before;
  count_scratch(s, moved, false);
  insert_work(f->next, moved);
  count_bytes(s, p, p->first, p->last, false);
  p->first = moved->number = moved->next->number - 1;
  count_bytes(s, p, p->first, p->last, true);
  count_scratch(s, moved, true);
}

/* ---- computing it again ---- */

static situ__graph_work *copy_work(const situ__graph_work *k) {
  situ__graph_work *copy = situ__alloc(sizeof *k + k->views * sizeof *k->view);
  if (!copy) return NULL;
  memcpy(copy, k, sizeof *k + k->views * sizeof *k->view);
  for (int i = 0; i < k->work.ins; i++)
    if (k->work.in[i]) copy->work.in[i] = copy->view + (k->work.in[i] - k->view);
  copy->work.out[0] = copy->view + (k->work.out[0] - k->view);
  return copy;
}

/* Adds a place for `storage`, which is used from the first to the last of two times. Returns false if memory runs out.
   */
static bool insert_place(search *s, situ_storage *storage, size_t first, size_t last) {
  situ_graph *g = s->g;
  if (!situ__graph_reserve_places(g, 1)) return false;
  if (!situ__grow(NULL, &s->fact, &s->capacity, sizeof *s->fact, g->places + 1)) return false;
  const size_t at = g->places++;
  s->fact[at] = (fact){ 0 };
  g->place[at] = (situ__graph_place){ .storage = storage,
                                      .data = storage->data,
                                      .written = true,
                                      .made = true,
                                      .set = true,
                                      .temporary = true,
                                      .first = first,
                                      .last = last };
  count_bytes(s, &g->place[at], first, last, true);
  return note_place(s, at);
}

/* Ends a place at its last use before the peak, and computes what was in it anew, in other memory, before the next. */
static bool close_gap(search *s, size_t place) {
  situ__graph_place *p = &s->g->place[place];
  const fact f = s->fact[place];
  situ_storage *old = p->storage;
  const size_t first = (*f.next)->number - 1, last = p->last;
  situ__graph_work *copy = copy_work(f.only);
  situ_storage *storage = copy ? situ__storage_new("graph_capture_end", s->g->device, old->bytes) : NULL;
  if (!storage) return situ__free(copy), false;
  count_bytes(s, p, f.before + 1, last, false);
  p->last = f.before;
  if (!insert_place(s, storage, first, last)) return situ__free(copy), situ__storage_release(storage), false;
  copy->number = first;
  count_scratch(s, copy, true);
  insert_work(f.next, copy);
  s->g->length++;
  for (size_t i = 0; i < copy->views; i++)
    if (copy->view[i].storage == old) copy->view[i].storage = storage;
  for (const use *u = f.after; u; u = u->next) u->view->storage = storage;
  return true;
}

/* What the work reads is used at another time now than is known: not until the next search is it moved itself. */
static void forget_operands(const search *s, const situ__graph_work *k) {
  for (int i = 0; i < k->work.ins; i++)
    if (k->work.in[i]) s->fact[place_of(s, k->work.in[i])].next = NULL;
}

static int largest_first(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return (x->place > y->place) - (x->place < y->place);
}

/* Returns false if memory runs out. */
static bool list_candidates(search *s, size_t peak) {
  size_t count = 0;
  if (!situ__grow(NULL, &s->list, &s->list_capacity, sizeof *s->list, (int64_t)s->g->places)) return false;
  for (size_t i = 0; i < s->g->places; i++)
    if (may_have_gap(s, i, peak)) s->list[count++] = (candidate){ s->g->place[i].storage->bytes, i, NULL };
  qsort(s->list, count, sizeof *s->list, largest_first);
  for (size_t k = 0; k + 1 < count; k++) s->list[k].next = &s->list[k + 1];
  s->first = count ? s->list : NULL;
  return true;
}

/* Takes the largest candidate that has a gap at the peak out of the list, and those that will have none; NULL: none
   has. */
static const candidate *take_gap(search *s, size_t peak) {
  for (candidate **link = &s->first; *link;) {
    const candidate *c = *link;
    const fact *f = &s->fact[c->place];
    const bool lasts = f->next && operands_last(s, f->only, (*f->next)->number), found = lasts && has_gap(s, f, peak);
    if (found || !lasts) *link = c->next;
    else link = &(*link)->next;
    if (found) return c;
  }
  return NULL;
}

/* Closes gaps at the peak as long as it is there. Sets *closed if there was one. Returns false if memory runs out. */
static bool lower_peak(search *s, bool *closed) {
  const size_t peak = situ__usage_peak(&s->used);
  const candidate *best;
  if (!note_uses(s, peak) || !list_candidates(s, peak)) return false;
  for (*closed = false; situ__usage_peak(&s->used) == peak && (best = take_gap(s, peak)); *closed = true) {
    const size_t found = best->place;
    forget_operands(s, s->fact[found].only);
    if (is_early(&s->g->place[found], &s->fact[found])) delay(s, found);
    else if (!close_gap(s, found)) return false;
  }
  return true;
}

/* Pieces of work that were inserted before the same one have one time; from here on each has its own. */
static void renumber(const situ_graph *g) {
  size_t time = 0;
  for (size_t i = 0; i < g->places; i++) g->place[i].first = SIZE_MAX;
  for (situ__graph_work *k = g->first; k; k = k->next, time++) {
    k->number = time;
    for (size_t i = 0; i < k->views; i++) {
      situ__graph_place *p = &g->place[situ__graph_find(g, k->view[i].storage)];
      if (p->first == SIZE_MAX) p->first = time;
      p->last = time;
    }
  }
}

static int by_storage(const void *a, const void *b) {
  const situ__graph_place *x = a, *y = b;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

situ_status situ__graph_lower_peak(situ_graph *g) {
  if (!g->places || !situ__backend(g->device)->addressable) return SITU_OK;
  search s = { .g = g };
  s.fact = situ__calloc(g->places, sizeof *s.fact);
  s.capacity = g->places;
  bool good = s.fact && situ__usage_begin(&s.used, 2 * g->recorded) && count_all(&s), more = true;
  while (good && more) good = lower_peak(&s, &more);
  situ__map_free(&s.place);
  situ__usage_free(&s.used);
  situ__free(s.fact);
  situ__free(s.use);
  situ__free(s.list);
  if (!good) return situ__no_memory("graph_capture_end", g->places * sizeof *s.fact);
  qsort(g->place, g->places, sizeof *g->place, by_storage);
  renumber(g);
  return SITU_OK;
}
