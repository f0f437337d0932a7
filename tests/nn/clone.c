/* Deep copies: nothing shared with the original, everything shared inside kept.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/sys/explain.h"
#include "situ/sys/tensor.h"
#include "support/modules.h"

typedef struct tied {
  situ_nn_module base;
  situ_nn_module *fc;
  situ_tensor *weight, *count;
  char *note; /* its own memory */
  int number;
} tied;

static situ_tensor *tied_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_linear(x, ((tied *)self)->weight, NULL);
}
static int copied, released;
static situ_facts made_by_copy;
static void tied_release(situ_nn_module *self) {
  free(((tied *)self)->note);
  released++;
}
static situ_status tied_copy(situ_nn_module *copy, const situ_nn_module *self) {
  assert_null(((tied *)copy)->weight); /* registered parts come later */
  ((tied *)copy)->note = malloc(20);
  memcpy(((tied *)copy)->note, ((const tied *)self)->note, 20);
  copied++;
  assert_true(situ_facts_of("clone", situ_zeros(SITU_SHAPE(1), NULL), &made_by_copy));
  return SITU_OK;
}
static situ_status no_copy(situ_nn_module *copy, const situ_nn_module *self) {
  (void)copy, (void)self;
  return SITU_E_IO;
}
static const situ_nn_type tied_type = {
  .name = "Tied", .size = sizeof(tied), .forward = tied_forward, .release = tied_release, .copy = tied_copy
};
static const situ_nn_type careless_type = {
  .name = "Careless", .size = sizeof(tied), .forward = tied_forward, .release = tied_release
};
static const situ_nn_type failing_type = {
  .name = "Failing", .size = sizeof(tied), .forward = tied_forward, .release = tied_release, .copy = no_copy
};

static tied *make(const situ_nn_type *type) {
  tied *m = situ_nn_alloc(type);
  situ_nn_child(m, fc, situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE }));
  situ_nn_param(m, weight, situ_nn_get_tensor(m->fc, "weight"));
  situ_nn_transient_buffer(m, count, TI64(SITU_SCALAR, 3));
  m->note = calloc(1, 20);
  m->number = 42;
  return (tied *)situ_nn_done(m);
}

static void is_made_at_the_line_of_the_call(void **state) {
  (void)state;
  tied *m = make(&tied_type), *copy = (tied *)situ_nn_clone((situ_nn_module *)m);
  situ_facts weight, bias;
  assert_true(situ_facts_of("clone", copy->weight, &weight));
  assert_true(situ_facts_of("clone", situ_nn_get_tensor(copy->fc, "bias"), &bias));
  situ_nn_free((situ_nn_module *)m);
  situ_nn_free((situ_nn_module *)copy);
  if (!*weight.created) skip(); /* linked into the program without a section of its own */
  assert_string_equal(weight.created, bias.created);
  assert_string_not_equal(weight.created, made_by_copy.created); /* which has a line of its own */
}

static void shares_nothing_with_the_original(void **state) {
  (void)state;
  copied = released = 0;
  tied *m = make(&tied_type), *copy;
  situ_nn_eval(&m->base);
  copy = (tied *)situ_nn_clone(&m->base);
  assert_non_null(copy);
  assert_int_equal(copy->number, 42);
  assert_false(copy->base.training || copy->fc->training);
  assert_ptr_not_equal(copy->weight, m->weight);
  assert_ptr_not_equal(copy->note, m->note);
  assert_false(situ_shares_storage(copy->weight, m->weight));
  expect_same(copy->weight, m->weight, 0, 0);
  assert_true(situ_requires_grad(copy->weight) && situ_is_leaf(copy->weight));
  assert_true(situ_device_equal(situ_device_of(copy->count), test_device()));
  assert_string_equal(situ_name(copy->weight), situ_name(m->weight));
  /* What was tied is tied. */
  assert_ptr_equal(situ_nn_get_tensor(copy->fc, "weight"), copy->weight);
  assert_int_equal(situ_nn_num_parameters(&copy->base), 6);
  situ_nn_free(&m->base);
  assert_non_null(situ_nn_init_ones_(copy->weight));
  expect_exact(situ_nn_get_tensor(copy->fc, "weight"), SITU_SHAPE(2, 2), 1, 1, 1, 1);
  situ_nn_free(&copy->base);
  assert_int_equal(copied, 1);
  assert_int_equal(released, 2);
}

static situ_status count_calls(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output;
  ++*(int *)payload;
  return SITU_OK;
}

static void gradients_frozen_parameters_and_hooks_come_along(void **state) {
  (void)state;
  int calls = 0;
  situ_nn_module *m = situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE });
  situ_tensor *weight = situ_nn_get_tensor(m, "weight");
  assert_int_equal(situ_set_grad(weight, T32(SITU_SHAPE(2, 2), 1, 2, 3, 4)), SITU_OK);
  situ_requires_grad_(situ_nn_get_tensor(m, "bias"), false);
  assert_int_equal(situ_nn_register_forward_hook(m, count_calls, &calls, NULL), SITU_OK);
  situ_nn_module *copy = situ_nn_clone(m);
  situ_nn_free(m);
  expect_exact(situ_grad(situ_nn_get_tensor(copy, "weight")), SITU_SHAPE(2, 2), 1, 2, 3, 4);
  assert_false(situ_requires_grad(situ_nn_get_tensor(copy, "bias")));
  assert_non_null(situ_nn_forward(copy, T32(SITU_SHAPE(1, 2), 1, 1)));
  assert_int_equal(calls, 1);
  situ_nn_free(copy);
}

/* A copy has the names of the original, each of which lives as long as either has it. */
static void names_are_shared_and_still_ones_own(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(2, 1, &(situ_nn_linear_options){ .device = test_device() }));
  situ_nn_module *copy = situ_nn_clone(m), *third = situ_nn_clone(copy);
  assert_non_null(situ_set_name(situ_nn_get_tensor(copy, "0.bias"), "mine"));
  assert_non_null(situ_set_name(situ_nn_get_tensor(third, "0.bias"), NULL));
  assert_string_equal(situ_name(situ_nn_get_tensor(m, "0.bias")), "0.bias");
  assert_string_equal(situ_name(situ_nn_get_tensor(third, "0.bias")), "");
  situ_nn_free(m);
  situ_nn_free(third);
  assert_string_equal(situ_name(situ_nn_get_tensor(copy, "0.bias")), "mine");
  assert_string_equal(situ_name(situ_nn_get_tensor(copy, "0.weight")), "0.weight");
  situ_nn_free(copy);
}

static void shared_modules_stay_shared(void **state) {
  (void)state;
  situ_nn_module *shared = situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE });
  situ_nn_module *m = situ_nn_sequential(shared, situ_nn_retain(shared)), *copy = situ_nn_clone(m);
  assert_ptr_equal(situ_nn_at(copy, 0), situ_nn_at(copy, 1));
  assert_ptr_not_equal(situ_nn_at(copy, 0), shared);
  situ_nn_free(m);
  situ_nn_free(copy);
}

static void what_cannot_be_copied_is_refused(void **state) {
  (void)state;
  released = 0;
  tied *m = make(&careless_type);
  expect_refused(situ_nn_clone(&m->base), SITU_E_UNSUPPORTED, "nn_clone", "Careless");
  situ_nn_free(&m->base);
  m = make(&failing_type);
  expect_refused(situ_nn_clone(&m->base), SITU_E_IO, "nn_clone", "Failing: its type's copy failed");
  situ_nn_free(&m->base);
  assert_int_equal(released, 2);
}

/* A shared part has an owner for each of its places in the copy too. */
static void a_shared_part_of_a_copy_has_all_its_owners(void **state) {
  (void)state;
  situ_nn_module *part = situ_nn_linear(2, 2, NULL),
                 *m = situ_nn_sequential(part, situ_nn_retain(part), situ_nn_retain(part));
  situ_nn_module *copy = situ_nn_clone(m);
  assert_non_null(copy);
  assert_ptr_equal(situ_nn_at(copy, 0), situ_nn_at(copy, 2));
  situ_nn_module *kept = situ_nn_retain(situ_nn_at(copy, 0));
  situ_nn_free(copy);
  expect_same(situ_nn_get_tensor(kept, "weight"), situ_nn_get_tensor(part, "weight"), 0, 0);
  situ_nn_free(kept);
  situ_nn_free(m);
}

/* Whatever was copied before the part that cannot be. */
static void a_copy_that_fails_leaves_nothing(void **state) {
  (void)state;
  released = 0;
  tied *failing = make(&failing_type);
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE }),
                                         situ_nn_sequential(situ_nn_linear(2, 1, NULL), &failing->base));
  const int64_t modules = situ_nn_live_modules(), tensors = situ_live_tensors();
  expect_refused(situ_nn_clone(m), SITU_E_IO, "nn_clone", "Failing: its type's copy failed");
  assert_int_equal(situ_nn_live_modules(), modules);
  assert_int_equal(situ_live_tensors(), tensors);
  situ_nn_free(m);
  assert_int_equal(released, 1);
}

static void all_parts_of_a_copy_are_live_and_have_their_names(void **state) {
  (void)state;
  enum { PARTS = 20 }; /* so many are found by an index */
  char name[24];
  situ_nn_module *m = situ_nn_sequential_of(0, NULL);
  for (int i = 0; i < PARTS; i++) situ_nn_append(m, situ_nn_linear(2, 1, NULL));
  const int64_t modules = situ_nn_live_modules();
  situ_nn_module *copy = situ_nn_clone(m);
  assert_int_equal(situ_nn_live_modules(), modules + PARTS + 1);
  assert_non_null(situ_nn_append(copy, situ_nn_linear(2, 1, NULL)));
  assert_int_equal(situ_nn_len(m), PARTS);
  situ_nn_free(m);
  for (int i = 0; i <= PARTS; i++) {
    (void)snprintf(name, sizeof name, "%d", i);
    assert_ptr_equal(situ_nn_get(copy, name), situ_nn_at(copy, i));
    assert_true(situ_nn_is_module(situ_nn_at(copy, i)));
    assert_int_equal(situ_owners(situ_nn_get_tensor(situ_nn_at(copy, i), "weight")), 1);
  }
  situ_nn_free(copy);
  assert_int_equal(situ_nn_live_modules(), modules - PARTS - 1);
}

/* Of a view its own values are copied, of strides their order is kept, and nothing is copied that is not there. */
static void views_empty_and_unwritten_tensors(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_module_dict(), *copy;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
  assert_non_null(situ_nn_add_tensor(m, "row", NULL, situ_narrow(x, 0, 1, 1), SITU_NN_BUFFER));
  assert_non_null(situ_nn_add_tensor(m, "turned", NULL, situ_transpose(x, 0, 1), SITU_NN_BUFFER));
  assert_non_null(situ_nn_add_tensor(m, "none", NULL, situ_zeros(SITU_SHAPE(0, 2), NULL), SITU_NN_PARAMETER));
  copy = situ_nn_clone(m);
  assert_non_null(copy);
  expect_exact(situ_nn_get_tensor(copy, "row"), SITU_SHAPE(1, 3), 3, 4, 5);
  expect_exact(situ_nn_get_tensor(copy, "turned"), SITU_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
  assert_int_equal(situ_stride(situ_nn_get_tensor(copy, "turned"), 0), 1);
  assert_int_equal(situ_size(situ_nn_get_tensor(copy, "none"), 1), 2);
  assert_true(situ_requires_grad(situ_nn_get_tensor(copy, "none")));
  assert_int_equal(situ_role_of(situ_nn_get_tensor(copy, "row")), SITU_ROLE_BUFFER);
  situ_nn_free(copy);
  assert_non_null(situ_nn_add_tensor(m, "later", NULL, situ_empty(SITU_SHAPE(2), NULL), SITU_NN_BUFFER));
  expect_refused(situ_nn_clone(m), SITU_E_STATE, "nn_clone", "holds no value yet");
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(is_made_at_the_line_of_the_call),
    MODULE_TEST(shares_nothing_with_the_original),
    MODULE_TEST(gradients_frozen_parameters_and_hooks_come_along),
    MODULE_TEST(names_are_shared_and_still_ones_own),
    MODULE_TEST(shared_modules_stay_shared),
    MODULE_TEST(a_shared_part_of_a_copy_has_all_its_owners),
    MODULE_TEST(what_cannot_be_copied_is_refused),
    MODULE_TEST(a_copy_that_fails_leaves_nothing),
    MODULE_TEST(all_parts_of_a_copy_are_live_and_have_their_names),
    MODULE_TEST(views_empty_and_unwritten_tensors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
