/* The simulated device: a memory budget, missing dtypes, delays, injected faults. For testing programs without the
   hardware.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_SIM_H
#define SITU_SYS_SIM_H

#include "../device.h"

SITU_BEGIN

/* sim:0, sim:1, ... behave as a GPU does, on any machine:
   - their memory is separate: on the host, dereferencing a storage's address is a segmentation fault;
   - work is queued, and runs when a call waits for the device, reads from it or frees memory;
   - a failure in the queue is reported by the next call that waits.
   Their number is the environment variable SITU_SIM (SITU_SIM=2); the default is 0. Every call here with an index that
   does not exist is SITU_E_ARG. */

#define SITU_SIM_MAX 16

/** Creates simulated devices until there are at least `count` (1 to 16). */
SITU_API SITU_CHECKED situ_status situ_sim_create(int count);

/** Sets the memory of the device in bytes, cached memory included; 1 GiB at first, 16 GiB at most. */
SITU_API SITU_CHECKED situ_status situ_sim_budget(int index, uint64_t bytes);

/** Disables dtypes (bits 1 << situ_dtype; 0: none): work on one of them is SITU_E_UNSUPPORTED. They may still be
    copied, as on a device without double arithmetic. */
SITU_API SITU_CHECKED situ_status situ_sim_without(int index, uint32_t dtypes);

/** Faults that can be injected. */
typedef enum situ_sim_fault {
  /** An allocation is out of memory. Allocations from the cache do not count; while the cache has memory, a single
      failure is handled by emptying it. */
  SITU_SIM_ALLOC,
  /** A copy to, from or between devices fails with SITU_E_IO. */
  SITU_SIM_COPY,
  /** Work is queued, then fails with SITU_E_NOMEM ("out of resources") at the next wait. */
  SITU_SIM_LATE,
  /** An allocation, copy, launch or wait fails with SITU_E_LOST, and so do all later ones. */
  SITU_SIM_LOST,
  /** A copy to, from or between devices succeeds, but one bit in the middle of its bytes arrives flipped. */
  SITU_SIM_FLIP,
  SITU_SIM_FAULTS
} situ_sim_fault;

/** Makes the n-th operation of that kind from now (1: the next) and, if `sticky`, all later ones fail; nth 0: none. */
SITU_API SITU_CHECKED situ_status situ_sim_fail(int index, situ_sim_fault fault, uint64_t nth, bool sticky);

/** Makes each copy to, from or between devices take that much longer; less than 1 s. The device is busy meanwhile. */
SITU_API SITU_CHECKED situ_status situ_sim_delay(int index, uint64_t nanoseconds);

/** Sets the UUID and the PCI address of the device, in the forms that situ_device_parse reads; "": it has none; NULL:
    its own, which no other device has. Two devices of one UUID or address are one chip. */
SITU_API SITU_CHECKED situ_status situ_sim_identify(int index, const char *uuid, const char *pci);

/** Waits, then resets all of the above: the budget, the dtypes, the faults, the delay, the UUID and address, errors in
    the queue and the loss. The values of a lost device are not restored. */
SITU_API SITU_CHECKED situ_status situ_sim_reset(int index);

/** The context of a simulated program: for situ_foreign.context with SITU_SIM, to try situ/interop.h without a driver.
    Its memory stands for device memory: each address in it is a handle. Any address is a queue. It must outlive the
    device. */
typedef struct situ_sim_context {
  void *memory;
  size_t bytes;
} situ_sim_context;

typedef struct situ_sim_statistics {
  uint64_t budget;
  uint64_t used;                  /**< bytes, cached ones included */
  uint64_t queued;                /**< operations in the queue now */
  uint64_t longest;               /**< largest number of operations in the queue so far */
  uint64_t allocations, launches; /**< so far */
  uint64_t copies_in, copies_out; /**< so far; a copy between devices counts as one of each */
} situ_sim_statistics;
/** Fills *out. */
SITU_API SITU_CHECKED situ_status situ_sim_stats(int index, situ_sim_statistics *out);

SITU_END
#endif
