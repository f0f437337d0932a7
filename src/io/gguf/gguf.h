/* The header of a GGUF file: parses bytes into checked entries, without access to the file.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_GGUF_H
#define SITU_IO_GGUF_H

#include "base/problem.h"
#include "situ/gguf.h"

/* Bytes of a header, at most: vocabularies are in it. */
#define SITU__GGUF_HEADER_MAX ((int64_t)512 << 20)

/* A tensor type of the format. */
typedef struct situ__gguf_type {
  const char *name;
  uint16_t elements, bytes; /* of a block */
  situ_dtype dtype;         /* SITU_DTYPE_DEFAULT: cannot be loaded */
  situ_block_type blocks;   /* dtype SITU_U8: of these */
} situ__gguf_type;

typedef struct situ__gguf_item {
  const char *key;
  uint8_t type; /* the format's number, of the elements of an array */
  bool array;
  int64_t count; /* 1 for a value */
  const unsigned char *data;
  const char **text; /* of strings: a list of them */
  int64_t *length;   /* and of their bytes */
} situ__gguf_item;

typedef struct situ__gguf_tensor {
  situ_file_entry entry; /* the offset is that in the file; file is "" */
  situ_block_type blocks;
} situ__gguf_tensor;

typedef struct situ__gguf_header {
  unsigned char *text;   /* the bytes of the header; all names and values point into it */
  situ__gguf_item *item; /* sorted by key */
  int64_t items;
  situ__gguf_tensor *tensor; /* sorted by name */
  int64_t tensors;
} situ__gguf_header;

typedef enum situ__gguf_parsed {
  SITU__GGUF_GOOD,
  SITU__GGUF_BAD, /* with the reason in problem */
  SITU__GGUF_MORE /* the header goes on behind `length` bytes */
} situ__gguf_parsed;

/* Parses the first `length` bytes, in a block of situ__alloc that it takes over and changes, of a file of `bytes`.
   Unless it is GOOD, nothing is left to free. */
situ__gguf_parsed situ__gguf_parse(situ__gguf_header *header, unsigned char *text, int64_t length, int64_t bytes,
                                   bool lenient, situ__problem *problem);
void situ__gguf_free(situ__gguf_header *header);

/* The metadata as text, sorted by key. The keys are the file's own. */
typedef struct situ__gguf_remarks {
  situ_metadata *remark;
  int64_t count;
  char *text; /* what the values point into */
} situ__gguf_remarks;
/* Returns false after recording an error, with nothing left to free. */
bool situ__gguf_remarks_make(situ__gguf_remarks *out, const situ_gguf *file);
void situ__gguf_remarks_free(situ__gguf_remarks *remarks);

/* situ_load of such a file. */
situ_tree *situ__gguf_load_all(const char *path, const situ_load_options *options);

#endif
