/* The simulated device's queue: work runs later, in order, on what it was given.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "situ/sys/sim.h"
#include "support/rows.h"

static const situ_device sim = { SITU_SIM, 0 }, sim1 = { SITU_SIM, 1 };

static int fresh(void **state) {
  (void)state;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  return situ_sim_create(2) != SITU_OK || situ_sim_reset(0) != SITU_OK || situ_sim_reset(1) != SITU_OK ||
         situ_empty_cache(sim) != SITU_OK;
}

static situ_sim_statistics stats(int index) {
  situ_sim_statistics s;
  assert_int_equal(situ_sim_stats(index, &s), SITU_OK);
  return s;
}

static void runs_when_somebody_waits(void **state) {
  (void)state;
  situ_view_desc a = row_new(sim), b = row_new(sim);
  uint64_t launches = stats(0).launches;
  assert_int_equal(row_fill(&a, 1), SITU_OK);
  assert_int_equal(row_fill(&b, 2), SITU_OK);
  assert_int_equal(row_add(&a, &b, &b), SITU_OK);
  assert_int_equal(stats(0).queued, 3);
  assert_int_equal(stats(0).launches - launches, 3);
  assert_int_equal(situ_synchronize(sim), SITU_OK);
  assert_int_equal(stats(0).queued, 0);
  assert_true(stats(0).longest >= 3);
  assert_true(row_value(&a) == 1 && row_value(&b) == 3);
  assert_int_equal(row_add(&a, &b, &b), SITU_OK); /* reading waits too */
  assert_true(row_value(&b) == 4);
  situ__storage_release(a.storage);
  situ__storage_release(b.storage);
}

/* The caller's structs, host buffers and even the tensor may be gone when the work runs. */
static void takes_what_it_needs(void **state) {
  (void)state;
  float host[ROW] = { 5, 5, 5, 5, 5, 5, 5, 5 };
  situ_view_desc a = row_new(sim), y = row_new(sim);
  assert_int_equal(situ__copy_from_host("t", a.storage, 0, host, sizeof host, SITU__COPY_USER), SITU_OK);
  memset(host, 0, sizeof host);
  {
    situ_view_desc in = a, out = y;
    assert_int_equal(row_add(&in, &in, &out), SITU_OK);
    memset(&in, 0xff, sizeof in);
    memset(&out, 0xff, sizeof out);
  }
  situ__storage_release(a.storage);
  situ_view_desc b = row_new(sim); /* the same memory, from the cache */
  assert_int_equal(row_fill(&b, 7), SITU_OK);
  assert_int_equal(stats(0).queued, 3);
  assert_true(row_value(&y) == 10);
  assert_true(row_value(&b) == 7);
  situ__storage_release(b.storage);
  situ__storage_release(y.storage);
}

/* Copies in, work and frees keep their order, also where memory goes back to the device. */
/* placement: L2 */
static void in_order(void **state) {
  (void)state;
  float host[ROW];
  situ_view_desc a = row_new(sim), y = row_new(sim);
  assert_int_equal(row_fill(&y, 0), SITU_OK);
  float sum = 0;
  for (int i = 0; i < 100; i++) {
    for (int k = 0; k < ROW; k++) host[k] = (float)i;
    sum += (float)i;
    assert_int_equal(situ__copy_from_host("t", a.storage, 0, host, sizeof host, SITU__COPY_USER), SITU_OK);
    assert_int_equal(row_add(&y, &a, &y), SITU_OK);
  }
  situ__storage_release(a.storage);
  assert_int_equal(situ_empty_cache(sim), SITU_OK);
  assert_true(row_value(&y) == sum);
  situ__storage_release(y.storage);
}

/* Giving memory back to the device waits for what still reads it: whole pages would be gone. */
/* placement: F3, L2 */
static void free_waits(void **state) {
  (void)state;
  enum { MANY = 16384 };
  static float host[MANY];
  situ_view_desc v[2];
  for (int i = 0; i < 2; i++) {
    v[i] = row_new(sim);
    situ__storage_release(v[i].storage);
    v[i].storage = situ__storage_new("test", sim, sizeof host);
    assert_non_null(v[i].storage);
    v[i].numel = v[i].size[0] = MANY;
  }
  assert_int_equal(row_fill(&v[0], 3), SITU_OK);
  assert_int_equal(situ_synchronize(sim), SITU_OK);
  assert_int_equal(row_add(&v[0], &v[0], &v[1]), SITU_OK);
  situ__storage_release(v[0].storage);
  assert_int_equal(situ_empty_cache(sim), SITU_OK);
  assert_int_equal(situ__copy_to_host("t", v[1].storage, 0, host, sizeof host, SITU__COPY_READ), SITU_OK);
  for (int i = 0; i < MANY; i++) assert_true(host[i] == 6);
  situ__storage_release(v[1].storage);
}

static void full_queue_runs(void **state) {
  (void)state;
  situ_view_desc y = row_new(sim), one = row_new(sim);
  assert_int_equal(row_fill(&y, 0), SITU_OK);
  assert_int_equal(row_fill(&one, 1), SITU_OK);
  for (int i = 0; i < 5000; i++) assert_int_equal(row_add(&y, &one, &y), SITU_OK);
  assert_true(stats(0).longest <= 1024);
  assert_true(row_value(&y) == 5000);
  situ__storage_release(y.storage);
  situ__storage_release(one.storage);
}

/* placement: F4, L2 */
static void between_devices(void **state) {
  (void)state;
  situ_view_desc a = row_new(sim), b = row_new(sim1);
  assert_int_equal(row_fill(&a, 3), SITU_OK);
  assert_int_equal(row_fill(&b, 0), SITU_OK); /* queued there: must not run after the copy */
  assert_int_equal(situ__copy_storage("to", b.storage, 0, a.storage, 0, ROW * sizeof(float), SITU__COPY_USER), SITU_OK);
  assert_int_equal(row_fill(&a, 9), SITU_OK);
  assert_true(row_value(&b) == 3);
  assert_int_equal(situ__copy_storage("to", a.storage, 0, b.storage, 0, ROW * sizeof(float), SITU__COPY_USER), SITU_OK);
  assert_true(row_value(&a) == 3);
  situ__storage_release(a.storage);
  situ__storage_release(b.storage);
}

static void *launch_many(void *payload) {
  situ_view_desc *one = payload;
  situ_view_desc y = row_new(sim);
  bool right = row_fill(&y, 0) == SITU_OK;
  for (int i = 0; i < 2000 && right; i++) right = row_add(&y, one, &y) == SITU_OK;
  right = right && row_value(&y) == 2000;
  situ__storage_release(y.storage);
  return right ? payload : NULL;
}

static void many_threads(void **state) {
  (void)state;
  pthread_t thread[4];
  situ_view_desc one = row_new(sim);
  assert_int_equal(row_fill(&one, 1), SITU_OK);
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, launch_many, &one), 0);
  for (int i = 0; i < 4; i++) {
    void *result;
    assert_int_equal(pthread_join(thread[i], &result), 0);
    assert_non_null(result);
  }
  situ__storage_release(one.storage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(runs_when_somebody_waits, fresh),
    cmocka_unit_test_setup(takes_what_it_needs, fresh),
    cmocka_unit_test_setup(in_order, fresh),
    cmocka_unit_test_setup(free_waits, fresh),
    cmocka_unit_test_setup(full_queue_runs, fresh),
    cmocka_unit_test_setup(between_devices, fresh),
    cmocka_unit_test_setup(many_threads, fresh),
  };
  return cmocka_run_group_tests_name("backend/sim/queue", tests, NULL, NULL);
}
