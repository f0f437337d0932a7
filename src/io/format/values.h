/* Transfers the values of a tensor between a file and memory, for all formats.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_VALUES_H
#define SITU_IO_VALUES_H

#include "base/replace.h"
#include "mapping.h"
#include "still.h"
#include "situ/io.h"

/* The formats are little-endian, like all supported machines. */
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "src/io reads and writes values as they lie in memory: it needs a little-endian machine"
#endif

/* The location of values. */
typedef struct situ__source {
  const char *op, *path;
  int fd;
  situ__mapping *mapping; /* NULL: read from fd */
} situ__source;

/* Returns a tensor of checked shape and dtype with the values at an offset, on `device`, owned by the innermost
   scope. If sum is not NULL, the values must have that checksum. Returns NULL after recording an error that names the
   tensor. */
situ_tensor *situ__values_load(const situ__source *source, const char *name, int64_t offset, const situ_shape *shape,
                               situ_dtype dtype, situ_device device, const uint32_t *sum);

/* Compares a checksum with the values of a tensor, of which it keeps none. */
situ_status situ__values_check(const situ__source *source, const char *name, int64_t offset, int64_t bytes,
                               uint32_t sum);

/* Sets *data to the values of a tensor of any device and strides, row-major, in host memory that lives as long as the
   innermost scope; NULL for an empty tensor. */
situ_status situ__values_on_host(const char *op, const char *name, situ_tensor *t, const void **data, size_t *bytes);
/* Writes t's values, which situ__values_on_host has found at `data`; sets *sum (may be NULL) to the checksum of what is
   written. */
situ_status situ__values_write(situ__replace *r, const situ_tensor *t, const void *data, size_t bytes, uint32_t *sum);
/* Ends the replacement of the file, if what was read of `still` has stayed as it was, and sets options->replaced if it
   is given. */
situ_status situ__values_end(situ__replace *r, const situ_save_options *options, const situ__still *still);

/* Ends the filling of a new tensor whose address (situ_data_ptr) the library alone has. */
void situ__values_hide(situ_tensor *t);

#endif
