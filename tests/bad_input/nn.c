/* Bad inputs, rows 37 to 54: the operations of networks. (Rows 43, 44, 50, 52, 54 and the fractional pool of 42 are not
   offered. Rows 47 and 48: no backward can be called directly; what stands for grad_output is in autograd.c.)
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

#include "support/late.h"

#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })
#define Z(...) situ_zeros(SITU_SHAPE(__VA_ARGS__), HERE(0))

static void rows_37_and_38_conv_options(void **state) {
  (void)state;
  situ_tensor *x = Z(1, 4, 5, 5), *w = Z(2, 4, 3, 3), *t = Z(4, 2, 3, 3), *line = Z(1, 4, 5), *filter = Z(2, 4, 3);
#define EVERY(code, part, ...)                                                             \
  do {                                                                                     \
    const situ_conv_options o = { __VA_ARGS__ };                                           \
    expect_refused(situ_conv2d(x, w, NULL, &o), code, "conv2d", part);                     \
    expect_refused(situ_conv1d(line, filter, NULL, &o), code, "conv1d", part);             \
    expect_refused(situ_conv_transpose2d(x, t, NULL, &o), code, "conv_transpose2d", part); \
  } while (0)
  EVERY(SITU_E_ARG, "stride is 0, must be at least 1", .stride = SITU_DIMS(0));
  EVERY(SITU_E_ARG, "stride is -2", .stride = SITU_DIMS(-2));
  EVERY(SITU_E_ARG, "stride has 3 values", .stride = SITU_DIMS(1, 1, 1));
  EVERY(SITU_E_ARG, "dilation is 0, must be at least 1", .dilation = SITU_DIMS(0));
  EVERY(SITU_E_ARG, "dilation is -9223372036854775808", .dilation = SITU_DIMS(INT64_MIN));
  EVERY(SITU_E_ARG, "padding is -1, must be at least 0", .padding = SITU_DIMS(-1));
  EVERY(SITU_E_ARG, "groups is -1, must be positive", .groups = -1);
  EVERY(SITU_E_ARG, "groups is 3, must divide the input's 4 channels", .groups = 3);
  EVERY(SITU_E_ARG, "groups is 8", .groups = 8);
  EVERY(SITU_E_ARG, "groups is 9223372036854775807", .groups = INT64_MAX);
  expect_refused(situ_conv2d(x, w, NULL, &(situ_conv_options){ .groups = 2 }), SITU_E_SHAPE, "conv2d",
                 "input has 4 channels, the weight is for 8");
  expect_refused(situ_conv2d(x, Z(2, 3, 3, 3), NULL, NULL), SITU_E_SHAPE, "conv2d",
                 "input has 4 channels, the weight is for 3");
  expect_refused(situ_conv2d(x, w, Z(3), NULL), SITU_E_SHAPE, "conv2d", "bias is [3]");
  expect_refused(situ_conv2d(Z(5, 5), w, NULL, NULL), SITU_E_SHAPE, "conv2d", "input is [5, 5]");
  expect_refused(situ_conv_transpose2d(x, t, NULL, &(situ_conv_options){ .output_padding = SITU_DIMS(1) }), SITU_E_ARG,
                 "conv_transpose2d", "output_padding is 1");
}

static void rows_39_and_40_conv_sizes(void **state) {
  (void)state;
  situ_tensor *x = Z(1, 4, 5, 5), *w = Z(2, 4, 3, 3);
  expect_refused(situ_conv2d(x, Z(2, 4, 0, 3), NULL, NULL), SITU_E_SHAPE, "conv2d", "weight is [2, 4, 0, 3]");
  expect_refused(situ_conv1d(Z(1, 4, 5), Z(2, 4, 0), NULL, NULL), SITU_E_SHAPE, "conv1d", "weight is [2, 4, 0]");
  expect_refused(situ_conv_transpose2d(x, Z(4, 2, 3, 0), NULL, NULL), SITU_E_SHAPE, "conv_transpose2d", "weight is");
  expect_refused(situ_conv2d(x, Z(2, 4, 6, 6), NULL, NULL), SITU_E_SHAPE, "conv2d",
                 "the kernel covers 6 elements, the padded input has 5");
  expect_refused(situ_conv2d(x, w, NULL, &(situ_conv_options){ .dilation = SITU_DIMS(3) }), SITU_E_SHAPE, "conv2d",
                 "covers 7 elements");
  expect_refused(situ_conv2d(x, w, NULL, &(situ_conv_options){ .dilation = SITU_DIMS(INT64_MAX) }), SITU_E_OVERFLOW,
                 "conv2d", "63 bits");
  expect_refused(situ_conv2d(x, w, NULL, &(situ_conv_options){ .padding = SITU_DIMS(INT64_MAX / 2 + 1) }),
                 SITU_E_OVERFLOW, "conv2d", "63 bits");
  expect_refused(
      situ_conv_transpose2d(x, Z(4, 2, 3, 3), NULL, &(situ_conv_options){ .stride = SITU_DIMS(INT64_MAX / 2) }),
      SITU_E_OVERFLOW, "conv_transpose2d", "63 bits");
  expect_refused(situ_conv_transpose2d(x, Z(4, 2, 3, 3), NULL, &(situ_conv_options){ .padding = SITU_DIMS(5) }),
                 SITU_E_SHAPE, "conv_transpose2d", "would have size");
}

static void rows_41_and_42_pools(void **state) {
  (void)state;
  situ_tensor *x = Z(1, 1, 4, 4), *where = x;
#define POOLS(code, part, ...)                                                \
  do {                                                                        \
    const situ_pool_options o = { __VA_ARGS__ };                              \
    expect_refused(situ_max_pool2d(x, &o, &where), code, "max_pool2d", part); \
    assert_null(where);                                                       \
    expect_refused(situ_avg_pool2d(x, &o), code, "avg_pool2d", part);         \
  } while (0)
  POOLS(SITU_E_ARG, "kernel", .ceil_mode = true);
  POOLS(SITU_E_ARG, "kernel is 0, must be at least 1", .kernel = SITU_DIMS(0));
  POOLS(SITU_E_ARG, "kernel is -1", .kernel = SITU_DIMS(2, -1));
  POOLS(SITU_E_ARG, "stride is 0, must be at least 1", .kernel = SITU_DIMS(2), .stride = SITU_DIMS(0));
  POOLS(SITU_E_ARG, "padding is 2, must be at most half of the kernel, 3", .kernel = SITU_DIMS(3),
        .padding = SITU_DIMS(2));
  POOLS(SITU_E_ARG, "padding is -1", .kernel = SITU_DIMS(3), .padding = SITU_DIMS(-1));
  POOLS(SITU_E_SHAPE, "covers 5 elements, the padded input has 4", .kernel = SITU_DIMS(5));
  expect_refused(situ_max_pool2d(x, NULL, NULL), SITU_E_ARG, "max_pool2d", "kernel");
  expect_refused(situ_max_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(2), .dilation = SITU_DIMS(0) }, NULL),
                 SITU_E_ARG, "max_pool2d", "dilation is 0");
  expect_refused(
      situ_max_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(INT64_MAX), .dilation = SITU_DIMS(2) }, NULL),
      SITU_E_OVERFLOW, "max_pool2d", "63 bits");
  expect_refused(situ_max_pool2d(Z(4), &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL), SITU_E_SHAPE,
                 "max_pool2d", "input is [4]");
  assert_int_equal(situ_numel(situ_adaptive_avg_pool2d(x, SITU_DIMS(0))), 0); /* as in torch */
  expect_refused(situ_adaptive_avg_pool2d(x, SITU_DIMS(2, -2)), SITU_E_ARG, "adaptive_avg_pool2d", "output_size is -2");
  expect_refused(situ_adaptive_avg_pool2d(x, (situ_shape){ 0 }), SITU_E_ARG, "adaptive_avg_pool2d", "0 values");
  expect_refused(situ_adaptive_avg_pool2d(x, SITU_DIMS(9132760301568586890, 9132760301568586890)), SITU_E_OVERFLOW,
                 "adaptive_avg_pool2d", "2^63");
}

static void rows_45_and_46_norms(void **state) {
  (void)state;
  situ_tensor *x = test_random(SITU_SHAPE(2, 4, 3), -1, 1, false), *four = T64(SITU_SHAPE(4), 1, 1, 1, 1),
              *two = T64(SITU_SHAPE(2), 1, 1), *three = T64(SITU_SHAPE(3), 1, 1, 1);
  const situ_batch_norm_options train = OPTIONS_OF(situ_batch_norm, with.training = true);
  expect_refused(situ_batch_norm(x, two, four, NULL, NULL, &train), SITU_E_SHAPE, "batch_norm",
                 "running_mean is [2], input has 4 channels");
  expect_refused(situ_batch_norm(x, four, two, NULL, NULL, &train), SITU_E_SHAPE, "batch_norm", "running_var is [2]");
  expect_refused(situ_batch_norm(x, four, four, two, NULL, NULL), SITU_E_SHAPE, "batch_norm", "weight is [2]");
  expect_refused(situ_batch_norm(x, four, four, four, two, NULL), SITU_E_SHAPE, "batch_norm", "bias is [2]");
  expect_refused(situ_batch_norm(x, NULL, NULL, NULL, NULL, NULL), SITU_E_ARG, "batch_norm",
                 "needed when not training");
  expect_refused(situ_batch_norm(x, four, NULL, NULL, NULL, &train), SITU_E_ARG, "batch_norm", "come together");
  expect_refused(situ_batch_norm(four, four, four, NULL, NULL, NULL), SITU_E_SHAPE, "batch_norm",
                 "input has 1 dimensions");
  expect_refused(situ_batch_norm(T64(SITU_SHAPE(1, 4), 1, 2, 3, 4), four, four, NULL, NULL, &train), SITU_E_ARG,
                 "batch_norm", "no variance");
  expect_exact(four, SITU_SHAPE(4), 1, 1, 1, 1);
  const double bad[] = { -1e-5, NAN, INFINITY };
  for (int i = 0; i < 3; i++) {
    expect_refused(situ_batch_norm(x, four, four, NULL, NULL, OPTIONS_AT(situ_batch_norm, with.eps = bad[i])),
                   SITU_E_ARG, "batch_norm", "eps");
    expect_refused(situ_layer_norm(x, SITU_SHAPE(3), NULL, NULL, bad[i]), SITU_E_ARG, "layer_norm", "eps");
    expect_refused(situ_rms_norm(x, SITU_SHAPE(3), NULL, bad[i]), SITU_E_ARG, "rms_norm", "eps");
    expect_refused(situ_group_norm(x, 2, NULL, NULL, bad[i]), SITU_E_ARG, "group_norm", "eps");
    expect_refused(situ_batch_norm(x, four, four, NULL, NULL,
                                   OPTIONS_AT(situ_batch_norm, with.training = true, with.momentum = bad[i])),
                   SITU_E_ARG, "batch_norm", "momentum");
  }
  expect_refused(situ_layer_norm(x, SITU_SHAPE(4), NULL, NULL, 1e-5), SITU_E_SHAPE, "layer_norm",
                 "normalized_shape [4] is not the end of input's shape [2, 4, 3]");
  expect_refused(situ_layer_norm(x, (situ_shape){ 0 }, NULL, NULL, 1e-5), SITU_E_SHAPE, "layer_norm",
                 "normalized_shape");
  expect_refused(situ_layer_norm(x, (situ_shape){ .ndim = 99 }, NULL, NULL, 1e-5), SITU_E_SHAPE, "layer_norm",
                 "normalized_shape");
  expect_refused(situ_layer_norm(x, (situ_shape){ .ndim = -99 }, NULL, NULL, 1e-5), SITU_E_SHAPE, "layer_norm",
                 "normalized_shape");
  expect_refused(situ_layer_norm(x, SITU_SHAPE(3), two, NULL, 1e-5), SITU_E_SHAPE, "layer_norm", "weight is [2]");
  expect_refused(situ_layer_norm(x, SITU_SHAPE(3), three, two, 1e-5), SITU_E_SHAPE, "layer_norm", "bias is [2]");
  expect_refused(situ_rms_norm(x, SITU_SHAPE(3), two, SITU_NONE), SITU_E_SHAPE, "rms_norm", "weight is [2]");
  expect_refused(situ_group_norm(x, 0, NULL, NULL, 1e-5), SITU_E_ARG, "group_norm",
                 "4 channels do not divide into 0 groups");
  expect_refused(situ_group_norm(x, 3, NULL, NULL, 1e-5), SITU_E_ARG, "group_norm", "into 3 groups");
  expect_refused(situ_group_norm(x, INT64_MIN, NULL, NULL, 1e-5), SITU_E_ARG, "group_norm", "groups");
  expect_refused(situ_group_norm(x, 2, two, NULL, 1e-5), SITU_E_SHAPE, "group_norm", "weight");
  expect_refused(situ_softmax(x, 3), SITU_E_ARG, "softmax", "dimension 3");
  expect_refused(situ_log_softmax(x, -4), SITU_E_ARG, "log_softmax", "dimension -4");
}

static void row_49_class_indices(void **state) {
  (void)state;
  situ_tensor *x = test_random(SITU_SHAPE(2, 3), -1, 1, false), *good = TI64(SITU_SHAPE(2), 0, 2);
  const int64_t bad[] = { 3, -1, -100, INT64_MIN, 100000000000000000 };
  for (int i = 0; i < 5; i++) {
    char text[64];
    (void)snprintf(text, sizeof text, "index %lld at [1", (long long)bad[i]);
    const int64_t values[2] = { 0, bad[i] };
    situ_tensor *target = situ_from_host(values, sizeof values, SITU_SHAPE(2), HERE(.dtype = SITU_I64));
    const situ_cross_entropy_options o = { .has_ignore_index = true, .ignore_index = 7 };
    expect_refused_late(situ_cross_entropy(x, target, &o), SITU_E_INDEX, "", text);
    expect_refused_late(situ_nll_loss(x, target, &o), SITU_E_INDEX, "", "is outside 0..2 of 3 classes");
  }
  expect_refused(situ_cross_entropy(x, good, &(situ_cross_entropy_options){ .weight = T64(SITU_SHAPE(2), 1, 1) }),
                 SITU_E_SHAPE, "cross_entropy", "weight is [2], input has 3 classes");
  expect_refused(situ_cross_entropy(x, TI64(SITU_SHAPE(3), 0, 1, 2), NULL), SITU_E_SHAPE, "cross_entropy",
                 "target is [3], must be [2] for input [2, 3]");
  expect_refused(situ_nll_loss(x, TI64(SITU_SHAPE(1, 2), 0, 1), NULL), SITU_E_SHAPE, "nll_loss", "target is [1, 2]");
  expect_refused(situ_cross_entropy(x, T64(SITU_SHAPE(2), 1, 1), NULL), SITU_E_SHAPE, "cross_entropy",
                 "target of probabilities is [2]");
  expect_refused(situ_cross_entropy(x, good, &(situ_cross_entropy_options){ .label_smoothing = NAN }), SITU_E_ARG,
                 "cross_entropy", "label_smoothing nan");
  expect_refused(situ_cross_entropy(x, good, &(situ_cross_entropy_options){ .label_smoothing = 1.5 }), SITU_E_ARG,
                 "cross_entropy", "label_smoothing 1.5");
  expect_refused(situ_cross_entropy(x, good, &(situ_cross_entropy_options){ .reduction = (situ_reduction)9 }),
                 SITU_E_ARG, "cross_entropy", "9 a reduction");
  expect_refused(situ_mse_loss(x, x, (situ_reduction)-1), SITU_E_ARG, "mse_loss", "-1 is not a reduction");
  expect_refused(situ_kl_div(x, T64(SITU_SHAPE(2), 1, 1), SITU_KL_MEAN, false), SITU_E_SHAPE, "",
                 "[2] and [2, 3] do not broadcast");
}

static void row_51_dropout(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(3), 1, 2, 3);
  const double bad[] = { -0.1, 1.1, NAN, INFINITY };
  for (int i = 0; i < 4; i++) {
    expect_refused(situ_dropout(x, bad[i], true, NULL), SITU_E_ARG, "dropout", "must be in 0..1");
    expect_refused(situ_bernoulli_(x, bad[i], NULL), SITU_E_ARG, "bernoulli_", "a probability of");
  }
  expect_exact(situ_dropout(x, 1, true, NULL), SITU_SHAPE(3), 0, 0, 0);
  expect_exact(x, SITU_SHAPE(3), 1, 2, 3);
}

static void row_53_attention(void **state) {
  (void)state;
  situ_tensor *q = test_random(SITU_SHAPE(2, 3, 4), -1, 1, false), *k = test_random(SITU_SHAPE(2, 5, 4), -1, 1, false),
              *v = test_random(SITU_SHAPE(2, 5, 6), -1, 1, false);
#define ATTEND(q, k, v, ...) situ_scaled_dot_product_attention(q, k, v, OPTIONS_AT(situ_attention, __VA_ARGS__))
  const char *op = "scaled_dot_product_attention";
  expect_refused(ATTEND(q, test_random(SITU_SHAPE(2, 5, 3), -1, 1, false), v, with.scale = 0), SITU_E_SHAPE, op,
                 "4 and 3 differ");
  expect_refused(ATTEND(q, k, test_random(SITU_SHAPE(2, 4, 6), -1, 1, false), with.scale = 0), SITU_E_SHAPE, op,
                 "5 and 4 differ");
  expect_refused(ATTEND(q, k, v, with.attn_mask = T64(SITU_SHAPE(4), 0, 0, 0, 0)), SITU_E_SHAPE, op, "");
  expect_refused(ATTEND(q, k, v, with.attn_mask = TI64(SITU_SHAPE(5), 0, 0, 0, 0, 0)), SITU_E_DTYPE, op,
                 "attn_mask is i64, must be a floating dtype or bool");
  expect_refused(ATTEND(q, k, v, with.attn_mask = T64(SITU_SHAPE(5), 0, 0, 0, 0, 0), with.is_causal = true), SITU_E_ARG,
                 op, "attn_mask and is_causal");
  expect_refused(ATTEND(q, k, v, with.dropout_p = -1), SITU_E_ARG, op, "dropout_p is -1");
  expect_refused(ATTEND(q, k, v, with.dropout_p = NAN), SITU_E_ARG, op, "dropout_p");
  situ_tensor *row = T32(SITU_SHAPE(1, 2), 1, 1), *endless = situ_expand(row, SITU_SHAPE(4294967296, 2));
  expect_refused(ATTEND(endless, endless, situ_expand(Z(1, 0), SITU_SHAPE(4294967296, 0)), with.scale = 0),
                 SITU_E_OVERFLOW, op, "2^63");
  situ_tensor *narrow = T64(SITU_SHAPE(1, 1), 2);
  expect_exact(ATTEND(narrow, narrow, narrow, with.attn_mask = TBOOL(SITU_SHAPE(1, 1), 0)), SITU_SHAPE(1, 1),
               0); /* nothing to look at */
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(rows_37_and_38_conv_options),
    TEST(rows_39_and_40_conv_sizes),
    TEST(rows_41_and_42_pools),
    TEST(rows_45_and_46_norms),
    TEST(row_49_class_indices),
    TEST(row_51_dropout),
    TEST(row_53_attention),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
