/* The cache of a device's free blocks, by size, with its bound and its counters.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_BLOCK_CACHE_H
#define SITU_DEVICE_BLOCK_CACHE_H

#include "base/mutex.h"
#include "device/device.h"

/* Block sizes are numbered: multiples of 64 up to 1 KiB, then eight sizes per power of two, so that rounding wastes
   at most an eighth. Above 16 MiB they are multiples of 1 MiB, which share one number. */
enum {
  SITU__BLOCK_STEP = 64,
  SITU__BLOCK_LINEAR = 16,                         /* number of sizes up to 1 KiB */
  SITU__BLOCK_SMALL = SITU__BLOCK_LINEAR + 8 * 10, /* number of sizes up to 1 MiB */
  SITU__BLOCK_HUGE = SITU__BLOCK_LINEAR + 8 * 14,  /* number of sizes up to 16 MiB; the number of all larger ones */
  SITU__BLOCK_BINS,
  SITU__BLOCK_HUGE_STEP = 1 << 20
};
#define SITU__BLOCK_LARGEST ((size_t)1 << 62)

/* Returns the number of the block size for 1 <= bytes <= SITU__BLOCK_LARGEST, and sets *size. */
static inline unsigned situ__block_number(size_t bytes, size_t *size) {
  if (bytes <= SITU__BLOCK_STEP * SITU__BLOCK_LINEAR) {
    unsigned number = (unsigned)((bytes - 1) / SITU__BLOCK_STEP);
    *size = (number + 1) * (size_t)SITU__BLOCK_STEP;
    return number;
  }
  if (bytes > (size_t)16 << 20) {
    *size = (bytes + SITU__BLOCK_HUGE_STEP - 1) & ~(size_t)(SITU__BLOCK_HUGE_STEP - 1);
    return SITU__BLOCK_HUGE;
  }
  /* 2^log < bytes <= 2^(log+1), log >= 10 */
  unsigned log = 63u - (unsigned)__builtin_clzll(bytes - 1);
  size_t step = (size_t)1 << (log - 3);
  unsigned eighth = (unsigned)((bytes - 1 - ((size_t)1 << log)) / step);
  *size = ((size_t)1 << log) + (eighth + 1) * step;
  return SITU__BLOCK_LINEAR + 8 * (log - 10) + eighth;
}

/* For numbers below SITU__BLOCK_HUGE. */
static inline size_t situ__block_size(unsigned number) {
  if (number < SITU__BLOCK_LINEAR) return (number + 1) * (size_t)SITU__BLOCK_STEP;
  unsigned log = (number - SITU__BLOCK_LINEAR) / 8 + 10;
  size_t eighths = (number - SITU__BLOCK_LINEAR) % 8 + 1;
  return ((size_t)1 << log) + (eighths << (log - 3));
}

typedef struct situ__kept {
  void *data;
  size_t size;
  uint64_t epoch; /* in which it was returned */
} situ__kept;

/* Free blocks of one number, in the order of their return. */
typedef struct situ__bin {
  situ__kept *block;
  uint32_t count, capacity;
} situ__bin;

/* The block cache keeps out + kept at most 4/3 of the recent peak of `out` + SITU__BLOCK_CACHE_SLACK. Recent: this
   epoch and the last one; an epoch ends when several times that amount was handed out. With the lists of all threads
   (memory.c) and the loss to rounding, held memory is at most 3/2 of the peak of bytes in storages + 64 MiB. */
typedef struct situ__block_cache {
  situ__mutex lock;
  situ_device device;
  situ__bin bin[SITU__BLOCK_BINS];
  size_t kept;            /* bytes in the bins */
  size_t out;             /* bytes of all other blocks: under storages, in threads' lists */
  size_t highest, before; /* peak of `out` in this epoch, in the last one */
  size_t handed_out;      /* bytes in this epoch */
  uint64_t epoch;
  bool crowded;        /* a block could not be kept: free the unused ones */
  size_t total, limit; /* upper bounds on out + kept: memory of the host, limit set by the program */
  int64_t used;        /* bytes of storages; for the host, excluding the threads' own counts */
} situ__block_cache;
enum { SITU__BLOCK_CACHE_SLACK = 32 << 20 };

/* Returns NULL when memory runs out. */
situ__block_cache *situ__block_cache_of(situ_device device);
/* Returns NULL if it was never opened. */
situ__block_cache *situ__block_cache_if_open(unsigned kind, unsigned index);
/* Returns a free block, which counts as out from now on; NULL if there is none of this size. */
void *situ__block_cache_take(situ__block_cache *blocks, unsigned number, size_t size);
/* Counts a block that will be allocated from the device, and frees cached ones as far as the bound requires. Returns
   false, without counting it, if a limit is exceeded. */
bool situ__block_cache_reserve(situ__block_cache *blocks, size_t size);
/* Ends a reservation: had tells whether the device allocated the block. */
void situ__block_cache_reserved(situ__block_cache *blocks, size_t size, bool had);
/* Takes a block back, and keeps it or frees it on the device (enough blocks kept, or no memory for the list). */
void situ__block_cache_put(situ__block_cache *blocks, unsigned number, size_t size, void *data);
/* Takes a block back and frees it on the device. */
void situ__block_cache_return(situ__block_cache *blocks, size_t size, void *data);
/* Frees all blocks that it keeps. Returns true if there were any. */
bool situ__block_cache_empty(situ__block_cache *blocks);
/* Resets the peaks to what is out now. */
void situ__block_cache_forget(situ__block_cache *blocks);
/* Sets the upper bound on out + kept. */
void situ__block_cache_limit(situ__block_cache *blocks, size_t bytes);

#endif
