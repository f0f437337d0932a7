/* Reductions through the API: values, dtypes, gradients, nothing at all, refusals.
   SPDX-License-Identifier: MIT */
#include "situ/sys/alloc.h"
#include "support/test.h"

#include <math.h>

typedef situ_tensor *(*reduction)(situ_tensor *, const situ_reduce_options *);
static situ_tensor *var0(situ_tensor *x, const situ_reduce_options *o) { return situ_var(x, 0, o); }
static situ_tensor *var1(situ_tensor *x, const situ_reduce_options *o) { return situ_var(x, 1, o); }
static situ_tensor *std1(situ_tensor *x, const situ_reduce_options *o) { return situ_std(x, 1, o); }
static situ_tensor *norm1(situ_tensor *x, const situ_reduce_options *o) { return situ_norm(x, 1, o); }
static situ_tensor *norm2(situ_tensor *x, const situ_reduce_options *o) { return situ_norm(x, 2, o); }
static situ_tensor *norm3(situ_tensor *x, const situ_reduce_options *o) { return situ_norm(x, 3.5, o); }
static situ_tensor *norm_inf(situ_tensor *x, const situ_reduce_options *o) { return situ_norm(x, INFINITY, o); }
static situ_tensor *norm_least(situ_tensor *x, const situ_reduce_options *o) { return situ_norm(x, -INFINITY, o); }

#define OPTIONS(...) (&(situ_reduce_options){ __VA_ARGS__ })

static void values(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, -2, 3, 4, 5, -6);
  const situ_reduce_options *rows = OPTIONS(.dim = SITU_DIMS(1)),
                            *columns = OPTIONS(.dim = SITU_DIMS(0), .keepdim = true);
  expect_exact(situ_sum(x, NULL), SITU_SCALAR, 5);
  expect_exact(situ_sum(x, rows), SITU_SHAPE(2), 2, 3);
  expect_exact(situ_sum(x, OPTIONS(.dim = SITU_DIMS(-1, 0), .keepdim = true)), SITU_SHAPE(1, 1), 5);
  expect_exact(situ_mean(x, columns), SITU_SHAPE(1, 3), 2.5, 1.5, -1.5);
  expect_exact(situ_prod(x, rows), SITU_SHAPE(2), -6, -120);
  expect_exact(situ_amin(x, rows), SITU_SHAPE(2), -2, -6);
  expect_exact(situ_amax(x, columns), SITU_SHAPE(1, 3), 4, 5, 3);
  expect_exact(situ_max(x), SITU_SCALAR, 5);
  expect_exact(situ_min(x), SITU_SCALAR, -6);
  expect_values(situ_var(x, 1, rows), SITU_SHAPE(2), 19.0 / 3, 37);
  expect_values(situ_std(x, 0, rows), SITU_SHAPE(2), sqrt(38.0 / 9), sqrt(74.0 / 3));
  expect_values(situ_norm(x, 2, rows), SITU_SHAPE(2), sqrt(14), sqrt(77));
  expect_exact(situ_norm(x, 1, NULL), SITU_SCALAR, 21);
  expect_exact(situ_norm(x, INFINITY, rows), SITU_SHAPE(2), 3, 6);
  expect_exact(situ_norm(x, -INFINITY, rows), SITU_SHAPE(2), 1, 4);
  expect_exact(situ_norm(T32(SITU_SHAPE(3), 0, NAN, 2), 0, NULL), SITU_SCALAR, 2);
  expect_values(situ_logsumexp(x, rows), SITU_SHAPE(2), log(exp(1) + exp(-2) + exp(3)), log(exp(4) + exp(5) + exp(-6)));
  expect_exact(situ_all(T32(SITU_SHAPE(2, 2), 1, 0, NAN, 2), OPTIONS(.dim = SITU_DIMS(1))), SITU_SHAPE(2), 0, 1);
  expect_exact(situ_any(T32(SITU_SHAPE(2, 2), 0, 0, 0, 2), OPTIONS(.dim = SITU_DIMS(1))), SITU_SHAPE(2), 0, 1);
}

static void dtypes(void **state) {
  (void)state;
  situ_tensor *x = test_tensor(SITU_U8, SITU_SHAPE(3), (double[]){ 200, 100, 2 });
  assert_int_equal(situ_dtype_of(situ_sum(x, NULL)), SITU_I64);
  expect_exact(situ_sum(x, NULL), SITU_SCALAR, 302);
  expect_exact(situ_prod(x, NULL), SITU_SCALAR, 40000);
  expect_exact(situ_sum(TBOOL(SITU_SHAPE(3), 1, 0, 1), NULL), SITU_SCALAR, 2);
  assert_int_equal(situ_dtype_of(situ_amax(x, NULL)), SITU_U8);
  assert_int_equal(situ_dtype_of(situ_mean(x, OPTIONS(.dtype = SITU_F64))), SITU_F64);
  assert_int_equal(situ_dtype_of(situ_any(x, NULL)), SITU_BOOL);
  /* f16 adds in f32: 4096 ones and a half, which f16 could not add up one by one. */
  situ_tensor *half =
      situ_to_dtype(situ_full(SITU_SHAPE(4096), 1, &(situ_options){ .device = test_device() }), SITU_F16);
  expect_exact(situ_sum(half, NULL), SITU_SCALAR, 4096);
  expect_exact(situ_sum(half, OPTIONS(.dtype = SITU_F32)), SITU_SCALAR, 4096);
}

static void nan_and_infinity(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, NAN, 3, 4, INFINITY, -INFINITY);
  const situ_reduce_options *rows = OPTIONS(.dim = SITU_DIMS(1));
  expect_exact(situ_sum(x, rows), SITU_SHAPE(2), NAN, NAN);
  expect_exact(situ_amax(x, rows), SITU_SHAPE(2), NAN, INFINITY);
  expect_exact(situ_amin(x, rows), SITU_SHAPE(2), NAN, -INFINITY);
  expect_exact(situ_var(x, 1, rows), SITU_SHAPE(2), NAN, NAN);
  expect_exact(situ_logsumexp(x, rows), SITU_SHAPE(2), NAN, INFINITY);
  expect_exact(situ_logsumexp(T32(SITU_SHAPE(2), -INFINITY, -INFINITY), NULL), SITU_SCALAR, -INFINITY);
  expect_exact(situ_var(T32(SITU_SHAPE(1), 3), 1, NULL), SITU_SCALAR, NAN);
}

static void of_nothing(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(2, 0), &(situ_options){ .device = test_device() });
  const situ_reduce_options *rows = OPTIONS(.dim = SITU_DIMS(1)), *columns = OPTIONS(.dim = SITU_DIMS(0));
  expect_exact(situ_sum(x, rows), SITU_SHAPE(2), 0, 0);
  expect_exact(situ_prod(x, rows), SITU_SHAPE(2), 1, 1);
  expect_exact(situ_mean(x, NULL), SITU_SCALAR, NAN);
  expect_exact(situ_var(x, 1, rows), SITU_SHAPE(2), NAN, NAN);
  expect_exact(situ_all(x, NULL), SITU_SCALAR, 1);
  expect_exact(situ_any(x, NULL), SITU_SCALAR, 0);
  expect_exact(situ_norm(x, 2, NULL), SITU_SCALAR, 0);
  expect_exact(situ_logsumexp(x, rows), SITU_SHAPE(2), -INFINITY, -INFINITY);
  assert_int_equal(situ_numel(situ_amax(x, columns)), 0);
  expect_refused(situ_amax(x, rows), SITU_E_ARG, "amax", "no elements");
  expect_refused(situ_min(x), SITU_E_ARG, "min", "no elements");
  expect_refused(situ_argmax(x, NULL), SITU_E_ARG, "argmax", "no elements");
  expect_refused(situ_max_dim(x, 1, false, NULL), SITU_E_ARG, "max_dim", "no elements");
}

/* A view gives what a copy of it gives. */
static void views(void **state) {
  (void)state;
  static const reduction all[] = { situ_sum, situ_mean, situ_prod, situ_amin, situ_amax, var1, norm2, situ_logsumexp };
  situ_tensor *x = test_random(SITU_SHAPE(4, 5, 6), -1, 1, false);
  situ_tensor *seen[] = { situ_permute(x, SITU_DIMS(2, 0, 1)), situ_slice(x, 2, 1, 6, 2),
                          situ_expand(situ_narrow(x, 1, 2, 1), SITU_SHAPE(4, 3, 6)), situ_select(x, 0, 2) };
  for (size_t v = 0; v < 4; v++)
    for (size_t f = 0; f < sizeof all / sizeof *all; f++)
      for (int dim = -1; dim < situ_dim(seen[v]); dim++) {
        situ_reduce_options o = { .dim = { .ndim = dim >= 0, .dim = { dim } } };
        expect_same(all[f](seen[v], &o), all[f](situ_clone(situ_contiguous(seen[v])), &o), 1e-12, 1e-12);
      }
}

typedef struct checked {
  reduction f;
  situ_reduce_options o;
} checked;
static situ_tensor *run(situ_tensor *const *in, void *payload) {
  const checked *c = payload;
  return c->f(in[0], &c->o);
}

static void gradients(void **state) {
  (void)state;
  static const reduction all[] = { situ_sum, situ_mean, situ_prod, situ_amin, situ_amax, var0,       var1,
                                   std1,     norm1,     norm2,     norm3,     norm_inf,  norm_least, situ_logsumexp };
  for (size_t f = 0; f < sizeof all / sizeof *all; f++) {
    checked c = { .f = all[f] };
    if (all[f] != var1 && all[f] != std1) gradcheck(run, &c, test_random(SITU_SCALAR, 0.5, 2, true));
    gradcheck(run, &c, test_random(SITU_SHAPE(7), 0.5, 2, true));
    gradcheck(run, &c, test_random(SITU_SHAPE(3, 4), -2, 2, true));
    c.o = (situ_reduce_options){ .dim = SITU_DIMS(1) };
    gradcheck(run, &c, test_random(SITU_SHAPE(3, 4), -2, 2, true));
    gradcheck(run, &c, test_random(SITU_SHAPE(2, 3, 2), -2, 2, true));
    c.o = (situ_reduce_options){ .dim = SITU_DIMS(0, -1), .keepdim = true };
    gradcheck(run, &c, test_random(SITU_SHAPE(2, 3, 4), -2, 2, true));
    gradcheck(run, &c, test_random(SITU_SHAPE(3, 1, 2, 2), -2, 2, true));
  }
}

/* What finite differences cannot look at: ties, zeroes, NaN. */
static void gradients_at_corners(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(4), 2, 1, 2, 0), true);
  assert_int_equal(situ_backward(situ_amax(x, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(4), 0.5, 0, 0.5, 0);
  situ_tensor *y = situ_requires_grad_(T32(SITU_SHAPE(3), 2, 0, 3), true);
  assert_int_equal(situ_backward(situ_prod(y, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(y), SITU_SHAPE(3), 0, 6, 0);
  situ_tensor *z = situ_requires_grad_(T32(SITU_SHAPE(3), 0, 0, 3), true);
  assert_int_equal(situ_backward(situ_prod(z, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(z), SITU_SHAPE(3), 0, 0, 0);
  situ_tensor *n = situ_requires_grad_(T32(SITU_SHAPE(2), 0, 0), true);
  assert_int_equal(situ_backward(situ_norm(n, 2, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(n), SITU_SHAPE(2), 0, 0);
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
  expect_refused(situ_sum_to_size(x, SITU_SHAPE(2)), SITU_E_SHAPE, "sum_to_size",
                 "size is [2], which does not broadcast to input's, [2, 3]");
  expect_refused(situ_sum_to_size(T32(SITU_SCALAR, 1), SITU_SHAPE(1)), SITU_E_SHAPE, "sum_to_size", "[1]");
  expect_refused(situ_sum(x, OPTIONS(.dim = SITU_DIMS(1, -1))), SITU_E_ARG, "sum", "twice");
  expect_refused(situ_sum(x, OPTIONS(.dim = SITU_DIMS(2))), SITU_E_ARG, "sum", "2");
  expect_refused(situ_amax(x, OPTIONS(.dim = SITU_DIMS(-3))), SITU_E_ARG, "amax", "-3");
  expect_refused(situ_mean(TI64(SITU_SHAPE(2), 1, 2), NULL), SITU_E_DTYPE, "mean", "i64");
  expect_refused(situ_var(TI64(SITU_SHAPE(2), 1, 2), 1, NULL), SITU_E_DTYPE, "var", "floating");
  expect_refused(situ_norm(x, NAN, NULL), SITU_E_ARG, "norm", "NaN");
  expect_refused(situ_sum(x, OPTIONS(.dtype = (situ_dtype)77)), SITU_E_DTYPE, "sum", "77");
  expect_refused(situ_sum(x, OPTIONS(.dim = { .ndim = 9 })), SITU_E_ARG, "sum", "9");
  expect_refused(situ_sum(NULL, NULL), SITU_E_ARG, "sum", "NULL");
}

/* Large enough to be added up in parts, which need memory. */
static void parts_without_memory(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(100000, 2), &(situ_options){ .dtype = SITU_F32, .device = test_device() });
  situ_reduce_options rows = { .dim = SITU_DIMS(0) };
  expect_exact(situ_sum(x, &rows), SITU_SHAPE(2), 100000, 100000);
  for (uint64_t nth = 1;; nth++) {
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
    situ_fail_allocation(nth, false);
    situ_tensor *y = situ_sum(x, &rows);
    situ_status status = situ_synchronize(test_device());
    situ_fail_allocation(0, false);
    if (y && status == SITU_OK) break;
    expect_error(SITU_E_NOMEM, "", "");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values),
                                      TEST(dtypes),
                                      TEST(nan_and_infinity),
                                      TEST(of_nothing),
                                      TEST(views),
                                      TEST(gradients),
                                      TEST(gradients_at_corners),
                                      TEST(refusals),
                                      TEST(parts_without_memory) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
