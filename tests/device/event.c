/* Events and further queues of any device: recorded, waited for, asked.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "situ/interop.h"
#include "support/pairs.h"

enum { N = 1 << 16 };

static void *record(situ_device device) {
  void *event = NULL;
  expect_ok(situ_device_record_event(device, &event));
  assert_non_null(event);
  return event;
}

/* placement: L3 */
static void an_event_is_asked_and_waited_for(void **state) {
  (void)state;
  const situ_options o = { .device = there() };
  const bool queued = there().kind == SITU_SIM;
  situ_ledger ledger;
  situ_tensor *x = situ_ones(SITU_SHAPE(N), &o);
  bool done = there().kind != SITU_CPU;
  situ_ledger_begin_none(&ledger);
  for (int k = 0; k < 20; k++) assert_non_null(situ_add_scalar_(x, 1));
  void *event = record(there());
  expect_ok(situ_device_query_event(there(), event, &done));
  if (queued || there().kind == SITU_CPU) assert_int_equal(done, !queued); /* sim has done nothing, cpu all */
  while (!done) expect_ok(situ_device_query_event(there(), event, &done)); /* time passes between two questions */
  expect_ok(situ_device_wait_event(there(), event));
  assert_non_null(situ_mul_scalar_(x, 2));
  expect_ok(situ_device_release_event(there(), event));
  expect_ok(situ_ledger_end(&ledger)); /* nothing has waited */
  double last;
  expect_ok(situ_item(situ_select(x, 0, N - 1), &last));
  assert_true(last == 42);
}

static void failed_work_fails_its_event(void **state) {
  (void)state;
  needs_sim();
  situ_tensor *x = situ_ones(SITU_SHAPE(4), &(situ_options){ .device = there() });
  bool done;
  expect_ok(situ_synchronize(there()));
  void *before = record(there());
  expect_ok(situ_sim_fail(there().index, SITU_SIM_LATE, 1, false));
  assert_non_null(situ_add_scalar_(x, 1));
  void *event = record(there());
  expect_ok(situ_device_query_event(there(), event, &done));
  assert_int_equal(situ_device_query_event(there(), event, &done), SITU_E_IO);
  expect_error(SITU_E_IO, "device_query_event", "the work of the event has failed on sim:");
  expect_ok(situ_device_query_event(there(), before, &done));
  assert_true(done);
  assert_int_not_equal(situ_synchronize(there()), SITU_OK); /* which tells what has failed */
  situ_error_clear();
  expect_ok(situ_device_release_event(there(), before));
  expect_ok(situ_device_release_event(there(), event));
  expect_ok(situ_sim_reset(there().index));
}

/* placement: L1 */
static void a_device_has_further_queues(void **state) {
  (void)state;
  situ_device second = { 0 };
  if (there().kind == SITU_CPU) {
    assert_int_equal(situ_device_open_queue(there(), &second), SITU_E_UNSUPPORTED);
    expect_error(SITU_E_UNSUPPORTED, "device_open_queue", "cpu has no queues");
    assert_int_equal(second.kind, 0);
    return;
  }
  const int count = situ_device_count(there().kind == SITU_SIM ? "sim" : there().kind == SITU_CUDA ? "cuda" : "opencl");
  for (int turn = 0; turn < 2; turn++) {
    situ_ledger ledger;
    situ_scope scope;
    double sum;
    expect_ok(situ_device_open_queue(there(), &second));
    assert_true(second.kind == there().kind && second.index == count);
    situ_scope_begin(&scope);
    const situ_options o = { .device = there() };
    situ_tensor *x = situ_full(SITU_SHAPE(N), 3, &o);
    situ_ledger_begin(&ledger);
    void *event = record(there());
    if (there().kind != SITU_SIM) expect_ok(situ_device_wait_event(second, event)); /* one context */
    situ_tensor *y = situ_add_scalar(situ_to(x, second), 1); /* ordered by events, of which none is the program's */
    assert_non_null(situ_fill_(x, 9));
    situ_tensor *z = situ_to(y, there());
    assert_int_equal(situ_ledger_waits(&ledger), 0);
    assert_int_equal(situ_ledger_sum(&ledger, SITU_DEVICE_TO_DEVICE).count, 2);
    expect_ok(situ_ledger_end(&ledger));
    expect_refused(situ_add(x, y), SITU_E_DEVICE, "add", name_of(second));
    expect_ok(situ_item(situ_sum(z, NULL), &sum));
    assert_true(sum == 4.0 * N);
    expect_ok(situ_device_release_event(there(), event));
    assert_int_equal(situ_device_abandon(second), SITU_E_STATE);
    expect_error(SITU_E_STATE, "device_abandon", "live on");
    expect_ok(situ_scope_end(&scope));
    expect_ok(situ_device_abandon(second));
  }
  assert_int_equal(situ_device_abandon(there()), SITU_E_ARG); /* situ's own stays */
  situ_error_clear();
}

static void wrong_events_are_refused(void **state) {
  (void)state;
  void *event = NULL;
  bool done = false;
  int other = 0;
  assert_int_equal(situ_device_record_event(there(), NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_record_event", "`event` is NULL");
  assert_int_equal(situ_device_wait_event(there(), NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_wait_event", "`event` is NULL");
  assert_int_equal(situ_device_release_event(there(), NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_release_event", "`event` is NULL");
  assert_int_equal(situ_device_query_event(there(), &other, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_query_event", "`done` is NULL");
  assert_int_equal(situ_device_open_queue(there(), NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_open_queue", "`out` is NULL");
  assert_int_equal(situ_device_record_event(situ_dev("meta"), &event), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "device_record_event", "meta has no events");
  assert_int_equal(situ_device_query_event(situ_dev("cpu"), &other, &done), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_query_event", "event is not one of cpu");
  assert_null(event);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(an_event_is_asked_and_waited_for),
    PAIR_TEST(failed_work_fails_its_event),
    PAIR_TEST(a_device_has_further_queues),
    PAIR_TEST(wrong_events_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
