/* Lanes as fibers: each runs to the next barrier, then it is the next one's turn. A fiber is begun once, by makecontext, and
   changed by _setjmp and _longjmp, which need no system call. Most kernels have no barrier: a fiber whose lane is done goes
   on with the next lane of the warp, which costs a call and no change of fibers.
   SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "emulate.h"

/* Not a power of two: stacks that lay at the same place of their pages would share the few lines of a cache set. */
enum { LANES = 1024, WARP = 32, STACK = (64 << 10) + 320 };

typedef void (*entry)(void **arguments);
typedef enum state { READY, AT_BARRIER, AT_WARP, DONE } state;
typedef struct fiber {
  ucontext_t begin;
  jmp_buf at;
  char *stack;
} fiber;

struct situ_emulated {
  unsigned x;
} situ_emulated_lane, situ_emulated_group;
void situ_emulate_sync(void);
void situ_emulate_warp(void);

static fiber fibers[LANES];
static unsigned made;      /* those that were begun */
static fiber *idle[LANES]; /* those of them that hold no lane */
static unsigned idle_count;
static struct {
  state state;
  fiber *fiber; /* while it waits */
} lane[LANES];
static fiber *running;
static unsigned warp_end; /* behind the last lane of the warp that runs */
static ucontext_t home;
static jmp_buf scheduler;
static entry kernel_now;
static void **arguments_now;

static void leave(void) {
  if (!_setjmp(running->at)) _longjmp(scheduler, 1);
}

static void stop_at(state how) {
  const unsigned own = situ_emulated_lane.x;
  lane[own].state = how;
  lane[own].fiber = running;
  leave();
}

void situ_emulate_sync(void) { stop_at(AT_BARRIER); }

void situ_emulate_warp(void) { stop_at(AT_WARP); }

/* A fiber's whole life: a lane, those behind it that were not begun, and what the scheduler gives it next. */
static void live(void) {
  for (;;) {
    kernel_now(arguments_now);
    lane[situ_emulated_lane.x].state = DONE;
    if (situ_emulated_lane.x + 1 < warp_end && lane[situ_emulated_lane.x + 1].state == READY) {
      situ_emulated_lane.x++;
      continue;
    }
    idle[idle_count++] = running;
    leave();
  }
}

static bool begin(fiber *f) {
  if (!f->stack) f->stack = malloc(STACK);
  if (!f->stack) return false;
  (void)getcontext(&f->begin);
  f->begin.uc_stack.ss_sp = f->stack;
  f->begin.uc_stack.ss_size = STACK;
  f->begin.uc_link = NULL;
  makecontext(&f->begin, live, 0);
  return true;
}

/* A fiber without a lane; *fresh: it was not begun. NULL when out of memory. */
static fiber *take_idle(bool *fresh) {
  *fresh = idle_count == 0;
  if (idle_count) return idle[--idle_count];
  return begin(&fibers[made]) ? &fibers[made++] : NULL;
}

/* Returns when the fiber leaves. */
static void run_fiber(bool fresh) {
  if (_setjmp(scheduler)) return;
  if (fresh) (void)swapcontext(&home, &running->begin);
  else _longjmp(running->at, 1);
}

static bool resume(unsigned own) {
  bool fresh = false;
  running = lane[own].state == READY ? take_idle(&fresh) : lane[own].fiber;
  if (!running) return false;
  situ_emulated_lane.x = own;
  run_fiber(fresh);
  return true;
}

/* Runs a warp until all of its lanes are at the group's barrier, or done; false: they wait for different things. */
static bool warp(unsigned first, unsigned lanes, state *where) {
  warp_end = first + lanes;
  bool begun = lane[first].state != READY;
  for (;;) {
    unsigned at[DONE + 1] = { 0 };
    for (unsigned l = first; l < warp_end; l++) {
      if (begun ? lane[l].state != DONE : lane[l].state == READY)
        if (!resume(l)) return false;
      at[lane[l].state]++;
    }
    begun = true;
    for (*where = DONE; *where > READY && at[*where] != lanes;) --*where;
    if (*where != AT_WARP) return *where != READY;
  }
}

/* False: some lanes wait for others that do not come. */
static bool group(unsigned lanes) {
  for (unsigned l = 0; l < lanes; l++) lane[l].state = READY;
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
  static void *library;
  if (!library && dladdr((void *)(uintptr_t)of_kernel, &own)) library = dlopen(own.dli_fname, RTLD_NOW);
  return library ? dlsym(library, name) : NULL;
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
    if (group(lanes)) continue;
    made = idle_count = 0; /* fibers that hold lanes for ever are begun again */
    return false;
  }
  return true;
}
