/* Checks operands for functions that consist of other ops. Otherwise the first of those would find the error and name
   operands that the caller has never seen, or report a shape before a device.
   SPDX-License-Identifier: MIT */
#include "device/dry.h"
#include "ops/ops.h"
#include "situ/policy.h"

/* True if the policy lets the ops that follow copy operands between devices. */
static bool may_copy(void) {
  const situ_policy policy = situ_get_policy();
  return policy.host_to_device || policy.device_to_host || policy.device_to_device;
}

bool situ__together(const situ_op *schema, situ_tensor *const *in, int ins) {
  situ_call c = { .op = schema, .ins = ins, .in = in };
  const situ__verdict verdict = situ__examine(&c);
  if (verdict == SITU__GOOD) return true;
  /* an operand that an earlier call failed to make is missing, whatever error that left */
  if (situ__is_dry() && (verdict == SITU__MIXED || (situ_error() == SITU_E_DTYPE && situ__has_operands(&c)))) {
    situ__dry_forget(); /* a dry run continues: the ops that follow report the error, and guess results */
    return true;
  }
  if (verdict == SITU__REFUSED) return false;
  if (!may_copy()) return situ__explain_devices(&c);
  for (int i = 0; i < ins; i++) { /* each operand must be valid, whatever its device */
    const situ_op alone = { .name = schema->name,
                            .operand = { schema->operand[schema->flags & SITU_OP_VARIADIC ? 0 : i] } };
    if (!situ__check(&(situ_call){ .op = &alone, .ins = 1, .in = &in[i] })) return false;
  }
  return true;
}
