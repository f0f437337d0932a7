/* Options say 0: for each field of each optimiser, and in a later group; structs without a size, of another size and of
   another optimiser. Numbers of steps with such options are beside PyTorch's in tests/golden/optim/optim.c and lbfgs.c.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

#include "situ/amp.h"
#include "situ/nn.h"
#include "support/modules.h"
#include "support/optim.h"

static situ_tensor *parameter(void) { return situ_requires_grad_(T32(SITU_SHAPE(2, 2), 1, -2, 0.5, 3), true); }
static bool is_lbfgs(const optim_rule *rule) { return rule->make == situ_optim_lbfgs; }
static situ_optim *make(const optim_rule *rule) {
  situ_optim *o = rule->make(SITU_TREE(parameter()), rule->lr, NULL);
  assert_non_null(o);
  return o;
}

static double option(const situ_optim_options *options, int field) {
  const char *at = (const char *)options + optim_members[field].at;
  return optim_members[field].flag ? *(const bool *)at : *(const double *)at;
}
static bool has(const situ_optim *o, int field) {
  const bool yes = !isnan(situ_optim_get(o, 0, (situ_optim_field)field));
  situ_error_clear();
  return yes;
}

/* What PyTorch raises for, too: a factor or a count of 0. */
static bool must_not_be_0(int field) {
  return field == SITU_OPTIM_ETAMINUS || field == SITU_OPTIM_ETAPLUS || field == SITU_OPTIM_D ||
         field == SITU_OPTIM_HISTORY_SIZE;
}

static void expect_zero(const optim_rule *rule, int field) {
  situ_optim_options options = rule->defaults();
  optim_set_option(&options, (situ_optim_field)field, 0);
  situ_optim *o = rule->make(SITU_TREE(parameter()), field == SITU_OPTIM_LR ? 0 : rule->lr, &options);
  if (must_not_be_0(field)) {
    assert_null(o);
    expect_error(SITU_E_ARG, options.of, optim_members[field].name);
    return;
  }
  if (!o) fail_msg("%s of 0: %s", optim_members[field].name, situ_error_message());
  if (situ_optim_get(o, 0, (situ_optim_field)field) != 0) fail_msg("%s: %s", options.of, optim_members[field].name);
  situ_optim_free(o);
}

/* A later group of an optimiser whose first group keeps the default. */
static void expect_zero_later(const optim_rule *rule, int field) {
  situ_optim *o = make(rule);
  const double first = situ_optim_get(o, 0, (situ_optim_field)field);
  situ_optim_options options = situ_optim_group_options(o, 0);
  optim_set_option(&options, (situ_optim_field)field, 0);
  const situ_status status = situ_optim_add_param_group(o, SITU_TREE(parameter()), &options);
  assert_int_equal(status, must_not_be_0(field) ? SITU_E_ARG : SITU_OK);
  if (status == SITU_OK) assert_true(situ_optim_get(o, 1, (situ_optim_field)field) == 0);
  else situ_error_clear();
  assert_true(situ_optim_get(o, 0, (situ_optim_field)field) == first);
  situ_optim_free(o);
}

static void zero_is_zero(void **state) {
  (void)state;
  int fields = 0;
  for (int r = 0; r < OPTIM_RULES; r++) {
    const optim_rule *rule = &optim_rules[r];
    situ_optim *o = make(rule);
    for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
      if (!has(o, f)) continue;
      fields++;
      expect_zero(rule, f);
      if (!is_lbfgs(rule)) expect_zero_later(rule, f);
    }
    situ_optim_free(o);
  }
  assert_true(fields > 100);
}

/* The group of norms without decay that the old struct could not say: it had the first group's decay. */
static void norms_without_decay(void **state) {
  (void)state;
  situ_tensor *weight = T32(SITU_SHAPE(1), 1), *norm = T32(SITU_SHAPE(1), 1);
  situ_requires_grad_(weight, true);
  situ_requires_grad_(norm, true);
  situ_optim *o =
      situ_optim_sgd(SITU_TREE(weight), 0.5, OPTIM_OPTIONS(situ_optim_sgd, { SITU_OPTIM_WEIGHT_DECAY, 0.5 }));
  situ_optim_options plain = situ_optim_group_options(o, 0);
  plain.weight_decay = 0;
  assert_int_equal(situ_optim_add_param_group(o, SITU_TREE(norm), &plain), SITU_OK);
  assert_int_equal(situ_set_grad(weight, T32(SITU_SHAPE(1), 0)), SITU_OK);
  assert_int_equal(situ_set_grad(norm, T32(SITU_SHAPE(1), 0)), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  expect_exact(situ_detach(weight), SITU_SHAPE(1), 0.75);
  expect_exact(situ_detach(norm), SITU_SHAPE(1), 1);
  situ_optim_free(o);
}

/* A group's options are those that made it, and NULL is those of the optimiser. */
static void options_of_a_group(void **state) {
  (void)state;
  for (int r = 0; r < OPTIM_RULES; r++) {
    const optim_rule *rule = &optim_rules[r];
    situ_optim *o = make(rule);
    const situ_optim_options got = situ_optim_group_options(o, 0), want = rule->defaults();
    assert_true(got.size == sizeof got && strcmp(got.of, want.of) == 0 && got.lr == rule->lr);
    for (int f = 1; f < SITU_OPTIM_FIELDS; f++)
      assert_true(option(&got, f) == (f == SITU_OPTIM_MAX_EVAL && is_lbfgs(rule) ? 25 : option(&want, f)));
    if (!is_lbfgs(rule)) {
      assert_int_equal(situ_optim_set(o, 0, SITU_OPTIM_LR, 0.125), SITU_OK); /* a schedule does */
      assert_int_equal(situ_optim_add_param_group(o, SITU_TREE(parameter()), NULL), SITU_OK);
      assert_true(situ_optim_get(o, 1, SITU_OPTIM_LR) == rule->lr);
      assert_true(situ_optim_group_options(o, 0).lr == 0.125);
    }
    situ_optim_free(o);
  }
}

static void expect_group_refused(situ_optim *o, const situ_optim_options *options, const char *part) {
  assert_int_equal(situ_optim_add_param_group(o, SITU_TREE(parameter()), options), SITU_E_ARG);
  expect_error(SITU_E_ARG, "", part);
  assert_int_equal(situ_optim_groups(o), 1);
}

static void other_sizes(void **state) {
  (void)state;
  const size_t wrong[] = { 0, 1, sizeof(size_t) + 1, sizeof(situ_optim_options) + sizeof(size_t), SIZE_MAX };
  for (int r = 0; r < OPTIM_RULES; r++) {
    const optim_rule *rule = &optim_rules[r];
    char begin[64];
    situ_optim_options options = rule->defaults();
    snprintf(begin, sizeof begin, "begin with situ_%s_defaults()", options.of);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
      options.size = wrong[i];
      expect_refused(rule->make(SITU_TREE(parameter()), rule->lr, &options), SITU_E_ARG, options.of, begin);
    }
    /* A program whose header had fewer fields: what lies behind them is not read. */
    options = rule->defaults();
    options.size = offsetof(situ_optim_options, rho);
    memset((char *)&options + options.size, 0xff, sizeof options - options.size);
    situ_optim *o = rule->make(SITU_TREE(parameter()), rule->lr, &options);
    const situ_optim_options got = situ_optim_group_options(o, 0), want = rule->defaults();
    assert_true(got.rho == want.rho && got.d == want.d && got.history_size == want.history_size);
    situ_optim_options fewer = rule->defaults();
    fewer.size = offsetof(situ_optim_options, rho);
    fewer.rho = 7;
    assert_int_equal(situ_optim_get_options(o, 0, &fewer), SITU_OK);
    assert_true(fewer.rho == 7 && fewer.lr == rule->lr && fewer.size == offsetof(situ_optim_options, rho));
    situ_optim_free(o);
  }
  expect_refused(situ_optim_adam(SITU_TREE(parameter()), 1e-3, &(situ_optim_options){ .beta1 = 0.5 }), SITU_E_ARG,
                 "optim_adam", "options.size is 0: begin with situ_optim_adam_defaults()");
  situ_optim *o = make(&optim_rules[0]);
  expect_group_refused(o, &(situ_optim_options){ .lr = 1 }, "options.size is 0: begin with situ_optim_group_options()");
  assert_int_equal(situ_optim_group_options(o, 1).size, 0);
  expect_error(SITU_E_INDEX, "optim_get_options", "group 1 of 1");
  situ_optim_free(o);
}

/* Defaults of another optimiser have zeros where this one has none. */
static void options_of_another_optimiser(void **state) {
  (void)state;
  for (int r = 0; r < OPTIM_RULES; r++) {
    const situ_optim_options other = optim_rules[(r + 1) % OPTIM_RULES].defaults();
    expect_refused(optim_rules[r].make(SITU_TREE(parameter()), 1e-3, &other), SITU_E_ARG, "", other.of);
  }
  situ_optim *o = make(&optim_rules[0]);
  situ_optim_options later = situ_optim_adam_defaults();
  later.lr = 1;
  expect_group_refused(o, &later, "options are those of optim_adam: begin with situ_optim_group_options()");
  later = situ_optim_sgd_defaults();
  expect_group_refused(o, &later, "options.lr of a later group is NAN: begin with situ_optim_group_options()");
  later.of = NULL;
  expect_group_refused(o, &later, "no optimiser");
  situ_optim_free(o);
  later = situ_optim_sgd_defaults();
  later.lr = 0.25;
  expect_refused(situ_optim_sgd(SITU_TREE(parameter()), 0.5, &later), SITU_E_ARG, "optim_sgd",
                 "lr is 0.5, and options.lr 0.25");
  o = situ_optim_sgd(SITU_TREE(parameter()), 0.25, &later);
  assert_non_null(o);
  situ_optim_free(o);
}

/* Files keep 0 for torch's eps[0] None, which 0 meant before, and have -1 for 0. */
static void eps1_in_files(void **state) {
  (void)state;
  static const double value[] = { SITU_NONE, 0, 1e-3 }, saved[] = { 0, -1, 1e-3 };
  for (int i = 0; i < 3; i++) {
    situ_optim_options options = situ_optim_adafactor_defaults();
    options.eps1 = value[i];
    situ_optim *o = situ_optim_adafactor(SITU_TREE(parameter()), 1e-2, &options);
    situ_optim *again = make(optim_rule_of(situ_optim_adafactor));
    situ_tree *dict = situ_optim_state_dict(o), *flat = situ_tree_flatten(dict);
    expect_exact(situ_tree_get(flat, "param_groups.0.eps1"), SITU_SCALAR, saved[i]);
    assert_int_equal(situ_optim_load_state_dict(again, dict), SITU_OK);
    assert_true(situ_optim_get(again, 0, SITU_OPTIM_EPS1) == value[i]);
    situ_tree_free(flat);
    situ_tree_free(dict);
    situ_optim_free(o);
    situ_optim_free(again);
  }
}

/* torch's max_eval is 5/4 of max_iter, unless it is given. */
static void max_eval_follows_max_iter(void **state) {
  (void)state;
  static const double evals[] = { SITU_NONE, 0, 7 }, want[] = { 50, 0, 7 };
  for (int i = 0; i < 3; i++) {
    situ_optim *o = situ_optim_lbfgs(
        SITU_TREE(parameter()), 1,
        OPTIM_OPTIONS(situ_optim_lbfgs, { SITU_OPTIM_MAX_ITER, 40 }, { SITU_OPTIM_MAX_EVAL, evals[i] }));
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_MAX_EVAL) == want[i]);
    situ_optim_free(o);
  }
}

/* The other structs that have a size. */
#define REFUSED(name, call)                                                                  \
  do {                                                                                       \
    situ_##name##_options options = { 0 };                                                   \
    expect_refused(call, SITU_E_ARG, "", "size is 0: begin with situ_" #name "_defaults()"); \
    options = situ_##name##_defaults();                                                      \
    options.size += sizeof(size_t);                                                          \
    expect_refused(call, SITU_E_ARG, "", "begin with situ_" #name "_defaults()");            \
  } while (0)
static void without_a_size(void **state) {
  (void)state;
  situ_optim *o = make(&optim_rules[0]);
  situ_nn_module *m = situ_nn_linear(1, 1, NULL);
  REFUSED(one_cycle, situ_lr_scheduler_one_cycle_lr(o, 1, 10, &options));
  REFUSED(cyclic, situ_lr_scheduler_cyclic_lr(o, 0.1, 1, &options));
  REFUSED(plateau, situ_lr_scheduler_reduce_lr_on_plateau(o, 0.5, 1, &options));
  REFUSED(averaged_model, situ_optim_averaged_model(m, &options));
  REFUSED(grad_scaler, situ_grad_scaler_new(&options));
  situ_one_cycle_options cycle = situ_one_cycle_defaults();
  cycle.keep_momentum = true;
  double *const factor[] = { &cycle.div_factor, &cycle.final_div_factor };
  for (int i = 0; i < 2; i++) {
    const double was = *factor[i];
    *factor[i] = 0; /* PyTorch divides by 0 */
    expect_refused(situ_lr_scheduler_one_cycle_lr(o, 1, 10, &cycle), SITU_E_ARG, "", "div_factor 0");
    *factor[i] = was;
  }
  situ_optim_free(o);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(zero_is_zero),
                                      MODULE_TEST(norms_without_decay),
                                      MODULE_TEST(options_of_a_group),
                                      MODULE_TEST(other_sizes),
                                      MODULE_TEST(options_of_another_optimiser),
                                      MODULE_TEST(eps1_in_files),
                                      MODULE_TEST(max_eval_follows_max_iter),
                                      MODULE_TEST(without_a_size) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
