/* Memory of devices for the host, by leases alone: values, what is refused meanwhile, what ends them.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "situ/graph.h"
#include "situ/interop.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"

static situ_options at(void) { return (situ_options){ .dtype = SITU_F32, .device = there() }; }
static situ_tensor *range(void) {
  const situ_options o = at();
  return situ_reshape(situ_arange(0, 12, 1, &o), SITU_SHAPE(3, 4));
}

/* placement: D19 */
static void the_host_reads_and_writes(void **state) {
  (void)state;
  situ_tensor *x = range(), *part = situ_narrow(situ_transpose(x, 0, 1), 0, 1, 2);
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  const float *seen = situ_data_map(x, SITU_F32, SITU_LEASE_READ);
  assert_non_null(seen);
  for (int i = 0; i < 12; i++) assert_true(seen[i] == (float)i);
  expect_ok(situ_data_release(x));
  assert_int_equal(situ_ledger_sum(&ledger, SITU_DEVICE_TO_HOST).bytes, there().kind == SITU_CPU ? 0 : 48);
  assert_int_equal(situ_ledger_sum(&ledger, SITU_HOST_TO_DEVICE).count, 0);
  const uint32_t version = situ_version_of(x);
  float *values = situ_data_map(part, SITU_F32, SITU_LEASE_READ_WRITE); /* columns 1 and 2, at part's strides */
  assert_non_null(values);
  assert_true(values[0] == 1 && values[situ_stride(part, 1)] == 5);
  values[situ_stride(part, 1) + situ_stride(part, 0)] = -1;
  expect_ok(situ_data_release(part));
  assert_int_equal(situ_ledger_sum(&ledger, SITU_HOST_TO_DEVICE).count, there().kind != SITU_CPU);
  expect_ok(situ_ledger_end(&ledger));
  assert_true(situ_version_of(x) > version);
  expect_exact(x, SITU_SHAPE(3, 4), 0, 1, 2, 3, 4, 5, -1, 7, 8, 9, 10, 11);
}

/* Nothing else uses what the host writes, nor writes what it reads; and it stays where it is. */
/* placement: D19 */
static void nothing_else_uses_it_meanwhile(void **state) {
  (void)state;
  if (there().kind == SITU_CPU) skip();
  situ_tensor *x = range();
  assert_non_null(situ_set_name(x, "field"));
  float *values = situ_data_map(x, SITU_F32, SITU_LEASE_READ_WRITE);
  assert_non_null(values);
  const char *held = "is mapped by the host; end that first (situ_data_release)";
  expect_refused(situ_neg(x), SITU_E_STATE, "neg", "`field` ([3, 4] f32) at ");
  expect_refused(situ_neg(x), SITU_E_STATE, "neg", held);
  expect_refused(situ_fill_(x, 1), SITU_E_STATE, "fill_", held);
  expect_refused(situ_to(x, situ_dev("cpu")), SITU_E_STATE, "to", held);
  expect_refused(situ_data_map(x, SITU_F32, SITU_LEASE_READ), SITU_E_STATE, "data_map", held);
  assert_int_equal(situ_to_(x, situ_dev("cpu")), SITU_E_STATE);
  assert_non_null(strstr(situ_error_message(), "the program leased it at "));
  expect_error(SITU_E_STATE, "to_", test_has_lines() ? "map.c:" : "the program leased it at ");
  values[11] = 5;
  expect_ok(situ_data_release(x));
  expect_exact(situ_select(situ_neg(x), 0, 2), SITU_SHAPE(4), -8, -9, -10, -5);
  const float *first = situ_data_map(x, SITU_F32, SITU_LEASE_READ),
              *second = situ_data_map(x, SITU_F32, SITU_LEASE_READ);
  assert_true(first && second && first[0] == 0 && second[11] == 5);
  expect_exact(situ_select(situ_neg(x), 0, 0), SITU_SHAPE(4), 0, -1, -2, -3); /* reads go on */
  void *handle;
  size_t offset;
  assert_int_equal(situ_memory_of(x, &handle, &offset), SITU_E_STATE); /* the program could write there */
  expect_error(SITU_E_STATE, "memory_of", held);
  for (int k = 0; k < 2; k++) {
    expect_refused(situ_fill_(x, 1), SITU_E_STATE, "fill_", held);
    expect_refused(situ_copy_(x, situ_ones(SITU_SHAPE(3, 4), &(situ_options){ .device = there() })), SITU_E_STATE,
                   "copy_", held);
    expect_refused(situ_data_map(x, SITU_F32, SITU_LEASE_READ_WRITE), SITU_E_STATE, "data_map", held);
    expect_ok(situ_data_release(x));
  }
  assert_non_null(situ_fill_(x, 1));
  expect_ok(situ_to_(x, situ_dev("cpu")));
}

static void a_scope_ends_its_own(void **state) {
  (void)state;
  situ_tensor *x = range();
  situ_scope scope;
  situ_scope_begin(&scope);
  float *values = situ_data_map(situ_select(x, 0, 1), SITU_F32, SITU_LEASE_READ_WRITE);
  assert_non_null(values);
  values[0] = 40;
  expect_ok(situ_scope_end(&scope));
  expect_exact(situ_select(x, 0, 1), SITU_SHAPE(4), 40, 5, 6, 7);
  assert_int_equal(situ_data_release(x), SITU_E_STATE);
  situ_error_clear();
}

static void a_replay_does_not_use_it(void **state) {
  (void)state;
  if (there().kind == SITU_CPU) skip();
  situ_tensor *x = range(), *y = situ_neg(x);
  expect_ok(situ_graph_capture_begin(there()));
  assert_non_null(situ_copy_(y, situ_add_scalar(x, 1)));
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  assert_non_null(situ_data_map(x, SITU_F32, SITU_LEASE_READ));
  expect_ok(situ_graph_replay(graph));
  expect_ok(situ_data_release(x));
  assert_non_null(situ_data_map(y, SITU_F32, SITU_LEASE_READ));
  assert_int_equal(situ_graph_replay(graph), SITU_E_STATE);
  expect_error(SITU_E_STATE, "graph_replay", "is mapped by the host");
  expect_ok(situ_data_release(y));
  expect_ok(situ_graph_replay(graph));
  situ_graph_free(graph);
}

static void wrong_uses_are_refused(void **state) {
  (void)state;
  const situ_options o = { .device = there(), .requires_grad = true }, meta = { .device = situ_dev("meta") };
  situ_tensor *x = range(), *w = situ_ones(SITU_SHAPE(2), &o),
              *none = situ_empty(SITU_SHAPE(2), &(situ_options){ .device = there() });
  expect_refused(situ_data_map(x, SITU_F64, SITU_LEASE_READ), SITU_E_DTYPE, "data_map", "the tensor is f32, not f64");
  expect_refused(situ_data_map(x, SITU_F32, (situ_lease_access)7), SITU_E_ARG, "data_map",
                 "7 is not a situ_lease_access");
  expect_refused(situ_data_map(w, SITU_F32, SITU_LEASE_READ_WRITE), SITU_E_STATE, "data_map",
                 "do it in a no_grad scope");
  expect_refused(situ_data_map(none, SITU_F32, SITU_LEASE_READ), SITU_E_STATE, "data_map", "holds no value yet");
  if (there().kind != SITU_CPU)
    expect_refused(situ_data_map(situ_ones(SITU_SHAPE(2), &meta), SITU_F32, SITU_LEASE_READ), SITU_E_UNSUPPORTED,
                   "data_map", "is on meta");
  assert_null(situ_data_map(NULL, SITU_F32, SITU_LEASE_READ));
  expect_error(SITU_E_ARG, "data_map", "`input` is NULL");
  expect_ok(situ_to_(x, situ_dev("cpu"))); /* no lease is left */
}

/* What the host wrote does not come to the device: the release says so, and the lease has ended. */
static void a_failed_copy_is_told(void **state) {
  (void)state;
  needs_sim();
  const int index = there().index;
  situ_tensor *x = range();
  expect_ok(situ_sim_fail(index, SITU_SIM_COPY, 1, false));
  expect_refused(situ_data_map(x, SITU_F32, SITU_LEASE_READ_WRITE), SITU_E_IO, "data_map", "sim:");
  for (int scoped = 0; scoped < 2; scoped++) {
    situ_scope scope;
    if (scoped) situ_scope_begin(&scope);
    assert_non_null(situ_data_map(x, SITU_F32, SITU_LEASE_READ_WRITE));
    expect_ok(situ_sim_fail(index, SITU_SIM_COPY, 1, false));
    assert_int_equal(scoped ? situ_scope_end(&scope) : situ_data_release(x), SITU_E_IO);
    expect_error(SITU_E_IO, "data_release", "sim:");
    assert_non_null(situ_neg(x));
  }
  for (int64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    const float *values = situ_data_map(x, SITU_F32, SITU_LEASE_READ);
    situ_fail_allocation(0, false);
    if (values) break;
    expect_error(SITU_E_NOMEM, "data_map", "");
    assert_non_null(situ_add_scalar_(x, 1)); /* and nothing is held */
  }
  expect_ok(situ_data_release(x));
  expect_ok(situ_sim_reset(index));
}

/* A release that is refused loses nothing: the lease is held, and a later release brings the values. */
static void a_refused_release_keeps_the_lease(void **state) {
  (void)state;
  needs_sim();
  situ_tensor *x = range();
  float *values = situ_data_map(x, SITU_F32, SITU_LEASE_READ_WRITE);
  assert_non_null(values);
  values[3] = 30;
  expect_ok(situ_graph_capture_begin(there()));
  assert_int_equal(situ_data_release(x), SITU_E_STATE);
  expect_error(SITU_E_STATE, "data_release", "a graph is being recorded");
  situ_graph_free(situ_graph_capture_end());
  situ_error_clear();
  situ_setting before;
  situ_policy_begin(&before, (situ_policy){ .guard_to_device = SITU_GUARD_REFUSE });
  assert_int_equal(situ_data_release(x), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "data_release", "this thread's policy refuses copies");
  situ_policy_end(&before);
  values[4] = 40;
  expect_ok(situ_data_release(x));
  expect_exact(x, SITU_SHAPE(3, 4), 0, 1, 2, 30, 40, 5, 6, 7, 8, 9, 10, 11);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(the_host_reads_and_writes),
    PAIR_TEST(nothing_else_uses_it_meanwhile),
    PAIR_TEST(a_scope_ends_its_own),
    PAIR_TEST(a_replay_does_not_use_it),
    PAIR_TEST(wrong_uses_are_refused),
    PAIR_TEST(a_failed_copy_is_told),
    PAIR_TEST(a_refused_release_keeps_the_lease),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
