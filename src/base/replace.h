/* Replacing a file as a whole: whoever looks, whenever, finds the old one or the new one.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_REPLACE_H
#define SITU_BASE_REPLACE_H

#include "situ/error.h"

/* The new file is written under another name in the target's directory, synced, and renamed over
   the target; then the directory is synced. The first failure is kept (and recorded once), so that
   only the end must be checked; it removes the new file. */
typedef struct situ__replace {
  const char *op, *path, *name; /* name: the last part of path */
  int dir, fd;                  /* -1 when closed */
  bool sync;
  situ_status status;
  int64_t written;
  char temp[256]; /* the new file's name in dir */
} situ__replace;

/* Opens the new file and reserves `bytes`, so that a full disk is found before anything is written.
   sync: wait for the disk. path must outlive it. */
situ_status situ__replace_begin(situ__replace *r, const char *op, const char *path, int64_t bytes, bool sync);
/* Adds bytes at the end. */
situ_status situ__replace_write(situ__replace *r, const void *data, size_t bytes);
/* Overwrites bytes that were written. */
situ_status situ__replace_rewrite(situ__replace *r, const void *data, size_t bytes, int64_t offset);
/* Ends it, well or badly. *replaced (may be NULL): is the new file in its place? It can be even if the
   status is not SITU_OK: then a power cut may undo it. */
situ_status situ__replace_end(situ__replace *r, bool *replaced);
/* Ends it badly, for a reason that the caller has recorded. */
void situ__replace_abandon(situ__replace *r);

/* A new file is called ".NAME.tmp.PID.UNIQUE", with this much of NAME: it fits where NAME fits. */
#define SITU__KEPT_NAME 200
/* Removes new files that a killed program left beside path an hour ago or more. */
void situ__replace_sweep(int dir, const char *name);

#endif
