/* The header of a .npy file: rows 84 to 88 of the catalogue of bad inputs, on the pure parser.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/npy/header.h"

static situ__problem problem;
static situ_file_entry entry;
static bool fortran;

static bool parse(const char *text) {
  problem = (situ__problem){ 0 };
  return situ__npy_parse(text, strlen(text), &entry, &fortran, &problem);
}

static void takes(const char *text, situ_dtype dtype, int ndim, int64_t bytes, bool columns) {
  if (!parse(text)) fail_msg("%s: %s", text, problem.text);
  assert_int_equal(entry.dtype, dtype);
  assert_int_equal(entry.shape.ndim, ndim);
  assert_int_equal(entry.bytes, bytes);
  assert_int_equal(fortran, columns);
}

static void refuses(situ_status status, const char *text) {
  if (parse(text)) fail_msg("taken: %s", text);
  if (problem.status != status) fail_msg("%s: %s: %s", text, situ_status_name(problem.status), problem.text);
}

static void takes_what_numpy_writes(void **state) {
  (void)state;
  takes("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n", SITU_F32, 2, 48, false);
  takes("{'descr': '|b1', 'fortran_order': True, 'shape': (5,), }\n", SITU_BOOL, 1, 5, true);
  takes("{'descr': '<f2', 'fortran_order': False, 'shape': (), }\n", SITU_F16, 0, 2, false);
  takes("{'shape': (2, 0, 3), 'fortran_order': False, 'descr': '<i8'}\n", SITU_I64, 3, 0, false);
  takes("{\"descr\":\"|u1\",\"fortran_order\":False,\"shape\":(7,)}\n", SITU_U8, 1, 7, false);
  takes("{'descr': '<i1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 2)}\n", SITU_I8, 8, 2, false);
}

static void refuses_types_that_it_lacks(void **state) {
  (void)state;
  static const char *const types[] = { "'|O'",  "'>f4'", "'<f3'",          "'<c8'",        "'|V2'", "'<M8[ns]'",
                                       "'<u2'", "'|S3'", "'<U1'",          "'<f16'",       "'=f4'", "'f4'",
                                       "''",    "'|f4'", "[('a', '<f4')]", "('<f4', (2,))" };
  char text[256];
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    snprintf(text, sizeof text, "{'descr': %s, 'fortran_order': False, 'shape': (1,), }\n", types[i]);
    refuses(SITU_E_UNSUPPORTED, text);
  }
}

static void refuses_what_is_no_header(void **state) {
  (void)state;
  static const char *const bad[] = {
    "",
    "\n",
    "{}\n",
    "{'descr': '<f4', 'fortran_order': False}\n",
    "{'descr': '<f4', 'shape': (1,)}\n",
    "{'fortran_order': False, 'shape': (1,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}\n",
    "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'extra': 1}\n",
    "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}\n",
    "{'descr': '<f4', 'fortran_order': false, 'shape': (1,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (01,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 4611686018427387904)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': [3]}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n\n",
    "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}\n",
    "{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (1,)}\n",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), **{}}\n",
    "dict(descr='<f4', fortran_order=False, shape=(1,))\n",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuses(SITU_E_FORMAT, bad[i]);
  refuses(SITU_E_LIMIT, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}\n");
}

static void nesting_costs_nothing(void **state) {
  (void)state;
  static char text[SITU__NPY_HEADER_MAX];
  size_t start = strlen(strcpy(text, "{'descr': '<f4', 'fortran_order': False, 'shape': "));
  memset(text + start, '(', sizeof text - start - 1);
  refuses(SITU_E_FORMAT, text);
}

static void reads_the_start(void **state) {
  (void)state;
  size_t begin, header;
  unsigned char v1[12] = "\x93NUMPY\x01\x00\x76\x00{'";
  assert_true(situ__npy_start(v1, 12, &begin, &header, &problem));
  assert_int_equal(begin, 10);
  assert_int_equal(header, 118);
  unsigned char v2[12] = "\x93NUMPY\x02\x00\x74\x00\x00\x00";
  assert_true(situ__npy_start(v2, 12, &begin, &header, &problem));
  assert_int_equal(begin, 12);
  assert_int_equal(header, 116);
  static const struct {
    int at;
    unsigned char value;
  } faults[] = {
    { 0, 'x' }, { 1, 'n' }, { 6, 0 }, { 6, 4 }, { 6, 255 }, { 7, 1 },
  };
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    unsigned char bad[12];
    memcpy(bad, v1, 12);
    bad[faults[i].at] = faults[i].value;
    assert_false(situ__npy_start(bad, 12, &begin, &header, &problem));
    assert_int_equal(problem.status, SITU_E_FORMAT);
  }
  unsigned char huge[12] = "\x93NUMPY\x02\x00\xF4\xFF\xFF\xFF";
  assert_false(situ__npy_start(huge, 12, &begin, &header, &problem));
  assert_false(situ__npy_start(v1, 9, &begin, &header, &problem));
  assert_false(situ__npy_start(v2, 11, &begin, &header, &problem));
  assert_false(situ__npy_start(v1, 0, &begin, &header, &problem));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(takes_what_numpy_writes),   cmocka_unit_test(refuses_types_that_it_lacks),
    cmocka_unit_test(refuses_what_is_no_header), cmocka_unit_test(nesting_costs_nothing),
    cmocka_unit_test(reads_the_start),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
