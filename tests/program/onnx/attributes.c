/* Attributes that no operator has, and texts that it does not know, are refused by their names when a model is loaded:
   each row of the tables gets them in a model of its own.
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
#include "situ/situ.h"

/* ---- a model of one node ---- */

/* A node of the row's operator, with an input for each of its tensors and one attribute: a text, or the number 1. */
static void put_node(message *graph, const situ__op_row *row, const char *attribute, const char *text) {
  message node = { .length = 0 }, a = { .length = 0 };
  for (int i = 0; i < row->inputs; i++) put_text(&node, 1, "x");
  put_text(&node, 2, "y");
  put_text(&node, 3, "the_node");
  const char *dot = strrchr(row->target, '.'); /* after the domain */
  put_text(&node, 4, dot ? dot + 1 : row->target);
  if (dot) put_bytes(&node, 7, row->target, (size_t)(dot - row->target));
  put_text(&a, 1, attribute);
  if (text) put_text(&a, 4, text);
  else put_int(&a, 3, 1);
  put_int(&a, 20, text ? 3 : 2);
  put_message(&node, 5, &a);
  put_message(graph, 1, &node);
}

static const situ__op_family *const families[] = {
  &situ__onnx_elementwise_family, &situ__onnx_shape_family,     &situ__onnx_layers_family, &situ__onnx_reduce_family,
  &situ__onnx_index_family,       &situ__onnx_make_family,      &situ__onnx_norm_family,   &situ__onnx_recurrent_family,
  &situ__onnx_image_family,       &situ__onnx_attention_family, &situ__onnx_trees_family,
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

static void write_model(const char *path, const situ__op_row *row, const char *attribute, const char *text) {
  static const unsigned char type[] = { 0x0a, 0x04, 0x08, 0x01, 0x12, 0x00 }; /* f32, a number */
  message model = { .length = 0 }, graph = { .length = 0 }, value = { .length = 0 }, opset = { .length = 0 };
  put_node(&graph, row, attribute, text);
  put_text(&value, 1, "x");
  put_bytes(&value, 2, type, sizeof type);
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
}

/* Loads the model, which must fail with a message that has `what`. */
static void refuses(const situ__op_row *row, const char *attribute, const char *text, const char *what) {
  const char *path = "attribute.onnx";
  write_model(path, row, attribute, text);
  situ_error_mode(SITU_ERROR_QUIET);
  situ_nn_module *m = situ_export_load(path, NULL);
  if (m || !strstr(situ_error_message(), what))
    fail_msg("%s with %s: %s, without '%s'", row->target, attribute, m ? "is loaded" : situ_error_message(), what);
  assert_int_equal(situ_error(), SITU_E_UNSUPPORTED);
  situ_error_clear();
  situ_error_mode(SITU_ERROR_LOG);
}

/* ---- each row ---- */

static int each_row(int (*check)(const situ__op_row *row)) {
  int count = 0;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int i = 0; i < families[f]->count; i++) count += check(&families[f]->row[i]);
  return count;
}

static int refuse_unknown(const situ__op_row *row) {
  refuses(row, "situ_unknown", NULL, "has an argument situ_unknown, which situ does not know");
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
    refuses(row, attribute, "situ_nonsense", what);
    (void)snprintf(what, sizeof what, "has %s '', and situ knows (", attribute);
    refuses(row, attribute, "", what);
    count++;
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

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(refuse_unknown_attributes),
                                      cmocka_unit_test(refuse_unknown_texts) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
