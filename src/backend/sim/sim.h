/* Internals of the simulated device: one struct for each device, its arena and its queue.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_SIM_H
#define SITU_BACKEND_SIM_H

#include "base/fail.h"
#include "base/mutex.h"
#include "device/device.h"
#include "situ/sys/sim.h"

/* ---- arena.c: addresses that the host cannot touch, and the same memory for the device ---- */
typedef struct situ__sim_extent {
  size_t at, bytes;
} situ__sim_extent;

typedef struct situ__sim_arena {
  char *handle;           /* no access: the address that alloc returns */
  char *alias;            /* the same pages with access, for kernels and copies of this backend only */
  situ__sim_extent *free; /* sorted by address, adjacent ones merged */
  size_t count;
  int64_t capacity;
  size_t live; /* allocations; free has capacity for one more extent than that, so that freeing never allocates */
} situ__sim_arena;

size_t situ__sim_arena_most(void);
/* Returns NULL if there is not enough contiguous memory. */
void *situ__sim_arena_alloc(situ__sim_arena *arena, size_t bytes);
void situ__sim_arena_free(situ__sim_arena *arena, void *handle, size_t bytes);
static inline bool situ__sim_owns(const situ__sim_arena *arena, const void *handle, size_t bytes) {
  size_t at = (size_t)((uintptr_t)handle - (uintptr_t)arena->handle), most = situ__sim_arena_most();
  return arena->handle && at <= most && bytes <= most - at;
}
/* The device's own address of the memory behind a handle: of the arena, or of the program. NULL stays NULL. */
static inline char *situ__sim_alias(const situ__sim_arena *arena, const void *handle) {
  return situ__sim_owns(arena, handle, 0) ? arena->alias + ((const char *)handle - arena->handle)
                                          : (char *)(uintptr_t)handle;
}

/* ---- queue.c: work in order, deferred ------------------------------------------------------ */
typedef struct situ__sim_command situ__sim_command;

/* A scheduled fault. */
typedef struct situ__sim_fault {
  uint64_t nth, seen;
  bool sticky;
} situ__sim_fault;

typedef struct situ__sim {
  situ__mutex lock; /* guards all members below */
  int index;
  situ__sim_arena arena;
  situ__sim_command *first, **last;
  size_t queued_bytes;
  situ_status late; /* the first failure in the queue that was not reported yet */
  char late_op[SITU__OP_NAME];
  char late_text[512];
  uint32_t missing; /* dtypes */
  uint64_t delay;   /* of each copy, in nanoseconds */
  bool lost;
  situ__sim_fault fault[SITU_SIM_FAULTS];
  situ_sim_statistics stats;
  char uuid[SITU_UUID_MAX], pci[SITU_PCI_MAX];
  situ_sim_context program; /* of an adopted device */
  situ_foreign foreign;     /* and its allocator, if it has one */
} situ__sim;

/* Whether the memory is the program's. */
static inline bool situ__sim_lent(const situ__sim *sim, const void *handle, size_t bytes) {
  const size_t at = (size_t)((uintptr_t)handle - (uintptr_t)sim->program.memory);
  return sim->program.memory && at <= sim->program.bytes && bytes <= sim->program.bytes - at;
}

/* Refuses operands on other devices or past the end of their storage. Needs no lock. */
situ_status situ__sim_check(const situ__sim *sim, const situ_work *work);
/* Copies work into the queue. The caller holds the lock for this and the functions below, so they record no errors: a
   log function may call back. */
situ_status situ__sim_queue_work(situ__sim *sim, const situ_work *work, bool doomed);
/* flipped: one bit arrives wrong. */
situ_status situ__sim_queue_copy(situ__sim *sim, void *handle, size_t at, const void *host, size_t bytes, bool flipped);
/* Copies; the same for flipped. */
void situ__sim_copy(void *to, const void *from, size_t bytes, bool flipped);
/* A copy to the host that is queued: the queue sets done. */
typedef struct situ__sim_fetch {
  void *host;
  int index; /* of an event: the device that recorded it */
  bool done, lost;
} situ__sim_fetch;
situ_status situ__sim_queue_fetch(situ__sim *sim, const void *handle, size_t at, size_t bytes, situ__sim_fetch *fetch);
/* Runs all queued work; keeps a failure in `late`. */
void situ__sim_run(situ__sim *sim);

/* ---- adopt.c: devices and memory of the program ---- */
situ_status situ__sim_adopt(int index, const situ_foreign *foreign);
situ_status situ__sim_abandon(int index);
situ_status situ__sim_borrow(int index, void *handle, size_t bytes, void **data, bool *read_only);
void situ__sim_give_back(int index, void *data);
situ_status situ__sim_open_queue(int from, int index);
situ_status situ__sim_wait_event(int index, void *event);
situ_status situ__sim_record_event(int index, void **event);
situ_status situ__sim_query_event(int index, void *event, bool *done);
situ_status situ__sim_release_event(int index, void *event);

/* ---- backend.c ---------------------------------------------------------------------------- */
/* The locked device `index`. Returns NULL if there is none. */
situ__sim *situ__sim_lock(int index);
void situ__sim_unlock(situ__sim *sim);
/* Unlocks, and reports a failure of queued work. */
situ_status situ__sim_leave_telling(situ__sim *sim);
/* Resets what situ_sim_reset does; the device is locked. */
void situ__sim_reset(situ__sim *sim);
/* Sets the UUID and the PCI address that no other device has. */
void situ__sim_identify(situ__sim *sim);
int situ__sim_count(void);
/* Creates devices until there are at least this many. */
void situ__sim_grow(int count);
enum { SITU__SIM_BUDGET = 1 << 30 };

#endif
