/* Schedules made of others, by metrics, and in cycles: states, owners, refusals. Their rates are in tests/golden/optim/optim.c.
   SPDX-License-Identifier: MIT */
#include "rates.h"

static situ_optim *adam(void) { return situ_optim_adam(one(), 0.1, NULL); }

static double half(double x, void *payload) {
  (void)payload;
  return x * 0.5;
}

/* A factor of the program's own, of the cycle and of the step; Adam's beta1 goes the other way. */
static void cyclic_lr(void **state) {
  (void)state;
  static const double want[] = { 0.1, 0.35, 0.6, 0.35, 0.1, 0.6, 1.1 }, steps[] = { 0.1, 0.35, 1.1, 0.85, 0.1 };
  situ_cyclic_options options = situ_cyclic_defaults();
  options.step_size_up = 2;
  options.scale_fn = half;
  situ_optim *o = adam();
  situ_lr_scheduler *s = situ_lr_scheduler_cyclic_lr(o, 0.1, 1.1, &options);
  for (int i = 0; i < COUNT(want); i++) {
    assert_true(fabs(situ_optim_get(o, 0, SITU_OPTIM_LR) - want[i]) < 1e-12);
    assert_true(fabs(situ_optim_get(o, 0, SITU_OPTIM_BETA1) - (0.9 - 0.1 * (want[i] - 0.1))) < 1e-12);
    assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  }
  situ_lr_scheduler_free(s);
  options.scale_iterations = true;
  s = situ_lr_scheduler_cyclic_lr(o, 0.1, 1.1, &options);
  for (int i = 0; i < COUNT(steps); i++) {
    assert_true(fabs(situ_optim_get(o, 0, SITU_OPTIM_LR) - steps[i]) < 1e-12);
    assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  }
  situ_lr_scheduler_free(s);
  options = situ_cyclic_defaults();
  options.base_momentum = options.max_momentum = 1;
  s = situ_lr_scheduler_cyclic_lr(o, 0, 1, &options);
  assert_non_null(s); /* 1 is a momentum */
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}

/* What a plateau remembers is saved: a new one goes on as the old one does. */
static void plateau_resumes_exactly(void **state) {
  (void)state;
  situ_optim *o[2] = { sgd(), sgd() };
  situ_lr_scheduler *s[2];
  situ_plateau_options options = situ_plateau_defaults();
  options.cooldown = 2;
  for (int k = 0; k < 2; k++) s[k] = situ_lr_scheduler_reduce_lr_on_plateau(o[k], 0.5, 1, &options);
  for (int i = 0; i < 4; i++) assert_int_equal(situ_lr_scheduler_step_metrics(s[0], i == 0 ? 1 : 2), SITU_OK);
  assert_true(situ_optim_get(o[0], 0, SITU_OPTIM_LR) == 0.05);
  situ_tree *optim = situ_optim_state_dict(o[0]), *schedule = situ_lr_scheduler_state_dict(s[0]);
  assert_int_equal(situ_optim_load_state_dict(o[1], optim), SITU_OK);
  assert_int_equal(situ_lr_scheduler_load_state_dict(s[1], schedule), SITU_OK);
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < 2; k++) {
      assert_int_equal(situ_lr_scheduler_step_metrics(s[k], i == 2 ? 0.5 : 2), SITU_OK);
      assert_true(situ_optim_get(o[k], 0, SITU_OPTIM_LR) == situ_optim_get(o[0], 0, SITU_OPTIM_LR));
    }
  assert_true(situ_optim_get(o[1], 0, SITU_OPTIM_LR) == 0.025);
  situ_tree_free(optim);
  situ_tree_free(schedule);
  for (int k = 0; k < 2; k++) {
    situ_lr_scheduler_free(s[k]);
    situ_optim_free(o[k]);
  }
}

static void metrics_are_for_plateaus(void **state) {
  (void)state;
  situ_optim *o = sgd();
  situ_lr_scheduler *s = situ_lr_scheduler_step_lr(o, 1, 0.5);
  assert_int_equal(situ_lr_scheduler_step_metrics(s, 1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "lr_scheduler_step_metrics", "lr_scheduler_step_lr takes no metrics");
  situ_lr_scheduler_free(s);
  s = situ_lr_scheduler_reduce_lr_on_plateau(o, 0.5, 0, NULL);
  assert_int_equal(situ_lr_scheduler_step(s), SITU_E_ARG);
  expect_error(SITU_E_ARG, "lr_scheduler_step", "situ_lr_scheduler_step_metrics(s, metrics)");
  assert_int_equal(situ_lr_scheduler_step_metrics(s, (double)NAN), SITU_E_ARG);
  expect_error(SITU_E_ARG, "lr_scheduler_step_metrics", "NaN");
  assert_int_equal(situ_lr_scheduler_last_epoch(s), 0);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.1);
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}

static situ_lr_scheduler *warm_then_fall(situ_optim *o) {
  const int64_t milestones[] = { 3 };
  situ_lr_scheduler *parts[] = { situ_lr_scheduler_linear_lr(o, 0.25, 1, 3), situ_lr_scheduler_step_lr(o, 2, 0.5) };
  return situ_lr_scheduler_sequential_lr(o, 2, parts, milestones);
}

/* The states of the parts are saved with that of the whole. */
static void sequential_resumes_exactly(void **state) {
  (void)state;
  situ_optim *o = sgd(), *other = sgd();
  situ_lr_scheduler *s = warm_then_fall(o), *t = warm_then_fall(other);
  for (int i = 0; i < 4; i++) assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  situ_tree *optim = situ_optim_state_dict(o), *schedule = situ_lr_scheduler_state_dict(s);
  assert_non_null(situ_tree_find(situ_tree_at(situ_tree_find(schedule, "_schedulers"), 1), "base_lrs"));
  assert_int_equal(situ_optim_load_state_dict(other, optim), SITU_OK);
  assert_int_equal(situ_lr_scheduler_load_state_dict(t, schedule), SITU_OK);
  for (int i = 0; i < 6; i++) {
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == situ_optim_get(other, 0, SITU_OPTIM_LR));
    assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
    assert_int_equal(situ_lr_scheduler_step(t), SITU_OK);
  }
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.0125);
  situ_tree_free(optim);
  situ_tree_free(schedule);
  situ_lr_scheduler_free(s);
  situ_lr_scheduler_free(t);
  situ_optim_free(o);
  situ_optim_free(other);
}

static void parts_belong_to_the_whole(void **state) {
  (void)state;
  situ_optim *o = sgd(), *other = sgd();
  situ_lr_scheduler *part = situ_lr_scheduler_step_lr(o, 1, 0.5);
  situ_lr_scheduler *all = situ_lr_scheduler_chained_scheduler(1, &part);
  assert_int_equal(situ_lr_scheduler_step(part), SITU_E_STATE);
  expect_error(SITU_E_STATE, "lr_scheduler_step", "lr_scheduler_step_lr is part of another scheduler: step that one");
  situ_lr_scheduler_free(part);
  expect_error(SITU_E_STATE, "lr_scheduler_free", "free that one");
  /* One that has an owner stays with it; the others of a list that fails are freed. */
  situ_lr_scheduler *list[] = { situ_lr_scheduler_exponential_lr(o, 0.5), part };
  expect_refused(situ_lr_scheduler_chained_scheduler(2, list), SITU_E_ARG, "lr_scheduler_chained_scheduler",
                 "schedulers[1], lr_scheduler_step_lr, is part of a scheduler already");
  list[0] = list[1] = situ_lr_scheduler_exponential_lr(o, 0.5);
  expect_refused(situ_lr_scheduler_chained_scheduler(2, list), SITU_E_ARG, "", "part of a scheduler already");
  list[0] = situ_lr_scheduler_exponential_lr(other, 0.5);
  expect_refused(situ_lr_scheduler_sequential_lr(o, 1, list, NULL), SITU_E_ARG, "lr_scheduler_sequential_lr",
                 "another optimiser");
  list[0] = situ_lr_scheduler_reduce_lr_on_plateau(o, 0.5, 1, NULL);
  expect_refused(situ_lr_scheduler_chained_scheduler(1, list), SITU_E_ARG, "", "ReduceLROnPlateau");
  assert_int_equal(situ_lr_scheduler_step(all), SITU_OK);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.05);
  situ_lr_scheduler_free(all);
  situ_optim_free(o);
  situ_optim_free(other);
}

/* A chain in a sequence starts from the first rate. A step that a part refuses changes none of them. */
static void a_chain_in_a_sequence(void **state) {
  (void)state;
  static const double want[] = { 0.1, 0.1, 0.05, 0.0125 };
  int64_t when = 3;
  situ_optim *o = sgd();
  situ_lr_scheduler *links[] = { situ_lr_scheduler_constant_lr(o, 0.5, 9), situ_lr_scheduler_exponential_lr(o, 0.25) };
  situ_lr_scheduler *parts[] = { situ_lr_scheduler_lambda_lr(o, not_a_number, &when),
                                 situ_lr_scheduler_chained_scheduler(2, links) };
  situ_lr_scheduler *s = situ_lr_scheduler_sequential_lr(o, 2, parts, (int64_t[]){ 2 });
  for (int i = 0; i < COUNT(want); i++) {
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == want[i]);
    assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  }
  situ_lr_scheduler *both[] = { s, situ_lr_scheduler_lambda_lr(o, not_a_number, &when) };
  s = situ_lr_scheduler_chained_scheduler(2, both);
  for (int i = 0; i < 2; i++) assert_int_equal(situ_lr_scheduler_step(s), SITU_OK);
  const double before = situ_optim_get(o, 0, SITU_OPTIM_LR);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(situ_lr_scheduler_step(s), SITU_E_ARG);
    expect_error(SITU_E_ARG, "lr_scheduler_chained_scheduler", "nan");
    assert_int_equal(situ_lr_scheduler_last_epoch(both[0]), 6);
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == before);
  }
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(cyclic_lr),
    TEST(plateau_resumes_exactly),
    TEST(metrics_are_for_plateaus),
    TEST(sequential_resumes_exactly),
    TEST(parts_belong_to_the_whole),
    TEST(a_chain_in_a_sequence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
