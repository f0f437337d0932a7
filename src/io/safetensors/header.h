/* The header of a safetensors file: parses bytes into checked entries, without access to the file.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_HEADER_H
#define SITU_IO_HEADER_H

#include "base/problem.h"
#include "io/format/file_type.h"
#include "situ/io.h"

/* The format's limit on the length of the JSON text. */
#define SITU__HEADER_MAX 100000000
/* The key of the checksums that situ writes: 8 hex digits for the header, then 8 for each tensor in the order of
   names. */
#define SITU__CHECKSUM_KEY "situ.crc32c"

/* Before a tensor's name, the key of the type of its quantised blocks ("Q4_K"), which the format lacks: other readers
   see bytes. */
#define SITU__BLOCKS_KEY "situ.blocks."

typedef struct situ__header {
  char *text;             /* the JSON, decoded in place; all names point into it */
  situ_file_entry *entry; /* sorted by name; offsets are from the start of the file; file is "" */
  int64_t count;
  situ_metadata *metadata; /* sorted by key */
  int64_t metadata_count;
} situ__header;

/* Parses `length` bytes of JSON in a block of situ__alloc, which it takes over. `start` is the offset of the data in
   the file, and `bytes` their size; lenient: accepts more bytes than the tensors need. Returns false with the reason
   in problem, and nothing left to free. */
bool situ__header_parse(situ__header *header, char *text, size_t length, int64_t start, int64_t bytes, bool lenient,
                        situ__problem *problem);
void situ__header_free(situ__header *header);
const situ_file_entry *situ__header_find(const situ__header *header, const char *name);
const char *situ__header_metadata(const situ__header *header, const char *key);

/* The digest of a header that situ writes. sum[i] is the checksum of entry i's data; the digest covers names, dtypes,
   shapes, sums and all other metadata, so that it also detects a flipped bit in the header. */
uint32_t situ__header_digest(const situ__header *header, const uint32_t *sum);
/* Reads the checksums from the metadata into sum[count] and compares the digest. Returns true with *have false if the
   file has none. */
bool situ__header_checksums(const situ__header *header, uint32_t *sum, bool *have, situ__problem *problem);

#endif
