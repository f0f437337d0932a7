/* What a thread sets for a while: its default device and its policy. They are kept together, so that whatever
   ends a scope ends all that was begun inside it.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "device/device.h"
#include "situ/policy.h"

_Static_assert(sizeof(situ_policy) == sizeof(((situ_setting *)0)->policy), "one is kept in the other");

SITU__THREAD_LOCAL situ_setting situ__setting;

static void begin(situ_setting *before) {
  *before = situ__setting;
  situ__setting.depth++;
}

static void end(const char *op, const situ_setting *before) {
  if (!before) {
    (void)situ__null(op, "before");
  } else if (before->depth >= situ__setting.depth) {
    (void)situ__fail(SITU_E_STATE, op,
                     "not open on this thread (never begun, ended twice, or by an outer scope)");
  } else {
    situ__setting = *before;
  }
}

situ_status situ_default_device_begin(situ_setting *before, situ_device device) {
  const char *op = "default_device_begin";
  if (!before) return situ__null(op, "before");
  *before = (situ_setting){ .depth = UINT32_MAX }; /* not begun, if the device is refused */
  bool same = device.kind != SITU_DEVICE_DEFAULT && situ_device_equal(device, situ__setting.device);
  if (!same && !situ__device_resolve(op, device, &device)) return situ_error();
  begin(before);
  situ__setting.device = device;
  return SITU_OK;
}

void situ_default_device_end(situ_setting *before) { end("default_device_end", before); }

/* ---- the policy ---- */

situ_policy situ_get_policy(void) {
  situ_policy policy;
  memcpy(&policy, situ__setting.policy, sizeof policy);
  return policy;
}

bool situ__unstated_forbidden(void) {
  return situ__setting.device.kind == SITU_DEVICE_DEFAULT &&
         situ_get_policy().unstated == SITU_UNSTATED_FORBID;
}

void situ_policy_begin(situ_setting *before, situ_policy policy) {
  if (!before) {
    (void)situ__null("policy_begin", "before");
    return;
  }
  begin(before);
  if (policy.host_to_device > SITU_POLICY_COPY || policy.device_to_host > SITU_POLICY_COPY ||
      policy.device_to_device > SITU_POLICY_COPY || policy.unstated > SITU_UNSTATED_FORBID)
    (void)situ__fail(SITU_E_ARG, "policy_begin", "{ %d, %d, %d, %d } is no policy",
                     policy.host_to_device, policy.device_to_host, policy.device_to_device,
                     policy.unstated);
  else
    memcpy(situ__setting.policy, &policy, sizeof policy);
}

void situ_policy_end(situ_setting *before) { end("policy_end", before); }
