/* sim: the slots of the simulated device. Its kernels are the cpu backend's, which it finds in the registry.
   SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/sim/sim.h"
#include "base/alloc.h"
#include "base/fail.h"

static situ__sim sims[SITU_SIM_MAX];
static int made; /* number of devices */
static situ_backend backend;
static pthread_once_t once = PTHREAD_ONCE_INIT;

int situ__sim_count(void) { return __atomic_load_n(&made, __ATOMIC_ACQUIRE); }

void situ__sim_grow(int count) {
  int before = situ__sim_count();
  while (before < count &&
         !__atomic_compare_exchange_n(&made, &before, count, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
}

situ__sim *situ__sim_lock(int index) {
  if (index < 0 || index >= situ__sim_count()) return NULL;
  situ__mutex_lock(&sims[index].lock);
  return &sims[index];
}

void situ__sim_unlock(situ__sim *sim) { situ__mutex_unlock(&sim->lock); }

/* Counts one operation of a kind; returns true if this one must fail. */
static bool strikes(situ__sim *sim, situ_sim_fault which) {
  situ__sim_fault *fault = &sim->fault[which];
  if (fault->nth == 0) return false;
  fault->seen++;
  return fault->seen == fault->nth || (fault->sticky && fault->seen > fault->nth);
}

/* The locked device for one operation. Returns NULL if it is absent or lost. */
static situ__sim *enter(int index) {
  situ__sim *sim = situ__sim_lock(index);
  if (!sim) return NULL;
  if (strikes(sim, SITU_SIM_LOST)) sim->lost = true;
  if (!sim->lost) return sim;
  situ__sim_unlock(sim);
  return NULL;
}

/* One copy: it takes its time. Returns true if it must fail. */
static bool copy_strikes(situ__sim *sim) {
  if (sim->delay) (void)nanosleep(&(struct timespec){ .tv_nsec = (long)sim->delay }, NULL);
  return strikes(sim, SITU_SIM_COPY);
}

static situ_status leave(situ__sim *sim, situ_status status) {
  situ__sim_unlock(sim);
  return status;
}

situ_status situ__sim_leave_telling(situ__sim *sim) {
  char text[sizeof sim->late_text], op[SITU__OP_NAME];
  situ_status status = sim->late;
  memcpy(op, sim->late_op, sizeof op);
  memcpy(text, sim->late_text, sizeof text);
  sim->late = SITU_OK;
  situ__sim_unlock(sim);
  if (status == SITU_OK) return SITU_OK;
  /* The thread that waits did not cause the error. */
  const situ__doing now = situ__now;
  situ__now = (situ__doing){ 0 };
  SITU_IGNORE(situ__fail(status, op, "was queued on sim:%d and failed there: %s", sim->index, text));
  situ__now = now;
  return status;
}

/* ---- slots --------------------------------------------------------------------------------- */

static int count(const char **reason) {
  int there = situ__sim_count();
  *reason = there ? "simulated on the host" : "none was asked for (SITU_SIM=2 in the environment, or situ_sim_create)";
  return there;
}

static situ_status info(int index, situ_device_properties *out) {
  situ_device_properties host = { 0 };
  const situ_backend *cpu = situ__backend((situ_device){ SITU_CPU, 0 });
  situ_status status = cpu->info(0, &host);
  situ__sim *sim = status == SITU_OK ? situ__sim_lock(index) : NULL;
  if (!sim) return status == SITU_OK ? SITU_E_ARG : status;
  *out = (situ_device_properties){ .memory_total = sim->stats.budget, .dtypes = host.dtypes & ~sim->missing };
  (void)snprintf(out->name, sizeof out->name, "simulated device");
  (void)snprintf(out->driver, sizeof out->driver, "situ %s", SITU_VERSION_STRING);
  (void)snprintf(out->uuid, sizeof out->uuid, "%s", sim->uuid);
  (void)snprintf(out->pci, sizeof out->pci, "%s", sim->pci);
  return leave(sim, SITU_OK);
}

static situ_status alloc(int index, size_t bytes, void **data) {
  situ__sim *sim = enter(index);
  if (!sim) return SITU_E_LOST;
  sim->stats.allocations++;
  bool fits = bytes <= sim->stats.budget && sim->stats.used <= sim->stats.budget - bytes;
  const situ_foreign *own = &sim->foreign;
  if (!fits || strikes(sim, SITU_SIM_ALLOC)) *data = NULL;
  else *data = own->alloc ? own->alloc(own->payload, bytes, own->queue) : situ__sim_arena_alloc(&sim->arena, bytes);
  if (*data) sim->stats.used += bytes;
  return leave(sim, *data ? SITU_OK : SITU_E_NOMEM);
}

/* Waits first, as queued work may still use the memory. */
static void release(int index, void *data, size_t bytes) {
  situ__sim *sim = situ__sim_lock(index);
  if (!sim) return;
  situ__sim_run(sim);
  if (sim->foreign.alloc) sim->foreign.free(sim->foreign.payload, data, sim->foreign.queue);
  else situ__sim_arena_free(&sim->arena, data, bytes);
  sim->stats.used -= bytes;
  situ__sim_unlock(sim);
}

static situ_status copy_in(int index, void *data, size_t at, const void *host, size_t bytes) {
  situ__sim *sim = enter(index);
  if (!sim) return SITU_E_LOST;
  sim->stats.copies_in++;
  const bool failed = copy_strikes(sim), flipped = strikes(sim, SITU_SIM_FLIP);
  return leave(sim, failed ? SITU_E_IO : situ__sim_queue_copy(sim, data, at, host, bytes, flipped));
}

static situ_status copy_out(int index, const void *data, size_t at, void *host, size_t bytes) {
  situ__sim *sim = enter(index);
  if (!sim) return SITU_E_LOST;
  sim->stats.copies_out++;
  situ__sim_run(sim);
  if (sim->late != SITU_OK) return situ__sim_leave_telling(sim);
  if (copy_strikes(sim)) return leave(sim, SITU_E_IO);
  situ__sim_copy(host, situ__sim_alias(&sim->arena, data) + at, bytes, strikes(sim, SITU_SIM_FLIP));
  return leave(sim, SITU_OK);
}

static situ_status fetch(int index, const void *data, size_t at, void *host, size_t bytes, void **ticket) {
  situ__sim_fetch *f = situ__alloc(sizeof *f);
  situ__sim *sim = f ? enter(index) : NULL;
  if (!sim) return situ__free(f), f ? SITU_E_LOST : SITU_E_NOMEM;
  *f = (situ__sim_fetch){ .host = host };
  sim->stats.copies_out++;
  const situ_status status = strikes(sim, SITU_SIM_COPY) ? SITU_E_IO : situ__sim_queue_fetch(sim, data, at, bytes, f);
  if (status == SITU_OK) *ticket = f;
  else situ__free(f);
  return leave(sim, status);
}

static bool fetched(int index, const void *ticket) {
  situ__sim *sim = situ__sim_lock(index);
  const bool done = ((const situ__sim_fetch *)ticket)->done;
  situ__sim_unlock(sim);
  return done;
}

static situ_status fetch_end(int index, void *ticket, bool wait) {
  situ__sim_fetch *f = ticket;
  situ__sim *sim = situ__sim_lock(index);
  if (wait || !f->done) situ__sim_run(sim);
  const bool lost = f->lost;
  situ__free(f);
  return wait && !lost ? situ__sim_leave_telling(sim) : leave(sim, lost ? SITU_E_LOST : SITU_OK);
}

/* Ordinary memory of the host, which tests tell from the pool's by its flag. */
static situ_status pin(int index, size_t bytes, void **host, void **handle) {
  situ__sim *sim = enter(index);
  if (!sim) return SITU_E_LOST;
  const bool fails = strikes(sim, SITU_SIM_ALLOC);
  situ__sim_unlock(sim);
  *host = *handle = fails ? NULL : situ__alloc(bytes);
  return *host ? SITU_OK : SITU_E_NOMEM;
}

static void unpin(int index, void *host, void *handle) {
  (void)host;
  situ__sim *sim = situ__sim_lock(index); /* queued copies may still write there */
  situ__sim_run(sim);
  situ__sim_unlock(sim);
  situ__free(handle);
}

/* Runs both queues first. Locks in the order of the indices, to avoid deadlock. */
static situ_status copy_peer(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at, size_t bytes) {
  situ__sim *low = enter(to < from ? to : from), *high = to == from ? low : enter(to < from ? from : to);
  if (!low || !high) {
    if (low) situ__sim_unlock(low);
    if (high && high != low) situ__sim_unlock(high);
    return SITU_E_LOST;
  }
  situ__sim *target = to < from ? low : high, *source = to < from ? high : low;
  situ__sim_run(source);
  situ__sim_run(target);
  target->stats.copies_in++;
  source->stats.copies_out++;
  situ__sim *failed = source->late != SITU_OK ? source : target->late != SITU_OK ? target : NULL;
  situ_status status = !failed && copy_strikes(target) ? SITU_E_IO : SITU_OK;
  const bool flipped = strikes(target, SITU_SIM_FLIP), leaves_flipped = low != high && strikes(source, SITU_SIM_FLIP);
  if (!failed && status == SITU_OK)
    situ__sim_copy(situ__sim_alias(&target->arena, dst) + dst_at, situ__sim_alias(&source->arena, src) + src_at, bytes,
                   flipped != leaves_flipped);
  if (low != high && low != failed) situ__sim_unlock(low);
  if (high != failed) situ__sim_unlock(high);
  return failed ? situ__sim_leave_telling(failed) : status;
}

static situ_status synchronize(int index) {
  situ__sim *sim = enter(index);
  if (!sim) return SITU_E_LOST;
  situ__sim_run(sim);
  return situ__sim_leave_telling(sim);
}

static situ_status launch(int index, const situ_work *work) {
  situ_status status = situ__sim_check(&sims[index], work);
  if (status != SITU_OK) return status;
  situ__sim *sim = enter(index);
  if (!sim) return SITU_E_LOST;
  return leave(sim, situ__sim_queue_work(sim, work, strikes(sim, SITU_SIM_LATE)));
}

/* ---- opening ------------------------------------------------------------------------------- */

static int wanted(void) {
  const char *text = getenv("SITU_SIM");
  if (!text || !*text) return 0;
  char *end;
  errno = 0;
  long number = strtol(text, &end, 10);
  if (errno == 0 && *end == 0 && number >= 0 && number <= SITU_SIM_MAX) return (int)number;
  situ__log("SITU_SIM=\"%.40s\" is not a number from 0 to %d and is ignored", text, SITU_SIM_MAX);
  return 0;
}

static void open_sim(void) {
  for (int i = 0; i < SITU_SIM_MAX; i++) {
    sims[i].index = i;
    sims[i].stats.budget = SITU__SIM_BUDGET;
    situ__sim_identify(&sims[i]);
    situ__mutex_init(&sims[i].lock);
  }
  backend = (situ_backend){
    .abi = SITU_BACKEND_ABI,
    .size = sizeof backend,
    .kind = SITU_SIM,
    .name = "sim",
    .count = count,
    .info = info,
    .alloc = alloc,
    .free = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .fetch = fetch,
    .fetched = fetched,
    .fetch_end = fetch_end,
    .pin = pin,
    .unpin = unpin,
    .copy_peer = copy_peer,
    .adopt = situ__sim_adopt,
    .abandon = situ__sim_abandon,
    .borrow = situ__sim_borrow,
    .give_back = situ__sim_give_back,
    .open_queue = situ__sim_open_queue,
    .wait_event = situ__sim_wait_event,
    .record_event = situ__sim_record_event,
    .query_event = situ__sim_query_event,
    .release_event = situ__sim_release_event,
    .synchronize = synchronize,
    .addressable = true,
  };
  const situ_backend *cpu = situ__backend((situ_device){ SITU_CPU, 0 });
  backend.offers = cpu->offers;
  for (int verb = 0; verb < SITU_VERBS; verb++)
    if (cpu->kernel[verb] && verb != SITU_VERB_PACK)
      backend.kernel[verb] = launch; /* a missing kernel is a test of what happens then */
  situ__sim_grow(wanted());
}

const situ_backend *situ__sim_backend(void) {
  (void)pthread_once(&once, open_sim);
  return &backend;
}
