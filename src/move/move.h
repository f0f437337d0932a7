/* A move, inside dispatch: filled in by planning and staging, consumed by committing.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DISPATCH_MOVE_H
#define SITU_DISPATCH_MOVE_H

#include <string.h>

#include "autograd/tape.h"
#include "device/dry.h"
#include "device/ledger/ledger.h"
#include "situ/sys/move.h"
#include "tensor/backing.h"

enum {
  SITU__MOVE_SMALL = 64 << 10, /* maximum bytes of storages that share a transfer */
  SITU__MOVE_MANY = 1024,    /* maximum number of them: their structs are in the L2 cache until they have the memory */
  SITU__MOVE_STAGE = 4 << 20 /* maximum bytes per transfer, and size of its buffer */
};

struct situ_move_plan {
  uint32_t head;
  const char *op; /* static text */
  situ__copy_reason why;
  situ_move_unit *unit;
  int64_t count, capacity;
  bool gradients;                /* gradients move too */
  bool staged;                   /* units may have destinations */
  bool lossy;                    /* a unit has lost values */
  bool keep;                     /* the file stays */
  const char *path;              /* what comes to the cpu is put into a new file; NULL: into memory */
  situ__backing *file;           /* while that is done */
  bool (*settle)(void *payload); /* NULL: old memory is freed at once */
  void *payload;
};

static inline bool situ__move_casts(const situ_move_unit *u) { return u->from_dtype != u->to_dtype; }
/* Inline, because a move calls these for many storages. */
static inline bool situ__move_same(situ_device a, situ_device b) { return memcmp(&a, &b, sizeof a) == 0; }
/* Sizes are powers of two: returns the shift. */
static inline int situ__move_shift(unsigned dtype) { return situ__dtypes[dtype].shift; }
/* Prefetches what the loop reads a few steps later: a model's tensors are far apart in memory. */
enum { SITU__MOVE_AHEAD = 8 };
static inline void situ__move_fetch(const void *address) {
  __builtin_prefetch(address);
  __builtin_prefetch((const char *)address + 64);
}
static inline size_t situ__move_size(uint8_t dtype) { return situ_dtype_size((situ_dtype)dtype); }

/* Bytes of a storage that move: those of one that is away have left it. */
static inline uint64_t situ__move_bytes(const situ_storage *s) { return s->flags & SITU_STORAGE_AWAY ? 0 : s->bytes; }
static inline bool situ__move_has_values(const situ_storage *s) { return s->bytes && situ__holds_some(s); }
/* Between these two all of a storage counts as written of which a part is, so that a copy may read it. */
static inline bool situ__move_reads_parts(situ_storage *s) {
  const bool partly = !situ__is_filled(s) && s->written && !situ__is_dry();
  if (partly) situ__fill(s);
  return partly;
}
static inline void situ__move_read_parts(situ_storage *s, bool partly) {
  if (partly) (void)__atomic_or_fetch(&s->flags, SITU_STORAGE_UNWRITTEN, __ATOMIC_RELAXED);
}

/* demand.c: what a move asks of a device. The exact memory that staging needs is found by staging in a dry run. */
typedef struct situ__demand {
  situ_device device;
  uint32_t dtypes;               /* set of those that come there */
  uint64_t roughly;              /* more bytes than staging needs there; 0: nothing comes there */
  uint64_t available, now, peak; /* bytes of blocks: allocatable; allocated by the move; its peak */
  bool full;                     /* it has too little memory for the move: from there on the limit is ignored */
} situ__demand;
typedef struct situ__demands {
  situ__demand *list;
  int count;
  int64_t capacity;
} situ__demands;
/* Adds what a unit that moves asks of its devices, but for the exact memory. Returns false when memory runs out. */
bool situ__move_add_unit(situ__demands *demands, const situ_move_unit *u);
/* Finds the exact memory. Returns false after recording an error. Free demands.list in either case. */
bool situ__move_demands(const situ_move_plan *m, situ__demands *demands);
/* Returns true if all devices clearly have enough memory, so that no exact figures are needed. */
bool situ__move_fits_easily(const situ_move_plan *m, const situ__demands *demands);

/* situ_move_plan_new, with or without the gradients of the listed tensors. Other threads may change gradients, unless
   this thread has the tensors for itself (base/busy.h). */
situ_move_plan *situ__move_plan_new(const char *op, const situ_move_request *list, int64_t count, bool gradients);

/* stage.c: allocates and fills the new memory of every unit that moves. Returns false after recording an error. In
   both cases the caller frees what was allocated. */
bool situ__move_stage(situ_move_plan *m);

#endif
