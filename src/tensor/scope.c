/* Scopes: each thread has a stack of them, and the innermost owns what ops return.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/thread.h"
#include "tensor/tensor.h"

/* An open scope. The stack is the library's own: a situ_scope is a ticket that names one by its
   number, so the caller's frame may go, and be written over, while the scope is open. */
typedef struct frame {
  struct frame *outer; /* the scope around it; of a spare frame: the next spare one */
  uint64_t number;
  uint64_t errors; /* the thread's error count when it began */
  situ_tensor **owned;
  size_t count, capacity;
  situ_setting setting; /* of the thread, when it began */
  bool grad;
  situ_tensor *first[8]; /* what a small scope owns, without an allocation */
} frame;

/* Kept by a thread for its next scopes, so that steady nesting allocates nothing. */
enum { KEEP_FRAMES = 64, KEEP_OWNED = 1024 };

static SITU__THREAD_LOCAL frame *top, *spare; /* top NULL: no scope is open */
static SITU__THREAD_LOCAL uint32_t spares;
static SITU__THREAD_LOCAL bool watched;          /* thread_exit will be called */
static SITU__THREAD_LOCAL uint64_t me, begun;    /* number of this thread from 1 on; of its newest scope */
SITU__THREAD_LOCAL bool situ__grad_off;

static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void drop_frame(frame *f) {
  if (f->owned != f->first) situ__free(f->owned);
  situ__free(f);
}

static void keep_frame(frame *f) {
  if (spares == KEEP_FRAMES) {
    drop_frame(f);
    return;
  }
  if (f->capacity > KEEP_OWNED) {
    situ__free(f->owned);
    f->owned = f->first;
    f->capacity = sizeof f->first / sizeof *f->first;
  }
  f->outer = spare;
  spare = f;
  spares++;
}

/* Closes the innermost scope. It is off the stack before anything is released: a tensor's release may call back into the
   program, which may begin and end scopes. */
static void close_top(void) {
  frame *f = top;
  top = f->outer;
  situ__grad_off = top && !top->grad;
  if (situ__setting.depth > f->setting.depth) situ__setting_back(&f->setting);  /* begun inside, and forgotten */
  while (f->count) situ_release(f->owned[--f->count]);
  keep_frame(f);
}

/* What the thread's open scopes own goes with the thread. What was made outside any scope is the program's. */
static void thread_exit(void *unused) {
  (void)unused;
  while (top) close_top();
  while (spare) {
    frame *next = spare->outer;
    drop_frame(spare);
    spare = next;
  }
  spares = 0;
  watched = false;
}

static void make_key(void) { (void)pthread_key_create(&at_exit, thread_exit); }

static frame *open_frame(void) {
  frame *f = spare;
  if (f) {
    spare = f->outer;
    spares--;
    return f;
  }
  if (!watched) {
    (void)pthread_once(&once, make_key);
    watched = pthread_setspecific(at_exit, &once) == 0;
  }
  f = situ__alloc_uncounted(sizeof *f);  /* a cache: beginning a scope has no status to report a failure by */
  if (!f) return NULL;
  f->count = 0;
  f->owned = f->first;
  f->capacity = sizeof f->first / sizeof *f->first;
  return f;
}

static void begin(const char *op, situ_scope *scope, bool grad) {
  static uint64_t threads;
  if (!scope) {
    situ__null(op, "scope");
    return;
  }
  if (!me) me = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
  *scope = (situ_scope){ 0 };
  frame *f = open_frame();
  if (!f) {
    situ__no_memory(op, sizeof *f);
    return;
  }
  f->outer = top;
  f->number = ++begun;
  f->errors = situ__error_count();
  f->setting = situ__setting;
  f->grad = grad;
  top = f;
  situ__grad_off = !grad;
  *scope = (situ_scope){ .thread = me, .number = f->number };
}

void situ_scope_begin(situ_scope *scope) { begin("scope_begin", scope, situ__recording()); }
void situ_scope_begin_no_grad(situ_scope *scope) { begin("scope_begin_no_grad", scope, false); }

/* The open scope that a ticket names; NULL: none on this thread. Numbers fall from the top of the stack to its bottom. */
static frame *find(const situ_scope *scope) {
  if (scope->thread != me || !me) return NULL;
  frame *f = top;
  while (f && f->number > scope->number) f = f->outer;
  return f && f->number == scope->number ? f : NULL;
}

bool situ_scope_is_open(const situ_scope *scope) { return scope && find(scope); }

/* find, for a scope that must be open. NULL: recorded. */
static frame *need_open(const char *op, const situ_scope *scope) {
  if (!scope) {
    situ__null(op, "scope");
    return NULL;
  }
  frame *f = find(scope);
  if (f) return f;
  bool ours = me && scope->thread == me && scope->number - 1 < begun;
  situ__fail(SITU_E_STATE, op,
             ours ? "this scope is not open: it was ended already, or by the end of a scope around it"
                  : "this scope is not open on this thread: it was never begun, or on another thread");
  return NULL;
}

situ_status situ_scope_end(situ_scope *scope) {
  const frame *f = need_open("scope_end", scope);
  if (!f) return situ_error();
  const uint64_t number = f->number, errors = f->errors;
  while (top && top->number >= number) close_top();  /* forgotten ones inside it first */
  return situ__error_count() == errors ? SITU_OK : situ_error();
}

int64_t situ_scope_owned(const situ_scope *scope, situ_tensor *const **list) {
  const frame *f = scope ? find(scope) : NULL;
  if (list) *list = f ? f->owned : NULL;
  return f ? (int64_t)f->count : 0;
}

/* Outside any scope (f NULL) nobody but the program itself has the reference. */
static bool own(frame *f, situ_tensor *t) {
  if (!f) return true;
  if (f->count == f->capacity) {
    size_t capacity = 2 * f->capacity;
    bool inside = f->owned == f->first;
    situ_tensor **larger = situ__realloc(inside ? NULL : f->owned, capacity * sizeof *larger);
    if (!larger) return false;
    if (inside) memcpy(larger, f->first, f->count * sizeof *larger);
    f->owned = larger;
    f->capacity = capacity;
  }
  f->owned[f->count++] = t;
  return true;
}

situ_tensor *situ__scope_own(const char *op, situ_tensor *t) {
  if (t && !own(top, t)) {
    situ_release(t);
    situ__no_memory(op, 2 * top->capacity * sizeof(void *));
    return NULL;
  }
  return t;
}

situ_tensor *situ_escape(situ_scope *scope, situ_tensor *t) {
  if (!t) return NULL;
  if (!situ__need("escape", "tensor", t)) return NULL;
  const frame *f = need_open("escape", scope);
  if (!f) return NULL;
  if (!own(f->outer, situ_retain(t))) {
    situ_release(t);
    situ__no_memory("escape", 2 * f->outer->capacity * sizeof(void *));
    return NULL;
  }
  return t;
}

bool situ_set(situ_tensor **slot, situ_tensor *t) {
  if (!slot) return situ__null("set", "slot"), false;
  if (!t || !situ__need("set", "tensor", t) || (*slot && !situ__need("set", "*slot", *slot))) return false;
  situ_tensor *old = *slot;
  *slot = situ_retain(t);
  situ_release(old);
  return true;
}

void situ_drop(situ_tensor **slot) {
  if (!slot) return;
  situ_tensor *old = *slot;
  *slot = NULL;
  situ_release(old);
}
