/* Lifetimes: every op's result belongs to the innermost open scope of the thread.
   Threads: each has scopes of its own, and what is open when it ends is released (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_SCOPE_H
#define SITU_SCOPE_H

#include "device.h"

SITU_BEGIN

typedef struct situ_tensor situ_tensor;

/** A scope that is open on this thread: a ticket that names it, for the variable on the caller's
    stack. The scope itself is the library's, so nothing depends on where the ticket is: a copy of it
    names the same scope, and a frame that is left without situ_scope_end leaves a scope that the end
    of the one around it closes. Its fields belong to the library. */
typedef struct situ_scope {
  uint64_t thread, number;
} situ_scope;

/** Opens a scope: what ops return from now on belongs to it. What *scope held before does not matter:
    a scope that it named, and that is still open, counts as forgotten. SITU_E_ARG for NULL,
    SITU_E_NOMEM: no scope was opened, and situ_scope_end says so. */
SITU_API void situ_scope_begin(situ_scope *scope);
/** Opens a scope in which no gradient is recorded (torch.no_grad). */
SITU_API void situ_scope_begin_no_grad(situ_scope *scope);
/** Releases all that the scope, and any forgotten scope inside it, still owns. Returns the thread's
    first error if one happened inside, else SITU_OK. SITU_E_STATE: it is not open on this thread (it
    was never begun, was begun on another thread, or was ended already); nothing is released then.
    A thread that ends with open scopes releases what they own. */
SITU_API SITU_CHECKED situ_status situ_scope_end(situ_scope *scope);
/** Is it open on this thread? For code that cannot know whether an outer scope has ended already. */
SITU_API bool situ_scope_is_open(const situ_scope *scope);

/** Hands a tensor that this scope owns to the enclosing scope; returns it. NULL stays NULL. NULL and
    SITU_E_STATE: the scope is not open on this thread. Handed on from the outermost scope, the tensor
    stays until situ_release. */
SITU_API situ_tensor *situ_escape(situ_scope *scope, situ_tensor *tensor);
/** Owns tensor in *slot and releases what was there. On NULL, and if either was
    freed already (SITU_E_ARG), the slot keeps what it has: false. */
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
