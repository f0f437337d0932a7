/* Memory of tensors in a scratch file, which is written to as they are.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TENSOR_BACKING_H
#define SITU_TENSOR_BACKING_H

#include "tensor/tensor.h"

typedef struct situ__backing situ__backing;

/* Makes the file, which must not be there. keep: it has its name for as long as the program leaves it that; otherwise
   it loses it now, and its space is free when its last storage is. Returns NULL after recording an error. */
situ__backing *situ__backing_new(const char *op, const char *path, bool keep);
/* Gives the caller's reference up; remove: a kept file goes, too. */
void situ__backing_release(situ__backing *file, bool remove);
/* A storage on the cpu of so many bytes, for which the disk has reserved space. NULL after recording an error. */
situ_storage *situ__backing_storage(const char *op, situ__backing *file, size_t bytes);
/* The file that a storage is in; NULL: none. */
situ__backing *situ__backing_of(const situ_storage *storage);
/* Whether it is in one: may be asked while the memory moves, as the file itself may not. */
bool situ__is_piece(const situ_storage *storage);
static inline bool situ__is_backed(const situ_storage *storage) {
  return __builtin_expect(situ__storage_flags(storage) & SITU_STORAGE_MAPPED, 0) && situ__is_piece(storage);
}

#endif
