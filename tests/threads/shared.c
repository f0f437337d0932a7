/* One object and several threads: what docs/threads.md calls right is right, what it calls refused is an error that changes nothing. */
/* test-devices: cpu sim:0 */
/* test-options: -DSITU_TEST_THREADS */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "situ/situ.h"
#include "support/test.h"

enum { THREADS = 4 };

static void at_once(void *(*work)(void *), void *payload) {
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, work, payload), 0);
  for (int i = 0; i < THREADS; i++) {
    void *wrong = NULL;
    pthread_join(thread[i], &wrong);
    if (wrong) fail_msg("%s", (const char *)wrong);
  }
}

/* ---- gradients ---- */

enum { PASSES = 50 };

/* Whole numbers, so that sums are exact in any order. */
static void *adds_to_the_gradient(void *payload) {
  situ_tensor *w = payload;
  bool good = true;
  for (int k = 0; k < PASSES && good; k++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *x = situ_full(SITU_SHAPE(2, 8), 3, &(situ_options){ .device = test_device() });
    good = situ_backward(situ_sum(situ_matmul(x, w), NULL), NULL) == SITU_OK;
    good = situ_scope_end(&s) == SITU_OK && good;
  }
  return good ? NULL : (void *)"a backward failed";
}

static void each_backward_counts_once(void **state) {
  (void)state;
  situ_tensor *w = situ_requires_grad_(situ_ones(SITU_SHAPE(8, 5), &(situ_options){ .device = test_device() }), true);
  at_once(adds_to_the_gradient, w);
  double sum;
  assert_int_equal(situ_item(situ_max(situ_grad(w)), &sum), SITU_OK);
  assert_true(sum == 2 * 3 * PASSES * THREADS);
  assert_int_equal(situ_item(situ_min(situ_grad(w)), &sum), SITU_OK);
  assert_true(sum == 2 * 3 * PASSES * THREADS);
}

static void *asks_for_its_own_gradient(void *payload) {
  bool good = true;
  for (int k = 0; k < PASSES && good; k++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *x = situ_requires_grad_(situ_ones(SITU_SHAPE(4, 8), &(situ_options){ .device = test_device() }), true),
                *grad = NULL;
    double sum = 0;
    good = situ_autograd_grad(situ_sum(situ_nn_forward(payload, x), NULL), 1, &x, &grad, NULL) == SITU_OK &&
           situ_item(situ_sum(grad, NULL), &sum) == SITU_OK && sum == 4 * 8 * 3;
    good = situ_scope_end(&s) == SITU_OK && good;
  }
  return good ? NULL : (void *)"a wrong gradient";
}

static void threads_differentiate_one_module(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_linear(8, 3, NULL);
  situ_tensor *weight = situ_nn_get_tensor(net, "weight");
  assert_int_equal(situ_nn_to(net, test_device()), SITU_OK);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_fill_(weight, 1));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  at_once(asks_for_its_own_gradient, net);
  assert_null(situ_grad(weight));
  situ_nn_free(net);
}

/* ---- lazy modules ---- */

typedef struct lazy {
  situ_nn_module *net;
  situ_tensor *x;
  pthread_barrier_t gate;
} lazy;

static void *forwards_first(void *payload) {
  lazy *l = payload;
  situ_scope s;
  pthread_barrier_wait(&l->gate);
  situ_scope_begin_no_grad(&s);
  situ_tensor *y = situ_nn_forward(l->net, l->x);
  bool good = y && situ_size(y, 1) == 3;
  return situ_scope_end(&s) == SITU_OK && good ? NULL : (void *)"a first forward failed";
}

static void one_of_several_first_forwards_makes_the_parameters(void **state) {
  (void)state;
  lazy l = { .x = situ_ones(SITU_SHAPE(2, 5), &(situ_options){ .device = test_device() }) };
  pthread_barrier_init(&l.gate, NULL, THREADS);
  for (int k = 0; k < 50; k++) {
    l.net = situ_nn_sequential(situ_nn_lazy_linear(3, &(situ_nn_linear_options){ .device = test_device() }),
                               situ_nn_relu());
    at_once(forwards_first, &l);
    assert_int_equal(situ_nn_num_parameters(l.net), 3 * 5 + 3);
    situ_nn_free(l.net);
  }
  pthread_barrier_destroy(&l.gate);
}

/* ---- a call in progress ---- */

typedef struct call {
  situ_nn_module *net;
  situ_tensor *x;
  pthread_barrier_t inside, go_on;
} call;

static situ_status waits(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output;
  call *c = payload;
  pthread_barrier_wait(&c->inside);
  pthread_barrier_wait(&c->go_on);
  return SITU_OK;
}

static void *is_inside(void *payload) {
  call *c = payload;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *y = situ_nn_forward(c->net, c->x);
  return situ_scope_end(&s) == SITU_OK && y ? NULL : (void *)"the forward failed";
}

#define BUSY(call, op) (assert_int_equal(call, SITU_E_STATE), expect_error(SITU_E_STATE, op, "is busy"))

static void nothing_that_a_call_uses_changes_meanwhile(void **state) {
  (void)state;
  call c = { .x = situ_ones(SITU_SHAPE(2, 4), &(situ_options){ .device = test_device() }) };
  situ_nn_module *inner = situ_nn_linear(4, 4, NULL), *other = situ_nn_linear(4, 4, NULL),
                 *second = situ_nn_sequential(situ_nn_relu());
  c.net = situ_nn_sequential(inner, situ_nn_relu());
  assert_int_equal(situ_nn_to(c.net, test_device()), SITU_OK);
  int64_t hook;
  assert_int_equal(situ_nn_register_forward_pre_hook(c.net, waits, &c, &hook), SITU_OK);
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(c.net), 1e-3, NULL);
  situ_tree *saved = situ_nn_state_dict(c.net);
  pthread_barrier_init(&c.inside, NULL, 2);
  pthread_barrier_init(&c.go_on, NULL, 2);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, is_inside, &c), 0);
  pthread_barrier_wait(&c.inside);

  const int64_t modules = situ_nn_live_modules();
  BUSY(situ_nn_to(c.net, situ_dev("sim:1")), "nn_to");
  BUSY(situ_nn_to(inner, situ_dev("sim:1")), "nn_to");
  BUSY(situ_nn_to_dtype(c.net, SITU_F64), "nn_to_dtype");
  BUSY(situ_to_(situ_nn_get_tensor(inner, "weight"), situ_dev("sim:1")), "to_");
  BUSY(situ_nn_load_state_dict(c.net, saved, NULL), "nn_load_state_dict");
  BUSY(situ_nn_register_forward_hook(c.net, waits, &c, NULL), "nn_register_forward_hook");
  BUSY(situ_optim_step(o), "optim_step");
  BUSY(situ_optim_zero_grad(o, true), "optim_zero_grad");
  BUSY(situ_optim_to(o, situ_dev("sim:1")), "optim_to");
  expect_refused(situ_nn_train(c.net, false), SITU_E_STATE, "nn_train", "is busy");
  expect_refused(situ_nn_append(c.net, situ_nn_retain(other)), SITU_E_STATE, "nn_add_child", "is busy");
  expect_refused(situ_nn_add_child(second, "more", NULL, situ_nn_retain(inner)), SITU_E_STATE, "nn_add_child",
                 "is busy");
  assert_string_equal(situ_name(situ_nn_get_tensor(inner, "weight")), "0.weight");
  situ_nn_free(c.net);
  expect_error(SITU_E_STATE, "nn_free", "is busy");
  assert_int_equal(situ_nn_live_modules(), modules);
  /* What only reads is right, and so is all of it on what the call does not use. */
  assert_int_equal(situ_nn_num_parameters(c.net), 4 * 4 + 4);
  situ_tree_free(situ_nn_state_dict(c.net));
  assert_int_equal(situ_nn_to(other, situ_dev("sim:1")), SITU_OK);

  pthread_barrier_wait(&c.go_on);
  void *wrong = NULL;
  pthread_join(thread, &wrong);
  if (wrong) fail_msg("%s", (const char *)wrong);
  assert_true(c.net && situ_device_equal(situ_nn_home(c.net), test_device()));
  assert_int_equal(situ_nn_to(c.net, situ_dev("sim:1")), SITU_OK);
  assert_int_equal(situ_nn_to_dtype(c.net, SITU_F64), SITU_OK);
  assert_int_equal(situ_nn_load_state_dict(c.net, saved, NULL), SITU_OK);
  assert_int_equal(situ_optim_zero_grad(o, true), SITU_OK);
  assert_non_null(situ_nn_add_child(second, "more", NULL, situ_nn_retain(inner)));
  assert_string_equal(situ_name(situ_nn_get_tensor(inner, "weight")), "more.weight");
  situ_tree_free(saved);
  situ_optim_free(o);
  situ_nn_free(other);
  situ_nn_free(second);
  situ_nn_free(c.net);
  pthread_barrier_destroy(&c.inside);
  pthread_barrier_destroy(&c.go_on);
}

/* Runs c->net on another thread, and returns when it is inside of the call. */
static pthread_t enter(call *c) {
  pthread_t thread;
  assert_int_equal(situ_nn_register_forward_pre_hook(c->net, waits, c, NULL), SITU_OK);
  pthread_barrier_init(&c->inside, NULL, 2);
  pthread_barrier_init(&c->go_on, NULL, 2);
  assert_int_equal(pthread_create(&thread, NULL, is_inside, c), 0);
  pthread_barrier_wait(&c->inside);
  return thread;
}

static void leave(call *c, pthread_t thread) {
  void *wrong = NULL;
  pthread_barrier_wait(&c->go_on);
  pthread_join(thread, &wrong);
  if (wrong) fail_msg("%s", (const char *)wrong);
  pthread_barrier_destroy(&c->inside);
  pthread_barrier_destroy(&c->go_on);
}

/* A part that runs on another thread by a handle of its own, so that nothing else of its owner is in use. */
static void a_running_part_is_not_freed(void **state) {
  (void)state;
  call child = { .x = situ_ones(SITU_SHAPE(2, 4), NULL), .net = situ_nn_relu() },
       parametrization = { .x = child.x, .net = situ_nn_relu() };
  situ_nn_module *linear = situ_nn_linear(4, 4, NULL), *next = situ_nn_relu();
  assert_non_null(situ_nn_add_child(linear, "part", NULL, child.net));
  assert_non_null(situ_nn_utils_register_parametrization(linear, "weight", parametrization.net));

  pthread_t thread = enter(&child);
  expect_refused(situ_nn_add_child(linear, "part", NULL, situ_nn_retain(next)), SITU_E_STATE, "nn_add_child",
                 "is busy");
  leave(&child, thread);
  assert_ptr_equal(situ_nn_get_submodule(linear, "part"), child.net);
  assert_ptr_equal(situ_nn_add_child(linear, "part", NULL, next), next);

  thread = enter(&parametrization);
  expect_refused(situ_nn_utils_remove_parametrizations(linear, "weight", false), SITU_E_STATE,
                 "nn_utils_remove_parametrizations", "is busy");
  leave(&parametrization, thread);
  assert_ptr_equal(situ_nn_utils_remove_parametrizations(linear, "weight", false), linear);
  situ_nn_free(linear);
}

/* ---- a change in progress ---- */

typedef struct change {
  situ_nn_module *net;
  situ_tensor *x;
  situ_optim *o;
} change;

static void *finds_it_busy(void *payload) {
  const change *c = payload;
  situ_scope s;
  situ_scope_begin(&s);
  bool refused =
      !situ_nn_forward(c->net, c->x) && situ_error() == SITU_E_STATE && strstr(situ_error_message(), "is busy");
  situ_error_clear();
  refused = refused && situ_optim_step(c->o) == SITU_E_STATE && strstr(situ_error_message(), "is busy");
  situ_error_clear();
  situ_optim_free(c->o);
  refused = refused && situ_error() == SITU_E_STATE && strstr(situ_error_message(), "is busy");
  SITU_IGNORE(situ_scope_end(&s));
  situ_error_clear();
  return refused ? NULL : (void *)"not refused while it is moved";
}

/* Memory that is given back in the middle of a move. */
static void in_the_middle(void *payload) { at_once(finds_it_busy, payload); }

static void nothing_begins_to_use_what_is_moved(void **state) {
  (void)state;
  float values[4 * 4] = { 0 };
  change c = { .net = situ_nn_linear(4, 4, &(situ_nn_linear_options){ .no_bias = true }) };
  situ_tensor *ours = situ_from_blob(values, SITU_SHAPE(4, 4), NULL, in_the_middle, &c, NULL);
  assert_non_null(ours);
  assert_non_null(situ_nn_add_tensor(c.net, "weight", NULL, ours, SITU_NN_PARAMETER));
  c.o = situ_optim_sgd(situ_nn_parameters(c.net), 1e-3, NULL);
  c.x = situ_ones(SITU_SHAPE(2, 4), NULL);
  assert_int_equal(situ_nn_to(c.net, situ_dev("sim:1")), SITU_OK);
  assert_non_null(situ_nn_forward(c.net, situ_to(c.x, situ_dev("sim:1"))));
  situ_optim_free(c.o);
  situ_nn_free(c.net);
}

/* ---- objects for one thread at a time ---- */

typedef struct queue {
  situ_data_loader *loader;
  situ_lr_scheduler *scheduler;
  pthread_barrier_t inside, go_on;
  bool wait;
} queue;
static queue q;

static void wait_inside(void) {
  if (!q.wait) return;
  q.wait = false;
  pthread_barrier_wait(&q.inside);
  pthread_barrier_wait(&q.go_on);
}

static int64_t three(situ_dataset *set) { return (void)set, 3; }
static situ_tree *slow_sample(situ_dataset *set, int64_t i) {
  (void)set;
  wait_inside();
  return situ_tree_tensor(situ_full(SITU_SHAPE(2), (double)i, NULL));
}
static double slow_rate(int64_t epoch, void *payload) {
  (void)payload;
  wait_inside();
  return epoch ? 0.5 : 1;
}

static void *takes_a_batch(void *unused) {
  (void)unused;
  return situ_data_loader_next(q.loader) ? NULL : (void *)"no batch";
}
static void *steps_the_scheduler(void *unused) {
  (void)unused;
  return situ_lr_scheduler_step(q.scheduler) == SITU_OK ? NULL : (void *)"the step failed";
}

static pthread_t begin_inside(void *(*work)(void *)) {
  pthread_t thread;
  q.wait = true;
  assert_int_equal(pthread_create(&thread, NULL, work, NULL), 0);
  pthread_barrier_wait(&q.inside);
  return thread;
}

static void end_inside(pthread_t thread) {
  void *wrong = NULL;
  pthread_barrier_wait(&q.go_on);
  pthread_join(thread, &wrong);
  if (wrong) fail_msg("%s", (const char *)wrong);
}

static void others_are_refused_meanwhile(void **state) {
  (void)state;
  static const situ_dataset_type type = {
    .name = "slow", .size = sizeof(situ_dataset), .length = three, .get = slow_sample
  };
  situ_dataset *set = situ_dataset_alloc(&type);
  situ_nn_module *net = situ_nn_linear(2, 2, NULL);
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(net), 1, NULL);
  pthread_barrier_init(&q.inside, NULL, 2);
  pthread_barrier_init(&q.go_on, NULL, 2);
  q.loader = situ_data_loader_new(set, &(situ_data_loader_options){ .batch_size = 3 });
  q.scheduler = situ_lr_scheduler_lambda_lr(o, slow_rate, NULL);

  pthread_t thread = begin_inside(takes_a_batch);
  expect_refused(situ_data_loader_next(q.loader), SITU_E_STATE, "data_loader", "is busy");
  situ_data_loader_free(q.loader);
  expect_error(SITU_E_STATE, "data_loader_free", "is busy");
  end_inside(thread);

  thread = begin_inside(steps_the_scheduler);
  BUSY(situ_lr_scheduler_step(q.scheduler), "lr_scheduler_step");
  expect_refused(situ_lr_scheduler_state_dict(q.scheduler), SITU_E_STATE, "lr_scheduler_state_dict", "is busy");
  BUSY(situ_optim_set(o, 0, SITU_OPTIM_LR, 3), "optim_set");
  BUSY(situ_optim_step(o), "optim_step");
  situ_lr_scheduler_free(q.scheduler);
  expect_error(SITU_E_STATE, "lr_scheduler_free", "is busy");
  situ_optim_free(o);
  expect_error(SITU_E_STATE, "optim_free", "is busy");
  end_inside(thread);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.5);

  assert_null(situ_data_loader_next(q.loader)); /* the end of the epoch */
  situ_data_loader_free(q.loader);
  situ_lr_scheduler_free(q.scheduler);
  situ_optim_free(o);
  situ_nn_free(net);
  situ_dataset_free(set);
  pthread_barrier_destroy(&q.inside);
  pthread_barrier_destroy(&q.go_on);
}

/* ---- a backward in progress ---- */

static situ_tensor *loss;
static void *goes_backward(void *unused) {
  (void)unused;
  return situ_backward(loss, NULL) == SITU_OK ? NULL : (void *)"the backward failed";
}

static situ_status doubled(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  (void)ins, (void)outs, (void)payload;
  return (out[0] = situ_mul_scalar(in[0], 2)) ? SITU_OK : situ_error();
}
static situ_status slow_gradient(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                                 situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  (void)in, (void)out;
  wait_inside();
  return doubled(grad_out, outs, grad_in, ins, payload);
}
static situ_tensor *slow_hook(situ_tensor *grad, void *payload) {
  (void)grad, (void)payload;
  wait_inside();
  return NULL;
}

/* What it has saved, operands and results, and the leaves whose gradients it completes. */
static void what_a_backward_uses_does_not_move(void **state) {
  (void)state;
  static const situ_function function = { .name = "doubled", .forward = doubled, .backward = slow_gradient };
  const situ_device other = situ_dev("sim:1");
  situ_tensor *x = situ_requires_grad_(situ_ones(SITU_SHAPE(4), &(situ_options){ .device = test_device() }), true), *y;
  pthread_barrier_init(&q.inside, NULL, 2);
  pthread_barrier_init(&q.go_on, NULL, 2);

  assert_int_equal(situ_function_apply(&function, &x, 1, &y, 1, NULL), SITU_OK);
  loss = situ_sum(y, NULL);
  pthread_t thread = begin_inside(goes_backward);
  BUSY(situ_to_(x, other), "to_");
  BUSY(situ_to_(y, other), "to_");
  end_inside(thread);

  assert_int_equal(situ_register_hook(x, slow_hook, NULL), SITU_OK);
  loss = situ_sum(x, NULL);
  thread = begin_inside(goes_backward);
  BUSY(situ_to_(x, other), "to_");
  end_inside(thread);

  expect_exact(situ_grad(x), SITU_SHAPE(4), 3, 3, 3, 3);
  pthread_barrier_destroy(&q.inside);
  pthread_barrier_destroy(&q.go_on);
}

/* ---- a gradient scaler ---- */

static situ_grad_scaler *scaler;
static void *updates_the_scaler(void *unused) {
  (void)unused;
  bool refused = situ_grad_scaler_update(scaler, 0) == SITU_E_STATE; /* no step before it: waits where that is logged */
  situ_error_clear();
  return refused ? NULL : (void *)"not refused";
}
static void slow_log(const char *message, void *payload) {
  (void)message, (void)payload;
  wait_inside();
}

static void a_scaler_is_for_one_thread_at_a_time(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(1), &(situ_options){ .device = test_device() });
  pthread_barrier_init(&q.inside, NULL, 2);
  pthread_barrier_init(&q.go_on, NULL, 2);
  scaler = situ_grad_scaler_new(NULL);
  situ_tree *saved = situ_grad_scaler_state_dict(scaler);
  situ_error_log(slow_log, NULL);
  const situ_error_policy before = situ_error_mode(SITU_ERROR_LOG);

  pthread_t thread = begin_inside(updates_the_scaler);
  expect_refused(situ_grad_scaler_scale(scaler, x), SITU_E_STATE, "grad_scaler_scale", "is busy");
  expect_refused(situ_grad_scaler_state_dict(scaler), SITU_E_STATE, "grad_scaler_state_dict", "is busy");
  BUSY(situ_grad_scaler_load_state_dict(scaler, saved), "grad_scaler_load_state_dict");
  BUSY(situ_grad_scaler_update(scaler, 2), "grad_scaler_update");
  end_inside(thread);

  situ_error_mode(before);
  situ_error_log(NULL, NULL);
  situ_tree_free(saved);
  situ_grad_scaler_free(scaler);
  pthread_barrier_destroy(&q.inside);
  pthread_barrier_destroy(&q.go_on);
}

/* ---- the program's code inside of a write of what others read ---- */

typedef struct listener {
  situ_nn_module *net;
  situ_tensor *x;
  int called, good;
} listener;

static void saves_and_forwards(const char *message, void *payload) {
  (void)message;
  listener *l = payload;
  situ_tree *all = situ_nn_state_dict(l->net);
  l->called++;
  l->good += situ_save("listener.safetensors", all, NULL) == SITU_OK && situ_nn_forward(l->net, l->x);
  situ_tree_free(all);
}

/* A batch of one value fails while the forward holds the locks of the running statistics. */
static void a_log_function_uses_the_module_that_fails(void **state) {
  (void)state;
  const situ_options here = { .device = test_device() };
  listener l = { .net = situ_nn_batch_norm1d(4, NULL), .x = situ_ones(SITU_SHAPE(2, 4, 3), &here) };
  assert_int_equal(situ_nn_to(l.net, test_device()), SITU_OK);
  const situ_error_policy before = situ_error_mode(SITU_ERROR_LOG);
  situ_error_log(saves_and_forwards, &l);
  (void)alarm(60); /* ends a wait for ever */
  expect_refused(situ_nn_forward(l.net, situ_ones(SITU_SHAPE(1, 4, 1), &here)), SITU_E_ARG, "batch_norm", "one value");
  assert_int_equal(l.called, 1);
  assert_int_equal(l.good, 1);
  assert_non_null(situ_nn_forward(l.net, l.x)); /* the locks are free */
  (void)alarm(0);
  situ_error_log(NULL, NULL);
  situ_error_mode(before);
  situ_nn_free(l.net);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(each_backward_counts_once),
                                      TEST(threads_differentiate_one_module),
                                      TEST(one_of_several_first_forwards_makes_the_parameters),
                                      TEST(nothing_that_a_call_uses_changes_meanwhile),
                                      TEST(a_running_part_is_not_freed),
                                      TEST(nothing_begins_to_use_what_is_moved),
                                      TEST(others_are_refused_meanwhile),
                                      TEST(what_a_backward_uses_does_not_move),
                                      TEST(a_scaler_is_for_one_thread_at_a_time),
                                      TEST(a_log_function_uses_the_module_that_fails) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
