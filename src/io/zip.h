/* The directory of a zip file whose entries are stored, not compressed: parses bytes into checked entries.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_ZIP_H
#define SITU_IO_ZIP_H

#include "base/problem.h"

typedef struct situ__zip_entry {
  char *name;
  int64_t header;        /* offset of its local header */
  int64_t offset, bytes; /* of its data */
  uint32_t crc;          /* CRC-32 of the data, as the file gives it */
} situ__zip_entry;

typedef struct situ__zip {
  situ__zip_entry *entry; /* sorted by name */
  int64_t count;
  char *names;
} situ__zip;

/* Parses the directory of a zip file of `bytes` bytes in memory. Refuses by name: compressed and encrypted entries,
   several disks, names that are absolute or contain `..`, names that occur twice, entries that overlap or whose local
   header disagrees, and bytes after the directory. Returns false with the reason in problem, and nothing left to
   free. */
bool situ__zip_parse(situ__zip *zip, const char *file, int64_t bytes, situ__problem *problem);
void situ__zip_free(situ__zip *zip);
/* Returns NULL for an absent name. */
const situ__zip_entry *situ__zip_find(const situ__zip *zip, const char *name);
/* The CRC-32 that zip files have (polynomial 0xEDB88320), continued from crc; 0 begins. */
uint32_t situ__crc32(uint32_t crc, const void *data, size_t bytes);

#endif
