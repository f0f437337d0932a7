/* Modules print as torch 1.13 prints them (repr), character by character.
   SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/modules.h"

static void expect_text(situ_nn_module *m, const char *want) {
  char text[4096];
  int64_t length = situ_nn_to_string(m, text, sizeof text);
  assert_string_equal(text, want);
  assert_int_equal(length, strlen(want));
  char cut[8];
  assert_int_equal(situ_nn_to_string(m, cut, sizeof cut), length);
  assert_int_equal(strlen(cut), length < 7 ? length : 7);
  assert_int_equal(strncmp(cut, want, 7), 0);
  situ_nn_free(m);
}

static void leaves(void **state) {
  (void)state;
  expect_text(situ_nn_linear(784, 64, NULL), "Linear(in_features=784, out_features=64, bias=True)");
  expect_text(situ_nn_linear(2, 3, &(situ_nn_linear_options){ .activation = SITU_ACTIVATION_SILU }),
              "Linear(in_features=2, out_features=3, bias=True, activation=silu)");
  expect_text(situ_nn_linear(2, 3, &(situ_nn_linear_options){ .activation = SITU_ACTIVATION_RELU }),
              "Linear(in_features=2, out_features=3, bias=True, activation=relu)");
  expect_text(situ_nn_bilinear(2, 3, 4, &(situ_nn_bilinear_options){ .no_bias = true }),
              "Bilinear(in1_features=2, in2_features=3, out_features=4, bias=False)");
  expect_text(situ_nn_relu(), "ReLU()");
  expect_text(situ_nn_conv2d(1, 16, SITU_DIMS(3), &(situ_nn_conv_options){ .padding = SITU_DIMS(1), .no_bias = true }),
              "Conv2d(1, 16, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)");
  expect_text(situ_nn_conv2d(4, 8, SITU_DIMS(3, 5),
                             &(situ_nn_conv_options){ .stride = SITU_DIMS(2),
                                                      .dilation = SITU_DIMS(1, 2),
                                                      .groups = 2,
                                                      .padding = SITU_DIMS(2),
                                                      .padding_mode = SITU_PAD_CIRCULAR }),
              "Conv2d(4, 8, kernel_size=(3, 5), stride=(2, 2), padding=(2, 2), dilation=(1, 2), "
              "groups=2, padding_mode=circular)");
  expect_text(situ_nn_conv1d(1, 2, 3, NULL), "Conv1d(1, 2, kernel_size=(3,), stride=(1,))");
  expect_text(
      situ_nn_conv_transpose2d(2, 4, SITU_DIMS(3),
                               &(situ_nn_conv_options){ .stride = SITU_DIMS(2), .output_padding = SITU_DIMS(1) }),
      "ConvTranspose2d(2, 4, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))");
  expect_text(situ_nn_batch_norm2d(16, NULL),
              "BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)");
  expect_text(situ_nn_batch_norm1d(3, OPTIONS_AT(situ_nn_batch_norm, with.cumulative = true, with.no_affine = true,
                                                 with.no_track_running_stats = true)),
              "BatchNorm1d(3, eps=1e-05, momentum=None, affine=False, track_running_stats=False)");
  expect_text(situ_nn_layer_norm(SITU_SHAPE(64), NULL), "LayerNorm((64,), eps=1e-05, elementwise_affine=True)");
  expect_text(situ_nn_layer_norm(SITU_SHAPE(2, 3), OPTIONS_AT(situ_nn_norm, with.eps = 1e-6, with.no_affine = true)),
              "LayerNorm((2, 3), eps=1e-06, elementwise_affine=False)");
  expect_text(situ_nn_group_norm(2, 4, NULL), "GroupNorm(2, 4, eps=1e-05, affine=True)");
  expect_text(situ_nn_rms_norm(SITU_SHAPE(8), NULL), "RMSNorm((8,), eps=None, elementwise_affine=True)");
  expect_text(situ_nn_dropout(0.25), "Dropout(p=0.25, inplace=False)");
  expect_text(situ_nn_embedding(10, 3, NULL), "Embedding(10, 3)");
  expect_text(
      situ_nn_embedding(10, 3, OPTIONS_AT(situ_nn_embedding, with.has_padding_idx = true, with.padding_idx = -1)),
      "Embedding(10, 3, padding_idx=9)");
  expect_text(situ_nn_embedding(4, 3,
                                OPTIONS_AT(situ_nn_embedding, with.has_padding_idx = true, with.padding_idx = 3,
                                           with.max_norm = 1, with.norm_type = 1, with.scale_grad_by_freq = true)),
              "Embedding(4, 3, padding_idx=3, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True)");
  expect_text(situ_nn_embedding_bag(4, 3, NULL), "EmbeddingBag(4, 3, mode='mean')");
  expect_text(situ_nn_embedding_bag(4, 3,
                                    OPTIONS_AT(situ_nn_embedding_bag, with.has_padding_idx = true,
                                               with.padding_idx = -1, with.max_norm = 1,
                                               with.mode = SITU_EMBEDDING_BAG_SUM, with.scale_grad_by_freq = true)),
              "EmbeddingBag(4, 3, max_norm=1.0, scale_grad_by_freq=True, mode='sum', padding_idx=3)");
  expect_text(situ_nn_leaky_relu(0.01), "LeakyReLU(negative_slope=0.01)");
  expect_text(situ_nn_elu(1), "ELU(alpha=1.0)");
  expect_text(situ_nn_gelu(SITU_GELU_NONE), "GELU(approximate='none')");
  expect_text(situ_nn_gelu(SITU_GELU_TANH), "GELU(approximate='tanh')");
  expect_text(situ_nn_softplus(1, 20), "Softplus(beta=1.0, threshold=20.0)");
  expect_text(situ_nn_hardtanh(-1, 1), "Hardtanh(min_val=-1.0, max_val=1.0)");
  expect_text(situ_nn_softmax(1), "Softmax(dim=1)");
  expect_text(situ_nn_log_softmax(-1), "LogSoftmax(dim=-1)");
  expect_text(situ_nn_max_pool2d(SITU_DIMS(2), NULL),
              "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
  expect_text(
      situ_nn_max_pool2d(SITU_DIMS(3, 2),
                         &(situ_pool_options){ .stride = SITU_DIMS(2, 1), .padding = SITU_DIMS(1), .ceil_mode = true }),
      "MaxPool2d(kernel_size=(3, 2), stride=(2, 1), padding=1, dilation=1, ceil_mode=True)");
  expect_text(situ_nn_avg_pool2d(SITU_DIMS(3), &(situ_pool_options){ .stride = SITU_DIMS(2), .padding = SITU_DIMS(1) }),
              "AvgPool2d(kernel_size=3, stride=2, padding=1)");
  expect_text(situ_nn_adaptive_avg_pool2d(SITU_DIMS(2, 3)), "AdaptiveAvgPool2d(output_size=(2, 3))");
  expect_text(situ_nn_conv1d(1, 1, 4, &(situ_nn_conv_options){ .same = true, .padding_mode = SITU_PAD_REPLICATE }),
              "Conv1d(1, 1, kernel_size=(4,), stride=(1,), padding=same, padding_mode=replicate)");
  expect_text(situ_nn_conv3d(1, 2, SITU_DIMS(2, 3, 4), NULL), "Conv3d(1, 2, kernel_size=(2, 3, 4), stride=(1, 1, 1))");
  expect_text(situ_nn_conv_transpose1d(1, 2, 3, NULL), "ConvTranspose1d(1, 2, kernel_size=(3,), stride=(1,))");
  expect_text(situ_nn_max_pool1d(SITU_DIMS(2), NULL),
              "MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
  expect_text(situ_nn_avg_pool1d(SITU_DIMS(2), NULL), "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))");
  expect_text(situ_nn_adaptive_max_pool3d(SITU_DIMS(2)), "AdaptiveMaxPool3d(output_size=2)");
  expect_text(situ_nn_pixel_shuffle(2), "PixelShuffle(upscale_factor=2)");
  expect_text(situ_nn_pixel_unshuffle(2), "PixelUnshuffle(downscale_factor=2)");
  expect_text(situ_nn_channel_shuffle(2), "ChannelShuffle(groups=2)");
  expect_text(situ_nn_unfold(SITU_DIMS(2, 3), NULL), "Unfold(kernel_size=(2, 3), dilation=1, padding=0, stride=1)");
  expect_text(situ_nn_fold(SITU_DIMS(4), SITU_DIMS(2), NULL),
              "Fold(output_size=4, kernel_size=2, dilation=1, padding=0, stride=1)");
  expect_text(situ_nn_local_response_norm(2, 1e-4, 0.75, 1), "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)");
  expect_text(situ_nn_instance_norm2d(3, NULL),
              "InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False)");
  expect_text(situ_nn_upsample(&(situ_interpolate_options){ .scale_factor = { 2 } }),
              "Upsample(scale_factor=2.0, mode='nearest')");
  expect_text(
      situ_nn_upsample(&(situ_interpolate_options){ .scale_factor = { 2, 0.5 }, .mode = SITU_INTERPOLATE_BILINEAR }),
      "Upsample(scale_factor=(2.0, 0.5), mode='bilinear')");
  expect_text(situ_nn_upsample(&(situ_interpolate_options){ .size = SITU_DIMS(4, 5), .mode = SITU_INTERPOLATE_AREA }),
              "Upsample(size=(4, 5), mode='area')");
  expect_text(situ_nn_flatten(1, -1), "Flatten(start_dim=1, end_dim=-1)");
  expect_text(situ_nn_cross_entropy_loss(NULL), "CrossEntropyLoss()");
  expect_text(situ_nn_lazy_linear(3, NULL), "LazyLinear(in_features=0, out_features=3, bias=True)");
}

static void numbers_are_pythons(void **state) {
  (void)state;
  static const struct {
    double value;
    const char *text;
  } row[] = {
    { 0, "0.0" },
    { 1, "1.0" },
    { 20, "20.0" },
    { 1e-5, "1e-05" },
    { 0.1, "0.1" },
    { 1.0 / 3, "0.3333333333333333" },
    { 1e15, "1000000000000000.0" },
    { 1e16, "1e+16" },
    { -250, "-250.0" },
    { 123456.75, "123456.75" },
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char want[64] = "ELU(alpha=";
    expect_text(situ_nn_elu(row[i].value), strcat(strcat(want, row[i].text), ")"));
  }
}

static void trees_are_indented(void **state) {
  (void)state;
  expect_text(situ_nn_module_list_of(0, NULL), "ModuleList()");
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(2, 3, &(situ_nn_linear_options){ .no_bias = true }),
                                         situ_nn_put(situ_nn_module_dict(), "a", situ_nn_tanh()),
                                         situ_nn_multihead_attention(4, 2, NULL));
  expect_text(m, "Sequential(\n"
                 "  (0): Linear(in_features=2, out_features=3, bias=False)\n"
                 "  (1): ModuleDict(\n"
                 "    (a): Tanh()\n"
                 "  )\n"
                 "  (2): MultiheadAttention(\n"
                 "    (out_proj): Linear(in_features=4, out_features=4, bias=True)\n"
                 "  )\n"
                 ")");
}

/* Nothing is written behind the buffer, whatever its size. */
/* A sanitizer sees if the text is kept. */
static void prints_to_standard_output(void **state) {
  (void)state;
  char text[64] = "";
  situ_nn_module *m = situ_nn_linear(2, 3, NULL);
  fflush(stdout);
  const int saved = dup(STDOUT_FILENO), file = open("printed", O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert_true(saved >= 0 && file >= 0);
  dup2(file, STDOUT_FILENO);
  situ_nn_print(m);
  fflush(stdout);
  dup2(saved, STDOUT_FILENO);
  assert_true(pread(file, text, sizeof text - 1, 0) > 0);
  close(file);
  close(saved);
  assert_string_equal(text, "Linear(in_features=2, out_features=3, bias=True)\n");
  situ_nn_free(m);
}

static void texts_end_within_their_buffer(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_relu();
  enum { LENGTH = 6 }; /* ReLU() */
  for (size_t size = 1; size <= LENGTH + 2; size++) {
    char text[LENGTH + 8];
    memset(text, '#', sizeof text);
    assert_int_equal(situ_nn_to_string(m, text, size), LENGTH);
    assert_int_equal(strlen(text), size > LENGTH ? LENGTH : size - 1);
    for (size_t i = size; i < sizeof text; i++) assert_int_equal(text[i], '#');
  }
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(leaves), MODULE_TEST(prints_to_standard_output),
                                      TEST(texts_end_within_their_buffer), MODULE_TEST(numbers_are_pythons),
                                      MODULE_TEST(trees_are_indented) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
