/* Freed handles: quarantined, recognised when passed again, and at last released.
   SPDX-License-Identifier: MIT */
#include "base/handle.h"

#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/mutex.h"
#include "base/thread.h"

enum {
  DEAD = 0x64650000,   /* | kind: freed; `text` describes it */
  CLOSED = 0x636c0000, /* | kind: freed by the program, still used by the library */
  HELD = 2048,         /* capacity of a kind's quarantine; for tensors the minimum in each thread */
  MOST = 2 * HELD,     /* maximum for tensors in each thread */
  BYTES = 1 << 20,     /* maximum bytes of a kind, except tensors */
  SMALLEST = 64,       /* minimum size of a handle: holds a text */
  LINE = 64            /* cache line size on nearly all processors */
};

/* A freed handle. */
typedef struct dead {
  uint32_t head, size;
  struct dead *next; /* the next one to be freed */
  char text[];       /* of a tensor: its own fields */
} dead;
_Static_assert(offsetof(dead, text) == SITU__DEAD_HEAD, "what a tensor may not keep");

typedef struct queue {
  dead *first, *last;
  uint32_t count;
  size_t bytes;
} queue;

/* ---- the quarantine ---- */

static void push_dead(queue *q, dead *d) {
  d->next = NULL;
  if (q->last) q->last->next = d;
  else q->first = d;
  q->last = d;
  q->count++;
  q->bytes += d->size;
}

/* Removes the oldest one if the queue exceeds a limit, else returns NULL. */
static dead *pop_oldest(queue *q, uint32_t most, size_t bytes) {
  dead *d = q->first;
  if (!d || (q->count <= most && q->bytes <= bytes)) return NULL;
  q->first = d->next;
  if (!q->first) q->last = NULL;
  q->count--;
  q->bytes -= d->size;
  return d;
}

static void give_back(dead *d) {
  const size_t size = d->size;
  SITU__UNPOISON(d, size);
  situ__small_free(d, size);
}

static situ__mutex lock = SITU__MUTEX_INIT;
static queue shared[SITU__HANDLE_KINDS];

static void share_dead(dead *d, situ__handle_kind kind) {
  queue over = { 0 };
  situ__mutex_lock(&lock);
  push_dead(&shared[kind], d);
  for (dead *old; (old = pop_oldest(&shared[kind], HELD, BYTES));) push_dead(&over, old);
  situ__mutex_unlock(&lock);
  for (dead *old; (old = pop_oldest(&over, 0, 0));) give_back(old);
}

/* ---- tensors: one queue per thread; new tensors reuse its oldest memory ---- */

static SITU__THREAD_LOCAL queue mine; /* its bytes are not counted: all tensors have one size */
static SITU__THREAD_LOCAL bool ended; /* thread_exit was called */
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The tensors of a thread that ends stay quarantined: other threads may still know them. */
static void thread_exit(void *unused) {
  (void)unused;
  ended = true;
  for (dead *d; (d = pop_oldest(&mine, 0, 0));) share_dead(d, SITU__A_TENSOR);
}

static void make_key(void) { (void)pthread_key_create(&at_exit, thread_exit); }

/* The slow path: the first one of a thread, a full queue, or a thread that has ended. */
static SITU_COLD __attribute__((noinline)) void hold_dead(dead *d) {
  if (ended) {
    share_dead(d, SITU__A_TENSOR);
    return;
  }
  if (!mine.last) {
    (void)pthread_once(&once, make_key);
    (void)pthread_setspecific(at_exit, &once);
  }
  push_dead(&mine, d);
  dead *old = pop_oldest(&mine, MOST, SIZE_MAX);
  if (old) give_back(old);
}

void *situ__handle_new_tensor(void) {
  const size_t size = SITU__TENSOR_SIZE;
  dead *d = mine.first;
  if (mine.count <= HELD) return situ__small_alloc(size);
  if (situ__alloc_refused()) return NULL;
  SITU__UNPOISON(d, size);
  mine.first = d->next;
  mine.count--;
  /* The oldest ones are no longer in the cache: prefetch the one that the next call writes. */
  for (size_t at = 0; at < size; at += LINE) __builtin_prefetch((char *)mine.first + at, 1);
  return d;
}

void situ__handle_free_tensor(void *handle) {
  dead *d = handle, *last = mine.last;
  d->head = DEAD | SITU__A_TENSOR;
  d->size = SITU__TENSOR_SIZE;
  d->next = NULL;
  if (__builtin_expect(!last || mine.count == MOST, 0)) {
    hold_dead(d);
    return;
  }
  last->next = d;
  mine.last = d;
  mine.count++;
}

/* ---- other kinds ---- */

static size_t padded_size(size_t size) { return size < SMALLEST ? SMALLEST : size; }

void *situ__handle_new(situ__handle_kind kind, size_t size) {
  void *handle = situ__small_alloc(padded_size(size));
  const uint32_t head = SITU__LIVE(kind);
  if (handle) memcpy(memset(handle, 0, padded_size(size)), &head, sizeof head);
  return handle;
}

void situ__handle_close(void *handle) {
  dead *d = handle;
  d->head = CLOSED | (d->head & 0xffff);
}

void situ__handle_free(void *handle, size_t size, const char *text) {
  if (!handle) return;
  dead *d = handle;
  const situ__handle_kind kind = d->head & 0xffff;
  char which[SMALLEST - SITU__DEAD_HEAD] = ""; /* text may point into the object */
  if (text) memcpy(which, text, strnlen(text, sizeof which - 1));
  size = padded_size(size);
  memset(d, 0, size);
  memcpy(d->text, which, sizeof which);
  d->head = DEAD | (uint32_t)kind;
  d->size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
  SITU__POISON((char *)d + SMALLEST, size - SMALLEST);
  share_dead(d, kind);
}

void situ__handles_trim(void) {
  for (dead *d; (d = pop_oldest(&mine, 0, 0));) give_back(d);
  for (int kind = 1; kind < SITU__HANDLE_KINDS; kind++) {
    queue all = { 0 };
    situ__mutex_lock(&lock);
    for (dead *d; (d = pop_oldest(&shared[kind], 0, 0));) push_dead(&all, d);
    situ__mutex_unlock(&lock);
    for (dead *d; (d = pop_oldest(&all, 0, 0));) give_back(d);
  }
}

/* ---- messages about invalid handles ---- */

static const char *const kinds[] = {
  "",
  "a tensor",
  "a module",
  "a tree",
  "an optimiser",
  "a learning-rate scheduler",
  "a gradient scaler",
  "a data set",
  "a sampler",
  "a data loader",
  "a graph",
  "an open safetensors file",
  "a snapshot",
  "a planned move",
  "a prepared optimiser state",
  "a prepared scheduler state",
  "a communicator",
  "a communicator's request",
  "a simulated communicator's world",
  "a distributed module",
  "a divided optimiser",
  "a divided model",
  "a pipeline",
  "a profile",
};
_Static_assert(sizeof kinds / sizeof *kinds == SITU__HANDLE_KINDS, "each kind has its name");

bool situ__refuse_handle(const char *op, const char *argument, const void *handle, situ__handle_kind kind) {
  if (!handle) return situ__null(op, argument), false;
  dead d;
  memcpy(&d.head, handle, sizeof d.head);
  const uint32_t state = d.head & 0xffff0000u, is = d.head & 0xffff;
  const bool known = is > 0 && is < SITU__HANDLE_KINDS, freed = known && (state == DEAD || state == CLOSED);
  const char *also = kind == (situ__handle_kind)is ? "" : ", and ", *wanted = *also ? kinds[kind] : "",
             *needed = *also ? " is needed" : "";
  char which[256] = "";
  if (freed && state == DEAD && is == SITU__A_TENSOR) situ__base_up.describe_dead_tensor(handle, which, sizeof which);
  else if (freed && state == DEAD) (void)snprintf(which, sizeof which, "%s", ((const dead *)handle)->text);
  if (freed)
    situ__fail(SITU_E_ARG, op, "%s is %s that was freed%s%s%s%s%s%s", argument, kinds[is], *which ? " (" : "", which,
               *which ? ")" : "", also, wanted, needed);
  else if (known && state == SITU__LIVE(0))
    situ__fail(SITU_E_ARG, op, "%s is %s%s%s%s", argument, kinds[is], also, wanted, needed);
  else situ__fail(SITU_E_ARG, op, "%s is not %s: it was freed long ago, or it never was one", argument, kinds[kind]);
  return false;
}
