/* What file formats say of their tensors: dtypes by name, and layouts.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_FILE_TYPE_H
#define SITU_IO_FILE_TYPE_H

#include "situ/io.h"

/* Maximum number of tensors in one file: each entry, however short, needs about 1 KiB for handle, storage and
   name. */
#define SITU__FILE_TENSORS 1000000

/* A dtype of the safetensors format, whose names others use too. */
typedef struct situ__file_type {
  const char *name;
  situ_dtype dtype; /* SITU_DTYPE_DEFAULT for dtypes that the library does not compute with */
  int bits;
} situ__file_type;
/* Return NULL for an unknown dtype. */
const situ__file_type *situ__file_type_named(const char *name);
const situ__file_type *situ__file_type_of(situ_dtype dtype);

/* Sets *out to numel * bits / 8. Returns false if that is not a whole number of bytes in 63 bits. */
bool situ__shape_bytes(const situ_shape *shape, int bits, int64_t *out);

/* Whether the elements lie one after the other in row-major order; strides of sizes of 1, and of empty tensors, do not
   matter. */
bool situ__is_row_major(const situ_shape *size, const situ_shape *stride);

/* For qsort and bsearch: the order of situ_metadata in a file. */
int situ__metadata_by_key(const void *a, const void *b);

#endif
