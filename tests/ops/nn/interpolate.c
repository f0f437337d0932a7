/* interpolate through the API: values, gradients, refusals. tests/golden/ops/nn/vision.c compares it with PyTorch.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

#define TO(...) \
  &(situ_interpolate_options) { __VA_ARGS__ }

static void values(void **state) {
  (void)state;
  situ_tensor *line = T32(SITU_SHAPE(1, 1, 4), 1, 2, 4, 8);
  expect_exact(situ_interpolate(line, TO(.scale_factor = { 1.5 })), SITU_SHAPE(1, 1, 6), 1, 1, 2, 4, 4, 8);
  expect_exact(situ_interpolate(line, TO(.size = SITU_DIMS(2))), SITU_SHAPE(1, 1, 2), 1, 4);
  expect_exact(situ_interpolate(line, TO(.size = SITU_DIMS(2), .mode = SITU_INTERPOLATE_NEAREST_EXACT)),
               SITU_SHAPE(1, 1, 2), 2, 8);
  expect_exact(situ_interpolate(line, TO(.size = SITU_DIMS(2), .mode = SITU_INTERPOLATE_AREA)), SITU_SHAPE(1, 1, 2),
               1.5, 6);
  expect_exact(situ_interpolate(line, TO(.size = SITU_DIMS(8), .mode = SITU_INTERPOLATE_LINEAR)), SITU_SHAPE(1, 1, 8),
               1, 1.25, 1.75, 2.5, 3.5, 5, 7, 8);
  expect_exact(situ_interpolate(line, TO(.size = SITU_DIMS(7), .mode = SITU_INTERPOLATE_LINEAR, .align_corners = true)),
               SITU_SHAPE(1, 1, 7), 1, 1.5, 2, 3, 4, 6, 8);
  situ_tensor *image = T32(SITU_SHAPE(1, 1, 2, 2), 0, 4, 8, 12);
  expect_exact(situ_interpolate(image, TO(.size = SITU_DIMS(3, 1), .mode = SITU_INTERPOLATE_BILINEAR)),
               SITU_SHAPE(1, 1, 3, 1), 2, 6, 10);
  expect_exact(situ_interpolate(image, TO(.size = SITU_DIMS(1), .mode = SITU_INTERPOLATE_BILINEAR, .antialias = true)),
               SITU_SHAPE(1, 1, 1, 1), 6);
}

/* A result of unchanged size has memory of its own. */
static void the_same_size(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(1, 1, 2), 1, 2), *y = situ_interpolate(x, TO(.size = SITU_DIMS(2)));
  situ_fill_(x, 5);
  expect_exact(y, SITU_SHAPE(1, 1, 2), 1, 2);
}

static void an_empty_batch(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(0, 2, 3), &(situ_options){ .device = test_device() });
  expect_exact(situ_interpolate(x, TO(.size = SITU_DIMS(5))), SITU_SHAPE(0, 2, 5), 0);
}

static situ_tensor *f_interpolate(situ_tensor *const *in, void *o) { return situ_interpolate(in[0], o); }
#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static void gradients(void **state) {
  (void)state;
  static const double factors[] = { 0.4, 1.7, 3 };
  for (int mode = SITU_INTERPOLATE_NEAREST; mode <= SITU_INTERPOLATE_NEAREST_EXACT; mode++)
    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++)
      for (int align = 0; align < 2; align++) {
        situ_interpolate_options o = { .scale_factor = { factors[k] }, .mode = (situ_interpolate_mode)mode };
        o.align_corners = align && mode != SITU_INTERPOLATE_NEAREST && mode < SITU_INTERPOLATE_AREA;
        if (mode == SITU_INTERPOLATE_LINEAR) gradcheck(f_interpolate, &o, R(2, 1, 5));
        else if (mode == SITU_INTERPOLATE_TRILINEAR) gradcheck(f_interpolate, &o, R(1, 1, 3, 4, 3));
        else gradcheck(f_interpolate, &o, R(1, 2, 4, 5));
        o.antialias = mode == SITU_INTERPOLATE_BILINEAR || mode == SITU_INTERPOLATE_BICUBIC;
        if (o.antialias) gradcheck(f_interpolate, &o, R(1, 1, 6, 5));
      }
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(1, 1, 2, 2), 1, 2, 3, 4);
#define REFUSED(code, text, ...) expect_refused(situ_interpolate(x, TO(__VA_ARGS__)), code, "interpolate", text)
  REFUSED(SITU_E_ARG, "either size or scale_factor", .mode = SITU_INTERPOLATE_BILINEAR);
  REFUSED(SITU_E_ARG, "either size or scale_factor", .size = SITU_DIMS(3), .scale_factor = { 2 });
  REFUSED(SITU_E_ARG, "has 3 values", .size = SITU_DIMS(3, 3, 3));
  REFUSED(SITU_E_ARG, "positive", .size = SITU_DIMS(0));
  REFUSED(SITU_E_ARG, "positive", .size = SITU_DIMS(-2));
  REFUSED(SITU_E_ARG, "scale_factor is 0.1", .scale_factor = { 0.1 });
  REFUSED(SITU_E_ARG, "scale_factor is nan", .scale_factor = { NAN });
  REFUSED(SITU_E_ARG, "not a mode", .size = SITU_DIMS(3), .mode = (situ_interpolate_mode)9);
  REFUSED(SITU_E_ARG, "align_corners", .size = SITU_DIMS(3), .align_corners = true);
  REFUSED(SITU_E_ARG, "antialias", .size = SITU_DIMS(3), .antialias = true);
  REFUSED(SITU_E_ARG, "recompute", .size = SITU_DIMS(3), .recompute_scale_factor = true);
  REFUSED(SITU_E_SHAPE, "mode linear of a tensor of 4", .size = SITU_DIMS(3), .mode = SITU_INTERPOLATE_LINEAR);
  REFUSED(SITU_E_OVERFLOW, "", .size = SITU_DIMS(INT64_MAX));
  expect_refused(situ_interpolate(T32(SITU_SHAPE(2, 2), 1, 2, 3, 4), TO(.size = SITU_DIMS(3))), SITU_E_SHAPE,
                 "interpolate", "2 dimensions");
  expect_refused(situ_interpolate(TBOOL(SITU_SHAPE(1, 1, 1), 1), TO(.size = SITU_DIMS(3))), SITU_E_DTYPE, "interpolate",
                 "bool");
}

static void the_module(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_upsample(TO(.scale_factor = { 2 }));
  expect_exact(situ_nn_forward(m, T32(SITU_SHAPE(1, 1, 2), 1, 2)), SITU_SHAPE(1, 1, 4), 1, 1, 2, 2);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values),    TEST(the_same_size), TEST(an_empty_batch),
                                      TEST(gradients), TEST(refusals),      TEST(the_module) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
