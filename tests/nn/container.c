/* Sequential, ModuleList, ModuleDict.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "support/modules.h"

static void sequential_runs_in_order(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_relu(), situ_nn_hardtanh(0, 2));
  m = situ_nn_append(m, situ_nn_leaky_relu(0.5));
  expect_exact(situ_nn_forward(m, T32(SITU_SHAPE(3), -1, 1, 5)), SITU_SHAPE(3), 0, 1, 2);
  assert_int_equal(situ_nn_len(m), 3);
  assert_string_equal(situ_nn_at(m, -1)->type->name, "LeakyReLU");
  assert_string_equal(situ_nn_get(m, "1")->type->name, "Hardtanh");
  expect_refused(situ_nn_at(m, 3), SITU_E_INDEX, "nn_at", "module 3 of 3");
  expect_refused(situ_nn_at(m, -4), SITU_E_INDEX, "nn_at", "");
  expect_refused(situ_nn_get(m, "x"), SITU_E_ARG, "nn_get", "\"x\"");
  situ_nn_free(m);
  m = situ_nn_sequential_of(0, NULL);
  situ_tensor *x = T32(SITU_SHAPE(1), 1);
  assert_ptr_equal(situ_nn_forward(m, x), x);
  situ_nn_free(m);
}

static void a_missing_module_frees_the_others(void **state) {
  (void)state;
  expect_refused(situ_nn_sequential(situ_nn_relu(), situ_nn_dropout(-1), situ_nn_linear(2, 2, NULL)), SITU_E_ARG,
                 "nn_dropout", "");
  expect_refused(situ_nn_append(situ_nn_sequential(situ_nn_relu()), situ_nn_dropout(-1)), SITU_E_ARG, "nn_dropout", "");
  expect_refused(situ_nn_append(NULL, situ_nn_relu()), SITU_E_ARG, "nn_append", "container");
  expect_refused(situ_nn_append(situ_nn_relu(), situ_nn_relu()), SITU_E_ARG, "nn_append", "ReLU is not a container");
  expect_refused(situ_nn_append(situ_nn_module_dict(), situ_nn_relu()), SITU_E_ARG, "nn_append", "ModuleDict");
  expect_refused(situ_nn_put(situ_nn_module_list(situ_nn_relu()), "a", situ_nn_relu()), SITU_E_ARG, "nn_put",
                 "ModuleList");
}

static void dicts_find_by_name(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_put(situ_nn_put(situ_nn_module_dict(), "act", situ_nn_relu()), "norm", situ_nn_tanh());
  assert_string_equal(situ_nn_get(m, "norm")->type->name, "Tanh");
  assert_ptr_equal(situ_nn_at(m, 1), situ_nn_get(m, "norm"));
  expect_refused(situ_nn_put(m, "act", situ_nn_relu()), SITU_E_ARG, "nn_put", "already");
  m = situ_nn_put(situ_nn_put(situ_nn_module_dict(), "a.b", situ_nn_relu()), "a.c", situ_nn_tanh());
  assert_int_equal(situ_nn_len(m), 1);
  assert_int_equal(situ_nn_len(situ_nn_get(m, "a")), 2);
  situ_nn_free(m);
  m = situ_nn_put(situ_nn_module_dict(), "a.", situ_nn_relu());
  expect_refused(m, SITU_E_ARG, "nn_add_child", "must not be empty");
  situ_nn_module *named = situ_nn_put(situ_nn_sequential_of(0, NULL), "first", situ_nn_relu());
  expect_exact(situ_nn_forward(named, T32(SITU_SHAPE(1), -1)), SITU_SHAPE(1), 0);
  situ_nn_free(named);
}

/* From 16 parts on they are found by a hash index. */
static void many_parts_are_found_by_name(void **state) {
  (void)state;
  enum { PARTS = 300 };
  situ_nn_module *m = situ_nn_module_dict(), *part[PARTS];
  char name[16];
  for (int k = 0; k < PARTS; k++) {
    (void)snprintf(name, sizeof name, "part%d", 7 * k);
    m = situ_nn_put(m, name, part[k] = k % 2 ? situ_nn_relu() : situ_nn_tanh());
    assert_ptr_equal(situ_nn_at(m, k), part[k]);
  }
  assert_int_equal(situ_nn_len(m), PARTS);
  for (int k = 0; k < PARTS; k++) {
    (void)snprintf(name, sizeof name, "part%d", 7 * k);
    assert_ptr_equal(situ_nn_get(m, name), part[k]);
  }
  expect_refused(situ_nn_get(m, "part1"), SITU_E_ARG, "nn_get", "part1");
  assert_non_null(situ_nn_add_tensor(m, "part7", NULL, T32(SITU_SHAPE(1), 1), SITU_NN_PARAMETER));
  assert_int_equal(situ_nn_len(m), PARTS - 1); /* a tensor took the place of a module */
  assert_ptr_equal(situ_nn_at(m, 1), part[2]);
  expect_refused(situ_nn_put(m, "part2093", situ_nn_relu()), SITU_E_ARG, "nn_put", "already");
}

static void the_index_follows_removals(void **state) {
  (void)state;
  enum { PARTS = 40 };
  situ_nn_module *m = situ_nn_linear(1, 1, NULL), *part[PARTS];
  char name[16];
  for (int k = 0; k < PARTS; k++) {
    (void)snprintf(name, sizeof name, "part%d", k);
    part[k] = situ_nn_add_child(m, name, NULL, situ_nn_relu());
  }
  for (int round = 0; round < 2; round++) { /* takes weight away, adds it again at the end, and takes its list away */
    assert_non_null(situ_nn_utils_register_parametrization(m, "weight", situ_nn_relu()));
    if (round) assert_non_null(situ_nn_utils_remove_parametrizations(m, "weight", false));
    for (int k = 0; k < PARTS; k++) {
      (void)snprintf(name, sizeof name, "part%d", k);
      assert_ptr_equal(situ_nn_get_submodule(m, name), part[k]);
    }
  }
  assert_int_equal(situ_nn_len(m), PARTS);
  assert_non_null(situ_nn_get_tensor(m, "weight"));
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(sequential_runs_in_order),   MODULE_TEST(a_missing_module_frees_the_others),
    MODULE_TEST(dicts_find_by_name),         MODULE_TEST(many_parts_are_found_by_name),
    MODULE_TEST(the_index_follows_removals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
