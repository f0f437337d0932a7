/* Storages: reference-counted pieces of device memory.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/refs.h"
#include "base/thread.h"
#include "device/dry.h"
#include "situ/sys/plain.h"
#include "situ/scope.h"

/* Bytes of the program's memory under storages, which the allocator does not count. */
static int64_t foreign;

/* Each thread reserves a million numbers at a time, so that threads seldom contend. */
enum { MANY = 1 << 20 };
static SITU__THREAD_LOCAL uint64_t serial; /* this thread's newest */

static uint64_t next_serial(void) {
  static uint64_t taken;
  if (!(serial % MANY)) serial = __atomic_fetch_add(&taken, MANY, __ATOMIC_RELAXED);
  return ++serial;
}

uint64_t situ__storage_newest(void) { return serial; }

bool situ__storage_since(const situ_storage *storage, uint64_t newest) {
  const uint64_t its = (storage->serial - 1) / MANY;
  return storage->serial > newest && (its == (newest - 1) / MANY || its == (serial - 1) / MANY);
}

/* A storage of which only `data` and `seat` are set. */
static __attribute__((noinline)) situ_storage *allocate_storage(const char *op, situ_device device, size_t bytes) {
  situ_storage *storage = situ__small_alloc(sizeof *storage);
  if (!storage) return situ__no_memory(op, sizeof *storage), NULL;
  storage->device = device;
  if (situ__seat_take(op, storage)) {
    if (situ__memory_alloc(op, device, bytes, &storage->data) == SITU_OK) return storage;
    situ__seat_leave(storage);
  }
  situ__small_free(storage, sizeof *storage);
  return NULL;
}

situ_storage *situ__storage_new(const char *op, situ_device device, size_t bytes) {
  if (situ__is_dry()) return situ__dry_storage(op, device, bytes, next_serial());
  situ_storage *storage = situ__memory_reuse(device, bytes);
  if (!storage && !(storage = allocate_storage(op, device, bytes))) return NULL;
  /* In two parts, since gcc clears a whole one in a loop. */
  memset(&storage->version, 0, offsetof(situ_storage, refs) - offsetof(situ_storage, version));
  memset(&storage->handles, 0, offsetof(situ_storage, seat) - offsetof(situ_storage, handles));
  storage->bytes = bytes;
  storage->device = device;
  storage->flags = SITU_STORAGE_UNWRITTEN;
  storage->refs = 1;
  storage->serial = next_serial();
  return storage;
}

/* Memory of the program. */
static void free_foreign(const situ_storage *storage) {
  const situ_backend *backend = situ__backend(storage->device);
  if (backend->give_back && storage->data) backend->give_back(storage->device.index, storage->data);
  if (storage->release) storage->release(storage->payload);
}

situ_storage *situ__storage_foreign(const char *op, situ_device device, void *data, size_t bytes,
                                    void (*release)(void *), void *payload) {
  const situ_storage made = { .data = data,
                              .bytes = bytes,
                              .device = device,
                              .flags = SITU_STORAGE_FOREIGN,
                              .refs = 1,
                              .release = release,
                              .payload = payload,
                              .serial = next_serial() };
  situ_storage *storage = situ__small_alloc(sizeof *storage);
  if (storage) *storage = made;
  else situ__no_memory(op, sizeof *storage);
  if (!storage || !situ__seat_take(op, storage)) {
    free_foreign(&made);
    situ__small_free(storage, sizeof *storage);
    return NULL;
  }
  (void)__atomic_add_fetch(&foreign, (int64_t)bytes, __ATOMIC_RELAXED);
  return storage;
}

situ_storage *situ__storage_sample(const char *op, situ_device device, size_t bytes) {
  situ_storage *storage = situ__small_alloc(sizeof *storage);
  if (!storage) return situ__no_memory(op, sizeof *storage), NULL;
  *storage = (situ_storage){
    .bytes = bytes, .device = device, .flags = SITU_STORAGE_SAMPLE, .refs = 1, .serial = next_serial()
  };
  return storage;
}

void situ__storage_retain(situ_storage *storage) { situ__refs_add(&storage->refs); }

static void free_memory(situ_storage *storage) {
  if (storage->flags & SITU_STORAGE_FOREIGN) {
    (void)__atomic_sub_fetch(&foreign, (int64_t)storage->bytes, __ATOMIC_RELAXED);
    free_foreign(storage);
  } else if (storage->flags & SITU_STORAGE_SLICE) {
    situ__storage_release(storage->payload);
  } else if (storage->flags & SITU_STORAGE_SAMPLE) {
    if (storage->release) storage->release(storage->payload);
  } else {
    situ__memory_free(storage->device, storage->data, storage->bytes);
  }
}

void situ__storage_replace(situ_storage *storage, situ_storage *source, size_t at, size_t bytes, bool shared) {
  const uint32_t whose =
      SITU_STORAGE_FOREIGN | SITU_STORAGE_SLICE | SITU_STORAGE_READ_ONLY | SITU_STORAGE_PINNED | SITU_STORAGE_MAPPED;
  situ_storage old = { .data = storage->data, /* not all: other threads may look for relatives, and hold the lock */
                       .bytes = storage->bytes,
                       .device = storage->device,
                       .flags = storage->flags,
                       .recipe = storage->recipe,
                       .release = storage->release,
                       .payload = storage->payload };
  storage->device = source->device;
  storage->bytes = bytes;
  if (situ__is_void(storage)) situ__dry_freed(storage, old.device, old.bytes, true);
  __atomic_store_n(&storage->release, NULL, __ATOMIC_RELAXED); /* backing.h */
  storage->payload = NULL;
  storage->recipe = source->recipe; /* on meta */
  source->recipe = NULL;
  if (old.recipe) situ__device_up.release_recipe(old.recipe);
  uint32_t flags = old.flags & ~whose;
  if (flags & SITU_STORAGE_EXPOSED) flags = (flags & ~(uint32_t)SITU_STORAGE_EXPOSED) | SITU_STORAGE_LEFT;
  situ__storage_set_flags(storage, flags | (shared ? SITU_STORAGE_SLICE : 0));
  if (shared) {
    storage->data = source->data ? (char *)source->data + at : NULL; /* a dry run has none */
    storage->payload = source;
    if (!storage->seat) (void)situ__seat_take(NULL, storage); /* without one it has no name there, but source has one */
  } else {
    storage->data = source->data;
    source->data = NULL; /* source is empty now, so that its owner frees no memory */
    source->bytes = 0;
    situ__seat_swap(storage, source);
  }
  free_memory(&old);
}

void situ__storage_become_sample(situ_storage *storage, void (*release)(void *), void *payload) {
  situ_storage old = *storage;
  storage->data = NULL;
  storage->release = release;
  storage->payload = payload;
  situ__storage_set_flags(storage, SITU_STORAGE_SAMPLE);
  free_memory(&old);
}

void situ__storage_leave(situ_storage *storage, const char *where) {
  situ_storage old = *storage;
  storage->data = NULL;
  storage->release = NULL;
  storage->payload = (void *)(uintptr_t)where;
  situ__storage_set_flags(storage, SITU_STORAGE_AWAY | SITU_STORAGE_UNWRITTEN);
  situ__forget_written(storage);
  free_memory(&old);
}

void situ__storage_return(situ_storage *storage, situ_storage *source) {
  situ__storage_set_flags(storage, source->flags & SITU_STORAGE_UNWRITTEN);
  storage->written = source->written;
  source->written = NULL;
  storage->data = source->data;
  storage->payload = NULL;
  source->data = NULL;
  source->payload = (void *)(uintptr_t) "another tensor has got it";
  source->flags = SITU_STORAGE_AWAY | SITU_STORAGE_UNWRITTEN;
}

situ_status situ__refuse_held(const char *op, situ_storage *storage) {
  situ__described d = { "an operand", "" };
  situ__device_up.describe_storage(storage, &d);
  return situ__fail(SITU_E_STATE, op, "%s%s %s", d.what, d.where,
                    storage->flags & SITU_STORAGE_SENT
                        ? "is on its way to the other ranks, for the unit that computes next: write it behind the "
                          "module's forward, or when all ranks have called situ_dist_zero_reshard"
                        : "is mapped by the host; end that first (situ_data_release)");
}

/* Flags of storages whose memory is not a block of their own, or whose end is reported. */
enum { NOT_PLAIN = SITU_STORAGE_FOREIGN | SITU_STORAGE_SLICE | SITU_STORAGE_SAMPLE | SITU_STORAGE_VOID };

void situ__storage_release(situ_storage *storage) {
  if (!storage || !situ__refs_drop(&storage->refs)) return;
  const bool plain =
      !(storage->flags & NOT_PLAIN) && !storage->links && !storage->recipe && !storage->seat && !storage->written;
  if (plain && situ__memory_keep(storage)) return;
  if (storage->links) situ__unlink(storage);
  situ__forget_written(storage);
  situ__seat_leave(storage);
  if (storage->recipe) situ__device_up.release_recipe(storage->recipe);
  if (__builtin_expect(situ__is_void(storage), 0)) {
    situ__dry_freed(storage, storage->device, storage->bytes, false);
    free_memory(storage);
    situ__dry_discard(storage);
    return;
  }
  free_memory(storage);
  situ__small_free(storage, sizeof *storage);
}

int64_t situ_live_bytes(void) { return situ__memory_used() + __atomic_load_n(&foreign, __ATOMIC_RELAXED); }
