/* Waiting for a device, which is recorded in the ledger.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/launch/launch.h"

situ_status situ_synchronize(situ_device device) {
  SITU__DEFAULT_FPU;
  const char *op = "synchronize";
  if (!situ__device_resolve(op, device, &device)) return situ_error();
  situ_status status = situ__device_usable(op, device);
  const situ_backend *backend = situ__backend(device);
  if (status != SITU_OK || !backend->synchronize) return status;
  if (!backend->host_memory) situ__ledger_wait(op, device);
  uint64_t before = situ__error_count();
  status = backend->synchronize(device.index);
  situ__reap_arrivals();
  return status == SITU_OK ? SITU_OK : situ__device_failed(op, device, status, before, "queued work");
}
