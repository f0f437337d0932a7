/* Tied weights, made as docs/own-module.md says: one tensor under two names.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "situ/autograd.h"
#include "situ/io.h"
#include "situ/optim.h"
#include "situ/place.h"
#include "support/modules.h"

typedef struct tied {
  situ_nn_module base;
  situ_nn_module *tokens, *head;
} tied;

static situ_tensor *tied_forward(situ_nn_module *self, situ_tensor *ids) {
  tied *m = (tied *)self;
  return situ_nn_forward(m->head, situ_nn_forward(m->tokens, ids));
}
static const situ_nn_type tied_type = { .name = "Tied", .size = sizeof(tied), .forward = tied_forward };

static situ_nn_module *tied_new(int64_t words, int64_t width) {
  tied *m = situ_nn_alloc(&tied_type);
  situ_nn_child(m, tokens, situ_nn_embedding(words, width, OPTIONS_AT(situ_nn_embedding, with HERE)));
  situ_nn_child(m, head, situ_nn_linear(width, words, &(situ_nn_linear_options){ .no_bias = true, HERE }));
  situ_nn_add_tensor(m->head, "weight", NULL, situ_nn_get_tensor(m->tokens, "weight"), SITU_NN_PARAMETER);
  return situ_nn_done(m);
}

static void expect_tied(situ_nn_module *m) {
  situ_tensor *one = situ_nn_get_tensor(m, "tokens.weight");
  assert_non_null(one);
  assert_ptr_equal(situ_nn_get_tensor(m, "head.weight"), one);
  assert_int_equal(situ_nn_num_parameters(m), 6);
}

static void two_names_one_parameter(void **state) {
  (void)state;
  situ_nn_module *m = tied_new(3, 2);
  expect_tied(m);
  situ_tree *names = situ_nn_state_dict(m), *parameters = situ_nn_parameters(m);
  assert_int_equal(situ_tree_count(names), 2);
  assert_ptr_equal(situ_tree_get(names, "tokens.weight"), situ_tree_get(names, "head.weight"));
  assert_int_equal(situ_tree_count(parameters), 1);
  assert_string_equal(situ_tree_key(parameters, 0), "tokens.weight");
  situ_tree_free(names);
  situ_tree_free(parameters);
  assert_int_equal(situ_place_lint(m, NULL), SITU_OK);
  situ_nn_module *copy = situ_nn_clone(m);
  expect_tied(copy);
  situ_nn_free(copy);
  situ_nn_free(m);
}

/* Of both uses, once: as PyTorch computes it for weight = [[1, 2], [3, 4], [5, 6]], ids = [1], loss = sum(scores). */
static void an_optimiser_steps_it_once(void **state) {
  (void)state;
  situ_nn_module *m = tied_new(3, 2);
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(m), 1, NULL);
  situ_tensor *w = situ_nn_get_tensor(m, "head.weight");
  const float values[] = { 1, 2, 3, 4, 5, 6 };
  assert_int_equal(situ_copy_from_host(situ_detach(w), values, sizeof values), SITU_OK);
  situ_tensor *scores = situ_nn_forward(m, TI64(SITU_SHAPE(1), 1));
  assert_int_equal(situ_backward(situ_sum(scores, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(w), SITU_SHAPE(3, 2), 3, 4, 12, 16, 3, 4);
  assert_int_equal(situ_optim_step(optim), SITU_OK);
  expect_exact(w, SITU_SHAPE(3, 2), -2, -2, -9, -12, 2, 2);
  situ_optim_free(optim);
  situ_nn_free(m);
}

static void it_stays_tied(void **state) {
  (void)state;
  situ_nn_module *m = tied_new(3, 2), *other = tied_new(3, 2);
  assert_int_equal(situ_nn_to(m, (situ_device){ .kind = SITU_CPU }), SITU_OK);
  assert_int_equal(situ_nn_to_dtype(m, SITU_F64), SITU_OK);
  assert_int_equal(situ_nn_to(m, test_device()), SITU_OK);
  assert_int_equal(situ_nn_to_dtype(m, SITU_F32), SITU_OK);
  expect_tied(m);
  /* through a file, which has it twice; also with .assign, and under one of its names */
  situ_tree *saved = situ_nn_state_dict(m);
  assert_int_equal(situ_save("tied.safetensors", saved, &(situ_save_options){ .no_sync = true }), SITU_OK);
  situ_tree_free(saved);
  for (int assign = 0; assign < 2; assign++) {
    situ_tree *file = situ_load("tied.safetensors", &(situ_load_options){ HERE });
    assert_int_equal(situ_nn_load_state_dict(other, file, &(situ_nn_load_options){ .assign = assign }), SITU_OK);
    situ_tree_free(file);
    expect_tied(other);
    expect_same(situ_nn_get_tensor(other, "head.weight"), situ_nn_get_tensor(m, "tokens.weight"), 0, 0);
  }
  situ_tree *one =
      situ_tree_put(situ_tree_dict(), "tokens.weight", situ_tree_tensor(T32(SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6)));
  assert_int_equal(situ_nn_load_state_dict(other, one, &(situ_nn_load_options){ .not_strict = true }), SITU_OK);
  expect_exact(situ_nn_get_tensor(other, "head.weight"), SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
  situ_tree_free(one);
  assert_int_equal(remove("tied.safetensors"), 0);
  situ_nn_free(m);
  situ_nn_free(other);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(two_names_one_parameter), MODULE_TEST(an_optimiser_steps_it_once),
                                      MODULE_TEST(it_stays_tied) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
