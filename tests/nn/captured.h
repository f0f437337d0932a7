/* A module's training step as a graph beside the same step by calls.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_CAPTURED_H
#define SITU_TEST_CAPTURED_H

#include <stdlib.h>
#include <string.h>

#include "situ/graph.h"
#include "situ/nn.h"
#include "support/test.h"

/* Forward and backward; *y is set to the result, in memory that a replay writes as well. */
static inline bool captured_step(situ_nn_module *m, situ_tensor *x, situ_tensor **y) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *result = situ_nn_forward(m, x);
  if (result && situ_requires_grad(result)) SITU_IGNORE(situ_backward(situ_sum(situ_square(result), NULL), NULL));
  if (result) situ_set(y, situ_detach(result));
  return situ_scope_end(&s) == SITU_OK && situ_error() == SITU_OK;
}

static inline bool captured_same_state(situ_nn_module *a, situ_nn_module *b) {
  situ_tree *x = situ_nn_state_dict(a), *y = situ_nn_state_dict(b);
  bool same = situ_tree_count(x) == situ_tree_count(y);
  for (int64_t i = 0; same && i < situ_tree_count(x); i++)
    same = test_same_bits(situ_tree_tensor_at(x, i), situ_tree_tensor_at(y, i));
  situ_tree_free(x), situ_tree_free(y);
  x = situ_nn_parameters(a), y = situ_nn_parameters(b);
  for (int64_t i = 0; same && i < situ_tree_count(x); i++) {
    situ_tensor *g = situ_grad(situ_tree_tensor_at(x, i)), *h = situ_grad(situ_tree_tensor_at(y, i));
    same = g && h ? test_same_bits(g, h) : !g && !h;
  }
  situ_tree_free(x), situ_tree_free(y);
  return same;
}

/* Steps of the module by calls, and of a clone of it as a graph: equal bits of results, parameters, buffers and added
   up gradients. Or the capture is refused, by the layer's name, and has changed nothing. Returns whether it was. */
static inline bool captured_is_refused(situ_nn_module *m, situ_tensor *input) {
  enum { STEPS = 5 };
  situ_nn_module *clone = situ_nn_clone(m);
  situ_tensor *x = situ_clone(situ_detach(input)), *by_calls = NULL, *by_graph = NULL;
  situ_graph *graph = NULL;
  bool refused = false;
  assert_non_null(clone);
  for (int step = 0; step < STEPS && !refused; step++) {
    const situ_generator random = situ_get_rng_state();
    if (situ_dtype_is_floating(situ_dtype_of(x))) assert_non_null(situ_mul_scalar_(x, -0.75));
    if (step == 0) { /* so that both have gradients to add to */
      for (int k = 0; k < 2; k++) {
        situ_set_rng_state(random);
        situ_tree *parameters = situ_nn_parameters(k ? clone : m);
        for (int64_t i = 0; i < situ_tree_count(parameters); i++)
          assert_int_equal(situ_set_grad(situ_tree_tensor_at(parameters, i), NULL), SITU_OK);
        situ_tree_free(parameters);
        assert_true(captured_step(k ? clone : m, x, k ? &by_graph : &by_calls));
      }
    } else if (step == 1) {
      assert_int_equal(situ_graph_capture_begin(situ_device_of(x)), SITU_OK);
      refused = !captured_step(clone, x, &by_graph);
      const char *name = refused ? situ_error_message() : "";
      if (refused && !strstr(name, "BatchNorm")) fail_msg("refused without the layer's name: %s", name);
      graph = situ_graph_capture_end();
      situ_error_clear();
    } else assert_int_equal(situ_graph_replay(graph), SITU_OK);
    if (refused) break;
    situ_set_rng_state(random);
    if (step > 0) assert_true(captured_step(m, x, &by_calls));
    if (!test_same_bits(by_calls, by_graph)) fail_msg("step %d: the result of a graph is not that of calls", step);
    if (!captured_same_state(m, clone)) fail_msg("step %d: the state of a graph is not that of calls", step);
  }
  if (refused && !captured_same_state(m, clone)) fail_msg("a refused capture has changed the module");
  situ_graph_free(graph);
  situ_release(by_calls), situ_release(by_graph);
  situ_nn_free(clone);
  return refused;
}

#endif
