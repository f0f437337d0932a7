/* Patches, grids and norms of images through the API: gradients and refusals. tests/golden/ops/nn/vision.c compares their
   values with PyTorch.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -0.9, 0.9, true)
#define GRID(...) \
  &(situ_grid_sample_options) { __VA_ARGS__ }

static void values(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(1, 2, 2), 1, 2, 3, 4);
  expect_exact(situ_unfold(x, SITU_DIMS(1, 2), NULL), SITU_SHAPE(2, 2), 1, 3, 2, 4);
  expect_exact(situ_fold(T32(SITU_SHAPE(2, 2), 1, 2, 3, 4), SITU_DIMS(1, 3), SITU_DIMS(1, 2), NULL),
               SITU_SHAPE(1, 1, 3), 1, 5, 4);
  expect_exact(situ_channel_shuffle(T32(SITU_SHAPE(1, 4, 1), 1, 2, 3, 4), 2), SITU_SHAPE(1, 4, 1), 1, 3, 2, 4);
  expect_exact(situ_channel_shuffle(T32(SITU_SHAPE(1, 4, 1), 1, 2, 3, 4), 1), SITU_SHAPE(1, 4, 1), 1, 2, 3, 4);
  expect_exact(situ_grid_sample(situ_unsqueeze(x, 0), T32(SITU_SHAPE(1, 1, 3, 2), 0, 0, -1, -1, 9, 9),
                                GRID(.align_corners = true)),
               SITU_SHAPE(1, 1, 1, 3), 2.5, 1, 0);
  /* a pixel outside is not read, whatever is at the border */
  expect_exact(situ_grid_sample(situ_full(SITU_SHAPE(1, 1, 1, 1), INFINITY, &(situ_options){ .device = test_device() }),
                                T32(SITU_SHAPE(1, 1, 1, 2), 5, 5), NULL),
               SITU_SHAPE(1, 1, 1, 1), 0);
}

static situ_tensor *f_unfold(situ_tensor *const *in, void *o) { return situ_unfold(in[0], SITU_DIMS(2, 3), o); }
static situ_tensor *f_fold(situ_tensor *const *in, void *o) {
  return (void)o, situ_fold(in[0], SITU_DIMS(3, 4), SITU_DIMS(2), NULL);
}
/* Without offsets it is a convolution; moved by whole pixels, one of the moved image; with a mask of 0, the bias. */
static void deformed(void **state) {
  (void)state;
  const situ_options here = { .device = test_device() };
  situ_tensor *x = test_random(SITU_SHAPE(2, 4, 5, 6), -1, 1, false),
              *w = test_random(SITU_SHAPE(6, 2, 3, 2), -1, 1, false), *b = test_random(SITU_SHAPE(6), -1, 1, false);
  const situ_options f64 = { .dtype = SITU_F64, .device = test_device() };
  const situ_deform_conv2d_options o = { .stride = SITU_DIMS(2, 1),
                                         .padding = SITU_DIMS(1),
                                         .dilation = SITU_DIMS(1, 2) };
  situ_tensor *same = situ_conv2d(
      x, w, b, &(situ_conv_options){ .stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = 2 });
  situ_tensor *still = situ_zeros(SITU_SHAPE(2, 24, 3, 6), &f64);
  expect_same(situ_deform_conv2d(x, still, w, b, &o), same, 0, 1e-12);
  situ_tensor *image = T32(SITU_SHAPE(1, 1, 2, 3), 1, 2, 3, 4, 5, 6), *one = situ_ones(SITU_SHAPE(1, 1, 1, 1), &here);
  situ_tensor *right = situ_stack(
      (situ_tensor *[]){ situ_zeros(SITU_SHAPE(1, 2, 3), &here), situ_ones(SITU_SHAPE(1, 2, 3), &here) }, 2, 1);
  expect_exact(situ_deform_conv2d(image, right, one, NULL, NULL), SITU_SHAPE(1, 1, 2, 3), 2, 3, 0, 5, 6, 0);
  situ_tensor *half = situ_mul_scalar(right, 0.5), *mask = situ_zeros(SITU_SHAPE(1, 1, 2, 3), &here);
  expect_exact(situ_deform_conv2d(image, half, one, NULL, NULL), SITU_SHAPE(1, 1, 2, 3), 1.5, 2.5, 1.5, 4.5, 5.5, 3);
  expect_exact(
      situ_deform_conv2d(image, half, one, T32(SITU_SHAPE(1), 7), &(situ_deform_conv2d_options){ .mask = mask }),
      SITU_SHAPE(1, 1, 2, 3), 7, 7, 7, 7, 7, 7);
}

static void deformed_refusals(void **state) {
  (void)state;
  const situ_options here = { .device = test_device() };
  const char *op = "deform_conv2d";
  situ_tensor *x = situ_ones(SITU_SHAPE(1, 2, 4, 4), &here), *w = situ_ones(SITU_SHAPE(2, 2, 2, 2), &here),
              *offset = situ_ones(SITU_SHAPE(1, 8, 3, 3), &here);
  assert_non_null(situ_deform_conv2d(x, offset, w, NULL, NULL));
  expect_refused(situ_deform_conv2d(x, x, w, NULL, NULL), SITU_E_SHAPE, op, "offset [1, 2, 4, 4]");
  expect_refused(situ_deform_conv2d(x, offset, w, NULL, &(situ_deform_conv2d_options){ .padding = SITU_DIMS(1) }),
                 SITU_E_SHAPE, op, "must be [1, 8, 5, 5]");
  expect_refused(situ_deform_conv2d(x, offset, w, NULL, &(situ_deform_conv2d_options){ .mask = offset }), SITU_E_SHAPE,
                 op, "mask is [1, 8, 3, 3], must be [1, 4, 3, 3]");
  expect_refused(situ_deform_conv2d(x, offset, w, situ_ones(SITU_SHAPE(3), &here), NULL), SITU_E_SHAPE, op,
                 "bias is [3]");
  expect_refused(situ_deform_conv2d(x, offset, w, NULL, &(situ_deform_conv2d_options){ .stride = SITU_DIMS(0, 1) }),
                 SITU_E_ARG, op, "stride is 0");
  expect_refused(situ_deform_conv2d(x, offset, w, NULL, &(situ_deform_conv2d_options){ .dilation = SITU_DIMS(9) }),
                 SITU_E_SHAPE, op, "larger than the padded input");
}

static situ_tensor *f_deformed(situ_tensor *const *in, void *o) {
  const situ_deform_conv2d_options options = { .padding = SITU_DIMS(1, 0), .mask = in[4] };
  return (void)o, situ_deform_conv2d(in[0], in[1], in[2], in[3], &options);
}
/* Places between pixels: at a pixel the derivative jumps. */
static void deformed_gradients(void **state) {
  (void)state;
  situ_tensor *x = test_random(SITU_SHAPE(1, 2, 3, 4), -1, 1, true);
  gradcheck(f_deformed, NULL, x, test_random(SITU_SHAPE(1, 16, 4, 3), 0.1, 0.9, true),
            test_random(SITU_SHAPE(2, 1, 2, 2), -1, 1, true), test_random(SITU_SHAPE(2), -1, 1, true),
            test_random(SITU_SHAPE(1, 8, 4, 3), -1, 1, true));
}

static situ_tensor *f_sample(situ_tensor *const *in, void *o) { return situ_grid_sample(in[0], in[1], o); }
static situ_tensor *f_affine(situ_tensor *const *in, void *o) {
  return situ_affine_grid(in[0], SITU_DIMS(2, 1, 3, 2), *(bool *)o);
}
static situ_tensor *f_instance(situ_tensor *const *in, void *o) {
  return (void)o, situ_instance_norm(in[0], NULL, NULL, in[1], in[2], NULL);
}
static situ_tensor *f_response(situ_tensor *const *in, void *o) {
  return (void)o, situ_local_response_norm(in[0], 3, 0.5, 0.75, 1);
}

static void gradients(void **state) {
  (void)state;
  situ_unfold_options wide = { .padding = SITU_DIMS(1), .stride = SITU_DIMS(2, 1) };
  gradcheck(f_unfold, &wide, R(2, 1, 3, 4));
  gradcheck(f_fold, NULL, R(1, 8, 6));
  for (int mode = SITU_GRID_BILINEAR; mode <= SITU_GRID_BICUBIC; mode++)
    for (int padding = SITU_GRID_ZEROS; padding <= SITU_GRID_REFLECTION; padding++)
      gradcheck(f_sample, GRID((situ_grid_mode)mode, (situ_grid_padding)padding, true), R(1, 2, 4, 5), R(1, 2, 2, 2));
  bool align = false;
  gradcheck(f_affine, &align, R(2, 2, 3));
  gradcheck(f_instance, NULL, R(2, 2, 4), R(2), R(2));
  gradcheck(f_response, NULL, R(1, 4, 3));
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(1, 2, 3, 3), &(situ_options){ .device = test_device() });
  expect_refused(situ_unfold(x, SITU_DIMS(4), NULL), SITU_E_SHAPE, "unfold", "covers");
  expect_refused(situ_unfold(x, SITU_DIMS(0), NULL), SITU_E_ARG, "unfold", "kernel_size");
  expect_refused(situ_fold(x, SITU_DIMS(3), SITU_DIMS(2), NULL), SITU_E_SHAPE, "fold", "input");
  expect_refused(situ_channel_shuffle(x, 3), SITU_E_ARG, "channel_shuffle", "groups is 3");
  expect_refused(situ_grid_sample(x, x, NULL), SITU_E_SHAPE, "grid_sample", "grid");
  expect_refused(situ_affine_grid(x, SITU_DIMS(1, 1, 2, 2), false), SITU_E_SHAPE, "affine_grid", "theta");
  expect_refused(situ_instance_norm(x, NULL, NULL, x, NULL, NULL), SITU_E_SHAPE, "instance_norm", "[C]");
  expect_refused(
      situ_instance_norm(x, NULL, NULL, NULL, NULL, OPTIONS_AT(situ_instance_norm, with.no_input_stats = true)),
      SITU_E_SHAPE, "instance_norm", "needed");
  expect_refused(situ_local_response_norm(x, 0, 1, 1, 1), SITU_E_ARG, "local_response_norm", "size is 0");
}

static void the_module(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_instance_norm1d(1, OPTIONS_AT(situ_nn_instance_norm, with.track_running_stats = true,
                                                            with.momentum = 0.5, with.device = test_device()));
  situ_tensor *y = situ_nn_forward(m, T32(SITU_SHAPE(1, 1, 2), 1, 3));
  assert_non_null(y);
  expect_exact(situ_nn_get_tensor(m, "running_mean"), SITU_SHAPE(1), 1);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values),           TEST(gradients), TEST(refusals),
                                      TEST(the_module),       TEST(deformed),  TEST(deformed_gradients),
                                      TEST(deformed_refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
