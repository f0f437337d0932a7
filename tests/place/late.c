/* A part that comes late is one whole: all of it comes to its model's device, or all of it stays, or it is refused.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 sim:1 */
#include "situ/export.h"
#include "situ/nn/adapt.h"
#include "support/pairs.h"

static situ_nn_module *layer(void) { return situ_nn_linear(8, 8, NULL); }
static situ_nn_module *stated(void) { return situ_nn_linear(8, 8, &(situ_nn_linear_options){ .device = here() }); }

static situ_nn_module *model_there(void) {
  situ_nn_module *m = situ_nn_set_name(situ_nn_sequential(layer()), "model");
  expect_ok(situ_nn_to(m, there()));
  return m;
}

static situ_status is_there(const situ_nn_visit *at, void *payload) {
  const situ_device device = *(const situ_device *)payload;
  if (situ_device_equal(situ_device_of(at->tensor), device)) return SITU_OK;
  fail_msg("%s is on %s, not on %s", at->path, where(at->tensor), name_of(device));
  return SITU_OK;
}

static void expect_all(situ_nn_module *m, situ_device device) {
  expect_ok(situ_nn_walk(m, SITU_NN_VISIT_TENSORS, is_there, &device));
}

/* Adds it to a model that is there, and frees both. */
static void expect_late(situ_nn_module *part, situ_device device) {
  situ_nn_module *m = model_there();
  assert_non_null(situ_nn_append(m, part));
  expect_all(part, device);
  situ_nn_free(m);
}

/* ---- parts of the library's making ---- */

static void an_adapter_goes_with_its_layer(void **state) {
  (void)state;
  expect_late(situ_nn_lora(layer(), NULL), there());
  expect_late(situ_nn_lora(stated(), NULL), here());
  situ_nn_module *m = model_there(), *part = situ_nn_lora(layer(), NULL);
  assert_non_null(situ_nn_append(m, part));
  assert_non_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 8), &(situ_options){ .device = there() })));
  expect_ok(situ_place_lint(m, &(situ_lint_options){ .strict = true }));
  situ_nn_free(m);
}

typedef struct net {
  situ_nn_module base;
  situ_nn_module *fc;
  situ_tensor *b;
} net;
static situ_tensor *net_forward(situ_nn_module *self, situ_tensor *x) {
  const net *m = (const net *)self;
  return situ_add(situ_nn_forward(m->fc, x), m->b);
}
static const situ_nn_type net_type = { .name = "Net", .size = sizeof(net), .forward = net_forward };

/* own: its root has a tensor. */
static void write_program(bool onnx, bool own, const char *path) {
  net *m = own ? situ_nn_alloc(&net_type) : NULL;
  if (m) situ_nn_child(m, fc, layer());
  if (m) situ_nn_buffer(m, b, situ_randn(SITU_SHAPE(8), NULL));
  situ_nn_module *made = m ? situ_nn_done(m) : situ_nn_sequential(layer());
  situ_tree *in = SITU_TREE(situ_randn(SITU_SHAPE(2, 8), NULL));
  situ_nn_module *program = situ_export(made, in);
  assert_non_null(program);
  expect_ok(onnx ? situ_onnx_export(program, path, NULL) : situ_export_save(program, path));
  situ_nn_free(program);
  situ_tree_free(in);
  situ_nn_free(made);
}

static void a_program_stays_where_it_was_loaded(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    const bool onnx = k % 2;
    char path[64], text[2000];
    (void)snprintf(path, sizeof path, "late_%s%u.%s", there().kind == SITU_SIM ? "sim" : "", there().index,
                   onnx ? "onnx" : "pt2");
    write_program(onnx, k < 2, path);
    expect_late(situ_export_load(path, NULL), there());
    situ_nn_module *m = model_there(), *part = situ_export_load(path, &(situ_load_options){ .device = here() });
    assert_non_null(situ_nn_append(m, part));
    expect_all(part, here());
    expect_ok(situ_place_lint(m, NULL)); /* a note */
    assert_true(situ_place_lint_to_string(m, NULL, text, sizeof text) > 0);
    assert_non_null(strstr(text, "note: 1 ("));
    assert_non_null(strstr(text, "which was stated for it"));
    assert_null(strstr(strstr(text, "note: ") + 1, "note: "));
    expect_ok(situ_nn_to(situ_nn_get_submodule(m, "1"), there())); /* its fix */
    expect_ok(situ_place_lint(m, &(situ_lint_options){ .strict = true }));
    situ_nn_free(m);
    (void)remove(path);
  }
}

/* Each layer that can be told its device, made with it and without. */
static situ_nn_module *make(int which, situ_device device) {
  situ_nn_batch_norm_options batch = situ_nn_batch_norm_defaults();
  situ_nn_instance_norm_options instance = situ_nn_instance_norm_defaults();
  situ_nn_norm_options norm = situ_nn_norm_defaults();
  situ_nn_embedding_options table = situ_nn_embedding_defaults();
  situ_nn_embedding_bag_options bag = situ_nn_embedding_bag_defaults();
  situ_nn_transformer_options block = situ_nn_transformer_defaults();
  batch.device = instance.device = norm.device = table.device = bag.device = block.device = device;
  instance.affine = true;
  switch (which) {
  case 0: return situ_nn_linear(8, 8, &(situ_nn_linear_options){ .device = device });
  case 1: return situ_nn_conv2d(4, 4, SITU_DIMS(3), &(situ_nn_conv_options){ .device = device });
  case 2: return situ_nn_batch_norm2d(4, &batch);
  case 3: return situ_nn_instance_norm2d(4, &instance);
  case 4: return situ_nn_layer_norm(SITU_SHAPE(8), &norm);
  case 5: return situ_nn_embedding(9, 4, &table);
  case 6: return situ_nn_embedding_bag(9, 4, &bag);
  case 7: return situ_nn_multihead_attention(8, 2, &(situ_nn_multihead_attention_options){ .device = device });
  case 8: return situ_nn_transformer_encoder_layer(8, 2, &block);
  case 9: return situ_nn_lstm(8, 8, &(situ_nn_rnn_options){ .device = device });
  case 10: return situ_nn_prelu(1, 0.25, &(situ_nn_prelu_options){ .device = device });
  case 11: return situ_nn_bilinear(4, 4, 4, &(situ_nn_bilinear_options){ .device = device });
  default: return NULL;
  }
}

/* placement: B16 */
static void a_layer_keeps_the_device_that_it_was_told(void **state) {
  (void)state;
  int which = 0;
  for (situ_nn_module *told; (told = make(which, here())) != NULL; which++) {
    expect_late(told, here());
    expect_late(make(which, (situ_device){ 0 }), there());
  }
  assert_int_equal(which, 12);
}

/* ---- parts of a program's making ---- */

/* placement: B17 */
static void a_part_is_not_torn(void **state) {
  (void)state;
  expect_late(situ_nn_sequential(layer(), situ_nn_relu(), stated()), here());
  expect_late(situ_nn_sequential(layer(), situ_nn_sequential(layer())), there());
  /* A part that is spread on purpose stays so. */
  situ_nn_module *m = model_there(), *part = situ_nn_sequential(layer(), layer());
  expect_ok(situ_nn_to(situ_nn_at(part, 1), situ_dev("cpu")));
  expect_ok(situ_nn_to(situ_nn_at(part, 0), situ_dev("sim:1")));
  assert_non_null(situ_nn_append(m, part));
  expect_all(situ_nn_at(part, 0), situ_dev("sim:1"));
  expect_all(situ_nn_at(part, 1), situ_dev("cpu"));
  situ_nn_free(m);
}

/* ---- what a module does with late parts ---- */

static void count_line(const char *message, void *payload) {
  int *lines = payload;
  *lines += strstr(message, "nn_add_") && strstr(message, "on ") && strstr(message, name_of(there())) &&
            strstr(message, test_has_lines() ? "late.c:" : "");
}

/* placement: B17 */
static void late_parts_are_told(void **state) {
  (void)state;
  situ_nn_module *m = model_there();
  int lines = 0;
  situ_error_log(count_line, &lines);
  assert_non_null(situ_nn_append(m, layer()));
  assert_int_equal(lines, 0);
  assert_ptr_equal(situ_nn_set_late_policy(m, SITU_NN_LATE_WARN), m);
  assert_non_null(situ_nn_append(m, layer()));
  assert_int_equal(lines, 1);
  expect_all(situ_nn_at(m, 2), there());
  assert_non_null(situ_nn_append(m, stated()));
  assert_int_equal(lines, 2);
  expect_all(situ_nn_at(m, 3), here());
  expect_ok(situ_nn_to(m, there()));
  assert_non_null(situ_nn_add_tensor(m, "scale", NULL, situ_ones(SITU_SHAPE(1), NULL), SITU_NN_BUFFER));
  assert_int_equal(lines, 3);
  expect_on(situ_nn_get_tensor(m, "scale"), there());
  /* What is there already needs no word. */
  situ_nn_module *moved = layer();
  expect_ok(situ_nn_to(moved, there()));
  assert_non_null(situ_nn_append(m, moved));
  assert_non_null(situ_nn_append(m, situ_nn_relu()));
  assert_int_equal(lines, 3);
  situ_error_log(NULL, NULL);
  situ_nn_free(m);
}

/* placement: B17 */
static void late_parts_are_refused(void **state) {
  (void)state;
  situ_nn_module *m = model_there(), *late = situ_nn_sequential(situ_nn_relu());
  assert_non_null(situ_nn_set_late_policy(m, SITU_NN_LATE_ERROR));
  expect_refused(situ_nn_append(situ_nn_retain(m), layer()), SITU_E_DEVICE, "nn_add_child", "the Linear is on ");
  assert_int_equal(m->count, 1);
  expect_refused(situ_nn_add_tensor(m, "scale", NULL, situ_ones(SITU_SHAPE(1), NULL), SITU_NN_BUFFER), SITU_E_DEVICE,
                 "nn_add_tensor", "scale is on ");
  /* Inherited: by what is added, by parts of parts, by copies. */
  assert_non_null(situ_nn_append(m, late));
  expect_refused(situ_nn_append(situ_nn_retain(late), layer()), SITU_E_DEVICE, "nn_add_child", "move it there first");
  situ_nn_module *copy = situ_nn_clone(m);
  expect_refused(situ_nn_append(situ_nn_retain(copy), layer()), SITU_E_DEVICE, "nn_add_child", "takes no part");
  situ_nn_module *moved = layer();
  expect_ok(situ_nn_to(moved, there()));
  assert_non_null(situ_nn_append(late, moved));
  /* And given up for all of them. */
  assert_non_null(situ_nn_set_late_policy(m, SITU_NN_LATE_ADOPT));
  assert_non_null(situ_nn_append(late, layer()));
  expect_all(m, there());
  expect_refused(situ_nn_set_late_policy(m, (situ_nn_late_policy)3), SITU_E_ARG, "nn_set_late_policy", "policy is 3");
  situ_nn_free(copy);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(an_adapter_goes_with_its_layer),
    PAIR_TEST(a_program_stays_where_it_was_loaded),
    PAIR_TEST(a_layer_keeps_the_device_that_it_was_told),
    PAIR_TEST(a_part_is_not_torn),
    PAIR_TEST(late_parts_are_told),
    PAIR_TEST(late_parts_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
