/* softmax, log_softmax, dropout and the norms through the API: values, gradients, refusals.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

static situ_options here(situ_dtype dtype) { return (situ_options){ .device = test_device(), .dtype = dtype }; }

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -2, 2, false)
#define G(...) test_random(SITU_SHAPE(__VA_ARGS__), -2, 2, true)
#define DIMS(...) (&(situ_reduce_options){ .dim = SITU_DIMS(__VA_ARGS__), .keepdim = true })

/* ---- softmax ---- */

static void softmax_values(void **state) {
  (void)state;
  double e = exp(1), s = 1 + e + e * e;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 0, 1, 2, 1000, 1001, 1002);
  expect_values(situ_softmax(x, 1), SITU_SHAPE(2, 3), 1 / s, e / s, e * e / s, 1 / s, e / s, e * e / s);
  expect_values(situ_log_softmax(x, -1), SITU_SHAPE(2, 3), -log(s), 1 - log(s), 2 - log(s), -log(s), 1 - log(s),
                2 - log(s));
  expect_exact(situ_softmax(x, 0), SITU_SHAPE(2, 3), 0, 0, 0, 1, 1, 1);
  expect_same(situ_softmax(situ_transpose(x, 0, 1), 0), situ_transpose(situ_softmax(x, 1), 0, 1), 1e-6, 0);
  expect_exact(situ_softmax(T32(SITU_SHAPE(2, 2), -INFINITY, -INFINITY, -INFINITY, 0), 1), SITU_SHAPE(2, 2), NAN, NAN,
               0, 1);
  expect_exact(situ_log_softmax(T32(SITU_SHAPE(2, 2), NAN, 0, INFINITY, 0), 1), SITU_SHAPE(2, 2), NAN, NAN, NAN, NAN);
  expect_exact(situ_softmax(T32(SITU_SCALAR, 3), 0), SITU_SCALAR, 1);
  const situ_options f32 = here(SITU_F32);
  assert_int_equal(situ_numel(situ_softmax(situ_zeros(SITU_SHAPE(2, 0), &f32), 1)), 0);
  assert_int_equal(situ_dtype_of(situ_softmax(
                       situ_zeros(SITU_SHAPE(2), &(situ_options){ .device = test_device(), .dtype = SITU_BF16 }), 0)),
                   SITU_BF16);
  expect_refused(situ_softmax(x, 2), SITU_E_ARG, "softmax", "2");
  expect_refused(situ_softmax(TI64(SITU_SHAPE(2), 1, 2), 0), SITU_E_DTYPE, "softmax", "i64");
}

static situ_tensor *do_softmax(situ_tensor *const *in, void *dim) { return situ_softmax(in[0], *(int *)dim); }
static situ_tensor *do_log_softmax(situ_tensor *const *in, void *dim) { return situ_log_softmax(in[0], *(int *)dim); }

static void softmax_gradients(void **state) {
  (void)state;
  static const test_function all[] = { do_softmax, do_log_softmax };
  int first = 0, middle = 1, last = -1;
  for (int f = 0; f < 2; f++) {
    gradcheck(all[f], &first, test_random(SITU_SCALAR, -1, 1, true));
    gradcheck(all[f], &first, G(1));
    gradcheck(all[f], &first, G(11));
    gradcheck(all[f], &first, G(4, 3));
    gradcheck(all[f], &last, G(4, 3));
    gradcheck(all[f], &middle, G(2, 5, 3));
    gradcheck(all[f], &last, G(2, 1, 70));
  }
}

/* ---- dropout ---- */

static void dropout(void **state) {
  (void)state;
  const situ_options f32 = here(SITU_F32);
  situ_tensor *x = situ_requires_grad_(situ_ones(SITU_SHAPE(100, 100), &f32), true);
  assert_ptr_equal(situ_dropout(x, 0.5, false, NULL), x);
  assert_ptr_equal(situ_dropout(x, 0, true, NULL), x);
  expect_same(situ_dropout(x, 1, true, NULL), situ_zeros_like(x, NULL), 0, 0);
  situ_generator a = situ_generator_seeded(5), b = situ_generator_seeded(5);
  situ_tensor *y = situ_dropout(x, 0.25, true, &a);
  expect_same(situ_dropout(x, 0.25, true, &b), y, 0, 0);
  double mean, kept;
  assert_int_equal(situ_item(situ_mean(y, NULL), &mean), SITU_OK);
  assert_int_equal(situ_item(situ_mean(situ_to_dtype(situ_ne_scalar(y, 0), SITU_F32), NULL), &kept), SITU_OK);
  assert_true(fabs(mean - 1) < 0.03 && fabs(kept - 0.75) < 0.02);
  /* The gradient is dropped where the value was. */
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_same(situ_grad(x), situ_detach(y), 0, 0);
  expect_refused(situ_dropout(x, -0.1, true, NULL), SITU_E_ARG, "dropout", "-0.1");
  expect_refused(situ_dropout(x, 1.5, true, NULL), SITU_E_ARG, "dropout", "1.5");
  expect_refused(situ_dropout(x, NAN, true, NULL), SITU_E_ARG, "dropout", "nan");
}

/* ---- norms: against their definition ---- */

static situ_tensor *defined(situ_tensor *x, const situ_reduce_options *dims, double eps) {
  situ_tensor *off = situ_sub(x, situ_mean(x, dims));
  return situ_div(off, situ_sqrt(situ_add_scalar(situ_var(x, 0, dims), eps)));
}

static void norms_as_defined(void **state) {
  (void)state;
  situ_tensor *x = R(4, 6, 5), *w = R(6, 5), *b = R(6, 5), *w5 = R(5), *w6 = R(6), *b6 = R(6);
  expect_same(situ_layer_norm(x, SITU_SHAPE(5), NULL, NULL, 1e-5), defined(x, DIMS(2), 1e-5), 1e-10, 1e-10);
  expect_same(situ_layer_norm(x, SITU_SHAPE(6, 5), w, b, 0.1), situ_add(situ_mul(defined(x, DIMS(1, 2), 0.1), w), b),
              1e-10, 1e-10);
  expect_same(situ_layer_norm(situ_transpose(x, 0, 2), SITU_SHAPE(4), NULL, NULL, 1e-5),
              defined(situ_transpose(x, 0, 2), DIMS(2), 1e-5), 1e-10, 1e-10);
  situ_tensor *square = situ_mean(situ_square(x), DIMS(2));
  expect_same(situ_rms_norm(x, SITU_SHAPE(5), w5, 0.01),
              situ_mul(situ_mul(x, situ_rsqrt(situ_add_scalar(square, 0.01))), w5), 1e-10, 1e-10);
  situ_tensor *grouped =
      situ_reshape(defined(situ_reshape(x, SITU_SHAPE(4, 2, 15)), DIMS(2), 1e-5), SITU_SHAPE(4, 6, 5));
  situ_tensor *per_channel = situ_reshape(w6, SITU_SHAPE(6, 1)), *shift = situ_reshape(b6, SITU_SHAPE(6, 1));
  expect_same(situ_group_norm(x, 2, w6, b6, 1e-5), situ_add(situ_mul(grouped, per_channel), shift), 1e-10, 1e-10);
  /* Planes of 12, which a kernel of its own takes where there is one. */
  situ_tensor *planes = R(2, 6, 3, 4), *rows = situ_reshape(planes, SITU_SHAPE(2, 3, 24));
  situ_tensor *wide = situ_reshape(w6, SITU_SHAPE(6, 1, 1)), *raised = situ_reshape(b6, SITU_SHAPE(6, 1, 1));
  rows = situ_reshape(defined(rows, DIMS(2), 0.1), SITU_SHAPE(2, 6, 3, 4));
  expect_same(situ_group_norm(planes, 3, NULL, NULL, 0.1), rows, 1e-10, 1e-10);
  expect_same(situ_group_norm(planes, 3, w6, NULL, 0.1), situ_mul(rows, wide), 1e-10, 1e-10);
  expect_same(situ_group_norm(situ_contiguous(planes), 3, w6, b6, 0.1), situ_add(situ_mul(rows, wide), raised), 1e-10,
              1e-10);
  expect_same(situ_group_norm(situ_transpose(planes, 2, 3), 3, w6, b6, 0.1),
              situ_transpose(situ_add(situ_mul(rows, wide), raised), 2, 3), 1e-10, 1e-10);
  situ_batch_norm_options training = OPTIONS_OF(situ_batch_norm, with.training = true);
  expect_same(situ_batch_norm(x, NULL, NULL, w6, b6, &training),
              situ_add(situ_mul(defined(x, DIMS(0, 2), 1e-5), per_channel), shift), 1e-10, 1e-10);
}

static void running_statistics(void **state) {
  (void)state;
  situ_tensor *x = T64(SITU_SHAPE(4, 1), 1, 2, 3, 6), *mean = T64(SITU_SHAPE(1), 10), *var = T64(SITU_SHAPE(1), 20);
  situ_batch_norm_options train = OPTIONS_OF(situ_batch_norm, with.training = true, with.momentum = 0.5),
                          eval = OPTIONS_OF(situ_batch_norm, with.eps = 1e-9);
  assert_non_null(situ_batch_norm(x, mean, var, NULL, NULL, &train));
  situ_tensor *three = situ_ones(SITU_SHAPE(3, 2), &(situ_options){ .dtype = SITU_F64, .device = test_device() });
  situ_tensor *gaps = situ_select(three, 1, 0), *whole = T64(SITU_SHAPE(3), 1, 1, 1);
  situ_tensor *rows = T64(SITU_SHAPE(2, 3), 1, 2, 3, 1, 2, 3),
              *shared = situ_expand(T64(SITU_SHAPE(1), 1), SITU_SHAPE(3));
  expect_refused(situ_batch_norm(rows, whole, shared, NULL, NULL, &train), SITU_E_ALIAS, "batch_norm",
                 "running_var is updated in place, but its elements share memory");
  assert_non_null(situ_batch_norm(rows, whole, gaps, NULL, NULL, &train));
  expect_exact(whole, SITU_SHAPE(3), 1, 1.5, 2);
  expect_exact(three, SITU_SHAPE(3, 2), 0.5, 1, 0.5, 1, 0.5, 1);
  expect_values(mean, SITU_SHAPE(1), 6.5);
  expect_values(var, SITU_SHAPE(1), 10 + 7.0 / 3);
  expect_values(situ_batch_norm(x, mean, var, NULL, NULL, &eval), SITU_SHAPE(4, 1), -5.5 / sqrt(37.0 / 3),
                -4.5 / sqrt(37.0 / 3), -3.5 / sqrt(37.0 / 3), -0.5 / sqrt(37.0 / 3));
  expect_values(mean, SITU_SHAPE(1), 6.5);
}

typedef struct norm_call {
  situ_shape shape;
  int64_t groups;
  situ_tensor *mean, *var;
  situ_batch_norm_options o;
} norm_call;
static situ_tensor *do_layer(situ_tensor *const *in, void *p) {
  return situ_layer_norm(in[0], ((norm_call *)p)->shape, in[1], in[2], 1e-5);
}
static situ_tensor *do_layer_bare(situ_tensor *const *in, void *p) {
  return situ_layer_norm(in[0], ((norm_call *)p)->shape, NULL, NULL, 1e-5);
}
static situ_tensor *do_rms(situ_tensor *const *in, void *p) {
  return situ_rms_norm(in[0], ((norm_call *)p)->shape, in[1], SITU_NONE);
}
static situ_tensor *do_group(situ_tensor *const *in, void *p) {
  return situ_group_norm(in[0], ((norm_call *)p)->groups, in[1], in[2], 1e-5);
}
static situ_tensor *do_batch(situ_tensor *const *in, void *p) {
  const norm_call *n = p;
  return situ_batch_norm(in[0], n->mean, n->var, in[1], in[2], &n->o);
}

static void norm_gradients(void **state) {
  (void)state;
  norm_call five = { .shape = SITU_SHAPE(5) }, one = { .shape = SITU_SHAPE(1) }, plane = { .shape = SITU_SHAPE(3, 5) },
            many = { .shape = SITU_SHAPE(70) };
  gradcheck(do_layer, &five, G(5), G(5), G(5));
  gradcheck(do_layer, &five, G(4, 5), G(5), G(5));
  gradcheck(do_layer, &five, G(2, 3, 5), G(5), G(5));
  gradcheck(do_layer, &plane, G(2, 3, 5), G(3, 5), G(3, 5));
  gradcheck(do_layer, &many, G(3, 70), G(70), G(70));
  gradcheck(do_layer_bare, &one, G(3, 1));
  gradcheck(do_layer_bare, &five, G(3, 5));
  gradcheck(do_rms, &five, G(5), G(5));
  gradcheck(do_rms, &five, G(4, 5), G(5));
  gradcheck(do_rms, &plane, G(2, 3, 5), G(3, 5));
  gradcheck(do_rms, &one, G(3, 1), G(1));
  gradcheck(do_rms, &many, G(2, 70), G(70));
  gradcheck(do_rms, &five, G(2, 2, 5), G(5));
  for (int64_t groups = 1; groups <= 4; groups *= 2) {
    norm_call g = { .groups = groups };
    gradcheck(do_group, &g, G(2, 4, 3), G(4), G(4));
    gradcheck(do_group, &g, G(1, 4, 2, 2), G(4), G(4));
    gradcheck(do_group, &g, G(2, 4, 3, 3), G(4), G(4));
  }
  norm_call train = { .o = OPTIONS_OF(situ_batch_norm, with.training = true) }, eval = {
    .o = situ_batch_norm_defaults(), .mean = T64(SITU_SHAPE(3), 0.5, -1, 0), .var = T64(SITU_SHAPE(3), 1, 2, 0.3)
  };
  norm_call *const ways[] = { &train, &eval };
  for (int k = 0; k < 2; k++) {
    gradcheck(do_batch, ways[k], G(4, 3), G(3), G(3));
    gradcheck(do_batch, ways[k], G(2, 3, 4), G(3), G(3));
    gradcheck(do_batch, ways[k], G(1, 3, 5), G(3), G(3));
    gradcheck(do_batch, ways[k], G(2, 3, 2, 3), G(3), G(3));
    gradcheck(do_batch, ways[k], G(7, 3, 1), G(3), G(3));
    gradcheck(do_batch, ways[k], G(2, 3, 1, 2), G(3), G(3));
  }
}

static situ_tensor *by_layer_norm(situ_tensor *const *in, const void *p) {
  const int64_t groups = ((const norm_call *)p)->groups;
  const situ_shape shape = situ_shape_of(in[0]), channel = SITU_SHAPE(shape.dim[1], 1);
  const int64_t width = situ_numel(in[0]) / shape.dim[0] / groups;
  situ_tensor *rows = situ_reshape(in[0], SITU_SHAPE(shape.dim[0], groups, width));
  situ_tensor *y = situ_reshape(situ_layer_norm(rows, SITU_SHAPE(width), NULL, NULL, 1e-5), shape);
  return situ_add(situ_mul(y, situ_reshape(in[1], channel)), situ_reshape(in[2], channel));
}

/* The cpu backend reads groups that fit into a cache once, larger ones twice: in both directions at 20,000 elements of a
   channel, in neither at 80,000. */
static void large_groups(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) return;
  for (int64_t size = 20000; size <= 80000; size += 20000) {
    norm_call call = { .groups = 2 };
    situ_tensor *in[] = { G(2, 4, size), G(4), G(4) }, *up = R(2, 4, size), *got[3], *want[3];
    situ_tensor *y = do_group(in, &call), *z = by_layer_norm(in, &call);
    expect_same(y, z, 1e-9, 1e-9);
    assert_int_equal(situ_autograd_grad(situ_sum(situ_mul(y, up), NULL), 3, in, got, NULL), SITU_OK);
    assert_int_equal(situ_autograd_grad(situ_sum(situ_mul(z, up), NULL), 3, in, want, NULL), SITU_OK);
    for (int k = 0; k < 3; k++) expect_same(got[k], want[k], 1e-9, 1e-9);
  }
}

/* Rows 45 and 46. */
static void norm_refusals(void **state) {
  (void)state;
  situ_tensor *x = R(2, 6, 5), *four = R(4), *five = R(5), *six = R(6);
  situ_batch_norm_options train = OPTIONS_OF(situ_batch_norm, with.training = true);
  expect_refused(situ_layer_norm(x, SITU_SHAPE(6), NULL, NULL, 1e-5), SITU_E_SHAPE, "layer_norm", "[6]");
  expect_refused(situ_layer_norm(x, SITU_SCALAR, NULL, NULL, 1e-5), SITU_E_SHAPE, "layer_norm", "normalized_shape");
  expect_refused(situ_layer_norm(x, SITU_SHAPE(5), six, NULL, 1e-5), SITU_E_SHAPE, "layer_norm", "weight");
  expect_refused(situ_layer_norm(x, SITU_SHAPE(5), five, four, 1e-5), SITU_E_SHAPE, "layer_norm", "bias");
  expect_refused(situ_layer_norm(x, SITU_SHAPE(5), NULL, NULL, -1), SITU_E_ARG, "layer_norm", "eps");
  expect_refused(situ_rms_norm(x, SITU_SHAPE(5), NULL, NAN), SITU_E_ARG, "rms_norm", "eps");
  expect_refused(situ_rms_norm(x, SITU_SHAPE(5), six, SITU_NONE), SITU_E_SHAPE, "rms_norm", "weight");
  expect_refused(situ_group_norm(x, 0, NULL, NULL, 1e-5), SITU_E_ARG, "group_norm", "0 groups");
  expect_refused(situ_group_norm(x, 4, NULL, NULL, 1e-5), SITU_E_ARG, "group_norm", "4 groups");
  expect_refused(situ_group_norm(x, 2, five, NULL, 1e-5), SITU_E_SHAPE, "group_norm", "weight");
  expect_refused(situ_group_norm(five, 1, NULL, NULL, 1e-5), SITU_E_SHAPE, "group_norm", "1 dimensions");
  expect_refused(situ_batch_norm(x, five, five, NULL, NULL, NULL), SITU_E_SHAPE, "batch_norm", "running_mean");
  expect_refused(situ_batch_norm(x, NULL, NULL, four, NULL, &train), SITU_E_SHAPE, "batch_norm", "weight");
  expect_refused(situ_batch_norm(x, NULL, NULL, six, five, &train), SITU_E_SHAPE, "batch_norm", "bias");
  expect_refused(situ_batch_norm(x, NULL, NULL, NULL, NULL, NULL), SITU_E_ARG, "batch_norm", "running_mean");
  expect_refused(situ_batch_norm(R(1, 6), NULL, NULL, NULL, NULL, &train), SITU_E_ARG, "batch_norm", "one value");
  expect_refused(
      situ_batch_norm(x, NULL, NULL, NULL, NULL, OPTIONS_AT(situ_batch_norm, with.training = true, with.eps = -1)),
      SITU_E_ARG, "batch_norm", "eps");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(softmax_values),   TEST(softmax_gradients),  TEST(dropout),
                                      TEST(norms_as_defined), TEST(running_statistics), TEST(norm_gradients),
                                      TEST(large_groups),     TEST(norm_refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
