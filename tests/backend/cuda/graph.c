/* Graphs on CUDA: a replay is one launch, the device is the recording thread's while a graph is made, and every call of CUDA's
   that a training step with a graph makes is failed once.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cuda */
#include <pthread.h>

#include "situ/graph.h"
#include "situ/nn.h"
#include "situ/optim.h"
#include "situ/place.h"
#include "support/cuda/faults.h"

enum { ROWS = 4, IN = 3, CLASSES = 2, STEPS = 3 };

static const situ_device gpu = { SITU_CUDA, 0 };

/* ---- a training step ------------------------------------------------------------------------- */

typedef struct training {
  situ_nn_module *model;
  situ_optim *optim;
  situ_tensor *x, *classes, *loss;
  situ_graph *graph;
} training;

static situ_status begin(training *t, situ_device device) {
  static const float x[ROWS * IN] = { 1, -2, .5f, 2, 1, -1, 0, .25f, 3, -1, -1, 2 };
  static const int64_t classes[ROWS] = { 0, 1, 1, 0 };
  const situ_options there = { .device = device }, whole = { .device = device, .dtype = SITU_I64 };
  situ_manual_seed(5);
  *t = (training){ .x = situ_retain(situ_from_host(x, sizeof x, SITU_SHAPE(ROWS, IN), &there)),
                   .classes = situ_retain(situ_from_host(classes, sizeof classes, SITU_SHAPE(ROWS), &whole)) };
  t->model = situ_nn_sequential(situ_nn_linear(IN, 4, NULL), situ_nn_tanh(), situ_nn_linear(4, CLASSES, NULL));
  situ_status status = t->x && t->classes && t->model ? situ_nn_to(t->model, device) : situ_error();
  if (status != SITU_OK) return status;
  t->optim = situ_optim_adam(situ_nn_parameters(t->model), 0.1, NULL);
  return t->optim ? SITU_OK : situ_error();
}

static void end(training *t) {
  situ_graph_free(t->graph);
  situ_optim_free(t->optim);
  situ_nn_free(t->model);
  situ_release(t->x);
  situ_release(t->classes);
  situ_release(t->loss);
}

/* Forward and back: by a graph from the second step on, where one is wanted. */
static situ_status forward_and_back(training *t, bool graphed) {
  if (t->graph) return situ_graph_replay(t->graph);
  situ_status status = situ_optim_zero_grad(t->optim, true);
  if (status == SITU_OK && graphed) status = situ_graph_capture_begin(gpu);
  if (status != SITU_OK) return status;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *loss = situ_cross_entropy(situ_nn_forward(t->model, t->x), t->classes, NULL);
  status = loss ? situ_backward(loss, NULL) : situ_error();
  situ_release(t->loss);
  t->loss = situ_retain(situ_detach(loss));
  if (situ_scope_end(&s) != SITU_OK || status != SITU_OK) status = situ_error();
  if (graphed) t->graph = situ_graph_capture_end();
  return graphed && !t->graph ? situ_error() : status;
}

static situ_status train(situ_device device, bool graphed, double losses[STEPS]) {
  training t;
  situ_status status = begin(&t, device);
  for (int step = 0; step < STEPS && status == SITU_OK; step++) {
    status = forward_and_back(&t, graphed);
    if (status == SITU_OK) status = situ_optim_step(t.optim);
    if (status == SITU_OK) status = situ_item(t.loss, &losses[step]);
  }
  CHECK(situ_error() == status && (status == SITU_OK || *situ_error_message()));
  end(&t);
  return status;
}

/* In a scope of its own; what it computed is right, or the status says what was wrong. */
static situ_status train_and_look(void) {
  double want[STEPS], got[STEPS];
  situ_scope s;
  situ_scope_begin(&s);
  CHECK(train(situ_dev("cpu"), false, want) == SITU_OK);
  situ_status status = train(gpu, true, got);
  CHECK(situ_scope_end(&s) == status);
  for (int step = 0; status == SITU_OK && step < STEPS; step++)
    CHECK(got[step] - want[step] < 1e-5 && want[step] - got[step] < 1e-5);
  return status;
}

static void failing_body(void *payload) {
  faults *f = payload;
  cuda_double *d = cuda_double_state();
  CHECK(situ_device_count("cuda") == 2);
  d->budget = 8 << 20;
  faults_arm(f);
  faults_disarm(f, train_and_look());
  faults_look(f, train_and_look(), gpu);
  if (!f->lost) {
    CHECK(situ_empty_cache(gpu) == SITU_OK && situ_synchronize(gpu) == SITU_OK);
    CHECK(d->graphs == 0);
  }
  CHECK(situ_live_tensors() == 0);
  faults_count(f);
}

static void a_call_without_memory_is_reported_or_made_good(void **state) {
  (void)state;
  assert_true(faults_walk(failing_body, cudaErrorMemoryAllocation, false) > 300);
}
static void a_broken_device_is_lost(void **state) {
  (void)state;
  assert_true(faults_walk(failing_body, cudaErrorLaunchFailure, true) > 300);
}

/* ---- one launch ------------------------------------------------------------------------------- */

static void launch_body(void *payload) {
  (void)payload;
  const float one = 1;
  cuda_double *d = cuda_double_state();
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x = situ_from_host(&one, sizeof one, SITU_SHAPE(1), &(situ_options){ .device = gpu });
  CHECK(situ_graph_capture_begin(gpu) == SITU_OK);
  for (int k = 0; k < 50; k++) CHECK(situ_add_scalar_(x, 1) != NULL);
  situ_graph *graph = situ_graph_capture_end();
  CHECK(graph && situ_graph_length(graph) == 50 && d->graphs == 1);
  const long calls = d->calls, kernels = d->kernels;
  for (int k = 0; k < 4; k++) CHECK(situ_graph_replay(graph) == SITU_OK);
  CHECK(d->replays == 4 && d->kernels == kernels);
  CHECK(d->calls - calls <= 12); /* the launch, and being entered, which asks for the current device */
  double value;
  CHECK(situ_item(x, &value) == SITU_OK && value == 1 + 50 * 5);
  situ_graph_free(graph);
  CHECK(d->graphs == 0);
  CHECK(situ_scope_end(&s) == SITU_OK);
}
static void a_replay_is_one_launch(void **state) {
  (void)state;
  assert_int_equal(in_child(launch_body, NULL), 0);
}

/* Random numbers are of each replay: what is before and behind them is a launch each. */
static void parts_body(void *payload) {
  (void)payload;
  double value, other;
  cuda_double *d = cuda_double_state();
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x = situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = gpu });
  CHECK(situ_graph_capture_begin(gpu) == SITU_OK);
  for (int k = 0; k < 5; k++) CHECK(situ_add_scalar_(x, 1) != NULL);
  CHECK(situ_uniform_(x, 0, 1, NULL) != NULL);
  for (int k = 0; k < 5; k++) CHECK(situ_add_scalar_(x, 1) != NULL);
  situ_graph *graph = situ_graph_capture_end();
  CHECK(graph && situ_graph_length(graph) == 11 && d->graphs == 2);
  const long kernels = d->kernels, replays = d->replays;
  CHECK(situ_graph_replay(graph) == SITU_OK);
  CHECK(d->replays == replays + 2 && d->kernels == kernels + 1);
  CHECK(situ_item(x, &value) == SITU_OK);
  CHECK(situ_graph_replay(graph) == SITU_OK && situ_item(x, &other) == SITU_OK);
  CHECK(value >= 5 && value < 6 && other >= 5 && other < 6 && value != other);
  situ_graph_free(graph);
  CHECK(d->graphs == 0);
  CHECK(situ_scope_end(&s) == SITU_OK);
}
static void what_changes_is_between_launches(void **state) {
  (void)state;
  assert_int_equal(in_child(parts_body, NULL), 0);
}

/* A gather in a graph meets an index that is none: told at the next synchronisation, as without a graph. */
static void index_body(void *payload) {
  (void)payload;
  const float x[3] = { 1, 2, 3 };
  const int64_t index[2] = { 0, 2 };
  situ_scope s;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_scope_begin(&s);
  situ_tensor *from = situ_from_host(x, sizeof x, SITU_SHAPE(3), &(situ_options){ .device = gpu });
  situ_tensor *at =
      situ_from_host(index, sizeof index, SITU_SHAPE(2), &(situ_options){ .device = gpu, .dtype = SITU_I64 });
  CHECK(situ_graph_capture_begin(gpu) == SITU_OK);
  CHECK(situ_index_select(from, 0, at) != NULL);
  situ_graph *graph = situ_graph_capture_end();
  CHECK(graph && situ_graph_replay(graph) == SITU_OK && situ_synchronize(gpu) == SITU_OK);
  CHECK(situ_fill_(at, 3) && situ_graph_replay(graph) == SITU_OK);
  CHECK(situ_synchronize(gpu) == SITU_E_INDEX);
  CHECK_ERROR(SITU_E_INDEX, "3");
  situ_graph_free(graph);
  CHECK(situ_scope_end(&s) == SITU_E_INDEX || situ_error() == SITU_OK);
}
static void a_replay_checks_its_indices(void **state) {
  (void)state;
  assert_int_equal(in_child(index_body, NULL), 0);
}

/* ---- two threads ------------------------------------------------------------------------------ */

/* What another thread asks of the device while graphs are made runs at once, and is in none of them. */
static void *add_up(void *out) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *sum = situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = gpu });
  for (int k = 0; k < 400; k++) CHECK(situ_add_scalar_(sum, 1) != NULL);
  CHECK(situ_item(sum, out) == SITU_OK);
  CHECK(situ_scope_end(&s) == SITU_OK);
  return NULL;
}

static void threads_body(void *payload) {
  (void)payload;
  double theirs = 0, value;
  pthread_t other;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x = situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = gpu });
  CHECK(pthread_create(&other, NULL, add_up, &theirs) == 0);
  for (int k = 0; k < 20; k++) {
    CHECK(situ_graph_capture_begin(gpu) == SITU_OK);
    for (int j = 0; j < 20; j++) CHECK(situ_add_scalar_(x, 1) != NULL);
    situ_graph *graph = situ_graph_capture_end();
    CHECK(graph && situ_graph_length(graph) == 20 && situ_graph_replay(graph) == SITU_OK);
    situ_graph_free(graph);
  }
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(situ_item(x, &value) == SITU_OK && value == 20 * 40);
  CHECK(theirs == 400);
  CHECK(situ_scope_end(&s) == SITU_OK);
}
static void others_are_not_captured(void **state) {
  (void)state;
  assert_int_equal(in_child(threads_body, NULL), 0);
}

int main(void) {
  (void)setenv("SITU_NUM_THREADS", "1", 1); /* hundreds of children need no threads of their own */
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_replay_is_one_launch),
    cmocka_unit_test(what_changes_is_between_launches),
    cmocka_unit_test(a_replay_checks_its_indices),
    cmocka_unit_test(others_are_not_captured),
    cmocka_unit_test(a_call_without_memory_is_reported_or_made_good),
    cmocka_unit_test(a_broken_device_is_lost),
  };
  return cmocka_run_group_tests_name("backend/cuda/graph", tests, NULL, NULL);
}
