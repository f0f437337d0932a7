/* What is about to be saved, and one safetensors file of it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_SAVE_H
#define SITU_IO_SAVE_H

#include "io/header.h"

/* One tensor on its way into a file. Names lie in a tree that outlives it. */
typedef struct situ__saved {
  situ_file_entry entry;
  situ_tensor *tensor;
} situ__saved;

/* Writes one file. list is put in order of names, and its offsets are set. */
situ_status situ__save_file(const char *op, const char *path, situ__saved *list, int64_t count,
                            const situ_save_options *options);
/* Writes list into several files and path, their index. */
situ_status situ__save_shards(const char *op, const char *path, situ__saved *list, int64_t count,
                              const situ_save_options *options);

#endif
