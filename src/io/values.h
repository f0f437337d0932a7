/* The values of a tensor between a file and memory: what all formats share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_VALUES_H
#define SITU_IO_VALUES_H

#include "base/replace.h"
#include "io/mapping.h"
#include "situ/io.h"

/* The formats are little-endian, and so is every machine that we know users of. */
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "src/io reads and writes values as they lie in memory: it needs a little-endian machine"
#endif

/* Where values lie. */
typedef struct situ__source {
  const char *op, *path;
  int fd;
  situ__mapping *mapping; /* NULL: read from fd */
} situ__source;

/* A tensor of checked shape and dtype with the values at an offset, on `device`, in the innermost
   scope. If sum is not NULL, the values must have that checksum. NULL: recorded, with the tensor's
   name. */
situ_tensor *situ__values_load(const situ__source *source, const char *name, int64_t offset, const situ_shape *shape,
                               situ_dtype dtype, situ_device device, const uint32_t *sum);

/* The values of a tensor of any device and strides, row by row, in host memory. The pointer lives
   as long as the innermost scope. *data is NULL for an empty tensor. */
situ_status situ__values_on_host(const char *op, const char *name, situ_tensor *t, const void **data, size_t *bytes);
/* Writes them; *sum (may be NULL) gets their checksum. */
situ_status situ__values_write(situ__replace *r, const void *data, size_t bytes, uint32_t *sum);
/* Ends the file, and tells what has become of the target where the options ask. */
situ_status situ__values_end(situ__replace *r, const situ_save_options *options);

#endif
