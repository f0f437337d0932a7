/* Writes ONNX graphs for the tests of their reader, and loads them and stored ones.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_PROGRAM_ONNX_MESSAGE_H
#define SITU_TEST_PROGRAM_ONNX_MESSAGE_H

#include <stdio.h>
#include <stdlib.h>

#include "program/onnx/protobuf.h"
#include "situ/situ.h"

/* Fields of GraphProto. */
enum { NODE = 1, INITIALIZER = 5, INPUT = 11, OUTPUT = 12, VALUE_INFO = 13 };

/* A float input or output of any sizes. */
static inline void put_any(message *graph, uint32_t field, const char *name) {
  static const unsigned char type[] = { 0x0a, 0x02, 0x08, 0x01 };
  message value = { .length = 0 };
  put_text(&value, 1, name);
  put_bytes(&value, 2, type, sizeof type);
  put_message(graph, field, &value);
}

static inline void put_node(message *graph, const char *op, const char *in, const char *more, const char *out,
                            const message *attribute) {
  message node = { .length = 0 };
  if (in) put_text(&node, 1, in);
  if (more) put_text(&node, 1, more);
  put_text(&node, 2, out);
  put_text(&node, 3, "here");
  put_text(&node, 4, op);
  if (attribute) put_message(&node, 5, attribute);
  put_message(graph, NODE, &node);
}

static inline situ_nn_module *load_bytes(const void *data, size_t length) {
  FILE *f = fopen("written.onnx", "wb");
  assert_non_null(f);
  assert_true(fwrite(data, 1, length, f) == length);
  assert_int_equal(fclose(f), 0);
  return situ_export_load("written.onnx", NULL);
}

static inline situ_nn_module *load_graph(const message *graph, uint64_t opset) {
  message model = { .length = 0 }, import = { .length = 0 };
  put_int(&model, 1, 8);
  put_text(&import, 1, "");
  put_int(&import, 2, opset);
  put_message(&model, 8, &import);
  put_message(&model, 7, graph);
  return load_bytes(model.data, model.length);
}

static inline void expect_refused(situ_nn_module *m, situ_status status, const char *word) {
  if (m) fail_msg("a file that must say \"%s\" was accepted", word);
  if (situ_error() != status || !strstr(situ_error_message(), word))
    fail_msg("%s: \"%s\" does not say \"%s\"", situ_status_name(situ_error()), situ_error_message(), word);
  situ_error_clear();
}

/* Loads nodes/kept_NAME.onnx. */
static inline situ_nn_module *load_kept(const char *name, int64_t most) {
  char path[512];
  const char *root = getenv("SITU_TEST_ROOT");
  (void)snprintf(path, sizeof path, "%s/program/onnx/nodes/kept_%s.onnx", root ? root : ".", name);
  situ_nn_module *m = situ_export_load(path, &(situ_load_options){ .max_iterations = most });
  if (!m) fail_msg("%s", situ_error_message());
  return m;
}

/* Drawn inputs of these shapes, in a list; positive ones. */
static inline situ_tree *draw_inputs(bool positive, const situ_shape *shape, int count) {
  situ_tree *in = situ_tree_list();
  for (int i = 0; i < count; i++) {
    situ_tensor *x = situ_randn(shape[i], NULL);
    in = situ_tree_append(in, situ_tree_tensor(positive ? situ_add_scalar(situ_abs(x), 0.125) : x));
  }
  return in;
}

static inline void expect_same(const situ_tree *a, const situ_tree *b) {
  const int64_t count = situ_tree_count(a);
  for (int64_t i = 0; i < (count ? count : 1); i++) {
    bool same = false;
    assert_int_equal(situ_equal(situ_tree_value(count ? situ_tree_at(a, i) : a),
                                situ_tree_value(count ? situ_tree_at(b, i) : b), &same),
                     SITU_OK);
    assert_true(same);
  }
}

/* To a .pt2 archive, and from there to ONNX: all compute the same bits. */
static inline void expect_all_traced(const char *name, bool positive, const situ_shape *shape, int inputs) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_nn_module *m[4] = { load_kept(name, 0) };
  situ_tree *example = draw_inputs(positive, shape, inputs);
  m[1] = situ_export(m[0], example);
  situ_tree_free(example);
  assert_int_equal(situ_export_save(m[1], "traced.pt2"), SITU_OK);
  m[2] = situ_export_load("traced.pt2", NULL);
  assert_int_equal(situ_onnx_export(m[2], "traced.onnx", NULL), SITU_OK);
  m[3] = situ_export_load("traced.onnx", NULL);
  for (int i = 0; i < 8; i++) {
    situ_tree *in = draw_inputs(positive, shape, inputs), *out[4];
    for (int k = 0; k < 4; k++) out[k] = situ_nn_call(m[k], in);
    for (int k = 1; k < 4; k++) expect_same(out[0], out[k]);
    for (int k = 0; k < 4; k++) situ_tree_free(out[k]);
    situ_tree_free(in);
  }
  for (int k = 0; k < 4; k++) situ_nn_free(m[k]);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}
static inline void expect_traced(const char *name, bool positive, situ_shape shape) {
  expect_all_traced(name, positive, &shape, 1);
}

/* A model of one input whose way depends on values is not written from a run without them. */
static inline void expect_no_export(const char *name, situ_shape shape) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_error_mode(SITU_ERROR_QUIET);
  situ_nn_module *m = load_kept(name, 0);
  situ_tree *inputs = SITU_TREE(situ_ones(shape, NULL));
  assert_null(situ_export(m, inputs));
  assert_int_equal(situ_error(), SITU_E_UNSUPPORTED);
  situ_error_clear();
  situ_tree_free(inputs);
  situ_nn_free(m);
  SITU_IGNORE(situ_scope_end(&scope));
}

#endif
