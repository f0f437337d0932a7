/* The thread pool: one job at a time; idle threads take the next chunk of it.
   SPDX-License-Identifier: MIT */
#include "base/mutex.h"
#include "base/pool.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/size.h"
#include "base/thread.h"

enum { THREADS_MAX = 256, SPINS = 256, LINE = 64 /* bytes of the cache's */ };
/* A waiting thread spins for some microseconds, then yields the core until so many seconds are over, then sleeps: to
   wake a sleeper takes 20 us of the thread that does it in a virtual machine, which is more than most loops of a small
   network, and spinning without yielding was 3 to 30 times slower beside one busy process. */
#define PATIENCE 1e-3
/* Where the program has GNU's OpenMP a thread sleeps at once: that library's idle threads spin, and two pools that spin
   for one set of cores take more than their sum (docs/threads.md). */
static int spins = SPINS;
static double patience = PATIENCE;

/* The job. Each thread begins with a share of its chunks that follow each other, the same part of every job: what it
   wrote in one is in its core's cache when it reads that in the next. Then it takes what is left of other shares. The
   word of a share holds the job's number in the high half and the number of untaken chunks in the low half. A
   compare-and-swap of both takes a chunk, so a worker that comes late to a finished job cannot take a chunk of the next
   one. Workers read the other fields only after taking a chunk, while they cannot change. */
static struct { _Alignas(LINE) uint64_t word; } share[THREADS_MAX];
_Alignas(LINE) static uint64_t number; /* of the job, written last; idle threads look at its line all the time */
_Alignas(LINE) static struct {
  situ__range_fn fn;
  void *payload;
  int64_t count, grain, chunks;
} job;
static int shares;         /* of the job; those behind have no untaken chunk */
static int64_t unfinished; /* chunks that are not finished */
static void (*on_start)(void);

static situ__mutex owner = SITU__MUTEX_INIT; /* held by the thread whose job it is */
static situ__mutex lock = SITU__MUTEX_INIT;  /* only for the two conditions */
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER, work_done = PTHREAD_COND_INITIALIZER;
static int sleepers; /* workers that wait for work_there */
static bool owner_sleeps;
static bool stopping;

static pthread_t worker[THREADS_MAX];
static int workers;                    /* running; changes under owner */
static int threads;                    /* the configured number, including the caller; 0: not decided yet */
static SITU__THREAD_LOCAL bool inside; /* this thread is running a chunk */

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Waits a little before the i-th retry. Returns false when the thread should sleep instead. *until is for the next. */
static bool look_again(int i, double *until) {
  if (i < spins) return pause_cpu(), true;
  if (i == spins) *until = situ__seconds() + patience;
  (void)sched_yield();
  return situ__seconds() < *until;
}

static uint32_t count_untaken(uint64_t word) { return (uint32_t)word; }

static int64_t share_begin(int s, int of) { return job.chunks / of * s + job.chunks % of * s / of; }

/* Takes and runs chunks of this job's share until all are taken: a late thread begins the next job with its own. */
static void run_share(uint64_t of_job, int s, void (**started)(void)) {
  uint64_t word = __atomic_load_n(&share[s].word, __ATOMIC_ACQUIRE);
  while (count_untaken(word) != 0 && word >> 32 == (uint32_t)of_job) {
    if (!__atomic_compare_exchange_n(&share[s].word, &word, word - 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
      continue;
    if (started) {
      void (*start)(void) = __atomic_load_n(&on_start, __ATOMIC_ACQUIRE);
      if (start && start != *started) start();
      *started = start;
    }
    int64_t begin = (share_begin(s + 1, __atomic_load_n(&shares, __ATOMIC_RELAXED)) - count_untaken(word)) * job.grain;
    int64_t end = begin > job.count - job.grain ? job.count : begin + job.grain;
    inside = true;
    job.fn(begin, end, job.payload);
    inside = false;
    if (__atomic_sub_fetch(&unfinished, 1, __ATOMIC_SEQ_CST) == 0 && __atomic_load_n(&owner_sleeps, __ATOMIC_SEQ_CST)) {
      situ__mutex_lock(&lock);
      pthread_cond_signal(&work_done);
      situ__mutex_unlock(&lock);
    }
    word = __atomic_load_n(&share[s].word, __ATOMIC_ACQUIRE);
  }
}

/* self: the caller's number among the threads; 0 is the owner. */
static void run_chunks(uint64_t of_job, int self, void (**started)(void)) {
  const int count = __atomic_load_n(&shares, __ATOMIC_RELAXED);
  for (int k = 0; k < count; k++) run_share(of_job, (self + k) % count, started);
}

static void *run_worker(void *self) {
  (void)situ__fpu_enter(); /* until it ends */
  void (*started)(void) = NULL;
  uint64_t seen = 0; /* number of the last job that was looked at */
  for (double until = 0;;) {
    for (int i = 0; __atomic_load_n(&number, __ATOMIC_RELAXED) == seen && look_again(i, &until); i++) {}
    if (__atomic_load_n(&number, __ATOMIC_RELAXED) == seen) {
      situ__mutex_lock(&lock);
      /* Count this sleeper before its last look at the number; the owner writes the number before it looks for
         sleepers. So one of the two sees the other. */
      __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
      while (!stopping && __atomic_load_n(&number, __ATOMIC_SEQ_CST) == seen) situ__mutex_wait(&lock, &work_there);
      __atomic_sub_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
      bool stop = stopping;
      situ__mutex_unlock(&lock);
      if (stop) return NULL;
    }
    seen = __atomic_load_n(&number, __ATOMIC_ACQUIRE);
    run_chunks(seen, (int)(intptr_t)self, &started);
  }
}

/* ---- starting and stopping; the caller holds owner ---- */

static int default_threads(void) {
  const char *wanted = getenv("SITU_NUM_THREADS");
  if (wanted && *wanted) {
    char *end;
    errno = 0;
    long count = strtol(wanted, &end, 10);
    if (errno == 0 && *end == 0 && count >= 1 && count <= THREADS_MAX) return (int)count;
    situ__log("SITU_NUM_THREADS=\"%.40s\" is not a number from 1 to %d and is ignored", wanted, THREADS_MAX);
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : count;
}

/* Workers block all signals, so that a program's handlers run on its own threads. Fewer threads than configured are
   not an error. */
static void start_workers(void) {
  situ__fork_guard();
  if (dlsym(RTLD_DEFAULT, "GOMP_parallel")) spins = 0, patience = 0;
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
  while (workers < threads - 1 &&
         pthread_create(&worker[workers], NULL, run_worker, (void *)(intptr_t)(workers + 1)) == 0)
    workers++;
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_workers(void) {
  situ__mutex_lock(&lock);
  stopping = true;
  pthread_cond_broadcast(&work_there);
  situ__mutex_unlock(&lock);
  for (; workers > 0; workers--) pthread_join(worker[workers - 1], NULL);
  stopping = false;
}

int situ__pool_threads(void) {
  int count = __atomic_load_n(&threads, __ATOMIC_RELAXED);
  if (count != 0) return count;
  int decided = default_threads();
  int none = 0;
  __atomic_compare_exchange_n(&threads, &none, decided, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return __atomic_load_n(&threads, __ATOMIC_RELAXED);
}

bool situ__pool_set_threads(int count) {
  if (count < 1 || count > THREADS_MAX || inside || situ__forked()) return false;
  situ__mutex_lock(&owner);
  if (count - 1 < workers) stop_workers();
  __atomic_store_n(&threads, count, __ATOMIC_RELAXED);
  situ__mutex_unlock(&owner);
  return true;
}

void situ__pool_on_worker_start(void (*start)(void)) { __atomic_store_n(&on_start, start, __ATOMIC_RELEASE); }

/* ---- the loop ---- */

static void wait_for_chunks(void) {
  double until = 0;
  int i = 0;
  do {
    if (__atomic_load_n(&unfinished, __ATOMIC_ACQUIRE) == 0) return;
  } while (look_again(i++, &until));
  situ__mutex_lock(&lock);
  __atomic_store_n(&owner_sleeps, true, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&unfinished, __ATOMIC_SEQ_CST) != 0) situ__mutex_wait(&lock, &work_done);
  __atomic_store_n(&owner_sleeps, false, __ATOMIC_SEQ_CST);
  situ__mutex_unlock(&lock);
}

static void run_in_order(int64_t count, int64_t grain, situ__range_fn fn, void *payload) {
  for (int64_t begin = 0; begin < count;) {
    int64_t end = begin > count - grain ? count : begin + grain;
    fn(begin, end, payload);
    begin = end;
  }
}

void situ__parallel(int64_t count, int64_t grain, situ__range_fn fn, void *payload) {
  if (count <= 0) return;
  if (grain < 1) grain = 1;
  if (count <= grain) {
    fn(0, count, payload);
    return;
  }
  int64_t chunks = situ__ceil_div(count, grain);
  if (chunks > UINT32_MAX || situ__pool_threads() == 1 || situ__forked() || !situ__mutex_trylock(&owner)) {
    run_in_order(count, grain, fn, payload);
    return;
  }
  if (workers < situ__pool_threads() - 1) start_workers();
  job.fn = fn;
  job.payload = payload;
  job.count = count;
  job.grain = grain;
  job.chunks = chunks;
  const int of = (int)situ__min_i64(situ__pool_threads(), chunks);
  __atomic_store_n(&shares, of, __ATOMIC_RELAXED);
  __atomic_store_n(&unfinished, chunks, __ATOMIC_RELAXED);
  for (int s = 0; s < of; s++) {
    const uint64_t untaken = (uint64_t)(share_begin(s + 1, of) - share_begin(s, of));
    __atomic_store_n(&share[s].word, (number + 1) << 32 | untaken, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&number, number + 1, __ATOMIC_SEQ_CST);
  int asleep = __atomic_load_n(&sleepers, __ATOMIC_SEQ_CST);
  if (asleep > 0) {
    situ__mutex_lock(&lock);
    if (chunks - 1 >= asleep) {
      pthread_cond_broadcast(&work_there);
    } else {
      for (int64_t i = 0; i < chunks - 1; i++) pthread_cond_signal(&work_there);
    }
    situ__mutex_unlock(&lock);
  }
  run_chunks(number, 0, NULL);
  wait_for_chunks();
  situ__mutex_unlock(&owner);
}
