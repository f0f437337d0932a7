/* Depots: a stack of unused blocks for each size, one set a device, under one lock.
   SPDX-License-Identifier: MIT */
#include "device/depot.h"

#include <string.h>
#include <sys/sysinfo.h>

#include "base/alloc.h"
#include "base/fork.h"

static situ__depot *depots[SITU_DEVICE_KINDS][SITU__DEVICES_MAX];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* What the host has to give. The system promises more than that, and then kills whoever takes it
   at its word. */
static size_t host_total(void) {
  struct sysinfo host;
  size_t bytes;
  if (sysinfo(&host) != 0 ||
      __builtin_mul_overflow(host.totalram + host.totalswap, (size_t)host.mem_unit, &bytes))
    return SIZE_MAX;
  return bytes;
}

static situ__depot *open_depot(situ_device device) {
  situ__depot *depot = situ__alloc_uncounted(sizeof *depot);
  if (!depot) return NULL;
  memset(depot, 0, sizeof *depot);
  depot->device = device;
  depot->total = device.kind == SITU_CPU ? host_total() : SIZE_MAX;
  depot->limit = device.kind == SITU_CPU ? depot->total / 4 : SIZE_MAX;
  (void)pthread_mutex_init(&depot->lock, NULL);
  return depot;
}

situ__depot *situ__depot_if_open(unsigned kind, unsigned index) {
  return __atomic_load_n(&depots[kind][index], __ATOMIC_ACQUIRE);
}

situ__depot *situ__depot_of(situ_device device) {
  if (device.kind >= SITU_DEVICE_KINDS || device.index >= SITU__DEVICES_MAX) return NULL;
  situ__depot **slot = &depots[device.kind][device.index];
  situ__depot *found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  if (found) return found;
  pthread_mutex_lock(&opening);
  found = *slot;
  if (!found && (found = open_depot(device))) __atomic_store_n(slot, found, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&opening);
  return found;
}

/* ---- forks --------------------------------------------------------------------------------
   A child may go on using host memory, also if a thread that it does not have held a lock. */

static void before_fork(void) {
  pthread_mutex_lock(&opening);
  if (depots[SITU_CPU][0]) pthread_mutex_lock(&depots[SITU_CPU][0]->lock);
}

static void after_fork(void) {
  if (depots[SITU_CPU][0]) pthread_mutex_unlock(&depots[SITU_CPU][0]->lock);
  pthread_mutex_unlock(&opening);
}

void situ__depot_watch_forks(void) { (void)pthread_atfork(before_fork, after_fork, after_fork); }

/* ---- blocks -------------------------------------------------------------------------------- */

void situ__depot_give_back(situ_device device, void *data, size_t size) {
  const situ_backend *backend = situ__backend(device);
  if (backend->host_memory) SITU__UNPOISON(data, size);
  /* In a fork's child, the queue that freeing would wait for is the parent's. */
  if (device.kind == SITU_CPU || !situ__forked()) backend->free(device.index, data, size);
}

void *situ__depot_take(situ__depot *depot, unsigned number, size_t size) {
  void *data = NULL;
  situ__stack *stack = &depot->blocks[number];
  pthread_mutex_lock(&depot->lock);
  if (stack->count) {
    data = stack->block[--stack->count];
    depot->kept -= size;
  }
  pthread_mutex_unlock(&depot->lock);
  return data;
}

static bool widen(situ__stack *stack) {
  uint32_t capacity = stack->capacity ? 2 * stack->capacity : 8;
  void **more = situ__alloc_uncounted(capacity * sizeof *more);
  if (!more) return false;
  if (stack->count) memcpy(more, stack->block, stack->count * sizeof *more);
  situ__free(stack->block);
  stack->block = more;
  stack->capacity = capacity;
  return true;
}

void situ__depot_put(situ__depot *depot, unsigned number, size_t size, void *data) {
  situ__stack *stack = &depot->blocks[number];
  pthread_mutex_lock(&depot->lock);
  bool keep =
      size <= depot->limit - depot->kept && (stack->count < stack->capacity || widen(stack));
  if (keep) {
    stack->block[stack->count++] = data;
    depot->kept += size;
  }
  pthread_mutex_unlock(&depot->lock);
  if (!keep) situ__depot_give_back(depot->device, data, size);
}

/* Blocks leave the depot under its lock, and reach the device without: that may run a queue. */
bool situ__depot_empty(situ__depot *depot) {
  bool any = false;
  for (unsigned number = 0; number < SITU__BLOCK_SIZES; number++) {
    size_t size = situ__block_size(number);
    pthread_mutex_lock(&depot->lock);
    situ__stack stack = depot->blocks[number];
    depot->blocks[number] = (situ__stack){ 0 };
    depot->kept -= stack.count * size;
    pthread_mutex_unlock(&depot->lock);
    for (uint32_t i = 0; i < stack.count; i++)
      situ__depot_give_back(depot->device, stack.block[i], size);
    any |= stack.count > 0;
    situ__free(stack.block);
  }
  return any;
}
