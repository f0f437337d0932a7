/* Depots: each caches the free blocks of one device, within a bound, under one lock.
   SPDX-License-Identifier: MIT */
#include "device/depot.h"

#include <string.h>
#include <sys/sysinfo.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/mutex.h"

static situ__depot *depots[SITU_DEVICE_KINDS][SITU__DEVICES_MAX];
static situ__mutex opening = SITU__MUTEX_INIT;

/* Memory and swap of the host. malloc promises more than that (overcommit), and the kernel then kills a process that
   uses it. */
static size_t host_total(void) {
  struct sysinfo host;
  size_t bytes;
  if (sysinfo(&host) != 0 || __builtin_mul_overflow(host.totalram + host.totalswap, (size_t)host.mem_unit, &bytes))
    return SIZE_MAX;
  return bytes;
}

static situ__depot *open_depot(situ_device device) {
  situ__depot *depot = situ__alloc_uncounted(sizeof *depot);
  if (!depot) return NULL;
  memset(depot, 0, sizeof *depot);
  depot->device = device;
  depot->total = device.kind == SITU_CPU ? host_total() : SIZE_MAX;
  depot->limit = SIZE_MAX;
  situ__mutex_init(&depot->lock);
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
  situ__mutex_lock(&opening);
  found = *slot;
  if (!found && (found = open_depot(device))) __atomic_store_n(slot, found, __ATOMIC_RELEASE);
  situ__mutex_unlock(&opening);
  return found;
}

/* ---- blocks -------------------------------------------------------------------------------- */

static void free_block(situ_device device, void *data, size_t size) {
  const situ_backend *backend = situ__backend(device);
  if (backend->host_memory) SITU__UNPOISON(data, size);
  /* In a forked child, do not wait for the queue: it belongs to the parent. */
  if (device.kind == SITU_CPU || !situ__forked()) backend->free(device.index, data, size);
}

/* Removes the block at `i` from its bin. */
static situ__kept remove_from(situ__depot *depot, situ__bin *bin, uint32_t i) {
  situ__kept found = bin->block[i];
  memmove(bin->block + i, bin->block + i + 1, (--bin->count - i) * sizeof found);
  depot->kept -= found.size;
  return found;
}

static bool grow_bin(situ__bin *bin) {
  uint32_t capacity = bin->capacity ? 2 * bin->capacity : 8;
  situ__kept *more = situ__alloc_uncounted(capacity * sizeof *more);
  if (!more) return false;
  if (bin->count) memcpy(more, bin->block, bin->count * sizeof *more);
  situ__free(bin->block);
  bin->block = more;
  bin->capacity = capacity;
  return true;
}

/* Returns the bin whose first block is from the earliest epoch, the largest size among equals; NULL if all are
   empty. */
static situ__bin *find_oldest(situ__depot *depot) {
  situ__bin *found = NULL;
  for (int i = SITU__BLOCK_BINS - 1; i >= 0; i--) {
    situ__bin *bin = &depot->bin[i];
    if (bin->count && (!found || bin->block->epoch < found->block->epoch)) found = bin;
  }
  return found;
}

/* ---- the bound ------------------------------------------------------------------------------ */

static inline size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static size_t byte_limit(const situ__depot *depot) { return smaller(depot->total, depot->limit); }

static size_t recent_peak(const situ__depot *depot) { return larger(depot->highest, depot->before); }

/* Returns true if the depot may keep so many bytes more. */
static bool is_within_bound(const situ__depot *depot, size_t more) {
  size_t peak = larger(recent_peak(depot), depot->out);
  return depot->out + depot->kept + more <= smaller(byte_limit(depot), peak + peak / 3 + SITU__DEPOT_SLACK);
}

/* Returns true if no block of this bin was used in the whole last epoch, while other blocks could not be kept. */
static bool is_idle(const situ__depot *depot, const situ__bin *bin) {
  return depot->crowded && bin->block->epoch + 1 < depot->epoch;
}

/* Frees blocks as far as the bound requires. The caller holds the lock; it is released while the device frees a
   block, because that may run a queue. */
static void free_excess(situ__depot *depot) {
  situ__bin *bin;
  while ((bin = find_oldest(depot)) != NULL && (!is_within_bound(depot, 0) || is_idle(depot, bin))) {
    situ__kept block = remove_from(depot, bin, 0);
    situ__mutex_unlock(&depot->lock);
    free_block(depot->device, block.data, block.size);
    situ__mutex_lock(&depot->lock);
  }
  depot->crowded = false;
}

/* The steps of a training loop have the same peak; an epoch is long enough for several of them. */
static void hand_out(situ__depot *depot, size_t size) {
  enum { PEAKS = 8 };
  depot->highest = larger(depot->highest, depot->out);
  depot->handed_out += size;
  if (depot->handed_out / PEAKS < recent_peak(depot) + SITU__DEPOT_SLACK) return;
  depot->handed_out = 0;
  depot->before = depot->highest;
  depot->highest = depot->out;
  depot->epoch++;
  free_excess(depot);
}

/* ---- taking and returning blocks ---- */

void *situ__depot_take(situ__depot *depot, unsigned number, size_t size) {
  void *data = NULL;
  situ__bin *bin = &depot->bin[number];
  situ__mutex_lock(&depot->lock);
  uint32_t i = bin->count;
  while (i && bin->block[i - 1].size != size) i--;
  if (i) {
    data = remove_from(depot, bin, i - 1).data;
    depot->out += size;
    hand_out(depot, size);
  }
  situ__mutex_unlock(&depot->lock);
  return data;
}

bool situ__depot_reserve(situ__depot *depot, size_t size) {
  situ__mutex_lock(&depot->lock);
  bool fits = size <= byte_limit(depot) && depot->out <= byte_limit(depot) - size;
  if (fits) depot->out += size;
  if (fits && !is_within_bound(depot, 0)) free_excess(depot);
  situ__mutex_unlock(&depot->lock);
  return fits;
}

void situ__depot_reserved(situ__depot *depot, size_t size, bool had) {
  situ__mutex_lock(&depot->lock);
  if (had) hand_out(depot, size);
  else depot->out -= size;
  situ__mutex_unlock(&depot->lock);
}

void situ__depot_put(situ__depot *depot, unsigned number, size_t size, void *data) {
  situ__bin *bin = &depot->bin[number];
  situ__mutex_lock(&depot->lock);
  depot->out -= size;
  bool fits = is_within_bound(depot, size);
  bool keep = fits && (bin->count < bin->capacity || grow_bin(bin));
  if (!fits) depot->crowded = true;
  if (keep) {
    bin->block[bin->count++] = (situ__kept){ data, size, depot->epoch };
    depot->kept += size;
  }
  situ__mutex_unlock(&depot->lock);
  if (!keep) free_block(depot->device, data, size);
}

void situ__depot_return(situ__depot *depot, size_t size, void *data) {
  situ__depot_reserved(depot, size, false);
  free_block(depot->device, data, size);
}

/* Removes blocks under the lock, and frees them without it. */
bool situ__depot_empty(situ__depot *depot) {
  bool any = false;
  for (unsigned number = 0; number < SITU__BLOCK_BINS; number++) {
    situ__mutex_lock(&depot->lock);
    situ__bin bin = depot->bin[number];
    depot->bin[number] = (situ__bin){ 0 };
    for (uint32_t i = 0; i < bin.count; i++) depot->kept -= bin.block[i].size;
    situ__mutex_unlock(&depot->lock);
    for (uint32_t i = 0; i < bin.count; i++) free_block(depot->device, bin.block[i].data, bin.block[i].size);
    any |= bin.count > 0;
    situ__free(bin.block);
  }
  return any;
}

void situ__depot_forget(situ__depot *depot) {
  situ__mutex_lock(&depot->lock);
  depot->highest = depot->before = depot->out;
  situ__mutex_unlock(&depot->lock);
}

void situ__depot_limit(situ__depot *depot, size_t bytes) {
  situ__mutex_lock(&depot->lock);
  depot->limit = bytes;
  free_excess(depot);
  situ__mutex_unlock(&depot->lock);
}
