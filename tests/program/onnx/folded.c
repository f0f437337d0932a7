/* A model whose exporter has folded batch norms into the layers before them says so when it trains, once.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "program/onnx/message.h"
#include "situ/situ.h"

static char logged[1024];
static int lines;
static void on_log(const char *line, void *payload) {
  (void)payload;
  lines++;
  (void)snprintf(logged, sizeof logged, "%s", line);
}

static void put_ones(message *graph, const char *name, int dims) {
  static const unsigned char one[] = { 0, 0, 0x80, 0x3f };
  message t = { .length = 0 };
  for (int d = 0; d < dims; d++) put_int(&t, 1, 1);
  put_int(&t, 2, 1);
  put_text(&t, 8, name);
  put_bytes(&t, 9, one, sizeof one);
  put_message(graph, INITIALIZER, &t);
}

/* Two Convs, one after the other, each with these parameters and, if it is not NULL, torch's name of what rewrote it. */
static situ_nn_module *load_convolutions(const char *weight, const char *bias, const char *rule) {
  message graph = { .length = 0 };
  put_ones(&graph, weight, 4);
  put_ones(&graph, bias, 1);
  for (int i = 0; i < 2; i++) {
    message node = { .length = 0 }, entry = { .length = 0 };
    put_text(&node, 1, i ? "h" : "x");
    put_text(&node, 1, weight);
    put_text(&node, 1, bias);
    put_text(&node, 2, i ? "y" : "h");
    put_text(&node, 4, "Conv");
    put_text(&entry, 1, "pkg.onnxscript.rewriter.rule_name");
    if (rule) put_text(&entry, 2, rule);
    if (rule) put_message(&node, 9, &entry);
    put_message(&graph, NODE, &node);
  }
  put_any(&graph, INPUT, "x");
  put_any(&graph, OUTPUT, "y");
  situ_nn_module *m = load_graph(&graph, 18);
  if (!m) fail_msg("%s", situ_error_message());
  return m;
}

static void call(situ_nn_module *m, bool grad) {
  situ_scope scope;
  if (grad) situ_scope_begin(&scope);
  else situ_scope_begin_no_grad(&scope);
  assert_non_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(1, 1, 2, 2), NULL)));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

static void training_says_that_it_differs(void **state) {
  (void)state;
  static const struct {
    const char *weight, *bias, *rule;
    bool folded;
  } cases[] = {
    { "conv.weight", "conv.bias", "FuseBatchNormIntoConv", true },
    { "conv.weight", "conv.weight_bias", "RemoveOptionalBiasFromConv, FuseBatchNormIntoConv", true },
    { "onnx::Conv_12", "onnx::Conv_13", NULL, true },
    { "conv.weight", "conv.bias", NULL, false },
    { "conv.weight", "conv.bias", "RemoveOptionalBiasFromConv", false },
    { "onnx::Conv_12", "conv.bias", NULL, false }, /* weight norm, computed when it was exported */
  };
  situ_error_log(on_log, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    situ_nn_module *m = load_convolutions(cases[i].weight, cases[i].bias, cases[i].rule);
    lines = 0;
    call(m, false);
    call(situ_nn_eval(m), true);
    assert_int_equal(lines, 0);
    situ_nn_train(m, true);
    for (int k = 0; k < 2; k++) call(m, true);
    assert_int_equal(lines, cases[i].folded);
    assert_true(!cases[i].folded || strstr(logged, "written.onnx: its exporter has folded 2 batch norms"));
    situ_nn_free(m);
  }
  situ_error_log(NULL, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(training_says_that_it_differs) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
