/* Pinned host memory: values, what says that it is pinned, what ends it.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
/* test-links: Threads::Threads */
#include <pthread.h>

#include "situ/blocks.h"
#include "support/pairs.h"

/* placement: A14 */
static void a_copy_in_pinned_memory(void **state) {
  (void)state;
  const bool pinned = there().kind != SITU_CPU;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *y = situ_pin_memory(situ_transpose(x, 0, 1), there());
  expect_on(y, situ_dev("cpu"));
  assert_true(situ_is_pinned(y) == pinned); /* the cpu has none, and says so */
  assert_true(situ_is_pinned(situ_reshape(y, SITU_SHAPE(6))) == pinned);
  assert_false(situ_is_pinned(x) || situ_is_pinned(situ_clone(y)) || situ_is_pinned(NULL));
  expect_exact(y, SITU_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
  if (!pinned) return;
  situ_tensor *moved = situ_to_non_blocking(y, there());
  assert_non_null(situ_fill_(y, 7)); /* behind the copy */
  expect_exact(situ_to(moved, situ_dev("cpu")), SITU_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
  expect_exact(situ_pin_memory(situ_add_scalar(moved, 1), there()), SITU_SHAPE(3, 2), 2, 5, 3, 6, 4, 7);
  expect_ok(situ_to_(y, there()));
  assert_false(situ_is_pinned(y));
  expect_ok(situ_to_(y, situ_dev("cpu")));
  assert_false(situ_is_pinned(y));
  expect_exact(y, SITU_SHAPE(3, 2), 7, 7, 7, 7, 7, 7);
}

static void a_buffer_without_values(void **state) {
  (void)state;
  situ_tensor *y = situ_pin_memory(situ_empty(SITU_SHAPE(4), NULL), there());
  assert_false(situ_has_values(y));
  assert_null(situ_neg(y));
  expect_error(SITU_E_STATE, "neg", "holds no value yet");
  assert_non_null(situ_fill_(y, 2));
  expect_exact(situ_neg(y), SITU_SHAPE(4), -2, -2, -2, -2);
  situ_tensor *part = situ_empty(SITU_SHAPE(4), NULL);
  assert_non_null(situ_fill_(situ_narrow(part, 0, 0, 2), 3));
  expect_refused(situ_pin_memory(part, there()), SITU_E_STATE, "pin_memory", "nothing was written to element [2]");
  expect_exact(situ_pin_memory(situ_narrow(part, 0, 0, 2), there()), SITU_SHAPE(2), 3, 3);
  assert_non_null(situ_pin_memory(situ_empty(SITU_SHAPE(0), NULL), there()));
  assert_null(situ_pin_memory(NULL, there()));
  expect_error(SITU_E_ARG, "pin_memory", "input");
}

static void quantised_weights_stay_blocks(void **state) {
  (void)state;
  const unsigned char block[34] = { 0, 0x3c, 1, 2, 3 }; /* a scale of 1 */
  const situ_shape shape = SITU_SHAPE(1, 32);
  situ_tensor *x = situ_blocks_from_host(block, sizeof block, &shape, SITU_BLOCK_Q8_0, NULL);
  situ_tensor *y = situ_pin_memory(situ_to(x, there()), there());
  assert_int_equal(situ_block_type_of(y), SITU_BLOCK_Q8_0);
  assert_true(test_same_bits(situ_dequantize(y), situ_dequantize(x)));
}

/* placement: A14 */
static void factories_make_it(void **state) {
  (void)state;
  const bool pinned = there().kind != SITU_CPU;
  const situ_options o = { .pinned = there() }, both = { .pinned = there(), .device = situ_dev("meta") },
                     order = { .pinned = there(), .memory_format = SITU_CHANNELS_LAST };
  const float values[] = { 1, 2 };
  situ_tensor *x = situ_full(SITU_SHAPE(2), 3, &o), *y = situ_from_host(values, sizeof values, SITU_SHAPE(2), &o);
  situ_tensor *z = situ_zeros_like(situ_to(x, there()), &o), *e = situ_empty(SITU_SHAPE(2), &o);
  expect_on(x, situ_dev("cpu"));
  expect_on(z, situ_dev("cpu"));
  assert_true(situ_is_pinned(x) == pinned && situ_is_pinned(y) == pinned && situ_is_pinned(z) == pinned);
  assert_true(situ_is_pinned(e) == pinned && situ_is_pinned(situ_rand(SITU_SHAPE(2), &o)) == pinned);
  assert_false(situ_has_values(e));
  expect_exact(situ_add(situ_add(x, y), z), SITU_SHAPE(2), 4, 5);
  expect_exact(situ_to(situ_to_non_blocking(y, there()), situ_dev("cpu")), SITU_SHAPE(2), 1, 2);
  assert_int_equal(situ_numel(situ_ones(SITU_SHAPE(0), &o)), 0);
  expect_refused(situ_zeros(SITU_SHAPE(2), &both), SITU_E_DEVICE, "zeros", "options->device is meta; set it to cpu");
  expect_refused(situ_zeros(SITU_SHAPE(1, 2, 3, 4), &order), SITU_E_ARG, "zeros", "is in row-major order");
}

static void *pin_alone(void *x) { return situ_pin_memory(x, there()); }

/* Outside of all scopes, as on a thread that has none, a tensor has no other owner. */
static void a_failed_copy_leaves_nothing(void **state) {
  (void)state;
  needs_sim();
  situ_tensor *x = situ_ones(SITU_SHAPE(4), &(situ_options){ .device = there() });
  pthread_t thread;
  void *made = NULL;
  const int64_t before = situ_live_tensors();
  for (int fails = 1; fails >= 0; fails--) {
    expect_ok(situ_sim_fail(there().index, SITU_SIM_COPY, fails, false));
    assert_int_equal(pthread_create(&thread, NULL, pin_alone, x), 0);
    assert_int_equal(pthread_join(thread, &made), 0);
    assert_int_equal(made == NULL, fails);
    assert_int_equal(situ_live_tensors(), before + !fails);
  }
  situ_release(made);
}

static void without_memory_it_is_an_error(void **state) {
  (void)state;
  needs_sim();
  expect_ok(situ_sim_fail(there().index, SITU_SIM_ALLOC, 1, false));
  assert_null(situ_pin_memory(situ_ones(SITU_SHAPE(4), NULL), there()));
  expect_error(SITU_E_NOMEM, "pin_memory", "sim:");
  expect_ok(situ_sim_reset(there().index));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_copy_in_pinned_memory),       PAIR_TEST(factories_make_it),
    PAIR_TEST(a_failed_copy_leaves_nothing),  PAIR_TEST(a_buffer_without_values),
    PAIR_TEST(quantised_weights_stay_blocks), PAIR_TEST(without_memory_it_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
