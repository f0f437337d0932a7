/* Slabs of small objects. A slab is aligned to its size, so that an object's address tells which one it is from.
   SPDX-License-Identifier: MIT */
#include "base/slab.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/refs.h"

enum {
  PIECE = 16 << 10,
  REST = 64, /* left over, so that the allocator's own words and the next piece follow without a gap */
  CLASSES = SITU__SLAB_LARGEST / SITU__SLAB_STEP
};

typedef struct object {
  struct object *next;
} object;

typedef struct slab {
  struct slab *next, **link; /* list of those of its size with free places */
  object *given;             /* back */
  uint32_t size, cut, out;   /* of an object; objects cut off so far, and those that are not here */
} slab;
_Static_assert(sizeof(slab) <= SITU__SLAB_STEP, "the first object's place");

static uint32_t lock; /* guards all slabs */
static slab *roomy[CLASSES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A child may go on to allocate, so the lock is not held across a fork. */
static void before_fork(void) { situ__spin_lock(&lock); }
static void after_fork(void) { situ__spin_unlock(&lock); }
static void watch_forks(void) { (void)pthread_atfork(before_fork, after_fork, after_fork); }

static uint32_t most_of(uint32_t size) { return (PIECE - REST - SITU__SLAB_STEP) / size; }

static slab **list_of(uint32_t size) { return &roomy[size / SITU__SLAB_STEP - 1]; }

static void link_slab(slab *s) {
  s->link = list_of(s->size);
  s->next = *s->link;
  if (s->next) s->next->link = &s->next;
  *s->link = s;
}

static void unlink_slab(slab *s) {
  *s->link = s->next;
  if (s->next) s->next->link = s->link;
}

static slab *open_slab(uint32_t size) {
  (void)pthread_once(&once, watch_forks);
  slab *s = situ__aligned_uncounted(PIECE, PIECE - REST);
  if (!s) return NULL;
  *s = (slab){ .size = size };
  link_slab(s);
  return s;
}

static void *take(slab *s) {
  object *found = s->given;
  if (found) s->given = found->next;
  else found = (object *)(void *)((char *)s + SITU__SLAB_STEP + (size_t)s->cut++ * s->size);
  if (++s->out == most_of(s->size)) unlink_slab(s);
  return found;
}

void *situ__slab_take(size_t size) {
  situ__spin_lock(&lock);
  slab *s = *list_of((uint32_t)size);
  if (!s) s = open_slab((uint32_t)size);
  void *found = s ? take(s) : NULL;
  situ__spin_unlock(&lock);
  return found;
}

void situ__slab_give(void *given) {
  slab *s = (slab *)(void *)((char *)given - ((uintptr_t)given & (PIECE - 1)));
  object *o = given;
  situ__spin_lock(&lock);
  if (s->out-- == most_of(s->size)) link_slab(s);
  o->next = s->given;
  s->given = o;
  const bool empty = s->out == 0;
  if (empty) unlink_slab(s);
  situ__spin_unlock(&lock);
  if (empty) situ__free(s);
}
