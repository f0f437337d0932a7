/* The blocks of a device that are free, by size, how many there may be, and what a device has given out.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_DEPOT_H
#define SITU_DEVICE_DEPOT_H

#include <pthread.h>

#include "device/device.h"

/* Blocks come in sizes, numbered: multiples of 64 up to 1 KiB, then eight to a doubling, so that at most an eighth is
   wasted, and above 16 MiB multiples of 1 MiB, which have one number. */
enum {
  SITU__BLOCK_STEP = 64,
  SITU__BLOCK_LINEAR = 16,                         /* sizes of the first KiB */
  SITU__BLOCK_SMALL = SITU__BLOCK_LINEAR + 8 * 10, /* sizes up to 1 MiB */
  SITU__BLOCK_HUGE = SITU__BLOCK_LINEAR + 8 * 14,  /* sizes up to 16 MiB; the number of all others */
  SITU__BLOCK_BINS,
  SITU__BLOCK_HUGE_STEP = 1 << 20
};
#define SITU__BLOCK_LARGEST ((size_t)1 << 62)

/* The number of the size that 1 <= bytes <= SITU__BLOCK_LARGEST needs, and the size. */
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

/* Of the numbers below SITU__BLOCK_HUGE. */
static inline size_t situ__block_size(unsigned number) {
  if (number < SITU__BLOCK_LINEAR) return (number + 1) * (size_t)SITU__BLOCK_STEP;
  unsigned log = (number - SITU__BLOCK_LINEAR) / 8 + 10;
  size_t eighths = (number - SITU__BLOCK_LINEAR) % 8 + 1;
  return ((size_t)1 << log) + (eighths << (log - 3));
}

typedef struct situ__kept {
  void *data;
  size_t size;
  uint64_t epoch; /* in which it came */
} situ__kept;

/* Free blocks of one number, in the order in which they came. */
typedef struct situ__bin {
  situ__kept *block;
  uint32_t count, capacity;
} situ__bin;

/* `held` = out + kept is at most 4/3 of the most that `out` was of late, and SITU__DEPOT_SLACK. Of late: in this epoch and
   the one before. An epoch ends when a few times that much was handed out. So, with all threads' lists (memory.c) and with
   what rounding wastes, held <= 3/2 of the bytes of storages at their peak + 64 MiB. */
typedef struct situ__depot {
  pthread_mutex_t lock;
  situ_device device;
  situ__bin bin[SITU__BLOCK_BINS];
  size_t kept;            /* bytes in the bins */
  size_t out;             /* bytes of blocks elsewhere: under storages, in threads' lists */
  size_t highest, before; /* the most that `out` was: in this epoch, in the one before */
  size_t handed_out;      /* in this epoch */
  uint64_t epoch;
  bool crowded;        /* a block could not be kept: those that are not used must make room */
  size_t total, limit; /* the most that may be held: what the host has, what the program allows */
  int64_t used;        /* bytes of storages; for the host: without the threads' own counts */
} situ__depot;
enum { SITU__DEPOT_SLACK = 32 << 20 };

/* NULL: no memory for it. */
situ__depot *situ__depot_of(situ_device device);
/* NULL: if it was never opened. */
situ__depot *situ__depot_if_open(unsigned kind, unsigned index);
/* A free block, which is out from now on. NULL: there is none of this size. */
void *situ__depot_take(situ__depot *depot, unsigned number, size_t size);
/* Notes a block that will be asked of the device; gives free ones back as far as the bound demands it. False: more than
   may be held; nothing is noted. */
bool situ__depot_reserve(situ__depot *depot, size_t size);
/* The device had it, or had none. */
void situ__depot_reserved(situ__depot *depot, size_t size, bool had);
/* Takes a block back and keeps it, or gives it to the device if enough is kept or there is no room to note it. */
void situ__depot_put(situ__depot *depot, unsigned number, size_t size, void *data);
/* Takes a block back and gives it to the device. */
void situ__depot_return(situ__depot *depot, size_t size, void *data);
/* Gives back all that is kept; true if there was anything. */
bool situ__depot_empty(situ__depot *depot);
/* Forgets how much was out before. */
void situ__depot_forget(situ__depot *depot);
/* The most that may be held, from now on. */
void situ__depot_limit(situ__depot *depot, size_t bytes);
/* Makes a fork's child find the host's locks free. Once. */
void situ__depot_watch_forks(void);

#endif
