/* meta: tensors with shapes and dtypes but without values. Allocates no memory and runs no kernels.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "device/device.h"

static int count(const char **reason) {
  *reason = "always there: shapes and dtypes only";
  return 1;
}

static situ_status info(int index, situ_device_properties *out) {
  (void)index;
  *out = (situ_device_properties){ .dtypes = (1u << SITU_DTYPES) - 2 };
  (void)snprintf(out->name, sizeof out->name, "shapes and dtypes only");
  return SITU_OK;
}

const situ_backend situ__meta_backend = {
  .abi = SITU_BACKEND_ABI,
  .size = sizeof(situ_backend),
  .kind = SITU_META,
  .name = "meta",
  .count = count,
  .info = info,
  .no_memory = true,
};
