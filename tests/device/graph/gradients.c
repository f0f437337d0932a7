/* Gradients of a captured backward: what a replay adds to, what is refused because a replay could not repeat it, and
   that a refusal or a failed allocation changes no gradient. programs.c draws the steps that are right.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include "situ/graph.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"

enum { LEAVES = 3 };

static situ_tensor *values_of(double a, double b) { return situ_to(T32(SITU_SHAPE(2), a, b), there()); }
static situ_tensor *new_leaf(double a, double b) { return situ_requires_grad_(values_of(a, b), true); }

/* The gradient of leaf i is (i + 1) x. */
static situ_status step(situ_tensor *const *leaf, situ_tensor *x, bool create_graph) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *sum = situ_mul(leaf[0], x);
  for (int i = 1; i < LEAVES; i++) sum = situ_add(sum, situ_mul_scalar(situ_mul(leaf[i], x), i + 1));
  situ_status status = situ_backward(situ_sum(sum, NULL), &(situ_backward_options){ .create_graph = create_graph });
  const situ_status end = situ_scope_end(&s);
  return status == SITU_OK ? end : status;
}

static void expect_grads(situ_tensor *const *leaf, double times) {
  for (int i = 0; i < LEAVES; i++)
    expect_exact(situ_grad(leaf[i]), SITU_SHAPE(2), (i + 1) * times, 2 * (i + 1) * times);
}

/* Each allocation of the captured step fails in turn; a step that failed has changed nothing. */
static void a_capture_without_memory_changes_no_gradient(void **state) {
  (void)state;
  situ_tensor *leaf[LEAVES], *x = values_of(1, 2);
  for (int i = 0; i < LEAVES; i++) leaf[i] = new_leaf(i, 3);
  expect_ok(step(leaf, x, false));
  situ_status status = SITU_E_NOMEM;
  situ_graph *graph = NULL;
  uint64_t failed = 0;
  for (uint64_t nth = 1; status != SITU_OK; nth++) {
    expect_ok(situ_graph_capture_begin(there()));
    situ_fail_allocation(nth, false);
    status = step(leaf, x, false);
    situ_fail_allocation(0, false);
    graph = situ_graph_capture_end();
    if (status == SITU_OK) break;
    assert_null(graph);
    assert_true(status == SITU_E_NOMEM && nth < 1000);
    situ_error_clear();
    expect_grads(leaf, 1);
    failed++;
  }
  assert_true(failed > 3 * LEAVES);
  assert_non_null(graph);
  expect_grads(leaf, 2);
  expect_ok(situ_graph_replay(graph));
  expect_grads(leaf, 3);
  situ_graph_free(graph);
}

static void expect_refused_capture(situ_tensor *const *leaf, situ_tensor *x, bool create_graph, const char *why) {
  expect_ok(situ_graph_capture_begin(there()));
  assert_int_equal(step(leaf, x, create_graph), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", why);
  assert_null(situ_graph_capture_end());
  situ_error_clear();
}

/* Under create_graph the sum is another tensor, which the next replay would not read. */
static void sums_that_no_replay_repeats_are_refused(void **state) {
  (void)state;
  situ_tensor *leaf[LEAVES], *x = values_of(1, 2);
  for (int i = 0; i < LEAVES; i++) leaf[i] = new_leaf(i, 3);
  expect_ok(step(leaf, x, false));
  expect_refused_capture(leaf, x, true, "create_graph");
  expect_grads(leaf, 1);
  expect_ok(situ_set_grad(leaf[1], situ_expand(situ_to(T32(SITU_SHAPE(1), 7), there()), SITU_SHAPE(2))));
  expect_refused_capture(leaf, x, false, "share memory");
  expect_exact(situ_grad(leaf[0]), SITU_SHAPE(2), 1, 2);
  expect_exact(situ_grad(leaf[1]), SITU_SHAPE(2), 7, 7);
}

/* Each replay makes the first gradient anew, and adds the second. */
static void sums_of_gradients_that_the_graph_makes_are_repeated(void **state) {
  (void)state;
  situ_tensor *leaf[LEAVES], *x = values_of(0, 0);
  for (int i = 0; i < LEAVES; i++) leaf[i] = new_leaf(i, 3);
  expect_ok(situ_graph_capture_begin(there()));
  expect_ok(step(leaf, x, true));
  expect_ok(step(leaf, x, true));
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  for (int turn = 1; turn < 3; turn++) {
    assert_non_null(situ_copy_(x, values_of(turn, 2 * turn)));
    expect_ok(situ_graph_replay(graph));
    expect_grads(leaf, 2 * turn);
  }
  situ_graph_free(graph);
}

/* inside: the graph takes the step of an own SGD. Returns what a replay says after the gradients were dropped. */
static situ_status replay_after_a_drop(bool before, bool inside) {
  situ_tensor *leaf[LEAVES], *x = values_of(1, 2);
  for (int i = 0; i < LEAVES; i++) leaf[i] = new_leaf(1, 1);
  if (before) expect_ok(step(leaf, x, false));
  expect_ok(situ_graph_capture_begin(there()));
  expect_ok(step(leaf, x, false));
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  for (int i = 0; inside && i < LEAVES; i++) assert_non_null(situ_sub_(leaf[i], situ_grad(leaf[i])));
  expect_ok(situ_scope_end(&s));
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  expect_ok(situ_graph_replay(graph));
  for (int i = 0; i < LEAVES; i++) expect_ok(situ_set_grad(leaf[i], NULL));
  const situ_status status = situ_graph_replay(graph);
  if (status == SITU_OK) expect_exact(leaf[0], SITU_SHAPE(2), 1 - 3, 1 - 6);
  else expect_error(SITU_E_STATE, "graph_replay", "set_to_none");
  situ_graph_free(graph);
  return status;
}

/* A gradient that only the program could read, or that goes on adding up, is refused where the program dropped it. */
static void dropped_gradients_are_refused(void **state) {
  (void)state;
  assert_int_equal(replay_after_a_drop(false, false), SITU_E_STATE);
  assert_int_equal(replay_after_a_drop(true, false), SITU_E_STATE);
  assert_int_equal(replay_after_a_drop(true, true), SITU_E_STATE);
  assert_int_equal(replay_after_a_drop(false, true), SITU_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_capture_without_memory_changes_no_gradient),
    PAIR_TEST(sums_that_no_replay_repeats_are_refused),
    PAIR_TEST(sums_of_gradients_that_the_graph_makes_are_repeated),
    PAIR_TEST(dropped_gradients_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
