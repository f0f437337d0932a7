/* Policies: implicit copies between devices, guards of explicit ones, work that a device lacks, tensors made without a
   device, verified copies, and casts that lose values.
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

/** What happens when the program itself copies: situ_to, its backward, moves of tensors and modules, situ_from_host,
    loads, and all that reads values (situ_item, situ_copy_to_host, saving, printing). */
typedef enum situ_guard {
  SITU_GUARD_ALLOW = 0,
  SITU_GUARD_WARN,  /**< log it, once for each line of code, and copy */
  SITU_GUARD_REFUSE /**< SITU_E_DEVICE, and nothing has changed */
} situ_guard;

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
  /** Work that a device has no kernel for, or not for its dtype, is done by the cpu: operands are copied there, and
      results back, so that they are on the device as always. That is each call of an op, its backward if it runs under
      the policy too, and steps of optimisers. The ledger records each copy with the op's name ("fallback"), and a
      preflight lists them. Slow, and off by default; not in graphs. Where a copy back fails,
      results of the same work that came back before it are there: a step may have changed some parameters. */
  bool fallback;
  uint8_t guard_to_device, guard_to_host, guard_between_devices; /**< a situ_guard each; a dry run ignores them */
  /** Places whose copies are not guarded: files, lines or functions of the program, as error messages name them:
      "data.c, train.c:41, log_loss" (files and lines need line tables, see docs/errors.md). NULL: none. The text must
      stay as it is until the policy ends. Whole stretches of code are allowed by a policy without guards inside. */
  const char *guard_allow;
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
