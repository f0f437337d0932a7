/* Growing text: formats, dimensions, JSON strings, and a failure that is remembered.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fail.h"
#include "base/problem.h"
#include "base/text.h"
#include "base/utf8.h"
#include "situ/sys/alloc.h"

static void grows(void **state) {
  (void)state;
  situ__text text = { 0 };
  for (int i = 0; i < 1000; i++) situ__text_add(&text, "%04d,", i);
  assert_int_equal(text.length, 5000);
  assert_int_equal(strlen(text.data), 5000);
  assert_memory_equal(text.data + 4995, "0999,", 6);
  assert_false(text.failed);
  situ__text_free(&text);
  assert_null(text.data);
}

/* Longer than the buffer that short pieces are formatted in, and exactly as long. */
static void long_pieces(void **state) {
  (void)state;
  char piece[1001];
  for (size_t length = 250; length < 1000; length += (length > 260) ? 300 : 1) {
    situ__text text = { 0 };
    memset(piece, 'a', length);
    piece[length] = 0;
    situ__text_add(&text, "<%s>", piece);
    assert_int_equal(text.length, length + 2);
    assert_int_equal(text.data[0], '<');
    assert_int_equal(text.data[length + 1], '>');
    assert_int_equal(text.data[length + 2], 0);
    situ__text_free(&text);
  }
}

static void dims(void **state) {
  (void)state;
  situ__text text = { 0 };
  situ__text_dims(&text, (int64_t[]){ 2, -3, INT64_MAX }, 3);
  situ__text_dims(&text, NULL, 0);
  assert_string_equal(text.data, "[2, -3, 9223372036854775807][]");
  situ__text_free(&text);
}

static void json(void **state) {
  (void)state;
  situ__text text = { 0 };
  situ__text_json_string(&text, "a\"b\\c\n\t\r\b\f\x01\x7f é/");
  assert_string_equal(text.data, "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u007f é/\"");
  situ__text_free(&text);
}

/* Two amounts of which one is too large for the other never read alike. */
static void amounts(void **state) {
  (void)state;
  char text[2][SITU__BYTES_TEXT];
  situ__bytes_texts(3 << 20, 1536, text);
  assert_string_equal(text[0], "3.0 MiB");
  assert_string_equal(text[1], "1.5 KiB");
  situ__bytes_texts(17835008, 17825792, text);
  assert_string_equal(text[0], "17835008 B");
  assert_string_equal(text[1], "17825792 B");
  situ__bytes_texts(UINT64_MAX, UINT64_MAX - 1, text);
  assert_string_equal(text[0], "18446744073709551615 B");
  assert_string_equal(text[1], "18446744073709551614 B");
  situ__bytes_texts(1 << 20, 1 << 20, text);
  assert_string_equal(text[0], "1.0 MiB");
}

static void failure_is_remembered(void **state) {
  (void)state;
  situ__text text = { 0 };
  situ__text_add(&text, "kept");
  situ_fail_allocation(1, false);
  for (int i = 0; i < 100; i++) situ__text_add(&text, "0123456789");
  situ_fail_allocation(0, false);
  assert_true(text.failed);
  assert_int_equal(strncmp(text.data, "kept", 4), 0);
  assert_int_equal(strlen(text.data), text.length);
  size_t length = text.length;
  situ__text_add(&text, "not any more");
  assert_int_equal(text.length, length);
  situ__text_free(&text);
  situ__text_append(&text, "huge", SIZE_MAX);
  assert_true(text.failed);
}

/* What a name or path could do to a terminal it shows instead. */
static void nothing_raw_in_messages(void **state) {
  (void)state;
  static const char *const cases[][2] = {
    { "caf\xc3\xa9 \xe2\x82\xac\t\n", "caf\xc3\xa9 \xe2\x82\xac\t\n" },
    { "\x1b[2Ja\rb\x7f", "\\x1b[2Ja\\x0db\\x7f" },
    { "\xe2\x80\xaetxt.exe\xe2\x81\xa6", "\\u202etxt.exe\\u2066" },
    { "\xc2\x9b"
      "31m",
      "\\u009b31m" }, /* the 8-bit form of the escape */
    { "\x9b"
      "31m\xff",
      "\\x9b31m\\xff" }, /* not even UTF-8 */
  };
  char out[64];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    situ__utf8_printable(cases[i][0], out, sizeof out);
    assert_string_equal(out, cases[i][1]);
    (void)situ_error_mode(SITU_ERROR_QUIET);
    (void)situ__fail(SITU_E_IO, "load", "%s: is gone", cases[i][0]);
    assert_non_null(strstr(situ_error_message(), cases[i][1]));
    situ_error_clear();
  }
  situ__utf8_printable("ab\x1b", out, 6); /* no half of an escape */
  assert_string_equal(out, "ab");
}

/* A name from a file: no control characters, cut between two characters if it is long. */
static void names_are_shown_in_part(void **state) {
  (void)state;
  char name[400], out[SITU__SHOWN_MAX];
  assert_string_equal(situ__shown("a\nb\177", out), "a?b?");
  /* C1 (a terminal's CSI), a right-to-left override, an isolate; what is harmless stays. */
  assert_string_equal(situ__shown("a\xC2\x9B"
                                  "31m\xE2\x80\xAE"
                                  "b\xE2\x81\xA6\xC3\xA9",
                                  out),
                      "a?31m?b?\xC3\xA9");
  for (int shift = 0; shift < 4; shift++) {
    size_t length = 0;
    for (int i = 0; i < shift; i++) name[length++] = 'x';
    while (length < 300) memcpy(name + length, "\xE2\x96\x88", 3), length += 3;
    name[length] = '\0';
    situ__shown(name, out);
    const size_t shown = strlen(out) - 3;
    assert_string_equal(out + shown, "...");
    assert_true(shown + 3 + 4 > SITU__SHOWN_MAX - 4);
    assert_memory_equal(out, name, shown);
    assert_int_equal((shown - (size_t)shift) % 3, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_raw_in_messages),
    cmocka_unit_test(names_are_shown_in_part),
    cmocka_unit_test(grows),
    cmocka_unit_test(long_pieces),
    cmocka_unit_test(dims),
    cmocka_unit_test(json),
    cmocka_unit_test(amounts),
    cmocka_unit_test(failure_is_remembered),
  };
  return cmocka_run_group_tests_name("base/text", tests, NULL, NULL);
}
