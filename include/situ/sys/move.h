/* Moves: storages change device and dtype in place, all of a list or none, and with them every tensor
   that looks at them. What situ_nn_to and its like are made of.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_MOVE_H
#define SITU_SYS_MOVE_H

#include "backend.h"

SITU_BEGIN

/** A wish: where a tensor's storage is to be, and in which dtype. A field of 0: as it is. A dtype
    is for floating tensors: others keep theirs. */
typedef struct situ_move_request {
  situ_tensor *tensor;
  situ_device to;
  situ_dtype dtype;
} situ_move_request;

/** Why a storage is part of a move. */
typedef enum situ_move_reason {
  SITU_MOVE_LISTED,   /**< a tensor of the list looks at it */
  SITU_MOVE_GRADIENT, /**< the gradient of one that moves */
  SITU_MOVE_FOLLOWER  /**< situ_follow: an optimiser's state, a moving average, a cache */
} situ_move_reason;

/** One storage of a move. */
typedef struct situ_move_unit {
  situ_storage *storage;
  situ_tensor *tensor; /**< one that looks at it: of the list, where there is one */
  situ_device from, to;
  uint8_t from_dtype, to_dtype; /**< situ_dtype */
  uint8_t reason;               /**< a situ_move_reason */
  bool moves;                   /**< false: it is all that already */
  bool shared;                  /**< the move's own: `room` holds others too */
  int32_t handles;              /**< tensors that look at it, and follow */
  uint64_t bytes, bytes_after;
  int64_t values_lost; /**< finite values that to_dtype cannot hold, once they have been cast */
  situ_storage *room;  /**< the move's own: the new memory, and where in it */
  size_t at;
} situ_move_unit;

/** A move that was planned and not made. */
typedef struct situ_move_plan situ_move_plan;

/** Finds the storages behind a list of wishes, each once, with their gradients and followers. Nothing is copied yet,
    and nothing is held: what was found must live as long as the plan. NULL: recorded (a tensor that is not alive, two
    wishes for one storage). */
SITU_API situ_move_plan *situ_move_plan_new(const char *op, const situ_move_request *list, int64_t count);
/** Its storages: listed ones first, in order. Borrowed. */
SITU_API const situ_move_unit *situ_move_plan_units(const situ_move_plan *m, int64_t *count);
/** The most bytes of a device's memory that the move has beyond those in use now, in whole blocks, given what is free
    now: a device that has no room for a buffer is done without one. Of a move that does not fit: what it would need. 0
    after recording an error: no memory to find it out. */
SITU_API uint64_t situ_move_plan_peak_on(const situ_move_plan *m, situ_device device);
/** The sum of these for all devices. */
SITU_API uint64_t situ_move_plan_peak(const situ_move_plan *m);
/** Could it be made? Room on the devices, dtypes that they compute with, values to move. */
SITU_API SITU_CHECKED situ_status situ_move_plan_check(const situ_move_plan *m);
/** Checks, copies everything, and only then lets the storages change: on any failure all is where it
    was, bit for bit. A finite value that would become infinite is refused unless `lossy`. */
SITU_API SITU_CHECKED situ_status situ_move_plan_run(situ_move_plan *m, bool lossy);
/** NULL is fine. */
SITU_API void situ_move_plan_free(situ_move_plan *m);

SITU_END
#endif
