/* Losses through the API: values, gradients, refusals.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>
#include <string.h>

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -2, 2, false)
#define G(...) test_random(SITU_SHAPE(__VA_ARGS__), -2, 2, true)

static void plain_values(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(3), 1, 2, 4), *t = T32(SITU_SHAPE(3), 1, 4, 3.5);
  expect_values(situ_mse_loss(x, t, SITU_REDUCTION_MEAN), SITU_SCALAR, 4.25 / 3);
  expect_values(situ_mse_loss(x, t, SITU_REDUCTION_NONE), SITU_SHAPE(3), 0, 4, 0.25);
  expect_values(situ_l1_loss(x, t, SITU_REDUCTION_SUM), SITU_SCALAR, 2.5);
  expect_values(situ_smooth_l1_loss(x, t, 1, SITU_REDUCTION_NONE), SITU_SHAPE(3), 0, 1.5, 0.125);
  expect_values(situ_smooth_l1_loss(x, t, 0, SITU_REDUCTION_SUM), SITU_SCALAR, 2.5);
  situ_tensor *z = T32(SITU_SHAPE(3), 0, 200, -200), *y = T32(SITU_SHAPE(3), 1, 0, 0);
  expect_values(situ_binary_cross_entropy_with_logits(z, y, NULL, NULL, SITU_REDUCTION_NONE), SITU_SHAPE(3), log(2),
                200, 0);
  expect_values(situ_binary_cross_entropy_with_logits(z, y, T32(SITU_SHAPE(3), 2, 1, 1), T32(SITU_SHAPE(1), 3),
                                                      SITU_REDUCTION_NONE),
                SITU_SHAPE(3), 6 * log(2), 200, 0);
  situ_tensor *q = T32(SITU_SHAPE(1, 3), 0, 0.25, 0.75), *p = situ_log(T32(SITU_SHAPE(1, 3), 0.5, 0.25, 0.25));
  expect_values(situ_kl_div(p, q, SITU_KL_NONE, false), SITU_SHAPE(1, 3), 0, 0, 0.75 * log(3));
  expect_values(situ_kl_div(p, q, SITU_KL_BATCHMEAN, false), SITU_SCALAR, 0.75 * log(3));
  expect_values(situ_kl_div(p, situ_log(q), SITU_KL_SUM, true), SITU_SCALAR, NAN);
  const situ_options here = { .device = test_device() };
  situ_tensor *none = situ_zeros(SITU_SHAPE(0), &here);
  expect_exact(situ_mse_loss(none, none, SITU_REDUCTION_MEAN), SITU_SCALAR, NAN);
  expect_exact(situ_l1_loss(none, none, SITU_REDUCTION_SUM), SITU_SCALAR, 0);
}

/* ---- class indices: against log_softmax, one_hot and sums ---- */

static situ_tensor *spelt_out(situ_tensor *logp, situ_tensor *target, situ_tensor *weight, double smoothing,
                              int64_t ignore, situ_reduction reduction) {
  int64_t classes = situ_size(logp, 1);
  situ_tensor *kept = situ_ne_scalar(target, (double)ignore),
              *safe = situ_masked_fill(target, situ_logical_not(kept), 0);
  situ_tensor *used = situ_mul(situ_index_select(weight, 0, situ_reshape(safe, SITU_SHAPE(-1))),
                               situ_to_dtype(situ_reshape(kept, SITU_SHAPE(-1)), SITU_F64));
  used = situ_reshape(used, situ_shape_of(target));
  situ_tensor *hit = situ_mul(situ_squeeze(situ_gather(logp, 1, situ_unsqueeze(safe, 1)), SITU_DIMS(1)), used);
  situ_shape across = { .ndim = situ_dim(logp) };
  for (int d = 0; d < across.ndim; d++) across.dim[d] = d == 1 ? classes : 1;
  situ_tensor *all =
      situ_sum(situ_mul(logp, situ_reshape(weight, across)), &(situ_reduce_options){ .dim = SITU_DIMS(1) });
  all = situ_mul(all, situ_to_dtype(kept, SITU_F64));
  situ_tensor *each =
      situ_neg(situ_add(situ_mul_scalar(hit, 1 - smoothing), situ_mul_scalar(all, smoothing / (double)classes)));
  if (reduction == SITU_REDUCTION_NONE) return each;
  return reduction == SITU_REDUCTION_SUM ? situ_sum(each, NULL) : situ_div(situ_sum(each, NULL), situ_sum(used, NULL));
}

static situ_tensor *targets(situ_shape shape, int classes) {
  double values[64];
  int64_t count = 1;
  for (int d = 0; d < shape.ndim; d++) count *= shape.dim[d];
  for (int64_t i = 0; i < count; i++) values[i] = (double)((i * 7 + 2) % classes);
  return test_tensor(SITU_I64, shape, values);
}

static void classes_as_defined(void **state) {
  (void)state;
  situ_tensor *ones = situ_ones(SITU_SHAPE(5), &(situ_options){ .device = test_device(), .dtype = SITU_F64 }),
              *weight = test_random(SITU_SHAPE(5), 0.5, 2, false);
  situ_tensor *const inputs[] = {
    R(8, 5), R(1, 5), R(3, 5, 4), R(2, 5, 2, 3), situ_transpose(R(5, 6), 0, 1), situ_transpose(R(3, 4, 5), 1, 2)
  };
  for (int i = 0; i < 6; i++)
    for (int reduction = SITU_REDUCTION_MEAN; reduction <= SITU_REDUCTION_NONE; reduction++)
      for (int way = 0; way < 8; way++) {
        situ_shape shape = situ_shape_of(inputs[i]);
        for (int d = 1; d + 1 < shape.ndim; d++) shape.dim[d] = shape.dim[d + 1];
        shape.ndim--;
        situ_tensor *target = targets(shape, 5);
        situ_cross_entropy_options o = { .weight = way & 1 ? weight : NULL,
                                         .has_ignore_index = way & 2,
                                         .ignore_index = way & 2 ? 3 : 0,
                                         .label_smoothing = way & 4 ? 0.2 : 0,
                                         .reduction = (situ_reduction)reduction };
        situ_tensor *logp = situ_log_softmax(inputs[i], 1);
        expect_same(
            situ_cross_entropy(inputs[i], target, &o),
            spelt_out(logp, target, way & 1 ? weight : ones, o.label_smoothing, way & 2 ? 3 : -100, o.reduction), 1e-10,
            1e-10);
        if (o.label_smoothing == 0)
          expect_same(situ_nll_loss(logp, target, &o),
                      spelt_out(logp, target, way & 1 ? weight : ones, 0, way & 2 ? 3 : -100, o.reduction), 1e-10,
                      1e-10);
      }
  situ_tensor *one = R(5);
  expect_same(situ_cross_entropy(one, TI64(SITU_SCALAR, 2), NULL),
              situ_neg(situ_select(situ_log_softmax(one, 0), 0, 2)), 1e-10, 1e-10);
  expect_exact(situ_cross_entropy(R(2, 5), TI64(SITU_SHAPE(2), -100, -100), NULL), SITU_SCALAR, NAN);
  /* Class indices may be i32. */
  situ_tensor *x = R(2, 5), *t = TI64(SITU_SHAPE(2), 4, 1);
  expect_same(situ_cross_entropy(x, situ_to_dtype(t, SITU_I32), NULL), situ_cross_entropy(x, t, NULL), 0, 0);
}

static void probabilities(void **state) {
  (void)state;
  situ_tensor *x = R(4, 5, 3), *t = targets(SITU_SHAPE(4, 3), 5), *weight = test_random(SITU_SHAPE(5), 0.5, 2, false);
  situ_tensor *sure = situ_to_dtype(situ_transpose(situ_one_hot(t, 5), 1, 2), SITU_F64);
  for (int reduction = SITU_REDUCTION_SUM; reduction <= SITU_REDUCTION_NONE; reduction++) {
    situ_cross_entropy_options o = { .weight = weight, .reduction = (situ_reduction)reduction };
    expect_same(situ_cross_entropy(x, sure, &o), situ_cross_entropy(x, t, &o), 1e-10, 1e-10);
  }
  situ_cross_entropy_options smooth = { .label_smoothing = 0.3 };
  expect_same(situ_cross_entropy(x, sure, &smooth), situ_cross_entropy(x, t, &smooth), 1e-10, 1e-10);
}

/* A batch so large that f16 can neither count it nor hold its sum: the mean and its gradient are right all the same. */
static void half_precision(void **state) {
  (void)state;
  const situ_options f16 = { .device = test_device(), .dtype = SITU_F16 },
                     i64 = { .device = test_device(), .dtype = SITU_I64 };
  situ_tensor *x = situ_requires_grad_(situ_full(SITU_SHAPE(70001, 2), 20, &f16), true),
              *t = situ_zeros(SITU_SHAPE(70001), &i64);
  situ_tensor *loss = situ_cross_entropy(x, t, NULL);
  expect_close(loss, SITU_SCALAR, 1e-3, 0, log(2));
  assert_int_equal(situ_backward(situ_mul_scalar(situ_to_dtype(loss, SITU_F32), 10000), NULL), SITU_OK);
  expect_close(situ_select(situ_grad(x), 0, 5), SITU_SHAPE(2), 1e-3, 0, -5000.0 / 70001, 5000.0 / 70001);
}

/* ---- gradients ---- */

typedef struct loss_call {
  situ_tensor *target;
  situ_cross_entropy_options o;
  double beta;
} loss_call;
static situ_tensor *do_mse(situ_tensor *const *in, void *p) {
  return situ_mse_loss(in[0], in[1], ((loss_call *)p)->o.reduction);
}
static situ_tensor *do_l1(situ_tensor *const *in, void *p) {
  return situ_l1_loss(in[0], in[1], ((loss_call *)p)->o.reduction);
}
static situ_tensor *do_smooth(situ_tensor *const *in, void *p) {
  return situ_smooth_l1_loss(in[0], in[1], ((loss_call *)p)->beta, ((loss_call *)p)->o.reduction);
}
static situ_tensor *do_bce(situ_tensor *const *in, void *p) {
  return situ_binary_cross_entropy_with_logits(in[0], in[1], ((loss_call *)p)->o.weight, NULL,
                                               ((loss_call *)p)->o.reduction);
}
static situ_tensor *do_bce_pos(situ_tensor *const *in, void *p) {
  return situ_binary_cross_entropy_with_logits(in[0], in[1], NULL, in[2], ((loss_call *)p)->o.reduction);
}
static situ_tensor *do_kl(situ_tensor *const *in, void *p) {
  return situ_kl_div(in[0], in[1], (situ_kl_reduction)((loss_call *)p)->o.reduction, false);
}
static situ_tensor *do_kl_log(situ_tensor *const *in, void *p) {
  return situ_kl_div(in[0], in[1], (situ_kl_reduction)((loss_call *)p)->o.reduction, true);
}
static situ_tensor *do_cross(situ_tensor *const *in, void *p) {
  return situ_cross_entropy(in[0], ((loss_call *)p)->target, &((loss_call *)p)->o);
}
static situ_tensor *do_nll(situ_tensor *const *in, void *p) {
  return situ_nll_loss(in[0], ((loss_call *)p)->target, &((loss_call *)p)->o);
}
static situ_tensor *do_cross_soft(situ_tensor *const *in, void *p) {
  return situ_cross_entropy(in[0], in[1], &((loss_call *)p)->o);
}

static void plain_gradients(void **state) {
  (void)state;
  static const test_function all[] = { do_mse, do_l1, do_smooth, do_bce, do_kl, do_kl_log };
  for (int f = 0; f < 6; f++)
    for (int reduction = SITU_REDUCTION_MEAN; reduction <= SITU_REDUCTION_NONE; reduction++) {
      loss_call c = { .o = { .reduction = (situ_reduction)reduction }, .beta = 0.7 };
      gradcheck(all[f], &c, test_random(SITU_SCALAR, 1, 2, true), test_random(SITU_SCALAR, 0.1, 0.9, true));
      gradcheck(all[f], &c, test_random(SITU_SHAPE(6), -2, 0, true), test_random(SITU_SHAPE(6), 0.1, 0.9, true));
      gradcheck(all[f], &c, test_random(SITU_SHAPE(2, 3), -2, 0, true), test_random(SITU_SHAPE(2, 3), 0.1, 0.9, true));
      gradcheck(all[f], &c, test_random(SITU_SHAPE(2, 1, 4), 1, 2, true),
                test_random(SITU_SHAPE(2, 1, 4), 0.1, 0.9, true));
    }
  loss_call c = { .o = { .weight = test_random(SITU_SHAPE(3), 0.5, 2, false) } };
  gradcheck(do_bce, &c, G(2, 3), test_random(SITU_SHAPE(2, 3), 0.1, 0.9, true));
  gradcheck(do_bce_pos, &c, G(2, 3), test_random(SITU_SHAPE(2, 3), 0.1, 0.9, true),
            test_random(SITU_SHAPE(3), 0.5, 2, true));
}

static void class_gradients(void **state) {
  (void)state;
  situ_tensor *weight = test_random(SITU_SHAPE(5), 0.5, 2, false);
  for (int reduction = SITU_REDUCTION_MEAN; reduction <= SITU_REDUCTION_NONE; reduction++)
    for (int way = 0; way < 8; way++) {
      loss_call c = { .o = { .weight = way & 1 ? weight : NULL,
                             .has_ignore_index = way & 2,
                             .ignore_index = way & 2 ? 4 : 0,
                             .label_smoothing = way & 4 ? 0.2 : 0,
                             .reduction = (situ_reduction)reduction } };
      static const test_function all[] = { do_cross, do_nll };
      for (int f = 0; f < (way & 4 ? 1 : 2); f++) {
        c.target = TI64(SITU_SCALAR, 3);
        gradcheck(all[f], &c, G(5));
        c.target = targets(SITU_SHAPE(1), 5);
        gradcheck(all[f], &c, G(1, 5));
        c.target = targets(SITU_SHAPE(6), 5);
        gradcheck(all[f], &c, G(6, 5));
        c.target = targets(SITU_SHAPE(2, 3), 5);
        gradcheck(all[f], &c, G(2, 5, 3));
        c.target = targets(SITU_SHAPE(2, 2, 2), 5);
        gradcheck(all[f], &c, G(2, 5, 2, 2));
        c.target = targets(SITU_SHAPE(3, 1), 5);
        gradcheck(all[f], &c, G(3, 5, 1));
      }
      if (way & 2) continue;
      gradcheck(do_cross_soft, &c, G(3, 5), test_random(SITU_SHAPE(3, 5), 0, 1, true));
    }
}

/* ---- refusals: rows 48 and 49 ---- */

static void expect_index(situ_tensor *result, const char *part) {
  situ_status status = result ? situ_synchronize(test_device()) : situ_error();
  assert_int_equal(status, SITU_E_INDEX);
  if (!strstr(situ_error_message(), part)) fail_msg("'%s' is not in: %s", part, situ_error_message());
  situ_error_clear();
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = R(2, 5), *t = TI64(SITU_SHAPE(2), 0, 4), *four = R(4);
  expect_index(situ_cross_entropy(x, TI64(SITU_SHAPE(2), 0, 5), NULL), "index 5 at [1");
  expect_index(situ_cross_entropy(x, TI64(SITU_SHAPE(2), -1, 0), NULL), "index -1 at [0");
  expect_index(situ_nll_loss(x, TI64(SITU_SHAPE(2), 0, 1e17), NULL), "index 100000000000000000");
  expect_index(situ_cross_entropy(x, TI64(SITU_SHAPE(2), 0, -100),
                                  &(situ_cross_entropy_options){ .has_ignore_index = true, .ignore_index = 1 }),
               "index -100");
  expect_refused(situ_cross_entropy(x, t, &(situ_cross_entropy_options){ .weight = four }), SITU_E_SHAPE,
                 "cross_entropy", "weight");
  expect_refused(situ_nll_loss(x, t, &(situ_cross_entropy_options){ .weight = four }), SITU_E_SHAPE, "nll_loss",
                 "weight");
  expect_refused(situ_cross_entropy(x, TI64(SITU_SHAPE(3), 0, 1, 2), NULL), SITU_E_SHAPE, "cross_entropy", "target");
  expect_refused(situ_cross_entropy(x, R(2, 4), NULL), SITU_E_SHAPE, "cross_entropy", "probabilities");
  for (int ignored = 0; ignored < 2; ignored++)
    expect_refused(situ_cross_entropy(
                       x, R(2, 3), &(situ_cross_entropy_options){ .has_ignore_index = true, .ignore_index = ignored }),
                   SITU_E_ARG, "cross_entropy", "target holds probabilities");
  expect_refused(situ_cross_entropy(x, test_tensor(SITU_I16, SITU_SHAPE(2), (double[]){ 0, 1 }), NULL), SITU_E_DTYPE,
                 "cross_entropy", "i16");
  expect_refused(situ_nll_loss(x, four, NULL), SITU_E_DTYPE, "nll_loss", "target");
  expect_refused(situ_cross_entropy(x, t, &(situ_cross_entropy_options){ .label_smoothing = 1.5 }), SITU_E_ARG,
                 "cross_entropy", "1.5");
  expect_refused(situ_cross_entropy(x, t, &(situ_cross_entropy_options){ .label_smoothing = NAN }), SITU_E_ARG,
                 "cross_entropy", "nan");
  expect_refused(situ_cross_entropy(x, t, &(situ_cross_entropy_options){ .reduction = (situ_reduction)9 }), SITU_E_ARG,
                 "cross_entropy", "9");
  expect_refused(situ_mse_loss(x, four, SITU_REDUCTION_MEAN), SITU_E_SHAPE, "", "[4]");
  expect_refused(situ_mse_loss(x, x, (situ_reduction)9), SITU_E_ARG, "mse_loss", "9");
  expect_refused(situ_smooth_l1_loss(x, x, -1, SITU_REDUCTION_MEAN), SITU_E_ARG, "smooth_l1_loss", "-1");
  expect_refused(situ_binary_cross_entropy_with_logits(x, four, NULL, NULL, SITU_REDUCTION_MEAN), SITU_E_SHAPE,
                 "binary_cross_entropy_with_logits", "target");
  expect_refused(situ_kl_div(T64(SITU_SCALAR, 0), T64(SITU_SCALAR, 1), SITU_KL_BATCHMEAN, false), SITU_E_SHAPE,
                 "kl_div", "batch");
  expect_refused(situ_cross_entropy(NULL, t, NULL), SITU_E_ARG, "cross_entropy", "NULL");
}

/* A gradient from outside must have the result's shape and dtype. */
static void wrong_gradients(void **state) {
  (void)state;
  situ_tensor *x = G(2, 5), *t = TI64(SITU_SHAPE(2), 0, 4);
  situ_tensor *each = situ_cross_entropy(x, t, &(situ_cross_entropy_options){ .reduction = SITU_REDUCTION_NONE });
  situ_tensor *const wrong[] = { R(3), R(2, 1), test_random(SITU_SCALAR, 0, 1, false) };
  for (int i = 0; i < 3; i++) {
    assert_int_equal(situ_backward(each, &(situ_backward_options){ .gradient = wrong[i], .retain_graph = true }),
                     SITU_E_SHAPE);
    situ_error_clear();
  }
  assert_null(situ_grad(x));
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(plain_values),   TEST(classes_as_defined), TEST(probabilities),
                                      TEST(half_precision), TEST(plain_gradients),    TEST(class_gradients),
                                      TEST(refusals),       TEST(wrong_gradients) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
