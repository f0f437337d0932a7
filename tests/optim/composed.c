/* Adafactor and Muon, which are made of ops: what a failure leaves, masters, states, moves, refusals. Values beside
   PyTorch's are in tests/golden/optim/optim.c.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
#include <math.h>

#include "situ/optim.h"
#include "situ/sys/alloc.h"
#include "support/modules.h"
#include "support/optim.h"

typedef optim_maker *maker;
static const maker both[] = { situ_optim_adafactor, situ_optim_muon };

static situ_tensor *matrix(situ_dtype dtype) {
  static const double values[] = { 1, -2, 0.5, 3, 0.25, -1 };
  return situ_requires_grad_(test_tensor(dtype, SITU_SHAPE(3, 2), values), true);
}
static void give(situ_tensor *x, double factor) {
  assert_int_equal(situ_set_grad(x, situ_mul_scalar(situ_detach(x), factor)), SITU_OK);
}

/* Whichever allocation of the second step fails, no parameter and no state has changed, in either group. A device with a
   queue may fail at any launch, which nothing can take back. */
static void a_failure_changes_nothing(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) return;
  for (int k = 0; k < 2; k++) {
    situ_tensor *x = matrix(SITU_F32), *y = matrix(SITU_F32);
    situ_optim *o = both[k](SITU_TREE(x), k ? 1e-3 : 1e-2, OPTIM_OPTIONS(both[k], { SITU_OPTIM_WEIGHT_DECAY, 0.1 }));
    situ_optim_options second = situ_optim_group_options(o, 0);
    second.lr = 0.5;
    assert_int_equal(situ_optim_add_param_group(o, SITU_TREE(y), &second), SITU_OK);
    give(x, 1);
    give(y, -1);
    assert_int_equal(situ_optim_step(o), SITU_OK);
    situ_tensor *was[] = { situ_clone(situ_detach(x)), situ_clone(situ_detach(y)),
                           situ_clone(situ_optim_state(o, 0, 0, NULL)), situ_clone(situ_optim_state(o, 1, 0, NULL)) };
    int failures = 0;
    for (uint64_t nth = 1;; nth++) {
      situ_fail_allocation(nth, false);
      const situ_status status = situ_optim_step(o);
      situ_fail_allocation(0, false);
      if (status == SITU_OK) break;
      situ_error_clear();
      failures++;
      expect_same(situ_detach(x), was[0], 0, 0);
      expect_same(situ_detach(y), was[1], 0, 0);
      expect_same(situ_optim_state(o, 0, 0, NULL), was[2], 0, 0);
      expect_same(situ_optim_state(o, 1, 0, NULL), was[3], 0, 0);
    }
    assert_true(failures > 10);
    bool same = true;
    assert_int_equal(situ_equal(situ_detach(y), was[1], &same), SITU_OK);
    assert_false(same);
    situ_optim_free(o);
  }
}

/* A bf16 parameter with a master goes where an f32 one goes, rounded. */
static void masters(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    situ_tensor *wide = matrix(SITU_F32), *narrow = matrix(SITU_BF16);
    situ_optim *a = both[k](SITU_TREE(wide), 1e-2, NULL),
               *b = both[k](SITU_TREE(narrow), 1e-2, OPTIM_OPTIONS(both[k], { SITU_OPTIM_MASTER_WEIGHTS, 1 }));
    for (int i = 0; i < 4; i++) {
      situ_tensor *grad = situ_to_dtype(matrix(SITU_F32), SITU_BF16);
      assert_int_equal(situ_set_grad(narrow, situ_detach(grad)), SITU_OK);
      assert_int_equal(situ_set_grad(wide, situ_to_dtype(situ_detach(grad), SITU_F32)), SITU_OK);
      assert_int_equal(situ_optim_step(a), SITU_OK);
      assert_int_equal(situ_optim_step(b), SITU_OK);
    }
    situ_tensor *master = situ_optim_state(b, 0, SITU_OPTIM_STATES - 1, NULL);
    if (k == 1) expect_same(master, situ_detach(wide), 0, 0); /* Adafactor's eps is the parameter's dtype's */
    expect_same(situ_detach(narrow), situ_to_dtype(master, SITU_BF16), 0, 0);
    situ_optim_free(a);
    situ_optim_free(b);
  }
}

static void states(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 3, &(situ_nn_linear_options){ HERE });
  situ_optim *o = situ_optim_adafactor(situ_nn_parameters(m), 1e-2, NULL);
  give(situ_nn_get_tensor(m, "weight"), 1);
  give(situ_nn_get_tensor(m, "bias"), 1);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  assert_int_equal(situ_nn_to(m, situ_dev("cpu")), SITU_OK); /* the states follow */
  give(situ_nn_get_tensor(m, "weight"), 1);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  situ_tree *saved = situ_optim_state_dict(o), *flat = situ_tree_flatten(saved);
  const situ_shape row = situ_shape_of(situ_tree_get(flat, "state.0.row_var")), rows = SITU_SHAPE(3, 1),
                   col = situ_shape_of(situ_tree_get(flat, "state.0.col_var")), cols = SITU_SHAPE(1, 2),
                   line = situ_shape_of(situ_tree_get(flat, "state.1.variance")), lines = SITU_SHAPE(3);
  assert_true(situ_shape_equal(&row, &rows) && situ_shape_equal(&col, &cols) && situ_shape_equal(&line, &lines));
  assert_null(situ_tree_find(flat, "state.0.variance"));
  situ_tree_free(flat);
  situ_tree_free(saved);
  situ_optim_free(o);
  situ_nn_free(m);
}

static void refusals(void **state) {
  (void)state;
#define MADE(rule, field, value) \
  situ_optim_##rule(SITU_TREE(matrix(SITU_F32)), 1e-3, OPTIM_OPTIONS(situ_optim_##rule, { SITU_OPTIM_##field, value }))
  expect_refused(MADE(adafactor, BETA2_DECAY, 0.5), SITU_E_ARG, "optim_adafactor", "beta2_decay is 0.5");
  expect_refused(MADE(adafactor, D, 0.5), SITU_E_ARG, "optim_adafactor", "d 0.5");
  expect_refused(MADE(adafactor, EPS1, -1), SITU_E_ARG, "optim_adafactor", "eps1 is -1");
  expect_refused(MADE(adafactor, MOMENTUM, 0.5), SITU_E_ARG, "optim_adafactor", "it has no momentum");
  expect_refused(MADE(muon, NS_STEPS, 100), SITU_E_ARG, "optim_muon", "ns_steps is 100");
  expect_refused(MADE(muon, NS_STEPS, 2.5), SITU_E_ARG, "optim_muon", "ns_steps is 2.5");
  expect_refused(MADE(muon, NS_A, NAN), SITU_E_ARG, "optim_muon", "ns_a is nan");
  expect_refused(MADE(muon, ADJUST_LR_FN, 3), SITU_E_ARG, "optim_muon", "adjust_lr_fn is 3");
  expect_refused(MADE(muon, MAXIMIZE, 1), SITU_E_ARG, "optim_muon", "it has no maximize");
  expect_refused(situ_optim_muon(SITU_TREE(situ_requires_grad_(T32(SITU_SHAPE(2), 1, 2), true)), 1e-3, NULL),
                 SITU_E_SHAPE, "optim_muon", "Muon is for matrices");
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(a_failure_changes_nothing), MODULE_TEST(masters), MODULE_TEST(states),
                                      MODULE_TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
