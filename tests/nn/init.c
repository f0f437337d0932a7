/* First values: torch's distributions (range, mean and spread of many draws), no recording,
   reproducible.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "support/modules.h"

/* Mean, standard deviation and largest magnitude. */
typedef struct shape_of_draws {
  double mean, std, largest;
} shape_of_draws;

static shape_of_draws look(situ_tensor *t) {
  int64_t count = situ_numel(t);
  double *x = malloc((size_t)count * sizeof *x), sum = 0, square = 0, largest = 0;
  test_read(t, x);
  for (int64_t i = 0; i < count; i++) {
    sum += x[i];
    square += x[i] * x[i];
    if (fabs(x[i]) > largest) largest = fabs(x[i]);
  }
  free(x);
  double mean = sum / (double)count;
  return (shape_of_draws){ mean, sqrt(square / (double)count - mean * mean), largest };
}

/* Uniform within +-bound. Of n draws the spread is off by less than 4 in sqrt(n) relative but once
   in 10,000 times; the seed is fixed. */
static void expect_uniform(situ_tensor *t, double bound) {
  shape_of_draws s = look(t);
  double slack = 4 / sqrt((double)situ_numel(t));
  assert_true(s.largest <= bound * (1 + 1e-6));
  assert_true(s.largest > bound * (1 - 5 * slack));
  assert_true(fabs(s.std / (bound / sqrt(3)) - 1) < slack);
  assert_true(fabs(s.mean) < slack * bound);
}
static void expect_normal(situ_tensor *t, double mean, double std) {
  shape_of_draws s = look(t);
  double slack = 4 / sqrt((double)situ_numel(t));
  assert_true(fabs(s.std / std - 1) < slack);
  assert_true(fabs(s.mean - mean) < slack * std);
  assert_true(s.largest > 2.5 * std);
}

static void layers_start_as_in_torch(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(400, 50, &(situ_nn_linear_options){ HERE });
  expect_uniform(situ_nn_get_tensor(m, "weight"), 1 / sqrt(400));
  expect_uniform(situ_nn_get_tensor(m, "bias"), 1 / sqrt(400));
  situ_nn_free(m);
  m = situ_nn_conv2d(16, 64, SITU_DIMS(3, 5), &(situ_nn_conv_options){ .groups = 2, HERE });
  expect_uniform(situ_nn_get_tensor(m, "weight"), 1 / sqrt(8 * 15));
  expect_uniform(situ_nn_get_tensor(m, "bias"), 1 / sqrt(8 * 15));
  situ_nn_free(m);
  m = situ_nn_conv_transpose2d(16, 64, SITU_DIMS(3), &(situ_nn_conv_options){ .groups = 2, HERE });
  expect_uniform(situ_nn_get_tensor(m, "weight"), 1 / sqrt(32 * 9)); /* torch takes size(1) for the fan here too */
  situ_nn_free(m);
  m = situ_nn_embedding(100, 100,
                        OPTIONS_AT(situ_nn_embedding, with.has_padding_idx = true, with.padding_idx = -1, with HERE));
  expect_normal(situ_nn_get_tensor(m, "weight"), 0, 1);
  assert_true(look(situ_select(situ_nn_get_tensor(m, "weight"), 0, 99)).largest == 0);
  assert_true(look(situ_select(situ_nn_get_tensor(m, "weight"), 0, 98)).largest > 0);
  situ_nn_free(m);
  m = situ_nn_multihead_attention(64, 4, &(situ_nn_multihead_attention_options){ HERE });
  expect_uniform(situ_nn_get_tensor(m, "in_proj_weight"), sqrt(6.0 / (64 + 192)));
  expect_uniform(situ_nn_get_tensor(m, "out_proj.weight"), 1 / sqrt(64));
  assert_true(look(situ_nn_get_tensor(m, "in_proj_bias")).largest == 0);
  assert_true(look(situ_nn_get_tensor(m, "out_proj.bias")).largest == 0);
  situ_nn_free(m);
  m = situ_nn_batch_norm1d(4, OPTIONS_AT(situ_nn_batch_norm, with HERE));
  expect_exact(situ_nn_get_tensor(m, "weight"), SITU_SHAPE(4), 1, 1, 1, 1);
  expect_exact(situ_nn_get_tensor(m, "bias"), SITU_SHAPE(4), 0, 0, 0, 0);
  expect_exact(situ_nn_get_tensor(m, "running_mean"), SITU_SHAPE(4), 0, 0, 0, 0);
  expect_exact(situ_nn_get_tensor(m, "running_var"), SITU_SHAPE(4), 1, 1, 1, 1);
  expect_exact(situ_nn_get_tensor(m, "num_batches_tracked"), SITU_SCALAR, 0);
  situ_nn_free(m);
}

static void functions_follow_their_formulas(void **state) {
  (void)state;
  situ_options where = { HERE };
  situ_tensor *t = situ_requires_grad_(situ_empty(SITU_SHAPE(60, 40, 5), &where), true);
  double in = 40 * 5, out = 60 * 5;
  expect_uniform(situ_nn_init_xavier_uniform_(t, 1, NULL), sqrt(6 / (in + out)));
  expect_same(situ_nn_init_xavier_uniform_(t, 0, NULL), situ_zeros_like(t, NULL), 0, 0);
  expect_same(situ_nn_init_xavier_normal_(t, 0, NULL), situ_zeros_like(t, NULL), 0, 0);
  expect_uniform(situ_nn_init_xavier_uniform_(t, 2, NULL), 2 * sqrt(6 / (in + out)));
  expect_normal(situ_nn_init_xavier_normal_(t, 1, NULL), 0, sqrt(2 / (in + out)));
  expect_uniform(situ_nn_init_kaiming_uniform_(t, NULL, NULL), sqrt(6 / in));
  expect_uniform(situ_nn_init_kaiming_uniform_(t, &(situ_nn_kaiming_options){ .a = 1, .fan_out = true }, NULL),
                 sqrt(3 / out));
  expect_normal(situ_nn_init_kaiming_normal_(t, &(situ_nn_kaiming_options){ .nonlinearity = SITU_NN_TANH }, NULL), 0,
                5.0 / 3 / sqrt(in));
  expect_normal(situ_nn_init_normal_(t, 3, 0.5, NULL), 3, 0.5);
  expect_uniform(situ_sub_scalar(situ_nn_init_uniform_(t, 1, 5, NULL), 3), 2);
  /* None of it is recorded: t is still a leaf that can be trained. */
  assert_true(situ_is_leaf(t) && situ_requires_grad(t));
  expect_exact(situ_nn_init_constant_(situ_empty(SITU_SHAPE(2), &where), 7), SITU_SHAPE(2), 7, 7);
  expect_exact(situ_nn_init_eye_(situ_empty(SITU_SHAPE(2, 3), &where)), SITU_SHAPE(2, 3), 1, 0, 0, 0, 1, 0);
}

static void gains_are_torchs(void **state) {
  (void)state;
  assert_true(situ_nn_init_calculate_gain(SITU_NN_RELU, 0) == sqrt(2));
  assert_true(situ_nn_init_calculate_gain(SITU_NN_LEAKY_RELU, 0.01) == sqrt(2 / (1 + 0.01 * 0.01)));
  assert_true(situ_nn_init_calculate_gain(SITU_NN_SELU, 0) == 0.75);
  assert_true(situ_nn_init_calculate_gain(SITU_NN_SIGMOID, 0) == 1);
  assert_true(isnan(situ_nn_init_calculate_gain((situ_nn_nonlinearity)99, 0)));
  expect_error(SITU_E_ARG, "nn_init_calculate_gain", "99");
}

static void one_seed_gives_one_network(void **state) {
  (void)state;
  situ_manual_seed(7);
  situ_nn_module *here = situ_nn_linear(8, 8, &(situ_nn_linear_options){ HERE });
  situ_manual_seed(7);
  situ_nn_module *cpu = situ_nn_linear(8, 8, &(situ_nn_linear_options){ .device = { .kind = SITU_CPU } });
  situ_tensor *weight = situ_to(situ_nn_get_tensor(here, "weight"), (situ_device){ .kind = SITU_CPU });
  expect_same(weight, situ_nn_get_tensor(cpu, "weight"), 0, 0);
  situ_nn_free(here);
  situ_nn_free(cpu);
  situ_generator mine = situ_generator_seeded(3), again = mine;
  situ_options where = { HERE };
  situ_tensor *a = situ_nn_init_normal_(situ_empty(SITU_SHAPE(5), &where), 0, 1, &mine);
  expect_same(a, situ_nn_init_normal_(situ_empty(SITU_SHAPE(5), &where), 0, 1, &again), 0, 0);
}

static void what_has_no_fan_is_refused(void **state) {
  (void)state;
  situ_options where = { HERE };
  expect_refused(situ_nn_init_xavier_uniform_(situ_empty(SITU_SHAPE(3), &where), 1, NULL), SITU_E_SHAPE,
                 "nn_init_xavier_uniform_", "[3] has fewer than 2");
  expect_refused(situ_nn_init_kaiming_normal_(NULL, NULL, NULL), SITU_E_ARG, "nn_init_kaiming_normal_", "input");
  expect_refused(situ_nn_init_eye_(situ_empty(SITU_SHAPE(3), &where)), SITU_E_SHAPE, "nn_init_eye_", "matrix");
  /* An empty weight has nothing to fill. */
  assert_non_null(situ_nn_init_kaiming_uniform_(situ_empty(SITU_SHAPE(3, 0), &where), NULL, NULL));
  situ_nn_module *m = situ_nn_linear(0, 2, &(situ_nn_linear_options){ HERE });
  expect_exact(situ_nn_get_tensor(m, "bias"), SITU_SHAPE(2), 0, 0);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(layers_start_as_in_torch),   MODULE_TEST(functions_follow_their_formulas),
    MODULE_TEST(gains_are_torchs),           MODULE_TEST(one_seed_gives_one_network),
    MODULE_TEST(what_has_no_fan_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
