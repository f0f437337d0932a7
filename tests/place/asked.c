/* What can be asked of a move: before it, whether a copy would be made; after it, how much has moved, and whether all is
   where it should be.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 sim:1 */
#include "situ/optim.h"
#include "support/optim.h"
#include "support/pairs.h"

/* placement: A6 */
static void a_copy_or_an_alias(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 3), NULL), *view = situ_transpose(x, 0, 1);
  situ_device devices[] = { here(), there(), { 0 } };
  for (int i = 0; i < 3; i++) {
    assert_int_equal(situ_to_would_alias(x, devices[i]), situ_to(x, devices[i]) == x);
    assert_int_equal(situ_to_would_alias(view, devices[i]), situ_shares_storage(situ_to(view, devices[i]), x));
  }
  assert_true(situ_to_would_alias(x, here()));
  assert_false(situ_to_would_alias(x, there()));
  assert_false(situ_to_would_alias(NULL, here()));
  expect_error(SITU_E_ARG, "to_would_alias", "tensor");
  assert_false(situ_to_would_alias(x, (situ_device){ SITU_SIM, 99 }));
  expect_error(SITU_E_ARG, "to_would_alias", "sim:99");
}

/* A move that moves nothing is no error, but it can be seen. */
/* placement: B21 */
static void nothing_to_move_is_told(void **state) {
  (void)state;
  situ_nn_module *empty = situ_nn_sequential(situ_nn_relu()), *m = situ_nn_linear(4, 4, NULL);
  situ_tensor *weight = situ_nn_get_tensor(m, "weight");
  expect_ok(situ_set_grad(weight, situ_ones_like(situ_detach(weight), NULL)));
  expect_ok(situ_nn_to(m, there()));
  assert_int_equal(situ_place_moved(), 3); /* with the gradient */
  expect_ok(situ_nn_to(m, there()));
  assert_int_equal(situ_place_moved(), 0);
  expect_ok(situ_nn_to_map(m, "weight=cpu, bias=cpu"));
  assert_int_equal(situ_place_moved(), 3);
  expect_ok(situ_nn_to(empty, there()));
  assert_int_equal(situ_place_moved(), 0);
  expect_ok(situ_nn_to_dtype(m, SITU_F64));
  assert_int_equal(situ_place_moved(), 3);
  expect_ok(situ_to_(weight, there()));
  assert_int_equal(situ_place_moved(), 2);
  expect_ok(situ_nn_to(m, (situ_device){ 0 })); /* the default device: not all of it was there */
  assert_int_equal(situ_place_moved(), situ_device_equal(here(), situ_dev("cpu")) ? 2 : 3);
  expect_ok(situ_nn_to(m, (situ_device){ 0 }));
  assert_int_equal(situ_place_moved(), 0);
  expect_ok(situ_nn_to(m, there()));
  assert_int_equal(situ_nn_to_map(m, "nothing=cpu"), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_to_map", "matches no module");
  assert_int_equal(situ_place_moved(), 0);
  assert_int_equal(situ_to_(NULL, there()), SITU_E_ARG);
  expect_error(SITU_E_ARG, "to_", "tensor");
  assert_int_equal(situ_place_moved(), 0);
  situ_nn_free(empty);
  situ_nn_free(m);
}

static bool moves_a_part(void *payload) { return situ_nn_to(payload, there()) == SITU_OK; }

static void a_move_within_a_move_counts_for_itself(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(4, 4, NULL), *other = situ_nn_linear(4, 4, NULL);
  expect_ok(situ_nn_to_with(m, &(situ_nn_to_options){ .device = there(), .agree = moves_a_part, .payload = other }));
  assert_int_equal(situ_place_moved(), 2);
  situ_nn_free(other);
  situ_nn_free(m);
}

/* placement: J8 */
static void a_test_expects_a_device(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_batch_norm1d(4, NULL));
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(m), 1, OPTIM_MOMENTUM(0.9));
  expect_ok(situ_backward(situ_sum(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 4), NULL)), NULL), NULL));
  expect_ok(situ_optim_step(o));
  expect_ok(situ_place_expect_on(m, here()));
  expect_ok(situ_place_expect_on(m, (situ_device){ 0 }));
  assert_int_equal(situ_place_expect_on(m, there()), SITU_E_DEVICE);
  assert_non_null(strstr(situ_error_message(), "0.weight (parameter, on "));
  expect_error(SITU_E_DEVICE, "place_expect_on", " and 7 more");
  expect_ok(situ_nn_to(m, there()));
  expect_ok(situ_place_expect_on(m, there()));
  assert_int_equal(situ_place_moved(), 15);
  /* One buffer, one state, one gradient of it. */
  expect_ok(situ_to_(situ_nn_get_tensor(m, "1.running_var"), here()));
  assert_int_equal(situ_place_expect_on(m, there()), SITU_E_DEVICE);
  assert_null(strstr(situ_error_message(), ", 1."));
  expect_error(SITU_E_DEVICE, "place_expect_on", ": 1.running_var (buffer, on ");
  expect_ok(situ_nn_to(m, there()));
  situ_nn_module *taken = situ_nn_module_dict();
  assert_non_null(situ_nn_add_tensor(taken, "state", NULL, situ_optim_state(o, 0, 0, NULL), SITU_NN_BUFFER));
  expect_ok(situ_nn_to(taken, here()));
  assert_int_equal(situ_place_expect_on(m, there()), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "place_expect_on", "(follower, on ");
  assert_int_equal(situ_place_expect_on(NULL, there()), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_expect_on", "module");
  situ_nn_free(taken);
  situ_optim_free(o);
  situ_nn_free(m);
}

typedef struct visit {
  situ_nn_module *m;
  situ_optim *o;
  situ_status status;
  uint64_t budget; /* of the device that the model comes from, to the byte */
  situ_tensor *weight;
} visit;

static situ_status train_there(void *payload) {
  visit *v = payload;
  expect_ok(situ_place_expect_on(v->m, there()));
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 4), &(situ_options){ .device = there() });
  expect_ok(situ_backward(situ_sum(situ_nn_forward(v->m, x), NULL), NULL));
  expect_ok(situ_optim_step(v->o));
  v->weight = situ_to(situ_detach(situ_nn_get_tensor(v->m, "0.weight")), situ_dev("cpu"));
  if (v->budget) expect_ok(situ_sim_budget(here().index, v->budget));
  return v->status;
}

/* placement: B19 */
static void a_model_comes_back(void **state) {
  (void)state;
  visit v = { .m = situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_dropout(0.5), situ_nn_linear(4, 4, NULL)) };
  v.o = situ_optim_sgd(situ_nn_parameters(v.m), 0.5, OPTIM_MOMENTUM(0.9));
  situ_tensor *weight = situ_nn_get_tensor(v.m, "0.weight"), *other = situ_nn_get_tensor(v.m, "2.weight");
  expect_ok(situ_nn_to_map(v.m, "2=cpu"));
  const situ_device home = situ_nn_home(situ_nn_at(v.m, 1));
  for (int failed = 0; failed < 2; failed++) {
    v.status = failed ? SITU_E_ARG : SITU_OK;
    assert_int_equal(situ_nn_to_during(v.m, there(), train_there, &v), v.status);
    if (failed) expect_error(SITU_E_ARG, "nn_to_during", "the work failed");
    expect_on(weight, here());
    expect_on(other, situ_dev("cpu"));
    expect_on(situ_grad(weight), here());
    expect_on(situ_optim_state(v.o, 0, 0, NULL), here());
    assert_true(situ_device_equal(situ_nn_home(situ_nn_at(v.m, 1)), home));
    expect_same(situ_to(situ_detach(weight), situ_dev("cpu")), v.weight, 0, 0);
  }
  assert_int_equal(situ_nn_to_during(v.m, there(), NULL, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_to_during", "work");
  if (here().kind == SITU_SIM) { /* nothing is lost where the way home is too narrow */
    expect_ok(situ_nn_to(v.m, here()));
    v = (visit){ v.m, v.o, SITU_OK, 1, NULL };
    assert_int_equal(situ_nn_to_during(v.m, there(), train_there, &v), SITU_E_NOMEM);
    expect_error(SITU_E_NOMEM, "nn_to_during", "nothing was moved");
    expect_ok(situ_sim_reset(here().index));
    expect_ok(situ_place_expect_on(v.m, there()));
    expect_same(situ_to(situ_detach(weight), situ_dev("cpu")), v.weight, 0, 0);
  }
  situ_optim_free(v.o);
  situ_nn_free(v.m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_copy_or_an_alias),
    PAIR_TEST(nothing_to_move_is_told),
    PAIR_TEST(a_move_within_a_move_counts_for_itself),
    PAIR_TEST(a_test_expects_a_device),
    PAIR_TEST(a_model_comes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
