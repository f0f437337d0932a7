/* What is refused between forward and backward, in a step, in a load, and for late parts: each message has the tensor, what
   happened to it and where, and the table of the operands. */
/* test-devices: sim:0 sim:1 */
#include "situ/optim.h"
#include "situ/sys/tensor.h"
#include "support/optim.h"
#include "support/pairs.h"

#define PLACE (test_has_lines() ? "told.c:" : "+0x")

static void expect_told(situ_status status, const char *const *parts, size_t count) {
  assert_int_equal(situ_error(), status);
  for (size_t i = 0; i < count; i++)
    if (!strstr(situ_error_message(), parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], situ_error_message());
  situ_error_clear();
}
#define TOLD(status, ...)                                   \
  expect_told(status, (const char *const[]){ __VA_ARGS__ }, \
              sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static situ_nn_module *model(void) {
  return situ_nn_set_name(situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_tanh(), situ_nn_linear(4, 1, NULL)),
                          "model");
}
static situ_tensor *loss_of(situ_nn_module *m) {
  return situ_sum(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 4), NULL)), NULL);
}

/* ---- between forward and backward ---- */

static void a_cast_and_a_move_before_backward(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_tensor *loss = loss_of(m);
  expect_ok(situ_nn_to_dtype(m, SITU_F64));
  assert_int_equal(situ_backward(loss, NULL), SITU_E_STATE);
  situ_error_report r;
  assert_true(situ_error_read(&r) && r.count >= 1);
  bool odd = false;
  for (int i = 0; i < r.count; i++)
    odd = odd || (r.operands[i].odd && strcmp(r.operands[i].tensor, "model.2.weight") == 0);
  assert_true(odd);
  TOLD(SITU_E_STATE, "2.weight", "which was f32 and is f64 now: situ_nn_to_dtype at ", PLACE,
       "between forward and backward", "model.2.weight", "parameter", "moved by situ_nn_to_dtype at ");
  expect_ok(situ_nn_to_dtype(m, SITU_F32));
  loss = loss_of(m);
  expect_ok(situ_nn_to(m, there()));
  assert_int_equal(situ_backward(loss, NULL), SITU_E_DEVICE);
  TOLD(SITU_E_DEVICE, "2.weight", "which was on ", " now: situ_nn_to at ", PLACE, "model.2.weight");
  situ_nn_free(m);
}

/* ---- a replaced parameter, whoever else holds it ---- */

enum { A_HANDLE, A_STATE_DICT, A_GRAPH, AN_ALIAS, NOTHING, OWNERS };

/* placement: G7 */
static void a_replaced_parameter_is_not_trained(void **state) {
  (void)state;
  for (int owner = 0; owner < OWNERS; owner++) {
    situ_nn_module *m = model(), *first = situ_nn_at(m, 0);
    situ_optim *o = situ_optim_sgd(situ_nn_parameters(m), 0.1, NULL);
    situ_tensor *weight = situ_nn_get_tensor(m, "0.weight"), *handle = owner == A_HANDLE ? situ_retain(weight) : NULL;
    situ_tree *dict = owner == A_STATE_DICT ? situ_nn_state_dict(m) : NULL;
    situ_tensor *alias = owner == AN_ALIAS ? situ_retain(situ_detach(weight)) : NULL;
    situ_tensor *graph = owner == A_GRAPH ? loss_of(m) : NULL;
    expect_ok(situ_backward(loss_of(m), NULL));
    expect_ok(situ_optim_step(o));
    assert_non_null(situ_nn_add_tensor(first, "weight", NULL, situ_ones(SITU_SHAPE(4, 4), NULL), SITU_NN_PARAMETER));
    assert_int_equal(situ_optim_step(o), SITU_E_STATE);
    TOLD(SITU_E_STATE, "0.weight: ", "no module has it any more", "\n   >param", "[4, 4]", "created at ",
         "fix: make the optimiser from situ_nn_parameters");
    /* Back in its place it is trained again. */
    if (owner == A_HANDLE) {
      assert_non_null(situ_nn_add_tensor(first, "weight", NULL, handle, SITU_NN_PARAMETER));
      expect_ok(situ_optim_step(o));
    }
    (void)graph;
    situ_release(handle);
    situ_release(alias);
    situ_tree_free(dict);
    situ_optim_free(o);
    situ_nn_free(m);
  }
}

static void a_freed_model_is_not_trained(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(m), 1e-3, NULL);
  situ_tree *dict = situ_nn_state_dict(m);
  situ_nn_module *copy = situ_nn_clone(m);
  situ_nn_free(m);
  assert_int_equal(situ_optim_step(o), SITU_E_STATE);
  TOLD(SITU_E_STATE, "no module has it any more");
  /* Who means it makes an optimiser of what is left. */
  situ_optim *own = situ_optim_sgd(situ_tree_flatten(dict), 1e-3, NULL);
  expect_ok(situ_optim_step(own));
  situ_optim_free(own);
  situ_optim_free(o);
  situ_tree_free(dict);
  situ_nn_free(copy);
}

/* A parameter that is tied stays one when the other name gets a tensor of its own. */
static void a_tied_parameter_is_still_trained(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_linear(4, 4, NULL));
  situ_tensor *shared = situ_nn_get_tensor(m, "0.weight");
  assert_non_null(situ_nn_add_tensor(situ_nn_at(m, 1), "weight", NULL, shared, SITU_NN_PARAMETER));
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(m), 1e-3, NULL);
  assert_non_null(
      situ_nn_add_tensor(situ_nn_at(m, 1), "weight", NULL, situ_ones(SITU_SHAPE(4, 4), NULL), SITU_NN_PARAMETER));
  expect_ok(situ_optim_step(o));
  /* One on the same memory will do. */
  assert_non_null(situ_nn_add_tensor(situ_nn_at(m, 0), "weight", NULL, situ_detach(shared), SITU_NN_PARAMETER));
  expect_ok(situ_optim_step(o));
  situ_optim_free(o);
  situ_nn_free(m);
}

/* ---- a step and a load ---- */

static void state_elsewhere_has_a_table(void **state) {
  (void)state;
  situ_nn_module *m = model(), *other = situ_nn_module_dict();
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(m), 1, OPTIM_MOMENTUM(0.9));
  expect_ok(situ_backward(loss_of(m), NULL));
  expect_ok(situ_optim_step(o));
  assert_non_null(situ_nn_add_tensor(other, "buffer", NULL, situ_optim_state(o, 0, 0, NULL), SITU_NN_BUFFER));
  expect_ok(situ_nn_to(other, there()));
  assert_int_equal(situ_optim_step(o), SITU_E_DEVICE);
  TOLD(SITU_E_DEVICE, "the state of ", "model.0.weight", "param ", "grad ", "state ", "odd one out: state",
       "moved by situ_nn_to at ");
  situ_optim_free(o);
  situ_nn_free(other);
  situ_nn_free(m);
}

/* placement: G3 */
static void a_gradient_given_elsewhere_has_a_table(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_tensor *weight = situ_nn_get_tensor(m, "0.weight"), *loss = loss_of(m);
  situ_tensor *away = situ_to(situ_zeros_like(weight, NULL), there());
  assert_int_equal(situ_set_grad(weight, away), SITU_E_DEVICE);
  TOLD(SITU_E_DEVICE, "set_grad: grad is on ", "model.0.weight", "input ", "grad ", "odd one out: grad", "created at ");
  const situ_backward_options given = { .gradient = situ_to(situ_ones_like(loss, NULL), there()) };
  assert_int_equal(situ_backward(loss, &given), SITU_E_DEVICE);
  TOLD(SITU_E_DEVICE, "backward: gradient is on ", "input ", "gradient ", "odd one out: gradient", "created at ");
  assert_int_equal(situ_backward(loss, &(situ_backward_options){ .gradient = weight }), SITU_E_SHAPE);
  TOLD(SITU_E_SHAPE, "backward: gradient is f32 ", "model.0.weight", "odd one out: gradient");
  situ_nn_free(m);
}

static void a_state_that_does_not_fit_has_a_table(void **state) {
  (void)state;
  situ_nn_module *m = model(),
                 *other = situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_tanh(), situ_nn_linear(4, 3, NULL));
  situ_tree *dict = situ_nn_state_dict(other);
  assert_int_equal(situ_nn_load_state_dict(m, dict, NULL), SITU_E_SHAPE);
  TOLD(SITU_E_SHAPE, "mismatch: 2.weight ([3, 4] f32 in the state, [1, 4] f32 in the module)", "module ", "state ",
       "model.2.weight", "Sequential.2.weight", "[3, 4]", "[1, 4]", "created at ");
  situ_tree_free(dict);
  situ_nn_free(other);
  situ_nn_free(m);
}

/* ---- a gradient or a state that would go without its owner ---- */

/* placement: G3 */
static void a_gradient_goes_with_its_parameter(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_tensor *weight = situ_nn_get_tensor(m, "0.weight");
  expect_ok(situ_backward(loss_of(m), NULL));
  situ_tensor *grad = situ_retain(situ_grad(weight)), *flat = situ_reshape(situ_detach(grad), SITU_SHAPE(-1));
  assert_int_equal(situ_to_(grad, there()), SITU_E_DEVICE);
  TOLD(SITU_E_DEVICE, "to_: the gradient of model.0.weight cannot be moved alone", "situ_nn_to");
  assert_int_equal(situ_to_(flat, there()), SITU_E_DEVICE); /* its memory, by another handle */
  TOLD(SITU_E_DEVICE, "the gradient of model.0.weight");
  expect_on(grad, here());
  expect_ok(situ_to_(grad, here()));
  expect_ok(situ_backward(loss_of(m), NULL)); /* another one is the gradient now */
  expect_ok(situ_to_(grad, there()));
  expect_ok(situ_to_(weight, there()));
  expect_on(situ_grad(weight), there());
  situ_release(grad);
  situ_nn_free(m);
}

static void a_gradient_outside_of_modules(void **state) {
  (void)state;
  situ_tensor *given = situ_retain(situ_ones(SITU_SHAPE(3), NULL));
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *w = situ_requires_grad_(situ_ones(SITU_SHAPE(3), NULL), true);
  expect_ok(situ_set_grad(w, given));
  assert_int_equal(situ_to_(given, there()), SITU_E_DEVICE);
  TOLD(SITU_E_DEVICE, "the gradient of a tensor cannot be moved alone");
  expect_ok(situ_set_grad(w, NULL));
  expect_ok(situ_to_(given, there()));
  expect_ok(situ_to_(given, here()));
  expect_ok(situ_set_grad(w, given));
  expect_ok(situ_set_grad(w, situ_ones(SITU_SHAPE(3), NULL)));
  expect_ok(situ_to_(given, there()));
  expect_ok(situ_to_(given, here()));
  expect_ok(situ_set_grad(w, given));
  expect_ok(situ_scope_end(&s));
  expect_ok(situ_to_(given, there()));
  situ_release(given);
}

static void a_gradient_that_came_away_goes_back(void **state) {
  (void)state;
  situ_nn_module *m = model(), *other = situ_nn_module_dict();
  situ_tensor *weight = situ_nn_get_tensor(m, "0.weight");
  expect_ok(situ_set_grad(weight, situ_ones_like(situ_detach(weight), NULL)));
  situ_tensor *grad = situ_grad(weight);
  assert_non_null(situ_nn_add_tensor(other, "buffer", NULL, situ_detach(grad), SITU_NN_BUFFER));
  expect_ok(situ_nn_to(other, there()));
  expect_on(grad, there());
  expect_ok(situ_to_(grad, here()));
  expect_ok(situ_nn_to(m, there()));
  expect_on(grad, there());
  situ_nn_free(other);
  situ_nn_free(m);
}

/* placement: G3 */
static void a_state_goes_with_its_parameter(void **state) {
  (void)state;
  situ_nn_module *m = model();
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(m), 1, OPTIM_MOMENTUM(0.9));
  expect_ok(situ_backward(loss_of(m), NULL));
  expect_ok(situ_optim_step(o));
  situ_tensor *momentum = situ_optim_state(o, 0, 0, NULL);
  assert_int_equal(situ_to_(momentum, there()), SITU_E_DEVICE);
  TOLD(SITU_E_DEVICE, "to_: ", "follows model.0.weight, which is on ", "situ_optim_to");
  expect_on(momentum, here());
  expect_ok(situ_optim_step(o));
  expect_ok(situ_nn_to(m, there()));
  expect_on(momentum, there());
  expect_ok(situ_follow(momentum, NULL));
  expect_ok(situ_to_(momentum, here()));
  situ_optim_free(o);
  situ_nn_free(m);
}

/* ---- late parts ---- */

static void a_stated_device_of_a_late_child_is_kept(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(4, 4, NULL));
  expect_ok(situ_nn_to(m, there()));
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  assert_non_null(situ_nn_append(m, situ_nn_linear(4, 4, &(situ_nn_linear_options){ .device = situ_dev("cpu") })));
  assert_true(situ_device_equal(situ_device_of(situ_nn_get_tensor(m, "1.weight")), situ_dev("cpu")));
  expect_ok(situ_ledger_end(&ledger));
  for (int k = 0; k < SITU_DIRECTIONS; k++) assert_int_equal(ledger.sum[k].count, 0);
  situ_nn_free(m);
}

static void a_layer_of_another_model_is_not_dragged_away(void **state) {
  (void)state;
  situ_nn_module *a = situ_nn_set_name(situ_nn_sequential(situ_nn_linear(2, 2, NULL)), "a"),
                 *shared = situ_nn_linear(2, 2, NULL);
  situ_nn_module *b = situ_nn_set_name(situ_nn_sequential(situ_nn_retain(shared), situ_nn_linear(2, 2, NULL)), "b");
  expect_ok(situ_nn_to(a, there()));
  assert_null(situ_nn_append(situ_nn_retain(a), shared)); /* it frees both on failure */
  TOLD(SITU_E_DEVICE, "the Linear is also b.0, on ", "away from b", "situ_nn_clone");
  assert_true(situ_device_equal(situ_device_of(situ_nn_get_tensor(b, "0.weight")), here()));
  assert_int_equal(a->count, 1);
  /* A copy may go, and so may what is there already. */
  assert_non_null(situ_nn_append(a, situ_nn_clone(situ_nn_at(b, 0))));
  expect_ok(situ_nn_to(b, there()));
  assert_non_null(situ_nn_append(a, situ_nn_retain(situ_nn_at(b, 0))));
  situ_nn_free(a);
  situ_nn_free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_cast_and_a_move_before_backward),
    PAIR_TEST(a_replaced_parameter_is_not_trained),
    PAIR_TEST(a_freed_model_is_not_trained),
    PAIR_TEST(a_tied_parameter_is_still_trained),
    PAIR_TEST(state_elsewhere_has_a_table),
    PAIR_TEST(a_gradient_given_elsewhere_has_a_table),
    PAIR_TEST(a_state_that_does_not_fit_has_a_table),
    PAIR_TEST(a_gradient_goes_with_its_parameter),
    PAIR_TEST(a_gradient_outside_of_modules),
    PAIR_TEST(a_gradient_that_came_away_goes_back),
    PAIR_TEST(a_state_goes_with_its_parameter),
    PAIR_TEST(a_stated_device_of_a_late_child_is_kept),
    PAIR_TEST(a_layer_of_another_model_is_not_dragged_away),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
