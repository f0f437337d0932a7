/* Moves that release memory on the way: the peak is the size and the largest tensor, ties and followers come along, and a
   failure leaves tensors that are whole, which the same call moves further. */
/* test-devices: sim:0 */
#include "device/block_cache.h"
#include "situ/optim.h"
#include "support/optim.h"
#include "support/pairs.h"

enum { WIDE = 256, LAYERS = 12, LARGEST = WIDE * WIDE * 4 };

/* With gradients and states, and the first layer's weight twice. */
static situ_nn_module *trained(situ_device device, situ_optim **optim) {
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(WIDE, WIDE, NULL));
  for (int i = 1; i < LAYERS; i++) m = situ_nn_append(m, situ_nn_linear(WIDE, WIDE, NULL));
  assert_non_null(situ_nn_add_tensor(m, "tied", NULL, situ_nn_get_tensor(m, "0.weight"), SITU_NN_PARAMETER));
  expect_ok(situ_nn_to(m, device));
  *optim = situ_optim_sgd(situ_nn_parameters(m), .1, OPTIM_MOMENTUM(.9));
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x = situ_randn(SITU_SHAPE(2, WIDE), &(situ_options){ .device = device });
  expect_ok(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL));
  expect_ok(situ_optim_step(*optim));
  expect_ok(situ_scope_end(&s));
  return m;
}

static uint64_t peak(void) {
  const situ__block_cache *cache = situ__block_cache_of(there());
  return cache->highest > cache->before ? cache->highest : cache->before;
}

/* placement: B12 */
static void a_cast_needs_the_size_and_the_largest_tensor(void **state) {
  (void)state;
  situ_optim *o;
  situ_nn_module *m = trained(there(), &o);
  expect_ok(situ_empty_cache(there()));
  situ__block_cache_forget(situ__block_cache_of(there()));
  const uint64_t size = peak();
  /* Of a weight, its gradient and its state: old and new, and what a cast looks at. */
  const uint64_t bound = size + 3 * LARGEST / 2 + (64 << 10);
  const situ_nn_to_options cast = { .dtype = SITU_BF16, .stream = true };
  expect_ok(situ_sim_budget(there().index, bound));
  assert_int_equal(situ_nn_to_dtype(m, SITU_BF16), SITU_E_NOMEM);
  situ_error_clear();
  expect_ok(situ_nn_to_with(m, &cast));
  assert_true(peak() <= bound);
  assert_int_equal(situ_place_moved(), 3 * 2 * LAYERS);
  assert_int_equal(situ_dtype_of(situ_grad(situ_nn_get_tensor(m, "11.weight"))), SITU_BF16);
  assert_ptr_equal(situ_nn_get_tensor(m, "tied"), situ_nn_get_tensor(m, "0.weight"));
  expect_ok(situ_sim_reset(there().index));
  situ_optim_free(o);
  situ_nn_free(m);
}

static void the_old_device_is_freed_on_the_way(void **state) {
  (void)state;
  situ_optim *o;
  situ_nn_module *m = trained(here(), &o);
  situ_tree *values = situ_nn_state_dict(m);
  const situ_nn_to_options to = { .device = there(), .stream = true };
  expect_ok(situ_nn_to_with(m, &to));
  expect_ok(situ_place_expect_on(m, there()));
  expect_ok(situ_nn_to_with(m, &(situ_nn_to_options){ .map = "0=cpu, tied=cpu, *=sim:0", .stream = true }));
  assert_int_equal(situ_place_moved(), 3 * 2);
  expect_on(situ_tree_tensor_at(values, 0), here());
  situ_tree_free(values);
  situ_optim_free(o);
  situ_nn_free(m);
}

/* Each copy fails once: after it tensors are whole, and the call again moves what has not moved. */
static void a_failure_is_gone_on_from(void **state) {
  (void)state;
  situ_optim *o;
  situ_nn_module *m = trained(here(), &o), *twin = situ_nn_clone(m);
  const situ_nn_to_options to = { .device = there(), .stream = true };
  int64_t all = 0;
  for (uint64_t nth = 1; nth < 8; nth++) {
    expect_ok(situ_sim_fail(there().index, SITU_SIM_COPY, nth, false));
    const situ_status status = situ_nn_to_with(m, &to);
    all += situ_place_moved();
    if (status == SITU_OK) break;
    situ_error_clear();
    assert_int_equal(status, SITU_E_IO);
  }
  expect_ok(situ_sim_reset(there().index));
  expect_ok(situ_nn_to_with(m, &to));
  assert_int_equal(all + situ_place_moved(), 3 * 2 * LAYERS);
  expect_ok(situ_place_expect_on(m, there()));
  situ_tree *a = situ_nn_state_dict(m), *b = situ_nn_state_dict(twin);
  for (int64_t i = 0; i < situ_tree_count(a); i++)
    assert_true(test_same_bits(situ_tree_tensor_at(a, i), situ_tree_tensor_at(b, i)));
  expect_ok(situ_optim_step(o));
  situ_tree_free(a);
  situ_tree_free(b);
  situ_optim_free(o);
  situ_nn_free(m);
  situ_nn_free(twin);
}

static bool agrees(void *payload) { return payload == NULL; }

static void what_is_refused(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  situ_nn_to_options to = { .device = there(), .stream = true };
  assert_int_equal(situ_place_plan_to_string(m, &to, NULL, NULL, 0), -1);
  expect_error(SITU_E_UNSUPPORTED, "place_plan_to_string", "leave .stream out");
  to.agree = agrees;
  assert_int_equal(situ_nn_to_with(m, &to), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_to_with", "with .stream there is no moment");
  expect_on(situ_nn_get_tensor(m, "weight"), here());
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_cast_needs_the_size_and_the_largest_tensor),
    PAIR_TEST(the_old_device_is_freed_on_the_way),
    PAIR_TEST(a_failure_is_gone_on_from),
    PAIR_TEST(what_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
