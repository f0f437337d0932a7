/* A fork's child gets an error at once, where it would otherwise wait for threads that it does not
   have.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fork.h"
#include "base/pool.h"
#include "device/launch/launch.h"
#include "situ/sys/sim.h"

static const situ_device cpu = { SITU_CPU, 0 }, sim = { SITU_SIM, 0 };

/* The exit code of a child that runs fn; -1: it did not end by itself within 20 seconds. */
static int in_child(int (*fn)(void)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)alarm(20);
    (void)situ_error_mode(SITU_ERROR_QUIET);
    _exit(fn());
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void add_one(int64_t begin, int64_t end, void *payload) {
  __atomic_add_fetch((int64_t *)payload, end - begin, __ATOMIC_RELAXED);
}

static int host_work(void) {
  int64_t total = 0;
  situ__parallel(1000, 10, add_one, &total);
  situ_storage *small = situ__storage_new("test", cpu, 100), *large = situ__storage_new("test", cpu, 3 << 20);
  bool works = total == 1000 && !situ__forked() && small && large;
  situ__storage_release(small);
  situ__storage_release(large);
  return works ? 0 : 1;
}

/* Nothing was started yet: a child is a process like any other. */
static void before_the_first_thread(void **state) {
  (void)state;
  void *data; /* a lock has been used, and memory is kept */
  assert_int_equal(situ__memory_alloc("test", cpu, 3 << 20, &data), SITU_OK);
  situ__memory_free(cpu, data, 3 << 20);
  assert_int_equal(in_child(host_work), 0);
}

static int large_block(void) {
  void *data = NULL;
  bool right = situ__memory_alloc("test", cpu, 5 << 20, &data) == SITU_OK;
  situ__memory_free(cpu, data, 5 << 20);
  return right ? 0 : 1;
}

static void *keep_allocating(void *stop) {
  while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
    if (large_block() != 0) return NULL;
  return stop;
}

/* The program's own threads may hold the allocator's lock at the moment of the fork. */
static void beside_other_threads(void **state) {
  (void)state;
  bool stop = false;
  pthread_t thread;
  void *result;
  assert_int_equal(pthread_create(&thread, NULL, keep_allocating, &stop), 0);
  for (int i = 0; i < 100; i++) assert_int_equal(in_child(large_block), 0);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_non_null(result);
}

static int refused(void) {
  int64_t total = 0;
  situ__parallel(1000, 10, add_one, &total); /* in order, by this thread */
  if (total != 1000 || !situ__forked()) return 1;
  if (situ__run("add", cpu, &(situ_work){ .verb = SITU_VERB_FILL }) != SITU_E_STATE) return 2;
  if (!strstr(situ_error_message(), "fork")) return 3;
  if (strstr(situ_error_message(), "fork.c:")) return 9; /* libdw would need a thread to find the line */
  situ_error_clear();
  if (situ_synchronize(cpu) != SITU_E_STATE) return 4;
  if (situ_set_num_threads(2) != SITU_E_STATE) return 5;
  if (situ_empty_cache(cpu) != SITU_E_STATE) return 6;
  if (situ__storage_new("empty", cpu, 64 << 20)) return 7;
  return situ_error() == SITU_E_STATE ? 0 : 8;
}

static void after_the_pool_ran(void **state) {
  (void)state;
  int64_t total = 0;
  assert_true(situ__pool_set_threads(4));
  situ__parallel(1000, 10, add_one, &total);
  assert_int_equal(total, 1000);
  assert_int_equal(in_child(refused), 0);
  assert_false(situ__forked()); /* the parent goes on */
  total = 0;
  situ__parallel(1000, 10, add_one, &total);
  assert_int_equal(total, 1000);
}

static situ_storage *on_sim;

static int refused_by_sim(void) {
  char byte = 1;
  if (situ__copy_from_host("copy", on_sim, 0, &byte, 1, SITU__COPY_USER) != SITU_E_STATE) return 1;
  if (situ__copy_to_host("copy", on_sim, 0, &byte, 1, SITU__COPY_USER) != SITU_E_STATE) return 2;
  if (situ_synchronize(sim) != SITU_E_STATE) return 3;
  if (situ__storage_new("empty", sim, 100)) return 4;
  if (situ_sim_reset(0) != SITU_E_STATE) return 5;
  situ__storage_release(on_sim); /* frees nothing of the parent's, and does not hang */
  return 0;
}

static void *hold_the_queue(void *unused) {
  char bytes[100] = { 7 };
  for (int i = 0; i < 20000; i++)
    if (situ__copy_from_host("copy", on_sim, 0, bytes, sizeof bytes, SITU__COPY_USER) != SITU_OK) return NULL;
  return unused ? unused : &on_sim;
}

/* While another thread holds the device's lock most of the time. */
static void after_a_device_was_used(void **state) {
  (void)state;
  pthread_t thread;
  void *result;
  char bytes[100] = { 0 };
  assert_int_equal(situ_sim_create(1), SITU_OK);
  on_sim = situ__storage_new("test", sim, 100);
  assert_non_null(on_sim);
  assert_int_equal(pthread_create(&thread, NULL, hold_the_queue, NULL), 0);
  for (int i = 0; i < 20; i++) assert_int_equal(in_child(refused_by_sim), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_non_null(result);
  assert_int_equal(situ__copy_to_host("read", on_sim, 0, bytes, sizeof bytes, SITU__COPY_READ), SITU_OK);
  assert_int_equal(bytes[0], 7); /* nothing that the children did has reached it */
  situ__storage_release(on_sim);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(before_the_first_thread),
    cmocka_unit_test(beside_other_threads),
    cmocka_unit_test(after_the_pool_ran),
    cmocka_unit_test(after_a_device_was_used),
  };
  return cmocka_run_group_tests_name("base/fork", tests, NULL, NULL);
}
