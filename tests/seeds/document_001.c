/* Source document 001, "Why aren't all tensors being moved to the desired device using
   .to(device)?": its four examples as they would be written here, and a test behind each of its
   claims. docs/pytorch-myths.md shows what the examples print.
   SPDX-License-Identifier: MIT */
/* test-devices: meta sim:0 sim:1 opencl:0 opencl:1 */
#include "situ/policy.h"
#include "support/pairs.h"

/* ---- the layer of examples 1 and 2 ---- */

typedef struct custom {
  situ_nn_module base;
  situ_tensor *weight, *bias;
} custom;

static situ_tensor *custom_forward(situ_nn_module *self, situ_tensor *x) {
  custom *m = (custom *)self;
  return situ_add(situ_matmul(x, situ_transpose(m->weight, 0, 1)), m->bias);
}
static const situ_nn_type custom_type = { .name = "CustomLinear", .size = sizeof(custom), .forward = custom_forward };

static situ_nn_module *custom_linear(int64_t in_features, int64_t out_features) {
  custom *m = situ_nn_alloc(&custom_type);
  situ_nn_param(m, weight, situ_randn(SITU_SHAPE(out_features, in_features), NULL));
  situ_nn_param(m, bias, situ_randn(SITU_SHAPE(out_features), NULL));
  return situ_nn_done(m);
}

/* ---- example 1: the input is not moved ---- */

static void example_1(void **state) {
  (void)state;
  situ_device device = there();
  situ_nn_module *model = custom_linear(10, 5);
  expect_ok(situ_nn_to(model, device));

  situ_tensor *input = situ_set_name(situ_randn(SITU_SHAPE(1, 10), NULL), "input");
  situ_tensor *output = situ_nn_forward(model, input);

  printf("Weight Device: %s\n", where(situ_nn_get_tensor(model, "weight")));
  if (!output) printf("%s\n", situ_error_message());
  /* end */
  const situ_error_operand *list;
  assert_int_equal(situ_error_operands(&list), 2);
  assert_string_equal(list[0].device, name_of(here()));
  assert_string_equal(list[1].device, name_of(device));
  expect_refused(output, SITU_E_DEVICE, "matmul", "input");
  situ_nn_free(model);
}

/* ---- example 2: the input is moved ---- */

static void example_2(void **state) {
  (void)state;
  situ_device device = there();
  situ_nn_module *model = custom_linear(10, 5);
  expect_ok(situ_nn_to(model, device));

  situ_tensor *input = situ_randn(SITU_SHAPE(1, 10), NULL);
  input = situ_to(input, device);
  situ_tensor *output = situ_nn_forward(model, input);

  printf("Output Device: %s\n", where(output));
  printf("Weight Device: %s\n", where(situ_nn_get_tensor(model, "weight")));
  /* end */
  expect_on(output, device);
  expect_on(situ_nn_get_tensor(model, "weight"), device);
  situ_nn_free(model);
}

/* ---- example 3: a module that gives several tensors ---- */

typedef struct splitter {
  situ_nn_module base;
  situ_nn_module *linear;
} splitter;

static situ_tree *splitter_call(situ_nn_module *self, const situ_tree *inputs) {
  situ_tensor *pieces[3], *x = situ_nn_forward(((splitter *)self)->linear, situ_tree_value(inputs));
  return situ_split(situ_relu(x), 2, 1, pieces, 3) == 3 ? situ_tree_of(3, pieces) : NULL;
}
static const situ_nn_type splitter_type = { .name = "ExampleModel", .size = sizeof(splitter), .call = splitter_call };

static situ_nn_module *splitter_new(void) {
  splitter *m = situ_nn_alloc(&splitter_type);
  situ_nn_child(m, linear, situ_nn_linear(10, 5, NULL));
  return situ_nn_done(m);
}

static void example_3(void **state) {
  (void)state;
  situ_device device = there();
  situ_nn_module *model = splitter_new();
  expect_ok(situ_nn_to(model, device));

  situ_tree *input = SITU_TREE(situ_to(situ_randn(SITU_SHAPE(1, 10), NULL), device));
  situ_tree *outputs = situ_nn_call(model, input);

  for (int64_t i = 0; i < situ_tree_count(outputs); i++)
    printf("Sub tensor device %s\n", where(situ_tree_tensor_at(outputs, i)));
  /* end */
  assert_int_equal(situ_tree_count(outputs), 3);
  for (int i = 0; i < 3; i++) {
    expect_on(situ_tree_tensor_at(outputs, i), device);
    assert_int_equal(situ_size(situ_tree_tensor_at(outputs, i), 1), i < 2 ? 2 : 1);
    assert_true(situ_shares_storage(situ_tree_tensor_at(outputs, i), situ_tree_tensor_at(outputs, 0)));
  }
  situ_tree_free(input);
  situ_tree_free(outputs);
  situ_nn_free(model);
}

/* ---- example 4: lists and dicts of tensors ---- */

static void example_4(void **state) {
  (void)state;
  situ_device device = there();
  situ_tree *training_data = SITU_TREE(situ_randn(SITU_SHAPE(10, 10), NULL), situ_randn(SITU_SHAPE(10, 10), NULL));
  situ_tree_set(&training_data, situ_tree_to(training_data, device));

  for (int64_t i = 0; i < situ_tree_count(training_data); i++)
    printf("training_data[%d] is on: %s\n", (int)i, where(situ_tree_tensor_at(training_data, i)));
  /* end */
  assert_int_equal(situ_tree_count(training_data), 2);
  for (int i = 0; i < 2; i++) expect_on(situ_tree_tensor_at(training_data, i), device);
  situ_tree_free(training_data);
}

/* ---- the claims ---- */

/* "Tensors implicitly created in forward bypass the move": true in PyTorch. Here forward's default
   device is the module's home, and what is made like x is where x is. */
typedef struct maker {
  situ_nn_module base;
  situ_nn_module *linear;
  bool like;
} maker;

static situ_tensor *maker_forward(situ_nn_module *self, situ_tensor *x) {
  maker *m = (maker *)self;
  x = situ_nn_forward(m->linear, x);
  return situ_add(x, m->like ? situ_ones_like(x, NULL) : situ_ones(SITU_SHAPE(3), NULL));
}
static const situ_nn_type maker_type = { .name = "Maker", .size = sizeof(maker), .forward = maker_forward };

static void claim_001_1_tensors_made_in_forward_are_at_home(void **state) {
  (void)state;
  for (int like = 0; like < 2; like++) {
    maker *m = situ_nn_alloc(&maker_type);
    situ_nn_child(m, linear, situ_nn_linear(2, 3, NULL));
    m->like = like;
    situ_nn_module *model = situ_nn_done(m);
    expect_ok(situ_nn_to(model, there()));
    expect_on(situ_nn_forward(model, situ_to(situ_ones(SITU_SHAPE(1, 2), NULL), there())), there());
    situ_nn_free(model);
  }
}

/* And a program may forbid that a device is left to chance: outside of a module, where nothing says
   where, a factory is an error then. */
static void claim_001_1_an_unstated_device_can_be_forbidden(void **state) {
  (void)state;
  situ_nn_module *model = situ_nn_linear(2, 3, NULL);
  expect_ok(situ_nn_to(model, there()));
  situ_tensor *x = situ_ones(SITU_SHAPE(1, 2), &(situ_options){ .device = there() });
  expect_ok(situ_set_default_device((situ_device){ 0 }));
  situ_setting before;
  situ_policy_begin(&before, (situ_policy){ .unstated = SITU_UNSTATED_FORBID });
  expect_refused(situ_ones(SITU_SHAPE(2), NULL), SITU_E_DEVICE, "ones", "");
  expect_on(situ_ones(SITU_SHAPE(2), &(situ_options){ .device = there() }), there());
  expect_on(situ_ones_like(x, NULL), there());
  expect_on(situ_nn_forward(model, x), there());
  situ_policy_end(&before);
  expect_on(situ_ones(SITU_SHAPE(2), NULL), situ_dev("cpu"));
  situ_nn_free(model);
}

/* "Nested lists and dicts need recursion": true, and the recursion is in the library, with what the
   document's own misses: kinds and order are kept, one tensor twice stays one, and what shares
   memory shares it there. */
static void claim_001_2_a_tree_moves_whole(void **state) {
  (void)state;
  situ_tensor *x = situ_arange(0, 6, 1, NULL), *part = situ_narrow(x, 0, 2, 2);
  situ_tree *inner = situ_tree_put(situ_tree_put(situ_tree_dict(), "z", situ_tree_tensor(x)), "a", situ_tree_none());
  situ_tree *tree = situ_tree_append(situ_tree_append(situ_tree_append(situ_tree_list(), inner), situ_tree_tensor(x)),
                                     situ_tree_tensor(part));
  situ_tree *moved = situ_tree_to(tree, there());
  assert_non_null(moved);
  assert_int_equal(situ_tree_kind_of(moved), SITU_TREE_LIST);
  const situ_tree *dict = situ_tree_at(moved, 0);
  assert_int_equal(situ_tree_kind_of(dict), SITU_TREE_DICT);
  assert_string_equal(situ_tree_key(dict, 0), "z");
  assert_int_equal(situ_tree_kind_of(situ_tree_at(dict, 1)), SITU_TREE_NONE);
  situ_tensor *y = situ_tree_get(dict, "z");
  expect_on(y, there());
  expect_on(x, here());
  assert_ptr_equal(situ_tree_tensor_at(moved, 1), y);
  assert_true(situ_shares_storage(situ_tree_tensor_at(moved, 2), y));
  assert_non_null(situ_fill_(situ_tree_tensor_at(moved, 2), 9));
  if (has_values(there())) expect_exact(y, SITU_SHAPE(6), 0, 1, 9, 9, 4, 5);
  expect_exact(x, SITU_SHAPE(6), 0, 1, 2, 3, 4, 5);
  situ_tree_free(tree);
  situ_tree_free(moved);
}

/* "to() returns a new tensor": mostly true; where there is nothing to do it is x itself, in PyTorch
   and here. */
static void claim_001_3_to_is_pure(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(2), NULL), *y = situ_to(x, there());
  assert_ptr_not_equal(x, y);
  expect_on(x, here());
  expect_on(y, there());
  assert_false(situ_shares_storage(x, y));
  assert_ptr_equal(situ_to(x, here()), x);
  assert_ptr_equal(situ_to_dtype(x, SITU_F32), x);
}

/* "An unassigned t.to(d) leaves t behind": true. The compiler says so (tests/seeds/warnings), and
   the next op too. */
static void claim_001_4_an_unassigned_to_leaves_it_behind(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(2), NULL), *w = situ_ones(SITU_SHAPE(2), &(situ_options){ .device = there() });
  if (situ_to(x, there()) == x) fail_msg("it moved in place");
  expect_on(x, here());
  expect_refused(situ_add(x, w), SITU_E_DEVICE, "add", "situ_to");
}

/* "Mismatches lead to errors, warnings, or incorrect results": only ever to an error, and no
   operand moves. */
static void claim_001_5_a_mismatch_is_always_an_error(void **state) {
  (void)state;
  situ_tensor *a = situ_ones(SITU_SHAPE(2, 2), NULL),
              *b = situ_ones(SITU_SHAPE(2, 2), &(situ_options){ .device = there() });
  expect_refused(situ_add(a, b), SITU_E_DEVICE, "add", "");
  expect_refused(situ_mm(b, a), SITU_E_DEVICE, "mm", "");
  expect_refused(situ_cat((situ_tensor *[]){ a, b }, 2, 0), SITU_E_DEVICE, "cat", "");
  expect_refused(situ_mul_(a, b), SITU_E_DEVICE, "mul_", "");
  expect_on(a, here());
  expect_on(b, there());
  expect_exact(a, SITU_SHAPE(2, 2), 1, 1, 1, 1);
}

/* "Does not recursively transfer all submodules' parameters": it does. */
static void claim_001_6_to_is_recursive(void **state) {
  (void)state;
  situ_nn_module *net =
      situ_nn_sequential(situ_nn_sequential(situ_nn_sequential(custom_linear(2, 2))), custom_linear(2, 2));
  expect_ok(situ_nn_to(net, there()));
  expect_on(situ_nn_get_tensor(net, "0.0.0.weight"), there());
  expect_on(situ_nn_get_tensor(net, "1.bias"), there());
  situ_nn_free(net);
}

/* "Custom layers with new tensors may not be moved": true of what is not registered, and of nothing
   else. */
typedef struct half {
  situ_nn_module base;
  situ_tensor *weight, *scale;
  situ_nn_module *inner;
} half;
static const situ_nn_type half_type = { .name = "Half", .size = sizeof(half) };

static void claim_001_7_only_what_is_not_registered_stays(void **state) {
  (void)state;
  half *m = situ_nn_alloc(&half_type);
  situ_nn_param(m, weight, situ_ones(SITU_SHAPE(2), NULL));
  if (m) m->scale = situ_requires_grad_(situ_ones(SITU_SHAPE(2), NULL), true); /* like a parameter, and none */
  if (m) m->inner = situ_nn_linear(2, 2, NULL);
  situ_nn_module *model = situ_nn_done(m);
  assert_int_equal(situ_place_lint(model, NULL), SITU_E_STATE);
  assert_non_null(strstr(situ_error_message(), "tensor at byte"));
  expect_error(SITU_E_STATE, "", "the Linear at byte");
  expect_ok(situ_nn_to(model, there()));
  expect_on(m->weight, there());
  expect_on(m->scale, here());
  expect_on(situ_nn_get_tensor(m->inner, "weight"), here());
  situ_nn_free(m->inner);
  situ_nn_free(model);
}

/* "So call .to() on each submodule": not needed, and a shared one is moved once whoever asks. */
static void claim_001_8_shared_submodules_move_once(void **state) {
  (void)state;
  situ_nn_module *shared = custom_linear(2, 2), *net = situ_nn_sequential(shared, situ_nn_retain(shared));
  situ_tensor *weight = situ_nn_get_tensor(net, "0.weight");
  expect_ok(situ_nn_to(situ_nn_at(net, 0), there()));
  expect_ok(situ_nn_to(situ_nn_at(net, 1), there()));
  assert_ptr_equal(situ_nn_get_tensor(net, "1.weight"), weight);
  expect_on(weight, there());
  situ_nn_free(net);
}

/* "Operations on the original tensor may still execute on the wrong device": true of a pure copy; a
   handle on what a module holds follows it, and a write through it is seen. */
static void claim_001_9_old_handles_follow_their_module(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_batch_norm1d(2, NULL);
  situ_tensor *mean = situ_nn_get_tensor(m, "running_mean"), *part = situ_select(mean, 0, 1);
  expect_ok(situ_nn_to(m, there()));
  expect_on(mean, there());
  expect_on(part, there());
  assert_non_null(situ_fill_(part, 7));
  if (has_values(there())) expect_exact(situ_nn_get_tensor(m, "running_mean"), SITU_SHAPE(2), 0, 7);
  situ_nn_free(m);
}

/* "The output will typically be returned on the CPU": never; nothing is chosen for the caller. */
static void claim_001_ex1_no_device_is_chosen_for_you(void **state) {
  (void)state;
  situ_nn_module *model = custom_linear(10, 5);
  expect_ok(situ_nn_to(model, there()));
  situ_tensor *input = situ_ones(SITU_SHAPE(1, 10), NULL);
  int64_t before = situ_live_tensors();
  expect_refused(situ_nn_forward(model, input), SITU_E_DEVICE, "matmul", name_of(here()));
  assert_int_equal(situ_live_tensors(), before);
  expect_on(input, here());
  expect_on(situ_nn_get_tensor(model, "weight"), there());
  situ_nn_free(model);
}

/* "Many methods possess this implicit behaviour": it is an invariant. What is not a factory gives
   its result where its operands are. */
static void claim_001_ex3_results_are_where_the_operands_are(void **state) {
  (void)state;
  situ_options far = { .device = there() };
  situ_tensor *x = situ_ones(SITU_SHAPE(4, 4), &far),
              *index = situ_zeros(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_I64, .device = there() });
  situ_tensor *mask = situ_ones(SITU_SHAPE(4, 4), &(situ_options){ .dtype = SITU_BOOL, .device = there() });
  situ_tensor *pieces[4];
  assert_int_equal(situ_unbind(x, 0, pieces, 4), 4);
  situ_tensor *results[] = { situ_add(x, x),
                             situ_neg(x),
                             situ_mm(x, x),
                             situ_sum(x, NULL),
                             situ_transpose(x, 0, 1),
                             situ_clone(x),
                             situ_index_select(x, 0, index),
                             situ_masked_fill(x, mask, 2),
                             situ_cat(pieces, 4, 0),
                             situ_zeros_like(x, NULL),
                             situ_randn_like(x, NULL),
                             situ_softmax(x, 1),
                             situ_to_dtype(x, SITU_F64),
                             situ_where(mask, x, x),
                             pieces[3] };
  for (size_t i = 0; i < sizeof results / sizeof *results; i++) expect_on(results[i], there());
}

/* A piece of a split is a view: it moves with its base. Moved alone by situ_to it leaves, and only
   its own bytes are copied. */
static void claim_001_ex3_pieces_are_views(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(5), NULL), *pieces[3];
  assert_int_equal(situ_split(x, 2, 0, pieces, 3), 3);
  int64_t before = situ_live_bytes();
  situ_tensor *moved = situ_to(pieces[2], there());
  assert_int_equal(situ_live_bytes() - before, has_values(there()) ? 4 : situ_live_bytes() - before);
  expect_on(moved, there());
  expect_on(pieces[0], here());
  assert_true(situ_shares_storage(pieces[0], x));
  assert_false(situ_shares_storage(moved, x));
}

/* "to() creates copies rather than applying in place" is true of tensors and false of modules:
   situ_nn_to is in place. */
static void claim_001_10_tensors_are_copied_modules_are_moved(void **state) {
  (void)state;
  situ_nn_module *m = custom_linear(2, 2);
  situ_tensor *weight = situ_nn_get_tensor(m, "weight"), *copy = situ_to(situ_detach(weight), there());
  expect_on(weight, here());
  expect_on(copy, there());
  expect_ok(situ_nn_to(m, there()));
  assert_ptr_equal(situ_nn_get_tensor(m, "weight"), weight);
  expect_on(weight, there());
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(example_1),
    PAIR_TEST(example_2),
    PAIR_TEST(example_3),
    PAIR_TEST(example_4),
    PAIR_TEST(claim_001_1_tensors_made_in_forward_are_at_home),
    PAIR_TEST(claim_001_1_an_unstated_device_can_be_forbidden),
    PAIR_TEST(claim_001_2_a_tree_moves_whole),
    PAIR_TEST(claim_001_3_to_is_pure),
    PAIR_TEST(claim_001_4_an_unassigned_to_leaves_it_behind),
    PAIR_TEST(claim_001_5_a_mismatch_is_always_an_error),
    PAIR_TEST(claim_001_6_to_is_recursive),
    PAIR_TEST(claim_001_7_only_what_is_not_registered_stays),
    PAIR_TEST(claim_001_8_shared_submodules_move_once),
    PAIR_TEST(claim_001_9_old_handles_follow_their_module),
    PAIR_TEST(claim_001_ex1_no_device_is_chosen_for_you),
    PAIR_TEST(claim_001_ex3_results_are_where_the_operands_are),
    PAIR_TEST(claim_001_ex3_pieces_are_views),
    PAIR_TEST(claim_001_10_tensors_are_copied_modules_are_moved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
