/* Parts that are registered under a path: the modules on it are made, or nothing changes.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "situ/sys/alloc.h"
#include "support/modules.h"

static situ_nn_module *fc(int64_t in, int64_t out) {
  return situ_nn_linear(in, out, &(situ_nn_linear_options){ .no_bias = true, HERE });
}

static void expect_keys(situ_nn_module *m, const char *keys) {
  char text[512] = "";
  situ_tree *state = situ_nn_state_dict(m);
  assert_non_null(state);
  for (int64_t i = 0; i < situ_tree_count(state); i++) {
    strcat(text, i ? " " : "");
    strcat(text, situ_tree_key(state, i));
  }
  assert_string_equal(text, keys);
  situ_tree_free(state);
}

static void the_modules_on_it_are_made(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_module_dict(), *first = fc(2, 2), *second = fc(2, 2);
  assert_ptr_equal(situ_nn_add_child(m, "encoder.layer.0", NULL, first), first);
  assert_ptr_equal(situ_nn_add_child(m, "encoder.layer.1", NULL, second), second);
  situ_tensor *scale = T32(SITU_SHAPE(2), 1, 2), *table = T32(SITU_SHAPE(1), 3);
  assert_ptr_equal(situ_nn_add_tensor(m, "encoder.norm.gamma", NULL, scale, SITU_NN_PARAMETER), scale);
  assert_ptr_equal(situ_nn_add_tensor(m, "positions.table", NULL, table, SITU_NN_BUFFER), table);
  expect_keys(m, "encoder.layer.0.weight encoder.layer.1.weight encoder.norm.gamma positions.table");
  assert_ptr_equal(situ_nn_get_submodule(m, "encoder.layer.1"), second);
  assert_ptr_equal(situ_nn_get_tensor(m, "encoder.norm.gamma"), scale);
  assert_string_equal(situ_name(situ_nn_get_tensor(first, "weight")), "encoder.layer.0.weight");
  assert_true(situ_requires_grad(scale) && !situ_requires_grad(table));
  assert_int_equal(situ_nn_len(situ_nn_get_submodule(m, "encoder.layer")), 2);
  assert_non_null(situ_nn_forward(situ_nn_at(situ_nn_get_submodule(m, "encoder.layer"), 0), T32(SITU_SHAPE(2), 1, 2)));
  /* again under the same path: replaced, as under a plain name */
  situ_nn_module *third = fc(2, 3);
  assert_ptr_equal(situ_nn_add_child(m, "encoder.layer.1", NULL, third), third);
  assert_ptr_equal(situ_nn_get_submodule(m, "encoder.layer.1"), third);
  assert_int_equal(situ_nn_len(situ_nn_get_submodule(m, "encoder.layer")), 2);
  situ_nn_free(m);
}

typedef struct net {
  situ_nn_module base;
  situ_nn_module *fc;
  situ_tensor *scale;
} net;
static const situ_nn_type net_type = { .name = "Net", .size = sizeof(net) };

static void a_failure_leaves_the_module_as_it_was(void **state) {
  (void)state;
  net *n = situ_nn_alloc(&net_type);
  situ_nn_child(n, fc, fc(2, 2));
  situ_nn_module *m = situ_nn_done(n);
  assert_non_null(situ_nn_add_tensor(m, "scale", NULL, T32(SITU_SHAPE(1), 1), SITU_NN_BUFFER));
  int64_t modules = situ_nn_live_modules();
  char deep[1000] = "a";
  for (int i = 0; i < 400; i++) strcat(deep, ".a");
  expect_keys(m, "scale fc.weight");
#define REFUSED(path, code, text)                                                           \
  do {                                                                                      \
    expect_refused(situ_nn_add_child(m, path, NULL, fc(1, 1)), code, "nn_add_child", text); \
    expect_keys(m, "scale fc.weight");                                                      \
    assert_int_equal(situ_nn_live_modules(), modules);                                      \
  } while (0)
  REFUSED("a..b", SITU_E_ARG, "must not be empty");
  REFUSED(".b", SITU_E_ARG, "must not be empty");
  REFUSED("a.b.", SITU_E_ARG, "must not be empty");
  REFUSED("fc.", SITU_E_ARG, "must not be empty");
  REFUSED("scale.x", SITU_E_ARG, "\"scale\" is a tensor, and cannot hold \"x\"");
  REFUSED("fc.weight.x", SITU_E_ARG, "\"weight\" is a tensor, and cannot hold \"x\"");
  REFUSED(deep, SITU_E_LIMIT, "256 parts");
  expect_refused(situ_nn_add_tensor(m, "a.b", NULL, NULL, SITU_NN_BUFFER), SITU_E_ARG, "nn_add_tensor", "a.b");
  expect_refused(situ_nn_add_tensor(m, "a.b", NULL, T32(SITU_SHAPE(1), 1), SITU_NN_CHILD), SITU_E_ARG, "nn_add_tensor",
                 "a parameter or a buffer");
  expect_refused(situ_nn_add_tensor(m, deep, NULL, T32(SITU_SHAPE(1), 1), SITU_NN_BUFFER), SITU_E_LIMIT,
                 "nn_add_tensor", "256 parts");
  expect_keys(m, "scale fc.weight");
  assert_int_equal(situ_nn_live_modules(), modules);
  /* a part with a field has a name without dots */
  expect_refused(situ_nn_add_tensor(m, "a.b", &n->scale, T32(SITU_SHAPE(1), 1), SITU_NN_BUFFER), SITU_E_ARG,
                 "nn_add_tensor", "contain a dot if the part has a field");
  expect_refused(situ_nn_add_child(m, "a.b", NULL, m), SITU_E_ARG, "nn_add_child", "would contain itself");
  situ_nn_free(m);
}

static void no_memory(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_module_dict();
  int64_t modules = situ_nn_live_modules();
  uint64_t nth = 0;
  for (bool whole = false; !whole;) {
    assert_true(++nth < 200);
    situ_nn_module *child = fc(1, 1);
    situ_fail_allocation(nth, false);
    whole = situ_nn_add_child(m, "a.b.c", NULL, child) != NULL;
    situ_fail_allocation(0, false);
    if (whole) break;
    expect_error(SITU_E_NOMEM, "", "");
    assert_int_equal(situ_nn_live_modules(), modules);
    assert_int_equal(situ_nn_len(m), 0);
  }
  assert_true(nth > 5);
  expect_keys(m, "a.b.c.weight");
  situ_nn_free(m);
}

static void broken_construction_is_freed(void **state) {
  (void)state;
  net *n = situ_nn_alloc(&net_type);
  situ_nn_add_child(n ? &n->base : NULL, "a.b", NULL, NULL);
  expect_refused(situ_nn_done(n), SITU_E_ARG, "nn_add_child", "a.b");
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(the_modules_on_it_are_made),
                                      MODULE_TEST(a_failure_leaves_the_module_as_it_was), MODULE_TEST(no_memory),
                                      MODULE_TEST(broken_construction_is_freed) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
