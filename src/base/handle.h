/* Handles: each object that a program holds by an opaque pointer begins with a word that gives its kind and whether
   it is alive. Freed handles stay in quarantine for a while before their memory is reused, so that stale handles are
   recognised.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_HANDLE_H
#define SITU_BASE_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/fail.h"

typedef enum situ__handle_kind {
  SITU__A_TENSOR = 1,
  SITU__A_MODULE,
  SITU__A_TREE,
  SITU__AN_OPTIMISER,
  SITU__A_SCHEDULER,
  SITU__A_SCALER,
  SITU__A_DATASET,
  SITU__A_SAMPLER,
  SITU__A_LOADER,
  SITU__A_GRAPH,
  SITU__A_FILE,
  SITU__A_SNAPSHOT,
  SITU__A_MOVE,
  SITU__AN_OPTIMISER_STATE,
  SITU__A_SCHEDULER_STATE,
  SITU__A_COMM,
  SITU__A_COMM_REQUEST,
  SITU__A_COMM_WORLD,
  SITU__A_DDP,
  SITU__A_ZERO,
  SITU__A_TP,
  SITU__A_PIPELINE,
  SITU__A_PROFILE,
  SITU__HANDLE_KINDS
} situ__handle_kind;

/* The first word of a live handle. Pointers and small numbers never have this value. */
#define SITU__LIVE(kind) (0x75740000u | (uint32_t)(kind))

/* Returns true for a live handle of that kind, false for NULL. */
static inline bool situ__is(situ__handle_kind kind, const void *handle) {
  uint32_t head;
  if (!handle) return false;
  memcpy(&head, handle, sizeof head);
  return head == SITU__LIVE(kind);
}

/* Records what the argument is instead: as situ__null does for NULL, else SITU_E_ARG. Returns false. */
bool situ__refuse_handle(const char *op, const char *argument, const void *handle, situ__handle_kind kind) SITU_COLD;
/* The check at each public entry. Returns false after recording an error. */
static inline bool situ__valid(const char *op, const char *argument, const void *handle, situ__handle_kind kind) {
  return __builtin_expect(situ__is(kind, handle), 1) || situ__refuse_handle(op, argument, handle, kind);
}

/* The same for an argument that may be left out: NULL is refused only where a failed call may have returned it. */
static inline bool situ__optional(const char *op, const char *argument, const void *handle, situ__handle_kind kind) {
  return (!handle && !situ__scope_has_failed()) || situ__valid(op, argument, handle, kind);
}

/* Returns a zeroed object of `size` bytes that begins with its word; NULL when memory runs out, without recording an
   error. */
void *situ__handle_new(situ__handle_kind kind, size_t size);
/* Clears the object and puts it in quarantine with a text that describes it (copied and cut; NULL: only its kind).
   `size` is that of situ__handle_new. handle may be NULL. */
void situ__handle_free(void *handle, size_t size, const char *text);
/* Marks a handle that the program has freed while a part of the library still uses it; that part frees it later. */
void situ__handle_close(void *handle);
/* For tensors, which are made and freed often: memory that is not initialised, and a quarantine per thread. The bytes
   from SITU__DEAD_HEAD on stay as they are, for describe_dead_tensor (fail.h). All have one size. */
enum { SITU__DEAD_HEAD = 16, SITU__TENSOR_SIZE = 240 };
void *situ__handle_new_tensor(void);
void situ__handle_free_tensor(void *handle);

/* Frees the quarantine of this thread's tensors and of all other kinds: their stale handles are no longer
   recognised. */
void situ__handles_trim(void);

#endif
