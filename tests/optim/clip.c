/* Clipping by the common norm and by value, against torch 1.13's values.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
#include <math.h>

#include "situ/optim.h"
#include "support/test.h"

static situ_tensor *a, *b, *idle;

static situ_tree *parameters(void) {
  a = situ_requires_grad_(T32(SITU_SHAPE(2, 2), 0, 0, 0, 0), true);
  b = situ_requires_grad_(T32(SITU_SHAPE(3), 0, 0, 0), true);
  idle = situ_requires_grad_(T32(SITU_SHAPE(1), 0), true);
  assert_int_equal(situ_set_grad(a, T32(SITU_SHAPE(2, 2), 1, -2, 3, 4)), SITU_OK);
  assert_int_equal(situ_set_grad(b, T32(SITU_SHAPE(3), 0.5, 0.25, -8)), SITU_OK);
  return SITU_TREE(a, idle, b);
}

static void scales_to_the_norm(void **state) {
  (void)state;
  static const struct {
    double p, total, a[4], b[3];
  } row[] = {
    { 2,
      9.711462020874023,
      { 0.20594219863414764, -0.4118843972682953, 0.6178265810012817, 0.8237687945365906 },
      { 0.10297109931707382, 0.05148554965853691, -1.6475375890731812 } },
    { INFINITY,
      8,
      { 0.2499999701976776, -0.4999999403953552, 0.7499998807907104, 0.9999998807907104 },
      { 0.1249999850988388, 0.0624999925494194, -1.999999761581421 } },
    { 1,
      18.75,
      { 0.10666665434837341, -0.21333330869674683, 0.31999996304512024, 0.42666661739349365 },
      { 0.05333332717418671, 0.026666663587093353, -0.8533332347869873 } },
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    double total;
    situ_tree *list = parameters();
    assert_int_equal(situ_nn_utils_clip_grad_norm_(list, 2, row[i].p, &total), SITU_OK);
    assert_true(fabs(total - row[i].total) <= 1e-6 * row[i].total);
    test_close_(situ_grad(a), SITU_SHAPE(2, 2), row[i].a, 1.3e-6, 0, __FILE__, __LINE__);
    test_close_(situ_grad(b), SITU_SHAPE(3), row[i].b, 1.3e-6, 0, __FILE__, __LINE__);
    assert_null(situ_grad(idle));
    situ_tree_free(list);
  }
}

static void small_gradients_keep_their_bits(void **state) {
  (void)state;
  situ_optim *o = situ_optim_sgd(parameters(), 1e-3, NULL);
  assert_int_equal(situ_optim_clip_grad_norm_(o, 100, 2, NULL), SITU_OK);
  expect_exact(situ_grad(b), SITU_SHAPE(3), 0.5, 0.25, -8);
  situ_optim_free(o);
}

static void no_gradient_has_norm_zero(void **state) {
  (void)state;
  double total = 5;
  situ_tensor *p = situ_requires_grad_(T32(SITU_SHAPE(1), 0), true);
  situ_tree *list = SITU_TREE(p);
  assert_int_equal(situ_nn_utils_clip_grad_norm_(list, 1, 2, &total), SITU_OK);
  assert_true(total == 0);
  assert_int_equal(situ_nn_utils_clip_grad_norm_(list, NAN, 2, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "", "max_norm");
  situ_tree_free(list);
}

static void clamps_to_a_value(void **state) {
  (void)state;
  situ_tree *list = parameters();
  assert_int_equal(situ_nn_utils_clip_grad_value_(list, 2.5), SITU_OK);
  expect_exact(situ_grad(a), SITU_SHAPE(2, 2), 1, -2, 2.5, 2.5);
  expect_exact(situ_grad(b), SITU_SHAPE(3), 0.5, 0.25, -2.5);
  assert_null(situ_grad(idle));
  situ_optim *o = situ_optim_sgd(list, 1e-3, NULL);
  assert_int_equal(situ_optim_clip_grad_value_(o, -1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optim_clip_grad_value_", "clip_value is -1");
  assert_int_equal(situ_optim_clip_grad_value_(o, (double)NAN), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optim_clip_grad_value_", "clip_value is nan");
  assert_int_equal(situ_optim_clip_grad_value_(o, 0.5), SITU_OK);
  expect_exact(situ_grad(b), SITU_SHAPE(3), 0.5, 0.25, -0.5);
  situ_optim_free(o);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(scales_to_the_norm), TEST(small_gradients_keep_their_bits),
                                      TEST(no_gradient_has_norm_zero), TEST(clamps_to_a_value) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
