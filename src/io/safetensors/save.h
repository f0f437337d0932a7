/* The tensors to save, and the functions that write them to safetensors files.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_SAVE_H
#define SITU_IO_SAVE_H

#include "header.h"

/* One tensor to save. Its names point into a tree that outlives it. */
typedef struct situ__saved {
  situ_file_entry entry;
  situ_tensor *tensor;
} situ__saved;

struct situ__still;

/* Writes one file. Sorts list by name and sets its offsets. still: all tensors of the save. */
situ_status situ__save_file(const char *op, const char *path, situ__saved *list, int64_t count,
                            const situ_save_options *options, const struct situ__still *still);
/* Writes list to several files, and their index to path. */
situ_status situ__save_shards(const char *op, const char *path, situ__saved *list, int64_t count,
                              const situ_save_options *options, const struct situ__still *still);

#endif
