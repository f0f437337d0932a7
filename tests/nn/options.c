/* No option of a module is ignored: each field of each options struct, set to what is not its default, changes what the module
   gives or is made of, or is refused. Each of these modules, captured as a step, replays what its calls compute (nn/captured.h).
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include "situ/nn.h"
#include "nn/captured.h"
#include "support/outcome.h"

/* A module's forward and backward: its result, then its parameters, buffers and gradients. */
static outcome outcome_with(situ_nn_module *m, situ_tensor *y) {
  outcome o = outcome_of(y);
  if (!y) return o;
  if (situ_requires_grad(y)) assert_int_equal(situ_backward(situ_sum(situ_square(y), NULL), NULL), SITU_OK);
  situ_tree *state = situ_nn_state_dict(m);
  for (int64_t i = 0; i < situ_tree_count(state); i++) note(&o, situ_tree_tensor_at(state, i));
  situ_tree *parameters = situ_nn_parameters(m);
  for (int64_t i = 0; i < situ_tree_count(parameters); i++) note(&o, situ_grad(situ_tree_tensor_at(parameters, i)));
  o.value[o.count++] = (double)situ_tree_count(state);
  situ_tree_free(state);
  situ_tree_free(parameters);
  return o;
}

static int captures_refused;

/* Runs a new module, training, also as a graph; frees it. */
static outcome outcome_from(situ_nn_module *m, situ_tensor *x) {
  if (!m) return outcome_of(NULL);
  outcome o = outcome_with(m, situ_nn_forward(m, x));
  if (!o.refused) captures_refused += captured_is_refused(m, x);
  situ_nn_free(m);
  return o;
}

#define BASE \
  { 0 }

/* dtype and device: the operands are f32 on the cpu, so that others are refused where they are looked at. */
#define PLACED(type, call)              \
  FIELD(type, call, .dtype = SITU_F64); \
  FIELD(type, call, .device = situ_dev("sim:1"))

#define PLACED_OF(name, call)                  \
  FIELD_OF(name, call, with.dtype = SITU_F64); \
  FIELD_OF(name, call, with.device = situ_dev("sim:1"))

static situ_tensor *values(situ_shape shape) { return situ_to_dtype(test_random(shape, -2, 2, false), SITU_F32); }
#define R(...) values(SITU_SHAPE(__VA_ARGS__))

static outcome bag_outcome(const situ_nn_embedding_bag_options *o, situ_tensor *x, situ_tensor *offsets) {
  situ_nn_module *m = situ_nn_embedding_bag(3, 2, o);
  if (!m) return outcome_of(NULL);
  const situ_nn_embedding_bag_kwargs kwargs = { .offsets = offsets };
  outcome result = outcome_with(m, situ_nn_forward_kwargs(m, x, &kwargs));
  situ_nn_free(m);
  return result;
}

static outcome bilinear_outcome(const situ_nn_bilinear_options *o, situ_tensor *x, situ_tensor *y) {
  situ_nn_module *m = situ_nn_bilinear(4, 3, 2, o);
  outcome result = outcome_with(m, situ_nn_forward2(m, x, y));
  situ_nn_free(m);
  return result;
}

static void linear_and_embedding(void **state) {
  (void)state;
  situ_tensor *x = R(3, 4), *index = TI64(SITU_SHAPE(4), 0, 2, 1, 2);
#define LINEAR(call)                                                                        \
  FIELD(situ_nn_linear_options, outcome_from(call, x), .no_bias = true);                    \
  FIELD(situ_nn_linear_options, outcome_from(call, x), .activation = SITU_ACTIVATION_RELU); \
  PLACED(situ_nn_linear_options, outcome_from(call, x))
  LINEAR(situ_nn_linear(4, 5, o));
  LINEAR(situ_nn_lazy_linear(5, o));
#define PRODUCT bilinear_outcome(o, x, other)
  situ_tensor *other = R(3, 3);
  FIELD(situ_nn_bilinear_options, PRODUCT, .no_bias = true);
  PLACED(situ_nn_bilinear_options, PRODUCT);
#define EMBEDDING outcome_from(situ_nn_embedding(3, 2, o), index)
  FIELD_OF(situ_nn_embedding, EMBEDDING, with.has_padding_idx = true);
  FIELD_OF(situ_nn_embedding, EMBEDDING, with.has_padding_idx = true, with.padding_idx = 2);
  FIELD_OF(situ_nn_embedding, EMBEDDING, with.max_norm = 0.01);
  FIELD_OF(situ_nn_embedding, EMBEDDING, with.max_norm = 0.01, with.norm_type = 1);
  FIELD_OF(situ_nn_embedding, EMBEDDING, with.scale_grad_by_freq = true);
  PLACED_OF(situ_nn_embedding, EMBEDDING);
#define BAG bag_outcome(o, pairs, offsets)
  situ_tensor *pairs = TI64(SITU_SHAPE(4), 0, 2, 2, 1), *offsets = TI64(SITU_SHAPE(2), 0, 2);
  FIELD_OF(situ_nn_embedding_bag, BAG, with.mode = SITU_EMBEDDING_BAG_SUM);
  FIELD_OF(situ_nn_embedding_bag, BAG, with.mode = SITU_EMBEDDING_BAG_MAX);
  FIELD_OF(situ_nn_embedding_bag, BAG, with.include_last_offset = true);
  FIELD_OF(situ_nn_embedding_bag, BAG, with.has_padding_idx = true);
  FIELD_OF(situ_nn_embedding_bag, BAG, with.has_padding_idx = true, with.padding_idx = 2);
  FIELD_OF(situ_nn_embedding_bag, BAG, with.max_norm = 0.01);
  FIELD_OF(situ_nn_embedding_bag, BAG, with.max_norm = 0.01, with.norm_type = 1);
  FIELD_OF(situ_nn_embedding_bag, BAG, with.scale_grad_by_freq = true);
  PLACED_OF(situ_nn_embedding_bag, BAG);
}

static void padded_sequences(void **state) {
  (void)state;
  situ_tensor *list[] = { R(2, 3), R(4, 3) };
  situ_nn_packed_sequence packed;
  assert_int_equal(situ_nn_utils_rnn_pack_sequence(list, 2, false, &packed), SITU_OK);
#define PADDED(call)                                                 \
  FIELD(situ_nn_pad_options, outcome_of(call), .batch_first = true); \
  FIELD(situ_nn_pad_options, outcome_of(call), .padding_value = 1);  \
  FIELD(situ_nn_pad_options, outcome_of(call), .total_length = 6);   \
  FIELD(situ_nn_pad_options, outcome_of(call), .left = true)
  PADDED(situ_nn_utils_rnn_pad_sequence(list, 2, o));
  PADDED(situ_nn_utils_rnn_pad_packed_sequence(&packed, o, NULL));
}

static void convolutions(void **state) {
  (void)state;
  situ_tensor *line = R(2, 4, 9), *image = R(1, 4, 7, 7);
#define CONV(call, x)                                                                                            \
  FIELD(situ_nn_conv_options, outcome_from(call, x), .stride = SITU_DIMS(2));                                    \
  FIELD(situ_nn_conv_options, outcome_from(call, x), .padding = SITU_DIMS(1));                                   \
  FIELD(situ_nn_conv_options, outcome_from(call, x), .padding = SITU_DIMS(1), .padding_mode = SITU_PAD_REFLECT); \
  FIELD(situ_nn_conv_options, outcome_from(call, x), .dilation = SITU_DIMS(2));                                  \
  FIELD(situ_nn_conv_options, outcome_from(call, x), .output_padding = SITU_DIMS(1));                            \
  FIELD(situ_nn_conv_options, outcome_from(call, x), .groups = 2);                                               \
  FIELD(situ_nn_conv_options, outcome_from(call, x), .no_bias = true);                                           \
  PLACED(situ_nn_conv_options, outcome_from(call, x))
  CONV(situ_nn_conv1d(4, 4, 3, o), line);
  CONV(situ_nn_conv2d(4, 4, SITU_DIMS(3), o), image);
  CONV(situ_nn_conv_transpose2d(4, 4, SITU_DIMS(3), o), image);
}
#undef BASE

#define BASE \
  { 0 }
static void parametrizations(void **state) {
  (void)state;
  situ_tensor *x = R(3, 30);
#define SPECTRAL outcome_from(situ_nn_utils_spectral_norm(situ_nn_linear(30, 40, NULL), NULL, o), x)
  FIELD_OF(situ_nn_spectral_norm, SPECTRAL, with.n_power_iterations = 3);
  FIELD_OF(situ_nn_spectral_norm, SPECTRAL, with.eps = 10);
  FIELD_OF(situ_nn_spectral_norm, SPECTRAL, with.has_dim = true, with.dim = 1);
}
#undef BASE

/* A padding mode is told from others only where there is padding. */
#define BASE \
  { .padding = SITU_DIMS(1) }
static void padding_modes(void **state) {
  (void)state;
  static const situ_pad_mode modes[] = { SITU_PAD_REFLECT, SITU_PAD_REPLICATE, SITU_PAD_CIRCULAR };
  situ_tensor *line = R(2, 4, 9), *image = R(1, 4, 7, 7);
  for (int k = 0; k < 3; k++) {
    FIELD(situ_nn_conv_options, outcome_from(situ_nn_conv1d(4, 4, 3, o), line), .padding = SITU_DIMS(1),
          .padding_mode = modes[k]);
    FIELD(situ_nn_conv_options, outcome_from(situ_nn_conv2d(4, 4, SITU_DIMS(3), o), image), .padding = SITU_DIMS(1),
          .padding_mode = modes[k]);
    FIELD(situ_nn_conv_options, outcome_from(situ_nn_conv_transpose2d(4, 4, SITU_DIMS(3), o), image),
          .padding = SITU_DIMS(1), .padding_mode = modes[k]);
  }
}
#undef BASE

#define BASE \
  { .padding = SITU_DIMS(1) }
static void pools(void **state) {
  (void)state;
  situ_tensor *image = R(1, 2, 9, 9);
#define POOL(call)                                                                                        \
  FIELD(situ_pool_options, outcome_from(call, image), .stride = SITU_DIMS(1), .padding = SITU_DIMS(1));   \
  FIELD(situ_pool_options, outcome_from(call, image), .padding = SITU_DIMS(0));                           \
  FIELD(situ_pool_options, outcome_from(call, image), .padding = SITU_DIMS(1), .dilation = SITU_DIMS(2)); \
  FIELD(situ_pool_options, outcome_from(call, image), .padding = SITU_DIMS(1), .ceil_mode = true);        \
  FIELD(situ_pool_options, outcome_from(call, image), .padding = SITU_DIMS(1), .exclude_pad = true);      \
  FIELD(situ_pool_options, outcome_from(call, image), .padding = SITU_DIMS(1), .divisor_override = 5)
  POOL(situ_nn_max_pool2d(SITU_DIMS(3), o));
  POOL(situ_nn_avg_pool2d(SITU_DIMS(3), o));
}
#undef BASE

#define BASE \
  { 0 }
static void norms(void **state) {
  (void)state;
  situ_tensor *rows = R(6, 4), *image = R(2, 4, 3, 3);
#define BATCH_NORM(call, x)                                                                \
  FIELD_OF(situ_nn_batch_norm, outcome_from(call, x), with.eps = 0.5);                     \
  FIELD_OF(situ_nn_batch_norm, outcome_from(call, x), with.momentum = 0.5);                \
  FIELD_OF(situ_nn_batch_norm, outcome_from(call, x), with.cumulative = true);             \
  FIELD_OF(situ_nn_batch_norm, outcome_from(call, x), with.no_affine = true);              \
  FIELD_OF(situ_nn_batch_norm, outcome_from(call, x), with.no_track_running_stats = true); \
  PLACED_OF(situ_nn_batch_norm, outcome_from(call, x))
  BATCH_NORM(situ_nn_batch_norm1d(4, o), rows);
  BATCH_NORM(situ_nn_batch_norm2d(4, o), image);
#define NORM(call, x)                                                   \
  FIELD_OF(situ_nn_norm, outcome_from(call, x), with.eps = 0.5);        \
  FIELD_OF(situ_nn_norm, outcome_from(call, x), with.no_affine = true); \
  PLACED_OF(situ_nn_norm, outcome_from(call, x))
  NORM(situ_nn_layer_norm(SITU_DIMS(4), o), rows);
  NORM(situ_nn_group_norm(2, 4, o), image);
  NORM(situ_nn_rms_norm(SITU_DIMS(4), o), rows); /* which has no bias */
  FIELD_OF(situ_nn_norm, outcome_from(situ_nn_layer_norm(SITU_DIMS(4), o), rows), with.no_bias = true);
  FIELD_OF(situ_nn_norm, outcome_from(situ_nn_group_norm(2, 4, o), image), with.no_bias = true);
}

static outcome attended(const situ_nn_multihead_attention_options *options, const situ_nn_attend_options *o,
                        int64_t width) {
  situ_nn_module *m = situ_nn_multihead_attention(4, 2, options);
  if (!m) return outcome_of(NULL);
  situ_tensor *query = R(3, 2, 4), *key = R(3, 2, width), *weights = NULL;
  situ_nn_attend_options masks = o ? *o : (situ_nn_attend_options){ 0 };
  if (masks.per_head_weights) masks.weights = &weights;
  outcome result = outcome_with(m, situ_nn_attend(m, query, key, key, &masks));
  note(&result, weights);
  situ_nn_free(m);
  return result;
}

static void attention(void **state) {
  (void)state;
#define ATTENTION(...) FIELD(situ_nn_multihead_attention_options, attended(o, NULL, 4), __VA_ARGS__)
  ATTENTION(.dropout = 0.5);
  ATTENTION(.no_bias = true);
  ATTENTION(.kdim = 3);
  ATTENTION(.vdim = 3);
  ATTENTION(.batch_first = true);
  ATTENTION(.dtype = SITU_F64);
  ATTENTION(.device = situ_dev("sim:1"));
  situ_tensor *weights = NULL, *never = situ_full(SITU_SHAPE(2, 3), 1, &(situ_options){ .dtype = SITU_F32 });
#define ATTEND(...) FIELD(situ_nn_attend_options, attended(NULL, o, 4), __VA_ARGS__)
  ATTEND(.is_causal = true);
  ATTEND(.key_padding_mask = situ_mul(never, R(2, 3)));
  ATTEND(.attn_mask = R(3, 3));
  ATTEND(.per_head_weights = true);
  FIELD(situ_nn_attend_options, attended(NULL, o, 4), .weights = &weights, .is_causal = true);
  assert_non_null(weights);
}

#undef BASE

static void transformer(void **state) {
  (void)state;
  situ_tensor *x = R(3, 2, 4);
#define TRANSFORMER(...)                                    \
  FIELD_FROM(situ_nn_transformer, with.dim_feedforward = 8, \
             outcome_from(situ_nn_transformer_encoder_layer(4, 2, o), x), with __VA_ARGS__)
  TRANSFORMER(.dim_feedforward = 6);
  TRANSFORMER(.dropout = 0.5);
  TRANSFORMER(.dropout = 0);
  TRANSFORMER(.gelu = true);
  TRANSFORMER(.layer_norm_eps = 0.5);
  TRANSFORMER(.batch_first = true);
  TRANSFORMER(.norm_first = true);
  TRANSFORMER(.no_bias = true);
  TRANSFORMER(.dtype = SITU_F64);
  TRANSFORMER(.device = situ_dev("sim:1"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(linear_and_embedding),
    TEST(padded_sequences),
    TEST(parametrizations),
    TEST(convolutions),
    TEST(padding_modes),
    TEST(pools),
    TEST(norms),
    TEST(attention),
    TEST(transformer),
  };
  const int failed_tests = cmocka_run_group_tests(tests, NULL, NULL);
  print_message("%d fields of options, %d modules refused by a capture\n", fields, captures_refused);
  return failed_tests;
}
