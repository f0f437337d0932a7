/* Source document 002, "How can I ensure tensors are on the same CUDA device when using a custom
   PyTorch module?": its three examples as they would be written here, and a test behind each of its
   claims. docs/pytorch-myths.md shows what they print.
   SPDX-License-Identifier: MIT */
/* test-devices: meta sim:0 sim:1 opencl:0 opencl:1 */
#include "support/pairs.h"

/* ---- example 1: two layers ---- */

typedef struct mlp {
  situ_nn_module base;
  situ_nn_module *fc1, *fc2;
} mlp;

static situ_tensor *mlp_forward(situ_nn_module *self, situ_tensor *x) {
  mlp *m = (mlp *)self;
  return situ_nn_forward(m->fc2, situ_relu(situ_nn_forward(m->fc1, x)));
}
static const situ_nn_type mlp_type = { .name = "MyCustomModule", .size = sizeof(mlp), .forward = mlp_forward };

static situ_nn_module *mlp_new(const situ_nn_type *type, int64_t input_size, int64_t hidden_size) {
  mlp *m = situ_nn_alloc(type);
  situ_nn_child(m, fc1, situ_nn_linear(input_size, hidden_size, NULL));
  situ_nn_child(m, fc2, situ_nn_linear(hidden_size, input_size, NULL));
  return situ_nn_done(m);
}

static void example_1(void **state) {
  (void)state;
  situ_device device = there();
  situ_tensor *input = situ_to(situ_randn(SITU_SHAPE(10, 5), NULL), device);
  situ_nn_module *model = mlp_new(&mlp_type, 5, 10);
  expect_ok(situ_nn_to(model, device));
  situ_tensor *output = situ_nn_forward(model, input);
  printf("Output device: %s\n", where(output));
  /* end */
  expect_on(output, device);
  situ_nn_free(model);
}

/* ---- example 2: a tensor that is made in forward ---- */

static situ_tensor *noisy_forward(situ_nn_module *self, situ_tensor *x) {
  mlp *m = (mlp *)self;
  x = situ_relu(situ_nn_forward(m->fc1, x));
  situ_tensor *intermediate = situ_randn_like(x, NULL); /* the document: torch.randn(x.shape).to(device) */
  return situ_nn_forward(m->fc2, situ_add(x, intermediate));
}
static const situ_nn_type noisy_type = { .name = "MyCustomModule", .size = sizeof(mlp), .forward = noisy_forward };

static void example_2(void **state) {
  (void)state;
  situ_device device = there();
  situ_tensor *input = situ_to(situ_randn(SITU_SHAPE(10, 5), NULL), device);
  situ_nn_module *model = mlp_new(&noisy_type, 5, 10);
  expect_ok(situ_nn_to(model, device));
  situ_tensor *output = situ_nn_forward(model, input);
  printf("Output device: %s\n", where(output));
  /* end */
  expect_on(output, device);
  situ_nn_free(model);
}

/* ---- example 3: a parameter that forward moves "to be sure" ---- */

typedef struct weighted {
  situ_nn_module base;
  situ_nn_module *fc1, *fc2;
  situ_tensor *weight;
} weighted;

static situ_tensor *weighted_forward(situ_nn_module *self, situ_tensor *x) {
  weighted *m = (weighted *)self;
  situ_device device = situ_device_of(x);
  x = situ_relu(situ_nn_forward(m->fc1, x));
  situ_tensor *weighted_x = situ_matmul(x, situ_to(m->weight, device));
  return situ_nn_forward(m->fc2, situ_add(x, weighted_x));
}
static const situ_nn_type weighted_type = { .name = "MyCustomModule",
                                            .size = sizeof(weighted),
                                            .forward = weighted_forward };

static situ_nn_module *weighted_new(int64_t input_size, int64_t hidden_size) {
  weighted *m = situ_nn_alloc(&weighted_type);
  situ_nn_child(m, fc1, situ_nn_linear(input_size, hidden_size, NULL));
  situ_nn_param(m, weight, situ_randn(SITU_SHAPE(hidden_size, input_size), NULL));
  situ_nn_child(m, fc2, situ_nn_linear(hidden_size, input_size, NULL));
  return situ_nn_done(m);
}

static void example_3(void **state) {
  (void)state;
  situ_device device = there();
  situ_tensor *input = situ_to(situ_randn(SITU_SHAPE(10, 5), NULL), device);
  situ_nn_module *model = weighted_new(5, 10);
  expect_ok(situ_nn_to(model, device));
  situ_tensor *output = situ_nn_forward(model, input);
  if (!output) printf("%s\n", situ_error_message());
  /* end */
  expect_refused(output, SITU_E_SHAPE, "add", "[10, 10]");
  situ_nn_free(model);
}

/* ---- example 3, with sizes that fit ---- */

static void example_3_mended(void **state) {
  (void)state;
  situ_device device = there();
  situ_tensor *input = situ_to(situ_randn(SITU_SHAPE(10, 5), NULL), device);
  situ_nn_module *model = weighted_new(5, 5);
  expect_ok(situ_nn_to(model, device));
  situ_tensor *output = situ_nn_forward(model, input);
  printf("Output device: %s\n", where(output));
  /* end */
  expect_on(output, device);
  situ_nn_free(model);
}

/* ---- the claims ---- */

/* "PyTorch does not manage the device of tensors that you create": true there. Here a factory in
   forward works at home. */
static situ_tensor *host_noise_forward(situ_nn_module *self, situ_tensor *x) {
  mlp *m = (mlp *)self;
  x = situ_nn_forward(m->fc1, x);
  return situ_nn_forward(m->fc2, situ_add(x, situ_randn(situ_shape_of(x), NULL)));
}
static const situ_nn_type host_noise_type = { .name = "MyCustomModule",
                                              .size = sizeof(mlp),
                                              .forward = host_noise_forward };

static void claim_002_1_a_factory_in_forward_works_at_home(void **state) {
  (void)state;
  situ_nn_module *model = mlp_new(&host_noise_type, 5, 10);
  expect_ok(situ_nn_to(model, there()));
  expect_on(situ_nn_forward(model, situ_to(situ_ones(SITU_SHAPE(10, 5), NULL), there())), there());
  assert_true(situ_device_equal(situ_get_default_device(), here()));
  situ_nn_free(model);
}

/* "All tensors of an op must be on the same device": in PyTorch with exceptions; here with none,
   and a host scalar is a double. */
/* placement: A12 */
static void claim_002_2_there_are_no_exceptions(void **state) {
  (void)state;
  situ_options far = { .device = there() };
  situ_tensor *x = situ_ones(SITU_SHAPE(3), &far), *scalar = situ_scalar_tensor(2, NULL);
  expect_refused(situ_mul(x, scalar), SITU_E_DEVICE, "mul", "");
  expect_refused(situ_mul(scalar, x), SITU_E_DEVICE, "mul", "");
  expect_on(situ_mul_scalar(x, 2), there());
  situ_tensor *near = situ_ones(SITU_SHAPE(3), NULL);
  situ_tensor *near_index = situ_zeros(SITU_SHAPE(1), &(situ_options){ .dtype = SITU_I64 }),
              *far_index = situ_to(near_index, there());
  expect_refused(situ_index_select(x, 0, near_index), SITU_E_DEVICE, "index_select", "index");
  expect_refused(situ_index_select(near, 0, far_index), SITU_E_DEVICE, "index_select", "index");
  expect_on(situ_index_select(x, 0, far_index), there());
}

/* "Propagate the input's device": the weights say where a module computes; a wrong input is a
   mistake, not a wish. */
static void claim_002_3_weights_decide_where_a_module_computes(void **state) {
  (void)state;
  situ_nn_module *model = mlp_new(&mlp_type, 5, 10);
  expect_ok(situ_nn_to(model, there()));
  assert_true(situ_device_equal(situ_nn_home(model), there()));
  expect_refused(situ_nn_forward(model, situ_ones(SITU_SHAPE(10, 5), NULL)), SITU_E_DEVICE, "linear",
                 "odd one out: input");
  situ_nn_free(model);
}

/* "Linear and ReLU automatically maintain the device of their input": Linear wants it where its
   weights are. */
static void claim_002_ex1_linear_does_not_adapt_to_its_input(void **state) {
  (void)state;
  situ_nn_module *fc = situ_nn_linear(5, 5, NULL), *relu = situ_nn_relu();
  situ_tensor *x = situ_ones(SITU_SHAPE(1, 5), &(situ_options){ .device = there() });
  expect_refused(situ_nn_forward(fc, x), SITU_E_DEVICE, "linear", "weight");
  expect_on(situ_nn_forward(relu, x), there());
  situ_nn_free(fc);
  situ_nn_free(relu);
}

/* "torch.randn(x.shape).to(device)": a copy from the host at every step. situ_randn_like makes
   none. */
/* placement: A13 */
static void claim_002_ex2_like_makes_no_copy(void **state) {
  (void)state;
  situ_nn_module *model = mlp_new(&noisy_type, 5, 10);
  expect_ok(situ_nn_to(model, there()));
  situ_tensor *x = situ_to(situ_ones(SITU_SHAPE(10, 5), NULL), there());
  situ_ledger ledger;
  situ_ledger_begin_none(&ledger);
  for (int step = 0; step < 3; step++) expect_on(situ_nn_forward(model, x), there());
  expect_ok(situ_ledger_end(&ledger));
  situ_nn_free(model);
}

/* The same bits wherever they are drawn: like on the device or on the host and then copied. */
static void claim_002_ex2_random_numbers_do_not_depend_on_the_device(void **state) {
  (void)state;
  if (!has_values(there())) return;
  situ_tensor *x = situ_zeros(SITU_SHAPE(10, 10), &(situ_options){ .device = there() });
  situ_manual_seed(7);
  situ_tensor *like = situ_randn_like(x, NULL);
  situ_manual_seed(7);
  expect_same(like, situ_to(situ_randn(SITU_SHAPE(10, 10), NULL), there()), 0, 0);
}

/* The example's own mistake: both shapes are named, on any device. */
static void claim_002_ex3_the_shape_mistake_is_found(void **state) {
  (void)state;
  for (int far = 0; far < 2; far++) {
    situ_nn_module *model = weighted_new(5, 10);
    situ_device device = far ? there() : here();
    expect_ok(situ_nn_to(model, device));
    assert_null(situ_nn_forward(model, situ_to(situ_ones(SITU_SHAPE(10, 5), NULL), device)));
    assert_non_null(strstr(situ_error_message(), "[10, 10]"));
    expect_error(SITU_E_SHAPE, "add", "[10, 5]");
    situ_nn_free(model);
  }
}

/* And before it is run, with the operands of the call. */
static void claim_002_ex3_the_preflight_finds_it_too(void **state) {
  (void)state;
  situ_nn_module *model = weighted_new(5, 10);
  expect_ok(situ_nn_to(model, there()));
  situ_tree *inputs = SITU_TREE(situ_zeros(SITU_SHAPE(10, 5), &(situ_options){ .device = there() }));
  situ_place_check_options forward = { .backward = SITU_PLACE_BACKWARD_NEVER };
  situ_place_report report;
  expect_ok(situ_place_check(model, inputs, &forward, &report));
  assert_true(report.mistakes >= 1);
  bool found = false;
  for (int64_t i = 0; i < report.finding_count; i++)
    found |= report.findings[i].problem == SITU_PLACE_SHAPE && !strcmp(report.findings[i].op, "add");
  assert_true(found);
  situ_place_report_free(&report);
  situ_tree_free(inputs);
  situ_nn_free(model);
}

/* "self.weight.to(device) in forward is best practice": where the parameter is in its place it does
   nothing, where it is not it hides that by a copy at every step. The ledger names the parameter
   and the line. */
static void claim_002_ex3b_to_in_forward_hides_a_misplaced_parameter(void **state) {
  (void)state;
  situ_nn_module *model = weighted_new(5, 5);
  expect_ok(situ_nn_to(model, there()));
  situ_tensor *x = situ_ones(SITU_SHAPE(10, 5), &(situ_options){ .device = there() });
  situ_ledger ledger;
  situ_ledger_begin_none(&ledger);
  for (int step = 0; step < 8; step++) expect_on(situ_nn_forward(model, x), there());
  expect_ok(situ_ledger_end(&ledger));
  if (has_values(there())) {
    expect_ok(situ_to_(((weighted *)model)->weight, here()));
    situ_ledger_begin(&ledger);
    for (int step = 0; step < 8; step++) expect_on(situ_nn_forward(model, x), there());
    situ_ledger_repeat repeat;
    assert_int_equal(situ_ledger_repeats(&ledger, 0, &repeat, 1), 1);
    assert_int_equal(repeat.sum.count, 8);
    assert_int_equal(repeat.sum.bytes, 8 * 25 * 4);
    assert_string_equal(repeat.last.tensor, "weight");
    assert_string_equal(repeat.last.role, "parameter");
    expect_ok(situ_ledger_end(&ledger));
  }
  situ_nn_free(model);
}

/* "If .to(device) is omitted it will be using the default CPU value": false, registered parameters
   have moved already. */
static void claim_002_ex3c_without_to_the_parameter_is_there_too(void **state) {
  (void)state;
  situ_nn_module *model = weighted_new(5, 5);
  situ_tensor *weight = ((weighted *)model)->weight;
  expect_ok(situ_nn_to(model, there()));
  expect_on(weight, there());
  assert_ptr_equal(situ_to(weight, there()), weight);
  situ_nn_free(model);
}

/* "Parameters are inherently on the device of their module": they are made on the default device;
   every layer takes another. */
/* placement: B16 */
static void claim_002_ex3d_every_layer_can_be_made_elsewhere(void **state) {
  (void)state;
  situ_nn_module *near = situ_nn_linear(2, 2, NULL), *far[] = {
    situ_nn_linear(2, 2, &(situ_nn_linear_options){ .device = there() }),
    situ_nn_embedding(4, 2, OPTIONS_AT(situ_nn_embedding, with.device = there())),
    situ_nn_conv2d(2, 2, SITU_DIMS(1), &(situ_nn_conv_options){ .device = there() }),
    situ_nn_conv_transpose2d(2, 2, SITU_DIMS(1), &(situ_nn_conv_options){ .device = there() }),
    situ_nn_batch_norm1d(2, OPTIONS_AT(situ_nn_batch_norm, with.device = there())),
    situ_nn_layer_norm(SITU_SHAPE(2), OPTIONS_AT(situ_nn_norm, with.device = there())),
    situ_nn_group_norm(1, 2, OPTIONS_AT(situ_nn_norm, with.device = there())),
    situ_nn_multihead_attention(4, 2, &(situ_nn_multihead_attention_options){ .device = there() }),
    situ_nn_transformer_encoder_layer(4, 2, OPTIONS_AT(situ_nn_transformer, with.device = there())),
  };
  expect_on(situ_nn_get_tensor(near, "weight"), here());
  situ_nn_free(near);
  for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
    situ_placement place;
    expect_ok(situ_place_of(far[i], &place));
    assert_true(place.parameters > 0 && !place.mixed && situ_device_equal(place.device, there()));
    situ_nn_free(far[i]);
  }
}

/* "Move everything explicitly": what is registered needs one call, and inputs one each. */
/* placement: B1 */
static void claim_002_4_one_call_moves_all_that_is_registered(void **state) {
  (void)state;
  situ_nn_module *model = weighted_new(5, 5);
  situ_placement place;
  expect_ok(situ_nn_to(model, there()));
  expect_ok(situ_place_of(model, &place));
  assert_int_equal(place.parameters, 5);
  assert_true(!place.mixed && situ_device_equal(place.device, there()));
  situ_nn_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(example_1),
    PAIR_TEST(example_2),
    PAIR_TEST(example_3),
    PAIR_TEST(example_3_mended),
    PAIR_TEST(claim_002_1_a_factory_in_forward_works_at_home),
    PAIR_TEST(claim_002_2_there_are_no_exceptions),
    PAIR_TEST(claim_002_3_weights_decide_where_a_module_computes),
    PAIR_TEST(claim_002_ex1_linear_does_not_adapt_to_its_input),
    PAIR_TEST(claim_002_ex2_like_makes_no_copy),
    PAIR_TEST(claim_002_ex2_random_numbers_do_not_depend_on_the_device),
    PAIR_TEST(claim_002_ex3_the_shape_mistake_is_found),
    PAIR_TEST(claim_002_ex3_the_preflight_finds_it_too),
    PAIR_TEST(claim_002_ex3b_to_in_forward_hides_a_misplaced_parameter),
    PAIR_TEST(claim_002_ex3c_without_to_the_parameter_is_there_too),
    PAIR_TEST(claim_002_ex3d_every_layer_can_be_made_elsewhere),
    PAIR_TEST(claim_002_4_one_call_moves_all_that_is_registered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
