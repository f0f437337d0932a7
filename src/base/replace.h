/* Replaces a file atomically: readers see either the old file or the new one.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_REPLACE_H
#define SITU_BASE_REPLACE_H

#include "base/text.h"
#include "situ/error.h"

/* The new file is written under another name in the target's directory, synced, and renamed over the target; then the
   directory is synced. The first error is recorded and kept, so that callers need to check only the end, which then
   removes the new file. */
typedef struct situ__replace {
  const char *op, *path, *name; /* name: the last component of path */
  int dir, fd;                  /* -1 when closed */
  bool sync;
  situ_status status;
  int64_t written;
  char temp[256]; /* the new file's name in dir */
} situ__replace;

/* Opens the new file. sync: fsync, and `bytes` are reserved first, so that a full disk is reported before anything is
   written; else by the write that finds it full. path must outlive r. */
situ_status situ__replace_begin(situ__replace *r, const char *op, const char *path, int64_t bytes, bool sync);
/* Appends bytes. */
situ_status situ__replace_write(situ__replace *r, const void *data, size_t bytes);
/* Overwrites bytes that were written. */
situ_status situ__replace_rewrite(situ__replace *r, const void *data, size_t bytes, int64_t offset);
/* Completes the replacement, or cleans up after an error. *replaced (may be NULL) tells whether the new file is in
   place. It can be true with a status other than SITU_OK: then a power cut may undo the replacement. */
situ_status situ__replace_end(situ__replace *r, bool *replaced);
/* The same if what was written is good and this thread recorded no error since it had recorded `errors`: what was
   computed for the file may lack something then. Else cancels. */
situ_status situ__replace_end_if(situ__replace *r, bool good, uint64_t errors, bool *replaced);
/* Cancels, for an error that the caller has recorded. */
void situ__replace_abandon(situ__replace *r);

/* All of this for a text, which is not freed. An error if it is incomplete. */
situ_status situ__replace_by_text(const char *op, const char *path, const situ__text *text);

/* A new file is called ".NAME.tmp.PID.UNIQUE", with at most this many bytes of NAME, so that it fits where NAME
   fits. */
#define SITU__KEPT_NAME 200
/* Removes new files that killed programs left in the directory an hour ago or more. */
void situ__replace_sweep(int dir, const char *name);

#endif
