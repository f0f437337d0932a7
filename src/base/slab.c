/* Slabs of small objects. A slab is aligned to its size, so that an object's address tells which one it is from. It
   keeps account of its free places itself: a list through the objects would wait for each one to come from memory.
   SPDX-License-Identifier: MIT */
#include "base/slab.h"

#include "base/alloc.h"
#include "base/fork.h"
#include "base/refs.h"

enum {
  PIECE = 16 << 10,
  REST = 64, /* left over, so that the allocator's own words and the next piece follow without a gap */
  CLASSES = SITU__SLAB_LARGEST / SITU__SLAB_STEP,
  WORDS = PIECE / SITU__SLAB_STEP / 64
};

typedef struct slab {
  struct slab *next, **link; /* list of those of its size that have free places, or of those that have none */
  uint32_t size;             /* of an object */
  uint16_t places, vacant;   /* for so many objects; those of them that are free, */
  uint64_t free[WORDS];      /* each of which has a bit here */
} slab;
_Static_assert(sizeof(slab) <= SITU__SLAB_STEP, "the first object's place");

static uint32_t lock; /* guards all slabs */
static slab *roomy[CLASSES], *full[CLASSES];

void situ__slab_lock(void) { situ__spin_lock(&lock); }
void situ__slab_unlock(void) { situ__spin_unlock(&lock); }

static unsigned class_of(uint32_t size) { return size / SITU__SLAB_STEP - 1; }

static void link_slab(slab *s, slab **lists) {
  s->link = &lists[class_of(s->size)];
  s->next = *s->link;
  if (s->next) s->next->link = &s->next;
  *s->link = s;
}

static void unlink_slab(slab *s) {
  *s->link = s->next;
  if (s->next) s->next->link = s->link;
}

static slab *open_slab(uint32_t size) {
  situ__fork_watch();
  slab *s = situ__aligned_uncounted(PIECE, PIECE - REST);
  if (!s) return NULL;
  const uint16_t places = (uint16_t)((PIECE - REST - SITU__SLAB_STEP) / size);
  *s = (slab){ .size = size, .places = places, .vacant = places };
  for (unsigned i = 0; i < places; i++) s->free[i / 64] |= UINT64_C(1) << i % 64;
  link_slab(s, roomy);
  return s;
}

/* The first free place: those that are taken one after another follow each other in memory. */
static void *take(slab *s) {
  size_t word = 0;
  while (!s->free[word]) word++;
  const size_t place = 64 * word + (size_t)__builtin_ctzll(s->free[word]);
  s->free[word] &= s->free[word] - 1;
  if (--s->vacant == 0) {
    unlink_slab(s);
    link_slab(s, full);
  }
  return (char *)s + SITU__SLAB_STEP + place * s->size;
}

void *situ__slab_take(size_t size) {
  situ__spin_lock(&lock);
  slab *s = roomy[class_of((uint32_t)size)];
  if (!s) s = open_slab((uint32_t)size);
  void *found = s ? take(s) : NULL;
  situ__spin_unlock(&lock);
  return found;
}

void situ__slab_give(void *given) {
  const uint32_t at = (uintptr_t)given & (PIECE - 1);
  slab *s = (slab *)(void *)((char *)given - at);
  const uint32_t place = (at - SITU__SLAB_STEP) / s->size;
  situ__spin_lock(&lock);
  if (s->vacant++ == 0) {
    unlink_slab(s);
    link_slab(s, roomy);
  }
  s->free[place / 64] |= UINT64_C(1) << place % 64;
  const bool empty = s->vacant == s->places;
  if (empty) unlink_slab(s);
  situ__spin_unlock(&lock);
  if (empty) situ__free(s);
}

static void visit_list(slab *s, void (*visit)(void *object, void *payload), void *payload) {
  for (; s; s = s->next)
    for (unsigned place = 0; place < s->places; place++)
      if (!(s->free[place / 64] >> place % 64 & 1))
        visit((char *)s + SITU__SLAB_STEP + (size_t)place * s->size, payload);
}

void situ__slab_each(size_t size, void (*visit)(void *object, void *payload), void *payload) {
  const unsigned class = class_of((uint32_t)size);
  situ__spin_lock(&lock);
  visit_list(full[class], visit, payload);
  visit_list(roomy[class], visit, payload);
  situ__spin_unlock(&lock);
}
