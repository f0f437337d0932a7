/* The caching allocator. Memory fresh from the system costs sixteen times as much as the kernel that fills it, so
   blocks are cached: small host blocks in lists of the thread that freed them, all others in the device's block cache.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/text.h"
#include "base/thread.h"
#include "device/block_cache.h"

/* Byte limits on the lists of all threads, and of one thread, which grows in steps of SHARE. */
enum { LISTS_BYTES = 24 << 20, LIST_BYTES = 8 << 20, SHARE = 256 << 10 };

static const situ_device host = { SITU_CPU, 0 };

/* ---- a thread's lists (host only) ---------------------------------------------------------- */

typedef struct block {
  struct block *next;
} block;

/* Most freed storages that a thread keeps with their blocks: enough for a training step. */
enum { KEEP_STORAGES = 1024 };

typedef struct cache {
  block *first[SITU__BLOCK_SMALL];
  situ_storage *storage[SITU__BLOCK_SMALL]; /* freed ones, linked by `payload`, each with its block */
  uint32_t storages;                        /* their number */
  int64_t used;                             /* bytes allocated minus bytes freed by this thread; may be negative */
  int64_t kept, share;                      /* bytes in the lists, and their current limit */
  int64_t tensors;                          /* tensors created minus freed by this thread; may be negative */
  struct cache *next, **link;               /* list of all threads' caches */
} cache;

static SITU__THREAD_LOCAL cache *mine;
static SITU__THREAD_LOCAL bool ended;
static cache *threads;  /* guarded by the host block cache's lock */
static int64_t shares;  /* sum over all threads */
static int64_t tensors; /* counted by threads without a cache */
SITU__THREAD_LOCAL int64_t *situ__tensor_counter;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Only its own thread writes the counter; statistics read it from other threads. */
static inline void add_count(int64_t *counter, int64_t change) {
  __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + change, __ATOMIC_RELAXED);
}

static inline situ_storage *pop_storage(cache *c, unsigned number, size_t size) {
  situ_storage *s = c->storage[number];
  if (!s) return NULL;
  SITU__UNPOISON(s, sizeof *s);
  SITU__UNPOISON(s->data, size);
  c->storage[number] = s->payload;
  c->storages--;
  add_count(&c->kept, -(int64_t)size);
  /* For the next call, which would wait for it to learn which one follows. */
  __builtin_prefetch(s->payload, 1);
  /* As a number: the last one has no next, and NULL has no members. */
  __builtin_prefetch((void *)((uintptr_t)s->payload + offsetof(situ_storage, handles)), 1);
  return s;
}

/* The block of a freed storage, which is freed altogether. */
static __attribute__((noinline)) void *pop_storage_block(cache *c, unsigned number, size_t size) {
  situ_storage *s = pop_storage(c, number, size);
  void *data = s ? s->data : NULL;
  situ__small_free(s, sizeof *s);
  return data;
}

static inline void *pop_block(cache *c, unsigned number, size_t size) {
  block *b = c->first[number];
  if (!b) return pop_storage_block(c, number, size);
  SITU__UNPOISON(b, size);
  c->first[number] = b->next;
  __builtin_prefetch(b->next); /* for the next call, which reads it */
  add_count(&c->kept, -(int64_t)size);
  return b;
}

static inline void push_block(cache *c, unsigned number, size_t size, void *data) {
  block *b = data;
  SITU__UNPOISON(b, sizeof *b);
  b->next = c->first[number];
  c->first[number] = b;
  add_count(&c->kept, (int64_t)size);
  SITU__POISON(b + 1, size - sizeof *b); /* LeakSanitizer must be able to read the link */
}

/* Moves all blocks to the block cache, or frees them through it. Returns true if there were any. */
static bool empty_lists(cache *c, bool keep) {
  bool any = false;
  situ__block_cache *blocks = situ__block_cache_of(host); /* exists: the blocks came through it */
  for (unsigned number = 0; number < SITU__BLOCK_SMALL; number++) {
    size_t size = situ__block_size(number);
    for (void *data; (data = pop_block(c, number, size)) != NULL; any = true) {
      if (keep) situ__block_cache_put(blocks, number, size, data);
      else situ__block_cache_return(blocks, size, data);
    }
  }
  return any;
}

static bool grow_share(cache *c) {
  if (c->share + SHARE > LIST_BYTES) return false;
  if (__atomic_add_fetch(&shares, SHARE, __ATOMIC_RELAXED) <= LISTS_BYTES) {
    c->share += SHARE;
    return true;
  }
  (void)__atomic_sub_fetch(&shares, SHARE, __ATOMIC_RELAXED);
  return false;
}

/* Returns true if the lists can take the block. When they are full, moves all their blocks to the block cache: their
   sizes may not be used any more. */
static bool reserve_list(cache *c, size_t size) {
  while (c->kept + (int64_t)size > c->share)
    if (!grow_share(c)) return empty_lists(c, true) && (int64_t)size <= c->share;
  return true;
}

static void thread_exit(void *memory) {
  cache *c = memory;
  situ__block_cache *blocks = situ__block_cache_of(host);
  (void)empty_lists(c, true);
  (void)__atomic_sub_fetch(&shares, c->share, __ATOMIC_RELAXED);
  situ__mutex_lock(&blocks->lock);
  blocks->used += c->used;
  (void)__atomic_add_fetch(&tensors, c->tensors, __ATOMIC_RELAXED);
  *c->link = c->next;
  if (c->next) c->next->link = c->link;
  situ__mutex_unlock(&blocks->lock);
  situ__free(c);
  mine = NULL;
  situ__tensor_counter = NULL;
  ended = true;
}

static void install_handlers(void) { (void)pthread_key_create(&at_exit, thread_exit); }

static cache *open_cache(void) {
  if (ended) return NULL;
  (void)pthread_once(&once, install_handlers);
  situ__block_cache *blocks = situ__block_cache_of(host);
  cache *c = blocks ? situ__alloc_uncounted(sizeof *c) : NULL;
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  situ__mutex_lock(&blocks->lock);
  c->next = threads;
  c->link = &threads;
  if (threads) threads->link = &c->next;
  threads = c;
  situ__mutex_unlock(&blocks->lock);
  (void)pthread_setspecific(at_exit, c);
  situ__tensor_counter = &c->tensors;
  return mine = c;
}

/* ---- statistics ---------------------------------------------------------------------------- */

static void count_used(situ_device device, int64_t bytes) {
  cache *c = mine;
  if (device.kind == SITU_CPU && (c || (c = open_cache()))) {
    add_count(&c->used, bytes);
    return;
  }
  situ__block_cache *blocks = situ__block_cache_of(device);
  if (!blocks) return;
  situ__mutex_lock(&blocks->lock);
  blocks->used += bytes;
  situ__mutex_unlock(&blocks->lock);
}

void situ__memory_stats(situ_device device, int64_t *used, int64_t *cached) {
  *used = *cached = 0;
  situ__block_cache *blocks = situ__block_cache_of(device);
  if (!blocks) return;
  situ__mutex_lock(&blocks->lock);
  *used = blocks->used;
  *cached = (int64_t)blocks->kept;
  for (cache *c = device.kind == SITU_CPU ? threads : NULL; c; c = c->next) {
    *used += __atomic_load_n(&c->used, __ATOMIC_RELAXED);
    *cached += __atomic_load_n(&c->kept, __ATOMIC_RELAXED);
  }
  situ__mutex_unlock(&blocks->lock);
}

size_t situ__memory_reserved(situ_device device) {
  situ__block_cache *blocks = situ__block_cache_of(device);
  if (!blocks) return 0;
  situ__mutex_lock(&blocks->lock);
  size_t held = blocks->out + blocks->kept;
  situ__mutex_unlock(&blocks->lock);
  return held;
}

void situ__count_first_tensor(int64_t change) {
  cache *c = open_cache();
  if (c) add_count(&c->tensors, change);
  else (void)__atomic_add_fetch(&tensors, change, __ATOMIC_RELAXED);
}

int64_t situ__tensors_alive(void) {
  situ__block_cache *blocks = situ__block_cache_of(host);
  if (!blocks) return 0;
  situ__mutex_lock(&blocks->lock);
  int64_t total = __atomic_load_n(&tensors, __ATOMIC_RELAXED);
  for (const cache *c = threads; c; c = c->next) total += __atomic_load_n(&c->tensors, __ATOMIC_RELAXED);
  situ__mutex_unlock(&blocks->lock);
  return total;
}

int64_t situ__memory_used(void) {
  int64_t total = 0, used, cached;
  for (unsigned kind = SITU_CPU; kind < SITU_DEVICE_KINDS; kind++) {
    for (unsigned index = 0; index < SITU__DEVICES_MAX; index++) {
      if (!situ__block_cache_if_open(kind, index)) continue;
      situ__memory_stats((situ_device){ (uint16_t)kind, (uint16_t)index }, &used, &cached);
      total += used;
    }
  }
  return total;
}

/* ---- allocating and freeing ---------------------------------------------------------------- */

size_t situ__memory_block(size_t bytes) {
  size_t size = bytes;
  if (bytes && bytes <= SITU__BLOCK_LARGEST) (void)situ__block_number(bytes, &size);
  return size;
}

static SITU_COLD situ_status no_memory(const char *op, situ_device device, size_t bytes) {
  char name[SITU_DEVICE_NAME_MAX], wanted[SITU__BYTES_TEXT], held[SITU__BYTES_TEXT], limit[SITU__BYTES_TEXT];
  int64_t used, kept;
  situ__memory_stats(device, &used, &kept);
  size_t most = situ__memory_limit(device);
  return situ__fail(SITU_E_NOMEM, op, "no memory for %s on %s (%s in use there%s%s)", situ__bytes_text(bytes, wanted),
                    situ_device_name(device, name), situ__bytes_text((uint64_t)used, held),
                    most == SIZE_MAX ? "" : ", of a limit of ", most == SIZE_MAX ? "" : situ__bytes_text(most, limit));
}

/* Allocates a block from the device. */
static situ_status allocate_block(situ__block_cache *blocks, size_t size, void **data) {
  if (!situ__block_cache_reserve(blocks, size)) return SITU_E_NOMEM;
  situ_status status = situ__backend(blocks->device)->alloc(blocks->device.index, size, data);
  situ__block_cache_reserved(blocks, size, status == SITU_OK);
  return status;
}

/* Allocates a block; when the device runs out of memory, frees the cache and retries once. */
static situ_status allocate_or_retry(const char *op, situ__block_cache *blocks, size_t bytes, size_t size,
                                     void **data) {
  uint64_t before = situ__error_count();
  const char *outer = situ__now.running;
  situ__now.running = op; /* for errors of the backend's own */
  situ_status status = allocate_block(blocks, size, data);
  if (status == SITU_E_NOMEM && situ__error_count() == before) {
    bool any = blocks->device.kind == SITU_CPU && mine && empty_lists(mine, false);
    any |= situ__device_up.let_go(blocks->device);
    if (situ__block_cache_empty(blocks) || any) status = allocate_block(blocks, size, data);
    if (status == SITU_E_NOMEM && situ__error_count() == before) status = no_memory(op, blocks->device, bytes);
  }
  situ__now.running = outer;
  if (status == SITU_OK) return SITU_OK;
  return situ__device_failed(op, blocks->device, status, before, "allocating");
}

situ_status situ__memory_alloc(const char *op, situ_device device, size_t bytes, void **data) {
  *data = NULL;
  if (bytes == 0 && device.kind != SITU_PLAN) return SITU_OK; /* a planned one refuses each tensor */
  bytes += bytes == 0;
  if (__builtin_expect(situ__scratch_now != NULL, 0) && device.kind == SITU_CPU && (*data = situ__scratch_take(bytes)))
    return SITU_OK;
  if (situ__alloc_refused() || bytes > SITU__BLOCK_LARGEST) return no_memory(op, device, bytes);
  size_t size;
  unsigned number = situ__block_number(bytes, &size);
  cache *c = mine;
  if (device.kind == SITU_CPU && number < SITU__BLOCK_SMALL && c) *data = pop_block(c, number, size);
  if (!*data) {
    const situ_backend *backend = situ__backend(device);
    if (!backend || backend->no_memory) return SITU_OK;
    situ_status status = situ__device_usable(op, device);
    if (status != SITU_OK) return status;
    situ__block_cache *blocks = situ__block_cache_of(device);
    if (!blocks) return no_memory(op, device, bytes);
    *data = situ__block_cache_take(blocks, number, size);
    if (!*data && (status = allocate_or_retry(op, blocks, bytes, size, data)) != SITU_OK) {
      *data = NULL;
      return status;
    }
  }
  if (device.kind == SITU_CPU) {
    SITU__POISON((char *)*data, size);
    SITU__UNPOISON((char *)*data, bytes);
  }
  count_used(device, (int64_t)bytes);
  return SITU_OK;
}

void situ__memory_free(situ_device device, void *data, size_t bytes) {
  if (!data || situ__scratch_owns(data)) return;
  size_t size;
  unsigned number = situ__block_number(bytes, &size);
  count_used(device, -(int64_t)bytes);
  cache *c = mine;
  if (device.kind == SITU_CPU && number < SITU__BLOCK_SMALL && c && reserve_list(c, size)) {
    push_block(c, number, size, data);
    return;
  }
  if (device.kind == SITU_CPU) SITU__POISON(data, size);
  situ__block_cache *blocks = situ__block_cache_of(device); /* exists: the block came from it */
  if (situ__device_lost(device)) situ__block_cache_return(blocks, size, data);
  else situ__block_cache_put(blocks, number, size, data);
}

/* ---- storages that are freed and made again ---- */

/* Blocks up to 1 MiB are in the lists; 0 bytes wrap. */
static inline bool is_listed(const cache *c, situ_device device, size_t bytes) {
  return c && device.kind == SITU_CPU && bytes - 1 < (size_t)1 << 20 && !situ__scratch_now;
}

situ_storage *situ__memory_reuse(situ_device device, size_t bytes) {
  cache *c = mine;
  if (!is_listed(c, device, bytes) || situ__alloc_is_watched()) return NULL;
  size_t size;
  const unsigned number = situ__block_number(bytes, &size);
  situ_storage *s = pop_storage(c, number, size);
  if (!s) return NULL;
  SITU__POISON((char *)s->data + bytes, size - bytes);
  add_count(&c->used, (int64_t)bytes);
  return s;
}

static inline bool push_storage(cache *c, unsigned number, size_t size, situ_storage *s) {
  add_count(&c->used, -(int64_t)s->bytes);
  s->payload = c->storage[number];
  c->storage[number] = s;
  c->storages++;
  add_count(&c->kept, (int64_t)size);
  SITU__POISON(s->data, size);
  SITU__POISON(&s->bytes, offsetof(situ_storage, payload) - offsetof(situ_storage, bytes));
  return true;
}

/* Not inlined, to keep the common path short. */
static __attribute__((noinline)) bool push_reserved(cache *c, unsigned number, size_t size, situ_storage *s) {
  return reserve_list(c, size) && push_storage(c, number, size, s);
}

bool situ__memory_keep(situ_storage *s) {
  cache *c = mine;
  size_t size;
  if (!s->data || !is_listed(c, s->device, s->bytes) || c->storages == KEEP_STORAGES) return false;
  const unsigned number = situ__block_number(s->bytes, &size);
  return c->kept + (int64_t)size <= c->share ? push_storage(c, number, size, s) : push_reserved(c, number, size, s);
}

void situ__memory_trim(situ_device device) {
  situ__block_cache *blocks = situ__block_cache_of(device);
  if (blocks) (void)situ__block_cache_empty(blocks), situ__block_cache_forget(blocks);
  const situ_backend *backend = situ__backend(device);
  if (backend->trim) backend->trim(device.index);
  if (device.kind != SITU_CPU) return;
  if (mine) (void)empty_lists(mine, false);
  situ__handles_trim();
  situ__small_trim();
}

/* ---- limits -------------------------------------------------------------------------------- */

size_t situ__memory_limit(situ_device device) {
  situ__block_cache *blocks = situ__block_cache_of(device);
  if (!blocks) return SIZE_MAX;
  situ__mutex_lock(&blocks->lock);
  size_t limit = blocks->limit;
  situ__mutex_unlock(&blocks->lock);
  return limit;
}

size_t situ__memory_available(situ_device device) {
  situ__block_cache *blocks = situ__block_cache_of(device);
  const situ_backend *backend = situ__backend(device);
  situ_device_properties has = { 0 };
  if (!blocks || !backend || backend->no_memory) return SIZE_MAX;
  bool known = device.kind != SITU_CPU && backend->info && backend->info(device.index, &has) == SITU_OK;
  situ__mutex_lock(&blocks->lock);
  size_t most = blocks->total < blocks->limit ? blocks->total : blocks->limit, out = blocks->out;
  situ__mutex_unlock(&blocks->lock);
  if (known && has.memory_total < most) most = (size_t)has.memory_total;
  if (device.kind == SITU_CPU && mine) out -= (size_t)mine->kept;
  return most > out ? most - out : 0;
}

situ_status situ__memory_set_limit(const char *op, situ_device device, size_t bytes) {
  situ__block_cache *blocks = situ__block_cache_of(device);
  if (!blocks) return situ__no_memory(op, sizeof *blocks);
  if (device.kind == SITU_CPU && mine) (void)empty_lists(mine, true);
  situ__block_cache_limit(blocks, bytes);
  return SITU_OK;
}
