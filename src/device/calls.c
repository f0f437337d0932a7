/* Public calls for a device's cache and memory limit, the thread count, matmul precision and role names.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/fork.h"
#include "base/pool.h"
#include "device/device.h"
#include "situ/sys/tensor.h"

situ_status situ_empty_cache(situ_device device) {
  if (!situ__device_resolve("empty_cache", device, &device)) return situ_error();
  if (situ__forked()) return situ__device_usable("empty_cache", device);
  situ__memory_trim(device);
  return SITU_OK;
}

situ_status situ_set_memory_limit(situ_device device, int64_t bytes) {
  const char *op = "set_memory_limit";
  char name[SITU_DEVICE_NAME_MAX];
  if (!situ__device_resolve(op, device, &device)) return situ_error();
  if (bytes < 0)
    return situ__fail(SITU_E_ARG, op, "a limit of %lld bytes: it must be positive, or 0 for no limit",
                      (long long)bytes);
  if (situ__backend(device)->no_memory)
    return situ__fail(SITU_E_ARG, op, "%s has no memory to limit", situ_device_name(device, name));
  situ_status status = situ__device_usable(op, device);
  return status == SITU_OK ? situ__memory_set_limit(op, device, bytes ? (size_t)bytes : SIZE_MAX) : status;
}

situ_status situ_set_num_threads(int count) {
  if (situ__pool_set_threads(count)) return SITU_OK;
  if (situ__forked()) return situ__device_usable("set_num_threads", (situ_device){ SITU_CPU, 0 });
  return situ__fail(SITU_E_ARG, "set_num_threads",
                    "%d threads, but 1 to 256 are possible, and not from inside a kernel", count);
}

int situ_get_num_threads(void) { return situ__pool_threads(); }

static _Atomic unsigned precision_of_products = SITU_PRECISION_HIGHEST;

situ_status situ_set_float32_matmul_precision(situ_matmul_precision precision) {
  if ((unsigned)precision > SITU_PRECISION_MEDIUM)
    return situ__fail(SITU_E_ARG, "set_float32_matmul_precision", "%d is not a precision", (int)precision);
  precision_of_products = precision;
  return SITU_OK;
}

situ_matmul_precision situ_get_float32_matmul_precision(void) { return (situ_matmul_precision)precision_of_products; }

const char *situ_role_name(situ_role role) {
  static const char *const name[] = {
    [SITU_ROLE_TENSOR] = "tensor", [SITU_ROLE_INPUT] = "input",       [SITU_ROLE_PARAMETER] = "parameter",
    [SITU_ROLE_BUFFER] = "buffer", [SITU_ROLE_GRADIENT] = "gradient", [SITU_ROLE_OPTIMIZER] = "optimiser state"
  };
  return (unsigned)role < sizeof name / sizeof *name ? name[role] : "?";
}
