/* Tensors as modules, optimisers and placement see them: owners, roles, relatives on one storage, storages that move
   together, and memory that changes hands without a copy. SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_TENSOR_H
#define SITU_SYS_TENSOR_H

#include "../scope.h"
#include "../tensor.h"

SITU_BEGIN

/** Counts the module slots that own the tensor: by is 1 or -1. Called by nn. */
SITU_API void situ_count_slot(situ_tensor *t, int by);
/** Whether a module owns the tensor, or another one on its storage, as a parameter or buffer. */
SITU_API bool situ_is_registered(const situ_tensor *t);

typedef enum situ_relation {
  SITU_SHARES = 0, /**< on the same storage */
  SITU_FOLLOWS,    /**< t moves with this one */
  SITU_LEADS,      /**< this one moves with t */
  SITU_RELATIONS
} situ_relation;
/** Visits every other tensor on t's storage, then one for the storage that it follows, and one for each that follows
    it. visit is called with locks held: it must not make, release or move tensors. */
SITU_API void situ_each_relative(const situ_tensor *t,
                                 void (*visit)(situ_relation how, const situ_tensor *other, void *payload),
                                 void *payload);

/* The role of a tensor, for messages and placement. */
typedef enum situ_role {
  SITU_ROLE_TENSOR = 0,
  SITU_ROLE_INPUT,
  SITU_ROLE_PARAMETER,
  SITU_ROLE_BUFFER,
  SITU_ROLE_GRADIENT,
  SITU_ROLE_OPTIMIZER
} situ_role;
/** situ_clone of a tensor for a copy of its module, with its name, its role and requires_grad. No gradients may
    be recorded meanwhile. The caller owns the single reference instead of a scope. NULL after recording an error. */
SITU_API situ_tensor *situ_duplicate(situ_tensor *t);
/** Gives the copy that stands for a tensor in a dry run the tensor's history: where it was made and last moved. */
SITU_API void situ_stand_for(situ_tensor *copy, const situ_tensor *original);
/** Sets the role of a tensor. */
SITU_API void situ_set_role(situ_tensor *t, situ_role role);
/** The role of a tensor; SITU_ROLE_TENSOR by default. */
SITU_API situ_role situ_role_of(const situ_tensor *t);
/** "parameter", "optimiser state": static text; "?" for an invalid value. */
SITU_API const char *situ_role_name(situ_role role);

/** Writes the list of tensors that an open scope of this thread owns, oldest first, to *list (may be NULL): borrowed
    until the next tensor is made in it. Returns their number; 0 if the scope is not open. */
SITU_API int64_t situ_scope_owned(const situ_scope *scope, situ_tensor *const **list);
/** Number of owners of the tensor: scopes, modules, optimisers, the graph, callers. */
SITU_API int64_t situ_owners(const situ_tensor *t);

/** Makes t's storage move and cast together with leader's: for optimiser state, moving averages, caches. leader NULL:
    no longer. Ends when either storage is freed. Does not move anything now. */
SITU_API SITU_CHECKED situ_status situ_follow(situ_tensor *t, situ_tensor *leader);
/** The same for what is only beside leader, as an average of it: t goes along from leader's device to another one,
    keeps its dtype, and may be moved alone; then it stays there. */
SITU_API SITU_CHECKED situ_status situ_accompany(situ_tensor *t, situ_tensor *leader);
/** Whether t follows another tensor in that way. */
SITU_API bool situ_accompanies(const situ_tensor *t);

/** The tensor whose memory a differentiable view shares, itself not a view; t if it is not such a view. Borrowed. */
SITU_API situ_tensor *situ_view_base(situ_tensor *t);

/** Whether the tensor has values; on meta, whether they can be computed on another device. True for an empty tensor. */
SITU_API bool situ_has_values(const situ_tensor *t);

/** t, or, if leader's memory is a scratch file's and that of t is other memory of the cpu, a tensor with its values in
    that file. NULL after recording an error: the file's disk is full. */
SITU_API SITU_CHECKED situ_tensor *situ_beside(situ_tensor *t, const situ_tensor *leader);

/** situ_to for the time of one use: the ledger records the copy with the reason "offload", and that of its gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_fetch(situ_tensor *input, situ_device device);

/** situ_to of an input of the module that runs: the ledger records the copy, and that of its gradient, with the reason
    "input". */
SITU_API SITU_CHECKED situ_tensor *situ_bring(situ_tensor *input, situ_device device);

/** Swaps the memory of two storages of one number of elements, with their devices, dtypes and all their tensors: undoes
    a write without a copy that could fail. Queues nothing and does not wait. */
SITU_API SITU_CHECKED situ_status situ_swap_memory(const char *op, situ_tensor *a, situ_tensor *b);
/** Gives the memory and values of a real storage to one on meta of its size; the real one becomes a meta storage. The
    same call with swapped arguments undoes it. Copies nothing, and can hardly fail. */
SITU_API SITU_CHECKED situ_status situ_take_memory(const char *op, situ_tensor *meta, situ_tensor *real);
/** Frees the memory of t, which must be all of its storage, while its values are elsewhere: shape, dtype, device and
    version stay, and all reads, writes and moves (but see situ_set_part) are refused (SITU_E_STATE) with its name and
    `where`, static text ("its values are in parts"). On meta, what computes its values is forgotten. SITU_E_STATE: it
    is away already. */
SITU_API SITU_CHECKED situ_status situ_release_memory(const char *op, situ_tensor *t, const char *where);
/** Gives such a tensor the memory of `values`, of its size and on its device, whose own values are away then. No
    version changes: saved values of a recorded call are valid again. */
SITU_API SITU_CHECKED situ_status situ_return_memory(const char *op, situ_tensor *t, situ_tensor *values);
/** Whether situ_release_memory has freed the memory of t. */
SITU_API bool situ_memory_is_away(const situ_tensor *t);

SITU_END
#endif
