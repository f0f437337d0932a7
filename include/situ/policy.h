/* Policies: implicit copies between devices, tensors made without a device, verified copies, casts that lose values.
   Threads: the policy is per thread (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_POLICY_H
#define SITU_POLICY_H

#include "device.h"

SITU_BEGIN

/** What happens when an op's operands are on different devices. */
typedef enum situ_copy_policy {
  SITU_POLICY_EXPLICIT = 0, /**< SITU_E_DEVICE, with an explanation */
  SITU_POLICY_WARN,         /**< log the explanation, once for each line of code, then as COPY */
  SITU_POLICY_COPY          /**< copy the operands to one device, for this call; the ledger records it ("policy") */
} situ_copy_policy;

/** What happens when a tensor is made without a device: no option, no running module, no default device. */
typedef enum situ_unstated_policy {
  SITU_UNSTATED_ALLOW = 0, /**< on cpu */
  SITU_UNSTATED_FORBID     /**< SITU_E_DEVICE */
} situ_unstated_policy;

/** What happens when a cast loses values: finite ones become infinite, or are outside of an integer dtype. Rounding is
    not a loss. */
typedef enum situ_cast_policy {
  SITU_CASTS_ALLOW = 0, /**< nothing: the result is torch's */
  SITU_CASTS_WARN,      /**< log how many of which tensor are lost, once for each line of code */
  SITU_CASTS_FORBID     /**< SITU_E_OVERFLOW, with the same text; there is no result */
} situ_cast_policy;

/** Zero is the default: no implicit copies.
    Where copies are allowed, the call runs on the device of the operand that it writes (in place, running statistics);
    else on the device of most operands; of equal counts, the one with more parameters or buffers, then the running
    module's device, then the first operand's. Gradients are copied back to each operand's device. A written operand is
    never a copy, and tensors on meta are never copied. */
typedef struct situ_policy {
  uint8_t host_to_device, device_to_host, device_to_device; /**< a situ_copy_policy each */
  uint8_t unstated;                                         /**< a situ_unstated_policy */
  /** Every copy of this thread between devices, also in moves and loads, is read back when it is made, and its checksum
      (CRC-32C) compared with that of the source. A difference is SITU_E_IO, which names the tensor, the devices and the
      bytes; what the copy was for is not done, and all is as it was. Each copy then waits for its devices, and takes
      two to three times as long; one to host memory of the program's takes as much memory more. Small tensors of a
      module move one by one. */
  bool verify;
  /** A situ_cast_policy, for situ_to_dtype and situ_copy_. Values are counted on the tensor's device, and each such
      cast waits for the count. A module's cast is refused by itself, unless it is `.lossy`, which is then logged. */
  uint8_t casts;
} situ_policy;

/** Sets this thread's policy until the end. Nests; ends at the latest with the tensor scope or the module's call that
    it was begun in. Invalid values are SITU_E_ARG and leave the previous policy in force. */
SITU_API void situ_policy_begin(situ_setting *before, situ_policy policy);
/** Restores the policy from before, and ends settings that were begun since and not ended. */
SITU_API void situ_policy_end(situ_setting *before);
/** This thread's policy. */
SITU_API situ_policy situ_get_policy(void);

SITU_END
#endif
