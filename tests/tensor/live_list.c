/* The list of what is alive: complete, the largest first, with the lines that made it.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "situ/live.h"

#include <pthread.h>

#include "situ/nn.h"
#include "situ/situ.h"
#include "support/pairs.h"

enum { MOST = 64 };

/* AddressSanitizer has each tensor in a block of malloc's, of which there is no list. */
#ifdef __SANITIZE_ADDRESS__
#define NEEDS_A_LIST skip()
#else
#define NEEDS_A_LIST (void)0
#endif

static const situ_live *find(const situ_live *list, int64_t count, uint64_t bytes) {
  for (int64_t i = 0; i < count; i++)
    if (list[i].bytes == bytes) return &list[i];
  return NULL;
}

/* placement: J6 */
static void all_storages_are_listed(void **state) {
  (void)state;
  NEEDS_A_LIST;
  const situ_options there = { .device = test_device() };
  situ_live list[MOST];
  const int64_t before = situ_live_list(test_device(), NULL, 0);
  assert_non_null(situ_zeros(SITU_SHAPE(10), &there));
  situ_tensor *large = situ_set_name(situ_empty(SITU_SHAPE(3, 1000), &there), "scratch");
  assert_non_null(situ_transpose(large, 0, 1));
  const int64_t count = situ_live_list(test_device(), list, MOST);
  assert_int_equal(count, before + 2);
  for (int64_t i = 1; i < count; i++) assert_true(list[i - 1].bytes >= list[i].bytes);
  const situ_live *found = find(list, count, 12000);
  assert_non_null(found);
  assert_string_equal(found->name, "scratch");
  assert_int_equal(found->tensors, 2);
  assert_int_equal(found->shape.ndim, 2);
  assert_int_equal(found->shape.dim[1], 1000);
  assert_int_equal(found->dtype, SITU_F32);
  assert_false(found->written);
  if (test_has_lines()) assert_non_null(strstr(found->created, "live_list.c:"));
  found = find(list, count, 40);
  assert_true(found && found->written && found->tensors == 1);
  assert_int_equal(situ_live_list(test_device(), list, 1), count);
  assert_int_equal(list[0].bytes >= 12000, 1);
}

static void roles_and_devices_are_told(void **state) {
  (void)state;
  NEEDS_A_LIST;
  situ_live list[MOST];
  situ_nn_module *m = situ_nn_linear(300, 7, NULL);
  expect_ok(situ_nn_to(m, test_device()));
  const int64_t here_alone = situ_live_list(test_device(), list, MOST);
  const situ_live *weight = find(list, here_alone, 8400);
  assert_non_null(weight);
  assert_string_equal(weight->role, "parameter");
  assert_non_null(strstr(weight->name, "weight"));
  const situ_options meta = { .device = situ_dev("meta") };
  assert_non_null(situ_zeros(SITU_SHAPE(3), &meta));
  assert_true(situ_live_list((situ_device){ 0 }, list, MOST) > here_alone);
  assert_int_equal(situ_live_list(test_device(), NULL, 0), here_alone);
  situ_nn_free(m);
  assert_int_equal(situ_live_list(test_device(), NULL, 0), here_alone - 2);
}

/* Another thread makes and frees tensors meanwhile. */
static bool stop;
static void *churn(void *payload) {
  (void)payload;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    situ_scope scope;
    situ_scope_begin(&scope);
    for (int i = 1; i < 50; i++) (void)situ_set_name(situ_zeros(SITU_SHAPE(i), NULL), "churned");
    SITU_IGNORE(situ_scope_end(&scope));
  }
  return NULL;
}
static void other_threads_go_on(void **state) {
  (void)state;
  NEEDS_A_LIST;
  pthread_t thread;
  situ_live list[MOST];
  stop = false;
  assert_int_equal(pthread_create(&thread, NULL, churn, NULL), 0);
  for (int i = 0; i < 200; i++) assert_true(situ_live_list((situ_device){ 0 }, list, MOST) >= 0);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  assert_int_equal(situ_live_list(test_device(), NULL, 3), -1);
  expect_error(SITU_E_ARG, "live_list", "out");
  assert_int_equal(situ_live_list((situ_device){ SITU_DEVICE_KINDS, 0 }, NULL, 0), -1);
  expect_error(SITU_E_ARG, "live_list", "not a device");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(all_storages_are_listed),
    PAIR_TEST(roles_and_devices_are_told),
    PAIR_TEST(other_threads_go_on),
    PAIR_TEST(bad_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
