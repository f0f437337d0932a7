/* Followers: storages that move with another one, as an optimiser's state moves with its parameter.
   SPDX-License-Identifier: MIT */

#include "base/alloc.h"
#include "base/fail.h"
#include "base/mutex.h"
#include "device/device.h"

/* A node of a tree with sibling lists. Only storages with a leader or followers have one. */
struct situ_storage_links {
  situ_storage *leader, *first, *next, *prev;
  bool beside; /* goes along only from the leader's device */
};

static situ__mutex lock = SITU__MUTEX_INIT;

static struct situ_storage_links *links_of(situ_storage *s) {
  if (!s->links) s->links = situ__calloc(1, sizeof *s->links);
  return s->links;
}

static void leave(situ_storage *s) {
  struct situ_storage_links *l = s->links;
  if (!l || !l->leader) return;
  if (l->prev) l->prev->links->next = l->next;
  else l->leader->links->first = l->next;
  if (l->next) l->next->links->prev = l->prev;
  l->leader = l->next = l->prev = NULL;
}

bool situ__follow(const char *op, situ_storage *s, situ_storage *leader, bool beside) {
  bool good = true;
  situ__mutex_lock(&lock);
  for (const situ_storage *up = leader; up && good; up = up->links ? up->links->leader : NULL) good = up != s;
  const bool memory = !good || !leader || (links_of(s) && links_of(leader));
  if (good && memory) {
    leave(s);
    if (leader) {
      struct situ_storage_links *l = s->links, *up = leader->links;
      l->leader = leader;
      l->beside = beside;
      l->next = up->first;
      if (up->first) up->first->links->prev = s;
      up->first = s;
    }
  }
  situ__mutex_unlock(&lock);
  /* Errors call the program's log function, which must find no lock. */
  if (!good) situ__fail(SITU_E_ARG, op, "two tensors would follow each other");
  if (!memory) situ__no_memory(op, sizeof *s->links);
  return good && memory;
}

situ_storage *situ__leader(const situ_storage *s) {
  situ__mutex_lock(&lock);
  situ_storage *leader = s->links ? s->links->leader : NULL;
  situ__mutex_unlock(&lock);
  return leader;
}

bool situ__each_follower(const situ_storage *leader, bool (*visit)(situ_storage *, void *), void *payload) {
  bool good = true;
  situ__mutex_lock(&lock);
  for (situ_storage *s = leader->links ? leader->links->first : NULL; s && good; s = s->links->next)
    good = visit(s, payload);
  situ__mutex_unlock(&lock);
  return good;
}

bool situ__is_beside(const situ_storage *follower) { return follower->links->beside; }
bool situ__leads(const situ_storage *follower) { return follower->links->first != NULL; }

void situ__unlink(situ_storage *s) {
  situ__mutex_lock(&lock);
  leave(s);
  while (s->links->first) leave(s->links->first);
  situ__free(s->links);
  s->links = NULL;
  situ__mutex_unlock(&lock);
}
