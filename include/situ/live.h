/* Lists the live storages of all tensors, with the source lines that made them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_LIVE_H
#define SITU_LIVE_H

#include "tensor.h"

SITU_BEGIN

/** A live storage, as its oldest tensor describes it. */
typedef struct situ_live {
  situ_device device;
  uint64_t bytes;
  int64_t tensors; /**< on it: views, too */
  situ_dtype dtype;
  situ_shape shape;
  const char *role;  /**< "parameter", "gradient", ...; static text */
  uint64_t storage;  /**< its serial number; unique in the process */
  bool written;      /**< anything was written to it since it was made */
  char name[64];     /**< its name or module path (the end of it, if it is too long); "": none */
  char created[160]; /**< source line of the program that made it: "train.c:41 in step"; "": unknown */
} situ_live;
/** Lists the live storages of a device, of all devices for {0}, the largest first: at most `capacity` to out (may be
    NULL if capacity is 0). Returns how many there are; negative on error. Tensors cost nothing for it. What other
    threads make or free meanwhile may be missing. None
    are found by a library that is built with AddressSanitizer, where each tensor is a block of malloc's. */
SITU_API int64_t situ_live_list(situ_device device, situ_live *out, int64_t capacity);

SITU_END
#endif
