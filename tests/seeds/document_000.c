/* Source document 000, "Why isn't a PyTorch layer transferring to the GPU using to()?": its three
   examples as they would be written here, and a test behind each of its claims.
   docs/pytorch-myths.md shows the examples and what they print.
   SPDX-License-Identifier: MIT */
/* test-devices: meta sim:0 sim:1 opencl:0 opencl:1 */
#include "support/pairs.h"

/* ---- example 1: the layer is made in forward, after the move ---- */

typedef struct late {
  situ_nn_module base;
  situ_nn_module *linear;
} late;

static situ_tensor *late_forward(situ_nn_module *self, situ_tensor *x) {
  late *m = (late *)self;
  if (!m->linear) situ_nn_child(m, linear, situ_nn_linear(10, 5, NULL));
  return situ_nn_forward(m->linear, x);
}
static const situ_nn_type late_type = { .name = "MyModule", .size = sizeof(late), .forward = late_forward };

static void example_1(void **state) {
  (void)state;
  situ_device device = there();
  situ_nn_module *model = situ_nn_done(situ_nn_alloc(&late_type));
  expect_ok(situ_nn_to(model, device));

  situ_tensor *input = situ_randn(SITU_SHAPE(1, 10), NULL);
  situ_tensor *output = situ_nn_forward(model, situ_to(input, device));

  printf("Model is on: %s\n", where(situ_nn_get_tensor(model, "linear.weight")));
  printf("Output is on: %s\n", where(output));
  /* end */
  expect_on(situ_nn_get_tensor(model, "linear.weight"), device);
  expect_on(situ_nn_get_tensor(model, "linear.bias"), device);
  expect_on(output, device);
  situ_nn_free(model);
}

/* ---- example 2: the layer is made by the constructor ---- */

typedef struct eager {
  situ_nn_module base;
  situ_nn_module *linear;
} eager;

static situ_tensor *eager_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_nn_forward(((eager *)self)->linear, x);
}
static const situ_nn_type eager_type = { .name = "MyModule", .size = sizeof(eager), .forward = eager_forward };

static situ_nn_module *eager_new(void) {
  eager *m = situ_nn_alloc(&eager_type);
  situ_nn_child(m, linear, situ_nn_linear(10, 5, NULL));
  return situ_nn_done(m);
}

static void example_2(void **state) {
  (void)state;
  situ_device device = there();
  situ_nn_module *model = eager_new();
  expect_ok(situ_nn_to(model, device));

  situ_tensor *input = situ_to(situ_randn(SITU_SHAPE(1, 10), NULL), device);
  situ_tensor *output = situ_nn_forward(model, input);

  printf("Model Parameter device is on: %s\n", where(situ_nn_get_tensor(model, "linear.weight")));
  printf("Output is on: %s\n", where(output));
  /* end */
  expect_on(situ_nn_get_tensor(model, "linear.weight"), device);
  expect_on(situ_nn_get_tensor(model, "linear.bias"), device);
  expect_on(output, device);
  situ_nn_free(model);
}

/* ---- example 3: a tensor that is a plain field ---- */

typedef struct holder {
  situ_nn_module base;
  situ_nn_module *linear;
  situ_tensor *some_tensor;
} holder;

static situ_tensor *holder_forward(situ_nn_module *self, situ_tensor *x) {
  holder *m = (holder *)self;
  return situ_add(situ_nn_forward(m->linear, x), m->some_tensor);
}
static const situ_nn_type holder_type = { .name = "MyModule", .size = sizeof(holder), .forward = holder_forward };

static situ_nn_module *holder_new(bool registered) {
  holder *m = situ_nn_alloc(&holder_type);
  situ_nn_child(m, linear, situ_nn_linear(10, 5, NULL));
  if (registered) situ_nn_buffer(m, some_tensor, situ_randn(SITU_SHAPE(5, 5), NULL));
  else if (m) m->some_tensor = situ_randn(SITU_SHAPE(5, 5), NULL);
  return situ_nn_done(m);
}

static void example_3(void **state) {
  (void)state;
  situ_device device = there();
  situ_nn_module *model = holder_new(false);
  expect_ok(situ_nn_to(model, device));

  holder *m = (holder *)model;
  m->some_tensor = situ_to(m->some_tensor, device);

  situ_tensor *input = situ_to(situ_randn(SITU_SHAPE(1, 10), NULL), device);
  situ_tensor *output = situ_nn_forward(model, input);

  printf("Model Parameter device is on: %s\n", where(situ_nn_get_tensor(model, "linear.weight")));
  printf("Model's some_tensor device: %s\n", where(m->some_tensor));
  printf("Output is on: %s\n", where(output));
  /* end */
  expect_on(m->some_tensor, device);
  expect_on(output, device);
  situ_nn_free(model);
}

/* ---- example 3, forgotten: the line that moves it by hand is left out ---- */

static void example_3_forgotten(void **state) {
  (void)state;
  situ_device device = there();
  situ_nn_module *model = holder_new(false);
  expect_ok(situ_nn_to(model, device));

  situ_tensor *input = situ_to(situ_randn(SITU_SHAPE(1, 10), NULL), device);
  situ_tensor *output = situ_nn_forward(model, input);

  if (!output) printf("%s\n", situ_error_message());
  /* end */
  expect_refused(output, SITU_E_DEVICE, "add", "other");
  situ_nn_free(model);
}

/* ---- example 3, mended: assignment is registration ---- */

static void example_3_mended(void **state) {
  (void)state;
  situ_device device = there();
  situ_nn_module *model = holder_new(true); /* situ_nn_buffer(m, some_tensor, ...) in the constructor */
  expect_ok(situ_nn_to(model, device));

  situ_tensor *input = situ_to(situ_randn(SITU_SHAPE(1, 10), NULL), device);
  situ_tensor *output = situ_nn_forward(model, input);

  printf("Model's some_tensor device: %s\n", where(((holder *)model)->some_tensor));
  printf("Output is on: %s\n", where(output));
  /* end */
  expect_on(((holder *)model)->some_tensor, device);
  expect_on(output, device);
  situ_tree *saved = situ_nn_state_dict(model);
  assert_non_null(situ_tree_get(saved, "some_tensor"));
  situ_tree_free(saved);
  if (has_values(device)) {
    expect_ok(situ_nn_to(model, here()));
    expect_on(((holder *)model)->some_tensor, here());
  }
  situ_nn_free(model);
}

/* ---- the claims ---- */

/* One module of every way to hold parts: children, a list, a dict, a Sequential, buffers of both
   sorts. */
typedef struct everything {
  situ_nn_module base;
  situ_nn_module *list, *dict, *chain, *norm;
  situ_tensor *scale, *offset, *cache;
} everything;
static const situ_nn_type everything_type = { .name = "Everything", .size = sizeof(everything) };

static situ_nn_module *everything_new(void) {
  everything *m = situ_nn_alloc(&everything_type);
  situ_nn_child(m, list, situ_nn_module_list(situ_nn_linear(2, 3, NULL), situ_nn_linear(3, 2, NULL)));
  situ_nn_child(
      m, dict,
      situ_nn_put(situ_nn_module_dict(), "deep", situ_nn_sequential(situ_nn_sequential(situ_nn_linear(2, 2, NULL)))));
  situ_nn_child(m, chain, situ_nn_sequential(situ_nn_conv1d(2, 2, 1, NULL), situ_nn_relu()));
  situ_nn_child(m, norm, situ_nn_batch_norm1d(4, NULL));
  situ_nn_param(m, scale, situ_ones(SITU_SHAPE(2), NULL));
  situ_nn_buffer(m, offset, situ_zeros(SITU_SHAPE(2), NULL));
  situ_nn_transient_buffer(m, cache, situ_zeros(SITU_SHAPE(2), NULL));
  return situ_nn_done(m);
}

static int tensors_on(situ_nn_module *m, situ_device device) {
  situ_tree *both[] = { situ_nn_parameters(m), situ_nn_buffers(m) };
  int count = 0;
  for (int k = 0; k < 2; k++) {
    for (int64_t i = 0; i < situ_tree_count(both[k]); i++) {
      situ_tensor *t = situ_tree_tensor_at(both[k], i);
      expect_on(t, device);
      if (situ_grad(t)) expect_on(situ_grad(t), device);
      count++;
    }
    situ_tree_free(both[k]);
  }
  return count;
}

/* "to() performs a shallow copy at layer level": it moves every parameter and every buffer, at any
   depth. */
/* placement: B1, B2 */
static void claim_000_1_to_is_not_shallow(void **state) {
  (void)state;
  situ_nn_module *m = everything_new();
  int all = tensors_on(m, here());
  assert_int_equal(all, 2 + 2 + 2 + 2 + 2 + 3 + 3);
  expect_ok(situ_nn_to(m, there()));
  assert_int_equal(tensors_on(m, there()), all);
  situ_nn_free(m);
}

/* "The layer object resides on the GPU": a module is on the host; where its tensors are is one
   device, several, or none. */
/* placement: B14 */
static void claim_000_2_a_module_has_no_device_its_tensors_have(void **state) {
  (void)state;
  situ_placement place;
  situ_nn_module *relu = situ_nn_relu(),
                 *net = situ_nn_sequential(situ_nn_linear(2, 2, NULL), situ_nn_linear(2, 2, NULL));
  expect_ok(situ_place_of(relu, &place));
  assert_int_equal(place.parameters + place.buffers, 0);
  assert_int_equal(place.device.kind, SITU_DEVICE_DEFAULT);
  expect_ok(situ_place_of(net, &place));
  assert_true(!place.mixed && situ_device_equal(place.device, here()));
  expect_ok(situ_nn_to(situ_nn_at(net, 1), there()));
  expect_ok(situ_place_of(net, &place));
  assert_true(place.mixed);
  situ_nn_free(relu);
  situ_nn_free(net);
}

/* "Weights might still reside on the CPU until they are interacted with": they are there when the
   call returns. */
static void claim_000_3_parameters_move_at_once(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  situ_tensor *weight = situ_nn_get_tensor(m, "weight");
  expect_on(weight, here());
  expect_ok(situ_nn_to(m, there()));
  expect_on(weight, there());
  situ_nn_free(m);
}

/* Only a lazy layer has nothing to move yet; it makes its parameters where it was sent. */
static void claim_000_3_lazy_parameters_are_made_at_home(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_lazy_linear(5, NULL);
  expect_ok(situ_nn_to(m, there()));
  situ_tensor *y = situ_nn_forward(m, situ_to(situ_ones(SITU_SHAPE(1, 10), NULL), there()));
  expect_on(y, there());
  expect_on(situ_nn_get_tensor(m, "weight"), there());
  situ_nn_free(m);
}

/* "A deep copy every time would be expensive": what is there already is not copied. */
static void claim_000_4_what_is_there_already_costs_nothing(void **state) {
  (void)state;
  situ_nn_module *m = everything_new();
  expect_ok(situ_nn_to(m, there()));
  int64_t bytes = situ_live_bytes();
  situ_ledger ledger;
  situ_ledger_begin_none(&ledger);
  expect_ok(situ_nn_to(m, there()));
  expect_ok(situ_ledger_end(&ledger));
  assert_int_equal(situ_live_bytes(), bytes);
  situ_nn_free(m);
}

/* And what a move would cost is known before: the plan counts it, and nothing moves. */
static void claim_000_4_the_plan_names_the_cost(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(10, 5, NULL);
  situ_place_plan plan;
  situ_nn_to_options wish = { .device = there() };
  char text[4096];
  assert_true(situ_place_plan_to_string(m, &wish, &plan, text, sizeof text) > 0);
  assert_int_equal(plan.storages, 2);
  assert_int_equal(plan.bytes, 4 * (10 * 5 + 5));
  assert_int_equal(plan.status, SITU_OK);
  assert_non_null(strstr(text, "weight"));
  expect_on(situ_nn_get_tensor(m, "weight"), here());
  expect_ok(situ_nn_to(m, there()));
  assert_true(situ_place_plan_to_string(m, &wish, &plan, text, sizeof text) > 0);
  assert_int_equal(plan.storages, 0);
  assert_int_equal(plan.bytes, 0);
  assert_int_equal(plan.stay, 2);
  situ_nn_free(m);
}

/* "Selectively transfer specific components": a part moves alone, and a call across the seam is
   refused. */
static void claim_000_5_a_part_moves_alone(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(2, 2, NULL), situ_nn_linear(2, 2, NULL));
  expect_ok(situ_nn_to(situ_nn_get_submodule(net, "1"), there()));
  expect_on(situ_nn_get_tensor(net, "0.weight"), here());
  expect_on(situ_nn_get_tensor(net, "1.weight"), there());
  expect_refused(situ_nn_forward(net, situ_ones(SITU_SHAPE(1, 2), NULL)), SITU_E_DEVICE, "linear", "1.weight");
  situ_nn_free(net);
}

static void claim_000_5_a_map_moves_each_part_to_its_place(void **state) {
  (void)state;
  situ_nn_module *net =
      situ_nn_sequential(situ_nn_linear(2, 2, NULL), situ_nn_linear(2, 2, NULL), situ_nn_linear(2, 2, NULL));
  char map[64];
  snprintf(map, sizeof map, "1=%s, *.bias=%s", name_of(there()), name_of(there()));
  expect_ok(situ_nn_to_map(net, map));
  expect_on(situ_nn_get_tensor(net, "0.weight"), here());
  expect_on(situ_nn_get_tensor(net, "1.weight"), there());
  expect_on(situ_nn_get_tensor(net, "2.weight"), here());
  expect_on(situ_nn_get_tensor(net, "2.bias"), there());
  assert_int_not_equal(situ_nn_to_map(net, "decoder=cpu"), SITU_OK);
  expect_error(SITU_E_ARG, "", "decoder");
  situ_nn_free(net);
}

/* "to() does not affect layers initialised after": true in PyTorch. Here a late child moves to
   where its parent is. */
static void claim_000_ex1b_a_late_child_is_at_home_in_forward(void **state) {
  (void)state;
  situ_nn_module *model = situ_nn_done(situ_nn_alloc(&late_type));
  expect_ok(situ_nn_to(model, there()));
  assert_true(situ_device_equal(situ_nn_home(model), there()));
  assert_non_null(situ_nn_forward(model, situ_to(situ_ones(SITU_SHAPE(1, 10), NULL), there())));
  expect_on(situ_nn_get_tensor(model, "linear.weight"), there());
  assert_true(situ_device_equal(situ_get_default_device(), here()));
  situ_nn_free(model);
}

/* The same outside of forward: what is added to a module that has been moved comes where it lives. A
   module on meta is no home for values, which would be lost: there the call across is refused. */
static void claim_000_ex1b_a_late_child_is_adopted(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(10, 5, NULL));
  expect_ok(situ_nn_to(net, there()));
  assert_non_null(situ_nn_append(net, situ_nn_linear(5, 2, NULL)));
  situ_tensor *x = situ_to(situ_ones(SITU_SHAPE(1, 10), NULL), there()), *y = situ_nn_forward(net, x);
  if (has_values(there())) {
    expect_on(situ_nn_get_tensor(net, "1.weight"), there());
    expect_on(situ_nn_get_tensor(net, "1.bias"), there());
    expect_on(y, there());
  } else {
    expect_refused(y, SITU_E_DEVICE, "linear", "1.weight");
  }
  situ_nn_free(net);
}

/* An input on the other device does not change where a late layer is made: it is refused. */
static void claim_000_ex1_the_input_does_not_decide_where_a_layer_lives(void **state) {
  (void)state;
  situ_nn_module *model = situ_nn_done(situ_nn_alloc(&late_type));
  expect_ok(situ_nn_to(model, there()));
  expect_refused(situ_nn_forward(model, situ_ones(SITU_SHAPE(1, 10), NULL)), SITU_E_DEVICE, "linear",
                 "odd one out: input");
  expect_on(situ_nn_get_tensor(model, "linear.weight"), there());
  situ_nn_free(model);
}

/* "A plain tensor is not moved": true, and what is not registered is not saved either. */
static void claim_000_ex3_a_plain_tensor_stays_behind(void **state) {
  (void)state;
  situ_nn_module *model = holder_new(false);
  expect_ok(situ_nn_to(model, there()));
  expect_on(((holder *)model)->some_tensor, here());
  situ_tree *saved = situ_nn_state_dict(model);
  assert_null(situ_tree_find(saved, "some_tensor"));
  situ_tree_free(saved);
  situ_nn_free(model);
}

/* "The operation would cause a device mismatch error": true, and here the error names both tensors'
   places. */
static void claim_000_ex3b_the_mismatch_is_explained(void **state) {
  (void)state;
  situ_nn_module *model = holder_new(false);
  expect_ok(situ_nn_to(model, there()));
  assert_null(situ_nn_forward(model, situ_to(situ_ones(SITU_SHAPE(1, 10), NULL), there())));
  const situ_error_operand *list;
  assert_int_equal(situ_error_operands(&list), 2);
  assert_string_equal(list[0].device, name_of(there()));
  assert_string_equal(list[1].device, name_of(here()));
  assert_string_equal(list[1].shape, "[5, 5]");
  assert_true(list[1].odd && !list[0].odd);
  expect_error(SITU_E_DEVICE, "add", "not registered");
  situ_nn_free(model);
}

/* "All tensors that are members of a class must be explicitly moved": registered ones go with the
   module, there and back. */
static void claim_000_6_registered_members_are_not_moved_by_hand(void **state) {
  (void)state;
  situ_nn_module *model = holder_new(true);
  situ_tensor *some = ((holder *)model)->some_tensor;
  for (int round = 0; round < 2 && has_values(there()); round++) {
    expect_ok(situ_nn_to(model, there()));
    expect_on(some, there());
    expect_ok(situ_nn_to(model, here()));
    expect_on(some, here());
  }
  expect_ok(situ_nn_to(model, there()));
  expect_on(some, there());
  situ_nn_free(model);
}

/* "Check .device of model.parameters()": that leaves out buffers and gradients, which have a device
   too. */
static void claim_000_7_buffers_and_gradients_are_looked_at_too(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_batch_norm1d(3, NULL);
  situ_tensor *loss = situ_sum(situ_nn_forward(m, situ_randn(SITU_SHAPE(4, 3), NULL)), NULL);
  expect_ok(situ_backward(loss, NULL));
  situ_placement place;
  expect_ok(situ_place_of(m, &place));
  assert_int_equal(place.parameters, 2);
  assert_int_equal(place.buffers, 3);
  expect_ok(situ_nn_to(m, there()));
  assert_int_equal(tensors_on(m, there()), 5);
  assert_non_null(situ_grad(situ_nn_get_tensor(m, "weight")));
  situ_nn_free(m);
}

/* "Use print statements to inspect devices": the preflight finds the mismatch without running the
   model, and says that there is no other. */
static void claim_000_8_the_preflight_finds_it_without_running(void **state) {
  (void)state;
  for (int mended = 0; mended < 2; mended++) {
    situ_nn_module *model = holder_new(mended);
    expect_ok(situ_nn_to(model, there()));
    situ_tree *inputs = SITU_TREE(situ_zeros(SITU_SHAPE(1, 10), &(situ_options){ .device = there() }));
    situ_place_check_options forward = { .backward = SITU_PLACE_BACKWARD_NEVER };
    situ_place_report report;
    expect_ok(situ_place_check(model, inputs, &forward, &report));
    assert_true(report.finished);
    assert_int_equal(report.mistakes, !mended);
    for (int64_t i = 0; i < report.finding_count && !mended; i++) {
      if (report.findings[i].note) continue;
      assert_int_equal(report.findings[i].problem, SITU_PLACE_DEVICE);
      assert_string_equal(report.findings[i].op, "add");
    }
    situ_place_report_free(&report);
    situ_tree_free(inputs);
    situ_nn_free(model);
  }
}

/* "Explicitly move parameters and tensors": better registered than moved. The lint names what was
   not, before anything fails. */
static void claim_000_9_the_lint_names_what_is_not_registered(void **state) {
  (void)state;
  situ_nn_module *model = holder_new(false), *mended = holder_new(true);
  assert_int_equal(situ_place_lint(model, NULL), SITU_E_STATE);
  assert_non_null(strstr(situ_error_message(), "situ_nn_buffer"));
  expect_error(SITU_E_STATE, "", "MyModule");
  expect_ok(situ_place_lint(mended, NULL));
  situ_nn_free(model);
  situ_nn_free(mended);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(example_1),
    PAIR_TEST(example_2),
    PAIR_TEST(example_3),
    PAIR_TEST(example_3_forgotten),
    PAIR_TEST(example_3_mended),
    PAIR_TEST(claim_000_1_to_is_not_shallow),
    PAIR_TEST(claim_000_2_a_module_has_no_device_its_tensors_have),
    PAIR_TEST(claim_000_3_parameters_move_at_once),
    PAIR_TEST(claim_000_3_lazy_parameters_are_made_at_home),
    PAIR_TEST(claim_000_4_what_is_there_already_costs_nothing),
    PAIR_TEST(claim_000_4_the_plan_names_the_cost),
    PAIR_TEST(claim_000_5_a_part_moves_alone),
    PAIR_TEST(claim_000_5_a_map_moves_each_part_to_its_place),
    PAIR_TEST(claim_000_ex1_the_input_does_not_decide_where_a_layer_lives),
    PAIR_TEST(claim_000_ex1b_a_late_child_is_at_home_in_forward),
    PAIR_TEST(claim_000_ex1b_a_late_child_is_adopted),
    PAIR_TEST(claim_000_ex3_a_plain_tensor_stays_behind),
    PAIR_TEST(claim_000_ex3b_the_mismatch_is_explained),
    PAIR_TEST(claim_000_6_registered_members_are_not_moved_by_hand),
    PAIR_TEST(claim_000_7_buffers_and_gradients_are_looked_at_too),
    PAIR_TEST(claim_000_8_the_preflight_finds_it_without_running),
    PAIR_TEST(claim_000_9_the_lint_names_what_is_not_registered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
