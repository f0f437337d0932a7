/* A short loop asks before and after each round whether the cores are quiet.
   SPDX-License-Identifier: MIT */
#include "rounds.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "measure.h"

#define QUIET 1.25 /* of the least time of the loop, up to which a core counts as quiet; a busy hyperthread takes 1.5 */
#define PATIENCE 20 /* seconds for which quiet rounds are waited for */
enum { LEAST = 7, CALIBRATIONS = 100 };

static double least_time = 1;        /* of the loop, on any core, in seconds */
static int all_rounds, quiet_rounds; /* of this process */

/* Four chains fill the units that a hyperthread would use. */
static void run_loop(void) {
  uint64_t a = 1, b = 2, c = 3, d = 4;
  for (int i = 0; i < 20000; i++) {
    a = (a << 1) ^ (a >> 3);
    b = (b << 1) ^ (b >> 3);
    c = (c << 1) ^ (c >> 3);
    d = (d << 1) ^ (d >> 3);
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
  }
}

/* Time of the loop on this core / the least that was seen. */
static double slowness(void) {
  double least = 1;
  for (int k = 0; k < 3; k++) {
    const double begin = seconds();
    run_loop();
    const double taken = seconds() - begin;
    if (taken < least) least = taken;
  }
  if (least < least_time) least_time = least;
  return least / least_time;
}

static void tell_rounds_counted(void) {
  printf("{\"rounds\": %d, \"quiet\": %d}\n", all_rounds, quiet_rounds);
  (void)fflush(stdout);
}

static void run_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  (void)sched_setaffinity(0, sizeof one, &one);
}

/* The slowness of core `a` while `b` works: a hypervisor may make two cores of the hyperthreads of one. */
static atomic_int phase; /* 1: the other core works; 2: it may end */
static void *work_beside(void *core) {
  run_on((int)(intptr_t)core);
  for (phase = 1; phase == 1;) run_loop();
  return NULL;
}
static double slowness_beside(int a, int b) {
  pthread_t other;
  phase = 0;
  run_on(a);
  if (pthread_create(&other, NULL, work_beside, (void *)(intptr_t)b) != 0) return 1;
  while (phase == 0) sched_yield();
  const double slow = slowness();
  phase = 2;
  (void)pthread_join(other, NULL);
  return slow;
}

/* Of the slowest core, or with one thread of the quietest, on which this thread is then. */
static double look(int threads) {
  static cpu_set_t all;
  static bool known;
  if (threads == 0) return 1;
  if (!known && sched_getaffinity(0, sizeof all, &all) != 0) return 1;
  known = true;
  double worst = 0, best = 0;
  int quietest = -1, last = -1;
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &all)) continue;
    run_on(core);
    const double slow = threads > 1 && last >= 0 ? slowness_beside(core, last) : slowness();
    last = core;
    if (slow > worst) worst = slow;
    if (quietest >= 0 && slow >= best) continue;
    quietest = core;
    best = slow;
  }
  if (threads == 1) run_on(quietest);
  else (void)sched_setaffinity(0, sizeof all, &all);
  return threads == 1 ? best : worst;
}

static void end_round(rounds *r) {
  const double after = r->threads == 1 ? slowness() : look(r->threads);
  const double slow = (after > r->before ? after : r->before) * (1 + r->waited);
  r->slow[r->now] = slow;
  r->count++;
  r->quiet += slow <= QUIET;
  if (r->threads == 0) return;
  all_rounds++;
  quiet_rounds += slow <= QUIET;
}

static bool is_over(const rounds *r) {
  return r->quiet == r->wanted || r->count == ROUNDS_MAX || (r->count >= LEAST && seconds() > r->end);
}

bool next_round(rounds *r) {
  const bool first = r->end == 0;
  if (first) {
    if (!all_rounds && r->threads) (void)atexit(tell_rounds_counted);
    for (int k = 0; k < CALIBRATIONS; k++) (void)look(r->threads); /* until each core was probably once quiet */
    r->end = seconds() + PATIENCE;
  } else {
    end_round(r);
  }
  if (is_over(r)) return false;
  const bool stays = r->threads == 1 && !first && r->slow[r->now] <= QUIET;
  r->now = r->count;
  r->before = stays ? slowness() : look(r->threads);
  /* A busy moment is not spent on a round that would not count. */
  while (r->before > QUIET && seconds() < r->end) r->before = look(r->threads);
  r->waited = 0;
  return true;
}

bool was_disturbed(const rounds *r) { return r->quiet < LEAST; }

int keep_quiet(const rounds *r, double *values) {
  double sorted[ROUNDS_MAX], most = QUIET;
  int kept = 0;
  memcpy(sorted, r->slow, sizeof *sorted * (size_t)r->count);
  qsort(sorted, (size_t)r->count, sizeof *sorted, by_value);
  if (r->quiet < LEAST && r->count > 0) most = sorted[(r->count < LEAST ? r->count : LEAST) - 1];
  for (int k = 0; k < r->count; k++)
    if (r->slow[k] <= most) values[kept++] = values[k];
  return kept;
}
