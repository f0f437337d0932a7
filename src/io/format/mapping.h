/* A memory-mapped file, shared by the tensors on it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_MAPPING_H
#define SITU_IO_MAPPING_H

#include "situ/tensor.h"

typedef struct situ__mapping situ__mapping;

/* Maps the whole file; writes to the memory do not reach the file. Returns NULL after recording an error. */
situ__mapping *situ__mapping_new(const char *op, const char *path, int fd, int64_t bytes);
void situ__mapping_release(situ__mapping *mapping);
/* Returns a pointer to the bytes at an offset. */
const char *situ__mapping_at(const situ__mapping *mapping, int64_t offset);
/* Returns a tensor on the bytes at an offset, which must be aligned for dtype. It holds a reference to the
   mapping. */
situ_tensor *situ__mapping_tensor(situ__mapping *mapping, int64_t offset, const situ_shape *shape, situ_dtype dtype);

#endif
