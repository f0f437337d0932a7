/* Attention through the API: against its own definition, gradients, refusals.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, false)
#define G(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

/* softmax(scale q k^T + mask) v, spelt out. */
static situ_tensor *spelt_out(situ_tensor *q, situ_tensor *k, situ_tensor *v, situ_tensor *mask, double scale) {
  situ_tensor *scores = situ_mul_scalar(situ_matmul(q, situ_transpose(k, -2, -1)), scale);
  return situ_matmul(situ_softmax(mask ? situ_add(scores, mask) : scores, -1), v);
}

static void as_defined(void **state) {
  (void)state;
  situ_tensor *q = R(2, 3, 4, 5), *k = R(2, 3, 6, 5), *v = R(2, 3, 6, 7), *mask = R(4, 6);
  expect_same(situ_scaled_dot_product_attention(q, k, v, NULL), spelt_out(q, k, v, NULL, 1 / sqrt(5)), 1e-12, 1e-12);
  expect_same(situ_scaled_dot_product_attention(q, k, v, &(situ_attention_options){ .attn_mask = mask, .scale = 2 }), spelt_out(q, k, v, mask, 2), 1e-12, 1e-12);
  situ_tensor *one = situ_expand(situ_narrow(k, 1, 0, 1), SITU_SHAPE(2, 1, 6, 5));
  expect_same(situ_scaled_dot_product_attention(q, one, v, NULL), spelt_out(q, one, v, NULL, 1 / sqrt(5)), 1e-12, 1e-12);
}

static void masks(void **state) {
  (void)state;
  situ_tensor *q = R(3, 2), *v = T64(SITU_SHAPE(3, 1), 1, 10, 100), *zero = situ_mul_scalar(q, 0);
  expect_close(situ_scaled_dot_product_attention(zero, q, v, &(situ_attention_options){ .is_causal = true }), SITU_SHAPE(3, 1), 1e-12, 0, 1, 5.5, 37);
  situ_tensor *look = TBOOL(SITU_SHAPE(3, 3), 1, 0, 0, 0, 0, 1, 1, 0, 1);
  expect_close(situ_scaled_dot_product_attention(zero, q, v, &(situ_attention_options){ .attn_mask = look }), SITU_SHAPE(3, 1), 1e-12, 0, 1, 100, 50.5);
}

static void dropout(void **state) {
  (void)state;
  situ_tensor *q = R(4, 30, 8), *ones = situ_ones_like(q, NULL);
  expect_same(situ_scaled_dot_product_attention(q, q, ones, &(situ_attention_options){ .dropout_p = 1 }), situ_zeros_like(q, NULL), 0, 0);
  situ_manual_seed(7);
  situ_tensor *a = situ_scaled_dot_product_attention(q, q, ones, &(situ_attention_options){ .dropout_p = 0.5 });
  double mean;
  assert_int_equal(situ_item(situ_mean(a, NULL), &mean), SITU_OK);
  assert_true(fabs(mean - 1) < 0.15 && fabs(mean - 1) > 1e-6);
  situ_manual_seed(7);
  expect_same(situ_scaled_dot_product_attention(q, q, ones, &(situ_attention_options){ .dropout_p = 0.5 }), a, 0, 0);
}

static situ_tensor *plain(situ_tensor *const *in, void *o) { return situ_scaled_dot_product_attention(in[0], in[1], in[2], o); }
static situ_tensor *masked(situ_tensor *const *in, void *o) {
  (void)o;
  return situ_scaled_dot_product_attention(in[0], in[1], in[2], &(situ_attention_options){ .attn_mask = in[3], .scale = 0.7 });
}
static situ_tensor *dropped(situ_tensor *const *in, void *o) {
  (void)o;
  situ_manual_seed(3);
  return situ_scaled_dot_product_attention(in[0], in[1], in[2], &(situ_attention_options){ .dropout_p = 0.4 });
}

static void gradients(void **state) {
  (void)state;
  situ_attention_options none = { 0 }, causal = { .is_causal = true }, scaled = { .scale = 0.3 };
  gradcheck(plain, &none, G(3, 4), G(5, 4), G(5, 2));
  gradcheck(plain, &none, G(2, 3, 4), G(2, 3, 4), G(2, 3, 4));
  gradcheck(plain, &causal, G(2, 2, 4, 3), G(2, 2, 4, 3), G(2, 2, 4, 3));
  gradcheck(plain, &scaled, G(2, 1, 3), G(2, 6, 3), G(2, 6, 1));
  gradcheck(plain, &none, G(2, 3, 4), G(1, 3, 4), G(3, 4));
  gradcheck(masked, NULL, G(2, 3, 4), G(2, 5, 4), G(2, 5, 2), G(3, 5));
  gradcheck(masked, NULL, G(3, 4), G(5, 4), G(5, 2), G(1, 5));
  gradcheck(dropped, NULL, G(2, 3, 4), G(2, 5, 4), G(2, 5, 2));
}

static void nothing_to_look_at(void **state) {
  (void)state;
  const situ_options here = { .device = test_device() };
  situ_tensor *q = situ_ones(SITU_SHAPE(2, 3), &here), *none = situ_zeros(SITU_SHAPE(0, 3), &here);
  expect_exact(situ_scaled_dot_product_attention(q, none, none, NULL), SITU_SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
  assert_int_equal(situ_numel(situ_scaled_dot_product_attention(none, q, q, NULL)), 0);
}

static void refusals(void **state) {
  (void)state;
  const char *op = "scaled_dot_product_attention";
  situ_tensor *q = R(2, 3, 4), *k = R(2, 5, 4), *v = R(2, 5, 6), *mask = R(4, 5);
  expect_refused(situ_scaled_dot_product_attention(q, R(2, 5, 3), v, NULL), SITU_E_SHAPE, op, "4 and 3 differ");
  expect_refused(situ_scaled_dot_product_attention(q, k, R(2, 4, 6), NULL), SITU_E_SHAPE, op, "5 and 4 differ");
  expect_refused(situ_scaled_dot_product_attention(q, R(3, 5, 4), v, NULL), SITU_E_SHAPE, op, "");
  expect_refused(situ_scaled_dot_product_attention(R(4), k, v, NULL), SITU_E_SHAPE, op, "dimensions");
  expect_refused(situ_scaled_dot_product_attention(q, k, v, &(situ_attention_options){ .attn_mask = mask }), SITU_E_SHAPE, op, "");
  expect_refused(situ_scaled_dot_product_attention(q, k, v, &(situ_attention_options){ .attn_mask = R(7, 2, 3, 5) }), SITU_E_SHAPE, op, "attn_mask");
  expect_refused(situ_scaled_dot_product_attention(q, k, v, &(situ_attention_options){ .attn_mask = R(3, 5), .is_causal = true }), SITU_E_ARG, op, "is_causal");
  expect_refused(situ_scaled_dot_product_attention(q, k, v, &(situ_attention_options){ .dropout_p = 1.5 }), SITU_E_ARG, op, "dropout_p");
  expect_refused(situ_scaled_dot_product_attention(q, k, v, &(situ_attention_options){ .attn_mask = T32(SITU_SHAPE(5), 0, 0, 0, 0, 0) }), SITU_E_DTYPE, op, "attn_mask");
  expect_refused(situ_scaled_dot_product_attention(q, k, NULL, NULL), SITU_E_ARG, op, "NULL");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(as_defined), TEST(masks), TEST(dropout), TEST(gradients), TEST(nothing_to_look_at), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
