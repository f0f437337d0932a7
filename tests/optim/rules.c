/* Every optimiser resumes from its saved state bit for bit, and refuses hyperparameters that it does not have. Their
   formulas are in tests/golden/optim/optim.c.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "situ/optim.h"
#include "support/optim.h"
#include "support/test.h"

typedef optim_maker *maker;
static const maker all[] = { situ_optim_sgd,       situ_optim_adam,     situ_optim_adamw,  situ_optim_rmsprop,
                             situ_optim_adagrad,   situ_optim_adadelta, situ_optim_adamax, situ_optim_nadam,
                             situ_optim_radam,     situ_optim_rprop,    situ_optim_asgd,   situ_optim_lion,
                             situ_optim_adafactor, situ_optim_muon };
enum { COUNT = sizeof all / sizeof *all };

static situ_tensor *parameter(void) { return situ_requires_grad_(T32(SITU_SHAPE(2, 2), 1, -2, 0.5, 3), true); }

/* The gradient of sum(x^2 / 2) with a sign that changes. */
static void take_steps(situ_optim *o, situ_tensor *x, int first, int count) {
  for (int i = first; i < first + count; i++) {
    situ_tensor *grad = situ_mul_scalar(situ_detach(x), i % 3 ? 1 : -0.5);
    assert_int_equal(situ_set_grad(x, grad), SITU_OK);
    assert_int_equal(situ_optim_step(o), SITU_OK);
  }
}

static void a_saved_state_continues(void **state) {
  (void)state;
  for (size_t k = 0; k < COUNT; k++) {
    situ_tensor *x = parameter();
    situ_optim *o = all[k](SITU_TREE(x), 0.01, NULL);
    assert_non_null(o);
    take_steps(o, x, 0, 3);
    situ_tensor *y = situ_requires_grad_(situ_clone(situ_detach(x)), true);
    situ_optim *again = all[k](SITU_TREE(y), 0.01, NULL);
    situ_tree *saved = situ_optim_state_dict(o);
    assert_int_equal(situ_optim_load_state_dict(again, saved), SITU_OK);
    situ_tree_free(saved);
    take_steps(o, x, 3, 4);
    take_steps(again, y, 3, 4);
    expect_same(x, y, 0, 0);
    situ_optim_free(o);
    situ_optim_free(again);
  }
}

static void each_has_its_own_fields(void **state) {
  (void)state;
  for (size_t k = 0; k < COUNT; k++) {
    situ_optim *o = all[k](SITU_TREE(parameter()), 0.01, NULL);
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) > 0);
    situ_optim_free(o);
  }
  expect_refused(
      situ_optim_lion(SITU_TREE(parameter()), 1e-4, OPTIM_OPTIONS(situ_optim_lion, { SITU_OPTIM_EPS, 1e-3 })),
      SITU_E_ARG, "optim_lion", "it has no eps");
  expect_refused(
      situ_optim_rprop(SITU_TREE(parameter()), 1e-2, OPTIM_OPTIONS(situ_optim_rprop, { SITU_OPTIM_WEIGHT_DECAY, 0.1 })),
      SITU_E_ARG, "optim_rprop", "it has no weight_decay");
  expect_refused(
      situ_optim_rprop(SITU_TREE(parameter()), 1e-2, OPTIM_OPTIONS(situ_optim_rprop, { SITU_OPTIM_ETAPLUS, 0.9 })),
      SITU_E_ARG, "optim_rprop", "0 < etaminus < 1 < etaplus");
  expect_refused(
      situ_optim_adadelta(SITU_TREE(parameter()), 1, OPTIM_OPTIONS(situ_optim_adadelta, { SITU_OPTIM_RHO, 1.5 })),
      SITU_E_ARG, "optim_adadelta", "rho is 1.5");
}

/* torch's names and numbers in a saved state. */
static void pairs_are_saved_under_torchs_names(void **state) {
  (void)state;
  situ_tensor *x = parameter();
  situ_optim *o = situ_optim_rprop(SITU_TREE(x), 1e-2, OPTIM_OPTIONS(situ_optim_rprop, { SITU_OPTIM_ETAPLUS, 1.5 }));
  take_steps(o, x, 0, 1);
  situ_tree *saved = situ_optim_state_dict(o), *flat = situ_tree_flatten(saved);
  expect_exact(situ_tree_get(flat, "param_groups.0.etas"), SITU_SHAPE(2), 0.5, 1.5);
  expect_exact(situ_tree_get(flat, "param_groups.0.step_sizes"), SITU_SHAPE(2), 1e-6, 50);
  assert_non_null(situ_tree_get(flat, "state.0.prev"));
  assert_non_null(situ_tree_get(flat, "state.0.step_size"));
  situ_tree_free(flat);
  situ_tree_free(saved);
  situ_optim_free(o);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_saved_state_continues), TEST(each_has_its_own_fields),
                                      TEST(pairs_are_saved_under_torchs_names) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
