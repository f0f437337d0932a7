/* Block caches: each caches the free blocks of one device, within a bound, under one lock.
   SPDX-License-Identifier: MIT */
#include "device/block_cache.h"

#include <string.h>
#include <sys/sysinfo.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/mutex.h"

static situ__block_cache *block_caches[SITU_DEVICE_KINDS][SITU__DEVICES_MAX];
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

static situ__block_cache *open_block_cache(situ_device device) {
  situ__block_cache *blocks = situ__alloc_uncounted(sizeof *blocks);
  if (!blocks) return NULL;
  memset(blocks, 0, sizeof *blocks);
  blocks->device = device;
  blocks->total = device.kind == SITU_CPU ? host_total() : SIZE_MAX;
  blocks->limit = SIZE_MAX;
  situ__mutex_init(&blocks->lock);
  return blocks;
}

situ__block_cache *situ__block_cache_if_open(unsigned kind, unsigned index) {
  return __atomic_load_n(&block_caches[kind][index], __ATOMIC_ACQUIRE);
}

situ__block_cache *situ__block_cache_of(situ_device device) {
  if (device.kind >= SITU_DEVICE_KINDS || device.index >= SITU__DEVICES_MAX) return NULL;
  situ__block_cache **slot = &block_caches[device.kind][device.index];
  situ__block_cache *found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  if (found) return found;
  situ__mutex_lock(&opening);
  found = *slot;
  if (!found && (found = open_block_cache(device))) __atomic_store_n(slot, found, __ATOMIC_RELEASE);
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
static situ__kept remove_from(situ__block_cache *blocks, situ__bin *bin, uint32_t i) {
  situ__kept found = bin->block[i];
  memmove(bin->block + i, bin->block + i + 1, (--bin->count - i) * sizeof found);
  blocks->kept -= found.size;
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
static situ__bin *find_oldest(situ__block_cache *blocks) {
  situ__bin *found = NULL;
  for (int i = SITU__BLOCK_BINS - 1; i >= 0; i--) {
    situ__bin *bin = &blocks->bin[i];
    if (bin->count && (!found || bin->block->epoch < found->block->epoch)) found = bin;
  }
  return found;
}

/* ---- the bound ------------------------------------------------------------------------------ */

static inline size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static size_t byte_limit(const situ__block_cache *blocks) { return smaller(blocks->total, blocks->limit); }

static size_t recent_peak(const situ__block_cache *blocks) { return larger(blocks->highest, blocks->before); }

/* Returns true if the block cache may keep so many bytes more. */
static bool is_within_bound(const situ__block_cache *blocks, size_t more) {
  size_t peak = larger(recent_peak(blocks), blocks->out);
  return blocks->out + blocks->kept + more <= smaller(byte_limit(blocks), peak + peak / 3 + SITU__BLOCK_CACHE_SLACK);
}

/* Returns true if no block of this bin was used in the whole last epoch, while other blocks could not be kept. */
static bool is_idle(const situ__block_cache *blocks, const situ__bin *bin) {
  return blocks->crowded && bin->block->epoch + 1 < blocks->epoch;
}

/* Frees blocks as far as the bound requires. The caller holds the lock; it is released while the device frees a
   block, because that may run a queue. */
static void free_excess(situ__block_cache *blocks) {
  situ__bin *bin;
  while ((bin = find_oldest(blocks)) != NULL && (!is_within_bound(blocks, 0) || is_idle(blocks, bin))) {
    situ__kept block = remove_from(blocks, bin, 0);
    situ__mutex_unlock(&blocks->lock);
    free_block(blocks->device, block.data, block.size);
    situ__mutex_lock(&blocks->lock);
  }
  blocks->crowded = false;
}

/* The steps of a training loop have the same peak; an epoch is long enough for several of them. */
static void hand_out(situ__block_cache *blocks, size_t size) {
  enum { PEAKS = 8 };
  blocks->highest = larger(blocks->highest, blocks->out);
  blocks->handed_out += size;
  if (blocks->handed_out / PEAKS < recent_peak(blocks) + SITU__BLOCK_CACHE_SLACK) return;
  blocks->handed_out = 0;
  blocks->before = blocks->highest;
  blocks->highest = blocks->out;
  blocks->epoch++;
  free_excess(blocks);
}

/* ---- taking and returning blocks ---- */

void *situ__block_cache_take(situ__block_cache *blocks, unsigned number, size_t size) {
  void *data = NULL;
  situ__bin *bin = &blocks->bin[number];
  situ__mutex_lock(&blocks->lock);
  uint32_t i = bin->count;
  while (i && bin->block[i - 1].size != size) i--;
  if (i) {
    data = remove_from(blocks, bin, i - 1).data;
    blocks->out += size;
    hand_out(blocks, size);
  }
  situ__mutex_unlock(&blocks->lock);
  return data;
}

bool situ__block_cache_reserve(situ__block_cache *blocks, size_t size) {
  situ__mutex_lock(&blocks->lock);
  bool fits = size <= byte_limit(blocks) && blocks->out <= byte_limit(blocks) - size;
  if (fits) blocks->out += size;
  if (fits && !is_within_bound(blocks, 0)) free_excess(blocks);
  situ__mutex_unlock(&blocks->lock);
  return fits;
}

void situ__block_cache_reserved(situ__block_cache *blocks, size_t size, bool had) {
  situ__mutex_lock(&blocks->lock);
  if (had) hand_out(blocks, size);
  else blocks->out -= size;
  situ__mutex_unlock(&blocks->lock);
}

void situ__block_cache_put(situ__block_cache *blocks, unsigned number, size_t size, void *data) {
  situ__bin *bin = &blocks->bin[number];
  situ__mutex_lock(&blocks->lock);
  blocks->out -= size;
  bool fits = is_within_bound(blocks, size);
  bool keep = fits && (bin->count < bin->capacity || grow_bin(bin));
  if (!fits) blocks->crowded = true;
  if (keep) {
    bin->block[bin->count++] = (situ__kept){ data, size, blocks->epoch };
    blocks->kept += size;
  }
  situ__mutex_unlock(&blocks->lock);
  if (!keep) free_block(blocks->device, data, size);
}

void situ__block_cache_return(situ__block_cache *blocks, size_t size, void *data) {
  situ__block_cache_reserved(blocks, size, false);
  free_block(blocks->device, data, size);
}

/* Removes blocks under the lock, and frees them without it. */
bool situ__block_cache_empty(situ__block_cache *blocks) {
  bool any = false;
  for (unsigned number = 0; number < SITU__BLOCK_BINS; number++) {
    situ__mutex_lock(&blocks->lock);
    situ__bin bin = blocks->bin[number];
    blocks->bin[number] = (situ__bin){ 0 };
    for (uint32_t i = 0; i < bin.count; i++) blocks->kept -= bin.block[i].size;
    situ__mutex_unlock(&blocks->lock);
    for (uint32_t i = 0; i < bin.count; i++) free_block(blocks->device, bin.block[i].data, bin.block[i].size);
    any |= bin.count > 0;
    situ__free(bin.block);
  }
  return any;
}

void situ__block_cache_forget(situ__block_cache *blocks) {
  situ__mutex_lock(&blocks->lock);
  blocks->highest = blocks->before = blocks->out;
  situ__mutex_unlock(&blocks->lock);
}

void situ__block_cache_limit(situ__block_cache *blocks, size_t bytes) {
  situ__mutex_lock(&blocks->lock);
  blocks->limit = bytes;
  free_excess(blocks);
  situ__mutex_unlock(&blocks->lock);
}
