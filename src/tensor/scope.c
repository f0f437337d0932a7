/* Scopes: each thread has a stack of them; the innermost scope owns the tensors that ops return.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/thread.h"
#include "tensor/tensor.h"

/* An open scope. The library allocates the stack itself: a situ_scope is a ticket that holds only the scope's number,
   so the caller may lose or overwrite it while the scope is open. */
typedef struct frame {
  struct frame *outer; /* the enclosing scope; for a spare frame: the next spare one */
  uint64_t number;
  uint64_t errors; /* the thread's error count at the beginning */
  situ_tensor **owned;
  size_t count, capacity;
  situ_setting setting; /* the thread's settings at the beginning */
  bool grad;
  situ_tensor *first[8]; /* inline space, so that small scopes do not allocate */
} frame;

/* Limits on what a thread keeps for its next scopes, so that repeated nesting does not allocate. */
enum { KEEP_FRAMES = 64, KEEP_OWNED = 1024 };

/* Thread-local state in one struct, so that one access finds it all. */
static SITU__THREAD_LOCAL struct {
  frame *top; /* NULL: no scope is open */
  frame *spare;
  uint64_t me, begun; /* number of this thread, from 1; number of its newest scope */
  uint32_t spares;
  bool watched; /* thread_exit will be called */
} mine;
SITU__THREAD_LOCAL bool situ__grad_off;
SITU__THREAD_LOCAL uint8_t situ__forward_mode;
SITU__THREAD_LOCAL struct situ__samples *situ__sampling;

static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void drop_frame(frame *f) {
  if (f->owned != f->first) situ__free(f->owned);
  situ__free(f);
}

static inline void keep_frame(frame *f) {
  if (mine.spares == KEEP_FRAMES) {
    drop_frame(f);
    return;
  }
  if (f->capacity > KEEP_OWNED) {
    situ__free(f->owned);
    f->owned = f->first;
    f->capacity = sizeof f->first / sizeof *f->first;
  }
  f->outer = mine.spare;
  mine.spare = f;
  mine.spares++;
}

/* Closes the innermost scope. Pops it before releasing its tensors: a release may call the program, which may begin
   and end scopes. */
static inline void close_top(void) {
  frame *f = mine.top;
  mine.top = f->outer;
  situ__grad_off = mine.top && !mine.top->grad;
  if (situ__setting.depth > f->setting.depth)
    situ__setting_back(&f->setting); /* settings that the program did not end */
  while (f->count) situ_release(f->owned[--f->count]);
  keep_frame(f);
}

/* Releases what the thread's open scopes own. References made outside all scopes belong to the program. */
static void thread_exit(void *unused) {
  (void)unused;
  while (mine.top) close_top();
  while (mine.spare) {
    frame *next = mine.spare->outer;
    drop_frame(mine.spare);
    mine.spare = next;
  }
  mine.spares = 0;
  mine.watched = false;
}

static void make_key(void) { (void)pthread_key_create(&at_exit, thread_exit); }

static frame *open_frame(void) {
  frame *f = mine.spare;
  if (f) {
    mine.spare = f->outer;
    mine.spares--;
    return f;
  }
  if (!mine.watched) {
    (void)pthread_once(&once, make_key);
    mine.watched = pthread_setspecific(at_exit, &once) == 0;
  }
  f = situ__alloc_uncounted(sizeof *f); /* uncounted: beginning a scope cannot return an error status */
  if (!f) return NULL;
  f->count = 0;
  f->owned = f->first;
  f->capacity = sizeof f->first / sizeof *f->first;
  return f;
}

static void begin_scope(const char *op, situ_scope *scope, bool grad) {
  static uint64_t threads;
  if (!scope) {
    situ__null(op, "scope");
    return;
  }
  if (!mine.me) mine.me = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
  *scope = (situ_scope){ 0 };
  frame *f = open_frame();
  if (!f) {
    situ__no_memory(op, sizeof *f);
    return;
  }
  f->outer = mine.top;
  f->number = ++mine.begun;
  f->errors = situ__error_count();
  f->setting = situ__setting;
  f->grad = grad;
  mine.top = f;
  situ__grad_off = !grad;
  *scope = (situ_scope){ .thread = mine.me, .number = f->number };
}

void situ_scope_begin(situ_scope *scope) { begin_scope("scope_begin", scope, situ__recording()); }
void situ_scope_begin_no_grad(situ_scope *scope) { begin_scope("scope_begin_no_grad", scope, false); }
void situ_scope_begin_enable_grad(situ_scope *scope) { begin_scope("scope_begin_enable_grad", scope, true); }
void situ__scope_begin_as(situ_scope *scope, bool records) { begin_scope("scope_begin", scope, records); }

/* Returns the open scope of a ticket, NULL if this thread has none. Numbers decrease from the top of the stack to its
   bottom. */
static frame *find_scope(const situ_scope *scope) {
  if (scope->thread != mine.me || !mine.me) return NULL;
  frame *f = mine.top;
  while (f && f->number > scope->number) f = f->outer;
  return f && f->number == scope->number ? f : NULL;
}

bool situ_scope_is_open(const situ_scope *scope) { return scope && find_scope(scope); }

static SITU_COLD __attribute__((noinline)) frame *refuse_scope(const char *op, const situ_scope *scope) {
  if (!scope) return situ__null(op, "scope"), NULL;
  bool ours = mine.me && scope->thread == mine.me && scope->number - 1 < mine.begun;
  return situ__fail(SITU_E_STATE, op,
                    ours ? "this scope is not open: it was ended already, or by the end of a scope around it"
                         : "this scope is not open on this thread: it was never begun, or on another thread"),
         NULL;
}

/* Like find_scope, but returns NULL only after recording an error. */
static inline frame *need_open(const char *op, const situ_scope *scope) {
  frame *f = scope ? find_scope(scope) : NULL;
  return f ? f : refuse_scope(op, scope);
}

situ_status situ_scope_end(situ_scope *scope) {
  const frame *f = need_open("scope_end", scope);
  if (!f) return situ_error();
  const uint64_t number = f->number, errors = f->errors;
  while (mine.top && mine.top->number >= number) close_top(); /* also scopes inside it that were not ended */
  return situ__error_count() == errors ? SITU_OK : situ_error();
}

bool situ__error_in_scope(void) { return mine.top && situ__error_count() != mine.top->errors; }

int64_t situ_scope_owned(const situ_scope *scope, situ_tensor *const **list) {
  const frame *f = scope ? find_scope(scope) : NULL;
  if (list) *list = f ? f->owned : NULL;
  return f ? (int64_t)f->count : 0;
}

/* Outside all scopes (f NULL) the program owns the reference. */
static bool own_tensor(frame *f, situ_tensor *t) {
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

/* Not inlined, to keep the common path short. */
static __attribute__((noinline)) situ_tensor *own_more(const char *op, situ_tensor *t) {
  if (!own_tensor(mine.top, t)) {
    situ_release(t);
    return situ__no_memory(op, 2 * mine.top->capacity * sizeof(void *)), NULL;
  }
  return t;
}

situ_tensor *situ__scope_own(const char *op, situ_tensor *t) {
  frame *f = mine.top;
  if (!f || !t) return t;
  if (__builtin_expect(f->count == f->capacity, 0)) return own_more(op, t);
  f->owned[f->count++] = t;
  return t;
}

bool situ__scope_is_any(void) { return mine.top; }

situ_tensor *situ__scope_take(const situ_tensor *t, bool (*is)(const situ_tensor *owned, const situ_tensor *t)) {
  for (frame *f = mine.top; f; f = f->outer)
    for (size_t i = f->count; i-- > 0;) {
      situ_tensor *owned = f->owned[i];
      if (!is(owned, t)) continue;
      memmove(&f->owned[i], &f->owned[i + 1], (--f->count - i) * sizeof *f->owned);
      return owned;
    }
  return NULL;
}

situ_tensor *situ_escape(situ_scope *scope, situ_tensor *tensor) {
  if (!tensor) return NULL;
  if (!situ__need("escape", "tensor", tensor)) return NULL;
  frame *f = need_open("escape", scope);
  if (!f) return NULL;
  /* The usual case: the scope's newest tensor moves outwards with its reference. */
  const bool newest = f->count && f->owned[f->count - 1] == tensor;
  if (newest && (!f->outer || f->outer->count < f->outer->capacity)) {
    f->count--;
    return own_tensor(f->outer, tensor), tensor;
  }
  if (!own_tensor(f->outer, situ_retain(tensor))) {
    situ_release(tensor);
    return situ__no_memory("escape", 2 * f->outer->capacity * sizeof(void *)), NULL;
  }
  return tensor;
}

/* Retained meanwhile: a forgotten scope inside may own it. */
situ_tensor *situ_scope_return(situ_scope *scope, situ_tensor *tensor) {
  if (!need_open("scope_return", scope) || (tensor && !situ__need("scope_return", "tensor", tensor))) return NULL;
  (void)situ_retain(tensor);
  if (situ_scope_end(scope) == SITU_OK) return situ__scope_own("scope_return", tensor);
  situ_release(tensor);
  return NULL;
}

bool situ_set(situ_tensor **slot, situ_tensor *tensor) {
  if (!slot) return situ__null("set", "slot"), false;
  if (!tensor || !situ__need("set", "tensor", tensor) || (*slot && !situ__need("set", "*slot", *slot))) return false;
  situ_tensor *old = *slot;
  *slot = situ_retain(tensor);
  situ_release(old);
  return true;
}

void situ_drop(situ_tensor **slot) {
  if (!slot) return;
  situ_tensor *old = *slot;
  *slot = NULL;
  situ_release(old);
}
