/* An ONNX model as a module, what is refused when it is loaded, and hostile files: sizes beyond 64 bits, values past
   the end, paths out of the directory, cycles, deep nesting. The models are written here, field by field.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/onnx/message.h"
#include "support/scope.h"
#include "situ/situ.h"

/* ---- models ---- */

/* A float input or output of one free dimension and one of 2. */
static void put_value(message *graph, uint32_t field, const char *name) {
  message free_dim = { .length = 0 }, dim = { .length = 0 }, shape = { .length = 0 }, tensor = { .length = 0 };
  message type = { .length = 0 }, value = { .length = 0 };
  put_text(&free_dim, 2, "n");
  put_int(&dim, 1, 2);
  put_message(&shape, 1, &free_dim);
  put_message(&shape, 1, &dim);
  put_int(&tensor, 1, 1);
  put_message(&tensor, 2, &shape);
  put_message(&type, 1, &tensor);
  put_text(&value, 1, name);
  put_message(&value, 2, &type);
  put_message(graph, field, &value);
}

static message float_tensor(const char *name, uint64_t size) {
  message t = { .length = 0 };
  put_int(&t, 1, size);
  put_int(&t, 2, 1);
  put_text(&t, 8, name);
  return t;
}

/* y = op(x, other). */
static message graph_of(const char *op, const char *other) {
  message graph = { .length = 0 };
  put_value(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  put_node(&graph, op, "x", other, "y", NULL);
  return graph;
}

/* ---- tests ---- */

static void names_parameters_and_buffers(void **state) {
  (void)state;
  const float weight[4] = { 1, 2, 3, 4 }, shift[2] = { 10, 20 };
  message graph = { .length = 0 }, w = { .length = 0 }, s = float_tensor("shift/1", 2);
  put_value(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  put_int(&w, 1, 2);
  put_int(&w, 1, 2);
  put_int(&w, 2, 1);
  put_text(&w, 8, "encoder.0.weight");
  put_bytes(&w, 9, weight, sizeof weight);
  put_bytes(&s, 4, shift, sizeof shift); /* float_data, packed */
  put_message(&graph, INITIALIZER, &w);
  put_message(&graph, INITIALIZER, &s);
  put_node(&graph, "Sub", "x", "shift/1", "z", NULL);
  put_node(&graph, "MatMul", "z", "encoder.0.weight", "y", NULL);
  situ_nn_module *m = load_graph(&graph, 17);
  assert_non_null(m);
  situ_tree *parameters = situ_nn_parameters(m), *dict = situ_nn_state_dict(m);
  assert_int_equal(situ_tree_count(parameters), 1);
  assert_non_null(situ_tree_get(parameters, "encoder.0.weight"));
  assert_non_null(situ_tree_get(dict, "shift_1"));
  const float x[2] = { 11, 22 };
  float y[2];
  situ_tensor *out = situ_nn_forward(m, situ_from_host(x, sizeof x, SITU_SHAPE(1, 2), NULL));
  assert_int_equal(situ_copy_to_host(out, y, sizeof y), SITU_OK);
  assert_true(y[0] == 7 && y[1] == 10);
  assert_null(situ_nn_forward(m, situ_zeros(SITU_SHAPE(1, 3), NULL)));
  if (!strstr(situ_error_message(), "input x is f32 [1, 3], but the program takes f32 [n, 2]"))
    fail_msg("%s", situ_error_message());
  situ_error_clear();
  situ_tree_free(parameters);
  situ_tree_free(dict);
  situ_nn_free(m);
}

/* ---- single operators ---- */

static void put_floats(message *graph, const char *name, int dims, int64_t size, const float *values) {
  message t = { .length = 0 };
  for (int d = 0; d < dims; d++) put_int(&t, 1, d + 1 < dims ? 1 : (uint64_t)size);
  put_int(&t, 2, 1);
  put_bytes(&t, 4, values, (size_t)size * sizeof *values);
  put_text(&t, 8, name);
  put_message(graph, INITIALIZER, &t);
}
static void put_integers(message *graph, const char *name, const unsigned char *values, size_t count) {
  message t = { .length = 0 };
  put_int(&t, 1, count);
  put_int(&t, 2, 7);
  put_bytes(&t, 7, values, count); /* int64_data, packed */
  put_text(&t, 8, name);
  put_message(graph, INITIALIZER, &t);
}

static void put_integer(message *graph, const char *name, unsigned char value) { put_integers(graph, name, &value, 1); }

/* The result for an x of so many rows of 1, 2; frees nothing of the scope's. */
static situ_tensor *result_of(message *graph, int64_t rows) {
  const float row[2] = { 1, 2 };
  put_value(graph, INPUT, "x");
  put_any(graph, OUTPUT, "y");
  situ_nn_module *m = load_graph(graph, 17);
  if (!m) fail_msg("%s", situ_error_message());
  situ_tensor *x = rows ? situ_from_host(row, sizeof row, SITU_SHAPE(1, 2), NULL) : situ_zeros(SITU_SHAPE(0, 2), NULL);
  situ_tensor *y = situ_nn_forward(m, x);
  if (!y) fail_msg("%s", situ_error_message());
  situ_nn_free(m);
  return y;
}

static void expand_adds_dimensions_in_front(void **state) {
  (void)state;
  message graph = { .length = 0 };
  put_floats(&graph, "w", 2, 1, (const float[1]){ 5 });
  put_integer(&graph, "shape", 3);
  put_node(&graph, "Expand", "w", "shape", "y", NULL);
  situ_tensor *y = result_of(&graph, 1);
  assert_true(situ_dim(y) == 2 && situ_size(y, 0) == 1 && situ_size(y, 1) == 3);
}

static void cumsum_of_no_rows(void **state) {
  (void)state;
  message graph = { .length = 0 }, exclusive = { .length = 0 };
  put_integer(&graph, "axis", 0);
  put_text(&exclusive, 1, "exclusive");
  put_int(&exclusive, 3, 1);
  put_int(&exclusive, 20, 2);
  put_node(&graph, "CumSum", "x", "axis", "y", &exclusive);
  assert_int_equal(situ_numel(result_of(&graph, 0)), 0);
}

static void resize_takes_the_lower_neighbour(void **state) {
  (void)state;
  message graph = { .length = 0 }, node = { .length = 0 }, nearest = { .length = 0 };
  put_floats(&graph, "scales", 1, 2, (const float[2]){ 1, 2 });
  static const char *const in[] = { "x", "", "scales" };
  for (int i = 0; i < 3; i++) put_text(&node, 1, in[i]);
  put_text(&node, 2, "y");
  put_text(&node, 4, "Resize");
  put_text(&nearest, 1, "nearest_mode");
  put_text(&nearest, 4, "floor");
  put_int(&nearest, 20, 3);
  put_message(&node, 5, &nearest);
  put_message(&graph, NODE, &node);
  float y[4];
  assert_int_equal(situ_copy_to_host(result_of(&graph, 1), y, sizeof y), SITU_OK);
  assert_true(y[0] == 1 && y[1] == 1 && y[2] == 1 && y[3] == 2); /* at 0.75 the lower one is the first */
}

/* An operator of constants is computed when the model is loaded, but not one that draws numbers. */
static void numbers_are_drawn_in_every_call(void **state) {
  (void)state;
  enum { ROWS = 64 };
  static const struct {
    const char *op, *in[3], *attribute;
    unsigned char value;
  } draws[] = { { "RandomUniformLike", { "w" }, NULL, 0 },
                { "RandomNormalLike", { "w" }, NULL, 0 },
                { "Bernoulli", { "w" }, NULL, 0 },
                { "Multinomial", { "w" }, "sample_size", 16 },
                { "Dropout", { "w", "", "yes" }, NULL, 0 } };
  float w[ROWS];
  situ_manual_seed(3);
  for (int i = 0; i < ROWS; i++) w[i] = 0.5f;
  for (size_t k = 0; k < sizeof draws / sizeof *draws; k++) {
    message graph = { .length = 0 }, node = { .length = 0 }, attribute = { .length = 0 }, yes = { .length = 0 };
    put_value(&graph, INPUT, "x");
    put_any(&graph, OUTPUT, "y");
    put_floats(&graph, "w", 2, ROWS, w);
    put_int(&yes, 2, 9);
    put_bytes(&yes, 9, "\1", 1);
    put_text(&yes, 8, "yes");
    put_message(&graph, INITIALIZER, &yes);
    for (int i = 0; i < 3 && draws[k].in[i]; i++) put_text(&node, 1, draws[k].in[i]);
    put_text(&node, 2, "drawn");
    put_text(&node, 4, draws[k].op);
    if (draws[k].attribute) {
      put_text(&attribute, 1, draws[k].attribute);
      put_int(&attribute, 3, draws[k].value);
      put_int(&attribute, 20, 2);
      put_message(&node, 5, &attribute);
    }
    put_message(&graph, NODE, &node);
    put_node(&graph, "ReduceMax", "x", NULL, "one", NULL);
    put_node(&graph, "Mul", "one", "drawn", "y", NULL);
    situ_nn_module *m = load_graph(&graph, 17);
    if (!m) fail_msg("%s", situ_error_message());
    situ_tensor *x = situ_ones(SITU_SHAPE(1, 2), NULL), *y[2];
    for (int i = 0; i < 2; i++)
      if (!(y[i] = situ_nn_forward(m, x))) fail_msg("%s: %s", draws[k].op, situ_error_message());
    bool equal = true;
    assert_int_equal(situ_equal(y[0], y[1], &equal), SITU_OK);
    if (equal) fail_msg("%s gives the same numbers twice", draws[k].op);
    situ_nn_free(m);
  }
}

static void unsqueezes_to_all_dimensions(void **state) {
  (void)state;
  message graph = { .length = 0 };
  put_integers(&graph, "axes", (const unsigned char[6]){ 0, 1, 2, 3, 4, 5 }, 6);
  put_node(&graph, "Unsqueeze", "x", "axes", "wide", NULL);
  put_node(&graph, "Neg", "wide", NULL, "y", NULL);
  situ_tensor *y = result_of(&graph, 1);
  assert_true(situ_dim(y) == SITU_MAX_DIMS && situ_size(y, 7) == 2);
}

static void two_values_of_one_name_are_refused(void **state) {
  (void)state;
  static const char *const names[] = { "x", "y" };
  for (int k = 0; k < 2; k++) {
    message graph = graph_of("Neg", NULL);
    put_node(&graph, "Abs", "y", NULL, names[k], NULL);
    char text[32];
    (void)snprintf(text, sizeof text, "has two values '%s'", names[k]);
    expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, text);
  }
}

/* Each row with a scale of its own. */
static void quantises_along_the_first_axis(void **state) {
  (void)state;
  message graph = { .length = 0 }, axis = { .length = 0 };
  put_text(&axis, 1, "axis");
  put_int(&axis, 3, 0);
  put_int(&axis, 20, 2);
  put_floats(&graph, "scale", 1, 2, (const float[2]){ 1, 0.5 });
  put_node(&graph, "Transpose", "x", NULL, "rows", NULL);
  put_node(&graph, "QuantizeLinear", "rows", "scale", "q", &axis);
  put_node(&graph, "DequantizeLinear", "q", "scale", "y", &axis);
  float y[2];
  assert_int_equal(situ_copy_to_host(result_of(&graph, 1), y, sizeof y), SITU_OK);
  assert_true(y[0] == 1 && y[1] == 2);
}

/* The module that a node belongs to is left out if the exporter's text does not say it. */
static void scopes_that_say_nothing_are_ignored(void **state) {
  (void)state;
  static const char *const scopes[] = { "", "[]", "['', 'encoder", ",", "['a',]", "[x," };
  for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) {
    message graph = { .length = 0 }, node = { .length = 0 }, entry = { .length = 0 };
    put_text(&entry, 1, "pkg.torch.onnx.name_scopes");
    put_text(&entry, 2, scopes[i]);
    put_text(&node, 1, "x");
    put_text(&node, 2, "y");
    put_text(&node, 4, "Neg");
    put_message(&node, 9, &entry);
    put_message(&graph, NODE, &node);
    float y[2];
    assert_int_equal(situ_copy_to_host(result_of(&graph, 1), y, sizeof y), SITU_OK);
    assert_true(y[0] == -1 && y[1] == -2);
  }
}

static void a_range_of_nothing_is_refused(void **state) {
  (void)state;
  message graph = { .length = 0 }, node = { .length = 0 };
  put_floats(&graph, "none", 1, 0, NULL);
  put_floats(&graph, "one", 0, 1, (const float[1]){ 1 });
  put_value(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  static const char *const in[] = { "none", "one", "one" };
  for (int i = 0; i < 3; i++) put_text(&node, 1, in[i]);
  put_text(&node, 2, "r");
  put_text(&node, 4, "Range");
  put_message(&graph, NODE, &node);
  put_node(&graph, "Add", "x", "r", "y", NULL);
  situ_nn_module *m = load_graph(&graph, 17);
  if (m) assert_null(situ_nn_forward(m, situ_zeros(SITU_SHAPE(1, 2), NULL)));
  expect_refused(NULL, SITU_E_UNSUPPORTED, "start, limit or delta");
  situ_nn_free(m);
}

static void mel_filters_without_bins_or_edges_are_refused(void **state) {
  (void)state;
  static const float values[][5] = { { 0, 2, 8000, 0, 1000 }, { 4, 2, 8000, 1000, 0 }, { 4, 2, 8000, 0, 4001 } };
  for (int k = 0; k < 3; k++) {
    message graph = { .length = 0 }, node = { .length = 0 };
    for (int i = 0; i < 5; i++) {
      const char name[2] = { (char)('a' + i), 0 };
      put_floats(&graph, name, 0, 1, &values[k][i]);
      put_text(&node, 1, name);
    }
    put_text(&node, 2, "m");
    put_text(&node, 4, "MelWeightMatrix");
    put_value(&graph, INPUT, "x");
    put_any(&graph, OUTPUT, "y");
    put_message(&graph, NODE, &node);
    put_node(&graph, "MatMul", "x", "m", "y", NULL);
    situ_nn_module *m = load_graph(&graph, 17);
    if (m) assert_null(situ_nn_forward(m, situ_zeros(SITU_SHAPE(1, 2), NULL)));
    expect_refused(NULL, SITU_E_UNSUPPORTED, k ? "needs a lower edge" : "needs numbers of bins");
    situ_nn_free(m);
  }
}

static void lists_what_it_lacks(void **state) {
  (void)state;
  message graph = { .length = 0 };
  put_value(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  put_node(&graph, "SequenceAt", "x", NULL, "z", NULL);
  put_node(&graph, "StringConcat", "z", NULL, "y", NULL);
  situ_nn_module *m = load_graph(&graph, 17);
  assert_null(m);
  assert_non_null(strstr(situ_error_message(),
                         "has 2 calls that this library lacks: SequenceAt (opset 17), StringConcat (opset 17)"));
  expect_refused(m, SITU_E_UNSUPPORTED, "\n  graph.node[1] here: StringConcat");
  graph = graph_of("Relu", NULL);
  expect_refused(load_graph(&graph, 5), SITU_E_UNSUPPORTED, "is of opset 5, and 6 to");
  expect_refused(load_graph(&graph, 99), SITU_E_UNSUPPORTED, "is of opset 99");
}

static void refuses_malformed_messages(void **state) {
  (void)state;
  static const unsigned char beyond[] = { 8, 8, 0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 };
  static const unsigned char past[] = { 8, 8, 0x3a, 100, 1 };
  static const unsigned char endless[] = { 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 };
  static const unsigned char group[] = { 8, 8, 0x3b };
  expect_refused(load_bytes(beyond, sizeof beyond), SITU_E_FORMAT, "cut off");
  expect_refused(load_bytes(past, sizeof past), SITU_E_FORMAT, "cut off");
  expect_refused(load_bytes(endless, sizeof endless), SITU_E_FORMAT, "neither a .pt2 archive nor an ONNX model");
  expect_refused(load_bytes(group, sizeof group), SITU_E_FORMAT, "cut off");
  expect_refused(load_bytes("hello, world", 12), SITU_E_FORMAT, "neither");
  expect_refused(load_bytes("", 0), SITU_E_FORMAT, "is empty");
  message graph = graph_of("Relu", NULL);
  for (size_t length = 0; length < graph.length; length++) { /* every cut is an error, or a smaller model */
    message part = graph;
    part.length = length;
    situ_nn_module *m = load_graph(&part, 17);
    if (m) situ_nn_free(m);
    else if (situ_error() == SITU_OK) fail_msg("no error for a graph of %zu bytes", length);
    situ_error_clear();
  }
}

static void refuses_huge_sizes(void **state) {
  (void)state;
  static const uint64_t sizes[] = { (uint64_t)1 << 63, (uint64_t)1 << 62, INT64_MAX, 1000 };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    message graph = graph_of("Add", "w"), w = float_tensor("w", sizes[i]);
    put_bytes(&w, 9, "1234", 4);
    put_message(&graph, INITIALIZER, &w);
    expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "tensor");
  }
  message graph = graph_of("Add", "w"), w = float_tensor("w", (uint64_t)1 << 40); /* typed values that are not there */
  put_message(&graph, INITIALIZER, &w);
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "of 0 values");
}

/* y = relu(x), where x is f32 of a shape. */
static situ_nn_module *load_relu_of(const message *shape) {
  message tensor = { .length = 0 }, type = { .length = 0 }, value = { .length = 0 }, graph = { .length = 0 };
  put_int(&tensor, 1, 1);
  put_message(&tensor, 2, shape);
  put_message(&type, 1, &tensor);
  put_text(&value, 1, "x");
  put_message(&value, 2, &type);
  put_message(&graph, INPUT, &value);
  put_any(&graph, OUTPUT, "y");
  put_node(&graph, "Relu", "x", NULL, "y", NULL);
  return load_graph(&graph, 17);
}

static void refuses_inputs_of_many_dimensions(void **state) {
  (void)state;
  for (int dims = SITU_MAX_DIMS; dims <= SITU_MAX_DIMS + 1; dims++) {
    message dim = { .length = 0 }, shape = { .length = 0 };
    put_int(&dim, 1, 1);
    for (int d = 0; d < dims; d++) put_message(&shape, 1, &dim);
    situ_nn_module *m = load_relu_of(&shape);
    if (dims > SITU_MAX_DIMS) expect_refused(m, SITU_E_LIMIT, "a value 'x' of more than 8 dimensions");
    else assert_non_null(m);
    situ_nn_free(m);
  }
}

/* A size of nine names, of which eight are what an input of eight dimensions can have: the last is not compared with
   that of the other size. */
static void a_size_has_a_name_too_many(void **state) {
  (void)state;
  message dim[2] = { { .length = 0 } }, shape = { .length = 0 };
  for (int i = 0; i < SITU_MAX_DIMS; i++) put_text(&dim[0], 2, (char[]){ (char)('a' + i), 0 });
  put_text(&dim[0], 2, "last");
  put_text(&dim[1], 2, "last");
  for (int d = 0; d < 2; d++) put_message(&shape, 1, &dim[d]);
  situ_nn_module *m = load_relu_of(&shape);
  assert_non_null(m);
  assert_non_null(situ_nn_forward(m, situ_zeros(SITU_SHAPE(2, 3), NULL)));
  situ_nn_free(m);
}

/* What torch writes as the scopes of a node, and what it does not: then the node has none. */
static void reads_scopes_of_nodes(void **state) {
  (void)state;
  static const char *const scopes[] = { "['', 'encoder', 'relu']", "encoder", "", ",", "[,", "['a','b']" };
  for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) {
    message graph = { .length = 0 }, node = { .length = 0 }, entry = { .length = 0 };
    put_value(&graph, INPUT, "x");
    put_any(&graph, OUTPUT, "y");
    put_text(&entry, 1, "pkg.torch.onnx.name_scopes");
    put_text(&entry, 2, scopes[i]);
    put_text(&node, 1, "x");
    put_text(&node, 2, "y");
    put_text(&node, 4, "Relu");
    put_message(&node, 9, &entry);
    put_message(&graph, NODE, &node);
    situ_nn_module *m = load_graph(&graph, 17);
    assert_non_null(m);
    situ_nn_free(m);
  }
}

static void refuses_cycles_and_doubles(void **state) {
  (void)state;
  message graph = { .length = 0 };
  put_value(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  put_node(&graph, "Add", "x", "b", "a", NULL);
  put_node(&graph, "Relu", "a", NULL, "b", NULL);
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "uses a value 'b' before it is computed");
  graph = graph_of("Add", "y");
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "uses a value 'y' before");
  graph = graph_of("Relu", NULL);
  put_node(&graph, "Tanh", "x", NULL, "y", NULL);
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "has two values 'y'");
}

/* If in If in If, each with a constant condition. */
static void refuses_deep_nesting(void **state) {
  (void)state;
  message graph = { .length = 0 };
  put_node(&graph, "Relu", "x", NULL, "y20", NULL);
  message out = { .length = 0 };
  put_text(&out, 1, "y20");
  put_message(&graph, OUTPUT, &out);
  for (int depth = 19; depth >= 0; depth--) {
    char name[16];
    message outer = { .length = 0 }, branch = { .length = 0 }, value = { .length = 0 };
    message t = { .length = 0 };
    put_text(&branch, 1, "then_branch");
    put_int(&branch, 20, 5);
    put_message(&branch, 6, &graph);
    put_int(&t, 2, 9);
    put_bytes(&t, 9, "\1", 1);
    (void)snprintf(name, sizeof name, "c%d", depth);
    put_text(&value, 1, "value");
    put_int(&value, 20, 4);
    put_message(&value, 5, &t);
    put_node(&outer, "Constant", NULL, NULL, name, &value);
    if (depth == 0) put_value(&outer, INPUT, "x");
    char result[16];
    (void)snprintf(result, sizeof result, depth ? "y%d" : "y", depth);
    put_node(&outer, "If", name, NULL, result, &branch);
    message given = { .length = 0 };
    put_text(&given, 1, result);
    put_message(&outer, OUTPUT, &given);
    graph = outer;
  }
  expect_refused(load_graph(&graph, 17), SITU_E_LIMIT, "has graphs inside graphs");
}

static message external_graph(const char *location, const char *offset, const char *length) {
  static const char *const keys[] = { "location", "offset", "length" };
  const char *const values[] = { location, offset, length };
  message graph = graph_of("Add", "w"), w = float_tensor("w", 2);
  put_int(&w, 14, 1);
  for (int i = 0; i < 3; i++) {
    message entry = { .length = 0 };
    put_text(&entry, 1, keys[i]);
    put_text(&entry, 2, values[i]);
    put_message(&w, 13, &entry);
  }
  put_message(&graph, INITIALIZER, &w);
  return graph;
}

static void reads_external_data_only_beside_the_model(void **state) {
  (void)state;
  const float data[4] = { 1, 2, 3, 4 };
  static const char *const outside[] = { "/etc/hostname", "../secret", "sub/../../secret", "", "a//b", "..", "a\\b" };
  FILE *f = fopen("weights.bin", "wb");
  assert_non_null(f);
  assert_true(fwrite(data, sizeof data, 1, f) == 1);
  assert_int_equal(fclose(f), 0);
  (void)unlink("link.bin");
  assert_int_equal(symlink("weights.bin", "link.bin"), 0);
  message graph = external_graph("weights.bin", "8", "8");
  situ_nn_module *m = load_graph(&graph, 17);
  if (!m) fail_msg("%s", situ_error_message());
  float y[2];
  assert_int_equal(situ_copy_to_host(situ_nn_forward(m, situ_zeros(SITU_SHAPE(1, 2), NULL)), y, sizeof y), SITU_OK);
  assert_true(y[0] == 3 && y[1] == 4);
  situ_nn_free(m);
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
    graph = external_graph(outside[i], "0", "8");
    expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "names the file");
  }
  graph = external_graph("link.bin", "0", "8");
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "symbolic link");
  graph = external_graph("absent.bin", "0", "8");
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT,
                 "names the file 'absent.bin' with its values, which cannot be opened (No such file or directory): it "
                 "belongs beside the model");
  graph = external_graph("weights.bin", "12", "8");
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "does not have");
  graph = external_graph("weights.bin", "9223372036854775807", "8");
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "does not have");
  graph = external_graph("weights.bin", "-8", "8");
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "is not a number");
  graph = external_graph("weights.bin", "99999999999999999999", "8");
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "is not a number");
  graph = external_graph("weights.bin", "0", "16");
  expect_refused(load_graph(&graph, 17), SITU_E_FORMAT, "does not have");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(names_parameters_and_buffers, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(expand_adds_dimensions_in_front, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(cumsum_of_no_rows, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(resize_takes_the_lower_neighbour, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(numbers_are_drawn_in_every_call, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(unsqueezes_to_all_dimensions, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(two_values_of_one_name_are_refused, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(quantises_along_the_first_axis, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(scopes_that_say_nothing_are_ignored, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(a_range_of_nothing_is_refused, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(mel_filters_without_bins_or_edges_are_refused, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(lists_what_it_lacks, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(refuses_malformed_messages, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(refuses_huge_sizes, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(refuses_inputs_of_many_dimensions, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(a_size_has_a_name_too_many, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(reads_scopes_of_nodes, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(refuses_cycles_and_doubles, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(refuses_deep_nesting, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(reads_external_data_only_beside_the_model, open_scope, close_scope),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
