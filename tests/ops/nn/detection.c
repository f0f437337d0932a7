/* nms and roi_align, whose reference values are those of torchvision's formulas in plain loops (torchvision is not
   installed where golden values are made); gradients, refusals.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "support/test.h"

static void suppression(void **state) {
  (void)state;
  situ_tensor *boxes = T32(SITU_SHAPE(5, 4), 0, 0, 10, 10, 1, 1, 11, 11, 20, 20, 30, 30, 0, 0, 9, 10, 21, 20, 30, 30);
  situ_tensor *scores = T32(SITU_SHAPE(5), 0.5, 0.9, 0.3, 0.7, 0.8);
  /* intersection over union: 81 / 119 of boxes 0 and 1, 0.9 of 0 and 3 and of 2 and 4, 72 / 118 of 1 and 3 */
  expect_exact(situ_nms(boxes, scores, 0.5), SITU_SHAPE(2), 1, 4);
  expect_exact(situ_nms(boxes, scores, 0.65), SITU_SHAPE(3), 1, 4, 3);
  expect_exact(situ_nms(boxes, scores, 0.95), SITU_SHAPE(5), 1, 4, 3, 0, 2);
  const situ_options here = { .device = test_device() };
  expect_exact(situ_nms(situ_zeros(SITU_SHAPE(0, 4), &here), situ_zeros(SITU_SHAPE(0), &here), 0.5), SITU_SHAPE(0), 0);
}

/* Each box covers the next by 3 / 5 and that after by 1 / 3: every second one is kept, which takes a round each. */
static void chains(void **state) {
  (void)state;
  enum { N = 40 };
  float box[N][4], score[N];
  for (int i = 0; i < N; i++) {
    const float corner[4] = { (float)i, 0, (float)i + 4, 4 };
    for (int k = 0; k < 4; k++) box[i][k] = corner[k];
    score[i] = (float)-i;
  }
  const situ_options here = { .device = test_device() };
  situ_tensor *kept = situ_nms(situ_from_host(box, sizeof box, SITU_SHAPE(N, 4), &here),
                               situ_from_host(score, sizeof score, SITU_SHAPE(N), &here), 0.4);
  situ_tensor *want = situ_arange(0, N, 2, &(situ_options){ .dtype = SITU_I64, .device = test_device() });
  bool same = false;
  assert_int_equal(situ_allclose(kept, want, 0, 0, false, &same), SITU_OK);
  assert_true(same);
}

static situ_tensor *images(void) {
  return T32(SITU_SHAPE(2, 1, 3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 0, 3, 5, 2, 2, 8, 1, 7, 4, 0, 6);
}
static void regions(void **state) {
  (void)state;
#define REGION(image, x1, y1, x2, y2, scale, ratio, aligned, ...)                                                  \
  expect_close(                                                                                                    \
      situ_roi_align(images(), T32(SITU_SHAPE(1, 5), image, x1, y1, x2, y2), SITU_DIMS(2), scale, ratio, aligned), \
      SITU_SHAPE(1, 1, 2, 2), 1e-5, 1e-5, __VA_ARGS__)
  REGION(0, 0, 0, 3, 2, 1, 2, false, 2.75, 4.25, 6.75, 8.25);
  REGION(1, 0.5, 0.25, 3.75, 2.5, 1, -1, true, 1.2597656, 4.2070312, 3.4423828, 3.9257812);
  REGION(1, -4, -2, 9, 7, 0.5, -1, false, 0.85416667, 2.7890625, 2.6757812, 1.7438151);
  REGION(0, 6, 2, 1, 1, 0.5, 2, true, 3.375, 2.125, 2.375, 1.125);
  REGION(0, -9, -9, -8, -8, 1, 1, false, 0, 0, 0, 0);
  /* one size for rows, one for columns, channels apart, no boxes */
  situ_tensor *two = situ_reshape(images(), SITU_SHAPE(1, 2, 3, 4)), *box = T32(SITU_SHAPE(1, 5), 0, 0, 0, 3, 2);
  expect_close(situ_roi_align(two, box, SITU_DIMS(1, 1), 1, 1, false), SITU_SHAPE(1, 2, 1, 1), 0, 1e-6, 5.5, 5);
  expect_close(situ_roi_align(two, situ_narrow(box, 0, 0, 0), SITU_DIMS(1, 2), 1, -1, false), SITU_SHAPE(0, 2, 1, 2), 0,
               0, 0);
}

/* Which images boxes name is not known: there are no values. */
static void regions_without_values(void **state) {
  (void)state;
  const situ_options there = { .device = situ_dev("meta") };
  situ_tensor *boxes = situ_zeros(SITU_SHAPE(3, 5), &there);
  situ_tensor *y = situ_roi_align(situ_zeros(SITU_SHAPE(2, 1, 3, 4), &there), boxes, SITU_DIMS(2), 1, 2, false);
  const situ_shape shape = situ_shape_of(y);
  assert_true(situ_shape_equal(&shape, &SITU_SHAPE(3, 1, 2, 2)));
}

static situ_tensor *f_align(situ_tensor *const *in, void *o) {
  return situ_roi_align(in[0], in[1], SITU_DIMS(2, 3), 0.5, *(int *)o, *(int *)o > 0);
}
static void gradients(void **state) {
  (void)state;
  situ_tensor *boxes = T64(SITU_SHAPE(3, 5), 1, 0.5, 1, 6, 5, 0, -1, 0, 9, 3, 1, 2, 2, 3, 3);
  for (int ratio = 0; ratio <= 2; ratio += 2)
    gradcheck(f_align, &ratio, test_random(SITU_SHAPE(2, 2, 3, 4), -1, 1, true), boxes);
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *boxes = T32(SITU_SHAPE(1, 4), 0, 0, 1, 1), *rois = T32(SITU_SHAPE(1, 5), 2, 0, 0, 1, 1);
  expect_refused(situ_nms(boxes, T32(SITU_SHAPE(2), 1, 2), 0.5), SITU_E_SHAPE, "nms", "2 elements");
  expect_refused(situ_nms(rois, T32(SITU_SHAPE(1), 1), 0.5), SITU_E_SHAPE, "nms", "[1, 5]");
#define REFUSED(input, boxes, size, code, word) \
  expect_refused(situ_roi_align(input, boxes, size, 1, 0, false), code, "roi_align", word)
  REFUSED(images(), boxes, SITU_DIMS(1), SITU_E_SHAPE, "[1, 4]");
  REFUSED(images(), rois, SITU_DIMS(1), SITU_E_INDEX, "one of 2 images");
  REFUSED(situ_select(images(), 0, 0), rois, SITU_DIMS(1), SITU_E_SHAPE, "[1, 3, 4]");
  rois = T32(SITU_SHAPE(1, 5), 0, 0, 0, 1e9, 1);
  REFUSED(images(), rois, SITU_DIMS(1), SITU_E_ARG, "1e+09 pixels");
  REFUSED(images(), rois, SITU_DIMS(0), SITU_E_ARG, "output_size");
  REFUSED(images(), rois, SITU_DIMS(1, (1 << 20) + 1), SITU_E_ARG, "output_size");
  REFUSED(images(), rois, SITU_DIMS((1 << 20) + 1, 1), SITU_E_ARG, "output_size");
  REFUSED(images(), rois, SITU_DIMS(1, 1, 1), SITU_E_ARG, "output_size");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(suppression), TEST(chains),  TEST(regions), TEST(regions_without_values),
                                      TEST(gradients),   TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
