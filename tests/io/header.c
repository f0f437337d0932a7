/* The header of a safetensors file: rows 71 to 81 of the catalogue of bad inputs.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "io/safetensors/header.h"

static situ__problem problem;

/* Parses text as the header of a file with `bytes` bytes of data from 100 on. */
static bool parse(situ__header *h, const char *text, int64_t bytes) {
  problem = (situ__problem){ 0 };
  return situ__header_parse(h, situ__strdup(text), strlen(text), 100, bytes, false, &problem);
}

static void takes(const char *text, int64_t bytes) {
  situ__header h;
  if (!parse(&h, text, bytes)) fail_msg("%s: %s", text, problem.text);
  situ__header_free(&h);
}

static void refuses(situ_status status, const char *text, int64_t bytes) {
  situ__header h;
  if (parse(&h, text, bytes)) fail_msg("taken: %s", text);
  if (problem.status != status) fail_msg("%s: %s: %s", text, situ_status_name(problem.status), problem.text);
  assert_null(h.entry);
  assert_null(h.text);
}

static void reads_entries_in_order(void **state) {
  (void)state;
  situ__header h;
  assert_true(parse(&h,
                    "{\"z\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                    "\"__metadata__\":{\"format\":\"pt\",\"a\":\"b\"},"
                    "\"a.b\":{\"data_offsets\":[24,25],\"shape\":[],\"dtype\":\"BOOL\"},"
                    "\"empty\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[24,24]}}   ",
                    25));
  assert_int_equal(h.count, 3);
  assert_string_equal(h.entry[0].name, "a.b");
  assert_int_equal(h.entry[0].dtype, SITU_BOOL);
  assert_int_equal(h.entry[0].shape.ndim, 0);
  assert_int_equal(h.entry[0].offset, 124);
  assert_string_equal(h.entry[1].name, "empty");
  assert_int_equal(h.entry[1].bytes, 0);
  assert_string_equal(h.entry[2].name, "z");
  assert_int_equal(h.entry[2].shape.dim[1], 3);
  assert_int_equal(h.entry[2].offset, 100);
  assert_string_equal(situ__header_metadata(&h, "format"), "pt");
  assert_null(situ__header_metadata(&h, "missing"));
  assert_ptr_equal(situ__header_find(&h, "z"), &h.entry[2]);
  assert_null(situ__header_find(&h, "y"));
  situ__header_free(&h);
}

#define ENTRY(name, dtype, shape, offsets) \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"

static void takes_what_the_format_allows(void **state) {
  (void)state;
  takes("{}", 0);
  takes("{\"__metadata__\":{}}", 0);
  takes("{" ENTRY("a", "F8_E4M3", "5", "0,5") "}", 5);
  takes("{" ENTRY("a", "F4", "4", "0,2") "}", 2);
  takes("{" ENTRY("a", "F6_E2M3", "4", "0,3") "}", 3);
  takes("{" ENTRY("a", "C64", "2", "0,16") "," ENTRY("b", "U16", "1", "16,18") "}", 18);
  takes("{" ENTRY("../x", "U8", "1", "0,1") "," ENTRY("a\\nb", "U8", "1", "1,2") "}", 2);
}

static void refuses_bad_json(void **state) {
  (void)state;
  refuses(SITU_E_FORMAT, "", 0);
  refuses(SITU_E_FORMAT, " {}", 0);
  refuses(SITU_E_FORMAT, "[]", 0);
  refuses(SITU_E_FORMAT, "{}x", 0);
  refuses(SITU_E_FORMAT, "{\"a\":1}", 0);
  refuses(SITU_E_FORMAT, "{\"\xFF\":{}}", 0);
  refuses(SITU_E_FORMAT, "{\"a\\u0000b\":{}}", 0);
}

/* A million opening brackets are refused at the first that has no place there. */
static void refuses_deep_nesting(void **state) {
  (void)state;
  static const char *const starts[] = { "{\"a\":", "{\"__metadata__\":", "{\"a\":{\"shape\":", "" };
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    situ__text text = { 0 };
    situ__header h;
    situ__text_add(&text, "%s", starts[i]);
    for (int depth = 0; depth < 1000000; depth++) situ__text_append(&text, i % 2 ? "[" : "{\"a\":", i % 2 ? 1 : 5);
    assert_false(situ__header_parse(&h, text.data, text.length, 0, 0, false, &problem));
    assert_int_equal(problem.status, SITU_E_FORMAT);
  }
}

static void refuses_bad_metadata(void **state) {
  (void)state;
  refuses(SITU_E_FORMAT, "{\"__metadata__\":{\"a\":1}}", 0);
  refuses(SITU_E_FORMAT, "{\"__metadata__\":{\"a\":{}}}", 0);
  refuses(SITU_E_FORMAT, "{\"__metadata__\":[]}", 0);
  refuses(SITU_E_FORMAT, "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0);
  refuses(SITU_E_FORMAT, "{\"__metadata__\":{},\"__metadata__\":{}}", 0);
}

static void refuses_bad_entries(void **state) {
  (void)state;
  static const char *const entries[] = {
    ENTRY("a", "F33", "1", "0,4"),
    ENTRY("a", "f32", "1", "0,4"),
    "\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}",
    "\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}",
    "\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}",
    "\"a\":{\"dtype\":\"F32\",\"shape\":[1]}",
    "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"extra\":1}",
    "\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}",
    "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}",
    "\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}",
    ENTRY("a", "F32", "1.0", "0,4"),
    ENTRY("a", "F32", "-1", "0,4"),
    ENTRY("a", "F32", "-0", "0,0"),
    ENTRY("a", "F32", "1e0", "0,4"),
    ENTRY("a", "F32", "01", "0,4"),
    ENTRY("a", "F32", "18446744073709551616", "0,4"),
    ENTRY("a", "F32", "18446744073709551617", "0,4"),
    ENTRY("a", "F32", "\\\"1\\\"", "0,4"),
    ENTRY("a", "F32", "1", "0"),
    ENTRY("a", "F32", "1", "-4,0"),
    ENTRY("a", "F32", "1", "4,0"),
    ENTRY("a", "F32", "2", "0,8"),
    ENTRY("a", "F32", "1", "0,18446744073709551620"),
    ENTRY("a", "F32", "2", "0,4"),
    ENTRY("a", "F64", "1", "0,4"),
    ENTRY("a", "F32", "4611686018427387905", "0,4"),
    ENTRY("a", "F32", "4294967296,4294967296,1", "0,4"),
    ENTRY("a", "F32", "0,4611686018427387904,4611686018427387904", "0,0"),
    ENTRY("a", "F4", "7", "0,4"),
    ENTRY("a", "F6_E3M2", "1", "0,1"),
  };
  char text[512];
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    snprintf(text, sizeof text, "{%s}", entries[i]);
    refuses(SITU_E_FORMAT, text, 4);
  }
  refuses(SITU_E_LIMIT, "{" ENTRY("a", "U8", "1,1,1,1,1,1,1,1,1", "0,1") "}", 1);
  refuses(SITU_E_LIMIT, "{" ENTRY("a", "U8", "1", "0,1,1") "}", 1);
}

/* A short entry costs more memory than its text has bytes. */
static void refuses_too_many(void **state) {
  (void)state;
  enum { ENTRY_LENGTH = 64 };
  char *text = malloc(((size_t)SITU__FILE_TENSORS + 1) * ENTRY_LENGTH + 2), *at = text;
  assert_non_null(text);
  for (int i = 0; i <= SITU__FILE_TENSORS; i++)
    at += snprintf(at, ENTRY_LENGTH,
                   "%c"
                   "\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                   i ? ',' : '{', i);
  memcpy(at, "}", 2);
  situ__header h;
  assert_false(parse(&h, text, 0));
  assert_int_equal(problem.status, SITU_E_LIMIT);
  assert_non_null(strstr(problem.text, "more than 1000000 tensors"));
  free(text);
}

static void refuses_holes_overlaps_and_leftovers(void **state) {
  (void)state;
  refuses(SITU_E_FORMAT, "{" ENTRY("a", "U8", "2", "0,2") "," ENTRY("b", "U8", "2", "1,3") "}", 3);
  refuses(SITU_E_FORMAT, "{" ENTRY("a", "U8", "2", "0,2") "," ENTRY("b", "U8", "2", "0,2") "}", 2);
  refuses(SITU_E_FORMAT, "{" ENTRY("a", "U8", "2", "0,2") "," ENTRY("b", "U8", "1", "3,4") "}", 4);
  refuses(SITU_E_FORMAT, "{" ENTRY("a", "U8", "2", "1,3") "}", 3);
  refuses(SITU_E_FORMAT, "{" ENTRY("a", "U8", "2", "0,2") "}", 6);
  refuses(SITU_E_FORMAT, "{" ENTRY("a", "U8", "0", "1,1") "}", 2);
  refuses(SITU_E_FORMAT, "{" ENTRY("a", "U8", "1", "0,1") "," ENTRY("a", "U8", "1", "1,2") "}", 2);
  refuses(SITU_E_FORMAT, "{" ENTRY("a", "U8", "1", "0,1") "," ENTRY("\\u0061", "U8", "1", "1,2") "}", 2);
}

static void lenient_takes_leftovers_only(void **state) {
  (void)state;
  static const char text[] = "{" ENTRY("a", "U8", "2", "0,2") "}";
  situ__header h;
  assert_true(situ__header_parse(&h, situ__strdup(text), strlen(text), 0, 6, true, &problem));
  situ__header_free(&h);
  static const char hole[] = "{" ENTRY("a", "U8", "2", "1,3") "}";
  assert_false(situ__header_parse(&h, situ__strdup(hole), strlen(hole), 0, 6, true, &problem));
}

/* A hundred thousand tensors, and a name of a megabyte, are just large files. */
static void takes_large_headers(void **state) {
  (void)state;
  enum { MANY = 100000 };
  situ__text text = { 0 };
  situ__header h;
  for (int i = 0; i < MANY; i++)
    situ__text_add(&text, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "{", i, i,
                   i + 1);
  situ__text_append(&text, "}", 1);
  assert_false(text.failed);
  assert_true(situ__header_parse(&h, text.data, text.length, 0, MANY, false, &problem));
  assert_int_equal(h.count, MANY);
  assert_int_equal(situ__header_find(&h, "t99999")->offset, 99999);
  situ__header_free(&h);

  char *name = malloc(1000001);
  memset(name, 'n', 1000000);
  name[1000000] = '\0';
  text = (situ__text){ 0 };
  situ__text_add(&text, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", name);
  assert_true(situ__header_parse(&h, text.data, text.length, 0, 1, false, &problem));
  assert_non_null(situ__header_find(&h, name));
  situ__header_free(&h);
  text = (situ__text){ 0 };
  situ__text_add(&text, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,1]}}", name);
  assert_false(situ__header_parse(&h, text.data, text.length, 0, 1, false, &problem));
  assert_true(strlen(problem.text) < sizeof problem.text - 1); /* the name was cut, the reason was not */
  free(name);
}

static void fails_every_allocation_once(void **state) {
  (void)state;
  situ__text text = { 0 };
  for (int i = 0; i < 40; i++)
    situ__text_add(&text, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "{", i, i,
                   i + 1);
  situ__text_add(&text, ",\"__metadata__\":{\"a\":\"b\"}}");
  int failures = 0;
  for (uint64_t nth = 1;; nth++) {
    situ__header h;
    char *copy = situ__strdup(text.data);
    situ_fail_allocation(nth, false);
    bool fine = situ__header_parse(&h, copy, text.length, 0, 40, false, &problem);
    situ_fail_allocation(0, false);
    if (fine) {
      situ__header_free(&h);
      break;
    }
    assert_int_equal(problem.status, SITU_E_NOMEM);
    failures++;
  }
  assert_true(failures >= 3);
  situ__text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(reads_entries_in_order),
    cmocka_unit_test(takes_what_the_format_allows),
    cmocka_unit_test(refuses_bad_json),
    cmocka_unit_test(refuses_deep_nesting),
    cmocka_unit_test(refuses_bad_metadata),
    cmocka_unit_test(refuses_bad_entries),
    cmocka_unit_test(refuses_too_many),
    cmocka_unit_test(refuses_holes_overlaps_and_leftovers),
    cmocka_unit_test(lenient_takes_leftovers_only),
    cmocka_unit_test(takes_large_headers),
    cmocka_unit_test(fails_every_allocation_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
