/* The simulated device's failures: those that come late, those on schedule, and what is refused.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fail.h"
#include "situ/scope.h"
#include "situ/sys/alloc.h"
#include "situ/sys/sim.h"
#include "support/rows.h"

static const situ_device sim = { SITU_SIM, 0 }, sim1 = { SITU_SIM, 1 }, cpu = { SITU_CPU, 0 };

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

static void late_failure(void **state) {
  (void)state;
  float untouched[ROW] = { 42 };
  situ_view_desc a = row_new(sim);
  assert_int_equal(row_fill(&a, 1), SITU_OK);
  assert_int_equal(situ_synchronize(sim), SITU_OK);
  assert_int_equal(situ_sim_fail(0, SITU_SIM_LATE, 2, false), SITU_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(row_fill(&a, 2 + i), SITU_OK); /* launching says nothing */
  assert_int_equal(situ_error(), SITU_OK);
  assert_int_equal(situ__copy_to_host("read", a.storage, 0, untouched, sizeof untouched, SITU__COPY_READ),
                   SITU_E_NOMEM);
  assert_true(untouched[0] == 42);
  assert_string_equal(situ_error_op(), "fill");
  assert_non_null(strstr(situ_error_message(), "fill: was queued on sim:0 and failed there: out of resources"));
  assert_int_equal(situ_synchronize(sim), SITU_OK); /* told once */
  situ__storage_release(a.storage);
}

/* A kernel that meets an error itself, in a thread that did not launch it and has an error of its
   own. */
static void *free_on_another_thread(void *storage) {
  situ_status before = situ__null("own", "x");
  situ__storage_release(storage);
  bool right = situ_empty_cache(sim) == SITU_OK && before == SITU_E_ARG; /* runs the queue */
  return right && strstr(situ_error_message(), "own: `x` is NULL") ? storage : NULL;
}

static void failure_in_the_kernel(void **state) {
  (void)state;
  pthread_t thread;
  void *result;
  situ_view_desc x = row_new(sim), y = row_new(sim);
  situ_storage *s = situ__storage_new("test", sim, sizeof(int64_t));
  int64_t far = 1000;
  situ_view_desc index = {
    .storage = s, .dtype = SITU_I64, .ndim = 1, .contiguous = true, .numel = 1, .size = { 1 }, .stride = { 1 }
  };
  situ_view_desc out = y;
  out.numel = out.size[0] = 1;
  assert_int_equal(row_fill(&x, 1), SITU_OK);
  assert_int_equal(situ__copy_from_host("t", s, 0, &far, sizeof far, SITU__COPY_USER), SITU_OK);
  situ_work gather = { .verb = SITU_VERB_GATHER,
                       .op = SITU_INDEX_ROWS,
                       .compute = SITU_F32,
                       .ins = 2,
                       .in = { &x, &index },
                       .outs = 1,
                       .out = { &out } };
  assert_int_equal(situ__run("index_select", sim, &gather), SITU_OK);
  assert_int_equal(row_fill(&x, 5), SITU_OK); /* what follows still runs */
  assert_int_equal(pthread_create(&thread, NULL, free_on_another_thread, s), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_non_null(result);
  assert_int_equal(situ_error(), SITU_OK);
  assert_int_equal(situ_synchronize(sim), SITU_E_INDEX);
  assert_string_equal(situ_error_op(), "index_select");
  assert_true(row_value(&x) == 5);
  situ__storage_release(x.storage);
  situ__storage_release(y.storage);
}

/* placement: I8 */
static void faults_on_schedule(void **state) {
  (void)state;
  float host[ROW] = { 0 };
  situ_view_desc a = row_new(sim);
  assert_int_equal(situ_sim_fail(0, SITU_SIM_COPY, 3, false), SITU_OK);
  for (int i = 1; i <= 5; i++) {
    situ_status status = i % 2 ? situ__copy_from_host("t", a.storage, 0, host, sizeof host, SITU__COPY_USER)
                               : situ__copy_to_host("t", a.storage, 0, host, sizeof host, SITU__COPY_USER);
    assert_int_equal(status, i == 3 ? SITU_E_IO : SITU_OK);
  }
  assert_int_equal(situ_sim_fail(0, SITU_SIM_COPY, 2, true), SITU_OK);
  for (int i = 1; i <= 4; i++)
    assert_int_equal(situ__copy_to_host("t", a.storage, 0, host, sizeof host, SITU__COPY_USER),
                     i >= 2 ? SITU_E_IO : SITU_OK);
  assert_int_equal(situ_sim_fail(0, SITU_SIM_COPY, 0, true), SITU_OK);
  assert_int_equal(situ__copy_to_host("t", a.storage, 0, host, sizeof host, SITU__COPY_USER), SITU_OK);
  situ_view_desc b = row_new(sim1);
  assert_int_equal(situ_sim_fail(1, SITU_SIM_COPY, 1, true), SITU_OK);
  assert_int_equal(situ__copy_storage("t", b.storage, 0, a.storage, 0, 4, SITU__COPY_USER), SITU_E_IO);
  situ__storage_release(b.storage);

  situ_error_clear();
  assert_int_equal(situ_sim_fail(0, SITU_SIM_ALLOC, 1, true), SITU_OK);
  assert_null(situ__storage_new("zeros", sim, 1 << 20));
  assert_int_equal(situ_error(), SITU_E_NOMEM);
  assert_int_equal(situ_sim_fail(0, SITU_SIM_ALLOC, 1, false), SITU_OK);
  assert_null(situ__storage_new("zeros", sim, 1 << 20)); /* there is no cache to give back */
  situ_storage *s = situ__storage_new("zeros", sim, 1 << 20);
  assert_non_null(s);
  situ__storage_release(s);
  assert_int_equal(situ_sim_fail(0, SITU_SIM_ALLOC, 1, false), SITU_OK);
  s = situ__storage_new("zeros", sim, 3 << 20); /* now there is */
  assert_non_null(s);
  situ__storage_release(s);
  situ__storage_release(a.storage);
}

/* At the n-th thing it does; work that was queued is never run, and freeing works. */
static void lost_at_any_moment(void **state) {
  (void)state;
  int64_t live = situ_live_bytes();
  for (uint64_t nth = 1; nth <= 6; nth++) {
    float host[ROW] = { 0 };
    assert_int_equal(situ_sim_reset(0), SITU_OK);
    assert_int_equal(situ_empty_cache(sim), SITU_OK);
    assert_int_equal(situ_sim_fail(0, SITU_SIM_LOST, nth, false), SITU_OK);
    situ_storage *s = situ__storage_new("t", sim, sizeof host); /* 1 */
    assert_true((s == NULL) == (nth == 1));
    if (!s) continue;
    situ_view_desc a = {
      .storage = s, .dtype = SITU_F32, .ndim = 1, .contiguous = true, .numel = ROW, .size = { ROW }, .stride = { 1 }
    };
    assert_int_equal(row_fill(&a, 1), nth <= 2 ? SITU_E_LOST : SITU_OK);
    assert_int_equal(situ__copy_from_host("t", s, 0, host, sizeof host, SITU__COPY_USER),
                     nth <= 3 ? SITU_E_LOST : SITU_OK);
    assert_int_equal(situ_synchronize(sim), nth <= 4 ? SITU_E_LOST : SITU_OK);
    assert_int_equal(situ__copy_to_host("t", s, 0, host, sizeof host, SITU__COPY_USER),
                     nth <= 5 ? SITU_E_LOST : SITU_OK);
    situ__storage_release(s);
    assert_int_equal(situ_live_bytes(), live);
  }
  assert_int_equal(situ_sim_reset(0), SITU_OK);
  assert_int_equal(situ_empty_cache(sim), SITU_OK);
  assert_int_equal(stats(0).used, 0);
}

/* What the checks above should never let through is refused at the last door. */
static void operands_must_be_here(void **state) {
  (void)state;
  situ_view_desc a = row_new(sim), b = row_new(sim1), c = row_new(cpu), y = row_new(sim);
  assert_int_equal(row_add(&a, &a, &y), SITU_E_STATE); /* of values that are not there */
  situ_error_clear();
  assert_int_equal(row_fill(&a, 1) | row_fill(&b, 1) | row_fill(&c, 1), SITU_OK);
  assert_int_equal(row_add(&a, &b, &y), SITU_E_DEVICE);
  assert_int_equal(row_add(&a, &c, &y), SITU_E_DEVICE);
  situ_error_clear();
  situ_work work = row_filling(&b, 1); /* past the checks above */
  assert_int_equal(situ__backend(sim)->kernel[work.verb](sim.index, &work), SITU_E_DEVICE);
  assert_non_null(strstr(situ_error_message(), "an operand on sim:1 reached sim:0"));
  y.size[0] = y.numel = ROW + 1;
  assert_int_equal(row_fill(&y, 1), SITU_E_INDEX);
  y.size[0] = y.numel = ROW;
  y.contiguous = false;
  y.offset = -1;
  assert_int_equal(row_fill(&y, 1), SITU_E_INDEX);
  y.offset = ROW - 1;
  y.stride[0] = -1;
  assert_int_equal(row_fill(&y, 1), SITU_OK); /* backwards is inside */
  y.stride[0] = INT64_MAX;
  assert_int_equal(row_fill(&y, 1), SITU_E_INDEX);
  assert_int_equal(situ_synchronize(sim), SITU_OK);
  situ_storage *all[] = { a.storage, b.storage, c.storage, y.storage };
  for (int i = 0; i < 4; i++) situ__storage_release(all[i]);
}

/* Whichever host allocation fails on the way: an error, and the queue goes on. */
static void no_memory_for_the_queue(void **state) {
  (void)state;
  situ_view_desc a = row_new(sim);
  float host[ROW] = { 0 };
  situ_fail_allocation(1, false);
  assert_int_equal(row_fill(&a, 1), SITU_E_NOMEM);
  situ_fail_allocation(1, false);
  assert_int_equal(situ__copy_from_host("t", a.storage, 0, host, sizeof host, SITU__COPY_USER), SITU_E_NOMEM);
  situ_fail_allocation(0, false);
  assert_int_equal(a.storage->version, 0);
  assert_int_equal(row_fill(&a, 2), SITU_OK);
  assert_true(row_value(&a) == 2);
  situ__storage_release(a.storage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(late_failure, fresh),          cmocka_unit_test_setup(failure_in_the_kernel, fresh),
    cmocka_unit_test_setup(faults_on_schedule, fresh),    cmocka_unit_test_setup(lost_at_any_moment, fresh),
    cmocka_unit_test_setup(operands_must_be_here, fresh), cmocka_unit_test_setup(no_memory_for_the_queue, fresh),
  };
  return cmocka_run_group_tests_name("backend/sim/faults", tests, NULL, NULL);
}
