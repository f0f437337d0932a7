/* Public controls of the simulated device.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "backend/sim/sim.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/problem.h"

/* The locked device. A forked child must not even try to lock it. */
static situ_status find(const char *op, int index, situ__sim **sim) {
  (void)situ__sim_backend();
  if (situ__forked()) return situ__check_usable(op, (situ_device){ SITU_SIM, 0 });
  *sim = situ__sim_lock(index);
  return *sim ? SITU_OK : situ__fail(SITU_E_ARG, op, "there is no sim:%d (there are %d)", index, situ__sim_count());
}

situ_status situ_sim_create(int count) {
  if (count < 1 || count > SITU_SIM_MAX)
    return situ__fail(SITU_E_ARG, "sim_create", "%d devices, but 1 to %d are possible", count, SITU_SIM_MAX);
  (void)situ__sim_backend();
  situ__sim_grow(count);
  return SITU_OK;
}

situ_status situ_sim_budget(int index, uint64_t bytes) {
  if (bytes > situ__sim_arena_most())
    return situ__fail(SITU_E_ARG, "sim_budget", "%llu bytes, but %zu is the most", (unsigned long long)bytes,
                      situ__sim_arena_most());
  situ__sim *sim;
  situ_status status = find("sim_budget", index, &sim);
  if (status != SITU_OK) return status;
  sim->stats.budget = bytes;
  situ__sim_unlock(sim);
  return SITU_OK;
}

situ_status situ_sim_without(int index, uint32_t dtypes) {
  situ__sim *sim;
  situ_status status = find("sim_without", index, &sim);
  if (status != SITU_OK) return status;
  sim->missing = dtypes & ~1u; /* bit 0 is not a dtype */
  situ__sim_unlock(sim);
  return SITU_OK;
}

situ_status situ_sim_fail(int index, situ_sim_fault fault, uint64_t nth, bool sticky) {
  if ((unsigned)fault >= SITU_SIM_FAULTS) return situ__fail(SITU_E_ARG, "sim_fail", "%d is not a fault", (int)fault);
  situ__sim *sim;
  situ_status status = find("sim_fail", index, &sim);
  if (status != SITU_OK) return status;
  sim->fault[fault] = (situ__sim_fault){ .nth = nth, .sticky = sticky };
  situ__sim_unlock(sim);
  return SITU_OK;
}

situ_status situ_sim_delay(int index, uint64_t nanoseconds) {
  if (nanoseconds >= 1000000000)
    return situ__fail(SITU_E_ARG, "sim_delay", "%llu ns, but less than a second is possible",
                      (unsigned long long)nanoseconds);
  situ__sim *sim;
  situ_status status = find("sim_delay", index, &sim);
  if (status != SITU_OK) return status;
  sim->delay = nanoseconds;
  situ__sim_unlock(sim);
  return SITU_OK;
}

void situ__sim_identify(situ__sim *sim) {
  (void)snprintf(sim->uuid, sizeof sim->uuid, "51700000-0000-0000-0000-0000000000%02x", (unsigned)sim->index & 255);
  (void)snprintf(sim->pci, sizeof sim->pci, "5170:00:%02x.0", (unsigned)sim->index & 31);
}

situ_status situ_sim_identify(int index, const char *uuid, const char *pci) {
  static const char op[] = "sim_identify";
  char new_uuid[SITU_UUID_MAX] = "", new_pci[SITU_PCI_MAX] = "", shown[SITU__SHOWN_MAX];
  if (uuid && *uuid && !situ__read_uuid(uuid, new_uuid))
    return situ__fail(SITU_E_ARG, op, "\"%s\" is not a UUID", situ__shown(uuid, shown));
  if (pci && *pci && !situ__read_pci(pci, new_pci))
    return situ__fail(SITU_E_ARG, op, "\"%s\" is not a PCI address", situ__shown(pci, shown));
  situ__sim *sim;
  const situ_status status = find(op, index, &sim);
  if (status != SITU_OK) return status;
  situ__sim_identify(sim);
  if (uuid) memcpy(sim->uuid, new_uuid, sizeof new_uuid);
  if (pci) memcpy(sim->pci, new_pci, sizeof new_pci);
  situ__sim_unlock(sim);
  return SITU_OK;
}

void situ__sim_reset(situ__sim *sim) {
  situ__sim_identify(sim);
  situ__sim_run(sim);
  sim->late = SITU_OK;
  sim->missing = 0;
  sim->lost = false;
  sim->delay = 0;
  sim->stats.budget = SITU__SIM_BUDGET;
  for (int i = 0; i < SITU_SIM_FAULTS; i++) sim->fault[i] = (situ__sim_fault){ 0 };
}

situ_status situ_sim_reset(int index) {
  situ__sim *sim;
  situ_status status = find("sim_reset", index, &sim);
  if (status != SITU_OK) return status;
  situ__sim_reset(sim);
  situ__device_found((situ_device){ SITU_SIM, (uint16_t)index });
  situ__sim_unlock(sim);
  return SITU_OK;
}

situ_status situ_sim_stats(int index, situ_sim_statistics *out) {
  if (!out) return situ__null("sim_stats", "out");
  situ__sim *sim;
  situ_status status = find("sim_stats", index, &sim);
  if (status != SITU_OK) return status;
  *out = sim->stats;
  situ__sim_unlock(sim);
  return SITU_OK;
}
