/* An If on a value: the branch that runs may change from run to run, gradients reach what ran, and a run without
   values takes both.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program/onnx/message.h"
#include "situ/situ.h"

/* kept_if_on_values: if sum(x) > 0: x w; else, if x has more than 3 elements: x v, else -x; and Relu of that
   (tools/exchange/onnx_kept.py). The first run skips weights, which later runs need laid out. */
static void run_both(const char *name, situ_shape shape) {
  static const double values[] = { -1, 2, -1, 3, -2 };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_nn_module *m = load_kept(name, 0);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    situ_nn_module *fresh = load_kept(name, 0);
    situ_tensor *x = situ_full(shape, values[i], NULL);
    situ_tensor *y = situ_nn_forward(m, x), *want = situ_nn_forward(fresh, x);
    bool same = false;
    assert_int_equal(situ_equal(y, want, &same), SITU_OK);
    assert_true(same);
    situ_nn_free(fresh);
  }
  situ_nn_free(m);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

static void a_branch_runs_that_was_skipped_before(void **state) {
  (void)state;
  run_both("if_on_values", SITU_SHAPE(2, 2));
  run_both("if_on_values", SITU_SHAPE(1, 2));
  run_both("if_around_lstm", SITU_SHAPE(3, 1, 2));
}

static void gradients_reach_what_ran(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = load_kept("if_on_values", 0);
  assert_int_equal(situ_backward(situ_sum(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 2), NULL)), NULL), NULL), SITU_OK);
  assert_non_null(situ_grad(situ_nn_get_tensor(m, "w")));
  assert_null(situ_grad(situ_nn_get_tensor(m, "v")));
  situ_nn_free(m);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

static void no_export_of_branches_of_two_shapes(void **state) {
  (void)state;
  expect_no_export("if_around_lstm", SITU_SHAPE(3, 1, 2));
}

static void both_branches_are_traced(void **state) {
  (void)state;
  expect_traced("if_on_values", false, SITU_SHAPE(2, 2));
}

/* As deep as their constants are. */
static void trees_are_traced(void **state) {
  (void)state;
  expect_traced("trees", false, SITU_SHAPE(5, 2));
  expect_traced("tree_regressor", false, SITU_SHAPE(5, 3));
  expect_traced("tree_classifier_of_two", false, SITU_SHAPE(5, 3));
  expect_traced("tree_classifier_of_three", false, SITU_SHAPE(5, 3));
}

static void an_if_without_an_else_is_refused(void **state) {
  (void)state;
  message graph = { .length = 0 }, branch = { .length = 0 }, inner = { .length = 0 };
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_error_mode(SITU_ERROR_QUIET);
  put_any(&graph, INPUT, "x");
  put_node(&inner, "Relu", "x", NULL, "r", NULL);
  put_any(&inner, OUTPUT, "r");
  put_text(&branch, 1, "then_branch");
  put_int(&branch, 20, 5);
  put_message(&branch, 6, &inner);
  put_node(&graph, "If", "x", NULL, "y", &branch);
  put_any(&graph, OUTPUT, "y");
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "has an If 'here' without branches");
  SITU_IGNORE(situ_scope_end(&scope));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_branch_runs_that_was_skipped_before),
    cmocka_unit_test(gradients_reach_what_ran),
    cmocka_unit_test(no_export_of_branches_of_two_shapes),
    cmocka_unit_test(both_branches_are_traced),
    cmocka_unit_test(trees_are_traced),
    cmocka_unit_test(an_if_without_an_else_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
