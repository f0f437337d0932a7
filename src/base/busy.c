/* Uses and claims: see busy.h.
   SPDX-License-Identifier: MIT */
#include "base/busy.h"

#include <pthread.h>
#include <sched.h>

#include "base/fail.h"
#include "base/mutex.h"
#include "base/refs.h"
#include "base/thread.h"

/* What a thread uses, innermost first. The thread itself holds `lock` for a moment, and so does a claim that scans
   the list. */
typedef struct thread_uses {
  uint32_t lock;
  uint32_t number; /* number of the thread, from 1; 0: not listed yet */
  situ__use *first;
  struct thread_uses *next, **link;
} thread_uses;

static SITU__THREAD_LOCAL thread_uses mine;
static situ__mutex claiming = SITU__MUTEX_INIT; /* guards all marks and the list */
static thread_uses *threads;
static situ__claim *claims; /* without the lock, test only for NULL */
static uint64_t begun;      /* number of claims so far, which is the number of the newest */
static uint64_t writing;    /* locks of situ__write_begin that are held: storages share the 64 */
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The locks of situ__write_begin that this thread holds. */
static SITU__THREAD_LOCAL uint64_t own;

static void unlink_claim(situ__claim *c) {
  __atomic_store_n(c->link, c->next, __ATOMIC_RELEASE);
  if (c->next) c->next->link = c->link;
}

/* ---- the list of threads ---- */

static void delist(void *unused) {
  (void)unused;
  situ__mutex_lock(&claiming);
  *mine.link = mine.next;
  if (mine.next) mine.next->link = mine.link;
  mine.number = 0;
  situ__mutex_unlock(&claiming);
}

/* The other threads, and their calls, exist only in the parent. */
static void in_child(void) {
  threads = mine.number ? &mine : NULL;
  mine.next = NULL;
  mine.link = &threads;
  writing = own;
  for (situ__claim *c = claims, *next; c; c = next) {
    next = c->next;
    if (c->thread != mine.number) unlink_claim(c);
  }
}

static void install_handlers(void) {
  (void)pthread_key_create(&at_exit, delist);
  (void)pthread_atfork(NULL, NULL, in_child);
}

/* The list points into thread-local memory, so a thread whose exit cannot be observed is not listed. */
static SITU_COLD void enlist(void) {
  static uint32_t numbers;
  (void)pthread_once(&once, install_handlers);
  if (pthread_setspecific(at_exit, &mine) != 0) return;
  situ__mutex_lock(&claiming);
  mine.number = ++numbers;
  mine.next = threads;
  mine.link = &threads;
  if (threads) threads->link = &mine.next;
  threads = &mine;
  situ__mutex_unlock(&claiming);
}

/* ---- marks: 0, or the number of a claim, which may have ended ---- */

/* Returns the thread whose claim set this mark; 0: none. */
static uint32_t claimed_by(uint64_t mark) {
  const situ__claim *c = mark ? claims : NULL;
  while (c && c->number != mark) c = c->next;
  return c ? c->thread : 0;
}

/* True for a mark of an outer claim, too: that claim has found no use, and uses that begin later are refused. */
static bool is_not_new(uint64_t *mark) { return *mark != begun; }
static bool is_free(uint64_t *mark) {
  const uint32_t thread = claimed_by(*mark);
  return !thread || thread == mine.number;
}
/* Marks for the newest claim. It enters the list only once all its parts are marked; until then its marks have no
   effect. */
static bool take_mark(uint64_t *mark) {
  const uint32_t thread = claimed_by(*mark);
  if (!thread) *mark = begun;
  return !thread || thread == mine.number;
}

/* ---- uses ---- */

static void pop_use(void) {
  situ__spin_lock(&mine.lock);
  mine.first = mine.first->outer;
  situ__spin_unlock(&mine.lock);
}

/* A thread that moves a module walks it, too: the marks of its own claims need not be looked at. */
static bool only_mine(void) {
  const situ__claim *c = claims;
  while (c && c->thread == mine.number) c = c->next;
  return !c;
}

static SITU_COLD bool is_admitted(situ__use *use) {
  situ__mutex_lock(&claiming);
  bool good = only_mine() || use->marks(use->object, is_free);
  situ__mutex_unlock(&claiming);
  if (!good) {
    pop_use();
    *use = (situ__use){ 0 };
  }
  return good;
}

/* Either the claiming thread finds the use in the list, or it took this thread's lock first: then this thread sees
   the claim, or sees that it has ended together with all that it changed. */
bool situ__use_begin(situ__use *use, situ__marks *marks, const void *object) {
  if (__builtin_expect(!mine.number, 0)) enlist();
  *use = (situ__use){ marks, object, mine.first };
  situ__spin_lock(&mine.lock);
  mine.first = use;
  situ__spin_unlock(&mine.lock);
  return __builtin_expect(!__atomic_load_n(&claims, __ATOMIC_ACQUIRE), 1) || is_admitted(use);
}

void situ__use_end(void) { pop_use(); }

/* ---- claims ---- */

/* Returns true if another thread uses an object that the newest claim has marked. */
static bool used_elsewhere(void) {
  bool used = false;
  for (thread_uses *t = threads; t && !used; t = t->next) {
    if (t == &mine) continue;
    situ__spin_lock(&t->lock);
    for (const situ__use *u = t->first; u && !used; u = u->outer) used = !u->marks(u->object, is_not_new);
    situ__spin_unlock(&t->lock);
  }
  return used;
}

static void link_claim(situ__claim *c) {
  c->next = claims;
  c->link = &claims;
  if (claims) claims->link = &c->next;
  __atomic_store_n(&claims, c, __ATOMIC_RELAXED);
}

bool situ__claim_begin(situ__claim *claim, situ__marks *marks, const void *object) {
  if (!mine.number) enlist();
  situ__mutex_lock(&claiming);
  *claim = (situ__claim){ .number = ++begun, .thread = mine.number };
  bool good = marks(object, take_mark);
  if (good) {
    link_claim(claim);
    if (used_elsewhere()) {
      unlink_claim(claim);
      good = false;
    }
  }
  situ__mutex_unlock(&claiming);
  if (!good) *claim = (situ__claim){ 0 };
  return good;
}

void situ__claim_end(situ__claim *claim) {
  if (!claim->number) return;
  situ__mutex_lock(&claiming);
  unlink_claim(claim);
  situ__mutex_unlock(&claiming);
  *claim = (situ__claim){ 0 };
}

/* ---- writes of what others read ---- */

uint64_t situ__write_lock_of(const void *storage) {
  return storage ? UINT64_C(1) << ((uintptr_t)storage >> 6) % 64 : 0;
}

/* All at once, so that two threads cannot each wait for the other. */
uint64_t situ__write_begin(uint64_t locks) {
  uint64_t held = 0;
  locks &= ~own;
  if (!locks) return 0;
  if (!mine.number) enlist(); /* for a fork */
  while (!__atomic_compare_exchange_n(&writing, &held, held | locks, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    if (held & locks) {
      sched_yield();
      held = __atomic_load_n(&writing, __ATOMIC_RELAXED) & ~locks;
    }
  own |= locks;
  return locks;
}

void situ__write_end(uint64_t locks) {
  if (!locks) return;
  own &= ~locks;
  __atomic_fetch_and(&writing, ~locks, __ATOMIC_RELEASE);
}

/* ---- exclusive use ---- */

situ__alone *situ__alone_begin(situ__alone *alone, const char *op, const char *object) {
  uint32_t none = 0;
  if (!mine.number) enlist();
  if (__atomic_load_n(&alone->thread, __ATOMIC_RELAXED) != mine.number &&
      !__atomic_compare_exchange_n(&alone->thread, &none, mine.number, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return situ__busy(op, object), NULL;
  alone->depth++;
  return alone;
}

void situ__alone_end(situ__alone *const *alone) {
  if (*alone && --(*alone)->depth == 0) __atomic_store_n(&(*alone)->thread, 0, __ATOMIC_RELEASE);
}

bool situ__busy(const char *op, const char *object) {
  return situ__fail(SITU_E_STATE, op,
                    "%s is busy: another thread is in a call that uses or changes it; "
                    "call this again when that has returned, or guard both with a lock",
                    object),
         false;
}
