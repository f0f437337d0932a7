/* A backend without devices that says which interface it was compiled with: NUMBER.
   SPDX-License-Identifier: MIT */
#include "situ/sys/module.h"

static int count_devices(const char **reason) {
  *reason = "a module of a test";
  return 0;
}

const situ_backend situ_module_backend = {
  .abi = NUMBER, .size = sizeof situ_module_backend, .kind = SITU_CUDA, .name = "cuda", .count = count_devices
};
