/* Policies: what a thread does about a copy that nobody asked for, and about a device that nobody stated.
   Threads: each has a policy of its own (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_POLICY_H
#define SITU_POLICY_H

#include "device.h"

SITU_BEGIN

/** An op's operands are on two devices. */
typedef enum situ_copy_policy {
  SITU_POLICY_EXPLICIT = 0, /**< refused, and explained */
  SITU_POLICY_WARN,         /**< explained in the log, once for each line of code, then as COPY */
  SITU_POLICY_COPY          /**< what is elsewhere is copied, for this one call; the ledger has it ("policy") */
} situ_copy_policy;

/** A tensor is made, and nothing says where: no option, no module that it is made in, no default device. */
typedef enum situ_unstated_policy {
  SITU_UNSTATED_ALLOW = 0, /**< on cpu */
  SITU_UNSTATED_FORBID     /**< SITU_E_DEVICE */
} situ_unstated_policy;

/** Zero is the default: nothing is copied behind your back.
    Where a call takes place when copies are allowed: in place, and where something is written (running statistics), on
    the device of what is written; else where most operands are; between equals where more of them are parameters or
    buffers, then where the module that runs lives, else where the first operand is. Gradients go back to where each operand lives. What is written is never a copy, and meta
    is never copied to or from. */
typedef struct situ_policy {
  uint8_t host_to_device, device_to_host, device_to_device; /**< a situ_copy_policy each */
  uint8_t unstated;                                         /**< a situ_unstated_policy */
} situ_policy;

/** Until the end, this is the policy of this thread. Nests, and never outlives the tensor scope or the module's call that
    it was begun in. A policy with values that are none is SITU_E_ARG, and that of before goes on. */
SITU_API void situ_policy_begin(situ_setting *before, situ_policy policy);
/** As it was before, and so is all that was begun since and forgotten. */
SITU_API void situ_policy_end(situ_setting *before);
SITU_API situ_policy situ_get_policy(void);

SITU_END
#endif
