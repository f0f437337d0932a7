/* Floor 1: the registry of backends, storages and their memory, and the one way to a kernel slot.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_DEVICE_H
#define SITU_DEVICE_DEVICE_H

#include "base/dtype.h"
#include "base/thread.h"
#include "device/ledger/ledger.h"
#include "situ/sys/backend.h"

/* No machine has more devices of one kind: a larger index in a name is a mistake. */
enum { SITU__DEVICES_MAX = 64 };

/* ---- registry (registry.c, name.c) ---- */
/* The backend of a kind; NULL if this build has none. No lock after the first call. */
const situ_backend *situ__backend(situ_device device);
static inline bool situ__same_device(situ_device a, situ_device b) { return a.kind == b.kind && a.index == b.index; }
/* Is there such a device? False: recorded. */
bool situ__device_there(const char *op, situ_device device);
/* The device meant: itself, or the thread's default for {0}; checks that it is there. False: the
   error is recorded under op, with the reason why the device is not there. Fast for cpu. */
bool situ__device_resolve(const char *op, situ_device wanted, situ_device *out);
/* What this thread has set: see settings.c. */
extern SITU__THREAD_LOCAL situ_setting situ__setting;
/* All that was begun since is over: it is as it was. */
void situ__setting_back(const situ_setting *before);
/* What autocast scopes say of a kind of device, four bits a kind in situ_setting.autocast: nothing (0), a dtype, or that
   nothing is cast there. One bit for the whole: casts are not kept. autocast_at: where the innermost was begun; NULL: cannot
   be told. */
enum { SITU__AUTOCAST_OFF = 15 };
#define SITU__AUTOCAST_NO_CACHE (1u << 31)
static inline unsigned situ__autocast_of(uint32_t autocast, unsigned kind) { return autocast >> 4 * kind & 15; }
/* Must a device be stated, and is none, not even by a scope? */
bool situ__unstated_forbidden(void);
/* "cpu", "cuda", ...; NULL for a number that is no kind. */
const char *situ__kind_name(unsigned kind);
/* Each backend's one exported symbol. sim's slots are those that cpu has, so it is filled when
   first asked for. */
extern const situ_backend situ__cpu_backend, situ__meta_backend; /* for src/wiring.c */
const situ_backend *situ__sim_backend(void);

/* ---- modules (module.c): backends in files of their own, opened at run time ---- */
/* Opens <library's directory>/situ/<abi>/libsitu-<name>.so, or the same file in $SITU_MODULE_DIR
   (an absolute path, not followed in a setuid program); never anything relative to the current
   directory. NULL: `why` says why. */
const situ_backend *situ__module_open(const char *name, situ_device_kind kind, char *why, size_t size);

/* ---- storage (storage.c) ---- */
/* A storage of `bytes` on a device, with one owner; NULL: recorded under op (NOMEM with sizes,
   LOST, ...). Its memory comes from the caching allocator. bytes 0 and meta devices have data
   NULL. */
situ_storage *situ__storage_new(const char *op, situ_device device, size_t bytes);
/* On foreign host memory; on failure release is called. */
situ_storage *situ__storage_foreign(const char *op, void *data, size_t bytes, void (*release)(void *), void *payload);
void situ__storage_retain(situ_storage *storage);
void situ__storage_release(situ_storage *storage);

/* The storage gets the memory of `room` (from byte `at` on, if room is shared by several) and lets go of its own; owners,
   version and links stay. Of a room that is shared it takes over one ownership; another one is empty afterwards. Cannot
   fail. */
void situ__storage_replace(situ_storage *storage, situ_storage *room, size_t at, size_t bytes, bool shared);

/* ---- followers (follow.c): storages that go where another one goes ---- */
/* `storage` goes from now on where `leader` goes (NULL: nowhere by itself). Refused: a circle. False: recorded. */
bool situ__follow(const char *op, situ_storage *storage, situ_storage *leader);
/* Its leader; NULL: none. */
situ_storage *situ__leader(const situ_storage *storage);
/* Calls visit for each direct follower, under a lock: visit must not change who follows whom. False: visit said so. */
bool situ__each_follower(const situ_storage *leader, bool (*visit)(situ_storage *follower, void *payload),
                         void *payload);
/* A storage dies: its followers stay where they are. */
void situ__unlink(situ_storage *storage);

/* ---- memory (memory.c): the caching allocator over a backend's alloc and free ---- */
/* Below 1 MiB: thread-local lists of size classes (host) or locked ones (devices); above: cached
   blocks, 2 MiB-aligned with huge pages on the host. What is kept is bounded (depot.h). Out of memory: gives the cache
   back once and tries again. */
situ_status situ__memory_alloc(const char *op, situ_device device, size_t bytes, void **data);
void situ__memory_free(situ_device device, void *data, size_t bytes);
/* Gives back what nobody uses: all of a device's cache; of the host's, the shared blocks and this
   thread's lists. */
void situ__memory_trim(situ_device device);
/* Bytes in live storages, and bytes kept for reuse. While other threads allocate and free, a
   storage may be counted by halves. */
void situ__memory_stats(situ_device device, int64_t *used, int64_t *cached);
/* Bytes that a storage of so many takes: those of its block. The plan of a move counts with it too. */
size_t situ__memory_block(size_t bytes);
/* Bytes that the library has of a device: the blocks under storages, in whole, and what is kept. */
size_t situ__memory_reserved(situ_device device);
/* The most that they may be; SIZE_MAX: no limit was set. */
size_t situ__memory_limit(situ_device device);
/* Bytes of blocks that may still come, were the cache empty; as far as the device tells how much it has. */
size_t situ__memory_room(situ_device device);
situ_status situ__memory_set_limit(const char *op, situ_device device, size_t bytes);
/* The first of the statistics, of all devices together. */
int64_t situ__memory_used(void);
/* A tensor more or less, counted where its memory is: by the thread, so that threads do not meet. */
void situ__count_tensor(int64_t change);
int64_t situ__tensors_alive(void);

/* ---- copies (copy.c): each goes through the ledger ---- */
situ_status situ__copy_from_host(const char *op, situ_storage *to, size_t at, const void *host, size_t bytes,
                                 situ__copy_reason why);
situ_status situ__copy_to_host(const char *op, situ_storage *from, size_t at, void *host, size_t bytes,
                               situ__copy_reason why);
/* Any device to any device; staged through the host where the backends differ. */
situ_status situ__copy_storage(const char *op, situ_storage *to, size_t to_at, situ_storage *from, size_t from_at,
                               size_t bytes, situ__copy_reason why);
/* The same of a temporary's memory, made to copy `about` from byte `at` on: the ledger is to name that. */
situ_status situ__copy_storage_of(const char *op, situ_storage *to, size_t to_at, situ_storage *from, size_t from_at,
                                  size_t bytes, situ__copy_reason why, situ_storage *about, size_t at);

/* ---- work (work.c) ---- */
/* Runs or queues work on a device: checks that every value it starts from has been written (STATE
   names the tensor), that the slot is there (UNSUPPORTED names op, dtype, device and the kinds of
   device that can), that the process has not forked, that the device is not lost; bumps the version of each distinct output storage and clears its unwritten flag. */
situ_status situ__run(const char *op, situ_device device, const situ_work *work);
/* Refuses to start from values that were never written. */
situ_status situ__refuse_unwritten(const char *op, situ_storage *storage);
typedef struct situ__described {
  char what[384];  /* "`x` ([2] f32)" */
  char where[260]; /* " at train.c:12 in step"; "" where it cannot be told */
} situ__described;
/* What this floor asks of those above it, which know tensors, and of the backends; src/wiring.c fills it in. */
typedef struct situ__device_upcalls {
  /* Describes a storage's tensor by its name or its shape, and where it was made. */
  void (*describe_storage)(situ_storage *storage, situ__described *to);
  /* Writes what a storage is called, by the most telling of its tensors; returns what that is for (a situ_role). */
  uint8_t (*storage_subject)(situ_storage *storage, char *name, size_t size);
  /* Drops the casts that autocast keeps: the outermost scope has ended, or they are not wanted any more. */
  void (*forget_casts)(void);
  const situ_backend *cpu, *meta;
  const situ_backend *(*sim)(void);
} situ__device_upcalls;
extern const situ__device_upcalls situ__device_up;
bool situ__has_verb(situ_device device, situ_verb verb);
/* *offered: it has, and does this piece of work of a verb that may be absent; never on meta, nor in a dry run. */
situ_status situ__offers(const char *op, situ_device device, const situ_work *work, bool *offered);
/* "matmul", "copy": static text, "?" for a number that is no verb. */
const char *situ__verb_name(situ_verb verb);
/* May work be given to this device now? STATE after a fork, LOST (sticky, with the same text each
   time). */
situ_status situ__device_usable(const char *op, situ_device device);
/* Turns the status of a backend's slot into an error of op, unless the slot has recorded one
   itself since `before` (situ__error_count); LOST marks the device. Returns status. */
situ_status situ__device_failed(const char *op, situ_device device, situ_status status, uint64_t before,
                                const char *what);
bool situ__device_lost(situ_device device);
/* A device that came back (a simulated one that was reset). */
void situ__device_found(situ_device device);
/* A write to a storage: version and unwritten flag. */
void situ__storage_wrote(situ_storage *storage);

/* ---- recipes (recipe.c): how the values of a storage on meta come about ---- */
/* A storage on meta is unwritten, or has a recipe, or was written with values that nobody has: it
   cannot leave meta then. Are its values to be had on another device? */
static inline bool situ__recipe_has(const situ_storage *meta) { return meta->recipe != NULL; }
/* Does on to's device what was done to the storage on meta; `to` is new, and as large. The bits are
   those that the device would have computed had it been asked at once. False: recorded. */
bool situ__recipe_replay(const char *op, const situ_storage *from, situ_storage *to);
/* Work that was asked for on meta: a step more in the recipes of what it writes, or the end of them
   where it cannot be repeated (an input's values are not to be had, too many steps, an optimiser's).
   False: no memory, recorded. */
bool situ__recipe_add(const char *op, const situ_work *work);
/* A write of which no recipe is kept. */
void situ__recipe_lose(situ_storage *storage);
void situ__recipe_release(struct situ_recipe *recipe);

/* ---- provenance (site.c) ---- */
/* The return address of the innermost frame outside the library: walks this library's own frame
   pointers. NULL: cannot be told. A program that links libsitu.a gets it too if the archive's text
   is in a section of its own (situ_text). */
void *situ__call_site(void);
/* The module that exports `symbol` is part of the library: its frames are nobody's call. */
void situ__site_add_module(const void *symbol);
/* Is this an address in the library's own code? */
bool situ__own_code(const void *address);
/* "train.c:12 in step" where line tables are found (libdw), else "step+0x1f (program)"; "" for
   NULL. Returns buffer. */
const char *situ__site_text(void *site, char *buffer, size_t size);

#endif
