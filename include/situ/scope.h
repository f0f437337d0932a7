/* Lifetimes: every op's result belongs to the innermost open scope of the thread.
   Threads: scopes are per thread; a thread that ends releases its open ones (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_SCOPE_H
#define SITU_SCOPE_H

#include "device.h"

SITU_BEGIN

typedef struct situ_tensor situ_tensor;

/** A ticket for an open scope of this thread, for a variable on the caller's stack. The scope itself belongs to the
    library: a copy of the ticket names the same scope, and a scope whose frame is left without situ_scope_end is closed
    with the enclosing one. Its fields are private. */
typedef struct situ_scope {
  uint64_t thread, number;
} situ_scope;

/** Opens a scope, which owns the results of ops from now on. The previous contents of *scope do not matter: an open
    scope that it named is closed with the enclosing one. On error (SITU_E_ARG for NULL, SITU_E_NOMEM) no scope was
    opened, and situ_scope_end reports it. */
SITU_API void situ_scope_begin(situ_scope *scope);
/** Opens a scope in which no gradient is recorded (torch.no_grad). */
SITU_API void situ_scope_begin_no_grad(situ_scope *scope);
/** Opens a scope in which gradients are recorded, also inside of one in which they are not (torch.enable_grad). */
SITU_API void situ_scope_begin_enable_grad(situ_scope *scope);
/** Releases everything that the scope, and any inner scope that was not ended, still owns. Returns the thread's first
    error if one happened inside, else SITU_OK. SITU_E_STATE, and nothing is released, if the scope is not open on this
    thread: never begun, begun on another thread, or ended already. A thread that ends releases its open scopes. */
SITU_API SITU_CHECKED situ_status situ_scope_end(situ_scope *scope);
/** Whether the scope is open on this thread: for code that cannot know whether an outer scope has ended already. */
SITU_API bool situ_scope_is_open(const situ_scope *scope);

/** Moves ownership of a tensor from this scope to the enclosing one; returns it. NULL stays NULL. NULL and SITU_E_STATE
    if the scope is not open on this thread. From the outermost scope, the tensor stays until situ_release. */
SITU_API situ_tensor *situ_escape(situ_scope *scope, situ_tensor *tensor);
/** Hands a tensor to the enclosing scope and ends this one: `return situ_scope_return(&s, y);`. NULL if an error was
    recorded inside the scope, which is ended all the same, or after recording one: the scope is not open on this thread
    (SITU_E_STATE), or the tensor was freed already (SITU_E_ARG), and nothing is released then. Handed on from the
    outermost scope, the tensor stays until situ_release. */
SITU_API SITU_CHECKED situ_tensor *situ_scope_return(situ_scope *scope, situ_tensor *tensor);
/** Stores tensor in *slot as an owner, and releases the previous one. Returns false, with *slot unchanged, for a NULL
    tensor, and with SITU_E_ARG if either was freed already. */
SITU_API bool situ_set(situ_tensor **slot, situ_tensor *tensor);
/** Releases the tensor in *slot and sets it to NULL. */
SITU_API void situ_drop(situ_tensor **slot);

/** Adds an owner; returns tensor. NULL stays NULL. Thread-safe. */
SITU_API situ_tensor *situ_retain(situ_tensor *tensor);
/** Removes an owner; the last one frees the tensor. NULL is fine. Thread-safe. */
SITU_API void situ_release(situ_tensor *tensor);

/** Number of live tensors in the process: for leak tests. */
SITU_API int64_t situ_live_tensors(void);
/** Bytes of live storages in the process, on all devices. */
SITU_API int64_t situ_live_bytes(void);

SITU_END
#endif
