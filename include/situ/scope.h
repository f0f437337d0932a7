/* Lifetimes: every op's result belongs to the innermost open scope of the thread.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SCOPE_H
#define SITU_SCOPE_H

#include "device.h"

SITU_BEGIN

typedef struct situ_tensor situ_tensor;

/** A scope lives on the caller's stack between situ_scope_begin and situ_scope_end.
    Its fields belong to the library. */
typedef struct situ_scope {
  struct situ_scope *outer;
  situ_tensor      **owned;
  size_t             count, capacity;
  uint64_t           errors;      /* the thread's error count when it began */
  situ_tensor       *first[8];    /* room for small scopes without an allocation */
  situ_setting       setting;     /* of the thread, when it began */
  bool               grad;        /* gradients are recorded */
} situ_scope;

/** Opens a scope: what ops return from now on belongs to it. */
SITU_API void situ_scope_begin(situ_scope *scope);
/** Opens a scope in which no gradient is recorded (torch.no_grad). */
SITU_API void situ_scope_begin_no_grad(situ_scope *scope);
/** Releases all that the scope, and any forgotten scope inside it, still owns. Returns the thread's
    first error if one happened inside, else SITU_OK. */
SITU_API SITU_CHECKED situ_status situ_scope_end(situ_scope *scope);
/** Is it open on this thread? For code that cannot know whether an outer scope has ended already. */
SITU_API bool situ_scope_is_open(const situ_scope *scope);

/** Hands a tensor that this scope owns to the enclosing scope; returns it. NULL stays NULL. */
SITU_API situ_tensor *situ_escape(situ_scope *scope, situ_tensor *tensor);
/** Owns tensor in *slot and releases what was there. On NULL the slot keeps what it has: false. */
SITU_API bool situ_set(situ_tensor **slot, situ_tensor *tensor);
/** Releases what *slot owns and empties it. */
SITU_API void situ_drop(situ_tensor **slot);

/** One more owner; returns tensor. NULL stays NULL. Thread-safe. */
SITU_API situ_tensor *situ_retain(situ_tensor *tensor);
/** One owner fewer; the last one frees. NULL is fine. Thread-safe. */
SITU_API void situ_release(situ_tensor *tensor);

/** Tensors alive in the process: lets a test prove that it leaked nothing. */
SITU_API int64_t situ_live_tensors(void);
/** Bytes of storage alive in the process, on all devices. */
SITU_API int64_t situ_live_bytes(void);

SITU_END
#endif
