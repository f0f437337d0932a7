/* A thread's scoped settings: default device, policy, autocast. They are kept together, so that ending a scope also
   ends all scopes inside it.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "device/device.h"
#include "situ/amp.h"
#include "situ/policy.h"

_Static_assert(sizeof(situ_policy) == sizeof(((situ_setting *)0)->policy), "one is kept in the other");

_Static_assert(4 * SITU_DEVICE_KINDS < 31 && SITU_DTYPES < (int)SITU__AUTOCAST_OFF,
               "both fit into situ_setting.autocast");

SITU__THREAD_LOCAL situ_setting situ__setting;

void situ__setting_back(const situ_setting *before) {
  bool outermost = situ__setting.autocast && !before->autocast;
  situ__setting = *before;
  if (outermost) situ_clear_autocast_cache();
}

static void begin_setting(situ_setting *before) {
  *before = situ__setting;
  situ__setting.depth++;
}

static void end_setting(const char *op, const situ_setting *before) {
  if (!before) {
    situ__null(op, "before");
  } else if (before->depth >= situ__setting.depth) {
    situ__fail(SITU_E_STATE, op, "not open on this thread (never begun, ended twice, or by an outer scope)");
  } else {
    situ__setting_back(before);
  }
}

situ_status situ_default_device_begin(situ_setting *before, situ_device device) {
  const char *op = "default_device_begin";
  if (!before) return situ__null(op, "before");
  *before = (situ_setting){ .depth = UINT32_MAX }; /* not begun if the device is an error */
  bool same = device.kind != SITU_DEVICE_DEFAULT && situ_device_equal(device, situ__setting.device);
  if (!same && !situ__device_resolve(op, device, &device)) return situ_error();
  begin_setting(before);
  situ__setting.device = device;
  return SITU_OK;
}

void situ_default_device_end(situ_setting *before) { end_setting("default_device_end", before); }

/* ---- the policy ---- */

situ_policy situ_get_policy(void) {
  situ_policy policy;
  memcpy(&policy, situ__setting.policy, sizeof policy);
  return policy;
}

bool situ__unstated_forbidden(void) {
  return situ__setting.device.kind == SITU_DEVICE_DEFAULT && situ_get_policy().unstated == SITU_UNSTATED_FORBID;
}

void situ_policy_begin(situ_setting *before, situ_policy policy) {
  if (!before) {
    situ__null("policy_begin", "before");
    return;
  }
  begin_setting(before);
  if (policy.host_to_device > SITU_POLICY_COPY || policy.device_to_host > SITU_POLICY_COPY ||
      policy.device_to_device > SITU_POLICY_COPY || policy.unstated > SITU_UNSTATED_FORBID ||
      policy.casts > SITU_CASTS_FORBID)
    situ__fail(SITU_E_ARG, "policy_begin", "{ %d, %d, %d, %d, .casts = %d } is not a policy", policy.host_to_device,
               policy.device_to_host, policy.device_to_device, policy.unstated, policy.casts);
  else if (policy.guard_to_device > SITU_GUARD_REFUSE || policy.guard_to_host > SITU_GUARD_REFUSE ||
           policy.guard_between_devices > SITU_GUARD_REFUSE)
    situ__fail(SITU_E_ARG, "policy_begin", "guards { %d, %d, %d }: each must be a situ_guard", policy.guard_to_device,
               policy.guard_to_host, policy.guard_between_devices);
  else memcpy(situ__setting.policy, &policy, sizeof policy);
}

void situ_policy_end(situ_setting *before) { end_setting("policy_end", before); }

/* ---- autocast ---- */

static situ_dtype default_dtype(unsigned kind) { return kind == SITU_CPU ? SITU_BF16 : SITU_F16; }

situ_status situ_autocast_begin(situ_setting *before, situ_device device, const situ_autocast_options *options) {
  const char *op = "autocast_begin";
  const situ_autocast_options o = options ? *options : (situ_autocast_options){ 0 };
  if (!before) return situ__null(op, "before");
  *before = (situ_setting){ .depth = UINT32_MAX }; /* not begun if there is an error */
  if (!device.kind) device = situ_get_default_device();
  if (device.kind >= SITU_DEVICE_KINDS) return situ__fail(SITU_E_DEVICE, op, "this is not a device");
  if (o.dtype && o.dtype != SITU_F16 && o.dtype != SITU_BF16)
    return situ__fail(SITU_E_DTYPE, op, "dtype is %s, must be f16 or bf16",
                      situ__dtype_size(o.dtype) ? situ__dtype_name(o.dtype) : "no dtype");
  begin_setting(before);
  const unsigned at = 4 * device.kind;
  const uint32_t now = o.disabled ? SITU__AUTOCAST_OFF : o.dtype ? o.dtype : default_dtype(device.kind);
  uint32_t all = situ__setting.autocast & ~(15u << at) & ~SITU__AUTOCAST_NO_CACHE;
  situ__setting.autocast = all | now << at | (o.no_cache ? SITU__AUTOCAST_NO_CACHE : 0);
  situ__setting.autocast_at = situ__call_site();
  return SITU_OK;
}

void situ_autocast_end(situ_setting *before) { end_setting("autocast_end", before); }

bool situ_is_autocast_enabled(situ_device device) { return situ_get_autocast_dtype(device) != SITU_DTYPE_DEFAULT; }

situ_dtype situ_get_autocast_dtype(situ_device device) {
  if (!device.kind) device = situ_get_default_device();
  const unsigned now =
      device.kind < SITU_DEVICE_KINDS ? situ__autocast_of(situ__setting.autocast, device.kind) : SITU__AUTOCAST_OFF;
  return now == SITU__AUTOCAST_OFF ? SITU_DTYPE_DEFAULT : (situ_dtype)now;
}

void situ_clear_autocast_cache(void) { situ__device_up.forget_casts(); }
