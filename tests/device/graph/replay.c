/* Whole training steps as graphs: forward, backward, clipping, the optimiser's step and its random numbers, replayed beside
   the same steps call by call, compared by bits.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include <string.h>

#include "situ/amp.h"
#include "situ/graph.h"
#include "situ/optim.h"
#include "situ/sys/graph.h"
#include "situ/sys/op.h"
#include "support/optim.h"
#include "support/pairs.h"

enum { ROWS = 6, IN = 5, WIDE = 8, CLASSES = 3, STEPS = 20, WEIGHTS = WIDE * IN + WIDE + CLASSES * WIDE + CLASSES };

/* What a training step of a case does besides forward and backward. */
typedef struct variant {
  const char *name;
  optim_maker *make;
  double lr;
  optim_change change[OPTIM_CHANGES];
  situ_dtype dtype; /* of the parameters; default: f32 */
  bool dropout, attention, recompute, clip_norm, clip_value, adds_up, schedule;
  bool scaler, unscale; /* gradients are scaled, and unscaled before they are clipped; one batch overflows */
  bool groups;          /* the last layer is a group of its own, whose first replay is refused once */
  int begin;            /* the step that is captured; those before are calls, and the first one makes the state */
} variant;

typedef struct training {
  const variant *v;
  situ_nn_module *model;
  situ_optim *optim;
  situ_lr_scheduler *schedule;
  situ_grad_scaler *scaler;
  situ_generator own;
  situ_tensor *x, *classes, *loss;
} training;

static void begin_training(training *t, const variant *v) {
  situ_manual_seed(3);
  *t = (training){ .v = v, .own = situ_generator_seeded(77) };
  t->model = situ_nn_sequential(situ_nn_linear(IN, WIDE, NULL), situ_nn_gelu(SITU_GELU_NONE),
                                situ_nn_linear(WIDE, CLASSES, NULL));
  expect_ok(situ_nn_to(t->model, there()));
  if (v->dtype) expect_ok(situ_nn_to_dtype(t->model, v->dtype));
  situ_nn_module *most = v->groups ? situ_nn_at(t->model, 0) : t->model;
  assert_non_null(t->optim = optim_make(v->make, situ_nn_parameters(most), v->lr, v->change));
  if (v->groups) expect_ok(situ_optim_add_param_group(t->optim, situ_nn_parameters(situ_nn_at(t->model, 2)), NULL));
  if (v->schedule) assert_non_null(t->schedule = situ_lr_scheduler_exponential_lr(t->optim, 0.9));
  if (v->scaler) t->scaler = optim_scaler(1024, 4);
  assert_true(t->scaler || !v->scaler);
  const situ_dtype dtype = v->dtype ? v->dtype : SITU_F32;
  t->x = situ_retain(situ_zeros(SITU_SHAPE(ROWS, IN), &(situ_options){ .dtype = dtype, .device = there() }));
  t->classes = situ_retain(situ_zeros(SITU_SHAPE(ROWS), &(situ_options){ .dtype = SITU_I64, .device = there() }));
}

static void end_training(training *t) {
  situ_lr_scheduler_free(t->schedule);
  situ_grad_scaler_free(t->scaler);
  situ_optim_free(t->optim);
  situ_nn_free(t->model);
  situ_release(t->x);
  situ_release(t->classes);
  situ_release(t->loss);
}

static void next_batch(training *t, int step) {
  double x[ROWS * IN], y[ROWS];
  const double factor = t->v->scaler && step == 9 ? 1e38 : 1;
  for (int i = 0; i < ROWS * IN; i++) x[i] = ((double)((i * 7 + step * 5) % 11) / 11 - 0.5) * factor;
  for (int i = 0; i < ROWS; i++) y[i] = (double)((i + step) % CLASSES);
  assert_non_null(situ_copy_(t->x, test_tensor(situ_dtype_of(t->x), SITU_SHAPE(ROWS, IN), x)));
  assert_non_null(situ_copy_(t->classes, test_tensor(SITU_I64, SITU_SHAPE(ROWS), y)));
}

static situ_tensor *drop_twice(situ_tensor *const *in, int count, void *payload) {
  training *t = payload;
  assert_int_equal(count, 1);
  return situ_dropout(situ_tanh(situ_dropout(in[0], 0.25, true, NULL)), 0.1, true, t->v->recompute ? NULL : &t->own);
}

static situ_tensor *hidden(training *t) {
  situ_tensor *h = situ_nn_forward(situ_nn_at(t->model, 1), situ_nn_forward(situ_nn_at(t->model, 0), t->x));
  if (t->v->dropout) h = drop_twice(&h, 1, t);
  if (t->v->recompute) h = situ_recompute(drop_twice, t, 1, &h);
  if (t->v->attention) h = situ_scaled_dot_product_attention(h, h, h, OPTIONS_AT(situ_attention, with.dropout_p = 0.2));
  return h;
}

/* In a scope of its own, so that only the loss is held afterwards. */
static void take_step(training *t) {
  const variant *v = t->v;
  situ_scope s;
  situ_scope_begin(&s);
  expect_ok(situ_optim_zero_grad(t->optim, !v->adds_up));
  for (int k = 0; k <= (int)v->adds_up; k++) {
    situ_tensor *loss = situ_cross_entropy(situ_nn_forward(situ_nn_at(t->model, 2), hidden(t)), t->classes, NULL);
    expect_ok(situ_backward(t->scaler ? situ_grad_scaler_scale(t->scaler, loss) : loss, NULL));
    assert_true(situ_set(&t->loss, situ_detach(loss)));
  }
  if (v->unscale) expect_ok(situ_grad_scaler_unscale_(t->scaler, t->optim));
  if (v->clip_norm) expect_ok(situ_optim_clip_grad_norm_(t->optim, 0.1, 2, NULL));
  if (v->clip_value) expect_ok(situ_optim_clip_grad_value_(t->optim, 0.01));
  if (t->scaler) {
    expect_ok(situ_grad_scaler_step(t->scaler, t->optim, NULL));
    expect_ok(situ_grad_scaler_update(t->scaler, 0));
  } else expect_ok(situ_optim_step(t->optim));
  expect_ok(situ_scope_end(&s));
}

/* What a run leaves: a loss a step, the weights, and how far the generators are. */
typedef struct outcome {
  double loss[STEPS + 1], weight[WEIGHTS], rate, scale;
  situ_generator state, own;
} outcome;

/* A replay that cannot be is refused, and counts no step and draws no number. */
static void refuse_once(training *t, situ_graph *graph) {
  const situ_generator before = situ_get_rng_state();
  expect_ok(situ_optim_set(t->optim, 1, SITU_OPTIM_AMSGRAD, 1));
  assert_int_equal(situ_graph_replay(graph), SITU_E_STATE);
  expect_error(SITU_E_STATE, "graph_replay", "hyperparameters");
  expect_ok(situ_optim_set(t->optim, 1, SITU_OPTIM_AMSGRAD, 0));
  const situ_generator after = situ_get_rng_state();
  assert_memory_equal(&before, &after, sizeof before);
}

static void train(const variant *v, bool graphed, outcome *out) {
  training t;
  situ_graph *graph = NULL;
  begin_training(&t, v);
  for (int step = 0; step <= STEPS; step++) {
    next_batch(&t, step);
    if (graph && v->groups && step == v->begin + 1) refuse_once(&t, graph);
    if (graphed && step == v->begin) {
      expect_ok(situ_graph_capture_begin(there()));
      assert_true(situ_graph_is_capturing());
      take_step(&t);
      assert_non_null(graph = situ_graph_capture_end());
      assert_false(situ_graph_is_capturing());
    } else if (graph && step < STEPS) expect_ok(situ_graph_replay(graph));
    else take_step(&t); /* the last one, too: the optimiser and the generators are where they would be */
    if (t.schedule) expect_ok(situ_lr_scheduler_step(t.schedule));
    expect_ok(situ_item(t.loss, &out->loss[step]));
  }
  static const char *const name[] = { "0.weight", "0.bias", "2.weight", "2.bias" };
  for (int i = 0, at = 0; i < 4; i++) {
    test_read(situ_nn_get_tensor(t.model, name[i]), out->weight + at);
    at += (int)situ_numel(situ_nn_get_tensor(t.model, name[i]));
  }
  out->state = situ_get_rng_state();
  out->own = t.own;
  out->scale = situ_grad_scaler_get_scale(t.scaler);
  out->rate = situ_optim_get(t.optim, 0, SITU_OPTIM_LR);
  situ_graph_free(graph);
  end_training(&t);
}

static void compare(const variant *v) {
  static outcome calls, replays;
  memset(&calls, 0, sizeof calls);
  memset(&replays, 0, sizeof replays);
  train(v, false, &calls);
  train(v, true, &replays);
  int changes = 0;
  for (int step = 0; step <= STEPS; step++) {
    changes += step > 0 && calls.loss[step] != calls.loss[step - 1];
    if (memcmp(&calls.loss[step], &replays.loss[step], sizeof(double)) != 0)
      fail_msg("%s: step %d: %.9g by calls, %.9g by replays", v->name, step, calls.loss[step], replays.loss[step]);
  }
  assert_memory_equal(&calls, &replays, sizeof calls);
  assert_true(changes > STEPS / 2);
}

static const variant variants[] = {
  { .name = "plain", .make = situ_optim_sgd, .lr = 0.1 },
  { .name = "dropout, momentum",
    .make = situ_optim_sgd,
    .lr = 0.1,
    .change = { { SITU_OPTIM_MOMENTUM, 0.9 } },
    .dropout = true },
  { .name = "attention", .make = situ_optim_adam, .lr = 0.02, .attention = true, .begin = 1 },
  { .name = "recompute", .make = situ_optim_adamw, .lr = 0.02, .recompute = true, .dropout = true },
  { .name = "clip, schedule",
    .make = situ_optim_adamw,
    .lr = 0.05,
    .clip_norm = true,
    .schedule = true,
    .dropout = true },
  { .name = "clip, adds up",
    .make = situ_optim_sgd,
    .lr = 0.1,
    .change = { { SITU_OPTIM_NESTEROV, 1 }, { SITU_OPTIM_MOMENTUM, 0.9 } },
    .clip_value = true,
    .adds_up = true },
  { .name = "masters",
    .make = situ_optim_adamw,
    .lr = 0.01,
    .change = { { SITU_OPTIM_MASTER_WEIGHTS, 1 } },
    .dtype = SITU_BF16,
    .schedule = true,
    .begin = 2 },
  { .name = "masters at once",
    .make = situ_optim_sgd,
    .lr = 0.01,
    .change = { { SITU_OPTIM_MOMENTUM, 0.5 }, { SITU_OPTIM_MASTER_WEIGHTS, 1 } },
    .dtype = SITU_BF16 },
  { .name = "rmsprop",
    .make = situ_optim_rmsprop,
    .lr = 1e-2,
    .change = { { SITU_OPTIM_CENTERED, 1 }, { SITU_OPTIM_MOMENTUM, 0.5 } },
    .begin = 1 },
  { .name = "adagrad",
    .make = situ_optim_adagrad,
    .lr = 1e-2,
    .change = { { SITU_OPTIM_LR_DECAY, 0.1 } },
    .schedule = true },
  { .name = "adadelta", .make = situ_optim_adadelta, .lr = 0.5 },
  { .name = "adamax", .make = situ_optim_adamax, .lr = 0.01, .begin = 1 },
  { .name = "nadam", .make = situ_optim_nadam, .lr = 0.01, .schedule = true },
  { .name = "radam", .make = situ_optim_radam, .lr = 0.01 },
  { .name = "rprop", .make = situ_optim_rprop, .lr = 0.01, .begin = 1 },
  { .name = "asgd", .make = situ_optim_asgd, .lr = 0.01, .change = { { SITU_OPTIM_T0, 5 } } },
  { .name = "lion", .make = situ_optim_lion, .lr = 0.01, .schedule = true },
  { .name = "scaler",
    .make = situ_optim_sgd,
    .lr = 0.1,
    .change = { { SITU_OPTIM_MOMENTUM, 0.9 } },
    .scaler = true,
    .dropout = true },
  { .name = "scaler, unscaled",
    .make = situ_optim_adamw,
    .lr = 0.02,
    .scaler = true,
    .unscale = true,
    .clip_norm = true,
    .begin = 1 },
  { .name = "two groups", .make = situ_optim_adam, .lr = 0.01, .dropout = true, .groups = true },
  { .name = "amsgrad, f64",
    .make = situ_optim_adam,
    .lr = 0.01,
    .change = { { SITU_OPTIM_AMSGRAD, 1 } },
    .dtype = SITU_F64 },
};

static void replays_are_steps(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
    if (test_takes(i, 4)) compare(&variants[i]);
}

/* ---- what changes between replays ---------------------------------------------------------------- */

static void state_that_was_replaced_is_refused(void **state) {
  (void)state;
  static const variant v = { .name = "adam", .make = situ_optim_adam, .lr = 1e-3, .dropout = true };
  training t;
  begin_training(&t, &v);
  take_step(&t);
  expect_ok(situ_graph_capture_begin(there()));
  take_step(&t);
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  expect_ok(situ_graph_replay(graph));
  situ_tree *saved = situ_optim_state_dict(t.optim);
  expect_ok(situ_optim_load_state_dict(t.optim, saved));
  situ_tree_free(saved);
  assert_int_equal(situ_graph_replay(graph), SITU_E_STATE);
  expect_error(SITU_E_STATE, "graph_replay", "record the graph again");
  situ_graph_free(graph);
  end_training(&t);
}

/* The graph keeps the optimiser, as schedules do. */
static void the_optimiser_may_be_freed_first(void **state) {
  (void)state;
  static const variant v = { .name = "adam", .make = situ_optim_adam, .lr = 1e-3, .dropout = true };
  training t;
  double before, after;
  begin_training(&t, &v);
  expect_ok(situ_graph_capture_begin(there()));
  take_step(&t);
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  situ_optim_free(t.optim);
  t.optim = NULL;
  expect_ok(situ_item(t.loss, &before));
  expect_ok(situ_graph_replay(graph));
  expect_ok(situ_item(t.loss, &after));
  assert_true(before != after);
  situ_graph_free(graph);
  end_training(&t);
}

/* Autocast keeps casts of parameters; one of before the graph would be that of an old value at each replay. */
static void casts_are_made_again(void **state) {
  (void)state;
  double before[1], after[1];
  situ_setting outer;
  situ_tensor *w = situ_requires_grad_(T32(SITU_SHAPE(1, 1), 2), true), *x = T32(SITU_SHAPE(1, 1), 3);
  expect_ok(situ_autocast_begin(&outer, there(), &(situ_autocast_options){ .dtype = SITU_BF16 }));
  assert_non_null(situ_matmul(x, w));
  expect_ok(situ_graph_capture_begin(there()));
  situ_tensor *y = situ_matmul(x, w);
  situ_graph *graph = situ_graph_capture_end();
  situ_autocast_end(&outer);
  assert_non_null(graph);
  test_read(y, before);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_fill_(w, 4));
  expect_ok(situ_scope_end(&s));
  expect_ok(situ_graph_replay(graph));
  test_read(y, after);
  assert_true(before[0] == 6 && after[0] == 12);
  situ_graph_free(graph);
}

/* ---- what only extensions call ------------------------------------------------------------------- */

static situ_status set_value(void *payload, situ_work *work, situ_optimizer_params *params, situ_optimizer_item *list) {
  assert_true(!params && !list);
  if (*(double *)payload < 0) return situ_fail(SITU_E_ARG, "set_value", "below 0");
  work->scalar[0] = *(double *)payload;
  return SITU_OK;
}
static situ_status skip_below_2(void *payload, bool *skip) {
  *skip = *(double *)payload < 2;
  return *(double *)payload == 1 ? situ_fail(SITU_E_ARG, "skip_below_2", "cannot decide") : SITU_OK;
}
static int ends[SITU_GRAPH_FAILED + 1], releases;
static void count_ended(void *payload, situ_graph_outcome outcome) { assert_true(payload), ends[outcome]++; }
static void count_release(void *payload) { assert_true(payload), releases++; }

static void values_are_asked_for_at_each_replay(void **state) {
  (void)state;
  double value = 3;
  const situ_graph_values values = {
    .payload = &value, .refresh = set_value, .ended = count_ended, .release = count_release
  };
  memset(ends, 0, sizeof ends);
  releases = 0;
  situ_tensor *x = T32(SITU_SHAPE(2), 1, 2);
  assert_int_equal(situ_graph_values_begin(&values), SITU_E_STATE);
  expect_error(SITU_E_STATE, "graph_values_begin", "no graph");
  assert_int_equal(releases, 1);
  situ_graph_values_end();
  situ_graph_resume();
  assert_false(situ_graph_pause());
  expect_ok(situ_graph_capture_begin(there()));
  expect_ok(situ_graph_values_begin(&values));
  situ_tensor *y = situ_full_like(x, 7, NULL);
  situ_graph_values_end();
  assert_true(situ_graph_pause());
  assert_false(situ_graph_pause());
  assert_non_null(situ_fill_(x, 5));
  situ_graph_resume();
  situ_tensor *z = situ_add(x, y);
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  assert_int_equal(situ_graph_length(graph), 2);
  expect_exact(z, SITU_SHAPE(2), 12, 12);
  expect_ok(situ_graph_replay(graph));
  expect_exact(z, SITU_SHAPE(2), 8, 8);
  value = -1;
  assert_int_equal(situ_graph_replay(graph), SITU_E_ARG);
  expect_error(SITU_E_ARG, "set_value", "below");
  expect_exact(z, SITU_SHAPE(2), 8, 8);
  situ_graph_free(graph);
  assert_true(ends[SITU_GRAPH_RAN] == 1 && ends[SITU_GRAPH_FAILED] == 1 && releases == 2);
}

static void work_can_be_skipped(void **state) {
  (void)state;
  double value = 3, unused = 0;
  const situ_graph_values values = { .payload = &value, .refresh = set_value, .ended = count_ended },
                          section = { .payload = &value, .decide = skip_below_2, .ended = count_ended },
                          nothing = { .payload = &unused, .release = count_release };
  memset(ends, 0, sizeof ends);
  releases = 0;
  situ_tensor *x = T32(SITU_SHAPE(1), 0), *y = T32(SITU_SHAPE(1), 0);
  expect_ok(situ_graph_capture_begin(there()));
  expect_ok(situ_graph_values_begin(&section));
  expect_ok(situ_graph_values_begin(&values));
  assert_non_null(situ_fill_(x, 7));
  situ_graph_values_end();
  assert_non_null(situ_add_scalar_(y, 1));
  situ_graph_values_end();
  assert_non_null(situ_add_scalar_(y, 10));
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  expect_ok(situ_graph_replay(graph));
  expect_exact(x, SITU_SHAPE(1), 3);
  expect_exact(y, SITU_SHAPE(1), 22);
  value = 0;
  expect_ok(situ_graph_replay(graph));
  expect_exact(x, SITU_SHAPE(1), 3);
  expect_exact(y, SITU_SHAPE(1), 32);
  value = 1;
  assert_int_equal(situ_graph_replay(graph), SITU_E_ARG);
  expect_error(SITU_E_ARG, "skip_below_2", "decide");
  value = 5;
  expect_ok(situ_graph_replay(graph));
  expect_exact(x, SITU_SHAPE(1), 5);
  situ_graph_free(graph);
  assert_true(ends[SITU_GRAPH_RAN] == 4 && ends[SITU_GRAPH_SKIPPED] == 2 && ends[SITU_GRAPH_FAILED] == 2);
  expect_ok(situ_graph_capture_begin(there()));
  expect_ok(situ_graph_values_begin(&section));
  assert_int_equal(situ_graph_values_begin(&section), SITU_E_STATE);
  expect_error(SITU_E_STATE, "graph_values_begin", "decide");
  assert_int_equal(situ_graph_values_begin(&nothing), SITU_E_ARG);
  expect_error(SITU_E_ARG, "graph_values_begin", "NULL");
  assert_int_equal(releases, 1);
  assert_null(situ_graph_capture_end());
  situ_error_clear();
}

static void a_paused_thread_begins_no_other_graph(void **state) {
  (void)state;
  expect_ok(situ_graph_capture_begin(there()));
  assert_true(situ_graph_pause());
  assert_int_equal(situ_graph_capture_begin(there()), SITU_E_STATE);
  expect_error(SITU_E_STATE, "graph_capture_begin", "paused");
  expect_refused(situ_graph_capture_end(), SITU_E_STATE, "graph_capture_end", "no graph");
  situ_graph_resume();
  expect_refused(situ_graph_capture_end(), SITU_E_STATE, "graph_capture_end", "an error happened");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(replays_are_steps),
    PAIR_TEST(state_that_was_replaced_is_refused),
    PAIR_TEST(the_optimiser_may_be_freed_first),
    PAIR_TEST(casts_are_made_again),
    PAIR_TEST(values_are_asked_for_at_each_replay),
    PAIR_TEST(work_can_be_skipped),
    PAIR_TEST(a_paused_thread_begins_no_other_graph),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
