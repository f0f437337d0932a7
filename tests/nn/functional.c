/* situ_func_functional_call: values, gradients, ties, buffers, names, and a module that is as it was.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <pthread.h>
#include <string.h>

#include "situ/func.h"
#include "situ/sys/alloc.h"
#include "situ/sys/tensor.h"
#include "support/modules.h"

static situ_nn_module *mlp(void) {
  const situ_nn_linear_options o = { HERE };
  return situ_nn_sequential(situ_nn_linear(3, 4, &o), situ_nn_tanh(), situ_nn_linear(4, 3, &o));
}
static situ_tensor *input(void) { return T32(SITU_SHAPE(2, 3), 0.1, -0.4, 0.8, 0.3, -0.9, 0.5); }

static situ_tree *give(situ_tree *dict, const char *name, situ_tensor *t) {
  return situ_tree_put(dict, name, situ_tree_tensor(t));
}
static situ_tree *given(const char *name, situ_tensor *t) { return give(situ_tree_dict(), name, t); }

/* Calls with one tree, which it frees. */
static situ_tensor *call(situ_nn_module *m, situ_tree *tensors, situ_tensor *x,
                         const situ_functional_call_options *options) {
  situ_tensor *y = situ_func_functional_call(m, tensors, x, options);
  situ_tree_free(tensors);
  return y;
}

static situ_tensor *twice_the_weight(situ_nn_module *m, const char *name) {
  return situ_mul_scalar(situ_detach(situ_nn_get_tensor(m, name)), 2);
}

/* As a clone that has the values; the gradient is the given tensor's, also through its history. */
static void values_and_gradients(void **state) {
  (void)state;
  situ_nn_module *m = mlp(), *other = situ_nn_clone(m);
  situ_tensor *own = situ_nn_get_tensor(m, "0.weight"), *x = input();
  situ_tensor *leaf = situ_requires_grad_(situ_detach(twice_the_weight(m, "0.weight")), true);
  situ_tensor *w = situ_nn_get_tensor(other, "0.weight");
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_copy_(w, leaf));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_tensor *y = call(m, given("0.weight", leaf), x, NULL), *want = situ_nn_forward(other, x);
  expect_same(y, want, 0, 0);
  assert_int_equal(situ_backward(situ_sum(situ_square(y), NULL), NULL), SITU_OK);
  assert_int_equal(situ_backward(situ_sum(situ_square(want), NULL), NULL), SITU_OK);
  expect_same(situ_grad(leaf), situ_grad(w), 0, 0);
  expect_same(situ_grad(situ_nn_get_tensor(m, "2.bias")), situ_grad(situ_nn_get_tensor(other, "2.bias")), 0, 0);
  assert_null(situ_grad(own));
  assert_ptr_equal(situ_nn_get_tensor(m, "0.weight"), own);

  situ_tensor *half = situ_requires_grad_(situ_mul_scalar(situ_detach(leaf), 0.5), true);
  y = call(m, given("0.weight", situ_mul_scalar(half, 2)), x, NULL);
  expect_same(y, want, 0, 0);
  assert_int_equal(situ_backward(situ_sum(situ_square(y), NULL), NULL), SITU_OK);
  expect_same(situ_grad(half), situ_mul_scalar(situ_grad(w), 2), 1e-6, 1e-6);
  own = situ_retain(own);
  assert_true(situ_is_registered(own) && !situ_is_registered(leaf));
  situ_nn_free(m);
  assert_false(situ_is_registered(own));
  situ_release(own);
  situ_nn_free(other);
}

/* Derivatives of a loss by parameters, as of any other function. */
static situ_tensor *loss_of(situ_tensor *const *in, int count, void *m) {
  assert_int_equal(count, 1);
  return situ_mean(situ_square(call(m, given("0.weight", in[0]), input(), NULL)), NULL);
}
static void derivatives_by_parameters(void **state) {
  (void)state;
  situ_nn_module *m = mlp();
  situ_tensor *w = situ_detach(situ_nn_get_tensor(m, "0.weight")), *v = situ_cos(w), *along = NULL, *grad = NULL;
  assert_non_null(situ_func_jvp(loss_of, m, 1, &w, &v, &along));
  assert_non_null(situ_func_vjp(loss_of, m, 1, &w, NULL, false, &grad));
  expect_same(along, situ_sum(situ_mul(grad, v), NULL), 1e-5, 1e-6);
  situ_tensor *twice = situ_func_hvp(loss_of, m, 1, &w, 0, v), *whole = situ_func_hessian(loss_of, m, 1, &w, 0);
  whole = situ_matmul(situ_reshape(whole, SITU_SHAPE(12, 12)), situ_reshape(v, SITU_SHAPE(12)));
  expect_same(situ_reshape(twice, SITU_SHAPE(12)), whole, 1e-4, 1e-6);
  situ_nn_free(m);
}

/* Two layers with one weight: a value for one name is for both, unless they are untied. */
static void tied_weights(void **state) {
  (void)state;
  const situ_nn_linear_options o = { .no_bias = true, HERE };
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(3, 3, &o), situ_nn_linear(3, 3, &o));
  situ_tensor *w = situ_nn_get_tensor(m, "0.weight"), *x = input(), *v = twice_the_weight(m, "0.weight");
  assert_non_null(situ_nn_add_tensor(situ_nn_at(m, 1), "weight", NULL, w, SITU_NN_PARAMETER));
  const situ_functional_call_options untied = { .untie_weights = true }, strict = { .strict = true },
                                     both = { .untie_weights = true, .strict = true };
  situ_tensor *once = situ_linear(situ_linear(x, w, NULL), v, NULL);
  expect_same(call(m, given("1.weight", v), x, NULL), situ_linear(situ_linear(x, v, NULL), v, NULL), 0, 0);
  expect_same(call(m, given("1.weight", v), x, &strict), situ_linear(situ_linear(x, v, NULL), v, NULL), 0, 0);
  expect_same(call(m, given("1.weight", v), x, &untied), once, 0, 0);
  expect_refused(call(m, given("1.weight", v), x, &both), SITU_E_ARG, "func_functional_call", "missing: 0.weight");
  expect_same(call(m, give(given("1.weight", v), "0.weight", v), x, NULL),
              situ_linear(situ_linear(x, v, NULL), v, NULL), 0, 0);
  expect_refused(call(m, give(given("1.weight", v), "0.weight", situ_clone(v)), x, NULL), SITU_E_ARG,
                 "func_functional_call", "under another name of the same tensor");
  expect_same(call(m, give(given("1.weight", v), "0.weight", situ_clone(w)), x, &untied), once, 0, 0);
  assert_ptr_equal(situ_nn_get_tensor(m, "0.weight"), w);
  assert_ptr_equal(situ_nn_get_tensor(m, "1.weight"), w);
  situ_nn_free(m);
}

/* A module that is registered twice has one set of slots. */
static void shared_modules(void **state) {
  (void)state;
  situ_nn_module *part = situ_nn_linear(3, 3, &(situ_nn_linear_options){ .no_bias = true, HERE });
  situ_nn_module *m = situ_nn_sequential(part, situ_nn_retain(part));
  situ_tensor *w = situ_nn_get_tensor(m, "0.weight"), *x = input(), *v = twice_the_weight(m, "0.weight");
  const situ_functional_call_options untied = { .untie_weights = true };
  expect_same(call(m, given("1.weight", v), x, NULL), situ_linear(situ_linear(x, v, NULL), v, NULL), 0, 0);
  expect_refused(call(m, give(given("1.weight", v), "0.weight", situ_clone(v)), x, &untied), SITU_E_ARG,
                 "func_functional_call", "the same module's tensor");
  assert_ptr_equal(situ_nn_get_tensor(m, "1.weight"), w);
  situ_nn_free(m);
}

/* Each of two tensors of one module in the place of the other. */
static void tensors_of_the_module_itself(void **state) {
  (void)state;
  const situ_nn_linear_options o = { .no_bias = true, HERE };
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(3, 3, &o), situ_nn_linear(3, 3, &o));
  situ_tensor *a = situ_nn_get_tensor(m, "0.weight"), *b = situ_nn_get_tensor(m, "1.weight"), *x = input();
  expect_same(call(m, give(given("0.weight", b), "1.weight", a), x, NULL),
              situ_linear(situ_linear(x, b, NULL), a, NULL), 0, 0);
  assert_ptr_equal(situ_nn_get_tensor(m, "0.weight"), a);
  assert_ptr_equal(situ_nn_get_tensor(m, "1.weight"), b);
  situ_nn_free(m);
  m = situ_nn_batch_norm1d(3, OPTIONS_AT(situ_nn_batch_norm, with HERE));
  a = situ_nn_get_tensor(m, "weight");
  b = situ_nn_get_tensor(m, "bias");
  assert_non_null(call(m, give(given("weight", b), "bias", a), x, NULL));
  assert_ptr_equal(situ_nn_get_tensor(m, "weight"), a);
  assert_ptr_equal(situ_nn_get_tensor(m, "bias"), b);
  situ_nn_free(m);
}

/* What the call writes is the given buffer. */
static void buffers(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_batch_norm1d(3, OPTIONS_AT(situ_nn_batch_norm, with HERE));
  situ_tensor *mean = T32(SITU_SHAPE(3), 1, 1, 1), *x = input();
  assert_non_null(call(m, given("running_mean", mean), x, NULL));
  expect_exact(situ_nn_get_tensor(m, "running_mean"), SITU_SHAPE(3), 0, 0, 0);
  expect_values(mean, SITU_SHAPE(3), 0.92, 0.835, 0.965);
  situ_nn_free(m);
}

static void names(void **state) {
  (void)state;
  situ_nn_module *m = mlp();
  situ_tensor *x = input(), *v = twice_the_weight(m, "0.bias");
  expect_refused(call(m, give(given("0.bais", v), "3.bias", v), x, NULL), SITU_E_ARG, "func_functional_call",
                 "unexpected: 0.bais, 3.bias");
  const situ_functional_call_options strict = { .strict = true };
  expect_refused(call(m, given("0.bias", v), x, &strict), SITU_E_ARG, "func_functional_call",
                 "missing: 0.weight, 2.weight, 2.bias");
  situ_tree *all = situ_nn_state_dict(m);
  expect_same(situ_func_functional_call(m, all, x, &strict), situ_nn_forward(m, x), 0, 0);
  situ_tree_free(all);
  /* nested, as a checkpoint has them */
  situ_tree *nested = situ_tree_put(situ_tree_dict(), "0", given("bias", v));
  assert_non_null(call(m, nested, x, NULL));
  situ_nn_free(m);
}

/* Each argument by its own name, not by that of a call within. */
static void missing_arguments(void **state) {
  (void)state;
  situ_nn_module *m = mlp();
  situ_tree *none = situ_tree_dict(), *inputs = SITU_TREE(input());
  const char *const op = "func_functional_call";
  expect_refused(situ_func_functional_call_tree(NULL, none, inputs, NULL), SITU_E_ARG, op, "module");
  expect_refused(situ_func_functional_call_tree(m, NULL, inputs, NULL), SITU_E_ARG, op, "tensors");
  expect_refused(situ_func_functional_call_tree(m, none, NULL, NULL), SITU_E_ARG, op, "inputs");
  situ_tree_free(none);
  situ_tree_free(inputs);
  situ_nn_free(m);
}

/* The module is as it was after a call that fails, wherever memory runs out. */
static void failures(void **state) {
  (void)state;
  situ_nn_module *m = mlp();
  situ_tensor *own = situ_nn_get_tensor(m, "2.weight"), *x = input(), *want = situ_nn_forward(m, x);
  situ_tensor *wrong = T32(SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
  expect_refused(call(m, given("2.weight", wrong), x, NULL), SITU_E_SHAPE, "linear", "2.weight");
  assert_ptr_equal(situ_nn_get_tensor(m, "2.weight"), own);
  situ_tree *tensors = give(given("2.weight", situ_clone(situ_detach(own))), "0.bias", twice_the_weight(m, "0.bias"));
  int failed = 0;
  for (uint64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    const situ_tensor *y = situ_func_functional_call(m, tensors, x, NULL);
    situ_fail_allocation(0, false);
    if (y) break;
    expect_error(SITU_E_NOMEM, "", "");
    failed++;
    assert_ptr_equal(situ_nn_get_tensor(m, "2.weight"), own);
    expect_same(situ_nn_forward(m, x), want, 0, 0);
  }
  assert_true(failed > 4);
  situ_tree_free(tensors);
  situ_nn_free(m);
}

/* The parameters that a parametrized tensor is computed from. */
static void parametrized(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(3, 2, &(situ_nn_linear_options){ .no_bias = true, HERE });
  situ_tensor *x = input(), *norms;
  assert_non_null(situ_nn_utils_weight_norm(m, "weight", 0));
  norms = twice_the_weight(m, "parametrizations.weight.original0");
  situ_tensor *y = call(m, given("parametrizations.weight.original0", norms), x, NULL);
  expect_same(y, situ_mul_scalar(situ_nn_forward(m, x), 2), 1e-6, 1e-6);
  situ_nn_free(m);
}

/* ---- during the call ---- */

typedef struct meeting {
  situ_nn_module *m;
  situ_tensor *x;
  situ_status status;
  bool replaces;
} meeting;

static void *forward_elsewhere(void *payload) {
  meeting *w = payload;
  situ_scope s;
  situ_scope_begin(&s);
  situ_error_mode(SITU_ERROR_QUIET);
  (void)situ_nn_forward(w->m, w->x);
  w->status = situ_scope_end(&s);
  situ_error_clear();
  return NULL;
}

static situ_status meet(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output;
  meeting *w = payload;
  pthread_t thread;
  if (w->replaces)
    return situ_nn_add_tensor(m, "bias", NULL, situ_zeros(SITU_SHAPE(3), NULL), SITU_NN_PARAMETER) ? SITU_OK
                                                                                                   : situ_error();
  assert_int_equal(pthread_create(&thread, NULL, forward_elsewhere, w), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  return SITU_OK;
}

static void another_thread_is_refused(void **state) {
  (void)state;
  meeting w = { .m = situ_nn_linear(3, 3, &(situ_nn_linear_options){ HERE }), .x = input() };
  assert_int_equal(situ_nn_register_forward_hook(w.m, meet, &w, NULL), SITU_OK);
  assert_non_null(call(w.m, given("weight", twice_the_weight(w.m, "weight")), w.x, NULL));
  assert_int_equal(w.status, SITU_E_STATE);
  situ_nn_free(w.m);
}

/* A tensor that the call itself has put in the place of a given one stays. */
static void a_hook_that_replaces(void **state) {
  (void)state;
  meeting w = { .m = situ_nn_linear(3, 3, &(situ_nn_linear_options){ HERE }), .x = input(), .replaces = true };
  assert_int_equal(situ_nn_register_forward_pre_hook(w.m, meet, &w, NULL), SITU_OK);
  assert_non_null(call(w.m, given("bias", twice_the_weight(w.m, "bias")), w.x, NULL));
  expect_exact(situ_detach(situ_nn_get_tensor(w.m, "bias")), SITU_SHAPE(3), 0, 0, 0);
  situ_nn_free(w.m);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(values_and_gradients),
                                      MODULE_TEST(derivatives_by_parameters),
                                      MODULE_TEST(tied_weights),
                                      MODULE_TEST(shared_modules),
                                      MODULE_TEST(tensors_of_the_module_itself),
                                      MODULE_TEST(buffers),
                                      MODULE_TEST(names),
                                      MODULE_TEST(missing_arguments),
                                      MODULE_TEST(failures),
                                      MODULE_TEST(parametrized),
                                      MODULE_TEST(another_thread_is_refused),
                                      MODULE_TEST(a_hook_that_replaces) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
