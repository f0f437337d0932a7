/* Forks: the child has each lock free, and remembers that threads and devices exist only in the parent.
   SPDX-License-Identifier: MIT */
#include "base/fork.h"

#include <pthread.h>
#include <sched.h>

#include "base/mutex.h"
#include "base/slab.h"
#include "base/stripes.h"

/* How often a fork that has some of the locks asks for one more, before it gives all back: its holder may wait for one
   of them. */
enum { PATIENCE = 1000 };

bool situ__fork_happened;
static bool guarded;
SITU__THREAD_LOCAL char situ__mutex_self;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
static situ__mutex *all;
situ__stripe situ__stripes[SITU__STRIPES];
static int stripes_held; /* the first so many, by a fork */

/* A lock that the forking thread holds already (it forks in a callback) stays its own, in the child, too. */
static bool take(situ__mutex *m) {
  if (__atomic_load_n(&m->holder, __ATOMIC_RELAXED) == &situ__mutex_self) return true;
  for (int i = 0; i < PATIENCE; i++) {
    if (pthread_mutex_trylock(&m->lock) == 0) return m->held_by_fork = true;
    (void)sched_yield();
  }
  return false;
}

static bool take_stripe(void) {
  for (int i = 0; i < PATIENCE; i++) {
    if (!__atomic_exchange_n(&situ__stripes[stripes_held].lock, 1, __ATOMIC_ACQUIRE)) return stripes_held++, true;
    (void)sched_yield();
  }
  return false;
}

static void give_back(void) {
  while (stripes_held) situ__spin_unlock(&situ__stripes[--stripes_held].lock);
  for (situ__mutex *m = all; m; m = m->next)
    if (m->held_by_fork) {
      m->held_by_fork = false;
      (void)pthread_mutex_unlock(&m->lock);
    }
  (void)pthread_mutex_unlock(&listing);
}

static bool take_all(void) {
  (void)pthread_mutex_lock(&listing);
  for (situ__mutex *m = all; m; m = m->next)
    if (!take(m)) return give_back(), false;
  while (stripes_held < SITU__STRIPES)
    if (!take_stripe()) return give_back(), false;
  return true;
}

static void before_fork(void) {
  while (!take_all()) (void)sched_yield();
  situ__slab_lock(); /* last: its holder waits for none of the others */
}

static void in_parent(void) {
  situ__slab_unlock();
  give_back();
}

static void in_child(void) {
  in_parent();
  __atomic_store_n(&situ__fork_happened, guarded, __ATOMIC_RELAXED);
}

static void watch(void) { (void)pthread_atfork(before_fork, in_parent, in_child); }

void situ__fork_watch(void) { (void)pthread_once(&once, watch); }

void situ__fork_guard(void) {
  situ__fork_watch();
  __atomic_store_n(&guarded, true, __ATOMIC_RELAXED);
}

void situ__mutex_list(situ__mutex *m) {
  situ__fork_watch();
  (void)pthread_mutex_lock(&listing);
  if (!m->listed) {
    m->next = all;
    m->link = &all;
    if (all) all->link = &m->next;
    all = m;
    __atomic_store_n(&m->listed, true, __ATOMIC_RELEASE);
  }
  (void)pthread_mutex_unlock(&listing);
}

void situ__mutex_init(situ__mutex *m) {
  *m = (situ__mutex)SITU__MUTEX_INIT;
  situ__mutex_list(m);
}

void situ__mutex_destroy(situ__mutex *m) {
  (void)pthread_mutex_lock(&listing);
  *m->link = m->next;
  if (m->next) m->next->link = m->link;
  (void)pthread_mutex_unlock(&listing);
  (void)pthread_mutex_destroy(&m->lock);
}
