/* No option is ignored: each field of each options struct, set to what is not its default, changes what a function gives, or is refused.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "support/outcome.h"

#define GIVES(y) outcome_of(y)
#define R(...) situ_to_dtype(test_random(SITU_SHAPE(__VA_ARGS__), -2, 2, false), SITU_F32)

static void convolutions(void **state) {
  (void)state;
  situ_tensor *line = R(1, 4, 9), *image = R(1, 4, 7, 7), *w1 = R(4, 4, 3), *w2 = R(4, 4, 3, 3);
#define BASE { 0 }
#define CONV(call)                                                           \
  FIELD(situ_conv_options, GIVES(call), .stride = SITU_DIMS(2));             \
  FIELD(situ_conv_options, GIVES(call), .padding = SITU_DIMS(1));            \
  FIELD(situ_conv_options, GIVES(call), .dilation = SITU_DIMS(2));           \
  FIELD(situ_conv_options, GIVES(call), .groups = 2);                        \
  FIELD(situ_conv_options, GIVES(call), .activation = SITU_ACTIVATION_RELU); \
  FIELD(situ_conv_options, GIVES(call), .output_padding = SITU_DIMS(1))
  CONV(situ_conv1d(line, w1, NULL, o));
  CONV(situ_conv2d(image, w2, NULL, o));
  CONV(situ_conv_transpose2d(image, w2, NULL, o));
  FIELD(situ_conv_options, GIVES(situ_conv_transpose2d(image, w2, NULL, o)), .stride = SITU_DIMS(2),
        .output_padding = SITU_DIMS(1));
#undef BASE
}

static void pools(void **state) {
  (void)state;
  situ_tensor *image = R(1, 2, 9, 9);
#define BASE { .kernel = SITU_DIMS(3), .padding = SITU_DIMS(1) }
#define POOL(call)                                                                                                  \
  FIELD(situ_pool_options, GIVES(call), .kernel = SITU_DIMS(2), .padding = SITU_DIMS(1));                           \
  FIELD(situ_pool_options, GIVES(call), .kernel = SITU_DIMS(3), .padding = SITU_DIMS(1), .stride = SITU_DIMS(1));   \
  FIELD(situ_pool_options, GIVES(call), .kernel = SITU_DIMS(3));                                                    \
  FIELD(situ_pool_options, GIVES(call), .kernel = SITU_DIMS(3), .padding = SITU_DIMS(1), .dilation = SITU_DIMS(2)); \
  FIELD(situ_pool_options, GIVES(call), .kernel = SITU_DIMS(3), .padding = SITU_DIMS(1), .ceil_mode = true);        \
  FIELD(situ_pool_options, GIVES(call), .kernel = SITU_DIMS(3), .padding = SITU_DIMS(1), .exclude_pad = true);      \
  FIELD(situ_pool_options, GIVES(call), .kernel = SITU_DIMS(3), .padding = SITU_DIMS(1), .divisor_override = 5)
  POOL(situ_max_pool2d(image, o, NULL));
  POOL(situ_avg_pool2d(image, o));
#undef BASE
}

static outcome normalised(const situ_batch_norm_options *o) {
  situ_tensor *mean = R(3), *var = situ_abs(R(3)), *y = situ_batch_norm(R(4, 3), mean, var, NULL, NULL, o);
  outcome result = outcome_of(y);
  note(&result, mean);
  return result;
}
static void norms_and_attention(void **state) {
  (void)state;
  FIELD_OF(situ_batch_norm, normalised(o), with.training = true);
  FIELD_OF(situ_batch_norm, normalised(o), with.eps = 0.5);
  situ_tensor *q = R(1, 3, 4), *k = R(1, 3, 4);
  FIELD_OF(situ_attention, GIVES(situ_scaled_dot_product_attention(q, k, k, o)), with.attn_mask = R(3, 3));
  FIELD_OF(situ_attention, GIVES(situ_scaled_dot_product_attention(q, k, k, o)), with.is_causal = true);
  FIELD_OF(situ_attention, GIVES(situ_scaled_dot_product_attention(q, k, k, o)), with.dropout_p = 0.5);
  FIELD_OF(situ_attention, GIVES(situ_scaled_dot_product_attention(q, k, k, o)), with.scale = 2);
  FIELD_FROM(situ_batch_norm, with.training = true, normalised(o), with.momentum = 0.5);
}

static void losses(void **state) {
  (void)state;
  situ_tensor *x = R(3, 4), *t = TI64(SITU_SHAPE(3), 0, 1, 3), *p = situ_softmax(R(3, 4), 1),
              *w = T32(SITU_SHAPE(4), 1, 2, 3, 4);
#define BASE { 0 }
#define LOSS(call, ignored)                                                                          \
  FIELD(situ_cross_entropy_options, GIVES(call), .weight = w);                                       \
  FIELD(situ_cross_entropy_options, GIVES(call), .has_ignore_index = true, .ignore_index = ignored); \
  FIELD(situ_cross_entropy_options, GIVES(call), .label_smoothing = 0.25);                           \
  FIELD(situ_cross_entropy_options, GIVES(call), .reduction = SITU_REDUCTION_SUM)
  LOSS(situ_cross_entropy(x, t, o), 1);
  LOSS(situ_nll_loss(x, t, o), 1);
  LOSS(situ_cross_entropy(x, p, o), 1);
#undef BASE
}

static void reductions(void **state) {
  (void)state;
  situ_tensor *x = R(3, 4);
#define BASE { 0 }
#define REDUCE(call)                                            \
  FIELD(situ_reduce_options, GIVES(call), .dim = SITU_DIMS(0)); \
  FIELD(situ_reduce_options, GIVES(call), .keepdim = true);     \
  FIELD(situ_reduce_options, GIVES(call), .dtype = SITU_F64)
  REDUCE(situ_sum(x, o));
  REDUCE(situ_mean(x, o));
  REDUCE(situ_prod(x, o));
  REDUCE(situ_var(x, 1, o));
  REDUCE(situ_std(x, 1, o));
  REDUCE(situ_amin(x, o));
  REDUCE(situ_amax(x, o));
  REDUCE(situ_all(x, o));
  REDUCE(situ_any(x, o));
  REDUCE(situ_norm(x, 2, o));
  REDUCE(situ_logsumexp(x, o));
  REDUCE(situ_argmin(x, o));
  REDUCE(situ_argmax(x, o));
#undef BASE
}

static outcome embedded(const situ_embedding_options *o) {
  situ_tensor *w = situ_requires_grad_(R(3, 2), true), *y = situ_embedding(TI64(SITU_SHAPE(3), 0, 2, 2), w, o);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  outcome result = outcome_of(y);
  note(&result, situ_grad(w));
  return result;
}
static outcome bagged(const situ_embedding_bag_options *o) {
  situ_tensor *w = situ_requires_grad_(R(4, 2), true), *y = situ_embedding_bag(TI64(SITU_SHAPE(4), 0, 2, 2, 3), w, o);
  if (!y) return outcome_of(NULL);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  outcome result = outcome_of(y);
  note(&result, situ_grad(w));
  return result;
}
static void bags(void **state) {
  (void)state;
  situ_tensor *offsets = TI64(SITU_SHAPE(2), 0, 3), *weights = R(4);
#define BAG(...) \
  FIELD_FROM(situ_embedding_bag, (with.offsets = offsets, with.mode = SITU_EMBEDDING_BAG_SUM), bagged(o), __VA_ARGS__)
  BAG(with.per_sample_weights = weights);
  BAG(with.include_last_offset = true);
  BAG(with.has_padding_idx = true, with.padding_idx = 2);
  BAG(with.max_norm = 0.01);
  BAG(with.max_norm = 0.01, with.norm_type = 1);
  BAG(with.scale_grad_by_freq = true);
  BAG(with.mode = SITU_EMBEDDING_BAG_MEAN);
  BAG(with.mode = SITU_EMBEDDING_BAG_MAX);
  BAG(with.offsets = TI64(SITU_SHAPE(2), 0, 1));
}
static void others(void **state) {
  (void)state;
  const double most = 5, least = -5;
  situ_tensor *x = T32(SITU_SHAPE(4), NAN, INFINITY, -INFINITY, 1), *a = R(2, 2), *b = R(2, 2);
#define BASE { 0 }
  FIELD_OF(situ_embedding, embedded(o), with.has_padding_idx = true, with.padding_idx = 2);
  FIELD_OF(situ_embedding, embedded(o), with.max_norm = 0.01);
  FIELD_OF(situ_embedding, embedded(o), with.max_norm = 0.01, with.norm_type = 1);
  FIELD_OF(situ_embedding, embedded(o), with.scale_grad_by_freq = true);
  FIELD(situ_nan_to_num_options, GIVES(situ_nan_to_num(x, o)), .nan = 3);
  FIELD(situ_nan_to_num_options, GIVES(situ_nan_to_num(x, o)), .posinf = &most);
  FIELD(situ_nan_to_num_options, GIVES(situ_nan_to_num(x, o)), .neginf = &least);
  FIELD_OF(situ_addmm, GIVES(situ_addmm(a, a, b, o)), with.alpha = 2);
  FIELD_OF(situ_addmm, GIVES(situ_addmm(a, a, b, o)), with.beta = 2);
  FIELD_OF(situ_addmm, GIVES(situ_addmm(a, a, b, o)), with.beta = 0);
  FIELD_OF(situ_addmm, GIVES(situ_addmm(a, a, b, o)), with.alpha = 0);
#undef BASE
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(convolutions), TEST(pools),  TEST(norms_and_attention), TEST(losses), TEST(reductions),
    TEST(bags),         TEST(others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
