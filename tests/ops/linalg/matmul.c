/* Matrix products through the API: values, gradients, refusals.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

#include "situ/sys/alloc.h"

static void rank_cases(void **state) {
  (void)state;
  situ_tensor *v = T32(SITU_SHAPE(3), 1, 2, 3), *a = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6),
              *b = T32(SITU_SHAPE(3, 2), 1, 0, 0, 1, 2, 2);
  expect_exact(situ_matmul(v, v), SITU_SCALAR, 14);
  expect_exact(situ_matmul(a, v), SITU_SHAPE(2), 14, 32);
  expect_exact(situ_matmul(v, b), SITU_SHAPE(2), 7, 8);
  expect_exact(situ_matmul(a, b), SITU_SHAPE(2, 2), 7, 8, 16, 17);
  situ_tensor *batch = situ_stack((situ_tensor *[]){ a, a }, 2, 0);
  expect_exact(situ_matmul(batch, b), SITU_SHAPE(2, 2, 2), 7, 8, 16, 17, 7, 8, 16, 17);
  expect_exact(situ_matmul(a, situ_unsqueeze(b, 0)), SITU_SHAPE(1, 2, 2), 7, 8, 16, 17);
  expect_exact(situ_matmul(batch, v), SITU_SHAPE(2, 2), 14, 32, 14, 32);
  expect_exact(situ_mm(a, b), SITU_SHAPE(2, 2), 7, 8, 16, 17);
  expect_exact(situ_bmm(batch, situ_expand(b, SITU_SHAPE(2, 3, 2))), SITU_SHAPE(2, 2, 2), 7, 8, 16, 17, 7, 8, 16, 17);
  expect_exact(situ_mv(a, v), SITU_SHAPE(2), 14, 32);
  expect_exact(situ_dot(v, v), SITU_SCALAR, 14);
  expect_exact(situ_outer(v, v), SITU_SHAPE(3, 3), 1, 2, 3, 2, 4, 6, 3, 6, 9);
  expect_exact(situ_mm(TI64(SITU_SHAPE(1, 2), 3, 4), TI64(SITU_SHAPE(2, 1), 5, 6)), SITU_SHAPE(1, 1), 39);
}

/* One matrix times each of a batch, which may be made as one product with the columns of all. Whole numbers: every sum is exact. */
static void one_with_many(void **state) {
  (void)state;
  const situ_dtype dtypes[] = { SITU_F32, SITU_F64 };
  for (int t = 0; t < 2; t++) {
    situ_tensor *a = situ_to_dtype(situ_round(test_random(SITU_SHAPE(5, 200), -9, 9, false)), dtypes[t]);
    situ_tensor *b = situ_to_dtype(situ_round(test_random(SITU_SHAPE(19, 200, 11), -9, 9, false)), dtypes[t]);
    situ_tensor *y = situ_matmul(a, b);
    for (int i = 0; i < 19; i++) expect_same(situ_select(y, 0, i), situ_mm(a, situ_select(b, 0, i)), 0, 0);
  }
}

static void transposed_and_stepped_views(void **state) {
  (void)state;
  situ_tensor *a = T64(SITU_SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  expect_exact(situ_mm(situ_transpose(a, 0, 1), a), SITU_SHAPE(4, 4), 80, 92, 104, 116, 92, 107, 122, 137, 104, 122,
               140, 158, 116, 137, 158, 179);
  situ_tensor *even = situ_slice(a, 1, 0, INT64_MAX, 2);
  expect_exact(situ_mm(even, situ_transpose(even, 0, 1)), SITU_SHAPE(3, 3), 4, 12, 20, 12, 52, 92, 20, 92, 164);
}

static void nothing_to_add_up(void **state) {
  (void)state;
  situ_tensor *a = situ_zeros(SITU_SHAPE(2, 0), &(situ_options){ .device = test_device() }),
              *b = situ_zeros(SITU_SHAPE(0, 3), &(situ_options){ .device = test_device() });
  expect_exact(situ_mm(a, b), SITU_SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
  assert_int_equal(situ_numel(situ_mm(b, T32(SITU_SHAPE(3, 1), 1, 2, 3))), 0);
}

static void scaled_sums(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2), 10, NAN), *a = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4),
              *eye = T32(SITU_SHAPE(2, 2), 1, 0, 0, 1);
  expect_exact(situ_addmm(x, a, eye, NULL), SITU_SHAPE(2, 2), 11, NAN, 13, NAN);
  expect_exact(situ_addmm(x, a, eye, OPTIONS_AT(situ_addmm, with.beta = 0, with.alpha = 2)), SITU_SHAPE(2, 2), 2, 4, 6,
               8);
  situ_tensor *y = T32(SITU_SHAPE(1, 2, 2), 1, 1, 1, 1);
  expect_exact(situ_baddbmm(y, situ_unsqueeze(a, 0), situ_unsqueeze(eye, 0), OPTIONS_AT(situ_addmm, with.beta = -1)),
               SITU_SHAPE(1, 2, 2), 0, 1, 2, 3);
}

static void linear_layers(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *w = T32(SITU_SHAPE(2, 3), 1, 0, 1, 0, 1, 0),
              *b = T32(SITU_SHAPE(2), 10, 20);
  expect_exact(situ_linear(x, w, b), SITU_SHAPE(2, 2), 14, 22, 20, 25);
  expect_exact(situ_linear(x, w, NULL), SITU_SHAPE(2, 2), 4, 2, 10, 5);
  expect_exact(situ_linear(situ_select(x, 0, 0), w, b), SITU_SHAPE(2), 14, 22);
  expect_exact(situ_linear(situ_unsqueeze(x, 1), w, b), SITU_SHAPE(2, 1, 2), 14, 22, 20, 25);
  expect_exact(situ_linear(situ_transpose(situ_unsqueeze(x, 0), 0, 1), w, b), SITU_SHAPE(2, 1, 2), 14, 22, 20, 25);
}

/* ---- gradients ---- */

static situ_tensor *f_matmul(situ_tensor *const *in, void *p) {
  (void)p;
  return situ_matmul(in[0], in[1]);
}
static situ_tensor *f_mv(situ_tensor *const *in, void *p) {
  (void)p;
  return situ_mv(in[0], in[1]);
}
static situ_tensor *f_dot(situ_tensor *const *in, void *p) {
  (void)p;
  return situ_dot(in[0], in[1]);
}
static situ_tensor *f_outer(situ_tensor *const *in, void *p) {
  (void)p;
  return situ_outer(in[0], in[1]);
}
static situ_tensor *f_addmm(situ_tensor *const *in, void *p) { return situ_addmm(in[0], in[1], in[2], p); }
static situ_tensor *f_baddbmm(situ_tensor *const *in, void *p) { return situ_baddbmm(in[0], in[1], in[2], p); }
static situ_tensor *f_linear(situ_tensor *const *in, void *p) {
  (void)p;
  return situ_linear(in[0], in[1], in[2]);
}
static situ_tensor *f_turned(situ_tensor *const *in, void *p) {
  (void)p;
  return situ_matmul(situ_transpose(in[0], 0, 1), situ_transpose(in[1], 0, 1));
}

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static void gradients(void **state) {
  (void)state;
  gradcheck(f_matmul, NULL, R(1, 1), R(1, 1));
  gradcheck(f_matmul, NULL, R(3, 4), R(4, 2));
  gradcheck(f_matmul, NULL, R(17, 20), R(20, 18));
  gradcheck(f_matmul, NULL, R(3), R(3, 2));
  gradcheck(f_matmul, NULL, R(2, 3, 4), R(4));
  gradcheck(f_matmul, NULL, R(2, 3, 4), R(4, 2));
  gradcheck(f_matmul, NULL, R(3, 4), R(2, 4, 2));
  gradcheck(f_matmul, NULL, R(2, 1, 3, 4), R(3, 4, 2));
  gradcheck(f_turned, NULL, R(4, 3), R(2, 4));
  gradcheck(f_mv, NULL, R(3, 4), R(4));
  gradcheck(f_dot, NULL, R(5), R(5));
  gradcheck(f_outer, NULL, R(3), R(4));
  situ_addmm_options o = OPTIONS_OF(situ_addmm, with.beta = 0.5, with.alpha = -2);
  gradcheck(f_addmm, &o, R(3, 2), R(3, 4), R(4, 2));
  gradcheck(f_addmm, &o, R(2), R(3, 4), R(4, 2));
  gradcheck(f_baddbmm, &o, R(2, 3, 2), R(2, 3, 4), R(2, 4, 2));
  gradcheck(f_baddbmm, &o, R(1, 2), R(2, 3, 4), R(2, 4, 2));
  gradcheck(f_linear, NULL, R(3, 4), R(2, 4), R(2));
  gradcheck(f_linear, NULL, R(4), R(2, 4), R(2));
  gradcheck(f_linear, NULL, R(2, 3, 4), R(5, 4), R(5));
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *a = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *v = T32(SITU_SHAPE(2), 1, 2), *s = T32(SITU_SCALAR, 1),
              *d = T64(SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
  expect_refused(situ_matmul(a, a), SITU_E_SHAPE, "matmul", "3 and 2 differ");
  expect_refused(situ_matmul(a, s), SITU_E_SHAPE, "matmul", "dimensions");
  expect_refused(situ_matmul(a, v), SITU_E_SHAPE, "matmul", "differ");
  expect_refused(situ_matmul(situ_zeros(SITU_SHAPE(2, 2, 3), &(situ_options){ .device = test_device() }),
                             situ_zeros(SITU_SHAPE(3, 3, 2), &(situ_options){ .device = test_device() })),
                 SITU_E_SHAPE, "matmul", "");
  expect_refused(situ_matmul(a, d), SITU_E_DTYPE, "matmul", "f64");
  expect_refused(situ_mm(a, v), SITU_E_SHAPE, "mm", "dimensions");
  expect_refused(situ_bmm(a, a), SITU_E_SHAPE, "bmm", "dimensions");
  expect_refused(situ_mv(a, v), SITU_E_SHAPE, "mv", "differ");
  expect_refused(situ_dot(v, T32(SITU_SHAPE(3), 1, 2, 3)), SITU_E_SHAPE, "dot", "differ");
  expect_refused(situ_outer(a, v), SITU_E_SHAPE, "outer", "vectors");
  situ_tensor *whole = TI64(SITU_SHAPE(1, 1), 2);
  expect_refused(situ_addmm(whole, whole, whole, OPTIONS_AT(situ_addmm, with.beta = NAN)), SITU_E_ARG, "addmm",
                 "beta is");
  expect_refused(situ_addmm(whole, whole, whole, OPTIONS_AT(situ_addmm, with.alpha = INFINITY)), SITU_E_ARG, "addmm",
                 "alpha is inf");
  expect_refused(situ_addmm(T32(SITU_SHAPE(3), 1, 2, 3), a, situ_transpose(a, 0, 1), NULL), SITU_E_SHAPE, "addmm", "");
  expect_refused(situ_linear(a, v, NULL), SITU_E_SHAPE, "linear", "weight");
  expect_refused(situ_linear(v, a, NULL), SITU_E_SHAPE, "linear", "differ");
  expect_refused(situ_linear(a, a, T32(SITU_SHAPE(3), 1, 2, 3)), SITU_E_SHAPE, "linear", "bias");
  expect_refused(situ_mm(TBOOL(SITU_SHAPE(1, 1), 1), TBOOL(SITU_SHAPE(1, 1), 1)), SITU_E_DTYPE, "mm", "bool");
  expect_refused(situ_mm(a, NULL), SITU_E_ARG, "mm", "NULL");
  /* the device comes before the dtype and the shape */
  situ_tensor *elsewhere =
      situ_zeros(SITU_SHAPE(7, 7), &(situ_options){ .dtype = SITU_F64, .device = situ_dev("meta") });
  expect_refused(situ_mm(a, elsewhere), SITU_E_DEVICE, "mm", "meta");
}

/* A product that is split among threads asks for memory of their own. */
static void every_allocation_may_fail(void **state) {
  (void)state;
  situ_tensor *a = situ_round(test_random(SITU_SHAPE(300, 200), -9, 9, false)), *b = situ_transpose(a, 0, 1), *y;
  int failed = 0;
  for (uint64_t nth = 1;; nth++) {
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK); /* which would serve instead */
    situ_fail_allocation(nth, false);
    y = situ_matmul(a, b);
    situ_fail_allocation(0, false);
    if (y) break;
    failed++;
    expect_error(SITU_E_NOMEM, "", "");
  }
  assert_true(failed > 0);
  expect_same(y, situ_matmul(a, b), 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(rank_cases),        TEST(one_with_many), TEST(transposed_and_stepped_views),
                                      TEST(nothing_to_add_up), TEST(scaled_sums),   TEST(linear_layers),
                                      TEST(gradients),         TEST(refusals),      TEST(every_allocation_may_fail) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
