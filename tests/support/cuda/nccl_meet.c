/* Where the ranks of NCCL's double meet: a transfer ends when all its parts have come, and moves their values then.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cuda/nccl.h"

void nccl_mistake(const char *what) {
  (void)fprintf(stderr, "nccl double: %s\n", what);
  abort();
}

/* ---- values ---------------------------------------------------------------------------------- */

static size_t size_of(int type) {
  static const size_t size[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };
  return size[type];
}

#define DEFINE_ADD(name, type)                                                     \
  static void name(type *into, const type *from, size_t count, int op) {           \
    for (size_t i = 0; i < count; i++)                                             \
      if (op == 0) into[i] = (type)(into[i] + from[i]);                            \
      else if (op == 2 ? from[i] > into[i] : from[i] < into[i]) into[i] = from[i]; \
  }
DEFINE_ADD(add_i8, int8_t)
DEFINE_ADD(add_u8, uint8_t)
DEFINE_ADD(add_i32, int32_t)
DEFINE_ADD(add_i64, int64_t)
DEFINE_ADD(add_f32, float)
DEFINE_ADD(add_f64, double)

static void add(void *into, const void *from, const part *p) {
  switch (p->type) {
  case 0: add_i8(into, from, p->count, p->op); break;
  case 1: add_u8(into, from, p->count, p->op); break;
  case 2: add_i32(into, from, p->count, p->op); break;
  case 4: add_i64(into, from, p->count, p->op); break;
  case 7: add_f32(into, from, p->count, p->op); break;
  case 8: add_f64(into, from, p->count, p->op); break;
  default: nccl_mistake("a type that is not added up here");
  }
}

static void check(const rank *r, const void *data, size_t bytes) {
  bool bad;
  const double_block *b = double_find(data, bytes, &bad);
  if (bad || !b || b->device != r->device) nccl_mistake("memory that is not, or no longer, the device's");
}

/* All ranks have come. */
static void collect(const world *w, part *const *all) {
  for (int to = 0; to < w->size; to++) {
    part *p = all[to];
    const size_t bytes = p->count * size_of(p->type);
    if (p->kind == ALL_GATHER)
      for (int from = 0; from < w->size; from++) memcpy(p->receive + (size_t)from * bytes, all[from]->send, bytes);
    if (p->kind == BROADCAST) memmove(p->receive, all[p->peer]->send, bytes);
    const size_t at = p->kind == REDUCE_SCATTER ? (size_t)to * bytes : 0;
    for (int from = w->size - 1; (p->kind == ALL_REDUCE || p->kind == REDUCE_SCATTER) && from >= 0; from--)
      if (from == w->size - 1) memcpy(p->receive, all[from]->send + at, bytes);
      else add(p->receive, all[from]->send + at, p);
    p->done = true;
  }
}

static void look(const rank *r, const part *p) {
  const size_t bytes = p->count * size_of(p->type), all = bytes * (size_t)r->world->size;
  if (p->kind == BROADCAST ? p->peer == r->number : p->kind != RECEIVE)
    check(r, p->send, p->kind == REDUCE_SCATTER ? all : bytes);
  if (p->kind != SEND) check(r, p->receive, p->kind == ALL_GATHER ? all : bytes);
}

/* ---- meetings -------------------------------------------------------------------------------- */

static part *collective_of(const rank *r, long number) {
  for (set *s = r && !r->aborted ? r->sets : NULL; s; s = s->next)
    if (s->number == number && s->part[0].here) return &s->part[0];
  return NULL;
}

static void meet_all(const world *w, long number) {
  part *all[RANKS];
  for (int k = 0; k < w->size; k++) {
    all[k] = collective_of(w->rank[k], number);
    if (!all[k]) return;
    if (all[k]->kind != all[0]->kind || all[k]->count != all[0]->count || all[k]->type != all[0]->type)
      nccl_mistake("collectives that do not match");
  }
  if (!all[0]->done) collect(w, all);
}

static part *first_open(const rank *r, kind what, int peer) {
  for (set *s = r && !r->aborted ? r->sets : NULL; s; s = s->next)
    for (int k = 0; k < s->count; k++) {
      part *p = &s->part[k];
      if (p->kind == what && p->peer == peer && p->here && !p->done) return p;
    }
  return NULL;
}

static void meet_pair(const world *w, int from, int to) {
  part *send, *receive;
  while ((send = first_open(w->rank[from], SEND, to)) && (receive = first_open(w->rank[to], RECEIVE, from))) {
    if (send->count != receive->count || send->type != receive->type)
      nccl_mistake("a send that does not match its receive");
    memcpy(receive->receive, send->send, send->count * size_of(send->type));
    send->done = receive->done = true;
  }
}

/* The rank's stream has come to it. */
bool nccl_is_over(const void *payload) {
  set *s = *(set *const *)payload;
  const world *w = s->rank->world;
  if (s->rank->aborted) return true;
  if (s->hangs) return false;
  bool over = true;
  for (int k = 0; k < s->count; k++) {
    part *p = &s->part[k];
    if (!p->here) look(s->rank, p);
    p->here = true;
    if (p->kind < SEND) meet_all(w, s->number);
    else if (p->kind == SEND) meet_pair(w, s->rank->number, p->peer);
    else meet_pair(w, p->peer, s->rank->number);
    over = over && p->done;
  }
  return over;
}

void nccl_leave(const void *payload) {
  set *s = *(set *const *)payload;
  for (int k = 0; k < s->count;
       k++) /* the others must have read this one's memory, and they have: all is done at once */
    if (!s->part[k].done && !s->rank->aborted) nccl_mistake("a transfer that has not ended");
  set **at = &s->rank->sets;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  free(s);
}
