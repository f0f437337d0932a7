/* The JSON parser: what it takes, what it refuses, and where.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "io/format/json.h"

/* All tokens of a text, one letter each; '!' for an error. Its memory ends with it, as that of a file does. */
static const char *tokens(const char *text) {
  static const char letters[] = "!.{}[]ksinTFN";
  static char out[512];
  const size_t length = strlen(text);
  char *copy = malloc(length + !length);
  situ__json json;
  memcpy(copy, text, length);
  situ__json_begin(&json, copy, length);
  size_t count = 0;
  situ__json_kind kind;
  do {
    kind = situ__json_next(&json);
    out[count++] = letters[kind];
  } while (kind != SITU__JSON_ERROR && kind != SITU__JSON_END && count < sizeof out - 1);
  out[count] = '\0';
  free(copy);
  return out;
}

static void accepts(void **state) {
  (void)state;
  assert_string_equal(tokens("{}"), "{}.");
  assert_string_equal(tokens(" [ ] \n"), "[].");
  assert_string_equal(tokens("{\"a\":1,\"b\":[true,false,null,\"x\"]}"), "{kik[TFNs]}.");
  assert_string_equal(tokens("-1"), "i.");
  assert_string_equal(tokens("0"), "i.");
  assert_string_equal(tokens("[0.5,1e3,1E-2,-0.0,12.5e+7]"), "[nnnnn].");
  assert_string_equal(tokens("[[[[[[[[]]]]]]]]"), "[[[[[[[[]]]]]]]].");
  assert_string_equal(tokens("\"\xE2\x82\xAC \xF0\x9F\x98\x80\""), "s.");
}

static void refuses_all_that_is_cut(void **state) {
  (void)state;
  static const char whole[] = "{\"a\":[1,true,\"\\u20AC\\uD83D\\uDE00\"],\"b\":{\"c\":0.5}}";
  char cut[sizeof whole] = "";
  for (size_t length = 0; length < sizeof whole - 1; length++) {
    const char *seen = tokens(cut);
    if (seen[strlen(seen) - 1] != '!') fail_msg("%s: %s", cut, seen);
    cut[length] = whole[length];
  }
  assert_string_equal(tokens(whole), "{k[iTs]k{kn}}.");
}

static void refuses(void **state) {
  (void)state;
  static const char *const bad[] = {
    "",
    " ",
    "{",
    "[",
    "\"",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,",
    "{\"a\":1,}",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{a:1}",
    "{'a':1}",
    "{\"a\" 1}",
    "{1:1}",
    "{\"a\":1}x",
    "{} {}",
    "[1]]",
    "}",
    "]",
    ",",
    ":",
    "nul",
    "tru",
    "nan",
    "Infinity",
    "+1",
    ".5",
    "1.",
    "01",
    "-",
    "-01",
    "1e",
    "1e+",
    "0x10",
    "--1",
    "\"\\x\"",
    "\"\\",
    "\"\\u12\"",
    "\"\\u12G4\"",
    "\"\\uD800\"",
    "\"\\uD800\\u0041\"",
    "\"\\uDC00\"",
    "\"\\u0000\"",
    "\"\x01\"",
    "\"\n\"",
    "\"\xFF\"",
    "\"\xC0\x80\"",
    "\"\xED\xA0\x80\"",
    "\"\xF4\x90\x80\x80\"",
    "\"\xE2\x82\"",
    /* 65 deep */
    ("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1"
     "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
    "/**/1",
    "{\"a\":1 \"b\":2}",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *got = tokens(bad[i]);
    if (!strchr(got, '!')) fail_msg("%s was taken: %s", bad[i], got);
  }
}

static void numbers_keep_64_bits(void **state) {
  (void)state;
  char text[] = "[9223372036854775807,-9223372036854775808,9223372036854775808,-"
                "9223372036854775809,-0,9007199254740993]";
  static const int64_t want[] = { INT64_MAX, INT64_MIN, 0, 0, 0, 9007199254740993 };
  static const situ__json_kind kinds[] = { SITU__JSON_INTEGER, SITU__JSON_INTEGER, SITU__JSON_NUMBER,
                                           SITU__JSON_NUMBER,  SITU__JSON_NUMBER,  SITU__JSON_INTEGER };
  situ__json json;
  situ__json_begin(&json, text, strlen(text));
  assert_int_equal(situ__json_next(&json), SITU__JSON_ARRAY);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(situ__json_next(&json), kinds[i]);
    if (kinds[i] == SITU__JSON_INTEGER) assert_true(json.integer == want[i]);
  }
  assert_int_equal(situ__json_next(&json), SITU__JSON_ARRAY_END);
}

static void strings_are_decoded_in_place(void **state) {
  (void)state;
  char text[] = "[\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u20AC\\uD83D\\uDE00z\",\"\"]";
  situ__json json;
  situ__json_begin(&json, text, strlen(text));
  situ__json_next(&json);
  assert_int_equal(situ__json_next(&json), SITU__JSON_STRING);
  assert_string_equal(json.text, "a\"\\/\b\f\n\r\tA\xE2\x82\xAC\xF0\x9F\x98\x80z");
  assert_int_equal(json.length, strlen(json.text));
  assert_int_equal(situ__json_next(&json), SITU__JSON_STRING);
  assert_string_equal(json.text, "");
}

static void deep_nesting_is_a_limit(void **state) {
  (void)state;
  size_t depth = 1000000;
  char *text = malloc(depth);
  memset(text, '[', depth);
  situ__json json;
  situ__json_begin(&json, text, depth);
  situ__json_kind kind;
  int opened = 0;
  while ((kind = situ__json_next(&json)) == SITU__JSON_ARRAY) opened++;
  assert_int_equal(kind, SITU__JSON_ERROR);
  assert_true(json.too_deep);
  assert_int_equal(opened, SITU__JSON_DEPTH);
  assert_int_equal(situ__json_next(&json), SITU__JSON_ERROR);
  free(text);
}

static void skips_whole_values(void **state) {
  (void)state;
  char text[] = "{\"a\":{\"b\":[1,{\"c\":2}]},\"d\":7}";
  situ__json json;
  situ__json_begin(&json, text, strlen(text));
  situ__json_next(&json);
  assert_int_equal(situ__json_next(&json), SITU__JSON_KEY);
  assert_true(situ__json_skip(&json, situ__json_next(&json)));
  assert_int_equal(situ__json_next(&json), SITU__JSON_KEY);
  assert_string_equal(json.text, "d");
  assert_true(situ__json_skip(&json, situ__json_next(&json)));
  assert_int_equal(situ__json_next(&json), SITU__JSON_OBJECT_END);
  assert_int_equal(situ__json_next(&json), SITU__JSON_END);
}

static void errors_say_where(void **state) {
  (void)state;
  char text[] = "{\"a\":[1,2,x]}";
  situ__json json;
  situ__json_begin(&json, text, strlen(text));
  while (situ__json_next(&json) != SITU__JSON_ERROR) {}
  assert_non_null(json.problem);
  assert_int_equal(situ__json_offset(&json), 10);
  char zeros[] = "[01]";
  situ__json_begin(&json, zeros, strlen(zeros));
  while (situ__json_next(&json) != SITU__JSON_ERROR) {}
  assert_non_null(strstr(json.problem, "leading zeros"));
  char cut[] = "[1, x"; /* ends behind the comma: what follows is not read */
  situ__json_begin(&json, cut, 4);
  while (situ__json_next(&json) != SITU__JSON_ERROR) {}
  assert_string_equal(json.problem, "ends too early");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(accepts),
    cmocka_unit_test(refuses_all_that_is_cut),
    cmocka_unit_test(refuses),
    cmocka_unit_test(numbers_keep_64_bits),
    cmocka_unit_test(strings_are_decoded_in_place),
    cmocka_unit_test(deep_nesting_is_a_limit),
    cmocka_unit_test(skips_whole_values),
    cmocka_unit_test(errors_say_where),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
