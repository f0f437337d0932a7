/* Handles: every object that a program holds by an opaque pointer begins with a word that says what it is, and whether it
   is alive. Freed ones are held back for a while before their memory is used again, so that a stale handle is told from a
   live one.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_HANDLE_H
#define SITU_BASE_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "situ/api.h"

typedef enum situ__handle_kind {
  SITU__A_TENSOR = 1,
  SITU__A_MODULE,
  SITU__A_TREE,
  SITU__AN_OPTIMISER,
  SITU__A_SCHEDULER,
  SITU__A_SCALER,
  SITU__A_DATASET,
  SITU__A_LOADER,
  SITU__A_GRAPH,
  SITU__A_FILE,
  SITU__A_SNAPSHOT,
  SITU__A_MOVE,
  SITU__AN_OPTIMISER_STATE,
  SITU__A_SCHEDULER_STATE,
  SITU__HANDLE_KINDS
} situ__handle_kind;

/* The first word of a live one. No pointer and no small number looks like it. */
#define SITU__LIVE(kind) (0x75740000u | (uint32_t)(kind))

/* Is this a live handle of that kind? NULL is not one. */
static inline bool situ__is(situ__handle_kind kind, const void *handle) {
  uint32_t head;
  if (!handle) return false;
  memcpy(&head, handle, sizeof head);
  return head == SITU__LIVE(kind);
}

/* Records what the argument is instead: as situ__null does for NULL, else SITU_E_ARG. Returns false. */
bool situ__refuse_handle(const char *op, const char *argument, const void *handle, situ__handle_kind kind) SITU_COLD;
/* The check at each public entry. False: recorded. */
static inline bool situ__valid(const char *op, const char *argument, const void *handle, situ__handle_kind kind) {
  return __builtin_expect(situ__is(kind, handle), 1) || situ__refuse_handle(op, argument, handle, kind);
}

/* A cleared object of `size` bytes that begins with its word. NULL: no memory, which is not recorded. */
void *situ__handle_new(situ__handle_kind kind, size_t size);
/* Clears it and holds it back, with a text that says which one it was (copied and cut; NULL: nothing more than its kind).
   `size` is that of situ__handle_new. NULL is fine. */
void situ__handle_free(void *handle, size_t size, const char *text);
/* The program has freed it, but a part of the library still holds it, which goes on with it and frees it in the end. */
void situ__handle_close(void *handle);
/* For tensors, which come and go quickly: memory that is not cleared, and holding it back in this thread. From
   SITU__DEAD_HEAD on its bytes stay as they are, for describe_dead_tensor (fail.h). */
enum { SITU__DEAD_HEAD = 16 };
void *situ__handle_new_tensor(size_t size);
void situ__handle_free_tensor(void *handle, size_t size);

/* Gives back what this thread and all kinds hold back: their handles are no longer told from memory that is used again. */
void situ__handles_trim(void);

#endif
