/* Dry runs, as floors 1 to 4 see them: situ/sys/dry.h says what they are.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_DRY_H
#define SITU_DEVICE_DRY_H

#include "base/thread.h"
#include "device/device.h"
#include "situ/sys/dry.h"

/* This thread's recorder; NULL: it computes. */
extern SITU__THREAD_LOCAL situ_dry *situ__dry;
static inline bool situ__is_dry(void) { return __builtin_expect(situ__dry != NULL, 0); }

/* Was it made in a dry run? Then it may be changed in one; all others stay as they are. */
static inline bool situ__is_void(const situ_storage *storage) { return (storage->flags & SITU_STORAGE_VOID) != 0; }

/* Like situ__storage_new, without memory. */
situ_storage *situ__dry_storage(const char *op, situ_device device, size_t bytes, uint64_t serial);
/* Its memory goes, or would go. */
void situ__dry_freed(situ_storage *storage, situ_device device, size_t bytes);
/* Frees the struct. */
void situ__dry_discard(situ_storage *storage);

/* Tells the recorder of the thread's error, unless it was told already. */
void situ__dry_found(void);
/* Forgets the error, which was told. */
void situ__dry_forget(void);
/* Refuses to look at values: there are none. Told. */
situ_status situ__dry_blind(const char *op) SITU_COLD;
/* Notes a copy; nothing is copied. A side that is no tensor's is NULL and on the host. */
situ_status situ__dry_copy(const char *op, const situ_storage *from, situ_storage *to, size_t bytes) SITU_COLD;

#endif
