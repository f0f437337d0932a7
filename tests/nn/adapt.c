/* Layers on quantised weights, and LoRA: values, what is trained and saved, what is refused, and that a failure changes
   nothing. They load and compute on the cpu, and move to sim:0 and back.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/gguf.h"
#include "situ/nn.h"
#include "situ/optim.h"
#include "situ/place.h"
#include "situ/sys/alloc.h"
#include "support/test.h"

typedef struct attention {
  situ_nn_module base;
  situ_nn_module *q_proj, *v_proj;
} attention;
typedef struct model {
  situ_nn_module base;
  situ_nn_module *embed_tokens, *self_attn, *lm_head;
} model;

static situ_tensor *attention_forward(situ_nn_module *self, situ_tensor *x) {
  attention *m = (attention *)self;
  return situ_add(x, situ_mul(situ_tanh(situ_nn_forward(m->q_proj, x)), situ_nn_forward(m->v_proj, x)));
}
static situ_tensor *model_forward(situ_nn_module *self, situ_tensor *x) {
  model *m = (model *)self;
  return situ_nn_forward(m->lm_head, situ_nn_forward(m->self_attn, situ_nn_forward(m->embed_tokens, x)));
}
static const situ_nn_type attention_type = { .name = "Attention",
                                             .size = sizeof(attention),
                                             .forward = attention_forward };
static const situ_nn_type model_type = { .name = "Model", .size = sizeof(model), .forward = model_forward };

/* On parts of the Llama-shaped file. */
static situ_nn_module *model_new(void) {
  attention *a = situ_nn_alloc(&attention_type);
  const situ_nn_linear_options plain = { .no_bias = true };
  situ_nn_child(a, q_proj, situ_nn_block_linear(32, 32, SITU_BLOCK_Q4_0, &plain));
  situ_nn_child(a, v_proj, situ_nn_block_linear(32, 32, SITU_BLOCK_Q4_0, &plain));
  situ_nn_module *self_attn = situ_nn_done(a);
  model *m = situ_nn_alloc(&model_type);
  situ_nn_child(m, embed_tokens, situ_nn_block_embedding(8, 32, SITU_BLOCK_Q8_0, NULL));
  situ_nn_child(m, self_attn, self_attn);
  situ_nn_child(m, lm_head, situ_nn_block_linear(32, 8, SITU_BLOCK_Q8_0, &plain));
  return situ_nn_done(m);
}

static const char *model_file(void) {
  static char file[1024];
  const char *root = getenv("SITU_TEST_ROOT");
  snprintf(file, sizeof file, "%s/io/gguf/model.gguf", root ? root : ".");
  return file;
}

/* v_proj takes attn_output's rows, of the shape that this model needs. */
static const situ_nn_rename rows[] = { { "token_embd", "embed_tokens" },
                                       { "output", "lm_head" },
                                       { "blk.0.attn_q", "self_attn.q_proj" },
                                       { "blk.0.attn_output", "self_attn.v_proj" } };
static const situ_nn_load_options by_rows = { .not_strict = true, .rename = rows, .rename_count = 4 };

static situ_nn_module *loaded(void) {
  situ_nn_module *m = model_new();
  situ_tree *state = situ_load(model_file(), NULL);
  assert_int_equal(situ_nn_load_state_dict(m, state, &by_rows), SITU_OK);
  situ_tree_free(state);
  return m;
}

static situ_tensor *tokens(void) { return TI64(SITU_SHAPE(2, 3), 0, 1, 2, 7, 5, 3); }

static situ_tensor *values_of(situ_nn_module *m, const char *path) {
  return situ_dequantize(situ_nn_get_tensor(m, path));
}

static void loads_blocks(void **state) {
  (void)state;
  situ_nn_module *m = model_new();
  assert_null(situ_nn_forward(m, tokens())); /* no values yet */
  expect_error(SITU_E_STATE, "", "no value");
  situ_nn_free(m);
  m = loaded();
  situ_tensor *x = situ_embedding(tokens(), values_of(m, "embed_tokens.weight"), NULL);
  situ_tensor *q = situ_linear(x, values_of(m, "self_attn.q_proj.weight"), NULL),
              *v = situ_linear(x, values_of(m, "self_attn.v_proj.weight"), NULL);
  situ_tensor *y = situ_linear(situ_add(x, situ_mul(situ_tanh(q), v)), values_of(m, "lm_head.weight"), NULL);
  expect_same(situ_nn_forward(m, tokens()), y, 1e-5, 1e-4);
  char text[2048];
  assert_true(situ_nn_to_string(m, text, sizeof text) > 0);
  assert_non_null(strstr(text, "BlockLinear(in_features=32, out_features=32, type=Q4_0, bias=False)"));
  assert_non_null(strstr(text, "BlockEmbedding(8, 32, type=Q8_0)"));
  /* Moves and comes back, counted in bytes: 8 rows of 34, and twice 32 of 18, and 8 of 34. */
  assert_int_equal(situ_nn_to(m, situ_dev("sim:0")), SITU_OK);
  assert_int_equal(situ_block_type_of(situ_nn_get_tensor(m, "lm_head.weight")), SITU_BLOCK_Q8_0);
  expect_same(situ_to(situ_nn_forward(m, situ_to(tokens(), situ_dev("sim:0"))), situ_dev("cpu")), y, 1e-5, 1e-4);
  situ_nn_free(m);
}

/* safetensors has no such types: they are metadata. In several files, and mapped. */
static void saves_and_loads_as_safetensors(void **state) {
  (void)state;
  situ_nn_module *m = loaded();
  situ_tree *dict = situ_nn_state_dict(m);
  const situ_metadata own = { "own", "kept" };
  const situ_save_options one = { .metadata = &own, .metadata_count = 1 }, several = { .max_shard_bytes = 600 };
  assert_int_equal(situ_save("blocks.safetensors", dict, &one), SITU_OK);
  assert_int_equal(situ_save("blocks.safetensors.index.json", dict, &several), SITU_OK);
  situ_tree_free(dict);
  for (int k = 0; k < 4; k++) {
    situ_nn_module *other = model_new();
    dict =
        situ_load(k & 1 ? "blocks.safetensors" : "blocks.safetensors.index.json", &(situ_load_options){ .map = k & 2 });
    assert_int_equal(situ_nn_load_state_dict(other, dict, NULL), SITU_OK);
    situ_tree_free(dict);
    expect_same(situ_nn_forward(other, tokens()), situ_nn_forward(m, tokens()), 0, 0);
    situ_nn_free(other);
  }
  situ_safetensors *f = situ_safetensors_open("blocks.safetensors", NULL);
  assert_string_equal(situ_safetensors_metadata(f, "own"), "kept");
  assert_string_equal(situ_safetensors_metadata(f, "situ.blocks.lm_head.weight"), "Q8_0");
  situ_safetensors_close(f);
  assert_int_not_equal(situ_npy_save("blocks.npy", situ_nn_get_tensor(m, "lm_head.weight"), NULL), SITU_OK);
  expect_error(SITU_E_UNSUPPORTED, "npy_save", "Q8_0 blocks");
  situ_nn_free(m);
}

/* On meta first, mapped, and adopted without a copy. */
static void adopts_a_mapped_file(void **state) {
  (void)state;
  situ_nn_module *whole = loaded(), *m = model_new();
  situ_tree *dict = situ_load(model_file(), &(situ_load_options){ .map = true });
  situ_nn_load_options adopting = by_rows;
  adopting.assign = true;
  assert_int_equal(situ_nn_load_state_dict(m, dict, &adopting), SITU_OK);
  situ_tree_free(dict);
  expect_same(situ_nn_forward(m, tokens()), situ_nn_forward(whole, tokens()), 0, 0);
  situ_nn_free(m);
  situ_nn_free(whole);
}

/* Q4_0 and Q4_K have the same bytes: the type decides. */
static void refuses_other_types(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_block_linear(256, 2, SITU_BLOCK_Q4_K, &(situ_nn_linear_options){ .no_bias = true });
  unsigned char bytes[2 * 144] = { 0 };
  situ_tensor *other = situ_blocks_from_host(bytes, sizeof bytes, &SITU_SHAPE(2, 256), SITU_BLOCK_Q4_0, NULL);
  situ_tree *dict = situ_tree_put(situ_tree_dict(), "weight", situ_tree_tensor(other));
  assert_int_not_equal(situ_nn_load_state_dict(m, dict, NULL), SITU_OK);
  expect_error(SITU_E_SHAPE, "nn_load_state_dict", "[2, 144] Q4_0 in the state, [2, 144] Q4_K in the module");
  situ_tree_free(dict);
  dict = situ_tree_put(situ_tree_dict(), "weight",
                       situ_tree_tensor(situ_zeros(SITU_SHAPE(2, 144), &(situ_options){ .dtype = SITU_U8 })));
  assert_int_not_equal(situ_nn_load_state_dict(m, dict, NULL), SITU_OK);
  expect_error(SITU_E_SHAPE, "nn_load_state_dict", "u8 in the state");
  situ_tree_free(dict);
  situ_nn_free(m);
  expect_refused(situ_nn_block_linear(33, 2, SITU_BLOCK_Q8_0, NULL), SITU_E_SHAPE, "", "32");
  expect_refused(situ_nn_block_linear(32, 2, SITU_BLOCK_NONE, NULL), SITU_E_ARG, "", "");
}

static double loss_of(situ_nn_module *m, situ_optim *optimizer) {
  double value = 0;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *target = TI64(SITU_SHAPE(6), 1, 2, 3, 4, 5, 6);
  situ_tensor *loss = situ_cross_entropy(situ_flatten(situ_nn_forward(m, tokens()), 0, 1), target, NULL);
  assert_int_equal(situ_item(loss, &value), SITU_OK);
  if (optimizer) {
    assert_int_equal(situ_backward(loss, NULL), SITU_OK);
    assert_int_equal(situ_optim_step(optimizer), SITU_OK);
    assert_int_equal(situ_optim_zero_grad(optimizer, true), SITU_OK);
  }
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  return value;
}

static const char *const targets[] = { "q_proj", "self_attn.v_proj" };

static void trains_saves_and_reloads_adapters(void **state) {
  (void)state;
  situ_nn_module *m = loaded();
  const double before = loss_of(m, NULL);
  const situ_nn_lora_options options = OPTIONS_OF(situ_nn_lora, with.r = 4, with.lora_alpha = 16);
  assert_int_equal(situ_nn_lora_add(m, targets, 2, &options), SITU_OK);
  assert_true(loss_of(m, NULL) == before); /* lora_B is 0 */
  situ_tree *parameters = situ_nn_parameters(m);
  assert_int_equal(situ_tree_count(parameters), 4); /* the adapters', nothing else */
  situ_optim *optimizer = situ_optim_adamw(parameters, 0.01, NULL);
  double last = before;
  for (int k = 0; k < 60; k++) last = loss_of(m, optimizer);
  assert_true(last < 0.5 * before);
  last = loss_of(m, NULL);
  situ_optim_free(optimizer);

  situ_tree *adapters = situ_nn_lora_state_dict(m);
  assert_int_equal(situ_tree_count(adapters), 4);
  assert_non_null(situ_tree_find(adapters, "self_attn.q_proj.lora_A.weight"));
  assert_non_null(situ_tree_find(adapters, "self_attn.v_proj.lora_B.weight"));
  assert_int_equal(situ_save("adapter.safetensors", adapters, NULL), SITU_OK);
  situ_tree_free(adapters);
  situ_nn_free(m);

  m = loaded();
  assert_int_equal(situ_nn_lora_add(m, targets, 2, &options), SITU_OK);
  situ_tree *saved = situ_load("adapter.safetensors", NULL);
  assert_int_equal(situ_nn_lora_load_state_dict(m, saved, NULL), SITU_OK);
  assert_true(loss_of(m, NULL) == last);
  saved = situ_tree_put(saved, "more", situ_tree_tensor(T32(SITU_SHAPE(1), 0)));
  assert_int_not_equal(situ_nn_lora_load_state_dict(m, saved, NULL), SITU_OK);
  expect_error(SITU_E_ARG, "nn_lora_load_state_dict", "more of the state belongs to no adapter");
  situ_tree_free(saved);
  saved = situ_tree_dict();
  assert_int_not_equal(situ_nn_lora_load_state_dict(m, saved, NULL), SITU_OK);
  expect_error(SITU_E_ARG, "nn_lora_load_state_dict", "lacks");
  situ_tree_free(saved);
  situ_nn_free(m);
}

/* Around a plain Linear: values by its definition, gradients of the adapter alone, its layer frozen. */
static void wraps_linear(void **state) {
  (void)state;
  situ_nn_module *m =
      situ_nn_lora(situ_nn_linear(6, 5, NULL), OPTIONS_AT(situ_nn_lora, with.r = 2, with.lora_alpha = 3));
  situ_tensor *x = situ_to_dtype(test_random(SITU_SHAPE(4, 6), -1, 1, false), SITU_F32);
  situ_tensor *a = situ_nn_get_tensor(m, "lora_A.weight"), *b = situ_nn_get_tensor(m, "lora_B.weight"),
              *w = situ_nn_get_tensor(m, "base_layer.weight"), *bias = situ_nn_get_tensor(m, "base_layer.bias");
  assert_non_null(situ_nn_init_normal_(b, 0, 1, NULL));
  situ_tensor *update = situ_mul_scalar(situ_matmul(b, a), 1.5);
  expect_same(situ_nn_forward(m, x), situ_linear(x, situ_add(w, update), bias), 1e-5, 1e-5);
  assert_int_equal(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL), SITU_OK);
  assert_true(situ_grad(a) && situ_grad(b) && !situ_grad(w) && !situ_grad(bias));
  expect_refused(situ_nn_lora(m, NULL), SITU_E_STATE, "nn_lora", "adapter already");
  expect_refused(situ_nn_lora(situ_nn_identity(), NULL), SITU_E_ARG, "nn_lora", "weight");
  expect_refused(situ_nn_lora(situ_nn_linear(2, 2, NULL), OPTIONS_AT(situ_nn_lora, with.r = -1)), SITU_E_ARG, "nn_lora",
                 "r -1");
}

static void a_failure_changes_nothing(void **state) {
  (void)state;
  situ_nn_module *m = loaded();
  const double before = loss_of(m, NULL);
  static const char *const wrong[] = { "q_proj", "k_proj" }, *const whole[] = { "self_attn" };
  assert_int_not_equal(situ_nn_lora_add(m, wrong, 2, NULL), SITU_OK);
  expect_error(SITU_E_ARG, "nn_lora_add", "named 'k_proj'");
  assert_int_not_equal(situ_nn_lora_add(m, whole, 1, NULL), SITU_OK);
  expect_error(SITU_E_ARG, "nn_lora_add", "weight");
  assert_int_not_equal(situ_nn_lora_add(m, NULL, 1, NULL), SITU_OK);
  expect_error(SITU_E_ARG, "nn_lora_add", "");
  for (int64_t at = 1;; at++) {
    assert_true(at < 2000);
    situ_fail_allocation(at, false);
    const situ_status status = situ_nn_lora_add(m, targets, 2, NULL);
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    expect_error(SITU_E_NOMEM, "", "");
    situ_tree *adapters = situ_nn_lora_state_dict(m);
    assert_int_equal(situ_tree_count(adapters), 0);
    situ_tree_free(adapters);
  }
  assert_true(loss_of(m, NULL) == before);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(saves_and_loads_as_safetensors),
                                      TEST(loads_blocks),
                                      TEST(adopts_a_mapped_file),
                                      TEST(refuses_other_types),
                                      TEST(trains_saves_and_reloads_adapters),
                                      TEST(wraps_linear),
                                      TEST(a_failure_changes_nothing) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
