/* Loop and Scan: gradients flow through each iteration, a run begins anew, and what would not end, or is not a loop, is
   refused. The values are onnxruntime's (nodes.c; tools/exchange/onnx_kept.py).
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "program/onnx/message.h"
#include "situ/situ.h"

/* kept_loop_until: x w, until its sum is at least 99. */
static situ_tensor *run_until(double x, int64_t most) {
  situ_nn_module *m = load_kept("loop_until", most);
  situ_tensor *y = situ_nn_forward(m, situ_full(SITU_SHAPE(2), x, NULL));
  situ_nn_free(m);
  return y;
}

static void as_many_iterations_as_the_caller_allows(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  assert_non_null(run_until(1, 0)); /* (1.25, 2.5), (1.875, 5.625), ...: six times */
  assert_non_null(run_until(1, 6));
  situ_error_mode(SITU_ERROR_QUIET);
  assert_null(run_until(1, 5));
  assert_non_null(strstr(situ_error_message(), "situ_load_options.max_iterations"));
  expect_refused(NULL, SITU_E_LIMIT, "loops run more than 5 iterations in one call");
  assert_null(run_until(-1, 0)); /* never ends */
  expect_refused(NULL, SITU_E_LIMIT, "loops run more than 1000000 iterations in one call");
  assert_null(run_until(0, 1000));
  expect_refused(NULL, SITU_E_LIMIT, "loops run more than 1000 iterations");
  assert_null(situ_export_load("any", &(situ_load_options){ .max_iterations = -1 }));
  expect_refused(NULL, SITU_E_ARG, "max_iterations is -1: 1 or more are a limit");
  SITU_IGNORE(situ_scope_end(&scope));
}

/* The iterations of an inner loop count each time. */
static void loops_in_loops_count_together(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_error_mode(SITU_ERROR_QUIET);
  const int64_t many = 4000;
  situ_nn_module *m = load_kept("loops_in_loops", 1000);
  situ_tensor *n = situ_from_host(&many, sizeof many, SITU_SCALAR, &(situ_options){ .dtype = SITU_I64 });
  situ_tree *in = SITU_TREE(n, situ_ones(SITU_SHAPE(2), NULL));
  assert_null(situ_nn_call(m, in));
  expect_refused(NULL, SITU_E_LIMIT, "loops run more than 1000 iterations");
  situ_tree_free(in);
  situ_nn_free(m);
  SITU_IGNORE(situ_scope_end(&scope));
}

/* An input of 2^60 elements, which are all one. */
static void a_scan_of_very_many_elements_is_refused_at_once(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_error_mode(SITU_ERROR_QUIET);
  message graph = { .length = 0 }, body = { .length = 0 }, node = { .length = 0 }, attribute = { .length = 0 };
  put_any(&body, INPUT, "e");
  put_any(&body, OUTPUT, "o");
  put_node(&body, "Neg", "e", NULL, "o", NULL);
  put_text(&node, 1, "x");
  put_text(&node, 2, "y");
  put_text(&node, 4, "Scan");
  put_text(&attribute, 1, "body");
  put_int(&attribute, 20, 5);
  put_message(&attribute, 6, &body);
  put_message(&node, 5, &attribute);
  attribute.length = 0;
  put_text(&attribute, 1, "num_scan_inputs");
  put_int(&attribute, 20, 2);
  put_int(&attribute, 3, 1);
  put_message(&node, 5, &attribute);
  put_any(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  put_message(&graph, NODE, &node);
  situ_nn_module *m = load_graph(&graph, 17);
  if (!m) fail_msg("%s", situ_error_message());
  assert_null(situ_nn_forward(m, situ_expand(situ_ones(SITU_SHAPE(1), NULL), SITU_SHAPE(INT64_C(1) << 60))));
  expect_refused(NULL, SITU_E_LIMIT, "has 1152921504606846976 iterations, and a call makes at most 1000000");
  situ_nn_free(m);
  SITU_IGNORE(situ_scope_end(&scope));
}

/* h = tanh(e w + v + h w) of three elements: what backward gives is what differences give. */
static double loss_of(situ_nn_module *m, situ_tensor *x) {
  double loss = 0;
  situ_tree *in = SITU_TREE(x), *out = situ_nn_call(m, in);
  assert_int_equal(situ_item(situ_sum(situ_tree_tensor_at(out, 1), NULL), &loss), SITU_OK);
  situ_tree_free(out);
  situ_tree_free(in);
  return loss;
}

static void gradients_are_those_of_all_iterations(void **state) {
  (void)state;
  enum { WEIGHTS = 4 };
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = load_kept("scan_of_layers", 0);
  assert_true(situ_nn_to_dtype(m, SITU_F64) == SITU_OK);
  situ_tensor *x = situ_full(SITU_SHAPE(3, 1, 2), 0.5, &(situ_options){ .dtype = SITU_F64 });
  situ_tensor *w = situ_nn_get_tensor(m, "w");
  situ_tree *in = SITU_TREE(x), *out = situ_nn_call(m, in);
  assert_int_equal(situ_backward(situ_sum(situ_tree_tensor_at(out, 1), NULL), NULL), SITU_OK);
  situ_tree_free(out);
  situ_tree_free(in);
  double grad[WEIGHTS], value[WEIGHTS];
  assert_int_equal(situ_copy_to_host(situ_grad(w), grad, sizeof grad), SITU_OK);
  assert_int_equal(situ_copy_to_host(w, value, sizeof value), SITU_OK);
  situ_scope no_grad;
  situ_scope_begin_no_grad(&no_grad);
  for (int i = 0; i < WEIGHTS; i++) {
    double loss[2];
    const double before = value[i];
    for (int k = 0; k < 2; k++) {
      value[i] = before + (k ? 1e-5 : -1e-5);
      assert_int_equal(situ_copy_from_host(w, value, sizeof value), SITU_OK);
      loss[k] = loss_of(m, x);
    }
    value[i] = before;
    assert_true(fabs((loss[1] - loss[0]) / 2e-5 - grad[i]) < 1e-6);
  }
  assert_int_equal(situ_scope_end(&no_grad), SITU_OK);
  situ_nn_free(m);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* loops_that_are_traced: a Loop that gives a list, an If in it that writes in place, and in that a Scan of two states. */
static void loops_are_traced(void **state) {
  (void)state;
  expect_traced("loop_until", true, SITU_SHAPE(2));
  expect_traced("scan_of_layers", false, SITU_SHAPE(3, 1, 2));
  expect_traced("loops_that_are_traced", false, SITU_SHAPE(2));
  const situ_shape three[] = { SITU_SHAPE(2), SITU_SHAPE(2, 3), SITU_SHAPE(3, 2) };
  expect_all_traced("scan_along_other_axes", false, three, 3);
}

static void expect_untraced(const char *name, int64_t count, const char *why) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_error_mode(SITU_ERROR_QUIET);
  situ_nn_module *m = load_kept(name, 0);
  situ_tensor *n = situ_from_host(&count, sizeof count, SITU_SCALAR, &(situ_options){ .dtype = SITU_I64 });
  situ_tree *in = SITU_TREE(n, situ_ones(SITU_SHAPE(2), NULL));
  assert_null(situ_export(m, in));
  expect_refused(NULL, SITU_E_UNSUPPORTED, why);
  situ_tree_free(in);
  situ_nn_free(m);
  SITU_IGNORE(situ_scope_end(&scope));
}

static void what_while_loop_and_scan_are_not_is_refused(void **state) {
  (void)state;
  expect_untraced("loop_that_swaps", 3, "gives lists whose length values decide, for which torch.export has no form");
  expect_untraced("loop_that_grows", 3, "carries a tensor whose shape or dtype an iteration changes");
}

static void what_is_not_a_loop_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *op, *why;
  } bad[] = { { "Loop", "has a Loop 'here' without its first two inputs" },
              { "Scan", "has a Scan 'here' without inputs that it scans" } };
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_error_mode(SITU_ERROR_QUIET);
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    message graph = { .length = 0 };
    put_any(&graph, INPUT, "x");
    put_any(&graph, OUTPUT, "y");
    put_node(&graph, bad[k].op, "x", NULL, "y", NULL);
    expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, bad[k].why);
  }
  message graph = { .length = 0 };
  put_any(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  put_node(&graph, "Loop", "x", "x", "y", NULL);
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "has a Loop 'here' without a body");
  message body = { .length = 0 }, attribute = { .length = 0 };
  put_any(&body, INPUT, "i");
  put_text(&attribute, 1, "body");
  put_int(&attribute, 20, 5);
  put_message(&attribute, 6, &body);
  graph.length = 0;
  put_any(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  put_node(&graph, "Loop", "x", "x", "y", &attribute);
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "has a graph in a node with 1 inputs instead of 2");
  SITU_IGNORE(situ_scope_end(&scope));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(as_many_iterations_as_the_caller_allows),
    cmocka_unit_test(loops_in_loops_count_together),
    cmocka_unit_test(a_scan_of_very_many_elements_is_refused_at_once),
    cmocka_unit_test(gradients_are_those_of_all_iterations),
    cmocka_unit_test(loops_are_traced),
    cmocka_unit_test(what_while_loop_and_scan_are_not_is_refused),
    cmocka_unit_test(what_is_not_a_loop_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
