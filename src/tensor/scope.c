/* Scopes: each thread has a stack of them, and the innermost owns what ops return.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/thread.h"
#include "tensor/tensor.h"

/* Below all scopes of a thread: what is made outside any scope stays until the thread says otherwise. */
static SITU__THREAD_LOCAL situ_scope root = { .grad = true };
static SITU__THREAD_LOCAL situ_scope *top;

situ_scope *situ__scope_top(void) { return top ? top : &root; }

static void begin(situ_scope *scope, bool grad) {
  scope->outer = situ__scope_top();
  scope->owned = scope->first;
  scope->count = 0;
  scope->capacity = sizeof scope->first / sizeof *scope->first;
  scope->errors = situ__error_count();
  scope->setting = situ__setting;
  scope->grad = grad;
  top = scope;
}

void situ_scope_begin(situ_scope *scope) { begin(scope, situ__recording()); }
void situ_scope_begin_no_grad(situ_scope *scope) { begin(scope, false); }

static void empty(situ_scope *scope) {
  while (scope->count) situ_release(scope->owned[--scope->count]);
  if (scope->owned != scope->first) situ__free(scope->owned);
  scope->owned = scope->first;
}

bool situ_scope_is_open(const situ_scope *scope) {
  for (const situ_scope *s = top; s && s != &root; s = s->outer)
    if (s == scope) return true;
  return false;
}

situ_status situ_scope_end(situ_scope *scope) {
  if (!scope || (top != scope && !situ_scope_is_open(scope)))
    return situ__fail(SITU_E_STATE, "scope_end", "this scope is not open on this thread (ended twice, or by an outer one)");
  while (top != scope) {  /* a forgotten inner scope */
    situ_scope *inner = top;
    top = inner->outer;
    empty(inner);
  }
  top = scope->outer == &root ? NULL : scope->outer;
  if (situ__setting.depth > scope->setting.depth) situ__setting_back(&scope->setting);  /* begun inside, and forgotten */
  empty(scope);
  return situ__error_count() == scope->errors ? SITU_OK : situ_error();
}

static bool own(situ_scope *scope, situ_tensor *t) {
  if (scope->count == scope->capacity) {
    size_t capacity = scope->capacity ? 2 * scope->capacity : 16;
    bool inside = scope->owned == scope->first;
    situ_tensor **larger = situ__realloc(inside ? NULL : scope->owned, capacity * sizeof *larger);
    if (!larger) return false;
    if (inside) memcpy(larger, scope->first, scope->count * sizeof *larger);
    scope->owned = larger;
    scope->capacity = capacity;
  }
  scope->owned[scope->count++] = t;
  return true;
}

situ_tensor *situ__scope_own(const char *op, situ_tensor *t) {
  if (t && !own(situ__scope_top(), t)) {
    situ_release(t);
    situ__no_memory(op, 2 * situ__scope_top()->capacity * sizeof(void *));
    return NULL;
  }
  return t;
}

situ_tensor *situ_escape(situ_scope *scope, situ_tensor *t) {
  if (!t) return NULL;
  if (!scope || !scope->outer) {
    situ__fail(SITU_E_STATE, "escape", "the scope was never begun");
    return NULL;
  }
  if (!own(scope->outer, situ_retain(t))) {
    situ_release(t);
    situ__no_memory("escape", sizeof(void *));
    return NULL;
  }
  return t;
}

bool situ_set(situ_tensor **slot, situ_tensor *t) {
  if (!slot || !t) return false;
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
