/* The start of a module.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

const situ_host *situ__host;
const situ__target_table *situ__targets;

bool situ__lower_start(const situ_host *host, const situ__target_table *targets) {
  situ__host = host;
  situ__targets = targets;
  return host->abi == SITU_BACKEND_ABI && host->size == sizeof *host;
}

void situ__lower_grow(int *number, int to) {
  int before = __atomic_load_n(number, __ATOMIC_ACQUIRE);
  while (before < to && !__atomic_compare_exchange_n(number, &before, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
}
