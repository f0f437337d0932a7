/* Learning-rate schedules against torch's rates, to the last bit; chained ones; state;
   refusals.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "situ/sys/alloc.h"
#include "rates.h"

/* Steps of optimiser and schedules; before each, the field has torch's value. Everything is freed.
   */
static void expect_rates(situ_optim *o, situ_lr_scheduler *a, situ_lr_scheduler *b, situ_optim_field field, int count,
                         const double *want) {
  assert_non_null(a);
  for (int i = 0; i < count; i++) {
    double got = situ_optim_get(o, 0, field);
    if (got != want[i]) fail_msg("step %d: %.17g, torch has %.17g", i, got, want[i]);
    assert_int_equal(situ_optim_step(o), SITU_OK);
    assert_int_equal(situ_lr_scheduler_step(a), SITU_OK);
    if (b) assert_int_equal(situ_lr_scheduler_step(b), SITU_OK);
  }
  assert_int_equal(situ_lr_scheduler_last_epoch(a), count);
  situ_lr_scheduler_free(a);
  situ_lr_scheduler_free(b);
  situ_optim_free(o);
}

static void count_lines(const char *line, void *payload) {
  if (strstr(line, "before its optimiser")) ++*(int *)payload;
}
/* In the order of torch before 1.1; the first test, as it is logged once. */
static void a_step_before_the_optimisers_is_logged_once(void **state) {
  (void)state;
  int lines = 0;
  situ_error_log(count_lines, &lines);
  for (int k = 0; k < 4; k++) {
    situ_optim *o = sgd();
    situ_lr_scheduler *s = situ_lr_scheduler_step_lr(o, 3, 0.1);
    if (k == 0) assert_int_equal(situ_optim_step(o), SITU_OK);
    assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
    assert_int_equal(lines, k > 0);
    assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
    situ_lr_scheduler_free(s);
    situ_optim_free(o);
  }
  situ_error_log(NULL, NULL);
}

static void step_lr(void **state) {
  (void)state;
  static const double want[] = { 0.1,
                                 0.1,
                                 0.1,
                                 0.010000000000000002,
                                 0.010000000000000002,
                                 0.010000000000000002,
                                 0.0010000000000000002,
                                 0.0010000000000000002 };
  situ_optim *o = sgd();
  expect_rates(o, situ_lr_scheduler_step_lr(o, 3, 0.1), NULL, SITU_OPTIM_LR, COUNT(want), want);
}

/* Past its lowest point it comes up again. */
static void cosine_annealing_lr(void **state) {
  (void)state;
  static const double want[] = { 0.1,
                                 0.08681980515339464,
                                 0.05500000000000001,
                                 0.023180194846605363,
                                 0.01,
                                 0.023180194846605363,
                                 0.05500000000000002,
                                 0.08681980515339469,
                                 0.10000000000000006,
                                 0.0868198051533947,
                                 0.05500000000000005 };
  situ_optim *o = sgd();
  expect_rates(o, situ_lr_scheduler_cosine_annealing_lr(o, 4, 0.01), NULL, SITU_OPTIM_LR, COUNT(want), want);
}

static double power(int64_t step, void *payload) { return pow(*(double *)payload, (double)step); }

static void lambda_lr(void **state) {
  (void)state;
  static const double want[] = { 0.1, 0.095, 0.09025, 0.0857375, 0.081450625 };
  double base = 0.95;
  situ_optim *o = sgd();
  expect_rates(o, situ_lr_scheduler_lambda_lr(o, power, &base), NULL, SITU_OPTIM_LR, COUNT(want), want);
}

/* The lambda gives the factor of each step, not of the first rate, and step 0 has none. */
static void multiplicative_lr(void **state) {
  (void)state;
  static const double want[] = {
    0.1, 0.095, 0.0857375, 0.07350918906249998, 0.059873693923837866, 0.046329123015975304
  };
  double base = 0.95;
  situ_optim *o = sgd();
  expect_rates(o, situ_lr_scheduler_multiplicative_lr(o, power, &base), NULL, SITU_OPTIM_LR, COUNT(want), want);
}

static void two_are_chained(void **state) {
  (void)state;
  static const double want[] = {
    0.1, 0.09045084971874738,  0.032725424859373686, 0.017274575140626316, 0.0023872875703131583,
    0.0, 0.009549150281252628, 0.03454915028125265
  };
  situ_optim *o = sgd();
  situ_lr_scheduler *first = situ_lr_scheduler_step_lr(o, 2, 0.5);
  expect_rates(o, first, situ_lr_scheduler_cosine_annealing_lr(o, 5, 0), SITU_OPTIM_LR, COUNT(want), want);
}

static double warm_up(int64_t step, void *payload) {
  (void)payload;
  return (double)(step + 1) / 4;
}

/* A second schedule starts from the rate that the optimiser was made with, not from what the first
   has made of it. */
static void the_first_rate_is_kept(void **state) {
  (void)state;
  static const double want[] = { 0.1, 0.095, 0.09025, 0.0857375 };
  double base = 0.95;
  situ_optim *o = sgd();
  situ_lr_scheduler *first = situ_lr_scheduler_lambda_lr(o, warm_up, NULL);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.025);
  expect_rates(o, first, situ_lr_scheduler_lambda_lr(o, power, &base), SITU_OPTIM_LR, COUNT(want), want);
}

static void one_cycle_lr(void **state) {
  (void)state;
  static const double rate[] = { 0.040000000000000036, 0.6513582352345999,   0.9944154354509117,
                                 0.8985666593464469,   0.7056447289910996,   0.46263710266697505,
                                 0.22872995315964806,  0.060892969758032406, 4e-06 };
  static const double momentum[] = { 0.95,
                                     0.8863168504963959,
                                     0.8505584586887436,
                                     0.8601433746388538,
                                     0.8794356448434694,
                                     0.9037365046793212,
                                     0.9271273131932879,
                                     0.9439110786685114,
                                     0.95 };
  situ_optim *o = sgd();
  expect_rates(o, situ_lr_scheduler_one_cycle_lr(o, 1, 9, NULL), NULL, SITU_OPTIM_LR, COUNT(rate), rate);
  o = sgd();
  expect_rates(o, situ_lr_scheduler_one_cycle_lr(o, 1, 9, NULL), NULL, SITU_OPTIM_MOMENTUM, COUNT(momentum), momentum);
}

static void one_cycle_in_three_phases(void **state) {
  (void)state;
  static const double rate[] = {
    0.05, 0.2, 0.35, 0.5, 0.35, 0.2, 0.04999999999999999, 0.0335, 0.017, 0.0005000000000000004
  };
  static const double beta1[] = {
    0.9, 0.8666666666666667, 0.8333333333333334, 0.8, 0.8333333333333334, 0.8666666666666667, 0.9, 0.9, 0.9, 0.9
  };
  situ_one_cycle_options options = situ_one_cycle_defaults();
  options.three_phase = true;
  options.linear = true;
  options.pct_start = 0.4;
  options.div_factor = 10;
  options.final_div_factor = 100;
  options.base_momentum = 0.8;
  options.max_momentum = 0.9;
  situ_optim *o = situ_optim_adam(one(), 1e-3, NULL);
  expect_rates(o, situ_lr_scheduler_one_cycle_lr(o, 0.5, 10, &options), NULL, SITU_OPTIM_LR, COUNT(rate), rate);
  o = situ_optim_adam(one(), 1e-3, NULL);
  expect_rates(o, situ_lr_scheduler_one_cycle_lr(o, 0.5, 10, &options), NULL, SITU_OPTIM_BETA1, COUNT(beta1), beta1);
}

static void a_cycle_ends(void **state) {
  (void)state;
  situ_optim *o = sgd();
  situ_one_cycle_options options = situ_one_cycle_defaults();
  options.keep_momentum = true;
  situ_lr_scheduler *s = situ_lr_scheduler_one_cycle_lr(o, 1, 2, &options);
  for (int i = 0; i < 2; i++) assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  double last = situ_optim_get(o, 0, SITU_OPTIM_LR);
  assert_int_equal(situ_lr_scheduler_step(s), SITU_E_STATE);
  expect_error(SITU_E_STATE, "lr_scheduler_one_cycle_lr", "step 3 of a cycle of 2");
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == last);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_MOMENTUM) == 0.9);
  /* The schedule holds the optimiser. */
  situ_optim_free(o);
  assert_int_equal(situ_lr_scheduler_last_epoch(s), 2);
  situ_lr_scheduler_free(s);
}

/* Optimiser and schedule saved in the middle, and gone on with in new ones. */
static void resumes_exactly(void **state) {
  (void)state;
  situ_optim *o = sgd(), *other = sgd();
  situ_lr_scheduler *s = situ_lr_scheduler_cosine_annealing_lr(o, 7, 0),
                    *t = situ_lr_scheduler_cosine_annealing_lr(other, 7, 0);
  for (int i = 0; i < 3; i++) assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  situ_tree *optim = situ_optim_state_dict(o), *schedule = situ_lr_scheduler_state_dict(s);
  assert_int_equal(situ_optim_load_state_dict(other, optim), SITU_OK);
  assert_int_equal(situ_lr_scheduler_load_state_dict(t, schedule), SITU_OK);
  for (int i = 0; i < 9; i++) {
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == situ_optim_get(other, 0, SITU_OPTIM_LR));
    assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
    assert_int_equal(situ_lr_scheduler_step(t), SITU_OK);
  }
  assert_int_equal(situ_lr_scheduler_load_state_dict(t, optim), SITU_E_ARG);
  expect_error(SITU_E_ARG, "load_state_dict", "no last_epoch");
  situ_tree_free(optim);
  situ_tree_free(schedule);
  situ_lr_scheduler_free(s);
  situ_lr_scheduler_free(t);
  situ_optim_free(o);
  situ_optim_free(other);
}

static void no_milestones(void **state) {
  (void)state;
  static const double want[] = { 0.1, 0.1, 0.1 };
  situ_optim *o = sgd();
  expect_rates(o, situ_lr_scheduler_multi_step_lr(o, NULL, 0, 0.5), NULL, SITU_OPTIM_LR, COUNT(want), want);
}

static void arguments_out_of_range(void **state) {
  (void)state;
  situ_optim *o = sgd();
  const int64_t milestones[] = { 4, -1 };
  expect_refused(situ_lr_scheduler_multi_step_lr(o, milestones, 2, 0.1), SITU_E_ARG, "lr_scheduler_multi_step_lr",
                 "milestones[1] is -1");
  expect_refused(situ_lr_scheduler_multi_step_lr(o, NULL, 1, 0.1), SITU_E_ARG, "", "milestones");
  expect_refused(situ_lr_scheduler_multi_step_lr(o, milestones, -1, 0.1), SITU_E_ARG, "", "-1 milestones");
  expect_refused(situ_lr_scheduler_multi_step_lr(o, milestones, 1, (double)NAN), SITU_E_ARG, "", "gamma");
  expect_refused(situ_lr_scheduler_constant_lr(o, 0, 5), SITU_E_ARG, "lr_scheduler_constant_lr", "factor is 0");
  expect_refused(situ_lr_scheduler_constant_lr(o, 1, -1), SITU_E_ARG, "", "total_iters is -1");
  expect_refused(situ_lr_scheduler_linear_lr(o, 1.5, 1, 5), SITU_E_ARG, "lr_scheduler_linear_lr", "start_factor");
  expect_refused(situ_lr_scheduler_linear_lr(o, 1, -0.5, 5), SITU_E_ARG, "", "end_factor is -0.5");
  expect_refused(situ_lr_scheduler_exponential_lr(o, INFINITY), SITU_E_ARG, "lr_scheduler_exponential_lr", "gamma");
  expect_refused(situ_lr_scheduler_polynomial_lr(o, 5, (double)NAN), SITU_E_ARG, "lr_scheduler_polynomial_lr", "power");
  expect_refused(situ_lr_scheduler_cosine_annealing_warm_restarts(o, 5, 0, 0), SITU_E_ARG, "", "t_mult 0");
  expect_refused(situ_lr_scheduler_cyclic_lr(o, 0, -1, NULL), SITU_E_ARG, "lr_scheduler_cyclic_lr", "max_lr -1");
  situ_cyclic_options cyclic = situ_cyclic_defaults();
  cyclic.step_size_up = 0;
  expect_refused(situ_lr_scheduler_cyclic_lr(o, 0, 1, &cyclic), SITU_E_ARG, "", "step_size_up 0");
  cyclic = situ_cyclic_defaults();
  cyclic.step_size_down = -1;
  expect_refused(situ_lr_scheduler_cyclic_lr(o, 0, 1, &cyclic), SITU_E_ARG, "", "step_size_down -1");
  cyclic = situ_cyclic_defaults();
  cyclic.max_momentum = 1.01;
  expect_refused(situ_lr_scheduler_cyclic_lr(o, 0, 1, &cyclic), SITU_E_ARG, "", "max_momentum 1.01");
  cyclic = situ_cyclic_defaults();
  cyclic.base_momentum = 1.01;
  expect_refused(situ_lr_scheduler_cyclic_lr(o, 0, 1, &cyclic), SITU_E_ARG, "", "base_momentum 1.01");
  expect_refused(situ_lr_scheduler_reduce_lr_on_plateau(o, 1, 1, NULL), SITU_E_ARG, "", "factor 1");
  situ_plateau_options plateau = situ_plateau_defaults();
  plateau.min_lr = -1;
  expect_refused(situ_lr_scheduler_reduce_lr_on_plateau(o, 0.5, 1, &plateau), SITU_E_ARG, "", "min_lr -1");
  situ_lr_scheduler *parts[] = { situ_lr_scheduler_step_lr(o, 1, 1), situ_lr_scheduler_step_lr(o, 1, 1) };
  expect_refused(situ_lr_scheduler_sequential_lr(o, 2, parts, (int64_t[]){ 0 }), SITU_E_ARG, "",
                 "milestones[0] is 0: it must be above 0");
  expect_refused(situ_lr_scheduler_sequential_lr(o, 0, parts, NULL), SITU_E_ARG, "", "0 schedulers");
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.1);
  situ_optim_free(o);
}

static void nonsense_is_refused(void **state) {
  (void)state;
  situ_optim *o = sgd();
  expect_refused(situ_lr_scheduler_step_lr(NULL, 1, 0.1), SITU_E_ARG, "lr_scheduler_step_lr", "optimiser");
  expect_refused(situ_lr_scheduler_step_lr(o, 0, 0.1), SITU_E_ARG, "lr_scheduler_step_lr", "step_size of 0");
  expect_refused(situ_lr_scheduler_cosine_annealing_lr(o, 0, 0), SITU_E_ARG, "", "t_max of 0");
  expect_refused(situ_lr_scheduler_lambda_lr(o, NULL, NULL), SITU_E_ARG, "", "lambda");
  expect_refused(situ_lr_scheduler_multiplicative_lr(o, NULL, NULL), SITU_E_ARG, "lr_scheduler_multiplicative_lr",
                 "lambda");
  expect_refused(situ_lr_scheduler_one_cycle_lr(o, 1, 0, NULL), SITU_E_ARG, "", "total_steps 0");
  expect_refused(situ_lr_scheduler_one_cycle_lr(o, NAN, 5, NULL), SITU_E_ARG, "", "max_lr");
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.1);
  situ_optim_free(o);
}

/* What is refused leaves the optimiser as it was, also what it would have remembered. */
static void numbers_that_are_not_finite(void **state) {
  (void)state;
  static const double bad[] = { NAN, INFINITY, -INFINITY };
  situ_optim *o = sgd();
  int64_t when = 0;
  for (int k = 0; k < 3; k++) {
    expect_refused(situ_lr_scheduler_step_lr(o, 1, bad[k]), SITU_E_ARG, "lr_scheduler_step_lr", "gamma");
    expect_refused(situ_lr_scheduler_cosine_annealing_lr(o, 4, bad[k]), SITU_E_ARG, "lr_scheduler_cosine_annealing_lr",
                   "eta_min");
    expect_refused(situ_lr_scheduler_one_cycle_lr(o, bad[k], 9, NULL), SITU_E_ARG, "lr_scheduler_one_cycle_lr", "");
    for (int i = 0; i < 5; i++) {
      situ_one_cycle_options cycle = situ_one_cycle_defaults();
      double *field[] = { &cycle.pct_start, &cycle.base_momentum, &cycle.max_momentum, &cycle.div_factor,
                          &cycle.final_div_factor };
      *field[i] = i < 3 ? bad[k] : k ? 1e-320 : NAN;
      expect_refused(situ_lr_scheduler_one_cycle_lr(o, 1, 9, &cycle), SITU_E_ARG, "lr_scheduler_one_cycle_lr", "");
    }
  }
  /* 1 step in which to rise from the first rate to the highest: torch divides by 0 */
  situ_one_cycle_options tenth = situ_one_cycle_defaults();
  tenth.pct_start = 0.1;
  expect_refused(situ_lr_scheduler_one_cycle_lr(o, 1, 10, &tenth), SITU_E_ARG, "lr_scheduler_one_cycle_lr",
                 "is 1 step");
  expect_refused(situ_lr_scheduler_lambda_lr(o, not_a_number, &when), SITU_E_ARG, "lr_scheduler_lambda_lr",
                 "lr of group 0 would be nan in step 0");
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.1);
  when = 2;
  assert_int_equal(situ_optim_set(o, 0, SITU_OPTIM_LR, 0.5), SITU_OK); /* refused ones did not fix the first rate */
  situ_lr_scheduler *s = situ_lr_scheduler_lambda_lr(o, not_a_number, &when);
  assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.5);
  for (int k = 0; k < 2; k++) { /* refused each time, nothing moves on */
    assert_int_equal(situ_lr_scheduler_step(s), SITU_E_ARG);
    expect_error(SITU_E_ARG, "lr_scheduler_lambda_lr", "in step 2");
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.5);
    assert_int_equal(situ_lr_scheduler_last_epoch(s), 1);
  }
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}

static void saved_numbers_that_are_not_finite(void **state) {
  (void)state;
  situ_optim *o = sgd();
  situ_lr_scheduler *s = situ_lr_scheduler_step_lr(o, 1, 0.1);
  static const double epochs[] = { NAN, -1, 0.5, 2, 2 }, rates[] = { 1, 1, 1, NAN, INFINITY };
  for (int k = 0; k < 5; k++) {
    situ_tree *saved = situ_tree_put(situ_tree_dict(), "last_epoch", situ_tree_tensor(T64(SITU_SCALAR, epochs[k])));
    saved = situ_tree_put(saved, "base_lrs", situ_tree_tensor(T64(SITU_SHAPE(1), rates[k])));
    assert_int_equal(situ_lr_scheduler_load_state_dict(s, saved), SITU_E_ARG);
    expect_error(SITU_E_ARG, "lr_scheduler_load_state_dict", "finite");
    assert_int_equal(situ_lr_scheduler_last_epoch(s), 0);
    situ_tree_free(saved);
  }
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}

/* Each allocation fails in turn: nothing leaks (the fixture looks), and the optimiser can be used. */
static void memory_ends_while_a_schedule_is_made(void **state) {
  (void)state;
  situ_optim *o = sgd();
  situ_lr_scheduler *s = NULL;
  int failures = 0;
  for (uint64_t nth = 1; !s; nth++) {
    situ_fail_allocation(nth, false);
    s = situ_lr_scheduler_step_lr(o, 1, 0.1);
    situ_fail_allocation(0, false);
    if (s) break;
    expect_error(SITU_E_NOMEM, "lr_scheduler_step_lr", "");
    failures++;
  }
  assert_true(failures >= 3);
  assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}

/* The schedules that are passed are freed with the one that was not made. */
static void memory_ends_while_schedules_are_chained(void **state) {
  (void)state;
  situ_optim *o = sgd();
  situ_lr_scheduler *s = NULL;
  int failures = 0;
  for (uint64_t nth = 1; !s; nth++) {
    situ_lr_scheduler *parts[] = { situ_lr_scheduler_step_lr(o, 1, 0.1), situ_lr_scheduler_step_lr(o, 2, 0.1) };
    situ_fail_allocation(nth, false);
    s = situ_lr_scheduler_chained_scheduler(2, parts);
    situ_fail_allocation(0, false);
    if (s) break;
    expect_error(SITU_E_NOMEM, "lr_scheduler_chained_scheduler", "");
    failures++;
  }
  assert_true(failures >= 2);
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}

/* What the program has freed is refused, though a schedule goes on with it. */
static void the_optimiser_is_freed_first(void **state) {
  (void)state;
  situ_optim *o = sgd();
  situ_lr_scheduler *s = situ_lr_scheduler_step_lr(o, 1, 0.5);
  situ_optim_free(o);
  assert_int_equal(situ_optim_step(o), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optim_step", "optimiser is an optimiser that was freed");
  situ_optim_free(o);
  expect_error(SITU_E_ARG, "optim_free", "was freed");
  assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  situ_lr_scheduler_free(s);
  assert_int_equal(situ_lr_scheduler_step(s), SITU_E_ARG);
  expect_error(SITU_E_ARG, "lr_scheduler_step", "was freed (lr_scheduler_step_lr)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_step_before_the_optimisers_is_logged_once),
    TEST(step_lr),
    TEST(cosine_annealing_lr),
    TEST(lambda_lr),
    TEST(multiplicative_lr),
    TEST(two_are_chained),
    TEST(the_first_rate_is_kept),
    TEST(one_cycle_lr),
    TEST(one_cycle_in_three_phases),
    TEST(a_cycle_ends),
    TEST(no_milestones),
    TEST(arguments_out_of_range),
    TEST(the_optimiser_is_freed_first),
    TEST(resumes_exactly),
    TEST(nonsense_is_refused),
    TEST(numbers_that_are_not_finite),
    TEST(saved_numbers_that_are_not_finite),
    TEST(memory_ends_while_a_schedule_is_made),
    TEST(memory_ends_while_schedules_are_chained),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
