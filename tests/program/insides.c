/* A loaded program has the modules that it had where it was exported: profiles, findings and copies of a preflight name
   them.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/export.h"
#include "situ/policy.h"
#include "situ/profile.h"
#include "support/pairs.h"

static char *read_data(const char *name, size_t *bytes) {
  char path[512];
  (void)snprintf(path, sizeof path, "%s/program/data/%s", getenv("SITU_TEST_ROOT"), name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *data = malloc(1 << 20);
  assert_non_null(data);
  *bytes = fread(data, 1, 1 << 20, file);
  (void)fclose(file);
  return data;
}

static situ_nn_module *load(const char *name) {
  char path[512];
  (void)snprintf(path, sizeof path, "%s/program/data/%s", getenv("SITU_TEST_ROOT"), name);
  situ_nn_module *m = situ_export_load(path, NULL);
  assert_non_null(m);
  return situ_nn_set_name(m, "net");
}

static situ_tree *inputs_of(const situ_nn_module *m) {
  situ_export_input in;
  situ_tree *all = situ_tree_list();
  for (int64_t i = 0; situ_export_input_at(m, i, &in); i++) {
    situ_shape shape = { in.ndim, { 0 } };
    for (int d = 0; d < in.ndim; d++) shape.dim[d] = in.size[d].size >= 0 ? in.size[d].size : 2;
    all = situ_tree_append(all, situ_tree_tensor(situ_ones(shape, &(situ_options){ .dtype = in.dtype })));
  }
  assert_non_null(all);
  return all;
}

/* The module of the first event of an op. */
static void profiled(situ_nn_module *m, const char *op, char module[256]) {
  enum { MOST = 400 };
  static situ_profile_event e[MOST];
  situ_tree *in = inputs_of(m);
  expect_ok(situ_profile_begin(NULL));
  situ_tree *out = situ_nn_call(m, in);
  situ_profile *p = situ_profile_end();
  assert_non_null(out);
  const int64_t count = situ_profile_events(p, e, MOST);
  *module = 0;
  for (int64_t i = 0; i < count && i < MOST && !*module; i++)
    if (strcmp(e[i].name, op) == 0) (void)snprintf(module, 256, "%s", e[i].module);
  situ_profile_free(p);
  situ_tree_free(out);
  situ_tree_free(in);
}

/* placement: J7 */
static void a_profile_names_them(void **state) {
  (void)state;
  static const char *const files[] = { "cnn.pt2", "cnn.onnx", "tiny-resnet.pt2", "tiny-resnet.onnx" };
  static const char *const first[] = {
    "net.0", "net.0", "net.embedder.embedder.convolution", "net.embedder.embedder.normalization"
  }; /* the exporter has put the norm into the convolution, as its remark says */
  for (int i = 0; i < 4; i++) {
    char module[256];
    situ_nn_module *m = load(files[i]);
    situ_nn_eval(m);
    profiled(m, "conv2d", module);
    assert_string_equal(module, first[i]);
    situ_nn_free(m);
  }
}

static void a_program_in_a_module_names_them(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_set_name(situ_nn_sequential(load("cnn.pt2"), situ_nn_relu()), "model");
  situ_tree *in = inputs_of(situ_nn_at(net, 0));
  char text[1 << 14], now[16] = "x";
  expect_ok(situ_profile_begin(NULL));
  situ_tensor *y = situ_nn_forward(net, situ_tree_value(in));
  situ_profile *p = situ_profile_end();
  assert_non_null(y);
  assert_true(situ_profile_to_string(p, text, sizeof text) > 0);
  assert_non_null(strstr(text, "model.0.0"));
  assert_non_null(strstr(text, "model.0.2"));
  assert_non_null(strstr(text, "model.1"));
  assert_string_equal(situ_nn_running(now, sizeof now), "");
  situ_profile_free(p);
  situ_tree_free(in);
  situ_nn_free(net);
}

/* An exporter without these remarks, whose nodes have names of scopes. */
static void a_node_s_name_tells_its_module(void **state) {
  (void)state;
  size_t bytes;
  char *data = read_data("cnn.onnx", &bytes), module[256];
  static const char scopes[] = "pkg.torch.onnx.name_scopes", node[] = "node_conv2d";
  int changed = 0;
  for (size_t i = 0; i + sizeof scopes < bytes; i++) {
    if (memcmp(data + i, scopes, sizeof scopes - 1) == 0) data[i] = 'q', changed++;
    if (memcmp(data + i, node, sizeof node - 1) == 0) memcpy(data + i, "/e/e.0/c/CV", sizeof node - 1), changed++;
  }
  assert_true(changed > 2);
  FILE *file = fopen("insides.onnx", "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
  free(data);
  situ_nn_module *m = situ_export_load("insides.onnx", NULL);
  assert_non_null(m);
  profiled(situ_nn_set_name(m, "net"), "conv2d", module);
  assert_string_equal(module, "net.e.0.c");
  profiled(m, "linear", module);
  assert_string_equal(module, "net");
  situ_nn_free(m);
}

static void an_export_has_modules_that_exist(void **state) {
  (void)state;
  char module[256];
  situ_nn_module *m = load("mlp.onnx"); /* 1 has no parameters */
  profiled(m, "linear", module);
  assert_string_equal(module, "net.0");
  profiled(m, "silu", module);
  assert_string_equal(module, "net.1");
  situ_tree *in = inputs_of(m);
  situ_nn_module *again = situ_nn_set_name(situ_export(m, in), "again");
  assert_non_null(again);
  profiled(again, "linear", module);
  assert_string_equal(module, "again.0");
  profiled(again, "silu", module);
  assert_string_equal(module, "again");
  situ_tree_free(in);
  situ_nn_free(again);
  situ_nn_free(m);
}

static void backward_and_full_devices_name_them(void **state) {
  (void)state;
  enum { MOST = 400 };
  static situ_profile_event e[MOST];
  situ_nn_module *m = load("mlp.pt2");
  situ_tree *in = inputs_of(m);
  expect_ok(situ_profile_begin(NULL));
  situ_tree *out = situ_nn_call(m, in);
  expect_ok(situ_backward(situ_sum(situ_tree_value(out), NULL), NULL));
  situ_profile *p = situ_profile_end();
  const int64_t count = situ_profile_events(p, e, MOST);
  bool found = false;
  for (int64_t i = 0; i < count && i < MOST; i++)
    found |= strcmp(e[i].name, "linear backward") == 0 && strcmp(e[i].module, "net.2") == 0;
  assert_true(found);
  situ_profile_free(p);
  situ_tree_free(out);
  situ_tree_free(in);
  situ_nn_free(m);
  m = situ_nn_eval(load("tiny-resnet.pt2"));
  in = inputs_of(m);
  expect_ok(situ_nn_to(m, there()));
  situ_tree *moved = situ_tree_to(in, there());
  situ_place_report r;
  expect_ok(situ_place_check(m, moved, NULL, &r));
  assert_int_equal(r.mistakes, 0);
  expect_ok(situ_sim_budget(there().index, r.loads[0].peak - 1));
  situ_place_report_free(&r);
  expect_ok(situ_place_check(m, moved, NULL, &r));
  assert_int_equal(r.mistakes, 1);
  assert_non_null(strstr(r.findings[0].text, "it is full in encoder.stages.1.layers.0."));
  assert_non_null(strstr(r.findings[0].text, "made in embedder.embedder.activation"));
  situ_place_report_free(&r);
  expect_ok(situ_sim_reset(there().index));
  situ_tree_free(moved);
  situ_tree_free(in);
  situ_nn_free(m);
}

/* placement: I3 */
static void a_preflight_names_them(void **state) {
  (void)state;
  static const char *const files[] = { "mlp.pt2", "mlp.onnx" };
  for (int i = 0; i < 2; i++) {
    situ_nn_module *m = situ_nn_eval(load(files[i]));
    situ_tree *in = inputs_of(m);
    situ_place_report r;
    expect_ok(situ_nn_to_map(m, "2=sim:0"));
    expect_ok(situ_place_check(m, in, NULL, &r));
    assert_true(r.mistakes > 0);
    assert_string_equal(r.findings[0].module, "2");
    situ_place_report_free(&r);
    situ_setting before;
    situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY,
                                              .device_to_host = SITU_POLICY_COPY,
                                              .device_to_device = SITU_POLICY_COPY });
    expect_ok(situ_place_check(m, in, NULL, &r));
    situ_policy_end(&before);
    assert_int_equal(r.mistakes, 0);
    assert_true(r.edge_count > 0);
    bool found = false;
    for (int64_t k = 0; k < r.edge_count; k++)
      found |= strcmp(r.edges[k].from, "1") == 0 && strcmp(r.edges[k].to, "2") == 0;
    if (!found) situ_place_report_print(&r);
    assert_true(found);
    situ_place_report_free(&r);
    situ_tree_free(in);
    situ_nn_free(m);
  }
}

/* placement: E6 */
static void a_comparison_names_them(void **state) {
  (void)state;
  /* The first products of autocast: what is before them is as it was. */
  static const char *const files[] = { "mlp.pt2", "mlp.onnx", "tiny-bert.pt2", "tiny-bert.onnx" };
  static const char *const first[] = { "0", "0", "encoder.layer.0.attention.self.", "encoder.layer.0.attention.self." };
  for (int i = 0; i < 4; i++) {
    situ_nn_module *m = situ_nn_eval(load(files[i]));
    situ_tree *in = inputs_of(m);
    situ_place_comparison found;
    situ_place_compare_options options = { .exact = true };
    expect_ok(situ_place_compare(m, in, here(), there(), &options, &found));
    assert_false(found.differs);
    assert_true(found.calls > 5);
    options.autocast = SITU_BF16;
    expect_ok(situ_place_compare(m, in, here(), here(), &options, &found));
    assert_true(found.differs && found.caused && !found.backward);
    assert_string_equal(found.tensor, "output");
    if (strncmp(found.module, first[i], strlen(first[i])) != 0) fail_msg("%s: %s", files[i], found.text);
    situ_tree_free(in);
    situ_nn_free(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_profile_names_them),
    PAIR_TEST(a_program_in_a_module_names_them),
    PAIR_TEST(a_node_s_name_tells_its_module),
    PAIR_TEST(backward_and_full_devices_name_them),
    PAIR_TEST(an_export_has_modules_that_exist),
    PAIR_TEST(a_preflight_names_them),
    PAIR_TEST(a_comparison_names_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
