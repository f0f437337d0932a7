/* A simulated program's devices and memory, for tests of adoption without a driver.
   SPDX-License-Identifier: MIT */
#include "backend/sim/sim.h"
#include "base/alloc.h"

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

/* One more device with a queue of its own, and no memory of the program. */
situ_status situ__sim_open_queue(int from, int index) {
  static situ_sim_context none;
  (void)from;
  const situ_foreign foreign = { .kind = SITU_SIM, .context = &none, .queue = &none };
  return situ__sim_adopt(index, &foreign);
}

/* ---- events: places in a queue, which runs when it is asked ------------------------------------ */

static const char is_event; /* where a copy has the address of the host */

/* The locked device of an event; NULL after recording an error. */
static situ__sim *lock_of_event(const char *op, const situ__sim_fetch *f) {
  if (f->host == &is_event) return situ__sim_lock(f->index);
  return situ__fail(SITU_E_ARG, op, "event is not one of sim; record it with situ_device_record_event"), NULL;
}

/* The simulated device runs its queue up to the event now: what comes later is behind it. */
situ_status situ__sim_wait_event(int index, void *event) {
  (void)index;
  situ__sim *sim = lock_of_event("device_wait_event", event);
  if (!sim) return SITU_E_ARG;
  situ__sim_run(sim);
  situ__sim_unlock(sim);
  return SITU_OK;
}

situ_status situ__sim_record_event(int index, void **event) {
  situ__sim_fetch *f = situ__alloc(sizeof *f);
  if (!f) return SITU_E_NOMEM;
  *f = (situ__sim_fetch){ .host = (void *)(uintptr_t)&is_event, .index = index };
  situ__sim *sim = situ__sim_lock(index);
  const situ_status status = situ__sim_queue_fetch(sim, NULL, 0, 0, f);
  situ__sim_unlock(sim);
  if (status == SITU_OK) *event = f;
  else situ__free(f);
  return status;
}

/* Time passes between two questions: what was not done at the first one is at the second. */
situ_status situ__sim_query_event(int index, void *event, bool *done) {
  const char *op = "device_query_event";
  const situ__sim_fetch *f = event;
  situ__sim *sim = lock_of_event(op, f);
  if (!sim) return SITU_E_ARG;
  *done = f->done;
  const bool lost = f->lost;
  situ__sim_run(sim);
  situ__sim_unlock(sim);
  return lost ? situ__fail(SITU_E_IO, op, "the work of the event has failed on sim:%d", index) : SITU_OK;
}

situ_status situ__sim_release_event(int index, void *event) {
  (void)index;
  situ__sim *sim = lock_of_event("device_release_event", event);
  if (!sim) return SITU_E_ARG;
  situ__sim_run(sim); /* the queue may still have to set it */
  situ__sim_unlock(sim);
  situ__free(event);
  return SITU_OK;
}
