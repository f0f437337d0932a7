/* LBFGS: what a failed step leaves, its state, moves, refusals; situ_optim_step_closure of other optimisers. Values beside
   PyTorch's are in tests/golden/optim/lbfgs.c.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "situ/io.h"
#include "situ/optim.h"
#include "situ/sys/alloc.h"
#include "support/modules.h"
#include "support/optim.h"

/* The mean of (module(x) - y)^2, and what the closure does besides. */
typedef struct task {
  situ_nn_module *m;
  situ_tensor *x, *y;
  situ_optim *o;
  int calls, fail_at, move_at; /* in which call; 0: never */
  bool frees, refuses_quietly, meets;
  situ_status elsewhere;
} task;

/* What another thread meets while the closure runs. */
static void *forward_elsewhere(void *payload) {
  task *t = payload;
  situ_scope s;
  situ_scope_begin(&s);
  situ_error_mode(SITU_ERROR_QUIET);
  (void)situ_nn_forward(t->m, t->x);
  t->elsewhere = situ_scope_end(&s);
  situ_error_clear();
  return NULL;
}
static void meet_another_thread(task *t) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, forward_elsewhere, t), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static situ_tensor *closure(void *payload) {
  task *t = payload;
  t->calls++;
  if (t->calls == t->move_at) assert_int_equal(situ_nn_to(t->m, situ_dev("cpu")), SITU_OK);
  if (t->meets) meet_another_thread(t);
  if (t->frees && t->calls == 1) situ_optim_free(t->o);
  else if (!t->frees && situ_optim_zero_grad(t->o, true) != SITU_OK) return NULL;
  if (t->frees) situ_nn_zero_grad(t->m);
  situ_tensor *x = situ_to(t->x, situ_nn_home(t->m)), *y = situ_to(t->y, situ_nn_home(t->m));
  situ_tensor *loss = situ_mse_loss(situ_nn_forward(t->m, x), y, SITU_REDUCTION_MEAN);
  if (t->calls == t->fail_at) return t->refuses_quietly ? NULL : situ_matmul(x, x);
  return situ_backward(loss, NULL) == SITU_OK ? loss : NULL;
}

static task begin(double search, double max_iter) {
  static const double x[] = { 0.1, -0.4, 0.8, 0.3, -0.9, 0.5, 0.2, 0.7, -0.6, 0.4, 1, -0.1 };
  static const double y[] = { 0.3, -0.2, 0.9, 0.1 };
  task t = { .x = test_tensor(SITU_F64, SITU_SHAPE(4, 3), x), .y = test_tensor(SITU_F64, SITU_SHAPE(4, 1), y) };
  situ_manual_seed(3);
  const situ_nn_linear_options o = { HERE, .dtype = SITU_F64 };
  t.m = situ_nn_sequential(situ_nn_linear(3, 5, &o), situ_nn_tanh(), situ_nn_linear(5, 1, &o));
  t.o = situ_optim_lbfgs(
      situ_nn_parameters(t.m), 0.5,
      OPTIM_OPTIONS(situ_optim_lbfgs, { SITU_OPTIM_LINE_SEARCH_FN, search }, { SITU_OPTIM_MAX_ITER, max_iter }));
  return t;
}

static void end(task *t) {
  if (!t->frees) situ_optim_free(t->o);
  situ_nn_free(t->m);
}

static double take_step(task *t) {
  double loss = NAN;
  if (situ_optim_step_closure(t->o, closure, t, &loss) != SITU_OK) fail_msg("%s", situ_error_message());
  return loss;
}

static situ_tensor *parameters(const task *t) {
  situ_tree *list = situ_nn_parameters(t->m);
  situ_tensor *flat[4];
  for (int i = 0; i < 4; i++) flat[i] = situ_reshape(situ_detach(situ_tree_tensor_at(list, i)), SITU_SHAPE(-1));
  situ_tree_free(list);
  return situ_to(situ_cat(flat, 4, 0), test_device());
}

/* All of the state, as one vector. */
static situ_tensor *memory(const task *t) {
  situ_tree *saved = situ_optim_state_dict(t->o), *all = situ_tree_flatten(saved),
            *flat = situ_tree_section(all, "state");
  situ_tensor *part[64];
  const int count = (int)situ_tree_count(flat);
  for (int i = 0; i < count; i++)
    part[i] =
        situ_to_dtype(situ_reshape(situ_to(situ_tree_tensor_at(flat, i), test_device()), SITU_SHAPE(-1)), SITU_F64);
  situ_tree_free(flat);
  situ_tree_free(all);
  situ_tree_free(saved);
  return count ? situ_cat(part, count, 0) : NULL;
}

static void the_loss_decreases(void **state) {
  (void)state;
  for (int search = 0; search < 2; search++) {
    task t = begin(search, 20);
    const double first = take_step(&t), second = take_step(&t);
    assert_true(first > 0.1 && second < 1e-3 * first);
    assert_true(t.calls > 20 && t.calls <= 2 * 25 + 25);
    end(&t);
  }
}

/* Whichever call of the closure fails, in the first step or a later one. */
static void a_failing_closure_changes_nothing(void **state) {
  (void)state;
  for (int search = 0; search < 2; search++)
    for (int steps = 0; steps < 2; steps++)
      for (int at = 1; at <= 5; at++) {
        task t = begin(search, 6);
        for (int i = 0; i < steps; i++) (void)take_step(&t);
        situ_tensor *was = parameters(&t), *had = steps ? memory(&t) : NULL;
        t.calls = 0;
        t.fail_at = at;
        t.refuses_quietly = at == 5;
        assert_int_equal(situ_optim_step_closure(t.o, closure, &t, NULL), at == 5 ? SITU_E_STATE : SITU_E_SHAPE);
        expect_error(at == 5 ? SITU_E_STATE : SITU_E_SHAPE, at == 5 ? "optim_step_closure" : "matmul",
                     at == 5 ? "returned no loss" : "[4, 3] x [4, 3]");
        assert_int_equal(t.calls, at);
        expect_same(parameters(&t), was, 0, 0);
        if (steps) expect_same(memory(&t), had, 0, 0);
        else assert_null(memory(&t));
        t.fail_at = 0;
        (void)take_step(&t);
        task whole = begin(search, 6);
        for (int i = 0; i <= steps; i++) (void)take_step(&whole);
        expect_same(parameters(&t), parameters(&whole), 0, 0);
        expect_same(memory(&t), memory(&whole), 0, 0);
        end(&t);
        end(&whole);
      }
}

/* Whichever allocation fails. A device with a queue may fail at any launch, which nothing can take back. */
static void a_failing_allocation_changes_nothing(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) return;
  task t = begin(1, 3);
  (void)take_step(&t);
  situ_tensor *was = parameters(&t), *had = memory(&t);
  int failures = 0;
  for (uint64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    const situ_status status = situ_optim_step_closure(t.o, closure, &t, NULL);
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    situ_error_clear();
    failures++;
    expect_same(parameters(&t), was, 0, 0);
    expect_same(memory(&t), had, 0, 0);
  }
  assert_true(failures > 20);
  bool same = true;
  assert_int_equal(situ_equal(parameters(&t), was, &same), SITU_OK);
  assert_false(same);
  end(&t);
}

static void a_saved_state_continues(void **state) {
  (void)state;
  for (int search = 0; search < 2; search++) {
    task a = begin(search, 4), b = begin(0, 9);
    (void)take_step(&a);
    (void)take_step(&a);
    situ_tree *weights = situ_nn_state_dict(a.m), *saved = situ_optim_state_dict(a.o);
    assert_int_equal(situ_nn_load_state_dict(b.m, weights, NULL), SITU_OK);
    assert_int_equal(situ_save("lbfgs.safetensors", saved, NULL), SITU_OK);
    situ_tree *read = situ_load("lbfgs.safetensors", NULL);
    assert_int_equal(situ_optim_load_state_dict(b.o, read), SITU_OK);
    assert_true(situ_optim_get(b.o, 0, SITU_OPTIM_LINE_SEARCH_FN) == search);
    assert_true(situ_optim_get(b.o, 0, SITU_OPTIM_MAX_ITER) == 4);
    situ_tree_free(read);
    situ_tree_free(saved);
    situ_tree_free(weights);
    for (int i = 0; i < 3; i++) assert_true(take_step(&a) == take_step(&b));
    expect_same(parameters(&a), parameters(&b), 0, 0);
    expect_same(memory(&a), memory(&b), 0, 0);
    end(&a);
    end(&b);
  }
}

/* A checkpoint of model and optimiser goes on where the run was. */
static void checkpoints(void **state) {
  (void)state;
  task a = begin(1, 4), b = begin(1, 4);
  for (int i = 0; i < 2; i++) (void)take_step(&a);
  situ_checkpoint saved = { .model = a.m, .optimizer = a.o }, loaded = { .model = b.m, .optimizer = b.o };
  assert_int_equal(situ_checkpoint_save("lbfgs.ckpt", &saved, NULL), SITU_OK);
  (void)take_step(&b);
  assert_int_equal(situ_checkpoint_load("lbfgs.ckpt", &loaded, NULL), SITU_OK);
  expect_same(memory(&a), memory(&b), 0, 0);
  for (int i = 0; i < 2; i++) assert_true(take_step(&a) == take_step(&b));
  expect_same(parameters(&a), parameters(&b), 0, 0);
  end(&a);
  end(&b);
}

/* Between two calls of the closure parameters are points of the line search. */
static void another_thread_is_refused(void **state) {
  (void)state;
  task t = begin(1, 2);
  t.meets = true;
  (void)take_step(&t);
  assert_int_equal(t.elsewhere, SITU_E_STATE);
  (void)forward_elsewhere(&t);
  assert_int_equal(t.elsewhere, SITU_OK);
  end(&t);
}

static void the_layout_is_torchs(void **state) {
  (void)state;
  task t = begin(1, 2);
  for (int i = 0; i < 2; i++) (void)take_step(&t);
  situ_tree *saved = situ_optim_state_dict(t.o), *flat = situ_tree_flatten(saved);
  static const char *const keys[] = { "state.0.func_evals",
                                      "state.0.n_iter",
                                      "state.0.d",
                                      "state.0.t",
                                      "state.0.old_dirs.0",
                                      "state.0.old_stps.0",
                                      "state.0.ro.0",
                                      "state.0.H_diag",
                                      "state.0.prev_flat_grad",
                                      "state.0.prev_loss",
                                      "param_groups.0.lr",
                                      "param_groups.0.maximize",
                                      "param_groups.0.max_iter",
                                      "param_groups.0.max_eval",
                                      "param_groups.0.tolerance_grad",
                                      "param_groups.0.tolerance_change",
                                      "param_groups.0.history_size",
                                      "param_groups.0.line_search_fn",
                                      "param_groups.0.params" };
  assert_int_equal(situ_tree_count(flat), sizeof keys / sizeof *keys);
  for (int i = 0; i < (int)(sizeof keys / sizeof *keys); i++) assert_string_equal(situ_tree_key(flat, i), keys[i]);
  assert_int_equal(situ_numel(situ_tree_get(flat, "state.0.d")), 26);
  double evals;
  test_read(situ_tree_get(flat, "state.0.func_evals"), &evals);
  assert_true(evals == t.calls);
  assert_null(situ_optim_state(t.o, 0, 0, NULL));
  situ_tree_free(flat);
  situ_tree_free(saved);
  end(&t);
}

/* A state that is not complete, or of another model, is refused as a whole. */
static void wrong_states(void **state) {
  (void)state;
  task t = begin(1, 2);
  for (int i = 0; i < 2; i++) (void)take_step(&t);
  situ_tensor *had = memory(&t);
  situ_tree *saved = situ_optim_state_dict(t.o), *all = situ_tree_flatten(saved);
  static const char *const lacks[] = { "state.0.func_evals", "state.0.d", "state.0.old_stps.0", "state.0.ro.0",
                                       "state.0.H_diag" };
  for (int k = 0; k < 6; k++) {
    situ_tree *less = situ_tree_dict();
    for (int64_t i = 0; i < situ_tree_count(all); i++) {
      situ_tensor *value = situ_tree_tensor_at(all, i);
      if (k < 5 && strcmp(situ_tree_key(all, i), lacks[k]) == 0) continue;
      if (k == 5 && strcmp(situ_tree_key(all, i), "state.0.old_dirs.0") == 0) value = situ_narrow(value, 0, 0, 25);
      less = situ_tree_put(less, situ_tree_key(all, i), situ_tree_tensor(value));
    }
    assert_int_equal(situ_optim_load_state_dict(t.o, less), k == 5 ? SITU_E_SHAPE : SITU_E_ARG);
    expect_error(k == 5 ? SITU_E_SHAPE : SITU_E_ARG, "", k == 5 ? "state.0.old_dirs.0 is [25]" : lacks[k]);
    situ_tree_free(less);
    expect_same(memory(&t), had, 0, 0);
  }
  situ_tree_free(all);
  situ_tree_free(saved);
  end(&t);
}

/* The history moves and is cast with the parameters, also by situ_optim_to. */
static void moves(void **state) {
  (void)state;
  task a = begin(1, 3), b = begin(1, 3);
  (void)take_step(&a);
  (void)take_step(&b);
  assert_int_equal(situ_nn_to(b.m, situ_dev("cpu")), SITU_OK);
  assert_int_equal(situ_optim_to(b.o, test_device()), SITU_OK);
  assert_true(take_step(&a) == take_step(&b));
  expect_same(memory(&a), memory(&b), 0, 0);
  assert_int_equal(situ_nn_to(b.m, situ_dev("sim:1")), SITU_OK);
  assert_true(fabs(take_step(&a) - take_step(&b)) < 1e-9);
  expect_same(parameters(&a), parameters(&b), 1e-7, 1e-7);
  assert_int_equal(situ_nn_to_dtype(b.m, SITU_F32), SITU_OK);
  b.x = situ_to_dtype(b.x, SITU_F32);
  b.y = situ_to_dtype(b.y, SITU_F32);
  (void)take_step(&b);
  end(&a);
  end(&b);
}

/* Before the first evaluation all of the state moves along. Later the new direction does not: the step fails, and writes
   back the saved parameters, which have moved. */
static void a_closure_that_moves(void **state) {
  (void)state;
  if (test_device().kind == SITU_CPU) return;
  task t = begin(1, 3);
  (void)take_step(&t);
  situ_tensor *was = parameters(&t);
  t.move_at = t.calls + 2;
  assert_int_not_equal(situ_optim_step_closure(t.o, closure, &t, NULL), SITU_OK);
  expect_error(SITU_E_DEVICE, "", "cpu");
  assert_int_equal(situ_nn_home(t.m).kind, SITU_CPU);
  expect_same(parameters(&t), was, 0, 0);
  assert_int_equal(situ_optim_to(t.o, test_device()), SITU_OK);
  t.move_at = t.calls + 1;
  task there = begin(1, 3);
  for (int i = 0; i < 2; i++) (void)take_step(&there);
  (void)take_step(&t);
  expect_same(parameters(&t), parameters(&there), 1e-9, 1e-9);
  end(&there);
  end(&t);
}

static void a_closure_that_frees(void **state) {
  (void)state;
  task t = begin(1, 3);
  t.frees = true;
  const double first = take_step(&t);
  assert_true(first > 0 && t.calls > 1);
  end(&t);
}

/* In f16 the square of a gradient overflows: 16 bits are computed in f32. The state survives casts of the module. */
static void half_precision(void **state) {
  (void)state;
  static const situ_dtype dtypes[] = { SITU_F16, SITU_BF16, SITU_F64, SITU_BF16 };
  task t = begin(1, 3);
  t.y = situ_mul_scalar(t.y, 300);
  situ_tensor *x = t.x, *y = t.y;
  double last = INFINITY;
  for (int i = 0; i < 4; i++) {
    assert_int_equal(situ_nn_to_dtype(t.m, dtypes[i]), SITU_OK);
    t.x = situ_to_dtype(x, dtypes[i]);
    t.y = situ_to_dtype(y, dtypes[i]);
    for (int k = 0; k < 3; k++) {
      const double loss = take_step(&t);
      assert_true(loss <= last * 1.02); /* rounding of weights and of the loss */
      last = loss;
    }
  }
  end(&t);
}

/* A gradient that is small enough ends the step at once; a parameter without one stays. */
static void nothing_to_do(void **state) {
  (void)state;
  task t = begin(0, 5);
  (void)take_step(&t);
  situ_tensor *was = parameters(&t);
  assert_int_equal(situ_optim_set(t.o, 0, SITU_OPTIM_TOLERANCE_GRAD, 10), SITU_OK);
  t.calls = 0;
  (void)take_step(&t);
  assert_int_equal(t.calls, 1);
  expect_same(parameters(&t), was, 0, 0);
  end(&t);
}

/* Of any optimiser, and in a scope without gradients. */
static void others_evaluate_once(void **state) {
  (void)state;
  task a = begin(0, 1), b = begin(0, 1);
  situ_optim_free(a.o);
  situ_optim_free(b.o);
  a.o = situ_optim_adam(situ_nn_parameters(a.m), 1e-3, NULL);
  b.o = situ_optim_adam(situ_nn_parameters(b.m), 1e-3, NULL);
  double loss, want;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_int_equal(situ_optim_step_closure(a.o, closure, &a, &loss), SITU_OK);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(a.calls, 1);
  assert_int_equal(situ_item(closure(&b), &want), SITU_OK);
  assert_int_equal(situ_optim_step(b.o), SITU_OK);
  assert_true(loss == want);
  expect_same(parameters(&a), parameters(&b), 0, 0);
  a.fail_at = 2;
  assert_int_equal(situ_optim_step_closure(a.o, closure, &a, NULL), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "matmul", "[4, 3] x [4, 3]");
  expect_same(parameters(&a), parameters(&b), 0, 0);
  assert_int_equal(situ_optim_step_closure(a.o, NULL, &a, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optim_step_closure", "closure");
  end(&a);
  end(&b);
}

static situ_tensor *vector(situ_dtype dtype, situ_device device) {
  const situ_options o = { .dtype = dtype, .device = device, .requires_grad = true };
  return situ_ones(SITU_SHAPE(2), &o);
}

static situ_tensor *two_losses(void *payload) { return payload; }

static void refusals(void **state) {
  (void)state;
#define LBFGS(field, value)                                       \
  situ_optim_lbfgs(SITU_TREE(vector(SITU_F32, test_device())), 1, \
                   OPTIM_OPTIONS(situ_optim_lbfgs, { SITU_OPTIM_##field, value }))
  expect_refused(LBFGS(MAX_ITER, 2.5), SITU_E_ARG, "optim_lbfgs", "max_iter is 2.5");
  expect_refused(LBFGS(HISTORY_SIZE, 0), SITU_E_ARG, "optim_lbfgs", "history_size is 0");
  expect_refused(LBFGS(HISTORY_SIZE, 1e10), SITU_E_ARG, "optim_lbfgs", "history_size is 1e+10");
  expect_refused(LBFGS(LINE_SEARCH_FN, 2), SITU_E_ARG, "optim_lbfgs", "line_search_fn is 2");
  expect_refused(LBFGS(TOLERANCE_GRAD, -1), SITU_E_ARG, "optim_lbfgs", "tolerance_grad is -1");
  expect_refused(LBFGS(WEIGHT_DECAY, 0.1), SITU_E_ARG, "optim_lbfgs", "it has no weight_decay");
  expect_refused(LBFGS(MASTER_WEIGHTS, 1), SITU_E_ARG, "optim_lbfgs", "it has no master_weights");
  expect_refused(situ_optim_adam(SITU_TREE(vector(SITU_F32, test_device())), 1e-3,
                                 OPTIM_OPTIONS(situ_optim_adam, { SITU_OPTIM_MAX_ITER, 3 })),
                 SITU_E_ARG, "optim_adam", "it has no max_iter");
  task t = begin(0, 1);
  assert_int_equal(situ_optim_step(t.o), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "optim_step", "situ_optim_step_closure");
  situ_tree *more = SITU_TREE(vector(SITU_F64, test_device()));
  assert_int_equal(situ_optim_add_param_group(t.o, more, NULL), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "optim_add_param_group", "one parameter group");
  assert_int_equal(situ_optim_step_closure(t.o, two_losses, t.x, NULL), SITU_E_SHAPE);
  situ_error_clear();
  situ_optim *o =
      situ_optim_lbfgs(SITU_TREE(vector(SITU_F32, test_device()), vector(SITU_F64, test_device())), 1, NULL);
  assert_int_equal(situ_optim_step_closure(o, closure, &t, NULL), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "optim_step_closure", "of another dtype");
  situ_optim_free(o);
  o = situ_optim_lbfgs(SITU_TREE(vector(SITU_F32, test_device()), vector(SITU_F32, situ_dev("sim:1"))), 1, NULL);
  assert_int_equal(situ_optim_step_closure(o, closure, &t, NULL), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "optim_step_closure", "on another device");
  situ_optim_free(o);
  assert_int_equal(t.calls, 0);
  end(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(the_loss_decreases),
                                      MODULE_TEST(a_failing_closure_changes_nothing),
                                      MODULE_TEST(a_failing_allocation_changes_nothing),
                                      MODULE_TEST(a_saved_state_continues),
                                      MODULE_TEST(checkpoints),
                                      MODULE_TEST(another_thread_is_refused),
                                      MODULE_TEST(the_layout_is_torchs),
                                      MODULE_TEST(wrong_states),
                                      MODULE_TEST(moves),
                                      MODULE_TEST(a_closure_that_moves),
                                      MODULE_TEST(a_closure_that_frees),
                                      MODULE_TEST(half_precision),
                                      MODULE_TEST(nothing_to_do),
                                      MODULE_TEST(others_evaluate_once),
                                      MODULE_TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
