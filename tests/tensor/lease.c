/* Host leases: what they give, what is refused while they are held, and when they end. */
#include <pthread.h>
#include <string.h>

#include "situ/dlpack.h"
#include "situ/nn/layers.h"
#include "situ/optim.h"
#include "support/test.h"

/* placement: D19 */
static void a_lease_keeps_memory_in_place(void **state) {
  (void)state;
  const situ_device away = situ_dev("sim:0");
  situ_nn_module *m = situ_nn_linear(2, 3, NULL);
  situ_tensor *w = situ_nn_get_tensor(m, "weight");
  const float *values = situ_data_lease(w, SITU_F32, SITU_LEASE_READ);
  const float *part = situ_data_lease(situ_detach(situ_select(w, 0, 2)), SITU_F32, SITU_LEASE_READ);
  assert_ptr_equal(part, values + 4);
  assert_int_equal(situ_nn_to(m, away), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_to", "`weight` ([3, 2] f32) cannot change its memory: the program leased it");
  assert_int_equal(situ_to_(w, away), SITU_E_STATE);
  expect_error(SITU_E_STATE, "to_", test_has_lines() ? "lease.c:16" : "end that first (situ_data_release)");
  assert_int_equal(situ_nn_to_dtype(m, SITU_F64), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_to_dtype", "end that first (situ_data_release)");
  assert_int_equal(situ_data_release(w), SITU_OK);
  assert_int_equal(situ_nn_to(m, away), SITU_E_STATE); /* that of the view is still held */
  expect_error(SITU_E_STATE, "nn_to", test_has_lines() ? "lease.c:17" : "leased it");
  assert_int_equal(situ_data_release(situ_detach(situ_select(w, 0, 2))), SITU_OK);
  assert_int_equal(situ_data_release(w), SITU_E_STATE);
  expect_error(SITU_E_STATE, "data_release", "no lease of the tensor is held");
  assert_int_equal(situ_nn_to(m, away), SITU_OK);
  expect_refused(situ_data_lease(w, SITU_F32, SITU_LEASE_READ), SITU_E_DEVICE, "data_lease", "the host cannot read");
  situ_nn_free(m);
}

static void a_scope_ends_its_own(void **state) {
  (void)state;
  situ_tensor *t = situ_zeros(SITU_SHAPE(4), NULL);
  situ_scope s, inner;
  situ_scope_begin(&s);
  assert_non_null(situ_data_lease(t, SITU_F32, SITU_LEASE_READ));
  situ_scope_begin(&inner);
  assert_non_null(situ_data_lease(t, SITU_F32, SITU_LEASE_READ_WRITE));
  assert_int_equal(situ_scope_end(&inner), SITU_OK);
  assert_int_equal(situ_to_(t, situ_dev("sim:0")), SITU_E_STATE);
  expect_error(SITU_E_STATE, "to_", "leased");
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_to_(t, situ_dev("sim:0")), SITU_OK);
}

/* The owners may go, as a module's do when it is freed: the memory stays until the lease ends. */
static void a_lease_owns_the_memory(void **state) {
  (void)state;
  situ_scope s;
  situ_scope_begin(&s);
  situ_nn_module *m = situ_nn_linear(64, 64, NULL);
  situ_tensor *w = situ_nn_get_tensor(m, "weight");
  float before[64];
  const float *values = situ_data_lease(w, SITU_F32, SITU_LEASE_READ);
  memcpy(before, values, sizeof before);
  situ_nn_free(m);
  assert_non_null(situ_full(SITU_SHAPE(64, 64), 7, NULL));
  assert_memory_equal(values, before, sizeof before);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

static void writes_are_counted(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(2), 1, 2), true), *y = situ_exp(x);
  situ_tensor *z = situ_sum(situ_mul(y, y), NULL);
  const uint32_t before = situ_version_of(y), of_x = situ_version_of(x);
  float *values = situ_data_lease(situ_detach(y), SITU_F32, SITU_LEASE_READ_WRITE);
  values[0] = 0;
  assert_int_equal(situ_version_of(y), before + 1);
  assert_int_equal(situ_data_release(y), SITU_OK);
  assert_int_equal(situ_version_of(y), before + 2);
  assert_int_equal(situ_backward(z, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "changed in place");
  expect_refused(situ_data_lease(x, SITU_F32, SITU_LEASE_READ_WRITE), SITU_E_STATE, "data_lease", "no_grad scope");
  assert_non_null(situ_data_lease(x, SITU_F32, SITU_LEASE_READ));
  assert_int_equal(situ_version_of(x), of_x);
  situ_tensor *fresh = situ_empty(SITU_SHAPE(2), NULL);
  expect_refused(situ_data_lease(fresh, SITU_F32, SITU_LEASE_READ), SITU_E_STATE, "data_lease", "holds no value yet");
  values = situ_data_lease(fresh, SITU_F32, SITU_LEASE_READ_WRITE);
  values[0] = 3, values[1] = 4;
  assert_int_equal(situ_data_release(fresh), SITU_OK);
  expect_exact(fresh, SITU_SHAPE(2), 3, 4);
}

static void what_cannot_be_leased(void **state) {
  (void)state;
  situ_tensor *t = situ_zeros(SITU_SHAPE(2), NULL), *none = situ_zeros(SITU_SHAPE(0), NULL);
  expect_refused(situ_data_lease(t, SITU_F64, SITU_LEASE_READ), SITU_E_DTYPE, "data_lease", "is f32, not f64");
  expect_refused(situ_data_lease(t, SITU_F32, (situ_lease_access)5), SITU_E_ARG, "data_lease", "5 is not");
  assert_null(situ_data_lease(none, SITU_F32, SITU_LEASE_READ));
  assert_int_equal(situ_data_release(none), SITU_OK); /* it was held all the same */
  situ_dlpack_versioned *m = situ_to_dlpack(t, SITU_DLPACK_VERSIONED);
  assert_int_equal(situ_data_release(t), SITU_E_STATE); /* what another library has is not the program's to end */
  expect_error(SITU_E_STATE, "data_release", "no lease");
  m->flags = 1;
  situ_tensor *fixed = situ_from_dlpack(m, SITU_DLPACK_VERSIONED);
  expect_refused(situ_data_lease(fixed, SITU_F32, SITU_LEASE_READ_WRITE), SITU_E_STATE, "data_lease", "read-only");
}

/* Each thread has leases of its own of one tensor. */
static void *lease_often(void *t) {
  for (int i = 0; i < 2000; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    const float *values = situ_data_lease(t, SITU_F32, SITU_LEASE_READ);
    const bool good = values && values[0] == 5 && (i % 2 || situ_data_release(t) == SITU_OK);
    if (situ_scope_end(&s) != SITU_OK || !good) return "a lease failed";
  }
  return NULL;
}
static void threads_have_their_own(void **state) {
  (void)state;
  situ_tensor *t = situ_full(SITU_SHAPE(2), 5, NULL);
  pthread_t thread[4];
  void *failure;
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, lease_often, t), 0);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_join(thread[i], &failure), 0);
    assert_null(failure);
  }
  assert_int_equal(situ_to_(t, situ_dev("sim:0")), SITU_OK); /* the last one has taken the flag away */
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_lease_keeps_memory_in_place), TEST(a_scope_ends_its_own),
    TEST(a_lease_owns_the_memory),       TEST(writes_are_counted),
    TEST(what_cannot_be_leased),         TEST(threads_have_their_own),
  };
  return cmocka_run_group_tests_name("tensor/lease", tests, NULL, NULL);
}
