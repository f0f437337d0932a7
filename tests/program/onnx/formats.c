/* dtypes of ONNX that situ does not have: constants of all codes, rounding, and files that are wrong.
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

enum { UINT16 = 4, UINT64 = 13, E4M3FN = 17, E4M3FNUZ, E5M2, E5M2FNUZ, UINT4, INT4, E2M1, E8M0, UINT2, INT2 };

/* A constant "c" with its bytes in a field: 9 is raw, 5 and 11 are varints. */
static void put_constant(message *graph, uint64_t number, uint64_t count, uint32_t field, const void *data,
                         size_t bytes) {
  message t = { .length = 0 };
  put_int(&t, 1, count);
  put_int(&t, 2, number);
  put_bytes(&t, field, data, bytes);
  put_text(&t, 8, "c");
  put_message(graph, INITIALIZER, &t);
}

static void put_cast(message *graph, const char *in, uint64_t number, const char *out) {
  message to = { .length = 0 };
  put_text(&to, 1, "to");
  put_int(&to, 3, number);
  put_int(&to, 20, 2);
  put_node(graph, "Cast", in, NULL, out, &to);
}

/* y: the constant as f32, z: y rounded to the format once more. x is not used. */
static situ_nn_module *load_codes(uint64_t number, uint64_t count, uint32_t field, const void *data, size_t bytes) {
  message graph = { .length = 0 };
  put_constant(&graph, number, count, field, data, bytes);
  put_any(&graph, INPUT, "x");
  put_cast(&graph, "c", 1, "y");
  put_cast(&graph, "y", number, "narrow");
  put_cast(&graph, "narrow", 1, "z");
  put_any(&graph, OUTPUT, "y");
  put_any(&graph, OUTPUT, "z");
  return load_graph(&graph, 28);
}

/* Result k of a run, at most 256 values. */
static void read_result(situ_nn_module *m, int64_t k, float *out) {
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(1), NULL)), *y = m ? situ_nn_call(m, in) : NULL;
  if (!y) fail_msg("%s", situ_error_message());
  situ_tensor *t = situ_tree_value(situ_tree_at(y, k));
  assert_int_equal(situ_copy_to_host(t, out, (size_t)situ_numel(t) * sizeof *out), SITU_OK);
  situ_tree_free(y);
  situ_tree_free(in);
}

/* The file's bytes are all codes in their order. */
static void each_code_has_its_value(void **state) {
  (void)state;
  static const struct {
    uint64_t number;
    int bits, code;
    float value;
  } known[] = { { E4M3FN, 8, 0x7e, 448 },      { E4M3FN, 8, 0xff, NAN },     { E4M3FN, 8, 0x81, -0x1p-9f },
                { E4M3FNUZ, 8, 0x7f, 240 },    { E4M3FNUZ, 8, 0x80, NAN },   { E4M3FNUZ, 8, 0x01, 0x1p-10f },
                { E5M2, 8, 0x7b, 57344 },      { E5M2, 8, 0xfc, -INFINITY }, { E5M2, 8, 0x7d, NAN },
                { E5M2FNUZ, 8, 0xff, -57344 }, { E5M2FNUZ, 8, 0x80, NAN },   { E8M0, 8, 0x00, 0x1p-127f },
                { E8M0, 8, 0xfe, 0x1p127f },   { E8M0, 8, 0xff, NAN },       { E2M1, 4, 0x7, 6 },
                { E2M1, 4, 0x9, -0.5f },       { INT4, 4, 0x8, -8 },         { UINT4, 4, 0xf, 15 },
                { INT2, 2, 0x2, -2 },          { UINT2, 2, 0x3, 3 } };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const int count = 1 << known[i].bits, each = 8 / known[i].bits;
    unsigned char bytes[256] = { 0 };
    float y[256], z[256];
    for (int k = 0; k < count; k++) bytes[k / each] |= (unsigned char)(k << k % each * known[i].bits);
    situ_nn_module *m = load_codes(known[i].number, (uint64_t)count, 9, bytes, (size_t)(count / each));
    read_result(m, 0, y);
    read_result(m, 1, z);
    const float got = y[known[i].code], want = known[i].value;
    if (got != want && !(isnan(got) && isnan(want)))
      fail_msg("code %d of %d is %g, not %g", known[i].code, (int)known[i].number, (double)got, (double)want);
    for (int k = 0; k < count; k++)
      if (y[k] != z[k] && !(isnan(y[k]) && isnan(z[k])) && !isinf(y[k]))
        fail_msg("%g of %d becomes %g", (double)y[k], (int)known[i].number, (double)z[k]);
    situ_nn_free(m);
  }
}

static void lengths_must_fit(void **state) {
  (void)state;
  static const unsigned char bytes[16] = { 0x21, 0x03, 0, 0, 0, 0, 0, 0x80 };
  float y[3];
  situ_nn_module *m = load_codes(INT4, 3, 9, bytes, 2);
  read_result(m, 0, y);
  assert_true(y[0] == 1 && y[1] == 2 && y[2] == 3);
  situ_nn_free(m);
  m = load_codes(UINT2, 3, 5, bytes, 1); /* typed: a byte in a number */
  read_result(m, 0, y);
  assert_true(y[0] == 1 && y[1] == 0 && y[2] == 2);
  situ_nn_free(m);
  for (size_t length = 0; length < 6; length++) {
    if (length != 2) expect_refused(load_codes(INT4, 3, 9, bytes, length), SITU_E_FORMAT, "whose shape needs 2");
    if (length != 1) expect_refused(load_codes(UINT2, 3, 5, bytes, length), SITU_E_FORMAT, "needs others");
    if (length != 4) expect_refused(load_codes(UINT16, 2, 9, bytes, length), SITU_E_FORMAT, "whose shape needs 4");
  }
  static const uint64_t sizes[] = { 1 << 30, INT64_MAX, INT64_MAX - 6, INT64_MAX / 8 };
  for (int i = 0; i < 4; i++)
    for (uint64_t number = UINT64; number <= INT2; number++) {
      if (number == 14 || number == 15 || number == 16) continue; /* not formats */
      expect_refused(load_codes(number, sizes[i], 9, bytes, 2), SITU_E_FORMAT, "a tensor 'c' of");
      expect_refused(load_codes(number, sizes[i], 5, bytes, 2), SITU_E_FORMAT, "a tensor 'c' of");
    }
  expect_refused(load_codes(UINT64, 1, 9, bytes, 8), SITU_E_UNSUPPORTED, "UINT64 that i64 does not hold");
}

static void other_operators_refuse_them(void **state) {
  (void)state;
  static const unsigned char bytes[2] = { 0x38, 0x40 };
  static const char *const ops[] = { "Relu", "Add", "MatMul", "Max" };
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    message graph = { .length = 0 };
    put_constant(&graph, E4M3FN, 2, 9, bytes, 2);
    put_any(&graph, INPUT, "x");
    put_node(&graph, ops[i], "c", i ? "x" : NULL, "y", NULL);
    put_any(&graph, OUTPUT, "y");
    expect_refused(load_graph(&graph, 28), SITU_E_UNSUPPORTED, "takes FLOAT8E4M3FN");
  }
  message graph = { .length = 0 };
  put_constant(&graph, INT4, 4, 9, bytes, 2);
  put_any(&graph, INPUT, "x");
  put_node(&graph, "Identity", "c", NULL, "y", NULL);
  put_any(&graph, OUTPUT, "y");
  expect_refused(load_graph(&graph, 28), SITU_E_FORMAT, "declares 'y' as FLOAT, but computes INT4");
}

/* The model is written with the constant as it was. */
static void they_are_written_again(void **state) {
  (void)state;
  static const unsigned char bytes[2] = { 0x21, 0xf3 };
  float y[4], again[4];
  situ_nn_module *m = load_codes(INT4, 4, 9, bytes, 2), *read;
  assert_int_equal(situ_onnx_export(m, "again.onnx", NULL), SITU_OK);
  assert_non_null(read = situ_export_load("again.onnx", NULL));
  read_result(m, 0, y);
  read_result(read, 0, again);
  assert_memory_equal(y, again, sizeof y);
  situ_nn_free(read);
  situ_nn_free(m);
}

/* y: x rounded to the format. Traced, whole numbers lose their upper bits as well; a list of floats has no form there. */
static void rounding_is_traced(void **state) {
  (void)state;
  static const uint64_t numbers[] = { INT4, UINT16, E4M3FN };
  for (int i = 0; i < 3; i++) {
    message graph = { .length = 0 };
    put_any(&graph, INPUT, "x");
    put_cast(&graph, "x", numbers[i], "narrow");
    put_cast(&graph, "narrow", 1, "y");
    put_any(&graph, OUTPUT, "y");
    situ_nn_module *m = load_graph(&graph, 28);
    situ_tree *in = SITU_TREE(situ_mul_scalar(situ_randn(SITU_SHAPE(99), NULL), 3)), *y = situ_nn_call(m, in);
    situ_nn_module *traced = situ_export(m, in), *read = NULL;
    if (traced && situ_export_save(traced, "traced.pt2") == SITU_OK) read = situ_export_load("traced.pt2", NULL);
    situ_tree *again = read ? situ_nn_call(read, in) : NULL;
    if (again) expect_same(y, again);
    if (i < 2 && !again) fail_msg("%s", situ_error_message());
    if (i == 2) expect_refused(read, SITU_E_UNSUPPORTED, "a tensor whose values the run does not know");
    situ_tree_free(again);
    situ_tree_free(y);
    situ_tree_free(in);
    situ_nn_free(read);
    situ_nn_free(traced);
    situ_nn_free(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(each_code_has_its_value, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(lengths_must_fit, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(other_operators_refuse_them, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(they_are_written_again, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(rounding_is_traced, open_scope, close_scope),
  };
  situ_error_mode(SITU_ERROR_QUIET);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
