/* Layers, beside what the golden tests compare with PyTorch: options, refusals, modes, lazy layers,
   padding modes.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "support/modules.h"

static void options_reach_every_parameter(void **state) {
  (void)state;
  situ_nn_module *m[] = {
    situ_nn_linear(2, 2, &(situ_nn_linear_options){ .dtype = SITU_F64, HERE }),
    situ_nn_bilinear(2, 2, 2, &(situ_nn_bilinear_options){ .dtype = SITU_F64, HERE }),
    situ_nn_embedding(2, 2, OPTIONS_AT(situ_nn_embedding, with.dtype = SITU_F64, with HERE)),
    situ_nn_embedding_bag(2, 2, OPTIONS_AT(situ_nn_embedding_bag, with.dtype = SITU_F64, with HERE)),
    situ_nn_conv1d(2, 2, 1, &(situ_nn_conv_options){ .dtype = SITU_F64, HERE }),
    situ_nn_conv2d(2, 2, SITU_DIMS(1), &(situ_nn_conv_options){ .dtype = SITU_F64, HERE }),
    situ_nn_conv_transpose2d(2, 2, SITU_DIMS(1), &(situ_nn_conv_options){ .dtype = SITU_F64, HERE }),
    situ_nn_batch_norm1d(2, OPTIONS_AT(situ_nn_batch_norm, with.dtype = SITU_F64, with HERE)),
    situ_nn_layer_norm(SITU_SHAPE(2), OPTIONS_AT(situ_nn_norm, with.dtype = SITU_F64, with HERE)),
    situ_nn_rms_norm(SITU_SHAPE(2), OPTIONS_AT(situ_nn_norm, with.dtype = SITU_F64, with HERE)),
    situ_nn_group_norm(1, 2, OPTIONS_AT(situ_nn_norm, with.dtype = SITU_F64, with HERE)),
    situ_nn_multihead_attention(2, 1, &(situ_nn_multihead_attention_options){ .dtype = SITU_F64, HERE }),
    situ_nn_transformer_encoder_layer(2, 1, OPTIONS_AT(situ_nn_transformer, with.dtype = SITU_F64, with HERE)),
  };
  for (size_t i = 0; i < sizeof m / sizeof *m; i++) {
    situ_tree *all = situ_nn_state_dict(m[i]);
    assert_true(situ_tree_count(all) > 0);
    for (int64_t k = 0; k < situ_tree_count(all); k++) {
      situ_tensor *t = situ_tree_tensor_at(all, k);
      bool counter = strcmp(situ_tree_key(all, k), "num_batches_tracked") == 0;
      assert_int_equal(situ_dtype_of(t), counter ? SITU_I64 : SITU_F64);
      assert_true(situ_device_equal(situ_device_of(t), test_device()));
    }
    situ_tree_free(all);
    situ_nn_free(m[i]);
  }
}

static void bad_sizes_are_refused(void **state) {
  (void)state;
  expect_refused(situ_nn_linear(-1, 2, NULL), SITU_E_SHAPE, "", "");
  expect_refused(situ_nn_linear(INT64_MAX, INT64_MAX, NULL), SITU_E_OVERFLOW, "", "");
  expect_refused(
      situ_nn_linear(2, 2, &(situ_nn_linear_options){ .activation = (situ_activation)(SITU_ACTIVATION_SILU + 1) }),
      SITU_E_ARG, "nn_linear", "activation is 5");
  expect_refused(situ_nn_bilinear(2, -1, 2, NULL), SITU_E_SHAPE, "", "");
  expect_refused(situ_nn_lazy_linear(-2, NULL), SITU_E_SHAPE, "nn_lazy_linear", "-2");
  expect_refused(situ_nn_conv2d(3, 4, SITU_DIMS(3), &(situ_nn_conv_options){ .groups = 2 }), SITU_E_ARG, "nn_conv2d",
                 "2 groups");
  expect_refused(situ_nn_conv2d(4, 4, SITU_DIMS(3), &(situ_nn_conv_options){ .groups = -1 }), SITU_E_ARG, "nn_conv2d",
                 "-1 groups");
  expect_refused(situ_nn_conv2d(1, 1, SITU_DIMS(3, 3, 3), NULL), SITU_E_ARG, "nn_conv2d", "kernel_size has 3 values");
  expect_refused(situ_nn_conv1d(1, 1, 3, &(situ_nn_conv_options){ .stride = SITU_DIMS(1, 1) }), SITU_E_ARG, "nn_conv1d",
                 "stride has 2 values");
  expect_refused(situ_nn_conv1d(1, 1, -3, NULL), SITU_E_SHAPE, "", "");
  expect_refused(
      situ_nn_conv_transpose2d(1, 1, SITU_DIMS(3), &(situ_nn_conv_options){ .padding_mode = SITU_PAD_REFLECT }),
      SITU_E_ARG, "nn_conv_transpose2d", "transposed");
  expect_refused(situ_nn_conv1d(1, 1, 3, &(situ_nn_conv_options){ .output_padding = SITU_DIMS(1) }), SITU_E_ARG,
                 "nn_conv1d", "output_padding");
  expect_refused(situ_nn_group_norm(3, 4, NULL), SITU_E_ARG, "nn_group_norm", "4 channels");
  expect_refused(situ_nn_group_norm(0, 4, NULL), SITU_E_ARG, "nn_group_norm", "");
  expect_refused(situ_nn_multihead_attention(5, 2, NULL), SITU_E_ARG, "nn_multihead_attention", "5");
  expect_refused(situ_nn_transformer_encoder_layer(5, 2, NULL), SITU_E_ARG, "nn_multihead_attention", "5");
  expect_refused(situ_nn_dropout(NAN), SITU_E_ARG, "nn_dropout", "probability");
  expect_refused(
      situ_nn_embedding(3, 2, OPTIONS_AT(situ_nn_embedding, with.has_padding_idx = true, with.padding_idx = 3)),
      SITU_E_INDEX, "nn_embedding", "3 of 3");
  expect_refused(situ_nn_embedding(3, 2, OPTIONS_AT(situ_nn_embedding, with.max_norm = -1)), SITU_E_ARG, "nn_embedding",
                 "max_norm -1");
  expect_refused(situ_nn_embedding_bag(3, 2, OPTIONS_AT(situ_nn_embedding_bag, with.norm_type = NAN)), SITU_E_ARG,
                 "nn_embedding_bag", "NaN");
  expect_refused(situ_nn_embedding_bag(3, 2, OPTIONS_AT(situ_nn_embedding_bag, with.mode = (situ_embedding_bag_mode)3)),
                 SITU_E_ARG, "nn_embedding_bag", "mode 3 is not");
  expect_refused(
      situ_nn_embedding_bag(
          3, 2, OPTIONS_AT(situ_nn_embedding_bag, with.mode = SITU_EMBEDDING_BAG_MAX, with.scale_grad_by_freq = true)),
      SITU_E_ARG, "nn_embedding_bag", "scale_grad_by_freq");
}

static void dropout_and_norm_know_their_mode(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4);
  situ_nn_module *drop = situ_nn_dropout(1), *norm = situ_nn_batch_norm1d(2, OPTIONS_AT(situ_nn_batch_norm, with HERE));
  expect_exact(situ_nn_forward(drop, x), SITU_SHAPE(2, 2), 0, 0, 0, 0);
  expect_close(situ_nn_forward(norm, x), SITU_SHAPE(2, 2), 1e-4, 0, -1, -1, 1, 1);
  expect_values(situ_nn_get_tensor(norm, "running_mean"), SITU_SHAPE(2), 0.2, 0.3);
  expect_exact(situ_nn_get_tensor(norm, "num_batches_tracked"), SITU_SCALAR, 1);
  situ_nn_eval(drop);
  situ_nn_eval(norm);
  assert_ptr_equal(situ_nn_forward(drop, x), x);
  assert_non_null(situ_nn_forward(norm, x));
  expect_exact(situ_nn_get_tensor(norm, "num_batches_tracked"), SITU_SCALAR, 1);
  expect_refused(situ_nn_forward(norm, T32(SITU_SHAPE(2), 1, 2)), SITU_E_SHAPE, "nn_forward",
                 "BatchNorm1d needs 2 or 3 dimensions, not 1");
  situ_nn_free(drop);
  situ_nn_free(norm);
}

static void a_lazy_linear_learns_its_width(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_lazy_linear(3, &(situ_nn_linear_options){ HERE }));
  situ_nn_module *lazy = situ_nn_at(m, 0);
  assert_true(situ_device_equal(situ_nn_home(lazy), test_device()));
  situ_tensor *x = T32(SITU_SHAPE(1, 5), 1, 2, 3, 4, 5), *y = situ_nn_forward(m, x);
  assert_int_equal(situ_size(y, 1), 3);
  assert_string_equal(lazy->type->name, "Linear");
  assert_int_equal(situ_nn_num_parameters(m), 18);
  assert_true(situ_requires_grad(situ_nn_get_tensor(m, "0.weight")));
  expect_same(situ_nn_forward(m, x), y, 0, 0);
  expect_refused(situ_nn_forward(m, T32(SITU_SHAPE(1, 2), 1, 2)), SITU_E_SHAPE, "linear", "");
  situ_nn_free(m);
}

/* What is refused leaves it as lazy as it was, and draws nothing. */
static void a_lazy_linear_is_not_made_by_a_wrong_input(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_lazy_linear(3, &(situ_nn_linear_options){ HERE });
  situ_manual_seed(5);
  const situ_generator before = situ_get_rng_state();
  expect_refused(situ_nn_forward(m, T32(SITU_SCALAR, 1)), SITU_E_SHAPE, "", "0-dim");
  expect_refused(situ_nn_forward(m, TI64(SITU_SHAPE(2, 7), 1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7)), SITU_E_DTYPE, "",
                 "i64");
  const situ_generator after = situ_get_rng_state();
  assert_true(after.seed == before.seed && after.offset == before.offset);
  assert_string_equal(m->type->name, "LazyLinear");
  assert_int_equal(situ_nn_num_parameters(m), 0);
  situ_tensor *y = situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 7), &(situ_options){ .device = test_device() }));
  assert_non_null(y);
  assert_int_equal(situ_nn_num_parameters(m), 24);
  situ_manual_seed(5);
  situ_nn_module *same = situ_nn_linear(7, 3, &(situ_nn_linear_options){ HERE });
  expect_same(situ_nn_get_tensor(m, "weight"), situ_nn_get_tensor(same, "weight"), 0, 0);
  situ_nn_free(m);
  situ_nn_free(same);
}

/* A state that is refused leaves it lazy too, and the right one wakes it. */
static void a_lazy_linear_is_not_made_by_a_wrong_state(void **state) {
  (void)state;
  const situ_options here = { .device = test_device() };
  const situ_shape wrong[] = { SITU_SHAPE(4, 2), SITU_SHAPE(3, 2, 1) };
  situ_nn_module *m = situ_nn_lazy_linear(3, &(situ_nn_linear_options){ .no_bias = true, HERE });
  for (int k = 0; k < 2; k++) {
    situ_tree *saved = situ_tree_put(situ_tree_dict(), "weight", situ_tree_tensor(situ_ones(wrong[k], &here)));
    assert_int_equal(situ_nn_load_state_dict(m, saved, NULL), SITU_E_SHAPE);
    expect_error(SITU_E_SHAPE, "nn_load_state_dict", "[3, any] in the module");
    assert_string_equal(m->type->name, "LazyLinear");
    situ_tree_free(saved);
  }
  situ_tree *saved = situ_tree_put(situ_tree_dict(), "weight", situ_tree_tensor(situ_ones(SITU_SHAPE(3, 2), &here)));
  assert_int_equal(situ_nn_load_state_dict(m, saved, NULL), SITU_OK);
  assert_int_equal(situ_nn_num_parameters(m), 6);
  situ_tree_free(saved);
  situ_nn_free(m);
}

static void heads_that_do_not_divide(void **state) {
  (void)state;
  static const int64_t rows[][2] = { { 5, 2 }, { 0, 1 }, { 4, 0 }, { 0, 0 }, { -4, 2 }, { 4, -2 }, { -4, -2 } };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    expect_refused(situ_nn_multihead_attention(rows[k][0], rows[k][1], NULL), SITU_E_ARG, "nn_multihead_attention",
                   "does not divide");
}

static void linear_with_activation(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 4, &(situ_nn_linear_options){ .activation = SITU_ACTIVATION_RELU, HERE });
  situ_tensor *x = T32(SITU_SHAPE(2, 2), 1, 2, -3, 1);
  expect_same(situ_nn_forward(m, x),
              situ_relu(situ_linear(x, situ_nn_get_tensor(m, "weight"), situ_nn_get_tensor(m, "bias"))), 1e-6, 1e-6);
  situ_nn_free(m);
}

/* Made where its model lives, though nobody said where. */
static void a_lazy_linear_is_made_at_home(void **state) {
  (void)state;
  situ_nn_module *m =
      situ_nn_sequential(situ_nn_linear(2, 4, &(situ_nn_linear_options){ HERE }), situ_nn_lazy_linear(3, NULL));
  assert_non_null(situ_nn_forward(m, T32(SITU_SHAPE(1, 2), 1, 2)));
  assert_true(situ_device_equal(situ_device_of(situ_nn_get_tensor(m, "1.weight")), test_device()));
  situ_nn_free(m);
}

static void padding_modes_pad(void **state) {
  (void)state;
  static const struct {
    situ_pad_mode mode;
    double first, last;
  } row[] = {
    { SITU_PAD_CONSTANT, 0 + 1 + 2, 2 + 3 + 0 },
    { SITU_PAD_REFLECT, 2 + 1 + 2, 2 + 3 + 2 },
    { SITU_PAD_REPLICATE, 1 + 1 + 2, 2 + 3 + 3 },
    { SITU_PAD_CIRCULAR, 3 + 1 + 2, 2 + 3 + 1 },
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    situ_nn_module *m = situ_nn_conv1d(
        1, 1, 3,
        &(situ_nn_conv_options){ .padding = SITU_DIMS(1), .padding_mode = row[i].mode, .no_bias = true, HERE });
    situ_nn_init_ones_(situ_nn_get_tensor(m, "weight"));
    expect_values(situ_nn_forward(m, T32(SITU_SHAPE(1, 1, 3), 1, 2, 3)), SITU_SHAPE(1, 1, 3), row[i].first, 6,
                  row[i].last);
    situ_nn_free(m);
  }
}

static void a_bilinear_layer_takes_two_inputs(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_bilinear(4, 1, 1, NULL);
  double most;
  assert_int_equal(situ_item(situ_amax(situ_abs(situ_nn_get_tensor(m, "weight")), NULL), &most), SITU_OK);
  assert_true(most > 0 && most < 0.5); /* 1 / sqrt(in1_features) */
  expect_refused(situ_nn_forward(m, T32(SITU_SHAPE(1, 4), 1, 2, 3, 4)), SITU_E_ARG, "nn_call",
                 "the list [input1, input2]");
  situ_nn_free(m);
}

static void losses_keep_their_weights_as_buffers(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_cross_entropy_loss(&(situ_cross_entropy_options){ .weight = T32(SITU_SHAPE(2), 1, 3) });
  situ_tree *dict = situ_nn_state_dict(m);
  assert_int_equal(situ_tree_count(dict), 1);
  situ_tree_free(dict);
  situ_tensor *x = T32(SITU_SHAPE(2, 2), 0, 0, 0, 0), *target = TI64(SITU_SHAPE(2), 0, 1);
  expect_values(situ_nn_forward2(m, x, target), SITU_SCALAR, log(2));
  expect_refused(situ_nn_forward(m, x), SITU_E_ARG, "nn_call", "CrossEntropyLoss needs the list [input, target]");
  expect_refused(situ_nn_forward2(m, x, NULL), SITU_E_ARG, "nn_forward2", "second input");
  situ_nn_free(m);
}

/* ---- attention ---- */

static situ_tensor *sample(int64_t length, int64_t batch, int64_t width) {
  return situ_to_dtype(test_random(SITU_SHAPE(length, batch, width), -1, 1, false), SITU_F32);
}

static void attention_takes_every_form(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_multihead_attention(4, 2, &(situ_nn_multihead_attention_options){ HERE });
  situ_tensor *x = sample(3, 2, 4), *weights, *again;
  /* Self-attention in one product, in three, by situ_nn_forward, and without a batch. */
  situ_tensor *y = situ_nn_attend(m, x, x, x, &(situ_nn_attend_options){ .weights = &weights });
  expect_same(situ_nn_attend(m, x, situ_clone(x), x, NULL), y, 1e-5, 1e-6);
  expect_same(situ_nn_forward(m, x), y, 1e-5, 1e-6);
  situ_tensor *alone = situ_select(x, 1, 0);
  situ_tensor *unbatched = situ_nn_attend(m, alone, alone, alone, &(situ_nn_attend_options){ .weights = &again });
  expect_same(unbatched, situ_select(y, 1, 0), 1e-5, 1e-6);
  expect_same(again, situ_select(weights, 0, 0), 1e-5, 1e-6);
  /* Each row of the weights sums to one; heads are averaged unless asked for. */
  expect_close(situ_sum(weights, &(situ_reduce_options){ .dim = SITU_DIMS(-1) }), SITU_SHAPE(2, 3), 1e-5, 0, 1, 1, 1, 1,
               1, 1);
  assert_non_null(situ_nn_attend(m, x, x, x, &(situ_nn_attend_options){ .weights = &again, .per_head_weights = true }));
  expect_same(situ_mean(again, &(situ_reduce_options){ .dim = SITU_DIMS(1) }), weights, 1e-5, 1e-6);
  situ_nn_free(m);
}

static void masks_leave_out(void **state) {
  (void)state;
  situ_nn_module *m =
      situ_nn_multihead_attention(4, 2, &(situ_nn_multihead_attention_options){ .batch_first = true, HERE });
  situ_tensor *x = sample(2, 3, 4), *w;
  situ_tensor *upper = TBOOL(SITU_SHAPE(3, 3), 0, 1, 1, 0, 0, 1, 0, 0, 0),
              *last = TBOOL(SITU_SHAPE(2, 3), 0, 0, 1, 0, 0, 0);
  situ_tensor *masked = situ_nn_attend(m, x, x, x, &(situ_nn_attend_options){ .attn_mask = upper, .weights = &w });
  expect_same(situ_triu(w, 1), situ_zeros_like(w, NULL), 0, 0);
  /* The same three ways: a causal flag with and without weights, and a mask for each head. */
  expect_same(situ_nn_attend(m, x, x, x, &(situ_nn_attend_options){ .is_causal = true }), masked, 1e-5, 1e-6);
  expect_same(situ_nn_attend(m, x, x, x, &(situ_nn_attend_options){ .is_causal = true, .weights = &w }), masked, 1e-5,
              1e-6);
  situ_tensor *per_head = situ_contiguous(situ_expand(upper, SITU_SHAPE(4, 3, 3)));
  expect_same(situ_nn_attend(m, x, x, x, &(situ_nn_attend_options){ .attn_mask = per_head }), masked, 1e-5, 1e-6);
  assert_non_null(situ_nn_attend(
      m, x, x, x, &(situ_nn_attend_options){ .key_padding_mask = last, .is_causal = true, .weights = &w }));
  double values[18];
  test_read(w, values);
  assert_true(values[8] == 0 && values[17] > 0 && values[1] == 0);
  expect_refused(situ_nn_attend(m, x, x, x, &(situ_nn_attend_options){ .attn_mask = upper, .is_causal = true }),
                 SITU_E_ARG, "nn_multihead_attention", "exclude each other");
  expect_refused(situ_nn_attend(m, x, x, x, &(situ_nn_attend_options){ .key_padding_mask = upper }), SITU_E_SHAPE, "",
                 "");
  expect_refused(situ_nn_attend(m, x, situ_select(x, 0, 0), x, NULL), SITU_E_SHAPE, "nn_multihead_attention",
                 "3, 2 and 3");
  expect_refused(situ_nn_attend(m, sample(2, 3, 6), x, x, NULL), SITU_E_SHAPE, "nn_multihead_attention",
                 "query is 6 wide, not 4");
  expect_refused(situ_nn_attend(m, x, NULL, x, NULL), SITU_E_ARG, "nn_attend", "key");
  situ_nn_free(m);
}

static void encoder_layers_mask_and_train(void **state) {
  (void)state;
  situ_nn_module *m =
      situ_nn_transformer_encoder_layer(4, 2,
                                        OPTIONS_AT(situ_nn_transformer, with.dim_feedforward = 8,
                                                   with.batch_first = true, with.norm_first = true, with HERE));
  situ_nn_eval(m);
  situ_tensor *x = sample(1, 3, 4), *y = situ_nn_encode(m, x, &(situ_nn_attend_options){ .is_causal = true });
  /* With a causal mask the first position knows nothing of the later ones. */
  situ_tensor *first = situ_narrow(x, 1, 0, 1);
  expect_same(situ_narrow(y, 1, 0, 1), situ_nn_forward(m, first), 1e-5, 1e-6);
  situ_nn_train(m, true);
  assert_int_equal(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL), SITU_OK);
  situ_tree *all = situ_nn_parameters(m);
  for (int64_t i = 0; i < situ_tree_count(all); i++) assert_non_null(situ_grad(situ_tree_tensor_at(all, i)));
  situ_tree_free(all);
  situ_nn_free(m);
}

static void an_encoder_is_its_layers(void **state) {
  (void)state;
  const situ_nn_transformer_options small =
      OPTIONS_OF(situ_nn_transformer, with.dim_feedforward = 8, with.batch_first = true, with HERE);
  situ_nn_module *norm = situ_nn_layer_norm(SITU_SHAPE(4), OPTIONS_AT(situ_nn_norm, with HERE));
  situ_nn_module *m = situ_nn_transformer_encoder(situ_nn_transformer_encoder_layer(4, 2, &small), 2, norm);
  situ_nn_eval(m);
  situ_tensor *x = sample(2, 3, 4), *first = situ_nn_get_tensor(m, "layers.0.linear1.weight");
  assert_true(first && first != situ_nn_get_tensor(m, "layers.1.linear1.weight"));
  assert_non_null(situ_nn_init_normal_(first, 0, 1, NULL)); /* the layers differ */
  const situ_nn_attend_options causal = { .is_causal = true };
  situ_tensor *y = situ_nn_encode(situ_nn_get_submodule(m, "layers.0"), x, &causal);
  y = situ_nn_forward(norm, situ_nn_encode(situ_nn_get_submodule(m, "layers.1"), y, &causal));
  expect_same(situ_nn_encode(m, x, &causal), y, 0, 0);
  situ_nn_free(m);
  expect_refused(situ_nn_transformer_encoder(situ_nn_transformer_encoder_layer(4, 2, &small), 0, NULL), SITU_E_ARG,
                 "nn_transformer_encoder", "num_layers is 0");
}

static void decoders_refuse_and_free(void **state) {
  (void)state;
  const situ_nn_transformer_options small =
      OPTIONS_OF(situ_nn_transformer, with.dim_feedforward = 8, with.batch_first = true, with HERE);
  for (int64_t count = -1; count < 1; count++)
    expect_refused(situ_nn_transformer_decoder(situ_nn_transformer_decoder_layer(4, 2, &small), count,
                                               situ_nn_layer_norm(SITU_SHAPE(4), OPTIONS_AT(situ_nn_norm, with HERE))),
                   SITU_E_ARG, "nn_transformer_decoder", "num_layers is");
  expect_refused(situ_nn_transformer_decoder(NULL, 1, situ_nn_identity()), SITU_E_ARG, "nn_transformer_decoder",
                 "decoder_layer");
  situ_nn_module *m = situ_nn_transformer_decoder(situ_nn_transformer_decoder_layer(4, 2, &small), 2, NULL);
  situ_nn_eval(m);
  situ_tensor *x = sample(1, 3, 4), *memory = sample(1, 2, 4);
  expect_refused(situ_nn_decode(m, x, NULL, NULL), SITU_E_ARG, "nn_decode", "memory");
  expect_refused(situ_nn_forward(m, x), SITU_E_ARG, "nn_decode", "TransformerDecoder needs tgt and memory");
  /* Each layer applies the causal mask: the first position knows nothing of the later ones. */
  situ_tensor *y = situ_nn_decode(m, x, memory, &(situ_nn_decode_options){ .tgt_is_causal = true });
  expect_same(situ_narrow(y, 1, 0, 1), situ_nn_decode(m, situ_narrow(x, 1, 0, 1), memory, NULL), 1e-5, 1e-6);
  situ_tree *both = SITU_TREE(x, memory), *out = situ_nn_call(m, both);
  expect_same(situ_tree_value(out), situ_nn_decode(m, x, memory, NULL), 0, 0);
  situ_tree_free(out);
  situ_tree_free(both);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(options_reach_every_parameter),
    MODULE_TEST(bad_sizes_are_refused),
    MODULE_TEST(dropout_and_norm_know_their_mode),
    MODULE_TEST(a_lazy_linear_learns_its_width),
    MODULE_TEST(a_lazy_linear_is_not_made_by_a_wrong_input),
    MODULE_TEST(a_lazy_linear_is_not_made_by_a_wrong_state),
    MODULE_TEST(heads_that_do_not_divide),
    MODULE_TEST(linear_with_activation),
    MODULE_TEST(a_bilinear_layer_takes_two_inputs),
    MODULE_TEST(a_lazy_linear_is_made_at_home),
    MODULE_TEST(padding_modes_pad),
    MODULE_TEST(losses_keep_their_weights_as_buffers),
    MODULE_TEST(attention_takes_every_form),
    MODULE_TEST(masks_leave_out),
    MODULE_TEST(encoder_layers_mask_and_train),
    MODULE_TEST(an_encoder_is_its_layers),
    MODULE_TEST(decoders_refuse_and_free),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
