/* An optimiser's state, saved and restored: the same bits, torch's layout, all or nothing.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
#include <math.h>
#include <string.h>

#include "situ/optim.h"
#include "support/optim.h"
#include "support/test.h"

typedef optim_maker maker;

static situ_tensor *leaf(double a, double b) { return situ_requires_grad_(T32(SITU_SHAPE(2), a, b), true); }
static situ_tree *named(const char *name, situ_tensor *t) {
  return situ_tree_put(situ_tree_dict(), name, situ_tree_tensor(t));
}
static void give(situ_tensor *p, double a, double b) {
  assert_int_equal(situ_set_grad(p, T32(SITU_SHAPE(2), a, b)), SITU_OK);
}

static void run(situ_optim *o, situ_tensor *p, int from, int to) {
  for (int t = from; t < to; t++) {
    give(p, sin(t), cos(t));
    assert_int_equal(situ_optim_step(o), SITU_OK);
  }
}

/* Saved in the middle and gone on with elsewhere: the same bits. */
static void resumes_bit_exactly(void **state) {
  (void)state;
  static const struct {
    maker *make;
    double lr;
    optim_change change[OPTIM_CHANGES];
  } row[] = {
    { situ_optim_sgd, 0.1, { { 0 } } },
    { situ_optim_sgd, 0.1, { { SITU_OPTIM_MOMENTUM, 0.9 }, { SITU_OPTIM_DAMPENING, 0.3 } } },
    { situ_optim_adam, 1e-3, { { SITU_OPTIM_AMSGRAD, 1 } } },
    { situ_optim_adamw, 1e-3, { { SITU_OPTIM_BETA1, 0.8 } } },
    { situ_optim_rmsprop, 1e-2, { { SITU_OPTIM_MOMENTUM, 0.5 }, { SITU_OPTIM_CENTERED, 1 } } },
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    situ_tensor *p = leaf(1, 2), *q;
    situ_optim *o = optim_make(row[i].make, named("p", p), row[i].lr, row[i].change), *other;
    run(o, p, 0, 3);
    q = situ_requires_grad_(situ_clone(situ_detach(p)), true);
    /* The rates that the state brings are the ones that count. */
    assert_int_equal(situ_optim_set(o, 0, SITU_OPTIM_LR, 0.03), SITU_OK);
    situ_tree *saved = situ_optim_state_dict(o), *flat = situ_tree_flatten(saved);
    other = optim_make(row[i].make, named("q", q), 1e-3, row[i].change);
    assert_int_equal(situ_optim_load_state_dict(other, i % 2 ? saved : flat), SITU_OK);
    situ_tree_free(saved);
    situ_tree_free(flat);
    run(o, p, 3, 6);
    run(other, q, 3, 6);
    expect_same(p, q, 0, 0);
    situ_optim_free(o);
    situ_optim_free(other);
  }
}

static void the_layout_is_torchs(void **state) {
  (void)state;
  situ_tensor *a = leaf(1, 2), *b = leaf(3, 4);
  situ_optim *o = situ_optim_adamw(SITU_TREE(a, b), 1e-3, NULL);
  run(o, b, 0, 2);
  situ_tree *saved = situ_optim_state_dict(o), *flat = situ_tree_flatten(saved);
  static const char *const keys[] = { "state.1.step",
                                      "state.1.exp_avg",
                                      "state.1.exp_avg_sq",
                                      "param_groups.0.lr",
                                      "param_groups.0.weight_decay",
                                      "param_groups.0.betas",
                                      "param_groups.0.eps",
                                      "param_groups.0.amsgrad",
                                      "param_groups.0.maximize",
                                      "param_groups.0.decoupled_weight_decay",
                                      "param_groups.0.params" };
  assert_int_equal(situ_tree_count(flat), 11);
  for (int i = 0; i < 11; i++) assert_string_equal(situ_tree_key(flat, i), keys[i]);
  double values[2];
  test_read(situ_tree_get(flat, "state.1.step"), values);
  assert_true(values[0] == 2);
  test_read(situ_tree_get(flat, "param_groups.0.betas"), values);
  assert_true(values[0] == 0.9 && values[1] == 0.999);
  situ_tree_free(saved);
  situ_tree_free(flat);
  situ_optim_free(o);
}

static situ_tree *without(const situ_tree *flat, const char *key, situ_tensor *instead) {
  situ_tree *dict = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(flat); i++) {
    bool it = strcmp(situ_tree_key(flat, i), key) == 0;
    if (it && !instead) continue;
    dict = situ_tree_put(dict, situ_tree_key(flat, i), situ_tree_tensor(it ? instead : situ_tree_tensor_at(flat, i)));
  }
  return dict;
}

static void a_state_that_does_not_fit_changes_nothing(void **state) {
  (void)state;
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = situ_optim_adam(named("p", p), 1e-3, NULL);
  run(o, p, 0, 1);
  situ_tree *saved = situ_optim_state_dict(o), *flat = situ_tree_flatten(saved);
  situ_tensor *before = situ_optim_state(o, 0, 0, NULL);
  struct {
    const char *key;
    situ_tensor *instead;
    situ_status status;
    const char *part;
  } row[] = {
    { "param_groups.0.params", NULL, SITU_E_ARG, "no param_groups.0.params" },
    { "param_groups.0.params", TI64(SITU_SHAPE(2), 0, 1), SITU_E_ARG, "2 parameters in the state, 1 here" },
    { "param_groups.0.betas", T64(SITU_SHAPE(1), 0.9), SITU_E_ARG, "betas: 1 numbers, not 2" },
    { "param_groups.0.lr", T64(SITU_SCALAR, -1), SITU_E_ARG, "lr is -1" },
    { "state.0.exp_avg", NULL, SITU_E_ARG, "p (number 0) is not complete" },
    { "state.0.step", NULL, SITU_E_ARG, "not complete" },
    { "state.0.exp_avg_sq", T32(SITU_SHAPE(3), 1, 2, 3), SITU_E_SHAPE, "state.0.exp_avg_sq is [3]" },
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    situ_tree *bad = without(flat, row[i].key, row[i].instead);
    assert_int_not_equal(situ_optim_load_state_dict(o, bad), SITU_OK);
    expect_error(row[i].status, "", row[i].part);
    assert_ptr_equal(situ_optim_state(o, 0, 0, NULL), before);
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 1e-3);
    situ_tree_free(bad);
  }
  situ_tree_free(saved);
  situ_tree_free(flat);
  situ_optim_free(o);
}

static const char *name_of(const situ_optim_options *options) { return strchr(options->of, '_') + 1; }

/* Every rule's state, made by no step or two, into every other rule. */
static void the_state_of_another_rule_is_refused(void **state) {
  (void)state;
  for (int i = 0; i < OPTIM_RULES; i++)
    for (int j = 0; j < 2 * OPTIM_RULES; j++) {
      const optim_rule *from = &optim_rules[i], *to = &optim_rules[j / 2];
      situ_tensor *p = situ_requires_grad_(situ_ones(SITU_SHAPE(2, 2), &(situ_options){ .dtype = SITU_F32 }), true),
                  *q = situ_requires_grad_(situ_clone(situ_detach(p)), true);
      situ_optim *saved = from->make(SITU_TREE(p), 0.5, NULL), *other = to->make(SITU_TREE(q), 0.25, NULL);
      for (int step = 0; step < 2 * (j % 2) && from->make != situ_optim_lbfgs; step++) {
        assert_int_equal(situ_set_grad(p, situ_ones_like(p, NULL)), SITU_OK);
        assert_int_equal(situ_optim_step(saved), SITU_OK);
      }
      const situ_optim_options a = from->defaults(), b = to->defaults();
      situ_tree *tree = situ_optim_state_dict(saved);
      const situ_status status = situ_optim_load_state_dict(other, tree);
      if ((status == SITU_OK) != (from == to)) fail_msg("%s into %s: %d", name_of(&a), name_of(&b), (int)status);
      if (from != to) {
        assert_non_null(strstr(situ_error_message(), name_of(&a)));
        expect_error(SITU_E_ARG, "optim_load_state_dict", name_of(&b));
        assert_true(situ_optim_get(other, 0, SITU_OPTIM_LR) == 0.25);
      }
      situ_tree_free(tree);
      situ_optim_free(saved);
      situ_optim_free(other);
    }
}

/* torch before 2.1 wrote no decoupled_weight_decay for RAdam, whose options are then those of Adamax. */
static void an_older_state_is_told_by_its_tensors(void **state) {
  (void)state;
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = situ_optim_radam(named("p", p), 1e-3, NULL);
  run(o, p, 0, 2);
  situ_tree *saved = situ_optim_state_dict(o), *flat = situ_tree_flatten(saved);
  situ_tree *old = without(flat, "param_groups.0.decoupled_weight_decay", NULL);
  assert_int_equal(situ_tree_count(old), situ_tree_count(flat) - 1);
  assert_int_equal(situ_optim_load_state_dict(o, old), SITU_OK);
  situ_tree_free(old);
  situ_tree_free(flat);
  situ_tree_free(saved);
  situ_optim_free(o);
}

/* Loaded state goes where its parameter goes, as state does that a step has made. */
/* placement: G6, G9 */
static void loaded_state_follows_its_parameter(void **state) {
  (void)state;
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = situ_optim_adam(named("p", p), 1e-3, NULL);
  run(o, p, 0, 2);
  situ_tree *saved = situ_optim_state_dict(o);
  assert_int_equal(situ_optim_load_state_dict(o, saved), SITU_OK);
  situ_tree_free(saved);
  assert_int_equal(situ_to_(p, situ_dev("sim:1")), SITU_OK);
  for (int k = 0; k < 2; k++)
    assert_true(situ_device_equal(situ_device_of(situ_optim_state(o, 0, k, NULL)), situ_dev("sim:1")));
  saved = situ_optim_state_dict(o);
  situ_tree *flat = situ_tree_flatten(saved);
  assert_true(situ_device_equal(situ_device_of(situ_tree_get(flat, "state.0.step")), situ_dev("cpu")));
  situ_tree_free(flat);
  situ_tree_free(saved);
  situ_optim_free(o);
}

static bool is_on(const situ_tensor *t, situ_device device) { return situ_device_equal(situ_device_of(t), device); }

/* A saved state dict may be the last owner of what the optimiser had. */
static void dropped_state_follows_no_parameter(void **state) {
  (void)state;
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = situ_optim_adam(named("p", p), 1e-3, NULL);
  run(o, p, 0, 2);
  situ_tensor *first = situ_retain(situ_optim_state(o, 0, 0, NULL));
  situ_tree *saved = situ_optim_state_dict(o);
  assert_int_equal(situ_optim_load_state_dict(o, saved), SITU_OK);
  situ_tree_free(saved);
  situ_tensor *second = situ_retain(situ_optim_state(o, 0, 0, NULL));
  assert_int_equal(situ_to_(p, situ_dev("sim:1")), SITU_OK);
  assert_true(is_on(first, test_device()) && is_on(second, situ_dev("sim:1")));
  situ_optim_free(o);
  assert_int_equal(situ_to_(p, situ_dev("cpu")), SITU_OK);
  assert_true(is_on(second, situ_dev("sim:1")));
  situ_release(first);
  situ_release(second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(resumes_bit_exactly),
    TEST(the_layout_is_torchs),
    TEST(a_state_that_does_not_fit_changes_nothing),
    TEST(the_state_of_another_rule_is_refused),
    TEST(an_older_state_is_told_by_its_tensors),
    TEST(loaded_state_follows_its_parameter),
    TEST(dropped_state_follows_no_parameter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
