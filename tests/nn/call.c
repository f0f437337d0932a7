/* The ways into a module: scope, home, hooks, and the two kinds of forward adapted to each other.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "support/modules.h"

typedef struct probe {
  situ_nn_module base;
  situ_tensor *bias;
  situ_device seen; /* the default device inside */
  int calls;
} probe;

static situ_tensor *probe_forward(situ_nn_module *self, situ_tensor *x) {
  probe *m = (probe *)self;
  m->seen = situ_get_default_device();
  m->calls++;
  /* Two results that nobody asked for, and a scope that is never closed. */
  static situ_scope forgotten;
  situ_scope_begin(&forgotten);
  situ_tensor *noise = situ_ones(SITU_SHAPE(1), NULL);
  return situ_add(situ_add(x, m->bias), situ_mul_scalar(noise, 0));
}
static const situ_nn_type probe_type = { .name = "Probe", .size = sizeof(probe), .forward = probe_forward };

static probe *probe_new(void) {
  probe *m = situ_nn_alloc(&probe_type);
  situ_nn_buffer(m, bias, T32(SITU_SHAPE(1), 10));
  return (probe *)situ_nn_done(m);
}

/* Sum and difference of two. */
static situ_tree *both_call(situ_nn_module *self, const situ_tree *in) {
  (void)self;
  situ_tensor *a = situ_tree_get(in, "a"), *b = situ_tree_get(in, "b"), *sum = situ_add(a, b),
              *difference = situ_sub(a, b);
  return SITU_TREE(sum, difference);
}
static const situ_nn_type both_type = { .name = "Both", .size = sizeof(situ_nn_module), .call = both_call };

static void only_the_result_leaves(void **state) {
  (void)state;
  probe *m = probe_new();
  situ_tensor *x = T32(SITU_SHAPE(2), 1, 2);
  int64_t before = situ_live_tensors();
  situ_tensor *y = situ_nn_forward(&m->base, x);
  expect_exact(y, SITU_SHAPE(2), 11, 12);
  assert_int_equal(situ_live_tensors() - before, 1);
  /* A module that gives back its input owns nothing of it. */
  situ_nn_module *identity = situ_nn_identity();
  assert_ptr_equal(situ_nn_forward(identity, x), x);
  situ_nn_free(identity);
  situ_nn_free(&m->base);
}

static void home_is_the_default_device_inside(void **state) {
  (void)state;
  probe *m = probe_new();
  situ_device before = { .kind = SITU_CPU };
  assert_int_equal(situ_set_default_device(before), SITU_OK);
  assert_true(situ_device_equal(situ_nn_home(&m->base), test_device()));
  assert_non_null(situ_nn_forward(&m->base, T32(SITU_SHAPE(1), 1)));
  assert_true(situ_device_equal(m->seen, test_device()));
  assert_true(situ_device_equal(situ_get_default_device(), before));
  /* A failing forward takes the default back too. */
  situ_nn_buffer(m, bias, T32(SITU_SHAPE(2), 1, 2));
  expect_refused(situ_nn_forward(&m->base, T32(SITU_SHAPE(3), 1, 2, 3)), SITU_E_SHAPE, "add", "");
  assert_true(situ_device_equal(situ_get_default_device(), before));
  situ_nn_free(&m->base);
}

static void an_empty_module_has_the_home_it_was_given(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_relu());
  assert_int_equal(situ_nn_home(m).kind, SITU_DEVICE_DEFAULT);
  m->home = test_device();
  assert_true(situ_device_equal(situ_nn_home(m), test_device()));
  situ_nn_free(m);
}

static void trees_go_in_and_out(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_done(situ_nn_alloc(&both_type));
  situ_tree *in = situ_tree_put(situ_tree_dict(), "a", situ_tree_tensor(T32(SITU_SHAPE(1), 5)));
  in = situ_tree_put(in, "b", situ_tree_tensor(T32(SITU_SHAPE(1), 3)));
  situ_tree *out = situ_nn_call(m, in);
  situ_tensor *sum = situ_tree_tensor_at(out, 0), *difference = situ_tree_tensor_at(out, 1);
  situ_tree_free(out);
  /* They belong to the caller's scope as well. */
  expect_exact(sum, SITU_SHAPE(1), 8);
  expect_exact(difference, SITU_SHAPE(1), 2);
  situ_tree_free(in);
  expect_refused(situ_nn_forward(m, sum), SITU_E_ARG, "tree_get", "\"a\"");
  situ_nn_free(m);
}

/* Operands that came in by a tree are inputs in the table of an error. */
static void inputs_of_a_tree_are_named(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_done(situ_nn_alloc(&both_type));
  situ_tensor *a = T32(SITU_SHAPE(1), 5), *b = situ_to(a, situ_dev("sim:1"));
  situ_tree *in = situ_tree_put(situ_tree_dict(), "a", situ_tree_tensor(a));
  in = situ_tree_put(in, "b", situ_tree_tensor(b));
  expect_refused(situ_nn_call(m, in), SITU_E_DEVICE, "add", ">other    -       input");
  situ_tree_free(in);
  situ_nn_free(m);
}

static void each_kind_serves_the_other(void **state) {
  (void)state;
  probe *m = probe_new();
  situ_tensor *x = T32(SITU_SHAPE(1), 1);
  situ_tree *one = SITU_TREE(x), *two = SITU_TREE(x, x), *out = situ_nn_call(&m->base, one);
  expect_exact(situ_tree_value(out), SITU_SHAPE(1), 11);
  expect_refused(situ_nn_call(&m->base, two), SITU_E_ARG, "", "a list of 2");
  situ_tree_free(one);
  situ_tree_free(two);
  situ_tree_free(out);
  situ_nn_free(&m->base);
  situ_nn_module *list = situ_nn_module_list(situ_nn_relu());
  expect_refused(situ_nn_forward(list, x), SITU_E_UNSUPPORTED, "nn_forward", "ModuleList has no forward");
  situ_nn_free(list);
}

static situ_tensor *nothing(situ_nn_module *self, situ_tensor *x) {
  (void)self, (void)x;
  return NULL;
}
static situ_tree *no_tree(situ_nn_module *self, const situ_tree *in) {
  (void)self, (void)in;
  return NULL;
}
static const situ_nn_type nothing_type = { .name = "Nothing", .size = sizeof(situ_nn_module), .forward = nothing };
static const situ_nn_type no_tree_type = { .name = "NoTree", .size = sizeof(situ_nn_module), .call = no_tree };

static void null_without_an_error_is_one(void **state) {
  (void)state;
  situ_nn_module *a = situ_nn_done(situ_nn_alloc(&nothing_type)), *b = situ_nn_done(situ_nn_alloc(&no_tree_type));
  situ_tensor *x = T32(SITU_SHAPE(1), 1);
  expect_refused(situ_nn_forward(a, x), SITU_E_STATE, "nn_forward", "Nothing gave NULL");
  expect_refused(situ_nn_forward(b, x), SITU_E_STATE, "nn_forward", "NoTree gave NULL");
  situ_nn_free(a);
  situ_nn_free(b);
}

/* ---- hooks ---- */

static situ_status log_call(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  assert_string_equal(m->type->name, "Probe");
  assert_non_null(situ_tree_value(*inputs));
  strcat(payload, output ? "after " : "before ");
  return SITU_OK;
}
static situ_status double_input(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)output, (void)payload;
  situ_tensor *x = situ_tree_value(*inputs);
  return situ_tree_set(inputs, situ_tree_tensor(situ_add(x, x))) ? SITU_OK : situ_error();
}
static situ_status negate_output(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)payload;
  return situ_tree_set(output, situ_tree_tensor(situ_neg(situ_tree_value(*output)))) ? SITU_OK : situ_error();
}
static situ_status refuse(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output, (void)payload;
  return SITU_E_LIMIT;
}
static situ_status remove_all(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)inputs, (void)output;
  for (int64_t i = 0; i < 10; i++) situ_nn_remove_hook(m, i);
  strcat(payload, "removed ");
  return SITU_OK;
}

static void hooks_see_and_replace(void **state) {
  (void)state;
  probe *m = probe_new();
  char text[100] = "";
  int64_t handle;
  situ_tensor *x = T32(SITU_SHAPE(1), 1);
  assert_int_equal(situ_nn_register_forward_pre_hook(&m->base, log_call, text, NULL), SITU_OK);
  assert_int_equal(situ_nn_register_forward_hook(&m->base, log_call, text, NULL), SITU_OK);
  assert_int_equal(situ_nn_register_forward_pre_hook(&m->base, double_input, NULL, &handle), SITU_OK);
  assert_int_equal(situ_nn_register_forward_hook(&m->base, negate_output, NULL, NULL), SITU_OK);
  int64_t before = situ_live_tensors();
  expect_exact(situ_nn_forward(&m->base, x), SITU_SHAPE(1), -12);
  assert_int_equal(situ_live_tensors() - before, 1);
  assert_string_equal(text, "before after ");
  situ_nn_remove_hook(&m->base, handle);
  expect_exact(situ_nn_forward(&m->base, x), SITU_SHAPE(1), -11);
  situ_nn_free(&m->base);
}

static void hooks_can_refuse_and_remove(void **state) {
  (void)state;
  probe *m = probe_new();
  char text[100] = "";
  int64_t handle;
  situ_tensor *x = T32(SITU_SHAPE(1), 1);
  assert_int_equal(situ_nn_register_forward_pre_hook(&m->base, refuse, NULL, &handle), SITU_OK);
  expect_refused(situ_nn_forward(&m->base, x), SITU_E_LIMIT, "nn_forward", "a hook of Probe");
  assert_int_equal(m->calls, 0);
  situ_nn_remove_hook(&m->base, handle);
  assert_int_equal(situ_nn_register_forward_pre_hook(&m->base, remove_all, text, NULL), SITU_OK);
  assert_int_equal(situ_nn_register_forward_pre_hook(&m->base, remove_all, text, NULL), SITU_OK);
  expect_exact(situ_nn_forward(&m->base, x), SITU_SHAPE(1), 11);
  assert_string_equal(text, "removed ");
  assert_int_equal(situ_nn_set_own_hook("own", &m->base, refuse, "of the library"), SITU_OK);
  for (int64_t i = 0; i < 20; i++) situ_nn_remove_hook(&m->base, i);
  assert_true(situ_nn_has_own_hook(&m->base, refuse)); /* the program has no handle of it */
  assert_int_equal(situ_nn_set_own_hook("own", &m->base, refuse, NULL), SITU_OK);
  assert_false(situ_nn_has_own_hook(&m->base, refuse));
  situ_nn_free(&m->base);
}

/* A module without tensors has no device, and needs none. */
static void no_device_is_needed_where_none_is_made(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_relu();
  situ_tensor *x = T32(SITU_SHAPE(2), -1, 1);
  situ_setting before;
  situ_policy_begin(&before, (situ_policy){ .unstated = SITU_UNSTATED_FORBID });
  situ_tensor *y = situ_nn_forward(m, x);
  situ_policy_end(&before);
  expect_exact(y, SITU_SHAPE(2), 0, 1);
  situ_nn_free(m);
}

/* ---- call sites ---- */

static int own_line, hook_line;
static situ_tensor *from_hook;

static situ_tensor *own_forward(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  own_line = __LINE__ + 1;
  return situ_neg(x);
}
static situ_status own_hook(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output, (void)payload;
  hook_line = __LINE__ + 1;
  from_hook = situ_retain(situ_ones(SITU_SHAPE(1), NULL));
  return SITU_OK;
}
static const situ_nn_type own_type = { .name = "Own", .size = sizeof(situ_nn_module), .forward = own_forward };

static void expect_made_at(const situ_tensor *t, int line, const char *function) {
  char text[256], wanted[64];
  (void)situ_created_at(t, text, sizeof text);
  (void)snprintf(wanted, sizeof wanted, "call.c:%d in %s", line, function);
  if (!strstr(text, wanted)) fail_msg("\"%s\" does not have \"%s\"", text, wanted);
}

/* What the library's modules make was made by the program's call; the program's modules and hooks have lines of their
   own, also inside a module of the library. */
static void results_know_the_line_that_made_them(void **state) {
  (void)state;
  if (!test_has_lines()) skip();
  situ_tensor *x = T32(SITU_SHAPE(1), 1);
  situ_nn_module *inner = situ_nn_sequential(situ_nn_relu(), situ_nn_done(situ_nn_alloc(&own_type))),
                 *outer = situ_nn_sequential(inner, situ_nn_relu());
  const int line = __LINE__ + 1;
  expect_made_at(situ_nn_forward(outer, x), line, "results_know_the_line_that_made_them");
  expect_made_at(situ_nn_forward(inner, x), own_line, "own_forward");
  int64_t hook;
  assert_int_equal(situ_nn_register_forward_pre_hook(situ_nn_at(inner, 0), own_hook, NULL, &hook), SITU_OK);
  assert_non_null(situ_nn_forward(outer, x));
  expect_made_at(from_hook, hook_line, "own_hook");
  situ_release(from_hook);
  situ_nn_free(outer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(results_know_the_line_that_made_them),
    MODULE_TEST(no_device_is_needed_where_none_is_made),
    MODULE_TEST(only_the_result_leaves),
    MODULE_TEST(home_is_the_default_device_inside),
    MODULE_TEST(an_empty_module_has_the_home_it_was_given),
    MODULE_TEST(trees_go_in_and_out),
    MODULE_TEST(inputs_of_a_tree_are_named),
    MODULE_TEST(each_kind_serves_the_other),
    MODULE_TEST(null_without_an_error_is_one),
    MODULE_TEST(hooks_see_and_replace),
    MODULE_TEST(hooks_can_refuse_and_remove),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
