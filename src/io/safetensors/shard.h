/* One open safetensors file: a single file, or a shard of a model.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_SHARD_H
#define SITU_IO_SHARD_H

#include "header.h"
#include "io/format/mapping.h"

typedef struct situ__shard {
  char *path;
  int fd;
  situ__header header;
  uint32_t *sum; /* checksum of each tensor; NULL: the file has none, or they are not verified */
  situ__mapping *mapping;
  bool gguf; /* the file is one of GGUF: not opened, and no error was recorded */
} situ__shard;

/* Opens the file and checks its header. Takes over path, a block of situ__alloc (NULL: out of memory). Returns false
   after recording an error, or with *missing or s->gguf set. The caller must close the shard in each case. */
bool situ__shard_open(situ__shard *s, const char *op, char *path, const situ_load_options *options, bool *missing);
void situ__shard_close(situ__shard *s);

#endif
