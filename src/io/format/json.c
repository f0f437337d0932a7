/* The JSON pull parser (exactly RFC 8259).
   SPDX-License-Identifier: MIT */
#include "json.h"

#include <string.h>

#include "base/utf8.h"

enum { VALUE, FIRST_ELEMENT, FIRST_KEY, NEXT_KEY, AFTER_VALUE, DONE, FAILED };

static situ__json_kind fail(situ__json *json, const char *problem) {
  json->problem = problem;
  json->next = FAILED;
  return SITU__JSON_ERROR;
}

void situ__json_begin(situ__json *json, char *text, size_t length) {
  *json = (situ__json){ .start = text, .at = text, .end = text + length, .next = VALUE };
  size_t valid = situ__utf8_prefix(text, length);
  if (valid < length) {
    json->at += valid;
    fail(json, "is not UTF-8");
  }
}

size_t situ__json_offset(const situ__json *json) { return (size_t)(json->at - json->start); }

static void skip_space(situ__json *json) {
  while (json->at < json->end && (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
    json->at++;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Returns the value of four hex digits at `at`, or -1. */
static int32_t hex4(const char *at, const char *end) {
  if (end - at < 4) return -1;
  int32_t value = 0;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(at[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* Decodes a \u escape, `at` after the u, to UTF-8, and advances both pointers. Returns false if it is malformed or
   not a character. A surrogate pair is one character. A lone surrogate is an error, and so is NUL, which would look
   like the end of a name. */
static bool unicode_escape(situ__json *json, char **to) {
  int32_t code = hex4(json->at, json->end);
  if (code <= 0) return false;
  json->at += 4;
  if (code >= 0xD800 && code <= 0xDFFF) {
    if (code > 0xDBFF || json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u') return false;
    int32_t low = hex4(json->at + 2, json->end);
    if (low < 0xDC00 || low > 0xDFFF) return false;
    json->at += 6;
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  *to += situ__utf8_encode((uint32_t)code, *to);
  return true;
}

/* Reads a string, `at` after the opening quote. The decoded text is never longer than the source, and its NUL
   overwrites the closing quote at the latest. */
static situ__json_kind read_string(situ__json *json, situ__json_kind kind) {
  static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
  char *to = json->at;
  json->text = to;
  for (;;) {
    if (json->at >= json->end) return fail(json, "has a string without an end");
    unsigned char c = (unsigned char)*json->at++;
    if (c == '"') break;
    if (c < 0x20) return fail(json, "has a control character in a string");
    if (c != '\\') {
      *to++ = (char)c;
      continue;
    }
    if (json->at >= json->end) return fail(json, "has a string without an end");
    char escape = *json->at++;
    if (escape == 'u') {
      if (!unicode_escape(json, &to)) return fail(json, "has a \\u escape that is not a character");
      continue;
    }
    const char *found = escapes;
    while (*found && *found != escape) found += 2;
    if (!*found) return fail(json, "has an unknown escape in a string");
    *to++ = found[1];
  }
  json->length = (size_t)(to - json->text);
  *to = '\0';
  return kind;
}

static bool is_digit(const situ__json *json) { return json->at < json->end && *json->at >= '0' && *json->at <= '9'; }

static bool skip_digits(situ__json *json) {
  if (!is_digit(json)) return false;
  while (is_digit(json)) json->at++;
  return true;
}

static situ__json_kind read_number(situ__json *json) {
  const char *problem = "has a malformed number";
  json->text = json->at;
  bool negative = *json->at == '-';
  if (negative) json->at++;
  if (!is_digit(json)) return fail(json, problem);
  bool zero = *json->at == '0', fits = true;
  int64_t value = 0;
  /* Accumulates negative values, because their range is larger by one. */
  for (; is_digit(json); json->at++) {
    fits =
        fits && !__builtin_mul_overflow(value, 10, &value) && !__builtin_sub_overflow(value, *json->at - '0', &value);
    if (zero) {
      json->at++;
      break;
    }
  }
  if (is_digit(json)) return fail(json, "has a number with leading zeros");
  bool integer = true;
  if (json->at < json->end && *json->at == '.') {
    integer = false;
    json->at++;
    if (!skip_digits(json)) return fail(json, problem);
  }
  if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
    integer = false;
    json->at++;
    if (json->at < json->end && (*json->at == '+' || *json->at == '-')) json->at++;
    if (!skip_digits(json)) return fail(json, problem);
  }
  if (!negative && value == INT64_MIN) fits = false;
  /* -0 is a float: counts and sizes are not written like this. */
  json->length = (size_t)(json->at - json->text);
  if (!integer || !fits || (negative && zero)) return SITU__JSON_NUMBER;
  json->integer = negative ? value : -value;
  return SITU__JSON_INTEGER;
}

static situ__json_kind read_word(situ__json *json, const char *text, situ__json_kind kind) {
  size_t length = strlen(text);
  if ((size_t)(json->end - json->at) < length || memcmp(json->at, text, length) != 0)
    return fail(json, "has a word that is not a value");
  json->at += length;
  return kind;
}

static situ__json_kind open_container(situ__json *json, bool object) {
  if (json->depth == SITU__JSON_DEPTH) {
    json->too_deep = true;
    return fail(json, "is nested too deeply");
  }
  json->at++;
  json->in_object[json->depth++] = object;
  json->next = object ? FIRST_KEY : FIRST_ELEMENT;
  return object ? SITU__JSON_OBJECT : SITU__JSON_ARRAY;
}

static situ__json_kind close_container(situ__json *json) {
  bool object = json->in_object[--json->depth];
  json->at++;
  json->next = json->depth ? AFTER_VALUE : DONE;
  return object ? SITU__JSON_OBJECT_END : SITU__JSON_ARRAY_END;
}

static situ__json_kind read_value(situ__json *json) {
  char c = *json->at;
  if (c == '{' || c == '[') return open_container(json, c == '{');
  json->next = json->depth ? AFTER_VALUE : DONE;
  if (c == '"') {
    json->at++;
    return read_string(json, SITU__JSON_STRING);
  }
  if (c == '-' || is_digit(json)) return read_number(json);
  if (c == 't') return read_word(json, "true", SITU__JSON_TRUE);
  if (c == 'f') return read_word(json, "false", SITU__JSON_FALSE);
  return read_word(json, "null", SITU__JSON_NULL);
}

static situ__json_kind read_key(situ__json *json) {
  if (*json->at != '"') return fail(json, "lacks a key in quotes");
  json->at++;
  if (!read_string(json, SITU__JSON_KEY)) return SITU__JSON_ERROR;
  skip_space(json);
  if (json->at >= json->end || *json->at != ':') return fail(json, "lacks a colon behind a key");
  json->at++;
  json->next = VALUE;
  return SITU__JSON_KEY;
}

situ__json_kind situ__json_next(situ__json *json) {
  if (json->next == FAILED) return SITU__JSON_ERROR;
  skip_space(json);
  if (json->next == DONE) return json->at == json->end ? SITU__JSON_END : fail(json, "goes on behind its end");
  if (json->at >= json->end) return fail(json, "ends too early");
  char c = *json->at;
  bool object = json->depth && json->in_object[json->depth - 1];
  if (json->next == AFTER_VALUE) {
    if (c == (object ? '}' : ']')) return close_container(json);
    if (c != ',') return fail(json, object ? "lacks a comma or }" : "lacks a comma or ]");
    json->at++;
    skip_space(json);
    if (json->at >= json->end) return fail(json, "ends too early");
    json->next = object ? NEXT_KEY : VALUE;
  } else if ((json->next == FIRST_KEY && c == '}') || (json->next == FIRST_ELEMENT && c == ']')) {
    return close_container(json);
  }
  return json->next == FIRST_KEY || json->next == NEXT_KEY ? read_key(json) : read_value(json);
}

bool situ__json_skip(situ__json *json, situ__json_kind kind) {
  if (kind != SITU__JSON_OBJECT && kind != SITU__JSON_ARRAY) return kind != SITU__JSON_ERROR;
  int outside = json->depth - 1;
  while (json->depth > outside)
    if (situ__json_next(json) == SITU__JSON_ERROR) return false;
  return true;
}
