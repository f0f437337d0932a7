/* What a device offers beside the verbs that every backend has.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"

bool situ__has_verb(situ_device device, situ_verb verb) {
  const situ_backend *backend = situ__backend(device);
  return backend && (unsigned)verb < SITU_VERBS && (backend->no_memory || backend->kernel[verb]);
}

situ_status situ__offers(const char *op, situ_device device, const situ_work *work, bool *offered) {
  const situ_backend *backend = situ__backend(device);
  const bool may_ask = backend && (!situ__is_dry() || !backend->offers || backend->addressable);
  *offered = may_ask && !backend->no_memory && backend->kernel[work->verb];
  if (!*offered || !backend->offers) return SITU_OK;
  const uint64_t before = situ__error_count();
  const situ_status status = backend->offers(device.index, work);
  *offered = status == SITU_OK;
  return status == SITU_E_UNSUPPORTED || *offered
             ? SITU_OK
             : situ__device_failed(op, device, status, before, situ__verb_name(work->verb));
}

bool situ__takes_channels_last(situ_device device, const situ_work *work) {
  const situ_backend *backend = situ__backend(device);
  return backend && backend->offers && !backend->no_memory && backend->kernel[work->verb] &&
         backend->offers(device.index, work) == SITU_OK;
}
