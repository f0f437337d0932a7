/* Loading and saving .npy files.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "situ/io.h"
#include "situ/ops.h"
#include "support/scope.h"

static void write_bytes(const char *name, const void *data, size_t bytes) {
  FILE *f = fopen(name, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  fclose(f);
}

/* A file of version 1 with this dict and these values. */
static void make(const char *dict, const void *values, size_t bytes) {
  unsigned char file[1024] = "\x93NUMPY\x01\x00";
  size_t length = strlen(dict), header = (10 + length + 1 + 63) / 64 * 64 - 10;
  file[8] = (unsigned char)header;
  file[9] = (unsigned char)(header >> 8);
  memset(file + 10, ' ', header);
  memcpy(file + 10, dict, length);
  file[10 + header - 1] = '\n';
  memcpy(file + 10 + header, values, bytes);
  write_bytes("t.npy", file, 10 + header + bytes);
}

static void refused(situ_status status) {
  if (situ_error() != status) fail_msg("%s: %s", situ_status_name(situ_error()), situ_error_message());
  situ_error_clear();
}

static void round_trip(void **state) {
  (void)state;
  static const unsigned char bytes[] = { 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0,
                                         1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0 };
  static const situ_shape shapes[] = {
    { 0, { 0 } }, { 1, { 6 } }, { 2, { 2, 3 } }, { 3, { 2, 0, 3 } }, { 4, { 1, 2, 1, 3 } }
  };
  for (int d = SITU_BOOL; d < SITU_DTYPES; d++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      const situ_options options = { .dtype = (situ_dtype)d, .device = { .kind = SITU_CPU } };
      int64_t count = 1;
      for (int i = 0; i < shapes[s].ndim; i++) count *= shapes[s].dim[i];
      size_t size = (size_t)count * situ_dtype_size((situ_dtype)d);
      situ_tensor *t = situ_from_host(bytes, size, shapes[s], &options);
      assert_non_null(t);
      if (d == SITU_BF16) {
        assert_int_equal(situ_npy_save("t.npy", t, NULL), SITU_E_UNSUPPORTED);
        situ_error_clear();
        continue;
      }
      assert_int_equal(situ_npy_save("t.npy", t, NULL), SITU_OK);
      for (int map = 0; map < 2; map++) {
        situ_tensor *got = situ_npy_load("t.npy", &(situ_load_options){ .map = map });
        if (!got) fail_msg("%s", situ_error_message());
        unsigned char back[64];
        assert_int_equal(situ_dtype_of(got), d);
        assert_int_equal(situ_dim(got), shapes[s].ndim);
        for (int i = 0; i < shapes[s].ndim; i++) assert_int_equal(situ_size(got, i), shapes[s].dim[i]);
        assert_int_equal(situ_copy_to_host(got, back, size), SITU_OK);
        assert_memory_equal(back, bytes, size);
      }
      situ_file_entry entry;
      assert_int_equal(situ_npy_info("t.npy", &entry), SITU_OK);
      assert_int_equal(entry.dtype, d);
      assert_int_equal(entry.bytes, size);
      assert_int_equal(entry.offset % 64, 0);
    }
}

static void fortran_order_is_turned(void **state) {
  (void)state;
  static const int32_t columns[] = { 0, 3, 1, 4, 2, 5 };
  make("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", columns, sizeof columns);
  situ_tensor *t = situ_npy_load("t.npy", NULL);
  if (!t) fail_msg("%s", situ_error_message());
  int32_t rows[6];
  assert_int_equal(situ_size(t, 0), 2);
  assert_true(situ_is_contiguous(t));
  assert_int_equal(situ_copy_to_host(t, rows, sizeof rows), SITU_OK);
  for (int i = 0; i < 6; i++) assert_int_equal(rows[i], i);
}

static void a_transposed_tensor_is_saved_by_rows(void **state) {
  (void)state;
  static const float values[] = { 0, 1, 2, 3, 4, 5 };
  situ_tensor *t = situ_transpose(situ_from_host(values, sizeof values, SITU_SHAPE(2, 3), NULL), 0, 1);
  float back[6];
  assert_int_equal(situ_npy_save("t.npy", t, NULL), SITU_OK);
  assert_int_equal(situ_copy_to_host(situ_npy_load("t.npy", NULL), back, sizeof back), SITU_OK);
  static const float want[] = { 0, 3, 1, 4, 2, 5 };
  assert_memory_equal(back, want, sizeof want);
}

static void refuses_bad_files(void **state) {
  (void)state;
  static const float values[4] = { 1, 2, 3, 4 };
  static const char good[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  make(good, values, 12);
  assert_non_null(situ_npy_load("t.npy", NULL));
  make(good, values, 11);
  assert_null(situ_npy_load("t.npy", NULL));
  refused(SITU_E_FORMAT);
  make(good, values, 16);
  assert_null(situ_npy_load("t.npy", NULL));
  refused(SITU_E_FORMAT);
  assert_non_null(situ_npy_load("t.npy", &(situ_load_options){ .lenient = true }));
  make("{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }", values, 12);
  assert_null(situ_npy_load("t.npy", NULL));
  assert_non_null(strstr(situ_error_message(), "big-endian"));
  refused(SITU_E_UNSUPPORTED);
  make("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\1\2\0", 3);
  assert_null(situ_npy_load("t.npy", NULL));
  refused(SITU_E_FORMAT);
  static const unsigned char far[] = "\x93NUMPY\x02\x00\xF4\xFF\x00\x00{";
  write_bytes("t.npy", far, sizeof far - 1);
  assert_null(situ_npy_load("t.npy", NULL));
  refused(SITU_E_FORMAT);
  make(good, values, 12);
  FILE *f = fopen("t.npy", "rb");
  char bytes[256];
  size_t length = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  for (size_t cut = 0; cut < length; cut++) {
    write_bytes("cut.npy", bytes, cut);
    assert_null(situ_npy_load("cut.npy", NULL));
    refused(SITU_E_FORMAT);
  }
  situ_file_entry entry;
  assert_int_equal(situ_npy_info("cut.npy", &entry), SITU_E_FORMAT);
  situ_error_clear();
  assert_int_equal(situ_npy_info("t.npy", NULL), SITU_E_ARG);
  situ_error_clear();
}

/* Arrays that NumPy itself wrote, where it is installed. */
static void reads_what_numpy_wrote(void **state) {
  (void)state;
  static const char program[] =
      "/usr/bin/python3 -c \"import numpy as n; n.save('n1.npy', n.arange(12, "
      "dtype='<f8').reshape(3, 4));"
      "n.save('n2.npy', n.asfortranarray(n.arange(12, dtype='<i2').reshape(3, 4)));"
      "n.save('n3.npy', n.array(True)); n.lib.format.write_array(open('n4.npy', 'wb'), n.zeros((2, "
      "0), 'f2'), (3, 0))\""
      " 2>/dev/null";
  if (system(program) != 0) skip();
  double f8[12];
  int16_t i2[12];
  assert_int_equal(situ_copy_to_host(situ_npy_load("n1.npy", NULL), f8, sizeof f8), SITU_OK);
  assert_int_equal(situ_copy_to_host(situ_npy_load("n2.npy", NULL), i2, sizeof i2), SITU_OK);
  for (int i = 0; i < 12; i++) assert_true(f8[i] == i && i2[i] == i);
  int64_t yes;
  assert_int_equal(situ_item_i64(situ_npy_load("n3.npy", NULL), &yes), SITU_OK);
  assert_int_equal(yes, 1);
  assert_int_equal(situ_numel(situ_npy_load("n4.npy", NULL)), 0);
  /* And NumPy reads ours. */
  assert_int_equal(situ_npy_save("ours.npy", situ_npy_load("n2.npy", NULL), NULL), SITU_OK);
  assert_int_equal(system("/usr/bin/python3 -c \"import numpy as n; a = n.load('ours.npy');"
                          "assert a.dtype == n.int16 and (a == n.arange(12).reshape(3, 4)).all()\""),
                   0);
}

/* NumPy pads headers, others need not: values that begin anywhere are read, also where mapping was asked for. */
static void values_that_are_not_aligned(void **state) {
  (void)state;
  static const int16_t values[3] = { 1, -2, 300 };
  for (int pad = 0; pad < 16; pad++) {
    char text[128];
    int length = snprintf(text, sizeof text, "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }%*s\n", pad, "");
    FILE *file = fopen("unaligned.npy", "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("\x93NUMPY\1\0", 8, 1, file), 1);
    assert_true(fputc(length, file) != EOF && fputc(0, file) != EOF);
    assert_int_equal(fwrite(text, (size_t)length, 1, file), 1);
    assert_int_equal(fwrite(values, sizeof values, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    for (int map = 0; map < 2; map++) {
      int16_t got[3];
      situ_tensor *t = situ_npy_load("unaligned.npy", &(situ_load_options){ .map = map != 0 });
      assert_non_null(t);
      assert_int_equal(situ_copy_to_host(t, got, sizeof got), SITU_OK);
      assert_memory_equal(got, values, sizeof values);
    }
  }
}

static void what_is_missing_is_named(void **state) {
  (void)state;
  situ_tensor *t = situ_ones(SITU_SHAPE(2), NULL);
  assert_int_equal(situ_npy_save(NULL, t, NULL), SITU_E_ARG);
  assert_non_null(strstr(situ_error_message(), "path"));
  situ_error_clear();
  assert_int_equal(situ_npy_save("missing.npy", NULL, NULL), SITU_E_ARG);
  assert_non_null(strstr(situ_error_message(), "tensor"));
  assert_int_equal(access("missing.npy", F_OK), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    T(round_trip),
    T(fortran_order_is_turned),
    T(a_transposed_tensor_is_saved_by_rows),
    T(refuses_bad_files),
    T(reads_what_numpy_wrote),
    T(values_that_are_not_aligned),
    T(what_is_missing_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
