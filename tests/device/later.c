/* Copies that do not wait (situ_to_non_blocking): order, reads that come early, sources that go, failures on the way.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 opencl:0 */
/* test-links: Threads::Threads */
#include <pthread.h>

#include "situ/dlpack.h"
#include "support/pairs.h"

enum { N = 1000 };

static situ_options at(void) { return (situ_options){ .device = there() }; }
static situ_tensor *made(double value) {
  const situ_options o = at();
  return situ_add_scalar(situ_full(SITU_SHAPE(N), value, &o), 1);
}
static uint64_t queued(void) {
  situ_sim_statistics s;
  expect_ok(situ_sim_stats(there().index, &s));
  return s.queued;
}

/* sim runs nothing until something waits: what is read early would be what the memory held before. */
typedef double reader(situ_tensor *t);
static double by_item(situ_tensor *t) {
  double v = 0;
  expect_ok(situ_item(situ_select(t, 0, N - 1), &v));
  return v;
}
static double by_op(situ_tensor *t) { return by_item(situ_neg(t)) * -1; }
static double by_pair(situ_tensor *t) { return by_item(situ_add(t, t)) / 2; }
static double by_clone(situ_tensor *t) { return by_item(situ_clone(t)); }
static double by_product(situ_tensor *t) {
  return by_item(situ_matmul(situ_reshape(t, SITU_SHAPE(N, 1)), situ_ones(SITU_SHAPE(1), NULL)));
}
static double by_pointer(situ_tensor *t) { return ((const float *)situ_data_ptr(t))[N - 1]; }
static double by_lease(situ_tensor *t) {
  const double v = ((const float *)situ_data_lease(t, SITU_F32, SITU_LEASE_READ))[N - 1];
  expect_ok(situ_data_release(t));
  return v;
}
static double by_move(situ_tensor *t) {
  expect_ok(situ_to_(t, there()));
  return by_item(situ_to(t, here()));
}
static double by_write(situ_tensor *t) {
  assert_non_null(situ_fill_(situ_narrow(t, 0, 0, 1), 3)); /* the copy comes first */
  assert_true(((const float *)situ_data_ptr(t))[0] == 3);
  return by_item(t);
}
static double by_copy(situ_tensor *t) {
  float out[N];
  expect_ok(situ_copy_to_host(t, out, sizeof out));
  return out[N - 1];
}
static double by_format(situ_tensor *t) {
  char text[4096];
  return situ_to_string(t, text, sizeof text) > 0 ? by_item(t) : 0;
}

/* placement: F1, F2 */
static void no_use_comes_early(void **state) {
  (void)state;
  reader *const readers[] = { by_item,  by_op,   by_pair,  by_clone, by_product, by_pointer,
                              by_lease, by_move, by_write, by_copy,  by_format };
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
    situ_tensor *x = made((double)i);
    situ_ledger l;
    expect_ok(situ_synchronize(there()));
    situ_ledger_begin(&l);
    assert_non_null(situ_add_scalar_(x, 1)); /* in the queue */
    situ_tensor *y = situ_to_non_blocking(x, here());
    assert_non_null(situ_fill_(x, -1)); /* behind the copy */
    assert_int_equal(situ_ledger_waits(&l), 0);
    if (there().kind == SITU_SIM) assert_true(queued() >= 3);
    assert_true(readers[i](y) == (double)i + 2);
    expect_ok(situ_ledger_end(&l));
  }
}

/* placement: F3, F4 */
static void a_source_may_go(void **state) {
  (void)state;
  const situ_options o = at();
  situ_scope s;
  situ_tensor *y, *x = situ_retain(made(1)), *own = situ_ones(SITU_SHAPE(N), NULL);
  y = situ_to_non_blocking(x, here());
  situ_release(x);
  x = situ_full(SITU_SHAPE(N), 7, &o); /* perhaps in the same memory */
  assert_true(by_item(y) == 2 && by_item(situ_to(x, here())) == 7);
  situ_tensor *sent = situ_to_non_blocking(own, there());
  for (int i = 0; i < N; i++) ((float *)situ_data_ptr(own))[i] = 9; /* by the program */
  assert_true(by_item(situ_to(sent, here())) == 1);
  situ_scope_begin(&s); /* a result that is never asked for */
  assert_non_null(situ_to_non_blocking(x, here()));
  expect_ok(situ_scope_end(&s));
  expect_ok(situ_synchronize(there()));
}

static void a_failure_is_told_where_values_are_asked_for(void **state) {
  (void)state;
  needs_sim();
  const int index = there().index;
  situ_tensor *x = made(1);
  expect_ok(situ_synchronize(there()));
  expect_ok(situ_sim_fail(index, SITU_SIM_LATE, 1, false));
  assert_non_null(situ_add_scalar_(x, 1)); /* will fail in the queue */
  situ_tensor *y = situ_to_non_blocking(x, here());
  assert_non_null(y);
  double v;
  assert_int_equal(situ_item(situ_select(y, 0, 0), &v), SITU_E_NOMEM);
  expect_error(SITU_E_NOMEM, "add_scalar_", "was queued on sim");
  assert_null(situ_neg(y)); /* no values came */
  expect_error(SITU_E_STATE, "neg", "the copy that was to bring them failed");
  expect_refused(situ_add_scalar_(y, 1), SITU_E_STATE, "add_scalar_", "write all of it (situ_zero_)");
  expect_refused(situ_fill_(situ_narrow(y, 0, 0, 1), 3), SITU_E_STATE, "fill_", "write all of it (situ_zero_)");
  assert_non_null(situ_zero_(y)); /* which ends it */
  assert_true(by_item(y) == 0);
  situ_tensor *four = situ_full(SITU_SHAPE(N), 4, NULL);
  for (int k = 0; k < 2; k++) {
    expect_ok(situ_sim_fail(index, SITU_SIM_LATE, 1, false));
    assert_non_null(situ_add_scalar_(x, 1));
    y = situ_to_non_blocking(x, here());
    assert_null(situ_neg(y));
    situ_error_clear();
    if (k) expect_ok(situ_copy_from_host(y, situ_data_ptr(four), N * sizeof(float)));
    else assert_non_null(situ_copy_(y, four));
    assert_true(by_item(y) == 4);
  }
  situ_tensor *z = situ_to_non_blocking(x, here());
  expect_ok(situ_sim_fail(index, SITU_SIM_LOST, 1, false));
  assert_int_equal(situ_synchronize(there()), SITU_E_LOST);
  situ_error_clear();
  assert_null(situ_data_ptr(z));
  expect_error(SITU_E_LOST, "data_ptr", "is lost");
  assert_null(situ_neg(z));
  situ_error_clear();
  expect_ok(situ_sim_reset(index));
}

static void what_has_arrived_outlives_its_device(void **state) {
  (void)state;
  needs_sim();
  situ_tensor *y = situ_to_non_blocking(made(1), here());
  expect_ok(situ_synchronize(there()));
  expect_ok(situ_sim_fail(there().index, SITU_SIM_LOST, 1, false));
  assert_int_equal(situ_synchronize(there()), SITU_E_LOST);
  situ_error_clear();
  assert_true(by_item(y) == 2);
  expect_ok(situ_sim_reset(there().index));
}

/* placement: F1 */
static void between_devices_of_one_interface(void **state) {
  (void)state;
  const situ_device other = { there().kind, 1 };
  if (!situ_device_is_available(other)) skip();
  for (int k = 0; k < 4; k++) {
    situ_tensor *x = made(k);
    assert_non_null(situ_add_scalar_(x, 1));
    situ_tensor *y = situ_to_non_blocking(x, other), *z = situ_to_non_blocking(situ_add_scalar(y, 1), there());
    assert_non_null(situ_fill_(x, -1)); /* behind the copy */
    expect_on(y, other);
    assert_true(by_item(z) == k + 3 && by_item(y) == k + 2 && by_item(x) == -1);
  }
}

static void gradients_and_strides(void **state) {
  (void)state;
  const situ_options o = { .device = there(), .requires_grad = true };
  situ_tensor *w = situ_full(SITU_SHAPE(2, 3), 2, &o), *y = situ_to_non_blocking(situ_transpose(w, 0, 1), here());
  assert_int_equal(situ_size(y, 0), 3);
  expect_ok(situ_backward(situ_sum(situ_mul(y, y), NULL), NULL));
  expect_exact(situ_grad(w), SITU_SHAPE(2, 3), 4, 4, 4, 4, 4, 4);
  assert_ptr_equal(situ_to_non_blocking(w, there()), w);
}

/* Two threads use one result. */
static void *use(void *y) {
  situ_scope s;
  situ_scope_begin(&s);
  const double v = by_item(y);
  return situ_scope_end(&s) == SITU_OK && v == 6 ? y : NULL;
}
static void several_threads(void **state) {
  (void)state;
  for (int k = 0; k < 20; k++) {
    situ_tensor *y = situ_to_non_blocking(made(5), here());
    pthread_t thread[3];
    void *same = NULL;
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, use, y), 0);
    for (int i = 0; i < 3; i++) assert_true(pthread_join(thread[i], &same) == 0 && same == y);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(no_use_comes_early),
    PAIR_TEST(a_source_may_go),
    PAIR_TEST(a_failure_is_told_where_values_are_asked_for),
    PAIR_TEST(what_has_arrived_outlives_its_device),
    PAIR_TEST(between_devices_of_one_interface),
    PAIR_TEST(gradients_and_strides),
    PAIR_TEST(several_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
