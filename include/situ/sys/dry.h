/* Dry runs: a thread's calls are checked as always, but nothing is allocated on a device, computed, copied or drawn; a
   recorder is notified of what would have happened. situ_place_check is built on it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_DRY_H
#define SITU_SYS_DRY_H

#include "backend.h"

SITU_BEGIN

/* Flag of a storage made in a dry run: it has a size and a device, but no memory. */
#define SITU_STORAGE_VOID (1u << 16)

/** A copy between memories that would have been made. */
typedef struct situ_dry_copy {
  const char *op; /**< static text */
  situ_device from, to;
  uint64_t bytes;
  void *site;                          /**< return address into the program; see situ_site_text */
  const situ_storage *source, *target; /**< NULL: host memory outside tensors */
} situ_dry_copy;

/** A call between ranks that would have been made: the bytes that this rank gives to it, and gets. */
typedef struct situ_dry_exchange {
  const char *op, *name; /**< "all_gather"; what is transferred */
  int peer;              /**< of send, receive and broadcast; else -1 */
  uint64_t sent, received;
} situ_dry_exchange;

/** The recorder: embed it in your own struct. Callbacks run on the thread of the dry run, may be NULL, and must not
    call ops. */
typedef struct situ_dry situ_dry;
struct situ_call; /* situ/sys/op.h */
struct situ_dry {
  /** An error was found: read it with situ_error_read. The call then continues as if it had succeeded, if it can. */
  void (*found)(situ_dry *dry);
  void (*copied)(situ_dry *dry, const situ_dry_copy *copy);
  void (*exchanged)(situ_dry *dry, const situ_dry_exchange *exchange);
  void (*launched)(situ_dry *dry, const char *op, situ_device device, const situ_work *work);
  /** A storage was made; a storage was freed or moved, then `device` is its previous device. block: the bytes that the
      allocator takes for it, 0 if it is a part of another storage's memory. */
  void (*made)(situ_dry *dry, situ_storage *storage, size_t block);
  void (*freed)(situ_dry *dry, situ_storage *storage, situ_device device, size_t block, bool moved);
  /** Returns whether there is memory for a storage; false makes the allocation fail with SITU_E_NOMEM. */
  bool (*has_memory)(situ_dry *dry, situ_device device, size_t block);
  /** Memory outside of an op's call would have been copied to a storage: values that the run does not know. */
  void (*loaded)(situ_dry *dry, const char *op, const situ_storage *storage);
  /** A call of an op has succeeded; not those that an op's forward makes. */
  void (*called)(situ_dry *dry, const struct situ_call *call);
  situ_device meta_is; /**< device that replaces meta for new storages; {0}: none */
  situ_device meet;    /**< where fixes bring the operands of a call if one of them is there; {0}: as without a run */

  /* Private. */
  struct situ_void *storages; /* alive */
  uint64_t findings;
  int depth;          /* of calls inside of calls */
  situ_device mended; /* where the first fix of the newest error brings the operands; {0}: there is none */
  bool told;          /* the current error was reported */
  bool blind;         /* ... and it is a read of values */
};

/** Starts a dry run on this thread, until situ_dry_end. Dry runs do not nest (SITU_E_STATE). */
SITU_API SITU_CHECKED situ_status situ_dry_begin(situ_dry *dry);
/** Ends the dry run: storages that were made and are still alive are reported as freed, and are on meta from now on.
    Returns their number. */
SITU_API int64_t situ_dry_end(situ_dry *dry);
/** Sets this thread's dry run aside, so that calls compute, until situ_dry_resume; tensors of the run must not be read
    meanwhile. Returns whether there is one, and it was not aside. */
SITU_API bool situ_dry_pause(void);
/** Goes on with it. */
SITU_API void situ_dry_resume(void);
/** Whether this thread is in a dry run. Code that talks to other processes, or that keeps a record of calls, must then
    do neither. */
SITU_API bool situ_is_dry(void);
/** Reports a call between ranks to this thread's recorder. Returns whether there is one that hears of them; NULL only
    asks. */
SITU_API bool situ_dry_tell_exchange(const situ_dry_exchange *exchange);
/** For a call that needs values: in a dry run records and reports that there are none, and returns the error. SITU_OK
    otherwise. */
SITU_API situ_status situ_dry_refuse(const char *op);
/** A pointer per storage of the run, for the recorder's use, initially NULL; the result is NULL for any other
    storage. */
SITU_API void **situ_dry_note(const situ_storage *storage);

/** The bytes that the allocator takes for a storage: its block, or that of the memory of which it is a part. 0: it has
    no memory of situ's. */
SITU_API size_t situ_storage_block(const situ_storage *storage);

/** Reports the thread's error, if there is one that was not reported, and clears it. dry NULL: to the thread's run, if
    it is in one. */
SITU_API void situ_dry_tell(situ_dry *dry);
/** Writes a return address as text, "train.c:12 in step", to buffer; "" for NULL. Returns buffer. */
SITU_API const char *situ_site_text(void *site, char *buffer, size_t size);

SITU_END
#endif
