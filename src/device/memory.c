/* The caching allocator. Large memory fresh from the system costs sixteen times what the kernel
   that fills it does, so blocks are kept: in lists of the thread that freed them (host, small),
   else in one depot a device.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/thread.h"
#include "device/device.h"

/* ---- size classes -------------------------------------------------------------------------
   Multiples of 64 up to 1 KiB, then eight to a doubling: at most an eighth is wasted. */

enum {
  STEP = 64,
  LINEAR = 16,               /* classes of the first KiB */
  CLASSES = LINEAR + 8 * 52, /* up to 2^62 */
  SMALL = LINEAR + 8 * 10,   /* classes up to 1 MiB: those that threads keep lists of */
  KEEP_BYTES = 4 << 20       /* of one class in one thread; more goes to the depot */
};
static const size_t LARGEST = (size_t)1 << 62;

static inline unsigned class_of(size_t bytes, size_t *size) {
  if (bytes <= STEP * LINEAR) {
    unsigned class = (unsigned)((bytes - 1) / STEP);
    *size = (class + 1) * (size_t)STEP;
    return class;
  }
  unsigned log =
      63u - (unsigned)__builtin_clzll(bytes - 1); /* 2^log < bytes <= 2^(log+1), log >= 10 */
  size_t step = (size_t)1 << (log - 3);
  unsigned eighth = (unsigned)((bytes - 1 - ((size_t)1 << log)) / step);
  *size = ((size_t)1 << log) + (eighth + 1) * step;
  return LINEAR + 8 * (log - 10) + eighth;
}

/* ---- depots: the blocks of a device that nobody uses --------------------------------------- */

typedef struct stack {
  void **block;
  uint32_t count, capacity;
} stack;

typedef struct depot {
  pthread_mutex_t lock;
  situ_device device;
  stack class[CLASSES];
  size_t kept, limit; /* bytes in the classes, and the most that there may be */
  size_t total;       /* bytes that the host has; a device knows its own budget */
  int64_t used;       /* bytes in storages; for the host: without the threads' own counts */
} depot;

static depot *depots[SITU_DEVICE_KINDS][SITU__DEVICES_MAX];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* ---- a thread's lists (host only) ---------------------------------------------------------- */

typedef struct block {
  struct block *next;
} block;

typedef struct cache {
  block *first[SMALL];
  uint32_t count[SMALL];
  int64_t used; /* bytes allocated less bytes freed by this thread: may be negative */
  int64_t kept;
  struct cache *next, **link; /* the list of all threads' */
} cache;

static SITU__THREAD_LOCAL cache *mine;
static SITU__THREAD_LOCAL bool ended;
static cache *threads; /* under the host depot's lock */
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Written by one thread, read by whoever asks for statistics. */
static inline void count(int64_t *counter, int64_t change) {
  __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + change, __ATOMIC_RELAXED);
}

/* ---- opening ------------------------------------------------------------------------------ */

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

static depot *open_depot(situ_device device) {
  depot *d = situ__alloc_uncounted(sizeof *d);
  if (!d) return NULL;
  memset(d, 0, sizeof *d);
  d->device = device;
  d->total = device.kind == SITU_CPU ? host_total() : SIZE_MAX;
  d->limit = device.kind == SITU_CPU ? d->total / 4 : SIZE_MAX;
  (void)pthread_mutex_init(&d->lock, NULL);
  return d;
}

static depot *depot_of(situ_device device) {
  if (device.kind >= SITU_DEVICE_KINDS || device.index >= SITU__DEVICES_MAX) return NULL;
  depot **slot = &depots[device.kind][device.index];
  depot *found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  if (found) return found;
  pthread_mutex_lock(&opening);
  found = *slot;
  if (!found && (found = open_depot(device))) __atomic_store_n(slot, found, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&opening);
  return found;
}

static const situ_device host = { SITU_CPU, 0 };

/* A child may go on using host memory, so its locks must not be those that another thread held at
   the fork. */
static void before_fork(void) {
  pthread_mutex_lock(&opening);
  if (depots[SITU_CPU][0]) pthread_mutex_lock(&depots[SITU_CPU][0]->lock);
}

static void after_fork(void) {
  if (depots[SITU_CPU][0]) pthread_mutex_unlock(&depots[SITU_CPU][0]->lock);
  pthread_mutex_unlock(&opening);
}

static void thread_exit(void *memory);

static void prepare(void) {
  (void)pthread_key_create(&at_exit, thread_exit);
  (void)pthread_atfork(before_fork, after_fork, after_fork);
}

static cache *open_cache(void) {
  if (ended) return NULL;
  (void)pthread_once(&once, prepare);
  depot *d = depot_of(host);
  cache *c = d ? situ__alloc_uncounted(sizeof *c) : NULL;
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  pthread_mutex_lock(&d->lock);
  c->next = threads;
  c->link = &threads;
  if (threads) threads->link = &c->next;
  threads = c;
  pthread_mutex_unlock(&d->lock);
  (void)pthread_setspecific(at_exit, c);
  return mine = c;
}

/* ---- blocks to and from the depot ---------------------------------------------------------- */

static void back_to_device(situ_device device, void *data, size_t size) {
  const situ_backend *backend = situ__backend(device);
  if (backend->host_memory) SITU__UNPOISON(data, size);
  if (device.kind != SITU_CPU && situ__forked())
    return; /* the queue that it would wait for is the parent's */
  backend->free(device.index, data, size);
}

/* NULL: there is none of this class. */
static void *take(depot *d, unsigned class, size_t size) {
  void *data = NULL;
  stack *s = &d->class[class];
  pthread_mutex_lock(&d->lock);
  if (s->count) {
    data = s->block[--s->count];
    d->kept -= size;
  }
  pthread_mutex_unlock(&d->lock);
  return data;
}

/* Keeps a block, or gives it back if enough is kept or there is no room to note it. */
static void put(depot *d, unsigned class, size_t size, void *data) {
  stack *s = &d->class[class];
  pthread_mutex_lock(&d->lock);
  bool keep = size <= d->limit - d->kept;
  if (keep && s->count == s->capacity) {
    uint32_t capacity = s->capacity ? 2 * s->capacity : 8;
    void **more = situ__alloc_uncounted(capacity * sizeof *more);
    keep = more != NULL;
    if (keep) {
      if (s->count) memcpy(more, s->block, s->count * sizeof *more);
      situ__free(s->block);
      s->block = more;
      s->capacity = capacity;
    }
  }
  if (keep) {
    s->block[s->count++] = data;
    d->kept += size;
  }
  pthread_mutex_unlock(&d->lock);
  if (!keep) back_to_device(d->device, data, size);
}

static size_t size_of_class(unsigned class) {
  if (class < LINEAR) return (class + 1) * (size_t)STEP;
  unsigned log = (class - LINEAR) / 8 + 10;
  return ((size_t)1 << log) + ((class - LINEAR) % 8 + 1) * ((size_t)1 << (log - 3));
}

/* Gives back all that the depot keeps: the blocks leave it under its lock, the device without. */
static bool empty_depot(depot *d) {
  bool any = false;
  for (unsigned class = 0; class < CLASSES; class ++) {
    size_t size = size_of_class(class);
    pthread_mutex_lock(&d->lock);
    stack s = d->class[class];
    d->class[class] = (stack){ 0 };
    d->kept -= s.count * size;
    pthread_mutex_unlock(&d->lock);
    for (uint32_t i = 0; i < s.count; i++) back_to_device(d->device, s.block[i], size);
    any |= s.count > 0;
    situ__free(s.block);
  }
  return any;
}

/* ---- the thread's lists -------------------------------------------------------------------- */

static inline void *pop(cache *c, unsigned class, size_t size) {
  block *b = c->first[class];
  if (!b) return NULL;
  SITU__UNPOISON(b, size);
  c->first[class] = b->next;
  c->count[class]--;
  count(&c->kept, -(int64_t)size);
  return b;
}

static inline void push(cache *c, unsigned class, size_t size, void *data) {
  block *b = data;
  SITU__UNPOISON(b, sizeof *b);
  b->next = c->first[class];
  c->first[class] = b;
  c->count[class]++;
  count(&c->kept, (int64_t)size);
  SITU__POISON(b + 1, size - sizeof *b); /* the link stays readable, or leaks could not be told */
}

static bool empty_lists(cache *c, depot *to) {
  bool any = false;
  for (unsigned class = 0; class < SMALL; class ++) {
    size_t size = size_of_class(class);
    for (void *data; (data = pop(c, class, size)) != NULL; any = true) {
      if (to)
        put(to, class, size, data);
      else
        back_to_device(host, data, size);
    }
  }
  return any;
}

static void thread_exit(void *memory) {
  cache *c = memory;
  depot *d = depot_of(host);
  (void)empty_lists(c, d);
  pthread_mutex_lock(&d->lock);
  d->used += c->used;
  *c->link = c->next;
  if (c->next) c->next->link = c->link;
  pthread_mutex_unlock(&d->lock);
  situ__free(c);
  mine = NULL;
  ended = true;
}

/* ---- the interface ------------------------------------------------------------------------ */

static situ_status no_memory(const char *op, situ_device device, size_t bytes) {
  char name[SITU_DEVICE_NAME_MAX];
  int64_t used, kept;
  situ__memory_stats(device, &used, &kept);
  return situ__fail(SITU_E_NOMEM, op, "no memory for %zu bytes on %s (%lld bytes are in use there)",
                    bytes, situ_device_name(device, name), (long long)used);
}

/* From the device itself. */
static situ_status ask(depot *d, size_t size, void **data) {
  int64_t used, kept;
  if (d->total != SIZE_MAX) {
    situ__memory_stats(d->device, &used, &kept);
    if (size > d->total || (size_t)(used + kept) > d->total - size) return SITU_E_NOMEM;
  }
  return situ__backend(d->device)->alloc(d->device.index, size, data);
}

/* The same, and out of memory there, once more without the cache. */
static situ_status fresh(const char *op, depot *d, size_t bytes, size_t size, void **data) {
  uint64_t before = situ__error_count();
  situ_status status = ask(d, size, data);
  if (status == SITU_E_NOMEM && situ__error_count() == before) {
    bool any = empty_depot(d);
    if (d->device.kind == SITU_CPU && mine) any |= empty_lists(mine, NULL);
    if (any) status = ask(d, size, data);
    if (status == SITU_E_NOMEM && situ__error_count() == before)
      return no_memory(op, d->device, bytes);
  }
  if (status != SITU_OK) return situ__device_failed(op, d->device, status, before, "allocating");
  return SITU_OK;
}

void situ__memory_count(situ_device device, int64_t bytes) {
  cache *c = mine;
  if (device.kind == SITU_CPU && (c || (c = open_cache()))) {
    count(&c->used, bytes);
    return;
  }
  depot *d = depot_of(device);
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  d->used += bytes;
  pthread_mutex_unlock(&d->lock);
}

situ_status situ__memory_alloc(const char *op, situ_device device, size_t bytes, void **data) {
  *data = NULL;
  if (bytes == 0) return SITU_OK;
  if (situ__alloc_refused() || bytes > LARGEST) return no_memory(op, device, bytes);
  size_t size;
  unsigned class = class_of(bytes, &size);
  cache *c = mine;
  if (device.kind == SITU_CPU && class < SMALL && c) *data = pop(c, class, size);
  if (!*data) {
    const situ_backend *backend = situ__backend(device);
    if (!backend || backend->no_memory) return SITU_OK;
    situ_status status = situ__device_usable(op, device);
    if (status != SITU_OK) return status;
    depot *d = depot_of(device);
    if (!d) return no_memory(op, device, bytes);
    *data = take(d, class, size);
    if (!*data && (status = fresh(op, d, bytes, size, data)) != SITU_OK) {
      *data = NULL;
      return status;
    }
  }
  if (device.kind == SITU_CPU) {
    SITU__POISON((char *)*data, size);
    SITU__UNPOISON((char *)*data, bytes);
  }
  situ__memory_count(device, (int64_t)bytes);
  return SITU_OK;
}

void situ__memory_free(situ_device device, void *data, size_t bytes) {
  if (!data) return;
  size_t size;
  unsigned class = class_of(bytes, &size);
  situ__memory_count(device, -(int64_t)bytes);
  cache *c = mine;
  if (device.kind == SITU_CPU && class < SMALL && c && c->count[class] * size < KEEP_BYTES) {
    push(c, class, size, data);
    return;
  }
  depot *d = depot_of(device); /* there: the block came through it */
  if (device.kind == SITU_CPU) SITU__POISON(data, size);
  if (situ__device_lost(device))
    back_to_device(device, data, size);
  else
    put(d, class, size, data);
}

void situ__memory_trim(situ_device device) {
  depot *d = depot_of(device);
  if (d) (void)empty_depot(d);
  if (device.kind != SITU_CPU) return;
  if (mine) (void)empty_lists(mine, NULL);
  situ__small_trim();
}

void situ__memory_stats(situ_device device, int64_t *used, int64_t *cached) {
  int64_t in_use = 0, kept = 0;
  depot *d = depot_of(device);
  if (d) {
    pthread_mutex_lock(&d->lock);
    in_use = d->used;
    kept = (int64_t)d->kept;
    if (device.kind == SITU_CPU) {
      for (cache *c = threads; c; c = c->next) {
        in_use += __atomic_load_n(&c->used, __ATOMIC_RELAXED);
        kept += __atomic_load_n(&c->kept, __ATOMIC_RELAXED);
      }
    }
    pthread_mutex_unlock(&d->lock);
  }
  *used = in_use;
  *cached = kept;
}

int64_t situ__live_bytes(void) {
  int64_t total = 0;
  for (unsigned kind = SITU_CPU; kind < SITU_DEVICE_KINDS; kind++) {
    for (unsigned index = 0; index < SITU__DEVICES_MAX; index++) {
      if (!__atomic_load_n(&depots[kind][index], __ATOMIC_ACQUIRE)) continue;
      int64_t used, cached;
      situ__memory_stats((situ_device){ (uint16_t)kind, (uint16_t)index }, &used, &cached);
      total += used;
    }
  }
  return total;
}
