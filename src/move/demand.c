/* The exact memory that a move needs on each device: its staging code runs in a dry run, and each storage counts as
   its whole block.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "move/move.h"

typedef struct rehearsal {
  situ_dry dry; /* first, because it is cast back to this struct */
  situ__demands *demands;
  int refused; /* index of the last device that had no memory; -1: none */
} rehearsal;

static situ__demand *find_demand(const situ__demands *demands, situ_device device) {
  for (int i = 0; i < demands->count; i++)
    if (situ__move_same(demands->list[i].device, device)) return &demands->list[i];
  return NULL;
}

/* The demand on a device, which is added at its first use, when staging has not used any memory yet; NULL when memory
   runs out. */
static situ__demand *demand_on(situ__demands *demands, situ_device device) {
  situ__demand *n = find_demand(demands, device);
  if (n) return n;
  if (!situ__grow(NULL, &demands->list, &demands->capacity, sizeof *demands->list, demands->count + 1)) return NULL;
  n = &demands->list[demands->count++];
  *n = (situ__demand){ .device = device, .available = situ__memory_available(device) };
  return n;
}

static bool has_memory(situ_dry *dry, situ_device device, size_t block) {
  rehearsal *r = (rehearsal *)dry;
  if (device.kind == SITU_META) return true;
  situ__demand *n = demand_on(r->demands, device);
  if (!n) return false;
  if (n->full || (block <= n->available && n->now <= n->available - block)) return true;
  r->refused = (int)(n - r->demands->list);
  return false;
}

static void add_made(situ_dry *dry, situ_storage *storage, size_t block) {
  situ__demand *n = find_demand(((rehearsal *)dry)->demands, storage->device);
  if (!n) return;
  n->now += block;
  if (n->now > n->peak) n->peak = n->now;
}

static void subtract_freed(situ_dry *dry, situ_storage *storage, situ_device device, size_t block, bool moved) {
  (void)storage;
  (void)moved;
  situ__demand *n = find_demand(((rehearsal *)dry)->demands, device);
  if (n) n->now -= block;
}

/* Stages a copy of the plan in a dry run, also inside another dry run. Returns the status of its first error. */
static situ_status rehearse(const situ_move_plan *m, rehearsal *r) {
  situ_move_plan copy = *m;
  copy.unit = situ__alloc((size_t)(m->count + 1) * sizeof *copy.unit);
  if (!copy.unit) return situ__no_memory(m->op, (size_t)m->count * sizeof *copy.unit);
  if (m->count) memcpy(copy.unit, m->unit, (size_t)m->count * sizeof *copy.unit);
  situ_dry *outer = situ__dry;
  situ__errors own;
  situ__dry = NULL;
  situ__errors_aside(&own);
  situ_status status = situ_dry_begin(&r->dry);
  if (status == SITU_OK && !situ__move_stage(&copy)) status = situ_error();
  for (int64_t i = 0; i < copy.count; i++) situ__storage_release(copy.unit[i].destination);
  situ__free(copy.unit);
  (void)situ_dry_end(&r->dry);
  SITU_IGNORE(situ__errors_back(&own, NULL, 0));
  situ__dry = outer;
  return status;
}

/* If a device is too small, repeats with unlimited memory there, so that its peak is the amount it would need. */
bool situ__move_demands(const situ_move_plan *m, situ__demands *demands) {
  *demands = (situ__demands){ 0 };
  for (;;) {
    rehearsal r = { .dry = { .has_memory = has_memory, .made = add_made, .freed = subtract_freed },
                    .demands = demands,
                    .refused = -1 };
    for (int i = 0; i < demands->count; i++) demands->list[i].now = demands->list[i].peak = 0;
    situ_status status = rehearse(m, &r);
    if (status == SITU_OK) return true;
    if (status != SITU_E_NOMEM) return true; /* the move itself reports other errors */
    if (r.refused < 0) return situ__no_memory(m->op, (size_t)m->count * sizeof(situ_move_unit)), false;
    demands->list[r.refused].full = true;
  }
}

/* ---- a bound, which is enough for most moves ---- */

/* Adds what comes to a device to its demand. */
static inline void add_target(situ__demand *n, const situ_move_unit *u) {
  enum { EACH = 512 };
  n->dtypes |= 1u << u->to_dtype;
  n->roughly += u->bytes_after + u->bytes_after / 2 + EACH;
}

static __attribute__((noinline)) bool add_other_devices(situ__demands *demands, const situ_move_unit *u) {
  if (u->from.kind != SITU_CPU && !situ__move_same(u->from, u->to) && !demand_on(demands, u->from)) return false;
  if (u->to.kind == SITU_META) return true;
  situ__demand *n = demand_on(demands, u->to);
  if (n) add_target(n, u);
  return n != NULL;
}

bool situ__move_add_unit(situ__demands *demands, const situ_move_unit *u) {
  const bool within = u->from.kind == SITU_CPU || situ__move_same(u->from, u->to);
  if (!within || !demands->count || !situ__move_same(demands->list->device, u->to))
    return add_other_devices(demands, u);
  add_target(demands->list, u);
  return true;
}

bool situ__move_fits_easily(const situ_move_plan *m, const situ__demands *demands) {
  const uint64_t beside = 3 * SITU__MOVE_STAGE + 4 * (uint64_t)m->count * sizeof(int64_t);
  for (int i = 0; i < demands->count; i++) {
    const situ__demand *n = &demands->list[i];
    if (n->device.kind == SITU_META || (n->roughly && n->roughly + beside > n->available)) return false;
  }
  return situ__memory_available((situ_device){ SITU_CPU, 0 }) > beside;
}
