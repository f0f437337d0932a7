/* test-devices: opencl:0 only */
/* test-sanitized: opencl */
/* OpenCL and fork: before it was used a child is a process like any other; from then on the driver's threads are the parent's,
   and a child gets an error at once, where it would otherwise wait for them.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "situ/scope.h"
#include "support/test.h"

static const situ_device device = { SITU_OPENCL, 0 };

/* The exit code of a child that runs fn; -1: it did not end by itself within 60 seconds. */
static int in_child(int (*fn)(void)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)alarm(60);
    (void)situ_error_mode(SITU_ERROR_QUIET);
    _exit(fn());
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Copies in, a kernel, copies out. */
static situ_status use(void) {
  const float value[] = { 1, 2 };
  float got[2] = { 0 };
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *x = situ_from_host(value, sizeof value, SITU_SHAPE(2), &(situ_options){ .device = device });
  situ_status status = situ_copy_to_host(situ_neg(x), got, sizeof got);
  situ_status ended = situ_scope_end(&scope);
  if (status == SITU_OK && (got[0] != -1 || got[1] != -2)) return SITU_E_SHAPE;
  return status == SITU_OK ? ended : status;
}

static int works(void) {
  if (!situ_device_is_available(device)) return 77;
  return use() == SITU_OK ? 0 : 1;
}

static int is_refused(void) { return use() == SITU_E_STATE && situ_error() == SITU_E_STATE ? 0 : 1; }

static void before_opencl_was_used(void **state) {
  (void)state;
  int end = in_child(works);
  if (end == 77) (void)test_device(); /* says why, and skips */
  assert_int_equal(end, 0);
}

/* The driver has threads as soon as it was asked what there is. */
static void after_devices_were_counted(void **state) {
  (void)state;
  assert_true(situ_device_count("opencl") > 0);
  assert_int_equal(in_child(is_refused), 0);
  assert_int_equal(use(), SITU_OK);
}

static situ_tensor *kept; /* on the device */

static int what_is_there_is_refused(void) {
  float got[2];
  if (is_refused() != 0) return 1;
  situ_error_clear();
  if (situ_synchronize(device) != SITU_E_STATE) return 2;
  situ_error_clear();
  if (situ_copy_to_host(kept, got, sizeof got) != SITU_E_STATE) return 3;
  situ_error_clear();
  if (situ_copy_from_host(kept, got, sizeof got) != SITU_E_STATE) return 4;
  situ_error_clear();
  if (situ_to(kept, situ_dev("cpu")) || situ_error() != SITU_E_STATE) return 5;
  situ_error_clear();
  if (situ_empty_cache(device) != SITU_E_STATE) return 6;
  situ_drop(&kept); /* frees nothing of the parent's, and does not wait */
  return 0;
}

static void *use_all_the_time(void *stop) {
  while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
    if (use() != SITU_OK) return NULL;
  return stop;
}

/* While another thread holds the device's lock most of the time. */
static void after_a_device_was_used(void **state) {
  (void)state;
  bool stop = false;
  pthread_t thread;
  void *result;
  situ_set(&kept, T32(SITU_SHAPE(2), 3, 4));
  assert_int_equal(pthread_create(&thread, NULL, use_all_the_time, &stop), 0);
  for (int i = 0; i < 50; i++) assert_int_equal(in_child(what_is_there_is_refused), 0);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_non_null(result);
  expect_exact(kept, SITU_SHAPE(2), 3, 4);
  situ_drop(&kept);
}

/* A child that ends with exit() runs what is to be done at the end of the parent, which waits for the queue. */
static int nothing(void) { exit(0); }

static void a_child_can_exit(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(1200, 1200), &(situ_options){ .device = device });
  assert_int_equal(situ_synchronize(device), SITU_OK);
  for (int i = 0; i < 5; i++) {
    situ_tensor *y = situ_mm(x, x); /* is being computed while the child ends */
    assert_int_equal(in_child(nothing), 0);
    assert_non_null(y);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(before_opencl_was_used),
    cmocka_unit_test(after_devices_were_counted), /* a fixture would have opened the device */
    TEST(after_a_device_was_used),
    TEST(a_child_can_exit),
  };
  return cmocka_run_group_tests_name("backend/opencl/fork", tests, NULL, NULL);
}
