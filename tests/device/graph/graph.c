/* Graphs: what was recorded runs again on the same memory, gives the same bits as without a graph, and refuses whatever a replay
   could not repeat.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include <string.h>

#include "situ/graph.h"
#include "situ/optim.h"
#include "situ/sys/optimizer.h"
#include "support/pairs.h"

enum { ROWS = 6, IN = 5, WIDE = 7, CLASSES = 3, STEPS = 5 };

static situ_nn_module *model(void) {
  situ_manual_seed(3);
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(IN, WIDE, NULL), situ_nn_gelu(SITU_GELU_NONE),
                                         situ_nn_linear(WIDE, CLASSES, NULL));
  expect_ok(situ_nn_to(m, there()));
  return m;
}

static void fill_batch(int step, double x[ROWS * IN], double y[ROWS]) {
  for (int i = 0; i < ROWS * IN; i++) x[i] = (double)((i * 7 + step * 5) % 11) / 11 - 0.5;
  for (int i = 0; i < ROWS; i++) y[i] = (double)((i + step) % CLASSES);
}

/* The whole of a step but the optimiser's part is one graph; losses are those of the steps taken one by one, to the bit. */
static void train(bool graphed, double *loss_of, double *weight) {
  situ_nn_module *m = model();
  situ_optim *o = situ_optim_adam(situ_nn_parameters(m), 0.05, NULL);
  double x[ROWS * IN], y[ROWS];
  fill_batch(0, x, y);
  situ_tensor *in = test_tensor(SITU_F32, SITU_SHAPE(ROWS, IN), x),
              *classes = test_tensor(SITU_I64, SITU_SHAPE(ROWS), y), *loss = NULL;
  situ_graph *graph = NULL;
  for (int step = 0; step < STEPS; step++) {
    fill_batch(step, x, y);
    expect_ok(situ_copy_(in, test_tensor(SITU_F32, SITU_SHAPE(ROWS, IN), x)) ? SITU_OK : situ_error());
    expect_ok(situ_copy_(classes, test_tensor(SITU_I64, SITU_SHAPE(ROWS), y)) ? SITU_OK : situ_error());
    if (graph) {
      expect_ok(situ_graph_replay(graph));
    } else {
      expect_ok(situ_optim_zero_grad(o, true));
      if (graphed) expect_ok(situ_graph_capture_begin(there()));
      loss = situ_cross_entropy(situ_nn_forward(m, in), classes, NULL);
      expect_ok(situ_backward(loss, NULL));
      if (graphed) assert_non_null(graph = situ_graph_capture_end());
    }
    expect_ok(situ_optim_step(o));
    expect_ok(situ_item(loss, &loss_of[step]));
  }
  test_read(situ_nn_get_tensor(m, "0.weight"), weight);
  assert_int_equal(situ_graph_length(graph) > 8, graphed);
  situ_graph_free(graph);
  situ_optim_free(o);
  situ_nn_free(m);
}

static void a_replay_computes_what_the_calls_did(void **state) {
  (void)state;
  double eager[STEPS], graphed[STEPS], a[WIDE * IN], b[WIDE * IN];
  train(false, eager, a);
  train(true, graphed, b);
  assert_memory_equal(eager, graphed, sizeof eager);
  assert_memory_equal(a, b, sizeof a);
  assert_true(eager[STEPS - 1] != eager[0]);
}

static void it_reads_and_writes_the_memory_it_was_recorded_with(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(3), 1, 2, 3);
  expect_ok(situ_graph_capture_begin(there()));
  situ_tensor *y = situ_mul_scalar(situ_add_scalar(x, 1), 2); /* what is between is nobody's */
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  assert_int_equal(situ_graph_length(graph), 2);
  expect_exact(y, SITU_SHAPE(3), 4, 6, 8); /* recording computes too */
  for (int k = 0; k < 3; k++) {
    assert_non_null(situ_fill_(x, k));
    expect_ok(situ_graph_replay(graph));
    expect_exact(y, SITU_SHAPE(3), 2. * (k + 1), 2. * (k + 1), 2. * (k + 1));
  }
  situ_graph_free(graph);
}

/* What a replay writes counts as written: a backward pass that kept it is refused. */
static void a_replay_is_a_write(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(2), 1, 2), true);
  expect_ok(situ_graph_capture_begin(there()));
  situ_tensor *y = situ_exp(x);
  situ_graph *graph = situ_graph_capture_end();
  situ_tensor *loss = situ_sum(y, NULL);
  expect_ok(situ_graph_replay(graph));
  assert_int_equal(situ_backward(loss, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "", "changed");
  situ_graph_free(graph);
}

typedef struct trial {
  situ_tensor *x;
  situ_optim *o;
} trial;

static bool do_item(trial *t) {
  double v;
  return situ_item(situ_sum(t->x, NULL), &v) == SITU_OK;
}
static bool do_upload(trial *t) {
  (void)t;
  float v = 1;
  return situ_from_host(&v, sizeof v, SITU_SHAPE(1), &(situ_options){ .device = there() }) != NULL;
}
static bool do_reseed(trial *t) {
  if (!situ_rand_like(t->x, NULL)) return false;
  situ_manual_seed(4);
  return situ_rand_like(t->x, NULL) != NULL;
}
static bool do_twins(trial *t) {
  situ_generator a = situ_generator_seeded(8), b = a;
  return situ_dropout(t->x, 0.5, true, &a) && situ_dropout(t->x, 0.5, true, &b);
}
static bool do_step(trial *t) { return situ_optim_step(t->o) == SITU_OK; }
static bool do_bare_step(trial *t) {
  const situ_optimizer_tensors list = { .param = t->x, .grad = situ_neg(t->x), .step = 1 };
  return situ_optimizer_step(SITU_RULE_SGD, &(situ_optimizer_params){ .lr = 1, .grad_scale = 1 }, &list, 1) == SITU_OK;
}
static bool do_begin(trial *t) {
  (void)t;
  return situ_graph_capture_begin(there()) == SITU_OK;
}
static bool do_elsewhere(trial *t) {
  (void)t;
  return situ_zeros(SITU_SHAPE(2), &(situ_options){ .device = situ_dev(there().kind == SITU_CPU ? "sim:1" : "cpu") }) !=
         NULL;
}

/* Each is refused at once, says why, and spoils the graph, whatever else was right. */
static void what_cannot_be_repeated_is_refused(void **state) {
  (void)state;
  situ_tensor *p = situ_requires_grad_(T32(SITU_SHAPE(2), 1, 2), true);
  expect_ok(situ_backward(situ_sum(p, NULL), NULL));
  situ_optim *o = situ_optim_adafactor(SITU_TREE(p), 1e-2, NULL);
  assert_non_null(o);
  const struct {
    bool (*run)(trial *);
    const char *says;
  } all[] = {
    { do_item, "a copy from or to the host" },
    { do_upload, "a copy from or to the host" },
    { do_reseed, "seeded meanwhile" },
    { do_twins, "two generators with one seed" },
    { do_step, "the step of optim_adafactor" },
    { do_bare_step, "the step of this optimiser" },
    { do_begin, "another one" },
    { do_elsewhere, "work on " },
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    trial t = { .x = T32(SITU_SHAPE(2), 1, 2), .o = o };
    expect_ok(situ_graph_capture_begin(there()));
    assert_non_null(situ_neg(t.x));
    assert_false(all[i].run(&t));
    assert_int_equal(situ_error(), SITU_E_STATE);
    assert_non_null(strstr(situ_error_message(), all[i].says));
    assert_null(situ_graph_capture_end());
    expect_error(SITU_E_STATE, "", all[i].says); /* the first error stands */
  }
  expect_exact(p, SITU_SHAPE(2), 1, 2);
  situ_optim_free(o);
}

/* Numbers were drawn from a generator that was seeded meanwhile, but what is recorded is not made of them. */
static void what_is_not_random_does_not_ask_for_the_draw(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4);
  situ_manual_seed(3);
  expect_ok(situ_graph_capture_begin(there()));
  situ_manual_seed(4);
  (void)situ_generator_draw(NULL);
  assert_non_null(situ_scaled_dot_product_attention(x, x, x, NULL));
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  expect_ok(situ_graph_replay(graph));
  situ_graph_free(graph);
}

static void what_moved_is_named(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  expect_ok(situ_nn_to(m, there()));
  situ_tensor *x = T32(SITU_SHAPE(1, 2), 1, 2);
  expect_ok(situ_graph_capture_begin(there()));
  assert_non_null(situ_nn_forward(m, x));
  situ_graph *graph = situ_graph_capture_end();
  expect_ok(situ_graph_replay(graph));
  expect_ok(situ_nn_to(m, situ_dev(there().kind == SITU_SIM ? "cpu" : "sim:0")));
  assert_int_equal(situ_graph_replay(graph), SITU_E_STATE);
  assert_non_null(strstr(situ_error_message(), "record it again"));
  assert_non_null(strstr(situ_error_message(), name_of(there())));
  expect_error(SITU_E_STATE, "graph_replay", there().kind == SITU_SIM ? "on cpu now" : "on sim:0 now");
  situ_graph_free(graph); /* it still can be let go of */
  situ_nn_free(m);
}

/* A module that is cast while its work is recorded has other memory at the end: there is no graph of that. */
static void a_cast_in_between_is_refused(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  expect_ok(situ_nn_to(m, there()));
  situ_tensor *x = T32(SITU_SHAPE(1, 2), 1, 2);
  expect_ok(situ_graph_capture_begin(there()));
  assert_non_null(situ_nn_forward(m, x));
  (void)!situ_nn_to_dtype(m, SITU_F64);
  assert_null(situ_graph_capture_end());
  expect_error(SITU_E_STATE, "", "recorded");
  situ_nn_free(m);
}

static void misuse(void **state) {
  (void)state;
  expect_refused(situ_graph_capture_end(), SITU_E_STATE, "graph_capture_end", "no graph is being recorded");
  assert_int_equal(situ_graph_replay(NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "graph_replay", "NULL");
  situ_graph_free(NULL);
  assert_int_equal(situ_graph_length(NULL), 0);
  expect_ok(situ_graph_capture_begin(there()));
  expect_refused(situ_graph_capture_end(), SITU_E_STATE, "graph_capture_end", "nothing was asked of");
  assert_int_equal(situ_graph_capture_begin(situ_dev("meta")), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "graph_capture_begin", "meta");
  situ_tensor *x = T32(SITU_SHAPE(2), 1, 2);
  expect_ok(situ_graph_capture_begin(there()));
  assert_non_null(situ_neg(x));
  expect_refused(situ_add(x, NULL), SITU_E_ARG, "", "");
  expect_refused(situ_graph_capture_end(), SITU_E_STATE, "graph_capture_end", "an error happened");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_replay_computes_what_the_calls_did),
    PAIR_TEST(it_reads_and_writes_the_memory_it_was_recorded_with),
    PAIR_TEST(a_replay_is_a_write),
    PAIR_TEST(what_cannot_be_repeated_is_refused),
    PAIR_TEST(what_is_not_random_does_not_ask_for_the_draw),
    PAIR_TEST(what_moved_is_named),
    PAIR_TEST(a_cast_in_between_is_refused),
    PAIR_TEST(misuse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
