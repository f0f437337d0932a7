/* A lower peak of memory: what is computed before the peak and needed after it is computed after it, where its operands
   are still there. If it is needed before as well, element-wise work does it again: activations that backward reads.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "device/graph/parts.h"

/* How a place is used until the peak, and after it. */
typedef struct fact {
  situ__graph_work *only;  /* the work that writes it until the peak; NULL: none, or several */
  size_t writes;           /* how many do */
  size_t before, written;  /* its last use, and its last write, until the peak */
  size_t overwritten;      /* its first write after the peak */
  situ__graph_work **next; /* the link to the work that uses it first after the peak; NULL: none */
} fact;

typedef struct search {
  situ_graph *g;
  fact *fact;       /* of each place */
  int64_t capacity; /* of fact */
  size_t *used;     /* bytes that temporaries and scratch take, by time */
  size_t times;
} search;

static size_t place_of(const search *s, const situ_view_desc *v) { return situ__graph_find(s->g, v->storage); }

static void count_bytes(const search *s, const situ__graph_place *p, size_t first, size_t last, bool more) {
  for (size_t t = first; t <= last; t++) s->used[t] += more ? p->storage->bytes : -p->storage->bytes;
}

static void count_all(const search *s) {
  const situ_graph *g = s->g;
  for (size_t i = 0; i < g->places; i++)
    if (g->place[i].temporary) count_bytes(s, &g->place[i], g->place[i].first, g->place[i].last, true);
  for (const situ__graph_work *k = g->first; k; k = k->next) s->used[k->number] += k->scratch.bytes;
}

static size_t peak_of(const search *s) {
  size_t peak = 0;
  for (size_t t = 1; t < s->times; t++)
    if (s->used[t] > s->used[peak]) peak = t;
  return peak;
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

static void note_uses(const search *s, size_t peak) {
  for (size_t i = 0; i < s->g->places; i++) s->fact[i] = (fact){ .overwritten = SIZE_MAX };
  for (situ__graph_work **link = &s->g->first; *link; link = &(*link)->next)
    for (size_t i = 0; i < (*link)->views; i++) {
      const situ_view_desc *v = &(*link)->view[i];
      note_use(&s->fact[place_of(s, v)], link, situ__graph_writes(*link, v), peak);
    }
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

/* Whether a place is needed after the peak and not then, and can be computed, or computed again, in between. */
static bool has_gap(const search *s, size_t place, size_t peak) {
  const situ__graph_place *p = &s->g->place[place];
  const fact *f = &s->fact[place];
  if (!p->temporary || p->first >= peak || !f->only || !f->next || f->only->number != p->first) return false;
  const situ_work *w = &f->only->work;
  if (f->before == peak || f->next == &f->only->next || f->only->values || w->outs != 1) return false;
  const size_t now = (*f->next)->number - 1; /* odd, unless `next` was put between others itself */
  if (now % 2 == 0 || s->used[now] + f->only->scratch.bytes >= s->used[peak]) return false;
  return (is_early(p, f) || situ__graph_is_elementwise(w)) && operands_last(s, f->only, (*f->next)->number);
}

/* ---- computing it later ---- */

/* Moves the work that makes a place to where that is needed. */
static void delay(search *s, size_t place) {
  situ__graph_place *p = &s->g->place[place];
  const fact *f = &s->fact[place];
  situ__graph_work **from = &s->g->first, *moved = f->only;
  while (*from != moved) from = &(*from)->next;
  *from = moved->next;
  moved->next = *f->next;
  *f->next = moved;
  s->used[p->first] -= moved->scratch.bytes;
  count_bytes(s, p, p->first, p->last, false);
  p->first = moved->number = moved->next->number - 1;
  count_bytes(s, p, p->first, p->last, true);
  s->used[p->first] += moved->scratch.bytes;
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
  size_t at = g->places++;
  for (; at > 0 && g->place[at - 1].storage > storage; at--) {
    g->place[at] = g->place[at - 1];
    s->fact[at] = s->fact[at - 1];
  }
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
  return true;
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
  s->used[first] += copy->scratch.bytes;
  copy->next = *f.next;
  *f.next = copy;
  s->g->length++;
  for (situ__graph_work *k = copy; k; k = k->next)
    for (size_t i = 0; i < k->views; i++)
      if (k->view[i].storage == old) k->view[i].storage = storage;
  return true;
}

/* What the work reads is used at another time now than is known: not until the next search is it moved itself. */
static void forget_operands(const search *s, const situ__graph_work *k) {
  for (int i = 0; i < k->work.ins; i++)
    if (k->work.in[i]) s->fact[place_of(s, k->work.in[i])].next = NULL;
}

/* The largest place that has a gap at the peak; NULL: none has. */
static const situ__graph_place *find_gap(const search *s, size_t peak) {
  const situ__graph_place *best = NULL, *place = s->g->place;
  for (size_t i = 0; i < s->g->places; i++)
    if (!(best && best->storage->bytes >= place[i].storage->bytes) && has_gap(s, i, peak)) best = &place[i];
  return best;
}

/* Closes gaps at the peak as long as it is there. Sets *closed if there was one. Returns false if memory runs out. */
static bool lower_peak(search *s, bool *closed) {
  const size_t peak = peak_of(s);
  const situ__graph_place *best;
  note_uses(s, peak);
  for (*closed = false; peak_of(s) == peak && (best = find_gap(s, peak)); *closed = true) {
    const size_t found = (size_t)(best - s->g->place);
    forget_operands(s, s->fact[found].only);
    if (is_early(best, &s->fact[found])) delay(s, found);
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

situ_status situ__graph_lower_peak(situ_graph *g) {
  if (!g->places || !situ__backend(g->device)->addressable) return SITU_OK;
  search s = { .g = g, .times = 2 * g->recorded };
  s.fact = situ__calloc(g->places, sizeof *s.fact);
  s.capacity = g->places;
  s.used = situ__calloc(s.times, sizeof *s.used);
  bool good = s.fact && s.used, more = good;
  if (good) count_all(&s);
  while (good && more) good = lower_peak(&s, &more);
  situ__free(s.fact);
  situ__free(s.used);
  if (good) renumber(g);
  return good ? SITU_OK : situ__no_memory("graph_capture_end", s.times * sizeof *s.used);
}
