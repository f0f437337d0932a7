/* Averages of a model, against torch 2.15's values; they move, are saved and cloned as modules.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
#include <math.h>

#include "situ/graph.h"
#include "situ/optim.h"
#include "situ/place.h"
#include "situ/sys/alloc.h"
#include "support/modules.h"

static situ_nn_module *model(void) { return situ_nn_linear(1, 1, &(situ_nn_linear_options){ HERE }); }

static void fill(situ_nn_module *m, double weight) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  assert_non_null(situ_fill_(situ_nn_get_tensor(m, "weight"), weight));
  assert_non_null(situ_fill_(situ_nn_get_tensor(m, "bias"), -weight));
  SITU_IGNORE(situ_scope_end(&scope));
}

static void expect_average(situ_nn_module *averaged, double weight, double count) {
  expect_values(situ_detach(situ_nn_get_tensor(averaged, "module.weight")), SITU_SHAPE(1, 1), weight);
  expect_values(situ_detach(situ_nn_get_tensor(averaged, "module.bias")), SITU_SHAPE(1), -weight);
  expect_exact(situ_nn_get_tensor(averaged, "n_averaged"), SITU_SCALAR, count);
}

/* In the middle the average is cloned, and the clone goes on. */
static void follows_torch(void **state) {
  (void)state;
  static const double values[] = { 1, 2, 4, 8 }, ema[] = { 1, 1.1, 1.39, 2.051 }, swa[] = { 1, 1.5, 7 / 3.0, 3.75 };
  const double *want[] = { ema, swa, values }; /* decay 0: what the model has */
  for (int k = 0; k < 3; k++) {
    situ_nn_module *m = model();
    situ_averaged_model_options options = situ_averaged_model_defaults();
    if (k != 1) options.decay = k == 0 ? 0.9 : 0;
    situ_nn_module *mean = situ_optim_averaged_model(m, &options);
    for (int i = 0; i < 4; i++) {
      fill(m, values[i]);
      assert_int_equal(situ_optim_update_parameters(mean, m), SITU_OK);
      expect_average(mean, want[k][i], i + 1);
      if (i != 1) continue;
      situ_nn_module *clone = situ_nn_clone(mean);
      situ_nn_free(mean);
      mean = clone;
    }
    situ_tensor *x = T32(SITU_SHAPE(1, 1), 2);
    expect_values(situ_detach(situ_nn_forward(mean, x)), SITU_SHAPE(1, 1), want[k][3]);
    situ_nn_free(mean);
    situ_nn_free(m);
  }
}

/* Nothing is left behind, and the next update reads the model on its own device. A loaded state is counted on. */
static void moves_and_loads_as_a_module(void **state) {
  (void)state;
  situ_nn_module *m = model(), *mean = situ_optim_averaged_model(m, NULL), *other;
  assert_true(situ_device_of(situ_nn_get_tensor(mean, "n_averaged")).kind == test_device().kind);
  fill(m, 1);
  assert_int_equal(situ_optim_update_parameters(mean, m), SITU_OK);
  const situ_device elsewhere = { SITU_SIM, 1 };
  assert_int_equal(situ_nn_to(mean, elsewhere), SITU_OK);
  fill(m, 3);
  assert_int_equal(situ_optim_update_parameters(mean, m), SITU_OK);
  situ_tree *dict = situ_nn_state_dict(mean);
  assert_int_equal(situ_tree_count(dict), 3);
  for (int64_t i = 0; i < 3; i++)
    assert_true(situ_device_equal(situ_device_of(situ_tree_tensor_at(dict, i)), elsewhere));
  other = situ_optim_averaged_model(m, NULL);
  assert_int_equal(situ_optim_update_parameters(other, m), SITU_OK);
  assert_int_equal(situ_nn_load_state_dict(other, dict, NULL), SITU_OK);
  situ_nn_module *loaded = other;
  other = situ_nn_clone(loaded);
  situ_nn_free(loaded);
  fill(m, 8);
  assert_int_equal(situ_optim_update_parameters(other, m), SITU_OK);
  expect_average(other, 4, 3);
  situ_tree_free(dict);
  situ_nn_free(other);
  situ_nn_free(mean);
  situ_nn_free(m);
}

/* Buffers are copied, or averaged if that is asked for; integers among them are cut as in torch. */
static void buffers_too(void **state) {
  (void)state;
  static const double means[] = { 4, 3 }, counts[] = { 5, 3 };
  for (int k = 0; k < 2; k++) {
    situ_nn_module *m = situ_nn_batch_norm1d(1, OPTIONS_AT(situ_nn_batch_norm, with HERE));
    situ_averaged_model_options options = situ_averaged_model_defaults();
    options.use_buffers = k == 1;
    situ_nn_module *mean = situ_optim_averaged_model(m, &options);
    for (int i = 0; i < 2; i++) {
      assert_non_null(situ_fill_(situ_nn_get_tensor(m, "running_mean"), i == 0 ? 2 : 4));
      assert_non_null(situ_fill_(situ_nn_get_tensor(m, "num_batches_tracked"), i == 0 ? 2 : 5));
      assert_int_equal(situ_optim_update_parameters(mean, m), SITU_OK);
    }
    expect_values(situ_nn_get_tensor(mean, "module.running_mean"), SITU_SHAPE(1), means[k]);
    expect_exact(situ_nn_get_tensor(mean, "module.num_batches_tracked"), SITU_SCALAR, counts[k]);
    situ_nn_free(mean);
    situ_nn_free(m);
  }
}

static void refuses_what_does_not_fit(void **state) {
  (void)state;
  situ_nn_module *m = model(), *wide = situ_nn_linear(1, 2, &(situ_nn_linear_options){ HERE }),
                 *bare = situ_nn_linear(1, 1, &(situ_nn_linear_options){ HERE, .no_bias = true });
  situ_averaged_model_options options = situ_averaged_model_defaults();
  options.decay = 1.5;
  expect_refused(situ_optim_averaged_model(m, &options), SITU_E_ARG, "optim_averaged_model", "decay is 1.5");
  options.decay = -1;
  expect_refused(situ_optim_averaged_model(m, &options), SITU_E_ARG, "optim_averaged_model", "SITU_NONE for the mean");
  situ_nn_module *mean = situ_optim_averaged_model(m, NULL);
  fill(m, 5);
  assert_int_equal(situ_optim_update_parameters(mean, m), SITU_OK);
  assert_int_equal(situ_optim_update_parameters(mean, wide), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "optim_update_parameters", "weight is [2, 1], its average [1, 1]");
  assert_int_equal(situ_optim_update_parameters(mean, bare), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "optim_update_parameters", "has 1 parameters");
  assert_int_equal(situ_optim_update_parameters(m, m), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optim_update_parameters", "averaged is a Linear");
  expect_average(mean, 5, 1);
  situ_nn_free(mean);
  situ_nn_free(bare);
  situ_nn_free(wide);
  situ_nn_free(m);
}

/* Wherever memory ends, there is an error and no average. */
static void without_memory(void **state) {
  (void)state;
  situ_nn_module *m = model(), *mean;
  uint64_t nth = 0;
  do {
    situ_error_clear();
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
    situ_fail_allocation(++nth, false);
    mean = situ_optim_averaged_model(m, NULL);
    situ_fail_allocation(0, false);
    assert_int_equal(situ_error(), mean ? SITU_OK : SITU_E_NOMEM);
  } while (!mean);
  assert_true(nth > 10);
  situ_nn_free(mean);
  situ_nn_free(m);
}

/* ---- in graphs ---- */

typedef struct captured_case {
  situ_averaged_model_options options;
  situ_dtype dtype;
  int first, updates; /* the step that is captured; updates in each */
} captured_case;

static void update_step(const captured_case *c, int step, bool replayed, situ_nn_module *m, situ_nn_module *mean) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *state = situ_nn_state_dict(m);
  for (int64_t i = 0; i < situ_tree_count(state); i++)
    assert_non_null(situ_fill_(situ_tree_tensor_at(state, i), 3 + (double)i + 0.3 * step * step));
  situ_tree_free(state);
  if (!replayed && step == c->first) assert_int_equal(situ_graph_capture_begin(test_device()), SITU_OK);
  for (int k = 0; !replayed && k < c->updates; k++) assert_int_equal(situ_optim_update_parameters(mean, m), SITU_OK);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

static situ_nn_module *mean_of_steps(const captured_case *c, situ_nn_module *m, bool as_graph) {
  enum { STEPS = 6 };
  situ_nn_module *mean = situ_optim_averaged_model(m, &c->options);
  const captured_case never = { .options = c->options, .first = -1, .updates = c->updates };
  situ_graph *graph = NULL;
  for (int step = 0; step < STEPS; step++) {
    const bool replayed = graph && step < STEPS - 1; /* the last one is by calls again */
    update_step(as_graph ? c : &never, step, replayed, m, mean);
    if (as_graph && step == c->first) assert_non_null(graph = situ_graph_capture_end());
    else if (replayed) assert_int_equal(situ_graph_replay(graph), SITU_OK);
  }
  situ_graph_free(graph);
  return mean;
}

/* By bits those of the calls: a replay has the share of its own update. */
static void averages_in_graphs(void **state) {
  (void)state;
  for (int i = 0; i < 48; i++) {
    static const int first[] = { 0, 1, 3 };
    situ_averaged_model_options options = situ_averaged_model_defaults();
    if (i % 2) options.decay = 0.9;
    options.use_buffers = i / 2 % 2;
    const captured_case c = {
      .options = options, .dtype = i / 4 % 2 ? SITU_BF16 : SITU_F32, .first = first[i / 8 % 3], .updates = 1 + i / 24
    };
    situ_nn_module *m = situ_nn_batch_norm1d(3, OPTIONS_AT(situ_nn_batch_norm, with HERE, with.dtype = c.dtype));
    situ_nn_module *calls = mean_of_steps(&c, m, false), *graph = mean_of_steps(&c, m, true);
    situ_tree *a = situ_nn_state_dict(calls), *b = situ_nn_state_dict(graph);
    for (int64_t k = 0; k < situ_tree_count(a); k++)
      if (!test_same_bits(situ_tree_tensor_at(a, k), situ_tree_tensor_at(b, k)))
        fail_msg("case %d: %s differs", i, situ_tree_key(a, k));
    situ_tree_free(a), situ_tree_free(b);
    situ_nn_free(calls), situ_nn_free(graph), situ_nn_free(m);
  }
}

/* Neither a stale module nor a replay that fails counts an update. */
static void replays_that_fail_count_no_update(void **state) {
  (void)state;
  situ_nn_module *m = model(), *mean = situ_optim_averaged_model(m, NULL), *other = situ_optim_averaged_model(m, NULL);
  fill(m, 1);
  assert_int_equal(situ_graph_capture_begin(test_device()), SITU_OK);
  assert_int_equal(situ_optim_update_parameters(mean, m), SITU_OK);
  assert_int_equal(situ_optim_update_parameters(other, m), SITU_OK);
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  situ_nn_free(other);
  assert_int_equal(situ_graph_replay(graph), SITU_E_ARG);
  expect_error(SITU_E_ARG, "graph_replay", "averaged");
  situ_graph_free(graph);
  fill(m, 3);
  assert_int_equal(situ_optim_update_parameters(mean, m), SITU_OK);
  expect_average(mean, 2, 2);
  situ_nn_free(mean);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(follows_torch),
                                      MODULE_TEST(moves_and_loads_as_a_module),
                                      MODULE_TEST(buffers_too),
                                      MODULE_TEST(refuses_what_does_not_fit),
                                      MODULE_TEST(without_memory),
                                      MODULE_TEST(averages_in_graphs),
                                      MODULE_TEST(replays_that_fail_count_no_update) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
