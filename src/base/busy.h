/* Calls in progress, and changes that need exclusive access. A call that uses a module, an optimiser or a recorded
   call publishes what it uses; a change (a move, a free, an optimiser's step) claims what it changes. Threads never
   wait for each other here: the second one gets an error.

   Each object, and each of its parts, has a mark of one word. A claim sets the marks to its number, which is unique
   in the process. The number of an ended claim has no effect, so marks are never cleared. A use reads the marks only
   while a claim exists in the process, so it costs two uncontended atomics.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_BUSY_H
#define SITU_BASE_BUSY_H

#include <stdbool.h>
#include <stdint.h>

typedef bool situ__mark_visitor(uint64_t *mark);
/* Calls visit for the mark of each part of an object until it returns false; returns what the last call returned.
   Runs under a lock, possibly on another thread than the one that uses the object: it must not allocate, fail, or
   call the program's code. */
typedef bool situ__marks(const void *object, situ__mark_visitor *visit);

/* Lives in the stack frame of the call. */
typedef struct situ__use {
  situ__marks *marks;
  const void *object;
  struct situ__use *outer;
} situ__use;
/* Returns false, without recording an error or publishing anything, while another thread claims a part of object. */
bool situ__use_begin(situ__use *use, situ__marks *marks, const void *object);
/* Ends the innermost use of this thread. */
void situ__use_end(void);
/* Ends the use, if it was begun. */
static inline void situ__use_leave(const situ__use *use) {
  if (use->marks) situ__use_end();
}
/* Declares a use that ends with the block. */
#define SITU__USE(use) __attribute__((cleanup(situ__use_leave))) situ__use use = { 0 }

/* Must not be moved in memory until it ends. */
typedef struct situ__claim {
  uint64_t number; /* 0: none, or ended */
  uint32_t thread;
  struct situ__claim *next, **link; /* list of the open claims of all threads */
} situ__claim;
/* Returns false, without recording an error or changing anything, while another thread uses or claims a part of
   object. Claims of one thread nest. */
bool situ__claim_begin(situ__claim *claim, situ__marks *marks, const void *object);
/* Ends the claim, if it was begun. The claimed object may be freed already. */
void situ__claim_end(situ__claim *claim);
/* Declares a claim that ends with the block. */
#define SITU__CLAIM(claim) __attribute__((cleanup(situ__claim_end))) situ__claim claim = { 0 }

/* Visits the marks of a module, of its parts and of their storages (nn/busy.c), or of an optimiser and its parameters
   (optim/busy.c): for the directories above. */
bool situ__module_marks(const void *module, situ__mark_visitor *visit);
bool situ__optim_marks(const void *optim, situ__mark_visitor *visit);
/* Begins a use of a module. Returns false after recording that another thread moves, changes or frees it. */
bool situ__module_use(const char *op, const void *module, situ__use *use);

/* Forwards, which share a module, write its running statistics, and a save reads them. A write holds the locks of all
   storages that it writes together, a reader that of the storage it reads. Waits for the other thread; so the holder of
   a lock must not wait for anything else. What an op calls back meanwhile (the log function, saved tensors hooks) may
   save or forward: a thread does not wait for its own locks. Several locks are their sum by |. */
uint64_t situ__write_lock_of(const void *storage);
/* Returns the locks that the thread did not hold yet, for situ__write_end. */
uint64_t situ__write_begin(uint64_t locks);
void situ__write_end(uint64_t locks);

/* For an object without parts that one thread at a time may use: a loader, a scheduler. Zeroed: not in use. */
typedef struct situ__alone {
  uint32_t thread, depth;
} situ__alone;
/* Returns NULL after recording that another thread uses this object ("this loader"), else alone. The thread that uses
   it may enter it again. */
situ__alone *situ__alone_begin(situ__alone *alone, const char *op, const char *object);
void situ__alone_end(situ__alone *const *alone);
/* Enters until the end of the block; `in` is NULL after an error. */
#define SITU__ALONE(in, alone, op, object) \
  __attribute__((cleanup(situ__alone_end))) situ__alone *in = situ__alone_begin(alone, op, object)

/* Records SITU_E_STATE: another thread uses object ("Linear", "fc.weight"). Returns false. */
bool situ__busy(const char *op, const char *object);

#endif
