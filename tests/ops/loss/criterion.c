/* Losses and distances that consist of other ops: values at the edges, gradients, refusals.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>
#include <string.h>

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, false)
#define G(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)
#define P(...) test_random(SITU_SHAPE(__VA_ARGS__), 0.1, 0.9, true)
#define MEAN SITU_REDUCTION_MEAN
#define NONE SITU_REDUCTION_NONE

static void probabilities_at_the_edges(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(4), 0, 1, 0, 1), true), *t = T32(SITU_SHAPE(4), 0, 1, 1, 0);
  situ_tensor *loss = situ_binary_cross_entropy(x, t, NULL, NONE);
  expect_exact(loss, SITU_SHAPE(4), 0, 0, 100, 100);
  assert_int_equal(situ_backward(situ_sum(loss, NULL), NULL), SITU_OK);
  expect_close(situ_grad(x), SITU_SHAPE(4), 1e-6, 0, 0, 0, -1e12, 1e12);
}

/* The variance is raised to eps without a part in the gradient: PyTorch 2.15's value. */
static void a_small_variance_has_a_gradient(void **state) {
  (void)state;
  situ_tensor *var = situ_requires_grad_(T32(SITU_SHAPE(2), 0.25, 1), true);
  situ_tensor *x = T32(SITU_SHAPE(2), 1, 1), *t = T32(SITU_SHAPE(2), 0, 0);
  assert_int_equal(situ_backward(situ_gaussian_nll_loss(x, t, var, false, 0.5, SITU_REDUCTION_SUM), NULL), SITU_OK);
  expect_values(situ_grad(var), SITU_SHAPE(2), -1, 0);
  expect_exact(var, SITU_SHAPE(2), 0.25, 1);
}

static void zeros_have_finite_gradients(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(2, 2), 0, 0, 3, 4), true);
  expect_values(situ_normalize(x, 2, 1, 1e-12), SITU_SHAPE(2, 2), 0, 0, 0.6, 0.8);
  assert_int_equal(situ_backward(situ_sum(situ_normalize(x, 2, 1, 1e-6), NULL), NULL), SITU_OK);
  expect_close(situ_grad(x), SITU_SHAPE(2, 2), 1e-5, 1e-6, 1e6, 1e6, 0.032, -0.024);
  situ_tensor *y = situ_requires_grad_(T32(SITU_SHAPE(1, 2), 0, 0), true);
  assert_int_equal(situ_backward(situ_pairwise_distance(y, y, 2, 0, false), NULL), SITU_OK);
  expect_exact(situ_grad(y), SITU_SHAPE(1, 2), 0, 0);
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = R(2, 3), *y = R(3, 2), *i = TI64(SITU_SHAPE(2), 0, 2), *whole = situ_to_dtype(x, SITU_I64);
  expect_refused(situ_huber_loss(x, x, 0, MEAN), SITU_E_ARG, "huber_loss", "delta is 0");
  expect_refused(situ_huber_loss(x, x, 1, (situ_reduction)9), SITU_E_ARG, "huber_loss", "9");
  expect_refused(situ_huber_loss(whole, whole, 1, MEAN), SITU_E_DTYPE, "huber_loss", "floating");
  expect_refused(situ_huber_loss(x, y, 1, MEAN), SITU_E_SHAPE, "huber_loss", "");
  expect_refused(situ_binary_cross_entropy(x, y, NULL, MEAN), SITU_E_SHAPE, "binary_cross_entropy", "target is [3, 2]");
  expect_refused(situ_binary_cross_entropy(x, x, y, MEAN), SITU_E_SHAPE, "binary_cross_entropy", "weight is [3, 2]");
  expect_refused(situ_binary_cross_entropy(x, whole, NULL, MEAN), SITU_E_DTYPE, "binary_cross_entropy", "target");
  expect_refused(situ_gaussian_nll_loss(x, x, y, false, 1e-6, MEAN), SITU_E_SHAPE, "gaussian_nll_loss",
                 "var is [3, 2]");
  expect_refused(situ_soft_margin_loss(x, y, MEAN), SITU_E_SHAPE, "soft_margin_loss", "target is [3, 2]");
  expect_refused(situ_cosine_embedding_loss(x, x, x, 0, MEAN), SITU_E_SHAPE, "cosine_embedding_loss", "target has 2");
  expect_refused(situ_triplet_margin_loss(x, x, R(3), NULL), SITU_E_SHAPE, "triplet_margin_loss", "negative 1");
  expect_refused(situ_multi_margin_loss(y, i, NULL), SITU_E_SHAPE, "multi_margin_loss", "must be [N, C] and [N]");
  expect_refused(situ_multi_margin_loss(R(2, 0), i, NULL), SITU_E_SHAPE, "multi_margin_loss", "input is [2, 0]");
  expect_refused(situ_multi_margin_loss(x, i, OPTIONS_AT(situ_multi_margin, with.p = 3)), SITU_E_ARG,
                 "multi_margin_loss", "p is 3");
  expect_refused(situ_multi_margin_loss(x, i, OPTIONS_AT(situ_multi_margin, with.weight = R(2))), SITU_E_SHAPE,
                 "multi_margin_loss", "weight must be [3]");
  expect_refused(situ_cosine_similarity(x, y, 1, 1e-8), SITU_E_SHAPE, "cosine_similarity", "");
  expect_refused(situ_normalize(x, 2, 2, 1e-12), SITU_E_ARG, "normalize", "dimension 2");
  expect_refused(situ_normalize(whole, 2, 1, 1e-12), SITU_E_DTYPE, "normalize", "input");
}

/* ---- gradients ---- */

#define CHECKED(name, call)                                         \
  static situ_tensor *name(situ_tensor *const *in, void *payload) { \
    situ_tensor *t = payload;                                       \
    (void)t;                                                        \
    return call;                                                    \
  }
CHECKED(huber, situ_huber_loss(in[0], in[1], 0.7, NONE))
CHECKED(entropy, situ_binary_cross_entropy(in[0], in[1], NULL, NONE))
CHECKED(poisson, situ_poisson_nll_loss(in[0], in[1], true, true, 1e-8, NONE))
CHECKED(poisson_plain, situ_poisson_nll_loss(in[0], in[1], false, false, 1e-8, NONE))
CHECKED(gaussian, situ_gaussian_nll_loss(in[0], in[1], in[2], true, 1e-6, NONE))
CHECKED(hinge, situ_hinge_embedding_loss(in[0], t, 1, NONE))
CHECKED(ranking, situ_margin_ranking_loss(in[0], in[1], t, 0.4, NONE))
CHECKED(soft, situ_soft_margin_loss(in[0], t, NONE))
CHECKED(multilabel, situ_multilabel_soft_margin_loss(in[0], in[1], NULL, NONE))
CHECKED(cosine_loss, situ_cosine_embedding_loss(in[0], in[1], t, 0.1, NONE))
CHECKED(triplet, situ_triplet_margin_loss(in[0], in[1], in[2], OPTIONS_AT(situ_triplet_margin, with.reduction = NONE)))
CHECKED(multi, situ_multi_margin_loss(in[0], t, OPTIONS_AT(situ_multi_margin, with.p = 2, with.reduction = NONE)))
CHECKED(normal, situ_normalize(in[0], 3, 0, 1e-12))
CHECKED(cosine, situ_cosine_similarity(in[0], in[1], 1, 1e-8))
CHECKED(distance, situ_pairwise_distance(in[0], in[1], 3, 1e-6, true))

static void gradients(void **state) {
  (void)state;
  situ_tensor *signs = T32(SITU_SHAPE(2, 3), 1, -1, 1, -1, -1, 1), *each = T32(SITU_SHAPE(2), 1, -1);
  gradcheck(huber, NULL, G(2, 3), G(2, 3));
  gradcheck(entropy, NULL, P(2, 3), P(2, 3));
  gradcheck(poisson, NULL, G(2, 3), test_random(SITU_SHAPE(2, 3), 1.1, 5, true));
  gradcheck(poisson_plain, NULL, P(2, 3), P(2, 3));
  gradcheck(gaussian, NULL, G(2, 3), G(2, 3), P(2, 1));
  gradcheck(hinge, signs, G(2, 3));
  gradcheck(ranking, signs, G(2, 3), G(2, 3));
  gradcheck(soft, signs, G(2, 3));
  gradcheck(multilabel, NULL, G(2, 3), P(2, 3));
  gradcheck(cosine_loss, each, G(2, 3), G(2, 3));
  gradcheck(triplet, NULL, G(2, 3), G(2, 3), G(2, 3));
  gradcheck(multi, TI64(SITU_SHAPE(2), 0, 2), G(2, 3));
  gradcheck(normal, NULL, G(3, 2));
  gradcheck(cosine, NULL, G(2, 3), G(2, 3));
  gradcheck(distance, NULL, G(2, 3), G(3));
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(probabilities_at_the_edges), TEST(a_small_variance_has_a_gradient),
                                      TEST(zeros_have_finite_gradients), TEST(refusals), TEST(gradients) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
