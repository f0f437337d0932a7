/* The start of a module.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "backend/lower/lower.h"

const situ_host *situ__host;
const situ__target_table *situ__targets;

bool situ__lower_start(const situ_host *host, const situ__target_table *targets) {
  situ__host = host;
  situ__targets = targets;
  return host->abi == SITU_BACKEND_ABI && host->size == sizeof *host;
}

void situ__lower_identify(situ_device_properties *out, const unsigned char uuid[16], const unsigned pci[4]) {
  unsigned any = 0;
  size_t at = 0;
  *out->uuid = *out->pci = 0;
  for (int i = 0; i < 16; i++) any |= uuid[i];
  for (int i = 0; any && i < 16; i++)
    at += (size_t)snprintf(out->uuid + at, sizeof out->uuid - at,
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
  if (pci[0] | pci[1] | pci[2] | pci[3])
    (void)snprintf(out->pci, sizeof out->pci, "%04x:%02x:%02x.%x", pci[0], pci[1] & 255, pci[2] & 31, pci[3] & 7);
}

void situ__lower_grow(int *number, int to) {
  int before = __atomic_load_n(number, __ATOMIC_ACQUIRE);
  while (before < to && !__atomic_compare_exchange_n(number, &before, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
}
