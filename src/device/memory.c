/* The caching allocator. Large memory fresh from the system costs sixteen times what the kernel
   that fills it does, so blocks are kept: small ones of the host in lists of the thread that freed
   them, all others in the device's depot.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/text.h"
#include "base/thread.h"
#include "device/depot.h"

enum { KEEP_BYTES = 4 << 20 }; /* of one size in one thread; more goes to the depot */

static const situ_device host = { SITU_CPU, 0 };

/* ---- a thread's lists (host only) ---------------------------------------------------------- */

typedef struct block {
  struct block *next;
} block;

typedef struct cache {
  block *first[SITU__BLOCK_SMALL];
  uint32_t count[SITU__BLOCK_SMALL];
  int64_t used; /* bytes allocated less bytes freed by this thread: may be negative */
  int64_t kept;
  int64_t tensors; /* made less freed by this thread: may be negative */
  struct cache *next, **link; /* the list of all threads' */
} cache;

static SITU__THREAD_LOCAL cache *mine;
static SITU__THREAD_LOCAL bool ended;
static cache *threads; /* under the host depot's lock */
static int64_t tensors; /* those that threads counted that have no cache any more */
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Written by one thread, read by whoever asks for statistics. */
static inline void count(int64_t *counter, int64_t change) {
  __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + change, __ATOMIC_RELAXED);
}

static inline void *pop(cache *c, unsigned number, size_t size) {
  block *b = c->first[number];
  if (!b) return NULL;
  SITU__UNPOISON(b, size);
  c->first[number] = b->next;
  c->count[number]--;
  count(&c->kept, -(int64_t)size);
  return b;
}

static inline void push(cache *c, unsigned number, size_t size, void *data) {
  block *b = data;
  SITU__UNPOISON(b, sizeof *b);
  b->next = c->first[number];
  c->first[number] = b;
  c->count[number]++;
  count(&c->kept, (int64_t)size);
  SITU__POISON(b + 1, size - sizeof *b); /* the link stays readable, or leaks could not be told */
}

/* To the depot, or without one back to the system; true if there was anything. */
static bool empty_lists(cache *c, situ__depot *to) {
  bool any = false;
  for (unsigned number = 0; number < SITU__BLOCK_SMALL; number++) {
    size_t size = situ__block_size(number);
    for (void *data; (data = pop(c, number, size)) != NULL; any = true) {
      if (to)
        situ__depot_put(to, number, size, data);
      else
        situ__depot_give_back(host, data, size);
    }
  }
  return any;
}

static void thread_exit(void *memory) {
  cache *c = memory;
  situ__depot *depot = situ__depot_of(host);
  (void)empty_lists(c, depot);
  pthread_mutex_lock(&depot->lock);
  depot->used += c->used;
  (void)__atomic_add_fetch(&tensors, c->tensors, __ATOMIC_RELAXED);
  *c->link = c->next;
  if (c->next) c->next->link = c->link;
  pthread_mutex_unlock(&depot->lock);
  situ__free(c);
  mine = NULL;
  ended = true;
}

static void prepare(void) {
  (void)pthread_key_create(&at_exit, thread_exit);
  situ__depot_watch_forks();
}

static cache *open_cache(void) {
  if (ended) return NULL;
  (void)pthread_once(&once, prepare);
  situ__depot *depot = situ__depot_of(host);
  cache *c = depot ? situ__alloc_uncounted(sizeof *c) : NULL;
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  pthread_mutex_lock(&depot->lock);
  c->next = threads;
  c->link = &threads;
  if (threads) threads->link = &c->next;
  threads = c;
  pthread_mutex_unlock(&depot->lock);
  (void)pthread_setspecific(at_exit, c);
  return mine = c;
}

/* ---- statistics ---------------------------------------------------------------------------- */

static void count_used(situ_device device, int64_t bytes) {
  cache *c = mine;
  if (device.kind == SITU_CPU && (c || (c = open_cache()))) {
    count(&c->used, bytes);
    return;
  }
  situ__depot *depot = situ__depot_of(device);
  if (!depot) return;
  pthread_mutex_lock(&depot->lock);
  depot->used += bytes;
  pthread_mutex_unlock(&depot->lock);
}

void situ__memory_stats(situ_device device, int64_t *used, int64_t *cached) {
  *used = *cached = 0;
  situ__depot *depot = situ__depot_of(device);
  if (!depot) return;
  pthread_mutex_lock(&depot->lock);
  *used = depot->used;
  *cached = (int64_t)depot->kept;
  for (cache *c = device.kind == SITU_CPU ? threads : NULL; c; c = c->next) {
    *used += __atomic_load_n(&c->used, __ATOMIC_RELAXED);
    *cached += __atomic_load_n(&c->kept, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&depot->lock);
}

void situ__count_tensor(int64_t change) {
  cache *c = mine;
  if (c || (c = open_cache())) count(&c->tensors, change);
  else (void)__atomic_add_fetch(&tensors, change, __ATOMIC_RELAXED);
}

int64_t situ__tensors_alive(void) {
  situ__depot *depot = situ__depot_of(host);
  if (!depot) return 0;
  pthread_mutex_lock(&depot->lock);
  int64_t total = __atomic_load_n(&tensors, __ATOMIC_RELAXED);
  for (const cache *c = threads; c; c = c->next) total += __atomic_load_n(&c->tensors, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&depot->lock);
  return total;
}

int64_t situ__memory_used(void) {
  int64_t total = 0, used, cached;
  for (unsigned kind = SITU_CPU; kind < SITU_DEVICE_KINDS; kind++) {
    for (unsigned index = 0; index < SITU__DEVICES_MAX; index++) {
      if (!situ__depot_if_open(kind, index)) continue;
      situ__memory_stats((situ_device){ (uint16_t)kind, (uint16_t)index }, &used, &cached);
      total += used;
    }
  }
  return total;
}

/* ---- allocating and freeing ---------------------------------------------------------------- */

static SITU_COLD situ_status no_memory(const char *op, situ_device device, size_t bytes) {
  char name[SITU_DEVICE_NAME_MAX], wanted[SITU__BYTES_TEXT], held[SITU__BYTES_TEXT];
  int64_t used, kept;
  situ__memory_stats(device, &used, &kept);
  return situ__fail(SITU_E_NOMEM, op, "no memory for %s on %s (%s in use there)", situ__bytes_text(bytes, wanted),
                    situ_device_name(device, name), situ__bytes_text((uint64_t)used, held));
}

/* A block from the device itself. */
static situ_status ask(situ__depot *depot, size_t size, void **data) {
  if (depot->total != SIZE_MAX) {
    int64_t used, kept;
    situ__memory_stats(depot->device, &used, &kept);
    if (size > depot->total || (size_t)(used + kept) > depot->total - size) return SITU_E_NOMEM;
  }
  return situ__backend(depot->device)->alloc(depot->device.index, size, data);
}

/* The same, and out of memory there, once more without the cache. */
static situ_status fresh(const char *op, situ__depot *depot, size_t bytes, size_t size,
                         void **data) {
  uint64_t before = situ__error_count();
  situ_status status = ask(depot, size, data);
  if (status == SITU_E_NOMEM && situ__error_count() == before) {
    bool any = situ__depot_empty(depot);
    if (depot->device.kind == SITU_CPU && mine) any |= empty_lists(mine, NULL);
    if (any) status = ask(depot, size, data);
    if (status == SITU_E_NOMEM && situ__error_count() == before)
      return no_memory(op, depot->device, bytes);
  }
  if (status == SITU_OK) return SITU_OK;
  return situ__device_failed(op, depot->device, status, before, "allocating");
}

situ_status situ__memory_alloc(const char *op, situ_device device, size_t bytes, void **data) {
  *data = NULL;
  if (bytes == 0) return SITU_OK;
  if (situ__alloc_refused() || bytes > SITU__BLOCK_LARGEST) return no_memory(op, device, bytes);
  size_t size;
  unsigned number = situ__block_number(bytes, &size);
  cache *c = mine;
  if (device.kind == SITU_CPU && number < SITU__BLOCK_SMALL && c) *data = pop(c, number, size);
  if (!*data) {
    const situ_backend *backend = situ__backend(device);
    if (!backend || backend->no_memory) return SITU_OK;
    situ_status status = situ__device_usable(op, device);
    if (status != SITU_OK) return status;
    situ__depot *depot = situ__depot_of(device);
    if (!depot) return no_memory(op, device, bytes);
    *data = situ__depot_take(depot, number, size);
    if (!*data && (status = fresh(op, depot, bytes, size, data)) != SITU_OK) {
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
  if (!data) return;
  size_t size;
  unsigned number = situ__block_number(bytes, &size);
  count_used(device, -(int64_t)bytes);
  cache *c = mine;
  if (device.kind == SITU_CPU && number < SITU__BLOCK_SMALL && c &&
      c->count[number] * size < KEEP_BYTES) {
    push(c, number, size, data);
    return;
  }
  if (device.kind == SITU_CPU) SITU__POISON(data, size);
  if (situ__device_lost(device))
    situ__depot_give_back(device, data, size);
  else
    situ__depot_put(situ__depot_of(device), number, size, data); /* there: the block was its */
}

void situ__memory_trim(situ_device device) {
  situ__depot *depot = situ__depot_of(device);
  if (depot) (void)situ__depot_empty(depot);
  const situ_backend *backend = situ__backend(device);
  if (backend->trim) backend->trim(device.index);
  if (device.kind != SITU_CPU) return;
  if (mine) (void)empty_lists(mine, NULL);
  situ__handles_trim();
  situ__small_trim();
}
