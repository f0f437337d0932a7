/* Handles that were freed: held back, told from live ones, and at last given back.
   SPDX-License-Identifier: MIT */
#include "base/handle.h"

#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/thread.h"

enum {
  DEAD = 0x64650000,   /* | kind: `text` says which one it was */
  CLOSED = 0x636c0000, /* | kind: freed by the program, still used by the library */
  HELD = 2048,         /* so many of a kind are held back; of tensors, at least so many in each thread */
  MOST = 2 * HELD,     /* and at most so many */
  BYTES = 1 << 20,     /* of a kind no more than that, but for tensors */
  SMALLEST = 64,       /* room for a text */
  LINE = 64            /* bytes of a cache's line, on nearly every processor */
};

/* What a handle is once it was freed. */
typedef struct dead {
  uint32_t head, size;
  struct dead *next; /* freed after it */
  char text[];       /* of a tensor: its own fields */
} dead;
_Static_assert(offsetof(dead, text) == SITU__DEAD_HEAD, "what a tensor may not keep");

typedef struct queue {
  dead *first, *last;
  uint32_t count;
  size_t bytes;
} queue;

/* ---- holding back ---- */

static void put(queue *q, dead *d) {
  d->next = NULL;
  if (q->last) q->last->next = d;
  else q->first = d;
  q->last = d;
  q->count++;
  q->bytes += d->size;
}

/* The one that has been held longest, if that is enough; NULL: it is not. */
static dead *take(queue *q, uint32_t most, size_t bytes) {
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static queue shared[SITU__HANDLE_KINDS];

/* False: a thread of the parent held it when this process was forked, and will never give it back. */
static bool enter(void) { return (situ__forked() ? pthread_mutex_trylock(&lock) : pthread_mutex_lock(&lock)) == 0; }

static void share(dead *d, situ__handle_kind kind) {
  queue over = { 0 };
  if (!enter()) {
    give_back(d);
    return;
  }
  put(&shared[kind], d);
  for (dead *old; (old = take(&shared[kind], HELD, BYTES));) put(&over, old);
  pthread_mutex_unlock(&lock);
  for (dead *old; (old = take(&over, 0, 0));) give_back(old);
}

/* ---- tensors: a queue in each thread, from whose old end new ones are taken ---- */

static SITU__THREAD_LOCAL queue mine; /* its bytes are not counted: all are of one size */
static SITU__THREAD_LOCAL bool ended; /* thread_exit was called */
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Those of a thread that ends stay dead: another one may still know them. */
static void thread_exit(void *unused) {
  (void)unused;
  ended = true;
  for (dead *d; (d = take(&mine, 0, 0));) share(d, SITU__A_TENSOR);
}

static void make_key(void) { (void)pthread_key_create(&at_exit, thread_exit); }

/* The first of a thread, one in a full queue, or one after the thread's end. */
static SITU_COLD __attribute__((noinline)) void hold(dead *d) {
  if (ended) {
    share(d, SITU__A_TENSOR);
    return;
  }
  (void)pthread_once(&once, make_key);
  (void)pthread_setspecific(at_exit, &once);
  put(&mine, d);
  dead *old = take(&mine, MOST, SIZE_MAX);
  if (old) give_back(old);
}

void *situ__handle_new_tensor(size_t size) {
  dead *d = mine.first;
  if (mine.count <= HELD) return situ__small_alloc(size);
  if (situ__alloc_refused()) return NULL;
  SITU__UNPOISON(d, size);
  mine.first = d->next;
  mine.count--;
  /* The oldest of so many has left the cache: what the next call writes is fetched meanwhile. */
  for (size_t at = 0; at < size; at += LINE) __builtin_prefetch((char *)mine.first + at, 1);
  return d;
}

void situ__handle_free_tensor(void *handle, size_t size) {
  dead *d = handle, *last = mine.last;
  d->head = DEAD | SITU__A_TENSOR;
  d->size = (uint32_t)size;
  d->next = NULL;
  if (__builtin_expect(!last || mine.count == MOST, 0)) {
    hold(d);
    return;
  }
  last->next = d;
  mine.last = d;
  mine.count++;
}

/* ---- the others ---- */

static size_t room(size_t size) { return size < SMALLEST ? SMALLEST : size; }

void *situ__handle_new(situ__handle_kind kind, size_t size) {
  void *handle = situ__small_alloc(room(size));
  const uint32_t head = SITU__LIVE(kind);
  if (handle) memcpy(memset(handle, 0, room(size)), &head, sizeof head);
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
  char which[SMALLEST - SITU__DEAD_HEAD];
  (void)snprintf(which, sizeof which, "%s", text ? text : ""); /* it may lie in the object */
  size = room(size);
  memset(d, 0, size);
  memcpy(d->text, which, sizeof which);
  d->head = DEAD | (uint32_t)kind;
  d->size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
  SITU__POISON((char *)d + SMALLEST, size - SMALLEST);
  share(d, kind);
}

void situ__handles_trim(void) {
  for (dead *d; (d = take(&mine, 0, 0));) give_back(d);
  for (int kind = 1; kind < SITU__HANDLE_KINDS; kind++) {
    queue all = { 0 };
    if (!enter()) return;
    for (dead *d; (d = take(&shared[kind], 0, 0));) put(&all, d);
    pthread_mutex_unlock(&lock);
    for (dead *d; (d = take(&all, 0, 0));) give_back(d);
  }
}

/* ---- telling ---- */

static const char *const kinds[SITU__HANDLE_KINDS] = {
  "",
  "a tensor",
  "a module",
  "a tree",
  "an optimiser",
  "a learning-rate scheduler",
  "a gradient scaler",
  "a data set",
  "a data loader",
  "a graph",
  "an open safetensors file",
  "a snapshot",
  "a planned move",
  "a prepared optimiser state",
  "a prepared scheduler state",
};

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
