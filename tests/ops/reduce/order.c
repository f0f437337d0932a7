/* Extremes with their places, running sums, sorting and topk through the API.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

static void extremes(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 4), 3, 7, 7, 1, NAN, 2, NAN, 5), *at = NULL;
  expect_exact(situ_max_dim(x, 1, false, &at), SITU_SHAPE(2), 7, NAN);
  expect_exact(at, SITU_SHAPE(2), 1, 0);
  assert_int_equal(situ_dtype_of(at), SITU_I64);
  expect_exact(situ_min_dim(x, -1, true, &at), SITU_SHAPE(2, 1), 1, NAN);
  expect_exact(at, SITU_SHAPE(2, 1), 3, 0);
  expect_exact(situ_max_dim(x, 0, false, NULL), SITU_SHAPE(4), NAN, 7, NAN, 5);
  expect_exact(situ_argmax(x, NULL), SITU_SCALAR, 4);
  expect_exact(situ_argmin(T32(SITU_SHAPE(4), 2, 1, 1, 3), NULL), SITU_SCALAR, 1);
  expect_exact(situ_argmax(x, &(situ_reduce_options){ .dim = SITU_DIMS(0), .keepdim = true }), SITU_SHAPE(1, 4), 1, 0,
               1, 1);
  expect_exact(situ_argmax(T32(SITU_SCALAR, 5), NULL), SITU_SCALAR, 0);
  expect_exact(situ_max_dim(T32(SITU_SCALAR, 5), 0, false, &at), SITU_SCALAR, 5);
  expect_exact(situ_argmax(situ_transpose(T32(SITU_SHAPE(2, 3), 1, 9, 3, 4, 5, 6), 0, 1),
                           &(situ_reduce_options){ .dim = SITU_DIMS(0) }),
               SITU_SHAPE(2), 1, 2);
}

static void running_sums(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, NAN, 6);
  expect_exact(situ_cumsum(x, 1), SITU_SHAPE(2, 3), 1, 3, 6, 4, NAN, NAN);
  expect_exact(situ_cumsum(x, 0), SITU_SHAPE(2, 3), 1, 2, 3, 5, NAN, 9);
  expect_exact(situ_cumsum(situ_transpose(x, 0, 1), 0), SITU_SHAPE(3, 2), 1, 4, 3, NAN, 6, NAN);
  situ_tensor *whole = situ_cumsum(test_tensor(SITU_U8, SITU_SHAPE(3), (double[]){ 200, 100, 1 }), 0);
  assert_int_equal(situ_dtype_of(whole), SITU_I64);
  expect_exact(whole, SITU_SHAPE(3), 200, 300, 301);
  expect_exact(situ_cumsum(T32(SITU_SCALAR, 4), 0), SITU_SCALAR, 4);
  assert_int_equal(situ_numel(situ_cumsum(situ_zeros(SITU_SHAPE(2, 0), &(situ_options){ .device = test_device() }), 1)),
                   0);
}

static void running_products(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, NAN, 6);
  expect_exact(situ_cumprod(x, 1), SITU_SHAPE(2, 3), 1, 2, 6, 4, NAN, NAN);
  expect_exact(situ_cumprod(x, 0), SITU_SHAPE(2, 3), 1, 2, 3, 4, NAN, 18);
  situ_tensor *whole = situ_cumprod(test_tensor(SITU_U8, SITU_SHAPE(3), (double[]){ 200, 100, 3 }), 0);
  assert_int_equal(situ_dtype_of(whole), SITU_I64);
  expect_exact(whole, SITU_SHAPE(3), 200, 20000, 60000);
  expect_exact(situ_cumprod(T32(SITU_SCALAR, 4), 0), SITU_SCALAR, 4);
  expect_refused(situ_cumprod(x, 2), SITU_E_ARG, "cumprod", "2");
}

/* The sum of cumprod(2, 0, 3, 0, 5): factors behind the first 0 change nothing, and the 0 itself has a gradient. */
static void products_with_zeros(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(5), 2, 0, 3, 0, 5), true);
  assert_int_equal(situ_backward(situ_sum(situ_cumprod(x, 0), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(5), 1, 8, 0, 0, 0);
}

static void sorting(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 5), 3, NAN, 1, 3, -INFINITY, 0, -0.0, 2, INFINITY, 2), *from = NULL;
  expect_exact(situ_sort(x, 1, false, &from), SITU_SHAPE(2, 5), -INFINITY, 1, 3, 3, NAN, 0, 0, 2, 2, INFINITY);
  expect_exact(from, SITU_SHAPE(2, 5), 4, 2, 0, 3, 1, 0, 1, 2, 4, 3);
  expect_exact(situ_sort(x, -1, true, &from), SITU_SHAPE(2, 5), NAN, 3, 3, 1, -INFINITY, INFINITY, 2, 2, 0, 0);
  expect_exact(from, SITU_SHAPE(2, 5), 1, 0, 3, 2, 4, 3, 2, 4, 0, 1);
  expect_exact(situ_argsort(T32(SITU_SHAPE(3, 2), 3, 1, 1, 2, 2, 0), 0, false), SITU_SHAPE(3, 2), 1, 2, 2, 0, 0, 1);
  expect_exact(situ_topk(x, 2, 1, true, &from), SITU_SHAPE(2, 2), NAN, 3, INFINITY, 2);
  expect_exact(from, SITU_SHAPE(2, 2), 1, 0, 3, 2);
  expect_exact(situ_topk(x, 2, 1, false, NULL), SITU_SHAPE(2, 2), -INFINITY, 1, 0, 0);
  expect_exact(situ_topk(x, 1, 0, true, NULL), SITU_SHAPE(1, 5), 3, NAN, 2, INFINITY, 2);
  expect_exact(situ_sort(T32(SITU_SCALAR, 4), 0, false, &from), SITU_SCALAR, 4);
  assert_int_equal(situ_numel(situ_topk(x, 0, 1, true, NULL)), 0);
  assert_int_equal(
      situ_numel(situ_sort(situ_zeros(SITU_SHAPE(0), &(situ_options){ .device = test_device() }), 0, false, NULL)), 0);
}

typedef struct along {
  int dim, way;
} along;
static situ_tensor *do_max(situ_tensor *const *in, void *p) {
  return situ_max_dim(in[0], ((along *)p)->dim, ((along *)p)->way, NULL);
}
static situ_tensor *do_min(situ_tensor *const *in, void *p) {
  return situ_min_dim(in[0], ((along *)p)->dim, ((along *)p)->way, NULL);
}
static situ_tensor *do_cumsum(situ_tensor *const *in, void *p) { return situ_cumsum(in[0], ((along *)p)->dim); }
static situ_tensor *do_cumprod(situ_tensor *const *in, void *p) { return situ_cumprod(in[0], ((along *)p)->dim); }
static situ_tensor *do_sort(situ_tensor *const *in, void *p) {
  return situ_sort(in[0], ((along *)p)->dim, ((along *)p)->way, NULL);
}
static situ_tensor *do_topk(situ_tensor *const *in, void *p) {
  return situ_topk(in[0], 1, ((along *)p)->dim, ((along *)p)->way, NULL);
}

static void gradients(void **state) {
  (void)state;
  static const test_function all[] = { do_max, do_min, do_cumsum, do_cumprod, do_sort, do_topk };
  for (int f = 0; f < 6; f++)
    for (int way = 0; way < 2; way++) {
      along first = { 0, way }, middle = { 1, way }, last = { -1, way };
      gradcheck(all[f], &first, test_random(SITU_SCALAR, -1, 1, true));
      gradcheck(all[f], &first, test_random(SITU_SHAPE(1), -1, 1, true));
      gradcheck(all[f], &first, test_random(SITU_SHAPE(9), -1, 1, true));
      gradcheck(all[f], &first, test_random(SITU_SHAPE(4, 3), -1, 1, true));
      gradcheck(all[f], &last, test_random(SITU_SHAPE(4, 3), -1, 1, true));
      gradcheck(all[f], &last, test_random(SITU_SHAPE(2, 1, 5), -1, 1, true));
      gradcheck(all[f], &middle, test_random(SITU_SHAPE(2, 3, 4), -1, 1, true));
    }
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
  expect_refused(situ_topk(x, 4, 1, true, NULL), SITU_E_ARG, "topk", "4");
  expect_refused(situ_topk(x, -1, 1, true, NULL), SITU_E_ARG, "topk", "-1");
  expect_refused(situ_topk(x, 1, 2, true, NULL), SITU_E_ARG, "topk", "2");
  expect_refused(situ_sort(x, -3, false, NULL), SITU_E_ARG, "sort", "-3");
  expect_refused(situ_cumsum(x, 2), SITU_E_ARG, "cumsum", "2");
  expect_refused(situ_argmax(x, &(situ_reduce_options){ .dim = SITU_DIMS(0, 1) }), SITU_E_ARG, "argmax",
                 "2 dimensions");
  expect_refused(situ_max_dim(NULL, 0, false, NULL), SITU_E_ARG, "max_dim", "NULL");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(extremes),         TEST(running_sums),
                                      TEST(running_products), TEST(products_with_zeros),
                                      TEST(sorting),          TEST(gradients),
                                      TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
