/* Dry runs, as floors 1 to 4 see them; situ/sys/dry.h explains them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_DRY_H
#define SITU_DEVICE_DRY_H

#include "base/thread.h"
#include "device/device.h"
#include "situ/sys/dry.h"

/* This thread's recorder; NULL: no dry run. */
extern SITU__THREAD_LOCAL situ_dry *situ__dry;
static inline bool situ__is_dry(void) { return __builtin_expect(situ__dry != NULL, 0); }

/* Returns true for a storage made in a dry run. A dry run changes only these. */
static inline bool situ__is_void(const situ_storage *storage) { return (storage->flags & SITU_STORAGE_VOID) != 0; }

/* Like situ__storage_new, without memory. */
situ_storage *situ__dry_storage(const char *op, situ_device device, size_t bytes, uint64_t serial);
/* Reports that its memory is freed, or would be; moved: it goes on with other memory. */
void situ__dry_freed(situ_storage *storage, situ_device device, size_t bytes, bool moved);
/* situ__storage_leave and situ__storage_return for storages of a dry run. */
void situ__dry_leave(situ_storage *storage, const char *where);
void situ__dry_return(situ_storage *storage, situ_storage *source);
/* Frees the struct. */
void situ__dry_discard(situ_storage *storage);

/* Reports the thread's error to the recorder, unless it was reported already. */
void situ__dry_found(void);
/* Clears a reported error. */
void situ__dry_forget(void);
/* Records and reports an error: a dry run has no values to read. */
situ_status situ__dry_blind(const char *op) SITU_COLD;
/* Reports a copy that would be made. Host memory that is not a tensor's is NULL. */
situ_status situ__dry_copy(const char *op, const situ_storage *from, situ_storage *to, size_t bytes) SITU_COLD;

#endif
