/* Lanes as fibers: each runs to the next barrier, then it is the next one's turn. A fiber is begun once, by makecontext, and
   changed by _setjmp and _longjmp, which need no system call.
   SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "emulate.h"

enum { LANES = 1024, WARP = 32, STACK = 64 << 10 };

typedef void (*entry)(void **arguments);
typedef enum state { READY, AT_BARRIER, AT_WARP, DONE } state;
typedef struct fiber {
  ucontext_t begin;
  jmp_buf at;
  char *stack;
  state state;
} fiber;

struct situ_emulated {
  unsigned x;
} situ_emulated_lane, situ_emulated_group;
void situ_emulate_sync(void);
void situ_emulate_warp(void);

static fiber fibers[LANES];
static ucontext_t home;
static jmp_buf scheduler;
static entry kernel_now;
static void **arguments_now;

static void leave(fiber *f, state how) {
  f->state = how;
  if (!_setjmp(f->at)) _longjmp(scheduler, 1);
}

void situ_emulate_sync(void) { leave(&fibers[situ_emulated_lane.x], AT_BARRIER); }

void situ_emulate_warp(void) { leave(&fibers[situ_emulated_lane.x], AT_WARP); }

/* A fiber's whole life: a kernel, then the next one. */
static void live(void) {
  for (;;) {
    kernel_now(arguments_now);
    leave(&fibers[situ_emulated_lane.x], DONE);
  }
}

static bool begin(fiber *f) {
  if (f->stack) return true;
  f->stack = malloc(STACK);
  if (!f->stack) return false;
  (void)getcontext(&f->begin);
  f->begin.uc_stack.ss_sp = f->stack;
  f->begin.uc_stack.ss_size = STACK;
  f->begin.uc_link = NULL;
  makecontext(&f->begin, live, 0);
  return true;
}

static void resume(unsigned lane, bool fresh) {
  situ_emulated_lane.x = lane;
  if (_setjmp(scheduler)) return;
  if (fresh) (void)swapcontext(&home, &fibers[lane].begin);
  else _longjmp(fibers[lane].at, 1);
}

/* Runs a warp until all of its lanes are at the group's barrier, or done; false: they wait for different things. */
static bool warp(unsigned first, unsigned lanes, state *where) {
  for (;;) {
    unsigned at[DONE + 1] = { 0 };
    for (unsigned l = first; l < first + lanes; l++) {
      bool fresh = !fibers[l].stack;
      if (fresh && !begin(&fibers[l])) return false;
      if (fibers[l].state != DONE) resume(l, fresh);
      at[fibers[l].state]++;
    }
    for (*where = DONE; *where > READY && at[*where] != lanes;) --*where;
    if (*where != AT_WARP) return *where != READY;
  }
}

/* False: some lanes wait for others that do not come. */
static bool group(unsigned lanes) {
  for (unsigned l = 0; l < lanes; l++) fibers[l].state = READY;
  for (;;) {
    state all = DONE;
    for (unsigned l = 0; l < lanes; l += WARP) {
      state where;
      if (!warp(l, lanes - l < WARP ? lanes - l : WARP, &where)) return false;
      if (l && where != all) return false;
      all = where;
    }
    if (all == DONE) return true;
  }
}

/* What the kernel's file says of it (emulate_cuda.h); the kernels lie in the library that this function lies in. */
static void *of_kernel(const char *what, const char *kernel) {
  char name[160];
  (void)snprintf(name, sizeof name, "%s_%s", what, kernel);
  Dl_info own;
  void *library = dladdr((void *)(uintptr_t)of_kernel, &own) ? dlopen(own.dli_fname, RTLD_NOW) : NULL;
  void *found = library ? dlsym(library, name) : NULL;
  if (library) (void)dlclose(library);
  return found;
}

int situ_emulate_parameters(const char *kernel, size_t size[32]) {
  int (*measure)(size_t * size);
  *(void **)&measure = of_kernel("measure", kernel);
  return measure ? measure(size) : -1;
}

bool situ_emulate(const char *kernel, unsigned groups, unsigned lanes, void **arguments) {
  *(void **)&kernel_now = of_kernel("call", kernel);
  arguments_now = arguments;
  if (!kernel_now || lanes == 0 || lanes > LANES) return false;
  for (unsigned g = 0; g < groups; g++) {
    situ_emulated_group.x = g;
    if (!group(lanes)) return false;
  }
  return true;
}
