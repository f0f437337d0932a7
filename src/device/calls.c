/* The public calls about a device's cache and the host's threads.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/fork.h"
#include "base/pool.h"
#include "device/device.h"

situ_status situ_empty_cache(situ_device device) {
  if (!situ__device_resolve("empty_cache", device, &device)) return situ_error();
  if (situ__forked()) return situ__device_usable("empty_cache", device);
  situ__memory_trim(device);
  return SITU_OK;
}

situ_status situ_set_num_threads(int count) {
  if (situ__pool_set_threads(count)) return SITU_OK;
  if (situ__forked()) return situ__device_usable("set_num_threads", (situ_device){ SITU_CPU, 0 });
  return situ__fail(SITU_E_ARG, "set_num_threads",
                    "%d threads, but 1 to 256 are possible, and not from inside a kernel", count);
}

int situ_get_num_threads(void) { return situ__pool_threads(); }
