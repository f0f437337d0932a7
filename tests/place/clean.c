/* The lint and the preflight find nothing where nothing is wrong: the library's layers, the
   examples and the demo, before and after they have trained and moved.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 opencl:0 */
#include <unistd.h>

#include "device/dry.h"
#include "situ/situ.h"
#include "situ/sys/tensor.h"
#include "support/pairs.h"

/* Notes count too. */
static void expect_clean(situ_nn_module *m, situ_optim *const *optims, int64_t count, const char *when) {
  situ_lint_options options = { .optims = optims, .optim_count = count, .strict = true };
  if (situ_place_lint(m, &options) == SITU_OK) return;
  print_error("%s: %s\n", when, situ_error_message());
  fail();
}

static void expect_ready(situ_nn_module *m, situ_tensor *x, const char *when) {
  situ_tree *inputs = situ_tree_tensor(x);
  if (situ_place_check(m, inputs, NULL, NULL) != SITU_OK) {
    print_error("%s: %s\n", when, situ_error_message());
    fail();
  }
  situ_tree_free(inputs);
}

/* ---- the library's layers ---- */

static int seen;

/* Takes the module over. x NULL: it is not called. */
static void layer(situ_nn_module *m, situ_tensor *x) {
  situ_optim *optim = NULL;
  assert_non_null(m);
  seen++;
  expect_clean(m, NULL, 0, "made");
  if (situ_nn_num_parameters(m)) optim = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  if (x) expect_ready(m, x, "made");
  if (x && optim) {
    expect_ok(situ_backward(situ_mean(situ_nn_forward(m, x), NULL), NULL));
    expect_ok(situ_optim_step(optim));
  }
  expect_clean(m, &optim, optim != NULL, "trained");
  expect_ok(situ_nn_to(m, test_device()));
  expect_clean(m, &optim, optim != NULL, "moved");
  situ_optim_free(optim);
  situ_nn_free(m);
}

static void layers_are_clean(void **state) {
  (void)state;
  situ_tensor *rows = situ_randn(SITU_SHAPE(3, 8), NULL);
  situ_tensor *words = situ_randn(SITU_SHAPE(5, 3, 8), NULL);
  situ_tensor *image = situ_randn(SITU_SHAPE(2, 4, 6, 6), NULL);
  situ_tensor *ids = situ_randint(0, 9, SITU_SHAPE(3), NULL);
  seen = 0;
  layer(situ_nn_linear(8, 4, NULL), rows);
  layer(situ_nn_embedding(9, 4, NULL), ids);
  layer(situ_nn_conv1d(3, 4, 3, NULL), words);
  layer(situ_nn_conv2d(4, 6, SITU_DIMS(3), NULL), image);
  layer(situ_nn_conv_transpose2d(4, 6, SITU_DIMS(3), NULL), image);
  layer(situ_nn_batch_norm1d(8, NULL), rows);
  layer(situ_nn_batch_norm2d(4, NULL), image);
  layer(situ_nn_layer_norm(SITU_SHAPE(8), NULL), rows);
  layer(situ_nn_rms_norm(SITU_SHAPE(8), NULL), rows);
  layer(situ_nn_group_norm(2, 4, NULL), image);
  layer(situ_nn_multihead_attention(8, 2, NULL), words);
  layer(situ_nn_multihead_attention(8, 2, &(situ_nn_multihead_attention_options){ .kdim = 6 }), NULL);
  layer(situ_nn_transformer_encoder_layer(8, 2, NULL), words);
  layer(situ_nn_sequential(situ_nn_linear(8, 4, NULL), situ_nn_relu(), situ_nn_dropout(0.5)), rows);
  layer(situ_nn_module_list(situ_nn_linear(8, 4, NULL), situ_nn_linear(8, 4, NULL)), NULL);
  layer(situ_nn_put(situ_nn_module_dict(), "fc", situ_nn_linear(8, 4, NULL)), NULL);
  layer(situ_nn_max_pool2d(SITU_DIMS(2), NULL), image);
  layer(situ_nn_avg_pool2d(SITU_DIMS(2), NULL), image);
  layer(situ_nn_adaptive_avg_pool2d(SITU_DIMS(2)), image);
  layer(situ_nn_identity(), rows);
  layer(situ_nn_flatten(1, -1), image);
  layer(situ_nn_silu(), rows);
  layer(situ_nn_gelu(SITU_GELU_NONE), rows);
  layer(situ_nn_leaky_relu(0.01), rows);
  layer(situ_nn_elu(1), rows);
  layer(situ_nn_softplus(1, 20), rows);
  layer(situ_nn_hardtanh(-1, 1), rows);
  layer(situ_nn_softmax(-1), rows);
  layer(situ_nn_log_softmax(-1), rows);
  layer(situ_nn_mse_loss(SITU_REDUCTION_MEAN), NULL);
  layer(situ_nn_cross_entropy_loss(NULL), NULL);
  layer(situ_nn_kl_div_loss(SITU_KL_MEAN, false), NULL);
  print_message("%d layers, nothing found\n", seen);
}

/* What looks like a mistake and is none. */
typedef struct honest {
  situ_nn_module base;
  situ_nn_module *fc, *same, *parent;
  situ_tensor *turned, *average, *bias;
} honest;
static const situ_nn_type honest_type = { .name = "Honest", .size = sizeof(honest) };

static void what_moves_along_needs_no_registration(void **state) {
  (void)state;
  honest *m = situ_nn_alloc(&honest_type);
  m->parent = &m->base;
  situ_nn_child(m, fc, situ_nn_linear(4, 4, NULL));
  m->same = m->fc;
  situ_tensor *weight = situ_nn_get_tensor(m->fc, "weight");
  m->turned = situ_transpose(situ_detach(weight), 0, 1);
  m->average = situ_clone(situ_detach(weight));
  expect_ok(situ_follow(m->average, weight));
  m->bias = situ_nn_get_tensor(m->fc, "bias");
  situ_nn_module *net = situ_nn_done(m);
  expect_clean(net, NULL, 0, "made");
  expect_ok(situ_nn_to(net, test_device()));
  expect_clean(net, NULL, 0, "moved");
  situ_nn_free(net);
}

/* Layers on devices of their own are meant, where somebody has moved them there. */
static void a_model_over_two_devices_is_clean(void **state) {
  (void)state;
  situ_nn_module *net =
      situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_linear(4, 4, NULL), situ_nn_linear(4, 4, NULL));
  char map[32];
  (void)snprintf(map, sizeof map, "2=%s", name_of(test_device_at(0)));
  expect_ok(situ_nn_to_map(net, map));
  expect_clean(net, NULL, 0, "mapped");
  expect_ok(situ_nn_to(situ_nn_at(net, 0), test_device_at(1)));
  expect_clean(net, NULL, 0, "moved");
  situ_nn_free(net);
}

static void a_model_on_meta_is_clean(void **state) {
  (void)state;
  situ_nn_linear_options meta = { .device = situ_dev("meta") };
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(4, 4, &meta), situ_nn_linear(4, 2, &meta));
  expect_clean(net, NULL, 0, "meta");
  situ_nn_free(net);
}

/* ---- the examples and the demo: each model is looked at before it is freed ---- */

static situ_optim *optims[4];
static int64_t optim_count;
static int models, depth;
static bool own_preflight;
static situ_nn_module *ready; /* the newest that the preflight has seen */

/* A module's first call, from outside of any other, is looked at before it is made. */
static situ_tensor *look_then_forward(situ_nn_module *m, situ_tensor *x) {
  depth++;                                       /* what follows calls the parts of m, in a preflight too */
  own_preflight |= situ__is_dry() && depth == 1; /* example 08 has one */
  if (!situ__is_dry() && depth == 1 && m && x && m != ready) expect_ready(ready = m, x, "before its first call");
  situ_tensor *y = situ_nn_forward(m, x);
  depth--;
  return y;
}

static void later(situ_optim *o) { optims[optim_count++] = o; }

static void look_then_free(situ_nn_module *m) {
  if (m) expect_clean(m, optims, optim_count, "at its end");
  assert_true(!m || m == ready || own_preflight);
  models += m != NULL;
  situ_nn_free(m);
  while (optim_count) situ_optim_free(optims[--optim_count]);
}

#define SITU_DATA_DIR "data"
#undef situ_optim_free /* they stand for looks at each call (support/checked.h) */
#undef situ_nn_free
#undef situ_nn_forward
#define situ_optim_free later
#define situ_nn_free look_then_free
#define situ_nn_forward look_then_forward
#define main main_03
#include "../../examples/03_mlp.c"
#undef main
#define main main_04
#define train_step train_step_04
#include "../../examples/04_digits_cnn.c"
#undef main
#undef train_step
#define main main_05
#include "../../examples/05_own_module.c"
#undef main
#define main main_06
#include "../../examples/06_char_gpt.c"
#undef main
#define main main_07
#define state state_07
#include "../../examples/07_embed_in_your_program.c"
#undef main
#undef state
#define main main_08
#define WIDTH WIDTH_08
#define HEADS HEADS_08
#define LAYERS LAYERS_08
#define BATCH BATCH_08
#include "../../examples/08_placement.c"
#undef main
#include "../../demo/digits.c"
#include "../../demo/train.c"

static void examples_are_clean(void **state) {
  (void)state;
  if (there().kind != SITU_SIM) skip(); /* the programs choose their own devices: once is enough */
  static char program[] = "example", two[] = "2", gpl[] = "/usr/share/common-licenses/GPL-3";
  char data[4096];
  assert_non_null(getenv("SITU_TEST_ROOT"));
  snprintf(data, sizeof data, "%s/../demo/data", getenv("SITU_TEST_ROOT"));
  (void)unlink("data");
  assert_int_equal(symlink(data, "data"), 0);
  models = 0;
  assert_int_equal(main_03(1, (char *[]){ program, NULL }), 0);
  assert_int_equal(main_04(2, (char *[]){ program, two, NULL }), 0);
  assert_int_equal(main_05(1, (char *[]){ program, NULL }), 0);
  if (access(gpl, R_OK) == 0) assert_int_equal(main_06(3, (char *[]){ program, gpl, two, NULL }), 0);
  assert_int_equal(main_07(1, (char *[]){ program, NULL }), 0);
  assert_int_equal(main_08(1, (char *[]){ program, NULL }), 0);
  demo_digits digits = { 0 };
  demo_history history;
  situ_nn_module *net = demo_network();
  expect_ok(demo_digits_load(&digits, SITU_DATA_DIR "/digits.safetensors"));
  expect_ok(demo_train(net, &digits, 1, &history));
  look_then_free(net);
  demo_digits_free(&digits);
  print_message("%d models of examples and demo, nothing found\n", models);
  assert_true(models >= 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(layers_are_clean),
    MODULE_TEST(what_moves_along_needs_no_registration),
    MODULE_TEST(a_model_over_two_devices_is_clean),
    MODULE_TEST(a_model_on_meta_is_clean),
    MODULE_TEST(examples_are_clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
