/* The simulated communicator: ranks are threads of one process, with delays, losses and failures on schedule. For
   testing distributed programs without an engine.
   Threads: each rank's communicator is used by its own thread; a world by all of them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_COMM_SIM_H
#define SITU_SYS_COMM_SIM_H

#include "comm.h"

SITU_BEGIN

#define SITU_COMM_SIM_MAX 4096

/** What the ranks share. */
typedef struct situ_comm_sim situ_comm_sim;

typedef struct situ_comm_sim_options {
  uint64_t seed;    /**< of the delays */
  double max_delay; /**< seconds; each transfer is delayed by a random part of it, 0: none */
} situ_comm_sim_options;

typedef enum situ_comm_sim_fault {
  SITU_COMM_SIM_DIE = 0, /**< the rank is lost: its transfers fail, and so do those that need it */
  SITU_COMM_SIM_STOP,    /**< the rank's transfers never end, and no other rank hears of it */
  SITU_COMM_SIM_LOSE,    /**< this transfer alone is lost */
  SITU_COMM_SIM_FAULTS
} situ_comm_sim_fault;

/** A world of `size` ranks (1 to 4,096). NULL on error. */
SITU_API situ_comm_sim *situ_comm_sim_new(int size, const situ_comm_sim_options *options);
/** The communicator of one rank of the world, which it keeps alive; each rank has one at a time (SITU_E_STATE). Freed
    before the other ranks are done, the rank counts as lost for them. NULL on error. */
SITU_API situ_comm *situ_comm_sim_rank(situ_comm_sim *world, int rank, const situ_comm_options *options);
/** Has the n-th transfer that a rank begins from now (1: the next) fail. A call is several transfers: headers to
    and from some other ranks, and the values. */
SITU_API SITU_CHECKED situ_status situ_comm_sim_fail(situ_comm_sim *world, int rank, situ_comm_sim_fault fault,
                                                     int64_t nth);
/** Number of transfers that a rank has begun so far; -1 on error. */
SITU_API int64_t situ_comm_sim_transfers(situ_comm_sim *world, int rank);
/** Number of messages that a rank has sent to one other rank so far: headers, and the values of SEND; -1 on error. */
SITU_API int64_t situ_comm_sim_messages(situ_comm_sim *world, int rank);
/** Bytes of values that a rank has given to collectives so far; -1 on error. */
SITU_API int64_t situ_comm_sim_bytes(situ_comm_sim *world, int rank);
/** Frees the world, when its last communicator has been freed. NULL is fine. */
SITU_API void situ_comm_sim_free(situ_comm_sim *world);

SITU_END
#endif
