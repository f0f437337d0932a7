/* A mapped file, kept by everybody who looks at a part of it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_MAPPING_H
#define SITU_IO_MAPPING_H

#include "situ/tensor.h"

typedef struct situ__mapping situ__mapping;

/* Maps the whole file; what is written to it stays in this process. NULL: recorded. */
situ__mapping *situ__mapping_new(const char *op, const char *path, int fd, int64_t bytes);
void situ__mapping_release(situ__mapping *mapping);
/* The bytes at an offset. */
const char *situ__mapping_at(const situ__mapping *mapping, int64_t offset);
/* A tensor on the mapped bytes at an offset, which are aligned for it; it keeps the mapping. */
situ_tensor *situ__mapping_tensor(situ__mapping *mapping, int64_t offset, const situ_shape *shape, situ_dtype dtype);

#endif
