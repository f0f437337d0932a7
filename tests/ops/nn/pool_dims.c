/* Pooling and convolution in one and three dimensions through the API: gradients and refusals. tests/golden/ops/nn/vision.c
   compares their values with PyTorch.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)
#define POOL(...) \
  &(situ_pool_options) { __VA_ARGS__ }

static void values(void **state) {
  (void)state;
  situ_tensor *at, *line = T32(SITU_SHAPE(1, 1, 5), 3, 1, 4, 1, 5);
  expect_exact(situ_max_pool1d(line, POOL(.kernel = SITU_DIMS(2)), &at), SITU_SHAPE(1, 1, 2), 3, 4);
  expect_exact(at, SITU_SHAPE(1, 1, 2), 0, 2);
  expect_exact(situ_avg_pool1d(line, POOL(.kernel = SITU_DIMS(2), .ceil_mode = true)), SITU_SHAPE(1, 1, 3), 2, 2.5, 5);
  expect_exact(situ_adaptive_max_pool1d(line, 2, &at), SITU_SHAPE(1, 1, 2), 4, 5);
  expect_exact(at, SITU_SHAPE(1, 1, 2), 2, 4);
  situ_tensor *cube = T32(SITU_SHAPE(1, 2, 2, 2), 1, 2, 3, 4, 5, 6, 8, 7);
  expect_exact(situ_max_pool3d(cube, POOL(.kernel = SITU_DIMS(2)), &at), SITU_SHAPE(1, 1, 1, 1), 8);
  expect_exact(at, SITU_SHAPE(1, 1, 1, 1), 6);
  expect_exact(situ_avg_pool3d(cube, POOL(.kernel = SITU_DIMS(2))), SITU_SHAPE(1, 1, 1, 1), 4.5);
  expect_exact(situ_adaptive_avg_pool3d(cube, SITU_DIMS(2, 1, 1)), SITU_SHAPE(1, 2, 1, 1), 2.5, 6.5);
  expect_exact(situ_max_unpool1d(T32(SITU_SHAPE(1, 2), 7, 8), situ_to_dtype(T32(SITU_SHAPE(1, 2), 1, 2), SITU_I64),
                                 SITU_DIMS(2), (situ_shape){ 0 }, (situ_shape){ 0 }, (situ_shape){ 0 }),
               SITU_SHAPE(1, 4), 0, 7, 8, 0);
}

static situ_tensor *f_max1(situ_tensor *const *in, void *o) { return situ_max_pool1d(in[0], o, NULL); }
static situ_tensor *f_max3(situ_tensor *const *in, void *o) { return situ_max_pool3d(in[0], o, NULL); }
static situ_tensor *f_avg1(situ_tensor *const *in, void *o) { return situ_avg_pool1d(in[0], o); }
static situ_tensor *f_avg3(situ_tensor *const *in, void *o) { return situ_avg_pool3d(in[0], o); }
static situ_tensor *f_lp(situ_tensor *const *in, void *o) {
  const situ_pool_options *p = o;
  return situ_lp_pool2d(situ_exp(in[0]), 3, p->kernel, p->stride, p->ceil_mode);
}
static situ_tensor *f_parts(situ_tensor *const *in, void *o) {
  return (void)o, situ_adaptive_max_pool3d(in[0], SITU_DIMS(2, 3, 1), NULL);
}
static situ_tensor *f_means(situ_tensor *const *in, void *o) {
  return (void)o, situ_adaptive_avg_pool3d(in[0], SITU_DIMS(2, 3, 1));
}
static situ_tensor *f_conv3(situ_tensor *const *in, void *o) { return situ_conv3d(in[0], in[1], in[2], o); }
static situ_tensor *f_back1(situ_tensor *const *in, void *o) { return situ_conv_transpose1d(in[0], in[1], in[2], o); }
static situ_tensor *f_back3(situ_tensor *const *in, void *o) { return situ_conv_transpose3d(in[0], in[1], in[2], o); }

static void gradients(void **state) {
  (void)state;
  situ_pool_options some[] = { { .kernel = SITU_DIMS(2), .ceil_mode = true },
                               { .kernel = SITU_DIMS(3), .stride = SITU_DIMS(2), .padding = SITU_DIMS(1) } };
  for (int k = 0; k < 2; k++) {
    gradcheck(f_max1, &some[k], R(2, 2, 5));
    gradcheck(f_avg1, &some[k], R(2, 5));
    gradcheck(f_max3, &some[k], R(1, 2, 3, 4, 3));
    gradcheck(f_avg3, &some[k], R(2, 4, 3, 3));
    if (!k) gradcheck(f_lp, &some[k], R(1, 2, 3, 4));
  }
  gradcheck(f_parts, NULL, R(1, 3, 4, 3));
  gradcheck(f_means, NULL, R(1, 3, 4, 3));
  situ_conv_options same = { .same = true, .dilation = SITU_DIMS(1, 2, 1) },
                    even = { .stride = SITU_DIMS(2), .padding = SITU_DIMS(1), .output_padding = SITU_DIMS(1) };
  gradcheck(f_conv3, &same, R(1, 2, 2, 3, 3), R(2, 2, 2, 2, 3), R(2));
  gradcheck(f_back3, &even, R(1, 2, 2, 2, 2), R(2, 1, 2, 3, 2), R(1));
  gradcheck(f_back1, &even, R(2, 2, 3), R(2, 2, 3), R(2));
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(1, 1, 3, 3, 3), &(situ_options){ .device = test_device() });
  expect_refused(situ_max_pool1d(x, POOL(.kernel = SITU_DIMS(2)), NULL), SITU_E_SHAPE, "max_pool1d", "[C, L]");
  expect_refused(situ_max_pool1d(situ_reshape(x, SITU_SHAPE(1, 27)), POOL(.kernel = SITU_DIMS(2, 2)), NULL), SITU_E_ARG,
                 "max_pool1d", "kernel has 2");
  expect_refused(situ_max_pool3d(x, POOL(.kernel = SITU_DIMS(2, 2)), NULL), SITU_E_ARG, "max_pool3d", "kernel has 2");
  expect_refused(situ_max_pool3d(x, NULL, NULL), SITU_E_ARG, "max_pool3d", "kernel has 0");
  expect_refused(situ_avg_pool3d(x, POOL(.kernel = SITU_DIMS(5))), SITU_E_SHAPE, "avg_pool3d", "covers");
  expect_refused(situ_avg_pool3d(situ_to_dtype(x, SITU_I64), POOL(.kernel = SITU_DIMS(2))), SITU_E_DTYPE, "avg_pool3d",
                 "i64");
  expect_refused(situ_avg_pool1d(situ_select(x, 0, 0), POOL(.kernel = SITU_DIMS(2), .divisor_override = 3)),
                 SITU_E_SHAPE, "avg_pool1d", "input");
  expect_refused(situ_adaptive_max_pool3d(x, SITU_DIMS(-1), NULL), SITU_E_ARG, "adaptive_max_pool3d", "output_size");
  expect_refused(situ_conv3d(x, situ_select(x, 0, 0), NULL, NULL), SITU_E_SHAPE, "conv3d", "weight");
  expect_refused(situ_conv3d(x, x, NULL, &(situ_conv_options){ .same = true, .stride = SITU_DIMS(2) }), SITU_E_ARG,
                 "conv3d", "stride must be 1");
  expect_refused(situ_conv3d(x, x, NULL, &(situ_conv_options){ .same = true, .padding = SITU_DIMS(2) }), SITU_E_ARG,
                 "conv3d", "together with same");
  situ_tensor *deep = situ_empty(SITU_SHAPE(1, 1, 65537, 1, 1), &(situ_options){ .device = { .kind = SITU_META } });
  expect_refused(situ_conv3d(deep, deep, NULL, NULL), SITU_E_LIMIT, "conv3d", "the kernel's depth is 65537");
  expect_refused(situ_conv_transpose3d(deep, deep, NULL, NULL), SITU_E_LIMIT, "conv_transpose3d", "at most 65536");
  expect_refused(situ_conv3d(x, x, NULL, &(situ_conv_options){ .dilation = SITU_DIMS(2) }), SITU_E_SHAPE, "conv3d",
                 "covers");
  expect_refused(situ_conv_transpose3d(x, x, NULL, &(situ_conv_options){ .padding = SITU_DIMS(3) }), SITU_E_SHAPE,
                 "conv_transpose3d", "");
}

static void the_modules(void **state) {
  (void)state;
  const situ_nn_conv_options same = { .same = true, .padding_mode = SITU_PAD_REPLICATE, .device = test_device() };
  situ_nn_module *m = situ_nn_conv1d(1, 1, 4, &same);
  situ_tensor *y = situ_nn_forward(m, T32(SITU_SHAPE(1, 1, 3), 1, 2, 3));
  assert_int_equal(situ_size(y, 2), 3);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values), TEST(gradients), TEST(refusals), TEST(the_modules) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
