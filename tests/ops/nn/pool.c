/* Pooling through the API: values, gradients, refusals.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

static situ_tensor *ramp(void) { return T32(SITU_SHAPE(1, 1, 3, 4), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12); }

static void values(void **state) {
  (void)state;
  situ_tensor *x = ramp(), *index = NULL;
  const situ_pool_options two = { .kernel = SITU_DIMS(2) }, ceiled = { .kernel = SITU_DIMS(2), .ceil_mode = true };
  expect_exact(situ_max_pool2d(x, &two, &index), SITU_SHAPE(1, 1, 1, 2), 6, 8);
  expect_exact(index, SITU_SHAPE(1, 1, 1, 2), 5, 7);
  expect_exact(situ_max_pool2d(x, &ceiled, NULL), SITU_SHAPE(1, 1, 2, 2), 6, 8, 10, 12);
  expect_exact(situ_max_pool2d(situ_select(x, 0, 0), &two, NULL), SITU_SHAPE(1, 1, 2), 6, 8);
  expect_exact(
      situ_max_pool2d(
          x, &(situ_pool_options){ .kernel = SITU_DIMS(2), .dilation = SITU_DIMS(2), .stride = SITU_DIMS(1) }, NULL),
      SITU_SHAPE(1, 1, 1, 2), 11, 12);
  /* the third window down would begin in the padding: there is none */
  expect_exact(situ_max_pool2d(
                   x, &(situ_pool_options){ .kernel = SITU_DIMS(2), .padding = SITU_DIMS(1), .ceil_mode = true }, NULL),
               SITU_SHAPE(1, 1, 2, 3), 1, 3, 4, 9, 11, 12);
  expect_exact(situ_avg_pool2d(x, &two), SITU_SHAPE(1, 1, 1, 2), 3.5, 5.5);
  expect_exact(situ_avg_pool2d(x, &ceiled), SITU_SHAPE(1, 1, 2, 2), 3.5, 5.5, 9.5, 11.5);
  expect_exact(situ_avg_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(2), .divisor_override = 2 }),
               SITU_SHAPE(1, 1, 1, 2), 7, 11);
  expect_exact(situ_avg_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(2), .padding = SITU_DIMS(1) }),
               SITU_SHAPE(1, 1, 2, 3), 0.25, 1.25, 1, 3.5, 8.5, 5);
  expect_exact(
      situ_avg_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(2), .padding = SITU_DIMS(1), .exclude_pad = true }),
      SITU_SHAPE(1, 1, 2, 3), 1, 2.5, 4, 7, 8.5, 10);
  expect_exact(situ_adaptive_avg_pool2d(x, SITU_DIMS(1)), SITU_SHAPE(1, 1, 1, 1), 6.5);
  expect_exact(situ_adaptive_avg_pool2d(x, SITU_DIMS(SITU_KEEP_SIZE, 2)), SITU_SHAPE(1, 1, 3, 2), 1.5, 3.5, 5.5, 7.5,
               9.5, 11.5);
  expect_exact(situ_adaptive_avg_pool2d(x, SITU_DIMS(2, 3)), SITU_SHAPE(1, 1, 2, 3), 3.5, 4.5, 5.5, 7.5, 8.5, 9.5);
}

/* NaN wins; of equal ones the first; a plane of -infinity stays one. */
static void special_values(void **state) {
  (void)state;
  situ_tensor *index = NULL;
  const situ_pool_options two = { .kernel = SITU_DIMS(2) };
  expect_exact(situ_max_pool2d(T32(SITU_SHAPE(1, 2, 4), 1, NAN, 5, 5, 3, 2, 5, 5), &two, &index), SITU_SHAPE(1, 1, 2),
               NAN, 5);
  expect_exact(index, SITU_SHAPE(1, 1, 2), 1, 2);
  expect_exact(situ_max_pool2d(T32(SITU_SHAPE(1, 2, 2), -INFINITY, -INFINITY, -INFINITY, -INFINITY), &two, &index),
               SITU_SHAPE(1, 1, 1), -INFINITY);
  expect_exact(index, SITU_SHAPE(1, 1, 1), 0);
}

static void an_empty_batch(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(0, 2, 4, 4), &(situ_options){ .device = test_device() });
  assert_int_equal(situ_numel(situ_max_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL)), 0);
  assert_int_equal(situ_numel(situ_adaptive_avg_pool2d(x, SITU_DIMS(1))), 0);
}

static situ_tensor *f_max(situ_tensor *const *in, void *o) { return situ_max_pool2d(in[0], o, NULL); }
static situ_tensor *f_avg(situ_tensor *const *in, void *o) { return situ_avg_pool2d(in[0], o); }
static situ_tensor *f_adaptive(situ_tensor *const *in, void *size) {
  return situ_adaptive_avg_pool2d(in[0], *(situ_shape *)size);
}

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static void gradients(void **state) {
  (void)state;
  situ_pool_options options[] = { { .kernel = SITU_DIMS(2) },
                                  { .kernel = SITU_DIMS(3), .stride = SITU_DIMS(1), .padding = SITU_DIMS(1) },
                                  { .kernel = SITU_DIMS(2, 3), .stride = SITU_DIMS(2, 1), .ceil_mode = true },
                                  { .kernel = SITU_DIMS(3, 2), .padding = SITU_DIMS(1), .exclude_pad = true },
                                  { .kernel = SITU_DIMS(2), .divisor_override = 3 } };
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    gradcheck(f_avg, &options[i], R(2, 2, 5, 6));
    gradcheck(f_avg, &options[i], R(3, 4, 7));
    if (options[i].exclude_pad || options[i].divisor_override) continue; /* an average's alone */
    gradcheck(f_max, &options[i], R(2, 2, 5, 6));
    gradcheck(f_max, &options[i], R(3, 4, 7));
  }
  situ_pool_options dilated = { .kernel = SITU_DIMS(2), .dilation = SITU_DIMS(2), .stride = SITU_DIMS(1) };
  gradcheck(f_max, &dilated, R(1, 2, 5, 5));
  situ_shape sizes[] = { SITU_DIMS(1), SITU_DIMS(2, 3), SITU_DIMS(SITU_KEEP_SIZE, 2), SITU_DIMS(7, 6) };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    gradcheck(f_adaptive, &sizes[i], R(2, 2, 5, 4));
    gradcheck(f_adaptive, &sizes[i], R(1, 3, 5));
  }
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = ramp();
#define REFUSED(code, text, ...)                                                                           \
  expect_refused(situ_max_pool2d(x, &(situ_pool_options){ __VA_ARGS__ }, NULL), code, "max_pool2d", text); \
  expect_refused(situ_avg_pool2d(x, &(situ_pool_options){ __VA_ARGS__ }), code, "avg_pool2d", text)
  REFUSED(SITU_E_ARG, "kernel", .ceil_mode = false);
  REFUSED(SITU_E_ARG, "kernel", .kernel = SITU_DIMS(0));
  REFUSED(SITU_E_ARG, "kernel", .kernel = SITU_DIMS(2, 2, 2));
  REFUSED(SITU_E_ARG, "stride", .kernel = SITU_DIMS(2), .stride = SITU_DIMS(0));
  REFUSED(SITU_E_ARG, "padding", .kernel = SITU_DIMS(2), .padding = SITU_DIMS(2));
  REFUSED(SITU_E_ARG, "padding", .kernel = SITU_DIMS(2), .padding = SITU_DIMS(-1));
  REFUSED(SITU_E_SHAPE, "covers", .kernel = SITU_DIMS(4));
  expect_refused(situ_max_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(2), .dilation = SITU_DIMS(0) }, NULL),
                 SITU_E_ARG, "max_pool2d", "dilation");
  expect_refused(
      situ_max_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(INT64_MAX), .dilation = SITU_DIMS(2) }, NULL),
      SITU_E_OVERFLOW, "max_pool2d", "63 bits");
  expect_refused(situ_adaptive_avg_pool2d(x, SITU_DIMS(-1)), SITU_E_ARG, "adaptive_avg_pool2d", "output_size");
  expect_refused(situ_adaptive_avg_pool2d(x, SITU_DIMS(-2)), SITU_E_ARG, "adaptive_avg_pool2d", "output_size");
  expect_refused(situ_adaptive_avg_pool2d(x, SITU_DIMS(9132760301568586890, 9132760301568586890)), SITU_E_OVERFLOW,
                 "adaptive_avg_pool2d", "");
  expect_refused(
      situ_max_pool2d(T32(SITU_SHAPE(2, 2), 1, 2, 3, 4), &(situ_pool_options){ .kernel = SITU_DIMS(1) }, NULL),
      SITU_E_SHAPE, "max_pool2d", "input");
  expect_refused(situ_avg_pool2d(TBOOL(SITU_SHAPE(1, 1, 1), 1), &(situ_pool_options){ .kernel = SITU_DIMS(1) }),
                 SITU_E_DTYPE, "avg_pool2d", "bool");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values), TEST(special_values), TEST(an_empty_batch), TEST(gradients),
                                      TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
