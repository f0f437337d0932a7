/* f32 masters of 16-bit parameters: small steps survive, they are what is stepped, saved and moved, and what somebody else
   writes to the parameter wins.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include <math.h>
#include <string.h>

#include "situ/optim.h"
#include "situ/place.h"
#include "situ/sys/alloc.h"
#include "situ/sys/optimizer.h"
#include "situ/sys/tensor.h"
#include "support/modules.h"
#include "support/optim.h"

enum { MASTER = SITU_OPTIM_STATES - 1 };
typedef optim_maker maker;
static maker *const makers[] = { situ_optim_sgd, situ_optim_adam, situ_optim_adamw, situ_optim_rmsprop };

static situ_tensor *leaf(situ_dtype dtype, double a, double b) {
  return situ_requires_grad_(test_tensor(dtype, SITU_SHAPE(2), (const double[]){ a, b }), true);
}
static situ_optim *over(maker *make, situ_tensor *p, double lr, const situ_optim_options *options) {
  situ_optim *o = make(situ_tree_put(situ_tree_dict(), "p", situ_tree_tensor(p)), lr, options);
  if (!o) fail_msg("%s", situ_error_message());
  return o;
}
static void step(situ_optim *o, situ_tensor *p, double a, double b) {
  assert_int_equal(situ_set_grad(p, test_tensor(situ_dtype_of(p), SITU_SHAPE(2), (const double[]){ a, b })), SITU_OK);
  if (situ_optim_step(o) != SITU_OK) fail_msg("%s", situ_error_message());
}
static void write(situ_tensor *p, double a, double b) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_copy_(p, T32(SITU_SHAPE(2), a, b)));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

/* 1 - 1/1024 is no bf16, and rounds to 1: without a master nothing ever happens. */
static void small_steps_survive(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    const situ_dtype dtype = k ? SITU_F16 : SITU_BF16;
    const double lr = k ? 0x1p-13 : 0x1p-10;
    situ_tensor *with = leaf(dtype, 1, 1), *without = leaf(dtype, 1, 1);
    situ_optim *a = over(situ_optim_sgd, with, lr, OPTIM_OPTIONS(situ_optim_sgd, { SITU_OPTIM_MASTER_WEIGHTS, 1 }));
    situ_optim *b = over(situ_optim_sgd, without, lr, NULL);
    for (int i = 0; i < 64; i++) {
      step(a, with, 1, -1);
      step(b, without, 1, -0.0);
    }
    expect_exact(situ_detach(with), SITU_SHAPE(2), 1 - 64 * lr, 1 + 64 * lr);
    expect_exact(situ_detach(without), SITU_SHAPE(2), 1, 1);
    situ_optim_free(a);
    situ_optim_free(b);
  }
}

/* Every rule does to the master what it does to an f32 parameter that gets the same gradients. */
static void a_master_is_stepped_as_an_f32_parameter(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof makers / sizeof *makers; k++) {
    situ_tensor *low = leaf(SITU_BF16, 1.5, -2), *wide = leaf(SITU_F32, 1.5, -2);
    situ_optim_options options = optim_defaults(makers[k]);
    options.weight_decay = 0.01;
    options.momentum = k == 0 || k == 3 ? 0.9 : 0;
    options.amsgrad = k == 1 || k == 2;
    situ_optim_options masters = options;
    masters.master_weights = true;
    situ_optim *a = over(makers[k], low, 0.01, &masters), *b = over(makers[k], wide, 0.01, &options);
    for (int i = 0; i < 5; i++) {
      step(a, low, 0.5 * i, -0.25);
      step(b, wide, 0.5 * i, -0.25);
    }
    const char *name;
    situ_tensor *master = situ_optim_state(a, 0, MASTER, &name);
    assert_string_equal(name, "master");
    assert_string_equal(situ_name(master), "p.master");
    assert_int_equal(situ_role_of(master), SITU_ROLE_OPTIMIZER);
    expect_same(master, situ_detach(wide), 0, 0);
    expect_same(situ_detach(low), situ_to_dtype(situ_detach(wide), SITU_BF16), 0, 0);
    for (int i = 0; i < MASTER; i++) {
      if (!situ_optim_state(b, 0, i, NULL)) continue;
      expect_same(situ_optim_state(a, 0, i, NULL), situ_optim_state(b, 0, i, NULL), 0, 0);
    }
    assert_null(situ_optim_state(b, 0, MASTER, NULL));
    situ_optim_free(a);
    situ_optim_free(b);
  }
}

/* f32 parameters have none, in a group with others too; and a group of its own says so for itself. */
static void only_16_bits_have_one(void **state) {
  (void)state;
  situ_tensor *wide = leaf(SITU_F32, 1, 1), *low = leaf(SITU_BF16, 1, 1), *plain = leaf(SITU_BF16, 1, 1);
  situ_tree *list = situ_tree_append(situ_tree_append(situ_tree_list(), situ_tree_tensor(wide)), situ_tree_tensor(low));
  situ_optim *o = situ_optim_adam(list, 1e-3, OPTIM_OPTIONS(situ_optim_adam, { SITU_OPTIM_MASTER_WEIGHTS, 1 }));
  situ_optim_options without = situ_optim_group_options(o, 0);
  without.master_weights = false;
  assert_int_equal(situ_optim_add_param_group(o, SITU_TREE(plain), &without), SITU_OK);
  assert_int_equal(situ_set_grad(wide, T32(SITU_SHAPE(2), 1, 1)), SITU_OK);
  assert_int_equal(situ_set_grad(low, situ_to_dtype(T32(SITU_SHAPE(2), 1, 1), SITU_BF16)), SITU_OK);
  step(o, plain, 1, 1);
  assert_null(situ_optim_state(o, 0, MASTER, NULL));
  assert_int_equal(situ_dtype_of(situ_optim_state(o, 1, MASTER, NULL)), SITU_F32);
  assert_int_equal(situ_dtype_of(situ_optim_state(o, 1, 0, NULL)), SITU_F32);
  assert_null(situ_optim_state(o, 2, MASTER, NULL));
  assert_int_equal(situ_dtype_of(situ_optim_state(o, 2, 0, NULL)), SITU_BF16);
  assert_true(situ_optim_get(o, 0, SITU_OPTIM_MASTER_WEIGHTS) == 1 &&
              situ_optim_get(o, 1, SITU_OPTIM_MASTER_WEIGHTS) == 0);
  situ_optim_free(o);
}

static void it_is_saved_and_loaded(void **state) {
  (void)state;
  const situ_optim_options *options =
      OPTIM_OPTIONS(situ_optim_sgd, { SITU_OPTIM_MOMENTUM, 0.5 }, { SITU_OPTIM_MASTER_WEIGHTS, 1 });
  situ_tensor *p = leaf(SITU_BF16, 1, 1), *q = leaf(SITU_BF16, 1, 1);
  situ_optim *a = over(situ_optim_sgd, p, 0x1p-10, options), *b = over(situ_optim_sgd, q, 0x1p-10, options);
  for (int i = 0; i < 3; i++) step(a, p, 1, 0.5);
  situ_tree *dict = situ_optim_state_dict(a), *flat = situ_tree_flatten(dict);
  assert_int_equal(situ_dtype_of(situ_tree_get(flat, "state.0.master")), SITU_F32);
  assert_int_equal(situ_optim_load_state_dict(b, dict), SITU_OK);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_copy_(q, p)); /* the module's state, loaded after the optimiser's */
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  for (int i = 0; i < 3; i++) {
    step(a, p, 1, 0.5);
    step(b, q, 1, 0.5);
  }
  expect_same(situ_optim_state(b, 0, MASTER, NULL), situ_optim_state(a, 0, MASTER, NULL), 0, 0);
  expect_same(situ_detach(q), situ_detach(p), 0, 0);
  situ_tree_free(flat);
  situ_tree_free(dict);
  situ_optim_free(a);
  situ_optim_free(b);
}

static void what_is_written_wins(void **state) {
  (void)state;
  situ_tensor *p = leaf(SITU_BF16, 1, 1);
  situ_optim *o = over(situ_optim_sgd, p, 0x1p-10, OPTIM_OPTIONS(situ_optim_sgd, { SITU_OPTIM_MASTER_WEIGHTS, 1 }));
  step(o, p, 1, 1);
  write(p, 1, 1); /* what it is anyway: the master keeps what it has below the rounding */
  step(o, p, 1, 1);
  expect_exact(situ_optim_state(o, 0, MASTER, NULL), SITU_SHAPE(2), 1 - 0x1p-9, 1 - 0x1p-9);
  write(p, 4, 1);
  step(o, p, 1, 1);
  expect_exact(situ_optim_state(o, 0, MASTER, NULL), SITU_SHAPE(2), 4 - 0x1p-10, 1 - 0x1p-10);
  situ_optim_free(o);
}

/* placement: G5, G6 */
static void it_goes_where_the_module_goes(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 2, &(situ_nn_linear_options){ .dtype = SITU_BF16, HERE });
  situ_optim *o =
      situ_optim_adam(situ_nn_parameters(m), 1e-3, OPTIM_OPTIONS(situ_optim_adam, { SITU_OPTIM_MASTER_WEIGHTS, 1 }));
  const situ_device there = situ_dev(test_device().kind == SITU_SIM ? "sim:1" : "sim:0");
  for (int round = 0; round < 3; round++) {
    for (int64_t i = 0; i < situ_optim_count(o); i++) {
      situ_tensor *p = situ_optim_param(o, i, NULL);
      assert_int_equal(situ_set_grad(p, situ_ones_like(p, NULL)), SITU_OK);
    }
    if (situ_optim_step(o) != SITU_OK) fail_msg("%s", situ_error_message());
    situ_tensor *p = situ_optim_param(o, 0, NULL), *master = situ_optim_state(o, 0, MASTER, NULL);
    if (round == 2) { /* the parameter is f32 now and needs none */
      assert_null(master);
      assert_int_equal(situ_dtype_of(situ_optim_state(o, 0, 0, NULL)), SITU_F32);
      break;
    }
    assert_true(situ_device_equal(situ_device_of(master), situ_device_of(p)));
    assert_int_equal(situ_dtype_of(master), SITU_F32);
    if (round == 0) assert_int_equal(situ_nn_to(m, there), SITU_OK);
    else assert_int_equal(situ_nn_to_dtype(m, SITU_F32), SITU_OK);
    assert_true(situ_device_equal(situ_device_of(master), there));
    assert_int_equal(situ_dtype_of(master), SITU_F32);
  }
  /* Cast down it begins one, with state as wide. */
  assert_int_equal(situ_nn_to_dtype(m, SITU_BF16), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  assert_int_equal(situ_dtype_of(situ_optim_state(o, 0, MASTER, NULL)), SITU_F32);
  assert_int_equal(situ_dtype_of(situ_optim_state(o, 0, 0, NULL)), SITU_F32);
  assert_int_equal(situ_optim_to(o, test_device()), SITU_OK);
  assert_true(situ_device_equal(situ_device_of(situ_optim_state(o, 0, MASTER, NULL)), test_device()));
  situ_optim_free(o);
  situ_nn_free(m);
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  situ_tensor *p = situ_detach(leaf(SITU_BF16, 1, 1)), *wide = T32(SITU_SHAPE(2), 1, 1),
              *long_ = T32(SITU_SHAPE(3), 1, 1, 1);
  const situ_optimizer_params params = { .lr = 1, .grad_scale = 1 };
  const struct {
    situ_optimizer_tensors list;
    situ_status status;
    const char *part;
  } row[] = {
    { { .param = wide, .grad = wide, .master = wide }, SITU_E_DTYPE, "only f16 and bf16" },
    { { .param = p, .grad = p, .master = p }, SITU_E_DTYPE, "master" },
    { { .param = p, .grad = wide, .master = wide }, SITU_E_DTYPE, "gradient" },
    { { .param = p, .grad = p, .master = long_ }, SITU_E_SHAPE, "master" },
    { { .param = p, .grad = p, .master = wide, .state = { p } }, SITU_E_DTYPE, "state" },
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    assert_int_equal(situ_optimizer_step(SITU_RULE_SGD, &params, &row[i].list, 1), row[i].status);
    expect_error(row[i].status, "sgd", row[i].part);
  }
  assert_int_equal(situ_optimizer_check((situ_optimizer_rule)99, &row[0].list, 1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optimizer_step", "no such rule");
  assert_int_equal(situ_optimizer_check(SITU_RULE_SGD, &row[0].list, -1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optimizer_step", "no parameters");
  assert_int_equal(situ_optimizer_check(SITU_RULE_SGD, NULL, 1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optimizer_step", "no parameters");
  expect_exact(p, SITU_SHAPE(2), 1, 1);
}

/* A device with a queue may fail at any launch, which nothing can take back; here all that can fail is memory. */
static void without_memory_nothing_changes(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) return;
  situ_tensor *p = leaf(SITU_BF16, 1, 1);
  situ_optim *o = over(situ_optim_adam, p, 0.5, OPTIM_OPTIONS(situ_optim_adam, { SITU_OPTIM_MASTER_WEIGHTS, 1 }));
  step(o, p, 0, 0);
  assert_int_equal(situ_set_grad(p, situ_to_dtype(T32(SITU_SHAPE(2), 1, 1), SITU_BF16)), SITU_OK);
  int failed = 0;
  for (uint64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    const situ_status status = situ_optim_step(o);
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    failed++;
    assert_int_equal(status, SITU_E_NOMEM);
    situ_error_clear();
    expect_exact(situ_detach(p), SITU_SHAPE(2), 1, 1);
    expect_exact(situ_optim_state(o, 0, MASTER, NULL), SITU_SHAPE(2), 1, 1);
    expect_exact(situ_optim_state(o, 0, 0, NULL), SITU_SHAPE(2), 0, 0);
  }
  assert_true(failed > 0);
  situ_optim_free(o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(small_steps_survive),          MODULE_TEST(a_master_is_stepped_as_an_f32_parameter),
    MODULE_TEST(only_16_bits_have_one),        MODULE_TEST(it_is_saved_and_loaded),
    MODULE_TEST(what_is_written_wins),         MODULE_TEST(it_goes_where_the_module_goes),
    MODULE_TEST(what_does_not_fit_is_refused), MODULE_TEST(without_memory_nothing_changes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
