/* The header of a safetensors file: from bytes to checked entries, with no file in sight.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_HEADER_H
#define SITU_IO_HEADER_H

#include "base/problem.h"
#include "situ/io.h"

/* The format's own limit on the length of the JSON text. */
#define SITU__HEADER_MAX 100000000
/* Tensors of one file: a short entry becomes about a KiB of handle, storage and name. */
#define SITU__HEADER_TENSORS 1000000
/* Where our writer keeps its checksums: 8 hex digits for the header, 8 for each tensor by name. */
#define SITU__CHECKSUM_KEY "situ.crc32c"

/* A dtype of the format. */
typedef struct situ__file_type {
  const char *name;
  situ_dtype dtype; /* SITU_DTYPE_DEFAULT if the library does not compute with it */
  int bits;
} situ__file_type;
/* NULL if there is none. */
const situ__file_type *situ__file_type_named(const char *name);
const situ__file_type *situ__file_type_of(situ_dtype dtype);

typedef struct situ__header {
  char *text;             /* the JSON, decoded in place: all names lie in it */
  situ_file_entry *entry; /* by name; offsets are in the file; file is "" */
  int64_t count;
  situ_metadata *metadata; /* by key */
  int64_t metadata_count;
} situ__header;

/* Reads `length` bytes of JSON in a block of situ__alloc, which it takes over. `start` is where the
   data begin in the file and `bytes` how many there are; lenient: more bytes than the tensors need
   are fine. false: problem says why, and nothing is left to free. */
bool situ__header_parse(situ__header *header, char *text, size_t length, int64_t start, int64_t bytes, bool lenient,
                        situ__problem *problem);
void situ__header_free(situ__header *header);
const situ_file_entry *situ__header_find(const situ__header *header, const char *name);
const char *situ__header_metadata(const situ__header *header, const char *key);

/* numel * bits / 8 of a shape of the file; false if that is no whole number of bytes in 63 bits. */
bool situ__shape_bytes(const situ_shape *shape, int bits, int64_t *out);

/* Our checksums. sum[i] is that of the data of entry i; the digest covers names, dtypes, shapes,
   the sums and all other remarks, so that a flipped bit in the header is found too. */
uint32_t situ__header_digest(const situ__header *header, const uint32_t *sum);
/* Reads them from the metadata into sum[count] and compares the digest. true with *have false: the
   file has none. */
bool situ__header_checksums(const situ__header *header, uint32_t *sum, bool *have, situ__problem *problem);

#endif
