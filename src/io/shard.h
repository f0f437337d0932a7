/* One open safetensors file: the only one, or one of several.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_SHARD_H
#define SITU_IO_SHARD_H

#include "io/header.h"
#include "io/mapping.h"

typedef struct situ__shard {
  char *path;
  int fd;
  situ__header header;
  uint32_t *sum; /* of each tensor; NULL: the file has none, or nobody wants to know */
  situ__mapping *mapping;
} situ__shard;

/* Opens the file and checks its header; path, a block of situ__alloc, is taken over (NULL: no
   memory). false: recorded, unless the file is *missing; the shard must be closed all the same. */
bool situ__shard_open(situ__shard *s, const char *op, char *path, const situ_load_options *options, bool *missing);
void situ__shard_close(situ__shard *s);

#endif
