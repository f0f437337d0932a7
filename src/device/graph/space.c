/* Offsets of memory that are taken for a time, as a tree over times.
   SPDX-License-Identifier: MIT */
#include "device/graph/space.h"

#include <string.h>

#include "base/alloc.h"

bool situ__space_begin(situ__space *s, size_t times) {
  for (s->times = 1; s->times < times;) s->times *= 2;
  s->node = situ__calloc(2 * s->times, sizeof *s->node);
  return s->node != NULL;
}

void situ__space_free(situ__space *s) {
  for (size_t n = 0; s->node && n < 2 * s->times; n++) {
    situ__free(s->node[n].any.list);
    situ__free(s->node[n].all.list);
  }
  situ__free(s->node);
}

/* The first range that ends behind `at`. */
static int64_t find_range(const situ__ranges *r, size_t at) {
  int64_t low = 0, high = r->count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (r->list[middle].to > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Joins a range with those that it overlaps or touches. */
static bool add_range(situ__ranges *r, struct situ__range new) {
  int64_t begin = find_range(r, new.from), end;
  if (begin > 0 && r->list[begin - 1].to == new.from) begin--;
  for (end = begin; end < r->count && r->list[end].from <= new.to; end++) {
    if (r->list[end].from < new.from) new.from = r->list[end].from;
    if (r->list[end].to > new.to) new.to = r->list[end].to;
  }
  if (!situ__grow(NULL, &r->list, &r->capacity, sizeof *r->list, r->count + 1)) return false;
  memmove(r->list + begin + 1, r->list + end, (size_t)(r->count - end) * sizeof *r->list);
  r->list[begin] = new;
  r->count += begin + 1 - end;
  return true;
}

/* The times of a node, from `begin` on. */
typedef struct part {
  size_t node, begin, times;
} part;

static part half_of(part p, size_t which) {
  return (part){ 2 * p.node + which, p.begin + which * p.times / 2, p.times / 2 };
}
static bool is_apart(part p, const situ__span *span) {
  return span->last < p.begin || span->first >= p.begin + p.times;
}
static bool is_within(part p, const situ__span *span) {
  return span->first <= p.begin && span->last >= p.begin + p.times - 1;
}

static bool take(situ__space *s, part p, const situ__span *span, struct situ__range taken) {
  if (is_apart(p, span)) return true;
  if (!add_range(&s->node[p.node].any, taken)) return false;
  if (is_within(p, span)) return add_range(&s->node[p.node].all, taken);
  return take(s, half_of(p, 0), span, taken) && take(s, half_of(p, 1), span, taken);
}

bool situ__space_take(situ__space *s, const situ__span *span, size_t at) {
  return take(s, (part){ 1, 0, s->times }, span, (struct situ__range){ at, at + span->bytes });
}

/* Ranges that a span must not overlap. */
typedef struct obstacles {
  const situ__ranges *list[4 * 8 * sizeof(size_t)]; /* of each level of the tree at most four nodes */
  int count;
} obstacles;

static void collect(const situ__space *s, part p, const situ__span *span, obstacles *found) {
  if (is_apart(p, span)) return;
  const bool within = is_within(p, span);
  const situ__ranges *r = within ? &s->node[p.node].any : &s->node[p.node].all;
  if (r->count) found->list[found->count++] = r;
  for (size_t which = 0; !within && which < 2; which++) collect(s, half_of(p, which), span, found);
}

size_t situ__space_lowest(const situ__space *s, const situ__span *span, size_t from) {
  obstacles found = { .count = 0 };
  size_t at = from, before;
  collect(s, (part){ 1, 0, s->times }, span, &found);
  do {
    before = at;
    for (int k = 0; k < found.count; k++) {
      const situ__ranges *r = found.list[k];
      for (int64_t i = find_range(r, at); i < r->count && r->list[i].from < at + span->bytes; i++) at = r->list[i].to;
    }
  } while (at != before);
  return at;
}
