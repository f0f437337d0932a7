/* What was measured of PyTorch 1.13 besides the documents' claims: moves and casts that lose a
   gradient, a leaf or a momentum, errors that hide one another, printing that does not say where.
   Here each is right, or refused.
   SPDX-License-Identifier: MIT */
/* test-devices: meta sim:0 sim:1 opencl:0 opencl:1 */
#include "situ/optim.h"
#include "support/optim.h"
#include "support/pairs.h"

static situ_nn_module *net_new(void) {
  return situ_nn_sequential(situ_nn_linear(3, 4, NULL), situ_nn_batch_norm1d(4, NULL), situ_nn_linear(4, 1, NULL));
}

static void backward_through(situ_nn_module *net) {
  situ_tensor *w = situ_nn_get_tensor(net, "0.weight");
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x =
      situ_randn(SITU_SHAPE(5, 3), &(situ_options){ .dtype = situ_dtype_of(w), .device = situ_device_of(w) });
  expect_ok(situ_backward(situ_sum(situ_nn_forward(net, x), NULL), NULL));
  expect_ok(situ_scope_end(&s));
}

/* "Parameter identity is kept for casts, lost for meta": always kept, and so are leaf, gradient and
   name. */
static void a_parameter_is_the_same_parameter_after_any_move(void **state) {
  (void)state;
  situ_nn_module *net = net_new();
  backward_through(net);
  situ_tensor *w = situ_nn_get_tensor(net, "0.weight"), *grad = situ_grad(w);
  expect_ok(situ_nn_to_dtype(net, SITU_F64));
  expect_ok(situ_nn_to(net, there()));
  assert_ptr_equal(situ_nn_get_tensor(net, "0.weight"), w);
  assert_ptr_equal(situ_grad(w), grad);
  assert_true(situ_is_leaf(w) && situ_requires_grad(w));
  assert_string_equal(situ_name(w), "0.weight");
  assert_int_equal(situ_dtype_of(w), SITU_F64);
  expect_on(w, there());
  situ_nn_free(net);
}

/* libtorch: the parameter is double, its gradient still float; the batch counter is double too. */
static void a_cast_takes_gradients_along_and_leaves_counters_whole(void **state) {
  (void)state;
  situ_nn_module *net = net_new();
  backward_through(net);
  expect_ok(situ_nn_to_with(net, &(situ_nn_to_options){ .device = there(), .dtype = SITU_F64 }));
  situ_tensor *w = situ_nn_get_tensor(net, "2.weight"), *batches = situ_nn_get_tensor(net, "1.num_batches_tracked");
  assert_int_equal(situ_dtype_of(situ_grad(w)), SITU_F64);
  expect_on(situ_grad(w), there());
  assert_int_equal(situ_dtype_of(situ_nn_get_tensor(net, "1.running_mean")), SITU_F64);
  assert_int_equal(situ_dtype_of(batches), SITU_I64);
  expect_on(batches, there());
  situ_nn_free(net);
}

/* A cast between forward and backward: a float gradient on a double parameter, without an error. */
static void a_cast_between_forward_and_backward_is_right_or_refused(void **state) {
  (void)state;
  situ_nn_module *net = net_new();
  situ_tensor *w = situ_nn_get_tensor(net, "0.weight"),
              *loss = situ_sum(situ_nn_forward(net, situ_randn(SITU_SHAPE(5, 3), NULL)), NULL);
  situ_status cast = situ_nn_to_dtype(net, SITU_F64);
  assert_true(cast == SITU_OK || cast == SITU_E_STATE);
  situ_error_clear();
  situ_status back = situ_backward(loss, NULL);
  situ_error_clear();
  if (back == SITU_OK) assert_int_equal(situ_dtype_of(situ_grad(w)), situ_dtype_of(w));
  else assert_null(situ_grad(w));
  assert_true(cast == SITU_OK || back == SITU_OK); /* a refused cast leaves the graph as it was */
  situ_nn_free(net);
}

/* A step after a cast or a move: float momentum on double parameters (SGD), an internal assert
   (Adam). */
static void optimiser_state_follows_its_parameter(void **state) {
  (void)state;
  for (int adam = 0; adam < 2; adam++) {
    situ_nn_module *net = net_new();
    situ_optim *o = adam ? situ_optim_adam(situ_nn_parameters(net), 1e-3, NULL)
                         : situ_optim_sgd(situ_nn_parameters(net), 0.1, OPTIM_MOMENTUM(0.9));
    backward_through(net);
    expect_ok(situ_optim_step(o));
    expect_ok(situ_nn_to_with(net, &(situ_nn_to_options){ .device = there(), .dtype = SITU_F64 }));
    for (int64_t i = 0; i < situ_optim_count(o); i++) {
      situ_tensor *p = situ_optim_param(o, i, NULL), *m = situ_optim_state(o, i, 0, NULL);
      assert_int_equal(situ_dtype_of(m), SITU_F64);
      expect_on(m, there());
      expect_on(p, there());
    }
    expect_ok(situ_optim_zero_grad(o, true));
    backward_through(net);
    expect_ok(situ_optim_step(o));
    situ_optim_free(o);
    situ_nn_free(net);
  }
}

/* leaf.to() is no leaf, Parameter.to() no Parameter: true of the pure form here too, and the
   gradient comes back through it. In place there is nothing to lose. */
static void a_pure_move_is_an_op_and_a_move_in_place_is_none(void **state) {
  (void)state;
  situ_tensor *w = situ_requires_grad_(situ_ones(SITU_SHAPE(3), NULL), true), *away = situ_to(w, there());
  assert_true(!situ_is_leaf(away) && situ_is_leaf(w));
  if (has_values(there())) {
    expect_ok(situ_backward(situ_sum(away, NULL), NULL));
    expect_on(situ_grad(w), here());
    expect_exact(situ_grad(w), SITU_SHAPE(3), 1, 1, 1);
  }
  situ_tensor *v = situ_requires_grad_(situ_ones(SITU_SHAPE(3), NULL), true);
  expect_ok(situ_to_(v, there()));
  assert_true(situ_is_leaf(v) && situ_requires_grad(v));
  expect_on(v, there());
}

/* ones(3) + meta(4) reports the sizes only; mm with a wrong dtype and device reports nothing at
   all. */
static void the_device_comes_before_shape_and_dtype(void **state) {
  (void)state;
  situ_tensor *three = situ_ones(SITU_SHAPE(3), NULL),
              *four = situ_ones(SITU_SHAPE(4), &(situ_options){ .device = there() });
  expect_refused(situ_add(three, four), SITU_E_DEVICE, "add", "");
  situ_tensor *a = situ_ones(SITU_SHAPE(2, 2), NULL),
              *b = situ_ones(SITU_SHAPE(2, 2), &(situ_options){ .device = there(), .dtype = SITU_F64 });
  expect_refused(situ_mm(a, b), SITU_E_DEVICE, "mm", "");
}

/* repr(module) never mentions a device. */
static void printing_says_where(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(3, 4, NULL), situ_nn_linear(4, 1, NULL));
  expect_ok(situ_nn_to(situ_nn_at(net, 1), there()));
  char text[8192];
  assert_true(situ_place_to_string(net, NULL, text, sizeof text) > 0);
  assert_non_null(strstr(text, name_of(here())));
  assert_non_null(strstr(text, name_of(there())));
  situ_nn_free(net);
}

/* An expanded tensor that moves is written out in full, a slice only itself. */
static void a_slice_takes_its_own_bytes_only(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(100, 10), NULL), *row = situ_select(x, 0, 3);
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  expect_on(situ_to(row, there()), there());
  situ_transfers all = situ_ledger_total(&ledger);
  expect_ok(situ_ledger_end(&ledger));
  assert_int_equal(all.bytes, has_values(there()) ? 40 : 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_parameter_is_the_same_parameter_after_any_move),
    PAIR_TEST(a_cast_takes_gradients_along_and_leaves_counters_whole),
    PAIR_TEST(a_cast_between_forward_and_backward_is_right_or_refused),
    PAIR_TEST(optimiser_state_follows_its_parameter),
    PAIR_TEST(a_pure_move_is_an_op_and_a_move_in_place_is_none),
    PAIR_TEST(the_device_comes_before_shape_and_dtype),
    PAIR_TEST(printing_says_where),
    PAIR_TEST(a_slice_takes_its_own_bytes_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
