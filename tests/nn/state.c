/* State dicts: torch's names, loading that is all or nothing, one error with every problem in it.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "situ/sys/alloc.h"
#include "support/modules.h"

static situ_nn_module *fc(int64_t in, int64_t out) {
  return situ_nn_linear(in, out, &(situ_nn_linear_options){ HERE });
}

static void expect_keys(situ_tree *dict, int count, const char *const *keys) {
  assert_non_null(dict);
  assert_int_equal(situ_tree_count(dict), count);
  for (int i = 0; i < count; i++) assert_string_equal(situ_tree_key(dict, i), keys[i]);
  situ_tree_free(dict);
}
#define KEYS(...) \
  (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), (const char *[]) { __VA_ARGS__ }

/* As python3 -c 'print(list(torch.nn.X(...).state_dict()))' lists them. */
static void names_are_torchs(void **state) {
  (void)state;
  situ_nn_module *m =
      situ_nn_transformer_encoder_layer(8, 2, OPTIONS_AT(situ_nn_transformer, with.dim_feedforward = 16, with HERE));
  expect_keys(situ_nn_state_dict(m),
              KEYS("self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
                   "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
                   "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"));
  situ_nn_free(m);
  m = situ_nn_transformer_decoder(
      situ_nn_transformer_decoder_layer(
          8, 2, OPTIONS_AT(situ_nn_transformer, with.dim_feedforward = 16, with.no_bias = true, with HERE)),
      1, situ_nn_layer_norm(SITU_SHAPE(8), OPTIONS_AT(situ_nn_norm, with HERE)));
  expect_keys(situ_nn_state_dict(m),
              KEYS("layers.0.self_attn.in_proj_weight", "layers.0.self_attn.out_proj.weight",
                   "layers.0.multihead_attn.in_proj_weight", "layers.0.multihead_attn.out_proj.weight",
                   "layers.0.linear1.weight", "layers.0.linear2.weight", "layers.0.norm1.weight",
                   "layers.0.norm2.weight", "layers.0.norm3.weight", "norm.weight", "norm.bias"));
  situ_nn_free(m);
  m = situ_nn_multihead_attention(4, 2, &(situ_nn_multihead_attention_options){ .kdim = 3, .vdim = 5, HERE });
  expect_keys(situ_nn_state_dict(m), KEYS("q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias",
                                          "out_proj.weight", "out_proj.bias"));
  situ_nn_free(m);
  m = situ_nn_batch_norm2d(3, OPTIONS_AT(situ_nn_batch_norm, with HERE));
  expect_keys(situ_nn_state_dict(m), KEYS("weight", "bias", "running_mean", "running_var", "num_batches_tracked"));
  expect_keys(situ_nn_buffers(m), KEYS("running_mean", "running_var", "num_batches_tracked"));
  expect_keys(situ_nn_parameters(m), KEYS("weight", "bias"));
  situ_nn_free(m);
  m = situ_nn_bce_with_logits_loss(NULL, T32(SITU_SHAPE(2), 1, 2), SITU_REDUCTION_MEAN);
  expect_keys(situ_nn_state_dict(m), KEYS("pos_weight"));
  situ_nn_free(m);
}

static void holds_the_modules_own_tensors(void **state) {
  (void)state;
  situ_nn_module *m = fc(2, 2);
  situ_tree *dict = situ_nn_state_dict(m);
  assert_ptr_equal(situ_tree_get(dict, "weight"), situ_nn_get_tensor(m, "weight"));
  situ_nn_free(m);
  assert_int_equal(situ_numel(situ_tree_get(dict, "weight")), 4);
  situ_tree_free(dict);
}

static situ_tensor *cloned(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_clone(situ_detach(t));
}
static situ_tree *with(situ_tree *dict, const char *key, situ_tensor *t) {
  return situ_tree_put(dict, key, situ_tree_tensor(t));
}

static void loads_values_in_place(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(fc(2, 1), situ_nn_batch_norm1d(1, OPTIONS_AT(situ_nn_batch_norm, with HERE)));
  situ_tensor *weight = situ_nn_get_tensor(m, "0.weight"), *alias = situ_detach(weight);
  situ_device cpu = { .kind = SITU_CPU };
  /* From cpu whatever the module is on, cast from f64, and nested as well as flat. */
  situ_tree *part = with(situ_tree_dict(), "weight", situ_to(T64(SITU_SHAPE(1, 2), 5, 6), cpu));
  part = with(part, "bias", T32(SITU_SHAPE(1), 7));
  situ_tree *dict = situ_tree_put(situ_tree_dict(), "0", part);
  dict = with(with(dict, "1.weight", T32(SITU_SHAPE(1), 1)), "1.bias", T32(SITU_SHAPE(1), 2));
  dict = with(with(dict, "1.running_mean", T32(SITU_SHAPE(1), 3)), "1.running_var", T32(SITU_SHAPE(1), 4));
  dict = with(dict, "1.num_batches_tracked", TI64(SITU_SCALAR, 9));
  assert_int_equal(situ_nn_load_state_dict(m, dict, NULL), SITU_OK);
  assert_ptr_equal(situ_nn_get_tensor(m, "0.weight"), weight);
  expect_exact(alias, SITU_SHAPE(1, 2), 5, 6);
  expect_exact(situ_nn_get_tensor(m, "0.bias"), SITU_SHAPE(1), 7);
  expect_exact(situ_nn_get_tensor(m, "1.num_batches_tracked"), SITU_SCALAR, 9);
  assert_true(situ_requires_grad(weight) && situ_is_leaf(weight));
  assert_int_equal(situ_dtype_of(weight), SITU_F32);
  situ_tree_free(dict);
  situ_nn_free(m);
}

/* Counters of old checkpoints have one dimension of size 1; torch takes them for numbers, and so do we. */
static void one_element_fits_a_number(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_batch_norm1d(1, OPTIONS_AT(situ_nn_batch_norm, with HERE));
  situ_tree *dict = situ_nn_state_dict(m), *flat = situ_tree_dict(), *two = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(dict); i++) {
    const char *key = situ_tree_key(dict, i);
    const bool number = !strcmp(key, "num_batches_tracked");
    flat = with(flat, key, number ? TI64(SITU_SHAPE(1), 9) : situ_tree_tensor_at(dict, i));
    two = with(two, key, number ? TI64(SITU_SHAPE(2), 9, 9) : situ_tree_tensor_at(dict, i));
  }
  assert_int_equal(situ_nn_load_state_dict(m, flat, NULL), SITU_OK);
  expect_exact(situ_nn_get_tensor(m, "num_batches_tracked"), SITU_SCALAR, 9);
  situ_nn_module *blank = situ_nn_batch_norm1d(1, OPTIONS_AT(situ_nn_batch_norm, with.device = situ_dev("meta")));
  assert_int_equal(situ_nn_load_state_dict(blank, flat, &(situ_nn_load_options){ .device = test_device() }), SITU_OK);
  expect_exact(situ_nn_get_tensor(blank, "num_batches_tracked"), SITU_SCALAR, 9);
  assert_int_equal(situ_nn_load_state_dict(m, two, NULL), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "nn_load_state_dict", "num_batches_tracked ([2] i64 in the state, [] i64 in the module)");
  assert_int_equal(situ_nn_load_state_dict(NULL, two, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_load_state_dict", "`module` is NULL");
  assert_int_equal(situ_nn_load_state_dict(m, NULL, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_load_state_dict", "`state` is NULL");
  situ_tree_free(dict);
  situ_tree_free(flat);
  situ_tree_free(two);
  situ_nn_free(m);
  situ_nn_free(blank);
}

static void every_problem_is_in_one_error(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(fc(2, 2), fc(2, 3));
  situ_tensor *kept = situ_clone(situ_nn_get_tensor(m, "0.bias"));
  situ_tree *dict = with(situ_tree_dict(), "0.bias", T32(SITU_SHAPE(2), 1, 2));
  dict = with(with(dict, "1.weight", T32(SITU_SHAPE(2, 2), 1, 2, 3, 4)), "head.weight", T32(SITU_SHAPE(1), 0));
  assert_int_not_equal(situ_nn_load_state_dict(m, dict, NULL), SITU_OK);
  assert_non_null(strstr(situ_error_message(), "missing: 0.weight, 1.bias"));
  assert_non_null(strstr(situ_error_message(), "unexpected: head.weight"));
  expect_error(SITU_E_ARG, "nn_load_state_dict",
               "mismatch: 1.weight ([2, 2] f32 in the state, [3, 2] f32 in the module)");
  /* Nothing has changed, not even what would have fitted. */
  expect_same(situ_nn_get_tensor(m, "0.bias"), kept, 0, 0);
  situ_tree_free(dict);
  situ_nn_free(m);
}

/* The entries of a state are expected in the module's order, but need not have it. */
static void the_order_of_a_state_does_not_matter(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(fc(2, 1), fc(1, 1), fc(1, 2));
  situ_tree *own = situ_nn_state_dict(m), *turned = situ_tree_dict(), *nested = situ_tree_dict();
  for (int64_t i = situ_tree_count(own) - 1; i >= 0; i--) {
    situ_tensor *t = situ_full(situ_shape_of(situ_tree_tensor_at(own, i)), (double)i, &(situ_options){ HERE });
    turned = with(turned, situ_tree_key(own, i), t);
    nested = situ_tree_put(nested, situ_tree_key(own, i), situ_tree_of(1, (situ_tensor *[]){ t }));
  }
  assert_int_equal(situ_nn_load_state_dict(m, turned, NULL), SITU_OK);
  for (int64_t i = 0; i < situ_tree_count(own); i++)
    expect_same(situ_tree_tensor_at(own, i), situ_tree_get(turned, situ_tree_key(own, i)), 0, 0);
  /* A list in a dict makes the key "0.weight.0". */
  assert_int_equal(situ_nn_load_state_dict(m, nested, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_load_state_dict", "missing: 0.weight, 0.bias");
  turned = with(turned, "1.scale", T32(SITU_SHAPE(1), 0));
  assert_int_equal(situ_nn_load_state_dict(m, turned, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_load_state_dict", "unexpected: 1.scale");
  situ_tree_free(own);
  situ_tree_free(turned);
  situ_tree_free(nested);
  situ_nn_free(m);
}

static void note(situ_nn_load_problem problem, const char *path, void *payload) {
  char *text = payload;
  strcat(text, problem == SITU_NN_LOAD_MISSING ? "-" : problem == SITU_NN_LOAD_UNEXPECTED ? "+" : "!");
  strcat(text, path);
}

static void not_strict_loads_what_fits(void **state) {
  (void)state;
  char text[200] = "";
  situ_nn_load_options options = { .not_strict = true, .report = note, .payload = text };
  situ_nn_module *m = fc(2, 2);
  situ_tree *dict = with(with(situ_tree_dict(), "bias", T32(SITU_SHAPE(2), 1, 2)), "x", T32(SITU_SHAPE(1), 0));
  assert_int_equal(situ_nn_load_state_dict(m, dict, &options), SITU_OK);
  assert_string_equal(text, "-weight+x");
  expect_exact(situ_nn_get_tensor(m, "bias"), SITU_SHAPE(2), 1, 2);
  situ_tree_free(dict);
  /* A shape that differs is refused all the same, as in torch. */
  dict = with(situ_tree_dict(), "bias", T32(SITU_SHAPE(3), 1, 2, 3));
  assert_int_equal(situ_nn_load_state_dict(m, dict, &options), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "nn_load_state_dict", "mismatch: bias");
  situ_tree_free(dict);
  situ_nn_free(m);
}

static void whole_numbers_take_no_fractions(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_batch_norm1d(1, OPTIONS_AT(situ_nn_batch_norm, with.no_affine = true, with HERE));
  situ_tree *dict =
      with(with(situ_tree_dict(), "running_mean", T32(SITU_SHAPE(1), 1)), "running_var", T32(SITU_SHAPE(1), 1));
  dict = with(dict, "num_batches_tracked", T32(SITU_SCALAR, 1.5));
  assert_int_not_equal(situ_nn_load_state_dict(m, dict, NULL), SITU_OK);
  expect_error(SITU_E_SHAPE, "nn_load_state_dict", "num_batches_tracked");
  situ_tree_free(dict);
  situ_nn_free(m);
}

/* tests/nn/meta.c has what can be done with meta. */
static void values_that_nobody_has_are_not_loaded(void **state) {
  (void)state;
  situ_nn_module *m = fc(2, 2);
  situ_tensor *kept = situ_clone(situ_nn_get_tensor(m, "weight"));
  const situ_device where[] = { { .kind = SITU_META }, test_device() };
  for (int k = 0; k < 2; k++) {
    situ_options o = { .device = where[k] };
    situ_tree *empty =
        with(with(situ_tree_dict(), "bias", situ_zeros(SITU_SHAPE(2), &o)), "weight", situ_empty(SITU_SHAPE(2, 2), &o));
    assert_int_not_equal(situ_nn_load_state_dict(m, empty, NULL), SITU_OK);
    expect_error(SITU_E_STATE, "nn_load_state_dict", "weight: the state's holds no values");
    expect_same(situ_nn_get_tensor(m, "weight"), kept, 0, 0);
    situ_tree_free(empty);
  }
  situ_nn_free(m);
}

static void a_lazy_layer_has_no_state_yet(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_lazy_linear(2, NULL));
  expect_refused(situ_nn_parameters(m), SITU_E_STATE, "nn_parameters", "0, a LazyLinear has no parameters yet");
  expect_refused(situ_nn_state_dict(m), SITU_E_STATE, "nn_state_dict", "");
  situ_nn_free(m);
}

/* Each allocation of saving and loading fails once: an error, nothing leaks, and no value has
   changed. */
static void loading_without_memory_changes_nothing(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(fc(2, 3), fc(3, 1)), *from = situ_nn_sequential(fc(2, 3), fc(3, 1));
  situ_tree *own = situ_nn_state_dict(m), *saved = situ_tree_map(own, cloned, NULL), *wanted = situ_nn_state_dict(from);
  uint64_t nth = 0;
  bool whole = false;
  while (!whole) {
    assert_true(++nth < 500);
    situ_fail_allocation(nth, false);
    whole = situ_nn_load_state_dict(m, wanted, NULL) == SITU_OK;
    situ_fail_allocation(0, false);
    if (!whole) expect_error(SITU_E_NOMEM, "", "");
    situ_tree *now = situ_nn_state_dict(m);
    for (int64_t i = 0; i < situ_tree_count(now); i++)
      expect_same(situ_tree_tensor_at(now, i), situ_tree_tensor_at(whole ? wanted : saved, i), 0, 0);
    situ_tree_free(now);
  }
  assert_true(nth > 3); /* a text, a list and its parts: a flat state is not copied */
  situ_tree_free(own);
  situ_tree_free(saved);
  situ_tree_free(wanted);
  situ_nn_free(m);
  situ_nn_free(from);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(names_are_torchs),
    MODULE_TEST(holds_the_modules_own_tensors),
    MODULE_TEST(loads_values_in_place),
    MODULE_TEST(one_element_fits_a_number),
    MODULE_TEST(every_problem_is_in_one_error),
    MODULE_TEST(the_order_of_a_state_does_not_matter),
    MODULE_TEST(not_strict_loads_what_fits),
    MODULE_TEST(whole_numbers_take_no_fractions),
    MODULE_TEST(values_that_nobody_has_are_not_loaded),
    MODULE_TEST(a_lazy_layer_has_no_state_yet),
    MODULE_TEST(loading_without_memory_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
