/* CSV and IDX files: what is read, and what is refused where.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "situ/data.h"
#include "situ/ops.h"
#include "support/scope.h"

static void write_bytes(const char *name, const void *data, size_t bytes) {
  FILE *f = fopen(name, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  fclose(f);
}

static situ_tensor *csv(const char *text, const situ_csv_options *options) {
  write_bytes("t.csv", text, strlen(text));
  return situ_csv_load("t.csv", options);
}

static void refused(situ_status status, const char *where) {
  if (situ_error() != status) fail_msg("%s: %s", situ_status_name(situ_error()), situ_error_message());
  if (where && !strstr(situ_error_message(), where)) fail_msg("not '%s': %s", where, situ_error_message());
  situ_error_clear();
}

static void reads_numbers(void **state) {
  (void)state;
  double got[12];
  situ_tensor *t = csv("1,2.5,-3e2\n .5 ,+7.,1E-3\n", &(situ_csv_options){ .dtype = SITU_F64 });
  if (!t) fail_msg("%s", situ_error_message());
  assert_int_equal(situ_size(t, 0), 2);
  assert_int_equal(situ_size(t, 1), 3);
  assert_int_equal(situ_copy_to_host(t, got, 48), SITU_OK);
  static const double want[] = { 1, 2.5, -300, 0.5, 7, 1e-3 };
  for (int i = 0; i < 6; i++) assert_true(got[i] == want[i]);

  t = csv("nan,inf,-Infinity,-0\n", &(situ_csv_options){ .dtype = SITU_F64 });
  assert_int_equal(situ_copy_to_host(t, got, 32), SITU_OK);
  assert_true(isnan(got[0]) && got[1] == INFINITY && got[2] == -INFINITY && got[3] == 0 && signbit(got[3]));
}

static void reads_layouts(void **state) {
  (void)state;
  float got[4];
  static const float want[] = { 1, 2, 3, 4 };
  static const struct {
    const char *text;
    situ_csv_options options;
  } cases[] = {
    { "1,2\n3,4", { 0 } },
    { "1,2\r\n3,4\r\n", { 0 } },
    { "\xEF\xBB\xBF"
      "1,2\n3,4\n",
      { 0 } },
    { "a,b\n1,2\n3,4\n", { .skip_lines = 1 } },
    { "1;2\n3;4\n", { .delimiter = ';' } },
    { "1\t2\n3\t4\n", { .delimiter = '\t' } },
    { "1 2\n3 4\n", { .delimiter = ' ' } },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    situ_tensor *t = csv(cases[i].text, &cases[i].options);
    if (!t) fail_msg("case %zu: %s", i, situ_error_message());
    assert_int_equal(situ_dtype_of(t), SITU_F32);
    assert_int_equal(situ_size(t, 1), 2);
    assert_int_equal(situ_copy_to_host(t, got, sizeof got), SITU_OK);
    assert_memory_equal(got, want, sizeof want);
  }
}

static void keeps_integers_exact(void **state) {
  (void)state;
  int64_t got[3];
  situ_tensor *t =
      csv("9223372036854775807,-9223372036854775808,9007199254740993\n", &(situ_csv_options){ .dtype = SITU_I64 });
  assert_int_equal(situ_copy_to_host(t, got, sizeof got), SITU_OK);
  assert_true(got[0] == INT64_MAX && got[1] == INT64_MIN && got[2] == 9007199254740993);
  unsigned char bytes[3];
  t = csv("0,255,17\n", &(situ_csv_options){ .dtype = SITU_U8 });
  assert_int_equal(situ_copy_to_host(t, bytes, 3), SITU_OK);
  assert_true(bytes[0] == 0 && bytes[1] == 255 && bytes[2] == 17);
  t = csv("0,1,1\n", &(situ_csv_options){ .dtype = SITU_BOOL });
  assert_int_equal(situ_copy_to_host(t, bytes, 3), SITU_OK);
  assert_true(bytes[0] == 0 && bytes[1] == 1 && bytes[2] == 1);
}

static void halves_are_rounded(void **state) {
  (void)state;
  double value;
  situ_tensor *t = csv("0.1\n", &(situ_csv_options){ .dtype = SITU_F16 });
  assert_int_equal(situ_dtype_of(t), SITU_F16);
  assert_int_equal(situ_item(t, &value), SITU_OK);
  assert_true(value == 0.0999755859375);
}

static void refuses_bad_text(void **state) {
  (void)state;
  static const struct {
    const char *text, *where;
    situ_dtype dtype;
  } bad[] = {
    { "", "no row", 0 },
    { "\n", "line 1, field 1", 0 },
    { "1,2\n3\n", "line 2 has 1", 0 },
    { "1,2\n3,4,5\n", "line 2 has 3", 0 },
    { "1,2\n\n3,4\n", "line 2 has 1", 0 },
    { "1,\n", "line 1, field 2", 0 },
    { "1\n\n2\n", "line 2, field 1", 0 },
    { "1,two\n", "line 1, field 2: 'two'", 0 },
    { "1,\"2\"\n", "field 2", 0 },
    { "1,0x10\n", "field 2", 0 },
    { "1,1e\n", "field 2", 0 },
    { "1,1 2\n", "field 2", 0 },
    { "1,nan(7)\n", "field 2", 0 },
    { "1,--2\n", "field 2", 0 },
    { "1,.\n", "field 2", 0 },
    { "1,1e999\n", "field 2", SITU_F64 },
    { "1,1e39\n", "field 2", 0 },
    { "1,-3.41e38\n", "field 2", 0 },
    { "1,65520\n", "field 2", SITU_F16 },
    { "1,256\n", "field 2", SITU_U8 },
    { "1,-1\n", "field 2", SITU_U8 },
    { "1,-129\n", "field 2", SITU_I8 },
    { "1,2147483648\n", "field 2", SITU_I32 },
    { "1,9223372036854775808\n", "field 2", SITU_I64 },
    { "1,1.0\n", "field 2", SITU_I64 },
    { "1,2\n", "field 2", SITU_BOOL },
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (csv(bad[i].text, &(situ_csv_options){ .dtype = bad[i].dtype })) fail_msg("taken: %s", bad[i].text);
    refused(SITU_E_FORMAT, bad[i].where);
  }
  /* A NUL is no end of the text. */
  write_bytes("t.csv", "1,2\0,3\n", 7);
  assert_null(situ_csv_load("t.csv", NULL));
  refused(SITU_E_FORMAT, "field 2");
  static const char no_delimiters[] = "1.-+eXa\n";
  for (size_t i = 0; i < sizeof no_delimiters - 1; i++) {
    assert_null(csv("1,2\n", &(situ_csv_options){ .delimiter = no_delimiters[i] }));
    refused(SITU_E_ARG, NULL);
  }
  assert_null(csv("1\n", &(situ_csv_options){ .dtype = (situ_dtype)99 }));
  refused(SITU_E_DTYPE, NULL);
  assert_null(situ_csv_load("no-such-file", NULL));
  refused(SITU_E_IO, NULL);
  assert_null(situ_csv_load(NULL, NULL));
  refused(SITU_E_ARG, NULL);
}

/* A first row of very many fields and very many short ones after it must not make us allocate their
   product. */
static void does_not_trust_the_first_row(void **state) {
  (void)state;
  FILE *f = fopen("t.csv", "wb");
  for (int i = 0; i < 500000; i++) fputs("1,", f);
  fputs("1\n", f);
  for (int i = 0; i < 500000; i++) fputs("1\n", f);
  fclose(f);
  assert_null(situ_csv_load("t.csv", NULL));
  refused(SITU_E_FORMAT, "line 2");
}

static void puts_it_on_a_device(void **state) {
  (void)state;
  situ_device sim = situ_dev("sim:0");
  if (!situ_device_is_available(sim)) skip();
  situ_tensor *t = csv("1,2\n", &(situ_csv_options){ .device = sim });
  assert_true(situ_device_equal(situ_device_of(t), sim));
  write_bytes("t.idx", "\0\0\x08\1\0\0\0\2ab", 10);
  t = situ_idx_load("t.idx", sim);
  assert_true(situ_device_equal(situ_device_of(t), sim));
}

/* ---- IDX ------------------------------------------------------------------------------------- */

static void reads_idx(void **state) {
  (void)state;
  unsigned char u8[6];
  write_bytes("t.idx", "\0\0\x08\2\0\0\0\2\0\0\0\3abcdef", 18);
  situ_tensor *t = situ_idx_load("t.idx", situ_dev("cpu"));
  if (!t) fail_msg("%s", situ_error_message());
  assert_int_equal(situ_dtype_of(t), SITU_U8);
  assert_int_equal(situ_size(t, 1), 3);
  assert_int_equal(situ_copy_to_host(t, u8, 6), SITU_OK);
  assert_memory_equal(u8, "abcdef", 6);

  int16_t i16[2];
  write_bytes("t.idx", "\0\0\x0B\1\0\0\0\2\x01\x02\xFF\xFE", 12);
  t = situ_idx_load("t.idx", (situ_device){ 0 });
  assert_int_equal(situ_copy_to_host(t, i16, 4), SITU_OK);
  assert_true(i16[0] == 0x0102 && i16[1] == -2);

  double f64;
  write_bytes("t.idx", "\0\0\x0E\0\x3F\xF8\0\0\0\0\0\0", 12);
  t = situ_idx_load("t.idx", (situ_device){ 0 });
  assert_int_equal(situ_dim(t), 0);
  assert_int_equal(situ_item(t, &f64), SITU_OK);
  assert_true(f64 == 1.5);
}

static void refuses_bad_idx(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t count;
    situ_status status;
  } bad[] = {
    { "", 0, SITU_E_FORMAT },
    { "\0\0\x08", 3, SITU_E_FORMAT },
    { "\1\0\x08\0a", 5, SITU_E_FORMAT },
    { "\0\0\x07\0a", 5, SITU_E_FORMAT },
    { "\0\0\x08\1\0\0\0", 7, SITU_E_FORMAT },
    { "\0\0\x08\1\0\0\0\2a", 9, SITU_E_FORMAT },
    { "\0\0\x08\1\0\0\0\2abc", 11, SITU_E_FORMAT },
    { "\0\0\x08\3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"
      "a",
      17, SITU_E_FORMAT },
    { "\0\0\x08\3\0\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"
      "a",
      17, SITU_E_FORMAT },
    { "\0\0\x08\x09"
      "....................................",
      40, SITU_E_LIMIT },
    { "\x1F\x8B\x08\0", 4, SITU_E_FORMAT },
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_bytes("t.idx", bad[i].bytes, bad[i].count);
    if (situ_idx_load("t.idx", (situ_device){ 0 })) fail_msg("case %zu was taken", i);
    if (i == 10 && !strstr(situ_error_message(), "gunzip")) fail_msg("%s", situ_error_message());
    refused(bad[i].status, NULL);
  }
  assert_null(situ_idx_load(NULL, (situ_device){ 0 }));
  refused(SITU_E_ARG, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    T(reads_numbers),       T(reads_layouts),    T(keeps_integers_exact),
    T(halves_are_rounded),  T(refuses_bad_text), T(does_not_trust_the_first_row),
    T(puts_it_on_a_device), T(reads_idx),        T(refuses_bad_idx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
