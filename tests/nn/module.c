/* Modules: registration by assignment, what happens when a part is missing, sharing, freeing,
   names, the visitor.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "situ/sys/alloc.h"
#include "support/modules.h"

typedef struct net {
  situ_nn_module base;
  situ_nn_module *fc1, *fc2;
  situ_tensor *scale, *offset, *cache, *plain;
} net;

static situ_tensor *net_forward(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  x = situ_relu(situ_nn_forward(m->fc1, x));
  return situ_add(situ_mul(situ_nn_forward(m->fc2, x), m->scale), m->offset);
}
static const situ_nn_type net_type = { .name = "Net", .size = sizeof(net), .forward = net_forward };

static situ_nn_module *fc(int64_t in, int64_t out) {
  return situ_nn_linear(in, out, &(situ_nn_linear_options){ HERE });
}
static situ_options here(void) { return (situ_options){ HERE }; }

/* As a user would write it, outside any scope but the test's. */
static situ_nn_module *net_new(int64_t in, int64_t hidden) {
  situ_options where = here();
  net *m = situ_nn_alloc(&net_type);
  situ_nn_child(m, fc1, fc(in, hidden));
  situ_nn_child(m, fc2, fc(hidden, in));
  situ_nn_param(m, scale, situ_ones(SITU_SHAPE(in), &where));
  situ_nn_buffer(m, offset, situ_zeros(SITU_SHAPE(in), &where));
  situ_nn_transient_buffer(m, cache, situ_zeros(SITU_SHAPE(1), &where));
  return situ_nn_done(m);
}

static void registers_by_assignment(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  situ_nn_module *m = net_new(3, 4);
  assert_non_null(m);
  /* Only what was registered is left: 2 weights, 2 biases, 3 of its own. */
  assert_int_equal(situ_live_tensors() - before, 7);
  net *n = (net *)m;
  assert_true(situ_requires_grad(n->scale));
  assert_false(situ_requires_grad(n->offset));
  assert_true(situ_nn_is_module(n->fc1));
  assert_false(situ_nn_is_module(n->scale));
  const situ_nn_module copy = *n->fc1;
  assert_false(situ_nn_is_module(&copy));
  assert_int_equal(situ_nn_live_modules(), 3);
  assert_int_equal(situ_nn_num_parameters(m), 3 * 4 + 4 + 4 * 3 + 3 + 3);
  situ_nn_free(m);
  assert_int_equal(situ_live_tensors(), before);
}

static void tensors_are_named_by_their_path(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(net_new(3, 4), situ_nn_relu());
  assert_string_equal(situ_name(situ_nn_get_tensor(m, "0.fc1.weight")), "0.fc1.weight");
  assert_string_equal(situ_name(situ_nn_get_tensor(m, "0.offset")), "0.offset");
  situ_nn_free(m);
}

/* A part that could not be made: NULL is the answer, all is freed, and the first error stays. */
static void a_missing_part_breaks_the_whole(void **state) {
  (void)state;
  for (int missing = 0; missing < 4; missing++) {
    net *m = situ_nn_alloc(&net_type);
    situ_nn_child(m, fc1, missing == 0 ? situ_nn_dropout(2) : fc(2, 2));
    situ_nn_child(m, fc2, missing == 1 ? situ_nn_group_norm(3, 4, NULL) : fc(2, 2));
    situ_nn_param(m, scale, missing == 2 ? situ_ones(SITU_SHAPE(-1), NULL) : situ_ones(SITU_SHAPE(2), NULL));
    situ_nn_buffer(m, offset,
                   missing == 3 ? situ_reshape(situ_ones(SITU_SHAPE(2), NULL), SITU_SHAPE(3))
                                : situ_ones(SITU_SHAPE(2), NULL));
    static const char *const op[] = { "nn_dropout", "nn_group_norm", "", "reshape" };
    expect_refused(situ_nn_done(m), missing < 2 ? SITU_E_ARG : SITU_E_SHAPE, op[missing], "");
    assert_int_equal(situ_nn_live_modules(), 0);
  }
}

/* Everything accepts the NULL that a failed allocation gives; what is passed in is freed. */
static void null_modules_are_accepted(void **state) {
  (void)state;
  net *m = NULL;
  situ_nn_child(m, fc1, fc(2, 2));
  situ_nn_param(m, scale, situ_ones(SITU_SHAPE(2), NULL));
  expect_error(SITU_E_ARG, "nn_add_child", "module");
  expect_refused(situ_nn_done(m), SITU_E_ARG, "nn_done", "module");
  assert_null(situ_nn_retain(NULL));
  situ_nn_free(NULL);
  assert_int_equal(situ_nn_home(NULL).kind, SITU_DEVICE_DEFAULT);
  expect_refused(situ_nn_forward(NULL, NULL), SITU_E_ARG, "nn_forward", "module");
  expect_refused(situ_nn_clone(NULL), SITU_E_ARG, "nn_clone", "module");
  expect_refused(situ_nn_state_dict(NULL), SITU_E_ARG, "nn_state_dict", "module");
}

static void bad_registrations_are_refused(void **state) {
  (void)state;
  net *m = situ_nn_alloc(&net_type);
  assert_null(situ_nn_add_child(&m->base, "a.b", &m->fc1, situ_nn_relu()));
  expect_error(SITU_E_ARG, "nn_add_child", "\"a.b\"");
  assert_null(situ_nn_add_tensor(&m->base, "", NULL, T32(SITU_SHAPE(1), 1), SITU_NN_BUFFER));
  expect_error(SITU_E_ARG, "nn_add_tensor", "empty");
  assert_null(situ_nn_add_tensor(&m->base, "i", NULL, TI64(SITU_SHAPE(1), 1), SITU_NN_PARAMETER));
  expect_error(SITU_E_DTYPE, "", "");
  assert_null(situ_nn_add_tensor(&m->base, "i", NULL, TI64(SITU_SHAPE(1), 1), SITU_NN_CHILD));
  expect_error(SITU_E_ARG, "nn_add_tensor", "parameter or a buffer");
  situ_tensor *elsewhere = NULL;
  assert_null(situ_nn_add_tensor(&m->base, "t", &elsewhere, T32(SITU_SHAPE(1), 1), SITU_NN_BUFFER));
  expect_error(SITU_E_ARG, "nn_add_tensor", "not part of the module");
  expect_refused(situ_nn_done(m), SITU_E_STATE, "nn_done", "a registration failed");
}

static void cycles_are_refused(void **state) {
  (void)state;
  situ_nn_module *inner = situ_nn_module_dict(), *outer = situ_nn_put(situ_nn_module_dict(), "inner", inner);
  assert_null(situ_nn_add_child(inner, "outer", NULL, outer));
  expect_error(SITU_E_ARG, "nn_add_child", "contain itself");
  assert_null(situ_nn_add_child(inner, "self", NULL, inner));
  expect_error(SITU_E_ARG, "nn_add_child", "contain itself");
  situ_nn_free(outer);
}

/* Deep chains, grown at their inner end, are walked up to a limit and freed without one. */
static void depth_is_bounded_and_freeing_is_not(void **state) {
  (void)state;
  situ_nn_module *root = situ_nn_module_dict(), *last = root;
  for (int i = 0; i < 100000; i++) {
    situ_nn_module *next = situ_nn_module_dict();
    assert_non_null(situ_nn_add_child(last, "next", NULL, next));
    last = next;
  }
  expect_refused(situ_nn_state_dict(root), SITU_E_LIMIT, "nn_state_dict", "256");
  expect_refused(situ_nn_clone(root), SITU_E_UNSUPPORTED, "nn_clone", "deep");
  situ_nn_free(root);
}

static void assigning_again_frees_the_old(void **state) {
  (void)state;
  net *m = (net *)net_new(2, 2);
  int64_t before = situ_live_tensors();
  situ_nn_child(m, fc1, fc(2, 2));
  situ_nn_child(m, fc1, fc(2, 2));
  assert_int_equal(situ_live_tensors(), before);
  assert_int_equal(situ_nn_live_modules(), 3);
  situ_tensor *old = m->scale;
  situ_nn_param(m, scale, T32(SITU_SHAPE(2), 1, 1));
  assert_ptr_not_equal(m->scale, old);
  situ_tree *parameters = situ_nn_parameters(&m->base);
  assert_int_equal(situ_tree_count(parameters), 5);
  situ_tree_free(parameters);
  situ_nn_free(&m->base);
}

static void shared_parts_are_counted_once(void **state) {
  (void)state;
  situ_nn_module *shared = fc(2, 2);
  situ_nn_module *m = situ_nn_sequential(shared, situ_nn_relu(), situ_nn_retain(shared));
  assert_int_equal(situ_nn_num_parameters(m), 6);
  situ_tree *parameters = situ_nn_parameters(m), *dict = situ_nn_state_dict(m);
  assert_int_equal(situ_tree_count(parameters), 2);
  /* ... but saved under each name, as torch does. */
  assert_int_equal(situ_tree_count(dict), 4);
  assert_ptr_equal(situ_tree_get(dict, "0.weight"), situ_tree_get(dict, "2.weight"));
  situ_tree_free(parameters);
  situ_tree_free(dict);
  situ_nn_free(m);
}

/* A field that shows a tensor which was not registered: it lives as long as outside the
   constructor. */
static void unregistered_fields_do_not_dangle(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  net *m = situ_nn_alloc(&net_type);
  m->plain = situ_ones(SITU_SHAPE(2), NULL);
  situ_tensor *dropped = situ_ones(SITU_SHAPE(3), NULL);
  assert_non_null(dropped);
  assert_ptr_equal(situ_nn_done(m), m);
  assert_int_equal(situ_live_tensors() - before, 1);
  expect_exact(m->plain, SITU_SHAPE(2), 1, 1);
  situ_nn_free(&m->base);
}

/* Constructors that do not close what they open, or in a strange order, harm nobody. */
static void unfinished_modules_can_be_freed(void **state) {
  (void)state;
  net *a = situ_nn_alloc(&net_type), *b = situ_nn_alloc(&net_type);
  situ_nn_param(b, scale, T32(SITU_SHAPE(1), 1));
  situ_nn_param(a, scale, T32(SITU_SHAPE(1), 2));
  assert_non_null(situ_nn_done(a));
  assert_non_null(situ_nn_done(b));
  expect_exact(b->scale, SITU_SHAPE(1), 1);
  situ_nn_free(&a->base);
  situ_nn_free(&b->base);
  situ_scope scope;
  situ_scope_begin(&scope);
  net *c = situ_nn_alloc(&net_type);
  situ_nn_child(c, fc1, fc(1, 1));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  situ_nn_free(&c->base);
}

static situ_status write_path(const situ_nn_visit *at, void *payload) {
  char *text = payload;
  snprintf(text + strlen(text), 400 - strlen(text), "%s%s:%d ", at->leaving ? "/" : "", at->path, at->depth);
  assert_string_equal(at->name, strrchr(at->path, '.') ? strrchr(at->path, '.') + 1 : at->path);
  return SITU_OK;
}

static void the_visitor_walks_in_torchs_order(void **state) {
  (void)state;
  situ_nn_module *m = net_new(2, 2);
  char text[400] = "";
  assert_int_equal(situ_nn_walk(m, SITU_NN_VISIT_TENSORS, write_path, text), SITU_OK);
  assert_string_equal(text, "scale:0 offset:0 cache:0 fc1.weight:1 fc1.bias:1 fc2.weight:1 fc2.bias:1 ");
  text[0] = 0;
  assert_int_equal(situ_nn_walk(m, SITU_NN_VISIT_MODULES | SITU_NN_VISIT_LEAVE, write_path, text), SITU_OK);
  assert_string_equal(text, ":0 fc1:1 /fc1:1 fc2:1 /fc2:1 /:0 ");
  text[0] = 0;
  assert_int_equal(situ_nn_walk(m, SITU_NN_BUFFER, write_path, text), SITU_OK);
  assert_string_equal(text, "offset:0 ");
  situ_nn_free(m);
}

static void parts_are_found_by_path(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(net_new(2, 2));
  net *n = (net *)situ_nn_get_submodule(m, "0");
  assert_ptr_equal(situ_nn_get_submodule(m, ""), m);
  assert_ptr_equal(situ_nn_get_submodule(m, "0.fc2"), n->fc2);
  assert_ptr_equal(situ_nn_get_tensor(m, "0.scale"), n->scale);
  expect_refused(situ_nn_get_tensor(m, "0.fc2"), SITU_E_ARG, "nn_get_tensor", "0.fc2");
  expect_refused(situ_nn_get_submodule(m, "0.scale"), SITU_E_ARG, "nn_get_submodule", "0.scale");
  expect_refused(situ_nn_get_tensor(m, "0.scale.x"), SITU_E_ARG, "nn_get_tensor", "");
  expect_refused(situ_nn_get_tensor(m, "0.fc"), SITU_E_ARG, "nn_get_tensor", "");
  situ_nn_free(m);
}

static situ_status count_module(situ_nn_module *m, void *payload) {
  char *text = payload;
  strcat(text, m->type->name);
  return m->training ? SITU_OK : SITU_E_STATE;
}

static void modes_reach_every_module(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(fc(1, 1), situ_nn_sequential(situ_nn_relu()));
  char text[100] = "";
  assert_int_equal(situ_nn_apply(m, count_module, text), SITU_OK);
  assert_string_equal(text, "LinearReLUSequentialSequential"); /* children first */
  assert_ptr_equal(situ_nn_eval(m), m);
  assert_false(situ_nn_get_submodule(m, "1.0")->training);
  assert_int_equal(situ_nn_apply(m, count_module, text), SITU_E_STATE);
  assert_ptr_equal(situ_nn_train(m, true), m);
  assert_true(situ_nn_get_submodule(m, "1.0")->training);
  assert_ptr_equal(situ_nn_requires_grad_(m, false), m);
  assert_false(situ_requires_grad(situ_nn_get_tensor(m, "0.weight")));
  situ_nn_free(m);
}

static void gradients_reach_parameters_and_are_dropped(void **state) {
  (void)state;
  situ_nn_module *m = net_new(2, 3);
  situ_tensor *y = situ_nn_forward(m, T32(SITU_SHAPE(1, 2), 1, 2));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  situ_tensor *scale = situ_nn_get_tensor(m, "scale");
  assert_non_null(situ_grad(scale));
  assert_non_null(situ_grad(situ_nn_get_tensor(m, "fc1.weight")));
  situ_nn_zero_grad(m);
  assert_null(situ_grad(scale));
  situ_nn_free(m);
}

/* A model is built, run and freed with each allocation failing once: an error each time, and
   nothing leaks. */
static void survives_a_lack_of_memory(void **state) {
  (void)state;
  uint64_t nth = 0;
  bool whole = false;
  situ_tensor *x = T32(SITU_SHAPE(1, 2), 1, 2);
  while (!whole) {
    assert_true(++nth < 2000);
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_fail_allocation(nth, false);
    situ_nn_module *m = situ_nn_sequential(net_new(2, 2), situ_nn_relu());
    situ_nn_module *copy = situ_nn_clone(m);
    situ_tree *dict = situ_nn_state_dict(copy);
    situ_tensor *y = dict ? situ_nn_forward(copy, x) : NULL;
    situ_fail_allocation(0, false);
    whole = y != NULL;
    situ_tree_free(dict);
    situ_nn_free(copy);
    situ_nn_free(m);
    SITU_IGNORE(situ_scope_end(&scope));
    assert_int_equal(situ_nn_live_modules(), 0);
    if (!whole) expect_error(SITU_E_NOMEM, "", "");
  }
  assert_true(nth > 30);
}

/* The depth that may be built is the depth that can be walked, to the module. */
static void the_deepest_tree_can_be_walked(void **state) {
  (void)state;
  enum { DEPTH = 256 };
  situ_nn_module *chain = situ_nn_identity();
  for (int i = 0; i < DEPTH; i++) {
    situ_nn_module *outer = situ_nn_module_dict();
    assert_non_null(situ_nn_add_child(outer, "next", NULL, chain));
    chain = outer;
  }
  assert_non_null(situ_nn_eval(chain));
  situ_nn_module *outer = situ_nn_module_dict();
  assert_null(situ_nn_add_child(outer, "next", NULL, chain)); /* not freed: it may be what holds outer */
  expect_error(SITU_E_ARG, "nn_add_child", "nested more than 256 deep");
  situ_nn_free(outer);
  situ_nn_free(chain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(registers_by_assignment),
    MODULE_TEST(tensors_are_named_by_their_path),
    MODULE_TEST(a_missing_part_breaks_the_whole),
    MODULE_TEST(null_modules_are_accepted),
    MODULE_TEST(bad_registrations_are_refused),
    MODULE_TEST(cycles_are_refused),
    MODULE_TEST(depth_is_bounded_and_freeing_is_not),
    MODULE_TEST(the_deepest_tree_can_be_walked),
    MODULE_TEST(assigning_again_frees_the_old),
    MODULE_TEST(shared_parts_are_counted_once),
    MODULE_TEST(unregistered_fields_do_not_dangle),
    MODULE_TEST(unfinished_modules_can_be_freed),
    MODULE_TEST(the_visitor_walks_in_torchs_order),
    MODULE_TEST(parts_are_found_by_path),
    MODULE_TEST(modes_reach_every_module),
    MODULE_TEST(gradients_reach_parameters_and_are_dropped),
    MODULE_TEST(survives_a_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
