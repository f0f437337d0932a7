/* Dry runs: a thread's calls are checked as always, but nothing is allocated on a device, computed,
   copied or drawn. What would have happened is told to a recorder. situ_place_check is made of it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_DRY_H
#define SITU_SYS_DRY_H

#include "backend.h"

SITU_BEGIN

/* Flag of a storage that was made in a dry run: it has bytes and a device, but no memory. */
#define SITU_STORAGE_VOID (1u << 8)

/** A copy between memories that would have been made. */
typedef struct situ_dry_copy {
  const char *op; /**< static text */
  situ_device from, to;
  uint64_t bytes;
  void *site;                          /**< return address into the program; see situ_site_text */
  const situ_storage *source, *target; /**< NULL: host memory that is no tensor's */
} situ_dry_copy;

/** Who is told. Functions are called in the thread that runs, each may be NULL, and none may call
    an op. Embed it in a struct of your own. */
typedef struct situ_dry situ_dry;
struct situ_dry {
  /** Something is wrong: the thread's error says what (situ_error_read). If the call can go on as
      if it were not, it does. */
  void (*found)(situ_dry *dry);
  void (*copied)(situ_dry *dry, const situ_dry_copy *copy);
  void (*launched)(situ_dry *dry, const char *op, situ_device device, const situ_work *work);
  /** A storage was made; it dies, or its memory goes elsewhere: then `device` is where it was. */
  void (*made)(situ_dry *dry, situ_storage *storage);
  void (*freed)(situ_dry *dry, situ_storage *storage, situ_device device, size_t bytes);
  /** Is there memory for a storage? If not, it is refused as on a full device. */
  bool (*room)(situ_dry *dry, situ_device device, size_t bytes);
  situ_device meta_is; /**< where storages that would be made on meta are made; {0}: there */

  /* The library's. */
  struct situ_void *storages; /* alive */
  uint64_t findings;
  bool told;  /* the error that stands was told */
  bool blind; /* ... and it is that somebody looked at values */
};

/** From now on this thread runs dry, until situ_dry_end. Not inside another dry run. */
SITU_API SITU_CHECKED situ_status situ_dry_begin(situ_dry *dry);
/** What was made and is still alive is told as freed, and on meta from here on.
    Returns how many storages that are. */
SITU_API int64_t situ_dry_end(situ_dry *dry);
/** A pointer that the recorder may keep with a storage of its run, cleared when it was made; NULL
    for any other storage. */
SITU_API void **situ_dry_note(const situ_storage *storage);

/** Tells the thread's error, if there is one that was not told, and forgets it. */
SITU_API void situ_dry_tell(situ_dry *dry);
/** A return address in words: "train.c:12 in step"; "" for NULL. Returns buffer. */
SITU_API const char *situ_site_text(void *site, char *buffer, size_t size);

SITU_END
#endif
