/* Writes zip files whose entries are stored, not compressed, with data at multiples of 64 bytes.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_ZIP_WRITE_H
#define SITU_IO_ZIP_WRITE_H

#include "base/replace.h"

/* Zeroed except for `file`, which is open for writing and nothing was written to. */
typedef struct situ__zip_writer {
  situ__replace *file;
  char *directory; /* the central directory so far */
  size_t length;
  int64_t capacity;
  int64_t count;
} situ__zip_writer;

/* Appends an entry; the name must be new and of at most 512 bytes. Returns false after recording an error. */
bool situ__zip_add(situ__zip_writer *w, const char *name, const void *data, size_t bytes);
/* Writes the directory. Returns false after recording an error; the directory is freed in any case. */
bool situ__zip_end(situ__zip_writer *w);

#endif
