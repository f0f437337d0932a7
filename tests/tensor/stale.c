/* A tensor that was freed is told from a live one for a while, also once its like were made.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <pthread.h>
#include <stdio.h>

#include "support/test.h"

static situ_tensor *one_freed(double value) {
  situ_scope inside;
  situ_scope_begin(&inside);
  situ_tensor *t = situ_full(SITU_SHAPE(2, 3), value, &(situ_options){ .device = test_device() });
  assert_int_equal(situ_scope_end(&inside), SITU_OK);
  return t;
}

/* placement: D16 */
static void no_stale_use_reads_the_next_tensor(void **state) {
  (void)state;
  for (int i = 0; i < 100; i++) {
    situ_tensor *stale = one_freed(1),
                *next = situ_full(SITU_SHAPE(2, 3), 7, &(situ_options){ .device = test_device() });
    double value = 42;
    assert_ptr_not_equal(stale, next);
    expect_refused(situ_relu(stale), SITU_E_ARG, "relu", "input is a tensor that was freed");
    assert_int_equal(situ_item(stale, &value), SITU_E_ARG);
    expect_error(SITU_E_ARG, "item", "was freed");
    assert_true(value == 42);
  }
}

static void the_last_2048_are_told(void **state) {
  (void)state;
  static situ_tensor *stale[2048];
  for (int more = 0; more < 3; more++) {
    for (int i = 0; i < 2048; i++) stale[i] = one_freed(i);
    for (int i = 0; i < 2048; i += 89) expect_refused(situ_retain(stale[i]), SITU_E_ARG, "retain", "was freed");
  }
}

static void a_batch_of_10000_at_once(void **state) {
  (void)state;
  situ_scope inside;
  static situ_tensor *made[10000];
  situ_scope_begin(&inside);
  for (int i = 0; i < 10000; i++) made[i] = situ_empty(SITU_SHAPE(1), NULL);
  assert_int_equal(situ_scope_end(&inside), SITU_OK);
  for (int i = 0; i < 2048; i += 89) /* a scope frees the newest first */
    expect_refused(situ_retain(made[i]), SITU_E_ARG, "retain", "was freed");
}

/* placement: D16 */
static void the_message_says_which_it_was(void **state) {
  (void)state;
  char name[SITU_DEVICE_NAME_MAX], part[128];
  situ_tensor *stale = one_freed(1);
  (void)snprintf(part, sizeof part, "input is a tensor that was freed (f32 [2, 3] on %s, created at ",
                 situ_device_name(test_device(), name));
  expect_refused(situ_add(stale, stale), SITU_E_ARG, "add", part);
}

static void *free_one(void *out) {
  *(situ_tensor **)out = one_freed(3);
  return NULL;
}

static void those_of_a_thread_that_ended_too(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    situ_tensor *stale = NULL;
    assert_int_equal(pthread_create(&thread, NULL, free_one, &stale), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_refused(situ_relu(stale), SITU_E_ARG, "relu", "was freed (f32 [2, 3]");
  }
}

static void released_twice(void **state) {
  (void)state;
  situ_scope inside;
  situ_scope_begin(&inside);
  situ_tensor *x = situ_ones(SITU_SHAPE(4), NULL);
  situ_release(x);
  situ_release(x);
  expect_error(SITU_E_ARG, "release", "was freed (f32 [4]");
  assert_int_equal(situ_scope_end(&inside), SITU_E_ARG); /* it owned x as well */
  expect_error(SITU_E_ARG, "release", "was freed");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(no_stale_use_reads_the_next_tensor), TEST(the_last_2048_are_told),
                                      TEST(a_batch_of_10000_at_once),           TEST(the_message_says_which_it_was),
                                      TEST(those_of_a_thread_that_ended_too),   TEST(released_twice) };
  return cmocka_run_group_tests_name("tensor/stale", tests, NULL, NULL);
}
