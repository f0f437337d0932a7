/* The directory of a zip archive whose entries are stored, not compressed: reads it into checked entries.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_ZIP_H
#define SITU_IO_ZIP_H

#include "situ/error.h"

/* An archive: the bytes [start, start + bytes) of an open file. */
typedef struct situ__zip_source {
  const char *op, *path; /* for errors */
  int fd;
  int64_t start, bytes;
  const char *skip; /* "code/": entries of this directory may be compressed, and are left out; NULL: none */
} situ__zip_source;

typedef struct situ__zip_entry {
  char *name;
  int64_t header;        /* offset of its local header, in the file */
  int64_t offset, bytes; /* of its data, in the file */
  uint32_t crc;          /* CRC-32 of the data, as the file gives it */
} situ__zip_entry;

typedef struct situ__zip {
  situ__zip_entry *entry; /* sorted by name */
  int64_t count;
  char *names;
} situ__zip;

/* Reads the directory of an archive and the header of each entry into memory; data are not read. Refuses by name:
   compressed and encrypted entries, several disks, names that are absolute or contain `..`, names that occur twice,
   entries that overlap or whose local header disagrees, and bytes after the directory. Returns false after recording
   an error, with nothing left to free. */
bool situ__zip_open(situ__zip *zip, const situ__zip_source *source);
void situ__zip_free(situ__zip *zip);
/* Sorts entries for situ__zip_find; returns one whose name another has, too, or NULL. */
const situ__zip_entry *situ__zip_sort(situ__zip *zip);
/* Returns NULL for an absent name. */
const situ__zip_entry *situ__zip_find(const situ__zip *zip, const char *name);
/* Torch's writers put all entries into one directory: finds "DIRECTORY/name", where DIRECTORY is that of the first
   entry. Returns NULL for an absent name, and for one of more than 1,023 bytes. */
const situ__zip_entry *situ__zip_find_inside(const situ__zip *zip, const char *name);
/* Returns the data of an entry of at most `limit` bytes, ended by a NUL, which the caller frees (situ__free); NULL
   after recording an error. */
char *situ__zip_load(const situ__zip_source *source, const situ__zip_entry *entry, int64_t limit);
/* Returns true if the entry exists and has this text, apart from white space at its end; false too after recording an
   error. */
bool situ__zip_has_text(const situ__zip_source *source, const situ__zip_entry *entry, const char *text);
/* Compares the data with the checksum in the directory. Returns false after recording an error. Torch may have been
   told not to compute checksums (torch.serialization.set_crc32_options): they are compared only on demand. */
bool situ__zip_check(const situ__zip_source *source, const situ__zip_entry *entry);
/* The CRC-32 that zip files have (polynomial 0xEDB88320), continued from crc; 0 begins. */
uint32_t situ__crc32(uint32_t crc, const void *data, size_t bytes);

#endif
