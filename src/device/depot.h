/* The blocks of a device that nobody uses, by size, and what a device has given out.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_DEPOT_H
#define SITU_DEVICE_DEPOT_H

#include <pthread.h>

#include "device/device.h"

/* Blocks come in sizes, numbered: multiples of 64 up to 1 KiB, then eight to a doubling, so that at
   most an eighth is wasted. */
enum {
  SITU__BLOCK_STEP = 64,
  SITU__BLOCK_LINEAR = 16,                         /* sizes of the first KiB */
  SITU__BLOCK_SMALL = SITU__BLOCK_LINEAR + 8 * 10, /* sizes up to 1 MiB */
  SITU__BLOCK_SIZES = SITU__BLOCK_LINEAR + 8 * 52  /* up to 2^62 */
};
#define SITU__BLOCK_LARGEST ((size_t)1 << 62)

/* The number of the size that 1 <= bytes <= SITU__BLOCK_LARGEST needs, and the size. */
static inline unsigned situ__block_number(size_t bytes, size_t *size) {
  if (bytes <= SITU__BLOCK_STEP * SITU__BLOCK_LINEAR) {
    unsigned number = (unsigned)((bytes - 1) / SITU__BLOCK_STEP);
    *size = (number + 1) * (size_t)SITU__BLOCK_STEP;
    return number;
  }
  /* 2^log < bytes <= 2^(log+1), log >= 10 */
  unsigned log = 63u - (unsigned)__builtin_clzll(bytes - 1);
  size_t step = (size_t)1 << (log - 3);
  unsigned eighth = (unsigned)((bytes - 1 - ((size_t)1 << log)) / step);
  *size = ((size_t)1 << log) + (eighth + 1) * step;
  return SITU__BLOCK_LINEAR + 8 * (log - 10) + eighth;
}

static inline size_t situ__block_size(unsigned number) {
  if (number < SITU__BLOCK_LINEAR) return (number + 1) * (size_t)SITU__BLOCK_STEP;
  unsigned log = (number - SITU__BLOCK_LINEAR) / 8 + 10;
  size_t eighths = (number - SITU__BLOCK_LINEAR) % 8 + 1;
  return ((size_t)1 << log) + (eighths << (log - 3));
}

typedef struct situ__stack {
  void **block;
  uint32_t count, capacity;
} situ__stack;

typedef struct situ__depot {
  pthread_mutex_t lock;
  situ_device device;
  situ__stack blocks[SITU__BLOCK_SIZES];
  size_t kept, limit; /* bytes in the stacks, and the most that there may be */
  size_t total;       /* bytes that the host has; a device knows its own budget */
  int64_t used;       /* bytes in storages; for the host: without the threads' own counts */
} situ__depot;

/* NULL: no memory for it. */
situ__depot *situ__depot_of(situ_device device);
/* NULL: if it was never opened. */
situ__depot *situ__depot_if_open(unsigned kind, unsigned index);
/* NULL: there is no block of this size. */
void *situ__depot_take(situ__depot *depot, unsigned number, size_t size);
/* Keeps a block, or gives it back if enough is kept or there is no room to note it. */
void situ__depot_put(situ__depot *depot, unsigned number, size_t size, void *data);
/* Gives back all that is kept; true if there was anything. */
bool situ__depot_empty(situ__depot *depot);
/* Gives one block back to the device. */
void situ__depot_give_back(situ_device device, void *data, size_t size);
/* Makes a fork's child find the host's locks free. Once. */
void situ__depot_watch_forks(void);

#endif
