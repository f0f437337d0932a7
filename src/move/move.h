/* A move, inside dispatch: what planning finds, staging fills in and committing uses up.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DISPATCH_MOVE_H
#define SITU_DISPATCH_MOVE_H

#include "autograd/tape.h"
#include "situ/sys/move.h"

enum {
  SITU__MOVE_SMALL = 64 << 10, /* bytes up to which storages travel together */
  SITU__MOVE_STAGE = 4 << 20   /* bytes that travel at once, and of the buffer for them */
};

struct situ_move_plan {
  uint32_t head;
  const char *op; /* static text */
  situ_move_unit *unit;
  int64_t count, room;
  bool gradients; /* go along */
};

static inline bool situ__move_casts(const situ_move_unit *u) { return u->from_dtype != u->to_dtype; }
/* A move looks at many storages, so these are asked often. */
static inline bool situ__move_same(situ_device a, situ_device b) { return a.kind == b.kind && a.index == b.index; }
/* Sizes are powers of two: this is how many bits they shift. */
static inline int situ__move_shift(unsigned dtype) { return situ__dtypes[dtype].shift; }
/* What is looked at a few steps later: a model's parts lie far apart. */
enum { SITU__MOVE_AHEAD = 8 };
static inline void situ__move_fetch(const void *address) {
  __builtin_prefetch(address);
  __builtin_prefetch((const char *)address + 64);
}
static inline size_t situ__move_size(uint8_t dtype) { return situ_dtype_size((situ_dtype)dtype); }

static inline bool situ__move_has_values(const situ_storage *s) {
  return s->bytes && !(s->flags & SITU_STORAGE_UNWRITTEN);
}

/* demand.c: what staging takes of each device, found by staging without memory. */
typedef struct situ__demand {
  situ_device device;
  uint64_t room, now, peak; /* bytes of blocks: that may be had; taken, and at most, beyond those before the move */
  bool full;                /* it had no room for what cannot be done without: room is not minded from there on */
} situ__demand;
typedef struct situ__demands {
  situ__demand *list;
  int count, capacity;
} situ__demands;
/* False: recorded. Free with situ__free(demands.list) in either case. */
bool situ__move_demands(const situ_move_plan *m, situ__demands *demands);
/* Is there so much room everywhere that nobody need ask for more exact figures? */
bool situ__move_fits_easily(const situ_move_plan *m);

/* situ_move_plan_new, with or without the gradients of what is listed: those are another thread's to change, unless nobody
   else uses the tensors (base/busy.h). */
situ_move_plan *situ__move_plan_new(const char *op, const situ_move_request *list, int64_t count, bool gradients);

/* stage.c: gives every unit that moves its `room`, filled; false: recorded. What was given then is the caller's to let
   go of, as it is on success. */
bool situ__move_stage(situ_move_plan *m);

#endif
