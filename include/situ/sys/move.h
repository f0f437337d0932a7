/* Moves: storages change device and dtype in place, all of a list or none, together with every tensor on them.
   situ_nn_to and its relatives are built on it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_MOVE_H
#define SITU_SYS_MOVE_H

#include "backend.h"

SITU_BEGIN

/** A request: the target device and dtype of a tensor's storage. A zero field: unchanged. Only floating tensors change
    dtype. */
typedef struct situ_move_request {
  situ_tensor *tensor;
  situ_device to;
  situ_dtype dtype;
} situ_move_request;

/** Why a storage is part of a move. */
typedef enum situ_move_reason {
  SITU_MOVE_LISTED,   /**< a tensor of the list is on it */
  SITU_MOVE_GRADIENT, /**< the gradient of a tensor that moves */
  SITU_MOVE_FOLLOWER  /**< situ_follow: an optimiser's state, a moving average, a cache */
} situ_move_reason;

/** One storage of a move. */
typedef struct situ_move_unit {
  situ_storage *storage;
  situ_tensor *tensor; /**< a tensor on it: of the list, if there is one */
  situ_device from, to;
  uint8_t from_dtype, to_dtype; /**< situ_dtype */
  uint8_t reason;               /**< a situ_move_reason */
  bool moves;                   /**< false: it has the device and dtype already */
  bool shared;                  /**< private: the new memory contains other storages too */
  bool leads;                   /**< private: it may have followers */
  int32_t handles;              /**< number of tensors on it, which move along */
  uint64_t bytes, bytes_after;
  int64_t values_lost;       /**< finite values out of to_dtype's range, set after the cast */
  situ_storage *destination; /**< private: the new memory, and the offset in it */
  size_t at;
} situ_move_unit;

/** A planned move. */
typedef struct situ_move_plan situ_move_plan;

/** Finds the storages of a list of requests, each once, with their gradients and followers. Copies nothing and owns
    nothing: the storages must outlive the plan. Returns NULL after recording an error (a tensor that was freed, two
    requests for one storage); the caller frees the plan. */
SITU_API situ_move_plan *situ_move_plan_new(const char *op, const situ_move_request *list, int64_t count);
/** The storages of a move: listed ones first, in order. Borrowed. */
SITU_API const situ_move_unit *situ_move_plan_units(const situ_move_plan *m, int64_t *count);
/** Peak of additional memory on a device during the move, in bytes of whole blocks, given the free memory now: a
    staging buffer that does not fit is not used. For a move that does not fit: the memory that it would need. 0 after
    recording an error (out of memory). */
SITU_API uint64_t situ_move_plan_peak_on(const situ_move_plan *m, situ_device device);
/** The sum of situ_move_plan_peak_on over all devices. */
SITU_API uint64_t situ_move_plan_peak(const situ_move_plan *m);
/** Checks that the move would succeed: free memory and supported dtypes of the devices, values to move. */
SITU_API SITU_CHECKED situ_status situ_move_plan_check(const situ_move_plan *m);
/** Checks, copies everything, and only then changes the storages: on any failure everything is where it was, bit for
    bit. A finite value that would become infinite is SITU_E_OVERFLOW unless `lossy`. */
SITU_API SITU_CHECKED situ_status situ_move_plan_run(situ_move_plan *m, bool lossy);
/** The same, but when everything is copied `agree` (may be NULL) is asked, and only if it returns true the storages
    change; else the error is the one that it has recorded, or SITU_E_STATE. */
SITU_API SITU_CHECKED situ_status situ_move_plan_run_agreed(situ_move_plan *m, bool lossy, bool (*agree)(void *payload),
                                                            void *payload);
/** Has a run of the plan call `settle` when the storages have changed, while their old memory is kept: if it returns
    false, after recording an error, everything is where it was. Storages move one by one then. */
SITU_API void situ_move_plan_settle(situ_move_plan *m, bool (*settle)(void *payload), void *payload);
/** Has a run of the plan give new memory to storages that come to the cpu or stay there: to all of them in a new file
    at `path` (situ_nn_to_scratch), which keeps its name if `keep`; with path NULL the host's, to those in a file. */
SITU_API void situ_move_plan_to_file(situ_move_plan *m, const char *path, bool keep);
/** Frees a plan. NULL is fine. */
SITU_API void situ_move_plan_free(situ_move_plan *m);

/** Copies those of a list's tensors to their devices that a copy of a small storage's bytes is enough for, many in one
    transfer; dtypes of the list are not read. copies[i] is NULL for the others, which situ_to copies: large ones, views
    of a part, ones that record a gradient, all in a dry run. The innermost scope owns the copies. */
SITU_API SITU_CHECKED situ_status situ_copy_together(const char *op, const situ_move_request *list, int64_t count,
                                                     situ_tensor **copies);

/** Gives those tensors of a list that have the rank for it another memory format in place (contiguous: all; PRESERVE
    and DEFAULT: none), with all handles on them: all of them or none. SITU_E_ALIAS for a tensor of which there are
    views. */
SITU_API SITU_CHECKED situ_status situ_relayout(const char *op, situ_tensor *const *list, int64_t count,
                                                situ_memory_format memory_format);

SITU_END
#endif
