/* Parametrized modules: names, values, training, moves, clones, what a failure leaves, removal. Values beside PyTorch's
   are in tests/golden/nn/parametrized.c.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "situ/autograd.h"
#include "situ/optim.h"
#include "situ/place.h"
#include "situ/sys/alloc.h"
#include "support/modules.h"

static situ_tensor *random_values(situ_shape shape) {
  return situ_to_dtype(test_random(shape, -1, 1, false), SITU_F32);
}
#define R32(...) random_values(SITU_SHAPE(__VA_ARGS__))

static situ_nn_module *linear(void) { return situ_nn_linear(3, 2, &(situ_nn_linear_options){ HERE }); }
static situ_nn_module *normed(void) { return situ_nn_utils_weight_norm(linear(), NULL, 0); }

static void expect_names(situ_nn_module *m, int64_t count, const char *const *names) {
  situ_tree *state = situ_nn_state_dict(m);
  assert_int_equal(situ_tree_count(state), count);
  for (int64_t i = 0; i < count; i++) assert_string_equal(situ_tree_key(state, i), names[i]);
  situ_tree_free(state);
}

static void names_are_torchs(void **state) {
  (void)state;
  static const char *const weight[] = { "bias", "parametrizations.weight.original0",
                                        "parametrizations.weight.original1" };
  static const char *const spectral[] = { "bias", "parametrizations.weight.original", "parametrizations.weight.0._u",
                                          "parametrizations.weight.0._v" };
  char text[512];
  situ_nn_module *m = normed(), *n = situ_nn_utils_spectral_norm(linear(), NULL, NULL);
  expect_names(m, 3, weight);
  expect_names(n, 4, spectral);
  assert_true(situ_nn_to_string(m, text, sizeof text) > 0);
  assert_string_equal(text, "ParametrizedLinear(\n  in_features=3, out_features=2, bias=True\n"
                            "  (parametrizations): ModuleDict(\n    (weight): ParametrizationList(\n"
                            "      (0): _WeightNorm()\n    )\n  )\n)");
  assert_true(situ_nn_utils_is_parametrized(m, "weight") && situ_nn_utils_is_parametrized(m, NULL));
  assert_false(situ_nn_utils_is_parametrized(m, "bias"));
  assert_int_equal(situ_place_lint(m, NULL), SITU_OK);
  assert_int_equal(situ_place_lint(n, NULL), SITU_OK);
  situ_tree *in = SITU_TREE(R32(2, 3));
  assert_int_equal(situ_place_check(m, in, NULL, NULL), SITU_OK);
  assert_int_equal(situ_place_check(n, in, NULL, NULL), SITU_OK);
  situ_tree_free(in);
  situ_nn_free(m);
  situ_nn_free(n);
}

/* The weight begins as it was; an optimiser made before trains the direction. */
static void training(void **state) {
  (void)state;
  situ_nn_module *m = linear();
  situ_tensor *own = situ_nn_get_tensor(m, "weight"), *before = situ_clone(situ_detach(own)), *x = R32(4, 3);
  situ_tensor *want = situ_nn_forward(m, x);
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(m), 0.1, NULL);
  assert_ptr_equal(situ_nn_utils_weight_norm(m, "weight", 0), m);
  assert_ptr_equal(situ_nn_get_tensor(m, "parametrizations.weight.original1"), own);
  situ_tensor *y = situ_nn_forward(m, x);
  expect_same(situ_detach(y), situ_detach(want), 1e-6, 1e-6);
  assert_int_equal(situ_backward(situ_sum(situ_square(y), NULL), NULL), SITU_OK);
  assert_non_null(situ_grad(situ_nn_get_tensor(m, "parametrizations.weight.original0")));
  assert_int_equal(situ_optim_step(optim), SITU_OK);
  bool same = true;
  assert_int_equal(situ_equal(situ_detach(own), before, &same), SITU_OK);
  assert_false(same);
  situ_optim_free(optim);
  situ_nn_free(m);
}

static situ_nn_module *both_norms(void) { return situ_nn_utils_spectral_norm(normed(), "weight", NULL); }

/* weight_norm, then spectral_norm of its result, whose largest singular value is 1. */
static void parametrizations_are_applied_in_order(void **state) {
  (void)state;
  situ_nn_module *m = both_norms(), *copy;
  for (int i = 0; i < 30; i++) assert_non_null(situ_nn_forward(m, R32(1, 3)));
  situ_nn_eval(m);
  situ_tensor *x = R32(4, 3), *w = situ_nn_utils_parametrized(m, "weight");
  situ_tensor *wide = situ_to(situ_matmul(situ_transpose(w, 0, 1), w), situ_dev("cpu"));
  double trace = 0;
  assert_int_equal(situ_item(situ_trace(wide), &trace), SITU_OK);
  assert_true(trace >= 1 - 1e-4 && trace <= 2 + 1e-4);
  expect_same(situ_nn_forward(m, x), situ_linear(x, w, situ_nn_get_tensor(m, "bias")), 1e-6, 1e-6);
  copy = situ_nn_clone(m);
  expect_same(situ_nn_forward(copy, x), situ_nn_forward(m, x), 0, 0);
  assert_int_equal(situ_place_lint(copy, NULL), SITU_OK);
  situ_nn_free(m); /* the copy has nothing of it */
  assert_non_null(situ_nn_forward(copy, x));
  assert_int_equal(situ_nn_to(copy, situ_dev("cpu")), SITU_OK);
  assert_non_null(situ_nn_forward(copy, situ_to(x, situ_dev("cpu"))));
  situ_nn_free(copy);
}

static void removal_keeps_the_value(void **state) {
  (void)state;
  static const char *const names[] = { "bias", "weight" };
  situ_tensor *x = R32(4, 3);
  situ_nn_module *m = both_norms();
  situ_nn_eval(m);
  situ_tensor *before = situ_nn_forward(m, x);
  assert_ptr_equal(situ_nn_utils_remove_parametrizations(m, "weight", true), m);
  expect_names(m, 2, names);
  expect_same(situ_nn_forward(m, x), before, 1e-6, 1e-6);
  assert_int_equal(situ_place_lint(m, NULL), SITU_OK);
  assert_false(situ_nn_utils_is_parametrized(m, NULL));
  situ_tensor *own = situ_clone(situ_detach(situ_nn_get_tensor(m, "weight")));
  assert_non_null(situ_nn_utils_spectral_norm(m, "weight", NULL));
  assert_non_null(situ_nn_utils_weight_norm(m, "bias", 0));
  assert_non_null(situ_nn_utils_remove_parametrizations(m, "weight", false));
  expect_same(situ_detach(situ_nn_get_tensor(m, "weight")), own, 0, 0);
  assert_true(situ_nn_utils_is_parametrized(m, "bias"));
  expect_refused(situ_nn_utils_remove_parametrizations(m, "bias", false), SITU_E_ARG, "", "several originals");
  assert_non_null(situ_nn_utils_remove_parametrizations(m, "bias", true));
  expect_names(m, 2, (const char *const[]){ "weight", "bias" });
  situ_nn_free(m);
}

/* ---- one of the program's own ---- */

typedef struct counted {
  situ_nn_module base;
  situ_tensor *weight;
  int64_t calls;
} counted;
static situ_tensor *counted_forward(situ_nn_module *self, situ_tensor *x) {
  counted *m = (counted *)self;
  m->calls++;
  return situ_mul(x, m->weight);
}
static const situ_nn_type counted_type = { .name = "Counted", .size = sizeof(counted), .forward = counted_forward };
static situ_tensor *positive(situ_nn_module *m, situ_tensor *x) { return (void)m, situ_exp(x); }
static situ_tensor *shorter(situ_nn_module *m, situ_tensor *x) { return (void)m, situ_sum(x, NULL); }
static const situ_nn_type positive_type = { .name = "Positive", .size = sizeof(situ_nn_module), .forward = positive };
static const situ_nn_type shorter_type = { .name = "Shorter", .size = sizeof(situ_nn_module), .forward = shorter };
static situ_nn_module *step_of(const situ_nn_type *type) { return situ_nn_done(situ_nn_alloc(type)); }

static situ_nn_module *counted_new(void) {
  counted *m = situ_nn_alloc(&counted_type);
  situ_nn_param(m, weight, situ_zeros(SITU_SHAPE(2), &(situ_options){ HERE }));
  return situ_nn_done(m);
}

static void ones_own(void **state) {
  (void)state;
  situ_nn_module *m = counted_new();
  situ_tensor *x = T32(SITU_SHAPE(2), 3, 4), *own = situ_nn_get_tensor(m, "weight");
  assert_non_null(situ_nn_utils_register_parametrization(m, "weight", step_of(&positive_type)));
  situ_tensor *y = situ_nn_forward(m, x);
  expect_values(situ_detach(y), SITU_SHAPE(2), 3, 4);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_values(situ_grad(own), SITU_SHAPE(2), 3, 4);
  assert_int_equal(((counted *)m)->calls, 1); /* what the code writes to its struct is kept */
  assert_ptr_equal(((counted *)m)->weight, own);
  expect_refused(situ_nn_utils_register_parametrization(m, "weight", step_of(&shorter_type)), SITU_E_ARG,
                 "nn_utils_register_parametrization", "another shape");
  expect_values(situ_detach(situ_nn_forward(m, x)), SITU_SHAPE(2), 3, 4);
  assert_non_null(situ_nn_utils_remove_parametrizations(m, "weight", true));
  expect_values(situ_detach(own), SITU_SHAPE(2), 1, 1);
  situ_nn_free(m);
}

/* ---- refusals, and failures ---- */

static void refusals(void **state) {
  (void)state;
  situ_nn_module *m = linear(), *lstm = situ_nn_lstm(2, 2, &(situ_nn_rnn_options){ HERE }),
                 *lazy = situ_nn_lazy_linear(2, NULL);
  expect_refused(situ_nn_utils_weight_norm(m, "wait", 0), SITU_E_ARG, "nn_utils_weight_norm", "not a parameter");
  expect_refused(situ_nn_utils_weight_norm(m, NULL, 2), SITU_E_ARG, "nn_utils_weight_norm", "2");
  expect_refused(situ_nn_utils_weight_norm(lstm, "weight_hh_l0", 0), SITU_E_ARG, "nn_utils_weight_norm", "field");
  expect_refused(situ_nn_utils_weight_norm(lazy, "weight", 0), SITU_E_ARG, "nn_utils_weight_norm", "first input");
  expect_refused(situ_nn_utils_spectral_norm(m, NULL, OPTIONS_AT(situ_nn_spectral_norm, with.eps = NAN)), SITU_E_ARG,
                 "nn_utils_spectral_norm", "eps");
  expect_refused(situ_nn_utils_spectral_norm(m, NULL, OPTIONS_AT(situ_nn_spectral_norm, with.n_power_iterations = -1)),
                 SITU_E_ARG, "nn_utils_spectral_norm", "-1");
  expect_refused(situ_nn_utils_spectral_norm(m, NULL, OPTIONS_AT(situ_nn_spectral_norm, with.dim = 1)), SITU_E_ARG,
                 "nn_utils_spectral_norm", "has_dim");
  expect_refused(situ_nn_utils_remove_parametrizations(m, "weight", true), SITU_E_ARG, "", "is not parametrized");
  expect_refused(situ_nn_utils_parametrized(m, "weight"), SITU_E_ARG, "", "is not parametrized");
  assert_non_null(situ_nn_utils_weight_norm(m, NULL, 0));
  expect_refused(situ_nn_utils_weight_norm(m, NULL, 0), SITU_E_STATE, "nn_utils_weight_norm", "already");
  expect_refused(situ_nn_add_tensor(m, "weight", NULL, R32(2, 3), SITU_NN_PARAMETER), SITU_E_STATE, "nn_add_tensor",
                 "parametrized");
  situ_nn_free(m);
  situ_nn_free(lstm);
  situ_nn_free(lazy);
}

/* Whichever allocation fails, the module is as before. */
static void a_failure_changes_nothing(void **state) {
  (void)state;
  static const char *const plain[] = { "weight", "bias" };
  for (int how = 0; how < 2; how++) {
    situ_nn_module *m = linear();
    situ_tensor *x = R32(2, 3), *want = situ_nn_forward(m, x);
    const int64_t modules = situ_nn_live_modules();
    bool done = false;
    int failures = 0;
    for (uint64_t nth = 1; !done; nth++) {
      situ_fail_allocation(nth, false);
      done = how ? situ_nn_utils_spectral_norm(m, NULL, NULL) : situ_nn_utils_weight_norm(m, NULL, 0);
      situ_fail_allocation(0, false);
      if (done) break;
      situ_error_clear();
      failures++;
      expect_names(m, 2, plain);
      assert_string_equal(situ_name(situ_nn_get_tensor(m, "weight")), "weight");
      assert_int_equal(situ_nn_live_modules(), modules);
      expect_same(situ_nn_forward(m, x), want, 0, 0);
    }
    assert_true(failures > 5);
    for (uint64_t nth = 1;; nth++) {
      situ_fail_allocation(nth, false);
      const bool removed = situ_nn_utils_remove_parametrizations(m, "weight", true) != NULL;
      situ_fail_allocation(0, false);
      if (removed) break;
      situ_error_clear();
      assert_true(situ_nn_utils_is_parametrized(m, "weight"));
      assert_non_null(situ_nn_forward(m, x));
    }
    situ_nn_free(m);
  }
}

/* ---- threads ---- */

static situ_nn_module *shared;
static void *calls(void *payload) {
  situ_scope s;
  situ_scope_begin(&s);
  for (int i = 0; i < 50; i++) {
    situ_tensor *y = situ_nn_forward(shared, payload);
    if (!y || situ_backward(situ_sum(y, NULL), NULL) != SITU_OK) return payload;
  }
  return situ_scope_end(&s) == SITU_OK ? NULL : payload;
}

static void two_threads(void **state) {
  (void)state;
  situ_tensor *x = R32(4, 3);
  pthread_t thread;
  shared = normed();
  assert_int_equal(pthread_create(&thread, NULL, calls, x), 0);
  void *other = NULL, *own = calls(x);
  assert_int_equal(pthread_join(thread, &other), 0);
  assert_null(own);
  assert_null(other);
  situ_nn_free(shared);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(names_are_torchs),          MODULE_TEST(training),   MODULE_TEST(parametrizations_are_applied_in_order),
    MODULE_TEST(removal_keeps_the_value),   MODULE_TEST(ones_own),   MODULE_TEST(refusals),
    MODULE_TEST(a_failure_changes_nothing), MODULE_TEST(two_threads)
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
