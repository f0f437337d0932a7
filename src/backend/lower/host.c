/* The module's entry point: takes the library's functions and checks that the two versions fit.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

const situ_host *situ__host;

bool situ_module_start(const situ_host *host) {
  situ__host = host;
  return host->abi == SITU_BACKEND_ABI && host->size == sizeof *host;
}
