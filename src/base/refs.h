/* Counts of owners, and locks that are held for a few instructions. While the process has one thread they need no
   locked instructions, of which each takes as long as twenty others.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_REFS_H
#define SITU_BASE_REFS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define SITU__ONE_THREAD __libc_single_threaded
#endif
#endif
#ifndef SITU__ONE_THREAD
#define SITU__ONE_THREAD false
#endif

/* True only if no other thread can run until the calling one starts it, which orders its memory after all before. */
static inline bool situ__one_thread(void) { return SITU__ONE_THREAD; }

static inline void situ__refs_add(int64_t *refs) {
  if (situ__one_thread()) __atomic_store_n(refs, __atomic_load_n(refs, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
  else (void)__atomic_fetch_add(refs, 1, __ATOMIC_RELAXED);
}

/* Returns true if that was the last owner. A single one, the usual case, leaves its count as it is. */
static inline bool situ__refs_drop(int64_t *refs) {
  const int64_t owners = __atomic_load_n(refs, __ATOMIC_ACQUIRE);
  if (owners == 1) return true;
  if (!situ__one_thread()) return __atomic_sub_fetch(refs, 1, __ATOMIC_ACQ_REL) <= 0;
  __atomic_store_n(refs, owners - 1, __ATOMIC_RELAXED);
  return owners <= 1;
}

static inline void situ__spin_lock(uint32_t *lock) {
  if (situ__one_thread()) return;
  while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}
static inline void situ__spin_unlock(uint32_t *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

#endif
