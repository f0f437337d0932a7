/* The registry of backends, the state of devices, storages and their memory. launch/launch.h runs work.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_DEVICE_H
#define SITU_DEVICE_DEVICE_H

#include <string.h>

#include "base/dtype.h"
#include "base/fork.h"
#include "base/map.h"
#include "base/thread.h"
#include "situ/sys/backend.h"
#include "situ/sys/dry.h"

/* More than any machine has of one kind: larger indices in names are errors. */
enum { SITU__DEVICES_MAX = 64 };

/* ---- registry (registry.c, name.c) ---- */
/* The single exported symbol of each backend. sim and plan copy slots of cpu's: filled at the first use. */
extern const situ_backend situ__cpu_backend, situ__meta_backend; /* for src/wiring.c */
const situ_backend *situ__sim_backend(void);
const situ_backend *situ__plan_backend(void);
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

/* ---- which chip a device is (identity.c) ---- */
/* Reads a UUID, or a PCI address, into the form that situ_device_info gives. Returns false, with *out undefined, if it
   is not one. */
bool situ__read_uuid(const char *text, char out[SITU_UUID_MAX]);
bool situ__read_pci(const char *text, char out[SITU_PCI_MAX]);
/* Sets *out to the device of a kind that has the id, "uuid=..." or "pci=..."; `name` is all of what is parsed. */
situ_status situ__device_identified(const char *name, unsigned kind, const char *id, situ_device *out);

/* ---- devices of the program (adopt.c) ---- */
/* Whose device an index is. CHANGING: it is being adopted or given back. */
typedef enum situ__adoption {
  SITU__NOT_ADOPTED,
  SITU__ADOPTED,
  SITU__ADOPTION_CHANGES,
  SITU__GIVEN_BACK
} situ__adoption;
/* Sets *site to the call that adopted it, or gave it back; NULL: unknown. */
situ__adoption situ__device_adoption(situ_device device, void **site);
/* Lists a new storage, if its device is adopted. Returns false after recording SITU_E_NOMEM (op NULL: nothing). */
bool situ__seat_take(const char *op, situ_storage *storage);
/* For storages that swap their memory, or of which one takes over the other's. */
void situ__seat_swap(situ_storage *a, situ_storage *b);
void situ__seat_leave(situ_storage *storage);

/* ---- modules (module.c): backends in shared libraries, opened at run time ---- */
/* Opens <library's directory>/situ/<abi>/libsitu-<name>.so, or the same file in $SITU_MODULE_DIR (an absolute path,
   ignored in a setuid program); never a path relative to the current directory. Returns NULL with the reason in
   `why`. */
const situ_backend *situ__module_open(const char *name, situ_device_kind kind, char *why, size_t size);

/* ---- storage (storage.c) ---- */
/* Returns a storage of `bytes` on a device, with one owner; NULL after recording an error of op (NOMEM with sizes,
   LOST, ...). Its memory comes from the caching allocator. data is NULL on meta and for 0 bytes. */
situ_storage *situ__storage_new(const char *op, situ_device device, size_t bytes);
/* Records that the host has mapped the storage (situ_data_map), or that its values are on their way to other ranks. */
situ_status situ__refuse_held(const char *op, situ_storage *storage) SITU_COLD;
/* Returns a storage on the program's memory: of the host, or what the device's backend has borrowed. On failure gives
   it back, calls release and returns NULL. */
situ_storage *situ__storage_foreign(const char *op, situ_device device, void *data, size_t bytes,
                                    void (*release)(void *), void *payload);
/* Flags of storages whose memory is neither read nor written: they have none of their own, or values are on the way
   (launch/arrive.c). */
enum { SITU__STORAGE_NOWHERE = SITU_STORAGE_SAMPLE | SITU_STORAGE_AWAY | SITU_STORAGE_PENDING | SITU_STORAGE_HELD };
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
void situ__storage_retain(situ_storage *storage);
void situ__storage_release(situ_storage *storage);
/* A storage's flags, which other threads may ask for while its memory moves. */
static inline uint32_t situ__storage_flags(const situ_storage *storage) {
  return __atomic_load_n(&storage->flags, __ATOMIC_RELAXED);
}
static inline void situ__storage_set_flags(situ_storage *storage, uint32_t flags) {
  __atomic_store_n(&storage->flags, flags, __ATOMIC_RELAXED);
}
/* Counts a write of all of it: bumps the version, clears the unwritten flag. The increment need not be atomic:
   concurrent writes to one tensor are a data race of the program. */
static inline void situ__storage_wrote(situ_storage *storage) {
  const uint32_t version = __atomic_load_n(&storage->version, __ATOMIC_RELAXED);
  __atomic_store_n(&storage->version, version + 1, __ATOMIC_RELAXED);
  const uint32_t flags = situ__storage_flags(storage);
  if (!(flags & SITU_STORAGE_UNWRITTEN)) return;
  if (__builtin_expect(storage->written != NULL, 0)) /* threads that write other parts may set other flags */
    (void)__atomic_and_fetch(&storage->flags, ~SITU_STORAGE_UNWRITTEN, __ATOMIC_RELAXED);
  else situ__storage_set_flags(storage, flags & ~SITU_STORAGE_UNWRITTEN);
}

/* ---- parts that are written (written.c) ---- */
static inline bool situ__is_filled(const situ_storage *storage) {
  return !(situ__storage_flags(storage) & SITU_STORAGE_UNWRITTEN);
}
/* A part of it at least holds values. */
static inline bool situ__holds_some(const situ_storage *storage) {
  return situ__is_filled(storage) || storage->written;
}
/* All of it counts as written from now on. */
static inline void situ__fill(situ_storage *storage) {
  (void)__atomic_and_fetch(&storage->flags, ~SITU_STORAGE_UNWRITTEN, __ATOMIC_RELAXED);
}
/* Number, in row-major order, of the first element of a view that holds no value; -1: all do. Off meta. */
int64_t situ__first_unwritten(const situ_view_desc *v) SITU_COLD;
/* Asked before a write through a view: whether parts of the storage hold no value after it. Then situ__wrote_part, or
   situ__wrote_bytes, is called after the write, which itself counts as one of all. */
static inline bool situ__writes_part(const situ_view_desc *v) {
  const uint32_t flags = situ__storage_flags(v->storage);
  const uint32_t none = SITU__STORAGE_NOWHERE | SITU_STORAGE_VOID;
  return __builtin_expect(flags & SITU_STORAGE_UNWRITTEN, 0) && !(flags & none) && v->numel &&
         v->storage->device.kind != SITU_META && (size_t)v->numel << situ__dtypes[v->dtype].shift != v->storage->bytes;
}
void situ__wrote_part(const situ_view_desc *v) SITU_COLD;
void situ__wrote_bytes(situ_storage *storage, size_t at, size_t bytes) SITU_COLD;
/* The first bytes without a value, from *from on. Returns false if there are none. */
bool situ__find_gap(const situ_storage *storage, int64_t *from, int64_t *past) SITU_COLD;
/* For a storage that is freed, or whose memory is. */
void situ__forget_written(situ_storage *storage);

/* Gives the storage the memory of `source` (from byte `at` on, if several storages share it) and frees its old
   memory; owners, version and links stay. The storage takes over one reference to a shared source; any other source is
   empty afterwards. Cannot fail. */
void situ__storage_replace(situ_storage *storage, situ_storage *source, size_t at, size_t bytes, bool shared);

/* ---- followers (follow.c): storages that move together with another one ---- */
/* Makes `storage` move wherever `leader` moves (NULL: only by itself); beside: only from the leader's device, and never
   cast. Returns false after recording an error (a cycle). */
bool situ__follow(const char *op, situ_storage *storage, situ_storage *leader, bool beside);
/* Returns the leader; NULL if it has none. */
situ_storage *situ__leader(const situ_storage *storage);
/* Calls visit for each direct follower, under a lock: visit must not change any followers. Returns false if visit
   did. */
bool situ__each_follower(const situ_storage *leader, bool (*visit)(situ_storage *follower, void *payload),
                         void *payload);
/* Whether a follower, which has a leader, goes along only from its device; for a visit. */
bool situ__is_beside(const situ_storage *follower);
/* Whether a follower may have followers itself; for a visit. */
bool situ__leads(const situ_storage *follower);
/* For a storage that is being freed: its followers stay where they are. */
void situ__unlink(situ_storage *storage);

/* ---- memory (memory.c): the caching allocator over a backend's alloc and free ---- */
/* Below 1 MiB, free blocks are in thread-local lists of size classes (host) or in locked ones (devices); above, in
   the locked cache, on the host aligned to 2 MiB for huge pages. The cache is bounded (block_cache.h). When memory runs
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

/* ---- what this floor asks of others ---- */
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
  /* Records SITU_E_UNSUPPORTED of work that a device cannot do, and how the call can be mended. lacking: the dtype
     that it cannot compute with; DEFAULT: none. Returns the status. */
  situ_status (*refuse_work)(const char *op, situ_dtype lacking, const char *text);
  const situ_backend *cpu, *meta;
  const situ_backend *(*sim)(void), *(*plan)(void);
  /* Waits for copies that are on the way from a device. Returns the first failure, recorded. */
  situ_status (*finish_arrivals)(const char *op, situ_device from);
  /* Frees memory of a device that is only kept to use other memory next. Returns whether there was any. */
  bool (*let_go)(situ_device device);
  /* Frees what a storage on meta has recorded of its values. */
  void (*release_recipe)(struct situ_recipe *recipe);
} situ__device_upcalls;
extern const situ__device_upcalls situ__device_up;
/* Returns the backend of a kind; NULL if this build has none. Takes no lock after the first call (registry.c). */
const situ_backend *situ__backend_opened(situ_device device);
static inline const situ_backend *situ__backend(situ_device device) {
  return device.kind == SITU_CPU ? situ__device_up.cpu : situ__backend_opened(device);
}

/* ---- state (state.c): devices that were lost, and how failures of a backend are reported ---- */
/* Some device ever was lost: until then, no launch looks for its own. Hidden, so that it is read without a table. */
extern __attribute__((visibility("hidden"))) bool situ__some_lost;
bool situ__device_lost(situ_device device);
/* For a device that works again (a simulated one after a reset). */
void situ__device_found(situ_device device);
/* Looks at the fork and the device again, and records what is wrong. */
situ_status situ__check_usable(const char *op, situ_device device) SITU_COLD;
/* Returns SITU_OK; or, after recording it, STATE in a forked child, LOST for a lost device (the same text each
   time). */
static inline situ_status situ__device_usable(const char *op, situ_device device) {
  if (__builtin_expect(situ__forked() || __atomic_load_n(&situ__some_lost, __ATOMIC_ACQUIRE), 0))
    return situ__check_usable(op, device);
  return SITU_OK;
}
/* Reports a backend's error status as an error of op, unless the backend has recorded one since `before`
   (situ__error_count). LOST marks the device. Returns status. */
situ_status situ__device_failed(const char *op, situ_device device, situ_status status, uint64_t before,
                                const char *what);
/* "matmul", "copy": static text; "?" if the number is not a verb. */
const char *situ__verb_name(situ_verb verb);

/* ---- provenance (site.c) ---- */
/* Returns the return address of the innermost frame outside the library, by following the library's own frame
   pointers. NULL: unknown. Works in a program that links libsitu.a too, if the archive's code is in its own section
   (situ_text). */
void *situ__call_site(void);
/* Makes the module that exports `symbol` part of the library, so that its frames are skipped. */
void situ__site_add_module(const void *symbol);
/* Returns true if this is an address in the library's own code. */
bool situ__own_code(const void *address);
/* Returns true once for each address, so that each warning appears once. */
bool situ__is_new(const void *about) SITU_COLD;
/* What a line of the program is warned of, once for each. */
typedef enum situ__warning {
  SITU__WARN_COPY,
  SITU__WARN_LAPACK,
  SITU__WARN_SIZES,
  SITU__WARN_GUARD,
  SITU__WARN_CAST
} situ__warning;
/* Returns true once per line of the program; per op where the line is unknown. */
bool situ__is_new_here(situ__warning kind, const void *op) SITU_COLD;
/* Writes "train.c:12 in step" of the call at this address; returns false where no line table has it, or libdw is not
   there. */
bool situ__line_text(const void *call, char *buffer, size_t size);
/* Writes "train.c:12 in step" where line tables are found (libdw), else "step+0x1f (program)"; "" for NULL. Returns
   buffer. */
const char *situ__site_text(void *site, char *buffer, size_t size);

#endif
