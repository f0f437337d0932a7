/* What a model has and situ lacks is refused by its name, and by that of its node, the operator and its place in the file:
   each row of the tables gets attributes that no operator has, texts and dtypes that it does not know, and tensors that it
   does not take, in a model of its own.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/graph/bind.h"
#include "program/onnx/protobuf.h"
#include "program/refusal.h"
#include "situ/situ.h"

/* ---- a model of one node ---- */

/* An attribute: a text, or else a number. */
typedef struct given {
  const char *attribute, *text; /* NULL: none */
  uint64_t number;
  int inputs; /* more than the row has */
  bool any;   /* the inputs have any shape; else they are numbers */
} given;

/* A node of the row's operator, with an input for each of its tensors and one attribute. */
static void put_node(message *graph, const situ__op_row *row, const given *g) {
  message node = { .length = 0 }, a = { .length = 0 };
  for (int i = 0; i < row->inputs + g->inputs; i++) put_text(&node, 1, "x");
  put_text(&node, 2, "y");
  put_text(&node, 3, "the_node");
  const char *dot = strrchr(row->target, '.'); /* after the domain */
  put_text(&node, 4, dot ? dot + 1 : row->target);
  if (dot) put_bytes(&node, 7, row->target, (size_t)(dot - row->target));
  if (g->attribute) {
    put_text(&a, 1, g->attribute);
    if (g->text) put_text(&a, 4, g->text);
    else put_int(&a, 3, g->number);
    put_int(&a, 20, g->text ? 3 : 2);
    put_message(&node, 5, &a);
  }
  put_message(graph, 1, &node);
}

static const situ__op_family *const families[] = {
  &situ__onnx_elementwise_family, &situ__onnx_shape_family,     &situ__onnx_layers_family, &situ__onnx_reduce_family,
  &situ__onnx_index_family,       &situ__onnx_make_family,      &situ__onnx_norm_family,   &situ__onnx_recurrent_family,
  &situ__onnx_image_family,       &situ__onnx_attention_family, &situ__onnx_trees_family,  &situ__onnx_quantized_family,
  &situ__onnx_sequence_family,
};

/* The last opset that has the row, before another one of its operator. */
static uint64_t last_opset(const situ__op_row *row) {
  int last = 28;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int i = 0; i < families[f]->count; i++) {
      const situ__op_row *other = &families[f]->row[i];
      if (strcmp(other->target, row->target) == 0 && other->since > row->since && other->since <= last)
        last = other->since - 1;
    }
  return (uint64_t)last;
}

static const char path[] = "refused.onnx";
/* It is the graph's second node. */
static const char place[] = "graph.node[1]";

static situ_nn_module *load_model(const situ__op_row *row, const given *g, unsigned char dtype) {
  const unsigned char type[] = { 0x08, dtype, 0x12, 0x00 }; /* a number, or without a shape */
  message model = { .length = 0 }, graph = { .length = 0 }, value = { .length = 0 }, opset = { .length = 0 };
  message before = { .length = 0 }, tensor = { .length = 0 };
  put_text(&before, 1, "x");
  put_text(&before, 2, "unused");
  put_text(&before, 4, "Identity");
  put_message(&graph, 1, &before);
  put_node(&graph, row, g);
  put_text(&value, 1, "x");
  put_bytes(&tensor, 1, type, g->any ? 2 : sizeof type);
  put_message(&value, 2, &tensor);
  put_message(&graph, 11, &value);
  value.length = 0;
  put_text(&value, 1, "y");
  put_message(&graph, 12, &value);
  put_int(&opset, 2, last_opset(row));
  put_int(&model, 1, 8);
  put_message(&model, 7, &graph);
  put_message(&model, 8, &opset);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(model.data, 1, model.length, f), model.length);
  fclose(f);
  return situ_export_load(path, NULL);
}

/* Loads the model, which must fail with a message that has `what`. */
static void refuses(const situ__op_row *row, const given *g, const char *what) {
  situ_nn_module *m = load_model(row, g, 1);
  if (m) fail_msg("%s with %s is loaded", row->target, g->attribute ? g->attribute : "more inputs");
  assert_int_equal(situ_error(), SITU_E_UNSUPPORTED);
  expect_place(path, place, "the_node", row->target, what);
}

/* ---- each row ---- */

static int each_row(int (*check)(const situ__op_row *row)) {
  int count = 0;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int i = 0; i < families[f]->count; i++) count += check(&families[f]->row[i]);
  return count;
}

static int refuse_unknown(const situ__op_row *row) {
  refuses(row, &(given){ .attribute = "situ_unknown", .number = 1 },
          "has an argument situ_unknown, which situ does not know");
  return 1;
}

/* An unknown text, where the row knows a few. */
static int refuse_texts(const situ__op_row *row) {
  const char *name;
  int length, count = 0;
  for (int k = 0; situ__op_parameter(row, k, &name, &length); k++) {
    char attribute[64], what[128];
    if (situ__op_parameter(row, k, &name, &length) != 's') continue;
    if (strcmp(row->target, "Einsum") == 0) continue; /* any equation */
    (void)snprintf(attribute, sizeof attribute, "%.*s", length, name);
    (void)snprintf(what, sizeof what, "has %s 'situ_nonsense', and situ knows (", attribute);
    refuses(row, &(given){ .attribute = attribute, .text = "situ_nonsense" }, what);
    (void)snprintf(what, sizeof what, "has %s '', and situ knows (", attribute);
    refuses(row, &(given){ .attribute = attribute, .text = "" }, what);
    count++;
  }
  return count;
}

/* dtypes that situ lacks, by ONNX's names; what casts and quantises knows more of them. */
static int refuse_dtypes(const situ__op_row *row) {
  static const struct {
    uint64_t number;
    const char *name;
    bool format;
  } lacking[] = { { 4, "UINT16", true },      { 8, "STRING", false },       { 12, "UINT32", true },
                  { 14, "COMPLEX64", false }, { 17, "FLOAT8E4M3FN", true }, { 22, "INT4", true },
                  { 23, "FLOAT4E2M1", true }, { 99, "number 99", false } };
  const char *name;
  int length, count = 0;
  char type;
  const bool rounds = strcmp(row->target, "Cast") == 0 || strstr(row->target, "QuantizeLinear");
  for (int k = 0; (type = situ__op_parameter(row, k, &name, &length)); k++) {
    char attribute[64], what[64];
    (void)snprintf(attribute, sizeof attribute, "%.*s", length, name);
    for (size_t i = 0; type == 'd' && i < sizeof lacking / sizeof *lacking; i++, count++) {
      if (rounds && lacking[i].format) continue;
      (void)snprintf(what, sizeof what, "uses the dtype %s, which situ lacks", lacking[i].name);
      refuses(row, &(given){ .attribute = attribute, .number = lacking[i].number }, what);
    }
  }
  return count;
}

static int refuse_more_inputs(const situ__op_row *row) {
  const char *name;
  int length;
  if (row->inputs && situ__op_parameter(row, row->inputs - 1, &name, &length) == 'T') return 0;
  refuses(row, &(given){ .inputs = 1 }, "inputs, more than situ knows");
  return 1;
}

/* One tensor as every input, of several dtypes and ranks: what the operator does not take. */
static int refuse_tensors(const situ__op_row *row) {
  static const unsigned char dtype[] = { 1, 7, 9 };
  static const situ_dtype same[] = { SITU_F32, SITU_I64, SITU_BOOL };
  int count = 0;
  for (int i = 0; i < 3; i++) {
    situ_nn_module *m = load_model(row, &(given){ .any = true }, dtype[i]);
    if (!m) expect_place(path, place, "the_node", row->target, NULL), count++;
    for (int dims = 0; m && dims <= SITU_MAX_DIMS; dims += dims < 4 ? 1 : 4) {
      situ_scope scope;
      situ_scope_begin_no_grad(&scope);
      situ_shape shape = { .ndim = dims };
      for (int d = 0; d < dims; d++) shape.dim[d] = d % 2 ? 3 : 2;
      situ_tree *in = SITU_TREE(situ_ones(shape, &(situ_options){ .dtype = same[i] })), *out = situ_nn_call(m, in);
      if (!out) expect_place(path, place, "\"the_node\"", row->target, NULL), count++;
      situ_tree_free(out);
      situ_tree_free(in);
      SITU_IGNORE(situ_scope_end(&scope));
    }
    situ_nn_free(m);
  }
  return count;
}

static void refuse_unknown_attributes(void **state) {
  (void)state;
  assert_true(each_row(refuse_unknown) > 150);
}

static void refuse_unknown_texts(void **state) {
  (void)state;
  assert_true(each_row(refuse_texts) > 15);
}

static void refuse_unknown_dtypes(void **state) {
  (void)state;
  assert_true(each_row(refuse_dtypes) >= 8 * 5);
}

static void refuse_inputs_that_are_too_many(void **state) {
  (void)state;
  assert_true(each_row(refuse_more_inputs) > 150);
}

static void refuse_other_tensors(void **state) {
  (void)state;
  const int count = each_row(refuse_tensors);
  print_message("%d refusals of tensors, %d in all\n", count, refusals);
  assert_true(count > 500);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(refuse_unknown_attributes), cmocka_unit_test(refuse_unknown_texts),
    cmocka_unit_test(refuse_unknown_dtypes),     cmocka_unit_test(refuse_inputs_that_are_too_many),
    cmocka_unit_test(refuse_other_tensors),
  };
  situ_error_mode(SITU_ERROR_QUIET);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
