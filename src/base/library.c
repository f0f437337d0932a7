/* dlopen, so that nothing of the library is seen by the program and, where the C library can, nothing of the program by
   the library.
   SPDX-License-Identifier: MIT */
#include "base/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"

enum { UNTRIED, READY, MISSING, MOST_OBJECTS = 1024 };

static situ__mutex lock = SITU__MUTEX_INIT;

/* ---- may it look into itself first? ---- */

#ifdef RTLD_DEEPBIND
/* Where a symbol of the program lies; 0: it has none. */
static uintptr_t home_of(const char *symbol) {
  const void *address = dlsym(RTLD_DEFAULT, symbol);
  Dl_info about;
  return address && dladdr(address, &about) ? (uintptr_t)about.dli_fbase : 0;
}
#endif

/* A library that looks into itself first would free by libc's free what libc allocated by the program's malloc. So it
   is with sanitizers, which also end a process that asks for it. */
static int deep_flag(void) {
#ifdef RTLD_DEEPBIND
  const uintptr_t c = home_of("gnu_get_libc_version"), plus = home_of("_ZSt9terminatev"), new = home_of("_Znwm");
  if (c && home_of("malloc") == c && (!new || new == plus)) return RTLD_DEEPBIND;
#endif
  return 0;
}

/* ---- what was there before ---- */

typedef struct objects {
  uintptr_t base[MOST_OBJECTS];
  int count;
} objects;

static int note_object(struct dl_phdr_info *object, size_t size, void *payload) {
  (void)size;
  objects *o = payload;
  if (o->count < MOST_OBJECTS) o->base[o->count++] = object->dlpi_addr;
  return 0;
}

/* Of the program, which comes first: 1 if it has a loader, and was not linked with -static; else -1. */
static int has_loader(struct dl_phdr_info *object, size_t size, void *payload) {
  (void)size, (void)payload;
  for (int i = 0; i < object->dlpi_phnum; i++)
    if (object->dlpi_phdr[i].p_type == PT_INTERP) return 1;
  return -1;
}

static bool was_there(const objects *before, uintptr_t base) {
  bool found = before->count == MOST_OBJECTS;
  for (int i = 0; i < before->count && !found; i++) found = before->base[i] == base;
  return found;
}

/* The library's calls of this function reach it, and not another of the same name in the program. */
static bool reaches_itself(const void *own, const char *symbol, int deep, const objects *before, char *why,
                           size_t size) {
  const void *seen = dlsym(RTLD_DEFAULT, symbol);
  Dl_info about, other;
  if (!seen || seen == own || !dladdr(own, &about)) return true;
  if (deep && !was_there(before, (uintptr_t)about.dli_fbase)) return true;
  (void)snprintf(why, size, "%s would call %s of %s instead of its own", about.dli_fname, symbol,
                 dladdr(seen, &other) ? other.dli_fname : "the program");
  return false;
}

/* ---- opening ---- */

static bool fill(const situ__library *l, void *handle, int deep, const objects *before, char *why, size_t size) {
  for (int i = 0; i < l->symbols; i++) {
    const char *name = l->symbol[i].name;
    void *address = dlsym(handle, name);
    if (!address) return (void)snprintf(why, size, "it has no %s", name), false;
    if (!reaches_itself(address, name, deep, before, why, size)) return false;
    memcpy(l->symbol[i].to, &address, sizeof address);
  }
  return true;
}

static bool try_file(const situ__library *l, const char *file, objects *before, char *why, size_t size) {
  const int deep = deep_flag();
  before->count = 0;
  dl_iterate_phdr(note_object, before);
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | deep);
  if (!handle) return (void)snprintf(why, size, "%s", dlerror()), false;
  char reason[256] = "";
  if (fill(l, handle, deep, before, reason, sizeof reason) && (!l->accept || l->accept(handle, reason, sizeof reason)))
    return true;
  (void)snprintf(why, size, "%s: %s", file, reason);
  return false; /* it stays open: its threads may not outlive their code */
}

static bool try_all(situ__library *l) {
  static objects before; /* under the lock: too large for a small stack */
  if (dl_iterate_phdr(has_loader, NULL) < 0)
    return (void)snprintf(l->why, sizeof l->why, "this program is linked statically and opens none"), false;
  const char *own = secure_getenv(l->variable);
  if (own && *own) return try_file(l, own, &before, l->why, sizeof l->why);
  for (int i = 0; i < (int)(sizeof l->file / sizeof *l->file) && l->file[i]; i++) {
    const size_t length = strlen(l->why);
    if (try_file(l, l->file[i], &before, l->why + length, sizeof l->why - length)) return true;
    if (i + 1 < (int)(sizeof l->file / sizeof *l->file) && l->file[i + 1])
      (void)snprintf(l->why + strlen(l->why), sizeof l->why - strlen(l->why), "; ");
  }
  return false;
}

bool situ__library_open(situ__library *l) {
  int state = __atomic_load_n(&l->state, __ATOMIC_ACQUIRE);
  if (__builtin_expect(state != UNTRIED, 1)) return state == READY;
  situ__mutex_lock(&lock);
  state = l->state;
  if (state == UNTRIED) {
    state = try_all(l) ? READY : MISSING;
    __atomic_store_n(&l->state, state, __ATOMIC_RELEASE);
  }
  situ__mutex_unlock(&lock);
  return state == READY;
}

bool situ__library_need(situ__library *l, situ__problem *problem) {
  return situ__library_open(l) ||
         situ__problem_set(problem, SITU_E_UNSUPPORTED, "needs %s: install it (Debian: %s), or name its file by %s; %s",
                           l->name, l->package, l->variable, l->why);
}
