/* The thread pool: every chunk once, the same chunks for any number of threads, no hang in odd
   places.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/pool.h"
#include "situ/device.h"
#include "situ/error.h"

typedef struct {
  uint8_t *seen;
  int64_t count, grain;
  int bad;
} cover;

static void mark(int64_t begin, int64_t end, void *payload) {
  cover *c = payload;
  int64_t most = end == c->count ? c->count - begin : c->grain;
  if (begin % c->grain != 0 || end <= begin || end - begin != most || most > c->grain)
    __atomic_add_fetch(&c->bad, 1, __ATOMIC_RELAXED);
  for (int64_t i = begin; i < end; i++) __atomic_add_fetch(&c->seen[i], 1, __ATOMIC_RELAXED);
}

static void every_chunk_once(void **state) {
  (void)state;
  static const int64_t grains[] = { 1, 2, 7, 64, 1000, 4096 };
  static const int64_t counts[] = { 1, 2, 63, 64, 65, 1000, 4097 };
  uint8_t seen[4097];
  for (int threads = 1; threads <= 8; threads++) {
    assert_true(situ__pool_set_threads(threads));
    assert_int_equal(situ__pool_threads(), threads);
    for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
      for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        memset(seen, 0, sizeof seen);
        cover c = { seen, counts[n], grains[g], 0 };
        situ__parallel(counts[n], grains[g], mark, &c);
        assert_int_equal(c.bad, 0);
        for (int64_t i = 0; i < 4097; i++) assert_int_equal(seen[i], i < counts[n]);
      }
    }
  }
}

static void nothing_to_do(void **state) {
  (void)state;
  uint8_t seen[4] = { 0 };
  cover c = { seen, 4, 4, 0 };
  situ__parallel(0, 4, mark, &c);
  situ__parallel(-5, 4, mark, &c);
  assert_int_equal(seen[0], 0);
  c.grain = 1;
  situ__parallel(4, 0, mark, &c); /* a grain of 0 is one of 1 */
  assert_int_equal(c.bad, 0);
  assert_int_equal(seen[3], 1);
}

static void far_ends(int64_t begin, int64_t end, void *payload) {
  int64_t *calls = payload;
  bool right = begin == 0 ? end == INT64_MAX - 1 : begin == INT64_MAX - 1 && end == INT64_MAX;
  __atomic_add_fetch(calls, right ? 1 : 1000, __ATOMIC_RELAXED);
}

/* The end of the last chunk must not be found by adding past 2^63. */
static void largest_counts(void **state) {
  (void)state;
  int64_t calls = 0;
  assert_true(situ__pool_set_threads(4));
  situ__parallel(INT64_MAX, INT64_MAX - 1, far_ends, &calls);
  assert_int_equal(calls, 2);
}

/* A sum whose rounding depends on the order: equal bits show that chunks do not depend on the
   threads. */
typedef struct {
  const float *x;
  double part[64];
  int64_t grain;
} sum;

static void add_up(int64_t begin, int64_t end, void *payload) {
  sum *s = payload;
  float total = 0;
  for (int64_t i = begin; i < end; i++) total += s->x[i];
  s->part[begin / s->grain] = (double)total;
}

static void same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  enum { COUNT = 60000 };
  float *x = malloc(COUNT * sizeof *x);
  assert_non_null(x);
  uint32_t random = 1;
  for (int i = 0; i < COUNT; i++) x[i] = (float)(random = random * 1664525u + 1013904223u) * 1e-9f - 2.0f;
  double first[64];
  for (int threads = 1; threads <= 8; threads++) {
    assert_true(situ__pool_set_threads(threads));
    for (int again = 0; again < 20; again++) {
      sum s = { .x = x, .grain = 1000 };
      situ__parallel(COUNT, s.grain, add_up, &s);
      if (threads == 1 && again == 0) memcpy(first, s.part, sizeof first);
      assert_memory_equal(first, s.part, 60 * sizeof *first);
    }
  }
  free(x);
}

static void wait_a_moment(int64_t begin, int64_t end, void *payload) {
  (void)begin, (void)end;
  pthread_t *threads = payload;
  threads[begin] = pthread_self();
  nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
}

/* Four chunks that wait for each other, so that each is another thread's. */
typedef struct {
  int begun;
  pthread_t thread[4];
} meeting;

static void meet(int64_t begin, int64_t end, void *payload) {
  meeting *m = payload;
  (void)end;
  m->thread[begin] = pthread_self();
  __atomic_add_fetch(&m->begun, 1, __ATOMIC_SEQ_CST);
  const time_t late = time(NULL) + 60;
  while (__atomic_load_n(&m->begun, __ATOMIC_SEQ_CST) < 4 && time(NULL) < late) (void)sched_yield();
}

/* What a thread wrote in one loop is in its core's cache for the same part of the next. */
static void same_thread_same_part(void **state) {
  (void)state;
  meeting first = { 0 };
  assert_true(situ__pool_set_threads(4));
  situ__parallel(4, 1, meet, &first);
  assert_int_equal(first.begun, 4);
  assert_true(pthread_equal(first.thread[0], pthread_self()));
  for (int k = 0; k < 100; k++) {
    meeting next = { 0 };
    situ__parallel(4, 1, meet, &next);
    for (int t = 0; t < 4; t++) assert_true(pthread_equal(next.thread[t], first.thread[t]));
  }
}

static void several_threads_work(void **state) {
  (void)state;
  pthread_t by[8];
  assert_true(situ__pool_set_threads(4));
  situ__parallel(8, 1, wait_a_moment, by);
  int others = 0;
  for (int i = 0; i < 8; i++) others += !pthread_equal(by[i], pthread_self());
  assert_in_range(others, 1, 8);
}

static void nested(int64_t begin, int64_t end, void *payload) {
  int64_t *total = payload;
  (void)begin, (void)end;
  uint8_t seen[100] = { 0 };
  cover c = { seen, 100, 10, 0 };
  situ__parallel(100, 10, mark, &c);
  int64_t ones = 0;
  for (int i = 0; i < 100; i++) ones += seen[i] == 1;
  __atomic_add_fetch(total, c.bad ? 0 : ones, __ATOMIC_RELAXED);
  if (situ__pool_set_threads(2)) __atomic_add_fetch(total, 1000000, __ATOMIC_RELAXED); /* it would wait for itself */
}

static void nested_loops_run_in_place(void **state) {
  (void)state;
  int64_t total = 0;
  assert_true(situ__pool_set_threads(4));
  situ__parallel(50, 1, nested, &total);
  assert_int_equal(total, 50 * 100);
}

static void mark_slowly(int64_t begin, int64_t end, void *payload) {
  if (begin % 4 == 0) (void)sched_yield(); /* callers meet */
  mark(begin, end, payload);
}

static void *call_often(void *payload) {
  int *bad = payload;
  for (int i = 0; i < 3000; i++) {
    uint8_t seen[64] = { 0 };
    cover c = { seen, 64, 3, 0 };
    situ__parallel(64, 3, mark_slowly, &c);
    for (int k = 0; k < 64; k++)
      if (seen[k] != 1 || c.bad) __atomic_add_fetch(bad, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

/* Four callers at once, and jobs so short that workers come late to most of them. */
static void callers_at_once(void **state) {
  (void)state;
  int bad = 0;
  pthread_t thread[3];
  assert_true(situ__pool_set_threads(4));
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, call_often, &bad), 0);
  call_often(&bad);
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  assert_int_equal(bad, 0);
}

/* Sleeping workers are woken: with pauses between the jobs. */
static void after_a_sleep(void **state) {
  (void)state;
  assert_true(situ__pool_set_threads(3));
  for (int i = 0; i < 30; i++) {
    pthread_t by[8];
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    situ__parallel(3, 1, wait_a_moment, by);
    if (i < 29) continue;
    assert_false(pthread_equal(by[0], by[1]) && pthread_equal(by[1], by[2]));
  }
}

/* The time of all threads of this process while nothing is to be done. */
static void idle_workers_sleep(void **state) {
  (void)state;
  pthread_t by[8];
  assert_true(situ__pool_set_threads(4));
  situ__parallel(8, 1, wait_a_moment, by);
  nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
  const clock_t before = clock();
  nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
  assert_true(clock() - before < CLOCKS_PER_SEC / 20);
}

static int started;
static _Thread_local int started_here;
static void count_start(void) {
  started_here++;
  __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED);
}

static void need_start(int64_t begin, int64_t end, void *payload) {
  (void)begin, (void)end;
  pthread_t *caller = payload;
  nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
  if (!pthread_equal(*caller, pthread_self()) && started_here != 1)
    __atomic_add_fetch(&started, 1000, __ATOMIC_RELAXED);
}

/* Also on workers that ran before it was set. */
static void start_hook(void **state) {
  (void)state;
  pthread_t self = pthread_self(), by[8];
  assert_true(situ__pool_set_threads(3));
  situ__parallel(8, 1, wait_a_moment, by);
  situ__pool_on_worker_start(count_start);
  situ__parallel(16, 1, need_start, &self);
  situ__parallel(16, 1, need_start, &self);
  assert_in_range(started, 1, 2);
  assert_int_equal(started_here, 0);
  situ__pool_on_worker_start(NULL);
}

static void limits(void **state) {
  (void)state;
  assert_false(situ__pool_set_threads(0));
  assert_false(situ__pool_set_threads(-1));
  assert_false(situ__pool_set_threads(257));
  (void)situ_error_mode(SITU_ERROR_QUIET);
  assert_int_equal(situ_set_num_threads(0), SITU_E_ARG);
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(situ_set_num_threads(5), SITU_OK);
  assert_int_equal(situ_get_num_threads(), 5);
}

/* What a process that begins with this SITU_NUM_THREADS has. */
static int threads_with(const char *wanted) {
  const pid_t child = fork();
  if (child == 0) {
    (void)setenv("SITU_NUM_THREADS", wanted, 1);
    _exit(situ_get_num_threads() & 127);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/* Before a number is decided in this process: it is decided only once. */
static void number_of_the_environment(void **state) {
  (void)state;
  cpu_set_t set;
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  const int otherwise = CPU_COUNT(&set) & 127;
  const int other = otherwise == 77 ? 78 : 77;
  char text[16];
  (void)snprintf(text, sizeof text, "%d", other);
  assert_int_equal(threads_with(text), other);
  (void)snprintf(text, sizeof text, "%dx", other);
  assert_int_equal(threads_with(text), otherwise);
  assert_int_equal(threads_with("1"), 1);
  assert_int_equal(threads_with("256"), 256 & 127);
  static const char *const bad[] = { "", "0", "-3", "257", "many", "99999999999999999999" };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(threads_with(bad[i]), otherwise);
}

/* First of what decides the number here: that is done only once. */
static void default_number(void **state) {
  (void)state;
  cpu_set_t set;
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  assert_int_equal(situ_get_num_threads(),
                   getenv("SITU_NUM_THREADS") ? atoi(getenv("SITU_NUM_THREADS")) : CPU_COUNT(&set));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(number_of_the_environment),
    cmocka_unit_test(default_number),
    cmocka_unit_test(every_chunk_once),
    cmocka_unit_test(nothing_to_do),
    cmocka_unit_test(largest_counts),
    cmocka_unit_test(same_bits_for_any_number_of_threads),
    cmocka_unit_test(several_threads_work),
    cmocka_unit_test(same_thread_same_part),
    cmocka_unit_test(nested_loops_run_in_place),
    cmocka_unit_test(callers_at_once),
    cmocka_unit_test(after_a_sleep),
    cmocka_unit_test(idle_workers_sleep),
    cmocka_unit_test(start_hook),
    cmocka_unit_test(limits),
  };
  return cmocka_run_group_tests_name("base/pool", tests, NULL, NULL);
}
