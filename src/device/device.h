/* Floor 1: the registry of backends, storages and their memory, and the only path to a kernel slot.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_DEVICE_H
#define SITU_DEVICE_DEVICE_H

#include <string.h>

#include "base/dtype.h"
#include "base/map.h"
#include "base/thread.h"
#include "device/ledger/ledger.h"
#include "situ/sys/backend.h"

/* More than any machine has of one kind: larger indices in names are errors. */
enum { SITU__DEVICES_MAX = 64 };

/* ---- registry (registry.c, name.c) ---- */
/* The single exported symbol of each backend. sim copies cpu's slots, so it is filled on first use. */
extern const situ_backend situ__cpu_backend, situ__meta_backend; /* for src/wiring.c */
const situ_backend *situ__sim_backend(void);
/* Compared as one number: every launch asks it for each operand. */
static inline bool situ__same_device(situ_device a, situ_device b) {
  uint32_t x, y;
  _Static_assert(sizeof a == sizeof x, "kind and index fill it");
  memcpy(&x, &a, sizeof x);
  memcpy(&y, &b, sizeof y);
  return x == y;
}
/* Returns false after recording an error if the device does not exist. */
bool situ__device_there(const char *op, situ_device device);
/* Sets *out to the wanted device, or to the thread's default for {0}. Returns false after recording an error of op,
   with the reason, if it does not exist. Fast for cpu. */
bool situ__device_resolve(const char *op, situ_device wanted, situ_device *out);
/* This thread's settings: see settings.c. */
extern SITU__THREAD_LOCAL situ_setting situ__setting;
/* Restores the settings, which ends all scopes begun since. */
void situ__setting_back(const situ_setting *before);
/* What autocast scopes set for a kind of device, in four bits per kind of situ_setting.autocast: 0 (nothing), a
   dtype, or SITU__AUTOCAST_OFF. One more bit: casts are not cached. autocast_at: call site of the innermost scope;
   NULL: unknown. */
enum { SITU__AUTOCAST_OFF = 15 };
#define SITU__AUTOCAST_NO_CACHE (1u << 31)
static inline unsigned situ__autocast_of(uint32_t autocast, unsigned kind) { return autocast >> 4 * kind & 15; }
/* Returns true if the policy requires a stated device, and neither a default nor a scope states one. */
bool situ__unstated_forbidden(void);
/* "cpu", "cuda", ...; NULL if the number is not a kind. */
const char *situ__kind_name(unsigned kind);

/* ---- modules (module.c): backends in shared libraries, opened at run time ---- */
/* Opens <library's directory>/situ/<abi>/libsitu-<name>.so, or the same file in $SITU_MODULE_DIR (an absolute path,
   ignored in a setuid program); never a path relative to the current directory. Returns NULL with the reason in
   `why`. */
const situ_backend *situ__module_open(const char *name, situ_device_kind kind, char *why, size_t size);

/* ---- storage (storage.c) ---- */
/* Returns a storage of `bytes` on a device, with one owner; NULL after recording an error of op (NOMEM with sizes,
   LOST, ...). Its memory comes from the caching allocator. data is NULL on meta and for 0 bytes. */
situ_storage *situ__storage_new(const char *op, situ_device device, size_t bytes);
/* Returns a storage on foreign host memory; on failure calls release and returns NULL. */
situ_storage *situ__storage_foreign(const char *op, void *data, size_t bytes, void (*release)(void *), void *payload);
/* Flags of storages without memory of their own, which is neither read nor written. */
enum { SITU__STORAGE_NOWHERE = SITU_STORAGE_SAMPLE | SITU_STORAGE_AWAY };
/* Frees the storage's memory, which is elsewhere as `where` says; and gives it memory again, that of `source`, whose
   values are away then. Owners, version and links stay. Neither can fail. */
void situ__storage_leave(situ_storage *storage, const char *where);
void situ__storage_return(situ_storage *storage, situ_storage *source);
/* A storage that stands for one sample of other memory, of which its maker keeps account in `payload`. */
situ_storage *situ__storage_sample(const char *op, situ_device device, size_t bytes);
/* Frees the storage's memory: it stands for one sample from now on. */
void situ__storage_become_sample(situ_storage *storage, void (*release)(void *), void *payload);
/* The number of this thread's newest storage, and whether it has made `storage` after that one. False for some that it
   has made a million storages ago. */
uint64_t situ__storage_newest(void);
bool situ__storage_since(const situ_storage *storage, uint64_t newest);
/* Records that an operand of op is one sample of many, which a call of all samples does not read. */
situ_status situ__refuse_sample(const char *op, situ_storage *storage) SITU_COLD;
void situ__storage_retain(situ_storage *storage);
void situ__storage_release(situ_storage *storage);

/* Gives the storage the memory of `source` (from byte `at` on, if several storages share it) and frees its old
   memory; owners, version and links stay. The storage takes over one reference to a shared source; any other source is
   empty afterwards. Cannot fail. */
void situ__storage_replace(situ_storage *storage, situ_storage *source, size_t at, size_t bytes, bool shared);

/* ---- followers (follow.c): storages that move together with another one ---- */
/* Makes `storage` move wherever `leader` moves (NULL: only by itself). Returns false after recording an error (a
   cycle). */
bool situ__follow(const char *op, situ_storage *storage, situ_storage *leader);
/* Returns the leader; NULL if it has none. */
situ_storage *situ__leader(const situ_storage *storage);
/* Calls visit for each direct follower, under a lock: visit must not change any followers. Returns false if visit
   did. */
bool situ__each_follower(const situ_storage *leader, bool (*visit)(situ_storage *follower, void *payload),
                         void *payload);
/* Whether a follower may have followers itself; for a visit. */
bool situ__leads(const situ_storage *follower);
/* For a storage that is being freed: its followers stay where they are. */
void situ__unlink(situ_storage *storage);

/* ---- memory (memory.c): the caching allocator over a backend's alloc and free ---- */
/* Below 1 MiB, free blocks are in thread-local lists of size classes (host) or in locked ones (devices); above, in
   the locked cache, on the host aligned to 2 MiB for huge pages. The cache is bounded (depot.h). When memory runs
   out, it frees the cache once and retries. */
situ_status situ__memory_alloc(const char *op, situ_device device, size_t bytes, void **data);
void situ__memory_free(situ_device device, void *data, size_t bytes);
/* A storage of the host that this thread has freed, with `data` for so many bytes; its other fields are old. NULL if
   it keeps none of that size. Never fails, so it keeps away while failures of allocations are asked for. */
situ_storage *situ__memory_reuse(situ_device device, size_t bytes);
/* Keeps a storage that was freed, with its own memory, for situ__memory_reuse. Returns false, with nothing done, if it
   does not keep such ones. */
bool situ__memory_keep(situ_storage *storage);
/* Frees unused cached memory: all of a device's cache; of the host's, the shared blocks and this thread's lists. */
void situ__memory_trim(situ_device device);
/* Bytes in live storages, and bytes cached for reuse. While other threads allocate and free, one half of a change may
   be missing. */
void situ__memory_stats(situ_device device, int64_t *used, int64_t *cached);
/* Size of the block of a storage of so many bytes. The plan of a move uses it too. */
size_t situ__memory_block(size_t bytes);
/* Bytes that the library has allocated on a device: blocks under storages, at full size, and cached blocks. */
size_t situ__memory_reserved(situ_device device);
/* Limit on these bytes; SIZE_MAX: not set. */
size_t situ__memory_limit(situ_device device);
/* Bytes of blocks that could still be allocated with an empty cache, as far as the total is known. */
size_t situ__memory_available(situ_device device);
situ_status situ__memory_set_limit(const char *op, situ_device device, size_t bytes);
/* Bytes in live storages of all devices. */
int64_t situ__memory_used(void);
/* Counts a tensor more or less, per thread, so that threads do not contend. Other threads read the counter. */
extern SITU__THREAD_LOCAL int64_t *situ__tensor_counter; /* NULL: this thread has not counted yet, or has ended */
void situ__count_first_tensor(int64_t change) SITU_COLD;
static inline void situ__count_tensor(int64_t change) {
  int64_t *counter = situ__tensor_counter;
  if (__builtin_expect(counter != NULL, 1))
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + change, __ATOMIC_RELAXED);
  else situ__count_first_tensor(change);
}
int64_t situ__tensors_alive(void);

/* ---- copies (copy.c): each is recorded in the ledger ---- */
situ_status situ__copy_from_host(const char *op, situ_storage *to, size_t at, const void *host, size_t bytes,
                                 situ__copy_reason why);
situ_status situ__copy_to_host(const char *op, situ_storage *from, size_t at, void *host, size_t bytes,
                               situ__copy_reason why);
/* Between any two devices; staged through the host where there is no direct copy. */
situ_status situ__copy_storage(const char *op, situ_storage *to, size_t to_at, situ_storage *from, size_t from_at,
                               size_t bytes, situ__copy_reason why);
/* The same for the memory of a temporary that stands for `about` from byte `at` on: the ledger names that one. */
situ_status situ__copy_storage_of(const char *op, situ_storage *to, size_t to_at, situ_storage *from, size_t from_at,
                                  size_t bytes, situ__copy_reason why, situ_storage *about, size_t at);

/* ---- work (work.c) ---- */
/* Runs or queues work on a device, and bumps the version of each distinct output storage and clears its unwritten
   flag. Checks first that all operands are on the device, that all input values were written (STATE names the
   tensor), that the slot exists (UNSUPPORTED names op, dtype, device, and the devices that can do it), that the
   process is not a forked child, and that the device is not lost. */
situ_status situ__run(const char *op, situ_device device, const situ_work *work);
/* The same for y = a op b (SITU_VERB_BINARY) where all are of one dtype and device, not meta, and y is new and has
   elements: what that leaves to check is asked at once. */
situ_status situ__run_pair(const char *op, int code, const situ_view_desc *a, const situ_view_desc *b,
                           const situ_view_desc *y);
/* Records an error: the values of the storage were never written. */
situ_status situ__refuse_unwritten(const char *op, situ_storage *storage);
typedef struct situ__described {
  char what[384];  /* "`x` ([2] f32)" */
  char where[260]; /* " at train.c:12 in step"; "" if unknown */
} situ__described;
/* What this floor needs from those above it, which know tensors, and from the backends; src/wiring.c fills it in. */
typedef struct situ__device_upcalls {
  /* Describes a storage's tensor for errors: its name or shape, and the place of its creation. */
  void (*describe_storage)(situ_storage *storage, situ__described *to);
  /* Writes the name of a storage and returns its role (a situ_role), those of the tensor that describes it best. */
  uint8_t (*storage_subject)(situ_storage *storage, char *name, size_t size);
  /* Writes the path of the module that this thread runs, "model.fc1"; "": none. */
  void (*running_module)(char *path, size_t size);
  /* Empties the cache of casts, at the end of the outermost autocast scope or on request. */
  void (*forget_casts)(void);
  /* Exchanges this thread's cache of casts with *other. */
  void (*swap_casts)(situ__map *other);
  /* Counts so many draws from a generator (NULL: the default one), and returns its state before. */
  situ_generator (*advance_generator)(situ_generator *generator, uint64_t draws);
  const situ_backend *cpu, *meta;
  const situ_backend *(*sim)(void);
} situ__device_upcalls;
extern const situ__device_upcalls situ__device_up;
/* Returns the backend of a kind; NULL if this build has none. Takes no lock after the first call (registry.c). */
const situ_backend *situ__backend_opened(situ_device device);
static inline const situ_backend *situ__backend(situ_device device) {
  return device.kind == SITU_CPU ? situ__device_up.cpu : situ__backend_opened(device);
}
bool situ__has_verb(situ_device device, situ_verb verb);
/* Whether the device's convolution takes these operands, some of which are channels_last: backends without `offers` get
   contiguous ones. */
bool situ__takes_channels_last(situ_device device, const situ_work *work);
/* *offered: the device implements this optional work; false on meta and in a dry run. */
situ_status situ__offers(const char *op, situ_device device, const situ_work *work, bool *offered);
/* "matmul", "copy": static text; "?" if the number is not a verb. */
const char *situ__verb_name(situ_verb verb);
/* Returns SITU_OK; or, after recording it, STATE in a forked child, LOST for a lost device (the same text each
   time). */
situ_status situ__device_usable(const char *op, situ_device device);
/* Reports a backend's error status as an error of op, unless the backend has recorded one since `before`
   (situ__error_count). LOST marks the device. Returns status. */
situ_status situ__device_failed(const char *op, situ_device device, situ_status status, uint64_t before,
                                const char *what);
bool situ__device_lost(situ_device device);
/* For a device that works again (a simulated one after a reset). */
void situ__device_found(situ_device device);
/* Counts a write: bumps the version, clears the unwritten flag. The increment need not be atomic: concurrent writes to
   one tensor are a data race of the program. */
static inline void situ__storage_wrote(situ_storage *storage) {
  const uint32_t version = __atomic_load_n(&storage->version, __ATOMIC_RELAXED);
  __atomic_store_n(&storage->version, version + 1, __ATOMIC_RELAXED);
  const uint32_t flags = __atomic_load_n(&storage->flags, __ATOMIC_RELAXED);
  if (flags & SITU_STORAGE_UNWRITTEN)
    __atomic_store_n(&storage->flags, flags & ~SITU_STORAGE_UNWRITTEN, __ATOMIC_RELAXED);
}

/* ---- recipes (recipe.c): recorded work of storages on meta, replayed on another device ---- */
/* Returns true if the values of a storage on meta can be computed elsewhere. A storage on meta is unwritten, or has a
   recipe, or was written with unknown values: then it cannot leave meta. */
static inline bool situ__recipe_has(const situ_storage *meta) { return meta->recipe != NULL; }
/* Replays on to's device the work recorded for the storage on meta; `to` is new and of the same size. The result has
   the same bits as if the device had done the work at once. Returns false after recording an error. */
bool situ__recipe_replay(const char *op, const situ_storage *from, situ_storage *to);
/* Records work on meta: adds a step to the recipes of its outputs, or drops these recipes if it cannot be repeated
   (an input without known values, too many steps, an optimiser's step). Returns false after recording
   SITU_E_NOMEM. */
bool situ__recipe_add(const char *op, const situ_work *work);
/* For a write that no recipe can repeat. */
void situ__recipe_lose(situ_storage *storage);
void situ__recipe_release(struct situ_recipe *recipe);

/* ---- provenance (site.c) ---- */
/* Returns the return address of the innermost frame outside the library, by following the library's own frame
   pointers. NULL: unknown. Works in a program that links libsitu.a too, if the archive's code is in its own section
   (situ_text). */
void *situ__call_site(void);
/* Makes the module that exports `symbol` part of the library, so that its frames are skipped. */
void situ__site_add_module(const void *symbol);
/* Returns true if this is an address in the library's own code. */
bool situ__own_code(const void *address);
/* Writes "train.c:12 in step" of the call at this address; returns false where no line table has it, or libdw is not
   there. */
bool situ__line_text(const void *call, char *buffer, size_t size);
/* Writes "train.c:12 in step" where line tables are found (libdw), else "step+0x1f (program)"; "" for NULL. Returns
   buffer. */
const char *situ__site_text(void *site, char *buffer, size_t size);

#endif
