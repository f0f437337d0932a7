/* The only path to a kernel slot, copies between memories, and recipes of values on meta.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_LAUNCH_H
#define SITU_DEVICE_LAUNCH_H

#include <stddef.h>

#include "device/device.h"
#include "device/ledger/ledger.h"
#include "situ/policy.h"

/* ---- running (run.c) ---- */
/* Runs or queues work on a device, and bumps the version of each distinct output storage and clears its unwritten
   flag. Checks first that all operands are on the device, that all input values were written (STATE names the
   tensor), that the slot exists (UNSUPPORTED names op, dtype, device, and the devices that can do it), that the
   process is not a forked child, and that the device is not lost. */
situ_status situ__run(const char *op, situ_device device, const situ_work *work);
/* The same for y = a op b (SITU_VERB_BINARY). The caller has checked what dispatch/call.c's run_plain checks: a, b and
   y are of one dtype and on one device, which computes (not meta) and has the slot for this op and dtype; y is new, so
   that its storage has no other reader, and has elements. What a call can find at any time is checked here, in one
   branch: unwritten operands, samples, a fork, a lost device, a dry run, a graph or profile that is recorded. */
situ_status situ__run_pair(const char *op, int code, const situ_view_desc *a, const situ_view_desc *b,
                           const situ_view_desc *y);

/* Threads may write parts of one storage at once, and while one does, all of it counts as written: so bits are made
   before (begin), and each marks its part after it, if it was written. */
void situ__begin_part(const situ_view_desc *v) SITU_COLD;
void situ__end_part(const situ_view_desc *v, bool written) SITU_COLD;
/* Before and after a write through a view of a storage that is not new. */
static inline bool situ__part_begin(const situ_view_desc *v) {
  const bool part = situ__writes_part(v) || __builtin_expect(v->storage->written != NULL, 0);
  if (part) situ__begin_part(v);
  return part;
}

/* ---- what a device offers (offers.c) ---- */
bool situ__has_verb(situ_device device, situ_verb verb);
/* Whether the device's convolution takes these operands, some of which are channels_last: backends without `offers` get
   contiguous ones. */
bool situ__takes_channels_last(situ_device device, const situ_work *work);
/* *offered: the device implements this optional work; false on meta and in a dry run. */
situ_status situ__offers(const char *op, situ_device device, const situ_work *work, bool *offered);

/* ---- refusals (refuse.c): each records an error of op and returns its status ---- */
/* The values of the view, or some of them, were never written. */
situ_status situ__refuse_unwritten(const char *op, const situ_view_desc *v) SITU_COLD;
/* An operand of op is one sample of many, which a call of all samples does not read. */
situ_status situ__refuse_sample(const char *op, situ_storage *storage) SITU_COLD;
/* Records that the storage would be written, but is on memory that its owner made read-only, or that the host has
   mapped to read. */
situ_status situ__refuse_read_only(const char *op, situ_storage *storage) SITU_COLD;

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

/* The same without waiting, where the devices can: values that are to arrive in host memory are waited for when they
   are used (arrive.c). `to` is new. */
situ_status situ__copy_storage_later(const char *op, situ_storage *to, situ_storage *from, size_t from_at, size_t bytes,
                                     situ__copy_reason why, situ_storage *about, size_t at);
/* Returns an error if these bytes of the storage cannot be copied. */
situ_status situ__check_range(const char *op, const situ_storage *storage, size_t at, size_t bytes);
/* Records a copy in the ledger and the profile. about: the storage that is copied; written: the source is plain host
   memory. Returns what the device reports if the profile waits for it. */
situ_status situ__record_copy(const char *op, situ_device from, situ_device to, size_t bytes, situ_storage *about,
                              size_t at, bool written, situ__copy_reason why);

/* ---- memory of a device for the host (map.c) ---- */
typedef struct situ__mapped {
  size_t at, bytes; /* of the storage */
  bool write;       /* what the host has written comes back */
  bool pinned;      /* the host's memory is a copy, of the backend's pin */
  void *host, *handle;
} situ__mapped;
/* Sets host, for at, bytes and write. Waits for the device. */
situ_status situ__map_memory(const char *op, situ_storage *storage, situ__mapped *mapped);
/* Returns an error if what the host has written must not be copied now. */
situ_status situ__may_unmap(const char *op, situ_storage *storage, const situ__mapped *mapped);
/* Ends it, also if that fails. */
situ_status situ__unmap_memory(const char *op, situ_storage *storage, situ__mapped *mapped);

/* Waits for values that are on the way into the storage. Returns SITU_OK, also where none are; or records the error of
   a storage without memory (SITU__STORAGE_NOWHERE), or of a copy that failed. */
situ_status situ__settle_arrival(const char *op, situ_storage *storage) SITU_COLD;
static inline situ_status situ__settle(const char *op, situ_storage *storage) {
  const uint32_t flags = __atomic_load_n(&storage->flags, __ATOMIC_ACQUIRE);
  return __builtin_expect(flags & SITU__STORAGE_NOWHERE, 0) ? situ__settle_arrival(op, storage) : SITU_OK;
}
/* Waits for all copies that are on the way from a device. Returns the first failure, recorded. */
situ_status situ__finish_arrivals(const char *op, situ_device from);
/* Forgets copies that are complete and whose results have no owner any more. */
void situ__reap_arrivals(void);

/* ---- guarded copies (guard.c) ---- */
/* Returns SITU_OK, or records SITU_E_DEVICE where this thread's policy refuses a copy that the program makes itself. */
situ_status situ__guard_copy(const char *op, situ_device from, situ_device to, size_t bytes, situ__copy_reason why,
                             situ_storage *about) SITU_COLD;

/* ---- verified copies (verify.c) ---- */
/* Whether this thread's policy asks for them. */
static inline bool situ__verifies(void) {
  bool verify;
  memcpy(&verify, situ__setting.policy + offsetof(situ_policy, verify), sizeof verify);
  return __builtin_expect(verify, 0);
}
/* Whether it asks for casts that lose values. */
static inline bool situ__watches_casts(void) {
  return __builtin_expect(situ__setting.policy[offsetof(situ_policy, casts)], 0);
}
/* One side of a copy: bytes from `at` on of memory on a device. */
typedef struct situ__side {
  situ_device device;
  const void *data;
  size_t at;
} situ__side;
/* Compares what both sides hold after a copy of `about`. Returns SITU_OK, or records SITU_E_IO. */
situ_status situ__verify_copy(const char *op, situ__side from, situ__side to, size_t bytes, situ_storage *about);

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

#endif
