/* The simulated device: a budget, missing dtypes, faults on schedule. For testing programs without
   the hardware.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_SIM_H
#define SITU_SYS_SIM_H

#include "../device.h"

SITU_BEGIN

/* sim:0, sim:1, ... behave as a GPU does, on any machine:
   - their memory is theirs alone: on the host, following a storage's address is a segmentation
     fault;
   - work is queued, and runs when somebody waits for the device, reads from it or gives memory
     back;
   - what fails in the queue is reported by the next call that waits.
   There are as many as the environment's SITU_SIM says (SITU_SIM=2), none by default. Every call
   here refuses an index that is not there with SITU_E_ARG. */

#define SITU_SIM_MAX 16

/** Makes sure that there are at least `count` simulated devices (1 to 16). There are never fewer
    than before. */
SITU_API SITU_CHECKED situ_status situ_sim_create(int count);

/** Bytes that the device's allocations may have together, cached ones included; 1 GiB at first, 16
    GiB at most. */
SITU_API SITU_CHECKED situ_status situ_sim_budget(int index, uint64_t bytes);

/** Switches dtypes off (bits 1 << situ_dtype; 0: none): work that touches one is
    SITU_E_UNSUPPORTED. Bytes may still be copied, as on a device without double arithmetic. */
SITU_API SITU_CHECKED situ_status situ_sim_without(int index, uint32_t dtypes);

/** What can go wrong on schedule. */
typedef enum situ_sim_fault {
  /** An allocation has no memory. What the cache serves does not count, and while the cache holds
      anything a single failure is mended by emptying it. */
  SITU_SIM_ALLOC,
  /** A copy to, from or between devices fails with SITU_E_IO. */
  SITU_SIM_COPY,
  /** Work is queued, then fails with SITU_E_NOMEM ("out of resources") at the next wait. */
  SITU_SIM_LATE,
  /** An allocation, copy, launch or wait finds the device gone, and so do all later ones. */
  SITU_SIM_LOST,
  SITU_SIM_FAULTS
} situ_sim_fault;

/** The n-th operation of that sort from now (1: the next) and, if `sticky`, all later ones fail;
    nth 0: none. */
SITU_API SITU_CHECKED situ_status situ_sim_fail(int index, situ_sim_fault fault, uint64_t nth, bool sticky);

/** Waits, then takes back all of the above: the budget, the dtypes, the faults, what failed in the
    queue and the loss. Values of a device that was lost are gone. */
SITU_API SITU_CHECKED situ_status situ_sim_reset(int index);

typedef struct situ_sim_statistics {
  uint64_t budget;
  uint64_t used;                  /**< bytes, those that the caching allocator keeps included */
  uint64_t queued;                /**< operations waiting in the queue now */
  uint64_t longest;               /**< the most there have been */
  uint64_t allocations, launches; /**< so far */
  uint64_t copies_in, copies_out; /**< so far; a copy between devices is one of each */
} situ_sim_statistics;
SITU_API SITU_CHECKED situ_status situ_sim_stats(int index, situ_sim_statistics *out);

SITU_END
#endif
