/* A simulated program's devices and memory, for tests of adoption without a driver.
   SPDX-License-Identifier: MIT */
#include "backend/sim/sim.h"

situ_status situ__sim_adopt(int index, const situ_foreign *foreign) {
  const char *op = "device_adopt";
  const situ_sim_context *context = foreign->context;
  if (!context || !foreign->queue)
    return situ__fail(SITU_E_ARG, op, "foreign->%s is NULL; sim needs a situ_sim_context, and any address as a queue",
                      context ? "queue" : "context");
  if (index >= SITU_SIM_MAX)
    return situ__fail(SITU_E_LIMIT, op, "there are %d sim devices; give one back with situ_device_abandon",
                      SITU_SIM_MAX);
  situ__sim_grow(index + 1);
  situ__sim *sim = situ__sim_lock(index);
  situ__sim_reset(sim);
  sim->program = *context;
  sim->foreign = *foreign;
  situ__sim_unlock(sim);
  return SITU_OK;
}

situ_status situ__sim_abandon(int index) {
  situ__sim *sim = situ__sim_lock(index);
  situ__sim_run(sim);
  sim->program = (situ_sim_context){ 0 };
  sim->foreign = (situ_foreign){ 0 };
  return situ__sim_leave_telling(sim);
}

situ_status situ__sim_borrow(int index, void *handle, size_t bytes, void **data, bool *read_only) {
  (void)read_only;
  situ__sim *sim = situ__sim_lock(index);
  const bool its = situ__sim_lent(sim, handle, 1), fits = situ__sim_lent(sim, handle, bytes);
  const size_t left = its ? sim->program.bytes - (size_t)((char *)handle - (char *)sim->program.memory) : 0;
  situ__sim_unlock(sim);
  if (!its)
    return situ__fail(SITU_E_DEVICE, "from_memory", "the memory at %p is not of the context of sim:%d", handle, index);
  if (!fits)
    return situ__fail(SITU_E_SHAPE, "from_memory",
                      "the memory has %zu bytes, and offset, shape and strides reach to byte %zu", left, bytes);
  *data = handle;
  return SITU_OK;
}

/* Queued work may still use the memory: the simulated driver has no memory of its own to keep it. */
void situ__sim_give_back(int index, void *data) {
  (void)data;
  situ__sim *sim = situ__sim_lock(index);
  situ__sim_run(sim);
  situ__sim_unlock(sim);
}
