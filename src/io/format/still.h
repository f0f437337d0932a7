/* Tensors that are saved together: a file has them as they are at one moment, or it is not written.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_STILL_H
#define SITU_IO_STILL_H

#include "base/busy.h"
#include "situ/tensor.h"

typedef struct situ__still_tensor {
  situ_tensor *tensor,
      *leader; /* leader: of an optimiser's state, the parameter, which a step claims; owned, or NULL */
  const char *name;
  uint32_t version;
} situ__still_tensor;

typedef struct situ__still {
  situ__still_tensor *list;
  int64_t count;
  situ__use own, leaders;
} situ__still;

/* The i-th tensor of a list, NULL: none, and its name. */
typedef situ_tensor *situ__still_at(const void *list, int64_t i, const char **name);
/* For a tensor as a list of one. */
situ_tensor *situ__still_one(const void *list, int64_t i, const char **name);

/* Until situ__still_end, calls that claim one of the tensors (a step, a move, a load) are refused on other threads.
   Returns false after recording an error: one of them has begun already. */
bool situ__still_begin(const char *op, situ__still *s, situ__still_at *at, const void *list, int64_t count);
/* Behind the reading: returns false after recording that another thread has written one of the tensors, in place or by
   a forward. */
bool situ__still_unchanged(const char *op, const situ__still *s);
void situ__still_end(situ__still *s);

/* For reading a tensor's memory: no forward writes it until situ__write_end (base/busy.h) of what this returns. */
uint64_t situ__still_lock(const situ_tensor *t);

#endif
