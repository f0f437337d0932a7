/* Modules that are freed by others than their owner, twice, or while they run: errors, or right.
   SPDX-License-Identifier: MIT */
#include "situ/optim.h"
#include "support/modules.h"

static situ_nn_module *fc(void) { return situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE }); }
static situ_tensor *input(void) { return situ_ones(SITU_SHAPE(1, 2), &(situ_options){ HERE }); }

static void a_freed_module_is_refused(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_set_name(fc(), "m");
  situ_nn_free(m);
  assert_false(situ_nn_is_module(m));
  expect_refused(situ_nn_forward(m, input()), SITU_E_ARG, "nn_forward", "module is a module that was freed (Linear m)");
  situ_nn_free(m);
  expect_error(SITU_E_ARG, "nn_free", "was freed (Linear m)");
  expect_refused(situ_nn_retain(m), SITU_E_ARG, "nn_retain", "was freed");
  expect_refused(situ_nn_sequential(m), SITU_E_ARG, "nn_add_child", "was freed");
  assert_int_equal(situ_nn_live_modules(), 0);
}

static void another_kind_is_refused(void **state) {
  (void)state;
  situ_nn_module *m = fc();
  situ_tensor *x = input();
  expect_refused(situ_relu((situ_tensor *)(void *)m), SITU_E_ARG, "relu", "input is a module, and a tensor is needed");
  expect_refused(situ_nn_forward((situ_nn_module *)(void *)x, x), SITU_E_ARG, "nn_forward",
                 "module is a tensor, and a module is needed");
  assert_int_equal(situ_optim_step((situ_optim *)(void *)m), SITU_E_ARG);
  expect_error(SITU_E_ARG, "optim_step", "optimiser is a module, and an optimiser is needed");
  situ_nn_free(m);
}

static void a_child_is_its_owners(void **state) {
  (void)state;
  situ_nn_module *child = fc(), *net = situ_nn_set_name(situ_nn_sequential(child), "net");
  situ_nn_free(child);
  expect_error(SITU_E_STATE, "nn_free", "this Linear is \"0\" of net, which owns it");
  assert_non_null(situ_nn_forward(net, input()));
  expect_refused(situ_nn_sequential(child), SITU_E_STATE, "nn_add_child", "a second owner needs situ_nn_retain");
  situ_nn_module *mine = situ_nn_retain(child);
  situ_nn_free(net);
  assert_non_null(situ_nn_forward(mine, input())); /* it outlives its owner */
  situ_nn_free(mine);
  assert_int_equal(situ_nn_live_modules(), 0);
}

/* Each is looked for in all parts that there are, however many. */
static void any_number_of_children(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(fc());
  for (int i = 1; i < 40; i++) assert_true(situ_nn_append(net, fc()));
  situ_nn_free(net);
  assert_int_equal(situ_nn_live_modules(), 0);
}

static void a_module_in_itself(void **state) {
  (void)state;
  situ_nn_module *p = situ_nn_sequential(situ_nn_relu());
  expect_refused(situ_nn_append(p, situ_nn_retain(p)), SITU_E_ARG, "nn_add_child", "would contain itself");
  assert_false(situ_nn_is_module(p)); /* both are freed */
  situ_nn_module *outer = situ_nn_sequential(situ_nn_sequential(situ_nn_relu())), *inner = situ_nn_at(outer, 0);
  expect_refused(situ_nn_append(inner, outer), SITU_E_ARG, "nn_add_child", "would contain itself");
  assert_true(situ_nn_is_module(inner)); /* outer's, which was not given up under inner's owner */
  situ_nn_free(outer);
  assert_int_equal(situ_nn_live_modules(), 0);
}

/* ---- while it runs ---- */

static situ_status free_it(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)inputs, (void)output;
  situ_nn_free(payload ? payload : m);
  return situ_error();
}

static void a_hook_frees_its_module(void **state) {
  (void)state;
  for (int before = 0; before < 2; before++) {
    situ_nn_module *m = fc();
    assert_int_equal(before ? situ_nn_register_forward_pre_hook(m, free_it, NULL, NULL)
                            : situ_nn_register_forward_hook(m, free_it, NULL, NULL),
                     SITU_OK);
    assert_non_null(situ_nn_forward(m, input()));
    assert_int_equal(situ_nn_live_modules(), 0);
    expect_refused(situ_nn_forward(m, input()), SITU_E_ARG, "nn_forward", "was freed");
  }
}

static void a_hook_frees_its_module_twice(void **state) {
  (void)state;
  situ_nn_module *m = fc();
  assert_int_equal(situ_nn_register_forward_pre_hook(m, free_it, NULL, NULL), SITU_OK);
  assert_int_equal(situ_nn_register_forward_hook(m, free_it, NULL, NULL), SITU_OK);
  expect_refused(situ_nn_forward(m, input()), SITU_E_STATE, "nn_free",
                 "was freed already, in the call of it that is running");
  assert_int_equal(situ_nn_live_modules(), 0);
}

static void a_hook_frees_what_is_around(void **state) {
  (void)state;
  for (int whole = 0; whole < 2; whole++) {
    situ_nn_module *net = situ_nn_sequential(fc(), situ_nn_relu()), *first = situ_nn_at(net, 0);
    assert_int_equal(situ_nn_register_forward_pre_hook(first, free_it, net, NULL), SITU_OK);
    assert_non_null(situ_nn_forward(whole ? net : first, input()));
    assert_int_equal(situ_nn_live_modules(), 0);
  }
}

typedef struct holder {
  situ_nn_module base;
  situ_nn_module *fc;
} holder;
static situ_tensor *holder_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_nn_forward(((holder *)self)->fc, x);
}
static const situ_nn_type holder_type = { .name = "Holder", .size = sizeof(holder), .forward = holder_forward };

static situ_status replace_it(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output;
  holder *h = payload;
  return situ_nn_child(h, fc, fc()) ? SITU_OK : situ_error();
}

static void a_hook_replaces_its_module(void **state) {
  (void)state;
  holder *h = situ_nn_alloc(&holder_type);
  situ_nn_child(h, fc, fc());
  assert_non_null(situ_nn_done(h));
  assert_int_equal(situ_nn_register_forward_pre_hook(h->fc, replace_it, h, NULL), SITU_OK);
  for (int i = 0; i < 2; i++) assert_non_null(situ_nn_forward(&h->base, input()));
  assert_int_equal(situ_nn_live_modules(), 2);
  situ_nn_free(&h->base);
}

static situ_tensor *again(situ_nn_module *self, situ_tensor *x) { return situ_nn_forward(self, x); }
static const situ_nn_type endless_type = { .name = "Endless", .size = sizeof(situ_nn_module), .forward = again };

static void a_forward_without_end(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_done(situ_nn_alloc(&endless_type));
  for (int hooked = 0; hooked < 2; hooked++) {
    expect_refused(situ_nn_forward(m, input()), SITU_E_LIMIT, "nn_forward",
                   "Endless: more than 512 calls of modules inside each other");
    assert_int_equal(situ_nn_register_forward_hook(m, free_it, NULL, NULL), SITU_OK);
  }
  situ_nn_free(m);
}

typedef struct teller {
  situ_nn_module base;
  char path[64];
} teller;

static situ_tensor *tell(situ_nn_module *self, situ_tensor *x) {
  (void)situ_nn_running(((teller *)self)->path, sizeof((teller *)self)->path);
  return x;
}

static const situ_nn_type teller_type = { .name = "Teller", .size = sizeof(teller), .forward = tell };

static const char *path_in(situ_nn_module *root, situ_nn_module *m) {
  assert_non_null(situ_nn_forward(root, input()));
  return ((teller *)m)->path;
}

/* A module that runs is named after the one that holds it now, and of several after the one that runs. */
static void a_path_is_that_of_the_owner_of_now(void **state) {
  (void)state;
  situ_nn_module *first = situ_nn_done(situ_nn_alloc(&teller_type)),
                 *second = situ_nn_done(situ_nn_alloc(&teller_type));
  situ_nn_module *root = situ_nn_sequential(first, second);
  assert_string_equal(path_in(root, second), "1");
  situ_nn_module *other = situ_nn_sequential(fc(), fc(), situ_nn_retain(second));
  assert_string_equal(path_in(root, second), "1");
  assert_string_equal(path_in(other, second), "2");
  situ_nn_free(other);
  assert_string_equal(path_in(root, second), "1");
  other = situ_nn_sequential(situ_nn_retain(second));
  assert_non_null(situ_nn_add_child(root, "1", NULL, situ_nn_done(situ_nn_alloc(&teller_type))));
  assert_string_equal(path_in(other, second), "0");
  assert_string_equal(path_in(root, situ_nn_at(root, 1)), "1");
  situ_nn_module *outer = situ_nn_sequential(fc(), other), *copy = situ_nn_clone(outer);
  situ_nn_free(outer);
  assert_string_equal(path_in(copy, situ_nn_at(situ_nn_at(copy, 1), 0)), "1.0");
  situ_nn_free(copy);
  situ_nn_free(root);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(a_freed_module_is_refused),
                                      MODULE_TEST(another_kind_is_refused),
                                      MODULE_TEST(any_number_of_children),
                                      MODULE_TEST(a_child_is_its_owners),
                                      MODULE_TEST(a_module_in_itself),
                                      MODULE_TEST(a_hook_frees_its_module),
                                      MODULE_TEST(a_hook_frees_its_module_twice),
                                      MODULE_TEST(a_hook_frees_what_is_around),
                                      MODULE_TEST(a_hook_replaces_its_module),
                                      MODULE_TEST(a_path_is_that_of_the_owner_of_now),
                                      MODULE_TEST(a_forward_without_end) };
  return cmocka_run_group_tests_name("nn/owners", tests, NULL, NULL);
}
