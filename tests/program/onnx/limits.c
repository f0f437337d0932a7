/* What a small ONNX file may ask for: kernels of Resize, computed constants, and sizes that the loader tries.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program/onnx/message.h"
#include "situ/situ.h"
#include "support/scope.h"

/* A float of sizes, of which 0 is a free one without a name. */
static void put_sized(message *graph, uint32_t field, const char *name, const uint64_t *size, int dims) {
  message shape = { .length = 0 }, tensor = { .length = 0 }, type = { .length = 0 }, value = { .length = 0 };
  for (int d = 0; d < dims; d++) {
    message dim = { .length = 0 };
    if (size[d]) put_int(&dim, 1, size[d]);
    put_message(&shape, 1, &dim);
  }
  put_int(&tensor, 1, 1);
  put_message(&tensor, 2, &shape);
  put_message(&type, 1, &tensor);
  put_text(&value, 1, name);
  put_message(&value, 2, &type);
  put_message(graph, field, &value);
}
/* An i64, as protobuf packs it. */
static void put_integer(message *graph, const char *name, const unsigned char *packed, size_t bytes) {
  message t = { .length = 0 };
  put_int(&t, 1, 1);
  put_int(&t, 2, 7);
  put_bytes(&t, 7, packed, bytes);
  put_text(&t, 8, name);
  put_message(graph, INITIALIZER, &t);
}

/* y = relu(x), where x has two free sizes. */
static message relu(void) {
  message graph = { .length = 0 };
  put_sized(&graph, INPUT, "x", (const uint64_t[2]){ 0 }, 2);
  put_sized(&graph, OUTPUT, "y", (const uint64_t[2]){ 0 }, 2);
  put_node(&graph, "Relu", "x", NULL, "y", NULL);
  return graph;
}

/* y = an antialiased linear Resize of x [in] to one element, of which the file says that they are so many. */
static situ_nn_module *load_shrink(uint64_t in, uint64_t declared) {
  message graph = { .length = 0 }, node = { .length = 0 }, mode = { .length = 0 }, antialias = { .length = 0 };
  put_sized(&graph, INPUT, "x", &in, 1);
  put_sized(&graph, OUTPUT, "y", &declared, 1);
  put_integer(&graph, "sizes", (const unsigned char[1]){ 1 }, 1);
  static const char *const inputs[] = { "x", "", "", "sizes" };
  for (int i = 0; i < 4; i++) put_text(&node, 1, inputs[i]);
  put_text(&node, 2, "y");
  put_text(&node, 4, "Resize");
  put_text(&mode, 1, "mode");
  put_text(&mode, 4, "linear");
  put_int(&mode, 20, 3);
  put_text(&antialias, 1, "antialias");
  put_int(&antialias, 3, 1);
  put_int(&antialias, 20, 2);
  put_message(&node, 5, &mode);
  put_message(&node, 5, &antialias);
  put_message(&graph, NODE, &node);
  return load_graph(&graph, 18);
}

/* The kernel of a Resize is as wide as the scale is small. The loader needs the shape only. */
static void a_kernel_has_a_largest_width(void **state) {
  (void)state;
  for (uint64_t in = 4096; in <= 8192; in *= 2) {
    situ_nn_module *m = load_shrink(in, 1);
    if (!m) fail_msg("%s", situ_error_message());
    situ_tensor *y = situ_nn_forward(m, situ_ones(SITU_SHAPE((int64_t)in), NULL));
    float one = 0;
    if (in == 4096) assert_true(situ_copy_to_host(y, &one, sizeof one) == SITU_OK && fabsf(one - 1) < 1e-3f);
    else assert_null(y);
    if (!y) expect_refused(NULL, SITU_E_LIMIT, "a kernel of 8192: it takes kernels of at most 4096");
    situ_nn_free(m);
  }
  expect_refused(load_shrink(1 << 26, 2), SITU_E_FORMAT, "declares 'y' as f32 [2]");
}

/* 2^23 zeros are 32 MiB, of which the loader computes none. So it does not see that the file says something else. */
static void values_are_computed_within_a_budget(void **state) {
  (void)state;
  static const unsigned char size[] = { 0x80, 0x80, 0x80, 4 };
  message graph = relu();
  put_integer(&graph, "size", size, sizeof size);
  put_node(&graph, "ConstantOfShape", "size", NULL, "zeros", NULL);
  put_sized(&graph, VALUE_INFO, "zeros", (const uint64_t[1]){ 5 }, 1);
  situ_nn_module *m = load_graph(&graph, 17);
  if (!m) fail_msg("%s", situ_error_message());
  situ_nn_free(m);
}

/* Inputs of eight free sizes: with any sizes that the loader tries, they are too large together. */
static void inputs_of_many_free_sizes(void **state) {
  (void)state;
  static const uint64_t sizes[SITU_MAX_DIMS] = { 0 };
  message graph = relu();
  for (int i = 0; i < 8; i++) put_sized(&graph, INPUT, (char[]){ (char)('a' + i), 0 }, sizes, SITU_MAX_DIMS);
  put_sized(&graph, VALUE_INFO, "y", sizes, 2);
  situ_nn_module *m = load_graph(&graph, 17);
  if (!m) fail_msg("%s", situ_error_message());
  situ_nn_free(m);
}

static void put_branch(message *node, const char *name, const message *graph) {
  message branch = { .length = 0 };
  put_text(&branch, 1, name);
  put_int(&branch, 20, 5);
  put_message(&branch, 6, graph);
  put_message(node, 5, &branch);
}

/* The other branch of an If with a constant condition is not read, and may have graphs in graphs without end: such a
   model runs, and is not written again. */
static void an_unread_branch_may_be_deep(void **state) {
  (void)state;
  message deep = { .length = 0 }, taken = { .length = 0 }, graph = { .length = 0 }, yes = { .length = 0 };
  for (int i = 0; i < 60; i++) {
    message node = { .length = 0 }, outer = { .length = 0 };
    put_branch(&node, "body", &deep);
    put_message(&outer, NODE, &node);
    deep = outer;
  }
  put_int(&yes, 2, 9);
  put_text(&yes, 8, "yes");
  put_bytes(&yes, 9, (const unsigned char[1]){ 1 }, 1);
  put_message(&graph, INITIALIZER, &yes);
  put_any(&graph, INPUT, "x");
  put_node(&taken, "Relu", "x", NULL, "r", NULL);
  put_any(&taken, OUTPUT, "r");
  message node = { .length = 0 };
  put_text(&node, 1, "yes");
  put_text(&node, 2, "y");
  put_text(&node, 4, "If");
  put_branch(&node, "then_branch", &taken);
  put_branch(&node, "else_branch", &deep);
  put_message(&graph, NODE, &node);
  put_any(&graph, OUTPUT, "y");
  situ_nn_module *m = load_graph(&graph, 17);
  if (!m) fail_msg("%s", situ_error_message());
  assert_non_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(2), NULL)));
  assert_int_equal(situ_onnx_export(m, "never.onnx", NULL), SITU_E_UNSUPPORTED);
  expect_refused(NULL, SITU_E_UNSUPPORTED, "a branch that could not be kept");
  situ_nn_free(m);
}

/* Sums of no products are zeros. */
static void products_of_no_whole_numbers(void **state) {
  (void)state;
  message graph = { .length = 0 };
  static const char *const names[] = { "x", "y" };
  for (int i = 0; i < 2; i++) {
    message to = { .length = 0 };
    put_text(&to, 1, "to");
    put_int(&to, 3, 2 + (uint64_t)i); /* u8 and i8 */
    put_int(&to, 20, 2);
    put_any(&graph, INPUT, names[i]);
    put_node(&graph, "Cast", names[i], NULL, i ? "b" : "a", &to);
  }
  put_node(&graph, "MatMulInteger", "a", "b", "z", NULL);
  put_text(&graph, OUTPUT, "\n\1z"); /* its name alone */
  situ_nn_module *m = load_graph(&graph, 17);
  if (!m) fail_msg("%s", situ_error_message());
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 0), NULL), situ_ones(SITU_SHAPE(0, 3), NULL));
  situ_tree *out = situ_nn_call(m, in);
  int32_t sums[6] = { 1, 1, 1, 1, 1, 1 };
  assert_int_equal(situ_copy_to_host(situ_tree_value(out), sums, sizeof sums), SITU_OK);
  for (int i = 0; i < 6; i++) assert_int_equal(sums[i], 0);
  situ_tree_free(out);
  situ_tree_free(in);
  in = SITU_TREE(situ_ones(SITU_SHAPE(2, 0), NULL), situ_ones(SITU_SHAPE(1, 3), NULL));
  assert_null(situ_nn_call(m, in));
  assert_int_equal(situ_error(), SITU_E_SHAPE);
  situ_error_clear();
  situ_tree_free(in);
  situ_nn_free(m);
}

/* An axis of 2^32 is not 0, and no place of a cache is that far. */
static void axes_and_places_that_are_too_large(void **state) {
  (void)state;
  static const unsigned char axis[] = { 0x80, 0x80, 0x80, 0x80, 0x10 }, zero[] = { 0 }, one[] = { 1 },
                             last[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f };
  message graph = { .length = 0 }, node = { .length = 0 };
  static const char *const inputs[] = { "x", "starts", "ends", "axes" };
  put_any(&graph, INPUT, "x");
  put_integer(&graph, "starts", zero, sizeof zero);
  put_integer(&graph, "ends", one, sizeof one);
  put_integer(&graph, "axes", axis, sizeof axis);
  for (int i = 0; i < 4; i++) put_text(&node, 1, inputs[i]);
  put_text(&node, 2, "y");
  put_text(&node, 4, "Slice");
  put_message(&graph, NODE, &node);
  put_any(&graph, OUTPUT, "y");
  situ_nn_module *m = load_graph(&graph, 17);
  if (m) assert_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 3), NULL)));
  assert_non_null(strstr(situ_error_message(), "2147483647"));
  situ_error_clear();
  situ_nn_free(m);
  graph.length = node.length = 0;
  put_any(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  put_integer(&graph, "at", last, sizeof last);
  for (int i = 0; i < 3; i++) put_text(&node, 1, i < 2 ? "x" : "at");
  put_text(&node, 2, "y");
  put_text(&node, 4, "TensorScatter");
  put_message(&graph, NODE, &node);
  m = load_graph(&graph, 24);
  if (!m) fail_msg("%s", situ_error_message());
  assert_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(1, 2, 3), NULL)));
  expect_refused(NULL, SITU_E_UNSUPPORTED, "writes outside of its cache");
  situ_nn_free(m);
}

/* The square of a side of 2^32 is not 0. */
static void blocks_that_are_too_large(void **state) {
  (void)state;
  static const char *const names[] = { "DepthToSpace", "SpaceToDepth" };
  for (int i = 0; i < 2; i++) {
    message graph = { .length = 0 }, side = { .length = 0 };
    put_text(&side, 1, "blocksize");
    put_int(&side, 3, UINT64_C(1) << 32);
    put_int(&side, 20, 2);
    put_any(&graph, INPUT, "x");
    put_any(&graph, OUTPUT, "y");
    put_node(&graph, names[i], "x", NULL, "y", &side);
    situ_nn_module *m = load_graph(&graph, 13);
    if (!m) fail_msg("%s", situ_error_message());
    assert_null(situ_nn_forward(m, situ_ones(i ? SITU_SHAPE(1, 1, 0, 0) : SITU_SHAPE(1, 4, 2, 2), NULL)));
    expect_refused(NULL, SITU_E_UNSUPPORTED, "needs [N, C");
    situ_nn_free(m);
  }
}

/* Sums of sizes, pads and strides are within 64 bits. */
static void windows_that_are_too_large(void **state) {
  (void)state;
  static const char *const lists[] = { "strides", "dilations", "pads" };
  for (int i = 0; i < 6; i++) {
    message graph = { .length = 0 }, node = { .length = 0 }, list = { .length = 0 };
    put_text(&list, 1, lists[i % 3]);
    put_int(&list, 8, UINT64_C(1) << 62);
    put_int(&list, 20, 7);
    put_any(&graph, INPUT, "x");
    put_any(&graph, OUTPUT, "y");
    for (int k = 0; k < 2; k++) put_text(&node, 1, "x");
    put_text(&node, 2, "y");
    put_text(&node, 4, i < 3 ? "ConvTranspose" : "Conv");
    put_message(&node, 5, &list);
    put_message(&graph, NODE, &node);
    situ_nn_module *m = load_graph(&graph, 17);
    if (!m) fail_msg("%s", situ_error_message());
    assert_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(3, 3, 3), NULL)));
    expect_refused(NULL, SITU_E_UNSUPPORTED, "beyond 2^30");
    situ_nn_free(m);
  }
}

/* y = the element of a sequence at `place`, after one of its two elements was erased, or none was there. */
static situ_nn_module *load_element(bool empty, unsigned char place) {
  message graph = { .length = 0 };
  put_any(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  put_integer(&graph, "place", &place, 1);
  if (empty) put_node(&graph, "SequenceEmpty", NULL, NULL, "first", NULL);
  else put_node(&graph, "SequenceConstruct", "x", "x", "first", NULL);
  put_node(&graph, "SequenceErase", "first", NULL, "second", NULL);
  put_node(&graph, "SequenceAt", "second", "place", "y", NULL);
  return load_graph(&graph, 17);
}

static void positions_are_inside_of_sequences(void **state) {
  (void)state;
  for (unsigned char place = 0; place < 4; place++) {
    situ_nn_module *m = load_element(place == 3, place);
    if (!m) fail_msg("%s", situ_error_message());
    situ_tensor *y = situ_nn_forward(m, situ_ones(SITU_SHAPE(2), NULL));
    if (place == 0) assert_int_equal(situ_numel(y), 2);
    else expect_refused(y ? m : NULL, SITU_E_UNSUPPORTED, "has a position outside of its sequence");
    situ_nn_free(m);
  }
  static const char *const ops[][2] = { { "Relu", "takes a sequence" }, { "ConcatFromSequence", "needs a sequence" } };
  for (int i = 0; i < 2; i++) {
    message graph = { .length = 0 }, axis = { .length = 0 };
    put_text(&axis, 1, "axis");
    put_int(&axis, 20, 2);
    put_any(&graph, INPUT, "x");
    put_any(&graph, OUTPUT, "y");
    put_node(&graph, "SequenceConstruct", "x", "x", "list", NULL);
    put_node(&graph, ops[i][0], i ? "x" : "list", NULL, "y", i ? &axis : NULL);
    expect_refused(load_graph(&graph, 17), SITU_E_UNSUPPORTED, ops[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_kernel_has_a_largest_width, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(values_are_computed_within_a_budget, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(inputs_of_many_free_sizes, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(an_unread_branch_may_be_deep, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(products_of_no_whole_numbers, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(axes_and_places_that_are_too_large, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(blocks_that_are_too_large, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(windows_that_are_too_large, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(positions_are_inside_of_sequences, open_scope, close_scope),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
