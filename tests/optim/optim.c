/* Optimisers: options and their defaults, groups, steps against the formulas, what is refused.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
/* test-listed: yes */
#include "situ/optim.h"

#include <math.h>

#include "situ/nn.h"
#include "situ/place.h"
#include "situ/sys/alloc.h"
#include "situ/sys/move.h"
#include "situ/sys/tensor.h"
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

static void defaults_are_torchs(void **state) {
  (void)state;
  static const struct {
    maker *make;
    double decay, eps;
  } row[] = {
    { situ_optim_sgd, 0, -1 },
    { situ_optim_adam, 0, 1e-8 },
    { situ_optim_adamw, 1e-2, 1e-8 },
    { situ_optim_rmsprop, 0, 1e-8 },
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    situ_optim *o = row[i].make(named("p", leaf(1, 2)), 0.25, NULL);
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_LR) == 0.25);
    assert_true(situ_optim_get(o, 0, SITU_OPTIM_WEIGHT_DECAY) == row[i].decay);
    if (row[i].eps > 0) assert_true(situ_optim_get(o, 0, SITU_OPTIM_EPS) == row[i].eps);
    situ_optim_free(o);
  }
}

static void groups_inherit_and_override(void **state) {
  (void)state;
  situ_optim *o =
      situ_optim_adamw(named("a", leaf(1, 2)), 0.5, OPTIM_OPTIONS(situ_optim_adamw, { SITU_OPTIM_AMSGRAD, 1 }));
  situ_optim_options second = situ_optim_group_options(o, 0);
  second.beta2 = 0.9;
  second.weight_decay = 0;
  second.amsgrad = false;
  assert_int_equal(situ_optim_add_param_group(o, named("b", leaf(3, 4)), &second), SITU_OK);
  assert_int_equal(situ_optim_groups(o), 2);
  assert_true(situ_optim_get(o, 1, SITU_OPTIM_LR) == 0.5);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_WEIGHT_DECAY) == 1e-2 &&
              situ_optim_get(o, 1, SITU_OPTIM_WEIGHT_DECAY) == 0);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_BETA2) == 0.999 && situ_optim_get(o, 1, SITU_OPTIM_BETA2) == 0.9);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_AMSGRAD) == 1 && situ_optim_get(o, 1, SITU_OPTIM_AMSGRAD) == 0);
  assert_int_equal(situ_optim_set(o, 1, SITU_OPTIM_LR, 0.25), SITU_OK);
  assert_true(situ_optim_get(o, 1, SITU_OPTIM_LR) == 0.25);
  const char *name;
  assert_non_null(situ_optim_param(o, 1, &name));
  assert_string_equal(name, "b");
  expect_refused(situ_optim_param(o, 2, NULL), SITU_E_INDEX, "optim_param", "parameter 2 of 2");
  expect_refused(situ_optim_param(o, -1, NULL), SITU_E_INDEX, "optim_param", "parameter -1 of 2");
  situ_optim_free(o);
}

static void bad_options_are_refused(void **state) {
  (void)state;
  static const struct {
    maker *make;
    double lr;
    optim_change change[OPTIM_CHANGES];
    const char *part;
  } row[] = {
    { situ_optim_sgd, 1e-3, { { SITU_OPTIM_BETA1, 0.9 } }, "no beta1" },
    { situ_optim_adam, 1e-3, { { SITU_OPTIM_MOMENTUM, 0.9 } }, "no momentum" },
    { situ_optim_sgd, -1, { { 0 } }, "lr is -1" },
    { situ_optim_sgd, NAN, { { 0 } }, "lr is" },
    { situ_optim_adam, 1e-3, { { SITU_OPTIM_BETA1, 1 } }, "beta1 is 1" },
    { situ_optim_sgd, 1e-3, { { SITU_OPTIM_NESTEROV, 1 } }, "nesterov" },
    { situ_optim_sgd,
      1e-3,
      { { SITU_OPTIM_NESTEROV, 1 }, { SITU_OPTIM_MOMENTUM, 0.9 }, { SITU_OPTIM_DAMPENING, 0.1 } },
      "nesterov" },
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    expect_refused(optim_make(row[i].make, named("p", leaf(1, 2)), row[i].lr, row[i].change), SITU_E_ARG, "",
                   row[i].part);
}

/* placement: G2 */
static void bad_parameters_are_refused(void **state) {
  (void)state;
  situ_tensor *p = leaf(1, 2);
  expect_refused(situ_optim_sgd(NULL, 1e-3, NULL), SITU_E_ARG, "optim_add_param_group", "parameters");
  expect_refused(situ_optim_sgd(situ_tree_dict(), 1e-3, NULL), SITU_E_ARG, "optim_sgd", "no parameters");
  expect_refused(situ_optim_sgd(SITU_TREE(p, p), 1e-3, NULL), SITU_E_ARG, "optim_sgd", "1 is in the optimiser already");
  expect_refused(situ_optim_sgd(named("i", TI64(SITU_SHAPE(1), 1)), 1e-3, NULL), SITU_E_DTYPE, "optim_sgd", "i is i64");
  expect_refused(situ_optim_sgd(named("y", situ_add(p, p)), 1e-3, NULL), SITU_E_ARG, "optim_sgd",
                 "y is the result of an op: only leaves can be optimised; give it the tensor that it was made of");
  situ_optim *o = situ_optim_sgd(named("p", p), 1e-3, NULL);
  assert_int_equal(situ_optim_add_param_group(o, named("q", p), NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optim_sgd", "q is in the optimiser already");
  assert_int_equal(situ_optim_groups(o), 1);
  assert_true(isnan(situ_optim_get(o, 0, SITU_OPTIM_BETA1)));
  expect_error(SITU_E_ARG, "optim_get", "no beta1");
  assert_int_equal(situ_optim_set(o, 1, SITU_OPTIM_LR, 1), SITU_E_INDEX);
  expect_error(SITU_E_INDEX, "optim_set", "group 1 of 1");
  assert_int_equal(situ_optim_set(o, 0, SITU_OPTIM_LR, -1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optim_sgd", "lr is -1");
  situ_optim_free(o);
}

/* Three steps of each rule by hand, in double. The golden tests compare more of it with PyTorch. */
static void steps_follow_the_formulas(void **state) {
  (void)state;
  static const double g[3] = { 0.5, -1, 2 };
  double sgd = 1, buffer = 0, adam = 1, m = 0, v = 0, rms = 1, square = 0;
  situ_tensor *p[3] = { leaf(1, 1), leaf(1, 1), leaf(1, 1) };
  situ_optim *o[3] = {
    situ_optim_sgd(named("p", p[0]), 0.1,
                   OPTIM_OPTIONS(situ_optim_sgd, { SITU_OPTIM_MOMENTUM, 0.9 }, { SITU_OPTIM_DAMPENING, 0.5 },
                                 { SITU_OPTIM_WEIGHT_DECAY, 0.1 })),
    situ_optim_adamw(named("p", p[1]), 0.1, OPTIM_OPTIONS(situ_optim_adamw, { SITU_OPTIM_WEIGHT_DECAY, 0.1 })),
    situ_optim_rmsprop(named("p", p[2]), 0.1, OPTIM_OPTIONS(situ_optim_rmsprop, { SITU_OPTIM_ALPHA, 0.9 })),
  };
  for (int t = 1; t <= 3; t++) {
    double d = g[t - 1] + 0.1 * sgd;
    buffer = t == 1 ? d : 0.9 * buffer + 0.5 * d;
    sgd -= 0.1 * buffer;
    d = g[t - 1];
    m = 0.9 * m + 0.1 * d;
    v = 0.999 * v + 0.001 * d * d;
    adam = adam * (1 - 0.1 * 0.1) - 0.1 * (m / (1 - pow(0.9, t))) / (sqrt(v / (1 - pow(0.999, t))) + 1e-8);
    square = 0.9 * square + 0.1 * d * d;
    rms -= 0.1 * d / (sqrt(square) + 1e-8);
    for (int i = 0; i < 3; i++) {
      give(p[i], g[t - 1], g[t - 1]);
      assert_int_equal(situ_optim_step(o[i]), SITU_OK);
    }
  }
  expect_values(p[0], SITU_SHAPE(2), sgd, sgd);
  expect_values(p[1], SITU_SHAPE(2), adam, adam);
  expect_values(p[2], SITU_SHAPE(2), rms, rms);
  for (int i = 0; i < 3; i++) situ_optim_free(o[i]);
}

static void parameters_without_a_gradient_are_left_alone(void **state) {
  (void)state;
  situ_tensor *a = leaf(1, 1), *b = leaf(2, 2);
  situ_optim *o = situ_optim_adam(SITU_TREE(a, b), 0.5, OPTIM_OPTIONS(situ_optim_adam, { SITU_OPTIM_WEIGHT_DECAY, 1 }));
  give(b, 1, 1);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  expect_exact(a, SITU_SHAPE(2), 1, 1);
  expect_values(b, SITU_SHAPE(2), 1.5, 1.5);
  assert_null(situ_optim_state(o, 0, 0, NULL));
  const char *name;
  assert_non_null(situ_optim_state(o, 1, 1, &name));
  assert_string_equal(name, "exp_avg_sq");
  assert_int_equal(situ_role_of(situ_optim_state(o, 1, 0, NULL)), SITU_ROLE_OPTIMIZER);
  assert_string_equal(situ_name(situ_optim_state(o, 1, 0, NULL)), "1.exp_avg");
  /* No gradient at all is no step. */
  assert_int_equal(situ_optim_zero_grad(o, true), SITU_OK);
  assert_null(situ_grad(b));
  assert_int_equal(situ_optim_step(o), SITU_OK);
  expect_values(b, SITU_SHAPE(2), 1.5, 1.5);
  give(b, 3, 3);
  assert_int_equal(situ_optim_zero_grad(o, false), SITU_OK);
  expect_exact(situ_grad(b), SITU_SHAPE(2), 0, 0);
  situ_optim_free(o);
}

/* Its state lies as it does. */
static void a_parameter_may_be_a_view(void **state) {
  (void)state;
  situ_tensor *whole = T32(SITU_SHAPE(2, 2, 3), 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6);
  situ_tensor *p = situ_requires_grad_(situ_transpose(situ_select(whole, 0, 1), 0, 1), true);
  situ_optim *o = situ_optim_sgd(named("p", p), 1, OPTIM_MOMENTUM(0.5));
  for (int i = 0; i < 2; i++) {
    assert_int_equal(situ_set_grad(p, T32(SITU_SHAPE(3, 2), 1, 0, 0, 2, 0, 0)), SITU_OK);
    assert_int_equal(situ_optim_step(o), SITU_OK);
  }
  expect_exact(whole, SITU_SHAPE(2, 2, 3), 0, 0, 0, 0, 0, 0, -1.5, 2, 3, 4, 0, 6);
  situ_optim_free(o);
}

static void gradients_may_be_views(void **state) {
  (void)state;
  situ_tensor *p = leaf(1, 2), *wide = T32(SITU_SHAPE(2, 2), 1, 10, 2, 20);
  situ_optim *o = situ_optim_sgd(named("p", p), 1, NULL);
  assert_int_equal(situ_set_grad(p, situ_select(wide, 1, 1)), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  expect_exact(p, SITU_SHAPE(2), -9, -18);
  situ_optim_free(o);
}

/* The graph of a step that changed a saved parameter cannot be walked any more. */
static void stepping_counts_as_a_write(void **state) {
  (void)state;
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = situ_optim_sgd(named("p", p), 1e-3, NULL);
  situ_tensor *y = situ_sum(situ_mul(p, p), NULL);
  give(p, 1, 1);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  assert_int_equal(situ_backward(y, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "", "");
  situ_optim_free(o);
}

/* A later group that does not fit stops the first one too. */
static void all_or_nothing_over_groups(void **state) {
  (void)state;
  situ_tensor *a = leaf(1, 1), *wide = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4);
  situ_tensor *b = situ_requires_grad_(situ_detach(situ_narrow(wide, 1, 0, 1)), true);
  situ_optim *o = situ_optim_sgd(named("a", a), 1, NULL);
  assert_int_equal(situ_optim_add_param_group(o, named("b", b), NULL), SITU_OK);
  give(a, 1, 1);
  assert_int_equal(situ_set_grad(b, T32(SITU_SHAPE(2, 1), 1, 1)), SITU_OK);
  assert_int_not_equal(situ_optim_step(o), SITU_OK);
  expect_error(SITU_E_STATE, "sgd", "without gaps");
  expect_exact(a, SITU_SHAPE(2), 1, 1);
  situ_optim_free(o);
}

/* A later parameter of a group stops the first one too, after steps that found nothing to refuse. */
static void all_or_nothing_in_a_group(void **state) {
  (void)state;
  situ_tensor *a = leaf(1, 1), *b = leaf(2, 2);
  situ_optim *o = situ_optim_adamw(situ_tree_put(named("a", a), "b", situ_tree_tensor(b)), 1e-3, NULL);
  give(a, 1, 1), give(b, 1, 1);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  situ_tensor *before = situ_clone(situ_detach(a));
  situ_tensor *mean = situ_optim_state(o, 1, 0, NULL);
  bool sim = test_device().kind == SITU_SIM;
  assert_int_equal(situ_follow(mean, NULL), SITU_OK);
  assert_int_equal(situ_to_(mean, sim ? (situ_device){ .kind = SITU_CPU } : situ_dev("sim:0")), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "adamw", "the state of a parameter is f32 [2] on");
  expect_exact(situ_sub(a, before), SITU_SHAPE(2), 0, 0);
  situ_optim_free(o);
}

/* Steps after the first take the quick way, which must see a gradient that is gone, another one, and a parameter that
   has other strides or another dtype; the numbers are those of an optimiser of one step each. */
static void a_step_sees_what_has_changed(void **state) {
  (void)state;
  situ_tensor *four = situ_reshape(T32(SITU_SHAPE(4), 1, 2, 3, 4), SITU_SHAPE(1, 2, 1, 2));
  situ_tensor *a = leaf(1, 1), *b = situ_requires_grad_(situ_zeros_like(four, NULL), true);
  situ_nn_module *m = situ_nn_module_dict();
  assert_non_null(situ_nn_add_tensor(m, "a", NULL, a, SITU_NN_PARAMETER));
  situ_optim *o = situ_optim_sgd(situ_tree_put(named("a", a), "b", situ_tree_tensor(b)), 1, OPTIM_MOMENTUM(0.5));
  give(a, 1, 2);
  assert_int_equal(situ_set_grad(b, four), SITU_OK);
  for (int k = 0; k < 2; k++) assert_int_equal(situ_optim_step(o), SITU_OK);
  expect_exact(a, SITU_SHAPE(2), -1.5, -4);
  assert_int_equal(situ_set_grad(a, NULL), SITU_OK);
  assert_int_equal(situ_relayout("relayout", &b, 1, SITU_CHANNELS_LAST), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  expect_exact(a, SITU_SHAPE(2), -1.5, -4);
  expect_exact(b, SITU_SHAPE(1, 2, 1, 2), -4.25, -8.5, -12.75, -17);
  give(a, 2, 2);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  expect_exact(a, SITU_SHAPE(2), -4.25, -7.5);
  assert_int_equal(situ_nn_to_dtype(m, SITU_F16), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  expect_exact(a, SITU_SHAPE(2), -7.625, -11.25);
  assert_int_equal(situ_dtype_of(situ_optim_state(o, 0, 0, NULL)), SITU_F16);
  situ_optim_free(o);
  situ_nn_free(m);
}

/* A parameter that nobody else holds: its module is gone, or has replaced it. PyTorch steps on in
   silence. */
/* placement: G7 */
static void orphans_are_refused(void **state) {
  (void)state;
  situ_nn_linear_options where = { .device = test_device() };
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(2, 1, &where));
  situ_optim *o = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  assert_non_null(situ_nn_add_child(m, "0", NULL, situ_nn_linear(2, 1, &where)));
  assert_int_equal(situ_optim_step(o), SITU_E_STATE);
  expect_error(SITU_E_STATE, "optim_step", "0.weight: no module has it any more");
  /* An alias does not make it part of the model. */
  situ_tensor *alias[] = { situ_detach(situ_optim_param(o, 0, NULL)), situ_detach(situ_optim_param(o, 1, NULL)) };
  assert_non_null(alias[0]);
  assert_int_equal(situ_optim_step(o), SITU_E_STATE);
  expect_error(SITU_E_STATE, "optim_step", "0.weight: no module has it any more");
  situ_nn_free(m);
  situ_optim_free(o);
}

/* The state goes where its parameter goes, and into its dtype; one that was taken elsewhere by hand is refused by name. */
/* placement: G3, G5, G6 */
static void the_state_follows_its_parameter(void **state) {
  (void)state;
  bool sim = test_device().kind == SITU_SIM;
  situ_device away = sim ? (situ_device){ .kind = SITU_CPU } : situ_dev("sim:0");
  situ_nn_module *m = situ_nn_linear(2, 1, &(situ_nn_linear_options){ .device = test_device() });
  situ_optim *o = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  situ_tensor *bias = situ_nn_get_tensor(m, "bias");
  assert_int_equal(situ_set_grad(bias, T32(SITU_SHAPE(1), 1)), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  situ_tensor *mean = situ_optim_state(o, 1, 0, NULL);
  assert_int_equal(situ_nn_to_with(m, &(situ_nn_to_options){ .device = away, .dtype = SITU_F64 }), SITU_OK);
  assert_true(situ_device_equal(situ_device_of(mean), away));
  assert_int_equal(situ_dtype_of(mean), SITU_F64);
  assert_int_equal(situ_dtype_of(situ_grad(bias)), SITU_F64);
  expect_values(mean, SITU_SHAPE(1), 0.1);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  assert_int_equal(situ_follow(mean, NULL), SITU_OK);
  assert_int_equal(situ_to_(mean, test_device()), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "adamw", "the state of bias is f64 [1] on");
  assert_int_equal(situ_optim_to(o, test_device()), SITU_OK);
  assert_true(situ_device_equal(situ_device_of(bias), test_device()));
  assert_int_equal(situ_optim_step(o), SITU_OK);
  situ_nn_free(m);
  situ_optim_free(o);
}

/* Each allocation of making, stepping, saving and loading fails once: an error, nothing leaks, the
   parameter is whole. */
static void survives_a_lack_of_memory(void **state) {
  (void)state;
  uint64_t nth = 0;
  bool whole = false;
  situ_tensor *p = leaf(1, 1), *other = leaf(2, 2), *third = leaf(3, 3);
  while (!whole) {
    assert_true(++nth < 1000);
    give(p, 1, 1);
    assert_non_null(situ_nn_init_ones_(p));
    situ_tree *list = named("p", p), *second = situ_tree_put(named("other", other), "third", situ_tree_tensor(third));
    situ_fail_allocation(nth, false);
    situ_optim *o = situ_optim_adamw(list, 0.5, NULL);
    situ_status status = situ_optim_add_param_group(o, second, NULL);
    if (status == SITU_OK) status = situ_optim_step(o);
    bool stepped = status == SITU_OK;
    situ_tree *saved = stepped ? situ_optim_state_dict(o) : NULL;
    if (saved) status = situ_optim_load_state_dict(o, saved);
    situ_fail_allocation(0, false);
    whole = saved && status == SITU_OK;
    situ_tree_free(saved);
    situ_optim_free(o);
    if (!whole) expect_error(SITU_E_NOMEM, "", "");
    if (!stepped) expect_exact(p, SITU_SHAPE(2), 1, 1);
  }
  assert_true(nth > 20);
}

static void states_have_names(void **state) {
  (void)state;
  situ_tensor *p = situ_requires_grad_(T32(SITU_SHAPE(1), 1), true);
  assert_int_equal(situ_set_grad(p, T32(SITU_SHAPE(1), 1)), SITU_OK);
  situ_optim *o = situ_optim_adam(situ_tree_put(situ_tree_dict(), "p", situ_tree_tensor(p)), 1e-3, NULL);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  static const char *const names[SITU_OPTIM_STATES] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "master" };
  for (int k = 0; k < SITU_OPTIM_STATES; k++) {
    const char *name = NULL;
    situ_tensor *t = situ_optim_state(o, 0, k, &name);
    assert_string_equal(name, names[k]);
    assert_true(!t == (k >= 2));
    assert_ptr_equal(situ_optim_state(o, 0, k, NULL), t);
  }
  const char *name = "untouched";
  assert_null(situ_optim_state(o, 0, -1, &name));
  assert_null(situ_optim_state(o, 0, SITU_OPTIM_STATES, &name));
  assert_string_equal(name, "untouched");
  situ_optim_free(o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(defaults_are_torchs),
    TEST(states_have_names),
    TEST(groups_inherit_and_override),
    TEST(bad_options_are_refused),
    TEST(bad_parameters_are_refused),
    TEST(steps_follow_the_formulas),
    TEST(parameters_without_a_gradient_are_left_alone),
    TEST(a_parameter_may_be_a_view),
    TEST(gradients_may_be_views),
    TEST(stepping_counts_as_a_write),
    TEST(all_or_nothing_over_groups),
    TEST(all_or_nothing_in_a_group),
    TEST(a_step_sees_what_has_changed),
    TEST(orphans_are_refused),
    TEST(the_state_follows_its_parameter),
    TEST(survives_a_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
