/* The library's locks, all in one list: a fork takes each, so that its child finds each free and what it guards whole.
   Threads may take them in any order that does not deadlock. Modules have locks of their own: their devices are refused
   in a child (fork.h).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_MUTEX_H
#define SITU_BASE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "base/thread.h"

typedef struct situ__mutex {
  pthread_mutex_t lock;
  const void *holder; /* of the thread that holds it, the address of its situ__mutex_self */
  bool listed, held_by_fork;
  struct situ__mutex *next, **link; /* in the list of all */
} situ__mutex;
#define SITU__MUTEX_INIT \
  { .lock = PTHREAD_MUTEX_INITIALIZER }

extern SITU__THREAD_LOCAL char situ__mutex_self;

void situ__mutex_list(situ__mutex *m);

/* Of an object: before its first use, and before its memory is freed. */
void situ__mutex_init(situ__mutex *m);
void situ__mutex_destroy(situ__mutex *m);

static inline void situ__mutex_hold(situ__mutex *m) {
  __atomic_store_n(&m->holder, &situ__mutex_self, __ATOMIC_RELAXED);
}

static inline void situ__mutex_lock(situ__mutex *m) {
  if (__builtin_expect(!__atomic_load_n(&m->listed, __ATOMIC_ACQUIRE), 0)) situ__mutex_list(m);
  (void)pthread_mutex_lock(&m->lock);
  situ__mutex_hold(m);
}

static inline bool situ__mutex_trylock(situ__mutex *m) {
  if (__builtin_expect(!__atomic_load_n(&m->listed, __ATOMIC_ACQUIRE), 0)) situ__mutex_list(m);
  if (pthread_mutex_trylock(&m->lock) != 0) return false;
  situ__mutex_hold(m);
  return true;
}

static inline void situ__mutex_unlock(situ__mutex *m) {
  __atomic_store_n(&m->holder, NULL, __ATOMIC_RELAXED);
  (void)pthread_mutex_unlock(&m->lock);
}

static inline void situ__mutex_wait(situ__mutex *m, pthread_cond_t *condition) {
  __atomic_store_n(&m->holder, NULL, __ATOMIC_RELAXED);
  (void)pthread_cond_wait(condition, &m->lock);
  situ__mutex_hold(m);
}

#endif
