/* Slabs of small objects. A slab is aligned to its size, so that an object's address tells which one it is from. It
   keeps account of its free places itself: a list through the objects would wait for each one to come from memory.
   A process with many slabs takes them from chunks, each of which the system may map as one huge page: walks over
   large models then miss the TLB less, and a fault brings 2 MiB instead of 4 KiB.
   SPDX-License-Identifier: MIT */
#include "base/slab.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/refs.h"

enum {
  CHUNK = 2 << 20, /* a huge page */
  PIECE = 16 << 10,
  IN_CHUNK = CHUNK / PIECE,
  SPARES = 4, /* kept, and a quarter of those in use */
  FEW = 64,   /* slabs of a process without chunks: 1 MiB, so that a small process does not hold 2 */
  REST = 64,  /* left over, so that the allocator's own words and the next piece follow without a gap */
  CLASSES = SITU__SLAB_LARGEST / SITU__SLAB_STEP,
  WORDS = PIECE / SITU__SLAB_STEP / 64
};

/* Memory for slabs of all sizes. */
typedef struct chunk {
  struct chunk *next, **link; /* list of those that have vacant pieces */
  char *memory;
  uint32_t vacant;              /* pieces, */
  uint64_t free[IN_CHUNK / 64]; /* each of which has a bit here */
} chunk;

typedef struct slab {
  struct slab *next, **link; /* list of those of its size that have free places, or of those that have none */
  uint32_t size;             /* of an object */
  uint16_t places, vacant;   /* for so many objects; those of them that are free, */
  uint64_t free[WORDS];      /* each of which has a bit here */
  chunk *from;               /* NULL: an allocation of its own */
} slab;
_Static_assert(sizeof(slab) <= SITU__SLAB_STEP, "the first object's place");

static uint32_t lock; /* guards all slabs */
static slab *roomy[CLASSES], *full[CLASSES];
static chunk *chunks; /* those in use that have vacant pieces */
static chunk *spare;  /* those that are not in use, kept as a call on a model frees what the next one allocates */
static uint32_t used, spares; /* their numbers */
static uint32_t few;          /* slabs outside chunks, at most FEW while there is memory for chunks */

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

/* ---- memory for slabs ---- */

static void link_chunk(chunk *c) {
  c->link = &chunks;
  c->next = chunks;
  if (c->next) c->next->link = &c->next;
  chunks = c;
}

static void unlink_chunk(chunk *c) {
  *c->link = c->next;
  if (c->next) c->next->link = c->link;
}

static chunk *make_chunk(void) {
  chunk *c = situ__alloc_uncounted(sizeof *c);
  char *memory = c ? situ__aligned_uncounted(CHUNK, CHUNK - REST) : NULL;
  if (!memory) return situ__free(c), NULL;
  *c = (chunk){ .memory = memory, .vacant = IN_CHUNK };
  memset(c->free, 0xff, sizeof c->free);
  return c;
}

static chunk *open_chunk(void) {
  chunk *c = spare ? spare : make_chunk();
  if (!c) return NULL;
  if (c == spare) spare = c->next, spares--;
  link_chunk(c);
  used++;
  return c;
}

/* A list of them. */
static void drop_chunks(chunk *c) {
  for (chunk *next; c; c = next) {
    next = c->next;
    situ__free(c->memory);
    situ__free(c);
  }
}

/* The first free one of a set that is not empty. */
static size_t take_bit(uint64_t *free) {
  size_t word = 0;
  while (!free[word]) word++;
  const size_t bit = 64 * word + (size_t)__builtin_ctzll(free[word]);
  free[word] &= free[word] - 1;
  return bit;
}

static void give_bit(uint64_t *free, size_t bit) { free[bit / 64] |= UINT64_C(1) << bit % 64; }

/* Memory for a slab, and the chunk that it is from. */
static void *take_piece(chunk **from) {
  chunk *c = chunks;
  if (!c && (spare || few >= FEW)) c = open_chunk();
  *from = c;
  if (!c) {
    void *memory = situ__aligned_uncounted(PIECE, PIECE - REST);
    few += memory != NULL;
    return memory;
  }
  if (--c->vacant == 0) unlink_chunk(c);
  return c->memory + take_bit(c->free) * PIECE;
}

/* Returns the list of chunks that are to be freed when the lock is released. */
static chunk *give_piece(slab *s) {
  chunk *c = s->from;
  if (c->vacant++ == 0) link_chunk(c);
  give_bit(c->free, (size_t)((char *)s - c->memory) / PIECE);
  if (c->vacant < IN_CHUNK) return NULL;
  unlink_chunk(c);
  used--;
  c->next = spare;
  spare = c;
  spares++;
  chunk *rest = NULL;
  while (spares > SPARES + used / 4) {
    chunk *old = spare;
    spare = old->next;
    spares--;
    old->next = rest;
    rest = old;
  }
  return rest;
}

static slab *open_slab(uint32_t size) {
  situ__fork_watch();
  chunk *from;
  slab *s = take_piece(&from);
  if (!s) return NULL;
  const uint16_t places = (uint16_t)((PIECE - REST - SITU__SLAB_STEP) / size);
  *s = (slab){ .size = size, .places = places, .vacant = places, .from = from };
  for (unsigned i = 0; i < places; i++) s->free[i / 64] |= UINT64_C(1) << i % 64;
  link_slab(s, roomy);
  return s;
}

/* ---- objects ---- */

/* The first free place: those that are taken one after another follow each other in memory. */
static void *take(slab *s) {
  const size_t place = take_bit(s->free);
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

/* Frees a slab without objects. The caller holds the lock, which is released before memory is freed. */
static __attribute__((noinline)) void close_slab(slab *s) {
  unlink_slab(s);
  chunk *rest = s->from ? give_piece(s) : NULL;
  slab *own = s->from ? NULL : s;
  few -= own != NULL;
  situ__spin_unlock(&lock);
  situ__free(own);
  drop_chunks(rest);
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
  give_bit(s->free, place);
  if (s->vacant == s->places) close_slab(s);
  else situ__spin_unlock(&lock);
}

void situ__slab_trim(void) {
  situ__spin_lock(&lock);
  chunk *old = spare;
  spare = NULL;
  spares = 0;
  situ__spin_unlock(&lock);
  drop_chunks(old);
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
