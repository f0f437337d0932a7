/* Calls in progress, and changes that need to be alone. A call that uses a module, an optimiser or a recorded call publishes
   what it uses; a change (a move, a free, an optimiser's step) claims what it changes. Two threads never wait for each other
   here: whichever comes second is refused.

   Objects have marks, one word each, also those of all their parts. A claim has a number that no other one ever had, and sets
   them to it; a mark with the number of a claim that has ended says nothing, so none is ever cleared. A use looks at the marks
   only while there is any claim in the process, so it costs two uncontended atomics.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_BUSY_H
#define SITU_BASE_BUSY_H

#include <stdbool.h>
#include <stdint.h>

typedef bool situ__mark_visitor(uint64_t *mark);
/* Calls visit for the mark of each part of an object until it returns false, which is the result then. Runs under a lock, also
   on another thread than the one that uses the object: it must neither allocate nor fail nor run the program's code. */
typedef bool situ__marks(const void *object, situ__mark_visitor *visit);

/* In the frame of the call. */
typedef struct situ__use {
  situ__marks *marks;
  const void *object;
  struct situ__use *outer;
} situ__use;
/* Returns false, and publishes nothing, while another thread claims a part of object; nothing is recorded. */
bool situ__use_begin(situ__use *use, situ__marks *marks, const void *object);
/* The innermost use of this thread ends. */
void situ__use_end(void);

/* Stays where it is until it ends. */
typedef struct situ__claim {
  uint64_t number; /* 0: none, or one that has ended */
  uint32_t thread;
  struct situ__claim *next, **link; /* all that have begun and not ended, of all threads */
} situ__claim;
/* Returns false, and changes nothing, while another thread uses or claims a part of object; nothing is recorded. Claims of one
   thread nest. */
bool situ__claim_begin(situ__claim *claim, situ__marks *marks, const void *object);
/* The claim ends, if it was begun. What was claimed may be gone. */
void situ__claim_end(situ__claim *claim);
/* Declares a claim that ends with the block. */
#define SITU__CLAIM(claim) __attribute__((cleanup(situ__claim_end))) situ__claim claim = { 0 }

/* The marks of a module, of its parts and of their storages (nn/busy.c): for the rooms above nn. */
bool situ__module_marks(const void *module, situ__mark_visitor *visit);

/* An object that one thread at a time may use, and that has no parts: a loader, a scheduler. Zero: no thread is in it. */
typedef struct situ__alone {
  uint32_t thread, depth;
} situ__alone;
/* Returns NULL after recording that `op` found another thread in this object ("this loader"), else alone. The thread that is
   in it may enter it again. */
situ__alone *situ__alone_begin(situ__alone *alone, const char *op, const char *object);
void situ__alone_end(situ__alone *const *alone);
/* Enters until the end of the block; `in` is NULL if that was refused. */
#define SITU__ALONE(in, alone, op, object) \
  __attribute__((cleanup(situ__alone_end))) situ__alone *in = situ__alone_begin(alone, op, object)

/* Records SITU_E_STATE: object ("Linear", "fc.weight") is in use by another thread. Returns false. */
bool situ__busy(const char *op, const char *object);

#endif
